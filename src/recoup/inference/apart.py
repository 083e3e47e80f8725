"""How many clusters a transcript can tell apart: a number is held against noise, by counts and by simulated releases.

Noise makes clusters of its own: inferred data falls into more of them than the records have. So each cluster must hold
more records than the noise of its counts would explain, and the clusters must be worth more than in worlds that are
known to have one less, or only one: there each cluster is a plain box, released with the same queries and noise and
inferred again. Where one cluster is found, a world of two must have shown, or their absence means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recoup.domain import Domain
from recoup.inference.intervals import UnitData, over_simulated
from recoup.kernels.weighted_kmeans import Clustering, weighted_kmeans
from recoup.maxent.clusters import Clusters, WeightedPoints, sizes_by_counts
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery
from recoup.transcript.transcript import Transcript

_DRAWS = 10
_DEVIATIONS = 4.0  # several steps are tested, with a deviation from few draws
_SHOWN = 0.9  # of the worlds with two clusters must show them
_TIGHTER = 0.5  # how much closer to its centre each record of such a world is
_BOX_POINTS = 4_000
_RESTARTS = 4


def told_apart(
    transcript: Transcript, data: UnitData, found: Sequence[Clustering], wanted: int, rng: np.random.Generator
) -> int:
    """The largest number of clusters, at most as many as wanted, that noise would not have made.

    Args:
        transcript: what was released.
        data: what was inferred from it, in the unit domain.
        found: its clusterings into 1, 2, ... clusters.
        wanted: where to start.
        rng: harmless randomness.

    Returns:
        A number of at least 1.
    """
    for k in range(wanted, 1, -1):
        sizes = sizes_by_counts(transcript.rounds, Clusters(found[k - 1].centers, WeightedPoints(*data)))
        if not (sizes.real | np.isinf(sizes.deviations)).all():
            continue
        # One box too: boxes that meet, as in a table without clusters, are no good likeness of what they came from.
        if all(
            _gain(found[n - 1], found[k - 1]) > _limit(transcript, data, found, n, k, rng) for n in sorted({k - 1, 1})
        ):
            return k
    return 1


def two_would_show(
    transcript: Transcript, data: UnitData, found: Sequence[Clustering], rng: np.random.Generator
) -> bool:
    """Whether two tight clusters in the place of the data would have shown, and do not.

    Args:
        transcript: what was released.
        data: what was inferred from it, in the unit domain.
        found: its clusterings into 1, 2, ... clusters, at least two.
        rng: harmless randomness.

    Returns:
        True if there is one cluster; false if that cannot be told, or if there are more.
    """
    limit = _limit(transcript, data, found, 1, 2, rng)
    if _gain(found[0], found[1]) > limit:
        return False
    shown = _gains(transcript, _clumps(data, found[1]), found, 1, 2, rng) > limit
    return bool(shown.mean() >= _SHOWN)


def _gain(fewer: Clustering, more: Clustering) -> float:
    """By how much the log of the loss falls."""
    tiny = 1e-300
    return float(np.log(max(fewer.inertia, tiny)) - np.log(max(more.inertia, tiny)))


def _gains(
    transcript: Transcript,
    world: UnitData,
    found: Sequence[Clustering],
    fewer: int,
    more: int,
    rng: np.random.Generator,
) -> Array:
    """The same in data that is inferred from releases of a world."""

    def work(data: UnitData, stream: np.random.Generator) -> float:
        # The known centres are a start too: a search that fails would look like a gain.
        ends = [
            weighted_kmeans(
                data.points,
                data.weights,
                n,
                n_restarts=_RESTARTS,
                rng=stream,
                starts=found[n - 1].centers[None],
                max_iterations=60,
                tolerance=1e-4,
            )
            for n in (fewer, more)
        ]
        return _gain(*ends)

    return np.array(over_simulated(transcript, world, "maxent", work, _DRAWS, rng))


def _limit(
    transcript: Transcript, data: UnitData, found: Sequence[Clustering], fewer: int, more: int, rng: np.random.Generator
) -> float:
    """The most that a world of fewer clusters would gain from more of them by chance."""
    gains = _gains(transcript, _boxes(transcript.context.domain, data, found[fewer - 1], rng), found, fewer, more, rng)
    spread = np.std(gains, ddof=1) * np.sqrt(1.0 + 1.0 / len(gains))
    return float(np.mean(gains) + _DEVIATIONS * spread)


def _boxes(domain: Domain, data: UnitData, clustering: Clustering, rng: np.random.Generator) -> UnitData:
    """Each cluster as uniform points in a box along its principal axes, with its size, mean and covariance."""
    k = len(clustering.centers)
    cells = VoronoiQuery(centers=clustering.centers, sums="none").cells(data.points)
    sizes = np.bincount(cells, data.weights, minlength=k)
    points, weights = [], []
    for cell in np.flatnonzero(sizes > 0):
        inside, mass = data.points[cells == cell], data.weights[cells == cell]
        n = max(2, round(_BOX_POINTS * sizes[cell] / sizes.sum()))
        mean = np.average(inside, axis=0, weights=mass)
        variances, axes = np.linalg.eigh(((inside - mean).T * mass) @ (inside - mean) / mass.sum())
        half = np.sqrt(3.0 * np.maximum(variances, 0.0))
        points.append(mean + rng.uniform(-half, half, size=(n, len(half))) @ axes.T)
        weights.append(np.full(n, sizes[cell] / n))
    return UnitData(domain.clip(np.concatenate(points)), np.concatenate(weights))


def _clumps(data: UnitData, clustering: Clustering) -> UnitData:
    """The data with each point closer to the centre of its cluster."""
    cells = VoronoiQuery(centers=clustering.centers, sums="none").cells(data.points)
    middles = clustering.centers[cells]
    return UnitData(middles + _TIGHTER * (data.points - middles), data.weights)
