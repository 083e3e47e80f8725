"""How numbers are written for readers: as many digits as matter where they stand, never more."""

from __future__ import annotations

from math import ceil, floor, isfinite, log10

MINUS = "\N{MINUS SIGN}"


def in_units(value: float, span: float) -> str:
    """A value of a column, with the digits that matter in a range of this width.

    Args:
        value: in the user's units.
        span: the width of the column's bounds; a thousandth of it is still told.

    Returns:
        The number as text.

    >>> in_units(1234567.8, 1e6), in_units(0.12345, 1.0), in_units(-3.0, 100.0)
    ('1,234,568', '0.123', '−3.0')
    """
    if not isfinite(value):
        return "none"
    if not 1e-4 <= span <= 1e13:
        return _signed(f"{value:.4g}")
    decimals = max(0, ceil(3 - log10(span)))
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("-")
    return _signed(text)


def known(value: float) -> float | None:
    """The number, or none where there is none to tell.

    >>> known(2.5), known(float("nan"))
    (2.5, None)
    """
    return float(value) if isfinite(value) else None


def count(value: float) -> str:
    """A number of records.

    >>> count(12345.6), count(-0.2)
    ('12,346', '0')
    """
    return f"{max(0, round(value)):,}"


def share(part: float) -> str:
    """A part of a whole, as a percentage with two digits that matter.

    >>> share(0.1234), share(0.0567), share(0.0004), share(1.0)
    ('12 %', '5.7 %', 'less than 0.1 %', '100 %')
    """
    percent = 100.0 * part
    if percent == 0.0:
        return "0 %"
    if percent < 0.1:
        return "less than 0.1 %"
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


def figure(value: float, digits: int = 3) -> str:
    """A plain number with so many digits that matter.

    >>> figure(0.123456), figure(12345.0), figure(1e-7)
    ('0.123', '12,345', '1e-07')
    """
    if value == 0 or not isfinite(value):
        return "0" if value == 0 else "none"
    size = floor(log10(abs(value)))
    if size < -4 or size > 12:
        return _signed(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - size)
    text = f"{value:,.{decimals}f}"
    return _signed(text.rstrip("0").rstrip(".") if "." in text else text)


def _signed(text: str) -> str:
    return MINUS + text[1:] if text.startswith("-") else text


def listed(parts: list[str]) -> str:
    """Words one after the other, as a sentence lists them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]
