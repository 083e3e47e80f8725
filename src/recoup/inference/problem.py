"""From evidence to the problem that maximum entropy solves: which reading suits its rounds.

Rounds decide, not names: whoever asked for counts and sums in cells, they are read as those of k-means are. For all
other queries the releases' algorithms say where records may lie and how far to trust that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.base import Algorithm
from recoup.errors import ParameterError
from recoup.inference.evidence import Evidence, Part
from recoup.maxent.measure import Pass, Problem, total_of
from recoup.maxent.readings import by_cells, by_means, of_several
from recoup.maxent.support import drawn_support
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.queries.counts import counts_in_cells
from recoup.transcript.round import Round

_LARGEST_TABLE = 2**26  # values of all rows on the support: half a gigabyte
_FEWEST_POINTS = 500
_MAX_STEPS = 100


def problem_of(evidence: Evidence, rng: np.random.Generator, *, n_points: int, around_means: bool = True) -> Problem:
    """State the problem of rounds of any queries; those of DP-KMEANS alone are read `around_means`, if asked for."""
    context, rounds, parts = evidence.context, evidence.rounds, evidence.parts
    if around_means and evidence.one_law and only_means(rounds):
        return by_means(context, rounds, rng, n_points=n_points)
    if not has_cells_alone(rounds):
        return by_algorithms(evidence, rng, n_points=n_points)
    if len(parts) > 1:
        releases = [(part.rounds, part.n_settling) for part in parts]
        return of_several(context, releases, rng, n_points=n_points, strength=evidence.strength)
    n_settling = parts[0].n_settling
    return by_cells(context, rounds, rng, n_points=n_points, strength=evidence.strength, n_settling=n_settling)


def only_means(rounds: Sequence[Round]) -> bool:
    """Whether every round is one of DP-KMEANS: nothing was asked but counts and absolute sums of its cells."""
    return all(as_cells(r.query, "absolute") for r in rounds)


def has_cells_alone(rounds: Sequence[Round]) -> bool:
    """Whether every round counts records in cells, with or without sums: then the rows are those of the cells."""
    return all(counts_in_cells(r.query) for r in rounds)


def by_algorithms(evidence: Evidence, rng: np.random.Generator, *, n_points: int) -> Problem:
    """State the problem on the support that the releases' algorithms draw, of fewer points where rows are many."""
    context, rounds = evidence.context, evidence.rounds
    counted = (block.total is not None for r in rounds for block in r.query.sensitivity(context.domain).blocks)
    if rounds and context.n_records is None and not any(counted):
        raise ParameterError(
            "no round counts the records, so how many there are cannot be inferred: release with n_records=, or let a "
            "query count them in a block whose contributions add up to 1."
        )
    n_rows = sum(answered.query.size for answered in rounds)
    total = total_of(context, rounds)
    # Of one algorithm alone: answers to others may be of other sizes.
    slack = evidence.parts[0].algorithm.slack(context, total) if len(evidence.parts) == 1 else 0.0
    n_points = max(min(n_points, _LARGEST_TABLE // max(n_rows, 1)), _FEWEST_POINTS)
    return Problem(
        context=context,
        rounds=rounds,
        total=total,
        temperature=pseudo_records(evidence) / total,
        support=lambda n, _: support_of(evidence, n, total, rng),
        passes=(Pass(n_points=n_points, max_steps=_MAX_STEPS, slack=slack),),
    )


def points_for(evidence: Evidence) -> int:
    """How many points a support has where nobody says: the algorithm's own number, if one alone is read.

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


def support_of(evidence: Evidence, n_points: int, total: float, rng: np.random.Generator) -> Array:
    """Points where the releases say that records may lie, an equal number from each."""
    sizes = np.diff(np.linspace(0, n_points, len(evidence.parts) + 1).astype(int))
    return np.concatenate([_of_part(p, int(n), total, rng) for p, n in zip(evidence.parts, sizes, strict=True)])


def _of_part(part: Part, n_points: int, total: float, rng: np.random.Generator) -> Array:
    if part.algorithm.can_refit and not part.algorithm.has_centers:
        return part.context.domain.clip(part.algorithm.support(part.context, part.rounds, n_points, rng))
    return drawn_support(part.context, part.rounds, n_points, rng, total=total)
