"""One round over a folder of Parquet files against pyarrow's own scan and sum of the same columns.

Peak memory of either is that of a fresh process, above its imports.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet

from recoup.curator.source import open_source
from recoup.domain import Array, Box
from recoup.queries.cells import VoronoiQuery
from recoup_lab.bench.data import blobs
from recoup_lab.bench.memory import peak_growth
from recoup_lab.bench.results import Part, Race
from recoup_lab.bench.rules import Rules, describe_machine, finished, race

N_COLUMNS: Final = 10
N_CLUSTERS: Final = 10
ROUND, SCAN = "one round", "pyarrow scan and sum"
NAMES: Final = tuple(f"x{j}" for j in range(N_COLUMNS))
FILE_ROWS: Final = 1_000_000


def measure_streaming(rules: Rules) -> Part:
    """Time one round of k-means over files of two types, and measure its peak memory in megabytes."""
    with rules.cores():
        return _measured(rules)


def _measured(rules: Rules) -> Part:
    machine, races = describe_machine(rules), list[Race]()
    n_records = rules.size(20_000_000, 500_000)
    for dtype in ("float64", "float32"):
        rules.say(f"streaming: {n_records:,} records, {N_COLUMNS} columns of {dtype}")
        with tempfile.TemporaryDirectory(prefix="recoup-bench-") as name:
            write_folder(Path(name), n_records, dtype)
            work = {ROUND: one_round(name), SCAN: scan_and_sum(name)}
            work[ROUND]()
            seconds = race(
                {key: rules.timed(value) for key, value in work.items()},
                repeats=3 if rules.quick else 5,
                patience=3.0 if rules.quick else 30.0,
            )
            memory = {ROUND: peak_growth(one_round, name), SCAN: peak_growth(scan_and_sum, name)}
        shape: dict[str, int | str] = {
            "n_records": n_records, "n_columns": N_COLUMNS, "n_clusters": N_CLUSTERS, "dtype": dtype,
        }  # fmt: skip
        races.append(Race(shape=shape, seconds=dict(seconds), facts={"megabytes": memory}))
    return Part(name="streaming", quick=rules.quick, machine=finished(machine), races=tuple(races))


def write_folder(folder: Path, n_records: int, dtype: str = "float64") -> None:
    """Write records as Parquet files of a million rows each."""
    for part, start in enumerate(range(0, n_records, FILE_ROWS)):
        x = blobs(min(FILE_ROWS, n_records - start), N_COLUMNS, N_CLUSTERS, seed=part)
        parquet.write_table(as_table(x, dtype), folder / f"part-{part:03d}.parquet")


def as_table(x: Array, dtype: str = "float64") -> Any:
    """Records as an Arrow table."""
    return pa.table({name: x[:, j].astype(dtype) for j, name in enumerate(NAMES)})


def bounds() -> Box:
    """Where the records are."""
    return Box((-1.0,) * N_COLUMNS, (1.0,) * N_COLUMNS, NAMES)


def question() -> tuple[VoronoiQuery, Array]:
    """What a round of k-means asks, and the integer weights of its answer."""
    query = VoronoiQuery(centers=np.random.default_rng(1).uniform(-0.6, 0.6, (N_CLUSTERS, N_COLUMNS)))
    return query, np.full(query.size, 2.0**29)


def one_round(path: str) -> Callable[[], list[int]]:
    """The work of one round of k-means, as the curator does it."""
    source = open_source(path, bounds())
    query, factors = question()
    return lambda: source.total(query, factors)


def scan_and_sum(path: str) -> Callable[[], None]:
    """The least that any reader of these columns does."""

    def scan() -> None:
        for batch in dataset.dataset(path).to_batches(columns=list(NAMES)):
            for column in batch.columns:
                pc.sum(column)

    return scan
