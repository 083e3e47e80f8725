"""How far the estimate may be from the data's own clusters, from the transcript alone: a parametric bootstrap.

The inferred data is taken as if it were the data, and released again and again (`simulate`); what is inferred from
these releases is clustered in the same way, and the errors against the clusters of the inferred data are read off. They
hold the noise and the bias of inference alike. Rounds of DP-KMEANS say nothing about what is inside a cell but its
mean, so there each draw starts from other data that explains the rounds as well. Where there may be no records at all,
or where the last round measured something that the inferred data do not have, all of that is the wrong question: such
intervals are withheld instead of being narrow and wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from recoup._random import generator
from recoup.algorithms.kmeans.lloyd import paired
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference import simulate
from recoup.inference.evidence import evidence_of
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import certain_misfits, doubts_of
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.measure import only_means
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


class Withheld(NamedTuple):
    """One interval that is not given.

    Attributes:
        cluster: the row of the centres.
        column: the number of the column; none for the cluster's size.
        reason: why, in words.
    """

    cluster: int
    column: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """Intervals of the estimate for every coordinate of every centre and for every cluster's size.

    Attributes:
        level: the wanted coverage of each interval.
        center_low: (K, d) in the user's units, inside the bounds; NaN where it is withheld, as the upper end.
        center_high: (K, d).
        size_low: (K,) records in the cluster, at least 0; NaN where it is withheld.
        size_high: (K,).
        n_draws: transcripts that were simulated.
        simultaneous: whether all centres, and all sizes, are meant to lie inside at once.
        withheld: the intervals that would not hold, each with its reason.
    """

    level: float
    center_low: Array
    center_high: Array
    size_low: Array
    size_high: Array
    n_draws: int
    simultaneous: bool = False
    withheld: tuple[Withheld, ...] = ()


def intervals(
    transcript: Transcript,
    inferred: InferredDataset,
    centers: Array,
    *,
    level: float = 0.9,
    simultaneous: bool = False,
    n_draws: int | None = None,
    random_state: Any = None,
) -> Intervals:
    """Intervals of the estimate around the clusters that k-means without noise would find near these centres.

    Each interval is symmetric: the estimate plus or minus the level's order statistic of the absolute errors of
    simulated transcripts, and beside it what those cannot show: how far centres and sizes are, beyond noise, from the
    cells of the last round and from what it measured in them. Where an interval would not hold it is withheld.

    Data sets of the maximum-entropy method are inferred again on a fresh, smaller support; those of the other methods
    by the same method at its default settings, with maximum-entropy data in place of the records.
    For transcripts of DP-KMEANS each draw has its own data in their place: clumps that explain the rounds.

    Args:
        transcript: what was released, by an algorithm that finds clusters.
        inferred: the data set inferred from it.
        centers: (K, d) fitted centres in the user's units, as `refit` returns them.
        level: the wanted coverage, between 0 and 1.
        simultaneous: whether all intervals of centres are to hold at once, and all of sizes, instead of each by itself.
        n_draws: simulated transcripts; by default 39, or as many as a level above 0.975 needs.
        random_state: harmless randomness; by default the seed by which the commands and the report read.

    Returns:
        Intervals whose rows follow the rows of `centers`.

    Guarantees: a function of its arguments, so that it costs no privacy; inside the bounds, and finite but for what is
    withheld with a reason. The coverage is measured, not proved; it speaks of the records as clipped to the domain and
    of the optimum near the centres.

    >>> from recoup import Box, KMeans, infer, refit, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=3), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> inferred = infer(transcript, random_state=0)
    >>> found = intervals(transcript, inferred, refit(transcript, inferred), level=0.5, n_draws=9)
    >>> found.center_low.shape, bool((found.center_low <= found.center_high).all())
    ((3, 2), True)
    """
    simulate.one_transcript(transcript, "intervals")
    algorithm = algorithm_from_json(transcript.algorithm)
    if not algorithm.has_centers:
        raise ParameterError(f"intervals are of clusters, and this is a transcript of {algorithm.type_name}.")
    domain = transcript.context.domain
    centers = np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[0] == 0 or centers.shape[1] != domain.n_columns:
        raise ParameterError(f"centers has shape {centers.shape}: give (K, {domain.n_columns}) centres.")
    if not np.isfinite(centers).all():
        raise ParameterError("centers must be finite numbers.")
    n_draws = simulate.draws_for(level, n_draws)
    rng = generator(random_state)
    start = domain.to_unit(centers)
    data = WeightedPoints(domain.to_unit(inferred.points), inferred.weights)
    size = Clusters(start, data).sizes
    # The means of the last round stand in the order of its cells, and the centres in their own.
    rows = _partners(start, data.points) if inferred.method == "consistency" else None
    if inferred.method != "maxent":
        # Most of its points are centres of cells: something with a spread must stand for the data.
        world = infer(transcript, "maxent", random_state=rng, n_points=simulate.POINTS, warn=False)
        data = WeightedPoints(domain.to_unit(world.points), world.weights)

    def clusters(data: WeightedPoints, stream: np.random.Generator) -> tuple[Array, Array]:
        """Lloyd from the fitted centres, so that clusters keep their index."""
        if rows is not None and len(data.points) == len(start):
            return data.points[rows], data.weights[rows]
        ends = weighted_kmeans(data.points, data.weights, len(start), n_restarts=0, rng=stream, starts=start[None])
        return ends.centers, Clusters(ends.centers, data).sizes

    clumps = only_means(transcript.rounds)
    if clumps:

        def errors_on_other_data(stream: np.random.Generator) -> tuple[Array, Array]:
            other = simulate.clumped(transcript, data, simulate.CLUMPS * len(start), stream)
            true_centers, true_size = clusters(other, stream)
            exact = simulate.exact_answers(transcript, other)
            again = simulate.released_again(transcript, exact, inferred.method, stream)
            its_centers, its_size = clusters(again, stream)
            return its_centers - true_centers, its_size - true_size

        drawn = simulate.in_threads(errors_on_other_data, n_draws, rng)
    else:
        true_centers, true_size = clusters(data, rng)
        simulated = simulate.over_simulated(transcript, data, inferred.method, clusters, n_draws, rng)
        drawn = [(c - true_centers, s - true_size) for c, s in simulated]
    center_errors, size_errors = (np.stack(errors) for errors in zip(*drawn, strict=True))
    center_model, size_model = _model_errors(transcript.rounds, start, size)
    center_error = _half_widths(center_errors, center_model, level, simultaneous)
    size_error = _half_widths(size_errors, size_model, level, simultaneous)
    withheld = withheld_from(transcript, inferred, centers, center_error, size_error, clumps=clumps)
    center_low = np.minimum(domain.from_unit(start - center_error), centers)
    center_high = np.maximum(domain.from_unit(start + center_error), centers)
    size_low, size_high = np.maximum(size - size_error, 0.0), size + size_error
    for k, j, _ in withheld:
        if j is None:
            size_low[k] = size_high[k] = np.nan
        else:
            center_low[k, j] = center_high[k, j] = np.nan
    return Intervals(
        level=level,
        center_low=center_low,
        center_high=center_high,
        size_low=size_low,
        size_high=size_high,
        n_draws=n_draws,
        simultaneous=simultaneous,
        withheld=withheld,
    )


def _model_errors(rounds: Sequence[Round], centers: Array, sizes: Array) -> tuple[Array, Array]:
    """What simulated transcripts cannot show, from the last round: deviations of centres, (K, d), and sizes, (K,).

    Of centres the larger of two signs of one error: how far the estimate moved from the cells that the round measured,
    beyond noise, and how far it is, beyond noise, from what the round measured there. Root mean squares over the
    clusters: one that happens to have stayed is not known any better. Nothing where the cells of the last round were
    not the clusters. Both the cells and the estimate have noise of about that round's.
    """
    query = as_cells(rounds[-1].query if rounds else None, "relative")
    partners = None if query is None else _partners(centers, query.centers)
    if query is None or partners is None:
        return np.zeros(centers.shape), np.zeros(len(centers))
    k, d = centers.shape
    noisy, deviations = rounds[-1].noisy, rounds[-1].noise.deviation(1.0) * rounds[-1].scales
    counted = np.maximum(sizes, deviations[:k][partners])[:, None]
    moves = centers - query.centers[partners]
    measured = noisy[k:].reshape(k, d)[partners] / counted
    errors = deviations[k:].reshape(k, d)[partners] / counted
    moved = np.sqrt(np.maximum(np.mean(moves**2 - 2.0 * errors**2, axis=0), 0.0))
    missed = errors * np.sqrt(np.maximum(np.mean(((measured - moves) / errors) ** 2, axis=0) - 1.0, 0.0))
    resized = np.sqrt(max(float(np.mean((sizes - noisy[partners]) ** 2 - deviations[:k] ** 2)), 0.0))
    of_sizes = np.maximum(_SIZE_MOVES * resized, _COUNT_PART * deviations[:k][partners])
    return np.maximum(_MOVES * moved, _MISSES * missed), of_sizes


def _half_widths(errors: Array, model: Array, level: float, simultaneous: bool) -> Array:
    """Half the widths that hold the errors of simulated transcripts, (n, ...), and beside them those of the model."""
    widths = simulate.error_at(errors, level)
    alone = float(norm.ppf(0.5 + level / 2.0))
    if not simultaneous:
        return np.hypot(widths, alone * model)
    least = np.maximum(widths, 1e-300)
    together = simulate.error_at(np.max(np.abs(errors) / least, axis=tuple(range(1, errors.ndim))), level)
    everywhere = float(norm.ppf(0.5 + level ** (1.0 / widths.size) / 2.0))
    return np.hypot(np.maximum(together, 1.0) * widths, everywhere * model)


def _partners(centers: Array, points: Array) -> NDArray[np.int64] | None:
    """For each centre its point, such that they are closest all together; none if there are not as many."""
    if len(points) != len(centers):
        return None
    return paired(centers, points)[1]


def withheld_from(
    transcript: Transcript,
    inferred: InferredDataset,
    centers: Array,
    center_errors: Array,
    size_errors: Array,
    *,
    clumps: bool,
) -> tuple[Withheld, ...]:
    """The intervals that cannot hold, each once, by cluster and column.

    Centres where there may be no records; centres and sizes where the last round with sums measured, by more than noise
    explains, something outside of the interval. Errors are half the widths of the intervals, in the unit domain;
    `clumps` says whether they hold every way in which clusters may divide a cell.
    """
    reasons: dict[tuple[int, int | None], str] = {}
    for k, reason in _without_records(transcript, inferred, centers, clumps):
        reasons |= {(k, j): reason for j in range(centers.shape[1]) if (k, j) not in reasons}
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


def _without_records(
    transcript: Transcript, inferred: InferredDataset, centers: Array, clumps: bool
) -> Iterator[tuple[int, str]]:
    records = records_of(transcript.context, transcript.rounds)
    if records is not None and records.could_be_none:
        yield from ((k, _NO_RECORDS) for k in range(len(centers)))
        return
    noise, shared = doubts_of(transcript, centers, inferred)
    yield from ((k, _NOISE) for k in noise)
    yield from ((k, _SHARED) for k in shared if not clumps)
