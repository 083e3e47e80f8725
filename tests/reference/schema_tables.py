"""One small table of numbers, categories and persons in every kind that is read, and a plain twin of its cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from table_kinds import duckdb_file, sqlite_file

from recoup.curator.tables.table import OpenTable
from recoup.schema import Category, Number, Schema

SCHEMA = Schema(
    {
        "age": Number(0, 110, missing=40),
        "ward": Category(["surgery", "Müller", 'the "old" one', "a, b", "7"], other=True, missing="own"),
        "level": Category([1, 2.5, "03", "x"]),
        "smokes": Category([True, False]),
    }
)
NAMES = (*SCHEMA, "patient")
TYPES = pa.schema(
    {"age": pa.float64(), "ward": pa.string(), "level": pa.float64(), "smokes": pa.bool_(), "patient": pa.string()}
)


def expected_codes(rows: Sequence[Sequence[Any]]) -> np.ndarray:
    """Rows of SCHEMA by a twin that knows its declarations one by one."""
    wards = {"surgery": 0, "Müller": 1, 'the "old" one': 2, "a, b": 3}

    def ward(cell: str | None) -> float:
        text = "" if cell is None else cell.strip()
        if text in wards or not text:
            return wards[text] if text else math.nan
        try:
            return 4 if float(text) == 7 and "_" not in text else 5
        except ValueError:
            return 5

    def level(cell: float | None) -> float:
        return math.nan if cell is None or math.isnan(cell) else {1.0: 0, 2.5: 1, 3.0: 2}.get(cell, 4)

    read = [
        [math.nan if r[0] is None else r[0], ward(r[1]), level(r[2]), math.nan if r[3] is None else 1 - r[3]]
        for r in rows
    ]
    numbers = np.array(read, dtype=np.float64).reshape(-1, 4)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def expected_keys(rows: Sequence[Sequence[Any]]) -> list[str | None]:
    return [None if row[4] is None else row[4].strip() or None for row in rows]


def arrow_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(NAMES)
    return pa.table([pa.array(cells, field.type) for cells, field in zip(columns, TYPES, strict=True)], schema=TYPES)


def csv_text(rows: Sequence[Sequence[Any]]) -> str:
    def cell(value: Any) -> str:
        text = "" if value is None or value != value else value if isinstance(value, str) else repr(value)
        return '"' + text.replace('"', '""') + '"' if set(text) & set('",\r\n') else text

    return "\n".join([",".join(NAMES), *(",".join(map(cell, row)) for row in rows)]) + "\n"


def pandas_frame(rows: Sequence[Sequence[Any]], ward: str, level: str, patient: str) -> pd.DataFrame:
    """A frame whose columns of categories and of persons are of some dtypes."""
    columns = dict(zip(NAMES, list(zip(*rows, strict=True)) or [()] * len(NAMES), strict=True))
    return pd.DataFrame(
        {
            "age": pd.Series(columns["age"], dtype="float64"),
            "ward": pd.Series(columns["ward"], dtype=ward),
            "level": pd.Series(columns["level"], dtype=level),
            "smokes": pd.Series(columns["smokes"], dtype="boolean"),
            "patient": pd.Series(columns["patient"], dtype=patient),
        }
    )


def named_tables(rows: Sequence[Sequence[Any]], folder: Path, chunk: int) -> dict[str, Any]:
    """The rows in every kind of table with names."""
    table = arrow_table(rows)
    dictionary = table.set_column(1, "ward", table["ward"].dictionary_encode())
    dictionary = dictionary.set_column(4, "patient", table["patient"].dictionary_encode())
    wide = pa.table(
        [table[n].cast(pa.large_string() if n in ("ward", "patient") else TYPES.field(n).type) for n in NAMES], NAMES
    )
    view = table.set_column(1, "ward", table["ward"].cast(pa.string_view()))
    pq.write_table(table, folder / "t.parquet", row_group_size=chunk)
    with pa.ipc.new_file(folder / "t.feather", dictionary.schema) as writer:
        writer.write_table(dictionary.unify_dictionaries(), max_chunksize=chunk)
    (folder / "t.csv").write_text(csv_text(rows), encoding="utf-8", newline="")
    (folder / "l.csv").write_text(csv_text(rows), encoding="utf-8", newline="")
    frame = pl.from_arrow(table)
    return {
        "arrow": table,
        "arrow dictionary": dictionary,
        "arrow large": wide,
        "arrow view": view,
        "arrow reader": table.to_reader(max_chunksize=chunk),
        "parquet": folder / "t.parquet",
        "feather": folder / "t.feather",
        "csv": folder / "t.csv",
        "duckdb": duckdb_file(folder / "t.duckdb", table),
        "duckdb copied": replace(duckdb_file(folder / "t.duckdb", table), copy=True),
        "sqlite": sqlite_file(folder / "t.db", table),
        "pandas": pandas_frame(rows, "str", "float64", "str"),
        "pandas object": pandas_frame(rows, "object", "Float64", "object"),
        "pandas python": pandas_frame(rows, "string[python]", "object", "string[python]"),
        "pandas category": pandas_frame(rows, "category", "category", "category"),
        "polars": frame,
        "polars lazy": frame.lazy(),
        "polars category": frame.with_columns(pl.col("ward", "patient").cast(pl.Categorical)),
    }


def gathered(table: OpenTable, block_rows: int) -> np.ndarray:
    rows = np.concatenate([np.asarray(block, dtype=np.float64) for block in table.blocks(block_rows)])
    return np.where(np.isfinite(rows), rows, np.nan)


def keys_of(table: OpenTable, block_rows: int) -> list[Any]:
    keys = []
    for rows, part in table.person_blocks(block_rows):
        assert len(rows) == len(part)
        assert part.type == table.person_type
        keys += part.to_pylist()
    return keys
