"""An answer as rows with names, for the page, the terminal and JSON alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from recoup.algorithms.base import Algorithm, Weighted, column_names
from recoup.algorithms.registry import algorithm_from_json
from recoup.inference.inferred import InferredDataset
from recoup.maxent.measure import weighted_quantile
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript


class Labels(NamedTuple):
    """The names of an answer's rows and columns; an answer that is a vector has one column."""

    rows: list[str]
    columns: list[str]


class NamedAnswer(NamedTuple):
    """An answer of any shape, as a table.

    Attributes:
        labels: the names of its rows and columns.
        values: (rows, columns); of more dimensions, all after the first side by side.
        note: what a reader has to know; empty if there is nothing.
    """

    labels: Labels
    values: Array
    note: str

    def to_json(self) -> dict[str, Any]:
        """Names and note; the values go their own way."""
        return {"rows": self.labels.rows, "columns": self.labels.columns, "note": self.note}


def named_answer(transcript: Transcript, answer: Array, inferred: InferredDataset | None) -> NamedAnswer:
    """Name the rows and columns of an answer.

    Args:
        transcript: whose answer it is.
        answer: as `refit` returns it.
        inferred: what it was refitted on, or none.

    Returns:
        The answer as a table. Only an algorithm itself knows what its answer is: where it does not say so, rows and
        columns have numbers.

    >>> from recoup import Box, KMeans, refit, release
    >>> transcript = release(KMeans(n_clusters=2), [[5.0]], domain=Box([0], [9]), epsilon=1)
    >>> named_answer(transcript, refit(transcript), None).labels
    Labels(rows=['0', '1'], columns=['column 0'])
    """
    algorithm = algorithm_from_json(transcript.algorithm)
    found = np.asarray(answer, dtype=np.float64)
    values = found.reshape(1, 1) if found.ndim == 0 else found.reshape(len(found), -1)
    domain = transcript.context.domain
    data = None if inferred is None else Weighted(domain.to_unit(inferred.points), inferred.weights)
    note = algorithm.answer_note(transcript.context, transcript.rounds, found, data)
    return NamedAnswer(_labels(algorithm, transcript, values.shape), values, note)


def _labels(algorithm: Algorithm, transcript: Transcript, shape: tuple[int, ...]) -> Labels:
    n_rows, n_columns = shape
    named = algorithm.answer_labels(transcript.context)
    if named is not None:
        own = Labels(*([str(name) for name in names] for names in named))
        if (len(own.rows), len(own.columns)) == shape:
            return own
    rows = [str(i) for i in range(n_rows)]
    if algorithm.has_centers:
        return Labels(rows, column_names(transcript.context.domain))
    return Labels(rows, ["value"] if n_columns == 1 else [f"value {j}" for j in range(n_columns)])


def inferred_in_short(inferred: InferredDataset, columns: list[str]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table that says where inferred data lies, column by column, where there is no answer."""
    header = ["column", "mean", "deviation", "10 %", "median", "90 %"]
    rows = []
    for name, values in zip(columns, inferred.points.T, strict=True):
        mean = float(np.average(values, weights=inferred.weights))
        deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=inferred.weights)))
        quantiles = [weighted_quantile(values, inferred.weights, level) for level in (0.1, 0.5, 0.9)]
        rows.append([name, *(f"{value:.6g}" for value in (mean, deviation, *quantiles))])
    return header, rows
