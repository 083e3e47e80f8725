"""Figures of others that are quoted and not run: who measured them, and on what."""

from __future__ import annotations

from typing import NamedTuple


class Cited(NamedTuple):
    """Multiples of non-private k-means at epsilon .25 and 1 on blobs of K clusters in d columns."""

    n_clusters: int
    n_columns: int
    quarter: float
    one: float


# PE-means (arXiv 2606.00342, its public code), measured by this project after the exact values that it is given or
# releases were repaired; Gaussian noise, delta = N^-1.1, N = 20,000.
PE_MEANS = (
    Cited(4, 4, 1.007, 1.003),
    Cited(16, 4, 1.31, 1.08),
    Cited(64, 4, 1.93, 1.20),
    Cited(4, 16, 1.06, 1.019),
    Cited(16, 16, 1.52, 1.30),
    Cited(64, 16, 8.5, 2.38),
    Cited(4, 64, 1.24, 1.017),
    Cited(16, 64, 3.60, 1.38),
    Cited(64, 64, 24.7, 4.25),
    Cited(4, 128, 1.40, 1.033),
    Cited(16, 128, 9.5, 1.68),
    Cited(64, 128, 45.0, 12.3),
)


# The same on two other tables of docs/adaptive.md.
DIGITS_AND_EMBEDDING = {"digits": {0.25: 2.18, 1.0: 1.45}, "embedding": {0.25: 1.12, 1.0: 1.017}}


def pe_means(name: str) -> dict[float, float]:
    """Its multiples on a set by epsilon; empty where none is known.

    >>> pe_means("blobs_16_4"), pe_means("s1")
    ({0.25: 1.31, 1.0: 1.08}, {})
    """
    found = [row for row in PE_MEANS if name == f"blobs_{row.n_clusters}_{row.n_columns}"]
    return {0.25: found[0].quarter, 1.0: found[0].one} if found else {}
