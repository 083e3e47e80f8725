"""What a privacy price is, and what a sum of prices is worth in (epsilon, delta).

Only numbers live here. Which data sets are neighbours is said by the transcript and the privacy statement, and what
may still be spent is said by the ledger. Prices are exact fractions, and every conversion that needs a logarithm
errs on the side of privacy: an epsilon is rounded up, a rho is rounded down.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from recoup.errors import BudgetError

Measure: TypeAlias = Literal["pure", "zcdp", "gaussian"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Amount: TypeAlias = int | float | str | Decimal | Fraction

# Every float is inside these limits, 5e-324 and 1e-6 alike, and nothing inside them is slow or large.
_LARGEST = Fraction(10) ** 100
_MOST_BITS = 2048
_MOST_DIGITS = 600
_SMALLEST_DELTA = Fraction(1, 10**300)
_ABSURD = "is too large or has too many digits to be a budget; give a number of ordinary size."

# OpenDP's search over orders starts at 1.01 and its exponential overflows for a large rho; the formula below does not.
_LARGEST_RHO_FOR_OPENDP = 1000
# Below this, squares leave the range of floats; a smaller rho is priced like this one, which is sound.
_SMALLEST_RHO = Fraction(1, 10**200)


def as_fraction(value: object, name: str, *, allow_zero: bool = False) -> Fraction:
    """Read a number that a person typed as exactly the decimal that they see.

    An int, float (NumPy's too), text ("0.1" or "1/3"), Decimal or Fraction; a float counts as its shortest decimal.

    Guarantees: takes little time and memory, whatever the exponent.
    """
    exact = _read(value, name)
    if exact < 0 or (exact == 0 and not allow_zero):
        bound, found = ("at least" if allow_zero else "greater than"), ("zero" if exact == 0 else "negative")
        raise _refused(name, f"must be {bound} zero, but is {found}.")
    if exact > _LARGEST or max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _MOST_BITS:
        raise _refused(name, _ABSURD)
    return exact


def rounded_up(amount: Fraction, digits: int = 12) -> float:
    """An amount for people to read: rounded up to so many digits that matter, so no more was spent than it says."""
    with localcontext() as context:
        context.prec, context.rounding = digits, ROUND_CEILING
        return float(Decimal(amount.numerator) / Decimal(amount.denominator))


def _refused(name: str, why: str) -> BudgetError:
    return BudgetError(f"{name} {why}", parameter=name if name.isidentifier() else None)


def _read(value: object, name: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal, str)):
        raise _refused(name, f"must be a number, but is of type {type(value).__name__}.")
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    # NumPy's float64 is a float whose repr names its type; its narrower floats print their shortest decimal.
    text = float.__repr__(value) if isinstance(value, float) else str(value).strip()
    if len(text) > _MOST_DIGITS:
        raise _refused(name, _ABSURD)
    try:
        if "/" in text:
            return Fraction(text)
        decimal = Decimal(text)
    except (ValueError, ZeroDivisionError, InvalidOperation):
        raise _refused(name, f"must be a number such as 0.5, but is {text!r:.60}.") from None
    if not decimal.is_finite():
        raise _refused(name, f"must be finite, but is {text}.")
    # Decimal to Fraction writes the exponent out, so it is looked at before.
    if decimal and not -_MOST_DIGITS <= decimal.adjusted() <= _MOST_DIGITS:
        raise _refused(name, _ABSURD)
    return Fraction(decimal) if decimal else Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one release costs.

    The amount has to be a Fraction, because a float that comes out of a privacy map means its binary value, and
    reading it as the decimal that a person would see could round it down: write ``Fraction(map(d_in))``.

    Attributes:
        measure: "pure" for an epsilon of pure differential privacy, "zcdp" for a rho of zero-concentrated, "gaussian"
            for mu^2 / 2 of Gaussian differential privacy, as `recoup.privacy.gaussian` defines it; that is also a rho.
        amount: that epsilon, rho or mu^2 / 2, greater than zero.

    >>> Price(measure="pure", amount=Fraction(1, 10)).rho
    Fraction(1, 200)
    """

    measure: Measure
    amount: Fraction

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise BudgetError(f'A price is measured in "pure", "zcdp" or "gaussian", not in {self.measure!r:.40}.')
        if not isinstance(self.amount, Fraction):
            raise BudgetError(f"The amount of a price must be a Fraction, but is of type {type(self.amount).__name__}.")
        as_fraction(self.amount, "The amount of a price")

    @property
    def rho(self) -> Fraction:
        """The price in zCDP: epsilon-DP implies (epsilon**2 / 2)-zCDP (Bun and Steinke 2016, Proposition 1.4)."""
        return self.amount**2 / 2 if self.measure == "pure" else self.amount


def epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    """Convert zCDP into the epsilon of approximate differential privacy.

    The bound is the minimum over the order alpha of ``alpha rho + log((alpha - 1) / alpha) - log(alpha delta) /
    (alpha - 1)`` (Canonne, Kamath and Steinke 2020, Proposition 12), found and rounded up by OpenDP. Its map overflows
    for rho beyond some thousands; there the same formula is evaluated here in 80 digits. dp-accounting's RDP
    accountant has the same formula on a fixed list of orders and so is never smaller; it is not used.

    Guarantees: every rho-zCDP mechanism is (epsilon, delta)-DP. Never below the exact minimum, and above it by at most
    1e-6 of it (1e-14 in practice) for rho from 1e-200 and delta up to 0.5.
    """
    delta_below = -_float_above(-_checked_delta(delta))
    if rho < 0 or rho > _LARGEST**2 * _MOST_BITS:
        raise BudgetError("rho must be at least zero and of ordinary size.")
    if rho == 0:
        return Fraction(0)
    rho_above = _float_above(max(rho, _SMALLEST_RHO))
    if rho_above <= _LARGEST_RHO_FOR_OPENDP:
        return Fraction(_opendp_epsilon()(rho_above, delta_below))
    return _epsilon_of_large_rho(rho_above, delta_below)


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the largest zCDP budget that an (epsilon, delta) budget pays for, by bisection from below; 0 if none is.

    Guarantees: ``epsilon_of_rho(rho_of(epsilon, delta), delta) <= epsilon``, always.
    """
    return _largest_rho(as_fraction(epsilon, "epsilon"), _checked_delta(delta))


@lru_cache(maxsize=64)
def _largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    def fits(rho: float) -> bool:
        return epsilon_of_rho(Fraction(rho), delta) <= epsilon

    # rho + 2 sqrt(rho log(1/delta)) <= epsilon suffices (Bun and Steinke 2016), and is within a small factor.
    log_delta = -math.log(delta)
    target = float(epsilon)
    low = (target / (math.sqrt(log_delta + target) + math.sqrt(log_delta))) ** 2
    while low < _SMALLEST_RHO or not fits(low):
        low /= 2
        if low < _SMALLEST_RHO:
            return Fraction(0)
    high, step = 2 * low, 1
    while fits(high):
        # By twos where the start is near, as it nearly always is; below delta it is not, and the steps grow.
        low, high, step = high, high * 2.0 ** max(1, min(step - 7, 64)), step + 1 if step < 8 else 2 * step
    while high > 2 * low:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Fraction(low)


def _checked_delta(delta: Fraction) -> Fraction:
    if not _SMALLEST_DELTA <= delta < 1:
        raise BudgetError(f"delta must be between 1e-300 and 1 here, but is {float(delta)}.")
    return delta


def _float_above(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=1)
def _opendp_epsilon() -> Callable[[float, float], float]:
    """OpenDP's map from (rho, delta) to epsilon; imported on first use, as pure budgets never need it."""
    from opendp.combinators import make_zCDP_to_approxDP
    from opendp.domains import atom_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import absolute_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    # A Gaussian of scale 1 at distance sqrt(2 rho) is rho-zCDP: a way to hand any rho to the conversion.
    gaussian = make_gaussian(atom_domain(T=int), absolute_distance(T=float), 1.0)
    converted = make_zCDP_to_approxDP(gaussian)

    def epsilon(rho: float, delta: float) -> float:
        distance = math.sqrt(2 * rho)
        while gaussian.map(distance) < rho:
            distance = math.nextafter(distance, math.inf)
        return float(converted.map(distance).epsilon(delta))

    return epsilon


def _epsilon_of_large_rho(rho: float, delta: float) -> Fraction:
    # Any order gives a sound bound, so the order (1 + excess) may be searched for in floats: the derivative in the
    # order has the sign of rho excess^2 + log((1 + excess) delta), which grows with excess.
    low, high = 0.0, 1.0
    while rho * high**2 + math.log1p(high) + math.log(delta) < 0:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if rho * middle**2 + math.log1p(middle) + math.log(delta) < 0 else (low, middle)
    with localcontext() as context:
        context.prec = 80
        excess = Decimal(high)
        order = 1 + excess
        epsilon = order * Decimal(rho) + (excess / order).ln() - (order * Decimal(delta)).ln() / excess
        # For a large rho no term cancels another by more than a few digits: 1e-40 covers all roundings in 80 digits.
        return Fraction(_float_above(Fraction(max(epsilon, Decimal(0)) * (1 + Decimal("1e-40")))))
