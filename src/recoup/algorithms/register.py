"""Your own queries and algorithms, by name: what a program registers, its transcripts may be read back with.

A file still cannot name anything that the reading program has not registered itself.
"""

from __future__ import annotations

from typing import Any

from recoup.algorithms.registry import ALGORITHMS
from recoup.errors import ParameterError
from recoup.queries import QUERIES

_QUERY = ("sensitivity", "contribution", "integer_total", "to_json", "from_json")
_ALGORITHM = ("next_request", "estimate", "to_json", "from_json")


def register(*kinds: type) -> None:
    """Let transcripts name these classes of queries and algorithms, in this process.

    Args:
        kinds: classes that satisfy the Query or the Algorithm protocol, each with a `type_name` of its own.

    Guarantees: a name that another class has already is refused; registering a class twice changes nothing.

    >>> from recoup import KMeans
    >>> register(KMeans)
    """
    checked: list[tuple[dict[str, Any], str, type]] = []
    for kind in kinds:
        known: dict[str, Any] = ALGORITHMS if hasattr(kind, "next_request") else QUERIES
        name = getattr(kind, "type_name", None)
        if not isinstance(kind, type) or not (hasattr(kind, "contribution") or hasattr(kind, "next_request")):
            raise ParameterError(f"{kind!r} is neither a class of queries nor one of algorithms.")
        if not isinstance(name, str) or not name:
            raise ParameterError(f"{kind.__name__} has no type_name: give it one, for example 'my-median'.")
        same = known.get(name)
        if same is not None and same is not kind and not _defined_anew(same, kind):
            raise ParameterError(f"the name {name!r} is taken by {same.__qualname__}: choose another.")
        needed = _ALGORITHM if known is ALGORITHMS else _QUERY
        missing = [part for part in needed if not hasattr(kind, part)]
        if missing:
            raise ParameterError(f"{kind.__name__} has no {' and no '.join(missing)}: it could not be read back.")
        checked.append((known, name, kind))
    for known, name, kind in checked:
        known[name] = kind


def _defined_anew(earlier: type, kind: type) -> bool:
    # A notebook's cell that runs twice. Classes that a function makes share their name, whatever they do.
    where, names = (earlier.__module__, kind.__module__), (earlier.__qualname__, kind.__qualname__)
    return where[0] == where[1] and names[0] == names[1] and "<locals>" not in names[0]
