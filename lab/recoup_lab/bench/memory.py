"""Peak memory of one piece of work, in a process of its own: how far it rises above what was there before.

`python -m recoup_lab.bench.memory MODULE FUNCTION JSON` calls the function with these arguments; it returns the work.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MEGABYTE = 2.0**20


def peak_growth(prepare: Callable[..., Callable[[], object]], *arguments: Any) -> float:
    """Megabytes by which one piece of work raises the resident memory of a fresh process above what was there before.

    `prepare` is a module's function that imports and makes what the work needs, and returns the work; its arguments are
    such as JSON can carry.
    """
    command = [sys.executable, "-m", __name__, prepare.__module__, prepare.__name__, json.dumps(arguments)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(result.stdout)


def _growth(work: Callable[[], object]) -> float:
    # What preparation took and gave back must not hide what the work takes.
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
    before = _status("VmRSS") if _STATUS.exists() else _largest()
    work()
    after = _status("VmHWM") if _STATUS.exists() else _largest()
    return max(0.0, after - before)


def _status(field: str) -> float:
    # On Linux ru_maxrss also remembers the process that started this one.
    return int(_STATUS.read_text().split(f"{field}:")[1].split()[0]) * 1024 / _MEGABYTE


def _largest() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _MEGABYTE


def main(module: str, function: str, arguments: str) -> None:
    """Print the megabytes that a piece of work takes."""
    work = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    sys.stdout.write(f"{_growth(work):.1f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
