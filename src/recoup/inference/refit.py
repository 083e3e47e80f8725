"""The non-private algorithm on inferred data."""

from __future__ import annotations

from typing import Any

from recoup.algorithms.lloyd import KMeans, positive_whole
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset, seeded
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.queries.base import Array
from recoup.transcript import Transcript

_LLOYD_RESTARTS = 10  # beside the last iterate, which is a good start
_RESTARTS = 40


def refit(
    transcript: Transcript,
    inferred: InferredDataset | None = None,
    *,
    n_clusters: int | None = None,
    n_restarts: int | None = None,
    random_state: Any = None,
) -> Array:
    """The centres of a transcript in the user's units.

    Args:
        transcript: what was released.
        inferred: the data set to cluster; none for the algorithm's own answer, the last iterate.
        n_clusters: another number of clusters than the transcript's, at no cost; needs inferred data.
        n_restarts: greedy k-means++ starts, for DP-KMEANS beside the last iterate; the best on the inferred data is
            kept.
        random_state: harmless randomness.

    Returns:
        (n_clusters, d) centres inside the bounds.

    Guarantees: reads nothing but its arguments; candidates are compared on the inferred data alone.

    >>> import numpy as np
    >>> from recoup import Box, KMeans, infer, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=3), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> refit(transcript, infer(transcript, "mcmc", n_steps=1000)).shape
    (3, 2)
    """
    context = transcript.context
    algorithm = algorithm_from_json(transcript.algorithm)
    wanted = algorithm.n_clusters if n_clusters is None else positive_whole(n_clusters, "n_clusters")
    if inferred is None:
        if wanted != algorithm.n_clusters:
            raise ParameterError("another number of clusters needs an inferred data set: refit(transcript, inferred).")
        return context.domain.from_unit(algorithm.estimate(context, transcript.rounds))
    if len(inferred.points) == wanted:
        return context.domain.from_unit(context.domain.to_unit(inferred.points))
    if not isinstance(inferred, InferredDataset):
        raise ParameterError(f"inferred is a {type(inferred).__name__}: give what recoup.infer returns, or none.")
    rng = seeded(random_state)
    points = context.domain.to_unit(inferred.points)
    if n_restarts is None:
        n_restarts = _LLOYD_RESTARTS if isinstance(algorithm, KMeans) else _RESTARTS
    n_restarts = positive_whole(n_restarts, "n_restarts")
    found = weighted_kmeans(points, inferred.weights, wanted, n_restarts=n_restarts, rng=rng)
    if isinstance(algorithm, KMeans) and wanted == algorithm.n_clusters:
        last = algorithm.estimate(context, transcript.rounds)
        from_last = weighted_kmeans(points, inferred.weights, wanted, n_restarts=0, rng=rng, starts=last[None])
        found = min(found, from_last, key=lambda clustering: clustering.inertia)
    return context.domain.from_unit(context.domain.clip(found.centers))
