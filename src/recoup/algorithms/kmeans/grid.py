"""EUGkM of Su et al. (CODASPY 2016): noisy counts on a regular grid, then weighted k-means on its cells.

One round, so no budget is split over iterations; the price is that records are known only up to their cell. The number
of cells balances the two. It needs the number of records, which is private here: a declared one, or a noisy count for a
sliver of the budget. Noise is drawn for every cell, so that a grid is capped at a public number of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from recoup._validate import choice
from recoup.algorithms.kmeans.base import ClusteringAlgorithm, spread_centers
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.fine_grid import reachable_cells
from recoup.maxent.measure import total_of
from recoup.queries.base import MAX_SIZE, Array, of_kind
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, as_grid
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

Rule = Literal["eugkm", "rugnik"]
RULES: tuple[Rule, ...] = ("eugkm", "rugnik")
TOTAL_SHARE = Fraction(2, 100)  # of the budget, for a noisy number of records where none is declared
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
    least two bins a column and at most 2^20 cells, whatever the rule says; that allows up to 20 columns.

    >>> GridKMeans(n_clusters=3).rule
    'eugkm'
    """

    n_clusters: int
    rule: Rule = "eugkm"

    type_name: ClassVar[str] = "kmeans-grid"

    def __post_init__(self) -> None:
        ClusteringAlgorithm.__post_init__(self)
        choice(self.rule, "rule", RULES)

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """A noisy total if no number of records is declared, then the grid; none after it."""
        if not rounds:
            check_possible(context, self.n_clusters)
        n_before = 0 if context.n_records is not None else 1
        if len(rounds) > n_before:
            return None
        if len(rounds) < n_before:
            return total_request(context)
        share = Fraction(1) - n_before * TOTAL_SHARE
        grid = choose_grid(context, self.n_clusters, records_known(context, rounds), share, self.rule)
        return Request(query=grid.query, share=share, split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """Weighted k-means on the cells, from a fixed seed, so that it is reproducible."""
        return centers_of_grid(context, rounds, self.n_clusters)

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """The grid, after a total where no number of records is declared."""
        return (2 if context.n_records is None else 1), False


class ChosenGrid(NamedTuple):
    """A grid, and how many bins a column its rule asked for."""

    query: GridQuery
    asked: int

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
    return ChosenGrid(GridQuery(sides=(bins,) * d), asked)


def most_bins(n_columns: int) -> int:
    """The most bins a column for which a grid keeps to 2^20 cells."""
    bins = int(MAX_SIZE ** (1.0 / n_columns)) + 1
    while bins**n_columns > MAX_SIZE:
        bins -= 1
    return bins


def check_possible(context: Context, n_clusters: int) -> None:
    """Refuse, before anything is spent, what no grid can do or no noise can represent."""
    d = context.domain.n_columns
    if most_bins(d) < _FEWEST_BINS:
        raise ParameterError(
            f"{d} columns: a grid of two bins a column has more than {MAX_SIZE} cells; up to 20 columns are possible. "
            'Use the adaptive algorithm (algorithm="adaptive"), which asks for marginals in many columns.'
        )
    _bins_for_clusters(context.domain, n_clusters)
    context.calibrated(TOTAL_SHARE)


def total_request(context: Context) -> Request:
    """Ask how many records there are, for a sliver of the budget."""
    query = VoronoiQuery(centers=np.zeros((1, context.domain.n_columns)), sums="none")
    return Request(query=query, share=TOTAL_SHARE, split={"count": Fraction(1)})


def records_known(context: Context, rounds: Sequence[Round]) -> float:
    """The declared number of records, or the noisy total of the first round; at least 1."""
    return total_of(context, rounds[:1]) if context.n_records is None else float(context.n_records)


def centers_of_grid(context: Context, rounds: Sequence[Round], n_clusters: int) -> Array:
    """Cluster the cells of the first grid by their noisy counts; counts below zero weigh nothing.

    Without a grid these are centres that do not look at data. A function of its arguments. Cells that no record can be
    in are left out, and the others stand for their middle, moved into the domain. Where fewer than K counts are above
    zero, the K largest are the centres.
    """
    if not rounds:
        raise ParameterError("there is no estimate before the first round.")
    rng = np.random.default_rng(0)
    answered = next((r for r in rounds if as_grid(r.query)), None)
    if answered is None:
        return spread_centers(context.domain, n_clusters, rng)
    grid = of_kind(answered.query, GridQuery)
    sides, noisy = grid.sides, answered.noisy
    cells = np.flatnonzero(reachable_cells(grid, context.domain))
    if np.count_nonzero(noisy[cells] > 0.0) > n_clusters:
        cells = cells[noisy[cells] > 0.0]
    else:
        cells = cells[np.argsort(-noisy[cells], kind="stable")[:n_clusters]]
    corners = np.stack(np.unravel_index(cells, sides), axis=1)
    points = context.domain.clip((2.0 * corners + 1.0) / np.array(sides) - 1.0)
    return context.domain.clip(_cluster(points, np.maximum(noisy[cells], 0.0), n_clusters, rng))


def _cluster(points: Array, weights: Array, n_clusters: int, rng: np.random.Generator) -> Array:
    if len(points) <= n_clusters:
        return points[np.arange(n_clusters) % len(points)]
    if len(points) <= max(_SAMPLE, 10 * n_clusters):
        return weighted_kmeans(points, weights, n_clusters, n_restarts=_RESTARTS, rng=rng).centers
    chosen = rng.choice(len(points), size=max(_SAMPLE, 10 * n_clusters), p=weights / weights.sum())
    sample = points[chosen]
    found = weighted_kmeans(sample, np.ones(len(sample)), n_clusters, n_restarts=_RESTARTS, rng=rng)
    starts = found.centers[None]
    return weighted_kmeans(
        points, weights, n_clusters, n_restarts=0, rng=rng, starts=starts, max_iterations=_LAST_ITERATIONS
    ).centers


def _rugnik_bins(n: float, epsilon: float, n_clusters: int, d: int) -> int:
    """The bins a column that minimise the bound of Muthukrishnan and Tandon (arXiv 2603.26963) on the loss."""
    radius = n_clusters ** (-1.0 / d)  # of a cluster, if all of them tile the box
    # The bound's minimum lies where its first two terms, which fall with m, meet the third, which rises.
    bins = np.unique(np.rint(np.geomspace(1.0, 2.0 * MAX_SIZE, 20_000)))
    quantisation = n / (3.0 * bins**2) + 2.0 * np.sqrt(n / 3.0) * radius / bins
    with np.errstate(over="ignore"):
        noise = np.sqrt(2.0) * radius**2 * bins ** (d / 2.0) / epsilon
    return int(bins[np.argmin(quantisation + noise)])


def _bins_for_clusters(domain: Domain, n_clusters: int) -> int:
    """The fewest bins a column, up to an eighth, that give every cluster a cell of its own."""
    d = domain.n_columns
    bins, most = max(_FEWEST_BINS, int(n_clusters ** (1.0 / d))), most_bins(d)
    while bins <= most:
        if _n_reachable(bins, domain) >= n_clusters:
            return bins
        bins = most if bins < most < bins + max(1, bins // 8) else bins + max(1, bins // 8)
    raise ParameterError(
        f"n_clusters={n_clusters}: no grid of at most {MAX_SIZE} cells has so many in this domain of {d} columns. Ask "
        'for fewer clusters, or use the adaptive algorithm (algorithm="adaptive").',
        parameter="n_clusters",
    )


def _n_reachable(bins: int, domain: Domain) -> int:
    query = GridQuery(sides=(bins,) * domain.n_columns)
    return prod(query.sides) if domain.kind == "box" else int(np.count_nonzero(reachable_cells(query, domain)))
