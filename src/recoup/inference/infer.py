"""From a transcript to the data set that most plausibly produced it, by one of several methods."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from recoup._random import generator
from recoup._validate import choice, positive_number, whole_number
from recoup.errors import ParameterError, PostprocessDeclined
from recoup.inference.diagnostics import Diagnostics, residuals_of
from recoup.inference.evidence import Evidence, evidence_of, reasons_against
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import judge_measure, warn_of
from recoup.inference.problem import points_for, problem_of
from recoup.inference.record_walk import Reading, sample_records
from recoup.inference.sampler import Chains
from recoup.inference.support_walk import SAMPLED_POINTS, sample_support
from recoup.maxent.cells import made_consistent, voronoi_cells_of
from recoup.maxent.measure import Measure, maxent
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.transcript import Transcript


def infer(
    transcript: Transcript | Sequence[Transcript],
    method: str = "maxent",
    *,
    random_state: Any = None,
    n_points: int | None = None,
    n_steps: int = 30_000,
    proposal_variance: float = 0.001,
    n_chains: int = 1,
    target_scale: Literal["auto", "one", "noise"] = "auto",
    correction: Literal["component", "mixture"] = "component",
    raw: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    warn: bool = True,
) -> InferredDataset:
    """Infer a data set from a transcript alone; it costs no privacy.

    Args:
        transcript: what was released; or several transcripts of one data set over the same domain, which are read
            together, so that one inferred data set answers all of them.
        method: "maxent", the maximum-entropy measure that explains every round; "mcmc", the paper's sampler, or for
            other rounds than those of DP-KMEANS a sampler on the support of that measure; or "consistency", the last
            round's means after all rounds were made to agree on their totals (DP-KMEANS); or one of your own.
        random_state: harmless randomness; by default the seed by which the commands and the report read.
        n_points: points of the support ("maxent"); by default as many as the transcript's algorithm asks for, which is
            10,000 for most.
        n_steps: steps of a chain ("mcmc"); the paper uses 30,000.
        proposal_variance: the paper's delta ("mcmc").
        n_chains: independent chains, in parallel; the best-scoring data set of all of them is returned. The first
            starts where the paper's does, the others far from it, so that R-hat means something ("mcmc").
        target_scale: by what a difference between a released value and that of a data set is divided: "one", as the
            paper prints its acceptance, without a scale; "noise", the released noise scale, which makes the target the
            likelihood. "auto" is the sharper one, which was measured to be better: "one", unless all noise scales of
            DP-KMEANS are below 1; "noise" for other rounds, which have no other ("mcmc").
        correction: the density q of the acceptance: "component", of the component that a record was drawn from, as the
            paper prints it; "mixture", of the whole mixture. DP-KMEANS only ("mcmc").
        raw: use the noisy values as released as target and weights, instead of consistent ones. DP-KMEANS only
            ("mcmc").
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
    choice(method, "method", METHODS)
    evidence = evidence_of(transcript)
    n_points = points_for(evidence) if n_points is None else n_points
    n_points, n_steps, n_chains = (
        whole_number(value, name)
        for value, name in ((n_points, "n_points"), (n_steps, "n_steps"), (n_chains, "n_chains"))
    )
    positive_number(proposal_variance, "proposal_variance")
    _check_reading(target_scale, correction, raw)
    reading = _reading(evidence, proposal_variance, target_scale, correction, raw) if method == "mcmc" else None
    rng = generator(random_state)
    for reason in reasons_against(evidence) if warn and method != "consistency" else ():
        warnings.warn(reason, PostprocessDeclined, stacklevel=2)
    chains = Chains(n_steps=n_steps, n_chains=n_chains, on_progress=on_progress)
    found = METHODS[method](evidence, rng, Settings(n_points, reading, chains))
    if warn and found.verdict is not None:
        warn_of(found.verdict, stacklevel=3)
    return found


class Settings(NamedTuple):
    """What a method may be asked for: points of a support, and of the sampler how it reads rounds and its chains."""

    n_points: int
    reading: Reading | None
    chains: Chains


def _check_reading(target_scale: object, correction: object, raw: object) -> None:
    for name, value, choices in (
        ("target_scale", target_scale, ("auto", "one", "noise")),
        ("correction", correction, ("component", "mixture")),
    ):
        choice(value, name, choices)
    if not isinstance(raw, bool | np.bool_):
        raise ParameterError(f"raw={raw!r:.60}: give True or False.", parameter="raw")


def _reading(evidence: Evidence, variance: float, target_scale: str, correction: str, raw: bool) -> Reading | None:
    """How the paper's sampler is to read the rounds; none where it cannot, and then nothing may be asked of it."""
    if _has_means_alone(evidence):
        if target_scale == "auto":
            largest = max((float(r.scales.max()) for r in evidence.rounds), default=1.0)
            target_scale = "noise" if largest < 1 else "one"
        return Reading(variance=variance, target_scale=target_scale, correction=correction, raw=raw)  # type: ignore[arg-type]
    for name, asked in (
        ("raw", raw),
        ("target_scale", target_scale == "one"),
        ("correction", correction == "mixture"),
    ):
        if asked:
            raise ParameterError(
                f"{name} is for one transcript of DP-KMEANS, which the paper's sampler reads: leave it out."
            )
    return None


def _consistency(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> InferredDataset:
    start = time.perf_counter()
    context = evidence.context
    if not evidence.one_law:
        raise ParameterError("consistency reads rounds with noise of one law only: use method='maxent'.")
    cells, result = made_consistent(voronoi_cells_of(evidence.rounds), context)
    points, weights = cells[-1].means(context), cells[-1].counts
    seconds = {"consistency": time.perf_counter() - start}
    misfits, log_likelihood = residuals_of(context, evidence.rounds, points, weights)
    return _assembled(
        evidence,
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


def _has_means_alone(evidence: Evidence) -> bool:
    """Whether the paper's sampler can read it: one release whose rounds are counts of cells, perhaps absolute sums."""
    return len(evidence.parts) == 1 and all(as_cells(r.query, "none", "absolute") for r in evidence.rounds)


def _maximum_entropy(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> InferredDataset:
    """A maximum-entropy measure with its certificate; no solution means that there was nothing to explain."""
    measure, seconds = _measure(evidence, rng, asked.n_points)
    solution = measure.solution
    misfits, log_likelihood = residuals_of(evidence.context, evidence.rounds, measure.points, measure.weights)
    diagnostics = Diagnostics(
        seconds=seconds,
        residuals=misfits,
        log_likelihood=log_likelihood,
        converged=solution is None or solution.converged,
        gap=None if solution is None else solution.gap,
        gap_per_row=None if solution is None else solution.gap_per_row,
        n_iterations=None if solution is None else solution.n_steps,
    )
    return _assembled(evidence, "maxent", measure.points, measure.weights, diagnostics)


def _measure(
    evidence: Evidence, rng: np.random.Generator, n_points: int, *, around_means: bool = True
) -> tuple[Measure, dict[str, float]]:
    """The maximum-entropy measure of rounds of any queries, and the seconds of each stage."""
    clock = time.perf_counter()
    problem = problem_of(evidence, rng, n_points=n_points, around_means=around_means)
    measure = maxent(problem)
    stages = dict(problem.seconds)
    return measure, stages | {"solver": time.perf_counter() - clock - sum(stages.values())}


def _sampled(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> InferredDataset:
    """By the paper's sampler, or on a support where there is nothing for it to read."""
    if asked.reading is not None:
        found = sample_records(evidence, rng, asked.reading, asked.chains)
    else:
        measure, seconds = _measure(evidence, rng, min(asked.n_points, SAMPLED_POINTS), around_means=False)
        found = sample_support(evidence, measure, rng, asked.chains)
        found = found._replace(diagnostics=replace(found.diagnostics, seconds=seconds | found.diagnostics.seconds))
    return _assembled(evidence, "mcmc", found.points, found.weights, found.diagnostics, found.draws)


def _assembled(
    evidence: Evidence,
    method: str,
    points: Array,
    weights: Array,
    diagnostics: Diagnostics,
    draws: Sequence[Array] = (),
) -> InferredDataset:
    domain = evidence.context.domain
    return InferredDataset(
        points=domain.from_unit(points),
        weights=weights,
        columns=domain.columns,
        method=method,
        simulated=evidence.simulated,
        privacy=evidence.privacy,
        sources=evidence.sources,
        draws=tuple(domain.from_unit(points) for points in draws),
        diagnostics=diagnostics,
        verdict=judge_measure(evidence, points, weights, method=method),
    )


# Every way to infer once, by the name that users pick it by; one more is its own file and a line here.
METHODS: dict[str, Callable[[Evidence, np.random.Generator, Settings], InferredDataset]] = {
    "maxent": _maximum_entropy,
    "mcmc": _sampled,
    "consistency": _consistency,
}
_OWN = tuple(METHODS)


def register_method(name: str, function: Callable[[Evidence, np.random.Generator, int], tuple[Array, Array]]) -> None:
    """Let users of this process pick a way to infer of your own: `infer(transcript, method=name)`.

    Args:
        name: new, or that of an earlier one of your own.
        function: from the evidence, harmless randomness and a number of points to points of the unit domain, (m, d),
            and their weights, (m,).
    """
    if name in _OWN:
        raise ParameterError(f"the method {name!r} is Recoup's own: choose another name.")

    def inferred(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> InferredDataset:
        clock = time.perf_counter()
        points, weights = function(evidence, rng, asked.n_points)
        seconds = {name: time.perf_counter() - clock}
        misfits, log_likelihood = residuals_of(evidence.context, evidence.rounds, points, weights)
        diagnostics = Diagnostics(seconds=seconds, residuals=misfits, log_likelihood=log_likelihood, converged=True)
        return _assembled(evidence, name, points, weights, diagnostics)

    METHODS[name] = inferred
