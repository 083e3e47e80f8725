"""An algorithm as plain values, so that it can be built again elsewhere without running any of its code here.

Pickling an object, or asking it for its JSON, runs its methods, and those could walk the stack to the records. So its
class is named by where it is found, and its fields are copied as they lie in memory.
"""

from __future__ import annotations

import importlib
from abc import ABCMeta
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple

import numpy as np

from recoup.errors import Argument, IsolationError
from recoup.isolation.bare import bases_of, derives, found_at, namespace, one_of, place_of, refusal
from recoup.isolation.named import NamedAlgorithm

_PLAIN = (type(None), bool, int, float, complex, str, bytes, Decimal)
# By themselves: any class can say that its module is numpy.
_NUMBERS = tuple({*np.sctypeDict.values()} - {np.void, np.object_})
_ENUM_FIELDS: Any = Enum.__dict__["__dict__"]
_DEEPEST = 50  # fields within fields


class Place(NamedTuple):
    """Where a class or a function is found."""

    module: str
    name: str

    def find(self) -> Any:
        """Import it."""
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found


class Carried(NamedTuple):
    """An object by its class and its fields; of a tuple with names its items, of an enumeration its member's name."""

    kind: Place
    state: Any


class Called(NamedTuple):
    """An object that is made where it is needed, by calling its class."""

    kind: Place
    parameters: Any


class Kept(NamedTuple):
    """An array that nobody may write to."""

    array: Any


def placed(kind: Any) -> Place:
    """Where another process finds a class or function; refused where it would find none, or another."""
    place = Place(*place_of(kind))
    if place.module == "__main__" or found_at(place.module, place.name) is not kind:
        where = "a script or notebook" if place.module == "__main__" else "a function, or under another name"
        raise IsolationError(
            f"{place.name} is defined in {where}, where the process that keeps it away from the records cannot find "
            "it: put it into a module that can be imported, or, if you would show it the records, release with ",
            Argument("isolate", "False"),
            ".",
        )
    return place


def carried(algorithm: object) -> Carried | Called:
    """An algorithm as plain values; no method of it is called."""
    if type(algorithm) is NamedAlgorithm:
        place = Place(algorithm.module, algorithm.name)
        if type(place.module) is not str or type(place.name) is not str or type(algorithm.parameters) is not dict:
            raise refusal("the algorithm", "was not made by recoup.custom.by_name")
        return Called(place, _plain(algorithm.parameters, "a parameter", 0))
    return _object(algorithm, "the algorithm", 0)


def _object(value: Any, name: str, depth: int) -> Carried:
    kind = type(value)
    state: dict[str, Any] = {}
    for base in reversed(bases_of(kind, name)):
        for field, found in namespace(base, name).items():
            if not one_of(type(found), (MemberDescriptorType, GetSetDescriptorType)) or found.__objclass__ is not base:
                continue
            if type(found) is MemberDescriptorType:
                # Of a class that is not written in Python they are no fields.
                if place_of(base)[0] != "builtins":
                    with suppress(AttributeError):  # a slot that was never filled
                        state[field] = found.__get__(value)
            elif found.__name__ == "__dict__":
                state |= _named_fields(found.__get__(value), name)
    return Carried(placed(kind), {field: _plain(item, field, depth + 1) for field, item in state.items()})


def _named_fields(fields: Any, name: str) -> dict[str, Any]:
    if type(fields) is not dict or not all(type(field) is str for field in fields):
        raise refusal(name, "has fields that do not lie in a plain dict under plain names")
    return fields


def _plain(value: Any, name: str, depth: int) -> Any:
    kind = type(value)
    if depth > _DEEPEST:
        raise refusal(name, "nests too deeply")
    if one_of(kind, _PLAIN) or one_of(kind, _NUMBERS):
        return value
    if kind is Fraction:
        if type(value._numerator) is not int or type(value._denominator) is not int:
            raise refusal(name, "is a fraction of something else than whole numbers")
        return value
    if kind is np.ndarray:
        # Records, objects and what is attached to a dtype would be asked how to be written.
        if not one_of(value.dtype.type, _NUMBERS) or value.dtype.metadata is not None:
            raise refusal(name, "is an array of objects, or of no type of numpy's own")
        return value if value.flags.writeable else Kept(value)
    if one_of(kind, (tuple, list, set, frozenset)):
        return kind(_plain(item, name, depth + 1) for item in value)
    if kind is dict:
        return {_plain(key, name, depth + 1): _plain(item, name, depth + 1) for key, item in value.items()}
    if one_of(kind, (FunctionType, BuiltinFunctionType, type, ABCMeta)):
        return placed(value)
    bases_of(kind, name)
    if derives(kind, Enum):
        fields = _named_fields(_ENUM_FIELDS.__get__(value), name)
        return Carried(placed(kind), _plain(fields.get("_name_"), name, depth + 1))
    if derives(kind, tuple):
        return Carried(placed(kind), tuple(_plain(item, name, depth + 1) for item in tuple.__iter__(value)))
    if derives(kind, dict, list, set, frozenset, np.ndarray, np.generic, Fraction, *_PLAIN[1:]):
        raise refusal(name, "is of a class that derives from a plain one")
    return _object(value, name, depth)


def restored(value: Any) -> Any:
    """The object again, where its code may run; no constructor is called."""
    if type(value) is Carried:
        kind = value.kind.find()
        if isinstance(value.state, str):
            return kind[value.state]
        if isinstance(value.state, tuple):
            return tuple.__new__(kind, map(restored, value.state))
        made = object.__new__(kind)
        for field, item in value.state.items():
            object.__setattr__(made, field, restored(item))
        return made
    if type(value) is Called:
        return value.kind.find()(**restored(value.parameters))
    if type(value) is Place:
        return value.find()
    if type(value) is Kept:
        value.array.setflags(write=False)
        return value.array
    if isinstance(value, Mapping):
        return {restored(key): restored(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return type(value)(map(restored, value))
    return value
