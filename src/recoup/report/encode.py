"""Arrays as short text: positions inside the bounds as 16-bit fractions, picture values as 8-bit ones, in base64.

A picture needs no more than a thousandth of its width; the numbers that are read are written in full elsewhere.
"""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import NDArray

from recoup.queries.base import Array

FULL = 65535


def positions(unit: Array) -> str:
    """Points of the unit domain, row by row, as little-endian 16-bit fractions of the bounds.

    >>> positions(np.array([[-1.0, 1.0]]))
    'AAD//w=='
    """
    scaled = np.rint((np.clip(unit, -1.0, 1.0) + 1.0) * 0.5 * FULL).astype("<u2")
    return base64.b64encode(np.ascontiguousarray(scaled).tobytes()).decode("ascii")


def levels(values: Array) -> str:
    """Values that are not negative, as 8-bit parts of the largest.

    >>> levels(np.array([0.0, 2.0, -1.0]))
    'AP8A'
    """
    values = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    top = float(values.max()) if values.size else 0.0
    scaled = np.rint(255.0 * values / top) if top > 0 else np.zeros(values.shape)
    return base64.b64encode(np.ascontiguousarray(scaled.astype(np.uint8)).tobytes()).decode("ascii")


def evenly_chosen(weights: Array, n: int) -> NDArray[np.int64]:
    """Indices of n points that stand for weighted ones with equal weights: systematic resampling, without randomness.

    >>> evenly_chosen(np.array([1.0, 3.0, 0.0]), 4)
    array([0, 1, 1, 1])
    """
    weights = np.maximum(weights, 0.0)
    total = weights.sum()
    if total <= 0:
        return np.arange(n, dtype=np.int64) % max(len(weights), 1)
    at = (np.arange(n) + 0.5) / n * total
    return np.asarray(np.minimum(np.searchsorted(np.cumsum(weights), at), len(weights) - 1), dtype=np.int64)
