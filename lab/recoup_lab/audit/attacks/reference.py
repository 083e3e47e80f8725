"""Records and exact totals computed a second time, from the public description alone.

An attacker knows two tables and the transcript. What the answers would be without noise is computed here in plain
NumPy, from the declared bounds and the claimed units: of the curator's path from rows to totals only the queries' own
contributions are used, which other tests compare with slow ones.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from recoup.domain import Domain
from recoup.queries.base import Array
from recoup.transcript.round import Round

_GRID = 2.0**30


def unit_records(table: Array, domain: Domain) -> Array:
    """The records that count, clamped, scaled, projected, and rounded toward zero onto the grid of 2^-30.

    >>> from recoup.domain import Box
    >>> unit_records(np.array([[2.5], [np.nan], [9.0]]), Box([0], [5])).tolist()
    [[0.0], [1.0]]
    """
    low, high = np.array(domain.low), np.array(domain.high)
    rows = table[np.isfinite(table).all(axis=1)]
    unit = 2.0 * ((np.minimum(np.maximum(rows, low), high) - low) / (high - low)) - 1.0
    if domain.kind != "box":
        radius = float(domain.to_json()["radius"])
        project = _onto_l1 if domain.kind == "l1" else _onto_l2
        unit = np.array([project(row, radius) for row in unit]).reshape(unit.shape)
    return np.asarray(np.trunc(unit * _GRID) / _GRID)


def _onto_l1(row: Array, radius: float) -> Array:
    if np.abs(row).sum() <= radius:
        return row
    # Bisection for the shift: slow, and too simple to be wrong.
    low, high = 0.0, float(np.abs(row).max())
    for _ in range(80):
        shift = (low + high) / 2
        low, high = (shift, high) if np.maximum(np.abs(row) - shift, 0.0).sum() > radius else (low, shift)
    return np.asarray(np.sign(row) * np.maximum(np.abs(row) - high, 0.0))


def _onto_l2(row: Array, radius: float) -> Array:
    return row * min(1.0, radius / max(float(np.sqrt((row * row).sum())), 1e-300))


def exact_totals(answered: Round, records: Array) -> Array:
    """What a round's integers would be without noise, for unit records; the round's query and units are public."""
    if len(records) == 0:
        return np.zeros(answered.query.size)
    rows = answered.query.contribution(records)
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    # A hair more than 1 / unit: a count must not fall below its whole factor.
    return np.asarray(np.trunc(dense / answered.units * (1.0 + 2.0**-50)).sum(axis=0))


def residuals(answered: Round, totals: Array) -> Array:
    """A round's noise in units of its claimed scale."""
    return np.array([float(v) for v in answered.integers] - totals) / answered.scale


def log_likelihood_ratio(answered: Round, before: Array, after: Array) -> float:
    """How much likelier the answer is with the totals after than with those before, if the noise is as claimed."""
    a, b = residuals(answered, before), residuals(answered, after)
    if answered.mechanism == "laplace":
        return float((np.abs(a) - np.abs(b)).sum())
    return float(((a * a - b * b) / 2).sum())


@cache
def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The most zCDP that is (epsilon, delta)-differentially private, by the conversion of Canonne et al. (2020).

    >>> round(float(largest_rho(Fraction(3), Fraction(1, 10**6))), 4)
    0.1851
    """

    def excess(rho: float) -> float:
        def at(t: float) -> float:
            alpha = 1.0 + np.exp(t)
            return float(alpha * rho + np.log1p(-1.0 / alpha) - (np.log(float(delta)) + np.log(alpha)) / (alpha - 1.0))

        found = minimize_scalar(at, bounds=(-12.0, 16.0), method="bounded", options={"xatol": 1e-12})
        return float(found.fun) - float(epsilon)

    return _largest(lambda rho: excess(rho) <= 0.0, float(epsilon))


@cache
def largest_half_square(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest mu^2 / 2 of Gaussian noise that is (epsilon, delta)-differentially private (Balle and Wang 2018).

    >>> round(float(largest_half_square(Fraction(3), Fraction(1, 10**6))), 4)
    0.2098
    """

    def fits(amount: float) -> bool:
        mu, e = float(np.sqrt(2.0 * amount)), float(epsilon)
        # In logarithms: the second probability may be far below the first, and e^epsilon far above 1.
        first, second = norm.logcdf(mu / 2 - e / mu), e + norm.logcdf(-mu / 2 - e / mu)
        return bool(first + np.log(-np.expm1(second - first)) <= np.log(float(delta)))

    return _largest(fits, 2.0 * float(epsilon))


def _largest(fits: Callable[[float], bool], high: float) -> Fraction:
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Fraction(high)
