"""What the data was like, given any rounds: a maximum-entropy measure on a support drawn from what was released.

The support is drawn in passes. The first uses a first look (a grid or marginals, denoised) or uniform points, and the
noisy means of the cells; later passes also resample the measure of the pass before, so that points move to where the
mass is. Everything is a function of the rounds and harmless randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recoup.domain import uniform_points
from recoup.maxent.correction import corrected, solved_and_settled
from recoup.maxent.fine_grid import coarse_cells, reachable_cells
from recoup.maxent.newton import Solution, solve
from recoup.maxent.records import records_of
from recoup.queries.base import Array, Partition, RowBlock, of_kind, rows_of
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import GridQuery, as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_MAX_GRID_ROWS = 600
_MAX_STEPS = 60
_UNIFORM_SHARE = 0.03
_MEAN_SPREADS = (0.02, 0.05, 0.1, 0.2)
_JITTERS = (0.02, 0.05, 0.1)
_LARGEST_MEAN_ERROR = 0.3
_TILT_GRID, _TILT_OTHER = 10.0, 35.0
_TILT_HYBRID = 70.0  # a grid with absolute sums: those few rows must outweigh a base that is uniform inside cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Weighted points of the unit domain that explain the rounds.

    Attributes:
        points: (m, d) support.
        weights: (m,), of the inferred number of records.
        solution: the solver's certificate; none if there was nothing to explain.
    """

    points: Array
    weights: Array
    solution: Solution | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """How the support is composed once rounds with sums exist: shares of the first look, of cells, of the last pass."""

    first_look: float = 0.5
    cells: float = 0.35
    resampled: float = 0.15


def infer_measure(
    context: Context,
    rounds: Sequence[Round],
    rng: np.random.Generator,
    *,
    n_points: int,
    n_passes: int = 2,
    mixture: Mixture | None = None,
    tolerance: float = 0.03,
    strength: float | None = None,
    n_settling: int = 0,
) -> Measure:
    """Infer a measure from rounds of any mix of counts and sums.

    Args:
        context: the terms of the release.
        rounds: queries with their noisy answers.
        rng: harmless randomness.
        n_points: points of the support.
        n_passes: how often the support is drawn and the measure solved for.
        mixture: the composition of the support.
        tolerance: the duality gap, in nats for each noisy value, at which the solver stops.
        strength: the epsilon of Laplace noise that all rounds together are worth; by default the context's.
        n_settling: how many of the last rounds settled centres.

    Returns:
        The measure of the last pass, moved to what the last rounds measured.
    """
    mixture = Mixture() if mixture is None else mixture
    total = total_of(context, rounds)
    strength = strength_of(context, rounds) if strength is None else strength
    rounds, settled = solved_and_settled(rounds, n_settling)
    found: Measure | None = None
    for _ in range(n_passes):
        points = drawn_support(context, rounds, found, total, n_points, rng, mixture)
        temperature = temperature_of(strength, rounds)
        found = explained(
            context, rounds, points, total, temperature=temperature, tolerance=tolerance, max_steps=_MAX_STEPS
        )
        if found.solution is None:
            break
    assert found is not None
    points, weights = corrected(context, settled, found.points, found.weights)
    return replace(found, points=points, weights=weights)


def explained(
    context: Context,
    rounds: Sequence[Round],
    points: Array,
    total: float,
    *,
    temperature: float,
    tolerance: float,
    max_steps: int,
    slack: float = 0.0,
) -> Measure:
    """The measure on a support, of this total, that explains the rounds; even if there is nothing to explain.

    A slack is an error of every answer beside its noise, where no support can be expected to explain more.
    """
    blocks, observed, scales, laws = observations(context, rounds, points, total)
    scales = np.hypot(scales, slack)
    base = np.full(len(points), total / len(points))
    if not blocks:
        return Measure(points=points, weights=base, solution=None)
    solution = solve(
        blocks,
        observed,
        scales,
        base,
        temperature=temperature,
        noise=laws,
        tolerance=tolerance,
        max_steps=max_steps,
    )
    return Measure(points=points, weights=solution.measure, solution=solution)


def strength_of(context: Context, rounds: Sequence[Round]) -> float:
    """The epsilon of Laplace noise that a release is worth; of answers that were made elsewhere, by their noise."""
    if not any(answered.imported is not None for answered in rounds):
        return context.effective_epsilon()
    # What is claimed may be for more than these rounds, or for other neighbours: the noise itself says how far to go.
    amount = float(sum(answered.price.amount for answered in rounds))
    value = amount if context.budget_measure == "pure" else 2.0 * float(np.sqrt(amount))
    return value / context.records_per_person


def temperature_of(strength: float, rounds: Sequence[Round]) -> float:
    """The weight of the entropy: all rows of one record weigh at most epsilon, so tilts stay within e^(+-L)."""
    grid = any(as_grid(answered.query) for answered in rounds)
    absolute = any(as_cells(answered.query, "absolute") for answered in rounds)
    tilt = _TILT_OTHER if not grid else _TILT_HYBRID if absolute else _TILT_GRID
    return strength / tilt


def total_of(context: Context, rounds: Sequence[Round]) -> float:
    """The number of records that all count totals support together, each weighted by its precision; at least 1."""
    found = records_of(context, rounds)
    return float(context.n_records or 1000) if found is None else max(1.0, found.estimate)


def observations(
    context: Context, rounds: Sequence[Round], points: Array, total: float
) -> tuple[list[RowBlock], Array, Array, NDArray[np.str_]]:
    """Stack the rounds' rows on a support, with their answers, noise scales and the law of their noise.

    A fine grid is read in blocks of cells, empty ones of which drop out.
    """
    blocks: list[RowBlock] = []
    observed, scales = [np.empty(0)], [np.empty(0)]
    laws = [np.empty(0, dtype="<U8")]
    for answered in rounds:
        query = answered.query
        if (everything := as_cells(query, "none")) and everything.n_cells == 1:
            continue  # a count of everything is in the total, which is fixed
        if grid := as_grid(query):
            block, noisy, scale = _coarse_grid(context, grid, answered, points, total)
            blocks.append(block)
            observed.append(noisy)
            scales.append(scale)
            laws.append(np.full(len(noisy), answered.mechanism))
            continue
        blocks.extend(rows_of(query, points))
        observed.append(answered.noisy)
        scales.append(answered.scales)
        laws.append(np.full(query.size, answered.mechanism))
    return blocks, np.concatenate(observed), np.concatenate(scales), np.concatenate(laws)


def denoised(noisy: Array, total: float) -> Array:
    """The nearest counts that are not negative and add up to the total.

    >>> denoised(np.array([3.0, -1.0, 2.0]), 4.0)
    array([2.5, 0. , 1.5])
    """
    descending = -np.sort(-noisy)
    shifts = (np.cumsum(descending) - total) / np.arange(1, noisy.size + 1)
    return np.asarray(np.maximum(noisy - shifts[np.nonzero(descending > shifts)[0][-1]], 0.0))


def _coarse_grid(
    context: Context, query: GridQuery, answered: Round, points: Array, total: float
) -> tuple[Partition, Array, Array]:
    reachable, noisy = reachable_cells(query, context.domain), answered.noisy
    blocks = coarse_cells(query, _likely_counts(noisy, reachable, total), _MAX_GRID_ROWS)
    sums = np.bincount(blocks[reachable], noisy[reachable], minlength=query.size)
    n_merged = np.bincount(blocks[reachable], minlength=query.size)
    used, cells = np.unique(blocks[query.marginal.cells(points)], return_inverse=True)
    # The sum of several noises is treated as one of the same kind with the same variance. Rounding can put a point of
    # the domain's edge into a cell that no record reaches: its row is a count of nothing.
    scale = float(answered.scales[0]) * np.sqrt(np.maximum(n_merged[used], 1))
    if answered.imported is not None:
        squares = np.bincount(blocks[reachable], answered.scales[reachable] ** 2, minlength=query.size)
        scale = np.sqrt(np.maximum(squares[used], answered.scales.min() ** 2))
    return Partition(cells=cells.ravel(), n_cells=len(used)), np.asarray(sums[used], np.float64), scale


def _likely_counts(noisy: Array, reachable: NDArray[np.bool_], total: float) -> Array:
    counts = np.zeros(len(noisy))
    counts[reachable] = denoised(noisy[reachable], total)
    return counts


def drawn_support(
    context: Context,
    rounds: Sequence[Round],
    last: Measure | None,
    total: float,
    n_points: int,
    rng: np.random.Generator,
    mixture: Mixture,
) -> Array:
    """Points where rounds of counts and sums put records: their first look, their cells, and the last pass."""
    with_sums = [r for r in rounds if as_cells(r.query, "absolute", "relative")]
    n_cells = int(n_points * mixture.cells) if with_sums else 0
    resampled = mixture.resampled if with_sums else 2 * mixture.resampled
    n_resampled = 0 if last is None else int(n_points * resampled)
    parts = [_from_first_look(context, rounds, total, n_points - n_cells - n_resampled, rng)]
    # Spreads are for the box; the unit balls are about half as wide.
    width = 1.0 if context.domain.kind == "box" else 0.5
    if n_cells:
        parts.append(_around_cells(context, with_sums, n_cells, width, rng))
    if last is not None and n_resampled:
        chosen = rng.choice(len(last.points), size=n_resampled, p=last.weights / last.weights.sum())
        parts.append(_jittered(context, last.points[chosen], width * rng.choice(_JITTERS, n_resampled), rng))
    return np.concatenate(parts)


def first_support(context: Context, rounds: Sequence[Round], n_points: int, rng: np.random.Generator) -> Array:
    """Points where rounds put records that say so in cells; uniform ones where none do."""
    return drawn_support(context, rounds, None, total_of(context, rounds), n_points, rng, Mixture())


def _from_first_look(
    context: Context, rounds: Sequence[Round], total: float, n_points: int, rng: np.random.Generator
) -> Array:
    """The denoised grid, or the product of the denoised marginals, with some uniform points; without one, uniform."""
    look = next((r for r in rounds if marginals_of(r.query)), None)
    n_uniform = n_points if look is None else round(n_points * _UNIFORM_SHARE)
    parts = [uniform_points(context.domain, n_uniform, rng)]
    if look is not None:
        grid, noisy, n = as_grid(look.query), look.noisy, n_points - n_uniform
        columns = np.empty((n, context.domain.n_columns))
        columns[:] = uniform_points(context.domain, n, rng)
        start = 0
        for marginal in marginals_of(look.query):
            if grid is not None:
                weights = _likely_counts(noisy, reachable_cells(grid, context.domain), total)
            else:
                weights = denoised(noisy[start : start + marginal.size], total)
            start += marginal.size
            cells = rng.choice(marginal.size, size=n, p=weights / weights.sum())
            sides = np.array(marginal.sides)
            corner = np.stack(np.unravel_index(cells, marginal.sides), axis=1)
            columns[:, list(marginal.columns)] = (corner + rng.random(corner.shape)) / sides * 2.0 - 1.0
        parts.append(context.domain.clip(columns))
    return np.concatenate(parts)


def _around_cells(
    context: Context, rounds: Sequence[Round], n_points: int, width: float, rng: np.random.Generator
) -> Array:
    """Points around the noisy means of all cells with sums, as often as their counts say."""
    means, errors, weights = [], [], []
    for answered in rounds:
        query = of_kind(answered.query, VoronoiQuery)
        k = query.n_cells
        counts = np.maximum(answered.noisy[:k], 0.0)
        count_scales = answered.scales[:k]
        divisor = np.maximum(counts, count_scales)
        offsets = answered.noisy[k:].reshape(query.centers.shape) / divisor[:, None]
        if query.radii is None:
            means.append(np.where((counts >= count_scales)[:, None], offsets, query.centers))
        else:
            length = np.abs(offsets).sum(axis=1) if query.norm == 1 else np.sqrt((offsets**2).sum(axis=1))
            means.append(query.centers + offsets * np.minimum(1.0, query.radii / np.maximum(length, 1e-12))[:, None])
        errors.append(np.minimum(answered.scales[k :: query.n_columns][:k] / divisor, _LARGEST_MEAN_ERROR))
        weights.append(counts / max(counts.sum(), 1e-9) + 1e-12)
    weight = np.concatenate(weights)
    chosen = rng.choice(len(weight), size=n_points, p=weight / weight.sum())
    spread = np.sqrt((width * rng.choice(_MEAN_SPREADS, n_points)) ** 2 + np.concatenate(errors)[chosen] ** 2)
    return _jittered(context, context.domain.clip(np.concatenate(means))[chosen], spread, rng)


def _jittered(context: Context, points: Array, spread: Array, rng: np.random.Generator) -> Array:
    return context.domain.clip(points + spread[:, None] * rng.standard_normal(points.shape))


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """The smallest value up to which the weights reach a level of their sum.

    >>> weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    2.0
    """
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(cumulative, level * cumulative[-1]), len(values) - 1)])
