"""What the report is about, put together once: centres, the data they came from, and how sure they are.

The picture and the profiles need data with a spread. Maximum-entropy data has one; the data of the sampler and of the
consistency step mostly sits on the centres of cells, so for them, and for a last iterate without any inference, the
maximum-entropy data of the same transcript stands in. The page says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup.errors import ParameterError
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.inference.intervals import Intervals, intervals
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery
from recoup.transcript.transcript import Transcript

_WORLD_POINTS = 6_000
# More would neither be read nor fit into a page: the columns and clusters that matter most are shown.
MOST_COLUMNS, MOST_CLUSTERS = 40, 100


class Shown(NamedTuple):
    """Which columns and clusters the page shows, by index; most often all of them."""

    columns: NDArray[np.int64]
    clusters: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """A result with what is needed to speak about it.

    Attributes:
        transcript: what was released.
        centers: (K, d), in the user's units.
        method: "maxent", "mcmc", "consistency", or "none" for a last iterate.
        inferred: the data set that the centres were refitted on, or none.
        world: data with a spread: the inferred data, or maximum-entropy data of the same transcript.
        intervals: of centres and sizes, or none.
        sizes: (K,) records in each cluster.
        cells: (m,) the cluster of each point of the world.
        shown: what the page shows of it.
    """

    transcript: Transcript
    centers: Array
    method: str
    inferred: InferredDataset | None
    world: InferredDataset
    intervals: Intervals | None
    sizes: Array
    cells: NDArray[np.int64]
    shown: Shown

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each column."""
        domain = self.transcript.context.domain
        return domain.columns or tuple(f"column {j}" for j in range(domain.n_columns))

    @property
    def spans(self) -> Array:
        """The width of each column's bounds."""
        domain = self.transcript.context.domain
        return np.asarray(np.array(domain.high) - np.array(domain.low))

    @property
    def stands_in(self) -> bool:
        """Whether maximum-entropy data stands in for the data of another method."""
        return self.world is not self.inferred


def result_of(
    transcript: Transcript,
    centers: Array,
    inferred: InferredDataset | None,
    *,
    level: float | None = 0.9,
    random_state: Any = 0,
) -> Result:
    """Put a result together.

    Args:
        transcript: what was released, with at least one round.
        centers: (K, d) in the user's units.
        inferred: what they were refitted on, or none.
        level: the wanted coverage of the intervals; none leaves them out.
        random_state: harmless randomness.

    Returns:
        The result; a last iterate has no intervals.

    >>> from recoup import Box, KMeans, refit, release
    >>> transcript = release(KMeans(n_clusters=2), [[0.5]], domain=Box([0], [1]), epsilon=1)
    >>> result_of(transcript, refit(transcript), None).method
    'none'
    """
    domain = transcript.context.domain
    if not transcript.rounds:
        raise ParameterError("the transcript has no rounds: nothing was released that a report could show.")
    centers = np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[1] != domain.n_columns or not len(centers):
        raise ParameterError(f"centers has shape {centers.shape}: give (K, {domain.n_columns}) centres.")
    if inferred is not None and inferred.points.shape[1] != domain.n_columns:
        raise ParameterError(
            f"the inferred data has {inferred.points.shape[1]} columns and the transcript {domain.n_columns}: they do "
            "not belong together."
        )
    world = inferred
    if world is None or world.method != "maxent":
        world = infer(transcript, "maxent", random_state=random_state, n_points=_WORLD_POINTS, warn=False)
    found = None
    if level is not None and inferred is not None:
        found = intervals(transcript, inferred, centers, level=level, random_state=random_state)
    unit = domain.to_unit(centers)
    cells = VoronoiQuery(centers=unit, sums="none").cells(domain.to_unit(world.points))
    sized = world if inferred is None else inferred
    sizes = sizes_of(domain.to_unit(sized.points), sized.weights, unit)
    return Result(
        transcript=transcript,
        centers=centers,
        method="none" if inferred is None else inferred.method,
        inferred=inferred,
        world=world,
        intervals=found,
        sizes=sizes,
        cells=cells,
        shown=_shown(unit, sizes),
    )


def sizes_of(points: Array, weights: Array, centers: Array) -> Array:
    """The weight nearest to each centre, all in the unit domain."""
    cells = VoronoiQuery(centers=centers, sums="none").cells(points)
    return np.asarray(np.bincount(cells, weights=weights, minlength=len(centers)), dtype=np.float64)


def _shown(unit_centers: Array, sizes: Array) -> Shown:
    weight = np.maximum(sizes, 0.0) + 1e-9
    spread = np.average((unit_centers - np.average(unit_centers, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    columns = np.sort(np.argsort(-spread, kind="stable")[:MOST_COLUMNS])
    clusters = np.argsort(-sizes, kind="stable")[:MOST_CLUSTERS]
    return Shown(columns.astype(np.int64), clusters.astype(np.int64))
