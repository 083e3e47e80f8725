"""DP-KMEANS, the paper's Algorithm 1, and what every k-means algorithm shares with it.

All are refitted by weighted k-means, for any number of clusters. Starts do not look at the data: centres are spread out
by rejection, in a box or in a ball.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recoup.algorithms.base import Algorithm, Rng, Rounds, column_names, last_of, whole_fields
from recoup.domain import Domain, unclipped_points, uniform_points
from recoup.errors import Argument, ParameterError
from recoup.kernels.weighted_kmeans import Clustering, weighted_inertia, weighted_kmeans
from recoup.maxent.consistency import noisy_means_of
from recoup.maxent.sizes import sums_by_cell, without_doubtful_clusters
from recoup.queries.base import MAX_SIZE, Array, check_size
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.transcript.context import Context, Request

_OF_ANOTHER = 0.5  # of the loss: clusters so much better are not those of these cells
_CLEARLY_BETTER = 0.99
_FIRST_TRIES = 10
_TRIES = 100
_BISECTIONS = 20
_MOST_WORK, _FEWEST_RESTARTS = 2**28, 2  # of a refit: values that are compared with centres, once for each restart


class ClusteringAlgorithm(Algorithm):
    """An algorithm whose answer is centres."""

    __slots__ = ()

    n_clusters: int
    has_centers: ClassVar[bool] = True
    refit_restarts: ClassVar[int] = 40  # greedy k-means++ starts of a refit
    has_iterates: ClassVar[bool] = False  # whether rounds are iterates of the same clusters: the last is one more start

    def __post_init__(self) -> None:
        whole_fields(self)
        if self.n_clusters > MAX_SIZE // 2:  # their counts and sums would not fit into one answer
            advice = f": at most {MAX_SIZE // 2} clusters can be represented."
            raise ParameterError(Argument("n_clusters", str(self.n_clusters)), advice)

    def refit(
        self,
        context: Context,
        rounds: Rounds,
        points: Array,
        weights: Array,
        rng: Rng,
        *,
        n_clusters: int | None = None,
        n_restarts: int | None = None,
        keep_all: bool = False,
    ) -> Array:
        """The best clusters of weighted points of the unit domain, of this or another number.

        Mass that cannot be told from noise is removed first, unless all of it is to be kept.
        """
        wanted = self.n_clusters if n_clusters is None else n_clusters
        asked = as_cells(rounds[-1].query if rounds else None, "relative")
        n_restarts = self.refit_restarts if n_restarts is None else n_restarts
        n_restarts = max(_FEWEST_RESTARTS, min(n_restarts, _MOST_WORK // (points.size * wanted)))
        if asked is not None and asked.squares and wanted == self.n_clusters:
            # In many columns the means of these cells are all that is known: points inside them are only drawn. Unless
            # it is another release that they are drawn from, which knows more.
            measured_means = _clusters_of_cells(asked, points, weights, wanted, rng)
            other = weighted_kmeans(points, weights, wanted, n_restarts=n_restarts, rng=rng)
            own = weighted_inertia(points, weights, measured_means)
            return context.domain.clip(other.centers if other.inertia < _OF_ANOTHER * own else measured_means)
        if not keep_all:
            weights = without_doubtful_clusters(rounds, points, weights, wanted, rng)
        best = weighted_kmeans(points, weights, wanted, n_restarts=n_restarts, rng=rng)

        def from_centers(centers: Array) -> Clustering:
            return weighted_kmeans(points, weights, wanted, n_restarts=0, rng=rng, starts=centers[None])

        if self.has_iterates and wanted == self.n_clusters:
            best = min(best, from_centers(self.estimate(context, rounds)), key=lambda clustering: clustering.inertia)
        if asked is not None and asked.n_cells == wanted:
            # The means of these cells were measured; those of other clusters are only inferred.
            measured = from_centers(asked.centers)
            if best.inertia > _CLEARLY_BETTER * measured.inertia:
                best = measured
        return context.domain.clip(best.centers)

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """Centres in the user's units and in their order."""
        return in_order(context.domain.from_unit(answer))

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]] | None:
        """A number for each cluster, by columns."""
        return [str(k) for k in range(self.n_clusters)], column_names(context.domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class KMeans(ClusteringAlgorithm):
    """The paper's Algorithm 1: equal rounds, half of each for the counts and half for the sums.

    Args:
        n_clusters: K.
        n_rounds: T; the paper uses 5.

    Guarantees: round t asks for epsilon / T; over T rounds the whole budget is asked for. In the unit L1 ball that is
    noise of scale 2T / epsilon on counts and sums.

    >>> KMeans(n_clusters=3).n_rounds
    5
    """

    n_clusters: int
    n_rounds: int = 5

    type_name: ClassVar[str] = "kmeans-lloyd"
    refit_restarts: ClassVar[int] = 10  # beside the last iterate, which is a good start
    has_iterates: ClassVar[bool] = True

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """Ask for counts and sums around the current centres; none after the last round."""
        if len(rounds) >= self.n_rounds:
            return None
        check_size(self.n_clusters * (1 + context.domain.n_columns))
        centers = self.estimate(context, rounds) if rounds else spread_centers(context.domain, self.n_clusters, rng)
        return lloyd_request(centers, Fraction(1, self.n_rounds))

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The last iterate: noisy sum over noisy count, kept inside the domain."""
        means = noisy_means_of(context, last_of(rounds), "absolute")
        if means is None:
            raise ParameterError("only a round of counts and absolute sums has means.")
        return means

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """As many as were asked for."""
        return self.n_rounds, False


def _clusters_of_cells(query: VoronoiQuery, points: Array, weights: Array, n_clusters: int, rng: Rng) -> Array:
    """The clusters of the means of cells: the means themselves, if there are as many."""
    cells, k = query.cells(points), query.n_cells
    sizes = np.asarray(np.bincount(cells, weights, minlength=k), dtype=np.float64)
    means = sums_by_cell(cells, weights, points, k) / np.maximum(sizes, 1e-300)[:, None]
    means = np.where((sizes > 0)[:, None], means, query.centers)
    if k == n_clusters:
        return means
    return weighted_kmeans(means, sizes, n_clusters, n_restarts=ClusteringAlgorithm.refit_restarts, rng=rng).centers


def lloyd_request(centers: Array, share: Fraction, count_part: Fraction = Fraction(1, 2)) -> Request:
    """One round of counts and absolute sums around centres."""
    return Request(query=VoronoiQuery(centers=centers), share=share, split={"count": count_part, "sum": 1 - count_part})


def paired(centers: Array, others: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which centre belongs to which other one, such that they are closest all together: indices of both."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and the usual fit needs none of it

    rows, columns = linear_sum_assignment(((centers[:, None, :] - others[None, :, :]) ** 2).sum(axis=2))
    return rows, columns


def in_order(centers: Array) -> Array:
    """Centres by their first column, then by the next: how a search found them must not number them."""
    return np.asarray(centers[np.lexsort(centers.T[::-1])])


def spread_centers(domain: Domain, n_clusters: int, rng: Rng) -> Array:
    """Draw centres far from each other, without data.

    In a box, the sphere packing of Su et al. (CODASPY 2016): points at least r from the walls and 2r from each other, r
    halved whenever 100 draws fail. In a ball, uniform points as far apart as draws succeed, found by bisection.
    """
    if domain.kind == "box":
        radius = 1.0
        while (centers := _packed_in_box(domain.n_columns, n_clusters, radius, rng)) is None:
            radius /= 2.0
        return centers
    best = uniform_points(domain, n_clusters, rng)
    low, high = 0.0, 2.0 * float(np.sqrt(domain.n_columns))
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        centers = _apart(lambda n: unclipped_points(domain, n, rng), n_clusters, middle)
        if centers is None:
            high = middle
        else:
            best, low = domain.clip(centers), middle
    return best


def _packed_in_box(d: int, n_clusters: int, radius: float, rng: Rng) -> Array | None:
    inner = 1.0 - radius
    return _apart(lambda n: rng.uniform(-inner, inner, size=(n, d)), n_clusters, 2.0 * radius)


def _apart(draw: Callable[[int], Array], n_clusters: int, distance: float) -> Array | None:
    from scipy.spatial.distance import cdist

    first = draw(1)
    centers = np.empty((n_clusters, first.shape[1]))
    centers[0] = first[0]
    for k in range(1, n_clusters):
        candidates = draw(_TRIES)
        # Often one of the first fits, and then the distances of the others need not be known.
        for some in (candidates[:_FIRST_TRIES], candidates[_FIRST_TRIES:]):
            fits = np.flatnonzero(cdist(some, centers[:k]).min(axis=1) >= distance)
            if fits.size > 0:
                centers[k] = some[fits[0]]
                break
        else:
            return None
    return centers
