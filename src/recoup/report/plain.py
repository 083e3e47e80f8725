"""A report about an algorithm without clusters: the promise, the answer as a table, the budget, the fit, the lines.

A mixture, a regression, components, an algorithm of a user's own, or rounds that were made elsewhere: what can be said
of any of them is said here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.algorithms.base import Algorithm, Clustering, Refittable
from recoup.algorithms.elsewhere import Elsewhere
from recoup.algorithms.registry import algorithm_from_json
from recoup.domain import Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.inference.refit import refit
from recoup.queries.base import Array
from recoup.report.fit import fit_of
from recoup.report.privacy import privacy_facts
from recoup.report.reproduce import lines_for
from recoup.report.rounds import budget_facts
from recoup.transcript import NOT_PRIVATE, Transcript
from recoup.version import __version__

_MOST_ROWS, _MOST_COLUMNS = 200, 80  # more would neither be read nor fit into a page
_WORLD_POINTS = 6_000
_ALGORITHMS = {
    "gaussian-mixture": "a Gaussian mixture by private EM",
    "logistic-regression": "logistic regression by private gradient descent",
    "pca-covariance": "principal components of a noisy covariance",
    "pca-power": "principal components by noisy power iteration",
}
_METHODS = {
    "maxent": "maximum entropy over all rounds",
    "mcmc": "Metropolis-Hastings over data sets",
    "none": "no inference: the algorithm's own answer",
}


def has_clusters(transcript: Transcript) -> bool:
    """Whether a transcript's answer is centres; one of an algorithm that is unknown here counts as such."""
    try:
        return isinstance(algorithm_from_json(transcript.algorithm), Clustering)
    except TranscriptFormatError:
        return True


def answer_of(transcript: Transcript, inferred: InferredDataset | None, *, random_state: Any = 0) -> Array | None:
    """What `refit` returns, or none where a transcript's algorithm has no answer here.

    >>> from recoup import Box, transcript_from
    >>> rounds = [({"type": "grid", "sides": [2]}, [3.0, 4.0], 1.0)]
    >>> answer_of(transcript_from(domain=Box([0], [1]), epsilon=1, rounds=rounds), None) is None
    True
    """
    algorithm = algorithm_from_json(transcript.algorithm)
    if isinstance(algorithm, Elsewhere):
        return None
    if inferred is not None and not isinstance(algorithm, Clustering | Refittable):
        return None
    return refit(transcript, inferred, random_state=random_state)


def gather_plain(
    transcript: Transcript,
    answer: Array | None,
    inferred: InferredDataset | None = None,
    *,
    title: str | None = None,
    seed: int = 0,
    exact: bool = False,
) -> dict[str, Any]:
    """Gather what a report says about an algorithm without clusters.

    Args:
        transcript: what was released, with at least one round.
        answer: in the user's units; none if there is none.
        inferred: the data that it was refitted on; none for the algorithm's own answer.
        title: of the page.
        seed: of the report's own harmless randomness.
        exact: whether the answer came from the transcript by this seed too.

    Returns:
        JSON with the keys of `gather`; those that speak of clusters are none.
    """
    if not transcript.rounds:
        raise ParameterError("the transcript has no rounds: nothing was released that a report could show.")
    domain, algorithm = transcript.context.domain, algorithm_from_json(transcript.algorithm)
    if inferred is not None and inferred.points.shape[1] != domain.n_columns:
        raise ParameterError(
            f"the inferred data has {inferred.points.shape[1]} columns and the transcript {domain.n_columns}: they do "
            "not belong together."
        )
    world = inferred
    if world is None:
        world = infer(transcript, "maxent", random_state=seed, n_points=_WORLD_POINTS)
    method = "none" if inferred is None else inferred.method
    statement = transcript.privacy
    if world.simulated:
        statement = statement | {"noise": "simulated", "statement": NOT_PRIVATE}
    budget = budget_facts(transcript)
    privacy = privacy_facts(statement, n_records=transcript.context.n_records, lost=budget["lost"])
    name = algorithm.name if isinstance(algorithm, Elsewhere) else _ALGORITHMS.get(algorithm.type_name)
    columns = "1 column" if domain.n_columns == 1 else f"{domain.n_columns} columns"
    return {
        "format": "recoup-report",
        "title": title or f"{'Private answers' if privacy['private'] else 'Answers'} about {columns}",
        "private": privacy["private"],
        "version": __version__,
        "summary": {
            "n_clusters": None,
            "n_columns": domain.n_columns,
            "n_records": world.n_records,
            "n_rounds": len(transcript.rounds),
            "algorithm": name or algorithm.type_name,
            "method": _METHODS.get(method, method),
        },
        "privacy": privacy,
        "budget": budget,
        "map": None,
        "choice": None,
        "profiles": None,
        "centers": None,
        "answer": _table(transcript, algorithm, answer, inferred, seed),
        "fit": fit_of(transcript, world),
        "reproduce": lines_for(
            transcript, method, answer=None if answer is None else "answer", level=None, seed=seed, exact=exact
        ),
    }


def _table(
    transcript: Transcript, algorithm: Algorithm, answer: Array | None, inferred: InferredDataset | None, seed: int
) -> dict[str, Any] | None:
    if answer is None:
        return None
    values = np.asarray(answer, dtype=np.float64)
    rows, columns = _labels(algorithm, transcript, values)
    before = None
    if inferred is not None:
        own = np.asarray(refit(transcript, None, random_state=seed), dtype=np.float64)
        before = _flat(own) if own.shape == values.shape else None
    flat = _flat(values)
    shown = flat[:_MOST_ROWS, :_MOST_COLUMNS]
    cut = "" if shown.shape == flat.shape else f"Shown are {len(shown)} of {len(flat)} rows, and "
    cut += "" if not cut else f"{shown.shape[1]} of {flat.shape[1]} columns."
    return {
        "lead": "As released, without inference."
        if inferred is None
        else "Of the algorithm without noise, on the inferred data.",
        "note": cut,
        "shape": list(values.shape),
        "columns": columns[: shown.shape[1]],
        "rows": [
            {
                "label": rows[i],
                "values": [float(v) for v in shown[i]],
                "before": None if before is None else [float(v) for v in before[i, : shown.shape[1]]],
            }
            for i in range(len(shown))
        ],
    }


def _flat(values: Array) -> Array:
    """Any answer as rows: numbers one below the other, further dimensions side by side."""
    return values.reshape(1, 1) if values.ndim == 0 else values.reshape(len(values), -1)


def _labels(algorithm: Algorithm, transcript: Transcript, values: Array) -> tuple[list[str], list[str]]:
    """The names of rows and columns: the algorithm's own (`answer_labels`), or those of the table's columns."""
    n_rows, n_columns = _flat(values).shape
    own = getattr(algorithm, "answer_labels", None)
    if own is not None:
        rows, columns = own(transcript.context)
        if (len(rows), len(columns)) == (n_rows, n_columns):
            return [str(name) for name in rows], [str(name) for name in columns]
    names = _names(transcript.context.domain)
    if algorithm.type_name == "gaussian-mixture" and n_columns == 1 + 2 * len(names):
        parts = ["weight", *(f"mean {name}" for name in names), *(f"variance {name}" for name in names)]
        return [f"component {i}" for i in range(n_rows)], parts
    rows = names if values.ndim == 1 and n_rows == len(names) else [str(i) for i in range(n_rows)]
    if n_columns == 1:
        return rows, ["value"]
    return rows, names if n_columns == len(names) else [f"value {j}" for j in range(n_columns)]


def _names(domain: Domain) -> list[str]:
    return list(domain.columns or (f"column {j}" for j in range(domain.n_columns)))
