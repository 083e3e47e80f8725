"""A system that refuses: a full disk, a read-only folder, a locked ledger, a clock that goes back.

A full disk and a read-only folder are real ones, a small file system in a mount namespace of a child, where the system
permits it; where it does not, the table says so. Files that may not grow are tried everywhere.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from recoup import Ledger, Transcript
from recoup.errors import LedgerLockedError, RecoupError
from recoup_lab.audit.faults.children import child
from recoup_lab.audit.faults.kills import GROUP
from recoup_lab.audit.faults.scenarios import Create, Experiment, Release, Save, Scenario, sound_ledger
from recoup_lab.audit.findings import Finding

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_NOT_PERMITTED = "not permitted"
_MS_RDONLY, _MS_REMOUNT, _MS_REC, _MS_PRIVATE = 1, 32, 16384, 1 << 18


def _finding(attack: str, target: str, tries: int, problems: list[str], said: str) -> Finding:
    return Finding(
        group=GROUP,
        attack=attack,
        target=target,
        tries=tries,
        result="; ".join(dict.fromkeys(problems)) or said,
        passed=not problems,
    )


def _refusal(act: Callable[[], object]) -> str:
    """What came out of something that the system may refuse: nothing, a typed error, or the system's own."""
    try:
        act()
    except RecoupError:
        return "typed"
    except OSError as error:
        return "system" if error.errno is not None else f"untyped {type(error).__name__}"
    except BaseException as error:
        return f"untyped {type(error).__name__}: {error}"
    return "done"


def _outcome(ended: Any) -> list[str]:
    if ended.said is None:
        return [f"ended with signal {ended.signal}, code {ended.code}"]
    return [text for text in ended.said if text not in ("typed", "system", "done")]


# ---- full ------------------------------------------------------------------------------------------------------------


def limited(n: int, seed: int) -> list[Finding]:
    """Files that may not grow beyond a limit, at any byte: writes fail half-way."""
    found = []
    for scenario, largest in ((Release("laplace"), 26_000), (Save(), 6_000), (Create(), 20_000), (Experiment(), 6_000)):
        rng, problems, refused = Random(f"{seed} {scenario.name}"), [], 0
        for number in range(n):
            with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
                folder = Path(top) / "case"
                folder.mkdir()
                scenario.ready(folder)
                limit = rng.randrange(largest) if number else 50

                def act(scenario: Scenario = scenario, folder: Path = folder, limit: int = limit) -> list[str]:
                    # Only the soft limit; the witness of draws is not wanted here.
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
                    said = _refusal(lambda: scenario.act(folder))
                    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                    return [said]

                ended = child(act)
                refused += ended.said != ["done"]
                problems += _outcome(ended) + _after(scenario, folder, f"limit {limit}")
        if not refused:
            problems.append("no write ever failed")
        said = f"{refused} failed on the way with a typed error or the system's; nothing lost, all continued"
        found.append(_finding("writes that fail half-way", scenario.name, n, problems, said))
    return found


def _after(scenario: Scenario, folder: Path, when: str) -> list[str]:
    try:
        return [f"{problem} ({when})" for problem in scenario.problems(folder)]
    except Exception as error:
        return [f"could not be continued ({when}): {type(error).__name__}: {error}"]


def _own_file_system(top: Path, size: int = 1 << 20) -> bool:
    """Put a small file system there that only this process sees; false where that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS if os.geteuid() == 0 else _CLONE_NEWNS | _CLONE_NEWUSER) != 0:
        return False
    libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    return bool(libc.mount(b"tmpfs", str(top).encode(), b"tmpfs", 0, f"size={size}".encode()) == 0)


def _filled(scenario: Scenario, top: Path, spare: int) -> list[str]:
    if not _own_file_system(top):
        return [_NOT_PERMITTED]
    folder = top / "case"
    folder.mkdir()
    scenario.ready(folder)
    filler = top / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
        file.truncate(max(0, file.tell() - 4096 * spare))
    said = _refusal(lambda: scenario.act(folder))
    filler.unlink()
    return [said, *_after(scenario, folder, f"{spare} pages left")]


def full(n: int) -> list[Finding]:
    """A disk with a few pages left."""
    found = []
    for scenario in (Release("laplace"), Save(), Create(), Experiment()):
        problems: list[str] = []
        refused = 0
        for number in range(n):
            spare = (3 * number) % 13
            with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
                ended = child(partial(_filled, scenario, Path(top), spare))
            if ended.said == [_NOT_PERMITTED]:
                return [_finding("full disk", "not permitted here", 0, [], "no file system of its own may be made")]
            refused += ended.said is not None and ended.said[0] != "done"
            problems += _outcome(ended)
        if not refused:
            problems.append("the disk was never full")
        said = f"{refused} were refused with a typed error or the system's; nothing lost, all continued"
        found.append(_finding("full disk", scenario.name, n, problems, said))
    return found


# ---- read-only -------------------------------------------------------------------------------------------------------


def _read_only(scenario: Scenario, top: Path) -> list[str]:
    if not _own_file_system(top):
        return [_NOT_PERMITTED]
    folder = top / "case"
    folder.mkdir()
    scenario.ready(folder)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(None, str(top).encode(), None, _MS_REMOUNT | _MS_RDONLY, None) != 0:
        return [_NOT_PERMITTED]
    said = _refusal(lambda: scenario.act(folder))
    wrong = [] if said in ("typed", "system") else [f"not refused: {said}"]
    if (folder / "l.db").exists() and Ledger(folder / "l.db").spent:
        wrong.append("charged for nothing")
    libc.mount(None, str(top).encode(), None, _MS_REMOUNT, None)
    return wrong + _after(scenario, folder, "after it was read-only")


def read_only() -> list[Finding]:
    """A folder that cannot be written to."""
    found = []
    for scenario in (Release("laplace"), Save(), Create(), Experiment()):
        with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
            ended = child(partial(_read_only, scenario, Path(top)))
        if ended.said == [_NOT_PERMITTED]:
            return [_finding("read-only folder", "not permitted here", 0, [], "no file system of its own may be made")]
        said = "refused, nothing charged; goes on when it may be written to"
        found.append(_finding("read-only folder", scenario.name, 1, _outcome(ended), said))
    return found


# ---- locked ----------------------------------------------------------------------------------------------------------

HELD: Final = ("BEGIN EXCLUSIVE", "BEGIN IMMEDIATE")


def locked() -> list[Finding]:
    """A ledger that another process holds, and that process killed while it writes."""
    problems = []
    for how in HELD:
        with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
            folder, scenario = Path(top) / "case", Release("laplace")
            folder.mkdir()
            scenario.ready(folder)
            holder = _holder(folder / "l.db", how)
            try:
                scenario._release(folder, resume=False, timeout=0.2)
                problems.append(f"released while another process had the ledger ({how})")
            except LedgerLockedError:
                pass
            except Exception as error:
                problems.append(f"untyped {type(error).__name__} ({how})")
            saved = Transcript.load(folder / "t.json") if (folder / "t.json").exists() else None
            if saved is not None and (saved.shares_spent or saved.rounds):
                problems.append(f"something was spent ({how})")
            os.kill(holder, signal.SIGKILL)
            os.waitpid(holder, 0)
            if Ledger(folder / "l.db").entries():
                problems.append(f"what was not committed is there ({how})")
            problems += sound_ledger(folder / "l.db") + _after(scenario, folder, how)
    said = "LedgerLockedError, nothing charged; goes on when the other process was killed"
    return [_finding("ledger locked by another process", "release", len(HELD), problems, said)]


def _holder(path: Path, how: str) -> int:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute(how)
            connection.execute(
                "INSERT INTO entry (run, purpose, measure, amount, spent_after, pure_after, rho_after, n_zcdp_after,"
                " time, library, unit) VALUES ('', '', 'pure', '1/4', '1/4', '1/4', '1/32', 0, '', '', '')"
            )
            os.write(writing, b"!")
            time.sleep(300)
        finally:
            os._exit(1)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return pid


# ---- the clock -------------------------------------------------------------------------------------------------------


def clock_back() -> list[Finding]:
    """A clock that goes back a month at each look, and files from the future."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
        folder, scenario = Path(top) / "case", Release("laplace")
        folder.mkdir()

        def act() -> None:
            import recoup.privacy.ledger_file

            now = [datetime(2030, 1, 1, tzinfo=UTC)]

            class Backwards(datetime):
                @classmethod
                def now(cls, tz: Any = None) -> Any:
                    now[0] -= timedelta(days=30)
                    return now[0]

            recoup.privacy.ledger_file.datetime = Backwards  # type: ignore[attr-defined]
            seconds = time.time
            start = seconds()
            time.time = lambda: 2 * start - seconds()
            scenario.ready(folder)
            scenario.act(folder)
            os.utime(folder / "l.db", (2**31, 2**31))
            os.utime(folder / "t.json", (1, 1))

        ended = child(act)
        if ended.code or ended.signal:
            problems.append(f"ended with {ended.code or ended.signal}")
        # Made on the first look, charged from the second on: all rounds have the day on which their run began.
        if {entry.time for entry in Ledger(folder / "l.db").entries()} != {"2029-11-02"}:
            problems.append("the days of charges are not that of their run")
        problems += _after(scenario, folder, "clock")
    said = "entries in order, totals exact, continued"
    return [_finding("clock going back", "release", 1, problems, said)]
