"""Toward a cluster: the cost of a round over 1e9 to 1e12 records, derived from what one partition costs.

A round is P tasks on C cores, one reduce, and K (d + 1) integers for the driver. The formula gives what it costs if
nothing goes wrong; the simulation adds tasks of unequal length, and attempts that fail and are tried again.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

PARTITION_BYTES: Final = 128 * 2**20  # Spark's default for files
MOST_TASKS: Final = 100_000  # beyond, larger partitions are wiser than more of them
# A position and two halves of a total, as Spark lays out a row: a word of flags, three of values, and a length. What it
# sends in small blocks is some more, which `spark.py` measures.
ROW_BYTES: Final = 8 + 3 * 8 + 4
N_ROUNDS: Final = 5
MAX_ATTEMPTS: Final = 4  # Spark's default, spark.task.maxFailures


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCost:
    """Seconds of one core.

    Attributes:
        per_record: for each record of the partition.
        per_task: for each partition, whatever its size.
        per_job: for each round, on the clock.
    """

    per_record: float
    per_task: float
    per_job: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A release over many partitions.

    >>> job = Job(n_records=10**9, n_columns=10, n_clusters=15, n_rounds=5, n_cores=100)
    >>> job.n_tasks, job.n_values, job.driver_bytes
    (597, 165, 19800)
    """

    n_records: int
    n_columns: int
    n_clusters: int
    n_rounds: int
    n_cores: int
    row_bytes: float = ROW_BYTES

    @property
    def records_per_task(self) -> int:
        """Records of a partition: 128 MiB of 64-bit values, or more so that a round has at most 100,000 tasks."""
        return max(PARTITION_BYTES // (8 * self.n_columns), -(-self.n_records // MOST_TASKS))

    @property
    def n_tasks(self) -> int:
        """Tasks of a round."""
        return -(-self.n_records // self.records_per_task)

    @property
    def n_values(self) -> int:
        """Integers of a round's answer: K (d + 1)."""
        return self.n_clusters * (1 + self.n_columns)

    @property
    def shuffle_bytes(self) -> float:
        """What tasks send to the reduce in a round, if no total is zero."""
        return self.n_tasks * self.n_values * self.row_bytes

    @property
    def driver_bytes(self) -> int:
        """What the driver receives in all rounds: a position and two halves for each integer."""
        return self.n_rounds * self.n_values * 3 * 8


def round_seconds(job: Job, cost: PartitionCost) -> float:
    """A round on the clock, if all tasks take the same time and none fails: whole waves of tasks.

    >>> job = Job(n_records=4 * 1_677_721, n_columns=10, n_clusters=15, n_rounds=5, n_cores=3)
    >>> round(round_seconds(job, PartitionCost(per_record=1e-6, per_task=0.5, per_job=1.0)), 2)
    5.36
    """
    task = cost.per_task + job.records_per_task * cost.per_record
    return cost.per_job + math.ceil(job.n_tasks / job.n_cores) * task


def core_hours(job: Job, cost: PartitionCost) -> float:
    """What all rounds cost, whatever the number of cores."""
    return job.n_rounds * (job.n_tasks * cost.per_task + job.n_records * cost.per_record) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRound:
    """One round as it might go.

    Attributes:
        seconds: on the clock.
        n_failed: attempts that failed.
        answered: no task failed so often that Spark gave the round up.
    """

    seconds: float
    n_failed: int
    answered: bool


def simulate_round(
    job: Job, cost: PartitionCost, rng: np.random.Generator, *, failure: float = 0.001, spread: float = 0.3
) -> SimulatedRound:
    """Hand tasks to cores as these become free; a failed one waits behind all others and is tried again.

    An attempt fails with a probability, somewhere between its start and its end; `spread` is that of the logarithm of a
    task's time. A failed attempt changes the time and never the answer: totals are integers, and only what a finished
    task reports is added.

    >>> job = Job(n_records=10**8, n_columns=10, n_clusters=15, n_rounds=5, n_cores=7)
    >>> cost = PartitionCost(per_record=1e-6, per_task=0.5)
    >>> calm = simulate_round(job, cost, np.random.default_rng(0), failure=0.0, spread=0.0)
    >>> math.isclose(calm.seconds, round_seconds(job, cost)), calm.n_failed
    (True, 0)
    """
    mean = cost.per_task + job.records_per_task * cost.per_record
    # The mean of the lognormal factor is one.
    waiting = mean * np.exp(spread * rng.standard_normal(job.n_tasks) - spread**2 / 2)
    free, end, n_failed = [0.0] * min(job.n_cores, job.n_tasks), 0.0, 0
    for _ in range(MAX_ATTEMPTS):
        failed = rng.uniform(size=len(waiting)) < failure
        taken = np.where(failed, waiting * rng.uniform(size=len(waiting)), waiting)
        for seconds in taken.tolist():
            done = heapq.heappop(free) + seconds
            heapq.heappush(free, done)
            end = max(end, done)
        n_failed += int(failed.sum())
        waiting = waiting[failed]
        if not len(waiting):
            break
    return SimulatedRound(seconds=cost.per_job + end, n_failed=n_failed, answered=not len(waiting))


def project(
    cost: PartitionCost,
    *,
    sizes: tuple[int, ...],
    cores: tuple[int, ...],
    n_columns: int,
    n_clusters: int,
    row_bytes: float = ROW_BYTES,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """A release of five rounds at every size, on every number of cores: one row for each size.

    It has tasks, bytes, core hours, and by number of cores the minutes of all rounds by formula and by simulation.
    """
    rng, rows = np.random.default_rng(seed), []
    for n in sizes:
        shape = {"n_records": n, "n_columns": n_columns, "n_clusters": n_clusters, "n_rounds": N_ROUNDS}
        jobs = [Job(**shape, n_cores=c, row_bytes=row_bytes) for c in cores]
        simulated = [simulate_round(job, cost, rng) for job in jobs]
        rows.append(
            {
                "n_records": n,
                "n_tasks": jobs[0].n_tasks,
                "records_per_task": jobs[0].records_per_task,
                "shuffle_bytes": jobs[0].shuffle_bytes,
                "driver_bytes": jobs[0].driver_bytes,
                "core_hours": core_hours(jobs[0], cost),
                "minutes": {str(job.n_cores): job.n_rounds * round_seconds(job, cost) / 60 for job in jobs},
                "simulated_minutes": {
                    str(job.n_cores): job.n_rounds * found.seconds / 60
                    for job, found in zip(jobs, simulated, strict=True)
                },
                "failed_attempts": simulated[0].n_failed,
                "answered": all(found.answered for found in simulated),
            }
        )
    return rows


def cost_to_json(cost: PartitionCost) -> dict[str, float]:
    """As a JSON value."""
    return asdict(cost)
