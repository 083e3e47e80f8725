"""Whether a saved transcript may be continued: under the same terms, by the ledger that pays for it, and once.

A transcript names its ledger and its run there. Whatever the ledger was charged for the run must be among what the
transcript has answered or lost, by number and by amount. So a copy can go on only if no other has gone further, and all
continuations together cost at most what was promised for one release.
"""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from recoup.errors import Argument, ContinuationError, ParameterError, TranscriptError
from recoup.privacy.ledger import Ledger
from recoup.transcript.transcript import Transcript

_ANEW = "begin a new release with another path"


def continued(
    path: str | os.PathLike[str] | None,
    fresh: Transcript,
    ledger: Ledger | None,
    *,
    allowed_delta: Fraction | None = None,
) -> tuple[Transcript, int]:
    """The transcript to continue, a pending round counted as lost, and how many charges the ledger holds for its run.

    Without a file it begins as `fresh`, which has no rounds and the terms and the payment of now; what has other terms,
    or would be paid for by somebody else than `ledger`, or was paid for already, is refused. With an
    `allowed_delta`, the law of the noise is that of the file, which an earlier version may have chosen otherwise.
    """
    if path is None:
        raise ParameterError(Argument("resume", "True"), " needs the path of the transcript to continue.")
    if not Path(path).exists():
        return fresh, 0
    if Path(path).stat().st_nlink > 1:
        raise ContinuationError(
            f"{path} has more than one name (hard links): continued under one, it would stay as it is under the others "
            f"and could be continued again. Remove the other names first, or {_ANEW}."
        )
    old = Transcript.load(path)
    if old.imported:
        raise TranscriptError(f"{path} was made elsewhere: it can be read, and not continued.")
    if old.payment is None and old.context.csv_dialect is None and fresh.context.csv_dialect == "lines":
        # Before dialects were declared, and payments named, this was how all CSV was read.
        old = replace(old, context=replace(old.context, csv_dialect="lines"))
    # What was begun by an earlier version goes on to be added up as it was.
    fresh = replace(fresh, context=replace(fresh.context, accounting=old.context.accounting))
    if allowed_delta:
        law, delta = old.context.mechanism, allowed_delta if old.context.mechanism == "gaussian" else Fraction(0)
        fresh = replace(fresh, context=replace(fresh.context, mechanism=law, delta=delta))
    same = (
        old.context.to_json() == fresh.context.to_json()
        and old.algorithm == fresh.algorithm
        and old.simulated == fresh.simulated
    )
    if not same:
        raise TranscriptError(
            f"{path} was released under other terms (algorithm, bounds, budget, noise, persons or dialect of CSV): "
            "resume with the same ones."
        )
    _check_payer(path, old, None if ledger is None else ledger.identifier)
    n_charged = 0 if ledger is None else _check_charges(path, old, ledger)
    if old.pending is not None:
        old = replace(old, lost=(*old.lost, old.pending), pending=None)
        # At once: if nothing is left to pay another round with, nobody saves it later.
        old.save(path)
    return old, n_charged


def key_of_run(path: str | os.PathLike[str] | None) -> str | None:
    """The key by which a run that is to be continued chooses records of a person: its rounds are of the same ones."""
    return Transcript.load(path).context.sample_key if path is not None and Path(path).exists() else None


def _check_payer(path: str | os.PathLike[str], old: Transcript, given: str | None) -> None:
    if old.payment is None:
        if old.shares_spent < 1:
            raise TranscriptError(
                f"{path} was written by an earlier version of Recoup, which did not note the ledger that pays for it: "
                f"it can be read, and not continued. Infer from the rounds that it has, or {_ANEW}."
            )
        return
    began = old.payment.ledger
    if began is None and given is not None:
        raise ContinuationError(
            f"{path} was begun without a ledger, so no ledger holds what it has spent. Continue it without one, or "
            f"{_ANEW}, which the ledger pays for from its first round."
        )
    if began != given:
        other = "" if given is None else f", and this one has {given}"
        raise ContinuationError(
            f"{path} is paid for by the ledger with the identifier {began}{other}. Continue it under that ledger "
            f"(recoup ledger show names its identifier), or {_ANEW}."
        )


def _check_charges(path: str | os.PathLike[str], old: Transcript, ledger: Ledger) -> int:
    if old.payment is None:
        return 0
    charged = [entry.amount for entry in ledger.entries() if entry.run == old.payment.run]
    n_known = len(old.rounds) + len(old.lost) + (old.pending is not None)
    if len(charged) > n_known or sum(charged, Fraction(0)) > old.amount_spent:
        raise ContinuationError(
            f"The {ledger.name} was charged for {len(charged)} rounds of this run, and {path} knows of {n_known}: "
            "another copy of it was continued, and both together would spend more than was promised. Go on with the "
            f"copy that has the most rounds, or {_ANEW}."
        )
    if len(charged) < len(old.rounds):
        raise ContinuationError(
            f"The {ledger.name} was charged for {len(charged)} rounds of this run, and {path} has {len(old.rounds)}: "
            "this is an older copy of the ledger. Bring back the newest; what it does not show is spent all the same."
        )
    return len(charged)
