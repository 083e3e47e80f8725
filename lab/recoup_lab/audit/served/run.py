"""Attack a served curator: kills, races, spoilt requests, guessed tokens, neighbours; and bugs that they must catch.

Prints a line for each attack and ends with code 1 if any found something, or if a planted bug was not caught.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RECOUP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from recoup_lab.audit.evidence import cpu_seconds, end_run  # noqa: E402
from recoup_lab.audit.findings import Finding  # noqa: E402

FULL = {"kills": 500, "races": 1000, "requests": 100_000, "tokens": 100_000, "seconds": 60}
QUICK = {"kills": 20, "races": 40, "requests": 4000, "tokens": 2000, "seconds": 5}


def _kills(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.kills import killed

    return killed(n["kills"], seed)


def _races(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.races import raced

    return raced(n["races"], seed)


def _requests(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.fuzz import fuzzed, guessed

    return [*fuzzed(n["requests"], seed), *guessed(n["tokens"], seed)]


def _neighbours(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.neighbours import compared

    return compared()


def _crowd(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.crowd import crowded

    return crowded(n["seconds"])


def _planted(n: dict[str, int], seed: int) -> list[Finding]:
    from recoup_lab.audit.served.planted import planted

    return planted(seed)


PARTS: dict[str, Callable[[dict[str, int], int], list[Finding]]] = {
    "kills": _kills,
    "requests": _requests,
    "races": _races,
    "planted": _planted,
    "neighbours": _neighbours,
    "crowd": _crowd,
}


def run_part(name: str, n: dict[str, int], seed: int) -> tuple[list[Finding], float]:
    """One part, in a process that has no other threads: it forks."""
    before = cpu_seconds()
    return PARTS[name](n, seed), cpu_seconds() - before


def main() -> int:
    """Run what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about a twenty-fifth of the tries")
    parser.add_argument("--only", action="append", choices=list(PARTS), metavar="PART", help="may be given again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the tries, for a run that is quicker still")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write data/served.json and evidence.md")
    options = parser.parse_args()
    n = {name: max(1, int(count * options.share)) for name, count in (QUICK if options.quick else FULL).items()}
    start, found, cpu = time.monotonic(), [], cpu_seconds()
    # A process for each part: threads that one leaves behind would not survive the forks of the next.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for part in [pool.submit(run_part, name, n, options.seed) for name in options.only or PARTS]:
            findings, seconds = part.result()
            found += findings
            cpu += seconds
            for finding in findings:
                print("  " + "; ".join(finding.row()), file=sys.stderr, flush=True)
    return end_run(options.output, "served", "served", "recoup_lab.audit.served.run", found, start=start, cpu=cpu)


if __name__ == "__main__":
    sys.exit(main())
