"""PrivGene (Zhang et al. 2013): a genetic algorithm whose survivors are selected privately.

A candidate is a set of K centres. Every round scores all candidates, selects a few survivors by noisy scores, and
makes offspring of them: two parents, the first centres of one and the rest of the other, and one centre moved by a step
whose size shrinks from round to round. Survivors stay candidates. The number of rounds is fixed before the first; the
last one selects the single winner. Starts and offspring use public and released values alone.

**Scores.** A record's loss under a candidate is its squared distance to the nearest centre. A selection depends on
differences between candidates only, so each record's smallest loss over the candidates of the round is taken off all of
its losses: what is left is how much worse a candidate serves the record than the best one does. That is the idea of
PrivGene's enhanced exponential mechanism: the noise need not cover a record's loss, only its range over the candidates
at hand. The range is bounded before records are looked at (`loss_range`), never above the squared diameter of the
domain, which is what the plain mechanism takes. Each record adds an integer from 0 to D to each candidate's total,
clipped, so that neighbours move all totals in one direction by at most D, exactly, whatever the bound is worth.

**Selection.** The paper samples by exp(score); here OpenDP's exact report noisy max with exponential noise
(`recoup.privacy.mechanism`) does it, whose error is never larger at the same price. Removing a winner and selecting
again costs a further selection: m survivors cost m times one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recoup._validate import whole_number
from recoup.curator.rivals.base import NUMBER_SHARE, ChargedNoise
from recoup.curator.source import TableSource
from recoup.domain import Domain, uniform_points
from recoup.errors import ParameterError
from recoup.kernels import GRID
from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import DROPPED, TILE
from recoup.queries.base import Array, Integers, Records, sum_over_ranges

# The published law is 1.25e-3 N epsilon / m rounds. Fewer than eight hardly move the candidates on the sets of the
# paper, and more than the cap would only take time.
_ROUNDS_LAW = 1.25e-3
_FEWEST_ROUNDS, _MOST_ROUNDS = 8, 20
# Standard deviation of the first step in half-widths of the unit domain, and how the step shrinks from round to round.
_FIRST_STEP, _SHRINK = 0.5, 0.8
_MOST_NUMBERS = 2**18  # in all candidates of a round: a public cap on memory


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivGene:
    """Private k-means by a genetic algorithm.

    Args:
        n_clusters: K.
        n_rounds: a public number of rounds; by default clip(0.00125 N epsilon / n_survivors, 8, 20).
        n_candidates: how many candidates a round compares.
        n_survivors: how many of them are selected in every round but the last.

    Guarantees: epsilon-differential privacy for adding or removing one record. Every round gets the same share of the
    budget; a round of m survivors splits it over m selections.

    >>> PrivGene(n_clusters=3).n_survivors
    10
    """

    n_clusters: int
    n_rounds: int | None = None
    n_candidates: int = 200
    n_survivors: int = 10

    type_name: ClassVar[str] = "privgene"

    def __post_init__(self) -> None:
        for name in ("n_clusters", "n_candidates", "n_survivors"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name))
        if self.n_rounds is not None:
            object.__setattr__(self, "n_rounds", whole_number(self.n_rounds, "n_rounds"))
        if self.n_survivors > self.n_candidates:
            raise ParameterError(
                f"n_survivors={self.n_survivors}: at most n_candidates={self.n_candidates} can be.",
                parameter="n_survivors",
            )

    def centers(self, source: TableSource, noise: ChargedNoise, rng: np.random.Generator) -> Array:
        """The winner of the last selection, in the unit domain."""
        domain = noise.context.domain
        if self.n_candidates * self.n_clusters * domain.n_columns > _MOST_NUMBERS:
            most = _MOST_NUMBERS // self.n_candidates
            raise ParameterError(f"{self.type_name} holds at most {most} numbers a candidate: ask for fewer clusters.")
        # What the smallest share of the plan could not represent is refused before anything is spent.
        noise.selection(self.n_survivors, share=(1 - NUMBER_SHARE) / (self.n_rounds or _MOST_ROUNDS))
        n_rounds = self.n_rounds
        if n_rounds is None:
            strength = noise.number_of_records(source) * float(noise.context.epsilon)
            n_rounds = int(np.clip(round(_ROUNDS_LAW * strength / self.n_survivors), _FEWEST_ROUNDS, _MOST_ROUNDS))
        share = noise.left / n_rounds
        candidates = uniform_points(domain, self.n_candidates * self.n_clusters, rng)
        candidates = candidates.reshape(self.n_candidates, self.n_clusters, domain.n_columns)
        for turn in range(n_rounds):
            last = turn == n_rounds - 1
            losses = integer_losses(source, domain, candidates, noise.context.sensitivity)
            n_winners, purpose = 1 if last else self.n_survivors, f"round {turn + 1} of {n_rounds}"
            survivors = candidates[noise.smallest_losses(losses, n_winners=n_winners, share=share, purpose=purpose)]
            if not last:
                step = _FIRST_STEP * _SHRINK**turn * min(1.0, domain.shape()[1])
                offspring = self._offspring(survivors, domain, step, rng)
                candidates = np.concatenate([survivors, offspring])
        return np.asarray(survivors[0])

    def _offspring(self, survivors: Array, domain: Domain, step: float, rng: np.random.Generator) -> Array:
        """Crossover and mutation, from released values alone."""
        n, k, d = self.n_candidates - len(survivors), self.n_clusters, domain.n_columns
        parents = rng.integers(0, len(survivors), size=(2, n))
        cut = rng.integers(0, k + 1, size=n)
        from_first = np.arange(k) < cut[:, None]
        offspring = np.where(from_first[:, :, None], survivors[parents[0]], survivors[parents[1]])
        offspring[np.arange(n), rng.integers(0, k, size=n)] += step * rng.standard_normal((n, d))
        return domain.clip(offspring)


def integer_losses(source: TableSource, domain: Domain, candidates: Array, sensitivity: int) -> list[int]:
    """How much worse than the best of the candidates, (m, K, d), each serves the records, in public integer steps.

    Guarantees: a record adds between 0 and the sensitivity to every total; order and blocks of records change nothing.
    """
    m, k, d = candidates.shape
    # Offspring share most of their centres with their parents: a distance is computed once for all that share one.
    centers, members = np.unique(candidates.reshape(m * k, d), axis=0, return_inverse=True)
    members = members.reshape(m, k).astype(np.int64)
    factor = sensitivity / loss_range(domain, candidates)

    def totals_of(block: Records) -> Integers:
        def part(start: int, stop: int) -> Integers:
            totals = np.zeros(m, dtype=np.int64)
            excess_totals(block[start:stop], centers, members, factor, float(sensitivity), totals)
            return totals

        return sum_over_ranges(part, len(block))

    losses = [0] * m
    for block in source.records():
        # Python's integers: a sum over all records need not fit into 64 bits.
        losses = [a + int(b) for a, b in zip(losses, totals_of(block), strict=True)]
    return losses


def loss_range(domain: Domain, candidates: Array) -> float:
    """A public bound of the range of one record's losses over candidates, at most the squared diameter of the domain.

    No loss is larger than the squared distance of the domain's farthest point to a candidate's best-placed centre. And
    the losses of a record under two candidates differ by no more than its distances to two centres of one place do.
    """
    shape, radius = domain.shape()
    sizes, squares = np.abs(candidates), (candidates**2).sum(axis=2)
    diameter = 4.0 * domain.n_columns
    farthest = ((1.0 + sizes) ** 2).sum(axis=2)
    if shape:
        diameter = min(diameter, 4.0 * radius**2)
        toward = sizes.max(axis=2) if shape == 1 else np.sqrt(squares)
        farthest = np.minimum(farthest, squares + 2.0 * radius * toward + radius**2)
    largest = farthest.min(axis=1).max()
    apart = max(_largest_difference(np.unique(place, axis=0), shape, radius) for place in candidates.swapaxes(0, 1))
    # Candidates that are all the same have no range; any positive number serves them.
    return max(min(diameter, float(largest), apart), 2.0**-30)


def _largest_difference(centers: Array, shape: int, radius: float) -> float:
    """The most by which the squared distances of any record to two of these centres differ."""
    # |t - a|^2 - |t - b|^2 = |a|^2 - |b|^2 + 2 t.(b - a) is largest where t points along b - a.
    n = len(centers)
    in_box, in_ball = np.zeros((n, n)), np.zeros((n, n))
    for column in centers.T:
        move = np.abs(column[:, None] - column)
        in_box += move
        in_ball = np.maximum(in_ball, move) if shape == 1 else in_ball + move * move
    reach = np.minimum(in_box, radius * (in_ball if shape == 1 else np.sqrt(in_ball))) if shape else in_box
    squares = (centers**2).sum(axis=1)
    return float((squares[:, None] - squares + 2.0 * reach).max())


@compiled(nogil=True, error_model="numpy")
def excess_totals(
    records: Records,  # IN   (n, d), fixed point
    centers: Array,  # IN   (c, d): every centre that some candidate holds, once
    members: Integers,  # IN   (m, k): the centres of each candidate
    factor: float,  # IN   integer steps for one unit of squared distance
    cap: float,  # IN   the most that a record adds to a total; at most 2^30
    totals: Integers,  # OUT  (m,): sums over records of min(trunc(factor * (loss - smallest loss)), cap)
) -> None:
    """Add each record's integer excess loss under every candidate: how much worse it serves the record than the best.

    A record adds an integer from 0 to a public cap: the sensitivity of the selection, which needs no real arithmetic.
    """
    n, d = records.shape
    n_candidates, n_clusters = members.shape
    tile = np.zeros((d, TILE))
    distances = np.empty((centers.shape[0], TILE))
    losses, smallest, factors = np.empty((n_candidates, TILE)), np.empty(TILE), np.empty(TILE)
    start = 0
    while start < n:
        size = 0
        while start < n and size < TILE:
            if records[start, 0] != DROPPED:
                for j in range(d):
                    tile[j, size] = records[start, j] * (1.0 / GRID)
                size += 1
            start += 1
        for c in range(centers.shape[0]):
            distance, center = distances[c], centers[c]
            for b in range(TILE):
                difference = tile[0, b] - center[0]
                distance[b] = difference * difference
            for j in range(1, d):
                column, value = tile[j], center[j]
                for b in range(TILE):
                    difference = column[b] - value
                    distance[b] += difference * difference
        for b in range(TILE):
            smallest[b] = np.inf
            factors[b] = factor if b < size else 0.0  # places without a record add nothing
        for i in range(n_candidates):
            loss, distance = losses[i], distances[members[i, 0]]
            for b in range(TILE):
                loss[b] = distance[b]
            for k in range(1, n_clusters):
                distance = distances[members[i, k]]
                for b in range(TILE):
                    loss[b] = distance[b] if distance[b] < loss[b] else loss[b]
            for b in range(TILE):
                smallest[b] = loss[b] if loss[b] < smallest[b] else smallest[b]
        for i in range(n_candidates):
            loss, total = losses[i], np.int64(0)
            for b in range(TILE):
                steps = (loss[b] - smallest[b]) * factors[b]
                total += np.int64(steps if steps < cap else cap)
            totals[i] += total
