"""Plant known privacy bugs in a copy of the source, one at a time, and see that the unchanged audit catches each.

A bug is a patch in `planted/`: a comment that says what it does, a line `# Caught by: ...` with what must catch it, all
of them (`loss`: any attack of that group; `precision: low-order bits`: that one), and a unified diff. Beside the bugs a
copy without any must pass. The script ends with code 1 if a bug is missed, a patch no longer applies, the copy without
a bug fails, or an attack caught no bug at all, for then nothing shows that it could.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from recoup_lab.audit.attacks.table import ATTACKS
from recoup_lab.tree import ROOT

PATCHES = Path(__file__).resolve().parent / "planted"
CONTROL = "no bug (control)"
GROUPS = tuple(attack.name for attack in ATTACKS)
# Of different kinds: budget, noise, order, side information, digits, persons.
QUICK = (
    *("swapped-shares", "half-the-noise", "charge-after-draw", "skipped-rows-logged", "coarse-noise"),
    "persons-cut-short",
)


@dataclass(frozen=True)
class Result:
    """What the audit said about one copy."""

    name: str
    what: str
    tried: tuple[str, ...] = ()
    caught: tuple[str, ...] = ()
    trouble: str = ""


def header(patch: Path) -> tuple[str, tuple[str, ...]]:
    """What a patch does, and the attacks, or groups of them, that must catch it."""
    lines = [line[1:].strip() for line in patch.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    return lines[0], tuple(word.strip() for word in lines[1].removeprefix("Caught by:").split(","))


def try_bug(name: str) -> Result:
    """Audit a copy of the source with one bug, or with none."""
    what, catchers = ("the source as it is", GROUPS) if name == CONTROL else header(PATCHES / f"{name}.patch")
    with tempfile.TemporaryDirectory(prefix="recoup-planted-") as folder:
        # With their times, so that compiled kernels stay valid.
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        if name != CONTROL:
            environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(Path(folder).parent)}
            command = ["git", "apply", "-C1", "-p1", str(PATCHES / f"{name}.patch")]
            applied = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if applied.returncode:
                return Result(name, what, trouble=f"the patch no longer applies: {applied.stderr.strip()[:200]}")
        return _audited(name, what, Path(folder) / "src", catchers)


def _audited(name: str, what: str, source: Path, catchers: tuple[str, ...]) -> Result:
    command = [sys.executable, "-m", "recoup.cli.app", "audit", "--quick", "--json"]
    groups = dict.fromkeys(catcher.split(":")[0] for catcher in catchers)
    command += [word for group in groups for word in ("--only", group)]
    one_core = dict.fromkeys(("RECOUP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    ran = subprocess.run(
        command, env=os.environ | one_core | {"PYTHONPATH": str(source)}, capture_output=True, text=True, cwd=source
    )
    try:
        findings = json.loads(ran.stdout)["findings"]
    except (ValueError, KeyError):
        return Result(name, what, trouble=f"the audit did not finish: {ran.stderr.strip()[-300:]}")
    tried = dict.fromkeys(f"{f['group']}: {f['attack']}" for f in findings if not f["broken"])
    # An attack that could not be run has caught nothing.
    caught = dict.fromkeys(f"{f['group']}: {f['attack']}" for f in findings if not f["passed"] and not f["broken"])
    broken = [f"{f['group']} {f['result']}" for f in findings if f["broken"]]
    missed = missed_by(catchers, caught)
    trouble = ""
    if name == CONTROL and (caught or broken):
        trouble = f"found in the source as it is: {'; '.join([*caught, *broken])}"
    elif name != CONTROL and missed:
        trouble = "; ".join([f"not caught by {', '.join(missed)}", *broken])
    return Result(name, what, tuple(tried), tuple(caught), trouble)


def missed_by(catchers: Sequence[str], caught: Iterable[str]) -> list[str]:
    """Attacks, or groups of them, that are not among those that caught something."""
    names = {name for attack in caught for name in (attack, attack.split(":")[0])}
    return [catcher for catcher in catchers if catcher not in names]


def without_a_catch(results: Sequence[Result]) -> list[str]:
    """Attacks that ran and caught no planted bug."""
    tried = dict.fromkeys(attack for result in results for attack in result.tried)
    caught = {attack for result in results for attack in result.caught if result.name != CONTROL}
    return [attack for attack in tried if attack not in caught]


def main() -> int:
    """Try the bugs, two at a time, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--planted", choices=["all", "quick"], default="all", help="quick: six bugs, no control")
    parser.add_argument("--only", action="append", metavar="NAME", help="this bug; may be given again")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write data/planted.json and evidence.md")
    options = parser.parse_args()
    quick = options.planted == "quick"
    for name in options.only or ():
        if not (PATCHES / f"{name}.patch").exists():
            parser.error(f"--only {name}: there is no such patch in planted/.")
    names = options.only or (list(QUICK) if quick else [CONTROL, *sorted(p.stem for p in PATCHES.glob("*.patch"))])
    results = []
    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(try_bug, names):
            results.append(result)
            said = "; ".join([*result.caught, *([result.trouble] if result.trouble else [])]) or "nothing found"
            print(f"{'FAILED' if result.trouble else 'ok    '} {result.name}: {said}", flush=True)
    bugs = [result for result in results if result.name != CONTROL]
    print(f"{sum(not r.trouble for r in bugs)} of {len(bugs)} planted bugs caught by all that must catch them.")
    idle = [] if quick or options.only else without_a_catch(results)
    if idle:
        print(f"FAILED no planted bug shows that these attacks can succeed: {', '.join(idle)}")
    if options.output is not None and not options.only:
        from recoup_lab.audit.evidence import write_planted

        write_planted(options.output, {r.name: {"what": r.what, "caught": list(r.caught)} for r in bugs})
    return 1 if idle or any(result.trouble for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
