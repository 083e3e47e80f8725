"""How likely noise alone leaves residuals at least this large: bounds on tails, as logarithms of probabilities.

Inference that follows the noise only makes residuals smaller, so what is rare for noise is rarer still for a residual.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import chi2, gamma

from recoup.queries.base import Array

_TILTS = np.linspace(0.02, 0.98, 25)  # of Chernoff's bound, as parts of the largest that the widest noise allows


def chance_of_sum(residuals: Array, scales: Array, law: str) -> Array:
    """The logarithm of a bound on the chance that the sum of independent noises is, on either side, this far from 0.

    Args:
        residuals: (n, d) added up along the first axis.
        scales: (n, d) of the noise.
        law: "laplace" or "gaussian".

    Returns:
        (d,) logarithms, at most 0; exact for one value and for Gaussian noise, else Chernoff's bound.

    >>> chance_of_sum(np.array([[6.0]]), np.array([[2.0]]), "laplace")
    array([-3.])
    """
    distance = np.abs(residuals.sum(axis=0))
    if law == "gaussian":
        return np.asarray(np.minimum(np.log(2.0) + log_ndtr(-distance / np.sqrt((scales**2).sum(axis=0))), 0.0))
    if len(residuals) == 1:
        return np.asarray(-distance / scales[0])
    widest = scales.max(axis=0)
    best = np.zeros(distance.shape)
    for tilt in _TILTS:
        # Any tilt gives a bound: the best of them is one too.
        bound = -tilt * distance / widest - np.log1p(-((tilt * scales / widest) ** 2)).sum(axis=0)
        best = np.minimum(best, np.log(2.0) + bound)
    return best


def chance_of_size(residuals: Array, scales: Array, law: str) -> Array:
    """The logarithm of the chance that independent noises are all together this large.

    Args:
        residuals: (n, d).
        scales: (n, d) of the noise.
        law: "laplace", where the sum of |residual| / scale is the measure; or "gaussian", where it is that of squares.

    Returns:
        (d,) logarithms, at most 0.

    >>> chance_of_size(np.array([[6.0]]), np.array([[2.0]]), "laplace").round(6)
    array([-3.])
    """
    ratio, n = np.abs(residuals) / scales, len(residuals)
    tail = gamma(n) if law == "laplace" else chi2(n)
    return np.asarray(tail.logsf(ratio.sum(axis=0) if law == "laplace" else (ratio**2).sum(axis=0)))
