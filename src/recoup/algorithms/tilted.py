"""A support for records whose features may crowd anywhere in their bounds, found in passes.

Real columns crowd: amounts lie within a hundredth of their range above its lower end. Of uniform points in many columns
none lies there, so no weights on them explain what was released. The measure that is sought is a tilted uniform one,
close to a product of exponential densities. So each pass explains the rounds on a few points, and the next points are
drawn from the exponential densities with the means that were found. The first passes take answers for less exact than
they are: a support that is still far away would otherwise be torn to its edge by what it cannot explain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recoup.maxent.measure import explained, total_of
from recoup.queries.base import Array
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_POINTS_OF_A_PASS = 3000
_STEPS, _TOLERANCE = 20, 0.03  # a pass need not be solved to the end: it only says where to go on
_UNIFORM = 0.02  # of the values of every column, so that no place of its range is empty
_LARGEST_TILT = 1e6
_FEWEST_OF_A_CLASS = 0.02
_BISECTIONS = 60


def tilted_support(
    context: Context,
    rounds: Sequence[Round],
    n_points: int,
    rng: np.random.Generator,
    *,
    pseudo_records: float,
    slacks: Sequence[float],
) -> Array:
    """Points of the unit domain where labelled records may lie: all features once with either label.

    Args:
        context: the terms of the release; the last column is the label, of which the sign counts.
        rounds: queries with their noisy answers; without any, features are uniform.
        n_points: how many points.
        rng: harmless randomness.
        pseudo_records: how many records' worth of trust the base of a pass has.
        slacks: for each pass, a standard deviation that is added to the noise of every answer.

    Returns:
        (n_points, d + 1) points; the second half of them has the positive label.

    >>> from recoup.domain import Box
    >>> from recoup.transcript.context import Context
    >>> context = Context(domain=Box([0, 0], [1, 1]), epsilon=1)
    >>> tilted_support(context, (), 5, np.random.default_rng(0), pseudo_records=10.0, slacks=())[:, 1]
    array([-1., -1., -1.,  1.,  1.])
    """
    means, share = np.zeros((2, context.domain.n_columns - 1)), 0.5
    total = total_of(context, rounds)
    for slack in slacks if rounds else ():
        points = _drawn(context, means, share, min(n_points, _POINTS_OF_A_PASS), rng)
        found = explained(
            context,
            rounds,
            points,
            total,
            temperature=pseudo_records / total,
            tolerance=_TOLERANCE,
            max_steps=_STEPS,
            slack=slack,
        )
        positive = points[:, -1] >= 0.0
        of_class = np.stack([found.weights * ~positive, found.weights * positive])
        masses = np.maximum(of_class.sum(axis=1), 1e-300)
        means = of_class @ points[:, :-1] / masses[:, None]
        share = float(np.clip(masses[1] / masses.sum(), _FEWEST_OF_A_CLASS, 1.0 - _FEWEST_OF_A_CLASS))
    return _drawn(context, means, share, n_points, rng)


def _drawn(context: Context, means: Array, share: float, n_points: int, rng: np.random.Generator) -> Array:
    half = (n_points + 1) // 2
    tilts = tilt_of_mean(means)[(rng.random(half) < share).astype(np.int64)]
    tilts[rng.random(tilts.shape) < _UNIFORM] = 0.0
    features = exponential_values(tilts, rng.random(tilts.shape))
    both = [np.column_stack([features, np.full(half, label)]) for label in (-1.0, 1.0)]
    return context.domain.clip(np.concatenate(both)[:n_points])


def tilt_of_mean(mean: Array) -> Array:
    """The a for which the density proportional to exp(a x) on [-1, 1] has this mean: 1 / tanh(a) - 1 / a.

    >>> tilt_of_mean(np.array([0.5, -0.99])).round(2)
    array([   1.8, -100. ])
    """
    low, high = np.full(mean.shape, -np.arcsinh(_LARGEST_TILT)), np.full(mean.shape, np.arcsinh(_LARGEST_TILT))
    for _ in range(_BISECTIONS):  # on a scale on which tilts of all sizes are as fine
        middle = (low + high) / 2.0
        tilt = np.sinh(middle)
        small = np.abs(tilt) < 1e-3
        safe = np.where(small, 1.0, tilt)
        below = np.where(small, tilt / 3.0, 1.0 / np.tanh(safe) - 1.0 / safe) < mean
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(np.sinh((low + high) / 2.0))


def exponential_values(tilts: Array, uniform: Array) -> NDArray[np.float64]:
    """Values of [-1, 1] of density proportional to exp(a x), from values that are uniform between 0 and 1.

    >>> exponential_values(np.array([0.0, 100.0, -100.0]), np.array([0.25, 0.5, 0.5])).round(3)
    array([-0.5  ,  0.993, -0.993])
    """
    size = np.maximum(np.abs(tilts), 1e-9)
    from_edge = -np.log1p(uniform * np.expm1(-2.0 * size)) / size
    return np.asarray(np.clip(np.where(tilts > 0.0, 1.0 - from_edge, from_edge - 1.0), -1.0, 1.0))
