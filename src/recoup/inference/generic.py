"""Maximum entropy for any query: the contributions on a support, as dense rows.

The support is what the releases' algorithms say about where records may lie. Queries of cells keep their fast rows;
everything else is evaluated on the support in blocks. A fused layout is an optimisation of this path.
"""

from __future__ import annotations

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.base import Algorithm
from recoup.errors import ParameterError
from recoup.inference.evidence import Evidence, Part
from recoup.maxent.measure import Measure, Mixture, drawn_support, explained, total_of
from recoup.queries.base import Array, Query
from recoup.transcript.context import Context

_LARGEST_TABLE = 2**26  # values of all rows on the support: half a gigabyte
_FEWEST_POINTS = 500


def infer_generic(
    evidence: Evidence, rng: np.random.Generator, *, n_points: int, tolerance: float = 0.03, max_steps: int = 100
) -> Measure:
    """Infer a measure from rounds of any queries.

    Args:
        evidence: the rounds.
        rng: harmless randomness.
        n_points: points of the support; fewer where all rows on them would not fit into memory.
        tolerance: the duality gap, in nats for each noisy value, at which the solver stops.
        max_steps: of the solver.

    Returns:
        The measure.
    """
    context, rounds = evidence.context, evidence.rounds
    if rounds and context.n_records is None and not any(_counts(answered.query, context) for answered in rounds):
        raise ParameterError(
            "no round counts the records, so how many there are cannot be inferred: release with n_records=, or let a "
            "query count them in a block whose contributions add up to 1."
        )
    n_rows = sum(answered.query.size for answered in rounds)
    n_points = max(min(n_points, _LARGEST_TABLE // max(n_rows, 1)), _FEWEST_POINTS)
    total = total_of(context, rounds)
    points = support_of(evidence, n_points, total, rng)
    temperature = pseudo_records(evidence) / total
    return explained(
        context,
        rounds,
        points,
        total,
        temperature=temperature,
        tolerance=tolerance,
        max_steps=max_steps,
        slack=_slack(evidence, total),
    )


def _counts(query: Query, context: Context) -> bool:
    return any(block.total is not None for block in query.sensitivity(context.domain).blocks)


def points_for(evidence: Evidence) -> int:
    """How many points a support has where nobody says: the algorithm's own number, if one alone is read and has one.

    >>> from recoup import Box, GaussianMixture, KMeans, release
    >>> kinds = (KMeans(n_clusters=1), GaussianMixture(n_components=1))
    >>> both = [release(kind, [[0.5]], domain=Box([0], [1]), epsilon=1) for kind in kinds]
    >>> from recoup.inference.evidence import evidence_of
    >>> [points_for(evidence_of(transcript)) for transcript in (*both, both)]
    [10000, 5000, 10000]
    """
    if len(evidence.parts) > 1:
        return Algorithm.support_points
    return whole_number(evidence.parts[0].algorithm.support_points, "support_points")


def pseudo_records(evidence: Evidence) -> float:
    """How many records' worth of trust the base has: what the algorithms ask for, on average."""
    return float(np.mean([part.algorithm.pseudo_records for part in evidence.parts]))


def _slack(evidence: Evidence, total: float) -> float:
    """What an algorithm that is read alone allows beyond the noise; answers to others may be of other sizes."""
    return evidence.parts[0].algorithm.slack(evidence.context, total) if len(evidence.parts) == 1 else 0.0


def support_of(evidence: Evidence, n_points: int, total: float, rng: np.random.Generator) -> Array:
    """Points where the releases say that records may lie, an equal number from each."""
    edges = np.linspace(0, n_points, len(evidence.parts) + 1).astype(int)
    drawn = [_of_part(p, int(n), total, rng) for p, n in zip(evidence.parts, np.diff(edges), strict=True)]
    return np.concatenate(drawn)


def _of_part(part: Part, n_points: int, total: float, rng: np.random.Generator) -> Array:
    if part.algorithm.can_refit and not part.algorithm.has_centers:
        return part.context.domain.clip(part.algorithm.support(part.context, part.rounds, n_points, rng))
    return drawn_support(part.context, part.rounds, None, total, n_points, rng, Mixture())
