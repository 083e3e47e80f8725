"""Seconds that can be compared on a busy machine: contestants take turns, and the best time of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from recoup.errors import ParameterError

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
