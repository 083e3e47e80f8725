"""The answer of an algorithm without clusters, as rows with names: for the page, the terminal and JSON alike.

A mixture, a regression, components, an algorithm of a user's own, or rounds that were made elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from recoup.algorithms.base import ImportedAlgorithm, column_names
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import TranscriptFormatError
from recoup.inference.evidence import evidence_of, reasons_against
from recoup.inference.inferred import InferredDataset, refit
from recoup.maxent.measure import weighted_quantile
from recoup.maxent.sizes import WeightedPoints
from recoup.queries.base import Array
from recoup.report.html import Markup, element, figure, folded, section, table
from recoup.report.result import Json, mean_and_deviation
from recoup.transcript.transcript import Transcript

_MOST_ROWS, _MOST_COLUMNS = 200, 80  # more would neither be read nor fit into a page


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

    def to_json(self) -> Json:
        """Names and note; the values go their own way."""
        return {"rows": self.rows, "columns": self.columns, "note": self.note}


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
    rows = []
    for name, values in zip(columns, inferred.points.T, strict=True):
        quantiles = [weighted_quantile(values, inferred.weights, level) for level in (0.1, 0.5, 0.9)]
        numbers = (*mean_and_deviation(values, inferred.weights), *quantiles)
        rows.append([name, *(f"{value:.6g}" for value in numbers)])
    return header, rows


def content(
    transcript: Transcript, answer: Array | None, inferred: InferredDataset | None, *, seed: int
) -> Json | None:
    """The answer as a table, as far as a page can show it; before inference too, where there was some."""
    if answer is None:
        return None
    named = named_answer(transcript, answer, inferred)
    before, lead = None, "As released, without inference."
    if inferred is not None:
        own = np.asarray(refit(transcript, None, random_state=seed), dtype=np.float64)
        before = own.reshape(named.values.shape) if own.shape == np.shape(answer) else None
        lead = " ".join(["Of the algorithm without noise, on the inferred data.", *warnings_of(transcript)])
    shown = named.values[:_MOST_ROWS, :_MOST_COLUMNS]
    (n_rows, n_columns), (all_rows, all_columns) = shown.shape, named.values.shape
    cut = f"Shown are {n_rows} of {all_rows} rows, and {n_columns} of {all_columns} columns."
    return {
        "lead": lead,
        "note": " ".join([named.note] * bool(named.note) + [cut] * (shown.shape != named.values.shape)),
        "shape": list(np.shape(answer)),
        "columns": named.columns[:n_columns],
        "rows": [
            {
                "label": named.rows[i],
                "values": shown[i].tolist(),
                "before": None if before is None else before[i, :n_columns].tolist(),
            }
            for i in range(n_rows)
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
