"""Attacks that fork, kill and race: the command line that they share, and a process of its own for each part."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RECOUP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from recoup_lab.audit.evidence import cpu_seconds, end_run  # noqa: E402
from recoup_lab.audit.findings import Finding  # noqa: E402

Tries = dict[str, int]
Parts = Mapping[str, Callable[[Tries, int], list[Finding]]]


def run(name: str, says: str, parts: Parts, full: Tries, quick: Tries) -> int:
    """Run the parts that the command line asks for, two at a time, and print a table.

    Args:
        name: of the package of attacks, whose module `run` has these parts as `PARTS`.
        says: what they do, in the first line.
        parts: each makes so many tries from a seed; in turn for two processes.
        full: how many tries there are of each kind.
        quick: the same for a quick run.

    Returns:
        What the program ends with: 1 if an attack succeeded.
    """
    parser = argparse.ArgumentParser(description=says.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about a twentieth of the tries")
    parser.add_argument("--only", action="append", choices=list(parts), metavar="PART", help="may be given again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the tries, for a run that is quicker still")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help=f"write data/{name}.json and evidence.md")
    options = parser.parse_args()
    n = {kind: max(1, int(count * options.share)) for kind, count in (quick if options.quick else full).items()}
    start, found, cpu = time.monotonic(), list[Finding](), cpu_seconds()
    module = f"recoup_lab.audit.{name}.run"
    # A process for each part: threads that one leaves behind would not survive the forks of the next.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for part in [pool.submit(_run_part, module, chosen, n, options.seed) for chosen in options.only or parts]:
            findings, seconds = part.result()
            found += findings
            cpu += seconds
            for finding in findings:
                print("  " + "; ".join(finding.row()), file=sys.stderr, flush=True)
    return end_run(options.output, name, name, module, found, start=start, cpu=cpu)


def _run_part(module: str, name: str, n: Tries, seed: int) -> tuple[list[Finding], float]:
    before = cpu_seconds()
    return import_module(module).PARTS[name](n, seed), cpu_seconds() - before
