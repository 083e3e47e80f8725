"""Everything that was released, and nothing else: queries, noisy integers, noise scales and prices, as versioned JSON.

The file holds no seed of noise and nothing of the records. Reading it never imports a name from it: types come from
closed registries. Evolution rules: fields are never removed and never change their meaning; a new field is optional or
raises the schema's version; files of every version that was ever written are kept as golden files and load for ever.
Version 5 has a schema or a column of persons. Version 4 is what Recoup releases with Gaussian noise at its exact price,
or with spreads of cells, and version 3 everything else. Version 2 holds answers that were made elsewhere, so that an
older Recoup, which would take them for its own, refuses them. Version 1 did not say which ledger paid.
`docs/transcript.md` describes each field.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

from recoup._files import checksum_of, strict_json, write_whole
from recoup._shown import Card, Shown, listing
from recoup.errors import RecoupError, TranscriptError, TranscriptFormatError, TranscriptVersionError
from recoup.mixed import Mixed
from recoup.privacy.gaussian import epsilon_of
from recoup.privacy.price import rounded_up
from recoup.privacy.statement import COUNTED, IMPORTED_NEIGHBOURS, NOT_COUNTED, STATEMENTS, PrivacyStatement
from recoup.queries.cells import as_cells
from recoup.transcript.context import Context
from recoup.transcript.round import Round, fraction_from_json, imported_round_from_json, round_from_json, round_to_json
from recoup.transcript.wire import context_from_json
from recoup.version import __version__

SCHEMA_VERSION = 5
_EXACT_VERSION = 4
_LAPLACE_VERSION = 3
IMPORTED_VERSION = 2
_UNPAID_VERSION = 1  # which does not say who paid
FORMAT = "recoup-transcript"
_LONGEST_CURATOR: Final = 2_000  # characters
_DRAWN_NAME: Final = re.compile(r"[0-9a-f]{32}")


class Payment(NamedTuple):
    """Who pays for a transcript: a ledger and a run of it, by names that were drawn and are public; or nobody.

    Nobody counts a release without a ledger: what it costs is known to its transcript alone.
    """

    ledger: str | None = None
    run: str | None = None

    @property
    def possible(self) -> bool:
        """Whether these are two drawn names, or none."""
        return self == NO_LEDGER or all(isinstance(name, str) and _DRAWN_NAME.fullmatch(name) for name in self)


NO_LEDGER: Final = Payment()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Transcript(Shown):
    """All rounds of a release, with the terms under which they were released.

    Attributes:
        context: domain, budget, mechanism, declared number of records.
        algorithm: the algorithm's public description.
        rounds: the queries with their noisy answers.
        simulated: true if the noise was simulated, so that nothing here is private.
        lost: shares of the budget that a crash spent without an answer.
        pending: the share of a round that was about to be answered when the file was written.
        neighbours: which tables are neighbours; follows from the unit, unless something else is claimed.
        payment: who pays for it; None where the file does not say.
        curator: of a release from a served curator, which table it is and where, in one line; else None.
        library_version: of Recoup, when it was written.
    """

    context: Context
    algorithm: Mapping[str, Any]
    rounds: tuple[Round, ...] = ()
    simulated: bool
    lost: tuple[Fraction, ...] = ()
    pending: Fraction | None = None
    neighbours: str = ""
    payment: Payment | None = NO_LEDGER
    curator: str | None = None
    library_version: str = __version__

    def __post_init__(self) -> None:
        if not self.neighbours:
            object.__setattr__(self, "neighbours", self.context.unit.neighbours)

    @property
    def imported(self) -> bool:
        """Whether its answers were made elsewhere, so that its privacy is only claimed."""
        return any(answered.imported is not None for answered in self.rounds)

    @property
    def shares_spent(self) -> Fraction:
        """The share of the total budget that is spent, answered or lost; all of it where it is only claimed."""
        if self.imported:
            return Fraction(1)
        return sum((r.share for r in self.rounds), Fraction(0)) + sum(self.lost, Fraction(0)) + (self.pending or 0)

    @property
    def amount_spent(self) -> Fraction:
        """What was spent, as epsilon, or mu^2 / 2 (rho) for Gaussian noise.

        Answered rounds count with their price by OpenDP's privacy map; rounds that a crash lost count with their whole
        share. Imported answers count with what is claimed for all of them.
        """
        if self.imported:
            return self.context.budget.amount
        lost = sum(self.lost, Fraction(0)) + (self.pending or 0)
        answered = sum((r.price.amount for r in self.rounds), Fraction(0))
        return answered + (self.context.budget.amount * lost if lost else 0)

    @property
    def epsilon_spent(self) -> Fraction:
        """What was spent as an epsilon, at the transcript's delta; lost rounds included."""
        if self.imported:
            return self.context.epsilon
        return epsilon_of(self.context.budget_measure, self.amount_spent, self.context.delta)

    @property
    def noise(self) -> Literal["secure", "simulated", "unverified"]:
        """Where its noise came from; unknown for imported answers."""
        return "simulated" if self.simulated else "unverified" if self.imported else "secure"

    @property
    def statement(self) -> str:
        """Whether this is private at all, in words that appear wherever it is printed, saved or drawn."""
        return STATEMENTS[self.noise]

    @property
    def privacy(self) -> PrivacyStatement:
        """The privacy statement: what is promised, to whom, under which assumptions."""
        c = self.context
        declared = {"schema": c.domain.schema.to_json()} if isinstance(c.domain, Mixed) else {}
        return PrivacyStatement(
            epsilon=float(c.epsilon),
            delta=float(c.delta),
            neighbours=self.neighbours,
            unit=str(c.unit),
            csv_dialect=c.csv_dialect,
            bounds={"low": list(c.domain.low), "high": list(c.domain.high), "columns": c.domain.columns} | declared,
            domain=c.domain.kind,
            mechanism=c.mechanism,
            noise=self.noise,
            spent=min(rounded_up(self.epsilon_spent), float(c.epsilon)),
            version=self.library_version,
            counted=self._counted,
            per_person=c.per_person_words,
        )

    @property
    def _counted(self) -> str | None:
        """What adds it to other releases of the same records, if that is known."""
        if self.imported or self.payment is None:
            return None
        if self.payment.ledger is None:
            return NOT_COUNTED
        return (
            COUNTED if self.curator is None else f"{COUNTED}, {self.payment.ledger}, of the curator of {self.curator}"
        )

    @property
    def checksum(self) -> str:
        """SHA-256 of everything else in its file: two transcripts with the same one say the same."""
        return str(self.to_json()["checksum"])

    def _card(self) -> Card:
        c, promise = self.context, self.privacy
        budget = f"{promise.epsilon:g}" + (f" and delta {promise.delta:g}" if promise.delta else "")
        facts = [("rounds", len(self.rounds)), ("epsilon", budget), ("spent", f"{promise.spent:.4g}")]
        facts += [("hides", promise.unit), ("columns", listing(c.domain.columns, c.domain.n_columns))]
        rows = [
            (t, r.query.type_name, r.query.size, float(r.scales.min()), float(r.price.amount))
            for t, r in enumerate(self.rounds, start=1)
        ]
        measure = "epsilon" if c.budget_measure == "pure" else "rho"
        header = ("round", "query", "values", "noise scale", measure)
        return Card(f"Transcript of {self.algorithm.get('type')}", facts, header, rows, warning=promise.warning)

    def with_round(self, answered: Round) -> Transcript:
        """The transcript with one more round."""
        if self.rounds and self.imported != (answered.imported is not None):
            raise TranscriptError("rounds that were made elsewhere and rounds of a release do not mix in a transcript.")
        return replace(self, rounds=(*self.rounds, answered), pending=None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the transcript durably: to a temporary file, flushed to disk, then renamed.

        Guarantees: after a crash at any point the path holds the old file or the new one, never a part.
        """
        write_whole(path, json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Transcript:
        """Read a transcript back; anything that is not exactly a transcript is refused."""
        value, problem = strict_json(path, "transcript")
        if problem:
            raise TranscriptFormatError(f"{path} {problem}.")
        return cls.from_json(value)

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        payment = None if self.imported else self.payment
        spread = any(cells.squares for r in self.rounds if (cells := as_cells(r.query)))
        exact = self.context.budget_measure == "gaussian"
        version = _EXACT_VERSION if exact or spread else _LAPLACE_VERSION
        tabular = isinstance(self.context.domain, Mixed) or self.context.person is not None
        version = SCHEMA_VERSION if tabular else version
        body = {
            "format": FORMAT,
            "schema_version": IMPORTED_VERSION if self.imported else version if payment else _UNPAID_VERSION,
            "library_version": self.library_version,
            "privacy": self.statement,
            "simulated": self.simulated,
            "neighbours": self.neighbours,
            "context": self.context.to_json(),
            "algorithm": dict(self.algorithm),
            "rounds": [round_to_json(r, self.context) for r in self.rounds],
            "lost": [str(share) for share in self.lost],
            "pending": None if self.pending is None else str(self.pending),
        }
        body |= {"payment": payment._asdict()} if payment else {}
        body |= {} if self.curator is None else {"curator": self.curator}
        return body | {"checksum": checksum_of(body)}

    @classmethod
    def from_json(cls, value: object) -> Transcript:
        """Read a transcript back from its JSON value."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise TranscriptFormatError("this is not a Recoup transcript.")
        version = value.get("schema_version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise TranscriptFormatError("the transcript's schema_version is not a whole number.")
        if version > SCHEMA_VERSION:
            shown = version if version < 10**6 else "of a million or more"
            raise TranscriptVersionError(
                f"the transcript has schema version {shown}, this Recoup reads up to {SCHEMA_VERSION}: "
                "update Recoup to read it."
            )
        body = {name: item for name, item in value.items() if name != "checksum"}
        try:
            checksum = checksum_of(body)
        except (TypeError, ValueError, RecursionError):
            raise TranscriptFormatError("the transcript holds a value that is not JSON, or nests too deeply.") from None
        if value.get("checksum") != checksum:
            raise TranscriptFormatError("the transcript was changed after it was written: its checksum does not match.")
        try:
            return _from_body(body)
        except TranscriptFormatError:
            raise
        except RecoupError as error:
            raise TranscriptFormatError(f"the transcript cannot be used: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise TranscriptFormatError("the transcript misses a field, or one has the wrong type.") from None


def _from_body(body: Mapping[str, Any]) -> Transcript:
    context = context_from_json(body["context"])
    imported = body["schema_version"] == IMPORTED_VERSION
    possible = IMPORTED_NEIGHBOURS if imported else (context.unit.neighbours,)
    if body["neighbours"] not in possible or not isinstance(body["simulated"], bool):
        raise TranscriptFormatError("the transcript's neighbours or noise are of an unknown kind.")
    if not isinstance(body["algorithm"], dict) or not isinstance(body["library_version"], str):
        raise TranscriptFormatError("the transcript's algorithm or version is of the wrong type.")
    if not isinstance(body["rounds"], list) or not isinstance(body["lost"], list):
        raise TranscriptFormatError("the transcript's rounds and lost shares must be lists.")
    if imported and (not body["rounds"] or body["lost"] or body["pending"] is not None):
        raise TranscriptFormatError("a transcript that was made elsewhere has rounds, and nothing lost or pending.")
    payment = Payment(**body["payment"]) if body["schema_version"] >= _LAPLACE_VERSION else None
    if payment is not None and not payment.possible:
        raise TranscriptFormatError("the transcript's payment names no ledger and run.")
    curator = body.get("curator")
    if curator is not None and not (isinstance(curator, str) and 0 < len(curator) <= _LONGEST_CURATOR):
        raise TranscriptFormatError("the transcript's curator must be a line of text.")
    if curator is not None and (payment is None or payment.ledger is None or not curator.isprintable()):
        raise TranscriptFormatError("the transcript's curator must be a line of text, beside the ledger that paid.")
    read_round = imported_round_from_json if imported else round_from_json
    transcript = Transcript(
        context=context,
        algorithm=body["algorithm"],
        rounds=tuple(read_round(item, context) for item in body["rounds"]),
        simulated=body["simulated"],
        lost=tuple(fraction_from_json(share) for share in body["lost"]),
        pending=None if body["pending"] is None else fraction_from_json(body["pending"]),
        neighbours=body["neighbours"],
        payment=payment,
        curator=curator,
        library_version=body["library_version"],
    )
    if transcript.shares_spent > 1:
        raise TranscriptFormatError("the transcript's rounds ask for more than the whole budget.")
    return transcript
