"""What a served curator charges, against what analysts got: ledger and tokens hold the price of every answer, exactly.

At each draw both are read from outside: they must already hold its price, which is computed here from the scale that
reached the sampler. Afterwards every charge must be that of one round of one analyst's transcript.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from recoup.errors import BudgetExceededError
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.connection import Connection, connected
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.sampler import Draw, listening
from recoup_lab.audit.attacks.subjects import Subject, Terms, ordinary_table, subjects
from recoup_lab.audit.findings import Finding

CHARGES: Final = "charges of ledger and tokens"
USED_UP: Final = "a budget that is used up"
_ANALYSTS: Final = ("ann", "bob")
_ROOM: Final = Fraction(1, 10**9)  # a price holds for a scale that was rounded up to a float


def attack_spending(effort: Effort, group: str) -> Iterator[Finding]:
    """Release for two analysts and follow each charge; then ask for more than is left."""
    lloyd = next(s for s in subjects() if s.name == "kmeans-lloyd")
    for mechanism in ("laplace", "gaussian"):
        for per_person in (1, 3):
            terms = Terms(mechanism=mechanism, records_per_person=per_person)
            yield _followed(effort, group, lloyd, terms)
        for whose in ("token", "table"):
            yield _refused(effort, group, lloyd, Terms(mechanism=mechanism), whose)


def _followed(effort: Effort, group: str, subject: Subject, terms: Terms) -> Finding:
    distance = terms.context.sensitivity * terms.records_per_person
    early, drawn = list[str](), list[Draw]()
    table = ordinary_table(terms.domain, 25, effort.rng(2))
    with connected(table, terms, epsilon=2 * terms.epsilon, own=terms.epsilon) as served:

        def check(draw: Draw) -> None:
            drawn.append(draw)
            price = sum((d.price(distance) for d in drawn), Fraction(0))
            for who, charges in {"ledger": _in_ledger(served), "token": _in_store(served)}.items():
                if sum((amount for _, amount in charges), Fraction(0)) < price * (1 - _ROOM):
                    early.append(f"draw {len(drawn)} came before the {who} was charged for it")

        got = dict[str, Transcript]()
        with listening(before=check) as heard:
            for who in _ANALYSTS:
                released = subject.run(served.table(who), terms, seed=effort.seed).transcript
                assert released is not None
                got[who] = released
        problems = early[:1] + _mismatches(served, got, terms)
    answers = [v for draw in heard.draws for v in draw.answers]
    if answers != [v for transcript in got.values() for answered in transcript.rounds for v in answered.integers]:
        problems.append("what analysts got is not what OpenDP drew")
    return Finding(
        group=group,
        attack=CHARGES,
        target=f"{subject.name}, {terms.mechanism}, {terms.records_per_person} per person",
        tries=len(heard.draws),
        result="; ".join(problems) or "each answer charged once, to table and token, exactly and before its draw",
        passed=not problems,
    )


Charges = list[tuple[str, Fraction]]  # the run, and the amount


def _in_ledger(served: Connection) -> Charges:
    return [(entry.run, entry.amount) for entry in served.ledger.entries()]


def _in_store(served: Connection) -> Charges:
    store = served.store
    return [(run.name, answer.price.amount) for run, _ in store.runs() for answer in store.answers(run.name)]


def _mismatches(served: Connection, got: dict[str, Transcript], terms: Terms) -> list[str]:
    """What differs between transcripts and charges, as exact fractions."""
    due, problems = Charges(), list[str]()
    for transcript in got.values():
        due += [(_run(transcript), answered.price.amount) for answered in transcript.rounds]
    for name, charges in {"the ledger": _in_ledger(served), "the tokens": _in_store(served)}.items():
        if charges != due:
            paid, owed = (float(sum((amount for _, amount in one), Fraction(0))) for one in (charges, due))
            problems.append(f"{name} paid {paid:.6g} for answers that cost {owed:.6g}")
    owners = {run.name: run.token for run, _ in served.store.runs()}
    names = {token.id: token.name for token in served.store.tokens()}
    for who, transcript in got.items():
        if names[owners[_run(transcript)]] != who:
            problems.append(f"somebody else than {who} paid for what {who} got")
        spent = sum((answered.price.amount for answered in transcript.rounds), Fraction(0))
        if spent > terms.claimed * (1 + _ROOM):
            problems.append(f"what {who} got costs more than was claimed")
        # Of Gaussian noise an epsilon is computed, and rounded up; the amounts above are exact.
        if terms.mechanism == "laplace" and served.table(who).left != terms.epsilon - spent:
            problems.append(f"{who} is told of another rest than is left")
    return problems


def _run(transcript: Transcript) -> str:
    assert transcript.payment is not None
    return transcript.payment.run or ""


def _refused(effort: Effort, group: str, subject: Subject, terms: Terms, whose: str) -> Finding:
    """A small second release, where a token or the table has the budget for one: it is neither drawn nor charged."""
    small = replace(terms, epsilon=terms.epsilon / 10)  # so that what was charged too little is enough for it
    table, problems = ordinary_table(terms.domain, 25, effort.rng(2)), list[str]()
    own, whole = (terms.epsilon, 4 * terms.epsilon) if whose == "token" else (4 * terms.epsilon, terms.epsilon)
    # What a token lacks, another has; what the table lacks, nobody has.
    asking: Sequence[str] = ("ann",) if whose == "token" else _ANALYSTS
    with connected(table, terms, epsilon=whole, own=own) as served:
        subject.run(served.table("ann"), terms, seed=effort.seed)
        before = _in_ledger(served), _in_store(served)
        for who in asking:
            with listening() as heard:
                try:
                    subject.run(served.table(who), small, seed=effort.seed)
                    problems.append(f"{who} was answered after the budget of the {whose} was used up")
                except BudgetExceededError:
                    problems += ["was drawn for before it was refused"] if heard.draws else []
        if not problems and (_in_ledger(served), _in_store(served)) != before:
            problems.append("what was refused was charged")
    return Finding(
        group=group,
        attack=USED_UP,
        target=f"of the {whose}, {terms.mechanism}",
        tries=len(asking),
        result="; ".join(problems) or "refused, nothing drawn or charged",
        passed=not problems,
    )
