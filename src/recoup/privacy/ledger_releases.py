"""What the charges of a ledger were for: one release per run, with its purpose, who made it, and what it is worth."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from recoup.errors import Argument, LedgerFormatError, ParameterError, RecoupError
from recoup.privacy.ledger_file import Entry, Said, is_line
from recoup.privacy.ledger_rules import State
from recoup.privacy.price import Price
from recoup.privacy.statement import ONE_RECORD


class Release(NamedTuple):
    """One release: all charges of a run, or one charge that has none.

    Attributes:
        time: the day on which it began.
        purpose: what it is for, as whoever made it said; empty where nobody did.
        by: who made it; empty where that is not known.
        epsilon: what it is worth by itself, at the ledger's delta and for the ledger's unit.
        spent_after: the epsilon that was spent after its last charge.
    """

    run: str
    time: str
    purpose: str
    by: str
    epsilon: Fraction
    spent_after: Fraction
    entries: tuple[Entry, ...]


def said_line(text: object, name: str) -> str:
    """A text that can be kept with a release: one line that can be shown, and is not long."""
    if not isinstance(text, str) or not is_line(text):
        raise ParameterError(Argument(name), " must be one line of text, of at most 200 characters.")
    return text


def user_name() -> str:
    """Who is at work, as the environment or the system says; in public, so that anybody may choose another name."""
    try:
        name = os.environ.get("RECOUP_USER") or getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name
        return ""
    return name if is_line(name) else ""


def releases_of(entries: Sequence[Entry], said: Mapping[str, Said], state: State, name: str) -> tuple[Release, ...]:
    """The charges of a ledger as releases, in the order in which they began; `name` is what errors call the ledger."""
    runs: dict[str, list[Entry]] = {}
    for entry in entries:
        runs.setdefault(entry.run or f"charge {entry.id}", []).append(entry)
    return tuple(_release(own, said.get(own[0].run, Said()), state, name) for own in runs.values())


def _release(entries: Sequence[Entry], said: Said, state: State, name: str) -> Release:
    """Charges of one run as a release; without units, in a ledger of version 1, each counts as it is."""
    first, alone = entries[0], State(state.budget, identifier=state.identifier or "", unit=state.unit)
    try:
        for entry in entries:
            alone = alone.charged([Price(measure=entry.measure, amount=entry.amount)], entry.unit or ONE_RECORD, name)
    except (ArithmeticError, RecoupError):
        raise LedgerFormatError(f"The {name} holds a charge that it cannot have taken: it is damaged.") from None
    # What is charged by hand has a purpose of its own.
    purpose = said.purpose if first.run else first.purpose
    return Release(first.run, first.time, purpose, said.by, alone.spent, entries[-1].spent_after, tuple(entries))
