"""How a benchmark is conducted: its sizes, clock and cores; contestants that take turns; and on what machine.

Seconds can be compared on a busy machine because the best time of each contestant counts. A machine is described by
enough to judge its figures, and by nothing that names it.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final, TypeAlias

import pyarrow as pa
from threadpoolctl import threadpool_limits

from recoup._threads import n_threads
from recoup.errors import ParameterError
from recoup.version import __version__

_VARIABLES: Final = ("RECOUP_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PACKAGES = ("numpy", "numba", "scikit-learn", "pyarrow", "pyspark")

Contestant: TypeAlias = Callable[[], float]  # works once, and returns the seconds that it took


def stopwatch(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Contestant:
    """Turn work into a contestant, timed by some clock.

    >>> stopwatch(lambda: sum(range(10)))() >= 0.0
    True
    """

    def run() -> float:
        start = clock()
        work()
        return clock() - start

    return run


def race(contestants: Mapping[str, Contestant], *, repeats: int = 5, patience: float = 10.0) -> dict[str, float]:
    """Time contestants in turns, so that whatever else the machine does hinders all of them alike; returns the best.

    No further turn begins after `patience` seconds.

    Guarantees: every contestant has had the same number of turns, at least one, and every turn begins with another one.

    >>> race({"slow": lambda: 2.0, "fast": lambda: 1.0}, repeats=2)
    {'slow': 2.0, 'fast': 1.0}
    """
    if repeats < 1:
        raise ParameterError(f"repeats={repeats}: at least one turn is needed.")
    names, best = list(contestants), dict.fromkeys(contestants, float("inf"))
    start = time.perf_counter()
    for turn in range(repeats):
        first = turn % max(len(names), 1)
        for name in names[first:] + names[:first]:
            best[name] = min(best[name], contestants[name]())
        if time.perf_counter() - start > patience:
            break
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for every race of a part.

    Attributes:
        quick: small sizes, about a minute for everything.
        max_records: no race has more; None: the sizes that are documented.
        one_core: one thread for everyone, and processor seconds instead of the clock: what other work on the machine
            changes least. On all cores, threads that wait for each other suffer from it far more than others.
        say: told about progress.
    """

    quick: bool = False
    max_records: int | None = None
    one_core: bool = False
    say: Callable[[str], None] = lambda text: None

    def size(self, full: int, quick: int) -> int:
        """How many records a race has.

        >>> Rules().size(1000, 10), Rules(quick=True).size(1000, 10), Rules(max_records=7).size(1000, 10)
        (1000, 10, 7)
        """
        wanted = quick if self.quick else full
        return wanted if self.max_records is None else min(self.max_records, wanted)

    def timed(self, work: Callable[[], object]) -> Contestant:
        """Work as a contestant, on the clock of these rules."""
        return stopwatch(work, time.process_time if self.one_core else time.perf_counter)

    @contextmanager
    def cores(self) -> Iterator[None]:
        """Hold everyone in this process, and in processes that it starts, to one thread if these rules say so."""
        if not self.one_core:
            yield
            return
        import sklearn.cluster  # noqa: F401, threads can be held only of libraries that are there

        before, n_arrow = {name: os.environ.get(name) for name in _VARIABLES}, pa.cpu_count()
        os.environ.update(dict.fromkeys(_VARIABLES, "1"))
        pa.set_cpu_count(1)
        try:
            with threadpool_limits(1):
                yield
        finally:
            pa.set_cpu_count(n_arrow)
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


# ---- the machine ----


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
