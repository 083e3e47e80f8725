"""Bugs that the attacks on a served curator must catch; each changes the code of the process that it is planted in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from recoup_lab.audit.faults.children import child
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.served.fuzz import fuzzed, guessed
from recoup_lab.audit.served.kills import GROUP, caught_by_kills
from recoup_lab.audit.served.neighbours import compared
from recoup_lab.audit.served.races import raced


def answer_before_charge() -> None:
    """The ledger is charged a moment after the answer was given."""
    from recoup.privacy.ledger import Ledger

    charge = Ledger.charge

    def later(self: Any, price: Any, **named: Any) -> None:
        threading.Timer(0.05, lambda: charge(self, price, **named)).start()

    Ledger.charge = later  # type: ignore[assignment,method-assign]


def key_ignored() -> None:
    """Every request is a new one."""
    from recoup.serve.service import Service

    answer = Service.answer
    Service.answer = lambda self, asked: answer(self, asked._replace(key=uuid4().hex))  # type: ignore[method-assign]


def own_budget_ignored() -> None:
    """Only the table's budget is looked at."""
    import recoup.serve.store

    recoup.serve.store.check_fits = lambda before, prices, unit: before.charged(prices, unit, "")


def sent_before_kept() -> None:
    """A reply is sent as it was drawn, and kept a moment later."""
    from recoup.serve.store import Store

    keep = Store.keep

    def later(self: Any, answer: Any, reply: bytes, due: float) -> bytes:
        threading.Timer(0.05, lambda: keep(self, answer, reply, due)).start()
        return reply

    Store.keep = later  # type: ignore[method-assign]


def rows_in_a_header() -> None:
    """Every answer says from how many rows it was made."""
    import recoup.serve.app as app
    from recoup.curator.source import TableSource

    total, rows, json = TableSource.total, list[int](), app._json

    def counting(self: Any, query: Any, factors: Any) -> list[int]:
        rows[:] = [sum(len(block) for block in self.records())]
        return total(self, query, factors)

    def telling(body: bytes, status: int = 200) -> Any:
        reply = json(body, status)
        if rows:
            reply.headers["x-rows"] = str(rows[0])
        return reply

    TableSource.total = counting  # type: ignore[method-assign]
    app._json = telling


def plain_json() -> None:
    """Requests are read without care."""
    import json

    import recoup.serve.app as app

    vars(app)["read_body"] = lambda raw, limits, names: (json.loads(raw), "digest")


def tokens_by_their_start() -> None:
    """A token counts as known if it begins like one."""
    import recoup.serve.service as service
    from recoup.serve.tokens import digest_of

    def begins(tokens: Any, given: str, kind: str) -> Any:
        starts = {digest_of(given), digest_of(given[:-1])}
        return next((token for token in tokens if token.digest in starts and token.kind == kind), None)

    vars(service)["found"] = begins


# ---- how each is caught, and by how many tries ----
Tried = Callable[[int], int | None]


def _by_kills(plant: Callable[[], None]) -> Tried:
    return lambda seed: caught_by_kills(plant, seed)


def _by_races(kind: str, plant: Callable[[], None]) -> Tried:
    def tried(seed: int) -> int | None:
        (found,) = raced(20, seed, only=kind, plant=plant)
        return None if found.passed else found.tries

    return tried


def _here(attack: Callable[[int], list[Finding]], plant: Callable[[], None]) -> Tried:
    """By an attack that runs in one process: in a child, so that the code of this one stays as it is."""

    def work(seed: int) -> list[tuple[bool, int]]:
        plant()
        return [(found.passed, found.tries) for found in attack(seed)]

    def tried(seed: int) -> int | None:
        found = child(lambda: work(seed)).said
        return sum(n for _, n in found) if found and not all(passed for passed, _ in found) else None

    return tried


# By the name of the control, which the overview knows: the bugs, each with how it is caught.
CONTROLS: Final[dict[str, dict[str, Tried]]] = {
    "control: bugs of a server": {
        "answer before charge": _by_kills(answer_before_charge),
        "key ignored": _by_kills(key_ignored),
        "sent before it is kept": _by_kills(sent_before_kept),
    },
    "control: bug of two servers": {
        "token's budget ignored": _by_races("one token, two runs, budget for one", own_budget_ignored)
    },
    "control: bug of a header": {"count of rows in a header": _here(lambda seed: compared(), rows_in_a_header)},
    "control: bug of a reader": {"requests read without care": _here(lambda seed: fuzzed(200, seed), plain_json)},
    "control: bug of a door": {"tokens by their start": _here(lambda seed: guessed(50, seed), tokens_by_their_start)},
}


def planted(seed: int) -> list[Finding]:
    """Plant each, and see that it is caught."""
    found = []
    for control, bugs in CONTROLS.items():
        needed = {name: tried(seed) for name, tried in bugs.items()}
        missed = [name for name, n in needed.items() if n is None]
        caught = ", ".join(f"{name}: {n}" for name, n in needed.items())
        found.append(
            Finding(
                group=GROUP,
                attack=control,
                target=", ".join(bugs),
                tries=sum(n or 0 for n in needed.values()),
                result=f"not caught: {', '.join(missed)}" if missed else f"all {len(bugs)} caught; tries: {caught}",
                passed=not missed,
            )
        )
    return found
