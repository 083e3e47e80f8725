"""How many clusters the data has, read off the inferred data: looking again costs no privacy.

The rule is the gap statistic (Tibshirani, Walther and Hastie): the log loss is compared with that of uniform points in
a box along the data's principal axes, which have no clusters; the number of clusters is the smallest whose gap is
within one standard error of the largest. Unlike rules on the curve's shape alone it can answer 1. It knows nothing of
the noise of the release, so with the transcript at hand its answer is lowered to what can be told apart, and it is
called conclusive only where it need not be and the curve has a bend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from recoup._random import generator
from recoup._validate import whole_number
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.inference.apart import told_apart, two_would_show
from recoup.inference.inferred import InferredDataset
from recoup.inference.intervals import UnitData, draws_for, error_at, one_transcript, over_simulated
from recoup.kernels.weighted_kmeans import Clustering, weighted_inertia, weighted_kmeans
from recoup.maxent.measure import weighted_quantile
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript

_TAIL = 0.005  # of the weight on either side that a range leaves out: inferred data has a little weight everywhere
_RESTARTS, _REFERENCE_RESTARTS = 8, 2
_REFERENCES, _REFERENCE_POINTS = 10, 2_000
_SMALLEST = 1e-12  # of the loss of one cluster: below this a loss is zero
_SMALLEST_RANGE, _LARGEST_RANGE = 8, 20
_DRAWS, _LEVEL_OF_DRAWS = 19, 0.95  # the curve is looked at, not read off

Outcome = Literal["conclusive", "at least", "not conclusive"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterCurve:
    """The inferred loss by number of clusters, and a suggestion.

    Attributes:
        n_clusters: (k_max,) 1, 2, ...
        loss: (k_max,) the within-cluster sum of squares of the inferred data, columns scaled.
        loss_low: (k_max,) lower ends of intervals around it.
        loss_high: (k_max,) upper ends.
        gap: (k_max,) how much lower the log of the loss is than without clusters.
        gap_error: (k_max,) the standard error of the gap's reference.
        suggested: the number of clusters by the gap statistic; with a transcript at most as many as it tells apart.
        outcome: "conclusive" if there are so many, "at least" if there may be more, else "not conclusive".
        sentence: the suggestion and its outcome in words.
    """

    n_clusters: NDArray[np.int64]
    loss: Array
    loss_low: Array
    loss_high: Array
    gap: Array
    gap_error: Array
    suggested: int
    outcome: Outcome
    sentence: str

    @property
    def conclusive(self) -> bool:
        """Whether there are as many clusters as suggested: neither fewer nor more."""
        return self.outcome == "conclusive"


def suggest_clusters(
    inferred: InferredDataset,
    *,
    k_max: int | None = None,
    transcript: Transcript | None = None,
    domain: Domain | None = None,
    level: float = 0.9,
    n_draws: int | None = None,
    random_state: Any = None,
) -> ClusterCurve:
    """The loss of the inferred data for 1 to k_max clusters, with intervals, and how many clusters it suggests.

    Args:
        inferred: a data set with more than k_max points.
        k_max: the largest number of clusters to look at; by default 8, or somewhat more than the transcript's.
        transcript: what the data was inferred from. With it the intervals hold the noise of the release, by simulated
            transcripts as in `intervals`, and the suggestion is held against them; without it they hold only the spread
            of the loss between samples of as many records, and no suggestion is conclusive.
        domain: scales each column to [-1, 1] by its bounds, where there is no transcript, whose domain is used.
            Without either, each column is divided by half the range of its inner 99 % of the weight.
        level: the wanted coverage of the intervals.
        n_draws: simulated transcripts of the intervals; by default 19, or as many as a level above 0.95 needs.
        random_state: harmless randomness; by default the seed by which the report reads.

    Returns:
        The curve and the suggestion, with what it is worth.

    Guarantees: reads nothing but its arguments, so it costs no privacy. How often a conclusive suggestion is right is
    measured, not proved (`docs/intervals.md`). The curve speaks of the inferred data, which is smoother than the
    records: where clusters are tight, the records' own loss is below it.

    >>> from recoup import InferredDataset
    >>> rng = np.random.default_rng(0)
    >>> points = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 200, axis=0) + rng.normal(size=(600, 2))
    >>> data = InferredDataset(points=points, weights=np.ones(600), method="maxent", simulated=True)
    >>> suggest_clusters(data, k_max=6, random_state=0).suggested
    3
    """
    if transcript is not None:
        one_transcript(transcript, "intervals of the curve")
        if domain is not None and domain != transcript.context.domain:
            raise ParameterError("domain is another than the transcript's: leave one of the two out.")
        domain = transcript.context.domain
    k_max = range_for(_asked(transcript)) if k_max is None else whole_number(k_max, "k_max")
    usual = n_draws is None
    n_draws = draws_for(level, n_draws)
    if usual and level <= _LEVEL_OF_DRAWS:
        n_draws = _DRAWS
    kept = inferred.weights > 0
    points, weights = inferred.points[kept], inferred.weights[kept]
    if len(points) <= k_max:
        raise ParameterError(
            f"the inferred data has {len(points)} points, too few for k_max={k_max}: lower it, or infer by "
            '"maxent", which gives data with a spread.'
        )
    rng = generator(random_state)
    points = _by_range(points, weights) if domain is None else domain.to_unit(points)
    found = [_cluster(points, weights, k, _RESTARTS, rng) for k in range(1, k_max + 1)]
    loss = np.array([clustering.inertia for clustering in found])
    gap, gap_error = _gaps(points, weights, loss, rng)
    suggested = _suggestion(gap, gap_error)
    if transcript is None:
        log_error = _sampling_error(points, weights, found, level)
        outcome, sentence = _unjudged(suggested)
    else:
        data = UnitData(points, weights)
        log_error = _release_error(transcript, data, found, n_draws, level, rng)
        best, suggested = suggested, told_apart(transcript, data, found, suggested, rng)
        bends = suggested == best and int(np.argmax(gap)) < k_max - 1
        no_more = bends and (suggested > 1 or two_would_show(transcript, data, found, rng))
        outcome, sentence = _judged(suggested, no_more, k_max)
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
    """The largest number of clusters to look at where this many were asked for.

    >>> range_for(3), range_for(12)
    (8, 15)
    """
    return min(max(_SMALLEST_RANGE, n_clusters + max(3, n_clusters // 4)), _LARGEST_RANGE)


def _asked(transcript: Transcript | None) -> int:
    """How many clusters a transcript was made for; 1 where that is not known."""
    asked = 1 if transcript is None else transcript.algorithm.get("n_clusters", 1)
    return asked if isinstance(asked, int) else 1


def _judged(suggested: int, no_more: bool, k_max: int) -> tuple[Outcome, str]:
    """What a suggestion is worth that was held against the noise."""
    if no_more:
        more = "more of the kind" if suggested > 1 else "two"
        return "conclusive", f"{_counted(suggested)}: {more} would have shown."
    if suggested == k_max > 1:
        return "at least", f"At least {_counted(suggested)}: no larger number was tried."
    if suggested > 1:
        return "at least", f"At least {_counted(suggested)}: more can neither be told from noise nor ruled out."
    return "not conclusive", "Not conclusive: several clusters can neither be told from noise nor ruled out."


def _unjudged(suggested: int) -> tuple[Outcome, str]:
    """And one of inferred data alone."""
    best = f"{_counted(suggested)} would fit the inferred data best"
    return "not conclusive", f"Not conclusive: {best}, which was not held against the noise of the release."


def _counted(k: int) -> str:
    return f"{k} {'cluster' if k == 1 else 'clusters'}"


def _by_range(points: Array, weights: Array) -> Array:
    low, high = _ranges(points, weights)
    half = (high - low) / 2.0
    return np.asarray((points - (low + high) / 2.0) / np.where(half > 0, half, 1.0))


def _ranges(points: Array, weights: Array) -> tuple[Array, Array]:
    """The ends of the inner part of the weight, column by column."""
    low = [weighted_quantile(column, weights, _TAIL) for column in points.T]
    high = [weighted_quantile(column, weights, 1.0 - _TAIL) for column in points.T]
    return np.array(low), np.array(high)


def _cluster(points: Array, weights: Array, k: int, n_restarts: int, rng: np.random.Generator) -> Clustering:
    return weighted_kmeans(points, weights, k, n_restarts=n_restarts, rng=rng, max_iterations=60, tolerance=1e-4)


def _sampling_error(points: Array, weights: Array, found: list[Clustering], level: float) -> Array:
    """Half the width of the interval of a log loss, between samples of Poisson size with these expected weights.

    With the centres held, the loss is a sum over records; that they would move is of second order at an optimum.
    """
    errors = []
    for clustering in found:
        distances = np.min([((points - center) ** 2).sum(axis=1) for center in clustering.centers], axis=0)
        deviation = np.sqrt((weights * distances**2).sum())
        errors.append(deviation / max(clustering.inertia, 1e-300) if deviation > 0 else 0.0)
    return np.asarray(norm.ppf((1.0 + level) / 2.0) * np.array(errors))


def _release_error(
    transcript: Transcript,
    data: UnitData,
    found: list[Clustering],
    n_draws: int,
    level: float,
    rng: np.random.Generator,
) -> Array:
    """The same from transcripts simulated on the inferred data, which hold the noise and the bias of inference."""

    def log_losses(data: UnitData, stream: np.random.Generator) -> Array:
        losses = [weighted_inertia(data.points, data.weights, clustering.centers) for clustering in found]
        return np.log(np.maximum(losses, 1e-300))

    true = log_losses(data, rng)
    return error_at(np.stack(over_simulated(transcript, data, "maxent", log_losses, n_draws, rng)) - true, level)


def _gaps(points: Array, weights: Array, loss: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The gap of each number of clusters, and the standard error of its reference."""
    mean = np.average(points, axis=0, weights=weights)
    covariance = np.atleast_2d(np.cov(points.T, aweights=weights, ddof=0))
    axes = np.linalg.eigh(covariance)[1]
    low, high = _ranges((points - mean) @ axes, weights)
    ones = np.ones(_REFERENCE_POINTS)
    logs = []
    for _ in range(_REFERENCES):
        reference = rng.uniform(low, high, size=(_REFERENCE_POINTS, points.shape[1]))
        losses = [_cluster(reference, ones, k, _REFERENCE_RESTARTS, rng).inertia for k in range(1, len(loss) + 1)]
        logs.append(_log_shares(np.array(losses)))
    gap = np.mean(logs, axis=0) - _log_shares(loss)
    return gap, np.std(logs, axis=0) * np.sqrt(1.0 + 1.0 / _REFERENCES)


def _log_shares(loss: Array) -> Array:
    """The log of each loss as a part of the first: the total weight and the units cancel."""
    if loss[0] <= 0.0:
        return np.zeros(len(loss))
    return np.asarray(np.log(np.maximum(loss / loss[0], _SMALLEST)))


def _suggestion(gap: Array, error: Array) -> int:
    best = int(np.argmax(gap))
    return 1 + int(np.nonzero(gap >= gap[best] - error[best])[0][0])
