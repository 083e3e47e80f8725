"""A report about an algorithm without clusters: the promise, the answer as a table, the budget, the fit, the lines.

A mixture, a regression, components, an algorithm of a user's own, or rounds that were made elsewhere: what can be said
of any of them is said here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.algorithms.base import Algorithm, ImportedAlgorithm
from recoup.algorithms.registry import algorithm_from_json, described
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.inference.evidence import evidence_of
from recoup.inference.guard import reasons_against
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.inference.refit import refit
from recoup.queries.base import Array
from recoup.report.answer import named_answer
from recoup.report.fit import fit_of
from recoup.report.privacy import promise_facts
from recoup.report.reproduce import lines_for
from recoup.report.rounds import budget_facts
from recoup.report.verdict import verdict_facts
from recoup.transcript.transcript import Transcript
from recoup.version import __version__

_MOST_ROWS, _MOST_COLUMNS = 200, 80  # more would neither be read nor fit into a page
_WORLD_POINTS = 6_000
_WITH_LABEL = ("logistic-regression",)  # whose last column is no column of the question
_METHODS = {
    "maxent": "maximum entropy over all rounds",
    "mcmc": "Metropolis-Hastings over data sets",
    "none": "no inference: the algorithm's own answer",
}


def has_clusters(transcript: Transcript) -> bool:
    """Whether a transcript's answer is centres; one of an algorithm that is unknown here counts as such."""
    try:
        return algorithm_from_json(transcript.algorithm).has_centers
    except TranscriptFormatError:
        return True


def answer_of(
    transcript: Transcript, inferred: InferredDataset | None, *, n_clusters: int | None = None, random_state: Any = 0
) -> Array | None:
    """What `refit` returns, or none where a transcript's algorithm has no answer here.

    >>> from recoup import Box, transcript_from
    >>> rounds = [({"type": "grid", "sides": [2]}, [3.0, 4.0], 1.0)]
    >>> answer_of(transcript_from(domain=Box([0], [1]), epsilon=1, rounds=rounds), None) is None
    True
    """
    algorithm = algorithm_from_json(transcript.algorithm)
    if isinstance(algorithm, ImportedAlgorithm) or (inferred is not None and not algorithm.can_refit):
        return None
    return refit(transcript, inferred, n_clusters=n_clusters, random_state=random_state)


def warnings_of(transcript: Transcript) -> list[str]:
    """Why the algorithm itself would not infer from what it released, as sentences; none most often."""
    return [f"{reason[0].upper()}{reason[1:]}" for reason in reasons_against(evidence_of(transcript))]


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
        world = infer(transcript, "maxent", random_state=seed, n_points=_WORLD_POINTS, warn=False)
    method = "none" if inferred is None else inferred.method
    budget = budget_facts(transcript, inferred)
    privacy = promise_facts(transcript, inferred, lost=budget["lost"], clusters=False)
    name = algorithm.name if isinstance(algorithm, ImportedAlgorithm) else described(algorithm.type_name)
    return {
        "format": "recoup-report",
        "title": title or _title(algorithm, domain.n_columns, privacy["private"]),
        "private": privacy["private"],
        "version": __version__,
        "verdict": verdict_facts(transcript, inferred, None),
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
        "answer": _table(transcript, answer, inferred, seed),
        "fit": fit_of(transcript, world),
        "reproduce": lines_for(
            transcript,
            inferred,
            answer=None if answer is None else "answer",
            level=None,
            seed=seed,
            exact=exact,
        ),
    }


def _title(algorithm: Algorithm, n_columns: int, private: bool) -> str:
    n_features = n_columns - (algorithm.type_name in _WITH_LABEL)
    about = f"{n_features} column{'' if n_features == 1 else 's'}{' and a label' * (n_features < n_columns)}"
    return f"{'Private answers' if private else 'Answers'} about {about}"


def _table(
    transcript: Transcript, answer: Array | None, inferred: InferredDataset | None, seed: int
) -> dict[str, Any] | None:
    if answer is None:
        return None
    found = named_answer(transcript, answer, inferred)
    before = None
    if inferred is not None:
        own = np.asarray(refit(transcript, None, random_state=seed), dtype=np.float64)
        before = own.reshape(found.values.shape) if own.shape == np.shape(answer) else None
    shown = found.values[:_MOST_ROWS, :_MOST_COLUMNS]
    (n_rows, n_columns), (all_rows, all_columns) = shown.shape, found.values.shape
    cut = f"Shown are {n_rows} of {all_rows} rows, and {n_columns} of {all_columns} columns."
    lead = "As released, without inference."
    if inferred is not None:
        lead = " ".join(["Of the algorithm without noise, on the inferred data.", *warnings_of(transcript)])
    return {
        "lead": lead,
        "note": " ".join([found.note] * bool(found.note) + [cut] * (shown.shape != found.values.shape)),
        "shape": list(np.shape(answer)),
        "columns": found.labels.columns[:n_columns],
        "rows": [
            {
                "label": found.labels.rows[i],
                "values": [float(v) for v in shown[i]],
                "before": None if before is None else [float(v) for v in before[i, :n_columns]],
            }
            for i in range(n_rows)
        ],
    }
