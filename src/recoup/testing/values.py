"""What queries and algorithms have in common: they are frozen values with a JSON and a registered name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from recoup.testing.report import Broken

_MUTABLE = (list, dict, set, bytearray)


def check_protocol(value: object, names: tuple[str, ...], kind: str) -> None:
    """Every name that Recoup uses must be there."""
    missing = [name for name in names if not hasattr(value, name)]
    if missing:
        raise Broken(
            f"{type(value).__name__} has no {', '.join(missing)}, so it is no {kind}. Add what is missing; a base "
            f"class in recoup.custom (Simple{kind.capitalize()}) brings most of it."
        )
    if not isinstance(value.type_name, str) or not value.type_name:  # type: ignore[attr-defined]
        raise Broken("type_name must be a text, the name under which transcripts know the class, such as 'my-median'.")


def check_frozen(value: object) -> None:
    """Nothing in the value can be set or changed."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise Broken(f"{type(value).__name__} is not frozen. Write @dataclass(frozen=True) above the class.")
    held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
    held |= getattr(value, "__dict__", {})
    for name, item in held.items():
        if isinstance(item, np.ndarray) and item.flags.writeable:
            raise Broken(
                f"the array {name!r} can be written to, so the value can change after it was asked. Keep a copy with "
                "setflags(write=False), or derive from a base class in recoup.custom, which does it."
            )
        if isinstance(item, _MUTABLE):
            raise Broken(
                f"{name!r} is a {type(item).__name__}, in which state can hide between calls. Use a tuple or an array."
            )


def read_back(value: Any, registry: Mapping[str, type], read: Callable[[Any], Any]) -> Any:
    """The value as another process would read it from a file; by its own class if the name is not registered."""
    written = json.loads(json.dumps(value.to_json(), allow_nan=False))
    return (read if is_registered(value, registry) else type(value).from_json)(written)


def is_registered(value: Any, registry: Mapping[str, type]) -> bool:
    """Whether files may name its class."""
    return registry.get(value.type_name) is type(value)


def check_json(value: Any, registry: Mapping[str, type], read: Callable[[Any], Any]) -> None:
    """The value's description is JSON, names its type, and is read back as the same."""
    try:
        written = json.loads(json.dumps(value.to_json(), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise Broken(
            f"to_json gives something that is not JSON ({error}). Write arrays with .tolist() and numbers as int or "
            "float, and let them be finite."
        ) from None
    if not isinstance(written, dict) or written.get("type") != value.type_name:
        raise Broken(f'to_json must give a dict with "type": {value.type_name!r}, by which it is read back.')
    name = type(value).__name__
    if not is_registered(value, registry):
        taken = registry.get(value.type_name)
        why = "is not registered" if taken is None else f"has a type_name that is taken by {taken.__qualname__}"
        raise Broken(
            f"{name} {why}, so its transcripts cannot be read. Call recoup.register({name}) below the class, in every "
            "program that reads them."
        )
    again = read(written)
    if json.loads(json.dumps(again.to_json())) != written:
        raise Broken("what from_json reads back has another to_json: a field is lost or changed on the way.")
