"""What is promised, to whom, under which assumptions: the unit of a price, and the statement that goes with a result.

A price holds for tables that differ by what one person holds (`Unit`). Prices for different units are not alike and
must not be added. Upward they can be converted: whoever holds k times as many records is k steps away instead of one,
and after k steps a pure epsilon is k epsilon, and a rho of zCDP is k**2 rho (Bun and Steinke 2016, Proposition 1.9). A
delta needs no conversion of its own: the ledger makes it from the sum of rhos, which are of its own unit by then.
Where a column of the table names persons, a price is for all that one of them holds, and is converted into no other;
whom another column names is somebody else.

A statement reads as a dictionary, so that it is printed, indexed and written as JSON, and cannot be changed: its
`privacy["epsilon"]` and `privacy.epsilon` are the same number. Several releases about the same people promise less
together than each alone; `together` says what.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import inf, isfinite
from typing import Any, Final, Literal, NoReturn

from recoup._shown import Card, Shown, listing
from recoup._validate import LARGEST, whole_number
from recoup.domain import DOMAINS
from recoup.errors import Argument, ParameterError
from recoup.mixed import MIXED_DOMAINS
from recoup.privacy.price import Measure, Price, as_fraction, rounded_up
from recoup.schema import Schema

_MOST_RECORDS: Final = 2**20
# What is added or removed, in each dialect of CSV; of other tables, a record.
CSV_UNITS: Final[dict[str, Literal["record", "line"]]] = {"rfc4180": "record", "lines": "line"}
CSV_MEANING: Final = {
    "rfc4180": "a record of a file whose writer puts text with quotes, commas or line breaks into quotes",
    "lines": "a line, whatever its quotes",
}
# Whom a column of persons names: by lines a record with a line break in its text may name two, so these are not alike.
Kind = Literal["record", "line", "person", "person by lines"]
PERSON_UNITS: Final[dict[str, Literal["person", "person by lines"]]] = {"rfc4180": "person", "lines": "person by lines"}
_KINDS: Final[tuple[Kind, ...]] = (*CSV_UNITS.values(), *PERSON_UNITS.values())
_BY_COLUMN: Final = ", by column "
LONGEST_NAME: Final = 1000  # letters of the name of that column, which every ledger keeps
PerPerson = Literal["mean", "sample"]
PER_PERSON: Final = ("mean", "sample")
_MEAN_OF: Final = "each person's records become one row, their mean"
_SAMPLE_OF: Final = "at most {} of each person, chosen by a keyed hash"
NEIGHBOURS: Final = "add-remove-one-record"
PERSON_NEIGHBOURS: Final = "add-remove-one-person"
REPLACED: Final = "replace-one-record"
# Which tables are neighbours: what is released here is always of the first two, by its unit; a claim may be of these.
IMPORTED_NEIGHBOURS: Final = (NEIGHBOURS, REPLACED)
NOT_PRIVATE: Final = "NOT PRIVATE: simulated noise"
IMPORTED: Final = "differential privacy is claimed by whoever made it, not verified by Recoup"
COUNTED: Final = "by a ledger"
NOT_COUNTED: Final = "by nothing: without a ledger this release and others of the same records are not added up"
# What is said of each kind of noise, the weakest first.
STATEMENTS: Final = {"simulated": NOT_PRIVATE, "unverified": IMPORTED, "secure": "differentially private"}
# The noise of what inferred data is made from.
_LAWS: Final = ("laplace", "gaussian", "laplace and gaussian", "gaussian and laplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one person holds, so that a price hides all of it.

    Attributes:
        kind: what a person holds is counted in records, or in lines of a CSV that is read by lines; or it is all that
            a column of persons says is theirs ("person", and "person by lines" of such a CSV).
        records_per_person: how many of them; 1 person.
        column: which names the persons; none for records and lines.

    >>> str(Unit(kind="line", records_per_person=5)), str(Unit(kind="person", column="patient"))
    ('5 lines of one person', "one person, by column 'patient'")
    """

    kind: Kind = "record"
    records_per_person: int = 1
    column: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ParameterError(f"a unit of kind {self.kind!r:.40} is not known: {', '.join(_KINDS)} are.")
        name = "records_per_person"
        object.__setattr__(self, name, whole_number(self.records_per_person, name, high=LARGEST))
        if self.records_per_person > _MOST_RECORDS:
            many = Argument(name, str(self.records_per_person))
            raise ParameterError(many, f": at most {_MOST_RECORDS} is supported.")
        if self.of_persons and self.records_per_person != 1:
            raise ParameterError("the unit of persons is one person, with all records.")
        named = isinstance(self.column, str) and self.column != ""
        if named != self.of_persons or not (named or self.column is None):
            raise ParameterError("the unit of persons, and no other, has the name of the column that names them.")
        if self.column is not None and len(self.column) > LONGEST_NAME:
            raise ParameterError(f"the name of the column of persons has more than {LONGEST_NAME} letters: rename it.")

    @property
    def of_persons(self) -> bool:
        """Whether a column of the table says who holds what."""
        return self.kind in PERSON_UNITS.values()

    def __str__(self) -> str:
        some = self.records_per_person
        words = f"one {self.kind}" if some == 1 else f"{some} {self.kind}s of one person"
        return words if self.column is None else f"{words}{_BY_COLUMN}{self.column!r}"

    @property
    def neighbours(self) -> str:
        """Which tables are neighbours, of a release that is made here."""
        return PERSON_NEIGHBOURS if self.of_persons else NEIGHBOURS

    @classmethod
    def from_words(cls, words: str) -> Unit:
        """Read back what `str` says of a unit."""
        what, _, name = words.partition(_BY_COLUMN)
        first, _, rest = what.partition(" ")
        kind: Kind = next((kind for kind in reversed(_KINDS) if rest.startswith(kind)), "record")
        column = _quoted(name) if name else None
        unit = cls(kind=kind, records_per_person=int(first.replace("one", "1")), column=column)
        if str(unit) != words:
            raise ParameterError("these are not the words for a unit.")
        return unit

    def like(self, other: Unit) -> bool:
        """Whether both are of the same kind, and persons those of the same column, so that prices can be compared."""
        return (self.kind, self.column) == (other.kind, other.column)

    def covers(self, priced: Unit) -> bool:
        """Whether a price for another unit can be converted into one for this: upward only."""
        return self.like(priced) and self.records_per_person >= priced.records_per_person

    def times(self, priced: Unit, measure: Measure) -> int:
        """How many times a price for another unit, which is covered, counts in this one."""
        steps = -(-self.records_per_person // priced.records_per_person)
        return steps if measure == "pure" else steps**2

    def price(self, price: Price, priced: Unit) -> Price:
        """Convert a price for another unit, which is covered, into one for this."""
        return Price(measure=price.measure, amount=price.amount * self.times(priced, price.measure))

    def to_json(self) -> dict[str, Any]:
        """A JSON value; of records and lines as earlier versions wrote it."""
        column = {} if self.column is None else {"column": self.column}
        return {"kind": self.kind, "records_per_person": self.records_per_person} | column

    @classmethod
    def from_json(cls, value: object) -> Unit:
        """Read a unit back from its JSON value."""
        if not isinstance(value, Mapping) or set(value) - {"column"} != {"kind", "records_per_person"}:
            raise ParameterError('a unit has a "kind" and "records_per_person", and that of persons a "column".')
        return cls(**value)


ONE_RECORD: Final = Unit()


def _quoted(text: str) -> str | None:
    """What stands in the quotes of Python; none if that is no text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def per_person_words(per_person: PerPerson, records_per_person: int) -> str:
    """What became of a person's records, in words.

    >>> per_person_words("sample", 2)
    'at most 2 records of each person, chosen by a keyed hash'
    """
    if per_person == "mean":
        return _MEAN_OF
    return _SAMPLE_OF.format("1 record" if records_per_person == 1 else f"{records_per_person} records")


def _read_per_person(words: str | None) -> str | None:
    if words is None or words == _MEAN_OF:
        return words
    n_records = int(words.removeprefix("at most ").partition(" ")[0])
    return str(_one_of(words, (per_person_words("sample", n_records),)))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrivacyStatement(Shown, dict[str, Any]):
    """A privacy statement: a read-only dictionary whose entries are also attributes.

    Attributes:
        epsilon: the whole budget.
        delta: 0 for pure differential privacy.
        neighbours: which tables are neighbours.
        unit: what is protected as a whole, in words.
        csv_dialect: the dialect in which CSV was read; None for other tables.
        bounds: the declared "low" and "high" of each column, and the "columns", if they have names; the "schema", if
            one was declared.
        domain: the shape of the domain: "box", "l1", "l2", or "mixed" for that of a schema.
        mechanism: the law of the noise; several are joined by "and".
        noise: "secure", "simulated", or "unverified" where the answers are imported.
        spent: the part of epsilon that was spent, rounded up.
        version: of Recoup.
        counted: what adds it to other releases of the same records, if that is known.
        per_person: how the records of a person were combined, where the unit is a person.

    >>> from recoup import Box, KMeans, release
    >>> privacy = release(KMeans(n_clusters=2), [[0.5]], domain=Box([0], [1]), epsilon=0.5).privacy
    >>> privacy["epsilon"], privacy.unit, privacy.statement
    (0.5, 'one record', 'differentially private')
    """

    epsilon: float
    delta: float
    neighbours: str = NEIGHBOURS
    unit: str
    csv_dialect: str | None
    bounds: Mapping[str, Any]
    domain: str
    mechanism: str
    noise: Literal["secure", "simulated", "unverified"]
    spent: float
    version: str
    counted: str | None = None
    per_person: str | None = None

    def __post_init__(self) -> None:
        entries = {"statement": self.statement} | {field.name: getattr(self, field.name) for field in fields(self)}
        for optional in ("counted", "per_person"):
            if entries[optional] is None:
                del entries[optional]
        super().update(entries)

    @property
    def statement(self) -> str:
        """Whether this is private at all, in words that appear wherever it is printed, saved or drawn."""
        return STATEMENTS[self.noise]

    @property
    def warning(self) -> str:
        """The same where it is no promise of Recoup's; else nothing."""
        return "" if self.noise == "secure" else self.statement

    def _card(self) -> Card:
        low, high, names = (self.bounds[name] for name in ("low", "high", "columns"))
        facts = [("epsilon", f"{self.epsilon:g}"), ("delta", f"{self.delta:g}"), ("spent", f"{self.spent:.4g}")]
        facts += [("hides", self.unit), ("noise", f"{self.mechanism}, {self.noise}")]
        facts += [("columns", listing(names, len(low)))]
        facts += [("counted", self.counted)] if self.counted else []
        facts += [("persons", self.per_person)] if self.per_person else []
        columns = names or [f"column {j}" for j in range(len(low))]
        rows = list(zip(columns, map(float, low), map(float, high), strict=True))
        note = f"Neighbours: {self.neighbours}. Recoup {self.version}."
        return Card("Privacy statement", facts, ("column", "low", "high"), rows, self.warning, note)

    @property
    def laws(self) -> tuple[str, ...]:
        """The laws of the noise."""
        return tuple(self.mechanism.split(" and "))

    def covers(self, other: PrivacyStatement) -> bool:
        """Whether it can be that of several releases that include the other: a file might promise too much."""
        weakest = tuple(STATEMENTS).index
        enough = self.epsilon >= other.epsilon and self.delta >= other.delta
        return enough and weakest(self.noise) <= weakest(other.noise)

    @classmethod
    def together(cls, statements: Sequence[PrivacyStatement]) -> PrivacyStatement:
        """One statement for several releases: epsilons and deltas add up, and the weakest claim about noise holds."""
        first = statements[0]
        if any((other.neighbours, other.unit) != (first.neighbours, first.unit) for other in statements):
            raise ParameterError(
                "the inferred data set was made from transcripts with other neighbours, or of other units: its privacy "
                "and that of this transcript do not add up to one statement."
            )
        return replace(
            first,
            epsilon=_sum(item.epsilon for item in statements),
            delta=_sum(item.delta for item in statements),
            spent=_sum(item.spent for item in statements),
            noise=min((item.noise for item in statements), key=tuple(STATEMENTS).index),
            mechanism=" and ".join(dict.fromkeys(law for item in statements for law in item.laws)),
            # Of the same unit, so that there is one dialect at most.
            csv_dialect=next((item.csv_dialect for item in statements if item.csv_dialect is not None), None),
            counted=None,
            per_person=first.per_person if len({item.per_person for item in statements}) == 1 else None,
        )

    @classmethod
    def from_json(cls, value: Any) -> PrivacyStatement:
        """Read back the statement of inferred data; anything that Recoup would not write is refused."""
        numbers = {name: value[name] for name in ("epsilon", "delta", "spent")}
        ends = {name: value["bounds"][name] for name in ("low", "high")}
        columns = value["bounds"]["columns"]
        if not all(type(number) is float and 0.0 <= number < inf for number in numbers.values()):
            raise ValueError("other numbers")
        if not all(type(number) is float and isfinite(number) for end in ends.values() for number in end):
            raise ValueError("other bounds")
        schema = value["bounds"].get("schema")
        declared = {} if schema is None else {"schema": Schema.from_json(schema).to_json()}
        unit = Unit.from_words(str(value["unit"]))
        return cls(
            **numbers,
            neighbours=_one_of(value["neighbours"], (unit.neighbours,) if unit.of_persons else IMPORTED_NEIGHBOURS),
            unit=str(unit),
            # Files of earlier versions have none.
            csv_dialect=_one_of(value.get("csv_dialect"), (*CSV_UNITS, None)),
            bounds=ends | {"columns": None if columns is None else tuple(map(str, columns))} | declared,
            domain=_one_of(value["domain"], (*DOMAINS, *MIXED_DOMAINS)),
            mechanism=_one_of(value["mechanism"], _LAWS),
            noise=_one_of(value["noise"], STATEMENTS),
            version=str(value["version"]),
            per_person=_read_per_person(value.get("per_person")),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, ({field.name: getattr(self, field.name) for field in fields(self)},)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a privacy statement cannot be changed: dict(statement) is a copy that can.")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


def _restored(values: dict[str, Any]) -> PrivacyStatement:
    return PrivacyStatement(**values)


def _one_of(value: Any, known: Any) -> Any:
    if value not in known:
        raise ValueError("another word")
    return value


def _sum(amounts: Iterable[float]) -> float:
    return rounded_up(sum((as_fraction(amount, "a sum", allow_zero=True) for amount in amounts), Fraction(0)))
