"""What an inference says about itself: good, or doubtful and why, as a value that can be read and printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from recoup.maxent.records import Records

_MOST_SAID = 4  # reasons in one sentence; the data have all of them
Kind = Literal["records", "declared", "column", "size", "round", "clusters", "apart", "prediction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that is wrong.

    Attributes:
        kind: "records", they cannot be told from none; "declared", they are far from the declared number; "column",
            the inferred data miss what was measured in it; "size", they miss how many records were counted in a
            cluster; "round", they miss a part of an answer of another kind; "clusters", some may be nothing but noise;
            "apart", some were never counted apart from others; "prediction", a round was not foreseen by those before
            it.
        sentence: the same in words, without an end.
        columns: those that it is about: names, or numbers where columns have none.
        clusters: those that it is about: rows of the centres, or cells of the last round with sums where no centres
            were given.
        numbers: the numbers behind it.
    """

    kind: Kind
    sentence: str
    columns: tuple[str | int, ...] = ()
    clusters: tuple[int, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A JSON value."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "columns": list(self.columns),
            "clusters": list(self.clusters),
            "numbers": dict(self.numbers),
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict:
    """Whether a result can be trusted, by the transcript and the inferred data alone.

    Attributes:
        reasons: what is wrong; a verdict without any is good.
        notes: what is certain but too small to matter, and rounds that came as a surprise and are explained now.
        records: how many records it rests on; none where that cannot be told.
        n_rounds: rounds that the inferred data were held against; 0 where there are no inferred data.

    >>> wrong = Reason(kind="column", sentence="age: measured 31, inferred 45", columns=("age",), clusters=(2,))
    >>> Verdict(reasons=(wrong,), n_rounds=5)
    <Verdict: Doubtful: age: measured 31, inferred 45.>
    >>> Verdict(n_rounds=5).good
    True
    """

    reasons: tuple[Reason, ...] = ()
    notes: tuple[Reason, ...] = ()
    records: Records | None = None
    n_rounds: int = 0

    @property
    def good(self) -> bool:
        """Whether nothing is wrong as far as the transcript tells."""
        return not self.reasons

    @property
    def status(self) -> Literal["good", "doubtful"]:
        """The verdict in one word."""
        return "good" if self.good else "doubtful"

    @property
    def columns(self) -> tuple[str | int, ...]:
        """All columns that something is wrong with."""
        return tuple(dict.fromkeys(column for reason in self.reasons for column in reason.columns))

    @property
    def clusters(self) -> tuple[int, ...]:
        """All clusters that something is wrong with."""
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
        found = "rests on a number of records that cannot be told" if self.records is None else self.records.sentence
        return f"{found[0].upper()}{found[1:]}."

    def to_json(self) -> dict[str, Any]:
        """A JSON value."""
        return {
            "status": self.status,
            "sentence": self.sentence,
            "columns": list(self.columns),
            "clusters": list(self.clusters),
            "reasons": [reason.to_json() for reason in self.reasons],
            "notes": [note.to_json() for note in self.notes],
            "n_rounds": self.n_rounds,
        }

    def __repr__(self) -> str:
        return f"<Verdict: {self.sentence}>"
