"""What was measured, held against what inferred data say: by column, by size, and by whole answers.

The noise of every answer is known, so the chance of each residual is too. Next to it stands how much it matters.
Residuals of sums, added up over the cells of a cluster and divided by its records, tell how far the measured mean lies
from the inferred one; residuals of counts tell how many records are missing. An answer of another kind tells which part
of it is not explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup.inference.chance import chance_of_size, chance_of_sum
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import Marginal, as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_PART_OF_SPREAD = 0.02  # of a cluster, in a column: a centre that is off by less is as good
_PART_OF_RANGE = 0.0005  # of a column's declared width, where a cluster has no spread
_UNIT_WIDTH = 2.0  # of a column, in the unit domain
_PART_OF_SIZE = 0.1  # of a cluster
_SMALLEST = 0.1  # of an equal part of the records: what is missing in a smaller cluster is held against this
_PART_OF_ANSWER = 0.1


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


class Clusters:
    """Inferred data by cluster: the parts that means and sizes are told of.

    A cell of a round belongs to the cluster that most of its inferred records are in.

    Args:
        centers: (K, d) in the unit domain: a point belongs to the nearest.
        points: (m, d).
        weights: (m,) records that each stands for.
    """

    def __init__(self, centers: Array, points: Array, weights: Array) -> None:
        self.n, self.points, self.weights = len(centers), points, weights
        self._nearest = VoronoiQuery(centers=centers, sums="none")
        self._labels = self._nearest.cells(points)

    def of_cells(self, cells: NDArray[np.int64], middles: Array) -> NDArray[np.int64]:
        """The cluster of each cell, given the cell of each point and the middle of each cell."""
        n_cells = len(middles)
        mass = np.bincount(cells * self.n + self._labels, self.weights, minlength=n_cells * self.n)
        mass = mass.reshape(n_cells, self.n)
        return np.where(mass.sum(axis=1) > 0, mass.argmax(axis=1), self._nearest.cells(middles))


def expected_answer(answered: Round, points: Array, weights: Array) -> Array:
    """What weighted points of the unit domain say to a round's query."""
    return np.asarray(answered.query.contribution(points).T @ weights, dtype=np.float64)


def misfits_of(context: Context, number: int, answered: Round, expected: Array, clusters: Clusters) -> Iterator[Misfit]:
    """Compare what a round measured with what is expected.

    Args:
        context: the terms of the release.
        number: of the round.
        answered: the round.
        expected: the answer that it is held against: of the inferred data, or a prediction.
        clusters: the inferred data by cluster.

    Yields:
        For counts in cells one misfit for each cluster, for sums one for each cluster and column, for histograms one
        for each single column, for answers of other kinds one for each block.
    """
    query, residuals = answered.query, answered.noisy - expected
    if voronoi := as_cells(query):
        cells = voronoi.cells(clusters.points)
        owners = clusters.of_cells(cells, voronoi.centers)
        if voronoi.n_cells > 1:
            yield from _of_sizes(number, answered, residuals[: voronoi.n_cells], cells, owners, clusters)
        if voronoi.sums != "none":
            yield from _of_means(number, answered, voronoi, residuals, cells, owners, clusters)
    elif grid := as_grid(query):
        cells = grid.marginal.cells(clusters.points)
        owners = clusters.of_cells(cells, grid.marginal.centers())
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
        yield Misfit(
            kind="size",
            round=number,
            block="count",
            column=None,
            cluster=k,
            measured=size + missing,
            inferred=size,
            log_chance=float(
                chance_of_sum(residuals[own, None], answered.scales[: len(owners)][own, None], answered.mechanism)[0]
            ),
            importance=abs(missing) / (_PART_OF_SIZE * max(size, smallest)),
        )


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
    inferred = np.bincount(cells, clusters.weights, minlength=n_cells)
    if query.radii is None:
        # Absolute sums grow with the number of records: what counts explain of them is no matter of means.
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
        matters = np.maximum(_PART_OF_SPREAD * spread, _PART_OF_RANGE * _UNIT_WIDTH)
        chances = chance_of_sum(values[own], scales[own], answered.mechanism)
        for j in range(query.n_columns):
            yield Misfit(
                kind="column",
                round=number,
                block="sum",
                column=j,
                cluster=k,
                measured=float(mean[j] + shift[j]),
                inferred=float(mean[j]),
                log_chance=float(chances[j]),
                importance=float(abs(shift[j]) / matters[j]),
            )


def _of_histogram(
    number: int, answered: Round, marginal: Marginal, residuals: Array, scales: Array, clusters: Clusters
) -> Misfit:
    """How far the mean of a column lies from what the counts of its bins say."""
    (column,) = marginal.columns
    x, weights = clusters.points[:, column], clusters.weights
    total = max(float(weights.sum()), 1e-12)
    mean = float(weights @ x) / total
    spread = float(np.sqrt(weights @ (x - mean) ** 2 / total))
    offsets = marginal.centers()[:, 0] - mean
    shift = float(residuals @ offsets) / total
    return Misfit(
        kind="column",
        round=number,
        block="count",
        column=column,
        cluster=None,
        measured=mean + shift,
        inferred=mean,
        log_chance=float(
            chance_of_sum(
                (residuals * offsets)[:, None],
                np.maximum(np.abs(offsets) * scales, 1e-300)[:, None],
                answered.mechanism,
            )[0]
        ),
        importance=abs(shift) / max(_PART_OF_SPREAD * spread, _PART_OF_RANGE * _UNIT_WIDTH),
    )


def _of_blocks(context: Context, number: int, answered: Round, residuals: Array) -> Iterator[Misfit]:
    start = 0
    for block in answered.query.sensitivity(context.domain).blocks:
        rows = slice(start, start + block.size)
        start += block.size
        noise = block.size * answered.noise.deviation(1.0) ** 2
        missed, answer = (
            max(float(np.sum((values[rows] / answered.scales[rows]) ** 2)) - noise, 0.0)
            for values in (residuals, answered.noisy)
        )
        part = float(np.sqrt(missed / max(answer, noise)))
        chance = chance_of_size(residuals[rows, None], answered.scales[rows, None], answered.mechanism)
        yield Misfit(
            kind="round",
            round=number,
            block=block.name,
            column=None,
            cluster=None,
            measured=part,
            inferred=0.0,
            log_chance=float(chance[0]),
            importance=part / _PART_OF_ANSWER,
        )
