"""What was found, put together once for all sections: any answer as rows with names, and a clustering with its data.

The picture and the profiles need data with a spread. Maximum-entropy data has one; the data of the sampler and of the
consistency step mostly sits on the centres of cells, so for them, and for a last iterate without any inference, the
maximum-entropy data of the same transcript stands in. The page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup._progress import OnProgress
from recoup._random import generator
from recoup.algorithms.base import ImportedAlgorithm, column_names
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.inference.evidence import evidence_of, reasons_against
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset, refit
from recoup.inference.intervals import Intervals, intervals
from recoup.inference.simulate import Simulations
from recoup.maxent.measure import weighted_quantiles
from recoup.maxent.sizes import Clusters, WeightedPoints
from recoup.queries.base import Array
from recoup.report.html import Markup, element, figure, folded, noise_on_scale, section, table
from recoup.report.sections import Json
from recoup.transcript.transcript import Transcript

_POPULATION_POINTS = 6_000
# More would neither be read nor fit into a page: the columns and clusters that matter most are shown.
_MOST_COLUMNS, _MOST_CLUSTERS = 40, 100
_MOST_ANSWER_ROWS, _MOST_ANSWER_COLUMNS = 200, 80


# ---- a clustering ----
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """A clustering with what is needed to speak about it.

    Centres are in the user's units; `population` has a spread: the inferred data that they were refitted on, or
    maximum-entropy data of the same transcript; `cells` is the cluster of each of its points. Which columns and
    clusters the page shows, by index, are most often all of them.
    """

    transcript: Transcript
    centers: Array
    inferred: InferredDataset | None
    population: InferredDataset
    intervals: Intervals | None
    simulations: Simulations | None = None  # that intervals rest on
    sizes: Array
    cells: NDArray[np.int64]
    shown_columns: NDArray[np.int64]
    shown_clusters: NDArray[np.int64]

    @property
    def method(self) -> str:
        """How the transcript was read; "none" for a last iterate."""
        return "none" if self.inferred is None else self.inferred.method

    @property
    def counted(self) -> str:
        """What the sizes of clusters are numbers of: records, or persons that have one row each."""
        return "persons" if self.transcript.context.per_person == "mean" else "records"

    @property
    def columns(self) -> list[str]:
        """A name for each column."""
        return column_names(self.transcript.context.domain)

    def noise(self, j: int, value: float, low: float | None = None, high: float | None = None) -> float:
        """By how much a value of a column may change: half of its interval, else a small part of the column's scale."""
        domain = self.transcript.context.domain
        return noise_on_scale(domain, j, value) if low is None or high is None or high <= low else (high - low) / 2.0

    def interval(self, k: int, j: int | None = None) -> tuple[float | None, float | None]:
        """The ends of a cluster's interval in a column, or of its size; none where it is withheld: JSON has no NaN."""
        sure = self.intervals
        if sure is None:
            return None, None
        ends = (sure.size_low[k], sure.size_high[k]) if j is None else (sure.center_low[k, j], sure.center_high[k, j])
        low, high = (float(end) if np.isfinite(end) else None for end in ends)
        return low, high


def population_of(transcript: Transcript, seed: Any) -> InferredDataset:
    """Maximum-entropy data of a transcript, large enough to look at."""
    return infer(transcript, "maxent", random_state=seed, n_points=_POPULATION_POINTS, warn=False)


def result_of(
    transcript: Transcript,
    centers: Array,
    inferred: InferredDataset | None,
    *,
    level: float | None,
    seed: Any = 0,
    on_progress: OnProgress | None = None,
) -> Result:
    """Put a clustering together; a last iterate has no intervals, and neither has a level of none."""
    domain = transcript.context.domain
    centers = np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[1] != domain.n_columns or not len(centers):
        raise ParameterError(f"centers has shape {centers.shape}: give (K, {domain.n_columns}) centres.")
    population = inferred
    if population is None or population.method != "maxent":
        population = population_of(transcript, seed)
    sure = simulations = None
    if level is not None and inferred is not None:
        simulations = Simulations.of(transcript, inferred, len(centers), generator(seed))
        asked: dict[str, Any] = {"level": level, "simulations": simulations, "on_progress": on_progress}
        sure = intervals(transcript, inferred, centers, **asked)
    unit = domain.to_unit(centers)
    clusters = Clusters(unit, WeightedPoints(domain.to_unit(population.points), population.weights))
    sizes = clusters.sizes
    if inferred is not None and inferred is not population:
        sizes = Clusters(unit, WeightedPoints(domain.to_unit(inferred.points), inferred.weights)).sizes
    weight = np.maximum(sizes, 0.0) + 1e-9
    spread = np.average((unit - np.average(unit, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    return Result(
        transcript=transcript,
        centers=centers,
        inferred=inferred,
        population=population,
        intervals=sure,
        simulations=simulations,
        sizes=sizes,
        cells=clusters.labels,
        shown_columns=np.sort(np.argsort(-spread, kind="stable")[:_MOST_COLUMNS]).astype(np.int64),
        shown_clusters=np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS].astype(np.int64),
    )


def spread_of(values: Array, weights: Array, *levels: float) -> list[float]:
    """The mean of weighted values, their standard deviation, and their quantiles at these levels."""
    mean = float(np.average(values, weights=weights))
    deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
    return [mean, deviation, *map(float, weighted_quantiles(values, weights, levels))]


# ---- any answer ----
def has_clusters(transcript: Transcript) -> bool:
    """Whether a transcript's answer is centres; one of an algorithm that is unknown here counts as such."""
    try:
        return algorithm_from_json(transcript.algorithm).has_centers
    except TranscriptFormatError:
        return True


def answer_of(
    transcript: Transcript, inferred: InferredDataset | None, *, n_clusters: int | None = None, random_state: Any = 0
) -> Array | None:
    """What `refit` returns, or none where a transcript's algorithm has no answer here."""
    algorithm = algorithm_from_json(transcript.algorithm)
    if isinstance(algorithm, ImportedAlgorithm) or (inferred is not None and not algorithm.can_refit):
        return None
    return refit(transcript, inferred, n_clusters=n_clusters, random_state=random_state)


def warnings_of(released: Transcript | Sequence[Transcript]) -> list[str]:
    """Why the algorithms themselves would not infer from what they released, as sentences; none most often."""
    return [f"{reason[0].upper()}{reason[1:]}" for reason in reasons_against(evidence_of(released))]


class NamedAnswer(NamedTuple):
    """An answer of any shape as a table, all dimensions after the first side by side, and what a reader has to know."""

    rows: list[str]
    columns: list[str]
    values: Array
    note: str


def named_answer(transcript: Transcript, answer: Array, inferred: InferredDataset | None) -> NamedAnswer:
    """Name the rows and columns of what `refit` returned.

    Only an algorithm itself knows what its answer is: where it does not say so, rows and columns have numbers.
    """
    algorithm, context = algorithm_from_json(transcript.algorithm), transcript.context
    answer = np.asarray(answer, dtype=np.float64)
    values = answer.reshape(1, 1) if answer.ndim == 0 else answer.reshape(len(answer), -1)
    data = None if inferred is None else WeightedPoints(context.domain.to_unit(inferred.points), inferred.weights)
    note = algorithm.answer_note(context, transcript.rounds, answer, data)
    rows, columns = ([str(name) for name in names] for names in algorithm.answer_labels(context) or ((), ()))
    if (len(rows), len(columns)) != values.shape:
        n_rows, n_columns = values.shape
        rows = [str(i) for i in range(n_rows)]
        columns = ["value"] if n_columns == 1 else [f"value {j}" for j in range(n_columns)]
        if algorithm.has_centers:
            columns = column_names(context.domain)
    return NamedAnswer(rows, columns, values, note)


def inferred_in_short(inferred: InferredDataset, columns: list[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table that says where inferred data lies, column by column, where there is no answer."""
    header = ["column", "mean", "deviation", "10%", "median", "90%"]
    spreads = [spread_of(values, inferred.weights, 0.1, 0.5, 0.9) for values in inferred.points.T]
    return header, [[name, *(f"{v:.6g}" for v in spread)] for name, spread in zip(columns, spreads, strict=True)]


def content(transcript: Transcript, answer: Array | None, inferred: InferredDataset | None, seed: int) -> Json | None:
    """The answer as a table, as far as a page can show it; before inference too, where there was some."""
    if answer is None:
        return None
    named = named_answer(transcript, answer, inferred)
    before: list[Any] = [None] * len(named.rows)
    lead = "This is the answer as it was released, without inference."
    if inferred is not None:
        own = np.asarray(refit(transcript, None, random_state=seed), dtype=np.float64)
        if own.shape == np.shape(answer):
            before = own.reshape(named.values.shape)[:, :_MOST_ANSWER_COLUMNS].tolist()
        lead = " ".join(["What the algorithm gives without noise, on the inferred data.", *warnings_of(transcript)])
    shown = named.values[:_MOST_ANSWER_ROWS, :_MOST_ANSWER_COLUMNS]
    (n_rows, n_columns), (all_rows, all_columns) = shown.shape, named.values.shape
    cut = f"Shown are {n_rows} of {all_rows} rows, and {n_columns} of {all_columns} columns."
    return {
        "lead": lead,
        "note": " ".join([named.note] * bool(named.note) + [cut] * (shown.shape != named.values.shape)),
        "shape": list(np.shape(answer)),
        "columns": named.columns[:n_columns],
        "rows": [
            {"label": label, "values": values, "before": earlier}
            for label, values, earlier in zip(named.rows, shown.tolist(), before, strict=False)
        ],
    }


def html(answer: Json) -> Markup:
    """The answer as a table; before inference too, folded away."""

    def shown(key: str, caption: str) -> Markup:
        cells = [[row["label"], *(figure(value, 5) for value in row[key])] for row in answer["rows"]]
        return table(["", *answer["columns"]], cells, caption)

    before = None
    if answer["rows"][0]["before"] is not None:
        before = folded("Before inference", shown("before", "The algorithm's own answer, before inference"))
    note = element("p", answer["note"], class_="soft") if answer["note"] else None
    return section("answer", "The answer", answer["lead"], note, shown("values", "The answer"), before)
