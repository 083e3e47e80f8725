"""An attack on updates: is a compiled kernel still used after something that it was compiled from has changed?

A copy of the kernels is used once, so that its compiled functions are kept. Then the mark of a record that contributes
nothing is changed in one file, and a function of another file, which reads the mark, is used again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import recoup
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.findings import Finding

GROUP: Final = "updates"
_COUNT_A_DROPPED_RECORD: Final = """
import numpy as np
from recoup.kernels.fixed_point import DROPPED
from recoup.kernels.cells import grid_totals
totals, one = np.zeros(1, np.int64), np.ones(1, np.int64)
grid_totals(np.full((1, 1), DROPPED, np.int32), one - 1, one, 1, totals)
print(totals[0])
"""


def attack(effort: Effort) -> Iterator[Finding]:
    """Count a record that contributes nothing, before and after an update."""
    counts = counts_around_an_update(Path(recoup.__file__).parent)
    yield Finding(
        group=GROUP,
        attack="a constant of another kernel",
        target="counts of a record with a missing value",
        tries=len(counts),
        result="the new value is used" if counts == (0, 0) else f"counted {counts[0]} times, then {counts[1]}",
        passed=counts == (0, 0),
    )


def counts_around_an_update(package: Path) -> tuple[int, int]:
    """How often a grid counts a record that contributes nothing, before and after another mark is used for it."""
    with TemporaryDirectory(prefix="recoup-update-") as folder:
        copied = Path(folder) / "recoup"
        shutil.copytree(package / "kernels", copied / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("__init__.py", "version.py"):
            shutil.copy(package / name, copied)
        before = _counted(Path(folder))
        with (copied / "kernels" / "fixed_point.py").open("a", encoding="utf-8") as file:
            file.write("\nDROPPED += 1\n")
        return before, _counted(Path(folder))


def _counted(folder: Path) -> int:
    environment = os.environ | {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", _COUNT_A_DROPPED_RECORD]
    ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return int(ran.stdout)
