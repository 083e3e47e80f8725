"""The convex estimator: the maximum-entropy measure on a support that explains every round.

Any mix of queries joins as rows of one linear map; the solver certifies how far from the optimum it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recoup.maxent.newton import Solution, solve
from recoup.queries.base import Array, rows_of
from recoup.transcript.round import Round


def explain(
    rounds: Sequence[Round],
    points: Array,
    base: Array,
    *,
    temperature: float,
    tolerance: float = 0.03,
) -> Solution:
    """Find the measure on support points that explains all rounds with the least departure from a base.

    Args:
        rounds: queries with their noisy answers.
        points: (m, d) support in the unit domain.
        base: (m,) positive weights; their sum is the number of records of the solution.
        temperature: the weight of the entropy, lambda.
        tolerance: the duality gap, in nats for each noisy value, at which to stop.

    Returns:
        The measure, with its certificate.
    """
    blocks = [block for answered in rounds for block in rows_of(answered.query, points)]
    return solve(
        blocks,
        np.concatenate([answered.noisy for answered in rounds]),
        np.concatenate([answered.scales for answered in rounds]),
        base,
        temperature=temperature,
        noise=noise_of(rounds),
        tolerance=tolerance,
    )


def noise_of(rounds: Sequence[Round]) -> NDArray[np.str_]:
    """The law of the noise of each row."""
    return np.concatenate([np.full(answered.query.size, answered.mechanism) for answered in rounds])


def default_temperature(count_scale: float, total: float) -> float:
    """The temperature that grows with the noise: 0.4 (w^2 / n)^(1/4), w = 1 / b of the counts.

    Flat in practice: a factor of three either way changes little once the problem is solved.

    >>> round(default_temperature(20.0, 5000.0), 6)
    0.010637
    """
    return float(0.4 * (1.0 / (count_scale**2 * max(total, 1.0))) ** 0.25)
