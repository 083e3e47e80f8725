"""Kill a served curator, and its clients, at any point: no charge is lost or made twice, no key has two answers."""

from __future__ import annotations

import http.client
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from recoup import Ledger, Transcript
from recoup.privacy.ledger_rules import Budget
from recoup.privacy.statement import Unit
from recoup.serve.store import Store
from recoup_lab.audit.faults.children import Fate
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.served.setting import (
    TOKENS,
    Reply,
    Server,
    application,
    ask,
    ask_and_leave,
    copied,
    prepared,
    question,
    run_body,
)

GROUP: Final = "served"
_N_QUESTIONS: Final = 3
_MOST_LIVES: Final = 8
_TOKEN: Final = TOKENS["ann"]


class Case:
    """One analyst with one run: asks, and asks again with the same key whenever no reply came."""

    def __init__(self, folder: Path, rng: Random, plant: Callable[[], None] | None = None) -> None:
        self.folder, self._rng, self._plant = folder, rng, plant
        self.witness = folder / "witness"
        self.seen: dict[str, list[bytes]] = {}
        self.problems: list[str] = []
        self.n_killed = self.n_left = 0
        self._server: Server | None = None

    def play(self, fates: list[Fate], leave: float = 0.0) -> Case:
        """Ask all questions while servers meet these fates, one after the other; the last one has none."""
        self._fates = [*fates, Fate()]
        try:
            self._start()
            begun = self._ask("POST", "/runs", key="run", body=run_body())
            if begun.status != 201:
                self.problems.append(f"a run was refused: {begun.body[:200]!r}")
                return self
            self.run = begun.value["run"]
            for index in range(_N_QUESTIONS):
                key, path, body = f"{self.run}-{index}", f"/runs/{self.run}/answer", question()
                if self._rng.random() < leave:
                    self.n_left += 1
                    part = self._rng.choice([1.0, 1.0, self._rng.random()])
                    ask_and_leave(self.server.port, path, token=_TOKEN, key=key, body=body, part=part)
                for _ in range(1 + (self._rng.random() < 0.3)):
                    self._answered(key, self._ask("POST", path, key=key, body=body))
            # Whatever was answered is answered alike for ever.
            for key in list(self.seen):
                path = f"/runs/{self.run}/answer"
                self._answered(key, self._ask("POST", path, key=key, body=question()))
            self._transcript = self._ask("GET", f"/runs/{self.run}/transcript")
        finally:
            if self._server is not None:
                self._server.close()
        self.problems += self._checked()
        return self

    @property
    def server(self) -> Server:
        """The one that lives now."""
        assert self._server is not None
        return self._server

    def _start(self) -> None:
        if self._server is not None:
            self._server.close()
        fate = self._fates.pop(0)
        self._server = Server(partial(application, self.folder), fate, witness=self.witness, plant=self._plant)

    def _ask(self, method: str, path: str, **given: Any) -> Reply:
        for _ in range(_MOST_LIVES):
            try:
                return ask(self.server.port, method, path, token=_TOKEN, **given)
            except (OSError, http.client.HTTPException):
                if not self.server.wait():
                    raise
                if not os.WIFSIGNALED(self.server.status):
                    self.problems.append(f"a server ended by itself, with status {self.server.status}")
                self.n_killed += 1
                if self.n_killed == 1:
                    self._look_at_draws()
                self._start()
        raise RuntimeError("a server does not come back")

    def _look_at_draws(self) -> None:
        drawn = self.witness.read_text().count("\n") if self.witness.exists() else 0
        if drawn > len(Ledger(self.folder / "ledger.db").entries()):
            self.problems.append("noise was drawn before it was charged")

    def _answered(self, key: str, reply: Reply) -> None:
        if reply.status == 200:
            self.seen.setdefault(key, []).append(reply.body)
        else:
            self.problems.append(f"an answer was refused: {reply.body[:200]!r}")

    def _checked(self) -> list[str]:
        wrong = []
        ledger = Ledger(self.folder / "ledger.db")
        entries = [entry for entry in ledger.entries() if entry.run == self.run]
        charged = Counter(entry.purpose.split("; key ")[1].split(";")[0] for entry in entries)
        if any(len(set(replies)) > 1 for replies in self.seen.values()):
            wrong.append("a key has two answers")
        if lost := [key for key in self.seen if charged[key] == 0]:
            wrong.append(f"{len(lost)} answers were not charged")
        if any(count > 1 for count in charged.values()):
            wrong.append("an answer was charged twice")
        store = Store(self.folder / "state")
        token = next(token for token in store.tokens() if token.name == "ann")
        own = sum((answer.price.amount for answer in store.answers(self.run)), start=0 * token.epsilon)
        state = store.state_of(token, Budget.of(token.epsilon, 0, "gaussian"), Unit())
        if not own == state.spent == ledger.spent:
            wrong.append("the token paid something else than the table")
        rounds = [Reply(200, (), replies[0]).value["round"] for replies in self.seen.values()]
        if Transcript.from_json(self._transcript.value).to_json()["rounds"] != rounds:
            wrong.append("the transcript holds other rounds than were answered")
        return wrong


def killed(n: int, seed: int) -> list[Finding]:
    """Kill n servers at random calls and moments, and let clients go away, too."""
    rng, problems, hit, left, tries = Random(f"{seed} served"), list[str](), Counter[str](), 0, 0
    with tempfile.TemporaryDirectory(prefix="recoup-served-") as top:
        template = prepared(Path(top) / "template")
        n_calls = _length(template, Path(top))
        while hit.total() < n and tries < 3 * n + 10:
            tries += 1
            fates = [_fate(rng, n_calls) for _ in range(rng.choice([1, 1, 2]))]
            case = Case(copied(template, Path(top) / "case"), rng).play(fates, leave=0.3)
            hit.update(fate.how for fate in fates[: case.n_killed])
            left += case.n_left
            problems += case.problems
    if hit.total() < n:
        problems.append(f"only {hit.total()} of {tries} were killed on the way")
    where = ", ".join(f"{count} by {how}" for how, count in sorted(hit.items()))
    said = (
        f"{hit.total()} killed on the way ({where}), {left} clients gone; nothing lost, nothing paid or answered twice"
    )
    return [
        Finding(
            group=GROUP,
            attack="kill -9 of a server",
            target="three answers of a run",
            tries=tries,
            result="; ".join(dict.fromkeys(problems)) or said,
            passed=not problems,
            figures={"reached": hit.total(), "calls": n_calls, "left": left},
        )
    ]


def _fate(rng: Random, n_calls: int) -> Fate:
    if rng.random() < 0.75:
        return Fate(how="call", at=rng.randrange(n_calls), by=signal.SIGKILL)
    return Fate(how="moment", at=rng.uniform(0, 0.5), by=signal.SIGKILL)


def _length(template: Path, top: Path) -> int:
    """How many calls one case makes without any fault."""
    folder = copied(template, top / "case")
    server = Server(partial(application, folder))
    begun = ask(server.port, "POST", "/runs", token=_TOKEN, key="run", body=run_body()).value["run"]
    for index in range(_N_QUESTIONS):
        key = f"{begun}-{index}"
        ask(server.port, "POST", f"/runs/{begun}/answer", token=_TOKEN, key=key, body=question())
    return server.stop()


def caught_by_kills(plant: Callable[[], None], seed: int, at_most: int = 40) -> int | None:
    """How many kills it takes until a planted bug is seen; none if it is not."""
    rng = Random(f"{seed} planted")
    with tempfile.TemporaryDirectory(prefix="recoup-served-") as top:
        template = prepared(Path(top) / "template")
        n_calls = _length(template, Path(top))
        for number in range(1, at_most + 1):
            folder = copied(template, Path(top) / "case")
            try:
                if Case(folder, rng, plant).play([_fate(rng, n_calls)]).problems:
                    return number
            except RuntimeError:
                continue
    return None
