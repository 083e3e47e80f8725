"""Bounds from below on what a release tells, from how often an event happens on two neighbouring tables.

An event is "this statistic is at least (or at most) that level". A pilot sample picks it, a fresh sample prices it with
Clopper-Pearson limits, so picking costs no confidence. A pure claim bounds the ratio of the two probabilities. A claim
of Gaussian noise of total rho says more than its (epsilon, delta): it bounds the difference of the two normal
quantiles by mu = sqrt(2 rho), which a few thousand tries can test and a delta of 1e-6 cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, binom, norm, poisson

from recoup.queries.base import Array

_LEVELS = 40
_PILOT = 0.25
_POWER = 0.999  # said as 99%: a pilot does not always choose the best event


class Claim(Protocol):
    """A promise that the probabilities of any event on two neighbours are close."""

    @property
    def name(self) -> str:
        """What is claimed."""

    @property
    def amount(self) -> float:
        """How much of it."""

    def implied(self, p: Array, q: Array) -> Array:
        """The smallest amount under which an event may have these probabilities on the two neighbours."""


@dataclass(frozen=True, slots=True)
class PureClaim:
    """Pure epsilon: p <= e^epsilon q.

    >>> float(PureClaim(1.0).implied(np.array([0.5]), np.array([0.25]))[0].round(3))
    0.693
    """

    amount: float
    name: ClassVar[str] = "epsilon"

    def implied(self, p: Array, q: Array) -> Array:
        """log(p / q)."""
        return np.asarray(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300)))


@dataclass(frozen=True, slots=True)
class GaussianClaim:
    """Gaussian noise whose total price is rho = mu^2 / 2: normal quantiles of p and q are at most mu apart.

    >>> float(GaussianClaim(1.0).implied(np.array([0.5]), np.array([0.1586553]))[0].round(3))
    1.0
    """

    amount: float
    name: ClassVar[str] = "mu"

    def implied(self, p: Array, q: Array) -> Array:
        """The distance of the normal quantiles."""
        return np.asarray(norm.ppf(np.clip(p, 1e-300, 1 - 1e-16)) - norm.ppf(np.clip(q, 1e-300, 1 - 1e-16)))


class Event(NamedTuple):
    """One statistic is at least a level, or below it."""

    column: int
    level: float
    above: bool

    def hits(self, statistics: Array) -> int:
        """How many tries it happened in."""
        reached = statistics[:, self.column] >= self.level
        return int(np.count_nonzero(reached if self.above else ~reached))


class Bound(NamedTuple):
    """What a claim must be at least, and the event that shows it."""

    amount: float
    event: Event
    hits: int
    other_hits: int
    tries: int


def proportion_limits(hits: ArrayLike, n: int, alarm: float) -> tuple[Array, Array]:
    """Clopper-Pearson limits of a probability, each wrong with at most the given probability.

    >>> [float(side.round(3)) for side in proportion_limits(50, 100, 0.025)]
    [0.398, 0.602]
    """
    hits = np.asarray(hits, dtype=np.float64)
    low = np.where(hits > 0, beta.ppf(alarm, np.maximum(hits, 1.0), n - hits + 1.0), 0.0)
    high = np.where(hits < n, beta.ppf(1.0 - alarm, hits + 1.0, np.maximum(n - hits, 1.0)), 1.0)
    return low, high


def lower_bound(one: Array, other: Array, claim: Claim, alarm: float) -> Bound:
    """Bound a claim from below by the event that tells two neighbours apart best, in either direction.

    `one` and `other` are (n, s) statistics of releases of either table; with the probability `alarm` the bound exceeds
    a claim that is true. It may be negative, which says nothing.
    """
    n_pilot = int(len(one) * _PILOT)
    best: Bound | None = None
    for a, b in ((one, other), (other, one)):
        event = _best_event(a[:n_pilot], b[:n_pilot], claim, alarm)
        fresh_a, fresh_b = a[n_pilot:], b[n_pilot:]
        n, hits, other_hits = len(fresh_a), event.hits(fresh_a), event.hits(fresh_b)
        # Two directions with two limits each.
        p, q = proportion_limits(hits, n, alarm / 4)[0], proportion_limits(other_hits, n, alarm / 4)[1]
        found = Bound(float(claim.implied(p, q)), event, hits, other_hits, n)
        best = found if best is None or found.amount > best.amount else best
    assert best is not None
    return best


def _best_event(a: Array, b: Array, claim: Claim, alarm: float) -> Event:
    chosen, strength = Event(0, 0.0, True), -np.inf
    for column in range(a.shape[1]):
        both = np.concatenate([a[:, column], b[:, column]])
        # Quantiles that are values themselves, so that what only a few tries reach can be an event, too.
        levels = np.unique(np.quantile(both, np.linspace(0.0, 1.0, _LEVELS), method="higher"))
        counts = [len(s) - np.searchsorted(np.sort(s[:, column]), levels, side="left") for s in (a, b)]
        for above in (True, False):
            hits = counts if above else [len(a) - counts[0], len(b) - counts[1]]
            # A pilot is small: limits of a few standard deviations rank events as the fresh sample will.
            level = max(alarm, 1e-3)
            implied = claim.implied(
                proportion_limits(hits[0], len(a), level)[0], proportion_limits(hits[1], len(b), level)[1]
            )
            top = int(np.argmax(implied))
            if implied[top] > strength:
                chosen, strength = Event(column, float(levels[top]), above), float(implied[top])
    return chosen


def noticed_noise(claim: Claim, n: int, alarm: float) -> float:
    """The largest factor of the claimed noise at which a bound from n releases of each table notices, 99 times in 100.

    Of claims that one value attains: Laplace noise for `PureClaim`, Gaussian noise for `GaussianClaim`.

    >>> 0.5 < noticed_noise(PureClaim(1.0), 4000, 1e-6) < 0.9
    True
    """
    fresh = n - int(n * _PILOT)
    low, high = 0.01, 1.0
    while high - low > 0.005:
        factor = (low + high) / 2
        low, high = (factor, high) if _notices(claim, factor, fresh, alarm) else (low, factor)
    return low


def _notices(claim: Claim, factor: float, n: int, alarm: float) -> bool:
    distance = claim.amount / factor  # in units of the noise that is left
    for share in np.linspace(0.05, 1.0, 20):
        at = share * distance
        if claim.name == "epsilon":
            p, q = 1.0 - 0.5 * exp(at - distance), 0.5 * exp(-at)
        else:
            p, q = float(norm.sf(at - distance)), float(norm.sf(at))
        unlucky = (1.0 - _POWER) / 2
        hits, other_hits = binom.ppf(unlucky, n, p), binom.ppf(1.0 - unlucky, n, q)
        limits = proportion_limits(hits, n, alarm / 4)[0], proportion_limits(other_hits, n, alarm / 4)[1]
        if float(claim.implied(*limits)) > claim.amount:
            return True
    return False


def claim_of(measure: str, amount: float) -> PureClaim | GaussianClaim:
    """The claim behind a price: epsilon, or rho of Gaussian noise.

    >>> claim_of("gaussian", 0.5)
    GaussianClaim(amount=1.0)
    """
    return PureClaim(amount) if measure == "pure" else GaussianClaim(sqrt(2.0 * amount))


__all__ = [
    "Bound",
    "Claim",
    "Event",
    "GaussianClaim",
    "PureClaim",
    "claim_of",
    "lower_bound",
    "noticed_noise",
    "proportion_limits",
]


# ---- noise that is used twice ----


def repeated(values: ArrayLike) -> int:
    """How many values have occurred before.

    >>> repeated([3, 1, 3, 3])
    2
    """
    array = np.asarray(values)
    return int(array.size - np.unique(array).size)


def repeats_allowed(n: int, scale: float, alarm: float) -> int:
    """How many of n values may repeat by chance, exceeded with at most a probability.

    Two independent values of noise of a scale are equal with a probability of at most 1 / (2 scale), whatever they are
    added to.

    >>> repeats_allowed(1000, 2.0**30, 1e-6), repeats_allowed(1000, 2.0**10, 1e-6) > 200
    (1, True)
    """
    expected = n * (n - 1) / 2 / (2 * scale)
    return int(poisson.ppf(1.0 - alarm, expected))
