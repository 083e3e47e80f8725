"""Every kind of table gives the same blocks."""

from __future__ import annotations

import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from table_kinds import BARE, NAMED, NAMES, ROWS, feather, folder, gather, parquet, refusal, write_csv

from recoup.curator.source import TableSource, fixed_records
from recoup.curator.tables.open import open_table
from recoup.curator.tables.table import Columns, OpenTable
from recoup.domain import Box
from recoup.errors import DataError
from recoup.queries.counts import GridQuery


@pytest.mark.parametrize("block_rows", [1, 2, 131_072])
@pytest.mark.parametrize("kind", NAMED)
def test_named_tables_equal_the_array(kind: str, block_rows: int, tmp_path: Path) -> None:
    everything = open_table(NAMED[kind](ROWS, tmp_path), n_columns=3)
    assert everything.columns == NAMES
    for _ in range(2):
        np.testing.assert_array_equal(gather(everything, block_rows), ROWS)
    assert all(len(block) <= block_rows for block in everything.blocks(block_rows))
    two = open_table(NAMED[kind](ROWS, tmp_path), ["c", "a"], n_columns=2)
    assert two.columns == ("c", "a")
    np.testing.assert_array_equal(gather(two, block_rows), ROWS[:, [2, 0]])


@pytest.mark.parametrize("kind", NAMED)
def test_an_empty_named_table_is_one_empty_block(kind: str, tmp_path: Path) -> None:
    full = repr(open_table(NAMED[kind](ROWS, tmp_path), ["c", "a"]))
    table = open_table(NAMED[kind](ROWS[:0], tmp_path), ["c", "a"])
    assert repr(table) == full == "OpenTable(columns=('c', 'a'), n_columns=2)"
    assert gather(table).shape == (0, 2)


@pytest.mark.parametrize("write_and_suffix", [(write_csv, ".csv"), (parquet, ".parquet"), (feather, ".feather")])
def test_a_folder_is_its_files_in_order_of_their_names(write_and_suffix: Any, tmp_path: Path) -> None:
    table = open_table(folder(tmp_path / "in", ROWS, *write_and_suffix), ["c", "b"])
    np.testing.assert_array_equal(gather(table), np.concatenate([ROWS[2:], ROWS[:2]])[:, [2, 1]])


def test_blocks_of_a_wide_table_have_fewer_rows() -> None:
    for n_columns, n_rows in ((10, 131_072), (1000, 4194)):
        asked: list[int] = []
        list(OpenTable(None, n_columns, lambda rows, asked=asked: iter(asked.append(rows) or ())).blocks())
        assert asked == [n_rows]


@pytest.mark.parametrize("block_rows", [1, 2, 131_072])
@pytest.mark.parametrize("kind", BARE)
def test_bare_tables_equal_the_array(kind: str, block_rows: int) -> None:
    table = open_table(BARE[kind](ROWS), n_columns=3)
    assert table.columns is None
    np.testing.assert_array_equal(gather(table, block_rows), ROWS)
    assert gather(open_table(BARE[kind](ROWS[:0]), n_columns=3)).shape == (0, 3)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_float_array_is_passed_through_without_a_copy(dtype: type, order: str) -> None:
    with np.errstate(over="ignore"):
        rows = ROWS.astype(dtype, order=order)
    (block,) = open_table(rows).blocks(1)
    assert np.shares_memory(block, rows)
    assert block.dtype == dtype


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g"])
def test_every_real_dtype_is_converted(dtype: str) -> None:
    rows = np.array([[1, 0], [0, 1]], dtype=dtype)
    np.testing.assert_array_equal(gather(open_table(rows), 1), [[1, 0], [0, 1]])


def test_masked_cells_are_missing() -> None:
    rows = np.ma.masked_array(np.arange(6).reshape(3, 2), mask=[[0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(gather(open_table(rows), 2), [[0, np.nan], [2, 3], [np.nan, 5]])


def test_arrow_types_become_numbers() -> None:
    def column(kind: pa.DataType) -> pa.Array:
        return pa.array([1, None, 0], kind)

    by_type = {str(kind): column(kind) for kind in (pa.int8(), pa.uint64(), pa.int64(), pa.float32(), pa.float64())}
    by_type["bool"] = pa.array([True, None, False])
    by_type["half"] = pa.array([np.float16(1), None, np.float16(0)], pa.float16())
    by_type["decimal"] = pa.array([decimal.Decimal("1.00"), None, decimal.Decimal(0)], pa.decimal128(9, 2))
    by_type["wide decimal"] = pa.array([decimal.Decimal(1), None, decimal.Decimal(0)], pa.decimal256(70, 2))
    by_type["dictionary"] = column(pa.int32()).dictionary_encode()
    by_type["run ends"] = pa.compute.run_end_encode(column(pa.int32()))
    by_type["bool8"] = pa.ExtensionArray.from_storage(pa.bool8(), column(pa.int8()))
    table = pa.table(by_type)
    expected = np.repeat([[1.0], [np.nan], [0.0]], len(by_type), axis=1)
    np.testing.assert_array_equal(gather(open_table(table), 2), expected)
    nothing = open_table(pa.table({"null": pa.nulls(2)}))
    np.testing.assert_array_equal(gather(nothing), [[np.nan], [np.nan]])


def test_float32_columns_stay_float32(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1.5, None], pa.float32())})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet", pl.from_arrow(table)):
        (block,) = open_table(source).blocks()
        assert np.asarray(block).dtype == np.float32
        np.testing.assert_array_equal(block, [[1.5], [np.nan]])


def test_pandas_types_become_numbers() -> None:
    frame = pd.DataFrame(
        {
            "int": [1, 0],
            "bool": [True, False],
            "f4": np.array([1, 0], "f4"),
            "Int64": pd.array([1, 0], "Int64"),
            "boolean": pd.array([True, False], "boolean"),
            "arrow": pd.array([1, 0], "uint64[pyarrow]"),
            "arrow bool": pd.array([True, False], "bool[pyarrow]"),
            "decimal": pd.array([decimal.Decimal(1), decimal.Decimal(0)], pd.ArrowDtype(pa.decimal128(9, 2))),
            "arrow dictionary": pd.array([1, 0], pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int32()))),
            "category": pd.Categorical([1, 0]),
            "sparse": pd.arrays.SparseArray([1.0, 0.0]),
            "sparse int": pd.arrays.SparseArray(np.array([1, 0], "i4")),
            "sparse bool": pd.arrays.SparseArray([True, False]),
        }
    )
    expected = np.repeat([[1.0], [0.0]], frame.shape[1], axis=1)
    np.testing.assert_array_equal(gather(open_table(frame), 1), expected)
    missing = frame[["Int64", "boolean", "arrow", "arrow bool", "decimal", "category"]].copy()
    missing.loc[0] = [pd.NA] * 5 + [np.nan]
    np.testing.assert_array_equal(gather(open_table(missing)), expected[:, :6] * [[np.nan], [1]])


def test_pandas_columns_may_be_numbered_and_subclassed() -> None:
    class Frame(pd.DataFrame):
        pass

    table = open_table(Frame(ROWS), ["2", "0"])
    np.testing.assert_array_equal(gather(table), ROWS[:, [2, 0]])


def test_polars_types_become_numbers() -> None:
    kinds = [pl.Int8, pl.UInt64, pl.Int64, pl.Int128, pl.Float32, pl.Float64, pl.Boolean, pl.Decimal(9, 2)]
    frame = pl.DataFrame([pl.Series(str(j), [1, None, 0], strict=False).cast(k) for j, k in enumerate(kinds)])
    frame = frame.with_columns(nothing=None)
    expected = np.repeat([[1.0], [np.nan], [0.0]], len(kinds) + 1, axis=1)
    expected[:, -1] = np.nan
    np.testing.assert_array_equal(gather(open_table(frame), 2), expected)


def test_optional_libraries_are_not_imported_for_an_array() -> None:
    code = (
        "import sys, numpy; from recoup.curator.tables.open import open_table; "
        "list(open_table(numpy.ones((2, 2))).blocks()); print({'pandas', 'polars'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_dot_in_a_parquet_name_is_part_of_it(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1.0}], "a.b": [2.0], "c": [3.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    np.testing.assert_array_equal(gather(open_table(tmp_path / "t.parquet", ["c", "a.b"])), [[3, 2]])


PATTERNS = ["*", "^.*$", "^secret.*$", "secret", "b.c", "`secret`", "secret\\.*"]


@pytest.mark.parametrize("wanted", [(name,) for name in PATTERNS] + [("^.*$", "secret", "*"), tuple(PATTERNS)])
def test_a_name_that_other_libraries_take_for_a_pattern_is_a_name(wanted: tuple[str, ...], tmp_path: Path) -> None:
    rows = np.arange(3.0 * len(PATTERNS)).reshape(3, -1)
    table = pa.table({name: rows[:, j] for j, name in enumerate(PATTERNS)})
    pq.write_table(table, tmp_path / "t.parquet")
    frames = [pl.from_arrow(table), pl.from_arrow(table).lazy(), pl.scan_parquet(tmp_path / "t.parquet")]
    for X in (*frames, table, table.to_reader(), table.to_pandas(), tmp_path / "t.parquet"):
        np.testing.assert_array_equal(gather(open_table(X, wanted)), rows[:, [PATTERNS.index(name) for name in wanted]])


@pytest.mark.parametrize("width", [0, 1, 3])
def test_a_block_of_another_width_reaches_nobody(width: int) -> None:
    block, domain = np.ones((4, width)), Box([0, 0], [1, 1])
    table = OpenTable(None, 2, lambda _: iter((block,)))
    for other in (block, np.asfortranarray(block), Columns(tuple(block.T), 4)):
        assert "other columns" in refusal(DataError, lambda: fixed_records(other, domain))  # noqa: B023
    assert "other columns" in refusal(DataError, lambda: list(table.blocks()))
    for keep in (True, False):
        source = TableSource(table, domain, keep=keep)
        assert "other columns" in refusal(DataError, lambda: source.total(GridQuery(sides=(2, 2)), np.ones(4)))  # noqa: B023


def test_a_null_among_structs_is_a_missing_record() -> None:
    structs = pa.StructArray.from_arrays([pa.array([0.1, 0.9, 0.5])], ["x"], mask=pa.array([False, True, False]))
    table = open_table(pa.chunked_array([structs, structs[:1]]), ["x"])
    np.testing.assert_array_equal(gather(table).ravel(), [0.1, np.nan, 0.5, 0.1])


def test_a_table_shows_nothing_of_its_records() -> None:
    assert repr(open_table(ROWS)) == "OpenTable(columns=None, n_columns=3)" == repr(open_table(ROWS[:0]))


def test_reading_leaves_the_users_data_as_it_was() -> None:
    values = np.array([[np.inf], [1.0]])
    frames = [pd.DataFrame(values, columns=["a"]), pl.DataFrame(values, schema=["a"]), pa.table({"a": values[:, 0]})]
    for source in (values, np.ma.masked_array(values), *frames):
        gather(open_table(source))
    assert np.isinf(values[0, 0])
    assert all(np.isinf(np.asarray(frame["a"])[0]) for frame in frames)
