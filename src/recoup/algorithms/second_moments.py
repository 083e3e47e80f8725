"""What noisy rounds of moments say about the mean and the covariance: pooled means, and a closed-form least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.maxent.measure import total_of
from recoup.queries.base import Array, of_kind
from recoup.queries.moments import MomentsQuery, PowerQuery
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_LEAST_VARIANCE = 1e-4  # a released variance below this, of a column scaled to [-1, 1], is read as this
_REST_SHARE = 0.3  # what a direction that was never asked for is taken to have, as a part of the mean variance
_THINNEST = 0.05  # of a support: the least variance in any direction, likewise


class Spread(NamedTuple):
    """Where records lie and how they spread, in the unit domain."""

    mean: Array
    covariance: Array

    def components(self, n_components: int) -> Array:
        """The mean and the directions of largest variance, (1 + p, d)."""
        vectors = np.linalg.eigh(self.covariance).eigenvectors[:, ::-1]
        return np.concatenate([self.mean[None], signed(vectors[:, :n_components].T)])


class Explained(NamedTuple):
    """The variance along each component, and its share of that of all columns."""

    variance: Array
    ratio: Array


class Total(NamedTuple):
    """What all rounds together say about the number of records and their mean."""

    n_records: float
    mean: Array


def signed(components: Array) -> Array:
    """Rows with the sign that makes the largest entry of each positive, the first one where several are as large.

    >>> signed(np.array([[0.6, -0.8]]))
    array([[-0.6, 0.8]])
    """
    largest = np.abs(components).argmax(axis=1)
    signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
    return np.asarray(components * signs[:, None])


def spread_of(domain: Domain, points: Array, weights: Array) -> Spread:
    """The mean and the covariance of weighted points, exactly."""
    share = weights / weights.sum()
    mean = share @ points
    offsets = points - mean
    return Spread(domain.clip(mean), (offsets * share[:, None]).T @ offsets)


def explained_by(components: Array, spread: Spread, whole: float) -> Explained:
    """How much variance a spread has along components: never negative, although noise may say so.

    >>> explained_by(np.eye(2), Spread(np.zeros(2), np.diag([0.3, -0.1])), 0.6).ratio
    array([0.5, 0. ])
    """
    variance = np.maximum(np.einsum("ij,jk,ik->i", components, spread.covariance, components), 0.0)
    # Noise may put more variance into the components than into all columns together.
    whole = max(whole, float(variance.sum()))
    return Explained(variance, variance / whole if whole > 0 else np.zeros(len(variance)))


def pooled(context: Context, rounds: Sequence[Round]) -> Total:
    """Pool the counts and the sums of all rounds, each by its precision; the mean is kept inside the domain."""
    if not rounds:
        raise ParameterError("there is no answer before the first round.")
    count = total_of(context, rounds)
    sums, precision = np.zeros(context.domain.n_columns), 0.0
    for answered in rounds:
        where = answered.block("sum", context)
        weight = float(answered.scales[where][0]) ** -2
        sums += weight * answered.noisy[where]
        precision += weight
    return Total(count, context.domain.clip(sums / precision / count))


def noisy_spread(context: Context, rounds: Sequence[Round]) -> Spread:
    """The mean and the centred second moments of a round of `MomentsQuery`, as released: not necessarily positive."""
    n_records, mean = pooled(context, rounds)
    query = of_kind(rounds[-1].query, MomentsQuery, "only a round of all second moments has a covariance.")
    second = query.matrix(rounds[-1].noisy[rounds[-1].block("product", context)])
    return Spread(mean, second / n_records - np.outer(mean, mean))


def centred_products(context: Context, answered: Round, total: Total) -> Array:
    """The noisy product of the covariance with a round's directions, (d, p)."""
    directions = directions_of(answered)
    products = answered.noisy[answered.block("product", context)].reshape(directions.shape)
    return np.asarray(products / total.n_records - np.outer(total.mean, total.mean @ directions))


def directions_of(answered: Round) -> Array:
    """The directions, (d, p), that a round of a power iteration asked for."""
    return of_kind(answered.query, PowerQuery, "only a round of a power iteration has directions.").directions


class Trace(NamedTuple):
    """The variance of all columns together, and the scale of its noise."""

    variance: float
    scale: float


def total_variance(context: Context, rounds: Sequence[Round], total: Total) -> Trace:
    """The variance of all columns together, from the rounds' sums of squares; within what the domain allows."""
    squares = precision = 0.0
    for answered in rounds:
        where = answered.block("square", context)
        weight = float(answered.scales[where][0]) ** -2
        squares += weight * float(answered.noisy[where][0])
        precision += weight
    most = context.domain.sum_bound(2) ** 2
    least = min(_LEAST_VARIANCE * context.domain.n_columns, most)
    variance = float(np.clip(squares / precision / total.n_records - total.mean @ total.mean, least, most))
    return Trace(variance, precision**-0.5 / total.n_records)


def least_squares_spread(context: Context, rounds: Sequence[Round]) -> Spread:
    """The covariance C that best fits C V_t = Y_t over all rounds of a power iteration, by ridge least squares.

    Minimises sum_t |C V_t - Y_t|^2 / s_t^2 + (tr C - v)^2 / s^2 + |C - C_0|^2 / tau^2 over symmetric C, where v is the
    released variance of all columns, tau that of a column in the mean, and C_0 is 0.3 tau in every direction:
    directions that were never asked for have less than their share, since the iteration seeks the largest. With
    P = sum V V' / s_t^2 and Z = sum Y V' / s_t^2 the solution is that of the Sylvester equation
    C (P + 1 / tau^2) + (P + 1 / tau^2) C = Z + Z' + 2 C_0 / tau^2 + 2 theta I, which the eigenvectors of P diagonalise;
    theta = (v - tr C) / s^2 is then one linear equation.
    """
    total = pooled(context, rounds)
    d = len(total.mean)
    trace = total_variance(context, rounds, total)
    tau = trace.variance / d
    asked, answers = np.zeros((d, d)), np.zeros((d, d))
    for answered in rounds:
        directions = directions_of(answered)
        precision = (total.n_records / float(answered.scales[answered.block("product", context)][0])) ** 2
        asked += precision * directions @ directions.T
        answers += precision * centred_products(context, answered, total) @ directions.T
    ridge = tau**-2.0
    strength, vectors = np.linalg.eigh(asked)
    right = vectors.T @ (answers + answers.T + 2.0 * ridge * _REST_SHARE * tau * np.eye(d)) @ vectors
    inverse = 1.0 / (strength[:, None] + strength + 2.0 * ridge)
    raised = 2.0 * np.diagonal(inverse)  # what theta = 1 adds along the eigenvectors
    theta = (trace.variance - float(np.trace(right * inverse))) / (trace.scale**2 + float(raised.sum()))
    solved = vectors @ (right * inverse + theta * np.diag(raised)) @ vectors.T
    return Spread(total.mean, 0.5 * (solved + solved.T))


def points_around(context: Context, spread: Spread, n_points: int, rng: np.random.Generator) -> Array:
    """Gaussian points with a spread made positive, inside the domain; all harmless randomness.

    Directions that no round asked for keep the covariance of the points, so it is made exact instead of sampled.
    """
    values, vectors = np.linalg.eigh(spread.covariance)
    most = context.domain.sum_bound(2) ** 2
    mean_variance = max(float(np.clip(values, 0.0, most).mean()), min(_LEAST_VARIANCE, most))
    deviations = np.sqrt(np.clip(values, _THINNEST * mean_variance, most))
    drawn = rng.standard_normal((n_points, len(values)))
    if n_points > 2 * len(values):
        drawn -= drawn.mean(axis=0)
        drawn = np.linalg.solve(np.linalg.cholesky(drawn.T @ drawn / n_points), drawn.T).T
    return context.domain.clip(spread.mean + (drawn * deviations) @ vectors.T)
