"""What noisy counts tell: how many records there are in all, how many in each cluster, and which may be noise.

Where bounds are wide, most cells are empty, and their noisy counts, kept from being negative, leave a little mass far
from everything. To k-means such mass is worth a centre of its own. So the evidence for a small cluster is weighed: how
much likelier the noisy counts of all rounds are with it than without it, the negative ones included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recoup._random import Rng
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.consistency import Rounds
from recoup.maxent.support import reachable_cells
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import as_grid
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_HALF_WIDTH = 1.645  # standard deviations on each side of an estimate: nine times in ten the truth lies between
_NONE = 3.0  # standard deviations: an estimate below this many might be of an empty table
_SMALL = 0.1  # of an equal part of the records: larger clusters are never doubted
_BOX_POINTS = 256  # that stand for a box
_FALSE_ALARM = 0.01  # that any cell of an empty table stands out in a round
_RESTARTS = 4
_DEVIATIONS = 4.0  # the place was chosen because its noise is large, among as many places as there are cells


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCount:
    """An unbiased estimate of the number of records; it may be negative where there are few.

    Attributes:
        estimate: the number.
        deviation: its standard deviation, which follows from the noise alone.
        of: what was counted: "records", or "persons" that have one row each.

    >>> RecordCount(estimate=42_913.0, deviation=180.0).sentence
    'rests on about 42,900 records (42,600 to 43,200)'
    >>> RecordCount(estimate=31.0, deviation=40.0).sentence
    'rests on a number of records that cannot be told from none (0 to 97)'
    """

    estimate: float
    deviation: float
    of: str = "records"

    @property
    def low(self) -> float:
        """The lower end of the 90% interval, at least 0."""
        return max(self.estimate - _HALF_WIDTH * self.deviation, 0.0)

    @property
    def high(self) -> float:
        """The upper end of the 90% interval, at least 0."""
        return max(self.estimate + _HALF_WIDTH * self.deviation, 0.0)

    @property
    def could_be_none(self) -> bool:
        """Whether the counts of an empty table might look like this."""
        return self.estimate < _NONE * self.deviation

    @property
    def sentence(self) -> str:
        """The estimate with its interval, in words, without meaningless digits."""
        if self.could_be_none:
            return f"rests on a number of {self.of} that cannot be told from none (0 to {self.high:,.0f})"
        step = 10.0 ** max(floor(log10(max(self.deviation, 1.0))), 0)
        about, low, high = (round(value / step) * step for value in (self.estimate, self.low, self.high))
        return f"rests on about {about:,.0f} {self.of} ({low:,.0f} to {high:,.0f})"

    def to_json(self) -> dict[str, Any]:
        """A JSON value."""
        names = ("estimate", "deviation", "low", "high", "could_be_none", "sentence")
        return {name: getattr(self, name) for name in names}


def records_of(context: Context, rounds: Rounds) -> RecordCount | None:
    """Estimate the number of records from all counts that add up to it, each total weighted by its precision.

    Args:
        context: the terms of the release.
        rounds: queries with their noisy answers.

    Returns:
        The estimate, without bias; none where no round counts all records.

    Guarantees: reads nothing but its arguments, so it costs no privacy.

    >>> from recoup import Box, KMeans, release
    >>> terms = {"domain": Box([0], [1]), "noise": "simulated", "random_state": 0}
    >>> transcript = release(KMeans(n_clusters=2), [[0.3]] * 4000, epsilon=1, **terms)
    >>> records_of(transcript.context, transcript.rounds).sentence
    'rests on about 3,982 records (3,967 to 3,997)'
    """
    weighted = precision = 0.0
    for answered in rounds:
        for block, part in answered.query.sensitivity(context.domain).parts():
            if block.total is None:
                continue
            values, scales = answered.noisy[part], answered.scales[part]
            if grid := as_grid(answered.query):
                reachable = reachable_cells(grid, context.domain)
                values, scales = values[reachable], scales[reachable]
            estimate = values.sum() / block.total
            variance = answered.noise.deviation(1.0) ** 2 * float((scales**2).sum()) / block.total**2
            weighted += estimate / variance
            precision += 1.0 / variance
    if precision == 0.0:
        return None
    of = "persons" if context.per_person == "mean" else "records"
    return RecordCount(estimate=float(weighted / precision), deviation=float(precision**-0.5), of=of)


class WeightedPoints(NamedTuple):
    """Points (m, d) of the unit domain, and the (m,) records that each stands for."""

    points: Array
    weights: Array


class Clusters:
    """Inferred data by cluster: a point belongs to the nearest of (K, d) centres of the unit domain."""

    def __init__(self, centers: Array, data: WeightedPoints) -> None:
        self.n, (self.points, self.weights) = len(centers), data
        self._nearest = VoronoiQuery(centers=centers, sums="none")
        self.labels = self._nearest.cells(self.points)

    @property
    def sizes(self) -> Array:
        """(K,) records in each."""
        return np.asarray(np.bincount(self.labels, weights=self.weights, minlength=self.n), dtype=np.float64)

    def of_cells(self, cells: NDArray[np.int64], middles: Array) -> tuple[NDArray[np.int64], Array]:
        """The cluster of each cell, that of most of its records, else of its middle; and the records by both."""
        n_cells = len(middles)
        both = np.bincount(cells * self.n + self.labels, self.weights, minlength=n_cells * self.n)
        mass = np.asarray(both, dtype=np.float64).reshape(n_cells, self.n)
        return np.where(mass.sum(axis=1) > 0, mass.argmax(axis=1), self._nearest.cells(middles)), mass


def sums_by_cell(cells: NDArray[np.int64], weights: Array, values: Array, n_cells: int) -> Array:
    """(n_cells, d) sums of weighted (m, d) values over the points of each cell."""
    by_point = csr_array((weights, cells, np.arange(len(cells) + 1)), shape=(len(cells), n_cells))
    return np.asarray(by_point.T @ values)


class Sizes(NamedTuple):
    """What noisy counts tell about the sizes of clusters."""

    estimates: Array  # (k,) records, without bias
    deviations: Array  # (k,) their standard deviations; infinite where no round tells
    stands_out: NDArray[np.bool_]  # (k,) whether one cell alone holds more than the noise of all cells would explain
    evidence: Array  # (k,) by how many nats the counts of all rounds are likelier with the cluster than without it
    enough: (
        float  # of these nats; none are where all cells were put where earlier answers, noise included, saw something
    )

    @property
    def sure(self) -> NDArray[np.bool_]:
        """Which clusters noise alone would not have made."""
        return np.asarray(self.stands_out | (self.estimates >= _DEVIATIONS * self.deviations))

    @property
    def likely(self) -> NDArray[np.bool_]:
        """Which are sure, or at least likelier to be clusters than noise."""
        return np.asarray(self.sure | (np.isfinite(self.deviations) & (self.evidence > self.enough)))


class _CountedCells(NamedTuple):
    """A round's counts, and in which of its cells points lie."""

    answered: Round
    cells: Callable[[Array], NDArray[np.int64]]
    middles: Array


def _counted_cells(rounds: Rounds) -> list[_CountedCells]:
    counted = []
    for answered in rounds:
        if (query := as_cells(answered.query)) and query.n_cells > 1:
            counted.append(_CountedCells(answered, query.cells, query.centers))
        elif grid := as_grid(answered.query):
            counted.append(_CountedCells(answered, grid.marginal.cells, grid.marginal.centers()))
    return counted


def sizes_by_counts(rounds: Rounds, clusters: Clusters, doubted: Sequence[int] = ()) -> Sizes:
    """Estimate how many records are in each cluster from the noisy counts of all rounds, without bias.

    Evidence, which takes time, is weighed for those that are `doubted`.
    """
    k = clusters.n
    weighted, precision, stands_out = np.zeros(k), np.zeros(k), np.zeros(k, dtype=np.bool_)
    counted = _counted_cells(rounds)
    for answered, cells_of, middles in counted:
        owners, mass = clusters.of_cells(cells_of(clusters.points), middles)
        n_cells = len(owners)
        owns = np.zeros((n_cells, k))
        owns[np.arange(n_cells), owners] = 1.0
        covered = (owns * mass).sum(axis=0) / np.maximum(mass.sum(axis=0), 1e-300)
        variances = answered.noise.deviation(float(answered.scales[0])) ** 2 * owns.sum(axis=0)
        # Cells that lie mostly elsewhere say nothing of a small cluster.
        usable = (variances > 0) & (covered >= 0.5)
        weighted[usable] += (answered.noisy[:n_cells] @ owns)[usable] / variances[usable]
        precision[usable] += 1.0 / variances[usable]
        limit = answered.noise.largest(n_cells, _FALSE_ALARM) * float(answered.scales[0])
        stands_out |= usable & (owns[answered.noisy[:n_cells] > limit].sum(axis=0) > 0)
    known = precision > 0
    estimates = np.divide(weighted, precision, out=np.zeros(k), where=known)
    deviations = np.divide(1.0, np.sqrt(precision), out=np.full(k, np.inf), where=known)
    enough = np.inf
    if any(as_grid(answered.query) for answered in rounds):
        # Were K clusters in as many places as the surest round has cells, one is then likelier than noise in its place.
        surest = min(counted, key=lambda c: float(c.answered.scales[0]))
        enough = float(np.log(max(len(surest.middles) / k, 1.0)))
    return Sizes(estimates, deviations, stands_out, evidence_of(rounds, clusters, doubted), enough)


def evidence_of(rounds: Rounds, clusters: Clusters, wanted: Sequence[int]) -> Array:
    """By how many nats the noisy counts of all rounds are likelier with each cluster than without it; 0 if not wanted.

    Without it: with the inferred records of the other clusters alone. With it: beside these, as many records as it
    seems to have, or twice as many, spread evenly over a box of its place and width. A box does not follow the noise of
    single cells, so what noise alone made is hardly likelier. Of several boxes and sizes, the mean likelihood counts:
    for any one cluster that was fixed in advance, noise alone exceeds log(1 / p) with a probability of at most p.
    """
    found = np.zeros(clusters.n)
    if not len(wanted):
        return found
    counted = _counted_cells(rounds)
    of_points = [counts.cells(clusters.points) for counts in counted]
    pairs = list(zip(of_points, counted, strict=True))
    # A cell that lies mostly in another cluster says nothing of this one: the other would take all of its records.
    owners = [clusters.of_cells(at, counts.middles)[0] for at, counts in pairs]
    for cluster in wanted:
        mine = (clusters.labels == cluster) & (clusters.weights > 0)
        if not mine.any():
            continue
        others = [
            np.bincount(at[~mine], clusters.weights[~mine], minlength=len(counts.middles)) for at, counts in pairs
        ]
        points, weights = clusters.points[mine], clusters.weights[mine]
        nats = []
        for middle, reach in _boxes(points, weights):
            records = weights[(np.abs(points - middle) <= reach * (1 + 1e-9)).all(axis=1)].sum() / _BOX_POINTS
            box = np.clip(middle + reach * _even_points(points.shape[1]), -1.0, 1.0)
            inside = [np.bincount(counts.cells(box), minlength=len(counts.middles)) for counts in counted]
            for size in (records, 2.0 * records):
                nats.append(0.0)
                for n_inside, counts, rest, owner in zip(inside, counted, others, owners, strict=True):
                    touched = np.flatnonzero((n_inside > 0) & (owner == cluster))
                    misses, scales = counts.answered.noisy[touched] - rest[touched], counts.answered.scales[touched]
                    log_density = counts.answered.noise.log_density
                    nats[-1] += log_density(misses - size * n_inside[touched], scales) - log_density(misses, scales)
        found[cluster] = np.logaddexp.reduce(nats) - np.log(len(nats))
    return found


def _boxes(points: Array, weights: Array) -> list[tuple[Array, Array]]:
    """Middle and half width of boxes in which evenly spread points have the same spread, or the same quartiles."""
    shares = weights / weights.sum()
    mean = shares @ points
    quartiles = np.empty((3, points.shape[1]))
    for j, column in enumerate(points.T):
        order = np.argsort(column)
        at = np.searchsorted(np.cumsum(shares[order]), (0.25, 0.5, 0.75))
        quartiles[:, j] = column[order][np.minimum(at, len(column) - 1)]
    return [
        (mean, np.sqrt(3.0 * (shares @ (points - mean) ** 2))),
        (quartiles[1], quartiles[2] - quartiles[0]),
    ]


def _even_points(d: int) -> Array:
    """Points that fill [-1, 1]^d evenly: multiples of powers of the root of x^(d + 1) = x + 1 (Roberts 2018)."""
    root = 2.0
    for _ in range(40):
        root = (1.0 + root) ** (1.0 / (d + 1))
    return np.asarray(
        2.0 * ((0.5 + np.arange(1, _BOX_POINTS + 1)[:, None] * root ** -np.arange(1.0, d + 1)) % 1.0) - 1.0
    )


def without_doubtful_clusters(rounds: Rounds, points: Array, weights: Array, n_clusters: int, rng: Rng) -> Array:
    """The weights of a measure without the mass of small clusters that cannot be told from noise."""
    weights = np.array(weights)
    small = _SMALL * float(weights.sum()) / n_clusters
    for _ in range(n_clusters + 2):
        kept = np.flatnonzero(weights > 0)
        if len(kept) <= n_clusters:
            break
        clustering = weighted_kmeans(
            points[kept], weights[kept], n_clusters, n_restarts=_RESTARTS, rng=rng, max_iterations=60, tolerance=1e-4
        )
        clusters = Clusters(clustering.centers, WeightedPoints(points, weights))
        doubted = np.flatnonzero(clusters.sizes < small)
        if len(doubted) in (0, n_clusters):
            break
        noise = doubted[~sizes_by_counts(rounds, clusters, doubted.tolist()).likely[doubted]]
        if len(noise) == 0:
            break
        weights[np.isin(clusters.labels, noise)] = 0.0
    return weights
