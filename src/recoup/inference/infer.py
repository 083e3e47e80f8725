"""From a transcript to the data set that most plausibly produced it, by one of several methods.

Rounds decide how maximum entropy reads them, not names: whoever asked for counts and sums in cells, they are read as
those of k-means are. For all other queries the releases' algorithms say where records may lie and how far to trust it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from recoup._progress import OnProgress, parts_of, told
from recoup._random import generator
from recoup._threads import one_blas_thread
from recoup._validate import choice, positive_number, whole_number
from recoup.errors import Argument, ParameterError, PostprocessDeclined
from recoup.inference.diagnostics import Diagnostics, residuals_of
from recoup.inference.evidence import Evidence, evidence_of, reasons_against
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import judge_measure, warn_of
from recoup.inference.record_walk import sample_records
from recoup.inference.sampler import SAMPLED_POINTS, Fit, Settings, quality_of, sample_support
from recoup.maxent.consistency import made_consistent, voronoi_cells_of
from recoup.maxent.measure import Pass, Problem, by_cells, by_means, by_parts, maxent, only_cells, only_means, total_of
from recoup.maxent.sizes import WeightedPoints
from recoup.maxent.support import Measure
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.transcript import Transcript

_LARGEST_TABLE = 2**26  # values of all rows on the support: half a gigabyte
_FEWEST_POINTS, _MAX_STEPS = 500, 100


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
    on_progress: OnProgress | None = None,
    warn: bool = True,
) -> InferredDataset:
    """Infer a data set from a transcript alone; it costs no privacy.

    Args:
        transcript: what was released; or several transcripts of one data set over the same domain, which are read
            together, so that one inferred data set answers all of them.
        method: "maxent", the maximum-entropy measure that explains every round; "mcmc", the paper's sampler, or, for
            rounds other than those of DP-KMEANS, one on the support of that measure; "consistency", the last round's
            means after all rounds were made to agree on their totals (DP-KMEANS); or one of your own.
        random_state: seeds choices that need no protection; by default the seed of the commands and the report.
        n_points: points of the support ("maxent"); by default what the algorithm asks for, 10,000 for most.
        n_steps: steps of a chain ("mcmc"); the paper uses 30,000.
        proposal_variance: the paper's delta ("mcmc").
        n_chains: independent chains, of which the best-scoring data set is returned; the first starts where the paper's
            does, the others far from it, so that R-hat means something ("mcmc").
        target_scale: what differences from released values are divided by: "one", as the paper prints its acceptance;
            "noise", the released scale, which makes the target the likelihood and is all that other rounds have.
            "auto" is the sharper: "one", unless all scales of DP-KMEANS are below 1 ("mcmc").
        correction: the density q of the acceptance: of the "component" that a record was drawn from, as the paper
            prints it, or of the whole "mixture". DP-KMEANS only ("mcmc").
        raw: aim at the noisy values as released, instead of consistent ones. DP-KMEANS only ("mcmc").
        on_progress: called with (done, total), in percent, as the work goes on; the last time with done = total.
        warn: whether to warn where the transcript's algorithm finds what was released too weak to infer from
            (`recoup.errors.PostprocessDeclined`), and where the verdict is doubtful (`recoup.errors.DoubtfulResult`).

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
    n_points = whole_number(evidence.n_points if n_points is None else n_points, "n_points")
    n_steps, n_chains = whole_number(n_steps, "n_steps"), whole_number(n_chains, "n_chains")
    positive_number(proposal_variance, "proposal_variance")
    choice(target_scale, "target_scale", ("auto", "one", "noise"))
    choice(correction, "correction", ("component", "mixture"))
    if not isinstance(raw, bool | np.bool_):
        raise ParameterError(f"raw={raw!r:.60}: give True or False.", parameter="raw")
    if method == "mcmc" and not evidence.context.domain.has_grid:
        numbers = "the sampler moves records by small steps, and categories have none: use "
        raise ParameterError(numbers, Argument("method", '"maxent"'), ".")
    scale = _target_scale(evidence, target_scale, correction, raw) if method == "mcmc" else "one"
    rng = generator(random_state)
    for reason in reasons_against(evidence) if warn and method != "consistency" else ():
        warnings.warn(reason, PostprocessDeclined, stacklevel=2)
    method_told, end_told = parts_of(on_progress, 9, 1)
    asked = Settings(
        n_points=n_points,
        n_steps=n_steps,
        n_chains=n_chains,
        on_progress=method_told,
        proposal_variance=proposal_variance,
        target_scale=scale,
        correction=correction,
        raw=raw,
    )
    with one_blas_thread():
        inferred = _dataset(evidence, method, METHODS[method](evidence, rng, asked))
    if inferred.diagnostics is None or not inferred.diagnostics.interrupted:
        told(end_told, 1, 1)
    if warn and inferred.verdict is not None:
        warn_of(inferred.verdict, stacklevel=3)
    return inferred


def _has_means_alone(evidence: Evidence) -> bool:
    """Whether the paper's sampler can read it: one release whose rounds are counts of cells, perhaps absolute sums."""
    return len(evidence.parts) == 1 and all(as_cells(r.query, "none", "absolute") for r in evidence.rounds)


def _target_scale(evidence: Evidence, target_scale: str, correction: str, raw: bool) -> Literal["one", "noise"]:
    """By what the sampler divides differences; refuses what only the paper's sampler can be asked for."""
    if _has_means_alone(evidence):
        largest = max((float(r.scales.max()) for r in evidence.rounds), default=1.0)
        return "noise" if target_scale == "noise" or (target_scale == "auto" and largest < 1) else "one"
    for name, given in (("raw", raw), ("target_scale", target_scale == "one"), ("correction", correction == "mixture")):
        if given:
            only = "one transcript of DP-KMEANS, which the paper's sampler reads"
            raise ParameterError(f"{name} is for {only}: leave it out.")
    return "noise"


def _dataset(evidence: Evidence, method: str, fit: Fit) -> InferredDataset:
    """What a method inferred, in the user's units, with how well it explains the rounds."""
    clock = time.perf_counter()
    domain, data = evidence.context.domain, WeightedPoints(fit.points, fit.weights)
    residuals, log_likelihood = residuals_of(domain, evidence.rounds, data)
    quality = fit.quality | (quality_of(fit.chains) if fit.chains else {})
    seconds = fit.seconds | ({"diagnostics": time.perf_counter() - clock} if fit.chains else {})
    return InferredDataset(
        points=domain.from_unit(fit.points),
        weights=fit.weights,
        columns=domain.columns,
        method=method,
        simulated=evidence.simulated,
        privacy=evidence.privacy,
        sources=evidence.sources,
        draws=tuple(domain.from_unit(drawn) for drawn in fit.draws),
        diagnostics=Diagnostics(seconds=seconds, residuals=residuals, log_likelihood=log_likelihood, **quality),
        verdict=judge_measure(evidence, data, method),
    )


def _consistency(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> Fit:
    clock = time.perf_counter()
    if not evidence.one_law:
        instead = Argument("method", "'maxent'")
        raise ParameterError("consistency reads rounds with noise of one law only: use ", instead, ".")
    cells, _, report = made_consistent(voronoi_cells_of(evidence.rounds), evidence.context)
    means = cells[-1].means(evidence.context)
    return Fit(means, cells[-1].counts, {"consistency": time.perf_counter() - clock}, report._asdict())


def _maximum_entropy(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> Fit:
    """A maximum-entropy measure with its certificate; no solution means that there was nothing to explain."""
    measure, seconds = _measure(problem_of(evidence, rng, n_points=asked.n_points), asked.on_progress)
    quality = {}
    if (end := measure.solution) is not None:
        quality = {"converged": end.converged, "gap": end.gap, "gap_per_row": end.gap_per_row}
        quality |= {"n_iterations": end.n_steps}
    return Fit(measure.points, measure.weights, seconds, quality)


def _measure(problem: Problem, on_progress: OnProgress | None = None) -> tuple[Measure, dict[str, float]]:
    """The maximum-entropy measure of a problem, and the seconds of each stage."""
    clock = time.perf_counter()
    measure = maxent(problem, on_progress)
    return measure, {**problem.seconds, "solver": time.perf_counter() - clock}


def problem_of(evidence: Evidence, rng: np.random.Generator, *, n_points: int, around_means: bool = True) -> Problem:
    """State the problem of rounds of any queries; those of DP-KMEANS alone are read `around_means`, if asked for."""
    context, rounds, parts = evidence.context, evidence.rounds, evidence.parts
    if around_means and evidence.one_law and only_means(rounds):
        return by_means(context, rounds, rng, n_points=n_points)
    if not only_cells(rounds):
        return by_algorithms(evidence, rng, n_points=n_points)
    if len(parts) > 1:
        return by_parts(context, [(p.rounds, p.n_settling) for p in parts], rng, n_points, evidence.strength)
    n_settling = parts[0].n_settling
    return by_cells(context, rounds, rng, n_points=n_points, strength=evidence.strength, n_settling=n_settling)


def by_algorithms(evidence: Evidence, rng: np.random.Generator, *, n_points: int) -> Problem:
    """State the problem on the support that the releases' algorithms draw, of fewer points where rows are many."""
    context, rounds = evidence.context, evidence.rounds
    counted = (block.total is not None for r in rounds for block in r.query.sensitivity(context.domain).blocks)
    if rounds and context.n_records is None and not any(counted):
        raise ParameterError(
            "no round counts the records, so how many there are cannot be inferred: release with ",
            Argument("n_records"),
            ", or let a query count them in a block whose contributions add up to 1.",
        )
    n_rows = sum(answered.query.size for answered in rounds)
    total = total_of(context, rounds)
    # Of one algorithm alone: answers to others may be of other sizes.
    slack = evidence.parts[0].algorithm.slack(context, total) if len(evidence.parts) == 1 else 0.0
    n_points = max(min(n_points, _LARGEST_TABLE // max(n_rows, 1)), _FEWEST_POINTS)
    return Problem(
        context=context,
        rounds=rounds,
        total=total,
        temperature=evidence.pseudo_records / total,
        support=lambda n, _: evidence.support(n, total, rng),
        passes=(Pass(n_points=n_points, max_steps=_MAX_STEPS, slack=slack),),
    )


def _sampled(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> Fit:
    """By the paper's sampler, or on a support where there is nothing for it to read."""
    if _has_means_alone(evidence):
        return sample_records(evidence, rng, asked)
    n_points = min(asked.n_points, SAMPLED_POINTS)
    measure, seconds = _measure(problem_of(evidence, rng, n_points=n_points, around_means=False))
    fit = sample_support(evidence, measure, rng, asked)
    return replace(fit, seconds=seconds | fit.seconds)


# Every way to infer once, by the name that users pick it by; one more is its own file and a line here.
METHODS: dict[str, Callable[[Evidence, np.random.Generator, Settings], Fit]] = {
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
    if name in ("auto", "none"):
        raise ParameterError(f"the name {name!r} is taken by estimators: choose another.")

    def inferred(evidence: Evidence, rng: np.random.Generator, asked: Settings) -> Fit:
        clock = time.perf_counter()
        points, weights = function(evidence, rng, asked.n_points)
        return Fit(points, weights, {name: time.perf_counter() - clock})

    METHODS[name] = inferred
