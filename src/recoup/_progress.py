"""How far work is, told to a function of (done, total): in percent, each number once, and 100 when all is done.

What is counted is rounds, draws and steps, which are public; never records.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

OnProgress = Callable[[int, int], None]


def parts_of(on_progress: OnProgress | None, *weights: int) -> list[OnProgress | None]:
    """One function for each part of the work, to be told (done, total) of it; without a function to tell, none.

    >>> told = []
    >>> first, second = parts_of(lambda done, total: told.append(done), 1, 3)
    >>> first(1, 2), first(2, 2), second(1, 10), second(1, 10), second(10, 10)
    (None, None, None, None, None)
    >>> told
    [12, 25, 32, 100]
    """
    if on_progress is None:
        return [None] * len(weights)
    lock, last = threading.Lock(), 0

    def tell(before: int, weight: int, done: int, total: int) -> None:
        nonlocal last
        with lock:
            percent = 100 * (before * total + weight * done) // (sum(weights) * total)
            if percent > last:
                last = percent
                on_progress(percent, 100)

    return [partial(tell, sum(weights[:i]), weight) for i, weight in enumerate(weights)]


def told(on_progress: OnProgress | None, done: int, total: int) -> None:
    """Tell a function, if there is one."""
    if on_progress is not None:
        on_progress(done, total)
