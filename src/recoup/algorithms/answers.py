"""What the numbers of an answer are called: an algorithm may say so, and nothing is guessed from how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from recoup.domain import Domain
from recoup.queries.base import Array
from recoup.transcript.context import Context
from recoup.transcript.round import Round


class Labels(NamedTuple):
    """The names of an answer's rows and columns; an answer that is a vector has one column."""

    rows: list[str]
    columns: list[str]


class Weighted(NamedTuple):
    """Inferred data in the unit domain."""

    points: Array
    weights: Array


@runtime_checkable
class Labelled(Protocol):
    """An algorithm that names what it found."""

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]]:
        """The names of the rows and of the columns of its answer in the user's units."""


@runtime_checkable
class Noted(Protocol):
    """An algorithm whose answer needs a word beside it."""

    def answer_note(self, context: Context, rounds: Sequence[Round], answer: Array, data: Weighted | None) -> str:
        """What a reader of its answer has to know, from the rounds, or from the inferred data it was refitted on."""


def column_names(domain: Domain) -> list[str]:
    """A name for each column, also where the table has none.

    >>> from recoup.domain import Box
    >>> column_names(Box([0, 0], [1, 1]))
    ['column 0', 'column 1']
    """
    return list(domain.columns or (f"column {j}" for j in range(domain.n_columns)))
