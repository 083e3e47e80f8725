"""Whatever the table and its division into blocks, every library and file format gives the same rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from table_kinds import duckdb_file, sqlite_file

from recoup.curator.tables.open import open_table

TABLES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7), elements=st.floats(width=64)
)


@settings(deadline=None, max_examples=60)
@given(rows=TABLES, n_rows=st.integers(0, 7), block_rows=st.integers(1, 8), row_group=st.integers(1, 4))
def test_every_kind_gives_the_same_rows(rows: np.ndarray, n_rows: int, block_rows: int, row_group: int) -> None:
    rows = rows[:n_rows]
    names = [f"x{j}" for j in range(rows.shape[1])]
    expected = np.where(np.isfinite(rows), rows, np.nan)
    table = pa.table({name: rows[:, j] for j, name in enumerate(names)})
    with tempfile.TemporaryDirectory() as folder:
        csv_path, parquet_path = Path(folder) / "t.csv", Path(folder) / "t.parquet"
        csv_path.write_text("\n".join([",".join(names)] + [",".join(map(repr, row)) for row in rows.tolist()]))
        pq.write_table(table, parquet_path, row_group_size=row_group)
        frame = pd.DataFrame(rows, columns=names)
        databases = duckdb_file(Path(folder) / "t.duckdb", table), sqlite_file(Path(folder) / "t.db", table)
        frames = frame, pl.from_arrow(table)
        for source in (csv_path, parquet_path, table, *frames, table.to_reader(row_group), *databases):
            blocks = list(open_table(source, names, n_columns=len(names)).blocks(block_rows))
            assert all(len(block) <= block_rows for block in blocks)
            found = np.concatenate(blocks)
            np.testing.assert_array_equal(np.where(np.isfinite(found), found, np.nan), expected)
    for source in (rows, np.asfortranarray(rows), rows.tolist()):
        blocks = list(open_table(source, n_columns=len(names)).blocks(block_rows))
        found = np.concatenate(blocks)
        np.testing.assert_array_equal(np.where(np.isfinite(found), found, np.nan), expected)


LINES = st.lists(st.text('a1,"\r \0é', max_size=12).map(str.encode) | st.binary(max_size=12), max_size=6)


@settings(deadline=None, max_examples=80)
@given(before=LINES, after=LINES, line=st.text('1,"x', max_size=12))
def test_a_csv_line_is_read_the_same_among_any_others(before: list[bytes], after: list[bytes], line: str) -> None:
    def read(lines: list[bytes]) -> np.ndarray:
        path.write_bytes(b"\n".join([b"a,b", *lines]))
        return np.concatenate(list(open_table(path, ["a", "b"], csv_dialect="lines").blocks()))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        apart = [read([one]) for one in (*before, line.encode(), *after)]
        np.testing.assert_array_equal(read([*before, line.encode(), *after]), np.concatenate(apart))
