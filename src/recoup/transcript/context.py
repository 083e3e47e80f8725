"""What both sides of the wall agree on before the first query, and what a query asks for."""

from __future__ import annotations

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
from recoup.privacy.statement import CSV_UNITS, Unit
from recoup.queries.base import Query

Law = Literal["laplace", "gaussian"]  # of noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The public terms of a release; everything here may be printed.

    Args:
        domain: where records lie.
        epsilon: the total budget, read as the decimal that was typed.
        delta: 0 for pure epsilon.
        mechanism: "laplace" or "gaussian" (which needs delta above 0).
        n_records: a public guess of the number of records, or none.
        records_per_person: how many records one person may hold; multiplies the distance between neighbours.
        csv_dialect: in which CSV was read, "rfc4180" or "lines"; none for other tables.
        accounting: how rounds of Gaussian noise are added up: "gaussian" exactly; "zcdp" as earlier versions did, whose
            releases and ledgers go on so.

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
        object.__setattr__(self, "records_per_person", self.unit.records_per_person)
        if self.n_records is not None:
            object.__setattr__(self, "n_records", whole_number(self.n_records, "n_records", high=LARGEST))
        choice(self.accounting, "accounting", get_args(Accounting))
        if amount_of(self.budget_measure, self.epsilon, self.delta) == 0:
            raise BudgetError("epsilon and delta are too small to pay for any Gaussian noise: give more.")

    @property
    def unit(self) -> Unit:
        """Whose presence prices hide: a record, or all of one person; in CSV by lines, a line."""
        kind = "record" if self.csv_dialect is None else CSV_UNITS[self.csv_dialect]
        return Unit(kind=kind, records_per_person=self.records_per_person)

    @property
    def noise(self) -> Laplace | Gaussian:
        """The mechanism itself."""
        return MECHANISMS[self.mechanism]

    @property
    def budget_measure(self) -> Measure:
        """In what rounds are priced."""
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
        """A JSON value; the dialect is there for CSV only, and the accounting if it is not that of earlier versions."""
        exact = {"accounting": "gaussian"} if self.budget_measure == "gaussian" else {}
        return (
            exact
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
