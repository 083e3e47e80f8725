"""The paper's sampler for any query: a walk over data sets whose records lie on a finite support.

A step moves one record to a support point drawn uniformly, which is symmetric, and accepts by the likelihood ratio; so
the law of the data set is the posterior under the prior that each record is uniform on the support. All rounds are
updated by the difference of two contributions. It starts at the maximum-entropy measure of the same rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from recoup.inference.evidence import Evidence
from recoup.inference.sampler import (
    BLOCK,
    MAX_LATENT_RECORDS,
    Chain,
    Fit,
    Settings,
    run_chains,
    trace_stride,
    whole_parts,
)
from recoup.kernels.support_walk import log_target, walk
from recoup.maxent.measure import Measure, observations
from recoup.maxent.rows import dense_rows
from recoup.queries.base import Array

SAMPLED_POINTS = 2000  # of the support: a chain visits each point often enough
_FRESH_TOTALS = 64  # blocks after which totals are added up again, so that rounding cannot drift


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportTarget:
    """How well a data set on the support explains noisy additive answers."""

    rows: Array  # (m, R) contribution of one record at each support point
    observed: Array  # (R,) noisy answers
    scales: Array  # (R,) noise scales
    gaussian: NDArray[np.bool_]  # (R,) whether a row's noise is Gaussian; else it is Laplace

    def log_density(self, weights: Array) -> float:
        """The log target of weighted support points, up to a constant."""
        return float(log_target(weights @ self.rows, self.observed, self.scales, self.gaussian))


def sample_support(evidence: Evidence, measure: Measure, rng: np.random.Generator, asked: Settings) -> Fit:
    """Run chains on the support of the rounds' maximum-entropy measure, and take the best-scoring data set of all."""
    clock = time.perf_counter()
    total = float(measure.weights.sum())
    blocks, observed, scales, laws = observations(evidence.context, evidence.rounds, measure.points, total)
    if not blocks:  # nothing was asked that tells one data set from another
        return Fit(measure.points, measure.weights, {})
    target = SupportTarget(
        rows=dense_rows(blocks, len(measure.points)), observed=observed, scales=scales, gaussian=laws == "gaussian"
    )
    n_latent = min(max(1, round(total)), MAX_LATENT_RECORDS)
    ends = sample_chains_on_support(target, measure.weights, n_records=n_latent, rng=rng, asked=asked)
    seconds = {"sampling": time.perf_counter() - clock}
    best = max(ends, key=lambda chain: chain.best_log_target)
    used = best.best > 0
    last = [np.rint(chain.last / total * n_latent).astype(int) for chain in ends]
    drawn = tuple(np.repeat(measure.points, counts, axis=0) for counts in last)
    return Fit(measure.points[used], best.best[used], seconds, chains=ends, draws=drawn)


def sample_chains_on_support(
    target: SupportTarget, start: Array, *, n_records: int, rng: np.random.Generator, asked: Settings
) -> list[Chain]:
    """Run chains of `n_records` latent records, each an equal part of the total of the (m,) weights to start from.

    The first chain starts from these, the others from weights drawn uniformly among all of the same total, far from
    them and from each other, so that R-hat can tell chains that have met.
    """

    def begin(number: int, stream: np.random.Generator) -> SupportWalk:
        weights = start if number == 0 else stream.dirichlet(np.ones(len(start))) * start.sum()
        return SupportWalk(target, weights, n_records=n_records, n_steps=asked.n_steps)

    return run_chains(
        [partial(begin, number) for number in range(asked.n_chains)],
        n_steps=asked.n_steps,
        rng=rng,
        on_progress=asked.on_progress,
    )


class SupportWalk:
    """A chain on a support, from (m,) weights on which latent records are put by largest remainder."""

    report_every = BLOCK

    def __init__(self, target: SupportTarget, start: Array, *, n_records: int, n_steps: int) -> None:
        self.target, self.n_steps, self.n_done = target, n_steps, 0
        self._m, total = len(start), float(start.sum())
        self._weight = total / n_records
        self._rows = np.ascontiguousarray(target.rows) * self._weight
        self._answers = target.observed, target.scales, target.gaussian
        self._positions = np.repeat(np.arange(self._m), whole_parts(start / total, n_records))
        few = n_records < self._m
        self._totals = self._rows[self._positions].sum(axis=0) if few else self._counts(self._positions) @ self._rows
        self._current = self._best = float(log_target(self._totals, *self._answers))
        self._best_positions, self._best_step, self._n_accepted = self._positions.copy(), 0, 0
        self._stride, self._trace = trace_stride(n_steps), [np.array([self._current])]

    def advance(self, n_steps: int, rng: np.random.Generator) -> None:
        """Take steps, at most a block."""
        movers, goals = rng.integers(len(self._positions), size=n_steps), rng.integers(self._m, size=n_steps)
        log_uniforms = np.log1p(-rng.random(n_steps))
        left, trace = np.empty(n_steps, np.int64), np.empty(n_steps)
        self._current = walk(
            self._rows, *self._answers, movers, goals, log_uniforms, self._positions, self._totals, self._current, left,
            trace,
        )  # fmt: skip
        self._n_accepted += int((left >= 0).sum())
        peak = int(trace.argmax())
        if trace[peak] > self._best:
            self._best_positions = _undone(self._positions, movers, left, peak)
            self._best, self._best_step = float(trace[peak]), self.n_done + peak + 1
        self._trace.append(trace[(-self.n_done - 1) % self._stride :: self._stride])
        self.n_done += n_steps
        if (self.n_done // BLOCK) % _FRESH_TOTALS == 0:
            self._totals = self._counts(self._positions) @ self._rows
            self._current = float(log_target(self._totals, *self._answers))

    def chain(self) -> Chain:
        """What it came to."""
        best = self._counts(self._best_positions) * self._weight
        return Chain(
            best=best,
            best_log_target=self.target.log_density(best),
            best_step=self._best_step,
            last=self._counts(self._positions) * self._weight,
            log_targets=np.concatenate(self._trace),
            n_steps=self.n_done,
            n_accepted=self._n_accepted,
            interrupted=self.n_done < self.n_steps,
        )

    def _counts(self, positions: NDArray[np.int64]) -> Array:
        return np.bincount(positions, minlength=self._m).astype(np.float64)


def _undone(
    positions: NDArray[np.int64], movers: NDArray[np.int64], left: NDArray[np.int64], last: int
) -> NDArray[np.int64]:
    """The positions as they were after a step of the block, by taking back the later ones."""
    back = positions.copy()
    for s in range(len(movers) - 1, last, -1):
        if left[s] >= 0:
            back[movers[s]] = left[s]
    return back
