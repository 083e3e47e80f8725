"""What is refused as a table: typed errors, with names, without records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from table_kinds import NAMED, NAMES, NAN, ROWS, OnceOnly, gather, refusal, write_csv

from recoup.curator.tables.open import open_table
from recoup.errors import ColumnTypeError, DataError, UnknownColumnError, UnreadableFileError

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
    assert "recoup.Category" in message
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
        assert str(kind).split("<")[0].split("[")[0] in message


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
def test_an_unknown_column_is_named_and_those_that_exist_are_not(kind: str, tmp_path: Path) -> None:
    message = refusal(UnknownColumnError, lambda: open_table(NAMED[kind](ROWS, tmp_path), ["a", "agee"]))
    # The names of a table may be the first record of a file without header that it was made from.
    assert message.startswith("There is no column 'agee'. ")
    assert "'b'" not in message
    if kind in ("parquet", "feather", "arrow file"):
        assert "See the schema of " in message


STRUCT = pa.struct({"SECRET": pa.int64()})


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_file_that_was_made_of_one_without_header_tells_no_names(suffix: str, tmp_path: Path) -> None:
    def file(table: pa.Table) -> Path:
        path = tmp_path / f"t{suffix}"
        pq.write_table(table, path) if suffix == ".parquet" else pa.feather.write_feather(table, str(path))
        return path

    path = file(pa.table({"0.5": [0.5], "SECRET": ["x"]}))
    refusal(UnknownColumnError, lambda: open_table(path, ["x"]))
    assert "Column number 2 of" in refusal(ColumnTypeError, lambda: open_table(path, n_columns=2))
    path = file(pa.Table.from_arrays([pa.array([0.1]), pa.array([0.2])], names=["SECRET", "SECRET"]))
    assert "of the same name" in refusal(DataError, lambda: open_table(path, n_columns=2))


@pytest.mark.parametrize(
    ("table", "base"),
    [
        (pa.table({"x": pa.array([], STRUCT)}), "struct"),
        (pa.table({"x": pa.array([], pa.list_(STRUCT))}), "list"),
        (pd.DataFrame({"x": pd.Series([], dtype=pd.ArrowDtype(STRUCT))}), "struct"),
        (pd.DataFrame({"x": pd.arrays.SparseArray(["SECRET", "b"], fill_value="SECRET")}), "Sparse"),
        (pl.DataFrame({"x": pl.Series([], dtype=pl.Struct({"SECRET": pl.Int8}))}), "Struct"),
        (pl.DataFrame({"x": pl.Series([], dtype=pl.Enum(["SECRET"]))}), "Enum"),
    ],
)
def test_of_a_type_only_its_own_name_is_told(table: Any, base: str) -> None:
    assert f"is declared as {base}, which" in refusal(ColumnTypeError, lambda: open_table(table, ["x"]))


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
        assert "of the same name" in message
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
