"""How well inferred data explain what was measured: the residuals of each round, and by what they are not noise.

The noise of every answer is known, so the probability of each residual is too. Inference that follows the noise only
makes residuals smaller, so what is rare for noise is rarer still for a residual. Next to the probability stands how
much it matters: residuals of sums, added up over the cells of a cluster and divided by its records, tell how far the
measured mean lies from the inferred one; residuals of counts tell how many records are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import pi, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import chdtrc, gammaincc, log_ndtr

from recoup.domain import Domain
from recoup.maxent.sizes import Clusters, WeightedPoints, sums_by_cell
from recoup.queries.base import Array, Integers
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import Categories, Marginal, as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

# The mean of |noise| / scale, and its standard deviation.
ABSOLUTE_NOISE = {"laplace": (1.0, 1.0), "gaussian": (sqrt(2 / pi), sqrt(1 - 2 / pi))}
_WIDTH = 3.0  # standard deviations: one block in several hundred would be outside by chance
_TILTS = np.linspace(0.02, 0.98, 25)  # of Chernoff's bound, as parts of the largest that the widest noise allows
_PART_OF_SPREAD = 0.02  # of a cluster, in a column: a centre that is off by less is as good
_SMALLEST_SHIFT = 0.001  # of a column, which is 2 wide in the unit domain, where a cluster has no spread
_PART_OF_SIZE = 0.1  # of a cluster
_SMALLEST = 0.1  # of an equal part of the records: what is missing in a smaller cluster is held against this
_PART_OF_ANSWER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """The misfit of one round: mean |noisy - inferred| in units of the noise scale, by block.

    Laplace noise of that scale alone gives about 1 (Gaussian: 0.8). Far above, the data set does not explain the round;
    far below, it follows the noise.
    """

    round: int
    by_block: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """What inference reports about itself; fields that a method does not have are none."""

    seconds: dict[str, float]  # by stage
    residuals: tuple[Residuals, ...]  # the misfit of each round
    log_likelihood: float  # of the transcript under the inferred data set, up to a constant
    converged: bool = True  # whether an iterative solver met its stopping rule
    gap: float | None = None  # the certified duality gap, in nats
    gap_per_row: float | None = None  # over the number of noisy values
    n_iterations: int | None = None  # of the solver
    primal_residual: float | None = None  # of the consistency step, as the next
    dual_residual: float | None = None
    acceptance: tuple[float, ...] | None = None  # share of accepted proposals, by chain
    # the log target of each chain, thinned; the log-likelihood where its scale is the noise's
    log_likelihood_trace: tuple[Array, ...] | None = field(default=None, repr=False)
    best_step: tuple[int, ...] | None = None  # of each chain, where it reached its best data set
    ess: float | None = None  # effective sample size of the log target, second half of the chains
    r_hat: float | None = None  # split, where there are several chains; all but the first start far from it
    interrupted: bool = False  # whether the run was stopped early

    def to_json(self) -> dict[str, Any]:
        """A JSON value with the fields that are not none."""
        value = asdict(self)
        if self.log_likelihood_trace is not None:
            value["log_likelihood_trace"] = [trace.tolist() for trace in self.log_likelihood_trace]
        return {name: item for name, item in value.items() if item is not None}


def expected_answer(answered: Round, points: Array, weights: Array) -> Array:
    """What weighted points of the unit domain say to a round's query."""
    return np.asarray(answered.query.contribution(points).T @ weights, dtype=np.float64)


def residuals_of(domain: Domain, rounds: Sequence[Round], data: WeightedPoints) -> tuple[tuple[Residuals, ...], float]:
    """The misfit of each round under weighted points of the unit domain, and the log-likelihood of all of them."""
    residuals, log_likelihood = [], 0.0
    for t, answered in enumerate(rounds):
        deviation = answered.noisy - expected_answer(answered, *data)
        log_likelihood += answered.noise.log_density(deviation, answered.scales)
        ratio, parts = np.abs(deviation) / answered.scales, answered.query.sensitivity(domain).parts()
        by_block = {block.name: float(np.mean(ratio[rows])) for block, rows in parts}
        residuals.append(Residuals(round=t, by_block=by_block))
    return tuple(residuals), log_likelihood


class BlockFit(NamedTuple):
    """The misfit of one block of a round, and the range that noise alone would leave."""

    round: int
    block: str
    n_values: int
    residual: float
    low: float
    high: float


def fit_of_blocks(transcript: Transcript, points: Array, weights: Array) -> Iterator[BlockFit]:
    """The misfit of every block of every round under weighted points in the user's units."""
    domain, (mean, deviation) = transcript.context.domain, ABSOLUTE_NOISE[transcript.context.mechanism]
    residuals, _ = residuals_of(domain, transcript.rounds, WeightedPoints(domain.to_unit(points), weights))
    for residual, answered in zip(residuals, transcript.rounds, strict=True):
        for block in answered.query.sensitivity(domain).blocks:
            width = _WIDTH * deviation / sqrt(block.size)
            value = residual.by_block[block.name]
            yield BlockFit(residual.round, block.name, block.size, value, max(0.0, mean - width), mean + width)


def log_probability_of_sum(residuals: Array, scales: Array, law: str) -> Array:
    """Log of Chernoff's bound on the probability of sums of (n, d) noises this far from 0; exact where it can be."""
    distance = np.abs(residuals.sum(axis=0))
    if law == "gaussian":
        return np.asarray(np.minimum(np.log(2.0) + log_ndtr(-distance / np.sqrt((scales**2).sum(axis=0))), 0.0))
    if len(residuals) == 1:
        return np.asarray(-distance / scales[0])
    widest, best = scales.max(axis=0), np.zeros(distance.shape)
    for tilt in _TILTS:
        # Any tilt gives a bound: the best of them is one too.
        bound = -tilt * distance / widest - np.log1p(-((tilt * scales / widest) ** 2)).sum(axis=0)
        best = np.minimum(best, np.log(2.0) + bound)
    return best


def log_probability_of_size(residuals: Array, scales: Array, law: str) -> Array:
    """Log of the probability that (n, d) noises are all together this large over n: absolute, or squared (Gaussian)."""
    ratio, n = np.abs(residuals) / scales, len(residuals)
    tail = gammaincc(n, ratio.sum(axis=0)) if law == "laplace" else chdtrc(n, (ratio**2).sum(axis=0))
    with np.errstate(divide="ignore"):  # beyond the smallest number, as a logarithm, it is minus infinity
        return np.asarray(np.log(tail))


class Misfit(NamedTuple):
    """One comparison of an answer with what the inferred data say."""

    kind: Literal["column", "size", "round"]
    round: int
    block: str
    column: int | None
    cluster: int | None
    measured: float  # a mean of the unit domain, a number of records, or the part of an answer that is not explained
    inferred: float
    log_probability: float  # of so large a residual, if there is nothing but noise
    importance: float  # 1 and more matters


def misfits_of(context: Context, number: int, answered: Round, expected: Array, clusters: Clusters) -> Iterator[Misfit]:
    """Compare a round with what is expected of it: counts by cluster, sums also by column, other answers by block."""
    query, residuals = answered.query, answered.noisy - expected
    if voronoi := as_cells(query):
        cells = voronoi.cells(clusters.points)
        if voronoi.n_cells > 1:
            yield from _of_sizes(number, answered, residuals, cells, voronoi.centers, clusters)
        if voronoi.sums != "none":
            yield from _of_means(number, answered, voronoi, residuals, cells, clusters)
    elif grid := as_grid(query):
        cells = grid.marginal.cells(clusters.points)
        yield from _of_sizes(number, answered, residuals, cells, grid.marginal.centers(), clusters)
    elif marginals := marginals_of(query):
        start = 0
        for marginal in marginals:
            rows = slice(start, start + marginal.size)
            start += marginal.size
            if isinstance(marginal, Categories) or len(marginal.columns) == 1:
                yield from _of_histogram(number, answered, marginal, residuals[rows], answered.scales[rows], clusters)
    else:
        yield from _of_blocks(context, number, answered, residuals)


def _of_sizes(
    number: int, answered: Round, residuals: Array, cells: Integers, middles: Array, clusters: Clusters
) -> Iterator[Misfit]:
    owners, _ = clusters.of_cells(cells, middles)
    inferred = np.bincount(cells, clusters.weights, minlength=len(owners))
    smallest = _SMALLEST * float(clusters.weights.sum()) / clusters.n
    for k in range(clusters.n):
        own = owners == k
        if not own.any():
            continue
        values, scales = (array[: len(own)][own] for array in (residuals, answered.scales))
        missing, size = float(values.sum()), float(inferred[own].sum())
        log_probability = float(log_probability_of_sum(values[:, None], scales[:, None], answered.mechanism)[0])
        importance = abs(missing) / (_PART_OF_SIZE * max(size, smallest))
        yield Misfit("size", number, "count", None, k, size + missing, size, log_probability, importance)


def _of_means(
    number: int, answered: Round, query: VoronoiQuery, residuals: Array, cells: Integers, clusters: Clusters
) -> Iterator[Misfit]:
    n_cells, (owners, _) = query.n_cells, clusters.of_cells(cells, query.centers)
    values, scales = query.sums_of(residuals), query.sums_of(answered.scales)
    if query.radii is None:
        # Absolute sums grow with the number of records: what counts explain of them is no matter of means.
        inferred = np.bincount(cells, clusters.weights, minlength=n_cells)
        means = sums_by_cell(cells, clusters.weights, clusters.points, n_cells) / np.maximum(inferred, 1e-12)[:, None]
        values = np.concatenate([values, -means * residuals[:n_cells, None]])
        scales = np.concatenate([scales, np.maximum(np.abs(means) * answered.scales[:n_cells, None], 1e-300)])
        owners = np.concatenate([owners, owners])
    for k in range(clusters.n):
        own, inside = owners == k, owners[cells] == k
        weights = clusters.weights[inside]
        n = float(weights.sum())
        if not own.any() or n <= 0.0:
            continue
        mean = weights @ clusters.points[inside] / n
        shift = values[own].sum(axis=0) / n
        importance = np.abs(shift) / _shift_that_matters(weights @ (clusters.points[inside] - mean) ** 2 / n)
        log_probabilities = log_probability_of_sum(values[own], scales[own], answered.mechanism)
        for j in range(query.n_columns):
            numbers = (float(value[j]) for value in (mean + shift, mean, log_probabilities, importance))
            yield Misfit("column", number, "sum", j, k, *numbers)


def _of_histogram(
    number: int,
    answered: Round,
    marginal: Marginal | Categories,
    residuals: Array,
    scales: Array,
    clusters: Clusters,
) -> Iterator[Misfit]:
    """How far the mean of a column, or the share of each category, lies from what the counts of its bins say."""
    weights, middles = clusters.weights, marginal.centers()
    total = max(float(weights.sum()), 1e-12)
    for place, column in enumerate(marginal.columns):
        x = clusters.points[:, column]
        mean = float(weights @ x) / total
        offsets = middles[:, place] - mean
        shift = float(residuals @ offsets) / total
        values, widths = (residuals * offsets)[:, None], np.maximum(np.abs(offsets) * scales, 1e-300)[:, None]
        log_probability = float(log_probability_of_sum(values, widths, answered.mechanism)[0])
        importance = float(abs(shift) / _shift_that_matters(weights @ (x - mean) ** 2 / total))
        yield Misfit("column", number, "count", column, None, mean + shift, mean, log_probability, importance)


def _shift_that_matters(variance: Array) -> Array:
    return np.maximum(_PART_OF_SPREAD * np.sqrt(variance), _SMALLEST_SHIFT)


def _of_blocks(context: Context, number: int, answered: Round, residuals: Array) -> Iterator[Misfit]:
    for block, rows in answered.query.sensitivity(context.domain).parts():
        noise = block.size * answered.noise.deviation(1.0) ** 2
        squares = (np.sum((values[rows] / answered.scales[rows]) ** 2) for values in (residuals, answered.noisy))
        missed, answer = (max(float(square) - noise, 0.0) for square in squares)
        part = float(np.sqrt(missed / max(answer, noise)))
        values, scales = residuals[rows, None], answered.scales[rows, None]
        log_probability = float(log_probability_of_size(values, scales, answered.mechanism)[0])
        yield Misfit("round", number, block.name, None, None, part, 0.0, log_probability, part / _PART_OF_ANSWER)
