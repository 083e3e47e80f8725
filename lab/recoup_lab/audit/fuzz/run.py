"""Fuzz every loader: only typed errors, soon, in little memory, and nothing executed, written or read elsewhere.

A case is known by its seed, target and number, so any can be run again (`--case`). The script ends with code 1 if any
case went wrong, or if a planted bad loader was not caught.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RECOUP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from recoup_lab.audit.evidence import cpu_seconds, end_run  # noqa: E402
from recoup_lab.audit.findings import Finding  # noqa: E402
from recoup_lab.audit.fuzz.workers import CHUNK, Chunk, Tally, run_chunks  # noqa: E402

GROUP = "bad input"
FULL, QUICK = 1_000_000, 20_000


def makers(names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The targets by name, for a worker process."""
    from recoup_lab.audit.fuzz.loaders import TARGETS

    return {name: make for name, (make, _) in TARGETS.items() if names is None or name in names}


def planted() -> dict[str, Any]:
    """Bad loaders by what is wrong with them, for a worker process."""
    from recoup_lab.audit.fuzz.planted import PLANTED

    return dict(PLANTED)


def counts(n_cases: int, only: list[str] | None) -> dict[str, int]:
    """How many cases each target gets."""
    from recoup_lab.audit.fuzz.loaders import TARGETS

    chosen = {name: part for name, (_, part) in TARGETS.items() if not only or name in only}
    whole = sum(chosen.values())
    return {name: max(1, n_cases * part // whole) for name, part in chosen.items()}


def chunks(wanted: dict[str, int]) -> list[Chunk]:
    """What is to do; the targets take turns, so that what is stopped has tried all of them."""
    found = [Chunk(name, start, min(start + CHUNK, n)) for name, n in wanted.items() for start in range(0, n, CHUNK)]
    return sorted(found, key=lambda chunk: (chunk.start / wanted[chunk.target], chunk.target))


def fuzz(n_cases: int, seed: int, only: list[str] | None, n_processes: int) -> dict[str, Tally]:
    """Run all cases."""
    wanted = counts(n_cases, only)
    tallies = {name: Tally() for name in wanted}
    told = time.monotonic()
    for chunk, tally in run_chunks(chunks(wanted), seed, partial(makers, tuple(wanted)), n_processes):
        tallies[chunk.target].add(tally)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            n = sum(tally.n for tally in tallies.values())
            print(f"  {n:,} of {sum(wanted.values()):,} cases", file=sys.stderr, flush=True)
    return tallies


def control(seed: int) -> Finding:
    """Planted bad loaders, each of which the same guard must catch in a few cases."""
    from recoup_lab.audit.fuzz.planted import PLANTED

    work = [Chunk(name, 0, 1) for name in PLANTED]
    caught: dict[str, bool] = dict.fromkeys(PLANTED, False)
    for chunk, tally in run_chunks(work, seed, planted, seconds=2.0):
        caught[chunk.target] |= any(key.startswith(PLANTED[chunk.target].caught_as) for key in tally.wrong)
    missed = [name for name, found in caught.items() if not found]
    return Finding(
        group=GROUP,
        attack="control: planted bad loaders",
        target=", ".join(PLANTED),
        tries=len(PLANTED),
        result=f"not caught: {', '.join(missed)}" if missed else f"all {len(PLANTED)} caught",
        passed=not missed,
    )


def findings(tallies: dict[str, Tally]) -> list[Finding]:
    """One line for each loader."""
    found = []
    for name, tally in tallies.items():
        wrong = "; ".join(f"{key} ({text})" for key, text in list(tally.wrong.items())[:3])
        said = f"{tally.accepted:,} read, the rest refused with {len(tally.refusals)} different messages"
        # What refuses nearly everything, or reads everything, was not tested.
        told = tally.n // 100 <= tally.accepted < tally.n
        idle = "" if tally.n < CHUNK or told else f"{tally.accepted:,} read: hardly anything was told apart"
        found.append(
            Finding(
                group=GROUP,
                attack="spoilt files",
                target=name,
                tries=tally.n,
                result=wrong or idle or said,
                passed=not wrong and not idle,
                figures={
                    "accepted": tally.accepted,
                    "messages": len(tally.refusals),
                    "megabytes": round(tally.memory, 1),
                },
            )
        )
    return found


def main() -> int:
    """Run what was asked for and print a table."""
    from recoup_lab.audit.fuzz.loaders import TARGETS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} cases instead of {FULL:,}")
    parser.add_argument("--cases", type=int, metavar="N", help="another number of cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", action="append", choices=list(TARGETS), metavar="TARGET", help="may be given again")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="run this case of --only again, unguarded")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write data/fuzz.json and evidence.md")
    options = parser.parse_args()
    if options.case is not None:
        if len(options.only or ()) != 1 or options.case < 0:
            parser.error("--case NUMBER needs one --only TARGET, and a number of at least 0.")
        return again(options.only[0], options.seed, options.case)
    start = time.monotonic()
    n_cases = options.cases or (QUICK if options.quick else FULL)
    tallies = fuzz(n_cases, options.seed, options.only, options.processes)
    found = [*findings(tallies), control(options.seed)]
    module, cpu = "recoup_lab.audit.fuzz.run", cpu_seconds()
    return end_run(options.output, GROUP, "fuzz", module, found, start=start, cpu=cpu)


def again(target: str, seed: int, number: int) -> int:
    """Run one case with no guard, so that an error that has no type of Recoup's is seen whole."""
    import tempfile
    from random import Random

    with tempfile.TemporaryDirectory() as folder:
        tried = makers((target,))[target]()
        load, _ = tried.case(Random(f"{seed} {target} {number}"), Path(folder))
        try:
            load()
        except tried.errors as error:
            print(f"refused: {type(error).__name__}: {error}")
            return 0
    print("accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
