"""Work in threads: results in order, a bounded number of items taken, errors in their place, nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from recoup._threads import in_order, one_blas_thread


@pytest.fixture(autouse=True, params=["1", "2", "5"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("RECOUP_NUM_THREADS", request.param)
    return int(request.param)


@pytest.mark.parametrize("n", [0, 1, 2, 30])
def test_results_come_in_order(n: int) -> None:
    assert list(in_order(lambda i: i * i, iter(range(n)))) == [i * i for i in range(n)]


def test_it_takes_no_more_items_than_it_has_threads_for(threads: int) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for i in range(50):
            taken += 1
            yield i

    results = in_order(lambda i: i, items())
    for i in range(50):
        assert next(results) == i
        assert taken <= i + 1 + threads


def test_several_items_are_worked_on_at_a_time(threads: int) -> None:
    if threads == 1:
        me = threading.current_thread()
        assert set(in_order(lambda i: threading.current_thread(), iter(range(3)))) == {me}
        return
    # Each waits for another one: with a single worker this would never end.
    met = threading.Barrier(2, timeout=60)
    assert list(in_order(lambda i: met.wait() >= 0, iter(range(4)))) == [True] * 4


@pytest.mark.parametrize("broken", ["items", "work"])
def test_errors_reach_the_caller_and_leave_no_thread(broken: str) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        if broken == "items":
            raise ValueError("planted")
        yield 3

    def work(i: int) -> int:
        if i == 3:
            raise ValueError("planted")
        return i

    before, seen = threading.active_count(), list[int]()
    with pytest.raises(ValueError, match="planted"):
        seen.extend(in_order(work, items()))
    assert seen == list(range(len(seen)))
    assert broken == "items" or seen == [0, 1, 2]
    assert threading.active_count() == before


def test_blas_has_one_thread_until_the_last_user_leaves() -> None:
    def blas() -> dict[str, int]:
        return {
            library["filepath"]: library["num_threads"]
            for library in threadpool_info()
            if library["user_api"] == "blas"
        }

    assert np.ones((9, 9)) @ np.ones(9) is not None
    with threadpool_limits(2, user_api="blas"):
        # A library that this process loaded with a single thread stays at it.
        before = blas()
        assert 2 in before.values()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas().values()) == {1}
        second.__exit__(None, None, None)
        assert blas() == before
        with pytest.raises(ValueError, match="planted"), one_blas_thread():
            raise ValueError("planted")
        assert blas() == before
