"""Principal components: all second moments at once, or a noisy power iteration.

An answer is (1 + p, d): the mean, then p orthonormal components, largest variance first, in the unit domain. The sign
of a component is fixed by its largest entry, which is positive. Components are directions in columns scaled by their
bounds to [-1, 1], where no column outweighs another because of its unit; only the mean has the user's units.

What spoils components is the spectral norm of the noise of the covariance. It follows from public numbers alone, so
`plan_components` chooses between the two ways before anything is asked.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.base import Algorithm, Rng, Rounds, column_names, last_of, whole_fields
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.maxent.measure import total_of
from recoup.maxent.sizes import WeightedPoints
from recoup.queries.base import MAX_SIZE, Array, of_kind
from recoup.queries.moments import MomentsQuery, PowerQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round, quote

# The mean enters the covariance through its square, so its sums need less than the products; counts matter least.
_SPLIT_ALL = {"count": Fraction(1, 20), "sum": Fraction(3, 20), "product": Fraction(16, 20)}
_SPLIT_POWER = _SPLIT_ALL | {"square": Fraction(1, 20), "product": Fraction(15, 20)}
_REFIT_STEPS = 5  # few: at convergence directions that no round asked for might take the place of those that were
_WEAKEST = 0.5  # of the whole variance: from here on noise alone makes a direction that beats every true one
ONE_SHOT_COLUMNS = 64  # measured: up to here the covariance in one round beats or ties every iterative plan
_LEAST_VARIANCE = 1e-4  # a released variance below this, of a column scaled to [-1, 1], is read as this
_REST_SHARE = 0.3  # what a direction that was never asked for is taken to have, as a part of the mean variance
_THINNEST = 0.05  # of a support: the least variance in any direction, likewise


class Spread(NamedTuple):
    """Where records lie and how they spread, in the unit domain."""

    mean: Array
    covariance: Array
    whole: float = 0.0  # the variance of all columns together
    noise: float = 0.0  # of the covariance, its spectral norm: the variance of the direction that noise alone makes

    def components(self, n_components: int) -> Array:
        """The mean and the directions of largest variance, (1 + p, d)."""
        vectors = np.linalg.eigh(self.covariance).eigenvectors[:, ::-1]
        return np.concatenate([self.mean[None], signed(vectors[:, :n_components].T)])

    def explained(self, components: Array) -> tuple[Array, Array]:
        """The variance along components, never negative, although noise may say so; and its share of all columns'."""
        variance = np.maximum(np.einsum("ij,jk,ik->i", components, self.covariance, components), 0.0)
        # Noise may put more variance into the components than into all columns together.
        whole = max(self.whole, float(variance.sum()))
        return variance, variance / whole if whole > 0 else np.zeros(len(variance))


class _Components(Algorithm):
    """What both ways to components share: support, words and units."""

    __slots__ = ()

    n_components: int
    pseudo_records: ClassVar[float] = 30.0

    def __post_init__(self) -> None:
        whole_fields(self)

    @abstractmethod
    def spread(self, context: Context, rounds: Rounds) -> Spread:
        """What the rounds tell of the mean, the covariance and the whole variance; and their noise."""

    def declines(self, context: Context, rounds: Rounds) -> str | None:
        """Why inference should not be trusted with these rounds: noise makes a large part of the released variance."""
        spread = self.spread(context, rounds)
        noise, variance = spread.noise, max(spread.whole, 0.0)
        if noise < _WEAKEST * variance:
            return None
        return (
            f"noise alone makes a direction of variance {noise:.3g}, and all columns together have {variance:.3g}: no "
            "component can be told from noise. Use a larger epsilon, more records, or fewer columns."
        )

    def support(self, context: Context, rounds: Rounds, n_points: int, rng: Rng) -> Array:
        """Gaussian points with the released spread made positive; little in directions that no round asked for."""
        spread, most = self.spread(context, rounds), context.domain.sum_bound(2) ** 2
        values, vectors = np.linalg.eigh(spread.covariance)
        mean_variance = max(float(np.clip(values, 0.0, most).mean()), min(_LEAST_VARIANCE, most))
        deviations = np.sqrt(np.clip(values, _THINNEST * mean_variance, most))
        drawn = rng.standard_normal((n_points, len(values)))
        if n_points > 2 * len(values):  # those directions keep the covariance of the points: make it exact
            drawn -= drawn.mean(axis=0)
            drawn = np.linalg.solve(np.linalg.cholesky(drawn.T @ drawn / n_points), drawn.T).T
        return context.domain.clip(spread.mean + (drawn * deviations) @ vectors.T)

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """The mean in the user's units; components stay in columns scaled to [-1, 1]."""
        return np.concatenate([context.domain.from_unit(answer[:1]), answer[1:]])

    def explained(
        self, context: Context, rounds: Rounds, components: Array, data: WeightedPoints | None
    ) -> tuple[Array, Array]:
        """The variance along components and its share, of the inferred data if there is some, else as released."""
        spread = self.spread(context, rounds) if data is None else spread_of(context.domain, *data)
        return spread.explained(components)

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]] | None:
        """The mean, then the components, by columns."""
        return ["mean", *(f"component {i}" for i in range(1, self.n_components + 1))], column_names(context.domain)

    def answer_note(self, context: Context, rounds: Rounds, answer: Array, data: WeightedPoints | None) -> str:
        """In which units the rows are, and how much variance the components explain."""
        along = zip(*self.explained(context, rounds, answer[1:], data), strict=True)
        parts = (f"component {i} {variance:.3g} ({100 * ratio:.0f}%)" for i, (variance, ratio) in enumerate(along, 1))
        return (
            "The mean is in the columns' own units; components are directions in columns scaled to [-1, 1] by their "
            f"bounds. Variance along them there, with its share of that of all columns: {', '.join(parts)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CovariancePCA(_Components):
    """One round: a noisy count, mean and covariance; the answer is its leading eigenvectors.

    Args:
        n_components: p, at most the number of columns.

    Guarantees: the whole budget is asked for in one round, of d (d + 3) / 2 + 1 values.

    >>> CovariancePCA(n_components=2).type_name
    'pca-covariance'
    """

    n_components: int

    type_name: ClassVar[str] = "pca-covariance"

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """Ask for all moments; none after that."""
        check_width(self.n_components, context.domain)
        if rounds:
            return None
        return Request(query=MomentsQuery(dimension=context.domain.n_columns), share=Fraction(1), split=_SPLIT_ALL)

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The mean and the leading eigenvectors of the noisy covariance."""
        check_width(self.n_components, context.domain)
        return self.spread(context, rounds).components(self.n_components)

    def spread(self, context: Context, rounds: Rounds) -> Spread:
        """The mean and the centred second moments as released: not necessarily positive."""
        (n_records, mean), last = pooled(context, rounds), rounds[-1]
        query = of_kind(last.query, MomentsQuery, "only a round of all second moments has a covariance.")
        products = last.block("product", context)
        covariance = query.matrix(last.noisy[products]) / n_records - np.outer(mean, mean)
        # The norm of a symmetric matrix of independent entries.
        deviation = last.noise.deviation(float(np.sqrt(np.mean(last.scales[products] ** 2)))) / n_records
        noise = 2.0 * sqrt(context.domain.n_columns) * deviation
        return Spread(mean, covariance, float(np.trace(covariance)), noise)

    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """The components of weighted points, exactly."""
        return spread_of(context.domain, points, weights).components(self.n_components)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPCA(_Components):
    """Noisy subspace iteration: round t asks for the covariance times the p directions found so far.

    Args:
        n_components: p, at most the number of columns.
        n_rounds: T, equal shares of the budget. The first directions are random.

    Guarantees: over T rounds the whole budget is asked for, of d (1 + p) + 2 values each.

    >>> PowerPCA(n_components=2).n_rounds
    6
    """

    n_components: int
    n_rounds: int = 6

    type_name: ClassVar[str] = "pca-power"

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """Ask along the current directions; none after the last round."""
        check_width(self.n_components, context.domain)
        if len(rounds) >= self.n_rounds:
            return None
        if rounds:
            directions = self.estimate(context, rounds)[1:].T
        else:
            directions = np.linalg.qr(rng.standard_normal((context.domain.n_columns, self.n_components)))[0]
        # Rounding may leave a unit vector's entry above 1 by one bit.
        query = PowerQuery(directions=np.clip(directions, -1.0, 1.0))
        return Request(query=query, share=Fraction(1, self.n_rounds), split=_SPLIT_POWER)

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The last iterate: the pooled mean, and the range of the last round's noisy products."""
        n_records, mean = pooled(context, rounds)
        products = _centred_products(context, rounds[-1], n_records, mean)
        return np.concatenate([mean[None], signed(np.linalg.svd(products, full_matrices=False)[0].T)])

    def spread(self, context: Context, rounds: Rounds) -> Spread:
        """The pooled mean, and the covariance C that best fits C V_t = Y_t over all rounds, by ridge least squares.

        With P = sum V V' / s_t^2 and Z = sum Y V' / s_t^2, the sum of squares of `docs/components.md` is least at
        C (P + 1 / tau^2) + (P + 1 / tau^2) C = Z + Z' + 2 C_0 / tau^2 + 2 theta I, a Sylvester equation that the
        eigenvectors of P diagonalise; theta = (v - tr C) / s^2 is then one linear equation.
        """
        (n_records, mean), d = pooled(context, rounds), context.domain.n_columns
        whole, whole_scale = total_variance(context, rounds, n_records, mean)
        tau = whole / d
        asked, answers, information = np.zeros((d, d)), np.zeros((d, d)), 0.0
        for answered in rounds:
            directions = _directions_of(answered)
            scale = float(answered.scales[answered.block("product", context)][0])
            precision = (n_records / scale) ** 2
            asked += precision * directions @ directions.T
            answers += precision * _centred_products(context, answered, n_records, mean) @ directions.T
            information += (n_records / answered.noise.deviation(scale)) ** 2
        ridge = tau**-2.0
        strength, vectors = np.linalg.eigh(asked)
        right = vectors.T @ (answers + answers.T + 2.0 * ridge * _REST_SHARE * tau * np.eye(d)) @ vectors
        inverse = 1.0 / (strength[:, None] + strength + 2.0 * ridge)
        raised = 2.0 * np.diagonal(inverse)  # what theta = 1 adds along the eigenvectors
        theta = (whole - float(np.trace(right * inverse))) / (whole_scale**2 + float(raised.sum()))
        solved = vectors @ (right * inverse + theta * np.diag(raised)) @ vectors.T
        noise = (sqrt(d) + sqrt(self.n_components)) / sqrt(information)  # of the products of all rounds together
        return Spread(mean, 0.5 * (solved + solved.T), whole, noise)

    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """A few steps of the iteration without noise on weighted points, from the directions of the last round."""
        spread = spread_of(context.domain, points, weights)
        directions = _directions_of(rounds[-1])
        for _ in range(_REFIT_STEPS):
            directions = np.linalg.svd(spread.covariance @ directions, full_matrices=False)[0]
        turned = np.linalg.eigh(directions.T @ spread.covariance @ directions).eigenvectors[:, ::-1]
        return np.concatenate([spread.mean[None], signed((directions @ turned).T)])


def check_width(n_components: int, domain: Domain) -> None:
    """Refuse more components than columns."""
    if n_components > domain.n_columns:
        advice = f"n_components={n_components} of {domain.n_columns} columns: ask for at most as many."
        raise ParameterError(advice, parameter="n_components")


def signed(components: Array) -> Array:
    """Rows with the sign that makes the largest entry of each positive, the first one where several are as large."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.where(components[np.arange(len(components)), largest] < 0, -1.0, 1.0)
    return np.asarray(components * signs[:, None])


def spread_of(domain: Domain, points: Array, weights: Array) -> Spread:
    """The mean and the covariance of weighted points, exactly."""
    share = weights / weights.sum()
    mean = share @ points
    offsets = points - mean
    covariance = (offsets * share[:, None]).T @ offsets
    return Spread(domain.clip(mean), covariance, float(np.trace(covariance)))


def pooled(context: Context, rounds: Rounds) -> tuple[float, Array]:
    """The number of records and their mean, from the counts and sums of all rounds; the mean is inside the domain."""
    last_of(rounds)
    count = total_of(context, rounds)
    return count, context.domain.clip(_pooled_block(context, rounds, "sum")[0] / count)


def total_variance(context: Context, rounds: Rounds, n_records: float, mean: Array) -> tuple[float, float]:
    """The variance of all columns by the rounds' sums of squares, within what the domain allows; its noise's scale."""
    squares, precision = _pooled_block(context, rounds, "square")
    most = context.domain.sum_bound(2) ** 2
    least = min(_LEAST_VARIANCE * context.domain.n_columns, most)
    variance = float(np.clip(float(squares[0]) / n_records - mean @ mean, least, most))
    return variance, precision**-0.5 / n_records


def _pooled_block(context: Context, rounds: Rounds, name: str) -> tuple[Array, float]:
    """The mean answer of a block over all rounds, each by its precision, and the precision of that mean."""
    answers, precision = np.zeros(1), 0.0
    for answered in rounds:
        where = answered.block(name, context)
        weight = float(answered.scales[where][0]) ** -2
        answers = answers + weight * answered.noisy[where]
        precision += weight
    return answers / precision, precision


def _centred_products(context: Context, answered: Round, n_records: float, mean: Array) -> Array:
    """The noisy product of the covariance with a round's directions, (d, p)."""
    directions = _directions_of(answered)
    products = answered.noisy[answered.block("product", context)].reshape(directions.shape)
    return np.asarray(products / n_records - np.outer(mean, mean @ directions))


def _directions_of(answered: Round) -> Array:
    return of_kind(answered.query, PowerQuery, "only a round of a power iteration has directions.").directions


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """The chosen way to find principal components, and why."""

    algorithm: Literal["covariance", "power"]
    n_rounds: int  # of the power iteration, else 1
    # the expected spectral norm of the noise in the sum of x x', asked for at once; none where that would be too long
    covariance_noise: float | None
    power_noise: float  # likewise, in one round of the power iteration
    reason: str  # one sentence for people


def plan_components(context: Context, *, n_components: int, n_rounds: int = 6) -> ComponentPlan:
    """Choose between the noisy covariance and the power iteration, without data.

    Args:
        context: the terms of the release; its bounds matter only through their shape and number of columns.
        n_components: p.
        n_rounds: T, if it is the power iteration.

    Returns:
        The plan. Up to 64 columns it is the covariance; above that, the one with less noise.

    Guarantees: the noise is that of the release on these terms, in expectation.

    >>> from recoup.domain import Box
    >>> plan = plan_components(Context(domain=Box([0] * 10, [1] * 10), epsilon=1), n_components=3)
    >>> plan.algorithm, plan.n_rounds
    ('covariance', 1)
    """
    d, p = context.domain.n_columns, whole_number(n_components, "n_components")
    power = PowerPCA(n_components=p, n_rounds=n_rounds)
    power_noise, covariance_noise = (sqrt(d) + sqrt(p)) * _deviation(context, power), None
    if 1 + d + d * (d + 1) // 2 <= MAX_SIZE:
        covariance_noise = 2.0 * sqrt(d) * _deviation(context, CovariancePCA(n_components=p))
    one_shot = covariance_noise is not None and (d <= ONE_SHOT_COLUMNS or covariance_noise <= power_noise)
    if covariance_noise is None:
        reason = f"All second moments of {d} columns are too many values for one answer: a power iteration asks for few"
    elif d <= ONE_SHOT_COLUMNS:
        asked = f"All second moments in one round: up to {ONE_SHOT_COLUMNS} columns that"
        reason = f"{asked} beats or ties a power iteration, which pays for every round anew"
    else:
        first = "All second moments in one round" if one_shot else "A power iteration"
        asked = f"{first}: the noise of one round of all second moments is {covariance_noise:.3g} in the spectral norm"
        reason = f"{asked}, that of each of {power.n_rounds} rounds of a power iteration {power_noise:.3g}"
    return ComponentPlan(
        algorithm="covariance" if one_shot else "power",
        n_rounds=1 if one_shot else power.n_rounds,
        covariance_noise=covariance_noise,
        power_noise=power_noise,
        reason=f"{reason}.",
    )


def _deviation(context: Context, algorithm: _Components) -> float:
    """The root mean square deviation of the noise of one product."""
    # The directions are random before the first round, and typical: their bound is the one of every later round.
    request = algorithm.next_request(context, (), np.random.default_rng(0))
    assert request is not None
    terms = quote(context, request)
    products = terms.scales[-terms.sensitivity.blocks[-1].size :]
    return context.noise.deviation(float(np.sqrt(np.mean(products**2))))
