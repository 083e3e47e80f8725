"""Our default: each query is chosen from everything that was answered so far.

A sliver of the budget counts the records. A first look (a grid in few dimensions, marginals in many) says roughly where
they are. Rounds of counts in many cells sharpen that; rounds of counts and relative, clipped sums then measure means.
Between rounds the maximum-entropy measure of all answers so far decides where the next cells lie and how wide they are.
Cells need not be the clusters: disjoint cells cost no budget, so there are more of them than clusters until the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from recoup.algorithms.lloyd import positive_whole
from recoup.context import Context, Request
from recoup.errors import ParameterError
from recoup.inference.measure import Measure, effective_epsilon, infer_measure, total_of
from recoup.inference.significance import without_noise
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.queries.base import MAX_SIZE, Array, Query, check_size
from recoup.queries.grid import GridQuery
from recoup.queries.histogram import HistogramQuery
from recoup.queries.voronoi import VoronoiQuery
from recoup.transcript import Round

_TOTAL_SHARE = Fraction(2, 100)
_GRID_SHARE = Fraction(40, 100)
_MARGINALS_SHARE = Fraction(20, 100)
_COUNT_PART = Fraction(15, 100)  # of a round with sums
_GRID_DIMENSIONS = 3
_MAX_GRID_CELLS = 200_000
_POINTS_BETWEEN = 6_000
_RESTARTS_BETWEEN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveKMeans:
    """Private k-means whose cells and clipping radii are inferred from all earlier rounds.

    Args:
        n_clusters: K.

    Guarantees: the shares of all rounds add up to 1 exactly; queries depend on noisy answers alone.

    >>> AdaptiveKMeans(n_clusters=3).n_clusters
    3
    """

    n_clusters: int

    type_name: ClassVar[str] = "kmeans-adaptive"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_clusters", positive_whole(self.n_clusters, "n_clusters"))
        if self.n_clusters > MAX_SIZE // 2:
            raise ParameterError(f"n_clusters={self.n_clusters}: at most {MAX_SIZE // 2} clusters can be represented.")

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """The next stage's query: total, first look, counts, sums; none after the last."""
        check_size(self.n_clusters * (1 + context.domain.n_columns))
        if not rounds:
            _check_affordable(context)
        n_first = 1 if context.n_records is not None else 2
        # The plan must not change on the way, or its shares would not add up: later totals do not enter it.
        n = total_of(context, rounds[:n_first]) if rounds else float(context.n_records or 1)
        stages = plan_stages(context, self.n_clusters, n)
        if len(rounds) >= len(stages):
            return None
        stage = stages[len(rounds)]
        if stage.kind == "total":
            query: Query = VoronoiQuery(centers=np.zeros((1, context.domain.n_columns)), sums="none")
        elif stage.kind == "first look":
            query = _first_look(context, self.n_clusters, n, stage.share)
        else:
            measure = infer_measure(context, rounds, rng, n_points=_POINTS_BETWEEN)
            if stage.kind == "counts":
                query = VoronoiQuery(centers=_kmeans(measure, stage.n_cells, 2, rng), sums="none")
            else:
                weights = without_noise(context, rounds, measure.points, measure.weights, self.n_clusters, rng)
                query = _sums(context, replace(measure, weights=weights), n, stage, rng)
        return Request(query=query, share=stage.share, split=stage.split)

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The clusters of the measure that explains all rounds; from a fixed seed, so that it is reproducible."""
        if not rounds:
            raise ParameterError("there is no estimate before the first round.")
        rng = np.random.default_rng(0)
        measure = infer_measure(context, rounds, rng, n_points=_POINTS_BETWEEN)
        weights = without_noise(context, rounds, measure.points, measure.weights, self.n_clusters, rng)
        return context.domain.clip(_kmeans(replace(measure, weights=weights), self.n_clusters, 10, rng))

    def to_json(self) -> dict[str, Any]:
        """The public description that a transcript carries."""
        return {"type": self.type_name, "n_clusters": self.n_clusters}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an algorithm back from its description."""
        return cls(n_clusters=value["n_clusters"])


class Stage(NamedTuple):
    """One planned round: what it asks for, its share of the budget, and in how many cells."""

    kind: Literal["total", "first look", "counts", "sums"]
    share: Fraction
    n_cells: int

    @property
    def split(self) -> dict[str, Fraction]:
        """How the share is split over the answer."""
        return {"count": _COUNT_PART, "sum": 1 - _COUNT_PART} if self.kind == "sums" else {"count": Fraction(1)}


def plan_stages(context: Context, n_clusters: int, n: float) -> tuple[Stage, ...]:
    """The rounds of the adaptive algorithm, from public numbers alone.

    Args:
        context: the terms of the release.
        n_clusters: K.
        n: a rough number of records; a total is asked for first if the context declares none.

    Returns:
        The stages; their shares add up to 1.

    >>> from recoup.domain import Box
    >>> terms = Context(domain=Box([0, 0], [1, 1]), epsilon=Fraction(1))
    >>> [(stage.kind, stage.n_cells) for stage in plan_stages(terms, 5, 10_000)]
    [('total', 1), ('first look', 400), ('counts', 150), ('sums', 15), ('sums', 5)]
    """
    d, k = context.domain.n_columns, n_clusters
    few = d <= _GRID_DIMENSIONS
    first = _GRID_SHARE if few else _MARGINALS_SHARE
    counts = Fraction(15, 100) if few else min(Fraction(30, 100), Fraction(2, d))
    n_counts, n_sums = (1 if few else 2), _n_sum_rounds(context, k, n)
    stages = [Stage("total", _TOTAL_SHARE, 1)] if context.n_records is None else []
    stages.append(Stage("first look", first, _first_look(context, k, n, first).size))
    share = counts / n_counts
    n_cells = int(np.clip(n * effective_epsilon(context, float(share)) / 8, max(3 * k, 60), max(3 * k, 150)))
    stages += [Stage("counts", share, n_cells)] * n_counts
    share = (1 - sum((stage.share for stage in stages), Fraction(0))) / n_sums
    strength = _sum_strength(context, n, share)
    most = float(np.clip(0.085 * strength / d, k, max(k, min(3 * k, MAX_SIZE // (1 + d)))))
    for step in range(n_sums):
        stages.append(Stage("sums", share, max(k, round(most * (k / most) ** (step / max(n_sums - 1, 1))))))
    return tuple(stages)


def _n_sum_rounds(context: Context, n_clusters: int, n: float) -> int:
    per_cluster = n * effective_epsilon(context) / n_clusters
    if context.domain.n_columns <= _GRID_DIMENSIONS or per_cluster < 300:
        return 2
    return 3 if per_cluster < 3000 else 4


def _sum_strength(context: Context, n: float, share: Fraction) -> float:
    return n * effective_epsilon(context, float(share * (1 - _COUNT_PART)))


def _first_look(context: Context, n_clusters: int, n: float, share: Fraction) -> GridQuery | HistogramQuery:
    d = context.domain.n_columns
    strength = n * effective_epsilon(context, float(share))
    if d <= _GRID_DIMENSIONS:
        side = max(2 * n_clusters ** (1 / d), (strength / 10) ** (2 / (2 + d)))
        return GridQuery(sides=(int(np.clip(round(side), 2, int(_MAX_GRID_CELLS ** (1 / d)))),) * d)
    return HistogramQuery.one_way(dimension=d, bins=int(np.clip(2 * np.sqrt(strength / (2 * d)), 4, 32)))


def _sums(context: Context, measure: Measure, n: float, stage: Stage, rng: np.random.Generator) -> VoronoiQuery:
    d, norm = context.domain.n_columns, context.noise.norm
    centers = _kmeans(measure, stage.n_cells, _RESTARTS_BETWEEN, rng)
    # A wider radius clips less and adds more noise; more of it is worth its noise the more records there are.
    strength = _sum_strength(context, n, stage.share)
    level = float(np.clip(1 - np.sqrt(2 * d) * stage.n_cells / (0.2 * strength), 0.5, 0.998))
    return VoronoiQuery(
        centers=centers, sums="relative", radii=_radii(measure, centers, level, norm, context), norm=norm
    )


def _check_affordable(context: Context) -> None:
    """Refuse before anything is spent what the smallest shares of the plan could not represent."""
    mechanism = context.noise
    mechanism.weights([_COUNT_PART, 1 - _COUNT_PART], context.sensitivity)
    mechanism.calibrate(context.budget.amount * _TOTAL_SHARE, context.distance)


def _kmeans(measure: Measure, n_cells: int, n_restarts: int, rng: np.random.Generator) -> Array:
    kept = measure.weights > 1e-3 * measure.weights.mean()
    return weighted_kmeans(
        measure.points[kept],
        measure.weights[kept],
        n_cells,
        n_restarts=n_restarts,
        rng=rng,
        max_iterations=60,
        tolerance=1e-4,
    ).centers


def _radii(measure: Measure, centers: Array, level: float, norm: int, context: Context) -> Array:
    """A quantile of the distance to the centre in each cell, under the inferred measure."""
    cells = VoronoiQuery(centers=centers, sums="none").cells(measure.points)
    offsets = measure.points - centers[cells]
    distances = np.abs(offsets).sum(axis=1) if norm == 1 else np.sqrt((offsets**2).sum(axis=1))
    radii = np.full(len(centers), weighted_quantile(distances, measure.weights, level))
    for cell in range(len(centers)):
        inside = cells == cell
        if inside.sum() > 5 and measure.weights[inside].sum() > 0:
            radii[cell] = weighted_quantile(distances[inside], measure.weights[inside], level)
    return np.asarray(np.clip(radii, 0.02, 2 * context.domain.sum_bound(norm)))


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """The smallest value up to which the weights reach a level of their sum.

    >>> weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    2.0
    """
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(cumulative, level * cumulative[-1]), len(values) - 1)])
