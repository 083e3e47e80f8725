"""EUGkM and the hybrid of Su et al. (CODASPY 2016): k-means on noisy counts of a grid, perhaps a Lloyd round after it.

A grid takes one round, so no budget is split over iterations; the price is that records are known only up to their
cell. The number of cells balances that with noise. It needs the number of records, which is private here: a declared
one, or a noisy count for a sliver of the budget. A Lloyd round knows records better, but its noise grows with the
number of clusters, so the hybrid buys it, with half of the budget, only where its predicted error is below that of a
grid that gets all of it; it predicts before the grid is asked, so that the budget is always spent in full. Published
are the two halves, the split of the Lloyd round, and its error. Ours are both in a ball, where a sum moves by less than
in the box, and the middle of a cell instead of the mean of its records in the error of a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from recoup._validate import choice
from recoup.algorithms.base import Rng, Rounds, last_of
from recoup.algorithms.kmeans.lloyd import ClusteringAlgorithm, lloyd_request, spread_centers
from recoup.domain import Domain
from recoup.errors import Argument, ParameterError
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.consistency import noisy_means_of
from recoup.maxent.measure import total_of
from recoup.maxent.support import reachable_cells
from recoup.queries.base import MAX_SIZE, Array, check_size
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, as_grid
from recoup.transcript.context import Context, Request

Rule = Literal["eugkm", "rugnik"]
TOTAL_SHARE = Fraction(2, 100)  # of the budget, for a noisy number of records where none is declared
TYPICAL_OFFSET = 0.225  # the rho of Su et al.: of a centre from the middle, as a part of a column's range
_RECORDS_PER_CELL = 10.0  # the published constant: cells hold about 10 / epsilon records at the margin
_FEWEST_BINS = 2
_RESTARTS = 20
_SAMPLE, _LAST_ITERATIONS = 20_000, 30  # restarts look at a sample of the cells; the best one then sees all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class GridKMeans(ClusteringAlgorithm):
    """Private k-means on the noisy counts of one regular grid.

    Args:
        n_clusters: K.
        rule: how many cells: "eugkm", the published (N epsilon / 10)^(2d / (2 + d)), or "rugnik", a later rule that
            also looks at K.

    Guarantees: the shares of all rounds add up to 1 exactly. The grid has at least K cells that a record can be in, at
    least two bins per column and at most 2^20 cells, whatever the rule says; that allows up to 20 columns.

    >>> GridKMeans(n_clusters=3).rule
    'eugkm'
    """

    n_clusters: int
    rule: Rule = "eugkm"

    type_name: ClassVar[str] = "kmeans-grid"

    def __post_init__(self) -> None:
        ClusteringAlgorithm.__post_init__(self)
        choice(self.rule, "rule", ("eugkm", "rugnik"))

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """A noisy total if no number of records is declared, then the grid; none after it."""
        n_before = int(context.n_records is None)
        if not rounds:
            check_possible(context, self.n_clusters)
        if len(rounds) < n_before:
            return total_request(context)
        if len(rounds) > n_before:
            return None
        share = 1 - n_before * TOTAL_SHARE
        return choose_grid(context, self.n_clusters, records_known(context, rounds), share, self.rule).request

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """Weighted k-means on the cells, from a fixed seed, so that it is reproducible."""
        return centers_of_grid(context, rounds, self.n_clusters)

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """The grid, after a total where no number of records is declared."""
        return (2 if context.n_records is None else 1), False


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

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """A noisy total if no number of records is declared, the grid, and the Lloyd round where it is planned."""
        n_before = int(context.n_records is None)
        if not rounds:
            check_possible(context, self.n_clusters)
            check_size(self.n_clusters * (1 + context.domain.n_columns))
            part = best_count_part(context)
            context.weights([part, 1 - part])
        if len(rounds) < n_before:
            return total_request(context)
        plan = choose_rounds(context, self.n_clusters, records_known(context, rounds))
        if len(rounds) == n_before:
            return plan.grid.request
        if len(rounds) > n_before + 1 or not plan.lloyd_share:
            return None
        return lloyd_request(self.estimate(context, rounds), plan.lloyd_share, best_count_part(context))

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The noisy means of the Lloyd round; without one, weighted k-means on the grid."""
        means = noisy_means_of(context, last_of(rounds), "absolute")
        return centers_of_grid(context, rounds, self.n_clusters) if means is None else means

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """The grid, after a total where no number of records is declared; and a Lloyd round, perhaps."""
        return (3 if context.n_records is None else 2), True


class ChosenGrid(NamedTuple):
    """A grid, its share of the budget, and how many bins per column its rule asked for."""

    query: GridQuery
    share: Fraction
    asked: int

    @property
    def request(self) -> Request:
        """What is asked of the curator."""
        return Request(query=self.query, share=self.share, split={"count": Fraction(1)})

    @property
    def reason(self) -> str:
        """Why the grid differs from its rule, in words; empty if it does not."""
        used = self.query.sides[0]
        if used < self.asked:
            return f"lowered from {self.asked} bins a column to keep to {MAX_SIZE} cells"
        if used > self.asked:
            return f"raised from {self.asked} bins a column: a grid needs two, and as many cells as clusters"
        return ""


def choose_grid(context: Context, n_clusters: int, n: float, share: Fraction, rule: Rule) -> ChosenGrid:
    """The grid, of equally many bins along every column, for n records and a share of the budget."""
    d = context.domain.n_columns
    epsilon = context.effective_epsilon(float(share))
    if rule == "eugkm":
        asked = round((max(n, 1.0) * epsilon / _RECORDS_PER_CELL) ** (2.0 / (2.0 + d)))
    else:
        asked = _rugnik_bins(max(n, 1.0), epsilon, n_clusters, d)
    bins = min(max(asked, _FEWEST_BINS), most_bins(d))
    if _n_reachable(bins, context.domain) < n_clusters:
        bins = _bins_for_clusters(context.domain, n_clusters)
    return ChosenGrid(GridQuery(sides=(bins,) * d), share, asked)


def most_bins(n_columns: int) -> int:
    """The most bins per column for which a grid keeps to 2^20 cells."""
    bins = int(MAX_SIZE ** (1.0 / n_columns)) + 1
    while bins**n_columns > MAX_SIZE:
        bins -= 1
    return bins


def check_possible(context: Context, n_clusters: int) -> None:
    """Refuse, before anything is spent, what no grid can do or no noise can represent."""
    d = context.domain.n_columns
    if most_bins(d) < _FEWEST_BINS:
        most = f"a grid of two bins per column has more than {MAX_SIZE} cells; up to 20 columns are possible. Use "
        instead = ", which asks for marginals in many columns."
        raise ParameterError(f"{d} columns: {most}", Argument("algorithm", '"adaptive"'), instead)
    _bins_for_clusters(context.domain, n_clusters)
    context.calibrated(TOTAL_SHARE)


def total_request(context: Context) -> Request:
    """Ask how many records there are, for a sliver of the budget."""
    query = VoronoiQuery(centers=np.zeros((1, context.domain.n_columns)), sums="none")
    return Request(query=query, share=TOTAL_SHARE, split={"count": Fraction(1)})


def records_known(context: Context, rounds: Rounds) -> float:
    """The declared number of records, or the noisy total of the first round; at least 1."""
    return total_of(context, rounds[:1]) if context.n_records is None else float(context.n_records)


def centers_of_grid(context: Context, rounds: Rounds, n_clusters: int) -> Array:
    """Cluster the cells of the first grid that a record can be in by their noisy counts above zero.

    A cell stands for its middle, moved into the domain. Where fewer than K counts are above zero, the K largest are the
    centres. Without a grid these are centres that do not look at data.
    """
    last_of(rounds)
    rng, domain = np.random.default_rng(0), context.domain
    grids = [(grid, answered.noisy) for answered in rounds if (grid := as_grid(answered.query))]
    if not grids:
        return spread_centers(domain, n_clusters, rng)
    grid, noisy = grids[0]
    cells = np.flatnonzero(reachable_cells(grid, domain))
    if np.count_nonzero(noisy[cells] > 0.0) > n_clusters:
        cells = cells[noisy[cells] > 0.0]
    else:
        cells = cells[np.argsort(-noisy[cells], kind="stable")[:n_clusters]]
    corners = np.stack(np.unravel_index(cells, grid.sides), axis=1)
    points = domain.clip((2.0 * corners + 1.0) / np.array(grid.sides) - 1.0)
    return domain.clip(_cluster(points, np.maximum(noisy[cells], 0.0), n_clusters, rng))


def _cluster(points: Array, weights: Array, n_clusters: int, rng: Rng) -> Array:
    if len(points) <= n_clusters:
        return points[np.arange(n_clusters) % len(points)]
    n_sample = max(_SAMPLE, 10 * n_clusters)
    if len(points) <= n_sample:
        return weighted_kmeans(points, weights, n_clusters, n_restarts=_RESTARTS, rng=rng).centers
    sample = points[rng.choice(len(points), size=n_sample, p=weights / weights.sum())]
    of_sample = weighted_kmeans(sample, np.ones(n_sample), n_clusters, n_restarts=_RESTARTS, rng=rng)
    starts = of_sample.centers[None]
    return weighted_kmeans(
        points, weights, n_clusters, n_restarts=0, rng=rng, starts=starts, max_iterations=_LAST_ITERATIONS
    ).centers


def _rugnik_bins(n: float, epsilon: float, n_clusters: int, d: int) -> int:
    """The bins per column that minimise the bound of Muthukrishnan and Tandon (arXiv 2603.26963) on the loss."""
    radius = n_clusters ** (-1.0 / d)  # of a cluster, if all of them tile the box
    # The bound's minimum lies where its first two terms, which fall with m, meet the third, which rises.
    bins = np.unique(np.rint(np.geomspace(1.0, 2.0 * MAX_SIZE, 20_000)))
    quantisation = n / (3.0 * bins**2) + 2.0 * np.sqrt(n / 3.0) * radius / bins
    with np.errstate(over="ignore"):
        noise = np.sqrt(2.0) * radius**2 * bins ** (d / 2.0) / epsilon
    return int(bins[np.argmin(quantisation + noise)])


def _bins_for_clusters(domain: Domain, n_clusters: int) -> int:
    """The fewest bins per column, up to an eighth, that give every cluster a cell of its own."""
    d = domain.n_columns
    bins, most = max(_FEWEST_BINS, int(n_clusters ** (1.0 / d))), most_bins(d)
    while bins <= most:
        if _n_reachable(bins, domain) >= n_clusters:
            return bins
        bins = most if bins < most < bins + max(1, bins // 8) else bins + max(1, bins // 8)
    few = f": no grid of at most {MAX_SIZE} cells has so many in this domain of {d} columns."
    advice = f"{few} Ask for fewer clusters, or use "
    raise ParameterError(Argument("n_clusters", str(n_clusters)), advice, Argument("algorithm", '"adaptive"'), ".")


def _n_reachable(bins: int, domain: Domain) -> int:
    query = GridQuery(sides=(bins,) * domain.n_columns)
    return query.size if domain.kind == "box" else int(np.count_nonzero(reachable_cells(query, domain)))


class HybridPlan(NamedTuple):
    """What the hybrid will ask for, and the predicted squared displacements of all centres that decided it."""

    grid: ChosenGrid
    lloyd_share: Fraction  # of the budget; 0 if there is no Lloyd round
    grid_error: float  # with a grid alone
    lloyd_error: float  # with a Lloyd round after a grid of half the budget


def choose_rounds(context: Context, n_clusters: int, n: float) -> HybridPlan:
    """Decide between a grid alone and a grid with a Lloyd round, from public numbers and a rough number of records."""
    whole = Fraction(1) if context.n_records is not None else 1 - TOTAL_SHARE
    alone = choose_grid(context, n_clusters, n, whole, "eugkm")
    grid_error = predicted_grid_error(context, alone.query, n_clusters, n, whole)
    lloyd_error = predicted_lloyd_error(context, n_clusters, n, whole / 2)
    if lloyd_error >= grid_error:
        return HybridPlan(alone, Fraction(0), grid_error, lloyd_error)
    return HybridPlan(choose_grid(context, n_clusters, n, whole / 2, "eugkm"), whole / 2, grid_error, lloyd_error)


def predicted_grid_error(context: Context, query: GridQuery, n_clusters: int, n: float, share: Fraction) -> float:
    """Predict by how far EUGkM moves all centres together, in squared distance, columns scaled to [-1, 1].

    For clusters that are equal cubes, d M K^2 variance / (3 K^(2/d) N^2) + K d / (3 m^2) min(1, K^(1/d) / m), M the
    cells that a record can be in. Noise: a centre is the mean of M / K noisy cells. Cells: along one column it is the
    mean of the middles of m / K^(1/d) bins, each off by up to half a bin, unless bins are as wide as clusters.
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
