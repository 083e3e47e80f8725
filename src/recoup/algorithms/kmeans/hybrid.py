"""The hybrid of Su et al. (CODASPY 2016): a grid finds the clusters, one Lloyd round then measures their means.

A grid knows records only up to their cell; a round of noisy counts and sums does not, but its noise grows with the
number of clusters. So the second round is bought, with half of the budget, only where its predicted error is below that
of a grid that gets the whole budget. The prediction uses public numbers and the noisy number of records, before the
grid is asked: the budget is always spent in full.

Published are the two halves, the split of the Lloyd round between counts and sums, and its error. Ours are the split
and the error in a ball, where a sum moves by less than in the box, and the error of a grid, which Su et al. give only
in part: noise as in their analysis, and the middle of a cell instead of the mean of its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from recoup.algorithms.kmeans.base import ClusteringAlgorithm
from recoup.algorithms.kmeans.grid import (
    TOTAL_SHARE,
    ChosenGrid,
    centers_of_grid,
    check_possible,
    choose_grid,
    records_known,
    total_request,
)
from recoup.algorithms.kmeans.lloyd import noisy_means
from recoup.maxent.fine_grid import reachable_cells
from recoup.queries.base import Array, check_size
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

# The rho of Su et al.: the typical distance of a centre from the middle, as a part of a column's range.
TYPICAL_OFFSET = 0.225


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridKMeans(ClusteringAlgorithm):
    """EUGkM, then one round of DP-KMEANS from its centres where that is predicted to help.

    Args:
        n_clusters: K.

    Guarantees: the shares of all rounds add up to 1 exactly, with or without the second part.

    >>> HybridKMeans(n_clusters=3).n_clusters
    3
    """

    n_clusters: int

    type_name: ClassVar[str] = "kmeans-hybrid"

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """A noisy total if no number of records is declared, the grid, and the Lloyd round where it is planned."""
        if not rounds:
            check_possible(context, self.n_clusters)
            check_size(self.n_clusters * (1 + context.domain.n_columns))
            part = best_count_part(context)
            context.weights([part, 1 - part])
        n_before = 0 if context.n_records is not None else 1
        if len(rounds) < n_before:
            return total_request(context)
        plan = choose_rounds(context, self.n_clusters, records_known(context, rounds))
        if len(rounds) == n_before:
            return Request(query=plan.grid.query, share=plan.grid_share, split={"count": Fraction(1)})
        if len(rounds) > n_before + 1 or not plan.lloyd_share:
            return None
        return lloyd_request(context, centers_of_grid(context, rounds, self.n_clusters), plan.lloyd_share)

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The noisy means of the Lloyd round; without one, weighted k-means on the grid."""
        if rounds and isinstance(rounds[-1].query, VoronoiQuery) and rounds[-1].query.sums == "absolute":
            return noisy_means(context, rounds[-1])
        return centers_of_grid(context, rounds, self.n_clusters)

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """The grid, after a total where no number of records is declared; and a Lloyd round, perhaps."""
        return (3 if context.n_records is None else 2), True


class HybridPlan(NamedTuple):
    """What the hybrid will ask for, and the predicted errors that decided it."""

    grid: ChosenGrid  # the grid that is asked for
    grid_share: Fraction  # its share of the budget
    lloyd_share: Fraction  # that of the Lloyd round; 0 if there is none
    grid_error: float  # predicted squared displacement of all centres with a grid alone
    lloyd_error: float  # the same with a Lloyd round after a grid of half the budget


def choose_rounds(context: Context, n_clusters: int, n: float) -> HybridPlan:
    """Decide between a grid alone and a grid with a Lloyd round, from public numbers and a rough number of records."""
    whole = Fraction(1) if context.n_records is not None else 1 - TOTAL_SHARE
    alone = choose_grid(context, n_clusters, n, whole, "eugkm")
    grid_error = predicted_grid_error(context, alone.query, n_clusters, n, whole)
    lloyd_error = predicted_lloyd_error(context, n_clusters, n, whole / 2)
    if lloyd_error >= grid_error:
        return HybridPlan(alone, whole, Fraction(0), grid_error, lloyd_error)
    half = choose_grid(context, n_clusters, n, whole / 2, "eugkm")
    return HybridPlan(half, whole / 2, whole / 2, grid_error, lloyd_error)


def predicted_grid_error(context: Context, query: GridQuery, n_clusters: int, n: float, share: Fraction) -> float:
    """Predict by how far EUGkM moves all centres together, in squared distance, columns scaled to [-1, 1].

    Two parts are added up, for clusters that are equal cubes. Noise: a centre is the mean of M / K cells whose counts
    have a variance each. Cells: along one column a centre is the mean of the middles of the m / K^(1/d) bins that its
    cluster spans, each off by up to half a bin; where bins are as wide as clusters nothing averages out. All in all
    d M K^2 variance / (3 K^(2/d) N^2) + K d / (3 m^2) min(1, K^(1/d) / m), M the cells that a record can be in.
    """
    d, bins = query.n_columns, query.sides[0]
    n_cells = int(np.count_nonzero(reachable_cells(query, context.domain)))
    width = float(n_clusters ** (1.0 / d))
    variance = 2.0 / context.effective_epsilon(float(share)) ** 2
    noise = d * n_cells * variance * (n_clusters / (width * n)) ** 2 / 3.0
    return noise + n_clusters * d / (3.0 * bins**2) * min(1.0, width / bins)


def predicted_lloyd_error(context: Context, n_clusters: int, n: float, share: Fraction) -> float:
    """Predict by how far noise moves the centres of one Lloyd round with the best split, all of them together.

    In squared distance; in the box with Laplace noise, 2 K^3 (d + a)^3 / (N e)^2.
    """
    part = float(best_count_part(context))
    bound = context.domain.sum_bound(context.noise.norm)
    count_deviation = sqrt(2.0) / context.effective_epsilon(float(share) * part)
    sum_deviation = sqrt(2.0) * bound / context.effective_epsilon(float(share) * (1.0 - part))
    variance = sum_deviation**2 + (2.0 * TYPICAL_OFFSET * count_deviation) ** 2
    return n_clusters * context.domain.n_columns * variance * (n_clusters / n) ** 2


def best_count_part(context: Context) -> Fraction:
    """The part of a Lloyd round's budget for its counts that makes noisy means most accurate.

    In the box with Laplace noise a count gets a = (4 d 0.225^2)^(1/3) times the budget of one coordinate of a sum, as
    published; the same minimisation gives it for a ball and for Gaussian noise, whose budgets add up as squares.
    """
    ratio = 2.0 * TYPICAL_OFFSET / context.domain.sum_bound(context.noise.norm)
    odds = ratio ** (2.0 / 3.0) if context.budget_measure == "pure" else ratio
    return Fraction(min(max(odds / (1.0 + odds), 0.01), 0.99)).limit_denominator(1000)


def lloyd_request(context: Context, centers: Array, share: Fraction) -> Request:
    """Ask for counts and absolute sums around centres, with the best split."""
    part = best_count_part(context)
    return Request(query=VoronoiQuery(centers=centers), share=share, split={"count": part, "sum": 1 - part})
