"""Every kind of table gives the same blocks, and nothing but the blocks depends on records."""

from __future__ import annotations

import decimal
import gzip
import logging
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
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
import scipy.sparse

from recoup.curator.tables import csv_cells
from recoup.curator.tables.open import open_table
from recoup.curator.tables.table import Columns, Table
from recoup.errors import ColumnTypeError, DataError, RecoupError, UnknownColumnError, UnreadableFileError

ROWS = np.array([[1.0, 10.5, -3.0], [2.0, 0.25, 1e308], [3.0, 7.0, 0.0], [4.0, -1e-9, 5.0], [5.0, 2.0, 6.0]])
NAMES = ("a", "b", "c")


def gather(table: Table) -> np.ndarray:
    """All rows, with NaN for whatever is not finite: either is a missing cell."""
    blocks = list(table.blocks())
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


@pytest.mark.parametrize("block_rows", [1, 2, 131_072])
@pytest.mark.parametrize("kind", NAMED)
def test_named_tables_equal_the_array(kind: str, block_rows: int, tmp_path: Path) -> None:
    everything = open_table(NAMED[kind](ROWS, tmp_path), n_columns=3, block_rows=block_rows)
    assert everything.columns == NAMES
    for _ in range(2):
        np.testing.assert_array_equal(gather(everything), ROWS)
    assert all(len(block) <= block_rows for block in everything.blocks())
    two = open_table(NAMED[kind](ROWS, tmp_path), ["c", "a"], n_columns=2, block_rows=block_rows)
    assert two.columns == ("c", "a")
    np.testing.assert_array_equal(gather(two), ROWS[:, [2, 0]])


@pytest.mark.parametrize("kind", NAMED)
def test_an_empty_named_table_is_one_empty_block(kind: str, tmp_path: Path) -> None:
    full = repr(open_table(NAMED[kind](ROWS, tmp_path), ["c", "a"]))
    table = open_table(NAMED[kind](ROWS[:0], tmp_path), ["c", "a"])
    assert repr(table) == full == "Table(columns=('c', 'a'), n_columns=2)"
    assert gather(table).shape == (0, 2)


@pytest.mark.parametrize("write_and_suffix", [(write_csv, ".csv"), (parquet, ".parquet"), (feather, ".feather")])
def test_a_folder_is_its_files_in_order_of_their_names(write_and_suffix: Any, tmp_path: Path) -> None:
    table = open_table(folder(tmp_path / "in", ROWS, *write_and_suffix), ["c", "b"])
    np.testing.assert_array_equal(gather(table), np.concatenate([ROWS[2:], ROWS[:2]])[:, [2, 1]])


@pytest.mark.parametrize("block_rows", [1, 2, 131_072])
@pytest.mark.parametrize("kind", BARE)
def test_bare_tables_equal_the_array(kind: str, block_rows: int) -> None:
    table = open_table(BARE[kind](ROWS), n_columns=3, block_rows=block_rows)
    assert table.columns is None
    np.testing.assert_array_equal(gather(table), ROWS)
    assert gather(open_table(BARE[kind](ROWS[:0]), n_columns=3)).shape == (0, 3)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_float_array_is_passed_through_without_a_copy(dtype: type, order: str) -> None:
    with np.errstate(over="ignore"):
        rows = ROWS.astype(dtype, order=order)
    (block,) = open_table(rows, block_rows=1).blocks()
    assert np.shares_memory(block, rows)
    assert block.dtype == dtype


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "g"])
def test_every_real_dtype_is_converted(dtype: str) -> None:
    rows = np.array([[1, 0], [0, 1]], dtype=dtype)
    np.testing.assert_array_equal(gather(open_table(rows, block_rows=1)), [[1, 0], [0, 1]])


def test_masked_cells_are_missing() -> None:
    rows = np.ma.masked_array(np.arange(6).reshape(3, 2), mask=[[0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(gather(open_table(rows, block_rows=2)), [[0, np.nan], [2, 3], [np.nan, 5]])


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
    np.testing.assert_array_equal(gather(open_table(table, block_rows=2)), expected)
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
        }
    )
    expected = np.repeat([[1.0], [0.0]], frame.shape[1], axis=1)
    np.testing.assert_array_equal(gather(open_table(frame, block_rows=1)), expected)
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
    np.testing.assert_array_equal(gather(open_table(frame, block_rows=2)), expected)


def test_optional_libraries_are_not_imported_for_an_array() -> None:
    code = (
        "import sys, numpy; from recoup.curator.tables.open import open_table; "
        "list(open_table(numpy.ones((2, 2))).blocks()); print({'pandas', 'polars'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---- odd records: the outcome differs from a neighbour's in nothing but the row ----


def quiet(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], work: Callable[[], Any]) -> Any:
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answer = work()
    assert not seen
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
    return answer


NAN = np.nan
ODD_CELLS = {
    "SECRET": NAN,
    "": NAN,
    "nan": NAN,
    "inf": NAN,
    "-Infinity": NAN,
    "NULL": NAN,
    "0x10": NAN,
    "1_000": NAN,
    "1e": NAN,
    ".": NAN,
    "--1": NAN,
    "+-1": NAN,
    "1 2": NAN,
    "true": NAN,
    "\0": NAN,
    "\xa0": NAN,
    "\u0663": NAN,
    "1e400": NAN,
    "9" * 400: NAN,
    "1e99999999999999999999": NAN,
    " 12 ": 12.0,
    '"12"': 12.0,
    '" 12 "': 12.0,
    "+12": 12.0,
    "1e5": 1e5,
    "1.5E+2": 150.0,
    "-.5": -0.5,
    "7.": 7.0,
    "1e-400": 0.0,
    "1e308": 1e308,
    "18446744073709551617": 2.0**64,
    "0." + "0" * 400 + "1": 0.0,
}


@pytest.mark.parametrize("cell", ODD_CELLS, ids=lambda cell: cell[:12].encode("unicode_escape").decode())
def test_an_odd_csv_cell_is_a_number_or_missing(cell: str, tmp_path: Path, caplog: Any, capfd: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,2\n{cell},4\n5,6\n")
    table = quiet(caplog, capfd, lambda: gather(open_table(path, ["a", "b"])))
    np.testing.assert_array_equal(table, [[1, 2], [ODD_CELLS[cell], 4], [5, 6]])


ODD_LINES = {
    "too few": b"SECRET",
    "too few and no text": b"\xff\xfe",
    "too many": b"7,8,SECRET",
    "blank": b"",
    "open quote": b'"SECRET,8',
    "open quote in the last cell": b'7,"SECRET',
    "text after a quote": b'"7"SECRET,8',
    "quote after text, then an open one": b'7"x,"SECRET',
    "lone quote": b'"',
    "three quotes": b'""",8',
    "a line break in quotes": b'7,"SEC\nRET"',
    "a carriage return in quotes": b'7,"SEC\rRET"',
    "quoted delimiters": b'"7,8"',
    "too long": b"7," + b"8" * 500,
    "many lines in quotes": b'7,"' + b"8\n" * 50 + b'"',
    "too long and ragged": b"7," * 500,
}


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("chunk", [5, 100, 1 << 20])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_odd_csv_line_leaves_its_neighbours_alone(
    place: int, chunk: int, ending: bytes, tmp_path: Path, caplog: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_cells, "CSV_CHUNK_BYTES", chunk)
    monkeypatch.setattr(csv_cells, "CSV_RECORD_BYTES", 400)
    sound = [b"1,2", b"3,4"]
    for name, odd in ODD_LINES.items():
        lines = [*sound[:place], odd, *sound[place:]]
        path = tmp_path / "t.csv"
        path.write_bytes(ending.join([b"a,b", *lines]))
        rows = quiet(caplog, capfd, lambda path=path: gather(open_table(path, ["a", "b"], csv_dialect="lines")))
        finite = rows[np.isfinite(rows).all(axis=1)]
        np.testing.assert_array_equal(finite, [[1, 2], [3, 4]], err_msg=name)


def test_whether_a_long_line_is_read_depends_on_its_own_length_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_cells, "CSV_RECORD_BYTES", 20)
    path = tmp_path / "t.csv"
    for chunk in (3, 19, 20, 21, 22, 23, 100):
        monkeypatch.setattr(csv_cells, "CSV_CHUNK_BYTES", chunk)
        for before in range(6):
            path.write_bytes(b"a\n" + b"x" * before + b"\n" + b"1".zfill(20) + b"\n" + b"2".zfill(21) + b"\n3\n")
            rows = gather(open_table(path, ["a"]))
            np.testing.assert_array_equal(rows[np.isfinite(rows)], [1, 3])


def test_bytes_that_are_not_text_are_missing(tmp_path: Path, caplog: Any, capfd: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b,note\n1,2,\xff\xfe\n\xff,4,\xc3\n5,6,"\xe9,\xff"\n')
    rows = quiet(caplog, capfd, lambda: gather(open_table(path, ["a", "b"])))
    np.testing.assert_array_equal(rows, [[1, 2], [NAN, 4], [5, 6]])


def test_a_csv_header_may_be_marked_quoted_spaced_and_below_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for start in ("", "\n\n", "\ufeff"):
        path.write_text(start + '"a, or b", c ,c2\r\n1,2,3', newline="")
        table = open_table(path, ["c", "a, or b"])
        np.testing.assert_array_equal(gather(table), [[2, 1]])


@pytest.mark.parametrize(
    "odd", [NAN, np.inf, -np.inf, None, "SECRET", "", "\u0663x", 10**400, 1j, [1.0], b"x", np.complex128(1j)], ids=repr
)
def test_an_odd_cell_in_a_list_is_missing(odd: Any, caplog: Any, capfd: Any) -> None:
    rows = [[1.0, 2.0], [odd, 4.0], [5.0, 6.0]]
    table = quiet(caplog, capfd, lambda: open_table(rows, n_columns=2))
    assert repr(table) == repr(open_table([[1.0, 2.0]], n_columns=2))
    np.testing.assert_array_equal(gather(table), [[1, 2], [NAN, 4], [5, 6]])


class Raising:
    """A row or a cell that nothing can be asked of."""

    def __len__(self) -> int:
        raise RuntimeError("SECRET")

    def __float__(self) -> float:
        raise RuntimeError("SECRET")

    def __repr__(self):
        return "Raising()"  # without an address: workers must agree on the names of tests


class Unreadable(Raising):
    """A row whose cells cannot be read."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[float]:
        raise RuntimeError("SECRET")


def test_a_ragged_row_in_a_list_is_missing(caplog: Any, capfd: Any) -> None:
    for odd in ([], [1], [1, 2, 3], "SECRET", None, 7, np.array(5.0), Raising(), Unreadable()):
        table = quiet(caplog, capfd, lambda odd=odd: open_table([[1, 2], odd, [3, 4]], n_columns=2))
        np.testing.assert_array_equal(gather(table), [[1, 2], [NAN, NAN], [3, 4]])


@pytest.mark.parametrize(
    ("row", "read"),
    [
        (np.ma.array([1.0, 2.0], mask=[0, 1]), [1, NAN]),
        ([np.timedelta64(5, "s"), 1.0], [NAN, 1]),
        ([np.datetime64("2020"), 1.0], [NAN, 1]),
        (np.array([5, 1], dtype="m8[s]"), [NAN, NAN]),
        ([np.array(np.timedelta64(5)), 1.0], [NAN, 1]),
        ([np.ma.array(1.0, mask=True), 1.0], [NAN, 1]),
        ([np.array([1.0]), 1.0], [NAN, 1]),
        ([Raising(), 1.0], [NAN, 1]),
        (["1", "2.5"], [1, 2.5]),
        ([b"1", decimal.Decimal("2.5")], [1, 2.5]),
        ((True, np.int8(3)), [1, 3]),
        (np.array([1, 2], dtype=np.float16), [1, 2]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("other", [["zz", 1.0], [1.0, 1.0], [1, None], None, Raising()], ids=repr)
def test_a_row_of_a_list_is_read_alike_whatever_the_others_are(row: Any, read: list[float], other: Any) -> None:
    np.testing.assert_array_equal(gather(open_table([row, row], n_columns=2)), [read, read])
    np.testing.assert_array_equal(gather(open_table([row, other, row], n_columns=2))[[0, 2]], [read, read])


@pytest.mark.parametrize(
    "X", [[], [[]], [[1.0, 2.0]], [[1, 2], [1, 2, 3]], [1.0, 2.0], ["SECRET", 1], ([1],)], ids=repr
)
def test_a_list_does_not_declare_its_width_whatever_it_holds(X: Any) -> None:
    assert refusal(DataError, lambda: open_table(X)) == refusal(DataError, lambda: open_table([]))
    assert "bounds with one entry a column" in refusal(DataError, lambda: open_table(X))


@pytest.mark.parametrize("odd", [NAN, np.inf, -np.inf, None])
@pytest.mark.parametrize("kind", NAMED)
def test_an_odd_cell_in_a_frame_is_missing(
    kind: str, odd: float | None, tmp_path: Path, caplog: Any, capfd: Any
) -> None:
    rows = ROWS.copy()
    rows[1, 2] = NAN if odd is None else odd
    table = quiet(caplog, capfd, lambda: gather(open_table(NAMED[kind](rows, tmp_path), NAMES)))
    rows[1, 2] = NAN
    np.testing.assert_array_equal(table, rows)


def test_a_cast_that_overflows_is_silent(caplog: Any, capfd: Any) -> None:
    wide = np.array([["1e4000", "1"]], dtype=np.longdouble)
    huge = pa.table(
        {"a": pa.array([decimal.Decimal(10) ** 75], pa.decimal256(76, 0)), "b": pa.array([2**64 - 1], "u8")}
    )
    frame = pd.DataFrame({"a": wide[:, 0]})
    np.testing.assert_array_equal(quiet(caplog, capfd, lambda: gather(open_table(wide))), [[NAN, 1]])
    np.testing.assert_array_equal(quiet(caplog, capfd, lambda: gather(open_table(huge))), [[1e75, 2.0**64]])
    np.testing.assert_array_equal(quiet(caplog, capfd, lambda: gather(open_table(frame))), [[NAN]])


# ---- errors: typed, with names, without records ----


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


TEXT = {"id": [1.0, 2.0], "city": ["SECRET", "SECRET"]}
TEXT_TABLES = {
    "pandas": pd.DataFrame(TEXT),
    "pandas object": pd.DataFrame(TEXT).astype({"city": object}),
    "pandas category": pd.DataFrame(TEXT).astype({"city": "category"}),
    "pandas arrow": pd.DataFrame(TEXT).astype({"city": pd.ArrowDtype(pa.string())}),
    "polars": pl.DataFrame(TEXT),
    "polars lazy": pl.LazyFrame(TEXT),
    "polars category": pl.DataFrame(TEXT).cast({"city": pl.Categorical}),
    "polars enum": pl.DataFrame(TEXT).cast({"city": pl.Enum(["SECRET"])}),
    "polars object": pl.DataFrame({"id": [1.0], "city": pl.Series(["SECRET"], dtype=pl.Object)}),
    "arrow": pa.table(TEXT),
    "arrow dictionary": pa.table({"id": [1.0, 2.0], "city": pa.array(TEXT["city"]).dictionary_encode()}),
    "arrow stream": OnceOnly(pa.table(TEXT)),
}


@pytest.mark.parametrize("kind", TEXT_TABLES)
def test_a_text_column_is_refused_by_its_declared_type(kind: str) -> None:
    message = refusal(ColumnTypeError, lambda: open_table(TEXT_TABLES[kind]))
    assert "Column number 2 is declared as" in message
    assert "one-hot" in message
    if "stream" not in kind:
        assert "Column 'city'" in refusal(ColumnTypeError, lambda: open_table(TEXT_TABLES[kind], ["city"]))
        assert gather(open_table(TEXT_TABLES[kind], ["id"])).shape[1] == 1


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.date32(), pa.timestamp("us"), pa.duration("s"), pa.list_(pa.int8()), pa.struct({"x": "i1"})],
)
def test_other_arrow_types_are_refused_without_looking_at_values(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"when": pa.nulls(0, kind)})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        message = refusal(ColumnTypeError, lambda source=source: open_table(source, ["when"]))
        assert "'when'" in message
        assert str(kind).split("<")[0] in message


@pytest.mark.parametrize(
    "column", [pd.to_datetime(["2020-01-01"]), pd.array(["SECRET"]), np.array([1j]), pd.to_timedelta([1], unit="s")]
)
def test_other_pandas_types_are_refused(column: Any) -> None:
    assert "'x'" in refusal(ColumnTypeError, lambda: open_table(pd.DataFrame({"x": column}), ["x"]))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([["SECRET", 1]], dtype=object), ".astype(float)"),
        (np.array([["SECRET"]]), "str_"),
        (np.array([[1j]]), "complex128"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "datetime64"),
        (np.zeros((2, 1), dtype=[("a", "f8")]), "structured"),
        (scipy.sparse.csr_matrix(ROWS), "sparse"),
        (scipy.sparse.coo_array(ROWS), "toarray"),
    ],
)
def test_arrays_of_other_types_are_refused(array: Any, words: str) -> None:
    message = refusal(ColumnTypeError, lambda: open_table(array))
    assert words in message


def test_the_length_of_the_longest_text_is_not_told() -> None:
    one, other = (refusal(ColumnTypeError, lambda n=n: open_table(np.array([["x" * n]]))) for n in (3, 777))
    assert one == other


@pytest.mark.parametrize("X", [ROWS[0], np.float64(1), ROWS[None]])
def test_other_shapes_are_refused_with_advice(X: Any) -> None:
    assert "reshape" in refusal(DataError, lambda: open_table(X))


@pytest.mark.parametrize("X", [None, 7, {"a": ["SECRET"]}, {1, 2}, iter([[1]]), pl.Series([1]), pa.array(["SECRET"])])
def test_what_is_no_table_is_refused(X: Any) -> None:
    refusal(DataError, lambda: open_table(X))


@pytest.mark.parametrize("kind", NAMED)
def test_an_unknown_column_is_named_and_those_that_exist_where_a_file_declares_them(kind: str, tmp_path: Path) -> None:
    message = refusal(UnknownColumnError, lambda: open_table(NAMED[kind](ROWS, tmp_path), ["a", "agee"]))
    if kind in ("parquet", "feather", "arrow file"):
        assert message == "There is no column 'agee'. The columns are 'a', 'b', 'c'."
    else:
        # The names of a frame may be the first record of a file without header, and so may the first line of CSV.
        assert message.startswith("There is no column 'agee'. ")
        assert "'b'" not in message


def test_a_long_list_of_columns_is_cut(tmp_path: Path) -> None:
    pq.write_table(pa.table({f"x{j}": [1.0] for j in range(500)}), tmp_path / "t.parquet")
    assert len(refusal(UnknownColumnError, lambda: open_table(tmp_path / "t.parquet", ["x"]))) < 400


@pytest.mark.parametrize("X", [ROWS, ROWS.tolist(), np.ma.masked_array(ROWS)])
def test_names_cannot_be_chosen_from_an_array(X: Any) -> None:
    assert "no names" in refusal(DataError, lambda: open_table(X, ["a"]))


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet", "feather", "arrow stream"])
def test_the_declared_number_of_columns_is_checked(kind: str, tmp_path: Path) -> None:
    message = refusal(DataError, lambda: open_table(NAMED[kind](ROWS, tmp_path), n_columns=4))
    assert "declared for 4 columns but the table has 3." in message
    message = refusal(DataError, lambda: open_table(ROWS, n_columns=4))
    assert "declared for 4 columns but the table has 3." in message


def test_rows_of_a_list_that_are_not_as_wide_as_declared_contribute_nothing() -> None:
    blocks = list(open_table([[1, 2], [1, 2, 3], [], None, [3, "x"]], n_columns=2).blocks())
    np.testing.assert_array_equal(np.concatenate(blocks), [[1, 2], [NAN, NAN], [NAN, NAN], [NAN, NAN], [3, NAN]])


@pytest.mark.parametrize("X", [np.ones((3, 0)), pd.DataFrame(), pl.DataFrame(), pa.table({})])
def test_a_table_without_columns_is_refused(X: Any) -> None:
    assert "no columns" in refusal(DataError, lambda: open_table(X))


def test_doubled_names_are_refused_where_they_are_selected(tmp_path: Path) -> None:
    csv_path, parquet_path = tmp_path / "t.csv", tmp_path / "t.parquet"
    csv_path.write_text("a,a,b\n1,2,3\n")
    table = pa.Table.from_arrays([pa.array([v]) for v in (1, 2, 3)], names=["a", "a", "b"])
    pq.write_table(table, parquet_path)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    for source in (csv_path, parquet_path, tmp_path / "t.arrow", table, pd.DataFrame([[1, 2, 3]], columns=[*"aab"])):
        assert "'a'" in refusal(DataError, lambda source=source: open_table(source, ["a"]))
        message = refusal(DataError, lambda source=source: open_table(source, n_columns=3))
        typed = isinstance(source, Path) and source != csv_path
        assert ("'a'" if typed else "of the same name") in message
        np.testing.assert_array_equal(gather(open_table(source, ["b"])), [[3]])
    assert "twice" in refusal(DataError, lambda: open_table(table, ["b", "b"]))


def test_a_csv_needs_declared_columns(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ROWS)
    for n_columns in (None, 2, 4):
        message = refusal(DataError, lambda n=n_columns: open_table(path, n_columns=n))
        assert "declare the columns by bounds={column: (low, high)}" in message


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"\xff\xfea\0,\0b\0\n\0", b"\xef\xbb\xbf", b"x" * 200_000])
def test_a_csv_without_a_header_is_unreadable(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert str(path) in refusal(UnreadableFileError, lambda: open_table(path, ["a"]))


RECORDS = [
    "SECRET,SECRET,7,",
    "SECRET,12",
    "12,SECRET",
    "SECRET,",
    "-1,SECRET",
    "SECRET,.5",
    "SECRET,NA",
    "SECRET,SECRET",
]


@pytest.mark.parametrize("dialect", ["rfc4180", "lines"])
@pytest.mark.parametrize("record", RECORDS)
def test_a_first_line_that_may_be_a_record_is_not_quoted(record: str, dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(record + "\n1,2\n")
    message = refusal(UnknownColumnError, lambda: open_table(path, ["a"], csv_dialect=dialect))
    assert message == f"There is no column 'a'. The first line of {str(path)!r} must name the columns."
    width = record.count(",") + 1
    refusal(DataError, lambda: open_table(path, n_columns=width + 1, csv_dialect=dialect))
    if record != "SECRET,NA":  # which may be names
        refusal(DataError, lambda: open_table(path, n_columns=width, csv_dialect=dialect))


@pytest.mark.parametrize("record", RECORDS)
def test_no_error_tells_the_names_that_a_frame_took_from_a_record(record: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(record + "\n" + record.replace("SECRET", "text") + "\n")
    by_arrow = pa.csv.read_csv(path)
    for frame in (pd.read_csv(path), pl.read_csv(path), by_arrow, OnceOnly(by_arrow)):
        refusal(UnknownColumnError, lambda frame=frame: open_table(frame, ["a"]))
    for frame in (pd.read_csv(path), pl.read_csv(path), by_arrow):
        for n_columns in (None, 9):
            refusal(DataError, lambda f=frame, n=n_columns: open_table(f, n_columns=n))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.feather", "no such folder", "nul\0.csv"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    message = refusal(UnreadableFileError, lambda: open_table(tmp_path / name, ["a"]))
    assert name.split("\0")[0] in message


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet", "t.feather", "t.csv.zst"])
def test_a_file_of_another_kind_is_unreadable(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for content in (b"", b"SECRET" * 500):
        path.write_bytes(content)
        assert name in refusal(UnreadableFileError, lambda: open_table(path, ["a"]))


def test_an_unsupported_ending_is_refused_and_says_which_are_not(tmp_path: Path) -> None:
    for name in ("t.xlsx", "t", "t.parquet.gz", "t.gz"):
        (tmp_path / name).write_text("SECRET")
        assert ".parquet" in refusal(DataError, lambda name=name: open_table(tmp_path / name, ["a"]))


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv.gz"])
def test_a_file_cut_short_is_unreadable(kind: str, tmp_path: Path) -> None:
    many = np.random.default_rng(0).normal(size=(20_000, 3))
    path = NAMED[kind](many, tmp_path)
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        assert str(path) in refusal(UnreadableFileError, lambda: gather(open_table(path, NAMES)))


def test_a_damaged_page_is_unreadable_when_it_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(9.0), "b": ["SECRET"] * 9}), path, compression="snappy")
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    table = open_table(path, ["a"])
    assert str(path) in refusal(UnreadableFileError, lambda: gather(table))


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_csv(tmp_path / "t.csv", ROWS)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("SECRET")

    monkeypatch.setattr(pa, "input_stream", refuse)
    assert "permission" in refusal(UnreadableFileError, lambda: open_table(path, ["a"]))


def test_a_folder_must_hold_tables_of_the_same_columns(tmp_path: Path) -> None:
    assert "holds no" in refusal(UnreadableFileError, lambda: open_table(tmp_path, ["a"]))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [1], "a": [2.5]}), tmp_path / "2.parquet")
    assert "2.parquet" in refusal(DataError, lambda: open_table(tmp_path))
    np.testing.assert_array_equal(gather(open_table(tmp_path, ["a"])), [[1], [2.5]])


def test_what_fails_inside_a_stream_or_a_lazy_frame_is_not_quoted() -> None:
    def fail() -> Any:
        yield pa.record_batch({"a": [1.0]})
        raise ValueError("SECRET")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.float64()}), fail())
    refusal(DataError, lambda: open_table(reader))
    lazy = pl.LazyFrame({"a": ["SECRET"]}).select(pl.col("a").cast(pl.Float64))
    refusal(DataError, lambda: open_table(lazy))
    refusal(DataError, lambda: open_table(pl.LazyFrame({"a": [1]}).select("SECRE" + "T2")))


# ---- types that are learnt from records ----


def late(cell: str, path: Path) -> Path:
    """A file whose last cell decides what a reader that looks at cells takes its column for, or whether it fails."""
    rows = "".join(f"{i},{i}\n" for i in range(3000))
    path.write_text(f"a,b\n{rows}1,{cell}\n" if path.suffix == ".csv" else f'{{"a": 1, "b": {cell}}}\n')
    return path


INFERRING: dict[str, Callable[[Path], Any]] = {
    "a lazy frame": pl.scan_csv,
    "a part of a lazy frame": lambda path: pl.scan_csv(path).select(pl.col("a").cast(pl.Float64), "b"),
    "lazy frames": lambda path: pl.concat([pl.scan_csv(path), pl.scan_csv(path)]),
    "a lazy frame with declared types": lambda path: pl.scan_csv(path, schema={"a": pl.Float64, "b": pl.Float64}),
    "a join that its types may fail": lambda path: pl.LazyFrame({"b": [1]}).join(pl.scan_csv(path), on="b"),
    "a lazy frame of a dataset": lambda path: pl.scan_pyarrow_dataset(pa.dataset.dataset(path, format="csv")),
    "a reader of blocks": lambda path: pa.csv.open_csv(path, pa.csv.ReadOptions(block_size=1 << 12)),
    "a dataset": lambda path: pa.dataset.dataset(path, format="csv"),
    "a scanner": lambda path: pa.dataset.dataset(path, format="csv").scanner(),
}


@pytest.mark.parametrize("kind", INFERRING)
def test_what_would_learn_types_from_cells_is_refused_whatever_the_cells_are(kind: str, tmp_path: Path) -> None:
    path, messages = tmp_path / "t.csv", set()
    for cell in ("1", "1.5", "", "SECRET"):
        late(cell, path)
        messages |= {
            refusal(DataError, lambda columns=columns: open_table(INFERRING[kind](path), columns))
            for columns in (["a", "b"], ["a"])
        }
    assert len(messages) == 1
    assert "path" in messages.pop()
    # The way that works: the same for all but the one record.
    assert np.isfinite(gather(open_table(path, ["a", "b"]))).all(axis=1).tolist() == [True] * 3000 + [False]


def test_lazy_json_is_refused_as_well(tmp_path: Path) -> None:
    lazy = pl.scan_ndjson(late("1.5", tmp_path / "t.ndjson"))
    assert "learnt from records" in refusal(DataError, lambda: open_table(lazy, ["a", "b"]))


def test_lazy_frames_of_files_that_declare_types_are_read(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS, schema=list(NAMES))
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ipc(tmp_path / "t.arrow")
    for lazy in (pl.scan_parquet(tmp_path / "t.parquet"), pl.scan_ipc(tmp_path / "t.arrow"), frame.lazy()):
        np.testing.assert_array_equal(gather(open_table(lazy.filter(pl.col("a") > 1), NAMES)), ROWS[1:])


def test_a_reader_over_csv_that_fails_tells_nothing_else(tmp_path: Path) -> None:
    path = late("SECRET", tmp_path / "t.csv")
    read = pa.dataset.CsvFragmentScanOptions(read_options=pa.csv.ReadOptions(block_size=1 << 12))
    data = pa.dataset.dataset(path, format=pa.dataset.CsvFileFormat(default_fragment_scan_options=read))
    assert data.schema.field("b").type == pa.int64()
    assert "the path of the file" in refusal(DataError, lambda: open_table(data.scanner().to_reader(), ["a", "b"]))


def test_a_frame_is_refused_by_its_dtype_and_nothing_else(tmp_path: Path) -> None:
    messages = set()
    for cell in ("SECRET", "n/a.", "12,5"):
        frame = pd.read_csv(late(f'"{cell}"', tmp_path / "t.csv"))
        messages.add(refusal(ColumnTypeError, lambda frame=frame: open_table(frame, ["a", "b"])))
    (message,) = messages
    assert message.startswith("Column 'b' is declared as str")


def test_a_dot_in_a_parquet_name_is_part_of_it(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1.0}], "a.b": [2.0], "c": [3.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    np.testing.assert_array_equal(gather(open_table(tmp_path / "t.parquet", ["c", "a.b"])), [[3, 2]])


def test_a_table_shows_nothing_of_its_records() -> None:
    assert repr(open_table(ROWS)) == "Table(columns=None, n_columns=3)" == repr(open_table(ROWS[:0]))


def test_reading_leaves_the_users_data_as_it_was() -> None:
    values = np.array([[np.inf], [1.0]])
    frames = [pd.DataFrame(values, columns=["a"]), pl.DataFrame(values, schema=["a"]), pa.table({"a": values[:, 0]})]
    for source in (values, np.ma.masked_array(values), *frames):
        gather(open_table(source))
    assert np.isinf(values[0, 0])
    assert all(np.isinf(np.asarray(frame["a"])[0]) for frame in frames)
