"""Noise that protects people: price, release and log-density of each mechanism, side by side, and private selection.

A round is one vector of integers with one public integer sensitivity D (2^30): each block of the answer gets its share
of D, a record's contribution is multiplied by the block's factor and truncated toward zero, and OpenDP's integer noise
of one scale is added to every total. The arithmetic on the protected side is exact, so neighbours differ by at most D
in truth and not only on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, isqrt, log, nextafter, sqrt
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recoup._threads import over_row_ranges
from recoup._validate import choice
from recoup.errors import BudgetError, ParameterError
from recoup.privacy.price import Measure, Price
from recoup.queries.base import Array, Block, Sensitivity

SENSITIVITY = 2**30
_CLAMP = 2**62
_LEAST_IN_A_THREAD = 256  # values, which take longer to draw than a thread takes to start
LARGEST_SCALE = 2.0**58  # beyond this most draws would hit the clamp
# Real-valued contributions are multiplied by a factor this little too small, so that rounding in the product can never
# push a record over its bound.
_SHAVE = 1.0 - 2.0**-40


class Noise(Protocol):
    """Where noise comes from."""

    @property
    def simulated(self) -> bool:
        """Whether a seed could reproduce it, so that nothing made with it is private."""

    def laplace(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add integer Laplace noise of a scale to each total."""

    def gaussian(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add discrete Gaussian noise of a standard deviation to each total."""


class SecureNoise:
    """OpenDP's exact samplers, fed by a cryptographic generator of its own; there is no seed to give."""

    simulated: ClassVar[bool] = False

    def laplace(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add integer Laplace noise of a scale to each total."""
        return [int(v) for v in _opendp("laplace", scale)(list(totals))]

    def gaussian(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add discrete Gaussian noise of a standard deviation to each total."""
        return [int(v) for v in _opendp("gaussian", scale)(list(totals))]

    def winners(self, scores: Sequence[int], n_winners: int, scale: float) -> list[int]:
        """The candidates with the highest noisy scores, best first, each drawn anew among those left."""
        return [int(i) for i in _opendp_selection(n_winners, scale)(list(scores))]


class SimulatedNoise:
    """The same laws from a seeded NumPy generator, for experiments: whoever knows the seed can take the noise off.

    Guarantees: none; what it makes is marked NOT PRIVATE.
    """

    simulated: ClassVar[bool] = True

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def laplace(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add integer Laplace noise of a scale to each total."""
        # The difference of two geometric numbers of ratio exp(-1/scale) has the integer Laplace law; inverting the
        # exponential keeps full precision where 1 - exp(-1/scale) would lose it.
        draws = np.floor(self._generator.standard_exponential((2, len(totals))) * scale)
        return _added(totals, draws[0] - draws[1])

    def gaussian(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add rounded Gaussian noise of a standard deviation to each total."""
        return _added(totals, np.rint(self._generator.standard_normal(len(totals)) * scale))

    def winners(self, scores: Sequence[int], n_winners: int, scale: float) -> list[int]:
        """The candidates with the highest noisy scores, best first, each drawn anew among those left."""
        # Only differences matter, and those of large integers are exact before they become floats.
        best = max(scores)
        relative = np.array([float(score - best) for score in scores])
        winners: list[int] = []
        for row in self._generator.standard_exponential((n_winners, len(scores))) * scale:
            noisy = relative + row
            noisy[winners] = -np.inf
            winners.append(int(np.argmax(noisy)))
        return winners


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The integer noise scale of a round, and what OpenDP's privacy map says it costs."""

    scale: float
    price: Price


@dataclass(frozen=True, slots=True)
class Laplace:
    """Pure epsilon: integer Laplace noise, calibrated in the L1 norm.

    Guarantees: a round whose contributions are within the weights is (price.amount)-differentially private.
    """

    name: ClassVar[str] = "laplace"
    norm: ClassVar[int] = 1
    measure: ClassVar[str] = "pure"

    def weights(self, shares: Sequence[Fraction], sensitivity: int) -> tuple[int, ...]:
        """Split the integer sensitivity: the weights add up to at most all of it."""
        return _positive([int(share * sensitivity) for share in _checked(shares)])

    def factors(self, sensitivity: Sensitivity, weights: Sequence[int]) -> Array:
        """What each value of a contribution is multiplied by before it is truncated to an integer."""
        pairs = zip(sensitivity.blocks, weights, strict=True)
        return np.concatenate([_factors(b, b.ones and weight // b.ones, weight / b.l1) for b, weight in pairs])

    def calibrate(self, budget: Fraction, distance: int) -> Calibration:
        """The smallest noise whose epsilon, by OpenDP's own map, stays within a budget."""
        start = distance / float(budget) if float(budget) > 0 else inf
        return smallest_noise("pure", budget, start, lambda scale: _opendp("laplace", scale).map(distance))

    def release(self, totals: Sequence[int], scale: float, noise: Noise) -> list[int]:
        """Clamp the exact totals and add noise to every one of them."""
        return noise.laplace(clamped(totals), scale)

    def log_density(self, residuals: Array, scales: Array) -> float:
        """Minus the sum of |residual| / scale."""
        return -float(np.sum(np.abs(residuals) / scales))

    def deviation(self, scale: float) -> float:
        """The standard deviation of noise of this scale."""
        return sqrt(2.0) * scale

    def largest(self, n: int, probability: float) -> float:
        """What the largest of n values of noise of scale 1 exceeds with at most this probability."""
        return max(log(0.5 * n / probability), 0.0)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Zero-concentrated privacy: discrete Gaussian noise, calibrated in the L2 norm.

    Guarantees: a round whose contributions are within the weights is (price.amount)-zCDP.
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[int] = 2
    measure: ClassVar[str] = "zcdp"

    def weights(self, shares: Sequence[Fraction], sensitivity: int) -> tuple[int, ...]:
        """Split the integer sensitivity: the squares of the weights add up to at most its square."""
        return _positive([isqrt(int(share * sensitivity * sensitivity)) for share in _checked(shares)])

    def factors(self, sensitivity: Sensitivity, weights: Sequence[int]) -> Array:
        """What each value of a contribution is multiplied by before it is truncated to an integer."""
        pairs = zip(sensitivity.blocks, weights, strict=True)
        return np.concatenate(
            [_factors(b, b.ones and isqrt(weight**2 // b.ones), weight / b.l2) for b, weight in pairs]
        )

    def calibrate(self, budget: Fraction, distance: int) -> Calibration:
        """The smallest noise whose rho, by OpenDP's own map, stays within a budget."""
        start = distance / sqrt(2.0 * float(budget)) if float(budget) > 0 else inf
        return smallest_noise("zcdp", budget, start, lambda scale: _opendp("gaussian", scale).map(float(distance)))

    def release(self, totals: Sequence[int], scale: float, noise: Noise) -> list[int]:
        """Clamp the exact totals and add noise to every one of them."""
        return noise.gaussian(clamped(totals), scale)

    def log_density(self, residuals: Array, scales: Array) -> float:
        """Minus half the sum of squared residual / scale."""
        return -0.5 * float(np.sum((residuals / scales) ** 2))

    def deviation(self, scale: float) -> float:
        """The standard deviation of noise of this scale."""
        return scale

    def largest(self, n: int, probability: float) -> float:
        """What the largest of n values of noise of scale 1 exceeds with at most this probability."""
        # The tail of a Gaussian above t > 0 is at most exp(-t^2 / 2) / 2.
        return sqrt(2.0 * max(log(0.5 * n / probability), 0.0))


class NoisyMax:
    """Pure epsilon: the best of some candidates by noisy integer scores.

    What is drawn is report noisy max with exponential noise, one winner after the other, each taken out before the next
    is chosen; OpenDP draws it exactly, as permute-and-flip, on integers.

    Guarantees: choosing n winners by scores that all move in one direction, by at most the distance that it was
    calibrated for, is (price.amount)-differentially private.

    The proof: let every score move in the same direction between neighbours, by at most D (a record adds between 0 and
    D to a loss, so it does). Fix the noise of all candidates but i, and let M be the best of their noisy scores. Then i
    wins if its own noise exceeds M - x_i; between neighbours M and x_i each move by 0 to D in the same direction, so
    that threshold moves by at most D, and the probability that an exponential of scale b exceeds it changes by a factor
    within e^(+-D/b). A winner costs D / b, and n winners n D / b: half of what scores that move either way would cost.
    """

    name: ClassVar[str] = "exponential"

    def calibrate(self, budget: Fraction, *, distance: int, n_winners: int) -> Calibration:
        """The smallest noise for which all winners together, by OpenDP's own map, stay within a budget."""
        start = n_winners * distance / float(budget) if float(budget) > 0 else inf
        return smallest_noise("pure", budget, start, lambda scale: _opendp_selection(n_winners, scale).map(distance))

    def release(
        self, scores: Sequence[int], scale: float, n_winners: int, noise: SecureNoise | SimulatedNoise
    ) -> list[int]:
        """Clamp the exact scores and select by noisy ones; the number of candidates and of winners is public."""
        if not 1 <= n_winners <= len(scores):
            raise ParameterError(f"{n_winners} winners among {len(scores)} candidates: there must be at least as many.")
        return noise.winners(clamped(scores), n_winners, scale)


def checked_noise(noise: object) -> None:
    """Refuse a kind of noise that is not known."""
    choice(noise, "noise", ("secure", "simulated"), '"secure", or "simulated" for experiments')


Mechanism: TypeAlias = Laplace | Gaussian
MECHANISMS: dict[str, Mechanism] = {"laplace": Laplace(), "gaussian": Gaussian()}


def integer_sensitivity(n_records: int | None) -> int:
    """The public integer sensitivity of a round: 2^30, or less where a declared N could overflow 64 bits."""
    excess = 0 if n_records is None else max(0, (n_records - 1).bit_length() - 31)
    return SENSITIVITY >> min(excess, 20)


def _checked(shares: Sequence[Fraction]) -> Sequence[Fraction]:
    if any(share <= 0 for share in shares) or sum(shares) > 1:
        raise ParameterError(f"shares {[str(s) for s in shares]}: each must be positive, together at most 1.")
    return shares


def _positive(weights: list[int]) -> tuple[int, ...]:
    if min(weights) < 2**10:
        raise ParameterError("a block's share of its round is too small to be represented: give it more.")
    return tuple(weights)


def _factors(block: Block, whole: int | None, real: Array) -> Array:
    """Of one block: whole numbers of ones are counted exactly, reals are kept a little below their bound."""
    if whole is None:
        return real * _SHAVE
    if whole < 1:
        raise ParameterError("a block's share of its round is too small for so many counts: give it more.")
    return np.full(block.size, float(whole))


def clamped(totals: Sequence[int]) -> list[int]:
    """Totals as OpenDP's integers hold them; it would saturate silently, and this is 1-Lipschitz."""
    return [max(-_CLAMP, min(_CLAMP, int(total))) for total in totals]


def _added(totals: Sequence[int], draws: NDArray[np.float64]) -> list[int]:
    return [total + int(draw) for total, draw in zip(totals, draws, strict=True)]


def smallest_noise(measure: Measure, budget: Fraction, start: float, price: Callable[[float], float]) -> Calibration:
    """The smallest noise scale, from `start` up, whose price by OpenDP's own map stays within a budget."""
    if not start <= LARGEST_SCALE:
        raise BudgetError(
            f"a round's budget of {float(budget):.3g} needs more noise than 64-bit integers hold: ask for fewer "
            "rounds, or a larger epsilon."
        )
    scale, step = start, 1
    while (amount := Fraction(price(scale))) > budget:
        for _ in range(step):
            scale = nextafter(scale, inf)
        step *= 2
    return Calibration(scale=scale, price=Price(measure=measure, amount=amount))


@lru_cache(maxsize=64)
def _opendp(kind: str, scale: float) -> Any:
    # Not opendp.prelude: it imports what we do not need.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        return _InThreads(make_laplace(integers, l1_distance(T="i64"), scale=scale))
    return _InThreads(make_gaussian(integers, l2_distance(T="f64"), scale=scale))


class _InThreads:
    """A measurement of OpenDP that is invoked once for each thread, on parts of the totals.

    OpenDP draws the noise of each value by itself, from a generator made for threads, so that parts together have the
    law, and the privacy map, of the whole. How many parts there are depends on the number of values alone.
    """

    def __init__(self, measurement: Any) -> None:
        self._measurement, self.map = measurement, measurement.map

    def __call__(self, totals: Sequence[int]) -> list[int]:
        # As an array, which OpenDP need not check value by value while other threads wait for Python.
        exact = np.array(totals, dtype=np.int64)
        parts = over_row_ranges(lambda a, b: self._measurement(exact[a:b]), len(exact), least=_LEAST_IN_A_THREAD)
        return [value for part in parts for value in part]


@lru_cache(maxsize=64)
def _opendp_selection(n_winners: int, scale: float) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.measures import max_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    # monotonic: all scores of neighbours move in the same direction.
    metric = linf_distance(T="i64", monotonic=True)
    integers = vector_domain(atom_domain(T="i64"))
    return make_noisy_top_k(integers, metric, max_divergence(), k=n_winners, scale=scale)
