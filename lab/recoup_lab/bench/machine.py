"""On what a benchmark ran: enough to judge its figures, nothing that names the machine."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from recoup._threads import n_threads
from recoup.version import __version__
from recoup_lab.bench.rules import Rules

_PACKAGES = ("numpy", "numba", "scikit-learn", "pyarrow", "pyspark")


def describe_machine(rules: Rules) -> dict[str, Any]:
    """Cores that are used, memory, system and versions, and how busy the machine is now.

    >>> sorted(describe_machine(Rules()))
    ['clock', 'cores', 'load', 'memory', 'processor', 'system', 'versions']
    """
    return {
        "cores": n_threads(),
        "memory": _memory(),
        "processor": platform.machine(),
        "system": platform.system(),
        "clock": "processor" if rules.one_core else "wall",
        "load": [_load()],
        "versions": {"recoup": __version__, "python": platform.python_version()} | _versions(),
    }


def finished(machine: dict[str, Any]) -> dict[str, Any]:
    """The same description, with how busy the machine is at the end."""
    return machine | {"load": [*machine["load"], _load()]}


def _load() -> float | None:
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def _memory() -> int | None:
    """Gigabytes."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, ValueError, OSError):
        return None


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
