"""A run in a file: the options of a command as TOML or JSON, below what is typed on the command line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from recoup.cli.settings import SUFFIXES, Written, read_settings
from recoup.errors import ParameterError

_NOT_IN_A_FILE = ("config", "help")


def _use(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None and not context.resilient_parsing:
        context.default_map = read_config(path, context.command.params)
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Read options from this TOML or JSON file; what is typed goes before.",
        metavar="FILE",
        callback=_use,
        is_eager=True,
        show_default=False,
    ),
]


def read_config(path: Path, parameters: list[Any]) -> dict[str, Any]:
    """Read the options of a command from a file.

    Args:
        path: a TOML or JSON file; its names are those of options without dashes in front, and of arguments.
        parameters: of the command.

    Returns:
        Values by the names of parameters, as they would be typed.

    Raises:
        ParameterError: the file cannot be read, holds an unknown name, or a value of the wrong kind; it names it.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ParameterError(f"the config file {str(path)!r} must end in .toml or .json.")
    value = read_settings(path, what="config file", exact=True)
    if not isinstance(value, Mapping):
        raise ParameterError(f"the config file {str(path)!r} must hold names and values.")
    known = {key_of(parameter): parameter for parameter in parameters}
    known = {key: parameter for key, parameter in known.items() if key not in _NOT_IN_A_FILE}
    options: dict[str, Any] = {}
    for name, item in value.items():
        key = name.replace("_", "-")
        if key not in known:
            raise ParameterError(_unknown(path, name, list(known)))
        parameter = known[key]
        if parameter.name in options:
            raise ParameterError(f"the config file {str(path)!r} names {key!r} twice: declare it once.")
        is_switch = getattr(parameter, "is_flag", False)
        if getattr(parameter, "nargs", 1) == -1:  # one or several of the same kind
            items = item if isinstance(item, list) and item else [item]
            options[parameter.name] = [_typed(path, name, key, each, is_switch=is_switch) for each in items]
        else:
            options[parameter.name] = _typed(path, name, key, item, is_switch=is_switch)
    return options


def key_of(parameter: Any) -> str:
    """The name of a parameter in a config file: its long option without dashes, or its argument's name."""
    long = [option for option in parameter.opts if option.startswith("--")]
    return str(long[0].removeprefix("--") if long else parameter.name).replace("_", "-")


def _typed(path: Path, name: str, key: str, item: Any, *, is_switch: bool) -> Any:
    where = f"{name!r} in the config file {str(path)!r}"
    if is_switch or isinstance(item, bool):
        if not is_switch or not isinstance(item, bool):
            raise ParameterError(f"{where} must be {'true or false' if is_switch else 'a number or text'}.")
        return item
    if key == "bounds" and isinstance(item, Mapping):
        try:
            return json.dumps(_numbers(item), default=str)
        except RecursionError:
            raise ParameterError(f"{where} nests too deeply.") from None
    if not isinstance(item, str | int):
        raise ParameterError(f"{where} must be a number or text.")
    return str(item)


def _numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if isinstance(value, Written) else value


def _unknown(path: Path, name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.replace("_", "-"), known, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return f"the config file {str(path)!r} has an unknown name {name!r}.{meant} Known are {', '.join(known)}."
