"""What every algorithm is: a function from the transcript so far to the next query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from recoup.context import Context, Request
from recoup.queries.base import Array
from recoup.transcript import Round


@runtime_checkable
class Algorithm(Protocol):
    """The analyst's side of an iterative private algorithm: sees only rounds."""

    type_name: ClassVar[str]

    @property
    def n_clusters(self) -> int:
        """How many clusters its answer has."""

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """The next query and its share of the budget, or none when the algorithm is done."""

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The algorithm's own answer from the rounds so far, in the unit domain."""

    def to_json(self) -> dict[str, Any]:
        """The public description that a transcript carries."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an algorithm back from its description."""
