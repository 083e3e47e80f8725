"""What each round asked, in words and in numbers: shared by the budget, the picture and the fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.inference.evidence import releases_behind
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import Array, asked_by
from recoup.queries.cells import as_cells
from recoup.transcript.context import Context
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript


def noisy_cell_means(context: Context, answered: Round) -> Array | None:
    """Where a round alone would put the middle of each of its cells, in the unit domain; none without sums.

    A cell with a noisy count below 1 keeps its centre; relative sums are offsets from it.
    """
    query = as_cells(answered.query, "absolute", "relative")
    if query is None:
        return None
    counts = answered.noisy[: query.n_cells, None]
    sums = answered.noisy[query.n_cells :].reshape(query.centers.shape)
    usable = counts >= 1.0
    start = query.centers if query.sums == "relative" else 0.0
    return context.domain.clip(np.where(usable, start + sums / np.where(usable, counts, 1.0), query.centers))


def budget_facts(transcript: Transcript, inferred: InferredDataset | None = None) -> dict[str, Any]:
    """What each round cost, how that was split, and how noisy its counts were.

    Args:
        transcript: what was released.
        inferred: what is shown was refitted on, or none.

    Returns:
        JSON: the measure ("epsilon" or "rho"), total, spent, lost, the rounds, and from how many other releases the
        inferred data was made. Where privacy is only claimed, the rounds have what such noise would cost here, and the
        total is theirs.

    >>> from recoup import Box, KMeans, release
    >>> transcript = release(KMeans(n_clusters=2), [[0.5]], domain=Box([0], [1]), epsilon=1)
    >>> facts = budget_facts(transcript)
    >>> len(facts["rounds"]), round(facts["rounds"][0]["share"], 6)
    (5, 0.2)
    """
    context = transcript.context
    pure = context.budget_measure == "pure"
    imported = transcript.imported
    total = float(sum(r.price.amount for r in transcript.rounds) if imported else context.budget.amount)
    rounds = []
    for t, answered in enumerate(transcript.rounds, start=1):
        weights = np.array(answered.weights, dtype=np.float64) ** (1 if pure else 2)
        names = answered.query.sensitivity(context.domain).names
        price = float(answered.price.amount)
        count_noise = None
        if "count" in names:
            count_noise = context.noise.deviation(float(answered.scales[answered.block("count", context)][0]))
        rounds.append(
            asked_by(answered.query)._asdict()
            | {
                "round": t,
                "price": price,
                "share": price / total,
                "parts": [
                    {"name": f"{name}s", "price": price * float(part), "share": price * float(part) / total}
                    for name, part in zip(names, weights / weights.sum(), strict=True)
                ],
                "count_noise": count_noise,
            }
        )
    lost = float(sum(transcript.lost) + (transcript.pending or 0)) * total
    return {
        "measure": "epsilon" if pure else "rho",
        "total": total,
        "spent": total if imported else float(transcript.amount_spent),
        "epsilon": float(context.epsilon),
        "delta": float(context.delta),
        "claimed": imported,
        "lost": lost,
        "n_others": releases_behind(transcript, inferred) - 1,
        "rounds": rounds,
    }
