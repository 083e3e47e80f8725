"""The paper's sampler (section 3.3): a walk over latent records, for rounds of counts and absolute sums of cells.

Each record carries the mixture component it was drawn from. A step replaces one record by a draw (component j, point
x') from the mixture and accepts with

    target(D') / target(D)  *  w_i N(x; c_i) / (w_j N(x'; c_j)),

where x and i are the record that leaves. This leaves `target(D)` invariant, uniformly over the components, so that
the law of D alone is the target with respect to the uniform measure on the domain. The other reading of the paper's q,
the density of the whole mixture at x and at x', has the same law of D. A cell with noisy count 0 is never proposed; a
round without sums joins with its counts; a point outside the domain is rejected, for the target is 0 there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from recoup.errors import ParameterError
from recoup.inference.evidence import Evidence
from recoup.inference.sampler import BLOCK, MAX_LATENT, Chain, Fit, Settings, run_chains, trace_stride, whole_parts
from recoup.kernels import walks as kernel
from recoup.maxent.consistency import Cells, made_consistent, voronoi_cells_of
from recoup.queries.base import Array, Integers
from recoup.transcript.context import Context

_DOMAINS = {"box": kernel.BOX, "l1": kernel.L1_BALL, "l2": kernel.L2_BALL}
_UNBOUNDED_GAIN = 1e300
# Below this the grid of coordinates would show in the proposal.
_MIN_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The law over data sets: how well each explains all rounds, inside the domain."""

    rounds: Sequence[Cells]  # what was released; a scale may be one number
    noise: Literal["laplace", "gaussian"] = "laplace"  # log target -sum |y - A(D)| / b, or -sum (y - A(D))^2 / (2 b^2)
    scale: Literal["one", "noise"] = "noise"  # b: the released scale, or 1, as the paper prints its acceptance
    domain: str = "l1"  # "box": [-1, 1]^d; "l1", "l2": the ball of `radius` within that box
    radius: float = 1.0  # of the ball


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The mixture of Gaussians that replacements are drawn from."""

    means: Array  # (C, d), inside the domain
    weights: Array  # (C,) not negative; only ratios matter; a component of weight 0 is never proposed
    variance: float = 0.001  # of every coordinate, the paper's delta
    correction: Literal["component", "mixture"] = "component"  # whose density is the q(x) of the acceptance


def sample_records(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> Fit:
    """Run the paper's sampler on rounds of counts and absolute sums, and take the best-scoring data set of all chains.

    The first chain does not depend on how many follow; these start far apart, so that R-hat can tell whether they met.
    """
    clock = time.perf_counter()
    context, released = evidence.context, voronoi_cells_of(evidence.rounds)
    cells, total, report = made_consistent(released, context)
    seconds = {"consistency": time.perf_counter() - clock}
    clock = time.perf_counter()
    aimed = released if asked.raw else cells
    proposal = _mixture(aimed, context, asked)
    shape, radius = context.domain.shape()
    kind, radius = ("box", "l1", "l2")[shape], min(radius, 1e6)
    target = Target(rounds=aimed, noise=context.mechanism, scale=asked.target_scale, domain=kind, radius=radius)
    n_true = max(1, round(total))
    n = min(n_true, MAX_LATENT)
    # The paper's start: each of the last round's centres, as often as its count says. The others are far from it and
    # from each other: the means of all rounds, each as often as its weight says times an exponential draw.
    weights = proposal.weights
    last = np.where(np.arange(len(weights)) < len(weights) - len(aimed[-1].centers), 0.0, weights)
    far = (weights * rng.standard_exponential(len(weights)) for _ in range(asked.n_chains - 1))
    wholes = (whole_parts(shares / shares.sum(), n) for shares in (last, *far))
    components = [np.repeat(np.arange(len(weights)), whole) for whole in wholes]

    def begin(start: Integers, stream: np.random.Generator) -> RecordWalk:
        means = proposal.means[start]
        return RecordWalk(target, proposal, means, start, n_steps=asked.n_steps, record_weight=n_true / n)

    ends = run_chains([partial(begin, start) for start in components], rng=rng, on_progress=asked.on_progress)
    seconds["sampling"] = time.perf_counter() - clock
    best = int(np.argmax([chain.best_log_target for chain in ends]))
    points, start = ends[best].best, components[best]
    # Records that never left their start are one weighted point per mean: the same data set, much smaller.
    moved = (np.abs(points - proposal.means[start]) > 2.0**-29).any(axis=1)
    _, first, count = np.unique(start[~moved], return_index=True, return_counts=True)
    points = np.concatenate([points[~moved][first], points[moved]])
    weights = np.concatenate([n_true / n * count, np.full(int(moved.sum()), n_true / n)])
    quality = {"primal_residual": report.primal_residual, "dual_residual": report.dual_residual}
    return Fit(points, weights, seconds, quality, ends, [chain.last for chain in ends])


def _mixture(cells: Sequence[Cells], context: Context, asked: Settings) -> Proposal:
    weights = []
    for c in cells:
        positive = np.maximum(c.counts, 0.0)
        total = positive.sum()
        # A round that saw nothing proposes from all of its cells alike, so that a proposal always exists.
        weights.append(positive / total if total > 0 else np.full(len(positive), 1.0 / len(positive)))
    means, shares = np.concatenate([c.means(context) for c in cells]), np.concatenate(weights)
    return Proposal(means=means, weights=shares, variance=asked.proposal_variance, correction=asked.correction)


class RecordWalk:
    """A chain of the paper's sampler, from (n, d) points inside the domain, each with its component of positive weight.

    Guarantees: a shorter run is the beginning of a longer one. Totals are exact after any number of steps. All that a
    block of steps learns is written by the kernel, in one call: an interrupt finds it whole.
    """

    report_every = 100_000

    def __init__(
        self,
        target: Target,
        proposal: Proposal,
        points: ArrayLike,
        components: ArrayLike,
        *,
        n_steps: int,
        record_weight: float = 1.0,
    ) -> None:
        self.n_steps = n_steps
        self.model = _model(target, record_weight)
        self.mixture, self.kept = mixture_of(proposal)
        start, drawn_from = _on_grid(points), np.searchsorted(self.kept, components).astype(np.int32)
        (n, d), n_rounds, n_cells = start.shape, len(self.model.first) - 1, len(self.model.noisy)
        self.state = kernel.State(
            points=start,
            components=drawn_from,
            log_densities=np.empty(n),
            rows=np.empty((n, n_rounds), dtype=np.int32),
            totals=np.empty(self.model.noisy.shape),
        )
        kernel.total_records(self.model, start, self.state.rows, self.state.totals, np.empty(n_cells))
        kernel.fill_log_densities(self.mixture, self.state)
        # The start is the best so far; the journal holds one data set's worth of changes.
        n_journal = min(max(n, BLOCK), max(1, n_steps))
        stride = trace_stride(n_steps)
        self.memory = kernel.Memory(
            journal_records=np.empty(n_journal, dtype=np.int64),
            journal_points=np.empty((n_journal, d)),
            best_points=np.empty((n, d)),
            trace=np.empty(1 + n_steps // stride),
            stride=stride,
            counters=np.zeros(kernel.N_COUNTERS, dtype=np.int64),
            best_log_target=np.array([kernel.log_target(self.model, self.state.totals)]),
        )
        self.memory.trace[0] = self.memory.best_log_target[0]
        self.scratch = np.empty(d), np.empty(n_rounds, dtype=np.int32), np.empty(n_cells)
        self._drawn = np.empty(BLOCK), np.empty((BLOCK, d)), np.empty(BLOCK)

    @property
    def n_done(self) -> int:
        """Steps taken."""
        return int(self.memory.counters[kernel.STEP])

    def advance(self, n_steps: int, rng: np.random.Generator) -> None:
        """Take steps, at most a block; its randomness is always drawn whole."""
        uniforms, normals, exponentials = self._drawn
        records = rng.integers(0, len(self.state.points), size=BLOCK)
        rng.random(out=uniforms)
        rng.standard_normal(out=normals)
        rng.standard_exponential(out=exponentials)
        self.walk(kernel.Draws(records, uniforms, normals, exponentials), n_steps)

    def walk(self, draws: kernel.Draws, n_steps: int) -> None:
        """Take steps with given randomness."""
        kernel.run_block(self.model, self.mixture, self.state, self.memory, draws, n_steps, *self.scratch)

    def chain(self) -> Chain:
        """What it came to."""
        memory, done = self.memory, self.n_done
        if not memory.counters[kernel.BEST_IS_SAVED]:
            kernel.save_best(self.state.points, memory)
        return Chain(
            best=memory.best_points,
            best_log_target=_log_target(self.model, memory.best_points),
            best_step=int(memory.counters[kernel.BEST_STEP]),
            last=self.state.points,
            log_targets=memory.trace[: 1 + done // memory.stride].copy(),
            n_steps=done,
            n_accepted=int(memory.counters[kernel.N_ACCEPTED]),
            interrupted=done < self.n_steps,
        )


def _model(target: Target, record_weight: float) -> kernel.Model:
    """Stack the rounds into one table of counts and sums, in units of `record_weight` records."""
    centers = np.concatenate([np.asarray(cells.centers, dtype=np.float64) for cells in target.rounds])
    first = np.cumsum([0, *(len(cells.centers) for cells in target.rounds)]).astype(np.int64)
    (k, d), radius = centers.shape, target.radius
    noisy, scale = np.zeros((k, 1 + d)), np.full((k, 1 + d), np.inf)  # infinite where nothing was released
    for cells, start, end in zip(target.rounds, first[:-1], first[1:], strict=True):
        noisy[start:end, 0], scale[start:end, 0] = cells.counts, cells.count_scales
        if cells.sums is not None:
            noisy[start:end, 1:], scale[start:end, 1:] = cells.sums, cells.sum_scales
    if target.scale == "one":
        scale = np.where(np.isfinite(scale), 1.0, scale)  # what was not released stays so
    scale, gaussian = scale / record_weight, target.noise == "gaussian"
    precision = 0.5 / scale**2 if gaussian else 1.0 / scale
    count_gain = sum_gain = _UNBOUNDED_GAIN
    if not gaussian:
        count_gain = float(np.maximum.reduceat(precision[:, 0], first[:-1]).sum())
        sum_gain = float(np.maximum.reduceat(precision[:, 1:].max(axis=1), first[:-1]).sum())
    # A start may miss the domain by the rounding of its bounds.
    largest_norm = d * kernel.GRID + {"box": d, "l1": min(d, radius), "l2": min(d, radius * d**0.5)}[target.domain]
    return kernel.Model(
        centers=np.ascontiguousarray(centers.T),
        first=first,
        noisy=noisy / record_weight,
        precision=precision,
        count_gain=count_gain,
        sum_gain=sum_gain,
        largest_norm=float(largest_norm),
        is_gaussian=gaussian,
        domain=_DOMAINS[target.domain],
        radius=float(radius),
    )


def mixture_of(proposal: Proposal) -> tuple[kernel.Mixture, Integers]:
    """The components of positive weight, with an alias table (Vose's method) over them; and which these are."""
    weights, means = (np.asarray(value, dtype=np.float64) for value in (proposal.weights, proposal.means))
    if not (np.isfinite(proposal.variance) and proposal.variance >= _MIN_VARIANCE):
        raise ParameterError(f"The proposal variance must be at least {_MIN_VARIANCE}, got {proposal.variance}.")
    kept = np.flatnonzero(weights > 0)
    weights = weights[kept] / weights[kept].sum()
    share = weights * len(kept)
    threshold, alias = np.ones(len(kept)), np.arange(len(kept))
    poor, rich = [int(c) for c in np.flatnonzero(share < 1)], [int(c) for c in np.flatnonzero(share >= 1)]
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        threshold[low], alias[low] = share[low], high
        share[high] -= 1.0 - share[low]
        if share[high] < 1:
            poor.append(rich.pop())
    mixture = kernel.Mixture(
        means=np.ascontiguousarray(means[kept]),
        log_weights=np.log(weights),
        threshold=threshold,
        alias=alias,
        deviation=float(proposal.variance) ** 0.5,
        half_precision=0.5 / float(proposal.variance),
        is_marginal=proposal.correction == "mixture",
    )
    return mixture, kept


def _on_grid(points: ArrayLike) -> Array:
    """The points on the kernel's grid, rounded toward zero so that none leaves the domain."""
    table = np.array(points, dtype=np.float64, ndmin=2)
    return np.ascontiguousarray(np.trunc(table / kernel.GRID) * kernel.GRID)


def _log_target(model: kernel.Model, points: Array) -> float:
    """The log target of the points, from scratch."""
    rows = np.empty((len(points), len(model.first) - 1), dtype=np.int32)
    totals = np.empty(model.noisy.shape)
    kernel.total_records(model, points, rows, totals, np.empty(len(model.noisy)))
    return float(kernel.log_target(model, totals))
