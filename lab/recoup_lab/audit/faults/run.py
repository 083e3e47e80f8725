"""Faults: kill -9, Ctrl-C, races, full disks and the like; afterwards nothing is lost, half-written or overspent.

Prints a line for each attack and ends with code 1 if any found something, or if a planted bug was not caught.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from recoup_lab.audit.findings import Finding
from recoup_lab.audit.in_parts import Parts, run

FULL = {"kills": 500, "interrupts": 100, "races": 1000, "writes": 30}
QUICK = {"kills": 25, "interrupts": 5, "races": 40, "writes": 3}


def kills(n: dict[str, int], seed: int, names: list[str] | None) -> list[Finding]:
    """Ended by kill -9 at random points."""
    from recoup_lab.audit.faults.kills import killed

    return killed(names, n["kills"], seed)


def interrupts(n: dict[str, int], seed: int) -> list[Finding]:
    """Ended by Ctrl-C at random points."""
    from recoup_lab.audit.faults.kills import killed

    names = ["release, laplace", "ledger charge", "ledger create", "transcript save", "inference, mcmc", "experiment"]
    return killed(names, n["interrupts"], seed, signal.SIGINT)


def held_races(n: dict[str, int], seed: int) -> list[Finding]:
    """Races, and one with a planted bug."""
    from recoup_lab.audit.faults.races import KINDS, races

    with tempfile.TemporaryDirectory(prefix="recoup-races-") as folder:
        found = races(n["races"], seed, Path(folder))
    kind = next(iter(KINDS))
    with tempfile.TemporaryDirectory(prefix="recoup-races-") as folder:
        (stale,) = races(10, seed, Path(folder), only=kind, plant=_believe_before)
    caught = not stale.passed
    result = "caught" if caught else "not caught"
    return [
        *found,
        Finding(
            group="faults",
            attack="control: planted bug",
            target="a ledger that does not look at its budget",
            tries=stale.tries,
            result=result,
            passed=caught,
        ),
    ]


def _believe_before() -> None:
    import recoup.privacy.ledger_rules

    recoup.privacy.ledger_rules.Totals.fits = lambda totals, budget: True  # type: ignore[method-assign,assignment]
    recoup.privacy.ledger_rules.State.possible = True  # type: ignore[assignment,method-assign]


def refusals(n: dict[str, int], seed: int) -> list[Finding]:
    """A system that refuses, and planted bugs."""
    from recoup_lab.audit.faults.kills import planted
    from recoup_lab.audit.faults.system import clock_back, full, limited, locked, read_only

    return [
        *limited(n["writes"], seed),
        *full(n["writes"]),
        *read_only(),
        *locked(),
        *clock_back(),
        planted(seed),
    ]


# In turn for two processes: each has about half of the work.
PARTS: Parts = {
    "kills of releases": lambda n, seed: kills(n, seed, ["release, laplace", "release, gaussian"]),
    "kills of others": lambda n, seed: kills(
        n, seed, ["ledger charge", "ledger create", "transcript save", "inference, mcmc", "estimator"]
    ),
    "kills of experiments": lambda n, seed: kills(n, seed, ["experiment", "experiment, two processes"]),
    "races": held_races,
    "interrupts": interrupts,
    "refusals": refusals,
}


if __name__ == "__main__":
    sys.exit(run("faults", __doc__, PARTS, FULL, QUICK))
