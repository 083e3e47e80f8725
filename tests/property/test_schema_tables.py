"""Whatever a table of categories and persons is made of and however it is divided, every reader gives the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from schema_tables import (
    NAMES,
    SCHEMA,
    csv_text,
    expected_codes,
    expected_keys,
    gathered,
    keys_of,
    named_tables,
)

from recoup.curator.tables import csv_cells
from recoup.curator.tables.open import open_table

TEXTS = st.sampled_from(
    [
        "surgery",
        " surgery\t",
        "Müller",
        "\u3000Müller",
        'the "old" one',
        "a, b",
        "7",
        "7.0",
        "+7",
        "07e0",
        "8",
        "MÜLLER",
    ]
) | st.text("a7 .,\"'é\u2028\n-", max_size=5)
ROW = st.tuples(
    st.none() | st.floats(width=64),
    st.none() | TEXTS,
    st.none() | st.sampled_from([1.0, 2.5, 3.0, 4.0, -0.0, float("nan")]),
    st.none() | st.booleans(),
    st.none() | TEXTS,
)


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(ROW, max_size=9), block_rows=st.integers(1, 10), chunk=st.integers(1, 4))
@example(rows=[], block_rows=1, chunk=1)
def test_every_kind_gives_the_same_categories_and_persons(rows: list[Any], block_rows: int, chunk: int) -> None:
    codes, keys = expected_codes(rows), expected_keys(rows)
    with tempfile.TemporaryDirectory() as folder:
        for kind, X in named_tables(rows, Path(folder), chunk).items():
            table = open_table(X, schema=SCHEMA, person="patient")
            assert (table.columns, table.n_columns) == (NAMES[:4], 4), kind
            np.testing.assert_array_equal(gathered(table, block_rows), codes, err_msg=kind)
            assert keys_of(table, block_rows) == keys, kind
    bare = [list(row[:4]) for row in rows]
    objects = np.array(bare, dtype=object).reshape(-1, 4)
    for X in (bare, tuple(map(tuple, bare)), objects, np.asfortranarray(objects)):
        np.testing.assert_array_equal(gathered(open_table(X, schema=SCHEMA), block_rows), codes)


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(ROW, min_size=1, max_size=6), chunk=st.integers(1, 40))
def test_csv_is_read_alike_wherever_its_chunks_end(rows: list[Any], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_text(csv_text(rows), encoding="utf-8", newline="")
        before, csv_cells.CSV_CHUNK_BYTES = csv_cells.CSV_CHUNK_BYTES, chunk
        try:
            table = open_table(path, schema=SCHEMA, person="patient")
            np.testing.assert_array_equal(gathered(table, 7), expected_codes(rows))
            assert keys_of(table, 7) == expected_keys(rows)
        finally:
            csv_cells.CSV_CHUNK_BYTES = before
