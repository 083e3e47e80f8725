"""Releases of inferred data, simulated: the same queries and noise scales, fresh noise, inferred from in the same way.

The inferred data is taken as if it were the data, so how far inference leads from it is known. Nothing here protects
anybody, and nothing costs privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import ceil
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from recoup._threads import n_threads
from recoup._validate import probability, whole_number
from recoup.errors import ParameterError
from recoup.inference.diagnostics import expected_answer
from recoup.inference.evidence import evidence_of
from recoup.inference.infer import infer
from recoup.maxent.measure import by_cells, explained, maxent, only_cells, only_means, temperature_of_means
from recoup.maxent.sizes import WeightedPoints
from recoup.queries.base import Array
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_DRAWS = 39  # the 36th of 39 is exactly the 90 % point, the 38th the 95 % point
# One pass on so many points has the error of two on 10,000 within a few per cent, at a sixth of the time.
POINTS, _PASSES = 4_000, 1
# Other data in the place of the inferred: so many clumps for each cluster, so far from where the inferred data is.
CLUMPS, _CLUMP_SHIFT, _CLUMP_SPREADS = 2, 0.3, (0.02, 0.05, 0.1, 0.2)
_SMOOTH_POINTS, _SMOOTH_WEIGHT, _CLUMP_TOLERANCE = 0.25, 0.1, 0.1

Result = TypeVar("Result")


def one_transcript(given: object, what: str) -> None:
    """Refuse a list of transcripts, or anything else that is not one."""
    if not isinstance(given, Transcript):
        raise ParameterError(
            f"transcript is a {type(given).__name__}: {what} simulate one release, so give one recoup.Transcript."
        )


def draws_for(level: float, n_draws: int | None) -> int:
    """Check a level and a number of draws against each other; the level's order statistic must exist."""
    probability(level, "level")
    needed = max(1, ceil(level / (1.0 - level) - 1e-9))
    if n_draws is None:
        return max(_DRAWS, needed)
    n_draws = whole_number(n_draws, "n_draws")
    if n_draws < needed:
        raise ParameterError(
            f"n_draws={n_draws}: a level of {level:g} needs at least {needed} draws.", parameter="n_draws"
        )
    return n_draws


def error_at(errors: Array, level: float) -> Array:
    """The absolute error of rank (n + 1) level among n draws: a further one of the same law stays below as often."""
    rank = min(ceil((len(errors) + 1) * level - 1e-9), len(errors))
    return np.asarray(np.sort(np.abs(errors), axis=0)[rank - 1])


def over_simulated(
    transcript: Transcript,
    data: WeightedPoints,
    method: str,
    work: Callable[[WeightedPoints, np.random.Generator], Result],
    n_draws: int,
    rng: np.random.Generator,
) -> list[Result]:
    """What `work` returns for data inferred from simulated releases of given data, whatever the number of threads."""
    exact = exact_answers(transcript, data)

    def draw(stream: np.random.Generator) -> Result:
        return work(released_again(transcript, exact, method, stream), stream)

    return in_threads(draw, n_draws, rng)


def in_threads(draw: Callable[[np.random.Generator], Result], n_draws: int, rng: np.random.Generator) -> list[Result]:
    """Call a function with as many independent streams, in the order of the draws."""
    streams = rng.spawn(n_draws)
    # BLAS in one thread for all draws: its limit is set for the whole process, and the sums must not depend on it.
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(min(n_threads(), n_draws)) as pool:
        return list(pool.map(draw, streams))


def exact_answers(transcript: Transcript, data: WeightedPoints) -> list[Array]:
    """What the data say to the rounds' queries."""
    return [expected_answer(answered, *data) for answered in transcript.rounds]


def simulated_rounds(transcript: Transcript, exact: Sequence[Array], rng: np.random.Generator) -> tuple[Round, ...]:
    """The rounds of a transcript with other answers: exact ones plus fresh noise of the released scales."""
    return tuple(answered.simulated(answer, rng) for answered, answer in zip(transcript.rounds, exact, strict=True))


def released_again(
    transcript: Transcript, exact: Sequence[Array], method: str, rng: np.random.Generator
) -> WeightedPoints:
    """Data inferred from one simulated release with these exact answers."""
    rounds = simulated_rounds(transcript, exact, rng)
    if method == "maxent" and not only_means(rounds) and only_cells(rounds):
        settings = {"n_points": POINTS, "n_passes": _PASSES, "n_settling": evidence_of(transcript).parts[0].n_settling}
        measure = maxent(by_cells(transcript.context, rounds, rng, **settings))
        return WeightedPoints(measure.points, measure.weights)
    again = infer(replace(transcript, rounds=rounds), method, random_state=rng, n_points=POINTS, warn=False)
    return WeightedPoints(transcript.context.domain.to_unit(again.points), again.weights)


def clumped(transcript: Transcript, data: WeightedPoints, n_clumps: int, rng: np.random.Generator) -> WeightedPoints:
    """Other data that explains the rounds, with most of its mass in a few clumps at random places.

    Where a cell holds two clusters, counts and sums tell nothing about how they lie. Maximum entropy makes one wide
    cluster of them, which every transcript simulated from it would confirm.
    """
    context, total = transcript.context, float(data.weights.sum())
    n_smooth = round(POINTS * _SMOOTH_POINTS)
    n_clumped = POINTS - n_smooth
    chosen = rng.choice(len(data.points), size=n_clumps + n_smooth, p=data.weights / total)
    middles, smooth = data.points[chosen[:n_clumps]], data.points[chosen[n_clumps:]]
    middles = context.domain.clip(middles + _CLUMP_SHIFT * rng.standard_normal(middles.shape))
    spreads = rng.choice(_CLUMP_SPREADS, size=n_clumps)
    clump = rng.choice(n_clumps, size=n_clumped, p=rng.dirichlet(np.ones(n_clumps)))
    offsets = spreads[clump, None] * rng.standard_normal((n_clumped, middles.shape[1]))
    points = np.concatenate([context.domain.clip(middles[clump] + offsets), smooth])
    base = np.repeat(
        [(1 - _SMOOTH_WEIGHT) * total / n_clumped, _SMOOTH_WEIGHT * total / n_smooth], [n_clumped, n_smooth]
    )
    rounds, tolerance = transcript.rounds, _CLUMP_TOLERANCE
    temperature = temperature_of_means(float(np.mean([answered.scales[0] for answered in rounds])), total)
    measure = explained(context, rounds, points, total, base=base, temperature=temperature, tolerance=tolerance)
    return WeightedPoints(points, measure.weights)
