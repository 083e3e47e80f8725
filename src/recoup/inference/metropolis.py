"""The paper's sampler over data sets (section 3.3), on arrays: from released cells to a data set that explains them.

The chain moves on latent records, each with the mixture component it was drawn from. A step replaces one record by a
draw (component j, point x') from the mixture and accepts with

    target(D') / target(D)  *  w_i N(x; c_i) / (w_j N(x'; c_j)),

where x and i are the record that leaves. This leaves `target(D)` invariant, uniformly over the components, so that
the law of D alone is the target with respect to the uniform measure on the domain. The other reading of the paper's q,
the density of the whole mixture at x and at x', has the same law of D.

What the released values may look like, and what happens: a cell with noisy count 0 has weight 0 and is never proposed;
a tiny one is proposed as rarely as its count says, and its mean is the caller's to keep inside the domain; a round
without sums joins with its counts; a point proposed outside the domain is rejected, for the target is 0 there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recoup.errors import ParameterError
from recoup.inference.metropolis_model import (
    Floats,
    Proposal,
    Target,
    build_mixture,
    build_model,
    log_target_of,
    on_grid,
    positive_components,
)
from recoup.kernels import metropolis as kernel

Progress = Callable[[int, int], None]

# Large enough to hide the cost of a call, small enough to stay in the processor's cache and to stop at once.
BLOCK = 4096
REPORT_EVERY = 100_000
MAX_TRACE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What a run of the sampler found.

    Attributes:
        best_points: (n, d) the data set of the highest log target among all that were visited, the start included.
        best_log_target: its log target, recomputed from its points.
        best_step: the step that reached it; 0 is the start.
        last_points: (n, d) the data set at the end.
        last_components: (n,) the proposal component each of them was drawn from.
        log_targets: the log target at steps 0, trace_stride, 2 trace_stride, ...; at most 1000 values.
        trace_stride: steps between two of them.
        n_steps: steps taken.
        n_accepted: steps that replaced a record.
        interrupted: whether the run was stopped before its end.
        seconds: time taken.
    """

    best_points: Floats
    best_log_target: float
    best_step: int
    last_points: Floats
    last_components: NDArray[np.int64]
    log_targets: Floats
    trace_stride: int
    n_steps: int
    n_accepted: int
    interrupted: bool
    seconds: float

    @property
    def acceptance(self) -> float:
        """The share of steps that replaced a record; 0 before the first step."""
        return self.n_accepted / max(1, self.n_steps)


def sample_chain(
    target: Target,
    proposal: Proposal,
    start_points: ArrayLike,
    start_components: ArrayLike,
    *,
    n_steps: int = 30_000,
    rng: np.random.Generator,
    record_weight: float = 1.0,
    on_progress: Progress | None = None,
) -> Chain:
    """Run one chain of the paper's sampler and keep the best data set on its way.

    Args:
        target: the law over data sets.
        proposal: the mixture that replacements are drawn from.
        start_points: (n, d) latent records to begin with, inside the domain.
        start_components: (n,) the proposal component of each; its weight must be positive.
        n_steps: replacements to try.
        rng: the chain's own source of randomness.
        record_weight: how many records each point stands for; one number for all.
        on_progress: called with (steps done, steps in all), now and then and at the end.

    Returns:
        The best data set, the last state and the course of the run.

    Guarantees:
        A chain depends on its arguments and the state of `rng` alone, and a shorter run is the beginning of a longer
        one. Totals are exact after any number of steps. Memory is proportional to the number of latent records. On
        KeyboardInterrupt the chain ends early, marked as interrupted, with the best data set found so far.

    >>> from recoup.inference.metropolis_model import CellRound
    >>> cells = CellRound(centers=[[-0.5], [0.5]], counts=[1.0, 3.0], count_scale=1.0)
    >>> mixture = Proposal(means=[[-0.5], [0.5]], weights=[0.25, 0.75])
    >>> chain = sample_chain(Target(rounds=[cells]), mixture, [[0.5]] * 4, [1] * 4, rng=np.random.default_rng(0))
    >>> chain.best_log_target, int((chain.best_points[:, 0] > 0).sum())
    (0.0, 3)
    """
    start = _prepare(target, proposal, start_points, start_components, n_steps, record_weight)
    return _run(start, rng, on_progress, threading.Event())


def sample_chains(
    target: Target,
    proposal: Proposal,
    starts: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    n_steps: int = 30_000,
    rng: np.random.Generator,
    record_weight: float = 1.0,
    n_threads: int | None = None,
    on_progress: Progress | None = None,
) -> list[Chain]:
    """Run several independent chains, each from its own start, in parallel threads.

    Args:
        target: the law over data sets.
        proposal: the mixture that replacements are drawn from.
        starts: for each chain, (n, d) latent records to begin with and (n,) the proposal component of each.
        n_steps: replacements to try in each.
        rng: one child of it is spawned for every chain.
        record_weight: how many records each point stands for.
        n_threads: at most this many at a time; one per processor by default.
        on_progress: called with (steps done, steps in all), over all chains, by one thread at a time.

    Returns:
        The chains, in the order of their starts.

    Guarantees:
        The chains do not depend on the number of threads, and the first of them not on how many follow. On
        KeyboardInterrupt all chains end early, each marked and with its own best data set.

    >>> from recoup.inference.metropolis_model import CellRound
    >>> cells = CellRound(centers=[[-0.5], [0.5]], counts=[1.0, 3.0], count_scale=1.0)
    >>> mixture = Proposal(means=[[-0.5], [0.5]], weights=[0.25, 0.75])
    >>> right, left = ([[0.5]] * 4, [1] * 4), ([[-0.5]] * 4, [0] * 4)
    >>> chains = sample_chains(
    ...     Target(rounds=[cells]), mixture, [right, left], n_steps=100, rng=np.random.default_rng(0)
    ... )
    >>> [chain.n_steps for chain in chains]
    [100, 100]
    """
    if not starts:
        raise ParameterError("Give at least one start: each is of one chain.")
    prepared = [_prepare(target, proposal, *start, n_steps, record_weight) for start in starts]
    streams, reports = rng.spawn(len(starts)), _shared_progress(on_progress, len(starts))
    jobs = list(zip(prepared, streams, reports, strict=True))
    stop = threading.Event()
    if len(jobs) == 1:
        return [_run(*jobs[0], stop)]
    with ThreadPoolExecutor(min(len(jobs), n_threads or os.cpu_count() or 1)) as pool:
        futures = [pool.submit(_run, *job, stop) for job in jobs]
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


class _Start(NamedTuple):
    """What a chain begins with, in the kernel's form."""

    model: kernel.Model
    mixture: kernel.Mixture
    kept: NDArray[np.int64]  # the proposal's components of positive weight, which the mixture numbers anew
    points: Floats
    components: NDArray[np.int32]
    n_steps: int


def _prepare(
    target: Target,
    proposal: Proposal,
    start_points: ArrayLike,
    start_components: ArrayLike,
    n_steps: int,
    record_weight: float,
) -> _Start:
    """Check the arguments and bring them into the kernel's form."""
    if n_steps < 0:
        raise ParameterError(f"n_steps must not be negative, got {n_steps}.")
    model = build_model(target, record_weight)
    kept = positive_components(proposal)
    mixture = build_mixture(proposal, kept)
    points = on_grid(start_points)
    components = _renumber(start_components, kept, np.size(proposal.weights))
    _check_start(model, mixture, points, components)
    return _Start(model, mixture, kept, points, components, n_steps)


def _run(start: _Start, rng: np.random.Generator, on_progress: Progress | None, stop: threading.Event) -> Chain:
    """Drive the kernel block by block until the last step, an interrupt, or `stop`."""
    began = time.perf_counter()
    model, n_steps = start.model, start.n_steps
    state = _start_state(start)
    memory = _start_memory(model, state, n_steps)
    (n, d), n_rounds = state.points.shape, state.rows.shape[1]
    uniforms, normals, exponentials = np.empty(BLOCK), np.empty((BLOCK, d)), np.empty(BLOCK)
    scratch = np.empty(d), np.empty(n_rounds, dtype=np.int32), np.empty(len(model.noisy))
    done = reported = 0
    # All that a run learns is written by the kernel, in one call: an interrupt finds it whole.
    try:
        while done < n_steps and not stop.is_set():
            # Always a whole block, so that a shorter run is the beginning of a longer one.
            records = rng.integers(0, n, size=BLOCK)
            rng.random(out=uniforms)
            rng.standard_normal(out=normals)
            rng.standard_exponential(out=exponentials)
            draws = kernel.Draws(records, uniforms, normals, exponentials)
            kernel.run_block(model, start.mixture, state, memory, draws, min(BLOCK, n_steps - done), *scratch)
            done = int(memory.counters[kernel.STEP])
            if on_progress is not None and (done == n_steps or done - reported >= REPORT_EVERY):
                reported = done
                on_progress(done, n_steps)
    except KeyboardInterrupt:
        stop.set()
    done = int(memory.counters[kernel.STEP])
    if not memory.counters[kernel.BEST_IS_SAVED]:
        kernel.save_best(state.points, memory)
    return Chain(
        best_points=memory.best_points,
        best_log_target=log_target_of(model, memory.best_points),
        best_step=int(memory.counters[kernel.BEST_STEP]),
        last_points=state.points,
        last_components=start.kept[state.components],
        log_targets=memory.trace[: 1 + done // memory.stride].copy(),
        trace_stride=memory.stride,
        n_steps=done,
        n_accepted=int(memory.counters[kernel.N_ACCEPTED]),
        interrupted=done < n_steps,
        seconds=time.perf_counter() - began,
    )


def _renumber(components: ArrayLike, kept: NDArray[np.int64], n_components: int) -> NDArray[np.int32]:
    """Number the records' components among those that can be proposed."""
    given = np.asarray(components, dtype=np.int64).reshape(-1)
    number = np.full(n_components, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    if ((given < 0) | (given >= n_components)).any() or (number[given] < 0).any():
        raise ParameterError("Every record must start in a proposal component of positive weight.")
    return number[given]


def _check_start(model: kernel.Model, mixture: kernel.Mixture, points: Floats, components: NDArray[np.int32]) -> None:
    """The start must be a data set of the domain that the kernel can hold exactly."""
    d = model.centers.shape[0]
    if points.shape != (len(components), d) or mixture.means.shape[1] != d:
        raise ParameterError(
            f"Points of shape {points.shape}, {len(components)} components, means of {mixture.means.shape[1]} columns "
            f"and centres of {d} columns do not fit."
        )
    if not 1 <= len(points) <= kernel.MAX_RECORDS:
        raise ParameterError(
            f"The sampler takes 1 to {kernel.MAX_RECORDS} latent records, got {len(points)}. "
            "Use fewer points and a larger record_weight."
        )
    norm = {
        kernel.BOX: np.abs(points).max(axis=1),
        kernel.L1_BALL: np.abs(points).sum(axis=1),
        kernel.L2_BALL: np.sqrt((points**2).sum(axis=1)),
    }[model.domain]
    limit = 1.0 if model.domain == kernel.BOX else model.radius
    if not (np.abs(points).max() <= 1.0 + kernel.GRID and norm.max() <= limit + d * kernel.GRID):
        raise ParameterError("The start must lie inside the domain.")


def _start_state(start: _Start) -> kernel.State:
    """A chain's own copy of the start, with all that follows from it."""
    model, n = start.model, len(start.points)
    state = kernel.State(
        points=start.points.copy(),
        components=start.components.copy(),
        log_densities=np.empty(n),
        rows=np.empty((n, len(model.first) - 1), dtype=np.int32),
        totals=np.empty(model.noisy.shape),
    )
    kernel.total_records(model, state.points, state.rows, state.totals, np.empty(len(model.noisy)))
    kernel.fill_log_densities(start.mixture, state)
    return state


def _start_memory(model: kernel.Model, state: kernel.State, n_steps: int) -> kernel.Memory:
    """The start is the best so far; the journal holds one data set's worth of changes."""
    n, d = state.points.shape
    stride = max(1, -(-n_steps // (MAX_TRACE - 1)))
    n_journal = min(max(n, BLOCK), max(1, n_steps))
    memory = kernel.Memory(
        journal_records=np.empty(n_journal, dtype=np.int64),
        journal_points=np.empty((n_journal, d)),
        best_points=np.empty((n, d)),
        trace=np.empty(1 + n_steps // stride),
        stride=stride,
        counters=np.zeros(kernel.N_COUNTERS, dtype=np.int64),
        best_log_target=np.array([kernel.log_target(model, state.totals)]),
    )
    memory.trace[0] = memory.best_log_target[0]
    return memory
