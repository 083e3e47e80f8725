"""From a transcript to what the sampler needs and back: two chains, one for the rounds of DP-KMEANS and one for others.

The chain over latent records is the paper's (section 3.3), with its choices as arguments. Where rounds are not counts
and absolute sums of cells, a chain over the points of a maximum-entropy support takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup.inference.diagnostics import Diagnostics, mixing_of, residuals_of
from recoup.inference.evidence import Evidence
from recoup.inference.metropolis import Chain, sample_chains
from recoup.inference.metropolis_model import CellRound, Correction, Proposal, Target, TargetScale
from recoup.inference.support_sampler import SupportChain, SupportTarget, sample_chains_on_support
from recoup.maxent.measure import Measure, observations
from recoup.maxent.rounds import Cells, made_consistent, voronoi_cells_of
from recoup.maxent.rows import dense_rows
from recoup.queries.base import Array
from recoup.transcript.context import Context

MAX_LATENT_RECORDS = 1_000_000  # above this, every latent point carries a weight
SAMPLED_POINTS = 2000  # of the support of the generic sampler: a chain visits each point often enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """How long and how often to run.

    Attributes:
        n_steps: steps of each chain.
        n_chains: independent chains.
        on_progress: called with (steps done, steps in all).
    """

    n_steps: int
    n_chains: int
    on_progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the paper's section 3.3 is read.

    Attributes:
        variance: of the proposal, the paper's delta.
        target_scale: the paper prints its acceptance without the noise's scale ("one"), its target with it ("noise").
        correction: the q(x) of the acceptance, of the component that a record came from or of the whole mixture.
        raw: whether target and weights are the noisy values as released, and not the consistent ones.
    """

    variance: float
    target_scale: TargetScale
    correction: Correction
    raw: bool


class Sampled(NamedTuple):
    """What a sampler found, in the unit domain."""

    points: Array  # (m, d) of the best-scoring data set
    weights: Array  # (m,)
    diagnostics: Diagnostics
    draws: tuple[Array, ...]  # the last data set of each chain


class _Start(NamedTuple):
    points: Array  # (n, d)
    components: NDArray[np.int64]  # (n,) of the proposal


def sample_records(transcript: Evidence, rng: np.random.Generator, reading: Reading, chains: Chains) -> Sampled:
    """Run the paper's sampler on rounds of counts and absolute sums.

    Args:
        transcript: its rounds.
        rng: harmless randomness.
        reading: the choices that the paper leaves.
        chains: how long and how often.

    Returns:
        The best-scoring data set of all chains.

    Guarantees: the first chain starts where the paper's does and does not depend on how many follow. The others start
    far apart, so that R-hat can tell chains that have met from chains that have not moved.
    """
    clock = time.perf_counter()
    context = transcript.context
    released = voronoi_cells_of(transcript.rounds)
    cells, result = made_consistent(released, context)
    seconds = {"consistency": time.perf_counter() - clock}
    clock = time.perf_counter()
    aimed = released if reading.raw else cells
    proposal = _mixture(aimed, context, reading)
    n_true = max(1, round(result.total))
    n = min(n_true, MAX_LATENT_RECORDS)
    starts = [_last_centers(aimed[-1], proposal, n)]
    starts += [_overdispersed(proposal, n, rng) for _ in range(chains.n_chains - 1)]
    found = sample_chains(
        _target(aimed, context, reading),
        proposal,
        starts,
        n_steps=chains.n_steps,
        rng=rng,
        record_weight=n_true / n,
        on_progress=chains.on_progress,
    )
    seconds["sampling"] = time.perf_counter() - clock
    best = max(range(len(found)), key=lambda i: found[i].best_log_target)
    points, weights = _grouped(found[best].best_points, starts[best], n_true / n)
    quality = {name: getattr(result, name) for name in ("converged", "primal_residual", "dual_residual")}
    diagnostics = _diagnosed(transcript, points, weights, found, seconds, **quality)
    return Sampled(points, weights, diagnostics, tuple(chain.last_points for chain in found))


def sample_support(transcript: Evidence, measure: Measure, rng: np.random.Generator, chains: Chains) -> Sampled:
    """Run a sampler on the support of a measure, for rounds of any queries.

    Args:
        transcript: its rounds.
        measure: the maximum-entropy measure of the same rounds, where the first chain starts.
        rng: harmless randomness.
        chains: how long and how often.

    Returns:
        The best-scoring data set of all chains.
    """
    clock = time.perf_counter()
    context, total = transcript.context, float(measure.weights.sum())
    blocks, observed, scales, laws = observations(context, transcript.rounds, measure.points, total)
    if not blocks:  # nothing was asked that tells one data set from another
        misfits, log_likelihood = residuals_of(context, transcript.rounds, measure.points, measure.weights)
        nothing = Diagnostics(seconds={}, residuals=misfits, log_likelihood=log_likelihood)
        return Sampled(measure.points, measure.weights, nothing, ())
    target = SupportTarget(
        rows=dense_rows(blocks, len(measure.points)), observed=observed, scales=scales, gaussian=laws == "gaussian"
    )
    n_latent = min(max(1, round(total)), MAX_LATENT_RECORDS)
    found = sample_chains_on_support(
        target,
        measure.weights,
        n_chains=chains.n_chains,
        n_records=n_latent,
        n_steps=chains.n_steps,
        rng=rng,
        on_progress=chains.on_progress,
    )
    seconds = {"sampling": time.perf_counter() - clock}
    best = max(found, key=lambda chain: chain.best_log_target)
    used = best.best_weights > 0
    points, weights = measure.points[used], best.best_weights[used]
    last = [np.rint(chain.last_weights / total * n_latent).astype(int) for chain in found]
    drawn = tuple(np.repeat(measure.points, counts, axis=0) for counts in last)
    return Sampled(points, weights, _diagnosed(transcript, points, weights, found, seconds), drawn)


def _diagnosed(
    transcript: Evidence,
    points: Array,
    weights: Array,
    chains: Sequence[Chain] | Sequence[SupportChain],
    seconds: dict[str, float],
    **more: Any,
) -> Diagnostics:
    clock = time.perf_counter()
    misfits, log_likelihood = residuals_of(transcript.context, transcript.rounds, points, weights)
    ess, r_hat = mixing_of([chain.log_targets for chain in chains])
    return Diagnostics(
        seconds=seconds | {"diagnostics": time.perf_counter() - clock},
        residuals=misfits,
        log_likelihood=log_likelihood,
        acceptance=tuple(chain.acceptance for chain in chains),
        log_likelihood_trace=tuple(chain.log_targets for chain in chains),
        best_step=tuple(chain.best_step for chain in chains),
        ess=ess,
        r_hat=r_hat,
        interrupted=any(chain.interrupted for chain in chains),
        **more,
    )


def _target(cells: Sequence[Cells], context: Context, reading: Reading) -> Target:
    return Target(
        rounds=[
            CellRound(
                centers=c.query.centers,
                counts=c.counts,
                count_scale=c.count_scales,
                sums=c.sums,
                sum_scale=c.sum_scales,
            )
            for c in cells
        ],
        noise=context.mechanism,
        scale=reading.target_scale,
        domain=context.domain.kind,  # type: ignore[arg-type]
        radius=min(context.domain.shape()[1], 1e6),
    )


def _mixture(cells: Sequence[Cells], context: Context, reading: Reading) -> Proposal:
    weights = []
    for c in cells:
        positive = np.maximum(c.counts, 0.0)
        total = positive.sum()
        # A round that saw nothing proposes from all of its cells alike, so that a proposal always exists.
        weights.append(positive / total if total > 0 else np.full(len(positive), 1.0 / len(positive)))
    return Proposal(
        means=np.concatenate([c.means(context) for c in cells]),
        weights=np.concatenate(weights),
        variance=reading.variance,
        correction=reading.correction,
    )


def _last_centers(last: Cells, proposal: Proposal, n: int) -> _Start:
    """The paper's start: each of the last round's centres, as often as its count says."""
    weights = np.array(proposal.weights)
    weights[: -last.query.n_cells] = 0.0
    return _at_means(proposal, weights, n)


def _overdispersed(proposal: Proposal, n: int, rng: np.random.Generator) -> _Start:
    """The means of all rounds, each as often as its weight says times an exponential draw: far from any other start."""
    weights = np.array(proposal.weights)
    return _at_means(proposal, weights * rng.standard_exponential(len(weights)), n)


def _at_means(proposal: Proposal, weights: Array, n: int) -> _Start:
    """Records at the proposal's means, in whole numbers by largest remainder; none at a mean of weight 0."""
    share = weights / weights.sum()
    exact = share * n
    whole = np.floor(exact).astype(np.int64)
    remainder = np.where(share > 0, exact - whole, -1.0)
    whole[np.argsort(-remainder, kind="stable")[: n - whole.sum()]] += 1
    components = np.repeat(np.arange(len(weights)), whole)
    return _Start(np.asarray(proposal.means)[components], components)


def _grouped(points: Array, start: _Start, weight: float) -> tuple[Array, Array]:
    """Write records that never left their start as one weighted point a mean: the same data set, much smaller."""
    moved = (np.abs(points - start.points) > 2.0**-29).any(axis=1)
    _, first, count = np.unique(start.components[~moved], return_index=True, return_counts=True)
    grouped = np.concatenate([points[~moved][first], points[moved]])
    return grouped, np.concatenate([weight * count, np.full(int(moved.sum()), weight)])
