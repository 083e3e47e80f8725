"""Mass that may be nothing but noise, and must not become a cluster.

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
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_SMALL = 0.1  # of an equal part of the records: larger clusters are never doubted
_FALSE_ALARM = 0.01  # that any cell of an empty table stands out in a round
_DEVIATIONS = 4.0  # the place was chosen because its noise is large, among as many places as there are cells


def without_noise(
    context: Context,
    rounds: Sequence[Round],
    points: Array,
    weights: Array,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    n_restarts: int = 4,
) -> Array:
    """Take away the mass of small clusters whose size cannot be told from noise.

    Args:
        context: the terms of the release.
        rounds: queries with their noisy answers.
        points: (m, d) support in the unit domain.
        weights: (m,) the inferred measure.
        n_clusters: K, of the clustering that the measure is for.
        rng: harmless randomness.
        n_restarts: of k-means.

    Returns:
        (m,) the measure without that mass.
    """
    weights = np.array(weights)
    small = _SMALL * float(weights.sum()) / n_clusters
    for _ in range(n_clusters + 2):
        kept = np.flatnonzero(weights > 0)
        if len(kept) <= n_clusters:
            return weights
        found = weighted_kmeans(
            points[kept], weights[kept], n_clusters, n_restarts=n_restarts, rng=rng, max_iterations=60, tolerance=1e-4
        )
        cells = VoronoiQuery(centers=found.centers, sums="none").cells(points)
        sizes = np.bincount(cells, weights, minlength=n_clusters)
        doubted = np.flatnonzero(sizes < small)
        if len(doubted) == 0 or len(doubted) == n_clusters:
            return weights
        told = sizes_by_counts(rounds, points, weights, found.centers)
        noise = doubted[~told.real[doubted]]
        if len(noise) == 0:
            return weights
        weights[np.isin(cells, noise)] = 0.0
    return weights


class Sizes(NamedTuple):
    """What noisy counts tell about the sizes of clusters."""

    estimates: Array  # (k,) records, without bias
    deviations: Array  # (k,) their standard deviations; infinite where no round tells
    stands_out: NDArray[np.bool_]  # (k,) whether one cell alone holds more than the noise of all cells would explain

    @property
    def real(self) -> NDArray[np.bool_]:
        """Which clusters noise alone would not have made."""
        return self.stands_out | (self.estimates >= _DEVIATIONS * self.deviations)


def sizes_by_counts(rounds: Sequence[Round], points: Array, weights: Array, centers: Array) -> Sizes:
    """Estimate how many records are nearest to each centre, from the noisy counts of all rounds, without bias.

    Args:
        rounds: queries with their noisy answers; those without cells of all columns are passed over.
        points: (m, d) support in the unit domain.
        weights: (m,) the inferred measure: it says to which centre a cell mostly belongs.
        centers: (k, d).

    Returns:
        The estimates with their standard deviations, and which clusters have a cell that stands out.
    """
    k = len(centers)
    nearest = VoronoiQuery(centers=centers, sums="none")
    labels = nearest.cells(points)
    weighted, precision, stands_out = np.zeros(k), np.zeros(k), np.zeros(k, dtype=np.bool_)
    for answered in rounds:
        if (query := as_cells(answered.query)) and query.n_cells > 1:
            cells, middles = query.cells(points), query.centers
        elif grid := as_grid(answered.query):
            cells, middles = grid.marginal.cells(points), grid.marginal.centers()
        else:
            continue
        n_cells = len(middles)
        owns, covered = _owned(cells, labels, weights, nearest.cells(middles), k)
        deviation = answered.noise.deviation(float(answered.scales[0]))
        variances = deviation**2 * owns.sum(axis=0)
        # Cells that lie mostly elsewhere say nothing of a small cluster.
        told = (variances > 0) & (covered >= 0.5)
        weighted[told] += (answered.noisy[:n_cells] @ owns)[told] / variances[told]
        precision[told] += 1.0 / variances[told]
        limit = answered.noise.largest(n_cells, _FALSE_ALARM) * float(answered.scales[0])
        stands_out |= told & (owns[answered.noisy[:n_cells] > limit].sum(axis=0) > 0)
    told = precision > 0
    estimates = np.divide(weighted, precision, out=np.zeros(k), where=told)
    deviations = np.divide(1.0, np.sqrt(precision), out=np.full(k, np.inf), where=told)
    return Sizes(estimates, deviations, stands_out)


def _owned(
    cells: NDArray[np.int64], labels: NDArray[np.int64], weights: Array, label_of_middle: NDArray[np.int64], k: int
) -> tuple[Array, Array]:
    """Which cells lie mostly at which centre, by their mass, or by their middle if they are empty; (n_cells, k).

    And which part of the mass at each centre lies in such cells; (k,).
    """
    n_cells = len(label_of_middle)
    mass = np.bincount(cells * k + labels, weights, minlength=n_cells * k).reshape(n_cells, k)
    owner = np.where(mass.sum(axis=1) > 0, mass.argmax(axis=1), label_of_middle)
    owns = np.zeros((n_cells, k))
    owns[np.arange(n_cells), owner] = 1.0
    return owns, (owns * mass).sum(axis=0) / np.maximum(mass.sum(axis=0), 1e-300)
