"""Clusters of inferred data held against noisy counts: how large each is, and which may be nothing but noise.

Where bounds are wide, most cells are empty, and their noisy counts, kept from being negative, leave a little mass far
from everything. To k-means such mass is worth a centre of its own. So the size of a small cluster is estimated once
more, without bias: by the sum of the noisy counts of its cells, the negative ones included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import as_grid
from recoup.transcript.round import Round

_SMALL = 0.1  # of an equal part of the records: larger clusters are never doubted
_FALSE_ALARM = 0.01  # that any cell of an empty table stands out in a round
_DEVIATIONS = 4.0  # the place was chosen because its noise is large, among as many places as there are cells


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
        """The cluster of each cell, given the cell of each point: that of most of its records, else of its middle.

        And the (n_cells, K) records by cell and cluster.
        """
        n_cells = len(middles)
        both = np.bincount(cells * self.n + self.labels, self.weights, minlength=n_cells * self.n)
        mass = np.asarray(both, dtype=np.float64).reshape(n_cells, self.n)
        return np.where(mass.sum(axis=1) > 0, mass.argmax(axis=1), self._nearest.cells(middles)), mass


class Sizes(NamedTuple):
    """What noisy counts tell about the sizes of clusters."""

    estimates: Array  # (k,) records, without bias
    deviations: Array  # (k,) their standard deviations; infinite where no round tells
    stands_out: NDArray[np.bool_]  # (k,) whether one cell alone holds more than the noise of all cells would explain

    @property
    def real(self) -> NDArray[np.bool_]:
        """Which clusters noise alone would not have made."""
        return self.stands_out | (self.estimates >= _DEVIATIONS * self.deviations)


def cells_counted(answered: Round, points: Array) -> tuple[NDArray[np.int64], Array] | None:
    """The cell of each point and the middle of each cell, where a round counts in several cells of all columns."""
    if (query := as_cells(answered.query)) and query.n_cells > 1:
        return query.cells(points), query.centers
    if grid := as_grid(answered.query):
        return grid.marginal.cells(points), grid.marginal.centers()
    return None


def sizes_by_counts(rounds: Sequence[Round], clusters: Clusters) -> Sizes:
    """Estimate how many records are in each cluster from the noisy counts of all rounds, without bias."""
    k = clusters.n
    weighted, precision, stands_out = np.zeros(k), np.zeros(k), np.zeros(k, dtype=np.bool_)
    for answered in rounds:
        counted = cells_counted(answered, clusters.points)
        if counted is None:
            continue
        cells, middles = counted
        owners, mass = clusters.of_cells(cells, middles)
        n_cells = len(owners)
        owns = np.zeros((n_cells, k))
        owns[np.arange(n_cells), owners] = 1.0
        covered = (owns * mass).sum(axis=0) / np.maximum(mass.sum(axis=0), 1e-300)
        deviation = answered.noise.deviation(float(answered.scales[0]))
        variances = deviation**2 * owns.sum(axis=0)
        # Cells that lie mostly elsewhere say nothing of a small cluster.
        usable = (variances > 0) & (covered >= 0.5)
        weighted[usable] += (answered.noisy[:n_cells] @ owns)[usable] / variances[usable]
        precision[usable] += 1.0 / variances[usable]
        limit = answered.noise.largest(n_cells, _FALSE_ALARM) * float(answered.scales[0])
        stands_out |= usable & (owns[answered.noisy[:n_cells] > limit].sum(axis=0) > 0)
    known = precision > 0
    estimates = np.divide(weighted, precision, out=np.zeros(k), where=known)
    deviations = np.divide(1.0, np.sqrt(precision), out=np.full(k, np.inf), where=known)
    return Sizes(estimates, deviations, stands_out)


def without_doubtful_clusters(
    rounds: Sequence[Round],
    points: Array,
    weights: Array,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = 4,
) -> Array:
    """The weights of a measure without the mass of small clusters whose size cannot be told from noise."""
    weights = np.array(weights)
    small = _SMALL * float(weights.sum()) / n_clusters
    for _ in range(n_clusters + 2):
        kept = np.flatnonzero(weights > 0)
        if len(kept) <= n_clusters:
            return weights
        clustering = weighted_kmeans(
            points[kept], weights[kept], n_clusters, n_restarts=n_restarts, rng=rng, max_iterations=60, tolerance=1e-4
        )
        clusters = Clusters(clustering.centers, WeightedPoints(points, weights))
        doubted = np.flatnonzero(clusters.sizes < small)
        if len(doubted) == 0 or len(doubted) == n_clusters:
            return weights
        noise = doubted[~sizes_by_counts(rounds, clusters).real[doubted]]
        if len(noise) == 0:
            return weights
        weights[np.isin(clusters.labels, noise)] = 0.0
    return weights
