"""Classes as they lie in memory: what they derive from, define and are called, read without running code of theirs.

Comparing, hashing, printing or looking something up may run it: a metaclass, a key or a name with methods of its own is
enough. So types are compared by identity, texts must be exactly that, and namespaces are searched key by key.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Iterable, Mapping
from enum import EnumMeta
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from recoup.algorithms.base import REQUIRED, Algorithm
from recoup.errors import Argument, IsolationError

_MRO: Any = type.__dict__["__mro__"]
_NAMESPACE: Any = type.__dict__["__dict__"]
_METACLASSES = (type, ABCMeta, EnumMeta)


def refusal(name: str, what: str) -> IsolationError:
    """What cannot be handed on as it is."""
    return IsolationError(
        f"{name} {what}, which cannot be handed to the process that keeps the algorithm away from the records: give "
        "plain values, or, if you would show it the records, release with ",
        Argument("isolate", "False"),
        ".",
    )


def one_of(kind: object, kinds: Iterable[object]) -> bool:
    """Whether it is one of these, itself: `in` would ask it."""
    return any(kind is other for other in kinds)


def bases_of(kind: type, name: str) -> list[type]:
    """A class and what it derives from; refused where one of them has a metaclass of its own."""
    bases = list(_MRO.__get__(kind))
    if not all(one_of(type(base), _METACLASSES) for base in bases):
        raise refusal(name, "is of a class with a metaclass")
    return bases


def namespace(kind: type, name: str) -> Mapping[str, Any]:
    """What a class itself defines; refused where a name in it is not plain text."""
    names: Mapping[str, Any] = _NAMESPACE.__get__(kind)
    if not all(type(key) is str for key in names):
        raise refusal(name, "is of a class with names that are not plain text")
    return names


def derives(kind: type, *bases: type) -> bool:
    """Whether a class derives from one of these, by its memory and not by what anybody says of it."""
    return any(one_of(base, bases) for base in _MRO.__get__(kind))


def is_algorithm(kind: type) -> bool:
    """What `issubclass` says of an algorithm: it derives from one, or defines all that has no default."""
    bases = bases_of(kind, "the algorithm")
    if one_of(Algorithm, bases):
        return True
    defined = [namespace(base, "the algorithm") for base in bases]
    return all(any(part in names for names in defined) for part in REQUIRED)


def place_of(kind: Any) -> tuple[str, str]:
    """The module and the name that a class or function gives; texts, or refused."""
    if one_of(type(kind), _METACLASSES):
        bases_of(kind, "a value")
        namespace(kind, "a value")
    elif type(kind) is BuiltinFunctionType:
        # One that belongs to an object is called after that object's class, which may have a say in it.
        if not one_of(type(kind.__self__), (ModuleType, type(None))):
            raise refusal("a value", "is a method of an object")
    elif type(kind) is not FunctionType:
        raise refusal("a value", "is neither a class nor a function")
    place: tuple[str, str] = (kind.__module__, kind.__qualname__)
    if not all(type(part) is str for part in place):
        raise refusal("a value", "has a name that is not plain text")
    return place


def found_at(module: str, name: str) -> object:
    """What stands under this name in a module that is loaded; none where that is nothing, or not a plain module."""
    found: Any = _entry(sys.modules, module)
    for part in name.split("."):
        if type(found) is ModuleType:
            found = _entry(found.__dict__, part)
        elif one_of(type(found), _METACLASSES):
            found = _entry(_NAMESPACE.__get__(found), part)
        else:
            return None
    return found


def _entry(names: Mapping[str, Any], wanted: str) -> Any:
    # Not by a lookup, in which a key beside it may be asked whether it is the same.
    return next((found for key, found in list(names.items()) if type(key) is str and key == wanted), None)
