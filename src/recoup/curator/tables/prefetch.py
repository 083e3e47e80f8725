"""Decoding in parallel with the kernels: the next blocks are read while the last one is added up."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from recoup._threads import n_threads

Item = TypeVar("Item")


def prefetched(items: Generator[Item, None, None], depth: int = 2) -> Iterator[Item]:
    """Yield the items of a generator that runs ahead in a thread of its own.

    Args:
        items: the generator; only that thread runs it, and it is closed at the end.
        depth: how many items it may be ahead, so that memory stays bounded.

    Returns:
        The same items in the same order; an error comes where the generator raised it. With RECOUP_NUM_THREADS=1 no
        thread is started.

    Guarantees: whoever stops early, by an error or by closing, leaves neither a thread nor an open file behind.

    >>> list(prefetched(number**2 for number in range(4)))
    [0, 1, 4, 9]
    """
    if n_threads() == 1:
        yield from items
        return
    end = object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="recoup-read")
    try:
        ahead = deque(pool.submit(next, items, end) for _ in range(max(1, depth)))
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        items.close()
