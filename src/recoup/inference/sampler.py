"""Markov chains over data sets: several are run, the best data set is kept, the mixing judged.

Two walks propose a step: `record_walk`, the paper's own (section 3.3) for rounds of DP-KMEANS, and here, for rounds of
any queries, one on a finite support. Its step moves one record to a support point drawn uniformly, which is symmetric,
and accepts by the likelihood ratio; so the law of the data set is the posterior under the prior that each record is
uniform on the support. It starts at the maximum-entropy measure of the same rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from recoup._progress import OnProgress
from recoup._threads import n_threads
from recoup.inference.evidence import Evidence
from recoup.kernels.walks import log_target_on_support, walk_on_support
from recoup.maxent.measure import observations
from recoup.maxent.rows import dense_rows
from recoup.maxent.support import Measure
from recoup.queries.base import Array, Integers

Begin = Callable[[np.random.Generator], "Walk"]

# Large enough to hide the cost of a call, small enough to stay in the processor's cache and to stop at once.
BLOCK = 4096
MAX_TRACE = 1000
MAX_LATENT = 1_000_000  # above this, every latent record carries a weight
SAMPLED_POINTS = 2000  # of the support: a chain visits each point often enough
_FRESH_TOTALS = 64  # blocks after which totals are added up again, so that rounding cannot drift


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a method may be asked for; `recoup.infer` says what each means."""

    n_points: int = 10_000  # of a support
    n_steps: int = 30_000
    n_chains: int = 1
    on_progress: OnProgress | None = None
    proposal_variance: float = 0.001
    target_scale: Literal["one", "noise"] = "one"
    correction: Literal["component", "mixture"] = "component"
    raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What a chain came to; a data set is (n, d) records or, on a support, (m,) weights of its points."""

    best: Array  # the data set of the highest log target among all that were visited, the start included
    best_log_target: float  # its log target, computed anew
    best_step: int  # the step that reached it; 0 is the start
    last: Array  # the data set at the end
    log_targets: Array  # the log target at steps 0, stride, 2 stride, ... (`trace_stride`).
    n_steps: int  # steps taken
    n_accepted: int  # steps that changed the data set
    interrupted: bool = False  # whether the run was stopped before its end

    @property
    def acceptance(self) -> float:
        """The share of steps that changed the data set; 0 before the first step."""
        return self.n_accepted / max(1, self.n_steps)


class Walk(Protocol):
    """A chain on its way."""

    n_steps: int  # that it is asked for
    report_every: int  # steps between two reports of progress, at least

    @property
    def n_done(self) -> int:
        """Steps taken."""

    def advance(self, n_steps: int, rng: np.random.Generator) -> None:
        """Take at most `BLOCK` steps."""

    def chain(self) -> Chain:
        """What it came to."""


def trace_stride(n_steps: int) -> int:
    """Steps between two values of a trace of at most `MAX_TRACE` values, the start included."""
    return max(1, -(-n_steps // (MAX_TRACE - 1)))


def run_chain(
    walk: Walk, *, rng: np.random.Generator, on_progress: OnProgress | None = None, stop: threading.Event | None = None
) -> Chain:
    """Walk until the last step, an interrupt, or `stop`.

    Guarantees: depends on the walk and the state of `rng` alone. On KeyboardInterrupt it ends early, marked, with the
    best data set so far, and sets `stop`.
    """
    stop = threading.Event() if stop is None else stop
    reported = 0
    try:
        while walk.n_done < walk.n_steps and not stop.is_set():
            walk.advance(min(BLOCK, walk.n_steps - walk.n_done), rng)
            done = walk.n_done
            if on_progress is not None and (done == walk.n_steps or done - reported >= walk.report_every):
                reported = done
                on_progress(done, walk.n_steps)
    except KeyboardInterrupt:
        stop.set()
    return walk.chain()


def run_chains(begins: Sequence[Begin], rng: np.random.Generator, on_progress: OnProgress | None = None) -> list[Chain]:
    """Run independent chains in parallel threads, each begun with its own child of `rng`; progress is that of all.

    Guarantees: the chains do not depend on the number of threads, and the first of them not on how many follow. On
    KeyboardInterrupt all end early, each marked and with its own best data set.
    """
    stop, lock, steps_done = threading.Event(), threading.Lock(), [0] * len(begins)

    def run(number: int, begin: Begin, stream: np.random.Generator) -> Chain:
        def report(done: int, n_steps: int) -> None:
            with lock:
                steps_done[number] = done
                if on_progress is not None:
                    on_progress(sum(steps_done), len(begins) * n_steps)

        return run_chain(begin(stream), rng=stream, on_progress=report, stop=stop)

    jobs = list(zip(range(len(begins)), begins, rng.spawn(len(begins)), strict=True))
    if len(jobs) == 1:
        return [run(*jobs[0])]
    with ThreadPoolExecutor(min(len(jobs), n_threads())) as pool:
        futures = [pool.submit(run, *job) for job in jobs]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            if any(future.exception() is not None for future in done):
                stop.set()
        except KeyboardInterrupt:
            stop.set()
        return [future.result() for future in futures]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a method inferred, in the unit domain."""

    points: Array  # (m, d)
    weights: Array  # (m,)
    seconds: dict[str, float]  # by stage
    quality: dict[str, Any] = field(default_factory=dict)  # further fields of `Diagnostics`
    chains: Sequence[Chain] = ()  # of a sampler
    draws: Sequence[Array] = ()  # the last data set of each chain


def quality_of(chains: Sequence[Chain]) -> dict[str, Any]:
    """How well chains mixed, as fields of `Diagnostics`: effective sample size and R-hat are of their second halves."""
    from arviz_stats.base import array_stats

    traces = [chain.log_targets for chain in chains]
    length = min(len(trace) for trace in traces) // 2
    halves = np.stack([trace[len(trace) - length :] for trace in traces])
    measures = {"ess": array_stats.ess, "r_hat": array_stats.rhat} if len(traces) > 1 else {"ess": array_stats.ess}
    mixing = {}
    if length >= 8 and np.ptp(halves) != 0.0:
        with np.errstate(divide="ignore", invalid="ignore"):
            mixing = {name: float(measure(halves, chain_axis=0, draw_axis=1)) for name, measure in measures.items()}
    return {name: value for name, value in mixing.items() if np.isfinite(value)} | {
        "acceptance": tuple(chain.acceptance for chain in chains),
        "log_likelihood_trace": tuple(traces),
        "best_step": tuple(chain.best_step for chain in chains),
        "interrupted": any(chain.interrupted for chain in chains),
    }


def whole_parts(shares: Array, n: int) -> Integers:
    """Whole numbers with the sum n, near n times the shares: the largest remainders are rounded up, of 0 never."""
    exact = shares * n
    whole = np.floor(exact).astype(np.int64)
    remainder = np.where(shares > 0, exact - whole, -1.0)
    whole[np.argsort(-remainder, kind="stable")[: n - whole.sum()]] += 1
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportTarget:
    """How well a data set on the support explains noisy additive answers."""

    rows: Array  # (m, R) contribution of one record at each support point
    observed: Array  # (R,) noisy answers
    scales: Array  # (R,) noise scales
    gaussian: NDArray[np.bool_]  # (R,) whether a row's noise is Gaussian; else it is Laplace

    def log_density(self, weights: Array) -> float:
        """The log target of weighted support points, up to a constant."""
        return float(log_target_on_support(weights @ self.rows, self.observed, self.scales, self.gaussian))


def sample_support(evidence: Evidence, measure: Measure, rng: np.random.Generator, asked: Settings) -> Fit:
    """Run chains on the support of the rounds' maximum-entropy measure, and take the best-scoring data set of all."""
    clock = time.perf_counter()
    total = float(measure.weights.sum())
    blocks, observed, scales, laws = observations(evidence.context, evidence.rounds, measure.points, total)
    if not blocks:  # nothing was asked that tells one data set from another
        return Fit(measure.points, measure.weights, {})
    rows, gaussian = dense_rows(blocks, len(measure.points)), laws == "gaussian"
    target = SupportTarget(rows=rows, observed=observed, scales=scales, gaussian=gaussian)
    n_latent = min(max(1, round(total)), MAX_LATENT)

    def begin(number: int, stream: np.random.Generator) -> SupportWalk:
        start = measure.weights
        if number > 0:  # far from there and from each other, so that R-hat can tell chains that have met
            start = stream.dirichlet(np.ones(len(start))) * start.sum()
        return SupportWalk(target, start, n_records=n_latent, n_steps=asked.n_steps)

    begins = [partial(begin, number) for number in range(asked.n_chains)]
    ends = run_chains(begins, rng=rng, on_progress=asked.on_progress)
    seconds = {"sampling": time.perf_counter() - clock}
    best = max(ends, key=lambda chain: chain.best_log_target).best
    last = [np.rint(chain.last / total * n_latent).astype(int) for chain in ends]
    drawn = tuple(np.repeat(measure.points, counts, axis=0) for counts in last)
    return Fit(measure.points[best > 0], best[best > 0], seconds, chains=ends, draws=drawn)


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
        self._current = self._best = float(log_target_on_support(self._totals, *self._answers))
        self._best_positions, self._best_step, self._n_accepted = self._positions.copy(), 0, 0
        self._stride, self._trace = trace_stride(n_steps), [np.array([self._current])]

    def advance(self, n_steps: int, rng: np.random.Generator) -> None:
        """Take steps, at most a block."""
        movers, goals = rng.integers(len(self._positions), size=n_steps), rng.integers(self._m, size=n_steps)
        log_uniforms = np.log1p(-rng.random(n_steps))
        left, trace = np.empty(n_steps, np.int64), np.empty(n_steps)
        drawn, state = (movers, goals, log_uniforms), (self._positions, self._totals, self._current)
        self._current = walk_on_support(self._rows, *self._answers, *drawn, *state, left, trace)
        self._n_accepted += int((left >= 0).sum())
        peak = int(trace.argmax())
        if trace[peak] > self._best:
            self._best_positions = self._positions.copy()
            for s in range(n_steps - 1, peak, -1):  # the later steps are taken back
                if left[s] >= 0:
                    self._best_positions[movers[s]] = left[s]
            self._best, self._best_step = float(trace[peak]), self.n_done + peak + 1
        self._trace.append(trace[(-self.n_done - 1) % self._stride :: self._stride])
        self.n_done += n_steps
        if (self.n_done // BLOCK) % _FRESH_TOTALS == 0:
            self._totals = self._counts(self._positions) @ self._rows
            self._current = float(log_target_on_support(self._totals, *self._answers))

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

    def _counts(self, positions: Integers) -> Array:
        return np.bincount(positions, minlength=self._m).astype(np.float64)
