"""What people write by hand: bounds, and configurations of a run; TOML or JSON, each name once.

Bounds have three forms: inline text, a file of pairs, and a schema with one table per column, which alone says more
than bounds (`recoup.schema` reads what it says). Only what people wrote is read, never a record; so a file of another
ending is not even opened.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer

from recoup._files import TwiceError, unique_names
from recoup.cli.tables import with_unit
from recoup.errors import BoundsError, MissingBoundsError, ParameterError

if TYPE_CHECKING:
    from recoup.schema import Schema

_SUFFIXES = (".toml", ".json")
_LARGEST_FILE = 4 << 20  # bytes: thousands of columns
_MOST_DOTS = 10_000  # in a line

_FORM = "age=17:90,hours=1:99"
_PLAIN, _MORE = ("type", "unit", "low", "high"), ("scale", "missing", "weight")
_USED, _LEFT_OUT = ("number", "integer", "boolean", "category"), ("text", "date")


# ---- a file ----
class _Decimal(float):
    """A decimal that keeps how it was written: 0.1 is one tenth, not the float next to it."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _read_file(path: Path, what: str, error: type[ParameterError]) -> Any:
    """What a TOML or JSON file holds, which may be of any kind."""
    what = f"{what} {str(path)!r}"
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise error(f"the {what} is larger than {_LARGEST_FILE >> 20} MB: it is another file.")
        text: str | None = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error(f"the {what} is not there.") from None
    except OSError as refused:  # which decides on the exit code
        raise error(f"the {what} cannot be read: {refused.strerror}.") from None
    except UnicodeDecodeError:
        text = None
    if text is None:
        # Not in the handler, where the error would keep the one that it replaces, and with it the whole file.
        raise error(f"the {what} is not a text file.")
    return _read_text(text, path.suffix.lower(), what, error)


def _read_text(text: str, suffix: str, what: str, error: type[ParameterError]) -> Any:
    try:
        if suffix == ".json":
            return json.loads(text, object_pairs_hook=unique_names, parse_float=_Decimal)
        import tomllib

        # The parser takes time by the square of the parts of a dotted name.
        if max(line.count(".") for line in text.split("\n")) > _MOST_DOTS:
            raise ValueError("a line holds too many dots")
        return tomllib.loads(text, parse_float=_Decimal)
    except TwiceError as twice:
        problem = f"names {str(twice)!r} twice: declare it once"
    except (ValueError, RecursionError) as malformed:
        problem = f"is not {suffix[1:].upper()}: {malformed}"
    raise error(f"the {what} {problem}.")


# ---- bounds ----
class Declared(NamedTuple):
    """The columns to use, in the order given.

    Attributes:
        bounds: of each column of numbers.
        units: of those that have one.
        fields: what a schema says of each, as JSON.
        is_plain: whether that is bounds and units, and nothing else.
    """

    bounds: dict[str, tuple[float, float]]
    units: dict[str, str]
    fields: dict[str, Any]
    is_plain: bool = True

    def for_domain(self, name: str) -> dict[str, tuple[float, float]] | Schema:
        """The bounds as an estimator takes them: a schema where more than bounds was declared.

        A ball is of bounds alone, so that units are for the table's header there.
        """
        if self.is_plain and (not self.units or name not in ("auto", "box")):
            return self.bounds
        from recoup.schema import Schema

        return Schema.from_json(self.fields)

    def header(self) -> list[str]:
        """The columns' names with their units; a name that ends with its unit is left as it is."""
        return [with_unit(name, self.units.get(name)) for name in self.bounds]


def read_columns(text: str | None) -> Declared:
    """Read what was given as bounds; whether low is below high is the domain's to check.

    They are `age=17:90,hours=1:99`; or the path of a TOML or JSON file that holds `age = [17, 90]`, or a table
    `[columns.age]` with `low`, `high`, and optionally `unit`, `type`, `scale`, `missing` and `weight`, or with the
    `values` of a category; or such JSON itself.
    """
    if text is None or not text.strip():
        raise MissingBoundsError(
            "no bounds were declared. Give the smallest and largest possible value of each column from public "
            f"knowledge, such as --bounds {_FORM}; do not compute them from the data, that would leak it."
        )
    if text.lstrip().startswith("{"):
        return _bounds_of_value(_read_text(text, ".json", "bounds", BoundsError), "the bounds")
    if "=" in text and not text.lower().endswith(_SUFFIXES):
        return _bounds_of_text(text)
    path = Path(text)
    if path.suffix.lower() not in _SUFFIXES:
        raise BoundsError(f"bounds {text!r} are neither of the form {_FORM} nor a .toml or .json file.")
    if not os.path.exists(text):  # unlike the method of a path, for any text
        raise BoundsError(f"bounds {text!r}: there is no such file, and it is not of the form {_FORM} either.")
    return _bounds_of_value(_read_file(path, "bounds file", BoundsError), f"the bounds file {text!r}")


def _bounds_of_text(text: str) -> Declared:
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
            wrong = f"bounds of {name!r}: {ends.strip()!r} is not low:high in numbers"
            raise BoundsError(f"{wrong}{_hint(low, high)}.") from None
    return Declared(bounds, {}, {name: list(ends) for name, ends in bounds.items()})


def _bounds_of_value(value: Any, where: str) -> Declared:
    if isinstance(value, Mapping) and set(value) == {"columns"} and isinstance(value["columns"], Mapping):
        value = value["columns"]
    if not isinstance(value, Mapping):
        raise BoundsError(f'{where} must hold one object, of the form {{"age": [17, 90]}}.')
    declared = Declared({}, {}, {})
    for name, column in value.items():
        _check_name(name)
        _add_column(declared, name, column)
    if not declared.fields:
        raise MissingBoundsError(f"{where} declares no column of numbers or categories: give at least one.")
    plain = all({"low", "high", "unit"}.issuperset(column) for column in declared.fields.values())
    declared = declared._replace(is_plain=plain)
    if not plain:
        declared.for_domain("auto")  # what is wrong with it is said before anything else is done
    return declared


def _hint(*ends: object) -> str:
    """What to do about ends that are no numbers, where that can be told."""
    from recoup.schema import NO_DATES, is_date

    return f"; {NO_DATES}" if any(map(is_date, ends)) else ""


def _check_name(name: str) -> None:
    """Refuse what no file could hold, before anything is spent."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise BoundsError(f"bounds of {name!r}: the name holds bytes that are not text.") from None


def _add_column(declared: Declared, name: str, column: Any) -> None:
    """Add a column that is a pair of numbers, or a table of fields."""

    def refused(why: str) -> BoundsError:
        return BoundsError(f"bounds of {name!r}: {why}")

    kind, unit, ends, more = "number", None, column, {}
    if isinstance(column, Mapping):
        kind, unit = column.get("type", "category" if "values" in column else "number"), column.get("unit")
        if kind not in _USED + _LEFT_OUT:
            raise refused(f"type must be one of {', '.join(_USED + _LEFT_OUT)}.")
        if kind == "category":
            declared.fields[name] = dict(column) | {"type": kind}
            return
        if unknown := [field for field in column if field not in _PLAIN + _MORE]:
            raise refused(f"there is no {unknown[0]!r}; known are {', '.join(_PLAIN + _MORE)}.")
        more = {field: column[field] for field in ("unit", *_MORE) if field in column}
        if unit is not None and not isinstance(unit, str):
            raise refused('unit must be text, such as "years".')
        if kind in _LEFT_OUT:
            if "low" in column or "high" in column:
                hint = _hint(column.get("low"), column.get("high"))
                raise refused(f"a column of type {kind} is left out and has no bounds{hint}.")
            return
        given = ({"low": 0, "high": 1} if kind == "boolean" else {}) | dict(column)
        if "low" not in given or "high" not in given:
            raise refused("give both low and high.")
        ends = [given["low"], given["high"]]
    numbers = isinstance(ends, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in ends)
    if not isinstance(ends, list) or len(ends) != 2 or not numbers:
        raise refused(f"give a pair of numbers, [low, high]{_hint(*(ends if isinstance(ends, list) else [ends]))}.")
    try:
        low, high = map(float, ends)
    except OverflowError:
        raise refused("both must be finite.") from None
    if kind == "integer" and not (low.is_integer() and high.is_integer()):
        raise refused("those of an integer must be whole numbers.")
    declared.bounds[name] = low, high
    declared.fields[name] = {"low": low, "high": high} | more
    if unit:
        declared.units[name] = unit


# ---- a run in a file, below what is typed on the command line ----
def _use(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None and not context.resilient_parsing:
        context.default_map = read_config(path, context.command.params)
    return path


_CONFIG_HELP = "Read options from this TOML or JSON file; what is typed goes before."
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help=_CONFIG_HELP, metavar="FILE", callback=_use, is_eager=True)
]


def read_config(path: Path, parameters: list[Any]) -> dict[str, Any]:
    """Read the options of a command from a file, as values by the names of its parameters, as they would be typed."""
    what = f"the config file {str(path)!r}"
    if path.suffix.lower() not in _SUFFIXES:
        raise ParameterError(f"{what} must end in .toml or .json.")
    value = _read_file(path, "config file", ParameterError)
    if not isinstance(value, Mapping):
        raise ParameterError(f"{what} must hold names and values.")
    known = {key: parameter for parameter in parameters if (key := key_of(parameter)) not in ("config", "help")}
    options: dict[str, Any] = {}
    for name, item in value.items():
        key = name.replace("_", "-")
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise ParameterError(f"{what} has an unknown name {name!r}.{meant} Known are {', '.join(known)}.")
        parameter = known[key]
        if parameter.name in options:
            raise ParameterError(f"{what} names {key!r} twice: declare it once.")
        several = getattr(parameter, "nargs", 1) == -1  # of the same kind
        items = item if several and isinstance(item, list) and item else [item]
        is_switch = getattr(parameter, "is_flag", False)
        typed = [_as_typed(f"{name!r} in {what}", key, each, is_switch=is_switch) for each in items]
        options[parameter.name] = typed if several else typed[0]
    return options


def key_of(parameter: Any) -> str:
    """The name of a parameter in a config file: its long option without dashes, or its argument's name."""
    long = [option for option in parameter.opts if option.startswith("--")]
    return str(long[0].removeprefix("--") if long else parameter.name).replace("_", "-")


def _as_typed(where: str, key: str, item: Any, *, is_switch: bool) -> Any:
    if is_switch or isinstance(item, bool):
        if not is_switch or not isinstance(item, bool):
            raise ParameterError(f"{where} must be {'true or false' if is_switch else 'a number or text'}.")
        return item
    if key == "bounds" and isinstance(item, Mapping):
        try:
            return json.dumps(item, default=str)
        except RecursionError:
            raise ParameterError(f"{where} nests too deeply.") from None
    if not isinstance(item, str | int | _Decimal):
        raise ParameterError(f"{where} must be a number or text.")
    return item.text if isinstance(item, _Decimal) else str(item)
