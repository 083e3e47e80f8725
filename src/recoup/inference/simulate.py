"""Releases of inferred data, simulated again and again with fresh noise, and what would be inferred from each.

What rests on them shares them: intervals and the curve for choosing K look at the same draws. Rounds of DP-KMEANS say
nothing about what is inside a cell but its mean, so there each draw may start from other data that explains the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np

from recoup._progress import OnProgress, told
from recoup._threads import n_threads, one_blas_thread
from recoup.algorithms.registry import algorithm_from_json
from recoup.inference.diagnostics import expected_answer
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.maxent.measure import Pass, Problem, by_cells, maxent, only_cells, only_means, temperature_of_means
from recoup.maxent.sizes import WeightedPoints
from recoup.queries.base import Array
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

# One pass on so many points has the error of two on 10,000 within a few per cent, at a sixth of the time.
_POINTS, _PASSES = 4_000, 1
# Other data in the place of the inferred: so many clumps for each cluster, so far from where the inferred data is.
_CLUMPS, _CLUMP_SHIFT, _CLUMP_SPREADS = 2, 0.3, (0.02, 0.05, 0.1, 0.2)
_SMOOTH_POINTS, _SMOOTH_WEIGHT, _CLUMP_TOLERANCE, _CLUMP_STEPS = 0.25, 0.1, 0.1, 200

Value = TypeVar("Value")


class Draw(NamedTuple):
    """One simulated release: the data that it was made of, and what is inferred from it, in the unit domain."""

    world: WeightedPoints
    again: WeightedPoints


@dataclass(frozen=True, slots=True)
class Simulations:
    """As many simulated releases of one data set as anybody asks for, each drawn once."""

    transcript: Transcript
    data: WeightedPoints  # what was inferred, in the unit domain
    method: str  # by which it was
    n_clusters: int  # that clumps are made for; 0 to draw from the inferred data alone
    rng: np.random.Generator  # of which each draw has a stream of its own
    drawn: list[Draw] = field(default_factory=list)

    @classmethod
    def of(
        cls, transcript: Transcript, inferred: InferredDataset, n_clusters: int, rng: np.random.Generator
    ) -> Simulations:
        """Simulate data with a spread, by maximum entropy: most points of other data sets are centres of cells."""
        population = inferred
        if inferred.method != "maxent":
            population = infer(transcript, "maxent", random_state=rng, n_points=_POINTS, warn=False)
        domain = transcript.context.domain
        data = WeightedPoints(domain.to_unit(population.points), population.weights)
        return cls(transcript, data, inferred.method, n_clusters, rng)

    @property
    def plain(self) -> bool:
        """Whether all draws are of the inferred data itself, and read by maximum entropy."""
        return self.method == "maxent" and not (self.n_clusters and only_means(self.transcript.rounds))

    def first(self, n_draws: int, on_progress: OnProgress | None = None, total: int | None = None) -> list[Draw]:
        """The first so many, whatever the number of threads; progress is told as a part of this total."""
        clumps = _CLUMPS * self.n_clusters if only_means(self.transcript.rounds) else 0

        def draw(stream: np.random.Generator) -> Draw:
            world = clumped(self.transcript, self.data, clumps, stream) if clumps else self.data
            return Draw(world, released_again(self.transcript, world, self.method, stream))

        done, total = len(self.drawn), total or n_draws

        def on_more(more: int, _: int) -> None:
            told(on_progress, done + more, total)

        if n_draws > done:
            self.drawn.extend(in_threads(draw, n_draws - done, self.rng, on_more))
        return self.drawn[:n_draws]


def in_threads(
    draw: Callable[[np.random.Generator], Value],
    n_draws: int,
    rng: np.random.Generator,
    on_progress: OnProgress | None = None,
) -> list[Value]:
    """Call a function with as many independent streams, in the order of the draws."""
    streams, drawn = rng.spawn(n_draws), list[Value]()
    # The limit is set for the whole process, and what draws give must not depend on it: it holds for all of them.
    with one_blas_thread(), ThreadPoolExecutor(min(n_threads(), n_draws)) as pool:
        for value in pool.map(draw, streams):
            drawn.append(value)
            told(on_progress, len(drawn), n_draws)
    return drawn


def simulated_rounds(transcript: Transcript, exact: Sequence[Array], rng: np.random.Generator) -> tuple[Round, ...]:
    """The rounds of a transcript with other answers: exact ones plus fresh noise of the released scales."""
    return tuple(answered.simulated(answer, rng) for answered, answer in zip(transcript.rounds, exact, strict=True))


def released_again(
    transcript: Transcript, data: WeightedPoints, method: str, rng: np.random.Generator
) -> WeightedPoints:
    """Data inferred from one simulated release of given data."""
    rounds = simulated_rounds(transcript, [expected_answer(answered, *data) for answered in transcript.rounds], rng)
    algorithm = algorithm_from_json(transcript.algorithm)
    n_settling = algorithm.settling(transcript.context, transcript.rounds)  # as planned, whatever the new answers say
    return quickly_inferred(replace(transcript, rounds=rounds), method, rng, n_settling=n_settling)


def quickly_inferred(
    transcript: Transcript, method: str, rng: np.random.Generator, *, n_settling: int, n_points: int = _POINTS
) -> WeightedPoints:
    """What `infer` finds, in the unit domain, without a verdict on it and by fewer points and passes."""
    rounds = transcript.rounds
    if method == "maxent" and not only_means(rounds) and only_cells(rounds):
        settings = {"n_points": n_points, "n_passes": _PASSES, "n_settling": n_settling}
        measure = maxent(by_cells(transcript.context, rounds, rng, **settings))
        return WeightedPoints(measure.points, measure.weights)
    again = infer(transcript, method, random_state=rng, n_points=n_points, warn=False)
    return WeightedPoints(transcript.context.domain.to_unit(again.points), again.weights)


def clumped(transcript: Transcript, data: WeightedPoints, n_clumps: int, rng: np.random.Generator) -> WeightedPoints:
    """Other data that explains the rounds, with most of its mass in a few clumps at random places.

    Maximum entropy makes one wide cluster of two in a cell, which every transcript simulated from it would confirm.
    """
    context, total = transcript.context, float(data.weights.sum())
    n_smooth = round(_POINTS * _SMOOTH_POINTS)
    n_clumped = _POINTS - n_smooth
    chosen = rng.choice(len(data.points), size=n_clumps + n_smooth, p=data.weights / total)
    middles, smooth = data.points[chosen[:n_clumps]], data.points[chosen[n_clumps:]]
    middles = context.domain.clip(middles + _CLUMP_SHIFT * rng.standard_normal(middles.shape))
    spreads = rng.choice(_CLUMP_SPREADS, size=n_clumps)
    clump = rng.choice(n_clumps, size=n_clumped, p=rng.dirichlet(np.ones(n_clumps)))
    offsets = spreads[clump, None] * rng.standard_normal((n_clumped, middles.shape[1]))
    points = np.concatenate([context.domain.clip(middles[clump] + offsets), smooth])
    sizes = [n_clumped, n_smooth]
    base = np.repeat([(1 - _SMOOTH_WEIGHT) * total / n_clumped, _SMOOTH_WEIGHT * total / n_smooth], sizes)
    count_scale = float(np.mean([answered.scales[0] for answered in transcript.rounds]))
    problem = Problem(
        context=context,
        rounds=transcript.rounds,
        total=total,
        temperature=temperature_of_means(count_scale, total),
        support=lambda n, _: points,
        passes=(Pass(n_points=_POINTS, tolerance=_CLUMP_TOLERANCE, max_steps=_CLUMP_STEPS),),
        base=base,
    )
    return WeightedPoints(points, maxent(problem).weights)
