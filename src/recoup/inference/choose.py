"""How many clusters the data has, read off the inferred data: looking again costs no privacy.

The rule is the gap statistic (Tibshirani, Walther and Hastie), which can answer 1: the log loss is compared with that
of uniform points in a box along the data's principal axes; the smallest number is taken whose gap is within one
standard error of the largest. But noise makes clusters of its own. So with the transcript at hand each cluster must
hold more records than the noise of its counts would explain, and the clusters must be worth more than in worlds that
are known to have one less, or only one: there each cluster is a plain box, released with the same queries and noise and
inferred again. Where one cluster is suggested, a world of two must have shown, or their absence means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from recoup._progress import OnProgress, parts_of, told
from recoup._random import generator
from recoup._shown import Card, Shown, figure
from recoup._validate import whole_number
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.inference.intervals import draws_for, one_transcript
from recoup.inference.simulate import Simulations
from recoup.kernels.weighted_kmeans import Clustering, weighted_inertia, weighted_kmeans
from recoup.maxent.measure import weighted_quantiles
from recoup.maxent.sizes import Clusters, WeightedPoints, sizes_by_counts
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript

_TAIL = 0.005  # of the weight on either side that a range leaves out: inferred data has a little weight everywhere
_RESTARTS, _REFERENCE_RESTARTS = 8, 2
_REFERENCES, _REFERENCE_POINTS = 10, 2_000
_SMALLEST = 1e-12  # of the loss of one cluster: below this a loss is zero
_TINY = 1e-300  # a loss of nothing at all
_SMALLEST_RANGE, _LARGEST_RANGE = 8, 20
_DRAWS, _LEVEL_OF_DRAWS = 12, 0.92  # the curve is looked at, not read off
_WORLD_DRAWS, _WORLD_RESTARTS, _BOX_POINTS = 10, 4, 4_000
_DEVIATIONS = 4.0  # several steps are tested, with a deviation from few draws
# The deviation of so few is less than a third of the true one once in twenty times.
_FIRST_WORLD_DRAWS, _CLEAR_DEVIATIONS = 4, 12.0
_SHOWN = 0.9  # of the worlds with two clusters must show them
_TIGHTER = 0.5  # how much closer to its centre each record of such a world is

Outcome = Literal["conclusive", "at least", "not conclusive"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ClusterCurve(Shown):
    """The inferred loss by number of clusters, and a suggestion."""

    n_clusters: NDArray[np.int64]  # (k_max,) 1, 2, ...
    loss: Array  # (k_max,) the within-cluster sum of squares of the inferred data, columns scaled
    loss_low: Array  # (k_max,) lower ends of intervals around it
    loss_high: Array  # (k_max,) upper ends
    gap: Array  # (k_max,) how much lower the log of the loss is than without clusters
    gap_error: Array  # (k_max,) the standard error of the gap's reference
    suggested: int  # by the gap statistic; with a transcript at most as many as it tells apart
    outcome: Outcome  # "conclusive" if there are so many, "at least" if there may be more
    sentence: str  # the suggestion and its outcome in words

    @property
    def conclusive(self) -> bool:
        """Whether there are as many clusters as suggested: neither fewer nor more."""
        return self.outcome == "conclusive"

    def _card(self) -> Card:
        rows = [
            (int(k), float(loss), f"{figure(low)} to {figure(high)}", float(gap))
            for k, loss, low, high, gap in zip(
                self.n_clusters, self.loss, self.loss_low, self.loss_high, self.gap, strict=True
            )
        ]
        facts = [("suggested", f"{self.suggested} ({self.outcome})"), ("tried", f"1 to {len(rows)}")]
        return Card("How many clusters", facts, ("clusters", "loss", "interval", "gap"), rows, note=self.sentence)


def suggest_clusters(
    inferred: InferredDataset,
    *,
    k_max: int | None = None,
    transcript: Transcript | None = None,
    domain: Domain | None = None,
    level: float = 0.9,
    n_draws: int | None = None,
    random_state: Any = None,
    on_progress: OnProgress | None = None,
    simulations: Simulations | None = None,
) -> ClusterCurve:
    """The loss of the inferred data for 1 to k_max clusters, with intervals, and how many clusters it suggests.

    Args:
        inferred: a data set with more than k_max points.
        k_max: the largest number of clusters to try; by default 8, or somewhat more than the transcript's.
        transcript: what the data was inferred from: intervals then include the noise of the release, by simulated
            transcripts, and the suggestion is tested against it. Without it they include only the spread between
            samples of as many records, and no suggestion is conclusive.
        domain: without a transcript, its bounds scale columns to [-1, 1]; without either, the inner 99% of the weight.
        level: the wanted coverage of the intervals.
        n_draws: simulated transcripts of the intervals; by default 12, or as many as a level above 0.92 needs.
        random_state: seeds choices that need no protection; by default the seed of the report.
        on_progress: called with (done, total), in percent, as the work goes on; the last time with done = total.
        simulations: releases of the inferred data that were simulated before, from the same seed.

    Returns:
        The curve, and the suggestion with how far it can be trusted.

    Guarantees: reads nothing but its arguments, so it costs no privacy. How often a conclusive suggestion is right is
    measured (`docs/intervals.md`). Where clusters are tight, the loss of the records themselves is below the curve.

    >>> from recoup import InferredDataset
    >>> rng = np.random.default_rng(0)
    >>> points = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 200, axis=0) + rng.normal(size=(600, 2))
    >>> data = InferredDataset(points=points, weights=np.ones(600), method="maxent", simulated=True)
    >>> suggest_clusters(data, k_max=6, random_state=0).suggested
    3
    """
    if not isinstance(inferred, InferredDataset):
        first = "give the inferred data set first, and transcript=... beside it"
        raise ParameterError(f"inferred is a {type(inferred).__name__}: {first}.")
    if transcript is not None:
        one_transcript(transcript, "intervals of the curve")
        if domain is not None and domain != transcript.context.domain:
            raise ParameterError("domain is another than the transcript's: leave one of the two out.")
        domain = transcript.context.domain
    asked = 1 if transcript is None else transcript.algorithm.get("n_clusters", 1)
    k_max = range_for(asked if isinstance(asked, int) else 1) if k_max is None else whole_number(k_max, "k_max")
    enough = draws_for(level, n_draws)
    n_draws = _DRAWS if n_draws is None and level <= _LEVEL_OF_DRAWS else enough
    kept = inferred.weights > 0
    points, weights = inferred.points[kept], inferred.weights[kept]
    if len(points) <= k_max:
        few = f"the inferred data has {len(points)} points, too few for k_max={k_max}"
        raise ParameterError(f'{few}: lower it, or infer by "maxent", which gives data with a spread.')
    if domain is None:
        low, high = _ranges(points, weights)
        half = (high - low) / 2.0
        points = (points - (low + high) / 2.0) / np.where(half > 0, half, 1.0)
    else:
        points = domain.to_unit(points)
    rng, data = generator(random_state), WeightedPoints(points, weights)
    clusterings = [_cluster(data, k, _RESTARTS, rng) for k in range(1, k_max + 1)]
    loss = np.array([clustering.inertia for clustering in clusterings])
    gap, gap_error = _gaps(data, loss, rng)
    start_told, draws_told, end_told = parts_of(on_progress, 2, 3, 5)
    told(start_told, 1, 1)
    top = int(np.argmax(gap))
    suggested = 1 + int(np.nonzero(gap >= gap[top] - gap_error[top])[0][0])
    outcome: Outcome = "not conclusive"
    if transcript is None:
        log_error = _sampling_error(data, clusterings, level)
        sentence = "Not conclusive: how many was not held against the noise of the release. Intervals do that."
    else:
        if simulations is None:
            world = WeightedPoints(transcript.context.domain.to_unit(inferred.points), inferred.weights)
            simulations = Simulations(transcript, world, "maxent", 0, generator(random_state))
        noise, by_gap = AgainstNoise(simulations, data, clusterings, rng), suggested
        log_error = noise.log_errors(n_draws, level, draws_told)
        suggested = noise.most_distinct(by_gap)
        if suggested == by_gap and top < k_max - 1 and (suggested > 1 or noise.two_would_show()):
            more = "more of the kind" if suggested > 1 else "two"
            outcome, sentence = "conclusive", f"{_counted(suggested)}: {more} would have shown."
        elif suggested > 1:
            unknown = "more can neither be told from noise nor ruled out"
            more = "no larger number was tried" if suggested == k_max else unknown
            outcome, sentence = "at least", f"At least {_counted(suggested)}: {more}."
        else:
            sentence = "Not conclusive: several clusters can neither be told from noise nor ruled out."
    told(end_told, 1, 1)
    return ClusterCurve(
        n_clusters=np.arange(1, k_max + 1, dtype=np.int64),
        loss=loss,
        loss_low=loss * np.exp(-log_error),
        loss_high=loss * np.exp(log_error),
        gap=gap,
        gap_error=gap_error,
        suggested=suggested,
        outcome=outcome,
        sentence=sentence,
    )


def range_for(n_clusters: int) -> int:
    """The largest number of clusters to look at where this many were asked for: 8 for 3, 15 for 12."""
    return min(max(_SMALLEST_RANGE, n_clusters + max(3, n_clusters // 4)), _LARGEST_RANGE)


def _counted(k: int) -> str:
    return f"{k} {'cluster' if k == 1 else 'clusters'}"


def _ranges(points: Array, weights: Array) -> tuple[Array, Array]:
    """The ends of the inner part of the weight, column by column."""
    low, high = np.array([weighted_quantiles(column, weights, (_TAIL, 1.0 - _TAIL)) for column in points.T]).T
    return low, high


def _cluster(
    data: WeightedPoints, k: int, n_restarts: int, rng: np.random.Generator, *, starts: Array | None = None
) -> Clustering:
    return weighted_kmeans(*data, k, n_restarts=n_restarts, rng=rng, starts=starts, max_iterations=60, tolerance=1e-4)


def _sampling_error(data: WeightedPoints, clusterings: Sequence[Clustering], level: float) -> Array:
    """Half the widths of intervals of log losses, between samples of Poisson size; centres move in second order."""
    errors = []
    for clustering in clusterings:
        distances = np.min([((data.points - center) ** 2).sum(axis=1) for center in clustering.centers], axis=0)
        errors.append(np.sqrt((data.weights * distances**2).sum()) / max(clustering.inertia, _TINY))
    return np.asarray(ndtri((1.0 + level) / 2.0) * np.array(errors))


def _gaps(data: WeightedPoints, loss: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The gap of each number of clusters, and the standard error of its reference."""
    points, weights = data
    axes = np.linalg.eigh(np.atleast_2d(np.cov(points.T, aweights=weights, ddof=0)))[1]
    low, high = _ranges((points - np.average(points, axis=0, weights=weights)) @ axes, weights)
    ones, logs = np.ones(_REFERENCE_POINTS), []
    for _ in range(_REFERENCES):
        reference = WeightedPoints(rng.uniform(low, high, size=(_REFERENCE_POINTS, points.shape[1])), ones)
        losses = [_cluster(reference, k, _REFERENCE_RESTARTS, rng).inertia for k in range(1, len(loss) + 1)]
        logs.append(_log_shares(np.array(losses)))
    gap = np.mean(logs, axis=0) - _log_shares(loss)
    return gap, np.std(logs, axis=0) * np.sqrt(1.0 + 1.0 / _REFERENCES)


def _log_shares(loss: Array) -> Array:
    """The log of each loss as a part of the first: the total weight and the units cancel."""
    if loss[0] <= 0.0:
        return np.zeros(len(loss))
    return np.asarray(np.log(np.maximum(loss / loss[0], _SMALLEST)))


@dataclass(frozen=True, slots=True)
class AgainstNoise:
    """Holds numbers of clusters against the noise of a release, by counts and by simulated releases."""

    simulations: Simulations  # of what was released
    data: WeightedPoints  # what was inferred from it, in the unit domain
    clusterings: Sequence[Clustering]  # of the data, into 1, 2, ... clusters
    rng: np.random.Generator  # harmless randomness
    worlds: dict[int, Simulations] = field(default_factory=dict)  # of so many boxes, as far as they were needed

    def log_errors(self, n_draws: int, level: float, on_progress: OnProgress | None = None) -> Array:
        """Half the widths of intervals of log losses, which hold the noise and the bias of inference."""

        def log_losses(data: WeightedPoints) -> Array:
            losses = [weighted_inertia(*data, clustering.centers) for clustering in self.clusterings]
            return np.log(np.maximum(losses, _TINY))

        drawn = [log_losses(draw.again) for draw in self.simulations.first(n_draws, on_progress)]
        deviations = np.sqrt(np.mean((np.stack(drawn) - log_losses(self.data)) ** 2, axis=0))
        return np.asarray(stdtrit(n_draws, 0.5 + level / 2.0) * deviations)

    def most_distinct(self, wanted: int) -> int:
        """The largest number of clusters, at most as many as wanted, that noise would not have made."""
        for k in range(wanted, 1, -1):
            sizes = sizes_by_counts(
                self.simulations.transcript.rounds, Clusters(self.clusterings[k - 1].centers, self.data)
            )
            real = (sizes.sure | np.isinf(sizes.deviations)).all()
            # One box too: boxes that meet, as in a table without clusters, are no good likeness of what they came from.
            if real and all(self._is_gain(n, k) for n in sorted({k - 1, 1}, reverse=True)):
                return k
        return 1

    def two_would_show(self) -> bool:
        """Whether two tight clusters in the place of the data would have shown, and do not."""
        limit, centers = _limit(self._gains(self._world(1), 1, 2, _WORLD_DRAWS)), self.clusterings[1].centers
        if _gain(self.clusterings, 1, 2) > limit:
            return False
        middles = centers[Clusters(centers, self.data).labels]
        tight = WeightedPoints(middles + _TIGHTER * (self.data.points - middles), self.data.weights)
        return bool((self._gains(self._released(tight), 1, 2, _WORLD_DRAWS) > limit).mean() >= _SHOWN)

    def _is_gain(self, fewer: int, more: int) -> bool:
        """Whether more clusters gain more than by chance in a world of fewer; few draws tell what is clear."""
        gain, world = _gain(self.clusterings, fewer, more), self._world(fewer)
        gains = self._gains(world, fewer, more, _FIRST_WORLD_DRAWS)
        above = gain - float(np.mean(gains))
        if above <= 0.0 or above > _CLEAR_DEVIATIONS * float(np.std(gains, ddof=1)):
            return above > 0.0
        return gain > _limit(self._gains(world, fewer, more, _WORLD_DRAWS))

    def _world(self, k: int) -> Simulations:
        """Releases of k boxes in the place of the clusters; whoever asks for them again gets the same."""
        if k not in self.worlds:
            self.worlds[k] = self._released(self._boxes(k))
        return self.worlds[k]

    def _released(self, world: WeightedPoints) -> Simulations:
        return Simulations(self.simulations.transcript, world, "maxent", 0, self.rng.spawn(1)[0])

    def _gains(self, world: Simulations, fewer: int, more: int, n_draws: int) -> Array:
        """What more clusters gain in data that is inferred from releases of a world."""
        # The known centres are a start too: a search that fails would look like a gain.
        starts = [(n, self.clusterings[n - 1].centers[None]) for n in (fewer, more)]

        def gain(data: WeightedPoints) -> float:
            return _gain([_cluster(data, n, _WORLD_RESTARTS, self.rng, starts=known) for n, known in starts], 1, 2)

        return np.array([gain(draw.again) for draw in world.first(n_draws)])

    def _boxes(self, k: int) -> WeightedPoints:
        """Each of k clusters as uniform points in a box along its principal axes, of its size, mean and covariance."""
        clusters = Clusters(self.clusterings[k - 1].centers, self.data)
        sizes, points, weights = clusters.sizes, [], []
        for i in np.flatnonzero(sizes > 0):
            inside, mass = (values[clusters.labels == i] for values in self.data)
            n = max(2, round(_BOX_POINTS * sizes[i] / sizes.sum()))
            mean = np.average(inside, axis=0, weights=mass)
            variances, axes = np.linalg.eigh(((inside - mean).T * mass) @ (inside - mean) / mass.sum())
            half = np.sqrt(3.0 * np.maximum(variances, 0.0))
            points.append(mean + self.rng.uniform(-half, half, size=(n, len(half))) @ axes.T)
            weights.append(np.full(n, sizes[i] / n))
        return WeightedPoints(
            self.simulations.transcript.context.domain.clip(np.concatenate(points)), np.concatenate(weights)
        )


def _limit(gains: Array) -> float:
    """The most that would be gained by chance."""
    spread = np.std(gains, ddof=1) * np.sqrt(1.0 + 1.0 / len(gains))
    return float(np.mean(gains) + _DEVIATIONS * spread)


def _gain(clusterings: Sequence[Clustering], fewer: int, more: int) -> float:
    """By how much the log of the loss falls from the first, second, ... of some clusterings to another."""
    first, second = (np.log(max(clusterings[n - 1].inertia, _TINY)) for n in (fewer, more))
    return float(first - second)
