"""Row ranges over both cores with plain threads: kernels release the GIL, so no OpenMP or TBB runtime is needed.

Such a runtime would break under fork, or abort when two Python threads enter it at once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_MIN_ROWS_PER_THREAD = 16_384


def n_threads() -> int:
    """Threads to use: RECOUP_NUM_THREADS, or the cores that this process may run on."""
    declared = os.environ.get("RECOUP_NUM_THREADS", "")
    if declared.isdigit() and int(declared) > 0:
        return int(declared)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


_libraries = lru_cache(maxsize=1)(ThreadpoolController)


_blas_lock = Lock()
_blas_users = 0
_blas_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread, in the whole process, as long as anybody is in here.

    Its threads spin while they wait for each other: the product of two vectors of 10,000 numbers then takes up to 600
    times as long on a busy machine, and a factorisation gains little on an idle one.
    """
    # Users in several threads need not leave in the order they came: the first sets the limit, the last lifts it.
    global _blas_users, _blas_limit
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = _libraries().limit(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.restore_original_limits()


def over_row_ranges(
    work: Callable[[int, int], Result], n_rows: int, *, least: int = _MIN_ROWS_PER_THREAD
) -> list[Result]:
    """Call `work(start, stop)` on ranges that cover the rows, one for each thread, and return the results in order.

    A thread is worth its start from `least` rows on.
    """
    n = max(1, min(n_threads(), n_rows // least))
    edges = [n_rows * i // n for i in range(n + 1)]
    if n == 1:
        return [work(0, n_rows)]
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


def in_order(work: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
    """Yield `work(item)`, pure, for each item, in order, while threads work on the next ones.

    Items are read in the calling thread, at most one for each thread ahead, so that memory stays bounded. An error of
    `work` comes in place of its result, one of `items` as soon as it is read.

    Guarantees: whoever stops early, by an error or by closing, leaves no thread behind.
    """
    n = n_threads()
    if n == 1:
        yield from map(work, items)
        return
    pool, ahead = ThreadPoolExecutor(n), deque[Future[Result]]()
    try:
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > n:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def prefetched(items: Generator[Item, None, None], depth: int = 2) -> Iterator[Item]:
    """Yield the items of a generator that runs ahead, by at most `depth` items, in a thread of its own.

    Only that thread runs the generator, which is closed at the end. Items come in their order, an error where the
    generator raised it. With RECOUP_NUM_THREADS=1 no thread is started.

    Guarantees: whoever stops early, by an error or by closing, leaves neither a thread nor an open file behind.
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
