"""From a transcript to the data set that most plausibly produced it, by one of several methods."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recoup.algorithms.lloyd import positive_whole
from recoup.context import Context
from recoup.errors import ParameterError, PostprocessDeclined
from recoup.inference.diagnostics import Diagnostics, mixing_of, residuals_of
from recoup.inference.evidence import Evidence, evidence_of
from recoup.inference.generic import infer_generic, points_for
from recoup.inference.guard import reasons_against
from recoup.inference.inferred import InferredDataset, seeded
from recoup.inference.joint import infer_joint
from recoup.inference.judge import judge_measure, warn_of
from recoup.inference.maxent import default_temperature, explain
from recoup.inference.measure import infer_measure, observations
from recoup.inference.metropolis import sample_chains
from recoup.inference.metropolis_model import CellRound, Proposal, Target
from recoup.inference.newton import Solution
from recoup.inference.rounds import Cells, made_consistent, voronoi_cells_of
from recoup.inference.rows import dense_rows
from recoup.inference.support import around_means, resampled
from recoup.inference.support_sampler import SupportTarget, sample_chains_on_support
from recoup.queries.base import Array
from recoup.queries.grid import GridQuery
from recoup.queries.histogram import HistogramQuery
from recoup.queries.voronoi import VoronoiQuery
from recoup.transcript import Round, Transcript

Method = Literal["maxent", "mcmc", "consistency"]
METHODS: tuple[Method, ...] = ("maxent", "mcmc", "consistency")
NEED_MEANS: tuple[Method, ...] = ("mcmc", "consistency")  # read rounds of counts and absolute sums only
_ROUGH_POINTS, _ROUGH_ROUNDS, _ROUGH_TOLERANCE = 3000, 2, 0.1
_SAMPLED_POINTS = 2000  # of the support of the generic sampler: a chain visits each point often enough
MAX_LATENT_RECORDS = 1_000_000  # above this, every latent point carries a weight


def infer(
    transcript: Transcript | Sequence[Transcript],
    method: Method = "maxent",
    *,
    random_state: Any = None,
    n_points: int | None = None,
    n_steps: int = 30_000,
    proposal_variance: float = 0.001,
    n_chains: int = 1,
    raw: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    warn: bool = True,
) -> InferredDataset:
    """Infer a data set from a transcript alone; it costs no privacy.

    Args:
        transcript: what was released; or several transcripts of one data set over the same domain, which are read
            together, so that one inferred data set answers all of them.
        method: "maxent", the maximum-entropy measure that explains every round; "mcmc", the paper's sampler; or
            "consistency", the last round's means after all rounds were made to agree on their totals.
        random_state: harmless randomness; by default the seed by which the commands and the report read.
        n_points: points of the support ("maxent"); by default as many as the transcript's algorithm asks for, which is
            10,000 for most.
        n_steps: steps of a chain ("mcmc"); the paper uses 30,000.
        proposal_variance: the paper's delta ("mcmc").
        n_chains: independent chains, in parallel; the best-scoring data set of all of them is returned ("mcmc").
        raw: use the noisy values as released as target and weights, instead of consistent ones ("mcmc").
        on_progress: called with (steps done, steps in all) ("mcmc").
        warn: whether to warn (`recoup.errors.PostprocessDeclined`) where the transcript's algorithm finds what was
            released too weak to infer from. It is inferred all the same; an estimator with postprocess="auto" would
            have kept the algorithm's own answer. And (`recoup.errors.DoubtfulResult`) where the verdict on the inferred
            data is doubtful.

    Returns:
        Weighted points in the user's units, with diagnostics and a verdict.

    Guarantees: the same transcript, method and random_state give the same result in any process.

    >>> from recoup import Box, KMeans, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=2), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> infer(transcript, method="consistency").points.shape
    (2, 2)
    """
    if method not in METHODS:
        raise ParameterError(f"method={method!r}: choose one of {', '.join(METHODS)}.")
    evidence = evidence_of(transcript)
    n_points = points_for(evidence) if n_points is None else n_points
    n_points, n_steps, n_chains = (
        positive_whole(value, name)
        for value, name in ((n_points, "n_points"), (n_steps, "n_steps"), (n_chains, "n_chains"))
    )
    if not (isinstance(proposal_variance, Real) and np.isfinite(proposal_variance) and proposal_variance > 0):
        raise ParameterError(f"proposal_variance={proposal_variance!r}: give a positive number.")
    rng = seeded(random_state)
    for reason in reasons_against(evidence) if warn and method != "consistency" else ():
        warnings.warn(reason, PostprocessDeclined, stacklevel=2)
    if method == "consistency":
        found = _consistency(evidence)
    elif method == "maxent":
        found = (_maximum_entropy if _is_lloyd(evidence) else _maximum_entropy_of_any)(evidence, rng, n_points)
    elif has_cells_alone(evidence.rounds) and len(evidence.parts) == 1:
        found = _metropolis(evidence, rng, n_steps, proposal_variance, n_chains, raw, on_progress)
    elif raw:
        raise ParameterError("raw is for DP-KMEANS, whose rounds can be made consistent: leave it out.")
    else:
        found = _on_support(evidence, rng, n_points, n_steps, n_chains, on_progress)
    if warn and found.verdict is not None:
        warn_of(found.verdict, stacklevel=3)
    return found


def _consistency(transcript: Evidence) -> InferredDataset:
    start = time.perf_counter()
    context = transcript.context
    if not transcript.one_law:
        raise ParameterError("consistency reads rounds with noise of one law only: use method='maxent'.")
    cells, result = made_consistent(voronoi_cells_of(transcript.rounds), context)
    points, weights = cells[-1].means(context), cells[-1].counts
    seconds = {"consistency": time.perf_counter() - start}
    misfits, log_likelihood = residuals_of(context, transcript.rounds, points, weights)
    return _assembled(
        transcript,
        "consistency",
        points,
        weights,
        Diagnostics(
            seconds=seconds,
            residuals=misfits,
            log_likelihood=log_likelihood,
            converged=result.converged,
            n_iterations=result.n_iterations,
            primal_residual=result.primal_residual,
            dual_residual=result.dual_residual,
        ),
    )


def _is_lloyd(transcript: Evidence) -> bool:
    """Whether every round has absolute sums: then the means of the cells say where the support should be."""
    return transcript.one_law and all(
        isinstance(r.query, VoronoiQuery) and r.query.sums == "absolute" for r in transcript.rounds
    )


def has_cells_alone(rounds: Sequence[Round]) -> bool:
    """Whether the fused sampler, or the refusal that explains what it reads, is the right one."""
    return all(isinstance(r.query, VoronoiQuery | GridQuery | HistogramQuery) for r in rounds)


def _maximum_entropy_of_any(transcript: Evidence, rng: np.random.Generator, n_points: int) -> InferredDataset:
    clock = time.perf_counter()
    context = transcript.context
    if has_cells_alone(transcript.rounds) and len(transcript.parts) > 1:
        measure = infer_joint(transcript, rng, n_points=n_points)
    elif has_cells_alone(transcript.rounds):
        measure = infer_measure(
            context,
            transcript.rounds,
            rng,
            n_points=n_points,
            strength=transcript.strength,
            n_settling=transcript.parts[0].n_settling,
        )
    else:
        measure = infer_generic(transcript, rng, n_points=n_points)
    seconds = {"solver": time.perf_counter() - clock}
    return _solved(transcript, measure.points, measure.weights, measure.solution, seconds)


def _solved(
    transcript: Evidence, points: Array, weights: Array, solution: Solution | None, seconds: dict[str, float]
) -> InferredDataset:
    """A maximum-entropy measure with its certificate; no solution means that there was nothing to explain."""
    misfits, log_likelihood = residuals_of(transcript.context, transcript.rounds, points, weights)
    diagnostics = Diagnostics(
        seconds=seconds,
        residuals=misfits,
        log_likelihood=log_likelihood,
        converged=solution is None or solution.converged,
        gap=None if solution is None else solution.gap,
        gap_per_row=None if solution is None else solution.gap_per_row,
        n_iterations=None if solution is None else solution.n_steps,
    )
    return _assembled(transcript, "maxent", points, weights, diagnostics)


def _maximum_entropy(transcript: Evidence, rng: np.random.Generator, n_points: int) -> InferredDataset:
    clock = time.perf_counter()
    context = transcript.context
    cells, result = made_consistent(voronoi_cells_of(transcript.rounds), context)
    total = max(1.0, result.total)
    temperature = default_temperature(float(np.mean([c.count_scales.mean() for c in cells])), total)
    seconds = {"consistency": time.perf_counter() - clock}
    clock = time.perf_counter()
    # A quick pass finds where the mass is; a support around the means alone overstates the spread of clusters.
    n_rough = min(n_points, _ROUGH_POINTS)
    points = around_means(cells, context, n_rough, rng)
    base = np.full(n_rough, total / n_rough)
    late = transcript.rounds[-_ROUGH_ROUNDS:]
    rough = explain(late, points, base, temperature=temperature, tolerance=_ROUGH_TOLERANCE)
    n_new = n_points // 4
    moved = resampled(points, rough.measure, context, n_points - n_new, rng)
    points = np.concatenate([around_means(cells, context, n_new, rng), moved])
    base = np.full(n_points, total / n_points)
    solution = explain(transcript.rounds, points, base, temperature=temperature)
    seconds["solver"] = time.perf_counter() - clock
    return _solved(transcript, points, solution.measure, solution, seconds)


def _metropolis(
    transcript: Evidence,
    rng: np.random.Generator,
    n_steps: int,
    variance: float,
    n_chains: int,
    raw: bool,
    on_progress: Callable[[int, int], None] | None,
) -> InferredDataset:
    clock = time.perf_counter()
    context = transcript.context
    released = voronoi_cells_of(transcript.rounds)
    cells, result = made_consistent(released, context)
    seconds = {"consistency": time.perf_counter() - clock}
    clock = time.perf_counter()
    aimed = released if raw else cells
    proposal = _mixture(aimed, context, variance)
    points, components, weight = _start(aimed[-1], context, result.total, len(proposal.means) - aimed[-1].query.n_cells)  # type: ignore[arg-type]
    shape = context.domain.kind
    target = Target(
        rounds=[
            CellRound(
                centers=c.query.centers,
                counts=c.counts,
                count_scale=c.count_scales,
                sums=c.sums,
                sum_scale=c.sum_scales,
            )
            for c in aimed
        ],
        noise=context.mechanism,
        domain=shape,  # type: ignore[arg-type]
        radius=min(context.domain.shape()[1], 1e6),
    )
    chains = sample_chains(
        target,
        proposal,
        points,
        components,
        n_chains=n_chains,
        n_steps=n_steps,
        rng=rng,
        record_weight=weight,
        on_progress=on_progress,
    )
    seconds["sampling"] = time.perf_counter() - clock
    best = max(chains, key=lambda chain: chain.best_log_target)
    inferred_points, weights = _grouped(best.best_points, points, components, weight)
    clock = time.perf_counter()
    misfits, log_likelihood = residuals_of(context, transcript.rounds, inferred_points, weights)
    ess, r_hat = mixing_of([chain.log_targets for chain in chains])
    seconds["diagnostics"] = time.perf_counter() - clock
    diagnostics = Diagnostics(
        seconds=seconds,
        residuals=misfits,
        log_likelihood=log_likelihood,
        converged=result.converged,
        primal_residual=result.primal_residual,
        dual_residual=result.dual_residual,
        acceptance=tuple(chain.acceptance for chain in chains),
        log_likelihood_trace=tuple(chain.log_targets for chain in chains),
        best_step=tuple(chain.best_step for chain in chains),
        ess=ess,
        r_hat=r_hat,
        interrupted=any(chain.interrupted for chain in chains),
    )
    drawn = tuple(chain.last_points for chain in chains)
    return _assembled(transcript, "mcmc", inferred_points, weights, diagnostics, drawn)


def _on_support(
    transcript: Evidence,
    rng: np.random.Generator,
    n_points: int,
    n_steps: int,
    n_chains: int,
    on_progress: Callable[[int, int], None] | None,
) -> InferredDataset:
    clock = time.perf_counter()
    context = transcript.context
    measure = infer_generic(transcript, rng, n_points=min(n_points, _SAMPLED_POINTS))
    total = float(measure.weights.sum())
    blocks, observed, scales, laws = observations(context, transcript.rounds, measure.points, total)
    if not blocks:
        return _solved(transcript, measure.points, measure.weights, None, {"solver": time.perf_counter() - clock})
    target = SupportTarget(
        rows=dense_rows(blocks, len(measure.points)), observed=observed, scales=scales, gaussian=laws == "gaussian"
    )
    seconds = {"solver": time.perf_counter() - clock}
    clock = time.perf_counter()
    n_latent = min(max(1, round(total)), MAX_LATENT_RECORDS)
    chains = sample_chains_on_support(
        target,
        measure.weights,
        n_chains=n_chains,
        n_records=n_latent,
        n_steps=n_steps,
        rng=rng,
        on_progress=on_progress,
    )
    seconds["sampling"] = time.perf_counter() - clock
    best = max(chains, key=lambda chain: chain.best_log_target)
    used = best.best_weights > 0
    points, weights = measure.points[used], best.best_weights[used]
    misfits, log_likelihood = residuals_of(context, transcript.rounds, points, weights)
    ess, r_hat = mixing_of([chain.log_targets for chain in chains])
    diagnostics = Diagnostics(
        seconds=seconds,
        residuals=misfits,
        log_likelihood=log_likelihood,
        acceptance=tuple(chain.acceptance for chain in chains),
        log_likelihood_trace=tuple(chain.log_targets for chain in chains),
        best_step=tuple(chain.best_step for chain in chains),
        ess=ess,
        r_hat=r_hat,
        interrupted=any(chain.interrupted for chain in chains),
    )
    last = [np.rint(chain.last_weights / total * n_latent).astype(int) for chain in chains]
    drawn = tuple(np.repeat(measure.points, counts, axis=0) for counts in last)
    return _assembled(transcript, "mcmc", points, weights, diagnostics, drawn)


def _mixture(cells: Sequence[Cells], context: Context, variance: float) -> Proposal:
    weights = []
    for c in cells:
        positive = np.maximum(c.counts, 0.0)
        total = positive.sum()
        # A round that saw nothing proposes from all of its cells alike, so that a proposal always exists.
        weights.append(positive / total if total > 0 else np.full(len(positive), 1.0 / len(positive)))
    return Proposal(
        means=np.concatenate([c.means(context) for c in cells]), weights=np.concatenate(weights), variance=variance
    )


def _start(last: Cells, context: Context, total: float, first_component: int) -> tuple[Array, NDArray[np.int64], float]:
    """The paper's start: each of the last round's centres, as often as its count says."""
    n_true = max(1, round(total))
    n = min(n_true, MAX_LATENT_RECORDS)
    counts = np.maximum(last.counts, 0.0)
    share = counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1.0 / len(counts))
    exact = share * n
    whole = np.floor(exact).astype(np.int64)
    remainder = np.where(share > 0, exact - whole, -1.0)
    whole[np.argsort(-remainder, kind="stable")[: n - whole.sum()]] += 1
    cell = np.repeat(np.arange(len(counts)), whole)
    return last.means(context)[cell], cell + first_component, n_true / n


def _grouped(points: Array, start: Array, components: NDArray[np.int64], weight: float) -> tuple[Array, Array]:
    """Write records that never left their start as one weighted point a cell: the same data set, much smaller."""
    moved = (np.abs(points - start) > 2.0**-29).any(axis=1)
    _, first, count = np.unique(components[~moved], return_index=True, return_counts=True)
    grouped = np.concatenate([points[~moved][first], points[moved]])
    return grouped, np.concatenate([weight * count, np.full(int(moved.sum()), weight)])


def _assembled(
    transcript: Evidence,
    method: Method,
    points: Array,
    weights: Array,
    diagnostics: Diagnostics,
    draws: Sequence[Array] = (),
) -> InferredDataset:
    domain = transcript.context.domain
    return InferredDataset(
        points=domain.from_unit(points),
        weights=weights,
        columns=domain.columns,
        method=method,
        simulated=transcript.simulated,
        privacy=transcript.privacy,
        sources=transcript.sources,
        draws=tuple(domain.from_unit(points) for points in draws),
        diagnostics=diagnostics,
        verdict=judge_measure(transcript, points, weights, method=method),
    )
