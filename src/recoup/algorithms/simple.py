"""What an algorithm of your own need not write itself: its JSON, a support that assumes nothing, the user's units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from recoup.domain import uniform_points
from recoup.queries.base import Array, FieldsAsJson
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round


class SimpleAlgorithm(FieldsAsJson, ABC):
    """A base for algorithms of your own, as frozen dataclasses.

    Say `type_name`, `next_request`, `estimate` and `refit`. Where the answer is not a point, or points, of the domain,
    say what it is `in_user_units`; where records lie in a small part of the domain, say where its `support` should be.
    One that cannot be refitted does without this base class: `Algorithm` says what it needs.
    """

    @property
    def pseudo_records(self) -> float:
        """How many records' worth of trust the base of the inferred measure has; 3 to 30 suit most algorithms."""
        return 10.0

    @abstractmethod
    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """The next query and its share of the budget, or none when the algorithm is done."""

    @abstractmethod
    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The algorithm's own answer from the rounds so far, in the unit domain."""

    @abstractmethod
    def refit(
        self, context: Context, rounds: Sequence[Round], points: Array, weights: Array, rng: np.random.Generator
    ) -> Array:
        """The answer on weighted points of the unit domain, without noise, shaped like `estimate`."""

    def support(self, context: Context, rounds: Sequence[Round], n_points: int, rng: np.random.Generator) -> Array:
        """Points spread evenly over the whole unit domain."""
        return uniform_points(context.domain, n_points, rng)

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """An answer that is a point, or points, of the unit domain, expressed in the user's units."""
        return context.domain.from_unit(answer)
