"""What columns are, declared in public: numbers with a scale and a unit, categories, and what stands for missing cells.

A schema says three things of each column that are never learnt from records: which values it can have, how far apart
two of them are, and what becomes of a cell that is missing. It travels with the transcript, so that answers are read in
the user's words. `recoup.mixed` is the domain that it makes.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, time
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from recoup._files import TwiceError, unique_names, write_whole
from recoup._shown import Card, Shown, shortened
from recoup.errors import BoundsError, MissingBoundsError
from recoup.octaves import END

SCALES: Final = ("linear", "log", "sqrt")
OCTAVES: Final = "octaves"  # places in the list of `recoup.octaves`: of `find_bounds`, for columns of unknown bounds
OWN: Final = "own"  # missing is information: it gets a column, or a category, of its own
OTHER, MISSING = "other", "missing"  # categories that a declaration may add
_MOST_VALUES: Final = 1024  # of one category
_MOST_BREAKS: Final = 64
_LONGEST_TEXT: Final = 200
_LARGEST_FILE: Final = 4 << 20
NO_DATES: Final = "dates are not read: turn them into a number, such as a year or days since a day"
_DATE: Final = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?!\d)")  # as people write one, at the start of a text
_LEAST_WIDTH: Final = 1e-12  # of a scale, beside its values: what is narrower is lost in rounding
_MISMATCH: Final = 0.25  # what two different categories add to a squared distance, where nobody says


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers.

    Args:
        low: smallest possible value, public.
        high: largest possible value, public; values outside are moved to the nearer end.
        unit: of the values, for readers, such as "years".
        scale: how distances are measured: "linear"; "log" or "sqrt" for values of very different size; or break points
            between low and high, which then lie equally far apart.
        missing: what replaces a missing cell: a value; "own" for the middle of the scale and a second column that says
            whether the value is missing; None: a record without it contributes nothing.
        weight: multiplies its squared differences; above 0 and at most 1.

    >>> Number(1, 1e6, scale="log", unit="EUR", missing=1).scale
    'log'
    """

    low: float
    high: float
    unit: str | None = field(default=None, kw_only=True)
    scale: str | tuple[float, ...] = field(default="linear", kw_only=True)
    missing: float | Literal["own"] | None = field(default=None, kw_only=True)
    weight: float = field(default=1.0, kw_only=True)

    type_name: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, _number(getattr(self, name), name))
        low, high = self.low, self.high
        if not low < high:
            raise BoundsError(f"bounds ({low:g}, {high:g}): the lower one must be smaller than the upper.")
        with np.errstate(over="ignore"):
            if not np.isfinite(high - low) or high - low < 1e-290 or not np.nextafter(low, high) < high:
                raise BoundsError(f"bounds ({low!r}, {high!r}): their distance is too large or too small.")
        _keep_unit(self)
        if isinstance(self.scale, str):
            if self.scale not in (*SCALES, OCTAVES):
                raise BoundsError(f"scale={self.scale!r:.40}: choose {', '.join(SCALES)}, or break points.")
            if (self.scale == "log" and low <= 0) or (self.scale == "sqrt" and low < 0):
                least = "above 0" if self.scale == "log" else "at least 0"
                raise BoundsError(
                    f'low is {low:g}: with scale="{self.scale}" it must be {least}; lesser values are moved to it.'
                )
            if self.scale == OCTAVES and (low, high) != (-END, END):
                raise BoundsError("the scale of octaves is for bounds that nobody knows: use find_bounds.")
        else:
            object.__setattr__(self, "scale", _break_points(self.scale, low, high))
        turn = {"log": math.log, "sqrt": math.sqrt}.get(str(self.scale), float)
        if not turn(high) - turn(low) > _LEAST_WIDTH * abs(turn(high)):
            raise BoundsError(f"bounds ({low!r}, {high!r}) are too close together for this scale.")
        if self.missing is not None and self.missing != OWN:
            object.__setattr__(self, "missing", _number(self.missing, "missing"))
            if not low <= float(self.missing) <= high:
                raise BoundsError(
                    f"missing is {self.missing:g}: what stands for a missing cell lies within the bounds."
                )
        object.__setattr__(self, "weight", _weight(self.weight, 1.0))

    @property
    def knots(self) -> tuple[float, ...]:
        """The values that are equally far apart: both ends, and break points between them."""
        return (self.low, *(() if isinstance(self.scale, str) else self.scale), self.high)


@dataclass(frozen=True, slots=True)
class Category:
    """A column with one of several declared values.

    Args:
        values: all values, public, as text; numbers and booleans are read as their text.
        unit: of the values, for readers.
        weight: what two different values add to a squared distance, where the two ends of a number add 4: the gamma of
            k-prototypes; above 0 and at most 2. For ordered values, as for a number.
        other: whether a value that is not declared counts as one more, "other"; else its record contributes nothing.
        missing: the value that replaces a missing cell; "own" for one more value, "missing"; None: a record without it
            contributes nothing.
        ordered: whether the values are steps of a scale, equally far apart.

    >>> Category(["F", "M"], other=True).all_values
    ('F', 'M', 'other')
    """

    values: tuple[str, ...]
    unit: str | None = field(default=None, kw_only=True)
    weight: float | None = field(default=None, kw_only=True)
    other: bool = field(default=False, kw_only=True)
    missing: str | None = field(default=None, kw_only=True)
    ordered: bool = field(default=False, kw_only=True)

    type_name: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        if isinstance(self.values, str | bytes) or not isinstance(self.values, Sequence | np.ndarray):
            raise BoundsError('values must be a list of declared values, such as ["F", "M"].')
        object.__setattr__(self, "values", tuple(_text(value) for value in self.values))
        _keep_unit(self)
        for name in ("other", "ordered"):
            if not isinstance(getattr(self, name), bool):
                raise BoundsError(f"{name} must be True or False.")
        if self.missing is not None:
            object.__setattr__(self, "missing", _text(self.missing))
            if self.missing != OWN and self.missing not in self.values:
                raise BoundsError(f'missing={self.missing!r:.60}: name one of the declared values, or "own".')
        if len(set(self.all_values)) < len(self.all_values):
            raise BoundsError("a value is declared twice, or stands for others or missing ones too: declare each once.")
        if not 2 <= len(self.all_values) <= _MOST_VALUES:
            raise BoundsError(f"{len(self.all_values)} values: declare between 2 and {_MOST_VALUES}.")
        if self.ordered and (self.other or self.missing == OWN):
            raise BoundsError("other and missing values have no place in an order: leave them out, or ordered.")
        weight = (1.0 if self.ordered else _MISMATCH) if self.weight is None else self.weight
        object.__setattr__(self, "weight", _weight(weight, 1.0 if self.ordered else 2.0))

    @property
    def all_values(self) -> tuple[str, ...]:
        """The declared values, then "other" and "missing", if there are any."""
        return self.values + ((OTHER,) if self.other else ()) + ((MISSING,) if self.missing == OWN else ())


Column = Number | Category
_KINDS: Final[dict[str, type[Number] | type[Category]]] = {"number": Number, "category": Category}


class Schema(Shown, Mapping[str, Column]):
    """Declared columns by name, in their order: use it as `bounds=` where columns are not only numbers.

    Args:
        columns: a `Number`, a `Category` or a pair (low, high) per column to use.

    Guarantees: a schema is public; nothing in it is computed from records, unless `find_bounds` paid for it.

    >>> schema = Schema({"age": Number(0, 110, unit="years"), "sex": Category(["F", "M"])})
    >>> list(schema), Schema.from_json(schema.to_json()) == schema
    (['age', 'sex'], True)
    """

    __slots__ = ("_columns",)

    def __init__(self, columns: Mapping[str, Any]) -> None:
        if not isinstance(columns, Mapping):
            raise BoundsError('a schema is made of {column: Number(low, high)} or {column: Category(["a", "b"])}.')
        if not columns:
            raise MissingBoundsError("the schema declares no column: give at least one.")
        self._columns: dict[str, Column] = {}
        for name, column in columns.items():
            if not isinstance(name, str) or not name or len(name) > _LONGEST_TEXT:
                raise BoundsError(f"a column's name must be text of at most {_LONGEST_TEXT} characters.")
            self._columns[name] = column if isinstance(column, Number | Category) else _number_of(name, column)

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self._columns.items()))

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name!r}: {column.type_name}" for name, column in list(self._columns.items())[:8])
        return shortened(f"Schema({{{kinds}{', ...' if len(self) > 8 else ''}}})")

    def _card(self) -> Card:
        header = ("column", "values", "unit", "scale", "missing")
        rows = [(name, *_in_words(column)) for name, column in self.items()]
        return Card(type(self).__name__, [("columns", len(self))], header, rows)

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back: fields that differ from their defaults."""
        return {name: {"type": column.type_name} | _written(column) for name, column in self.items()}

    @classmethod
    def from_json(cls, value: object) -> Schema:
        """Read a schema back; a column is a pair of numbers, or an object with the fields of a declaration."""
        if not isinstance(value, Mapping):
            raise BoundsError('a schema must be an object of the form {"age": {"low": 0, "high": 110}}.')
        return cls({name: _read(name, column) for name, column in value.items()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a `.toml` or `.json` file: one table per column, or all of them in a table `columns`."""
        path = Path(path)
        what, value, problem = f"the schema {str(path)!r}", None, ""
        if path.suffix.lower() not in (".toml", ".json"):
            raise BoundsError(f"{what} must end in .toml or .json.")
        try:
            if path.stat().st_size > _LARGEST_FILE:
                problem = f"is larger than {_LARGEST_FILE >> 20} MB: it is another file"
            else:
                value = _parsed(path.read_text(encoding="utf-8"), path.suffix.lower())
        except TwiceError as twice:
            problem = f"names {str(twice)!r} twice: declare it once"
        except OSError as refused:
            problem = f"cannot be read: {refused.strerror}"
        except UnicodeDecodeError:
            problem = "is not a text file"
        except (ValueError, RecursionError):
            problem = f"is not {path.suffix[1:].upper()}"
        if problem:
            # Not in the handler, where the error would keep the one that it replaces, and with it the whole file.
            raise BoundsError(f"{what} {problem}.")
        inner = value.get("columns") if isinstance(value, Mapping) and len(value) == 1 else None
        # A table of columns, not a column of that name.
        if isinstance(inner, Mapping) and all(isinstance(column, Mapping | list) for column in inner.values()):
            value = inner
        return cls.from_json(value)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.toml` or `.json` file that `load` reads back."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".toml", ".json"):
            raise BoundsError(f"the schema {os.fspath(path)!r} must end in .toml or .json.")
        text = json.dumps(self.to_json(), indent=1) + "\n" if suffix == ".json" else self._toml()
        write_whole(path, text)

    def _toml(self) -> str:
        # JSON's text, numbers, lists and booleans are TOML's, too.
        tables = []
        for name, column in self.to_json().items():
            lines = [f"{key} = {_toml_value(value)}" for key, value in column.items()]
            tables.append("\n".join([f"[{_toml_value(name)}]", *lines]))
        return "\n\n".join(tables) + "\n"


def _in_words(column: Column) -> tuple[str, str, str, str]:
    if isinstance(column, Number):
        values = f"{column.low:g} to {column.high:g}"
        scale = column.scale if isinstance(column.scale, str) else "break points"
    else:
        values, scale = ", ".join(column.all_values), "steps" if column.ordered else "category"
    return values, column.unit or "", scale, "leaves the record out" if column.missing is None else str(column.missing)


def _toml_value(value: object) -> str:
    # TOML knows no pairs of escapes for one character, and one character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parsed(text: str, suffix: str) -> Any:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=unique_names)
    import tomllib

    return tomllib.loads(text)


def _written(column: Column) -> dict[str, Any]:
    plain = {}
    for item in fields(column):
        value = getattr(column, item.name)
        if value != item.default:
            plain[item.name] = list(value) if isinstance(value, tuple) else value
    return plain


def _read(name: str, column: Any) -> Column:
    if not isinstance(column, Mapping):
        return _number_of(name, column)
    given = dict(column)
    kind = given.pop("type", "category" if "values" in given else "number")
    if kind not in _KINDS:
        raise BoundsError(f"column {name!r}: type must be one of {', '.join(_KINDS)}.")
    known = [item.name for item in fields(_KINDS[kind])]
    if unknown := [item for item in given if item not in known]:
        raise BoundsError(f"column {name!r}: there is no {unknown[0]!r:.60}; known are {', '.join(known)}.")
    try:
        return _KINDS[kind](**given)
    except BoundsError as error:
        raise BoundsError(f"column {name!r}: {error}") from None
    except TypeError:
        needed = "low and high" if kind == "number" else "values"
        raise BoundsError(f"column {name!r}: give {needed}.") from None


def _number_of(name: str, pair: Any) -> Number:
    if isinstance(pair, str | bytes) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise BoundsError(f"column {name!r}: give a Number, a Category or a pair (low, high).")
    try:
        return Number(pair[0], pair[1])
    except BoundsError as error:
        raise BoundsError(f"column {name!r}: {error}") from None


def is_date(value: object) -> bool:
    """Whether somebody declared a date or a time of day where a number belongs.

    >>> is_date(date(2020, 1, 1)), is_date("2020-01-01"), is_date("31.12.2020"), is_date("2020"), is_date(0.5)
    (True, True, True, False, False)
    """
    if isinstance(value, str):
        return _DATE.match(value.strip()) is not None
    return isinstance(value, date | time | np.datetime64)


def _number(value: Any, name: str) -> float:
    if is_date(value):
        raise BoundsError(f"{name} is {str(value)!r:.60}: {NO_DATES}.")
    try:
        number = float("nan") if isinstance(value, str | bytes | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not np.isfinite(number):
        raise BoundsError(f"{name} is {value!r:.60}: give a finite number.")
    return number


def _weight(value: Any, most: float) -> float:
    weight = _number(value, "weight")
    if not 2.0**-20 <= weight <= most:
        raise BoundsError(
            f"weight is {weight:g}: give a number above 0 and at most {most:g}; lower that of others instead."
        )
    return weight


def _break_points(value: Any, low: float, high: float) -> tuple[float, ...]:
    if not isinstance(value, Sequence | np.ndarray) or not 0 < len(value) <= _MOST_BREAKS:
        raise BoundsError(f"scale: choose {', '.join(SCALES)}, or give up to {_MOST_BREAKS} break points.")
    points = tuple(_number(point, "a break point") for point in value)
    if not all(b - a > _LEAST_WIDTH * (high - low) for a, b in zip((low, *points), (*points, high), strict=True)):
        raise BoundsError("break points must rise from low to high, without these, in steps that can be told apart.")
    return points


def _keep_unit(column: Column) -> None:
    if column.unit is not None and (not isinstance(column.unit, str) or len(column.unit) > _LONGEST_TEXT):
        raise BoundsError('unit must be text, such as "years".')


def _text(value: Any) -> str:
    """A declared value as text: numbers as they are written, whole ones without a point, booleans in lower case."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, int | float | np.integer | np.floating):
        number = float(value)
        if not np.isfinite(number):
            raise BoundsError("a declared value must be text, a finite number or a boolean.")
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_TEXT:
        raise BoundsError(f"a declared value must be text of 1 to {_LONGEST_TEXT} characters, a number or a boolean.")
    return value.strip()


__all__ = ["Category", "Column", "Number", "Schema"]
