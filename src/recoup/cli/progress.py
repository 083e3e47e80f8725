"""Progress for work that takes more than a second: the round and a percentage, nothing that depends on records.

The percentage counts finished rounds. Inside a round it stands still: how many files, bytes or blocks are read is a
function of the records, and so would be any share of them. What a watch tells (how long a round takes) is not hidden.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self

_QUIET_SECONDS = 1.0
_BAR_WIDTH = 20


class Progress:
    """Says on standard error which round is at work, once the work has proved slow: after `delay` seconds.

    Without a number of rounds it says only that something is being done. With `at_most` there may be fewer, which later
    rounds decide; with "percent" as unit only the percentage is shown.
    """

    def __init__(
        self, n_rounds: int | None = None, *, at_most: bool = False, unit: str = "round", delay: float | None = None
    ) -> None:
        self._unit, self._of = unit, "of at most" if at_most else "of"
        self._n_rounds, self._n_finished, self._shown = n_rounds, 0, ""
        self._lock, self._slow, self._over = threading.Lock(), False, False
        self._timer = threading.Timer(_QUIET_SECONDS if delay is None else delay, self._wake)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start to wait."""
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say that all is done, then clear the line on a terminal."""
        self._timer.cancel()
        with self._lock:
            # The rounds that were made were all, where there could have been more.
            if kind is None and self._unit == "round" and 0 < self._n_finished < (self._n_rounds or 0):
                self._n_rounds, self._of = self._n_finished, "of"
                self._show()
            self._over = True
            if self._shown and sys.stderr.isatty():
                sys.stderr.write("\r" + " " * len(self._shown) + "\r")
                sys.stderr.flush()

    def finished(self, n_rounds: int) -> None:
        """Note how many rounds are finished."""
        with self._lock:
            self._n_finished = n_rounds
            self._show()

    def _wake(self) -> None:
        with self._lock:
            self._slow = True
            self._show()

    def _show(self) -> None:
        if not self._slow or self._over:
            return
        text, on_terminal = "working ...", sys.stderr.isatty()
        # A percentage that nobody has moved says less than that something is being done.
        if self._n_rounds is not None and (self._n_finished or self._unit == "round"):
            at, finished = min(self._n_finished + 1, self._n_rounds), min(self._n_finished, self._n_rounds)
            percentage = f"{100 * finished // self._n_rounds} %"
            text = percentage if self._unit == "percent" else f"round {at} {self._of} {self._n_rounds}, {percentage}"
            if on_terminal:
                filled = _BAR_WIDTH * finished // self._n_rounds
                text = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {text}"
        if text != self._shown:
            # A shorter text must cover a longer one.
            sys.stderr.write(f"\r{text.ljust(len(self._shown))}" if on_terminal else f"{text}\n")
            sys.stderr.flush()
            self._shown = text
