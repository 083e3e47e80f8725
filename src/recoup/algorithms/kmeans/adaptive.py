"""Our default: each query is chosen from everything that was answered so far.

A sliver of the budget counts the records. A first look (a grid in few dimensions, marginals in many) says roughly where
they are; in few dimensions a glance before it says whether they fill their bounds, or in which part the grid is to be
fine. Rounds of counts in many cells sharpen that; rounds of counts and relative, clipped sums then measure means.
Between rounds the maximum-entropy measure of all answers so far decides where the next cells lie and how wide they are.
Cells need not be the clusters: disjoint cells cost no budget, so there are more of them than clusters until the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from recoup.algorithms.base import Rng, Rounds, last_of
from recoup.algorithms.kmeans import wide
from recoup.algorithms.kmeans.grid import TOTAL_SHARE, total_request
from recoup.algorithms.kmeans.lloyd import ClusteringAlgorithm
from recoup.domain import Domain
from recoup.kernels.weighted_kmeans import Clustering, weighted_kmeans
from recoup.maxent.clouds import clouds
from recoup.maxent.consistency import noisy_means_of
from recoup.maxent.measure import by_cells, maxent, total_of, weighted_quantiles, where_centers_settle
from recoup.maxent.sizes import without_doubtful_clusters
from recoup.maxent.support import Measure, likely_counts, reachable_cells
from recoup.queries.base import MAX_SIZE, Array, Query, check_size, of_kind
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery, Marginal, as_grid, marginals_of_domain
from recoup.transcript.context import Context, Law, Request
from recoup.transcript.round import Round

_GRID_SHARE = Fraction(40, 100)
# From this N epsilon / K on, a few large cells are counted before, to see whether records fill their bounds.
_GLANCED = 100
_GLANCE_SHARE, _GLANCE_SIDES = Fraction(4, 100), (16, 12, 7)  # by dimensions
_FALSE_ALARM = 0.01  # that any of these cells seems to hold records, and is empty
_OUTSIDE = 0.1  # of the records, at most, outside of the part that they are said to fill
_MAX_CLOSER_CELLS = 1_000
_MARGINALS_SHARE = Fraction(20, 100)
_MANY_MARGINALS_SHARE = Fraction(5, 100)  # in many columns a product of marginals tells little of where records are
_COUNT_PART = Fraction(15, 100)  # of a round with sums
_GRID_DIMENSIONS, _MANY_DIMENSIONS = 3, 10
_MAX_GRID_CELLS = 200_000
_POINTS_BETWEEN, _POINTS_SETTLING = 6_000, 4_000
_RESTARTS_BETWEEN, _RESTARTS_FOR_CLUSTERS = 12, 40
# N epsilon / K from which on centres are settled, after a round for rival clusters; and settled in more rounds.
_SETTLED, _SETTLED_LONGER = 20_000, 200_000
_RIVAL_DIFFERS = 1e-3  # in the loss: from there on clusters are others, not the same ones found again
_SEARCH_PART = Fraction(1, 6)  # of what is spent on sums, a round before centres are settled
# The distance by which centres may be off, in units of a cell's root mean square distance from its centre.
_SHIFT_SEARCHING, _SHIFT_SETTLING = 0.5, 0.2
_RADIUS_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0)
_SMALLEST_RADIUS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveKMeans(ClusteringAlgorithm):
    """Private k-means whose cells and clipping radii are inferred from all earlier rounds.

    Args:
        n_clusters: K.

    Guarantees: the shares of all rounds add up to 1 exactly; queries depend on noisy answers alone.

    >>> AdaptiveKMeans(n_clusters=3).n_clusters
    3
    """

    n_clusters: int

    type_name: ClassVar[str] = "kmeans-adaptive"

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """The next stage's query: total, glance, first look, counts, sums; none after the last."""
        check_size(self.n_clusters * (context.domain.n_columns + (2 if wide.is_wide(context) else 1)))
        if not rounds:  # what the smallest shares could not represent is refused before anything is spent
            context.weights([_COUNT_PART, 1 - _COUNT_PART])
            context.calibrated(TOTAL_SHARE)
        stages, n = self._stages(context, rounds)
        if len(rounds) >= len(stages):
            return None
        stage = stages[len(rounds)]
        if stage.kind == "total":
            return total_request(context)
        if stage.kind == "glance":
            return stage.request(_glance(context))
        if stage.kind == "first look":
            glance = rounds[-1] if rounds and stages[len(rounds) - 1].kind == "glance" else None
            if glance is not None and _filled(context, glance, n) <= 0.5**context.domain.n_columns:
                return stage.request(_finer_where_records_are(context, glance, n, stage.share))
            return stage.request(_first_look(context, self.n_clusters, n, stage.share))
        n_settling = sum(before.settles for before in stages[: len(rounds)])
        many = wide.is_wide(context)
        if many:
            n_points = _POINTS_SETTLING if stage.settles else _POINTS_BETWEEN
            drawn = clouds(context, rounds, n_points, rng, total=total_of(context, rounds), unsure=True)
            measure = Measure(points=drawn.points, weights=drawn.weights, solution=None)
            centers = wide.next_centers(rounds, drawn, stage.n_cells, self.n_clusters, rng)
        elif stage.settles:
            measure = where_centers_settle(context, rounds, n_settling)
        else:
            measure = maxent(by_cells(context, rounds, rng, n_points=_POINTS_BETWEEN, n_settling=n_settling))
        if stage.kind == "counts":
            centers = centers if many else _kmeans(measure, stage.n_cells, 2, rng)
            return stage.request(VoronoiQuery(centers=centers, sums="none"))
        if not many:
            weights = without_doubtful_clusters(rounds, measure.points, measure.weights, self.n_clusters, rng)
            measure = replace(measure, weights=weights)
            centers = self._next_centers(rounds, stages, measure, rng)
        shift = _SHIFT_SETTLING if stage.settles else _SHIFT_SEARCHING
        radii = _radii(measure, centers, _sum_strength(context, 1.0, stage.share), shift, context)
        norm = context.noise.norm
        return stage.request(VoronoiQuery(centers=centers, sums="relative", radii=radii, norm=norm, squares=many))

    @classmethod
    def law(cls, domain: Domain, delta: Fraction) -> Law:
        """Laplace noise in few columns even where a delta allows Gaussian noise: most is spent there on counts."""
        return "gaussian" if delta and not _has_few(domain) else "laplace"

    def advice(self, context: Context) -> str | None:
        """Gaussian noise, in many columns, where pure epsilon is too weak."""
        return wide.advice(context)

    def settling(self, context: Context, rounds: Rounds) -> int:
        """How many of the last rounds settled the centres; none in a transcript of another version's plan."""
        planned = self._stages(context, rounds)[0][: len(rounds)] if rounds else ()
        if [stage.share for stage in planned] != [answered.share for answered in rounds]:
            return 0
        return sum(stage.settles for stage in planned)

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The clusters of the measure that explains all rounds; from a fixed seed, so that it is reproducible."""
        last_of(rounds)
        rng = np.random.default_rng(0)
        n_settling = self.settling(context, rounds)
        measure = maxent(by_cells(context, rounds, rng, n_points=_POINTS_BETWEEN, n_settling=n_settling))
        weights = without_doubtful_clusters(rounds, measure.points, measure.weights, self.n_clusters, rng)
        return context.domain.clip(_kmeans(replace(measure, weights=weights), self.n_clusters, 10, rng))

    def without_inference(self, context: Context, rounds: Rounds) -> Array | None:
        """The noisy means of the last round's cells, since its own answer is inferred; none where that has no sums."""
        return noisy_means_of(context, rounds[-1])

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """Between the plans of the smallest and of the largest table: the first answers decide."""
        fewest, most = (len(plan_stages(context, self.n_clusters, size)) for size in (1.0, 2.0**60))
        return most, fewest < most

    def _stages(self, context: Context, rounds: Rounds) -> tuple[tuple[Stage, ...], float]:
        """The plan, and the number of records that it is made for: both from the first rounds, once these are there."""
        n_first = 1 if context.n_records is not None else 2
        # The plan must not change on the way, or its shares would not add up: later totals do not enter it.
        n = total_of(context, rounds[:n_first]) if rounds else float(context.n_records or 1)
        # What was asked decides whether there was a glance, whatever that says of the number of records.
        glanced = _is_glance(context, rounds[n_first - 1]) if len(rounds) >= n_first else None
        return plan_stages(context, self.n_clusters, n, glanced=glanced), n

    def _next_centers(self, rounds: Rounds, stages: Sequence[Stage], measure: Measure, rng: Rng) -> Array:
        """K-means of the measure; where centres settle, Lloyd's iteration from where they were."""
        stage, before = stages[len(rounds)], rounds[-1:]
        if stage.kind == "sums":
            more = stage.n_cells > self.n_clusters
            return _kmeans(measure, stage.n_cells, _RESTARTS_BETWEEN if more else _RESTARTS_FOR_CLUSTERS, rng)
        if stages[len(rounds) - 1].kind == "rival":
            before = rounds[-2:]
        starts = of_kind(max(before, key=_explained_squares).query, VoronoiQuery).centers[None]
        settled = weighted_kmeans(measure.points, measure.weights, stage.n_cells, n_restarts=0, rng=rng, starts=starts)
        return _rival(measure, settled, rng) if stage.kind == "rival" else settled.centers


class Stage(NamedTuple):
    """One planned round: what it asks for, its share of the budget, and in how many cells."""

    kind: Literal["total", "glance", "first look", "counts", "sums", "rival", "settle"]
    share: Fraction
    n_cells: int
    squares: bool = False  # whether cells with sums are asked for their spread, too

    @property
    def settles(self) -> bool:
        """Whether the cells are meant to be the clusters that are released, or their rivals."""
        return self.kind in ("rival", "settle")

    @property
    def split(self) -> dict[str, Fraction]:
        """How the share is split over the answer."""
        with_sums = self.kind == "sums" or self.settles
        if self.squares:
            return wide.SPLIT
        return {"count": _COUNT_PART, "sum": 1 - _COUNT_PART} if with_sums else {"count": Fraction(1)}

    def request(self, query: Query) -> Request:
        """Ask this for the stage's share of the budget."""
        return Request(query=query, share=self.share, split=self.split)


def plan_stages(context: Context, n_clusters: int, n: float, *, glanced: bool | None = None) -> tuple[Stage, ...]:
    """The rounds for about n records, from public numbers alone, with a glance or not; their shares add up to 1.

    >>> from recoup.domain import Box
    >>> terms = Context(domain=Box([0, 0], [1, 1]), epsilon=Fraction(1))
    >>> [(stage.kind, stage.n_cells) for stage in plan_stages(terms, 5, 10_000)]
    [('total', 1), ('glance', 144), ('first look', 361), ('counts', 150), ('sums', 15), ('sums', 5)]
    """
    if wide.is_wide(context):
        return _many_columns(context, n_clusters, n)
    d, k = context.domain.n_columns, n_clusters
    few, many = _has_few(context.domain), d > _MANY_DIMENSIONS
    per_cluster = n * context.effective_epsilon() / k
    glanced = few and (per_cluster >= _GLANCED if glanced is None else glanced)
    first = _GRID_SHARE if few else _MANY_MARGINALS_SHARE if many else _MARGINALS_SHARE
    counts = Fraction(15, 100) if few else min(Fraction(30, 100), Fraction(2, d))
    n_counts = 1 if few else 2
    stages = [Stage("total", TOTAL_SHARE, 1)] if context.n_records is None else []
    if glanced:
        stages.append(Stage("glance", _GLANCE_SHARE, _glance(context).size))
        first -= _GLANCE_SHARE
    stages.append(Stage("first look", first, _first_look(context, k, n, first).size))
    share = counts / n_counts
    n_cells = int(np.clip(n * context.effective_epsilon(float(share)) / 8, max(3 * k, 60), max(3 * k, 150)))
    stages += [Stage("counts", share, n_cells)] * n_counts
    left = 1 - sum((stage.share for stage in stages), Fraction(0))
    settles = not few and per_cluster >= _SETTLED
    n_sums = 2 if few or per_cluster < 300 else 3 if per_cluster < 3_000 else 4
    part = left * (_SEARCH_PART if settles else Fraction(1, n_sums))
    most = float(np.clip(0.085 * _sum_strength(context, n, part) / d, k, max(k, min(3 * k, MAX_SIZE // (1 + d)))))
    if many and n_sums > 2 and most <= k:  # with no more cells than clusters there is little to search with
        n_sums, part, settles = 1, left / 4, True
    for step in range(n_sums):
        stages.append(Stage("sums", part, max(k, round(most * (k / most) ** (step / max(n_sums - 1, 1))))))
    if settles:
        n_rivals = int(per_cluster >= _SETTLED)
        n_settling = 4 if per_cluster >= _SETTLED_LONGER else 2 if n_sums > 1 else 3
        share = (left - n_sums * part) / (n_rivals + n_settling)
        stages += [Stage("rival", share, k)] * n_rivals + [Stage("settle", share, k)] * n_settling
    return tuple(stages)


def _many_columns(context: Context, n_clusters: int, n: float) -> tuple[Stage, ...]:
    stages = [Stage("total", TOTAL_SHARE, 1)] if context.n_records is None else []
    stages.append(Stage("first look", wide.LOOK_SHARE, _first_look(context, n_clusters, n, wide.LOOK_SHARE).size))
    stages.append(Stage("counts", wide.COUNTS_SHARE, wide.counted_cells(context, n_clusters, n)))
    left = 1 - sum((stage.share for stage in stages), Fraction(0))
    for part, n_cells in wide.rounds_with_sums(context, n_clusters, n):
        stages.append(Stage("sums" if n_cells > n_clusters else "settle", left * part, n_cells, squares=True))
    return tuple(stages)


def _sum_strength(context: Context, n: float, share: Fraction) -> float:
    return n * context.effective_epsilon(float(share * (1 - _COUNT_PART)))


def _first_look(context: Context, n_clusters: int, n: float, share: Fraction) -> GridQuery | HistogramQuery:
    d = context.domain.n_columns
    strength = n * context.effective_epsilon(float(share))
    if _has_few(context.domain):
        side = max(2 * n_clusters ** (1 / d), (strength / 10) ** (2 / (2 + d)))
        return GridQuery(sides=(int(np.clip(round(side), 2, int(_MAX_GRID_CELLS ** (1 / d)))),) * d)
    n_marginals = len(marginals_of_domain(context.domain, 1))
    bins = int(np.clip(2 * np.sqrt(strength / (2 * n_marginals)), 4, 32))
    return HistogramQuery(dimension=d, marginals=marginals_of_domain(context.domain, bins))


def _has_few(domain: Domain) -> bool:
    """Whether a grid over all columns tells more than a histogram of each."""
    return domain.has_grid and domain.n_columns <= _GRID_DIMENSIONS


def _glance(context: Context) -> GridQuery:
    d = context.domain.n_columns
    return GridQuery(sides=(_GLANCE_SIDES[d - 1],) * d)


def _is_glance(context: Context, answered: Round) -> bool:
    """Whether a round was a glance: by its cells, and, as a first look may have as many, by its small share."""
    few = _has_few(context.domain)
    grid = as_grid(answered.query) if few else None
    return grid is not None and grid.sides == _glance(context).sides and answered.share <= _GLANCE_SHARE


def _filled(context: Context, glance: Round, n: float) -> float:
    """The part of the bounds in a box around all large cells with records; all of it, where that misses many."""
    grid = of_kind(glance.query, GridQuery)
    scale = float(glance.scales[0])
    noisy = glance.noisy.reshape(grid.sides)
    corners = np.argwhere(noisy > glance.noise.largest(noisy.size, _FALSE_ALARM) * scale)
    if not len(corners):
        return 1.0
    low, high = corners.min(axis=0), corners.max(axis=0) + 1
    inside = noisy[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
    outside = noisy.size - inside.size
    missed = float(noisy.sum() - inside.sum()) - 2.0 * glance.noise.deviation(scale) * outside**0.5
    return 1.0 if missed > _OUTSIDE * n else inside.size / noisy.size


def _finer_where_records_are(context: Context, glance: Round, n: float, share: Fraction) -> VoronoiQuery:
    """Large cells, each cut into as many as its noisy count deserves, so that few lie where no records are.

    By the law of the grid, as the adaptive grid of Qardaji, Yang and Li (ICDE 2013) does in two columns.
    """
    grid = of_kind(glance.query, GridQuery)
    d, reachable = context.domain.n_columns, reachable_cells(grid, context.domain)
    middles = grid.marginal.centers()[reachable]
    noises = likely_counts(context.domain, grid, glance.noisy, n)[reachable] * context.effective_epsilon(float(share))
    sides = np.ones(len(middles), dtype=np.int64)
    while (noises > 0).any():
        sides = np.clip(np.round((noises / 10) ** (2 / (2 + d))), 1, _MAX_CLOSER_CELLS).astype(np.int64)
        if (sides**d).sum() <= max(_MAX_CLOSER_CELLS, len(sides)):
            break
        noises *= 0.9
    parts = {side: Marginal(columns=tuple(range(d)), sides=(int(side),) * d).centers() for side in np.unique(sides)}
    centers = [middle + parts[side] / grid.sides[0] for middle, side in zip(middles, sides, strict=True)]
    return VoronoiQuery(centers=context.domain.clip(np.concatenate(centers)), sums="none")


def _kmeans(measure: Measure, n_cells: int, n_restarts: int, rng: Rng) -> Array:
    kept = measure.weights > 1e-3 * measure.weights.mean()
    of_kept = (measure.points[kept], measure.weights[kept], n_cells)
    return weighted_kmeans(*of_kept, n_restarts=n_restarts, rng=rng, max_iterations=60, tolerance=1e-4).centers


def _rival(measure: Measure, settled: Clustering, rng: Rng) -> Array:
    """The best clusters of the measure that are not these, which were settled; or these, if it has no others."""
    points, weights, k = measure.points, measure.weights, len(settled.centers)
    others = [weighted_kmeans(points, weights, k, n_restarts=1, rng=rng) for _ in range(_RESTARTS_FOR_CLUSTERS)]
    rivals = [c for c in others if abs(c.inertia - settled.inertia) > _RIVAL_DIFFERS * settled.inertia]
    return min(rivals, key=lambda clustering: clustering.inertia, default=settled).centers


def _explained_squares(answered: Round) -> float:
    """How much of the records' variance the cells of a round explain, by their counts and means as measured."""
    query = of_kind(answered.query, VoronoiQuery)
    counts = np.maximum(answered.noisy[: query.n_cells], 1.0)
    shares = counts / counts.sum()
    means = query.centers + query.sums_of(answered.noisy) / counts[:, None]
    return float(shares @ ((means - shares @ means) ** 2).sum(axis=1))


def _radii(measure: Measure, centers: Array, epsilon: float, shift: float, context: Context) -> Array:
    """For each cell the radius with the least expected error of its mean, under the inferred measure.

    A small radius lets little noise in, and clips. What is clipped alike on all sides makes the measured step shorter,
    which inference undoes; what is clipped on one side is a bias. epsilon is that of Laplace noise as strong as theirs.
    """
    d, norm = context.domain.n_columns, context.noise.norm
    cells = VoronoiQuery(centers=centers, sums="none").cells(measure.points)
    offsets = measure.points - centers[cells]
    distances = np.abs(offsets).sum(axis=1) if norm == 1 else np.sqrt((offsets**2).sum(axis=1))
    radii = np.empty(len(centers))
    for cell in range(len(centers)):
        inside = cells == cell
        if inside.sum() <= 5 or not measure.weights[inside].sum() > 0:
            inside = np.ones(len(cells), dtype=np.bool_)
        far, away = distances[inside], offsets[inside]
        shares = measure.weights[inside] / measure.weights[inside].sum()
        size = float(measure.weights[cells == cell].sum())
        moved = shift**2 * float(shares @ (away**2).sum(axis=1))
        least = np.inf
        for radius in weighted_quantiles(far, shares, _RADIUS_LEVELS):
            kept = np.minimum(1.0, radius / np.maximum(far, 1e-12))
            step = float(shares @ kept)
            bias = (shares * (1.0 - kept)) @ away
            noise = 2.0 * d * (radius / (epsilon * max(size, 1.0) * max(step, 1e-12))) ** 2
            error = noise + float(bias @ bias) + (1.0 - step) ** 2 * moved
            if error < least:
                least, radii[cell] = error, radius
    return np.asarray(np.clip(radii, _SMALLEST_RADIUS, 2 * context.domain.sum_bound(norm)))
