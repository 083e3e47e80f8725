"""Markov chains over data sets, whatever they propose: several are run, the best data set kept, the mixing judged.

Two walks propose a step: `record_walk`, the paper's own (section 3.3) for rounds of DP-KMEANS, and `support_walk`, on
the points of a maximum-entropy support, for rounds of any queries.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from recoup.queries.base import Array

Progress = Callable[[int, int], None]
Begin = Callable[[np.random.Generator], "Walk"]

# Large enough to hide the cost of a call, small enough to stay in the processor's cache and to stop at once.
BLOCK = 4096
MAX_TRACE = 1000
MAX_LATENT_RECORDS = 1_000_000  # above this, every latent record carries a weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a method may be asked for; `recoup.infer` says what each means."""

    n_points: int = 10_000  # of a support
    n_steps: int = 30_000
    n_chains: int = 1
    on_progress: Progress | None = None
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
    walk: Walk,
    *,
    n_steps: int,
    rng: np.random.Generator,
    on_progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Chain:
    """Walk until the last step, an interrupt, or `stop`.

    Guarantees: depends on the walk and the state of `rng` alone. On KeyboardInterrupt it ends early, marked, with the
    best data set so far, and sets `stop`.
    """
    stop = threading.Event() if stop is None else stop
    reported = 0
    try:
        while walk.n_done < n_steps and not stop.is_set():
            walk.advance(min(BLOCK, n_steps - walk.n_done), rng)
            done = walk.n_done
            if on_progress is not None and (done == n_steps or done - reported >= walk.report_every):
                reported = done
                on_progress(done, n_steps)
    except KeyboardInterrupt:
        stop.set()
    return walk.chain()


def run_chains(
    begins: Sequence[Begin],
    *,
    n_steps: int,
    rng: np.random.Generator,
    n_threads: int | None = None,
    on_progress: Progress | None = None,
) -> list[Chain]:
    """Run independent chains in parallel threads, each begun with its own child of `rng`.

    Guarantees: the chains do not depend on the number of threads, and the first of them not on how many follow. On
    KeyboardInterrupt all end early, each marked and with its own best data set.
    """
    stop = threading.Event()
    jobs = list(zip(begins, rng.spawn(len(begins)), _shared_progress(on_progress, len(begins)), strict=True))

    def run(begin: Begin, stream: np.random.Generator, report: Progress | None) -> Chain:
        return run_chain(begin(stream), n_steps=n_steps, rng=stream, on_progress=report, stop=stop)

    if len(jobs) == 1:
        return [run(*jobs[0])]
    with ThreadPoolExecutor(min(len(jobs), n_threads or os.cpu_count() or 1)) as pool:
        futures = [pool.submit(run, *job) for job in jobs]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            if any(future.exception() is not None for future in done):
                stop.set()
        except KeyboardInterrupt:
            stop.set()
        return [future.result() for future in futures]


def _shared_progress(on_progress: Progress | None, n_chains: int) -> list[Progress | None]:
    """One callback per chain that reports the sum over all chains."""
    if on_progress is None:
        return [None] * n_chains
    report = on_progress
    done = [0] * n_chains
    lock = threading.Lock()

    def make(chain: int) -> Progress:
        def on_chain_progress(steps: int, total: int) -> None:
            with lock:
                done[chain] = steps
                report(sum(done), n_chains * total)

        return on_chain_progress

    return [make(chain) for chain in range(n_chains)]


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
    """How well chains mixed, as fields of `Diagnostics`."""
    ess, r_hat = mixing_of([chain.log_targets for chain in chains])
    return {
        "acceptance": tuple(chain.acceptance for chain in chains),
        "log_likelihood_trace": tuple(chain.log_targets for chain in chains),
        "best_step": tuple(chain.best_step for chain in chains),
        "ess": ess,
        "r_hat": r_hat,
        "interrupted": any(chain.interrupted for chain in chains),
    }


def mixing_of(traces: Sequence[Array]) -> tuple[float | None, float | None]:
    """Effective sample size and R-hat of the second halves of several traces, through arviz-stats."""
    from arviz_stats.base import array_stats

    length = min(len(trace) for trace in traces) // 2
    if length < 8:
        return None, None
    halves = np.stack([trace[-length:] for trace in traces])
    if np.ptp(halves) == 0.0:
        return None, None
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = float(array_stats.ess(halves, chain_axis=0, draw_axis=1))
        r_hat = float(array_stats.rhat(halves, chain_axis=0, draw_axis=1)) if len(traces) > 1 else float("nan")
    return (ess if np.isfinite(ess) else None), (r_hat if np.isfinite(r_hat) else None)


def whole_parts(shares: Array, n: int) -> NDArray[np.int64]:
    """Whole numbers with the sum n, near n times the shares: the largest remainders are rounded up, of 0 never."""
    exact = shares * n
    whole = np.floor(exact).astype(np.int64)
    remainder = np.where(shares > 0, exact - whole, -1.0)
    whole[np.argsort(-remainder, kind="stable")[: n - whole.sum()]] += 1
    return whole
