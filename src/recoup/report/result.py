"""A clustering that a report is about, put together once: centres, the data they came from, and how sure they are.

The picture and the profiles need data with a spread. Maximum-entropy data has one; the data of the sampler and of the
consistency step mostly sits on the centres of cells, so for them, and for a last iterate without any inference, the
maximum-entropy data of the same transcript stands in. The page says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup.algorithms.base import column_names
from recoup.errors import ParameterError
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.inference.intervals import Intervals, intervals
from recoup.maxent.sizes import Clusters, WeightedPoints
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript

Json = dict[str, Any]
_POPULATION_POINTS = 6_000
# More would neither be read nor fit into a page: the columns and clusters that matter most are shown.
_MOST_COLUMNS, _MOST_CLUSTERS = 40, 100


class Shown(NamedTuple):
    """Which columns and clusters the page shows, by index; most often all of them."""

    columns: NDArray[np.int64]
    clusters: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """A clustering with what is needed to speak about it.

    Centres are in the user's units; `population` has a spread: the inferred data that they were refitted on, or
    maximum-entropy data of the same transcript; `cells` is the cluster of each of its points.
    """

    transcript: Transcript
    centers: Array
    inferred: InferredDataset | None
    population: InferredDataset
    intervals: Intervals | None
    sizes: Array
    cells: NDArray[np.int64]
    shown: Shown

    @property
    def method(self) -> str:
        """How the transcript was read; "none" for a last iterate."""
        return "none" if self.inferred is None else self.inferred.method

    @property
    def columns(self) -> list[str]:
        """A name for each column."""
        return column_names(self.transcript.context.domain)

    @property
    def spans(self) -> Array:
        """The width of each column's bounds."""
        domain = self.transcript.context.domain
        return np.asarray(np.array(domain.high) - np.array(domain.low))

    def interval(self, k: int, j: int | None = None) -> tuple[float | None, float | None]:
        """The ends of a cluster's interval in a column, or of its size; none where it is withheld: JSON has no NaN."""
        sure = self.intervals
        if sure is None:
            return None, None
        ends = (sure.size_low[k], sure.size_high[k]) if j is None else (sure.center_low[k, j], sure.center_high[k, j])
        low, high = (float(end) if np.isfinite(end) else None for end in ends)
        return low, high


def population_of(transcript: Transcript, *, random_state: Any = 0) -> InferredDataset:
    """Maximum-entropy data of a transcript, large enough to look at."""
    return infer(transcript, "maxent", random_state=random_state, n_points=_POPULATION_POINTS, warn=False)


def result_of(
    transcript: Transcript,
    centers: Array,
    inferred: InferredDataset | None,
    *,
    level: float | None = 0.9,
    random_state: Any = 0,
) -> Result:
    """Put a clustering together; a last iterate has no intervals, and neither has a level of none."""
    domain = transcript.context.domain
    centers = np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[1] != domain.n_columns or not len(centers):
        raise ParameterError(f"centers has shape {centers.shape}: give (K, {domain.n_columns}) centres.")
    population = inferred
    if population is None or population.method != "maxent":
        population = population_of(transcript, random_state=random_state)
    sure = None
    if level is not None and inferred is not None:
        sure = intervals(transcript, inferred, centers, level=level, random_state=random_state)
    unit, sized = domain.to_unit(centers), population if inferred is None else inferred
    sizes = Clusters(unit, WeightedPoints(domain.to_unit(sized.points), sized.weights)).sizes
    weight = np.maximum(sizes, 0.0) + 1e-9
    spread = np.average((unit - np.average(unit, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    columns = np.sort(np.argsort(-spread, kind="stable")[:_MOST_COLUMNS]).astype(np.int64)
    return Result(
        transcript=transcript,
        centers=centers,
        inferred=inferred,
        population=population,
        intervals=sure,
        sizes=sizes,
        cells=Clusters(unit, WeightedPoints(domain.to_unit(population.points), population.weights)).labels,
        shown=Shown(columns, np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS].astype(np.int64)),
    )


def mean_and_deviation(values: Array, weights: Array) -> tuple[float, float]:
    """The mean of weighted values, and their standard deviation."""
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
