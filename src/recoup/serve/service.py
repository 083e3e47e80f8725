"""What a served curator does with a request that has come in whole: begin a run, answer, show what was answered.

The order of an answer is what the promise rests on. (1) Everything public is checked. (2) The token's own budget is
charged, by a row under the request's key. (3) The table's ledger is charged, with token, key and digest of the request.
(4) Records are read, noise is drawn. (5) The reply is kept, durably. (6) It is sent, at its public time. Both charges
come before records are read, so that nobody can tell from what is left how long reading took. Whoever dies before (5)
has sent nothing: the same request is then drawn once more, under the same charges.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple
from uuid import uuid4

from recoup._files import checksum_of
from recoup._random import drawn_key
from recoup.curator.curator import Curator
from recoup.errors import BudgetError, BudgetExceededError, LedgerUnitError, ParameterError, RecoupError
from recoup.privacy.ledger_releases import said_line
from recoup.privacy.ledger_rules import Budget
from recoup.privacy.price import Price
from recoup.privacy.statement import Unit
from recoup.queries import query_from_json
from recoup.queries.base import Query, check_columns
from recoup.serve.limits import Limits
from recoup.serve.offer import Offer
from recoup.serve.refusals import (
    encoded,
    exceeded,
    malformed,
    other_body,
    too_large,
    unauthorized,
    unavailable,
    unknown_run,
)
from recoup.serve.store import Answer, Run, Store, check_fits, new_run, sum_of
from recoup.serve.tokens import Kind, Token, found
from recoup.transcript.context import Request
from recoup.transcript.round import fraction_from_json, quote, round_from_json, round_to_json
from recoup.transcript.transcript import Payment, Transcript

RUN_FIELDS: Final = frozenset({"epsilon", "delta", "mechanism", "n_records", "algorithm", "purpose"})
ANSWER_FIELDS: Final = frozenset({"query", "share", "split"})
_LARGEST_DESCRIPTION: Final = 100_000  # bytes of an algorithm's


class Asked(NamedTuple):
    """A question that was read, of a run, under a key."""

    token: Token
    run: Run
    key: str
    digest: str
    request: Request
    due: float


class _Receipt:
    """Stands for the ledger where the curator draws: what it asks to be charged must be what was charged, once."""

    def __init__(self, paid: Price, unit: Unit) -> None:
        self._paid: tuple[Price, Unit] | None = (paid, unit)

    def charge(self, price: Price, *, unit: Unit, **_: Any) -> None:
        """Refuse another price than that which was paid."""
        if (price, unit) != self._paid:
            raise ParameterError("an answer costs another price than was charged for it.")
        self._paid = None


class Service:
    """A curator on one table, for several analysts; each method is called with the requests of one token.

    Guarantees: all that is answered was charged to the table's ledger and to the token before records were read for it;
    what is returned was kept durably before. Several processes may serve from the same state folder and ledger.
    """

    def __init__(self, offer: Offer, store: Store, limits: Limits | None = None) -> None:
        self.offer, self.store, self.limits = offer, store, limits or Limits()
        terms = offer.to_json()
        fixed = ("domain", "records_per_person", "person", "per_person", "csv_dialect", "ledger")
        if not store.bind(checksum_of({name: terms[name] for name in fixed})):
            raise ParameterError(
                f"the state folder {store.folder} is of other bounds, or of another unit, dialect or ledger: give a "
                "folder for each."
            )
        self._unit = offer.terms.unit
        self._turn = threading.Lock()  # at the ledger, for the same reason as in the store

    def token(self, given: str, kind: Kind = "analyst") -> Token:
        """The token that was given; none, an unknown one and a revoked one are refused alike."""
        token = found(self.store.tokens(), given, kind)
        if token is None:
            raise unauthorized()
        return token

    def terms(self, token: Token) -> dict[str, Any]:
        """The public terms, and what the token may still spend: no more than is left of the table's budget."""
        spent = self.spent(token)
        left = min(token.epsilon - spent, self.offer.ledger.left)
        own = {"epsilon": token.epsilon, "delta": token.delta, "spent": spent, "left": left}
        return self.offer.to_json() | {"token": {"name": token.name} | {name: str(own[name]) for name in own}}

    def spent(self, token: Token) -> Fraction:
        """What a token has spent of its own budget; an operator's has none."""
        if token.kind == "operator":
            return Fraction(0)
        return self.store.state_of(token, self._budget(token), self._unit).spent

    # ---- runs ----
    def begin(self, token: Token, key: str, body: Mapping[str, Any], digest: str) -> bytes:
        """Begin a run, or give again what was replied to the same request."""
        if (before := self.store.run_by_key(token.id, key)) is not None:
            return self._begun(before, digest)
        algorithm = body["algorithm"]
        if not isinstance(algorithm, dict) or len(encoded(algorithm)) > _LARGEST_DESCRIPTION:
            raise malformed("The algorithm must be described by a JSON object of moderate size.")
        purpose = said_line(body["purpose"], "purpose")
        context = self.offer.context(
            epsilon=self._fraction(body["epsilon"], "epsilon"),
            delta=self._fraction(body["delta"], "delta"),
            mechanism=body["mechanism"],
            n_records=body["n_records"],
            key=drawn_key(),
        )
        if context.mechanism == "gaussian" and not token.delta:
            raise BudgetError("This token has no delta, which Gaussian noise needs: ask for Laplace noise.")
        check_fits(self.store.state_of(token, self._budget(token), self._unit), [context.budget], self._unit)
        self.offer.ledger.afford(context.budget, self._unit)
        name = uuid4().hex
        transcript = Transcript(
            context=context, algorithm=algorithm, simulated=False, payment=Payment(self.offer.ledger.identifier, name)
        )
        text = encoded(transcript.to_json()).decode()
        run = new_run(name, token, key, digest, purpose, text)
        return self._begun(self.store.add_run(run, self.limits.open_runs), digest)

    def _begun(self, run: Run, digest: str) -> bytes:
        if run.digest != digest:
            raise other_body()
        transcript = _transcript(run)
        payment = transcript.payment
        assert payment is not None
        return encoded({"run": run.name, "context": transcript.context.to_json(), "payment": payment._asdict()})

    def runs(self, token: Token) -> dict[str, Any]:
        """The token's runs."""
        return {"runs": [described(run, spent) for run, spent in self.store.runs(token.id)]}

    def run(self, token: Token, name: str) -> Run:
        """A run of this token."""
        run = self.store.run(token.id, name)
        if run is None:
            raise unknown_run()
        return run

    def transcript(self, token: Token, name: str) -> bytes:
        """All that was answered in a run, once its time has come; what was charged and not answered is lost so far."""
        run, now = self.run(token, name), time.time()
        transcript, rounds, lost = _transcript(run), [], []
        for answer in self.store.answers(name):
            if answer.reply is None or answer.due is None or answer.due > now:
                lost.append(answer.share)
            else:
                rounds.append(round_from_json(_value(answer.reply)["round"], transcript.context))
        return encoded(replace(transcript, rounds=tuple(rounds), lost=tuple(lost)).to_json())

    # ---- answers ----
    def read_question(self, body: Mapping[str, Any]) -> Request:
        """Read a question by the closed registry of queries; nothing but the request is looked at."""
        split = body["split"]
        if not isinstance(split, dict):
            raise malformed("The split must be an object of shares by the names of blocks.")
        query = self._query(body["query"])
        parts = {name: self._fraction(part, "a part of the split") for name, part in split.items()}
        return Request(query=query, share=self._fraction(body["share"], "share"), split=parts)

    def _fraction(self, text: object, name: str) -> Fraction:
        most = self.limits.fraction_characters
        if isinstance(text, str) and len(text) <= most:
            with suppress(RecoupError):
                return fraction_from_json(text)
        raise malformed(f"{name} must be a fraction written as text, such as '1/10', of {most} characters at most.")

    def _query(self, value: object) -> Query:
        try:
            query = query_from_json(value)
            size = query.size
        except RecoupError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, MemoryError):
            raise malformed("The query misses a field, or one has the wrong type.") from None
        if size > self.limits.query_values:
            raise too_large(f"The query has more than {self.limits.query_values} values")
        if query.to_json() != value:
            raise malformed("The query has a field that its kind has not, or writes one in another way.")
        check_columns(query, self.offer.domain)
        return query

    def answer(self, asked: Asked) -> bytes:
        """Answer a question once, while nobody else answers one of the same run; or give the reply that was kept."""
        run, request = asked.run, asked.request
        answers = self.store.answers(run.name, asked.key)
        known = next((answer for answer in answers if answer.key == asked.key), None)
        if known is not None and known.digest != asked.digest:
            raise other_body()
        if known is not None and known.reply is not None:
            return known.reply
        if known is None and len(answers) >= self.limits.run_answers:
            raise too_large(f"A run may have {self.limits.run_answers} answers")
        context = _transcript(run).context
        price = quote(context, request).price
        spent = sum_of(answer.share for answer in answers if answer is not known)
        if spent + request.share > 1:
            numbers: Any = {"spent": spent, "asked": request.share, "left": 1 - spent}
            where = "Shares of this run's budget"
            raise exceeded(BudgetExceededError(**numbers, where=where), where)
        source = self.offer.source(context.sample_key)
        this = Answer(run.name, asked.key, asked.digest, price, request.share, None, None)
        self._charge(asked, this, is_new=known is None, is_first=not any(answer is not known for answer in answers))
        try:
            receipt = _Receipt(price, context.unit)
            answered = Curator(source, context, ledger=receipt, run=run.name, spent=spent).answer(request)
            return self.store.keep(this, encoded({"round": round_to_json(answered, context)}), asked.due)
        except Exception as error:
            raise unavailable() from error

    def _charge(self, asked: Asked, answer: Answer, *, is_new: bool, is_first: bool) -> None:
        """Charge the token, then the table, each once."""
        query, ledger = asked.request.query, self.offer.ledger
        words = f"{query.type_name} query of {query.size} value{'' if query.size == 1 else 's'}"
        mark = f"; key {asked.key}; {asked.digest}"  # by which a charge is found again, whatever the words are by then
        text = f"{words}; token {asked.token.name}{mark}"
        if is_new:
            self.store.reserve(answer, asked.token, self._budget(asked.token), self._unit)
        elif any(entry.run == answer.run and entry.purpose.endswith(mark) for entry in ledger.entries()):
            return
        try:
            with self._turn:
                if is_first:
                    ledger.begin(answer.run, purpose=asked.run.purpose, by=f"token {asked.token.name}")
                ledger.charge(answer.price, purpose=text, run=answer.run, unit=self._unit)
        except (BudgetExceededError, BudgetError, LedgerUnitError):
            # Refused: nothing was charged. After any other failure nobody knows; the next try looks whether it was.
            self.store.withdraw(answer, asked.token, self._budget(asked.token), self._unit)
            raise

    def _budget(self, token: Token) -> Budget:
        return _budget(token.epsilon, token.delta, self.offer.terms.accounting)


@cache
def _budget(epsilon: Fraction, delta: Fraction, accounting: Any) -> Budget:
    return Budget.of(epsilon, delta, accounting)


def described(run: Run, spent: Fraction) -> dict[str, Any]:
    """A run in public."""
    context = _transcript(run).context
    return {
        "run": run.name,
        "purpose": run.purpose,
        "day": run.day,
        "epsilon": str(context.epsilon),
        "delta": str(context.delta),
        "mechanism": context.mechanism,
        "share_spent": str(spent),
    }


def _transcript(run: Run) -> Transcript:
    return _read_transcript(run.transcript)


@lru_cache(maxsize=256)
def _read_transcript(text: str) -> Transcript:
    return Transcript.from_json(_value(text))


def _value(text: str | bytes) -> Any:
    return json.loads(text)
