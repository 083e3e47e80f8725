"""Two processes that want the last of a budget at the same time: it is never overspent, and never lost.

The processes live through all races. A race begins at a barrier and a random instant after it.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, Final

from recoup import KMeans, Ledger, Transcript, release
from recoup.errors import BudgetExceededError, FileInUseError, LedgerError, RecoupError, TranscriptError
from recoup.privacy.price import Price, rho_of
from recoup_lab.audit.faults.scenarios import BOX, DELTA, EPSILON, TABLE, sound_ledger
from recoup_lab.audit.findings import Finding

_FORK: Final = multiprocessing.get_context("fork")
_TENTH: Final = Price(measure="pure", amount=EPSILON / 10)
_HALF_RHO: Final = Price(measure="zcdp", amount=rho_of(EPSILON, DELTA) * Fraction(2, 3))


def _charges(price: Price, n: int) -> Callable[[Path, int], int]:
    def race(folder: Path, who: int) -> int:
        ledger, admitted = Ledger(folder / "l.db"), 0
        for _ in range(n):
            try:
                ledger.charge(price, purpose=f"process {who}")
                admitted += 1
            except BudgetExceededError:
                pass
        return admitted

    return race


def _create(folder: Path, who: int) -> int:
    try:
        Ledger.create(folder / "l.db", epsilon=EPSILON)
        return 1
    except LedgerError:
        return 0


def _release(name: str, *, resume: bool) -> Callable[[Path, int], int]:
    def race(folder: Path, who: int) -> int:
        path = folder / name.format(who)
        algorithm = KMeans(n_clusters=2, n_rounds=2)
        try:
            release(algorithm, TABLE, domain=BOX, epsilon=EPSILON, path=path, ledger=folder / "l.db", resume=resume)
            return 1
        except (BudgetExceededError, FileInUseError, TranscriptError):
            return 0

    return race


# By name: what a process does, how much is spent before, what both together must come to (or at most), and the part.
KINDS: Final[dict[str, tuple[Callable[[Path, int], int], list[Price], set[int], int]]] = {
    "one charge is left, two want it": (_charges(_TENTH, 1), [_TENTH] * 9, {1}, 50),
    "three are left, each wants three": (_charges(_TENTH, 3), [_TENTH] * 7, {3}, 20),
    "one zCDP charge fits": (_charges(_HALF_RHO, 1), [], {1}, 10),
    "both make the ledger": (_create, [], {1}, 6),
    "two releases, budget for one": (_release("t{}.json", resume=False), [], {0, 1}, 7),
    "both continue one transcript": (_release("t.json", resume=True), [], {1, 2}, 7),
}


def _problems(kind: str, folder: Path, came_to: int) -> list[str]:
    path, expected = folder / "l.db", KINDS[kind][2]
    wrong = [] if came_to in expected else [f"{came_to} got it, and not {' or '.join(map(str, sorted(expected)))}"]
    wrong += sound_ledger(path)
    if Ledger(path).spent > EPSILON:
        wrong.append("overspent")
    released = [Transcript.load(t) for t in folder.glob("t*.json")]
    paid = sum((answered.price.amount for t in released for answered in t.rounds), Fraction(0))
    if paid > sum((entry.amount for entry in Ledger(path).entries()), Fraction(0)):
        wrong.append("released without being charged")
    return wrong


def _templates(folder: Path) -> dict[str, Path]:
    """A ledger for each kind, copied for each race."""
    found = {}
    for number, (kind, (race, spent, _, _)) in enumerate(KINDS.items()):
        if race is not _create:
            found[kind] = folder / f"template-{number}.db"
            zcdp = "zCDP" in kind
            ledger = Ledger.create(found[kind], epsilon=EPSILON, delta=DELTA if zcdp else 0, accounting="zcdp")
            for price in spent:
                ledger.charge(price, purpose="before")
    return found


def _run(jobs: list[tuple[str, Path]], who: int, barrier: Any, connection: Any, seed: int, plant: Any) -> None:
    rng = Random(f"{seed} {who}")
    if plant is not None:
        plant()
    for kind, folder in jobs:
        barrier.wait(60)
        end = time.perf_counter() + rng.uniform(0, 0.001)
        while time.perf_counter() < end:
            pass
        try:
            connection.send(KINDS[kind][0](folder, who))
        except Exception as error:
            connection.send(f"{type(error).__name__}: {error}")


def races(n: int, seed: int, folder: Path, *, only: str | None = None, plant: Any = None) -> list[Finding]:
    """Hold n races, of all kinds or one; `plant` changes the code of both processes."""
    templates = _templates(folder)
    chosen = {kind: part for kind, (_, _, _, part) in KINDS.items() if only in (None, kind)}
    jobs: list[tuple[str, Path]] = []
    for kind, part in chosen.items():
        for number in range(max(1, n * part // sum(chosen.values()))):
            place = folder / f"race-{len(jobs)}-{number}"
            place.mkdir()
            if kind in templates:
                shutil.copyfile(templates[kind], place / "l.db")
            jobs.append((kind, place))
    barrier = _FORK.Barrier(2)
    pipes = [_FORK.Pipe() for _ in range(2)]
    processes = [
        _FORK.Process(target=_run, args=(jobs, who, barrier, pipes[who][1], seed, plant), daemon=True)
        for who in range(2)
    ]
    for process in processes:
        process.start()
    wrong: dict[str, list[str]] = {kind: [] for kind in chosen}
    for kind, place in jobs:
        answers = [pipe.recv() if pipe.poll(120) else "hangs" for pipe, _ in pipes]
        if any(isinstance(answer, str) for answer in answers):
            wrong[kind].append(f"untyped or stuck: {answers}")
        else:
            try:
                wrong[kind] += _problems(kind, place, sum(map(int, answers)))
            except RecoupError as error:
                wrong[kind].append(f"{type(error).__name__}: {error}")
        shutil.rmtree(place)
        if "hangs" in answers:
            break
    for process in processes:
        process.join(10)
        process.kill()
    return [
        Finding(
            group="faults",
            attack="two processes race",
            target=kind,
            tries=sum(name == kind for name, _ in jobs),
            result="; ".join(dict.fromkeys(problems)) or "never overspent",
            passed=not problems,
        )
        for kind, problems in wrong.items()
    ]
