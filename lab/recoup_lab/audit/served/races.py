"""Two requests at the same time, to two server processes that share ledger and state: one budget, one answer.

The servers live through all races; each race has a folder of its own, which the first part of a path names.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from recoup import Ledger
from recoup.serve.store import Store
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.served.kills import GROUP
from recoup_lab.audit.served.setting import (
    TOKENS,
    App,
    Reply,
    Server,
    application,
    ask,
    copied,
    prepared,
    question,
    run_body,
)

_HALF: Final = "1/2"


class Race(NamedTuple):
    """What both want, and what must come of it.

    Attributes:
        epsilon: of the table; `own`: of each token.
        who: the tokens of both.
        shared: whether both ask in the same run, with the same key.
        bodies: what both ask.
        expected: the statuses, sorted.
        part: of all races.
    """

    epsilon: str
    own: str
    who: tuple[str, str]
    shared: bool
    bodies: tuple[Any, Any]
    expected: tuple[int, int]
    part: int


_ALL, _OTHER = question("1"), question("1/2")
KINDS: Final = {
    "two analysts, budget for one": Race(_HALF, "1", ("ann", "bob"), False, (_ALL, _ALL), (200, 402), 40),
    "one token, two runs, budget for one": Race("9", _HALF, ("ann", "ann"), False, (_ALL, _ALL), (200, 402), 25),
    "one question, asked twice at once": Race("9", "9", ("ann", "ann"), True, (_ALL, _ALL), (200, 200), 20),
    "one key, two questions": Race("9", "9", ("ann", "ann"), True, (_ALL, _OTHER), (200, 409), 15),
}


def dispatcher(top: Path) -> App:
    """One application for all folders in this one."""
    known: dict[str, App] = {}

    async def dispatch(scope: Any, receive: Any, send: Any) -> None:
        _, name, rest = scope["path"].split("/", 2)
        if name not in known:
            known[name] = application(top / name)
        await known[name](scope | {"path": f"/{rest}", "raw_path": f"/{rest}".encode()}, receive, send)

    return dispatch


def raced(n: int, seed: int, *, only: str | None = None, plant: Callable[[], None] | None = None) -> list[Finding]:
    """Hold n races, of all kinds or one; `plant` changes the code of both servers."""
    chosen = {kind: race for kind, race in KINDS.items() if only in (None, kind)}
    whole, found = sum(race.part for race in chosen.values()), []
    with tempfile.TemporaryDirectory(prefix="recoup-served-races-") as name:
        top = Path(name)
        servers = [Server(partial(dispatcher, top), plant=plant) for _ in range(2)]
        try:
            for number, (kind, race) in enumerate(chosen.items()):
                times = max(1, n * race.part // whole)
                template = prepared(top / f"template-{number}", epsilon=Fraction(race.epsilon), own=Fraction(race.own))
                rng, problems, won = Random(f"{seed} {kind}"), list[str](), Counter[int]()
                for i in range(times):
                    folder = copied(template, top / f"{number}-{i}")
                    replies, wrong = _held(race, folder, [server.port for server in servers], rng)
                    problems += wrong
                    won.update(who for who, reply in enumerate(replies) if reply.status == 200)
                said = f"as it must be each time; won by the first {won[0]}, by the second {won[1]} times"
                found.append(
                    Finding(
                        group=GROUP,
                        attack="two requests race",
                        target=kind,
                        tries=times,
                        result="; ".join(dict.fromkeys(problems)) or said,
                        passed=not problems,
                        figures={"first": won[0], "second": won[1]},
                    )
                )
        finally:
            for server in servers:
                server.close()
    return found


def _held(race: Race, folder: Path, ports: list[int], rng: Random) -> tuple[list[Reply], list[str]]:
    runs, place = [], f"/{folder.name}"
    for number, who in enumerate(race.who):
        key = "run" if race.shared else f"run-{number}"
        begun = ask(ports[number], "POST", f"{place}/runs", token=TOKENS[who], key=key, body=run_body(_HALF))
        runs.append(begun.value["run"])
    replies: list[Any] = [None, None]
    barrier, waits = threading.Barrier(2), [rng.uniform(0, 0.005) for _ in range(2)]

    def go(number: int) -> None:
        path, token = f"{place}/runs/{runs[number]}/answer", TOKENS[race.who[number]]
        barrier.wait()
        time.sleep(waits[number])
        replies[number] = ask(ports[number], "POST", path, token=token, key="the-key", body=race.bodies[number])

    threads = [threading.Thread(target=go, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies, _problems(race, folder, replies)


def _problems(race: Race, folder: Path, replies: list[Reply]) -> list[str]:
    if None in replies:
        return ["a request was not answered"]
    wrong = []
    statuses = tuple(sorted(reply.status for reply in replies))
    if statuses != race.expected:
        wrong.append(f"the replies have the statuses {statuses}, and not {race.expected}")
    answers = {reply.body for reply in replies if reply.status == 200}
    if race.shared and len(answers) > 1:
        wrong.append("a key has two answers")
    ledger, store = Ledger(folder / "ledger.db"), Store(folder / "state")
    if len(ledger.entries()) != len(answers):
        wrong.append(f"{len(ledger.entries())} charges for {len(answers)} answers")
    if ledger.spent > ledger.epsilon:
        wrong.append("overspent")
    kept = [answer for run, _ in store.runs() for answer in store.answers(run.name)]
    if sum((answer.price.amount for answer in kept), Fraction(0)) != ledger.spent:
        wrong.append("the tokens paid something else than the table")
    return wrong
