"""What every algorithm is: a function from the transcript so far to the next query, and what it says of its answer.

Everything but the next query and its own estimate has a default, so that an algorithm of your own may leave it out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

from recoup._random import Rng as Rng
from recoup._validate import whole_number
from recoup.domain import Domain, uniform_points
from recoup.errors import ParameterError
from recoup.maxent.consistency import Rounds as Rounds
from recoup.maxent.measure import total_of
from recoup.maxent.sizes import WeightedPoints
from recoup.maxent.support import drawn_support
from recoup.queries.base import Array, FieldsAsJson
from recoup.transcript.context import Context, Law, Request
from recoup.transcript.round import Round

REQUIRED = ("type_name", "next_request", "estimate", "to_json", "from_json")
_LONGEST_NAME = 200


class Algorithm(ABC):
    """The analyst's side of an iterative private algorithm, as a frozen dataclass: is handed only rounds."""

    __slots__ = ()

    type_name: ClassVar[str]  # by which transcripts know it
    has_centers: ClassVar[bool] = False  # whether its answer is centres of clusters, refittable for any number of them
    has_label: ClassVar[bool] = False  # whether the last column of the domain is a label, which the others are to tell
    support_points: ClassVar[int] = 10_000  # of inferred data, where nobody asks for another number

    @classmethod
    def __subclasshook__(cls, kind: type) -> Any:
        """A class that says all that cannot have a default is an algorithm, whatever it derives from."""
        return (cls is Algorithm and all(hasattr(kind, name) for name in REQUIRED)) or NotImplemented

    @abstractmethod
    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """The next query and its share of the budget, or none when the algorithm is done."""

    @abstractmethod
    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The algorithm's own answer from the rounds so far, in the unit domain."""

    def without_inference(self, context: Context, rounds: Rounds) -> Array | None:
        """What a reader who infers nothing would take for the answer, to compare with; none where there is nothing."""
        return self.estimate(context, rounds)

    def to_json(self) -> dict[str, Any]:
        """The public description that a transcript carries."""
        return {"type": self.type_name} | {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an algorithm back from its description."""
        return cls(**{field.name: value[field.name] for field in fields(cls)})  # type: ignore[arg-type]

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """How many rounds there will be, None if that is not known; and whether that is only the maximum."""
        return None, False

    @classmethod
    def law(cls, domain: Domain, delta: Fraction) -> Law:
        """The law of noise that suits it best: Gaussian where a delta allows it, unless it knows better."""
        return "gaussian" if delta else "laplace"

    def advice(self, context: Context) -> str | None:
        """What to change in the terms before anything is spent, in words; none where they are fine."""
        return None

    def settling(self, context: Context, rounds: Rounds) -> int:
        """How many of these rounds, the last ones, measured the same centres again: they correct what is inferred."""
        return 0

    def declines(self, context: Context, rounds: Rounds) -> str | None:
        """Why not to infer, in one sentence that depends only on released values; None if nothing is wrong."""
        return None

    @property
    def pseudo_records(self) -> float:
        """How many records' worth of trust the base of the inferred measure has; 3 to 30 suit most algorithms."""
        return 10.0

    def slack(self, context: Context, total: float) -> float:
        """The error of an answer that is put down to the support, as a standard deviation beside that of the noise."""
        return 0.0

    def support(self, context: Context, rounds: Rounds, n_points: int, rng: Rng) -> Array:
        """Points of the unit domain where records may lie, (n_points, d), from released values alone."""
        return drawn_support(context, rounds, n_points, rng, total=total_of(context, rounds))

    @property
    def can_refit(self) -> bool:
        """Whether it knows its answer on weighted points."""
        return type(self).refit is not Algorithm.refit

    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """The answer on weighted points of the unit domain, without noise, shaped like `estimate`."""
        raise ParameterError(f"{self.type_name} has no refit: use the inferred data set itself.")

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """An answer of the unit domain, expressed in the user's units."""
        return answer

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]] | None:
        """The names of the rows and of the columns of its answer in the user's units; none for numbers."""
        return None

    def answer_note(self, context: Context, rounds: Rounds, answer: Array, data: WeightedPoints | None) -> str:
        """What a reader of its answer must know, from the rounds, or from the inferred data it was refitted on."""
        return ""


class SimpleAlgorithm(FieldsAsJson, Algorithm):
    """A base for algorithms of your own, as frozen dataclasses.

    Define `type_name`, `next_request`, `estimate` and `refit`. Where the answer is not a point, or points, of the
    domain, also define `in_user_units`; where records lie in a small part of the domain, define `support`. An algorithm
    that cannot be refitted does not use this base class: `Algorithm` says what it needs.
    """

    @abstractmethod
    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """The answer on weighted points of the unit domain, without noise, shaped like `estimate`."""

    def support(self, context: Context, rounds: Rounds, n_points: int, rng: Rng) -> Array:
        """Points spread evenly over the whole unit domain."""
        return uniform_points(context.domain, n_points, rng)

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """An answer that is a point, or points, of the unit domain, expressed in the user's units."""
        return context.domain.from_unit(answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedAlgorithm(Algorithm):
    """The author of answers that were made elsewhere, by name: they can be inferred from, no more."""

    name: str = "an algorithm that ran elsewhere"

    type_name: ClassVar[str] = "elsewhere"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _LONGEST_NAME:
            raise ParameterError(f"the name of an algorithm must be text of at most {_LONGEST_NAME} characters.")

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """Refused: nobody here knows what it would ask."""
        raise ParameterError(f"{self.name} ran elsewhere: nothing can be released by it here.")

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """Refused: nobody here knows what it would make of its answers."""
        raise ParameterError(f"{self.name} ran elsewhere and has no answer here: use the inferred data set itself.")


def whole_fields(algorithm: Algorithm) -> None:
    """Check that every field of an algorithm that is an int is a whole number of at least 1, and keep it as one."""
    for field in fields(algorithm):  # type: ignore[arg-type]
        if field.type in (int, "int"):
            object.__setattr__(algorithm, field.name, whole_number(getattr(algorithm, field.name), field.name))


def last_of(rounds: Rounds) -> Round:
    """The last round; refused where there is none to answer from."""
    if not rounds:
        raise ParameterError("there is no answer before the first round.")
    return rounds[-1]


def column_names(domain: Domain) -> list[str]:
    """A name for each column, also where the table has none."""
    return list(domain.columns or (f"column {j}" for j in range(domain.n_columns)))
