"""One round on a local Spark against the same round without it; and what one partition costs, for `cluster.py`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from recoup._threads import n_threads
from recoup.curator.source import open_source
from recoup.curator.spark import partial_totals
from recoup.domain import Array
from recoup.version import __version__
from recoup_lab.bench.cluster import ROW_BYTES, PartitionCost, cost_to_json, project
from recoup_lab.bench.data import blobs
from recoup_lab.bench.results import Part, Race
from recoup_lab.bench.rules import Rules, describe_machine, finished, race, stopwatch
from recoup_lab.bench.streaming import N_CLUSTERS, N_COLUMNS, as_table, bounds, one_round, question, write_folder

LOCAL, SPARK = "local", "Spark"
_BATCH_ROWS: Final = 10_000  # of the Arrow batches that Spark hands to a worker
_SIZES: Final = (10**9, 10**10, 10**11, 10**12)
_CORES: Final = (100, 1000, 10_000)


def measure_spark(rules: Rules, *, session: Any = None) -> Part:
    """Time rounds on Spark and partitions without it, and project what a cluster would take.

    Spark is on the clock and on all cores whatever the rules say, for its time is that of other processes. Without a
    session, a classic one is started if PySpark and Java are there; if not, there are no races, and a note says so.
    """
    quick, machine = rules.quick, describe_machine(replace(rules, one_core=False))
    n_records = rules.size(4_000_000, 400_000) // 4
    rules.say("spark: one partition without Spark")
    alone = partition_cost((n_records // 100, n_records // 10, n_records), repeats=2 if quick else 5)
    facts: dict[str, Any] = {"partition": cost_to_json(alone), "n_columns": N_COLUMNS, "n_clusters": N_CLUSTERS}
    missing = None if session is not None else what_is_missing()
    if missing is not None:
        facts["projection_from"] = "partition"
        facts["projection"] = _projection(alone, ROW_BYTES)
        note = f"Spark was not measured: {missing} is missing."
        return Part(name="spark", quick=quick, machine=finished(machine), races=(), facts=facts, notes=(note,))
    with _running(session) as spark:
        races = _races(spark, n_records, rules)
    cost = cost_of_races(races)
    # Small partitions send small blocks, whose frames weigh more: what a round sends at most for each row.
    row_bytes = max(r.facts["shuffled_bytes"] / max(r.facts["shuffled_rows"], 1) for r in races)
    facts |= {"spark": cost_to_json(cost), "row_bytes": row_bytes, "projection_from": "spark"}
    facts["projection"] = _projection(cost, row_bytes)
    return Part(name="spark", quick=quick, machine=finished(machine), races=tuple(races), facts=facts)


def what_is_missing() -> str | None:
    """What a local Spark would need and does not find here."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark"
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if home is None else shutil.which("java", path=str(Path(home) / "bin"))
    return None if found else "Java"


def partition_cost(sizes: tuple[int, ...], *, repeats: int = 5) -> PartitionCost:
    """What a partition costs one core of a worker, without Spark: fitted to partitions of several sizes."""
    query, factors = question()
    task = (__version__, query.to_json(), bounds().to_json(), factors.tolist())

    def work(n: int) -> Callable[[], object]:
        batches = as_table(blobs(n, N_COLUMNS, N_CLUSTERS)).to_batches(max_chunksize=_BATCH_ROWS)
        return lambda: list(partial_totals(iter(batches), *task))

    # As a worker of Spark runs, which is given one core.
    rules = Rules(one_core=True)
    with rules.cores():
        works = {str(n): work(n) for n in sizes}
        works[str(min(sizes))]()
        seconds = race({name: rules.timed(run) for name, run in works.items()}, repeats=repeats)
    design = np.array([[float(n), 1.0] for n in sizes])
    per_record, per_task = _non_negative(design, np.array([seconds[str(n)] for n in sizes]))
    return PartitionCost(per_record=per_record, per_task=per_task)


def _races(spark: Any, n_records: int, rules: Rules) -> list[Race]:
    repeats, patience = (2, 5.0) if rules.quick else (5, 30.0)
    races = []
    with tempfile.TemporaryDirectory(prefix="recoup-bench-") as name:
        small, large = Path(name) / "small", Path(name) / "large"
        for folder, n in ((small, n_records), (large, 4 * n_records)):
            folder.mkdir()
            write_folder(folder, n)
            rules.say(f"spark: {n:,} records of Parquet files")
            races.append(_race(spark, spark.read.parquet(str(folder)), folder, n, "files", repeats, patience))
        for n_partitions in (1, 7) if rules.quick else (1, 7, 64, 256):
            rules.say(f"spark: {n_records:,} records in {n_partitions} partition(s)")
            frame = spark.read.parquet(str(small)).repartition(n_partitions).cache()
            frame.count()
            races.append(_race(spark, frame, small, n_records, "cached", repeats, patience))
            frame.unpersist()
    return races


def _race(spark: Any, frame: Any, folder: Path, n: int, held: str, repeats: int, patience: float) -> Race:
    query, factors = question()
    source, local = open_source(frame, bounds()), one_round(str(folder))
    n_before = len(_stages(spark))
    agree = source.total(query, factors) == local()
    n_rows, n_bytes = (sum(column) for column in zip(*_stages(spark)[n_before:], strict=True))
    seconds = race(
        {SPARK: stopwatch(lambda: source.total(query, factors)), LOCAL: stopwatch(local)},
        repeats=repeats,
        patience=patience,
    )
    shape: dict[str, int | str] = {
        "n_records": n, "n_partitions": frame.rdd.getNumPartitions(), "held": held,
    }  # fmt: skip
    facts = {
        "agree": agree,
        "shuffled_rows": n_rows,
        "shuffled_bytes": n_bytes,
        "cores": spark.sparkContext.defaultParallelism,
    }
    return Race(shape=shape, seconds=dict(seconds), facts=facts)


def _stages(spark: Any) -> list[tuple[int, int]]:
    """Rows and bytes that each stage so far has shuffled; Spark keeps them with or without its web page."""
    store = spark.sparkContext._jsc.sc().statusStore()
    stages: list[tuple[int, int]] = []
    while True:
        try:
            stage = store.lastStageAttempt(len(stages))
        except Exception:
            return stages
        stages.append((int(stage.shuffleWriteRecords()), int(stage.shuffleWriteBytes())))


def cost_of_races(races: list[Race]) -> PartitionCost:
    """Fit the model of `cluster.round_seconds` to rounds on Spark, waves of tasks of one size, by relative errors.

    No part of the cost is below zero.

    >>> shapes = [(1000, 1), (1000, 4), (9000, 4), (9000, 8)]
    >>> times = [2.0 + -(-p // 2) * (0.5 + n / p * 0.001) for n, p in shapes]
    >>> facts = {"cores": 2}
    >>> races = [
    ...     Race(shape={"n_records": n, "n_partitions": p}, seconds={SPARK: t}, facts=facts)
    ...     for (n, p), t in zip(shapes, times)
    ... ]
    >>> {name: round(value, 6) for name, value in cost_to_json(cost_of_races(races)).items()}
    {'per_record': 0.001, 'per_task': 0.5, 'per_job': 2.0}
    """
    rows, seconds = [], []
    for r in races:
        n, p = int(r.shape["n_records"]), int(r.shape["n_partitions"])
        taken = r.seconds[SPARK]
        if taken is not None:
            waves = -(-p // int(r.facts["cores"]))
            rows.append([waves * n / p, waves, 1.0])
            seconds.append(taken)
    per_record, per_task, per_job = _non_negative(np.array(rows), np.array(seconds))
    return PartitionCost(per_record=per_record, per_task=per_task, per_job=per_job)


def _non_negative(design: Array, seconds: Array) -> list[float]:
    from scipy.optimize import nnls

    # In units of each column: records, tasks and jobs differ by many orders of magnitude.
    relative = design / seconds[:, None]
    scale = relative.max(axis=0)
    fitted, _ = nnls(relative / scale, np.ones_like(seconds))
    return [float(value) for value in fitted / scale]


def _projection(cost: PartitionCost, row_bytes: float) -> list[dict[str, Any]]:
    return project(cost, sizes=_SIZES, cores=_CORES, n_columns=N_COLUMNS, n_clusters=N_CLUSTERS, row_bytes=row_bytes)


@contextmanager
def _running(session: Any) -> Iterator[Any]:
    if session is not None:
        yield session
        return
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="recoup-bench-") as folder:
        builder = SparkSession.builder.master(f"local[{n_threads()}]").appName("recoup-bench")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark
        finally:
            spark.stop()
