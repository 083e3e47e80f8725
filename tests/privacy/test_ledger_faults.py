"""Faults: processes that race for the last of a budget, and processes that are killed at any point.

The promise under test: nothing is overspent, and no release goes unpaid. Each check has a half in which a planted
bug (a release before its charge, a check outside of the transaction) has to be caught by the same assertion.
"""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from recoup.privacy.ledger import Ledger

RACER = """
import sys
from fractions import Fraction
from recoup.privacy.price import Price
from recoup.errors import BudgetExceededError
from recoup.privacy.ledger import Ledger

path, n_charges = sys.argv[1], int(sys.argv[2])
ledger, price, admitted = Ledger(path), Price(measure="pure", amount=Fraction(1, 100)), 0
print("ready", flush=True)
sys.stdin.readline()
for k in range(n_charges):
    try:
        ledger.charge(price, purpose=f"charge {k}")
        admitted += 1
    except BudgetExceededError:
        pass
print(admitted, flush=True)
"""

# The planted bug: whether the charge fits is asked once, before the race, and believed.
STALE_CHECK = """
import recoup.privacy.ledger_rules
fits = ledger.preview([price]).fits
recoup.privacy.ledger_rules.Totals.fits = lambda totals, budget: fits
recoup.privacy.ledger_rules.State.possible = True  # a ledger that is overspent would be refused as damaged
"""

# "charged-first" is how a curator works; "released-first" is the planted bug.
RELEASER = """
import os, sys
from fractions import Fraction
from recoup.privacy.price import Price
from recoup.privacy.ledger import Ledger

path, released, order = sys.argv[1:]
ledger, price = Ledger(path), Price(measure="pure", amount=Fraction(1, 1000))
file = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def release():
    os.write(file, b"noisy\\n")
    os.fsync(file)

def one_round():
    if order == "released-first":
        release()
    ledger.charge(price, purpose="round")
    if order == "charged-first":
        release()

one_round()
print("ready", flush=True)
while True:
    one_round()
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def is_sound(path: Path) -> bool:
    database = sqlite3.connect(path)
    try:
        return database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        database.close()


def race(path: Path, script: str, *, n_processes: int, n_charges: int) -> list[int]:
    processes = [start(script, path, n_charges) for _ in range(n_processes)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    admitted = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * n_processes
    return admitted


def test_racing_processes_never_overspend(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, epsilon="1.2")
    admitted = race(path, RACER, n_processes=4, n_charges=50)
    assert sum(admitted) == 120
    entries = ledger.entries()
    assert [entry.id for entry in entries] == list(range(1, 121))
    assert [entry.spent_after for entry in entries] == [Fraction(k, 100) for k in range(1, 121)]
    assert (ledger.spent, ledger.left) == (Fraction(6, 5), 0)
    assert is_sound(path)


def test_a_check_outside_of_the_transaction_would_be_caught(tmp_path: Path) -> None:
    """Four processes want the last hundredth; one that checked before it had the lock would get it as well."""
    admitted = []
    for number, script in enumerate([RACER, RACER.replace('print("ready"', STALE_CHECK + 'print("ready"')]):
        path = tmp_path / f"ledger-{number}.db"
        Ledger.create(path, epsilon="0.01")
        admitted.append(sum(race(path, script, n_processes=4, n_charges=1)))
    assert admitted == [1, 4]


def unpaid_releases(folder: Path, order: str, *, n_kills: int) -> list[int]:
    """Kill a releasing process again and again; after each kill, count the releases that no charge paid for."""
    path, released = folder / "ledger.db", folder / "released.txt"
    ledger = Ledger.create(path, epsilon=1000)
    delays = random.Random(20200131)
    unpaid, n_charges = [], 0
    for _ in range(n_kills):
        process = start(RELEASER, path, released, order)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(delays.uniform(0, 0.04))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        # Opening rolls back whatever the dead process had begun.
        entries = ledger.entries()
        assert is_sound(path)
        assert len(entries) >= n_charges
        assert ledger.spent == Fraction(len(entries), 1000)
        n_charges = len(entries)
        n_released = released.read_bytes().count(b"\n") if released.exists() else 0
        unpaid.append(n_released - n_charges)
    assert n_charges > n_kills
    return unpaid


def test_a_killed_process_leaves_no_unpaid_release(tmp_path: Path) -> None:
    assert max(unpaid_releases(tmp_path, "charged-first", n_kills=30)) <= 0


def test_a_release_before_its_charge_is_caught(tmp_path: Path) -> None:
    # Most of a round's time lies between its release and its commit, so twelve misses in a row are rarer than 1e-3.
    assert max(unpaid_releases(tmp_path, "released-first", n_kills=12)) > 0


@pytest.mark.parametrize("moment", ["BEGIN", "INSERT", "before COMMIT"])
def test_a_charge_that_was_not_committed_never_was(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, epsilon=1)
    dying = f"""
import os, signal, sys, sqlite3
from fractions import Fraction
from recoup.privacy.price import Price
import recoup.privacy.ledger

class Dying(sqlite3.Connection):
    def execute(self, statement, *arguments):
        moment = {moment!r}
        if moment == "before COMMIT" and statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        cursor = super().execute(statement, *arguments)
        if statement.startswith(moment):
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor

connect = sqlite3.connect
sqlite3.connect = lambda *a, **k: connect(*a, factory=Dying, **k)
recoup.privacy.ledger.Ledger(sys.argv[1]).charge(Price(measure="pure", amount=Fraction(1)), purpose="never")
"""
    process = start(dying, path)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert ledger.entries() == ()
    assert is_sound(path)
    assert ledger.left == 1
