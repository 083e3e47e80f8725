"""How many records are left out because a cell is missing or undeclared: one round of two noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from recoup.algorithms.base import Algorithm, Rng, Rounds, last_of
from recoup.queries.base import Array
from recoup.queries.counts import HistogramQuery, Marginal
from recoup.transcript.context import Context, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class CountIncomplete(Algorithm):
    """Counts of records that are used and of those that are left out, in a domain that tells no more than that.

    Guarantees: one round, which takes the whole budget; a record, or a person, moves one of the two counts.

    >>> CountIncomplete().to_json()
    {'type': 'incomplete'}
    """

    type_name: ClassVar[str] = "incomplete"

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """Both counts at once; none after them."""
        if rounds:
            return None
        # A record lies at -1 if it is used, and at 0 if not: below the middle of the domain, or at it.
        halves = Marginal(columns=(0,), sides=(2,))
        query = HistogramQuery(dimension=context.domain.n_columns, marginals=(halves,))
        return Request(query=query, share=Fraction(1), split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """Both counts as they were released, (1, 2)."""
        return last_of(rounds).noisy.reshape(1, 2)

    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """The same counts: no data set that explains them knows better."""
        return self.estimate(context, rounds)

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """Counts, as they are."""
        return answer

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]] | None:
        """Records or persons, used and left out."""
        return ["records" if context.person is None else "persons"], ["used", "left out"]

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """One."""
        return 1, False
