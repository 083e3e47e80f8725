"""Whose presence a price hides, and what a price for few records is worth for more of them.

A price holds for tables that differ by what one person holds. Prices for different units are not alike and must not be
added. Upward they can be converted: whoever holds k times as many records is k steps away instead of one, and after k
steps a pure epsilon is k epsilon, and a rho of zCDP is k**2 rho (Bun and Steinke 2016, Proposition 1.9). A delta needs
no conversion of its own: the ledger makes it from the sum of rhos, which are of its own unit by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from recoup._validate import LARGEST, whole_number
from recoup.errors import ParameterError
from recoup.privacy.price import Measure, Price

_MOST_RECORDS: Final = 2**20
# What is added or removed, in each dialect of CSV; of other tables, a record.
CSV_UNITS: Final[dict[str, Literal["record", "line"]]] = {"rfc4180": "record", "lines": "line"}
CSV_MEANING: Final = {
    "rfc4180": "a record of a file whose writer puts text with quotes, commas or line breaks into quotes",
    "lines": "a line, whatever its quotes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one person holds, so that a price hides all of it.

    Attributes:
        kind: what a person holds is counted in records, or in lines of a CSV that is read by lines; other kinds may
            follow.
        records_per_person: how many of them.

    >>> str(Unit()), str(Unit(kind="line", records_per_person=5))
    ('one record', '5 lines of one person')
    """

    kind: Literal["record", "line"] = "record"
    records_per_person: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("record", "line"):
            raise ParameterError(f'a unit of kind {self.kind!r:.40} is not known: "record" and "line" are.')
        object.__setattr__(
            self, "records_per_person", whole_number(self.records_per_person, "records_per_person", high=LARGEST)
        )
        if self.records_per_person > _MOST_RECORDS:
            raise ParameterError(
                f"records_per_person={self.records_per_person}: at most {_MOST_RECORDS} is supported.",
                parameter="records_per_person",
            )

    def __str__(self) -> str:
        some = self.records_per_person
        return f"one {self.kind}" if some == 1 else f"{some} {self.kind}s of one person"

    @classmethod
    def from_words(cls, words: str) -> Unit:
        """Read back what `str` says of a unit.

        >>> Unit.from_words("5 lines of one person")
        Unit(kind='line', records_per_person=5)
        """
        first, _, rest = words.partition(" ")
        unit = cls(
            kind="line" if rest.startswith("line") else "record", records_per_person=int(first.replace("one", "1"))
        )
        if str(unit) != words:
            raise ParameterError("these are not the words for a unit.")
        return unit

    def covers(self, priced: Unit) -> bool:
        """Whether a price for another unit can be converted into one for this: upward only.

        >>> Unit(records_per_person=5).covers(Unit()), Unit().covers(Unit(records_per_person=5))
        (True, False)
        """
        return self.kind == priced.kind and self.records_per_person >= priced.records_per_person

    def times(self, priced: Unit, measure: Measure) -> int:
        """How many times a price for another unit, which is covered, counts in this one.

        >>> Unit(records_per_person=5).times(Unit(records_per_person=2), "pure")
        3
        """
        steps = -(-self.records_per_person // priced.records_per_person)
        return steps if measure == "pure" else steps**2

    def price(self, price: Price, priced: Unit) -> Price:
        """Convert a price for another unit, which is covered, into one for this.

        >>> from fractions import Fraction
        >>> Unit(records_per_person=5).price(Price(measure="zcdp", amount=Fraction(1, 100)), Unit()).amount
        Fraction(1, 4)
        """
        return Price(measure=price.measure, amount=price.amount * self.times(priced, price.measure))

    def to_json(self) -> dict[str, Any]:
        """A JSON value."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Unit:
        """Read a unit back from its JSON value.

        >>> Unit.from_json({"kind": "record", "records_per_person": 5}).records_per_person
        5
        """
        if not isinstance(value, Mapping) or set(value) != {"kind", "records_per_person"}:
            raise ParameterError('a unit has a "kind" and "records_per_person".')
        return cls(**value)


ONE_RECORD: Final = Unit()
