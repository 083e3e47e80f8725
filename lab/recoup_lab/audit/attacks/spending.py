"""What is drawn, against what was paid: every draw by OpenDP, at its price, after its charge.

At each draw the ledger is read through a second connection: it must already hold the price of all draws so far, this
one included. The price is computed here from the scale that reached the sampler and the public distance of neighbours.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import BudgetError, BudgetExceededError
from recoup.privacy.ledger import Ledger
from recoup_lab.audit.attacks.accounts import attack_accounts
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.sampler import Draw, Heard, listening
from recoup_lab.audit.attacks.subjects import Released, Subject, Terms, ordinary_table, queries, request_for, subjects
from recoup_lab.audit.attacks.ways_in import attack_doors
from recoup_lab.audit.findings import Finding

GROUP: Final = "spending"
_ROOM: Final = Fraction(1, 10**9)  # OpenDP's own map rounds up by a few units in the last place


def attack(effort: Effort) -> Iterator[Finding]:
    """Release every algorithm with a ledger and follow each draw."""
    for subject in subjects():
        for mechanism in subject.mechanisms():
            for per_person in (1, 3):
                terms = Terms(mechanism=mechanism, records_per_person=per_person)
                yield _followed(effort, subject, terms)
            yield _refused(effort, subject, mechanism)
    yield from attack_doors(effort, GROUP, _wrong)
    yield from attack_accounts(effort, GROUP)
    for mechanism in ("laplace", "gaussian"):
        yield _greedy(effort, mechanism)


def _followed(effort: Effort, subject: Subject, terms: Terms) -> Finding:
    context = terms.context
    distance = context.sensitivity * terms.records_per_person
    early: list[str] = []
    drawn: list[Draw] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        Ledger.create(path, epsilon=4, delta=terms.delta)

        def check(draw: Draw) -> None:
            drawn.append(draw)
            price = sum((d.price(distance) for d in drawn), Fraction(0))
            charged = sum((entry.amount for entry in Ledger(path).entries()), Fraction(0))
            if charged < price * (1 - _ROOM):
                early.append(f"draw {len(drawn)} came before its charge")

        with listening(before=check) as heard:
            # Few records, all in one place: most cells are empty, and have to be drawn for, too.
            table = ordinary_table(terms.domain, 25, effort.rng(2))[:1].repeat(8, axis=0)
            released = subject.run(table, terms, seed=effort.seed, ledger=Ledger(path))
    spent = sum((d.price(distance) for d in heard.draws), Fraction(0))
    share = spent / terms.claimed
    problems = [*early[:1], *_wrong(released, heard, terms, share)]
    return Finding(
        group=GROUP,
        attack="price and order of draws",
        target=f"{subject.name}, {terms.mechanism}, {terms.records_per_person} per person",
        tries=len(heard.draws),
        result="; ".join(problems) or f"{float(share):.9f} of the claim spent, every charge before its draw",
        passed=not problems,
        figures={"share_of_claim": float(share)},
    )


def _wrong(released: Released, heard: Heard, terms: Terms, share: Fraction) -> list[str]:
    return [*_unpaid(share), *_not_drawn(released, heard), *_misstated(released, terms, share)]


def _misstated(released: Released, terms: Terms, share: Fraction) -> list[str]:
    """What the privacy statement says, against the terms."""
    said, person = released.privacy, terms.records_per_person
    unit = "one record" if person == 1 else f"{person} records of one person"
    problems = [
        f"the statement has {name} {said[name]!r}, and not {meant!r}"
        for name, meant in {"epsilon": float(terms.epsilon), "delta": float(terms.delta), "unit": unit}.items()
        if said[name] != meant
    ]
    if terms.mechanism == "laplace" and float(said["spent"]) < float(share * terms.epsilon) * (1 - 1e-9):
        problems.append("the statement says that less was spent")
    return problems


def _refused(effort: Effort, subject: Subject, mechanism: str) -> Finding:
    """A second release from a budget for one, with either noise: no draw may come, and the error is typed."""
    terms, problem = Terms(mechanism=mechanism), ""
    table = ordinary_table(terms.domain, 25, effort.rng(2))
    ledger = Ledger.in_memory(epsilon=terms.epsilon, delta=terms.delta)
    subject.run(table, terms, seed=effort.seed, ledger=ledger)
    for again in subject.mechanisms():
        with listening() as heard:
            try:
                subject.run(table, Terms(mechanism=again), seed=effort.seed, ledger=ledger)
                problem = f"was released with {again} noise from a budget that was used up"
            except (BudgetExceededError, BudgetError):
                problem = "was drawn for before it was refused" if heard.draws else ""
        if problem:
            break  # a ledger that was overspent is of no further use
    return Finding(
        group=GROUP,
        attack="a budget that is used up",
        target=f"{subject.name}, {mechanism}",
        tries=len(subject.mechanisms()),
        result=problem or "refused, nothing drawn",
        passed=not problem,
    )


def _greedy(effort: Effort, mechanism: str) -> Finding:
    """An algorithm that asks for more than all of its release's budget, with no ledger to stop it."""
    terms, problem = Terms(mechanism=mechanism), ""
    curator = Curator(open_source(ordinary_table(terms.domain, 25, effort.rng(2)), terms.domain), terms.context)
    request = request_for(queries(mechanism)["grid"], terms.domain)
    curator.answer(request)
    with listening() as heard:
        try:
            curator.answer(request)
            problem = "a second question was answered after all of the budget was spent on the first"
        except BudgetExceededError:
            problem = "was drawn for before it was refused" if heard.draws else ""
    return Finding(
        group=GROUP,
        attack="more than all of a release's budget",
        target=mechanism,
        tries=1,
        result=problem or "BudgetExceededError, nothing drawn",
        passed=not problem,
    )


def _unpaid(share: Fraction) -> list[str]:
    return [] if share <= 1 + _ROOM else [f"the noise costs {float(share):.3f} times the claim"]


def _not_drawn(released: Released, heard: Heard) -> list[str]:
    """Values of a transcript that are not what OpenDP answered, one for one."""
    if not heard.draws:
        return ["nothing was drawn by OpenDP"]
    if released.transcript is None:
        return []
    answers = [v for draw in heard.draws for v in draw.answers]
    published = [v for answered in released.transcript.rounds for v in answered.integers]
    scales = [answered.scale for answered in released.transcript.rounds]
    problems = [] if answers == published else ["published values are not what OpenDP drew"]
    return problems + ([] if scales == [draw.scale for draw in heard.draws] else ["a scale is not what was drawn with"])
