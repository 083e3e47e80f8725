"""A Gaussian mixture by private expectation maximisation, and its noiseless twin on an inferred data set.

Components are spherical in the unit domain. Round t asks for the sufficient statistics at state t; the next state is an
M step on the noisy answer that trusts each component's move as far as its noise allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc

from recoup.algorithms.base import Algorithm, Rng, Rounds, column_names, last_of, whole_fields
from recoup.algorithms.kmeans.lloyd import spread_centers
from recoup.domain import Domain, uniform_points
from recoup.errors import ParameterError
from recoup.mixed import Mixed
from recoup.queries.base import MAX_SIZE, Array, check_size, of_kind
from recoup.queries.models import MixtureQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

_SMALLEST_VARIANCE = 1e-4  # a component 1 % of half a column's range wide: finer is a spike, and noise makes spikes
_LARGEST_VARIANCE = 1.0  # that of records at both ends of every column
_MARGIN = 1.5  # standard deviations beyond the typical distance that are seen in full
_COUNT_SHARE = Fraction(15, 100)  # counts divide everything else, so they get more than their own error asks for
_SMALLEST_PART = 0.05  # of an equal part of the records
_REFIT_STEPS = 3
_TRUST = 4.0  # pseudo-records a component: the more components, the more noise there is to fit
_CLEAR = 2.0  # standard errors of the number of records below which nothing is inferred
_UNIFORM_SHARE = 0.1
_WIDENINGS = (0.7, 1.0, 1.4)


class Mixture(NamedTuple):
    """A spherical mixture in the unit domain."""

    weights: Array  # (k,), of sum 1
    means: Array  # (k, d)
    variances: Array  # (k,)

    def packed(self) -> Array:
        """One row a component: weight, mean, variance."""
        return np.column_stack([self.weights, self.means, self.variances])


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMixture(Algorithm):
    """Private EM for a mixture of spherical Gaussians: equal rounds from a start that sees no data.

    Args:
        n_components: K.
        n_rounds: T.

    Guarantees: over T rounds the whole budget is asked for. The answer is a (K, 1 + d + 1) array of weights, means and
    variances in the unit domain; weights are positive and add up to 1, means lie in the domain.

    >>> GaussianMixture(n_components=3).n_rounds
    10
    """

    n_components: int
    n_rounds: int = 10

    type_name: ClassVar[str] = "gaussian-mixture"
    # Of an inferred data set; twice as many take twice as long and change the likelihood by less than a seed does.
    support_points: ClassVar[int] = 5000

    def __post_init__(self) -> None:
        whole_fields(self)
        if self.n_components > MAX_SIZE // 3:
            advice = f"n_components={self.n_components}: at most {MAX_SIZE // 3} components can be represented."
            raise ParameterError(advice, parameter="n_components")

    @property
    def pseudo_records(self) -> float:
        """How many records' worth of trust the base of the inferred measure has."""
        return _TRUST * self.n_components

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """Ask for the statistics of the current mixture; none after the last round."""
        if len(rounds) >= self.n_rounds:
            return None
        d = context.domain.n_columns
        check_size(self.n_components * (d + 2))
        state = noisy_step(context, rounds) if rounds else _start(context, self.n_components, rng)
        return Request(query=_query(context, state), share=Fraction(1, self.n_rounds), split=_split(d))

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The last iterate."""
        return noisy_step(context, rounds).packed()

    def support(self, context: Context, rounds: Rounds, n_points: int, rng: Rng) -> Array:
        """Points drawn from the mixtures of the later rounds, narrower and wider, and some from the whole domain."""
        if not rounds:
            return uniform_points(context.domain, n_points, rng)
        late = rounds[1 + len(rounds) // 2 :]
        states = [*map(_state_of, late), noisy_step(context, rounds)]
        n_uniform = round(n_points * _UNIFORM_SHARE)
        weights, means, variances = (np.concatenate(parts) for parts in zip(*states, strict=True))
        chosen = rng.choice(len(weights), size=n_points - n_uniform, p=weights / weights.sum())
        spread = np.sqrt(variances)[chosen] * rng.choice(_WIDENINGS, size=len(chosen))
        drawn = means[chosen] + spread[:, None] * rng.standard_normal((len(chosen), means.shape[1]))
        return np.concatenate([uniform_points(context.domain, n_uniform, rng), context.domain.clip(drawn)])

    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """A few EM steps on weighted points from the last state that was asked about."""
        state = _state_of(last_of(rounds))
        for _ in range(_REFIT_STEPS):
            state = em_step(state, points, weights)
        return state._replace(means=context.domain.clip(state.means)).packed()

    def declines(self, context: Context, rounds: Rounds) -> str | None:
        """Why nothing should be inferred from these rounds, from released values alone; none if something can be."""
        if not rounds:
            return "nothing was released yet."
        answered = rounds[-1]
        k = _mixture_query(answered).n_components
        error = answered.noise.deviation(1.0) * float(answered.scales[0]) * np.sqrt(k / len(rounds))
        if _total(rounds) >= _CLEAR * error:
            return None
        return (
            "the released counts add up to less than twice their error, so they hardly tell the records from none: "
            "use a larger epsilon, or fewer components."
        )

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """Weights, means and the variance of each column, (K, 1 + 2d), in the user's units."""
        d = context.domain.n_columns
        means = context.domain.from_unit(answer[:, 1 : 1 + d])
        return np.column_stack([answer[:, 0], means, answer[:, 1 + d :] * half_widths(context.domain) ** 2])

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]]:
        """A row for each component: its weight, and the mean and the variance of each column."""
        names = column_names(context.domain)
        parts = ["weight", *(f"mean {name}" for name in names), *(f"variance {name}" for name in names)]
        return [f"component {k}" for k in range(self.n_components)], parts


def half_widths(domain: Domain) -> Array:
    """Of each column, in the user's units: what its unit is in the unit domain; a schema's are its own."""
    if isinstance(domain, Mixed):
        return np.ones(domain.n_columns)
    return np.asarray(0.5 * (np.array(domain.high) - np.array(domain.low)), dtype=np.float64)


def noisy_step(context: Context, rounds: Rounds) -> Mixture:
    """An M step on the last round's noisy answer: what is mostly noise hardly moves the state.

    Everything is moved by the share v / (v + noise) of what the answer says, where v is how much such moves vary when
    the component fits the data; counts move away from equal parts of the records that all rounds tell of.
    """
    answered = last_of(rounds)
    query = _mixture_query(answered)
    k, d = query.n_components, query.n_columns
    noisy, errors = answered.noisy, answered.noise.deviation(1.0) * answered.scales
    counts, moves, squares = noisy[:k], noisy[k : k + k * d].reshape(k, d), noisy[k + k * d :]
    count_error, move_error, square_error = errors[:k], errors[k : k + k * d : d], errors[k + k * d :]
    equal = max(_total(rounds), 1.0) / k
    counts = equal + (counts - equal) * equal**2 / (equal**2 + count_error**2)
    # A component that noise has hidden may still be needed, and one of next to no weight would never come back.
    counts = np.maximum(counts, np.clip(0.5 * count_error, _SMALLEST_PART * equal, 0.5 * equal))
    moves = moves / counts[:, None]
    size = np.abs(moves).sum(axis=1) if query.norm == 1 else np.sqrt((moves**2).sum(axis=1))
    moves *= np.minimum(1.0, query.radii / np.maximum(size, 1e-300))[:, None]
    highest = query.reaches**2
    moves *= (query.variances / (query.variances + (move_error / counts) ** 2))[:, None]
    lengths = np.clip(squares / counts + 0.5 * highest, 0.0, highest)
    lengths = np.maximum(lengths - (moves**2).sum(axis=1), 0.0)
    variances = lengths / (d * _seen(highest / query.variances, d))
    trust = query.variances**2 / (query.variances**2 + (square_error / (d * counts)) ** 2)
    variances = query.variances + trust * (variances - query.variances)
    return Mixture(
        weights=counts / counts.sum(),
        means=context.domain.clip(query.means + moves),
        variances=np.clip(variances, _SMALLEST_VARIANCE, _LARGEST_VARIANCE),
    )


def em_step(state: Mixture, points: Array, weights: Array) -> Mixture:
    """A step of EM on weighted points, without noise; a component that no point belongs to keeps mean and variance."""
    d = points.shape[1]
    shares = np.exp(log_joint(state, points))
    mass = shares.sum(axis=1, keepdims=True)
    # Far from every component all shares may underflow: such a point belongs to none.
    shares = np.divide(shares, mass, out=np.zeros_like(shares), where=mass > 0) * weights[:, None]
    counts = shares.sum(axis=0)
    alive = counts > 1e-9 * max(float(weights.sum()), 1e-300)
    divisors = np.where(alive, counts, 1.0)
    means = np.where(alive[:, None], shares.T @ points / divisors[:, None], state.means)
    lengths = np.stack([((points - mean) ** 2).sum(axis=1) for mean in means], axis=1)
    variances = np.where(alive, (shares * lengths).sum(axis=0) / (d * divisors), state.variances)
    kept = np.maximum(counts, 1e-9 * max(float(counts.sum()), 1e-300))
    return Mixture(kept / kept.sum(), means, np.clip(variances, _SMALLEST_VARIANCE, _LARGEST_VARIANCE))


def log_joint(state: Mixture, points: Array) -> Array:
    """The logarithm of weight times density of each component at each point: (m, K)."""
    d = points.shape[1]
    lengths = np.stack([((points - mean) ** 2).sum(axis=1) for mean in state.means], axis=1)
    height = np.log(state.weights) - 0.5 * d * np.log(2.0 * np.pi * state.variances)
    return np.asarray(height - lengths / (2.0 * state.variances))


def _start(context: Context, n_components: int, rng: Rng) -> Mixture:
    """Components spread over the domain without data, together about as wide as it."""
    domain = context.domain
    d, (kind, radius) = domain.n_columns, domain.shape()
    of_ball = {1: 2.0 * radius**2 / ((d + 1) * (d + 2)), 2: radius**2 / (d + 2)}
    of_domain = min(1.0 / 3.0, of_ball.get(kind, 1.0))
    return Mixture(
        weights=np.full(n_components, 1.0 / n_components),
        means=spread_centers(domain, n_components, rng),
        variances=np.full(n_components, max(of_domain * n_components ** (-2.0 / d), _SMALLEST_VARIANCE)),
    )


def _query(context: Context, state: Mixture) -> MixtureQuery:
    d, norm = context.domain.n_columns, context.noise.norm
    deviations = np.sqrt(state.variances)
    # The length of a standard normal vector has mean about sqrt(d) and deviation below 1; its L1 norm has mean
    # d sqrt(2 / pi) and variance d (1 - 2 / pi).
    in_l1 = d * np.sqrt(2.0 / np.pi) + _MARGIN * np.sqrt(d * (1.0 - 2.0 / np.pi))
    reach = np.sqrt(d) + _MARGIN
    radii = deviations * (max(in_l1, reach) if norm == 1 else reach)
    return MixtureQuery(**state._asdict(), radii=radii, reaches=deviations * reach, norm=norm)


def _split(d: int) -> dict[str, Fraction]:
    """The share of each block: as the square root of what its error costs in log-likelihood, per unit of noise."""
    reach = np.sqrt(d) + _MARGIN
    sums, squares = np.sqrt(d / 2.0) * reach, reach**2 / (4.0 * np.sqrt(d))
    part = Fraction(round(1000 * (1 - _COUNT_SHARE) * sums / (sums + squares)), 1000)
    return {"count": _COUNT_SHARE, "sum": part, "square": 1 - _COUNT_SHARE - part}


def _seen(highest: Array, d: int) -> Array:
    """E min(|z|^2, highest) / d of a standard normal vector z: what clipping leaves of the variance."""
    half = 0.5 * highest
    return np.asarray(gammainc(0.5 * d + 1.0, half) + highest / d * gammaincc(0.5 * d, half))


def _total(rounds: Rounds) -> float:
    """The number of records that all rounds tell of; each got the same share of the budget."""
    return float(np.mean([r.noisy[: _mixture_query(r).n_components].sum() for r in rounds]))


def _mixture_query(answered: Round) -> MixtureQuery:
    return of_kind(answered.query, MixtureQuery, "only a round of a mixture query has an M step.")


def _state_of(answered: Round) -> Mixture:
    query = _mixture_query(answered)
    return Mixture(weights=query.weights / query.weights.sum(), means=query.means, variances=query.variances)
