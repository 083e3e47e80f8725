"""How a benchmark is conducted: its sizes, its clock and its cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from threadpoolctl import threadpool_limits

from recoup_lab.bench.timing import Contestant, stopwatch

_VARIABLES: Final = ("RECOUP_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


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
