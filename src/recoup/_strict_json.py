"""JSON as it is meant: no name twice in an object, and no numbers that JSON does not have."""

from __future__ import annotations

from typing import Any


class TwiceError(ValueError):
    """A JSON object holds a name twice; its text is the name."""


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs, for `object_pairs_hook`; a name that stands twice is refused.

    >>> unique_names([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}
    """
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            raise TwiceError(name)
        value[name] = item
    return value


def no_constants(name: str) -> float:
    """Refuse NaN and infinities, for `parse_constant`."""
    raise ValueError(f"{name} is not JSON")
