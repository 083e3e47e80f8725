"""The non-private algorithm on inferred data."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from recoup._random import generator
from recoup._validate import whole_number
from recoup.algorithms.base import ImportedAlgorithm
from recoup.algorithms.kmeans.base import ClusteringAlgorithm
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.inferred import InferredDataset
from recoup.queries.base import Array
from recoup.transcript.context import Context
from recoup.transcript.transcript import Transcript

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
    context, rounds = transcript.context, transcript.rounds
    algorithm = algorithm_from_json(transcript.algorithm)
    if inferred is not None:
        _check_inferred(context, inferred)
    if isinstance(algorithm, ImportedAlgorithm):
        raise ParameterError(
            f"how to refit {algorithm.name!r:.80} is not known here: use the inferred data set itself, or import the "
            "answers with a clustering to refit by, such as algorithm=recoup.AdaptiveKMeans(n_clusters=3)."
        )
    if not algorithm.has_centers:
        if n_clusters is not None:
            raise ParameterError(f"n_clusters is for clusterings, and this is a transcript of {algorithm.type_name}.")
        if average_last != 1 or n_restarts is not None:
            raise ParameterError(
                f"average_last and n_restarts are for clusterings, and this is a transcript of {algorithm.type_name}."
            )
        rng = generator(random_state)
        if inferred is None:
            return algorithm.in_user_units(context, algorithm.estimate(context, rounds))
        points = context.domain.to_unit(inferred.points)
        answer = algorithm.refit(context, rounds, points, inferred.weights, rng)
        return algorithm.in_user_units(context, answer)
    clustering = cast(ClusteringAlgorithm, algorithm)
    wanted = clustering.n_clusters if n_clusters is None else whole_number(n_clusters, "n_clusters")
    average_last = whole_number(average_last, "average_last")
    if inferred is not None and average_last > 1:
        raise ParameterError("average_last is for the algorithm's own iterates: leave out the inferred data set.")
    if inferred is None:
        if wanted != clustering.n_clusters:
            raise ParameterError("another number of clusters needs an inferred data set: refit(transcript, inferred).")
        if average_last > 1 and not clustering.has_iterates:
            raise ParameterError("only the rounds of DP-KMEANS have iterates of the same clusters to average.")
        ends = range(len(rounds), max(len(rounds) - average_last, 0), -1)
        iterates = [clustering.estimate(context, rounds[:end]) for end in ends or (0,)]
        return clustering.in_user_units(context, context.domain.clip(np.mean(iterates, axis=0)))
    points = context.domain.to_unit(inferred.points)
    if len(points) == wanted:
        return clustering.in_user_units(context, points)
    answer = clustering.refit(
        context,
        rounds,
        points,
        inferred.weights,
        generator(random_state),
        n_clusters=wanted,
        n_restarts=None if n_restarts is None else whole_number(n_restarts, "n_restarts"),
        keep_all=inferred.method in _AS_PUBLISHED,
    )
    return clustering.in_user_units(context, answer)


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
