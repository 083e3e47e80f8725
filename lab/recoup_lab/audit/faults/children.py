"""Children that meet their fate: forked from a process that has everything loaded, ended at a chosen point.

A child is killed at a moment of its run, at the n-th line that it executes in Recoup's source, or before or after the
n-th call of those that matter to a disk, a ledger or noise. How long a run is, in seconds, lines and calls, is measured
once for each scenario, so that fates fall everywhere.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final, Literal, NoReturn

import recoup
from recoup.privacy.mechanism import SecureNoise

SOURCE: Final = str(Path(recoup.__file__).parent)
PATIENCE: Final = 120.0  # seconds after which a child counts as hanging
How = Literal["moment", "line", "call", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """When a child is ended, and by what.

    Attributes:
        how: what is counted.
        at: the second, line or call.
        by: the signal.
    """

    how: How = "none"
    at: float = 0.0
    by: int = signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long a run is."""

    seconds: float
    lines: int
    calls: int

    def fate(self, rng: Random, hows: Sequence[How], by: int = signal.SIGKILL) -> Fate:
        """A fate somewhere in the run; a few come too late, so that the end is tried as well."""
        how = rng.choice(hows)
        whole = {"moment": self.seconds, "line": self.lines, "call": 2 * self.calls}[how]
        at = rng.uniform(0, 1.05 * whole)
        return Fate(how=how, at=at if how == "moment" else int(at), by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended.

    Attributes:
        signal: that ended it, or 0.
        code: that it ended with.
        said: what it sent, if anything.
    """

    signal: int
    code: int
    said: Any = None


def child(
    act: Callable[[], Any],
    fate: Fate | None = None,
    *,
    witness: Path | None = None,
    plant: Callable[[], None] | None = None,
) -> Ended:
    """Do something in a forked child and wait for its end; what it returns is sent back.

    `fate` says when to end it; `witness` is a file that gets a line for each draw of noise, as soon as it is drawn;
    `plant` changes the code in the child first. One that hangs is killed, and its code is -1; one that leaves processes
    behind has the code -2.
    """
    fate = fate or Fate()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _live(act, fate, writing, witness, plant)
    os.close(writing)
    if fate.how == "moment":
        # From when it begins, not from when it was forked.
        _readable(reading, PATIENCE)
        time.sleep(fate.at)
        os.kill(pid, fate.by)
    return _outcome(pid, reading)


def _outcome(pid: int, reading: int) -> Ended:
    end, parts = time.monotonic() + PATIENCE, []
    hangs = False
    while True:
        if not _readable(reading, end - time.monotonic()):
            hangs = True
            os.kill(pid, signal.SIGKILL)
            break
        part = os.read(reading, 1 << 16)
        if not part:
            break
        parts.append(part)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if hangs:
        return Ended(signal=0, code=-1)
    sent = b"".join(parts)[1:]  # the first byte says that it has begun
    said = pickle.loads(sent) if os.WIFEXITED(status) and sent else None
    if _orphans(pid):
        return Ended(signal=0, code=-2)
    if os.WIFSIGNALED(status):
        return Ended(signal=os.WTERMSIG(status), code=0, said=said)
    return Ended(signal=0, code=os.WEXITSTATUS(status), said=said)


def _orphans(group: int, seconds: float = 20.0) -> bool:
    """Whether processes of a child's group outlive it; a dead one that nobody has waited for does not count."""
    end = time.monotonic() + seconds
    while any(found == group and state in "RSDT" for found, state in map(_group, Path("/proc").glob("[0-9]*"))):
        if time.monotonic() > end:
            os.killpg(group, signal.SIGKILL)
            return True
        time.sleep(0.05)
    return False


def _group(folder: Path) -> tuple[int, str]:
    try:
        state, _, group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, "gone"
    return int(group), state


def _readable(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], max(0.0, seconds))[0])


def _live(
    act: Callable[[], Any], fate: Fate, writing: int, witness: Path | None, plant: Callable[[], None] | None
) -> NoReturn:
    code = 70
    try:
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # The witness first: what is planted sees a draw as witnessed as soon as it is drawn.
        if witness is not None:
            witness_draws(witness)
        if plant is not None:
            plant()
        if fate.how == "call":
            count_calls(int(fate.at), fate.by)
        os.write(writing, b"!")
        if fate.how == "line":
            _count_lines(int(fate.at), fate.by)
        said = act()
        sys.settrace(None)
        os.write(writing, pickle.dumps(said))
        code = 0
    except KeyboardInterrupt:
        code = 130
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        os._exit(code)


def witness_draws(path: Path) -> None:
    """Write a line to a file for each draw of noise, as soon as it is drawn."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for name in ("laplace", "gaussian"):
        proper = getattr(SecureNoise, name)

        def drawing(self: Any, totals: Any, scale: float, *, proper: Any = proper, name: str = name) -> Any:
            drawn = proper(self, totals, scale)
            os.write(descriptor, f"{name} {scale!r}\n".encode())
            return drawn

        setattr(SecureNoise, name, drawing)


class _Counter:
    """Counts, and sends a signal at a number."""

    def __init__(self, at: int, by: int) -> None:
        self.n, self._at, self._by = 0, at, by

    def __call__(self) -> None:
        self.n += 1
        if self.n == self._at + 1:
            os.kill(os.getpid(), self._by)


def _count_lines(at: int, by: int) -> _Counter:
    counter = _Counter(at, by)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "line":
            counter()
        return trace

    sys.settrace(trace)
    return counter


def count_calls(at: int, by: int) -> _Counter:
    """Count before and after each call that touches a disk, a ledger or noise."""
    counter = _Counter(at, by)

    def counted(proper: Any) -> Any:
        def calling(*arguments: Any, **named: Any) -> Any:
            counter()
            result = proper(*arguments, **named)
            counter()
            return result

        return calling

    for name in ("fsync", "replace", "link", "open", "write", "unlink", "close"):
        setattr(os, name, counted(getattr(os, name)))
    for name in ("write_bytes", "chmod", "unlink"):
        setattr(Path, name, counted(getattr(Path, name)))
    for name in ("laplace", "gaussian"):
        setattr(SecureNoise, name, counted(getattr(SecureNoise, name)))

    class Counting(sqlite3.Connection):
        def execute(self, statement: str, *arguments: Any) -> Any:
            if statement.startswith(("PRAGMA", "SELECT")):
                return super().execute(statement, *arguments)
            counter()
            result = super().execute(statement, *arguments)
            counter()
            return result

    connect = sqlite3.connect
    sqlite3.connect = lambda *a, **k: connect(*a, factory=Counting, **k)  # type: ignore[assignment]
    return counter


def measure(act: Callable[[], Any], again: Callable[[], None]) -> Length:
    """How long a run is, with what is cached by a first one; `again` makes ready for each of four."""

    def timed() -> float:
        start = time.monotonic()
        act()
        return time.monotonic() - start

    def lines() -> int:
        counter = _count_lines(sys.maxsize - 1, 0)
        act()
        sys.settrace(None)
        return counter.n

    def calls() -> int:
        counter = count_calls(sys.maxsize - 1, 0)
        act()
        return counter.n

    found = []
    for work in (timed, timed, lines, calls):
        again()
        ended = child(work)
        if ended.said is None:
            raise RuntimeError(f"a run without any fault failed: signal {ended.signal}, code {ended.code}")
        found.append(ended.said)
    first, second, n_lines, n_calls = found
    return Length(seconds=min(first, second), lines=n_lines, calls=n_calls // 2)
