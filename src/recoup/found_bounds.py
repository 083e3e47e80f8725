"""Bounds that nobody knows: a small priced release finds them, and the result is a schema like a declared one.

Bounds that are read off a table tell of its extreme records. Here they come from noisy counts alone, which are charged
and kept in a transcript of their own; whoever has that transcript gets the same bounds from it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

from recoup._random import drawn_key, entropy_of, stream
from recoup._shown import Card, shortened
from recoup.algorithms.base import Algorithm
from recoup.algorithms.bounds import FindBounds, ranges_of
from recoup.curator.rivals.base import check_delta, check_terms, readable
from recoup.curator.source import csv_dialect_of, open_source
from recoup.curator.tables.open import open_table
from recoup.domain import Domain
from recoup.driver import law_of, release
from recoup.errors import (
    Argument,
    BoundsError,
    ContinuationError,
    CostlyTerms,
    DataError,
    MissingBoundsError,
    TranscriptError,
)
from recoup.mixed import Mixed
from recoup.octaves import END
from recoup.privacy.gaussian import amount_of
from recoup.privacy.ledger import Ledger
from recoup.privacy.price import Price, as_fraction
from recoup.privacy.statement import PrivacyStatement
from recoup.schema import OCTAVES, Number, Schema
from recoup.transcript.context import Context, Law
from recoup.transcript.round import quote
from recoup.transcript.transcript import Transcript

PRIVATE: Final = "private"  # instead of bounds, or of those of a column
NOTHING: Final = (-1.0, 1.0)  # bounds of a column whose counts cannot be told from noise


class FoundBounds(Schema):
    """A schema that a release paid for: use it wherever bounds are declared.

    Attributes:
        suggested: the same columns, on a logarithmic scale where the counts suggest it.
        not_found: columns whose counts cannot be told from noise; their bounds, -1 and 1, say nothing.
        transcript: all that was released.
        privacy: what it cost.
    """

    __slots__ = ("not_found", "suggested", "transcript")

    def __init__(self, transcript: Transcript) -> None:
        domain = transcript.context.domain
        schema = domain.schema if isinstance(domain, Mixed) else {}
        sought = all(isinstance(column, Number) and column.scale == OCTAVES for column in schema.values())
        if transcript.algorithm.get("type") != FindBounds.type_name or not (schema and sought and transcript.rounds):
            raise TranscriptError("this is not a transcript of recoup.find_bounds.")
        found = dict(zip(schema, ranges_of(transcript.context, transcript.rounds), strict=True))
        numbers = {name: Number(*(NOTHING if place is None else place.ends)) for name, place in found.items()}
        super().__init__(numbers)
        logs = {
            name: Number(place.log_low, numbers[name].high, scale="log")
            for name, place in found.items()
            if place is not None and place.log_low is not None
        }
        self.suggested = Schema(numbers | logs)
        self.not_found = tuple(name for name, place in found.items() if place is None)
        self.transcript = transcript

    @property
    def privacy(self) -> PrivacyStatement:
        """What it cost."""
        return self.transcript.privacy

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the bounds from the transcript of an earlier release, for free; `save` writes only the schema."""
        return cls(Transcript.load(path))

    def __repr__(self) -> str:
        shown = (f"{name!r}: ({self[name].low:g}, {self[name].high:g})" for name in list(self)[:8])
        mark = f", {self.privacy.warning}" if self.privacy.warning else ""
        return shortened(f"FoundBounds({{{', '.join(shown)}{', ...' if len(self) > 8 else ''}}}{mark})")

    def _card(self) -> Card:
        return super()._card()._replace(warning=self.privacy.warning)

    def __getitem__(self, name: str) -> Number:
        column = super().__getitem__(name)
        assert isinstance(column, Number)
        return column

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.transcript,)


def find_bounds(
    data: object,
    columns: Sequence[str] | None = None,
    epsilon: Any = "0.1",
    delta: Any = 0,
    *,
    person: str | None = None,
    records_per_person: int = 1,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    mechanism: Literal["auto", "laplace", "gaussian"] = "auto",
    csv_dialect: str = "rfc4180",
    random_state: Any = None,
    noise: Literal["secure", "simulated"] = "secure",
    path: str | os.PathLike[str] | None = None,
    resume: bool = False,
    purpose: str = "",
) -> FoundBounds:
    """Find bounds of columns of numbers from noisy counts, within a budget of their own.

    Args:
        data: the records, of any kind that `release` takes.
        columns: names of columns of numbers; None: all columns of a table that declares types. All columns share the
            budget, so name no more than needed. The columns of an array are called x0, x1, ...
        epsilon: what may be spent on it.
        delta: 0 for pure epsilon; above 0, Gaussian noise is allowed.
        person: the column that identifies persons; `records_per_person` records of each are kept, as by
            `release(per_person="sample")`.
        records_per_person: how many records one person may hold.
        ledger: charged before the answer.
        mechanism: as of `release`.
        csv_dialect: how a CSV file was written, as of `release`.
        random_state: the noise, if it is simulated; nothing else is random.
        noise: "secure", or "simulated" for experiments.
        path: where to save the transcript.
        resume: continue the transcript at `path`, and pay for nothing twice.
        purpose: what it is for, in one line of public text that the ledger keeps.

    Returns:
        A schema of linear scales, with what it cost. An end is the edge of a bin, up to a sixteenth of its size outside
        the records that can be told from noise; an end near zero is zero. Records farther out are too few to see and
        are clipped. Where nothing can be told from noise, bounds are (-1, 1), and `not_found` names the column; it
        costs the same.

    Guarantees: bounds are a function of noisy counts alone. The probability that noise far from all records is taken
    for records is at most 1e-5, for all columns together. A missing value does not keep the other values of its record
    from being counted.

    >>> import numpy as np
    >>> years = np.random.default_rng(0).integers(1900, 2026, size=(10_000, 1))
    >>> find_bounds(years, epsilon=1, random_state=0, noise="simulated")
    FoundBounds({'x0': (1856, 2048)}, NOT PRIVATE: simulated noise)
    """
    if columns is None:
        if person is not None:
            raise MissingBoundsError("one column names persons: name those of numbers by columns=[...].")
        data = table = open_table(data, csv_dialect=csv_dialect)
        columns = table.columns or tuple(f"x{j}" for j in range(table.n_columns))
    elif isinstance(columns, str | bytes) or not isinstance(columns, Sequence):
        raise BoundsError('columns must be a list of names, such as ["age", "hours"].')
    unknown = Number(-END, END, scale=OCTAVES, missing=END)
    transcript = release(
        FindBounds(),
        data,
        domain=Schema(dict.fromkeys(columns, unknown)),
        epsilon=epsilon,
        delta=delta,
        person=person,
        per_person=None if person is None else "sample",
        records_per_person=records_per_person,
        ledger=ledger,
        mechanism=mechanism,
        csv_dialect=csv_dialect,
        random_state=random_state,
        noise=noise,
        path=path,
        resume=resume,
        purpose=purpose,
    )
    return FoundBounds(transcript)


# ---- within the budget of a fit ----


def is_private(bounds: object) -> bool:
    """Whether bounds, or those of some column, are to be found within the budget of a fit."""
    values = bounds.values() if isinstance(bounds, Mapping) else [bounds]
    return any(isinstance(value, str) and value == PRIVATE for value in values)


def share_for(n_columns: int) -> Fraction:
    """The part of a fit's budget that goes to the bounds of so many columns: noise grows with their number.

    >>> [str(share_for(n)) for n in (1, 4, 8)]
    ['1/10', '4/25', '3/10']
    """
    return min(max(Fraction(n_columns, 25), Fraction(1, 10)), Fraction(3, 10))


def stand_ins(bounds: Any, X: object) -> Any:
    """Bounds as they would be declared, to try what else is declared before anything is spent."""
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "shape"):
        raise DataError(f"A {type(X).__name__} can be read once, and private bounds take two readings: give a table.")
    if not isinstance(bounds, Mapping):
        return NOTHING
    return {name: NOTHING if is_private(column) else column for name, column in bounds.items()}


class Fit(NamedTuple):
    """What a fit with declared bounds would release.

    Attributes:
        source: the records, or a source of them.
        records: their domain, which may hold more than the features: a label.
        features: the domain of the features.
        algorithm: which is run, or a rival of `recoup.curator.rivals`.
        terms: as `release` takes them.
    """

    source: Any
    records: Domain
    features: Domain
    algorithm: Any
    terms: Mapping[str, Any]


class Part(NamedTuple):
    """What of a fit's terms is left, once its bounds are found."""

    found: FoundBounds
    bounds: Any
    epsilon: Fraction
    delta: Fraction


def find_within(
    bounds: Any, X: object, fit: Fit, path: str | os.PathLike[str] | None, resume: bool, purpose: str = ""
) -> Part:
    """Find those bounds of a fit that are private, within its budget.

    Args:
        bounds: "private", or columns by name, some of them "private".
        X: the records.
        fit: as it would be with declared bounds.
        path: of the fit's transcript; that of the bounds lies beside it.
        resume: whether to take up that one.
        purpose: what the fit is for.

    Guarantees: what is spent here and what is left for the fit add up to its epsilon and delta exactly. What can be
    known to keep the fit from being made is refused while nothing is spent.
    """
    by_name, columns, terms = isinstance(bounds, Mapping), fit.features.table_columns, dict(fit.terms)
    sought = [str(name) for name in bounds if is_private(bounds[name])] if by_name else columns
    epsilon = as_fraction(terms["epsilon"], "epsilon")
    delta = as_fraction(terms["delta"], "delta", allow_zero=True)
    if isinstance(terms["ledger"], str | os.PathLike):
        terms["ledger"] = Ledger(terms["ledger"])
    ledger, is_rival = terms["ledger"], not isinstance(fit.algorithm, Algorithm)
    # One kind of noise is cheaper than two.
    law: Law = "laplace" if is_rival else law_of(fit.algorithm, fit.records, delta, ledger)
    share = share_for(fit.features.n_declared if sought is None else len(sought))
    beside = None if path is None else Path(path).with_suffix(".bounds.json")
    if not (resume and beside is not None and beside.exists()):
        _check_new(path, beside, resume)
        _check_fit(fit, law, terms | {"epsilon": epsilon, "delta": delta}, share)
    same = {name: terms[name] for name in ("person", "csv_dialect", "noise")}
    found = find_bounds(
        X,
        sought,
        epsilon * share,
        delta * share if law == "gaussian" else 0,
        # Of each person one record is enough, whatever the fit makes of all of them.
        records_per_person=1 if terms["person"] is not None else terms["records_per_person"],
        ledger=ledger,
        mechanism=law,
        random_state=stream(entropy_of(terms["random_state"]), 4),
        path=beside,
        resume=resume,
        purpose=purpose,
        **same,
    )
    pairs = {name: (found[name].low, found[name].high) for name in found}
    if by_name:
        known: Any = {name: pairs.get(str(name), column) for name, column in bounds.items()}
    elif columns is not None:
        known = pairs
    else:
        known = tuple([getattr(column, end) for column in found.values()] for end in ("low", "high"))
    return Part(found, known, epsilon * (1 - share), delta * (1 - share))


def _check_new(path: str | os.PathLike[str] | None, beside: Path | None, resume: bool) -> None:
    """Refuse the transcript of a fit that was begun, where its bounds would be paid for anew."""
    if path is None or not os.path.exists(path):
        return
    if resume:
        raise ContinuationError(
            f"{path} exists, and {beside}, the transcript of its bounds, does not: other bounds would be found, and "
            "paid for again. Nothing was charged. Bring it back, or begin a new fit with another path."
        )
    raise TranscriptError(f"{path} exists. Continue it with ", Argument("resume", "True"), ", or choose another.")


def _check_fit(fit: Fit, law: Law, terms: Mapping[str, Any], share: Fraction) -> None:
    """Refuse a fit that could not be made with what is left of its budget, while nothing is spent."""
    ledger, algorithm, delta = terms["ledger"], fit.algorithm, terms["delta"] if law == "gaussian" else Fraction(0)
    context = Context(
        domain=fit.records,
        epsilon=terms["epsilon"] * (1 - share),
        delta=delta * (1 - share),
        mechanism=law,
        accounting=ledger.accounting if isinstance(ledger, Ledger) else "gaussian",
        **{name: terms[name] for name in ("n_records", "records_per_person", "person", "per_person")},
    )
    source = open_source(
        fit.source,
        fit.records,
        terms["csv_dialect"],
        person=context.person,
        per_person=context.per_person,
        records_per_person=context.records_per_person,
        key=drawn_key(None) if context.per_person == "sample" else None,  # of nothing: no record is read
    )
    context = replace(context, csv_dialect=csv_dialect_of(source))
    if isinstance(ledger, Ledger):
        measure = context.budget_measure
        of_bounds = amount_of(measure, terms["epsilon"] * share, delta * share)
        ledger.afford(Price(measure=measure, amount=context.budget.amount + of_bounds), context.unit)
    if not isinstance(algorithm, Algorithm):
        check_delta(algorithm, terms["delta"])
        readable(algorithm, source)
        return check_terms(algorithm, context)
    if (request := algorithm.next_request(context, (), stream(entropy_of(0), 0))) is not None:
        quote(context, request)
    if (better := algorithm.advice(context)) is not None:
        warnings.warn(f"{better} Nothing has been spent yet.", CostlyTerms, stacklevel=5)
