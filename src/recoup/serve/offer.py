"""What a curator offers to analysts: one table, on fixed public terms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from recoup._validate import positive_number
from recoup.curator.source import Source, csv_dialect_of, is_stored, source_on_terms
from recoup.domain import Domain
from recoup.privacy.ledger import Ledger
from recoup.privacy.ledger_releases import said_line
from recoup.privacy.statement import PerPerson
from recoup.queries.base import Query
from recoup.transcript.context import Context
from recoup.transcript.wire import effort_of
from recoup.version import __version__

_ANY_KEY: Final = "0" * 32  # to look at a table whose records are sampled by the key of a run


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A table with its public terms and the ledger that pays.

    Attributes:
        data: the records, of any kind that `recoup.release` takes.
        domain: public bounds.
        ledger: charged before every answer.
        table: the public name of the table.
        records_per_person: as of `recoup.release`, like the next ones.
        n_records: a public guess of the number of records, for analysts who ask for one.
        base: seconds from a question's turn to its answer, whatever it asks for.
        per_value: seconds more for each value that it asks for, and for each number that it is written with.
        terms: those that all runs share; budget, mechanism and key are those of a run.
    """

    data: object = field(repr=False)
    domain: Domain
    ledger: Ledger
    table: str = "table"
    records_per_person: int = 1
    person: str | None = None
    per_person: PerPerson | None = None
    csv_dialect: str = "rfc4180"
    n_records: int | None = None
    base: float = 0.5
    per_value: float = 1e-4
    terms: Context = field(init=False, repr=False)
    _kept: Source | None = field(init=False, repr=False, default=None)
    _payer: str | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        said_line(self.table, "table")
        for name in ("base", "per_value"):
            positive_number(getattr(self, name), name, or_zero=True)
        terms = Context(
            domain=self.domain,
            epsilon=Fraction(1),
            records_per_person=self.records_per_person,
            person=self.person,
            per_person=self.per_person,
            n_records=self.n_records,
            accounting=self.ledger.accounting,
        )
        self._set("terms", terms)
        # Everything is looked at once before the first analyst comes, but for records.
        source = self.source(_ANY_KEY if self._sampled else None)
        self._set("terms", replace(terms, csv_dialect=csv_dialect_of(source)))
        self._set("_kept", None if self._sampled or is_stored(self.data) else source)
        self._set("_payer", self.ledger.identifier)
        self.ledger.expect(self.terms.unit)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def _sampled(self) -> bool:
        return self.terms.per_person == "sample"

    def context(self, *, epsilon: Any, delta: Any, mechanism: Any, n_records: Any, key: str) -> Context:
        """The terms of one run; the key chooses records of a person, where some of each are kept."""
        sample = key if self._sampled else None
        return replace(
            self.terms, epsilon=epsilon, delta=delta, mechanism=mechanism, n_records=n_records, sample_key=sample
        )

    def source(self, key: str | None) -> Source:
        """The records, opened now; what is in memory already is not opened again."""
        if self._kept is not None:
            return self._kept
        return source_on_terms(self.data, replace(self.terms, sample_key=key), self.csv_dialect)

    def seconds(self, query: Query) -> float:
        """From the turn of a question to its answer: by what it asks for, and how it is written, alone."""
        return self.base + self.per_value * effort_of(query)

    def to_json(self) -> dict[str, Any]:
        """The public terms."""
        terms = self.terms
        return {
            "format": "recoup-terms",
            "version": 1,
            "domain": self.domain.to_json(),
            "records_per_person": terms.records_per_person,
            "person": terms.person,
            "per_person": terms.per_person,
            "csv_dialect": terms.csv_dialect,
            "n_records": terms.n_records,
            "unit": str(terms.unit),
            "ledger": self._payer,
            "accounting": terms.accounting,
            "table": self.table,
            "answer_seconds": {"base": self.base, "per_value": self.per_value},
            "recoup": __version__,
        }
