"""One reading of the numbers and words that people pass as parameters; a refusal carries the parameter's name."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isfinite, nan
from numbers import Integral, Real
from typing import TypeVar

from recoup.errors import Argument, ParameterError

ORDINARY = 2**31 - 1  # a larger number of things is a slip
LARGEST = 2**63 - 1
_T = TypeVar("_T")


def whole_number(value: object, name: str, *, low: int = 1, high: int = ORDINARY) -> int:
    """Check a whole number from `low` to `high`; only an upper end below the ordinary one is worth a word."""
    whole = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if whole is None or not low <= whole <= high:
        span = f"of at least {low}" if high >= ORDINARY else f"from {low} to {high}"
        raise _refusal(value, name, f"give a whole number {span}.", largest=max(high, ORDINARY))
    return whole


def positive_number(value: object, name: str, *, high: float = inf, or_zero: bool = False) -> float:
    """Check a finite number above 0."""
    number = _real(value)
    if not (isfinite(number) and 0.0 <= number <= high and (or_zero or number > 0.0)):
        what = "a number of at least 0" if or_zero else "a positive number"
        raise _refusal(value, name, f"give {what}{'' if high == inf else f', at most {high:,.0f}'}.")
    return number


def probability(value: object, name: str) -> float:
    """Check a number between 0 and 1, both excluded."""
    number = _real(value)
    if not 0.0 < number < 1.0:
        raise _refusal(value, name, "give a number between 0 and 1.")
    return number


def choice(value: _T, name: str, choices: Iterable[_T], words: str | None = None) -> _T:
    """Check that a value is one of some; `words` says which where their own names do not say enough."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(map(str, known))
        raise _refusal(value, name, f"choose {words or f'one of {listed}'}.")
    return value


def _real(value: object) -> float:
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else nan
    except OverflowError:
        return inf


def _refusal(value: object, name: str, advice: str, largest: int = LARGEST) -> ParameterError:
    # An integer of thousands of digits cannot even be printed.
    absurd = isinstance(value, Integral) and not -LARGEST <= int(value) <= largest
    return ParameterError(Argument(name, "too large" if absurd else f"{value!r:.60}"), f": {advice}")
