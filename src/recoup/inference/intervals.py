"""How far the estimate may be from the data's own clusters, from the transcript alone: a parametric bootstrap.

The inferred data is taken as if it were the data, and released again and again with fresh noise; each release is
inferred from and clustered in the same way, and the errors against the clusters of the inferred data are read off: the
noise and the bias of inference alike. Rounds of DP-KMEANS say nothing about what is inside a cell but its mean, so
there each draw starts from other data that explains the rounds as well. An interval that would be wrong is withheld.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from recoup._progress import OnProgress, told
from recoup._random import generator
from recoup._shown import Card, Shown, figure, frame
from recoup._threads import n_threads
from recoup._validate import probability, whole_number
from recoup.algorithms.kmeans.lloyd import paired
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.diagnostics import expected_answer
from recoup.inference.evidence import evidence_of
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import certain_misfits, doubts_of
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.measure import Pass, Problem, by_cells, maxent, only_cells, only_means, temperature_of_means
from recoup.maxent.sizes import Clusters, WeightedPoints, records_of
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

# The deviation of what is left to move, in units of the last move: on tables with spikes .4 to 2.4, of sizes 2 to 3.
_MOVES, _SIZE_MOVES = 1.2, 3.0
_MISSES = 0.8  # the same, in units of how far centres are from what the last round measured, which they do not follow
_COUNT_PART = 0.2  # of the noise of a count that was made but once: so much of a size is not known any better
_NOISE = "it may be nothing but noise"
_NO_RECORDS = "the released counts cannot be told from those of an empty table"
_MISSED = "the last round measured another value, outside of the interval"
_SHARED = "no round counted it apart from others"
_DRAWS = 39  # the 36th of 39 is exactly the 90% point, the 38th the 95% point
# One pass on so many points has the error of two on 10,000 within a few per cent, at a sixth of the time.
_POINTS, _PASSES = 4_000, 1
# Other data in the place of the inferred: so many clumps for each cluster, so far from where the inferred data is.
_CLUMPS, _CLUMP_SHIFT, _CLUMP_SPREADS = 2, 0.3, (0.02, 0.05, 0.1, 0.2)
_SMOOTH_POINTS, _SMOOTH_WEIGHT, _CLUMP_TOLERANCE, _CLUMP_STEPS = 0.25, 0.1, 0.1, 200

Value = TypeVar("Value")
Work = Callable[[WeightedPoints, np.random.Generator], Value]


class Withheld(NamedTuple):
    """One interval that is not given, and why."""

    cluster: int  # the row of the centres
    column: int | None  # its number; none for the cluster's size
    reason: str  # in words


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Intervals(Shown):
    """Intervals of the estimate for every coordinate of every centre and for every cluster's size.

    Attributes:
        level: the wanted coverage of each interval.
        center_low: (K, d) in the user's units, inside the bounds; NaN where it is withheld, like the upper end.
        center_high: (K, d).
        size_low: (K,) records in the cluster, at least 0; NaN where it is withheld.
        size_high: (K,).
        n_draws: transcripts that were simulated.
        simultaneous: whether all intervals of centres, and all of sizes, are meant to hold at once.
        withheld: the intervals that would not hold, each with its reason.
        centers: (K, d), what they are around; none where nobody said.
        sizes: (K,), the same of sizes.
        columns: names of the columns, if they have any.
        warning: that nothing here is private, or that nobody knows; empty for secure noise.
    """

    level: float
    center_low: Array
    center_high: Array
    size_low: Array
    size_high: Array
    n_draws: int
    simultaneous: bool = False
    withheld: tuple[Withheld, ...] = ()
    centers: Array | None = None
    sizes: Array | None = None
    columns: tuple[str, ...] | None = None
    warning: str = ""

    def to_pandas(self) -> Any:
        """A pandas data frame: one row per cluster and column, "size" among them, with the reason of what is withheld.

        >>> ends = {"center_low": np.zeros((1, 1)), "center_high": np.ones((1, 1))}
        >>> sizes = {"size_low": np.array([90.0]), "size_high": np.array([110.0])}
        >>> Intervals(level=0.9, n_draws=39, columns=("age",), **ends, **sizes).to_pandas()[["column", "low", "high"]]
          column   low   high
        0   size  90.0  110.0
        1    age   0.0    1.0
        """
        reasons = {(k, j): reason for k, j, reason in self.withheld}
        low, high = self._ends()
        (n_clusters, n_values), places = low.shape, [(k, j) for k in range(len(low)) for j in range(low.shape[1])]
        of = {"cluster": np.repeat(np.arange(n_clusters), n_values), "column": [*self._names()] * n_clusters}
        if self.centers is not None and self.sizes is not None:
            of["estimate"] = np.column_stack([self.sizes, self.centers]).ravel()
        of |= {"low": low.ravel(), "high": high.ravel()}
        of["withheld"] = [reasons.get((k, j - 1 if j else None), "") for k, j in places]
        return frame(of, self.warning)

    def _ends(self) -> tuple[Array, Array]:
        low, high = (self.size_low, self.center_low), (self.size_high, self.center_high)
        return np.column_stack(low), np.column_stack(high)

    def _names(self) -> tuple[str, ...]:
        return ("size", *(self.columns or (f"column {j}" for j in range(self.center_low.shape[1]))))

    def _card(self) -> Card:
        low, high = self._ends()
        rows = [
            [k, *(f"{figure(a)} to {figure(b)}" if a == a else "withheld" for a, b in zip(*ends, strict=True))]
            for k, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True))
        ]
        facts: list[tuple[str, object]] = [
            ("coverage", f"{self.level:.3g}, {'all at once' if self.simultaneous else 'each by itself'}")
        ]
        facts += [("clusters", len(rows)), ("withheld", len(self.withheld)), ("draws", self.n_draws)]
        return Card("Intervals", facts, ("cluster", *self._names()), rows, warning=self.warning)


def intervals(
    transcript: Transcript,
    inferred: InferredDataset,
    centers: Array,
    *,
    level: float = 0.9,
    simultaneous: bool = False,
    n_draws: int | None = None,
    random_state: Any = None,
    on_progress: OnProgress | None = None,
) -> Intervals:
    """Intervals of the estimate around the clusters that k-means without noise would find near these centres.

    Each is the estimate plus or minus the level's order statistic of the absolute errors of simulated transcripts.
    Added to it is what these cannot show: how far centres and sizes are, beyond noise, from the cells of the last round
    and from what it measured in them. Simulated transcripts are inferred on a smaller support, with default settings.

    Args:
        transcript: what was released, by an algorithm that finds clusters.
        inferred: the data set inferred from it.
        centers: (K, d) fitted centres in the user's units, as `refit` returns them.
        level: the wanted coverage, between 0 and 1.
        simultaneous: whether all intervals of centres, and all of sizes, must hold at once, instead of each by itself.
        n_draws: simulated transcripts; by default 39, or as many as a level above 0.975 needs.
        random_state: seeds choices that need no protection; by default the seed of the commands and the report.
        on_progress: called with (done, total), the draws, as the work goes on; the last time with done = total.

    Returns:
        Intervals whose rows follow the rows of `centers`.

    Guarantees: a function of its arguments, so it costs no privacy; inside the bounds, and finite except where
    withheld. The coverage is measured, not proved, for records clipped to the domain and the optimum near the centres.

    >>> from recoup import Box, KMeans, infer, refit, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=3), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> inferred = infer(transcript, random_state=0)
    >>> given = intervals(transcript, inferred, refit(transcript, inferred), level=0.5, n_draws=9)
    >>> given.center_low.shape, bool((given.center_low <= given.center_high).all())
    ((3, 2), True)
    """
    one_transcript(transcript, "intervals")
    algorithm = algorithm_from_json(transcript.algorithm)
    if not algorithm.has_centers:
        raise ParameterError(f"intervals are of clusters, and this is a transcript of {algorithm.type_name}.")
    domain = transcript.context.domain
    centers = np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[0] == 0 or centers.shape[1] != domain.n_columns:
        raise ParameterError(f"centers has shape {centers.shape}: give (K, {domain.n_columns}) centres.")
    if not np.isfinite(centers).all():
        raise ParameterError("centers must be finite numbers.")
    n_draws = draws_for(level, n_draws)
    rng = generator(random_state)
    start = domain.to_unit(centers)
    data = WeightedPoints(domain.to_unit(inferred.points), inferred.weights)
    size = Clusters(start, data).sizes
    # The means of the last round stand in the order of its cells, and the centres in their own.
    of_cells = inferred.method == "consistency" and len(data.points) == len(start)
    rows = paired(start, data.points)[1] if of_cells else None
    if inferred.method != "maxent":
        # Most of its points are centres of cells: something with a spread must stand for the data.
        world = infer(transcript, "maxent", random_state=rng, n_points=_POINTS, warn=False)
        data = WeightedPoints(domain.to_unit(world.points), world.weights)

    def clusters(data: WeightedPoints, stream: np.random.Generator) -> tuple[Array, Array]:
        """Lloyd from the fitted centres, so that clusters keep their index."""
        if rows is not None and len(data.points) == len(start):
            return data.points[rows], data.weights[rows]
        ends = weighted_kmeans(data.points, data.weights, len(start), n_restarts=0, rng=stream, starts=start[None])
        return ends.centers, Clusters(ends.centers, data).sizes

    means_alone = only_means(transcript.rounds)
    truth = None if means_alone else clusters(data, rng)

    def errors(stream: np.random.Generator) -> tuple[Array, Array]:
        world = clumped(transcript, data, _CLUMPS * len(start), stream) if means_alone else data
        true_centers, true_size = truth or clusters(world, stream)
        its_centers, its_size = clusters(released_again(transcript, world, inferred.method, stream), stream)
        return its_centers - true_centers, its_size - true_size

    center_errors, size_errors = map(np.stack, zip(*in_threads(errors, n_draws, rng, on_progress), strict=True))
    center_model, size_model = _model_errors(transcript.rounds, start, size)
    center_error = _half_widths(center_errors, center_model, level, simultaneous)
    size_error = _half_widths(size_errors, size_model, level, simultaneous)
    withheld = withheld_from(transcript, inferred, centers, center_error, size_error)
    center_low = np.minimum(domain.ends_from_unit(start, start - center_error), centers)
    center_high = np.maximum(domain.ends_from_unit(start, start + center_error), centers)
    size_low, size_high = np.maximum(size - size_error, 0.0), size + size_error
    if records := records_of(transcript.context, transcript.rounds):  # no cluster has more than all of them
        size_high = np.minimum(size_high, np.maximum(size, records.estimate + 3.0 * records.deviation))
    for k, j, _ in withheld:
        for ends in (size_low, size_high) if j is None else (center_low[:, j], center_high[:, j]):
            ends[k] = np.nan
    return Intervals(
        level=level,
        center_low=center_low,
        center_high=center_high,
        size_low=size_low,
        size_high=size_high,
        n_draws=n_draws,
        simultaneous=simultaneous,
        withheld=withheld,
        centers=centers,
        sizes=size,
        columns=domain.columns,
        warning=transcript.privacy.warning,
    )


def _model_errors(rounds: Sequence[Round], centers: Array, sizes: Array) -> tuple[Array, Array]:
    """What simulated transcripts cannot show, from the last round: deviations of centres, (K, d), and sizes, (K,).

    Of centres the larger of two signs of one error: how far the estimate moved from the cells that the round measured,
    beyond noise, and how far it is, beyond noise, from what the round measured there. Root mean squares over the
    clusters: one that happens to have stayed is not known any better. Nothing if the last cells were not the clusters.
    """
    query = as_cells(rounds[-1].query if rounds else None, "relative")
    k, d = centers.shape
    if query is None or query.n_cells != k:
        return np.zeros((k, d)), np.zeros(k)
    partners = paired(centers, query.centers)[1]
    noisy, deviations = rounds[-1].noisy, rounds[-1].noise.deviation(1.0) * rounds[-1].scales
    counted = np.maximum(sizes, deviations[:k][partners])[:, None]
    moves = centers - query.centers[partners]
    measured = query.sums_of(noisy)[partners] / counted
    errors = query.sums_of(deviations)[partners] / counted
    moved = np.sqrt(np.maximum(np.mean(moves**2 - 2.0 * errors**2, axis=0), 0.0))
    missed = errors * np.sqrt(np.maximum(np.mean(((measured - moves) / errors) ** 2, axis=0) - 1.0, 0.0))
    resized = np.sqrt(max(float(np.mean((sizes - noisy[partners]) ** 2 - deviations[:k] ** 2)), 0.0))
    of_sizes = np.maximum(_SIZE_MOVES * resized, _COUNT_PART * deviations[:k][partners])
    return np.maximum(_MOVES * moved, _MISSES * missed), of_sizes


def _half_widths(errors: Array, model: Array, level: float, simultaneous: bool) -> Array:
    """Half the widths that hold the errors of simulated transcripts, (n, ...), and beside them those of the model."""
    widths = error_at(errors, level)
    alone = float(norm.ppf(0.5 + level / 2.0))
    if not simultaneous:
        return np.hypot(widths, alone * model)
    least = np.maximum(widths, 1e-300)
    together = error_at(np.max(np.abs(errors) / least, axis=tuple(range(1, errors.ndim))), level)
    everywhere = float(norm.ppf(0.5 + level ** (1.0 / widths.size) / 2.0))
    return np.hypot(np.maximum(together, 1.0) * widths, everywhere * model)


def withheld_from(
    transcript: Transcript, inferred: InferredDataset, centers: Array, center_errors: Array, size_errors: Array
) -> tuple[Withheld, ...]:
    """The intervals that cannot hold, each once, by cluster and column.

    Centres where there may be no records; centres and sizes where the last round with sums measured, by more than noise
    explains, something outside of the interval. Errors are half the widths of the intervals, in the unit domain.
    """
    records, n_columns = records_of(transcript.context, transcript.rounds), centers.shape[1]
    if records is not None and records.could_be_none:
        without = dict.fromkeys(range(len(centers)), _NO_RECORDS)
    else:
        noise, shared = doubts_of(transcript, centers, inferred)
        # Clumps divide a cell in every way that clusters may.
        shared = [] if only_means(transcript.rounds) else shared
        without = dict.fromkeys(shared, _SHARED) | dict.fromkeys(noise, _NOISE)
    reasons: dict[tuple[int, int | None], str] = {(k, j): why for k, why in without.items() for j in range(n_columns)}
    domain = transcript.context.domain
    clusters = Clusters(domain.to_unit(centers), WeightedPoints(domain.to_unit(inferred.points), inferred.weights))
    for misfit in certain_misfits(evidence_of(transcript), clusters, method=inferred.method):
        cluster, column = misfit.cluster, misfit.column
        if cluster is None:
            continue
        reach = size_errors[cluster] if column is None else center_errors[cluster, column]
        if abs(misfit.measured - misfit.inferred) > reach:
            reasons.setdefault((cluster, column), _MISSED)
    ordered = sorted(reasons.items(), key=lambda item: (item[0][0], -1 if item[0][1] is None else item[0][1]))
    return tuple(Withheld(k, j, reason) for (k, j), reason in ordered)


def one_transcript(given: object, what: str) -> None:
    """Refuse a list of transcripts, or anything else that is not one."""
    if not isinstance(given, Transcript):
        one = f"{what} simulate one release, so give one recoup.Transcript"
        raise ParameterError(f"transcript is a {type(given).__name__}: {one}.")


def draws_for(level: float, n_draws: int | None) -> int:
    """Check a level and a number of draws against each other; the level's order statistic must exist."""
    probability(level, "level")
    needed = max(1, ceil(level / (1.0 - level) - 1e-9))
    if n_draws is None:
        return max(_DRAWS, needed)
    n_draws = whole_number(n_draws, "n_draws")
    if n_draws < needed:
        message = f"n_draws={n_draws}: a level of {level:g} needs at least {needed} draws."
        raise ParameterError(message, parameter="n_draws")
    return n_draws


def error_at(errors: Array, level: float) -> Array:
    """The absolute error of rank (n + 1) level among n draws: a further one of the same law stays below as often."""
    rank = min(ceil((len(errors) + 1) * level - 1e-9), len(errors))
    return np.asarray(np.sort(np.abs(errors), axis=0)[rank - 1])


def over_simulated(
    transcript: Transcript,
    data: WeightedPoints,
    method: str,
    work: Work[Value],
    n_draws: int,
    rng: np.random.Generator,
    on_progress: OnProgress | None = None,
) -> list[Value]:
    """What `work` returns for data inferred from simulated releases of given data, whatever the number of threads."""

    def draw(stream: np.random.Generator) -> Value:
        return work(released_again(transcript, data, method, stream), stream)

    return in_threads(draw, n_draws, rng, on_progress)


def in_threads(
    draw: Callable[[np.random.Generator], Value],
    n_draws: int,
    rng: np.random.Generator,
    on_progress: OnProgress | None = None,
) -> list[Value]:
    """Call a function with as many independent streams, in the order of the draws."""
    streams, drawn = rng.spawn(n_draws), list[Value]()
    # BLAS in one thread for all draws: its limit is set for the whole process, and the sums must not depend on it.
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(min(n_threads(), n_draws)) as pool:
        for value in pool.map(draw, streams):
            drawn.append(value)
            told(on_progress, len(drawn), n_draws)
    return drawn


def simulated_rounds(transcript: Transcript, exact: Sequence[Array], rng: np.random.Generator) -> tuple[Round, ...]:
    """The rounds of a transcript with other answers: exact ones plus fresh noise of the released scales."""
    return tuple(answered.simulated(answer, rng) for answered, answer in zip(transcript.rounds, exact, strict=True))


def released_again(
    transcript: Transcript, data: WeightedPoints, method: str, rng: np.random.Generator
) -> WeightedPoints:
    """Data inferred from one simulated release of given data."""
    rounds = simulated_rounds(transcript, [expected_answer(answered, *data) for answered in transcript.rounds], rng)
    if method == "maxent" and not only_means(rounds) and only_cells(rounds):
        settings = {"n_points": _POINTS, "n_passes": _PASSES, "n_settling": evidence_of(transcript).parts[0].n_settling}
        measure = maxent(by_cells(transcript.context, rounds, rng, **settings))
        return WeightedPoints(measure.points, measure.weights)
    again = infer(replace(transcript, rounds=rounds), method, random_state=rng, n_points=_POINTS, warn=False)
    return WeightedPoints(transcript.context.domain.to_unit(again.points), again.weights)


def clumped(transcript: Transcript, data: WeightedPoints, n_clumps: int, rng: np.random.Generator) -> WeightedPoints:
    """Other data that explains the rounds, with most of its mass in a few clumps at random places.

    Maximum entropy makes one wide cluster of two in a cell, which every transcript simulated from it would confirm.
    """
    context, total = transcript.context, float(data.weights.sum())
    n_smooth = round(_POINTS * _SMOOTH_POINTS)
    n_clumped = _POINTS - n_smooth
    chosen = rng.choice(len(data.points), size=n_clumps + n_smooth, p=data.weights / total)
    middles, smooth = data.points[chosen[:n_clumps]], data.points[chosen[n_clumps:]]
    middles = context.domain.clip(middles + _CLUMP_SHIFT * rng.standard_normal(middles.shape))
    spreads = rng.choice(_CLUMP_SPREADS, size=n_clumps)
    clump = rng.choice(n_clumps, size=n_clumped, p=rng.dirichlet(np.ones(n_clumps)))
    offsets = spreads[clump, None] * rng.standard_normal((n_clumped, middles.shape[1]))
    points = np.concatenate([context.domain.clip(middles[clump] + offsets), smooth])
    sizes = [n_clumped, n_smooth]
    base = np.repeat([(1 - _SMOOTH_WEIGHT) * total / n_clumped, _SMOOTH_WEIGHT * total / n_smooth], sizes)
    count_scale = float(np.mean([answered.scales[0] for answered in transcript.rounds]))
    problem = Problem(
        context=context,
        rounds=transcript.rounds,
        total=total,
        temperature=temperature_of_means(count_scale, total),
        support=lambda n, _: points,
        passes=(Pass(n_points=_POINTS, tolerance=_CLUMP_TOLERANCE, max_steps=_CLUMP_STEPS),),
        base=base,
    )
    return WeightedPoints(points, maxent(problem).weights)
