"""One round over a table of DuckDB, and of SQLite, against the same round over a folder of Parquet files.

Peak memory of each is that of a fresh process, above its imports. SQLite has fewer records: each of its cells
becomes an object of Python.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from pyarrow import dataset

from recoup.curator.source import open_source
from recoup.curator.tables.database import Table
from recoup_lab.bench.memory import peak_growth
from recoup_lab.bench.results import Part, Race
from recoup_lab.bench.rules import Rules, describe_machine, finished, race
from recoup_lab.bench.streaming import N_CLUSTERS, N_COLUMNS, NAMES, bounds, one_round, question, write_folder

PARQUET: Final = "Parquet"
_DATABASES: Final = {"DuckDB": (20_000_000, 500_000), "SQLite": (2_000_000, 100_000)}


def measure_databases(rules: Rules) -> Part:
    """Time one round of k-means over a table of each database, and measure its peak memory in megabytes."""
    with rules.cores():
        return _measured(rules)


def _measured(rules: Rules) -> Part:
    machine, races = describe_machine(rules), list[Race]()
    for database, sizes in _DATABASES.items():
        n_records = rules.size(*sizes)
        rules.say(f"databases: {database}, {n_records:,} records, {N_COLUMNS} columns")
        with tempfile.TemporaryDirectory(prefix="recoup-bench-") as name:
            folder, address = Path(name) / "files", f"{database.lower()}:///{name}/table.db"
            folder.mkdir()
            write_folder(folder, n_records)
            write_database(database, str(folder), f"{name}/table.db")
            work = {database: one_round_of(address), PARQUET: one_round(str(folder))}
            if work[database]() != work[PARQUET]():
                raise RuntimeError(f"{database} answers other totals than the files.")
            seconds = race(
                {key: rules.timed(value) for key, value in work.items()},
                repeats=3,
                patience=3.0 if rules.quick else 30.0,
            )
            memory = {database: peak_growth(one_round_of, address), PARQUET: peak_growth(one_round, str(folder))}
        shape: dict[str, int | str] = {
            "database": database, "n_records": n_records, "n_columns": N_COLUMNS, "n_clusters": N_CLUSTERS,
        }  # fmt: skip
        races.append(Race(shape=shape, seconds=dict(seconds), facts={"megabytes": memory}))
    return Part(name="databases", quick=rules.quick, machine=finished(machine), races=tuple(races))


def write_database(database: str, folder: str, path: str) -> None:
    """Copy records from Parquet files into a table."""
    if database == "DuckDB":
        import duckdb  # of an extra that other parts do without

        with closing(duckdb.connect(path)) as connection:
            connection.execute(f"CREATE TABLE records AS SELECT * FROM read_parquet('{folder}/*.parquet')")
        return
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE records ({', '.join(f'{name} REAL' for name in NAMES)})")
        insert = f"INSERT INTO records VALUES ({', '.join('?' * N_COLUMNS)})"
        for batch in dataset.dataset(folder).to_batches(columns=list(NAMES)):
            connection.executemany(insert, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def one_round_of(address: str) -> Callable[[], list[int]]:
    """The work of one round of k-means over a table, as the curator does it."""
    source = open_source(Table(address, "records"), bounds())
    query, factors = question()
    return lambda: source.total(query, factors)
