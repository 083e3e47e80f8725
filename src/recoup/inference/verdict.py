"""What an inference says about itself: good, or doubtful and why, as a value that can be read and printed.

Misfits, records and clusters are put into words here; `judge` decides which of them matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from recoup._shown import Card, Shown, shortened
from recoup.algorithms.base import column_names
from recoup.domain import Domain
from recoup.inference.diagnostics import Misfit
from recoup.maxent.sizes import RecordCount

_MOST_SAID = 4  # reasons in one sentence; the data have all of them
_MOST_NAMED = 5  # columns or clusters in one sentence; the data have all of them
Kind = Literal["records", "declared", "column", "size", "round", "clusters", "apart", "prediction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that is wrong.

    Attributes:
        kind: "records", they cannot be told from none; "declared", they are far from the declared number; "column",
            the inferred data miss what was measured in it; "size", they miss how many records were counted in a
            cluster; "round", they miss a part of an answer of another kind; "clusters", some may be nothing but noise;
            "apart", some were never counted apart from others; "prediction", earlier rounds did not foresee a round.
        sentence: the same in words, without an end.
        columns: those that it is about: names, or numbers where columns have none.
        clusters: those that it is about: rows of the centres or, without any, cells of the last round with sums.
        numbers: the numbers behind it.
    """

    kind: Kind
    sentence: str
    columns: tuple[str | int, ...] = ()
    clusters: tuple[int, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A JSON value."""
        about = {"columns": list(self.columns), "clusters": list(self.clusters), "numbers": dict(self.numbers)}
        return {"kind": self.kind, "sentence": self.sentence} | about


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict(Shown):
    """Whether a result can be trusted, by the transcript and the inferred data alone.

    Attributes:
        reasons: what is wrong; a verdict without any is good.
        notes: what is certain but too small to matter, and rounds that were not foreseen but are explained now.
        records: how many records it rests on; None where that is not known.
        n_rounds: rounds that the inferred data was compared with; 0 where there is no inferred data.

    >>> wrong = Reason(kind="column", sentence="age: measured 31, inferred 45", columns=("age",), clusters=(2,))
    >>> Verdict(reasons=(wrong,), n_rounds=5)
    <Verdict: Doubtful: age: measured 31, inferred 45.>
    >>> Verdict(n_rounds=5).good
    True
    """

    reasons: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()
    records: RecordCount | None = None
    n_rounds: int = 0

    @property
    def good(self) -> bool:
        """Whether nothing is wrong, as far as the transcript shows."""
        return not self.reasons

    @property
    def status(self) -> Literal["good", "doubtful"]:
        """The verdict in one word."""
        return "good" if self.good else "doubtful"

    @property
    def columns(self) -> tuple[str | int, ...]:
        """All columns with which something is wrong."""
        return tuple(dict.fromkeys(column for reason in self.reasons for column in reason.columns))

    @property
    def clusters(self) -> tuple[int, ...]:
        """All clusters with which something is wrong."""
        return tuple(sorted({cluster for reason in self.reasons for cluster in reason.clusters}))

    @property
    def sentence(self) -> str:
        """The verdict with its reasons, in words."""
        if self.reasons:
            said = [reason.sentence for reason in self.reasons[:_MOST_SAID]]
            left = len(self.reasons) - len(said)
            return f"Doubtful: {'; '.join(said)}{f'; and {left} more' if left else ''}."
        if any(note.kind != "prediction" for note in self.notes):
            return "Good: the inferred data explain the rounds in all that matters."
        if self.n_rounds:
            return "Good: the inferred data explain every round, as far as its noise tells."
        return "Good: nothing speaks against it; no data were inferred that could be held against the rounds."

    @property
    def rests_on(self) -> str:
        """How many records it rests on, in words."""
        words = "rests on a number of records that cannot be told" if self.records is None else self.records.sentence
        return f"{words[0].upper()}{words[1:]}."

    @property
    def in_words(self) -> str:
        """The verdict, its reasons and what it rests on, each said once."""
        return spoken(self.sentence, self.rests_on)

    def to_json(self) -> dict[str, Any]:
        """A JSON value."""
        why = {name: [item.to_json() for item in getattr(self, name)] for name in ("reasons", "notes")}
        about = {"columns": list(self.columns), "clusters": list(self.clusters)}
        return {"status": self.status, "sentence": self.sentence, **about, **why, "n_rounds": self.n_rounds}

    def __repr__(self) -> str:
        return shortened(f"<Verdict: {self.sentence}>")

    def _card(self) -> Card:
        rows = [(reason.kind, reason.sentence) for reason in (*self.reasons, *self.notes)]
        return Card(f"Verdict: {self.status}", header=("about", "noted"), rows=rows, note=self.in_words)


def spoken(sentence: str, rests_on: str) -> str:
    """A verdict and what it rests on; only the verdict where that is among its reasons."""
    return sentence if rests_on[1:-1] in sentence else f"{sentence} {rests_on}"


def named(place: str, numbers: Sequence[int]) -> str:
    """Clusters or cells of these numbers, in words; a place has a gap for an s and one for the numbers."""
    return place.format("s" * (len(numbers) > 1), listed(numbers))


def reasons_of(domain: Domain, place: str, misfits: Sequence[Misfit]) -> list[Reason]:
    """One reason for each column, cluster or block, by where it is worst; the worst first."""
    by_subject: dict[tuple[object, ...], list[Misfit]] = {}
    for misfit in sorted(misfits, key=lambda m: -m.importance):
        subject = {"column": misfit.column, "size": misfit.cluster, "round": (misfit.round, misfit.block)}[misfit.kind]
        by_subject.setdefault((misfit.kind, subject), []).append(misfit)
    return [_reason(domain, place, own) for own in by_subject.values()]


def _reason(domain: Domain, place: str, misfits: Sequence[Misfit]) -> Reason:
    worst, clusters = misfits[0], _numbers(misfit.cluster for misfit in misfits)
    measured, inferred = worst.measured, worst.inferred
    if worst.column is not None:
        measured, inferred = (_in_units(domain, worst.column, value) for value in (measured, inferred))
        where = "" if worst.cluster is None else f" in {named(place, [worst.cluster])}"
        others = [k for k in clusters if k != worst.cluster]
        also = f", and are off in {named(place, others)} too" if others else ""
        rounds = f"{column_names(domain)[worst.column]}: the rounds measured {_figure(measured)}{where}"
        sentence = f"{rounds}, the inferred data say {_figure(inferred)}{also}"
    elif worst.kind == "size":
        counted = f"about {_figure(max(measured, 0.0))} records were counted"
        sentence = f"{named(place, clusters)}: {counted}, the inferred data have {_figure(inferred)}"
    else:
        unknown = f"{measured:.0%} of the answer ({worst.block})"
        sentence = f"round {worst.round + 1}: {unknown} is neither noise nor explained by the inferred data"
    log10 = worst.log_probability / float(np.log(10.0))
    numbers = {"round": float(worst.round + 1), "measured": measured, "inferred": inferred, "log10_chance": log10}
    return _about(domain, misfits, worst.kind, sentence, numbers | {"importance": worst.importance})


def _in_units(domain: Domain, column: int, value: float) -> float:
    point = domain.origin()
    point[column] = value
    return float(domain.from_unit(point)[column])


def notes_of(domain: Domain, misfits: Sequence[Misfit], *, foreseen: bool = True) -> Iterator[Reason]:
    """One note for each round: what differs by more than noise and does not decide; or that it was not foreseen."""
    for t in sorted({misfit.round for misfit in misfits}):
        own = [misfit for misfit in misfits if misfit.round == t]
        names = [column_names(domain)[j] for j in _numbers(misfit.column for misfit in own)]
        about = listed([*names, *sorted({f"{misfit.block}s" for misfit in own if misfit.column is None})])
        numbers = {"round": float(t + 1), "importance": max(misfit.importance for misfit in own)}
        kind: Kind = own[0].kind if foreseen else "prediction"
        sentence = f"round {t + 1} was not foreseen by the rounds before it in {about}"
        if foreseen:
            small = numbers["importance"] < 1.0
            why = "by too little to matter" if small else "and a later round was asked where the clusters are"
            sentence = f"round {t + 1}, {about}: measured and inferred values differ by more than noise, {why}"
        yield _about(domain, own, kind, sentence, numbers)


def _numbers(numbers: Iterable[int | None]) -> list[int]:
    return sorted({number for number in numbers if number is not None})


def _about(domain: Domain, misfits: Sequence[Misfit], kind: Kind, sentence: str, numbers: dict[str, float]) -> Reason:
    columns, clusters = (_numbers(of) for of in zip(*((m.column, m.cluster) for m in misfits), strict=True))
    ids = tuple(j if domain.columns is None else domain.columns[j] for j in columns)
    return Reason(kind=kind, sentence=sentence, columns=ids, clusters=tuple(clusters), numbers=numbers)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"


def listed(names: Sequence[object]) -> str:
    """Names in words, not more than a reader wants: 1, 2 and 3."""
    shown = [str(name) for name in names]
    if len(shown) > _MOST_NAMED:
        shown[_MOST_NAMED - 1 :] = [f"{len(shown) - _MOST_NAMED + 1} more"]
    *others, last = shown
    return f"{', '.join(others)} and {last}" if others else last
