"""An algorithm that ran somewhere else and of which only the answers are here: they can be inferred from, no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from recoup.errors import ParameterError
from recoup.queries.base import Array
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedAlgorithm:
    """The author of answers that were made elsewhere, by name.

    Args:
        name: what it is called where its answers are shown.

    >>> ImportedAlgorithm(name="histograms of the survey").to_json()
    {'type': 'elsewhere', 'name': 'histograms of the survey'}
    """

    name: str = "an algorithm that ran elsewhere"

    type_name: ClassVar[str] = "elsewhere"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _LONGEST_NAME:
            raise ParameterError(f"the name of an algorithm must be text of at most {_LONGEST_NAME} characters.")

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """Refused: nobody here knows what it would ask."""
        raise ParameterError(f"{self.name} ran elsewhere: nothing can be released by it here.")

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """Refused: nobody here knows what it would make of its answers."""
        raise ParameterError(
            f"{self.name} ran elsewhere and has no answer of its own here: use the inferred data set itself."
        )

    def to_json(self) -> dict[str, Any]:
        """The public description that a transcript carries."""
        return {"type": self.type_name, "name": self.name}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an algorithm back from its description."""
        return cls(name=value["name"])
