"""Everything that a report says, as one plain dictionary: a function of the transcript, the result and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from recoup.algorithms.registry import described
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import Array
from recoup.report.choice import choice_facts
from recoup.report.fit import fit_facts
from recoup.report.journey import journey_facts
from recoup.report.numbers import known
from recoup.report.plain import gather_plain, has_clusters
from recoup.report.privacy import privacy_facts, promise_facts
from recoup.report.profiles import profile_facts
from recoup.report.reproduce import reproduce_facts
from recoup.report.result import Result, result_of
from recoup.report.rounds import budget_facts
from recoup.report.verdict import verdict_facts
from recoup.transcript.transcript import Transcript
from recoup.version import __version__

_METHODS = {
    "maxent": "maximum entropy over all rounds, then k-means without noise",
    "mcmc": "Metropolis-Hastings over data sets, then k-means without noise",
    "consistency": "rounds made consistent; the last round's means",
    "none": "no inference: the algorithm's own answer",
}


def gather(
    transcript: Transcript,
    centers: Array | None,
    inferred: InferredDataset | None = None,
    *,
    level: float | None = 0.9,
    title: str | None = None,
    seed: int = 0,
    exact: bool = False,
) -> dict[str, Any]:
    """Gather what the report says about a result.

    Args:
        transcript: what was released.
        centers: (K, d) in the user's units; of an algorithm without clusters, its answer, or none.
        inferred: the data they were refitted on; none for the algorithm's own answer.
        level: the wanted coverage of the intervals; none leaves them out, which is quicker.
        title: of the page.
        seed: of the report's own harmless randomness.
        exact: whether the centres came from the transcript by this seed too.

    Returns:
        JSON: "title", "private", "verdict", "summary", "privacy", "budget", "map", "choice", "profiles", "centers",
        "fit", "reproduce". Without clusters those that speak of them are none, and "answer" is the answer as a table.

    Guarantees: reads nothing but its arguments; the same arguments give the same dictionary.

    >>> from recoup import Box, KMeans, infer, refit, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=2), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> inferred = infer(transcript, random_state=0)
    >>> facts = gather(transcript, refit(transcript, inferred, random_state=0), inferred, level=None)
    >>> facts["private"], len(facts["profiles"]["clusters"]), facts["budget"]["measure"]
    (True, 2, 'epsilon')
    """
    if not isinstance(transcript, Transcript):
        raise ParameterError(
            f"transcript is a {type(transcript).__name__}: a report is about one transcript. Give it with the data set "
            "that recoup.infer made of several."
        )
    if not has_clusters(transcript):
        return gather_plain(transcript, centers, inferred, title=title, seed=seed, exact=exact)
    if centers is None:
        raise ParameterError("a report about clusters needs their centres: give what recoup.refit returns.")
    result = result_of(transcript, centers, inferred, level=level, random_state=seed)
    budget = budget_facts(transcript, inferred)
    privacy = promise_facts(transcript, inferred, lost=budget["lost"], clusters=True)
    return {
        "format": "recoup-report",
        "title": title or _title(len(result.centers), result.transcript.context.domain.n_columns, privacy["private"]),
        "private": privacy["private"],
        "version": __version__,
        "verdict": verdict_facts(transcript, inferred, result.centers),
        "summary": _summary(result),
        "privacy": privacy,
        "budget": budget,
        "map": journey_facts(result, random_state=seed),
        "choice": choice_facts(result, level=level, random_state=seed),
        "profiles": profile_facts(result),
        "centers": _centers(result),
        "fit": fit_facts(result),
        "reproduce": reproduce_facts(result, level=level, seed=seed, exact=exact),
    }


def gather_model(
    privacy: Mapping[str, Any], centers: Array, *, algorithm: str, title: str | None = None
) -> dict[str, Any]:
    """Gather what can be said where only centres were released: the promise and the centres.

    Args:
        privacy: the model's privacy statement.
        centers: (K, d) in the user's units.
        algorithm: what made them, in words.
        title: of the page.

    Returns:
        JSON with the keys of `gather`; those that need a transcript are none.
    """
    facts = privacy_facts(privacy)
    bounds = facts["bounds"]
    rows = [
        {"label": k, "values": [float(v) for v in center], "low": None, "high": None, "before": None, "size": None}
        for k, center in enumerate(np.asarray(centers, dtype=np.float64))
    ]
    return {
        "format": "recoup-report",
        "title": title or _title(len(rows), len(bounds), facts["private"]),
        "private": facts["private"],
        "version": __version__,
        "verdict": None,
        "summary": {
            "n_clusters": len(rows),
            "n_columns": len(bounds),
            "n_records": None,
            "n_rounds": None,
            "algorithm": algorithm,
            "method": "none: only the centres were released, and there is no transcript to infer from",
        },
        "privacy": facts,
        "budget": None,
        "map": None,
        "choice": None,
        "profiles": None,
        "centers": {
            "columns": [bound["column"] for bound in bounds],
            "spans": [bound["high"] - bound["low"] for bound in bounds],
            "level": None,
            "withheld": [],
            "rows": rows,
        },
        "fit": None,
        "reproduce": None,
    }


def without_picture(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts without the encoded positions that only the picture needs: for machines that read."""
    return {name: value for name, value in facts.items() if name != "map"}


def _title(n_clusters: int, n_columns: int, private: bool) -> str:
    clusters = "cluster" if n_clusters == 1 else "clusters"
    columns = "column" if n_columns == 1 else "columns"
    return f"{n_clusters}{' private' if private else ''} {clusters} in {n_columns} {columns}"


def _summary(result: Result) -> dict[str, Any]:
    transcript = result.transcript
    kind = str(transcript.algorithm.get("type"))
    return {
        "n_clusters": len(result.centers),
        "n_columns": transcript.context.domain.n_columns,
        "n_records": float(result.sizes.sum()),
        "n_rounds": len(transcript.rounds),
        "algorithm": described(kind) or kind,
        "method": _METHODS.get(result.method, result.method),
    }


def _centers(result: Result) -> dict[str, Any]:
    """The centres as a table: the text beside the picture."""
    columns, found = result.shown.columns, result.intervals
    rows = []
    for k in np.sort(result.shown.clusters):
        low = None if found is None else [known(v) for v in found.center_low[k, columns]]
        high = None if found is None else [known(v) for v in found.center_high[k, columns]]
        values = [float(v) for v in result.centers[k, columns]]
        rows.append({"label": int(k), "values": values, "low": low, "high": high, "size": float(result.sizes[k])})
    return {
        "columns": [result.columns[j] for j in columns],
        "spans": [float(result.spans[j]) for j in columns],
        "level": None if found is None else found.level,
        "withheld": [
            {"cluster": k, "column": None if j is None else result.columns[j], "reason": reason}
            for k, j, reason in (() if found is None else found.withheld)
        ],
        "rows": rows,
    }
