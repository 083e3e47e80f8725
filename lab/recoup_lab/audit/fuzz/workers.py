"""Two processes that run cases in chunks; a process that dies or stands still is a finding, and is replaced."""

from __future__ import annotations

import ctypes
import multiprocessing
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

CHUNK: Final = 500
WARM_UP: Final = 60  # cases of each target that nobody looks at
STANDSTILL: Final = 60.0  # seconds within one case, after which even C code counts as hanging
SECRET: Final = "the planted file that nobody may read"
_SPAWN: Final = multiprocessing.get_context("spawn")


class Chunk(NamedTuple):
    """Cases from `start` to before `stop` of a target."""

    target: str
    start: int
    stop: int


@dataclass(slots=True)
class Tally:
    """What became of the cases of a chunk or a target.

    Attributes:
        n: how many were run.
        accepted: how many files were read.
        refusals: how many different messages there were, digits and quotes aside.
        wrong: the first case of each different finding, by what went wrong.
        memory: most memory that was taken above the start, in megabytes.
    """

    n: int = 0
    accepted: int = 0
    refusals: set[str] = field(default_factory=set)
    wrong: dict[str, str] = field(default_factory=dict)
    memory: float = 0.0

    def add(self, other: Tally) -> None:
        """Add another one."""
        self.n += other.n
        self.accepted += other.accepted
        self.refusals |= other.refusals
        self.wrong = other.wrong | self.wrong
        self.memory = max(self.memory, other.memory)


class _Worker:
    def __init__(self, seed: int, targets: Callable[[], dict[str, Any]], seconds: float) -> None:
        self.at = _SPAWN.RawValue(ctypes.c_longlong, -1)
        self.connection, theirs = _SPAWN.Pipe()
        self.folder = tempfile.mkdtemp(prefix="recoup-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.process = _SPAWN.Process(
            target=_serve, args=(theirs, self.at, seed, targets, Path(self.folder), seconds), daemon=True
        )
        self.process.start()
        theirs.close()
        self.chunk: Chunk | None = None
        self.seen, self.since = -1, time.monotonic()

    def give(self, chunk: Chunk) -> None:
        self.chunk, self.seen, self.since = chunk, -1, time.monotonic()
        self.at.value = -1
        self.connection.send(chunk)

    def stands_still(self) -> bool:
        if self.at.value != self.seen:
            self.seen, self.since = self.at.value, time.monotonic()
        return self.seen >= 0 and time.monotonic() - self.since > STANDSTILL

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_chunks(
    chunks: Iterable[Chunk],
    seed: int,
    targets: Callable[[], dict[str, Any]],
    n_processes: int = 2,
    seconds: float = 10.0,  # on a machine that others use too
) -> Iterator[tuple[Chunk, Tally]]:
    """Run chunks of cases in processes that make their targets themselves; yields each chunk when it is done.

    After a crash, or a case that takes too many seconds, the case is a finding, and the rest of its chunk is run.
    """
    waiting = list(chunks)[::-1]
    workers = [_Worker(seed, targets, seconds) for _ in range(min(n_processes, len(waiting)))]
    try:
        while waiting or any(worker.chunk for worker in workers):
            for worker in workers:
                if worker.chunk is None and waiting:
                    worker.give(waiting.pop())
            busy = [worker for worker in workers if worker.chunk is not None]
            ready = wait([worker.connection for worker in busy], timeout=1.0)
            for worker in busy:
                chunk = worker.chunk
                assert chunk is not None
                if worker.connection in ready:
                    try:
                        tally = worker.connection.recv()
                        worker.chunk = None
                        yield chunk, tally
                        continue
                    except (EOFError, ConnectionError):
                        why = "crash"
                elif worker.stands_still():
                    why = "hang in C"
                else:
                    continue
                number = worker.at.value
                if number < chunk.start:
                    raise RuntimeError("a worker died before its first case")
                worker.process.kill()
                worker.process.join()
                text = f"case {number}: exit code {worker.process.exitcode}"
                worker.end()
                workers[workers.index(worker)] = _Worker(seed, targets, seconds)
                if number + 1 < chunk.stop:
                    waiting.append(Chunk(chunk.target, number + 1, chunk.stop))
                yield Chunk(chunk.target, chunk.start, number + 1), Tally(n=number + 1 - chunk.start, wrong={why: text})
    finally:
        for worker in workers:
            worker.end()


def _serve(
    connection: Connection,
    at: Any,
    seed: int,
    make_targets: Callable[[], dict[str, Any]],
    folder: Path,
    seconds: float,
) -> None:
    from functools import lru_cache

    from recoup.privacy import gaussian
    from recoup.privacy import price as accounting
    from recoup_lab.audit.fuzz.guard import Guard

    # The same numbers come again and again: what is slow about a budget is computed once.
    conversion = lru_cache(maxsize=100_000)(accounting._opendp_epsilon())
    accounting._opendp_epsilon = lambda: conversion  # type: ignore[assignment]
    for module, name in ((accounting, "_largest_rho"), (gaussian, "_largest"), (gaussian, "_epsilon_of_gaussian")):
        setattr(module, name, lru_cache(maxsize=100_000)(getattr(module, name).__wrapped__))
    (folder / "secret.json").write_text(SECRET)
    case_folder = folder / "case"
    case_folder.mkdir()
    targets: dict[str, Any] = {}
    makers = make_targets()
    guard = Guard(SECRET, seconds)
    # Lazy imports and caches belong to the program, not to a file: they happen before anybody listens.
    for name, make in makers.items():
        targets[name] = target = make()
        for number in range(WARM_UP):
            load, own = target.case(Random(f"warm {name} {number}"), case_folder)
            guard.run(load, target.errors, own)
    guard.start()
    while True:
        try:
            chunk = connection.recv()
        except EOFError:
            return
        connection.send(_cases(chunk, targets[chunk.target], guard, seed, case_folder, at))


def _cases(chunk: Chunk, target: Any, guard: Any, seed: int, folder: Path, at: Any) -> Tally:
    import re
    import resource

    tally, before = Tally(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kinds: Counter[str] = Counter()
    for number in range(chunk.start, chunk.stop):
        rng = Random(f"{seed} {chunk.target} {number}")
        at.value = number
        load, own = target.case(rng, folder)
        outcome = guard.run(load, target.errors, own, large=getattr(target, "large", False))
        strangers = [path.name for path in folder.parent.iterdir() if path.name not in ("case", "secret.json")]
        if outcome.wrong or strangers:
            key = f"{outcome.kind}: {re.sub(r'[0-9]+', '#', outcome.text)[:160]}" if outcome.wrong else "stray file"
            kinds[key] += 1
            tally.wrong.setdefault(key, f"case {number}: {outcome.text or strangers}")
        elif outcome.kind == "accepted":
            tally.accepted += 1
        else:
            tally.refusals.add(re.sub(r"'.*'|\".*\"|[0-9.e+-]+", "#", outcome.text)[:60])
    tally.n = chunk.stop - chunk.start
    tally.memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return tally
