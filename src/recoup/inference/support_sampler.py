"""The paper's sampler for any query: a chain over data sets whose records lie on a finite support.

A step moves one record to a support point drawn uniformly, which is symmetric, and accepts by the likelihood ratio; so
the law of the data set is the posterior under the prior that each record is uniform on the support. All rounds are
updated by the difference of two contributions. It starts at the maximum-entropy measure of the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recoup.inference.metropolis import MAX_TRACE
from recoup.kernels.support_sampler import log_target, walk
from recoup.queries.base import Array

_BLOCK = 4096
_FRESH_TOTALS = 64  # blocks after which totals are added up again, so that rounding cannot drift


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportTarget:
    """How well a data set on the support explains noisy additive answers.

    Attributes:
        rows: (m, R) contribution of one record at each support point.
        observed: (R,) noisy answers.
        scales: (R,) noise scales.
        gaussian: (R,) whether a row's noise is Gaussian; else it is Laplace.
    """

    rows: Array
    observed: Array
    scales: Array
    gaussian: NDArray[np.bool_]

    def log_density(self, weights: Array) -> float:
        """The log target of weighted support points, up to a constant."""
        return float(log_target(weights @ self.rows, self.observed, self.scales, self.gaussian))


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportChain:
    """What a run found.

    Attributes:
        best_weights: (m,) records on each support point in the best data set visited, the start included.
        best_log_target: its log target.
        best_step: the step that reached it; 0 is the start.
        last_weights: (m,) likewise at the end.
        log_targets: the log target at equally spaced steps, the start first; at most 1000 values.
        acceptance: the share of accepted steps.
        interrupted: whether it was stopped early.
    """

    best_weights: Array
    best_log_target: float
    best_step: int
    last_weights: Array
    log_targets: Array
    acceptance: float
    interrupted: bool


def sample_on_support(
    target: SupportTarget,
    start: Array,
    *,
    n_records: int,
    n_steps: int,
    rng: np.random.Generator,
    on_progress: Callable[[int, int], None] | None = None,
) -> SupportChain:
    """Run one chain.

    Args:
        target: the rows and their answers.
        start: (m,) weights to start from; records are put there by largest remainder.
        n_records: latent records; each stands for an equal part of the start's total.
        n_steps: steps to take.
        rng: harmless randomness.
        on_progress: called with (steps done, steps in all).

    Returns:
        The best and the last data set.
    """
    m = len(start)
    total = float(start.sum())
    weight = total / n_records
    positions = np.repeat(np.arange(m), _whole_parts(start / total * n_records))
    rows = np.ascontiguousarray(target.rows) * weight
    answers = target.observed, target.scales, target.gaussian
    totals = rows[positions].sum(axis=0) if n_records < m else _counts(positions, m) @ rows
    current = best = float(log_target(totals, *answers))
    best_positions, best_step, n_accepted, done = positions.copy(), 0, 0, 0
    stride = max(1, -(-n_steps // (MAX_TRACE - 1)))
    thinned, interrupted = [np.array([current])], False
    try:
        while done < n_steps:
            size = min(_BLOCK, n_steps - done)
            movers, goals = rng.integers(len(positions), size=size), rng.integers(m, size=size)
            chances = np.log1p(-rng.random(size))
            left, trace = np.empty(size, np.int64), np.empty(size)
            current = walk(rows, *answers, movers, goals, chances, positions, totals, current, left, trace)
            n_accepted += int((left >= 0).sum())
            peak = int(trace.argmax())
            if trace[peak] > best:
                best_positions = _undone(positions, movers, left, peak)
                best, best_step = float(trace[peak]), done + peak + 1
            thinned.append(trace[(-done - 1) % stride :: stride])
            done += size
            if (done // _BLOCK) % _FRESH_TOTALS == 0:
                totals = _counts(positions, m) @ rows
                current = float(log_target(totals, *answers))
            if on_progress is not None:
                on_progress(done, n_steps)
    except KeyboardInterrupt:
        interrupted = True
    best_weights = _counts(best_positions, m) * weight
    return SupportChain(
        best_weights=best_weights,
        best_log_target=target.log_density(best_weights),
        best_step=best_step,
        last_weights=_counts(positions, m) * weight,
        log_targets=np.concatenate(thinned),
        acceptance=n_accepted / max(done, 1),
        interrupted=interrupted,
    )


def sample_chains_on_support(
    target: SupportTarget,
    start: Array,
    *,
    n_chains: int,
    n_records: int,
    n_steps: int,
    rng: np.random.Generator,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[SupportChain]:
    """Run independent chains, one after the other.

    Args:
        target: the rows and their answers.
        start: (m,) weights that the first chain starts from; the others start from weights drawn uniformly among all of
            the same total, far from it and from each other, so that R-hat can tell chains that have met.
        n_chains: how many chains.
        n_records: latent records of each.
        n_steps: steps of each.
        rng: one child of it is spawned for every chain.
        on_progress: called with (steps done, steps in all), over all chains.

    Returns:
        The chains; after an interruption none is begun, and the last one is marked.

    Guarantees: the first chain does not depend on how many follow.
    """
    chains: list[SupportChain] = []
    for i, stream in enumerate(rng.spawn(n_chains)):
        report = None if on_progress is None else _of_all(on_progress, i * n_steps, n_chains * n_steps)
        begin = start if i == 0 else stream.dirichlet(np.ones(len(start))) * start.sum()
        chain = sample_on_support(target, begin, n_records=n_records, n_steps=n_steps, rng=stream, on_progress=report)
        chains.append(chain)
        if chain.interrupted:
            break
    return chains


def _of_all(on_progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: on_progress(before + done, total)


def _counts(positions: NDArray[np.int64], m: int) -> Array:
    return np.bincount(positions, minlength=m).astype(np.float64)


def _undone(
    positions: NDArray[np.int64], movers: NDArray[np.int64], left: NDArray[np.int64], last: int
) -> NDArray[np.int64]:
    """The positions as they were after a step of the block, by taking back the later ones."""
    back = positions.copy()
    for s in range(len(movers) - 1, last, -1):
        if left[s] >= 0:
            back[movers[s]] = left[s]
    return back


def _whole_parts(exact: Array) -> NDArray[np.int64]:
    """Whole numbers near the given ones, with the same sum: the largest remainders are rounded up."""
    whole = np.floor(exact).astype(np.int64)
    missing = round(float(exact.sum())) - int(whole.sum())
    whole[np.argsort(-(exact - whole), kind="stable")[:missing]] += 1
    return whole
