"""How much one token may ask for, and how fast: public numbers, so that a refusal tells nothing else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from recoup.serve.refusals import too_many


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is taken from one token.

    Attributes:
        body_bytes: of a request.
        json_depth: of lists and objects in each other.
        fraction_characters: of epsilon, delta, a share or a part of a split; Recoup's own have dozens.
        query_values: in one answer.
        run_answers: in one run.
        open_runs: begun or continued within a day, and not at the end of their budget.
        at_once: requests that one worker handles at the same time.
        per_second: requests, on average, for each worker; 0: any number.
        burst: requests that may come at once after a pause.
        body_seconds: within which a request has to arrive.
        lock_seconds: that an answer waits for another one of the same run.
    """

    body_bytes: int = 8 << 20
    json_depth: int = 32
    fraction_characters: int = 200
    query_values: int = 200_000
    run_answers: int = 1000
    open_runs: int = 100
    at_once: int = 8
    per_second: float = 20.0
    burst: int = 40
    body_seconds: float = 30.0
    lock_seconds: float = 60.0


class Meter:
    """Counts the requests of each token in one worker; a bucket fills with time, and each request takes from it."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._buckets: dict[int, tuple[float, float]] = {}
        self._now: Counter[int] = Counter()

    @contextmanager
    def one(self, token: int) -> Iterator[None]:
        """A request of this token, from its arrival to its reply; refused where it is one too many."""
        self._take(token)
        if self._now[token] >= self._limits.at_once:
            raise too_many(f"More than {self._limits.at_once} requests of this token at once: wait for replies.")
        self._now[token] += 1
        try:
            yield
        finally:
            self._now[token] -= 1

    def _take(self, token: int) -> None:
        rate, burst = self._limits.per_second, self._limits.burst
        if not rate:
            return
        now = self._clock()
        level, since = self._buckets.get(token, (float(burst), now))
        level = min(float(burst), level + (now - since) * rate)
        self._buckets[token] = (level - 1.0 if level >= 1.0 else level, now)
        if level < 1.0:
            raise too_many(f"More than {rate:g} requests a second of this token: wait before the next one.")
