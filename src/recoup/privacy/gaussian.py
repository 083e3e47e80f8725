"""What rounds of Gaussian noise are worth together: the exact curve of Gaussian differential privacy.

The measure "gaussian" prices a release with mu^2 / 2, in exact fractions like rho: it tells two neighbours apart no
better than one draw of N(0, 1) and N(mu, 1) does, up to the slack below. Squares of mu add up, also where rounds are
chosen adaptively, and the sum becomes (epsilon, delta) by

    delta(epsilon) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)

(Balle and Wang 2018; Dong, Roth and Su 2022), which no conversion from zCDP reaches. OpenDP's discrete Gaussian is not
exactly a rounded one. At our scales its probabilities are within e^(+-SLACK mu^2) of it, and that is paid for here.
The proof is in docs/decisions/0010-exact-prices-of-gaussian-noise.md.

All is decided in 80 digits of Decimal, with room for every rounding; floats only say where to look.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from recoup.privacy.price import Measure, Price, as_fraction, epsilon_of_rho, rho_of

# In what the entries of a ledger, or the rounds of a release, are added up where a delta is allowed.
Accounting: TypeAlias = Literal["gaussian", "zcdp"]

# A round of at most 2^20 values whose neighbours are this far apart, in steps of its integers, has the slack below.
LEAST_DISTANCE: Final = 2**24
SLACK: Final = Decimal(2) ** -20
# The proof's limits; beyond them the conversion from zCDP holds as well.
_LEAST, _MOST = Fraction(1, 2**80), Fraction(1000)
_MOST_EPSILON: Final = Fraction(1000)
# Probabilities that the proof leaves out: below e^-1900 mu^2, times e^epsilon.
_LEFT_OUT: Final = Decimal("1e-370")

_DIGITS: Final = Context(prec=80)
_ROOM: Final = Decimal("1e-50")  # relative; all roundings and truncated series together are below 1e-60
_PI: Final = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534")
_PARTS: Final = 2.0**-44  # of the conversion from zCDP: how near to the curve an epsilon is searched


def epsilon_of(measure: Measure, amount: Fraction, delta: Fraction) -> Fraction:
    """What an amount of a measure is worth as an epsilon, at a delta.

    Guarantees: never less than it is worth.

    >>> [round(float(epsilon_of(m, Fraction(1, 100), Fraction(1, 10**6))), 3) for m in ("zcdp", "gaussian")]
    [0.622, 0.575]
    """
    if measure == "pure":
        return amount
    return epsilon_of_rho(amount, delta) if measure == "zcdp" else _epsilon_of_gaussian(amount, delta)


def amount_of(measure: Measure, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest amount of a measure that (epsilon, delta) pays for; 0 if it pays for none.

    Guarantees: ``epsilon_of(measure, amount_of(measure, epsilon, delta), delta) <= epsilon``, always.

    >>> sigma = [(2 * amount_of(m, Fraction(1, 4), Fraction(1, 10**6))) ** -0.5 for m in ("zcdp", "gaussian")]
    >>> [round(value, 2) for value in sigma]
    [16.66, 15.41]
    """
    if measure == "pure":
        return epsilon
    return rho_of(epsilon, delta) if measure == "zcdp" else _largest(as_fraction(epsilon, "epsilon"), delta)


def counted(price: Price, accounting: Accounting) -> Fraction:
    """What a price adds to a sum of this kind: rho, or mu^2 / 2.

    A price in zCDP alone has no mu. It counts with its rho here, and whoever adds up must refuse it before.

    >>> float(counted(Price(measure="pure", amount=Fraction(1, 10)), "zcdp"))
    0.005
    """
    pure = price.measure == "pure"
    return _gaussian_of_pure(price.amount) if pure and accounting == "gaussian" else price.rho


@lru_cache(maxsize=256)
def _epsilon_of_gaussian(amount: Fraction, delta: Fraction) -> Fraction:
    bound = epsilon_of_rho(amount, delta)  # holds as well: mu^2 / 2 is also a rho
    low, high = 0.0, float(min(bound, _MOST_EPSILON))
    if not _fits(amount, Fraction(high), delta):
        return bound
    step = _PARTS * high
    while high - low > step:
        middle = (low + high) / 2
        low, high = (low, middle) if _fits(amount, Fraction(middle), delta) else (middle, high)
    return Fraction(high)


@lru_cache(maxsize=64)
def _largest(epsilon: Fraction, delta: Fraction) -> Fraction:
    least = rho_of(epsilon, delta)
    low, high = float(least), 2 * float(least)
    # What holds at a smaller epsilon holds at this one.
    capped = min(epsilon, _MOST_EPSILON)
    while _fits(Fraction(high), capped, delta):
        low, high = high, 2 * high
    step = _PARTS * high
    while high - low > step:
        middle = (low + high) / 2
        low, high = (middle, high) if _fits(Fraction(middle), capped, delta) else (low, middle)
    # The search for an epsilon stops a little above the curve.
    while low > least and _epsilon_of_gaussian(Fraction(low), delta) > epsilon:
        low, step = low - step, 2 * step
    return max(Fraction(low), least)


def _fits(amount: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether mu^2 / 2 = amount is certainly (epsilon, delta)-DP, all slack included."""
    if not _LEAST <= amount <= _MOST:
        return False
    with localcontext(_DIGITS):
        square = 2 * _decimal(amount) * (1 + _ROOM)
        mu, slack = square.sqrt(), SLACK * square
        spare = _decimal(epsilon) * (1 - _ROOM) - slack
        if spare < 0:
            return False
        low = spare / mu - mu / 2
        if low > 40:  # Phi(-40) < 1e-349
            return True
        # e^epsilon times the density at low + mu is the density at low.
        density = (-low * low / 2).exp() / (2 * _PI).sqrt()
        above, below = _mills(low), _mills(low + mu)
        event = density * (above * (1 + _ROOM) - below * (1 - _ROOM))
        # Delta is multiplied by e^(slack / 4096) at most: that is how far discrete noise exceeds rounded noise.
        return event * (1 + slack / 2048) + _LEFT_OUT <= _decimal(delta) * (1 - _ROOM)


@lru_cache(maxsize=256)
def _gaussian_of_pure(epsilon: Fraction) -> Fraction:
    """The mu^2 / 2 of epsilon-DP: Phi(-mu / 2) = 1 / (1 + e^epsilon), from above.

    Its trade-off curve has two straight parts that meet on the diagonal. G_mu is convex, starts and ends with them, and
    passes through the point where they meet, so it is below. Closed forms: pi / 4 epsilon^2, as erf(y) is at least
    tanh(2 y / sqrt(pi)), which is sharp for a small epsilon; and 4 epsilon, as Phi(-x) <= e^(-x^2 / 2) / 2.
    """
    closed = min(Fraction(355, 113) / 4 * epsilon**2, 4 * epsilon)
    if not Fraction(1, 2**20) <= epsilon <= _MOST_EPSILON / 2:
        return closed
    with localcontext(_DIGITS):
        least_odds = (1 + _decimal(epsilon).exp()) * (1 + _ROOM)

        def enough(half: float) -> bool:
            x = Decimal(half)
            return (-x * x / 2).exp() / (2 * _PI).sqrt() * _mills(x) * least_odds <= 1

        low, high = 0.0, float(closed / 2) ** 0.5
        step = _PARTS * high
        while high - low > step:
            middle = (low + high) / 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return min(closed, 2 * Fraction(high) ** 2) if enough(high) else closed


def _mills(t: Decimal) -> Decimal:
    """Phi(-t) over the density at t, in the digits of the context."""
    if t > 8:  # 1 / (t + 1 / (t + 2 / (t + ...))), off by some e^(-2 t sqrt(2 n)) after n steps
        tail = Decimal(0)
        for k in range(150, 0, -1):
            tail = k / (t + tail)
        return 1 / (t + tail)
    term = total = t
    k, square = 1, t * t
    while abs(term) > abs(total) * Decimal("1e-78"):
        k += 2
        term = term * square / k
        total += term
    return (_PI / 2).sqrt() * (square / 2).exp() - total


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
