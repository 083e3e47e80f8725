"""How far the two-way marginals of made data are from those of the records: the ground on which AIM and MST compete."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from recoup.domain import Array
from recoup_lab.rivals.worker import levels_of

BINS = 16


def marginal_distance(exact: Array, made: Array, weights: Array | None = None, bins: int = BINS) -> float:
    """The mean total variation distance of all two-way marginals, on equal bins.

    Args:
        exact: (n, d) records in [-1, 1]^d, at least two columns.
        made: (m, d) points there.
        weights: (m,), how many records each stands for; as many each without it.
        bins: of each column.

    Returns:
        From 0, the same distribution over the bins of every pair of columns, to 1, nothing in common.

    >>> records = np.array([[-1.0, -1.0], [1.0, 1.0]])
    >>> marginal_distance(records, np.array([[-1.0, -1.0], [1.0, 1.0], [1.0, -1.0]]), np.array([1.0, 1.0, 2.0]))
    0.5
    """
    left, right = levels_of(exact, bins), levels_of(made, bins)
    pairs = list(combinations(range(exact.shape[1]), 2))
    total = 0.0
    for i, j in pairs:
        p = np.bincount(left[:, i] * bins + left[:, j], minlength=bins * bins) / len(left)
        q = np.bincount(right[:, i] * bins + right[:, j], weights=weights, minlength=bins * bins)
        total += 0.5 * float(np.abs(p - q / q.sum()).sum())
    return total / len(pairs)
