"""How many clusters the data suggests, read off the inferred data: the curve for choosing K."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.inference.choose import range_for, suggest_clusters
from recoup.report.result import Result


def choice_facts(result: Result, *, level: float | None = 0.9, random_state: Any = 0) -> dict[str, Any] | None:
    """The loss by number of clusters, as a part of that of one cluster, with intervals and a suggestion.

    Args:
        result: what the report is about.
        level: the wanted coverage; none leaves the intervals out.
        random_state: harmless randomness.

    Returns:
        JSON, or none where the inferred data has too few points to cluster.
    """
    chosen = len(result.centers)
    k_max = range_for(chosen)
    if int((result.world.weights > 0).sum()) <= k_max:
        return None
    found = suggest_clusters(
        result.world,
        k_max=k_max,
        transcript=result.transcript if level is not None else None,
        domain=result.transcript.context.domain,
        level=level or 0.9,
        random_state=random_state,
    )
    whole = max(float(found.loss[0]), 1e-300)

    def parts(values: Any) -> list[float]:
        return [float(v) for v in np.clip(np.asarray(values) / whole, 0.0, 10.0)]

    return {
        "chosen": chosen,
        "suggested": found.suggested,
        "outcome": found.outcome,
        "sentence": found.sentence,
        "n_clusters": [int(k) for k in found.n_clusters],
        "loss": parts(found.loss),
        "low": None if level is None else parts(found.loss_low),
        "high": None if level is None else parts(found.loss_high),
        "gap": [float(v) for v in found.gap],
        "gap_error": [float(v) for v in found.gap_error],
        "level": level,
    }
