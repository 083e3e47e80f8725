"""Reading ahead: the same items, a bounded number of them, and nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from recoup._threads import prefetched


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOUP_NUM_THREADS", "2")


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("recoup-read")]


class Log:
    """A generator that notes how far it has run, where, and whether it was closed."""

    def __init__(self, n: int, fail_at: int | None = None) -> None:
        self.n, self.fail_at = n, fail_at
        self.made, self.threads, self.closed = 0, set[str](), False

    def items(self) -> Iterator[int]:
        try:
            for i in range(self.n):
                if i == self.fail_at:
                    raise ValueError("planted")
                self.threads.add(threading.current_thread().name)
                self.made += 1
                yield i
        finally:
            self.closed = True


@pytest.mark.parametrize("n", [0, 1, 2, 3, 50])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_items_come_in_order_from_one_other_thread(n: int, depth: int) -> None:
    log = Log(n)
    assert list(prefetched(log.items(), depth)) == list(range(n))
    assert log.closed
    assert not readers()
    assert len(log.threads) == min(n, 1)
    assert threading.current_thread().name not in log.threads


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_it_is_never_further_ahead_than_its_depth(depth: int) -> None:
    log = Log(100)
    for i in prefetched(log.items(), depth):
        assert log.made <= i + 1 + depth


def test_it_does_run_ahead() -> None:
    second = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        second.set()
        yield 2

    ahead = prefetched(items())
    assert next(ahead) == 1
    # Nobody has asked for the second item.
    assert second.wait(timeout=60)
    assert list(ahead) == [2]


def test_one_thread_reads_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOUP_NUM_THREADS", "1")
    log = Log(10)
    for i in prefetched(log.items(), 5):
        assert log.made == i + 1
    assert log.threads == {threading.current_thread().name}


@pytest.mark.parametrize("fail_at", [0, 1, 5])
def test_an_error_comes_in_its_place_and_ends_everything(fail_at: int) -> None:
    log, seen = Log(10, fail_at), []
    with pytest.raises(ValueError, match="planted") as caught:
        seen.extend(_noted(prefetched(log.items()), seen))
    assert seen == list(range(fail_at))
    assert caught.value.__context__ is None
    assert not readers()


def _noted(items: Iterator[int], seen: list[int]) -> Iterator[int]:
    for item in items:
        seen.append(item)
    yield from ()


@pytest.mark.parametrize("how", ["close", "error", "forget"])
def test_who_stops_early_leaves_no_thread_and_no_open_generator(how: str) -> None:
    log = Log(1000)
    ahead = prefetched(log.items())
    assert next(ahead) == 0
    if how == "close":
        ahead.close()
    elif how == "error":
        with pytest.raises(KeyError):
            ahead.throw(KeyError("of the reader"))
    else:
        del ahead
    assert log.closed
    assert log.made <= 3
    assert not readers()
