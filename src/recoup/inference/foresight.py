"""What was foreseen: the answer to a release's last question, by data inferred from the rounds before it alone.

Data that were inferred from a round follow it. A prediction was made before, so it tells how much was known by then.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recoup.inference.evidence import Evidence
from recoup.inference.misfit import expected_answer
from recoup.maxent.measure import infer_measure
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.queries.counts import counts_in_cells

_POINTS, _PASSES = 4_000, 1  # as between rounds that settle centres


def foreseen(evidence: Evidence) -> dict[int, Array]:
    """Predict the last round of a release whose rounds came one after the other, each asked where those before said.

    Args:
        evidence: the rounds.

    Returns:
        The answer by the number of the round; empty where rounds are of several releases, fewer than two, not all in
        cells, or the last did not ask for relative sums.

    Guarantees: a function of its argument, so that it costs no privacy.
    """
    rounds = evidence.rounds
    if len(evidence.parts) != 1 or len(rounds) < 2:
        return {}
    query = as_cells(rounds[-1].query, "relative")
    if query is None or not all(counts_in_cells(answered.query) for answered in rounds):
        return {}
    before = replace(evidence.parts[0], rounds=rounds[:-1])
    measure = infer_measure(
        evidence.context,
        before.rounds,
        np.random.default_rng(0),
        n_points=_POINTS,
        n_passes=_PASSES,
        n_settling=before.n_settling,
    )
    return {len(rounds) - 1: expected_answer(rounds[-1], measure.points, measure.weights)}
