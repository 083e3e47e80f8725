"""One small table in every kind that is read, its rows back, and the message of a refusal that tells no record."""

from __future__ import annotations

import gzip
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import recoup
from recoup.curator.tables.table import BLOCK_ROWS, Columns, OpenTable
from recoup.errors import RecoupError

ROWS = np.array([[1.0, 10.5, -3.0], [2.0, 0.25, 1e308], [3.0, 7.0, 0.0], [4.0, -1e-9, 5.0], [5.0, 2.0, 6.0]])
NAMES = ("a", "b", "c")


def gather(table: OpenTable, block_rows: int = BLOCK_ROWS) -> np.ndarray:
    """All rows, with NaN for whatever is not finite: either is a missing cell."""
    blocks = list(table.blocks(block_rows))
    assert blocks
    for block in blocks:
        assert type(block) in (np.ndarray, Columns)
        if isinstance(block, np.ndarray):
            assert block.flags.c_contiguous or block.flags.f_contiguous
            assert block.dtype in (np.float64, np.float32)
        assert block.shape == (len(block), table.n_columns)
    rows = np.concatenate(blocks).astype(np.float64)
    return np.where(np.isfinite(rows), rows, np.nan)


def arrow(rows: np.ndarray = ROWS) -> pa.Table:
    return pa.table({name: rows[:, j] for j, name in enumerate(NAMES)})


class OnceOnly:
    """An Arrow stream that can be read one time."""

    def __init__(self, table: pa.Table) -> None:
        self.reader = table.to_reader(max_chunksize=2)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader, self.reader = self.reader, None
        return reader.__arrow_c_stream__(requested_schema)


class ArrayLike:
    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.rows


def write_csv(path: Path, rows: np.ndarray, delimiter: str = ",") -> Path:
    lines = [delimiter.join(NAMES)] + [delimiter.join(repr(float(v)) for v in row) for row in rows]
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def parquet(path: Path, rows: np.ndarray) -> Path:
    pq.write_table(arrow(rows), path, row_group_size=2)
    return path


def feather(path: Path, rows: np.ndarray) -> Path:
    with pa.ipc.new_file(path, arrow().schema) as writer:
        writer.write_table(arrow(rows), max_chunksize=2)
    return path


def folder(path: Path, rows: np.ndarray, write: Callable[[Path, np.ndarray], Path], suffix: str) -> Path:
    (path / "deep=1").mkdir(parents=True)
    write(path / f"part-0{suffix}", rows[:2])
    write(path / "deep=1" / f"part-1{suffix}", rows[2:])  # sorts before part-0
    (path / "_SUCCESS").touch()
    (path / f"_ignored{suffix}").write_text("nothing")
    (path / f"part-2{suffix}").touch()
    return path


def duckdb_file(path: Path, table: pa.Table) -> recoup.Table:
    path.unlink(missing_ok=True)
    duckdb_connection(table, path).close()
    return recoup.Table(f"duckdb:///{path}", "records")


def duckdb_connection(table: pa.Table, path: Path | None = None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:" if path is None else str(path))
    connection.register("given", table)
    connection.execute("CREATE TABLE records AS SELECT * FROM given")
    connection.unregister("given")
    return connection


_SQLITE_TYPES = {"string": "TEXT", "double": "REAL", "int64": "INTEGER", "bool": "BOOLEAN"}


def sqlite_file(path: Path, table: pa.Table) -> recoup.Table:
    path.unlink(missing_ok=True)
    types = ", ".join(f'"{field.name}" {_SQLITE_TYPES[str(field.type)]}' for field in table.schema)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE records ({types})")
        places = ", ".join("?" * table.num_columns)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        connection.executemany(f"INSERT INTO records VALUES ({places})", rows)
    return recoup.Table(f"sqlite:///{path}", "records")


NAMED: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "pandas": lambda rows, tmp: pd.DataFrame(rows, columns=list(NAMES)),
    "pandas nullable": lambda rows, tmp: pd.DataFrame(rows, columns=list(NAMES)).astype("Float64"),
    "pandas arrow": lambda rows, tmp: pd.DataFrame(rows, columns=list(NAMES)).astype("double[pyarrow]"),
    "polars": lambda rows, tmp: pl.DataFrame(rows, schema=list(NAMES)),
    "polars lazy": lambda rows, tmp: pl.DataFrame(rows, schema=list(NAMES)).lazy(),
    "arrow": lambda rows, tmp: arrow(rows),
    "arrow chunks": lambda rows, tmp: pa.concat_tables([arrow(rows[:1]), arrow(rows[1:])]),
    "arrow batch": lambda rows, tmp: arrow(rows).combine_chunks().to_batches()[0] if len(rows) else arrow(rows),
    "arrow reader": lambda rows, tmp: arrow(rows).to_reader(max_chunksize=2),
    "arrow stream": lambda rows, tmp: OnceOnly(arrow(rows)),
    "csv": lambda rows, tmp: write_csv(tmp / "t.csv", rows),
    "csv as text": lambda rows, tmp: str(write_csv(tmp / "T.CSV", rows)),
    "csv.gz": lambda rows, tmp: write_csv(tmp / "t.csv.gz", rows),
    "tsv": lambda rows, tmp: write_csv(tmp / "t.tsv", rows, "\t"),
    "parquet": lambda rows, tmp: parquet(tmp / "t.parquet", rows),
    "feather": lambda rows, tmp: feather(tmp / "t.feather", rows),
    "arrow file": lambda rows, tmp: feather(tmp / "t.arrow", rows),
    "duckdb": lambda rows, tmp: duckdb_file(tmp / "t.duckdb", arrow(rows)),
    "duckdb copied": lambda rows, tmp: replace(duckdb_file(tmp / "t.duckdb", arrow(rows)), copy=True),
    "duckdb connection": lambda rows, tmp: recoup.Table(duckdb_connection(arrow(rows)), "records"),
    "duckdb relation": lambda rows, tmp: duckdb_connection(arrow(rows)).table("records"),
    "sqlite": lambda rows, tmp: sqlite_file(tmp / "t.db", arrow(rows)),
    "sqlite copied": lambda rows, tmp: replace(sqlite_file(tmp / "t.db", arrow(rows)), copy=True),
}
BARE: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda rows: rows,
    "fortran": np.asfortranarray,
    "reversed": lambda rows: rows[::-1].copy()[::-1],
    "big endian": lambda rows: rows.astype(">f8"),
    "long double": lambda rows: rows.astype(np.longdouble),
    "read-only": lambda rows: np.frombuffer(rows.tobytes()).reshape(rows.shape),
    "masked": np.ma.masked_array,
    "matrix": lambda rows: rows.view(np.matrix),
    "array-like": lambda rows: ArrayLike(rows),
    "list": lambda rows: rows.tolist(),
    "tuples": lambda rows: tuple(map(tuple, rows.tolist())),
}


NAN = np.nan


def refusal(kind: type[RecoupError], work: Callable[[], Any]) -> str:
    """The message of the expected error, once it is certain that no record is anywhere in its traceback."""
    with pytest.raises(kind) as caught:
        work()
    shown = "".join(traceback.format_exception(caught.value, chain=True))
    assert "SECRET" not in shown
    assert caught.value.__cause__ is None
    # Not only hidden: tools that collect errors show what is there.
    assert caught.value.__context__ is None
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        if "recoup" in frame.f_globals["__name__"]:
            assert not any(isinstance(v, Exception) and "SECRET" in str(v) for v in frame.f_locals.values())
    return str(caught.value)
