"""The non-private algorithm on inferred data."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.algorithms.base import Algorithm, Clustering, Refittable
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
    average_last: int = 1,
    random_state: Any = None,
) -> Array:
    """The algorithm's answer without noise, on inferred data: for k-means, centres in the user's units.

    Args:
        transcript: what was released.
        inferred: the data set to cluster; none for the algorithm's own answer, the last iterate.
        n_clusters: another number of clusters than the transcript's, at no cost; needs inferred data.
        n_restarts: greedy k-means++ starts, for DP-KMEANS beside the last iterate; the best on the inferred data is
            kept.
        average_last: without inferred data, the mean of the iterates of the last so many rounds, a baseline that any
            inference should beat; 1 is the last iterate alone.
        random_state: harmless randomness.

    Returns:
        (n_clusters, d) centres inside the bounds; for another algorithm, its answer in the user's units.

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
    if not isinstance(algorithm, Clustering):
        if n_clusters is not None:
            raise ParameterError(f"n_clusters is for clusterings, and this is a transcript of {algorithm.type_name}.")
        return _refit_any(transcript, algorithm, inferred, seeded(random_state))
    wanted = algorithm.n_clusters if n_clusters is None else positive_whole(n_clusters, "n_clusters")
    average_last = positive_whole(average_last, "average_last")
    if inferred is not None and average_last > 1:
        raise ParameterError("average_last is for the algorithm's own iterates: leave out the inferred data set.")
    if inferred is None:
        if wanted != algorithm.n_clusters:
            raise ParameterError("another number of clusters needs an inferred data set: refit(transcript, inferred).")
        if average_last > 1 and not isinstance(algorithm, KMeans):
            raise ParameterError("only the rounds of DP-KMEANS have iterates of the same clusters to average.")
        rounds = transcript.rounds
        ends = range(len(rounds), max(len(rounds) - average_last, 0), -1)
        iterates = [algorithm.estimate(context, rounds[:end]) for end in ends] or [algorithm.estimate(context, rounds)]
        return context.domain.from_unit(context.domain.clip(np.mean(iterates, axis=0)))
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


def _refit_any(
    transcript: Transcript, algorithm: Algorithm, inferred: InferredDataset | None, rng: np.random.Generator
) -> Array:
    context, rounds = transcript.context, transcript.rounds
    if inferred is None:
        answer = algorithm.estimate(context, rounds)
        return algorithm.in_user_units(context, answer) if isinstance(algorithm, Refittable) else answer
    if not isinstance(algorithm, Refittable):
        raise ParameterError(f"{algorithm.type_name} has no refit: use the inferred data set itself.")
    points = context.domain.to_unit(inferred.points)
    answer = algorithm.refit(context, rounds, points, inferred.weights, rng)
    return algorithm.in_user_units(context, answer)
