"""What was measured, held against what inferred data say: by column, by size, and by whole answers.

The noise of every answer is known, so the chance of each residual is too. Inference that follows the noise only makes
residuals smaller, so what is rare for noise is rarer still for a residual. Next to the chance stands how much it
matters. Residuals of sums, added up over the cells of a cluster and divided by its records, tell how far the measured
mean lies from the inferred one; residuals of counts tell how many records are missing. An answer of another kind tells
which part of it is not explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import chi2, gamma

from recoup.maxent.clusters import Clusters
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import Marginal, as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_TILTS = np.linspace(0.02, 0.98, 25)  # of Chernoff's bound, as parts of the largest that the widest noise allows
_PART_OF_SPREAD = 0.02  # of a cluster, in a column: a centre that is off by less is as good
_PART_OF_RANGE = 0.0005  # of a column's declared width, where a cluster has no spread
_UNIT_WIDTH = 2.0  # of a column, in the unit domain
_PART_OF_SIZE = 0.1  # of a cluster
_SMALLEST = 0.1  # of an equal part of the records: what is missing in a smaller cluster is held against this
_PART_OF_ANSWER = 0.1


def log_chance_of_sum(residuals: Array, scales: Array, law: str) -> Array:
    """Log of a bound on the chance that the sums of (n, d) noises over n are, on either side, this far from 0.

    Exact for one value and for Gaussian noise, else Chernoff's bound; at most 0.
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


def log_chance_of_size(residuals: Array, scales: Array, law: str) -> Array:
    """Log of the chance that (n, d) noises are all together this large over n: absolute, or squared (Gaussian)."""
    ratio, n = np.abs(residuals) / scales, len(residuals)
    tail = gamma(n) if law == "laplace" else chi2(n)
    return np.asarray(tail.logsf(ratio.sum(axis=0) if law == "laplace" else (ratio**2).sum(axis=0)))


class Misfit(NamedTuple):
    """One comparison of an answer with what the inferred data say.

    Means are in the unit domain, sizes in records; of a whole answer, `measured` is the part of it that is not
    explained, and `inferred` is 0.
    """

    kind: Literal["column", "size", "round"]
    round: int
    block: str
    column: int | None
    cluster: int | None
    measured: float
    inferred: float
    log_chance: float  # of so large a residual, if there is nothing but noise
    importance: float  # 1 and more matters


def misfits_of(context: Context, number: int, answered: Round, expected: Array, clusters: Clusters) -> Iterator[Misfit]:
    """Compare what a round measured with the answer of the inferred data, or a prediction.

    For counts in cells it yields one misfit for each cluster, for sums one for each cluster and column, for histograms
    one for each single column, for answers of other kinds one for each block.
    """
    query, residuals = answered.query, answered.noisy - expected
    if voronoi := as_cells(query):
        cells = voronoi.cells(clusters.points)
        owners, _ = clusters.of_cells(cells, voronoi.centers)
        if voronoi.n_cells > 1:
            yield from _of_sizes(number, answered, residuals[: voronoi.n_cells], cells, owners, clusters)
        if voronoi.sums != "none":
            yield from _of_means(number, answered, voronoi, residuals, cells, owners, clusters)
    elif grid := as_grid(query):
        cells = grid.marginal.cells(clusters.points)
        owners, _ = clusters.of_cells(cells, grid.marginal.centers())
        yield from _of_sizes(number, answered, residuals, cells, owners, clusters)
    elif marginals := marginals_of(query):
        start = 0
        for marginal in marginals:
            rows = slice(start, start + marginal.size)
            start += marginal.size
            if len(marginal.columns) == 1:
                yield _of_histogram(number, answered, marginal, residuals[rows], answered.scales[rows], clusters)
    else:
        yield from _of_blocks(context, number, answered, residuals)


def _of_sizes(
    number: int,
    answered: Round,
    residuals: Array,
    cells: NDArray[np.int64],
    owners: NDArray[np.int64],
    clusters: Clusters,
) -> Iterator[Misfit]:
    inferred = np.bincount(cells, clusters.weights, minlength=len(owners))
    smallest = _SMALLEST * float(clusters.weights.sum()) / clusters.n
    for k in range(clusters.n):
        own = owners == k
        if not own.any():
            continue
        missing, size = float(residuals[own].sum()), float(inferred[own].sum())
        scales = answered.scales[: len(owners)][own, None]
        log_chance = float(log_chance_of_sum(residuals[own, None], scales, answered.mechanism)[0])
        importance = abs(missing) / (_PART_OF_SIZE * max(size, smallest))
        yield Misfit("size", number, "count", None, k, size + missing, size, log_chance, importance)


def _of_means(
    number: int,
    answered: Round,
    query: VoronoiQuery,
    residuals: Array,
    cells: NDArray[np.int64],
    owners: NDArray[np.int64],
    clusters: Clusters,
) -> Iterator[Misfit]:
    n_cells, shape = query.n_cells, query.centers.shape
    values, scales = residuals[n_cells:].reshape(shape), answered.scales[n_cells:].reshape(shape)
    if query.radii is None:
        # Absolute sums grow with the number of records: what counts explain of them is no matter of means.
        inferred = np.bincount(cells, clusters.weights, minlength=n_cells)
        sums = np.stack(
            [np.bincount(cells, clusters.weights * x, minlength=n_cells) for x in clusters.points.T], axis=1
        )
        means = sums / np.maximum(inferred, 1e-12)[:, None]
        values = np.concatenate([values, -means * residuals[:n_cells, None]])
        scales = np.concatenate([scales, np.maximum(np.abs(means) * answered.scales[:n_cells, None], 1e-300)])
        owners = np.concatenate([owners, owners])
    for k in range(clusters.n):
        own = owners == k
        inside = owners[cells] == k
        weights = clusters.weights[inside]
        n = float(weights.sum())
        if not own.any() or n <= 0.0:
            continue
        mean = weights @ clusters.points[inside] / n
        spread = np.sqrt(weights @ (clusters.points[inside] - mean) ** 2 / n)
        shift = values[own].sum(axis=0) / n
        importance = np.abs(shift) / _shift_that_matters(spread)
        log_chances = log_chance_of_sum(values[own], scales[own], answered.mechanism)
        for j in range(query.n_columns):
            measured, inferred_mean = float(mean[j] + shift[j]), float(mean[j])
            yield Misfit(
                "column", number, "sum", j, k, measured, inferred_mean, float(log_chances[j]), float(importance[j])
            )


def _of_histogram(
    number: int, answered: Round, marginal: Marginal, residuals: Array, scales: Array, clusters: Clusters
) -> Misfit:
    """How far the mean of a column lies from what the counts of its bins say."""
    (column,) = marginal.columns
    x, weights = clusters.points[:, column], clusters.weights
    total = max(float(weights.sum()), 1e-12)
    mean = float(weights @ x) / total
    spread = np.sqrt(weights @ (x - mean) ** 2 / total)
    offsets = marginal.centers()[:, 0] - mean
    shift = float(residuals @ offsets) / total
    values, widths = (residuals * offsets)[:, None], np.maximum(np.abs(offsets) * scales, 1e-300)[:, None]
    log_chance = float(log_chance_of_sum(values, widths, answered.mechanism)[0])
    importance = float(abs(shift) / _shift_that_matters(spread))
    return Misfit("column", number, "count", column, None, mean + shift, mean, log_chance, importance)


def _shift_that_matters(spread: Array) -> Array:
    return np.maximum(_PART_OF_SPREAD * spread, _PART_OF_RANGE * _UNIT_WIDTH)


def _of_blocks(context: Context, number: int, answered: Round, residuals: Array) -> Iterator[Misfit]:
    for block, rows in answered.query.sensitivity(context.domain).parts():
        noise = block.size * answered.noise.deviation(1.0) ** 2
        missed, answer = (
            max(float(np.sum((values[rows] / answered.scales[rows]) ** 2)) - noise, 0.0)
            for values in (residuals, answered.noisy)
        )
        part = float(np.sqrt(missed / max(answer, noise)))
        log_chance = log_chance_of_size(residuals[rows, None], answered.scales[rows, None], answered.mechanism)
        yield Misfit("round", number, block.name, None, None, part, 0.0, float(log_chance[0]), part / _PART_OF_ANSWER)
