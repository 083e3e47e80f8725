"""Is noise ever used twice? Equal residuals between values, rounds, releases and processes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import poisson


def repeated(values: ArrayLike) -> int:
    """How many values have occurred before.

    >>> repeated([3, 1, 3, 3])
    2
    """
    array = np.asarray(values)
    return int(array.size - np.unique(array).size)


def repeats_allowed(n: int, scale: float, alarm: float) -> int:
    """How many of n values may repeat by chance, exceeded with at most a probability.

    Two independent values of noise of a scale are equal with a probability of at most 1 / (2 scale), whatever they are
    added to.

    >>> repeats_allowed(1000, 2.0**30, 1e-6), repeats_allowed(1000, 2.0**10, 1e-6) > 200
    (1, True)
    """
    expected = n * (n - 1) / 2 / (2 * scale)
    return int(poisson.ppf(1.0 - alarm, expected))
