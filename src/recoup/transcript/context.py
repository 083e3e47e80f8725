"""What both sides of the wall agree on before the first query, and what a query asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any, Literal, get_args

from recoup._validate import LARGEST, choice, whole_number
from recoup.domain import Domain
from recoup.errors import Argument, BudgetError, ParameterError
from recoup.privacy.gaussian import LEAST_DISTANCE, Accounting, amount_of
from recoup.privacy.mechanism import MECHANISMS, Calibration, Gaussian, Laplace, integer_sensitivity
from recoup.privacy.price import Measure, Price, as_fraction
from recoup.privacy.statement import CSV_UNITS, PER_PERSON, PERSON_UNITS, PerPerson, Unit, per_person_words
from recoup.queries.base import Query

_KEY = re.compile("[0-9a-f]{32}")
Law = Literal["laplace", "gaussian"]  # of noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The public terms of a release; everything here may be printed.

    Args:
        domain: where records lie.
        epsilon: the total budget, read as the decimal that was given.
        delta: 0 for pure epsilon.
        mechanism: "laplace" or "gaussian" (which needs delta above 0).
        n_records: a public guess of the number of records, or none.
        records_per_person: how many records one person may have; multiplies the distance between neighbours. Where a
            column identifies persons: how many of each are kept.
        csv_dialect: the dialect in which CSV was read, "rfc4180" or "lines"; None for other tables.
        accounting: how rounds of Gaussian noise are added up: "gaussian" exactly; "zcdp" for releases and ledgers of
            earlier versions.
        person: the column that identifies persons, if the promise is to persons; None: to records.
        per_person: how a person's records are combined: "mean", one row, or "sample", `records_per_person` of them.
        sample_key: the key of the hash that chooses them, 32 hexadecimal digits; drawn once per run, independently of
            records, and public.

    >>> from recoup.domain import Box
    >>> Context(domain=Box([0], [1]), epsilon=Fraction("0.5")).budget
    Price(measure='pure', amount=Fraction(1, 2))
    """

    domain: Domain
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    mechanism: Law = "laplace"
    n_records: int | None = None
    records_per_person: int = 1
    csv_dialect: str | None = None
    accounting: Accounting = "gaussian"
    person: str | None = None
    per_person: PerPerson | None = None
    sample_key: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise ParameterError(f"domain is a {type(self.domain).__name__}: give a Box, L1Ball or L2Ball.")
        object.__setattr__(self, "epsilon", as_fraction(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", as_fraction(self.delta, "delta", allow_zero=True))
        if self.delta >= 1:
            raise BudgetError(
                f"delta is {float(self.delta):g}: it must be below 1, and far below 1 / N.", parameter="delta"
            )
        choice(self.mechanism, "mechanism", MECHANISMS)
        if self.mechanism == "gaussian" and self.delta == 0:
            raise BudgetError(
                "Gaussian noise needs delta above 0; with ", Argument("delta", "0"), " use Laplace noise."
            )
        if self.csv_dialect is not None:
            choice(self.csv_dialect, "csv_dialect", CSV_UNITS)
        one = Unit(records_per_person=self.records_per_person)
        object.__setattr__(self, "records_per_person", one.records_per_person)
        self._check_persons()
        if self.n_records is not None:
            object.__setattr__(self, "n_records", whole_number(self.n_records, "n_records", high=LARGEST))
        choice(self.accounting, "accounting", get_args(Accounting))
        if amount_of(self.budget_measure, self.epsilon, self.delta) == 0:
            raise BudgetError("epsilon and delta are too small to pay for any Gaussian noise: give more.")

    def _check_persons(self) -> None:
        if self.person is None:
            for name in ("per_person", "sample_key"):
                if getattr(self, name) is not None:
                    raise ParameterError(Argument(name), " needs ", Argument("person"), ", the column of persons.")
            return
        if not isinstance(self.person, str) or not self.person:
            kind = type(self.person).__name__
            raise ParameterError(Argument("person"), f" is the name of a column, not {kind}.", parameter="person")
        object.__setattr__(self, "person", Unit(kind="person", column=self.person).column)
        object.__setattr__(self, "per_person", self.per_person or "mean")
        choice(self.per_person, "per_person", PER_PERSON)
        if self.per_person == "mean" and self.records_per_person != 1:
            raise ParameterError(
                Argument("records_per_person", str(self.records_per_person)),
                ": the mean of a person's records is one row, however many there are. Leave it out, or keep so many "
                "records of each person with ",
                Argument("per_person", '"sample"'),
                ".",
            )
        if self.sample_key is not None and (
            self.per_person != "sample" or not isinstance(self.sample_key, str) or not _KEY.fullmatch(self.sample_key)
        ):
            raise ParameterError('sample_key is 32 hexadecimal digits, for per_person="sample" only.')

    @property
    def unit(self) -> Unit:
        """Whose presence prices hide: a record, or all of one person; in CSV by lines, a line."""
        dialect = self.csv_dialect or "rfc4180"
        if self.person is not None:
            return Unit(kind=PERSON_UNITS[dialect], column=self.person)
        return Unit(kind=CSV_UNITS[dialect], records_per_person=self.records_per_person)

    @property
    def per_person_words(self) -> str | None:
        """How the records of a person are combined, in words; None where the promise is to records."""
        return None if self.per_person is None else per_person_words(self.per_person, self.records_per_person)

    @property
    def noise(self) -> Laplace | Gaussian:
        """The mechanism itself."""
        return MECHANISMS[self.mechanism]

    @property
    def budget_measure(self) -> Measure:
        """The measure in which rounds are priced."""
        if self.mechanism == "laplace":
            return "pure"
        # With fewer steps between neighbours, the exact price of discrete noise is not proved.
        return self.accounting if self.distance >= LEAST_DISTANCE else "zcdp"

    @property
    def budget(self) -> Price:
        """All that may be spent: epsilon for Laplace noise, what (epsilon, delta) allows for Gaussian noise."""
        measure = self.budget_measure
        return Price(measure=measure, amount=amount_of(measure, self.epsilon, self.delta))

    @property
    def sensitivity(self) -> int:
        """The integer by which one record may move a round's totals."""
        return integer_sensitivity(self.n_records)

    @property
    def distance(self) -> int:
        """The integer distance between the totals of neighbours: all records of one person."""
        return self.sensitivity * self.records_per_person

    def weights(self, parts: Iterable[Fraction]) -> tuple[int, ...]:
        """The integer sensitivity of each block of a round, by its part of the round."""
        return self.noise.weights(list(parts), self.sensitivity)

    def calibrated(self, share: Fraction) -> Calibration:
        """The noise of a round that may use this share of the budget, and its price."""
        found = self.noise.calibrate(self.budget.amount * share, self.distance)
        # Of Gaussian noise the map gives rho = D^2 / 2 sigma^2, which is mu^2 / 2.
        return replace(found, price=Price(measure=self.budget_measure, amount=found.price.amount))

    def effective_epsilon(self, share: float = 1.0) -> float:
        """The epsilon of Laplace noise that would be as strong as a count's noise at this share of the budget."""
        amount = float(self.budget.amount) * share
        return (amount if self.budget_measure == "pure" else 2.0 * sqrt(amount)) / self.records_per_person

    def to_json(self) -> dict[str, Any]:
        """A JSON value.

        The dialect is there for CSV only, the accounting if it is not that of earlier versions, and persons if a column
        names them.
        """
        exact = {"accounting": "gaussian"} if self.budget_measure == "gaussian" else {}
        persons = {name: getattr(self, name) for name in ("person", "per_person", "sample_key")}
        return (
            exact
            | {name: value for name, value in persons.items() if value is not None}
            | ({} if self.csv_dialect is None else {"csv_dialect": self.csv_dialect})
            | {
                "domain": self.domain.to_json(),
                "epsilon": str(self.epsilon),
                "delta": str(self.delta),
                "mechanism": self.mechanism,
                "n_records": self.n_records,
                "records_per_person": self.records_per_person,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A query, its share of the total budget, and how that share is split over the blocks of the answer."""

    query: Query
    share: Fraction
    split: Mapping[str, Fraction]

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", as_fraction(self.share, "a round's share of the budget"))
        split = {name: as_fraction(part, f"the share of block {name!r}") for name, part in self.split.items()}
        object.__setattr__(self, "split", split)
        if self.share > 1:
            raise ParameterError(f"a round's share of the budget is {float(self.share):g}: it must be in (0, 1].")
