"""The non-private algorithm on inferred data."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup._random import generator
from recoup._validate import whole_number
from recoup.algorithms.base import Algorithm, Clustering, Refittable
from recoup.algorithms.imported import ImportedAlgorithm
from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.significance import without_noise
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.context import Context
from recoup.transcript.transcript import Transcript

_LLOYD_RESTARTS = 10  # beside the last iterate, which is a good start
_RESTARTS = 40
_CLEARLY_BETTER = 0.99
_AS_PUBLISHED = ("mcmc", "consistency")  # the paper clusters all of the data set that it inferred


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
        inferred: the data set to cluster; none for the algorithm's own answer, the last iterate. Mass of a
            maximum-entropy measure that cannot be told from noise is taken away before; of the paper's methods, "mcmc"
            and "consistency", all of it is clustered.
        n_clusters: another number of clusters than the transcript's, at no cost; needs inferred data.
        n_restarts: greedy k-means++ starts, for DP-KMEANS beside the last iterate; the best on the inferred data is
            kept.
        average_last: without inferred data, the mean of the iterates of the last so many rounds, a baseline that any
            inference should beat; 1 is the last iterate alone.
        random_state: harmless randomness; by default the seed by which the commands and the report read.

    Returns:
        (n_clusters, d) centres inside the bounds, in the order of their first column; for another algorithm, its answer
        in the user's units.

    Guarantees: reads nothing but its arguments; candidates are compared on the inferred data alone.

    >>> import numpy as np
    >>> from recoup import Box, KMeans, infer, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=3), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    >>> refit(transcript, infer(transcript, "mcmc", n_steps=1000)).shape
    (3, 2)
    """
    if not isinstance(transcript, Transcript):
        raise ParameterError(f"transcript is a {type(transcript).__name__}: give one recoup.Transcript.")
    context = transcript.context
    algorithm = algorithm_from_json(transcript.algorithm)
    if inferred is not None:
        _check_inferred(context, inferred)
    if isinstance(algorithm, ImportedAlgorithm):
        raise ParameterError(
            f"how to refit {algorithm.name!r:.80} is not known here: use the inferred data set itself, or import the "
            "answers with a clustering to refit by, such as algorithm=recoup.AdaptiveKMeans(n_clusters=3)."
        )
    if isinstance(algorithm, Refittable) or not isinstance(algorithm, Clustering):
        if n_clusters is not None:
            raise ParameterError(f"n_clusters is for clusterings, and this is a transcript of {algorithm.type_name}.")
        if average_last != 1 or n_restarts is not None:
            raise ParameterError(
                f"average_last and n_restarts are for clusterings, and this is a transcript of {algorithm.type_name}."
            )
        return _refit_any(transcript, algorithm, inferred, generator(random_state))
    wanted = algorithm.n_clusters if n_clusters is None else whole_number(n_clusters, "n_clusters")
    average_last = whole_number(average_last, "average_last")
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
        return in_order(context.domain.from_unit(context.domain.clip(np.mean(iterates, axis=0))))
    if len(inferred.points) == wanted:
        return in_order(context.domain.from_unit(context.domain.to_unit(inferred.points)))
    rng = generator(random_state)
    points = context.domain.to_unit(inferred.points)
    if n_restarts is None:
        n_restarts = _LLOYD_RESTARTS if isinstance(algorithm, KMeans) else _RESTARTS
    n_restarts = whole_number(n_restarts, "n_restarts")
    weights = inferred.weights
    if inferred.method not in _AS_PUBLISHED:
        weights = without_noise(context, transcript.rounds, points, weights, wanted, rng)
    found = weighted_kmeans(points, weights, wanted, n_restarts=n_restarts, rng=rng)
    if isinstance(algorithm, KMeans) and wanted == algorithm.n_clusters:
        last = algorithm.estimate(context, transcript.rounds)
        from_last = weighted_kmeans(points, weights, wanted, n_restarts=0, rng=rng, starts=last[None])
        found = min(found, from_last, key=lambda clustering: clustering.inertia)
    asked = as_cells(transcript.rounds[-1].query if transcript.rounds else None, "relative")
    if asked is not None and asked.n_cells == wanted:
        # The means of these cells were measured; those of other clusters are only inferred.
        measured = weighted_kmeans(points, weights, wanted, n_restarts=0, rng=rng, starts=asked.centers[None])
        if found.inertia > _CLEARLY_BETTER * measured.inertia:
            found = measured
    return in_order(context.domain.from_unit(context.domain.clip(found.centers)))


def in_order(centers: Array) -> Array:
    """Centres by their first column, then by the next: how a search found them must not number them.

    >>> in_order(np.array([[2.0, 0.0], [1.0, 5.0], [1.0, 3.0]])).tolist()
    [[1.0, 3.0], [1.0, 5.0], [2.0, 0.0]]
    """
    return np.asarray(centers[np.lexsort(centers.T[::-1])])


def _check_inferred(context: Context, inferred: InferredDataset) -> None:
    """Refuse data of another table, or that is none: it would be clustered without a word."""
    if not isinstance(inferred, InferredDataset):
        raise ParameterError(f"inferred is a {type(inferred).__name__}: give what recoup.infer returns, or none.")
    domain = context.domain
    points, weights = np.asarray(inferred.points), np.asarray(inferred.weights)
    if points.ndim != 2 or points.shape[1] != domain.n_columns or len(points) == 0 or weights.shape != points.shape[:1]:
        raise ParameterError(
            f"the inferred data set has the shape {points.shape}, but the transcript has {domain.n_columns} columns: "
            "is it of another table?"
        )
    if inferred.columns != domain.columns:
        raise ParameterError("the inferred data set has other columns than the transcript: is it of another table?")
    if not (np.isfinite(points).all() and np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ParameterError("the inferred data set holds values that are not finite, or no positive weight.")
    # Points on the bounds may be off by rounding.
    room = 1e-6 * (np.array(domain.high) - np.array(domain.low))
    if (points < np.array(domain.low) - room).any() or (points > np.array(domain.high) + room).any():
        raise ParameterError("the inferred data set lies outside of the transcript's bounds: is it of another table?")


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
