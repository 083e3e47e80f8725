"""An algorithm by its name alone, for code that the curator's process must not even import."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NoReturn

from recoup.algorithms.base import Algorithm
from recoup.errors import Argument, ParameterError

_PLACE: Final = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


@dataclass(frozen=True, slots=True)
class NamedAlgorithm(Algorithm):
    """Where an algorithm is found, and what it is made with, in the process that runs it."""

    module: str
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    type_name: ClassVar[str] = "named"

    def next_request(self, *_: object) -> NoReturn:
        """Refused: there is no code of it here."""
        raise ParameterError(
            f"{self.module}:{self.name} is an algorithm by name, which runs in a process of its own: leave out ",
            Argument("isolate"),
            ", and give the class itself for a served table.",
        )

    estimate = law = advice = to_json = next_request  # type: ignore[assignment]


def by_name(place: str, **parameters: Any) -> NamedAlgorithm:
    """An algorithm to release that this process never imports: a process of its own finds and makes it.

    Args:
        place: its module and class, such as "median:PrivateMedian".
        parameters: plain values that the class is called with.

    Returns:
        What `release` takes as an algorithm.

    Guarantees: no line of the module runs in this process. Queries that are not Recoup's add up records, so those would
    have to be registered, and thereby run, here.

    >>> by_name("median:PrivateMedian", n_rounds=8).module
    'median'
    """
    found = _PLACE.fullmatch(place) if isinstance(place, str) else None
    if found is None:
        raise ParameterError(f'{place!r:.80} is not a module and a class: write "module:Class".', parameter="place")
    return NamedAlgorithm(found[1], found[2], parameters)
