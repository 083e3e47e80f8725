"""Declared columns: which to use, their public bounds, and the units to show.

Three forms say the same: inline text, a file of pairs, and a schema with one table a column. Only the names and numbers
that people wrote are read, never a record; so a file of another ending than TOML or JSON is not even opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from recoup.cli.settings import SUFFIXES, read_settings, settings_from_text
from recoup.errors import BoundsError, MissingBoundsError

_FORM = "age=17:90,hours=1:99"
_FIELDS = ("type", "unit", "low", "high")
_USED, _LEFT_OUT = ("number", "integer", "boolean"), ("text", "date")


class Declared(NamedTuple):
    """The columns to use: bounds of each, in the order given, and units of those that have one."""

    bounds: dict[str, tuple[float, float]]
    units: dict[str, str]

    def header(self) -> list[str]:
        """The columns' names with their units; a name that ends with its unit is left as it is."""
        return [_with_unit(name, self.units.get(name)) for name in self.bounds]


def _with_unit(name: str, unit: str | None) -> str:
    return name if unit is None or name.rstrip().endswith(f"({unit})") else f"{name} ({unit})"


def read_columns(text: str | None) -> Declared:
    """Read what was given as bounds: inline, as a file of pairs, or as a schema.

    Args:
        text: `age=17:90,hours=1:99`; or the path of a TOML or JSON file that holds `age = [17, 90]`, or a table
            `[columns.age]` with `low`, `high`, and optionally `unit` and `type`; or such JSON itself.

    Returns:
        The columns to use; whether low is below high is the domain's to check.

    Raises:
        MissingBoundsError: nothing was given.
        BoundsError: it cannot be read.

    >>> read_columns("x=-1e3:1e3").bounds
    {'x': (-1000.0, 1000.0)}
    >>> read_columns('{"columns": {"age": {"low": 17, "high": 90, "unit": "years"}}}').header()
    ['age (years)']
    """
    if text is None or not text.strip():
        raise MissingBoundsError(
            "no bounds were declared. Give the smallest and largest possible value of each column from public "
            f"knowledge, such as --bounds {_FORM}; do not compute them from the data, that would leak it."
        )
    if text.lstrip().startswith("{"):
        return _of_value(settings_from_text(text, ".json", what="bounds", error=BoundsError), "the bounds")
    if "=" in text and not text.lower().endswith(SUFFIXES):
        return Declared(_of_text(text), {})
    path = Path(text)
    if path.suffix.lower() not in SUFFIXES:
        raise BoundsError(f"bounds {text!r} are neither of the form {_FORM} nor a .toml or .json file.")
    if not os.path.exists(text):  # unlike the method of a path, for any text
        raise BoundsError(f"bounds {text!r}: there is no such file, and it is not of the form {_FORM} either.")
    return _of_value(read_settings(path, what="bounds file", error=BoundsError), f"the bounds file {text!r}")


def _of_text(text: str) -> dict[str, tuple[float, float]]:
    bounds: dict[str, tuple[float, float]] = {}
    for part in text.split(","):
        name, equals, ends = part.rpartition("=")
        low, colon, high = ends.partition(":")
        name = name.strip()
        if not equals or not colon or not name:
            raise BoundsError(
                f"bounds: {part.strip()!r} is not of the form name=low:high, such as age=17:90. For names with commas "
                "or equals signs use a TOML or JSON file."
            )
        _check_name(name)
        if name in bounds:
            raise BoundsError(f"bounds name {name!r} twice: declare each column once.")
        try:
            bounds[name] = (float(low), float(high))
        except ValueError:
            raise BoundsError(f"bounds of {name!r}: {ends.strip()!r} is not low:high in numbers.") from None
    return bounds


def _of_value(value: Any, where: str) -> Declared:
    if isinstance(value, Mapping) and set(value) == {"columns"} and isinstance(value["columns"], Mapping):
        value = value["columns"]
    if not isinstance(value, Mapping):
        raise BoundsError(f'{where} must hold one object, of the form {{"age": [17, 90]}}.')
    declared = Declared({}, {})
    for name, column in value.items():
        _check_name(name)
        if isinstance(column, Mapping):
            _add_column(declared, name, column)
        else:
            declared.bounds[name] = _pair(name, column)
    if not declared.bounds:
        raise MissingBoundsError(f"{where} declares no column of numbers: give at least one.")
    return declared


def _check_name(name: str) -> None:
    """Refuse what no file could hold, before anything is spent."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise BoundsError(f"bounds of {name!r}: the name holds bytes that are not text.") from None


def _add_column(declared: Declared, name: str, column: Mapping[str, Any]) -> None:
    unknown = [field for field in column if field not in _FIELDS]
    if unknown:
        raise BoundsError(f"bounds of {name!r}: there is no {unknown[0]!r}; known are {', '.join(_FIELDS)}.")
    kind, unit = column.get("type", "number"), column.get("unit")
    if kind not in _USED + _LEFT_OUT:
        raise BoundsError(f"bounds of {name!r}: type must be one of {', '.join(_USED + _LEFT_OUT)}.")
    if unit is not None and not isinstance(unit, str):
        raise BoundsError(f'bounds of {name!r}: unit must be text, such as "years".')
    if kind in _LEFT_OUT:
        if "low" in column or "high" in column:
            raise BoundsError(f"bounds of {name!r}: a column of type {kind} is left out and has no bounds.")
        return
    default = {"low": 0, "high": 1} if kind == "boolean" else {}
    given = default | dict(column)
    if "low" not in given or "high" not in given:
        raise BoundsError(f"bounds of {name!r}: give both low and high.")
    pair = _pair(name, [given["low"], given["high"]])
    if kind == "integer" and not all(end.is_integer() for end in pair):
        raise BoundsError(f"bounds of {name!r}: those of an integer must be whole numbers.")
    declared.bounds[name] = pair
    if unit:
        declared.units[name] = unit


def _pair(name: str, value: object) -> tuple[float, float]:
    numbers = isinstance(value, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
    if not isinstance(value, list) or len(value) != 2 or not numbers:
        raise BoundsError(f"bounds of {name!r}: give a pair of numbers, [low, high].")
    try:
        return float(value[0]), float(value[1])
    except OverflowError:
        raise BoundsError(f"bounds of {name!r}: both must be finite.") from None
