"""How many clusters the data has, read off the inferred data: looking again costs no privacy.

The rule is the gap statistic (Tibshirani, Walther and Hastie): the log loss is compared with that of uniform points in
a box along the data's principal axes, which have no clusters; the number of clusters is the smallest whose gap is
within one standard error of the largest. Unlike rules on the curve's shape alone it can answer 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from recoup.algorithms.adaptive import weighted_quantile
from recoup.algorithms.lloyd import positive_whole
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.inference.intervals import UnitData, draws_for, error_at, one_transcript, over_simulated
from recoup.kernels.weighted_kmeans import Clustering, weighted_inertia, weighted_kmeans
from recoup.queries.base import Array
from recoup.transcript import Transcript

_TAIL = 0.005  # of the weight on either side that a range leaves out: inferred data has a little weight everywhere
_RESTARTS, _REFERENCE_RESTARTS = 8, 2
_REFERENCES, _REFERENCE_POINTS = 10, 2_000
_SMALLEST = 1e-12  # of the loss of one cluster: below this a loss is zero


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
        suggested: the number of clusters by the gap statistic.
    """

    n_clusters: NDArray[np.int64]
    loss: Array
    loss_low: Array
    loss_high: Array
    gap: Array
    gap_error: Array
    suggested: int


def suggest_clusters(
    inferred: InferredDataset,
    *,
    k_max: int = 12,
    transcript: Transcript | None = None,
    domain: Domain | None = None,
    level: float = 0.9,
    n_draws: int | None = None,
    random_state: Any = None,
) -> ClusterCurve:
    """The loss of the inferred data for 1 to k_max clusters, with intervals, and how many clusters it suggests.

    Args:
        inferred: a data set with more than k_max points.
        k_max: the largest number of clusters to look at.
        transcript: what the data was inferred from. With it the intervals hold the noise of the release, by simulated
            transcripts as in `intervals`; without it, only the spread of the loss between samples of as many records.
        domain: scales each column to [-1, 1] by its bounds; by default the transcript's. Without either, each column
            is divided by half the range of its inner 99 % of the weight.
        level: the wanted coverage of the intervals.
        n_draws: simulated transcripts.
        random_state: harmless randomness.

    Returns:
        The curve and the suggestion.

    Guarantees: reads nothing but its arguments, so it costs no privacy. The curve speaks of the inferred data, which is
    smoother than the records: where clusters are tight, the records' own loss is below it.

    >>> from recoup import InferredDataset
    >>> rng = np.random.default_rng(0)
    >>> points = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]], 200, axis=0) + rng.normal(size=(600, 2))
    >>> data = InferredDataset(points=points, weights=np.ones(600), method="maxent", simulated=True)
    >>> suggest_clusters(data, k_max=6, random_state=0).suggested
    3
    """
    k_max = positive_whole(k_max, "k_max")
    n_draws = draws_for(level, n_draws)
    if transcript is not None:
        one_transcript(transcript, "intervals of the curve")
    kept = inferred.weights > 0
    points, weights = inferred.points[kept], inferred.weights[kept]
    if len(points) <= k_max:
        raise ParameterError(
            f"the inferred data has {len(points)} points, too few for k_max={k_max}: lower it, or infer by "
            '"maxent", which gives data with a spread.'
        )
    if domain is None and transcript is not None:
        domain = transcript.context.domain
    rng = np.random.default_rng(random_state)
    points = _by_range(points, weights) if domain is None else domain.to_unit(points)
    found = [_cluster(points, weights, k, _RESTARTS, rng) for k in range(1, k_max + 1)]
    loss = np.array([clustering.inertia for clustering in found])
    if transcript is None:
        log_error = _sampling_error(points, weights, found, level)
    else:
        log_error = _release_error(transcript, inferred, found, domain, n_draws, level, rng)
    gap, gap_error = _gaps(points, weights, loss, rng)
    return ClusterCurve(
        n_clusters=np.arange(1, k_max + 1, dtype=np.int64),
        loss=loss,
        loss_low=loss * np.exp(-log_error),
        loss_high=loss * np.exp(log_error),
        gap=gap,
        gap_error=gap_error,
        suggested=_suggestion(gap, gap_error),
    )


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
    inferred: InferredDataset,
    found: list[Clustering],
    domain: Domain | None,
    n_draws: int,
    level: float,
    rng: np.random.Generator,
) -> Array:
    """The same from transcripts simulated on the inferred data, which hold the noise and the bias of inference."""
    released = transcript.context.domain

    def log_losses(data: UnitData, stream: np.random.Generator) -> Array:
        points = (
            data.points if domain is released or domain is None else domain.to_unit(released.from_unit(data.points))
        )
        losses = [weighted_inertia(points, data.weights, clustering.centers) for clustering in found]
        return np.log(np.maximum(losses, 1e-300))

    data = UnitData(released.to_unit(inferred.points), inferred.weights)
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
