"""Drive an algorithm against a curator, round by round; every round is saved before the next query is asked."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol

from recoup._files import exclusive
from recoup._random import drawn_key, entropy_of, stream
from recoup._threads import one_blas_thread
from recoup._validate import choice
from recoup.algorithms.base import Algorithm
from recoup.curator.curator import Curator
from recoup.curator.source import csv_dialect_of, source_on_terms
from recoup.domain import Domain
from recoup.errors import (
    Argument,
    BudgetExceededError,
    ContinuationError,
    CostlyTerms,
    DataError,
    LedgerLockedError,
    LedgerUnitError,
    MissingBoundsError,
    ParameterError,
    TranscriptError,
)
from recoup.isolation.bare import is_algorithm
from recoup.isolation.process import separated
from recoup.mixed import Mixed
from recoup.privacy.ledger import Ledger
from recoup.privacy.ledger_releases import said_line
from recoup.privacy.mechanism import Noise, SimulatedNoise, checked_noise
from recoup.privacy.price import Price, as_fraction
from recoup.privacy.statement import PerPerson
from recoup.remote.table import RemoteTable
from recoup.schema import Schema
from recoup.transcript.context import Context, Law, Request
from recoup.transcript.continuation import continued, key_of_run
from recoup.transcript.round import Round
from recoup.transcript.transcript import Payment, Transcript

# Raised before a charge is made.
_REFUSALS = (BudgetExceededError, ContinuationError, DataError, LedgerLockedError, LedgerUnitError, ParameterError)


def release(
    algorithm: Algorithm,
    X: object,
    *,
    domain: Domain | Schema | None = None,
    epsilon: Any,
    delta: Any = 0,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    records_per_person: int = 1,
    person: str | None = None,
    per_person: PerPerson | None = None,
    n_records: int | None = None,
    mechanism: Literal["auto", "laplace", "gaussian"] = "auto",
    csv_dialect: str = "rfc4180",
    random_state: Any = None,
    noise: Literal["secure", "simulated"] = "secure",
    path: str | os.PathLike[str] | None = None,
    resume: bool = False,
    purpose: str = "",
    on_round: Callable[[int], None] | None = None,
    isolate: bool = True,
) -> Transcript:
    """Run a private algorithm on records and return everything that was released.

    Args:
        algorithm: what to ask next, for example `recoup.KMeans(n_clusters=15, n_rounds=5)`.
        X: the records: an array, a data frame, an Arrow table or stream, a Spark DataFrame, a path; or a table that
            somebody else serves, by `recoup.connect`: its curator then decides on bounds, persons, noise and ledger,
            and the algorithm runs here.
        domain: public bounds, for example `recoup.Box(low, high)`, or a `recoup.Schema`; required unless X is served.
        epsilon: the total budget, read as the decimal that you type.
        delta: 0 for pure epsilon; above 0, Gaussian noise is allowed.
        ledger: charged before every answer.
        records_per_person: how many records one person may have; where a column identifies persons, how many are kept
            of each.
        person: the column that identifies persons, so that the promise covers all records of a person together; a
            record without an identifier contributes nothing. Columns are then declared by name.
        per_person: "mean", the default, makes one row of a person's records; "sample" keeps `records_per_person` of
            them, chosen by a keyed hash, and the noise is that many times as large.
        n_records: a public guess of the number of records (of persons, where each has one row).
        mechanism: "auto" is Laplace for delta=0, and otherwise what suits the algorithm (the default one: Laplace in up
            to three columns, else Gaussian), but Gaussian where the ledger already holds Gaussian rounds, because
            mixing both kinds is expensive.
        csv_dialect: how a CSV file was written: "rfc4180" quotes text; "lines" does not, so that the unit is a line.
        random_state: seeds only choices that need no protection (initial centres), and the noise if it is simulated.
        noise: "secure", or "simulated" for experiments.
        path: where to save the transcript after every round.
        resume: continue the transcript at `path`, under the ledger it began with; only what is missing is paid for.
        purpose: what the release is for, in one line of public text that the ledger keeps.
        on_round: called with the number of finished rounds.
        isolate: run an algorithm that is not Recoup's in a new process, which is handed public terms and rounds only.

    Returns:
        The transcript.

    Guarantees: all rounds together, including those that a crash lost, cost at most (epsilon, delta); with a ledger
    this also holds for all copies of the transcript that somebody continues. Isolation stops code that walks Python's
    objects to the records; it does not stop code that uses the rights of the same user, such as reading the file: for
    that, `recoup serve` runs the curator under another user. Nor does it undo what a module did when it was imported
    here: `recoup.custom.by_name` gives an algorithm whose module never is.

    >>> import numpy as np
    >>> from recoup import Box, KMeans
    >>> x = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> transcript = release(KMeans(n_clusters=2, n_rounds=3), x, domain=Box([0, 0], [1, 1]), epsilon=1)
    >>> len(transcript.rounds), float(transcript.epsilon_spent) <= 1
    (3, True)
    """
    given = dict(locals())  # a copy: a debugger that looks at the frame fills the other one again
    if not isinstance(isolate, bool):
        raise ParameterError(Argument("isolate"), " must be True or False.")
    # By its type, and read as it lies there: what an object or its class says of itself is code of its own.
    alone = isolate and not isinstance(X, RemoteTable)
    if not (is_algorithm(type(algorithm)) if alone else issubclass(type(algorithm), Algorithm)):
        raise ParameterError("algorithm is something else: give one such as recoup.KMeans(n_clusters=3).")
    for name, value, kinds, advice in (
        ("ledger", ledger, Ledger | str | os.PathLike | None, "a recoup.Ledger or its path"),
        ("path", path, str | os.PathLike | None, "a file name"),
    ):
        if not issubclass(type(value), kinds):
            raise ParameterError(f"{name} is a {type(value).__name__}: give {advice}.")
    if isinstance(X, RemoteTable):
        from recoup.remote.release import release_at

        del given["isolate"]  # there are no records here
        return release_at(given.pop("algorithm"), given.pop("X"), **given)
    if domain is None:
        raise MissingBoundsError("no domain was declared: give public bounds, for example recoup.Box(low, high).")
    # From here on nothing but the process of its own runs the code of an algorithm that is not Recoup's.
    with separated(given.pop("algorithm"), given.pop("isolate")) as asked:
        return _release(asked, **given)


def _release(
    algorithm: Algorithm,
    X: object,
    *,
    domain: Domain | Schema,
    epsilon: Any,
    delta: Any,
    ledger: Ledger | str | os.PathLike[str] | None,
    records_per_person: int,
    person: str | None,
    per_person: PerPerson | None,
    n_records: int | None,
    mechanism: Literal["auto", "laplace", "gaussian"],
    csv_dialect: str,
    random_state: Any,
    noise: Literal["secure", "simulated"],
    path: str | os.PathLike[str] | None,
    resume: bool,
    purpose: str,
    on_round: Callable[[int], None] | None,
) -> Transcript:
    """Run an algorithm, which may be in another process, on records that are here."""
    domain = Mixed(schema=domain) if isinstance(domain, Schema) else domain
    check_on_round(on_round)
    said_line(purpose, "purpose")
    choice(mechanism, "mechanism", ("auto", "laplace", "gaussian"))
    delta = as_fraction(delta, "delta", allow_zero=True)
    ledger = Ledger(ledger) if isinstance(ledger, str | os.PathLike) else ledger
    law = law_of(algorithm, domain, delta, ledger) if mechanism == "auto" else mechanism
    context = Context(
        domain=domain,
        epsilon=epsilon,
        delta=delta,
        mechanism=law,
        n_records=n_records,
        records_per_person=records_per_person,
        person=person,
        per_person=per_person,
    )
    checked_noise(noise)
    entropy = entropy_of(random_state)
    if context.per_person == "sample":
        key = (key_of_run(path) if resume else None) or drawn_key(None if noise == "secure" else entropy)
        context = replace(context, sample_key=key)
    source = source_on_terms(X, context, csv_dialect)
    allowed = delta if mechanism == "auto" else None
    # A delta that is allowed and not needed is not asked for.
    needed = Fraction(0) if allowed and law == "laplace" else delta
    context = replace(context, csv_dialect=csv_dialect_of(source), delta=needed)
    fresh = Transcript(context=context, algorithm=algorithm.to_json(), simulated=noise == "simulated")
    # Two processes that continue one transcript, or one by two names, would each spend what is left of it.
    path = None if path is None else os.path.realpath(path)
    with nullcontext() if path is None else exclusive(path):
        n_charged = 0
        if ledger is not None:
            ledger.expect(context.unit)
            # What an earlier version's ledger has left is a rho: all of it may be asked for, as then.
            counted = replace(context, accounting=ledger.accounting)
            fresh = replace(fresh, context=counted, payment=Payment(ledger.identifier, uuid.uuid4().hex))
        if resume:
            transcript, n_charged = continued(path, fresh, ledger, allowed_delta=allowed)
        elif path is not None and Path(path).exists():
            again = Argument("resume", "True")
            raise TranscriptError(f"{path} exists. Continue it with ", again, ", or choose another path.")
        else:
            transcript = fresh
        context, spent = transcript.context, transcript.shares_spent
        if ledger is not None and spent < 1:
            left = Price(measure=context.budget_measure, amount=context.budget.amount * (1 - spent))
            ledger.afford(left, context.unit)
        if not transcript.rounds and (better := algorithm.advice(context)) is not None:
            warnings.warn(f"{better} Nothing has been spent yet.", CostlyTerms, stacklevel=3)
        run = (transcript.payment and transcript.payment.run) or ""
        if ledger is not None and run:
            ledger.begin(run, purpose=purpose)
        curator = Curator(source, context, ledger=ledger, run=run, n_charged=n_charged, spent=spent)
        with one_blas_thread():
            return drive(algorithm, transcript, curator, entropy, path, on_round)


def check_on_round(on_round: object) -> None:
    """Refuse what cannot be called after a round."""
    if on_round is not None and not callable(on_round):
        raise ParameterError("on_round must be a function of the number of finished rounds.")


def law_of(algorithm: Algorithm, domain: object, delta: Fraction, ledger: Ledger | None) -> Law:
    """The law of noise that suits the algorithm, and what the ledger has paid for."""
    if not delta or not isinstance(domain, Domain):
        return "laplace"
    mixed = ledger is not None and any(entry.measure != "pure" for entry in ledger.entries())
    return "gaussian" if mixed else algorithm.law(domain, delta)


class Answering(Protocol):
    """Whoever answers: the curator here, or a served one."""

    def answer(self, request: Request, noise: Noise | None = None) -> Round:
        """Answer one query within its share of the budget."""


def drive(
    algorithm: Algorithm,
    transcript: Transcript,
    curator: Answering,
    entropy: Any,
    path: str | os.PathLike[str] | None,
    on_round: Callable[[int], None] | None,
) -> Transcript:
    """Ask and answer until the algorithm is done; every round is saved before the next is asked for."""
    # What a crash lost is missing from the budget: later rounds shrink alike, so that all of them still fit.
    answered = sum((r.share for r in transcript.rounds), Fraction(0))
    shrink = (1 - answered - sum(transcript.lost, Fraction(0))) / (1 - answered) if answered < 1 else Fraction(0)
    while True:
        n_answers = len(transcript.rounds) + len(transcript.lost)
        request = algorithm.next_request(transcript.context, transcript.rounds, stream(entropy, 0, n_answers))
        if request is None or shrink == 0:
            break
        request = Request(query=request.query, share=request.share * shrink, split=request.split)
        if path is not None:
            replace(transcript, pending=request.share).save(path)
        try:
            # A stream of its own for each answer, so that a resumed run never repeats one.
            simulated = SimulatedNoise(stream(entropy, 1, n_answers)) if transcript.simulated else None
            answer = curator.answer(request, simulated)
        except _REFUSALS:
            # Refused before anything was charged: nothing is pending.
            if path is not None:
                transcript.save(path)
            raise
        transcript = transcript.with_round(answer)
        if path is not None:
            transcript.save(path)
        if on_round is not None:
            on_round(len(transcript.rounds))
    return transcript
