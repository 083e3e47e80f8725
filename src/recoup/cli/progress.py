"""Progress of slow work, on a terminal and nowhere else.

Of a release it is the round and a percentage of finished rounds. Inside a round it stands still: how many files, bytes
or blocks are read is a function of the records, and so would be any share of them. What a watch tells (how long a round
takes) is not hidden, but stays in no log. Of what reads a transcript it is a percentage of draws or steps.
"""

from __future__ import annotations

import sys
import threading
from typing import Self

_QUIET_SECONDS = 1.0
_BAR_WIDTH = 20


class Progress:
    """Says on standard error how far the work is, once it has proved slow, or at once; 100% once, when it is done.

    With a number of rounds it names them; `at_most` so many there may be fewer. Without one it shows a percentage, once
    there is one.
    """

    def __init__(self, n_rounds: int | None = None, *, at_most: bool = False, at_once: bool = False) -> None:
        self._n_rounds, self._of = n_rounds, "of at most" if at_most else "of"
        self._done, self._total, self._shown = 0, n_rounds or 0, ""
        self._lock, self._slow, self._over = threading.Lock(), False, False
        self._at_once, self._timer = at_once, threading.Timer(_QUIET_SECONDS, self._wake)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            if self._at_once:
                self._wake()
            else:
                self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            if kind is None and self._done:
                # The rounds that were made were all, where there could have been more.
                self._total = self._done = min(self._done, self._total)
                self._of = "of"
                self._show()
            self._over = True
            if self._shown:
                sys.stderr.write("\r" + " " * len(self._shown) + "\r")
                sys.stderr.flush()

    def finished(self, n_rounds: int) -> None:
        """Note how many rounds are finished."""
        self.reached(n_rounds, self._total)

    def reached(self, done: int, total: int) -> None:
        """Note how much of all is done; what was reached is never taken back."""
        with self._lock:
            if self._n_rounds is None:
                done, total = 100 * done // max(total, 1), 100
            self._done, self._total = max(self._done, done), total
            self._show()

    def _wake(self) -> None:
        with self._lock:
            self._slow = True
            self._show()

    def _show(self) -> None:
        if not self._slow or self._over:
            return
        text = "working ..."
        # A percentage that nobody has moved says less than that something is being done.
        if self._total and (self._done or self._n_rounds is not None):
            done = min(self._done, self._total)
            text = f"{100 * done // self._total}%"
            if self._n_rounds is not None:
                # Where noisy answers decide whether another round follows, only one that was asked is named.
                at = max(done, 1) if self._of == "of at most" else min(done + 1, self._total)
                text = f"round {at} {self._of} {self._total}, {text}"
            filled = _BAR_WIDTH * done // self._total
            text = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {text}"
        if text != self._shown:
            # A shorter text must cover a longer one.
            sys.stderr.write(f"\r{text.ljust(len(self._shown))}")
            sys.stderr.flush()
            self._shown = text
