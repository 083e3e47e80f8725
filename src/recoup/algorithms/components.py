"""Principal components: all second moments at once, or a noisy power iteration.

An answer is (1 + p, d): the mean, then p orthonormal components, largest variance first, in the unit domain. The sign
of a component is fixed by its largest entry, which is positive. Components are directions in columns scaled by their
bounds to [-1, 1], where no column outweighs another because of its unit; only the mean has the user's units.

What spoils components is the spectral norm of the noise matrix that is added to the covariance. For both ways it
follows from public numbers alone, so `plan_components` chooses between them before anything is asked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.base import Algorithm, column_names
from recoup.algorithms.second_moments import (
    Explained,
    Spread,
    centred_products,
    directions_of,
    explained_by,
    least_squares_spread,
    noisy_spread,
    points_around,
    pooled,
    signed,
    spread_of,
    total_variance,
)
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.maxent.sizes import WeightedPoints
from recoup.queries.base import MAX_SIZE, Array
from recoup.queries.moments import MomentsQuery, PowerQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round, quote

# The mean enters the covariance through its square, so its sums need less than the products; counts matter least.
_SPLIT_ALL = {"count": Fraction(1, 20), "sum": Fraction(3, 20), "product": Fraction(16, 20)}
_SPLIT_POWER = {
    "count": Fraction(1, 20),
    "sum": Fraction(3, 20),
    "square": Fraction(1, 20),
    "product": Fraction(15, 20),
}
_PSEUDO_RECORDS = 30.0
# Few steps keep to what was asked for: at convergence, where variances are alike, directions that no round asked for,
# and of which little more than their total variance is known, would take the place of those that were.
_REFIT_STEPS = 5
_WEAKEST = 0.5  # of the whole variance: from here on noise alone makes a direction that beats every true one
# Measured: up to here the covariance in one round beats or ties every iterative plan, whatever the noise.
ONE_SHOT_COLUMNS = 64


class _Components(Algorithm):
    """What both ways to components share: support, words and units."""

    __slots__ = ()

    n_components: int

    @abstractmethod
    def spread(self, context: Context, rounds: Sequence[Round]) -> Spread:
        """The mean and the covariance that the rounds tell of."""

    @abstractmethod
    def whole_variance(self, context: Context, rounds: Sequence[Round]) -> float:
        """The variance of all columns together, as released."""

    @property
    def pseudo_records(self) -> float:
        """How many records' worth of trust the base of the inferred measure has."""
        return _PSEUDO_RECORDS

    def support(self, context: Context, rounds: Sequence[Round], n_points: int, rng: np.random.Generator) -> Array:
        """Gaussian points with the released spread; little of it in directions that no round asked for."""
        return points_around(context, self.spread(context, rounds), n_points, rng)

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """The mean in the user's units; components stay in columns scaled to [-1, 1]."""
        return np.concatenate([context.domain.from_unit(answer[:1]), answer[1:]])

    def explained(
        self, context: Context, rounds: Sequence[Round], components: Array, data: WeightedPoints | None
    ) -> Explained:
        """The variance along components, of the inferred data if there is some, else as released."""
        if data is None:
            return explained_by(components, self.spread(context, rounds), self.whole_variance(context, rounds))
        spread = spread_of(context.domain, *data)
        return explained_by(components, spread, float(np.trace(spread.covariance)))

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]] | None:
        """The mean, then the components, by columns."""
        return ["mean", *(f"component {i}" for i in range(1, self.n_components + 1))], column_names(context.domain)

    def answer_note(self, context: Context, rounds: Sequence[Round], answer: Array, data: WeightedPoints | None) -> str:
        """In which units the rows are, and how much variance the components explain."""
        parts = ", ".join(
            f"component {i} {variance:.3g} ({100 * ratio:.0f} %)"
            for i, (variance, ratio) in enumerate(
                zip(*self.explained(context, rounds, answer[1:], data), strict=True), start=1
            )
        )
        return (
            "The mean is in the columns' own units; components are directions in columns scaled to [-1, 1] by their "
            f"bounds. Variance along them there, with its share of that of all columns: {parts}."
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_components", whole_number(self.n_components, "n_components"))

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """Ask for all moments; none after that."""
        check_width(self.n_components, context.domain)
        if rounds:
            return None
        return Request(query=MomentsQuery(dimension=context.domain.n_columns), share=Fraction(1), split=_SPLIT_ALL)

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The mean and the leading eigenvectors of the noisy covariance."""
        check_width(self.n_components, context.domain)
        return self.spread(context, rounds).components(self.n_components)

    def spread(self, context: Context, rounds: Sequence[Round]) -> Spread:
        """The mean and the covariance as released."""
        return noisy_spread(context, rounds)

    def declines(self, context: Context, rounds: Sequence[Round]) -> str | None:
        """Why inference should not be trusted with these rounds, or none."""
        spread = self.spread(context, rounds)
        scales = rounds[-1].scales[rounds[-1].block("product", context)]
        deviation = rounds[-1].noise.deviation(float(np.sqrt(np.mean(scales**2)))) / pooled(context, rounds).n_records
        return _too_weak(2.0 * sqrt(len(spread.mean)) * deviation, max(float(np.trace(spread.covariance)), 0.0))

    def refit(
        self, context: Context, rounds: Sequence[Round], points: Array, weights: Array, rng: np.random.Generator
    ) -> Array:
        """The components of weighted points, exactly."""
        return spread_of(context.domain, points, weights).components(self.n_components)

    def whole_variance(self, context: Context, rounds: Sequence[Round]) -> float:
        """The trace of the covariance as released."""
        return float(np.trace(self.spread(context, rounds).covariance))


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

    def __post_init__(self) -> None:
        for name in ("n_components", "n_rounds"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name))

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
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

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The last iterate: the pooled mean, and the range of the last round's noisy products."""
        total = pooled(context, rounds)
        products = centred_products(context, rounds[-1], total)
        components = np.linalg.svd(products, full_matrices=False)[0].T
        return np.concatenate([total.mean[None], signed(components)])

    def spread(self, context: Context, rounds: Sequence[Round]) -> Spread:
        """The pooled mean, and the covariance by least squares over all rounds."""
        return least_squares_spread(context, rounds)

    def declines(self, context: Context, rounds: Sequence[Round]) -> str | None:
        """Why inference should not be trusted with these rounds, or none."""
        total = pooled(context, rounds)
        information = 0.0
        for answered in rounds:
            scale = float(answered.scales[answered.block("product", context)][0])
            information += (total.n_records / answered.noise.deviation(scale)) ** 2
        size = sqrt(len(total.mean)) + sqrt(self.n_components)
        return _too_weak(size / sqrt(information), total_variance(context, rounds, total).variance)

    def refit(
        self, context: Context, rounds: Sequence[Round], points: Array, weights: Array, rng: np.random.Generator
    ) -> Array:
        """A few steps of the iteration without noise on weighted points, from the directions of the last round."""
        spread = spread_of(context.domain, points, weights)
        directions = directions_of(rounds[-1])
        for _ in range(_REFIT_STEPS):
            directions = np.linalg.svd(spread.covariance @ directions, full_matrices=False)[0]
        turned = np.linalg.eigh(directions.T @ spread.covariance @ directions).eigenvectors[:, ::-1]
        return np.concatenate([spread.mean[None], signed((directions @ turned).T)])

    def whole_variance(self, context: Context, rounds: Sequence[Round]) -> float:
        """From the sums of squares of all rounds."""
        return total_variance(context, rounds, pooled(context, rounds)).variance


def check_width(n_components: int, domain: Domain) -> None:
    """Refuse more components than columns."""
    if n_components > domain.n_columns:
        raise ParameterError(
            f"n_components={n_components} of {domain.n_columns} columns: ask for at most as many.",
            parameter="n_components",
        )


def _too_weak(noise: float, variance: float) -> str | None:
    """A sentence if noise alone makes a direction of a large part of the released variance."""
    if noise < _WEAKEST * variance:
        return None
    return (
        f"noise alone makes a direction of variance {noise:.3g}, and all columns together have {variance:.3g}: no "
        "component can be told from noise. Use a larger epsilon, more records, or fewer columns."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """A way to principal components, and why.

    Attributes:
        algorithm: "covariance" or "power".
        n_rounds: 1, or the rounds of the power iteration.
        covariance_noise: the expected spectral norm of the noise in the sum of x x', asked for at once; none where that
            answer would be too long to ask for.
        power_noise: likewise of the noise in one round of the power iteration.
        reason: one sentence for people.
    """

    algorithm: Literal["covariance", "power"]
    n_rounds: int
    covariance_noise: float | None
    power_noise: float
    reason: str


def plan_components(context: Context, *, n_components: int, n_rounds: int = 6) -> ComponentPlan:
    """Choose between the noisy covariance and the power iteration, without data.

    Args:
        context: the terms of the release; its bounds matter only through their shape and number of columns.
        n_components: p.
        n_rounds: T, if it is the power iteration.

    Returns:
        The plan. Up to 64 columns it is the covariance; above, the one with the smaller noise.

    Guarantees: the noise is that of the release on these terms, in expectation.

    >>> from recoup.domain import Box
    >>> plan = plan_components(Context(domain=Box([0] * 10, [1] * 10), epsilon=1), n_components=3)
    >>> plan.algorithm, plan.n_rounds
    ('covariance', 1)
    """
    d, p = context.domain.n_columns, whole_number(n_components, "n_components")
    check_width(p, context.domain)
    power = PowerPCA(n_components=p, n_rounds=n_rounds)
    # The directions are random before the first round, and typical: their bound is the one of every later round.
    rng = np.random.default_rng(0)
    power_noise = (sqrt(d) + sqrt(p)) * _deviation(context, power.next_request(context, (), rng))
    covariance_noise = None
    if 1 + d + d * (d + 1) // 2 <= MAX_SIZE:
        covariance = CovariancePCA(n_components=p)
        covariance_noise = 2.0 * sqrt(d) * _deviation(context, covariance.next_request(context, (), rng))
    one_shot = covariance_noise is not None and (d <= ONE_SHOT_COLUMNS or covariance_noise <= power_noise)
    return ComponentPlan(
        algorithm="covariance" if one_shot else "power",
        n_rounds=1 if one_shot else power.n_rounds,
        covariance_noise=covariance_noise,
        power_noise=power_noise,
        reason=_reason(d, power.n_rounds, covariance_noise, power_noise),
    )


def _deviation(context: Context, request: Request | None) -> float:
    """The root mean square deviation of the noise of one product."""
    assert request is not None
    terms = quote(context, request)
    products = terms.scales[-terms.sensitivity.blocks[-1].size :]
    return context.noise.deviation(float(np.sqrt(np.mean(products**2))))


def _reason(d: int, n_rounds: int, covariance_noise: float | None, power_noise: float) -> str:
    if covariance_noise is None:
        return f"All second moments of {d} columns are too many values for one answer: a power iteration asks for few."
    if d <= ONE_SHOT_COLUMNS:
        return (
            f"All second moments in one round: up to {ONE_SHOT_COLUMNS} columns that beats or ties a power iteration, "
            "which pays for every round anew."
        )
    compared = f"the noise of one round of all second moments is {covariance_noise:.3g} in the spectral norm"
    other = f"that of each of {n_rounds} rounds of a power iteration {power_noise:.3g}"
    choice = "All second moments in one round" if covariance_noise <= power_noise else "A power iteration"
    return f"{choice}: {compared}, {other}."
