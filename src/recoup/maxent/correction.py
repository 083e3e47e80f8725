"""What was measured wins: the inferred data is moved until it has the means and sizes that the last rounds measured.

Maximum entropy weighs points that were drawn from coarse looks: where a column is zero for nearly everybody, none of
them lies at zero, and no budget moves the inferred mean there. What the last rounds measured of their cells beyond
noise is an error of the model, by which the points of a cell are moved, column by column, and its weight is changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, expit, log_ndtr

from recoup.domain import Domain
from recoup.maxent.consistency import Rounds
from recoup.maxent.sizes import WeightedPoints, sums_by_cell
from recoup.queries.base import Array, Integers, of_kind
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_RATIOS = 2.0 ** np.arange(-2.0, 16.0)  # spreads of the model's error that are tried, in units of the typical noise
_NULL_VALUES = 10.0  # so many without an error are taken for granted: a large draw of noise must not look like one
_COMMON_VALUES = 5.0  # what all columns tell counts as so many values of each
_MIXTURE_STEPS = 40
_EVIDENCE = 3.0  # nats by which errors of the model must explain offsets better than noise alone
_PASSES = 8  # points that cross into another cell, or are clipped, leave a little of a shift to do
_SMALLEST_ROOM = 1e-12


class CellMisfit(NamedTuple):
    """Where a round differs from what a measure predicts for it, in the unit domain."""

    sizes: Array  # (k,) records of each cell, by the measure
    more: Array  # (k,) records that were measured beyond these
    more_error: Array  # (k,) the standard deviation of their noise
    offsets: Array  # (k, d) measured minus predicted mean
    offset_errors: Array  # (k, d) the standard deviations of their noise


def solved_and_settled(rounds: Rounds, n_settling: int) -> tuple[Rounds, Rounds]:
    """Which rounds of a release the solver explains, and which then correct what it gave.

    The last rounds, which settled centres, only correct: their cells hardly differ, so their rows would be the same.
    """
    solved = rounds[: len(rounds) - n_settling]
    with_means = [answered for answered in solved if as_cells(answered.query, "absolute", "relative")]
    return solved, [*with_means[-1:], *rounds[len(solved) :]]


def corrected(
    context: Context, rounds: Rounds, points: Array, weights: Array, *, counted: Rounds = ()
) -> WeightedPoints:
    """Move a measure, round by round, to what they measured beyond their noise; the total stays.

    `counted` are rounds of counts alone, which must not be missed by more than what is gained.
    """
    for answered in rounds:
        query, law = of_kind(answered.query, VoronoiQuery), answered.mechanism
        before, start = misfit_of(answered, points, weights), (points, weights)
        more = expected_error(before.more[:, None], before.more_error[:, None], law)[:, 0]
        sizes = np.maximum(before.sizes + more, 0.0)
        weights = _resized(query, points, weights, sizes)
        after = misfit = misfit_of(answered, points, weights)
        wanted = left = expected_error(misfit.offsets, misfit.offset_errors, law)
        for _ in range(_PASSES if wanted.any() else 0):
            points = _shifted(context, query, points, weights, left)
            weights = _resized(query, points, weights, sizes)
            after = misfit_of(answered, points, weights)
            left = wanted - (misfit.offsets - after.offsets)
        # Where borders cut a spike, a shift carries all of it out of its cell, and what is left there is none of it.
        lost = _missed(counted, points, weights) - _missed(counted, *start)
        if _squares(after, before) + lost > _squares(before, before):
            points, weights = start
    return WeightedPoints(points, weights)


def misfit_of(answered: Round, points: Array, weights: Array) -> CellMisfit:
    """Compare a round and a measure by cell, what cannot be true clipped; `misfits_of` asks by cluster what is sure."""
    query = of_kind(answered.query, VoronoiQuery)
    k = query.n_cells
    cells = query.cells(points)
    sizes = np.asarray(np.bincount(cells, weights, minlength=k), dtype=np.float64)
    deviations = answered.noise.deviation(1.0) * answered.scales
    divisor = np.maximum(sizes, deviations[:k])[:, None]
    predicted = sums_by_cell(cells, weights, query.values(points, cells), k)
    reach = 1.0 if query.radii is None else query.radii[:, None]
    # A count below none, or a mean out of reach, is noise, however far it is from what the measure predicts.
    measured = np.clip(query.sums_of(answered.noisy) / divisor, -reach, reach)
    more, errors = np.maximum(answered.noisy[:k], 0.0) - sizes, query.sums_of(deviations) / divisor
    return CellMisfit(sizes, more, deviations[:k], measured - predicted / divisor, errors)


def _squares(misfit: CellMisfit, noise: CellMisfit) -> float:
    """How far a round is from what a measure predicts: squares of all counts and means, in units of their noise."""
    return float(((misfit.more / noise.more_error) ** 2).sum() + ((misfit.offsets / noise.offset_errors) ** 2).sum())


def _missed(rounds: Rounds, points: Array, weights: Array) -> float:
    """By how much a measure misses rounds of counts alone: squares, in units of their noise."""
    missed = 0.0
    for answered in rounds:
        query = of_kind(answered.query, VoronoiQuery)
        misses = answered.noisy - np.bincount(query.cells(points), weights, minlength=query.n_cells)
        missed += float(((misses / (answered.noise.deviation(1.0) * answered.scales)) ** 2).sum())
    return missed


def expected_error(offsets: Array, errors: Array, law: str) -> Array:
    """The part of (k, d) offsets that is expected to be an error of the model, not noise of these deviations.

    The model's errors are taken to be symmetric, of a law that is itself estimated: a mixture of Gaussians of spreads
    from none to the whole range, first for all columns together, then for each column with these as its prior.
    """
    typical = float(np.exp(np.mean(np.log(errors))))
    by_spread = [_given_spread(offsets, errors, spread, law) for spread in (0.0, *(typical * _RATIOS))]
    logs, means = (np.stack(parts) for parts in zip(*by_spread, strict=True))
    densities = np.exp(logs - logs.max(axis=0))
    prior = np.zeros((len(logs), 1))
    prior[0] = _NULL_VALUES
    common = _mixture(densities.reshape(len(logs), -1, 1), prior)
    shares = _mixture(densities, _COMMON_VALUES * common)
    posterior = shares[:, None, :] * densities
    # In logarithms: the density of noise alone may be too small for a number.
    noise_alone = logs[0] - logs.max(axis=0)
    gains = (np.log(posterior.sum(axis=0)) - noise_alone).sum(axis=0)
    together = (np.log((common[:, None, :] * densities).sum(axis=0)) - noise_alone).sum()
    posterior /= posterior.sum(axis=0)
    real = (gains > _EVIDENCE) | (together > _EVIDENCE)
    return np.where(real, (posterior[1:] * means[1:]).sum(axis=0), 0.0)


def _mixture(densities: Array, prior: Array) -> Array:
    """Shares of the components, (l, d), from the densities of values, (l, k, d), and a prior in numbers of values."""
    shares = np.full((len(densities), densities.shape[2]), 1.0 / len(densities))
    for _ in range(_MIXTURE_STEPS):
        posterior = shares[:, None, :] * densities
        posterior /= posterior.sum(axis=0)
        shares = posterior.sum(axis=1) + prior
        shares /= shares.sum(axis=0)
    return shares


def _given_spread(offsets: Array, errors: Array, spread: float, law: str) -> tuple[Array, Array]:
    """Of noise plus a Gaussian error of this spread: its log density, up to a constant, and the mean of the error."""
    if law == "gaussian":
        variance = errors**2 + spread**2
        return -0.5 * np.log(variance) - 0.5 * offsets**2 / variance, offsets * spread**2 / variance
    scale = errors / np.sqrt(2.0)
    if spread == 0.0:
        return -np.abs(offsets) / scale - np.log(scale), np.zeros_like(offsets)
    above, mean_above = _half(offsets, scale, spread)
    below, mean_below = _half(-offsets, scale, spread)
    part = expit(above - below)
    density = 0.5 * (spread / scale) ** 2 + np.logaddexp(above, below) - np.log(scale)
    return density, part * mean_above - (1.0 - part) * mean_below


def _half(x: Array, scale: Array, spread: float) -> tuple[Array, Array]:
    """Of the error's law given an offset x: log weight and mean of the half below x."""
    alpha = x / spread - spread / scale
    # Density over mass of a standard Gaussian below alpha; as logarithms these would cancel, and lose all digits.
    tail = np.sqrt(2.0 / np.pi) / erfcx(-alpha / np.sqrt(2.0))
    return -x / scale + log_ndtr(alpha), spread**2 / scale - spread * tail


def _resized(query: VoronoiQuery, points: Array, weights: Array, sizes: Array) -> Array:
    """Weights in proportion to these sizes of the cells, of the same total."""
    cells = query.cells(points)
    present = np.bincount(cells, weights, minlength=len(sizes))
    factors = np.divide(sizes, present, out=np.ones_like(sizes), where=present > 0)
    changed = weights * factors[cells]
    return np.asarray(changed * (weights.sum() / changed.sum())) if changed.sum() > 0 else weights


def _shifted(context: Context, query: VoronoiQuery, points: Array, weights: Array, shifts: Array) -> Array:
    """Shift the mean of each cell's points, column by column."""
    k = len(shifts)
    cells = query.cells(points)
    sizes = np.maximum(np.bincount(cells, weights, minlength=k), _SMALLEST_ROOM)
    means = sums_by_cell(cells, weights, points, k) / sizes[:, None]
    return drawn_to_ends(context.domain, points, cells, means, shifts)


def drawn_to_ends(domain: Domain, points: Array, cells: Integers, means: Array, shifts: Array) -> Array:
    """Draw the points of each cell towards the end of a column's range that lies in the direction of its shift.

    In proportion to how far they are from it: none leaves the range, and those near the end crowd there as a spike.
    """
    ends, own = (
        np.where(by > 0.0, highest, np.where(by < 0.0, lowest, 0.0))
        for by, (lowest, highest) in ((shifts, domain.ends_at(means)), (shifts[cells], domain.ends_at(points)))
    )
    part = np.minimum(np.abs(shifts) / np.maximum(np.abs(ends - means), _SMALLEST_ROOM), 1.0)
    return domain.clip(points + part[cells] * (own - points))
