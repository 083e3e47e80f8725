"""A release from a served curator: the algorithm runs here, records, noise and ledger are there.

A run is begun once and has a name; the n-th question of it has the key "name-n". So a reply that was lost, also to a
crash of this process, is fetched again by the same key, and what the curator has kept of the run continues it.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from recoup._files import exclusive
from recoup._random import entropy_of
from recoup._validate import choice
from recoup.algorithms.base import Algorithm
from recoup.algorithms.registry import completed
from recoup.domain import Domain
from recoup.driver import check_on_round, drive
from recoup.errors import (
    Argument,
    ContinuationError,
    CostlyTerms,
    ParameterError,
    RecoupError,
    RemoteError,
    TranscriptError,
)
from recoup.mixed import Mixed
from recoup.privacy.ledger_releases import said_line
from recoup.privacy.price import as_fraction
from recoup.remote.table import RemoteTable
from recoup.schema import Schema
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round, quote, round_from_json
from recoup.transcript.transcript import Payment, Transcript
from recoup.transcript.wire import context_from_json, request_to_json

_CLOSE = 1e-9  # relative: noise scales are found by bisection, perhaps with another library


def release_at(
    algorithm: Algorithm,
    table: RemoteTable,
    *,
    domain: Domain | Schema | None,
    epsilon: Any,
    delta: Any,
    n_records: int | None,
    mechanism: str,
    random_state: Any,
    path: str | os.PathLike[str] | None,
    resume: bool,
    purpose: str,
    on_round: Callable[[int], None] | None,
    **fixed: Any,
) -> Transcript:
    """What `recoup.release` does where the records are served by somebody else."""
    _check_fixed(table, fixed)
    completed(type(algorithm))
    if domain is not None:
        table.check_domain(Mixed(schema=domain) if isinstance(domain, Schema) else domain)
    check_on_round(on_round)
    said_line(purpose, "purpose")
    choice(mechanism, "mechanism", ("auto", "laplace", "gaussian"))
    delta = as_fraction(delta, "delta", allow_zero=True)
    law = (algorithm.law(table.domain, delta) if delta else "laplace") if mechanism == "auto" else mechanism
    run: dict[str, Any] = {"epsilon": epsilon, "mechanism": law}
    # A delta that is allowed and not needed is not asked for.
    run |= {"delta": Fraction(0) if mechanism == "auto" and law == "laplace" else delta}
    run |= {"n_records": table.n_records if n_records is None else n_records}
    expected = table.context(**run)
    path = None if path is None else os.path.realpath(path)
    if resume and path is None:
        raise ParameterError(Argument("resume", "True"), " needs the path of the transcript to continue.")
    with nullcontext() if path is None else exclusive(path):
        if path is not None and Path(path).exists():
            if not resume:
                again = Argument("resume", "True")
                raise TranscriptError(f"{path} exists. Continue it with ", again, ", or choose another path.")
            transcript = _continued(table, Transcript.load(path), expected, algorithm)
        else:
            if (better := algorithm.advice(expected)) is not None:
                warnings.warn(f"{better} Nothing has been spent yet.", CostlyTerms, stacklevel=3)
            transcript = _begun(table, expected, algorithm.to_json(), purpose)
        if path is not None:
            transcript.save(path)
        assert transcript.payment is not None
        assert transcript.payment.run is not None
        # Without a seed by the run's name, which is public: whoever continues it asks the same, under the same key.
        entropy = entropy_of(int(transcript.payment.run, 16) if random_state is None else random_state)
        curator = RemoteCurator(table, transcript.context, transcript.payment.run, len(transcript.rounds))
        return drive(algorithm, transcript, curator, entropy, path, on_round)


class RemoteCurator:
    """Asks the questions of one run, in order, and checks what comes back."""

    def __init__(self, table: RemoteTable, context: Context, run: str, n_answers: int) -> None:
        self._table, self._context, self._run, self._n_answers = table, context, run, n_answers

    def answer(self, request: Request, noise: object = None) -> Round:
        """The curator's answer to a request: that very query, at that share, with noise of the quoted scale."""
        terms = quote(self._context, request)  # which refuses what no curator could price
        key = f"{self._run}-{self._n_answers}"
        seconds = self._table.seconds(request.query)
        reply = self._table.client.post(f"/runs/{self._run}/answer", request_to_json(request), key, seconds)
        answered = _read_round(self._table, reply.get("round"), self._context)
        same = (
            answered.query.to_json() == request.query.to_json()
            and answered.share == request.share
            and answered.weights == terms.weights
            and abs(answered.scale - terms.scale) <= _CLOSE * terms.scale
        )
        if not same:
            raise RemoteError(f"{self._table.url} answers another question than it was asked.")
        self._n_answers += 1
        return answered


def _check_fixed(table: RemoteTable, given: dict[str, Any]) -> None:
    """Refuse what the curator decides, unless it is what it decided."""
    if given["ledger"] is not None:
        raise ParameterError(Argument("ledger"), f": the one of {table.curator} pays, so leave it out.")
    if given["noise"] != "secure":
        raise ParameterError(Argument("noise"), ": a served curator draws its own, secure noise; leave it out.")
    usual = {"person": None, "per_person": None, "records_per_person": 1, "csv_dialect": "rfc4180"}
    for name, default in usual.items():
        theirs = getattr(table, name)
        if given[name] not in (default, theirs):
            raise ParameterError(Argument(name), f" is {theirs!r} at {table.curator}: leave it out.")


def _begun(table: RemoteTable, expected: Context, algorithm: dict[str, Any], purpose: str) -> Transcript:
    """Begin a run; the same key begins it once, however often it is asked."""
    terms = expected.to_json()
    body = {name: terms[name] for name in ("epsilon", "delta", "mechanism", "n_records")}
    body |= {"algorithm": dict(algorithm), "purpose": purpose}
    reply = table.client.post("/runs", body, uuid.uuid4().hex)
    try:
        context, payment = context_from_json(reply["context"]), Payment(**reply["payment"])
        run = reply["run"]
    except (RecoupError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise RemoteError(f"{table.url} begins a run with what cannot be read.") from None
    if not _same(context, expected) or not payment.possible or (payment.ledger, payment.run) != (table.ledger, run):
        raise RemoteError(f"{table.url} begins a run on other terms than it was asked for.")
    return Transcript(
        context=context, algorithm=dict(algorithm), simulated=False, payment=payment, curator=table.curator
    )


def _continued(table: RemoteTable, old: Transcript, expected: Context, algorithm: Algorithm) -> Transcript:
    """What the curator has kept of a run: all that the file knows, and perhaps more."""
    if old.payment is None or old.payment.ledger != table.ledger or old.curator is None or old.imported:
        raise ContinuationError(
            f"the transcript is not of a run that {table.curator} pays for: continue it where it was begun, or begin a "
            "new release with another path."
        )
    if not _same(old.context, expected) or old.algorithm != dict(algorithm.to_json()):
        raise TranscriptError(
            "the transcript was released under other terms (algorithm, budget, mechanism, number of records): resume "
            "with the same ones."
        )
    value = table.client.get(f"/runs/{old.payment.run}/transcript")
    try:
        kept = Transcript.from_json(value)
    except TranscriptError as error:
        raise RemoteError(f"{table.url} sends a transcript that cannot be used: {error}") from None
    mine, theirs = old.to_json(), kept.to_json()
    same = all(mine[name] == theirs[name] for name in ("context", "algorithm", "payment", "simulated"))
    if not same or theirs["rounds"][: len(old.rounds)] != mine["rounds"]:
        raise RemoteError(f"{table.url} has kept another run under this name than the transcript tells of.")
    # What was charged and not answered so far is answered when it is asked again, under the same charge.
    return replace(old, rounds=kept.rounds, lost=(), pending=None)


def _same(context: Context, expected: Context) -> bool:
    """Whether terms are those that were asked for; the key of a sample is the curator's to draw."""
    return replace(context, sample_key=None).to_json() == replace(expected, sample_key=None).to_json()


def _read_round(table: RemoteTable, value: object, context: Context) -> Round:
    try:
        return round_from_json(value, context)  # type: ignore[arg-type]
    except (RecoupError, KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError):
        raise RemoteError(f"{table.url} answers with what is not a round.") from None
