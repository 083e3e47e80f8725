"""How far the estimate may be from the data's own clusters, from the transcript alone: a parametric bootstrap.

The inferred data is taken as if it were the data, and released again and again with fresh noise; each release is
inferred from and clustered in the same way, and the errors against the clusters of the inferred data are read off: the
noise and the bias of inference alike. An interval that would be wrong is withheld.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, ndtri, polygamma, stdtrit

from recoup._progress import OnProgress, told
from recoup._random import generator
from recoup._shown import Card, Shown, figure, frame
from recoup._validate import probability, whole_number
from recoup.algorithms.kmeans.lloyd import paired
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.evidence import evidence_of
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import certain_misfits, doubts_of
from recoup.inference.simulate import Draw, Simulations
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
_DRAWS = 39  # the 36th of 39 is exactly the 90% point, the 38th the 95% point
# Fewer do where all errors together tell how wide each is: so many degrees of freedom tell an end to 8% of the width,
# as the 36th of 39 does to 7%.
_FEWER_DRAWS, _FREEDOM, _MOST_FREEDOM = (12, 24), 20.0, 1e6
_LEVEL_OF_FEWER = 0.95  # a level up to which the tails of the errors are those of a normal law


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
    simulations: Simulations | None = None,
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
        n_draws: simulated transcripts; by default 12 to 39, as many as the widths need, or a level above 0.975.
        random_state: seeds choices that need no protection; by default the seed of the commands and the report.
        on_progress: called with (done, total), the draws, as the work goes on; the last time with done = total.
        simulations: releases of the inferred data that were simulated before, from the same seed.

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
    most = draws_for(level, n_draws)
    if simulations is None:
        simulations = Simulations.of(transcript, inferred, len(centers), generator(random_state))
    start = domain.to_unit(centers)
    data = WeightedPoints(domain.to_unit(inferred.points), inferred.weights)
    size = Clusters(start, data).sizes
    # The means of the last round stand in the order of its cells, and the centres in their own.
    of_cells = inferred.method == "consistency" and len(data.points) == len(start)
    rows = paired(start, data.points)[1] if of_cells else None

    def clusters(data: WeightedPoints) -> Array:
        """Sizes and centres, (K, 1 + d), by Lloyd's iteration from the fitted ones, so that they keep their index."""
        if rows is not None and len(data.points) == len(start):
            return np.column_stack([data.weights[rows], data.points[rows]])
        ends = weighted_kmeans(*data, len(start), n_restarts=0, rng=simulations.rng, starts=start[None])
        return np.column_stack([Clusters(ends.centers, data).sizes, ends.centers])

    means_alone = only_means(transcript.rounds)
    truth = None if means_alone else clusters(simulations.data)

    def error(draw: Draw) -> Array:
        return clusters(draw.again) - (clusters(draw.world) if truth is None else truth)

    errors, widths = list[Array](), None
    fewer = n_draws is None and level <= _LEVEL_OF_FEWER and not simultaneous and not means_alone
    for n in (*((n for n in _FEWER_DRAWS if n < most) if fewer else ()), most):
        errors += [error(draw) for draw in simulations.first(n, on_progress, most)[len(errors) :]]
        widths = _shared_widths(np.stack(errors), level) if n < most else None
        if widths is not None:
            break
    if len(errors) < most:
        told(on_progress, most, most)
    model = np.column_stack(_model_errors(transcript.rounds, start, size)[::-1])
    if widths is None:
        parts = [_half_widths(np.stack(errors)[..., part], level, simultaneous) for part in (0, slice(1, None))]
        widths = np.column_stack(parts)
    at_once = np.array([len(size), *[start.size] * start.shape[1]]) if simultaneous else 1.0
    half_widths = np.hypot(widths, ndtri(0.5 + level ** (1.0 / at_once) / 2.0) * model)
    size_error, center_error = half_widths[:, 0], half_widths[:, 1:]
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
        n_draws=len(errors),
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


def _half_widths(errors: Array, level: float, simultaneous: bool) -> Array:
    """Half the widths that hold the errors of simulated transcripts, (n, ...): each by itself, or all at once."""
    widths = error_at(errors, level)
    if not simultaneous:
        return widths
    least = np.maximum(widths, 1e-300)
    together = error_at(np.max(np.abs(errors) / least, axis=tuple(range(1, errors.ndim))), level)
    return np.maximum(together, 1.0) * widths


def _shared_widths(errors: Array, level: float) -> Array | None:
    """The same from few draws, (n, K, 1 + d), if the errors of all centres together tell how wide each is; else none.

    Mean squares are drawn towards what their cluster and their column have in common, as far as they differ from it by
    no more than so few draws explain (the moderated variances of Smyth, 2004), and the law of all standardised errors
    is held against Student's. Each size stands for itself.
    """
    n, n_clusters, n_columns = len(errors), errors.shape[1], errors.shape[2] - 1
    squares, left = np.mean(errors**2, axis=0), (n_clusters - 1) * (n_columns - 1)
    of_sizes, of_centers = squares[:, 0], squares[:, 1:]
    if left < 2 or not (of_centers > 0).all():
        return None
    logs = np.log(of_centers) - digamma(n / 2.0) + np.log(n / 2.0)
    common = logs.mean(axis=0) + logs.mean(axis=1, keepdims=True) - logs.mean()
    excess = float(np.sum((logs - common) ** 2)) / left - float(polygamma(1, n / 2.0))
    # As good as what it is an average of, and as alike as the values are.
    prior = min(_freedom_of(excess), n * of_centers.size / (n_clusters + n_columns - 1))
    freedom = prior + n
    if freedom < _FREEDOM:
        return None
    usual = np.exp(common + digamma(prior / 2.0) - np.log(prior / 2.0))
    deviations = np.sqrt((prior * usual + n * of_centers) / freedom)
    found = float(np.quantile(np.abs(errors[..., 1:]) / deviations, level))
    at = 0.5 + level / 2.0
    of_centers = max(found, float(stdtrit(freedom, at))) * deviations
    return np.column_stack([stdtrit(n, at) * np.sqrt(of_sizes), of_centers])


def _freedom_of(excess: float) -> float:
    """The degrees of freedom whose chi squared has a logarithm of this variance."""
    low, high = 1e-3, _MOST_FREEDOM
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if polygamma(1, middle / 2.0) > excess else (low, middle)
    return low


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
