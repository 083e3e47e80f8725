"""What every algorithm is: a function from the transcript so far to the next query.

To be refitted on an inferred data set it also says where such data may lie and what it would have answered without
noise. An algorithm that cannot say so can still be released, and its transcript read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from recoup.queries.base import Array
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round


@runtime_checkable
class Algorithm(Protocol):
    """The analyst's side of an iterative private algorithm: is handed only rounds."""

    type_name: ClassVar[str]

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """The next query and its share of the budget, or none when the algorithm is done."""

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The algorithm's own answer from the rounds so far, in the unit domain."""

    def to_json(self) -> dict[str, Any]:
        """The public description that a transcript carries."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an algorithm back from its description."""


@runtime_checkable
class Clustering(Algorithm, Protocol):
    """An algorithm whose answer is centres: it is refitted by weighted k-means."""

    @property
    def n_clusters(self) -> int:
        """How many clusters its answer has."""


@runtime_checkable
class Settling(Algorithm, Protocol):
    """An algorithm whose last rounds measure the same centres again and again until they settle."""

    def settling(self, context: Context, rounds: Sequence[Round]) -> int:
        """How many of these rounds, the last ones, do so: they correct what is inferred from the others."""


@runtime_checkable
class Guarded(Algorithm, Protocol):
    """An algorithm that knows where its released values are too weak to infer from."""

    def declines(self, context: Context, rounds: Sequence[Round]) -> str | None:
        """Why not to infer, in one sentence that depends on released values alone; none where nothing is against it."""


@runtime_checkable
class Refittable(Algorithm, Protocol):
    """An algorithm with a noiseless twin that runs on weighted points."""

    @property
    def pseudo_records(self) -> float:
        """How many records' worth of trust the base of the inferred measure has: the strength of the entropy."""

    def support(self, context: Context, rounds: Sequence[Round], n_points: int, rng: np.random.Generator) -> Array:
        """Points of the unit domain where records may lie, (n_points, d), from released values alone."""

    def refit(
        self, context: Context, rounds: Sequence[Round], points: Array, weights: Array, rng: np.random.Generator
    ) -> Array:
        """The answer on weighted points of the unit domain, without noise, shaped like `estimate`."""

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """An answer of the unit domain, expressed in the user's units."""


@runtime_checkable
class Approximate(Refittable, Protocol):
    """An algorithm whose answers a few thousand points cannot be expected to give exactly, however small the noise."""

    def slack(self, context: Context, total: float) -> float:
        """The error of an answer that is put down to the support, as a standard deviation beside that of the noise."""
