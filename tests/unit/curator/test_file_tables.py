"""Files and folders: what is read, what is refused before anything is asked, and what the refusals tell."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import ROWS, WRITERS, rows_of, write_csv, write_parquet
from table_kinds import gather, refusal

from recoup.curator.tables.files import files_of
from recoup.curator.tables.open import open_table
from recoup.errors import ColumnTypeError, DataError, UnknownColumnError, UnreadableFileError

# ---- what is read ----


@pytest.mark.parametrize("suffix", WRITERS)
def test_files_that_are_hidden_marks_or_without_rows_change_nothing(suffix: str, tmp_path: Path) -> None:
    write = WRITERS[suffix]
    write(tmp_path / f"part-0{suffix}", ROWS[:2])
    write(tmp_path / "deep" / f"part-1{suffix}", ROWS[2:])
    expected = rows_of(tmp_path)
    write(tmp_path / f"part-9{suffix}", ROWS[:0])
    for hidden in ("_SUCCESS", "_metadata", "_common_metadata", f".part-0{suffix}.crc", "README.txt"):
        (tmp_path / hidden).write_text("SECRET")
    for hidden in (f".hidden{suffix}", f"_hidden{suffix}"):
        write(tmp_path / hidden)
    write(tmp_path / "_temporary" / "0" / f"part-5{suffix}")
    (tmp_path / f"part-8{suffix}").touch()
    np.testing.assert_array_equal(rows_of(tmp_path), expected)
    np.testing.assert_array_equal(rows_of(tmp_path), ROWS[[2, 3, 0, 1]])


@pytest.mark.parametrize("blank", [b"", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("dialect", ["rfc4180", "lines"])
def test_a_part_of_nothing_is_a_part_without_records(blank: bytes, dialect: str, tmp_path: Path) -> None:
    for name in ("0.csv", "2.csv"):
        (tmp_path / name).write_bytes(blank)
        (tmp_path / f"9{name}.gz").write_bytes(gzip.compress(blank))
    for columns in (["a"], None):
        assert "holds no CSV" in refusal(
            UnreadableFileError, lambda c=columns: open_table(tmp_path, c, n_columns=1, csv_dialect=dialect)
        )
    (tmp_path / "1.csv").write_bytes(b"a\n1\n")
    for columns in (["a"], None):
        table = open_table(tmp_path, columns, n_columns=1, csv_dialect=dialect)
        assert table.csv_dialect == dialect
        np.testing.assert_array_equal(gather(table), [[1]])


def test_only_files_without_rows_are_an_empty_table(tmp_path: Path) -> None:
    write_parquet(tmp_path / "part-0.parquet", ROWS[:0])
    write_parquet(tmp_path / "part-1.parquet", ROWS[:0])
    assert rows_of(tmp_path).shape == (0, 2)


def test_a_folder_may_be_named_like_a_file(tmp_path: Path) -> None:
    write_parquet(tmp_path / "people.parquet" / "part-0.parquet")
    np.testing.assert_array_equal(rows_of(tmp_path / "people.parquet"), ROWS)


@pytest.mark.parametrize("suffix", WRITERS)
def test_columns_that_are_not_declared_may_be_of_any_type(suffix: str, tmp_path: Path) -> None:
    if suffix == ".csv":
        (tmp_path / "1.csv").write_text("note,b,a\nSECRET,2,1\n")
    else:
        table = pa.table({"note": ["SECRET"], "b": [2.0], "a": [1], "list": [[1.0]]})
        if suffix == ".parquet":
            pq.write_table(table, tmp_path / "1.parquet")
        else:
            with pa.ipc.new_file(tmp_path / "1.feather", table.schema) as writer:
                writer.write_table(table)
    np.testing.assert_array_equal(rows_of(tmp_path), [[1, 2]])


def test_each_file_is_read_by_its_own_numeric_type(tmp_path: Path) -> None:
    kinds = [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(21, 2), pa.bool_()]
    for i, kind in enumerate(kinds):
        column = pa.array([1, None, 0]).cast(kind)
        pq.write_table(pa.table({"a": column}), tmp_path / f"{i}.parquet")
    encoded = pa.array([1, None, 0], pa.int32()).dictionary_encode()
    pq.write_table(pa.table({"a": encoded}), tmp_path / "encoded.parquet")
    np.testing.assert_array_equal(rows_of(tmp_path, ["a"])[:, 0], [1, np.nan, 0] * (len(kinds) + 1))


def test_a_dictionary_may_hold_a_null_and_differ_from_batch_to_batch(tmp_path: Path) -> None:
    def coded(values: list[float | None]) -> pa.RecordBatch:
        return pa.record_batch({"a": pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), values)})

    batches = [coded([5.0, None]), coded([6.0, 7.0])]
    found = np.concatenate(list(open_table(pa.Table.from_batches(batches)).blocks()))
    np.testing.assert_array_equal(found[:, 0], [5, np.nan, np.nan, 6, 7, np.nan])
    with pa.ipc.new_file(tmp_path / "1.arrow", batches[0].schema) as writer:
        writer.write_batch(batches[0])
    np.testing.assert_array_equal(rows_of(tmp_path, ["a"]), found[:3])


def test_a_link_is_followed_and_nothing_is_read_twice(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write_parquet(elsewhere / "part-1.parquet", ROWS[2:])
    write_parquet(tmp_path / "in" / "part-0.parquet", ROWS[:2])
    (tmp_path / "in" / "more").symlink_to(elsewhere)
    (tmp_path / "in" / "same").symlink_to(elsewhere)
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "part-2.parquet").symlink_to(tmp_path / "in" / "part-0.parquet")
    np.testing.assert_array_equal(rows_of(tmp_path / "in"), ROWS[[2, 3, 0, 1]])


def test_a_file_with_two_names_is_read_once(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "part-0.parquet", ROWS[:2])
    write_parquet(tmp_path / "in" / "part-1.parquet", ROWS[2:])
    (tmp_path / "in" / "deep").mkdir()
    (tmp_path / "in" / "deep" / "again.parquet").hardlink_to(tmp_path / "in" / "part-0.parquet")
    (tmp_path / "in" / "soft.parquet").symlink_to(tmp_path / "in" / "deep" / "again.parquet")
    np.testing.assert_array_equal(rows_of(tmp_path / "in"), ROWS)


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "part-0.parquet")
    monkeypatch.chdir(tmp_path)
    assert "empty" in refusal(DataError, lambda: open_table("", ["a"]))
    np.testing.assert_array_equal(rows_of(Path()), rows_of(tmp_path))


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv"])
@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_blocks_do_not_depend_on_threads(
    suffix: str, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOUP_NUM_THREADS", threads)
    many = np.random.default_rng(0).normal(size=(500, 2))
    for i in range(5):
        WRITERS[suffix](tmp_path / f"{i}{suffix}", many[100 * i : 100 * i + 100])
    blocks = list(open_table(tmp_path, ["b", "a"]).blocks(32))
    assert [len(block) for block in blocks] == [32, 32, 32, 4] * 5
    np.testing.assert_array_equal(np.concatenate(blocks), many[:, [1, 0]])


# ---- refused when it is opened, by names alone ----


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert "holds no" in refusal(UnreadableFileError, lambda: open_table(tmp_path, ["a"]))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "part-0.parquet").touch()
    (tmp_path / "deep").mkdir()
    assert str(tmp_path) in refusal(UnreadableFileError, lambda: open_table(tmp_path, ["a"]))


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_column_missing_in_one_file_is_named_with_the_file(suffix: str, tmp_path: Path) -> None:
    for i in range(3):
        WRITERS[suffix](tmp_path / f"part-{i}{suffix}")
    bad = tmp_path / f"part-1{suffix}"
    if suffix == ".csv":
        bad.write_text("a,c\nSECRET,1\n")
    elif suffix == ".parquet":
        write_parquet(bad, names="ac")
    else:
        with pa.ipc.new_file(bad, pa.schema({"a": pa.float64(), "c": pa.string()})) as writer:
            writer.write_batch(pa.record_batch({"a": [1.0], "c": ["SECRET"]}))
    message = refusal(UnknownColumnError, lambda: open_table(tmp_path, ["a", "b"]))
    said = (
        f"The first line of {str(bad)!r} must name the columns."
        if suffix == ".csv"
        else f"See the schema of {str(bad)!r}."
    )
    assert message == f"There is no column 'b' in {str(bad)!r}. {said}"


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.list_(pa.float64())])
def test_a_file_of_another_schema_is_named_with_the_column(kind: pa.DataType, tmp_path: Path) -> None:
    write_parquet(tmp_path / "part-0.parquet")
    bad = tmp_path / "part-1.parquet"
    pq.write_table(pa.table({"a": [1.0], "b": pa.nulls(1, kind)}), bad)
    write_parquet(tmp_path / "part-2.parquet")
    message = refusal(ColumnTypeError, lambda: open_table(tmp_path, ["a", "b"]))
    assert f"Column 'b' of {str(bad)!r} is declared as {str(kind).split('<')[0].split('[')[0]}" in message
    np.testing.assert_array_equal(rows_of(tmp_path, ["a"]), [[1], [2], [3], [4], [1], [1], [2], [3], [4]])


def test_files_of_other_columns_are_refused_unless_they_are_declared(tmp_path: Path) -> None:
    write_parquet(tmp_path / "part-0.parquet")
    write_parquet(tmp_path / "part-1.parquet", names="ba")
    message = refusal(DataError, lambda: open_table(tmp_path))
    assert "part-0.parquet" in message
    assert "part-1.parquet" in message
    np.testing.assert_array_equal(rows_of(tmp_path), np.concatenate([ROWS, ROWS[:, ::-1]]))


def test_a_damaged_footer_in_the_middle_is_found_before_anything_is_read(tmp_path: Path) -> None:
    for i in range(3):
        write_parquet(tmp_path / f"part-{i}.parquet")
    bad = tmp_path / "part-1.parquet"
    whole = bad.read_bytes()
    for content in (whole[:-3], whole[:40], b"SECRET", whole[:-20] + b"\xff" * 12 + whole[-8:]):
        bad.write_bytes(content)
        assert str(bad) in refusal(UnreadableFileError, lambda: open_table(tmp_path, ["a"]))


@pytest.mark.parametrize("reader", ["pyarrow.parquet.ParquetFile", "pyarrow.OSFile", "pyarrow.input_stream"])
def test_a_file_that_may_not_be_read_is_named(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffix = {"ParquetFile": ".parquet", "OSFile": ".feather", "input_stream": ".csv"}[reader.split(".")[-1]]
    for i in range(3):
        WRITERS[suffix](tmp_path / f"part-{i}{suffix}")
    bad = str(tmp_path / f"part-1{suffix}")
    module, name = reader.rsplit(".", 1)
    proper = getattr(sys.modules[module], name)

    def refuse(path: Any, *given: Any, **named: Any) -> Any:
        if str(path) == bad:
            raise PermissionError(f"SECRET: {path}")
        return proper(path, *given, **named)

    monkeypatch.setattr(sys.modules[module], name, refuse)
    message = refusal(UnreadableFileError, lambda: open_table(tmp_path, ["a"]))
    assert message == f"{bad!r} may not be read. Check its permissions."


def test_a_folder_that_may_not_be_listed_is_named_not_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "part-0.parquet")
    write_parquet(tmp_path / "closed" / "part-1.parquet")
    proper = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError("SECRET")
        return proper(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert str(tmp_path / "closed") in refusal(UnreadableFileError, lambda: open_table(tmp_path, ["a"]))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PAR1SECRET", "Parquet"),
        (b"ARROW1\0\0SECRET", "Arrow"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "gzip"),
        (b"PK\x03\x04SECRET", "spreadsheet"),
        (b"\x28\xb5\x2f\xfdSECRET", "Zstandard"),
    ],
)
def test_a_csv_that_holds_something_else_is_named(content: bytes, what: str, tmp_path: Path) -> None:
    write_csv(tmp_path / "part-0.csv")
    bad = tmp_path / "part-1.csv"
    bad.write_bytes(content)
    message = refusal(UnreadableFileError, lambda: open_table(tmp_path, ["a", "b"]))
    assert str(bad) in message
    assert what in message


def test_a_csv_column_of_text_that_is_declared_a_number_contributes_nothing(tmp_path: Path) -> None:
    write_csv(tmp_path / "part-0.csv", ROWS[:1])
    (tmp_path / "part-1.csv").write_text("a,b\nSECRET,1\n2,SECRET\n3,4\n")
    np.testing.assert_array_equal(rows_of(tmp_path), [[1, 10.5], [np.nan, 1], [2, np.nan], [3, 4]])


@pytest.mark.parametrize(("one", "other"), [(".parquet", ".csv"), (".parquet", ".feather"), (".csv", ".feather")])
def test_one_folder_holds_one_kind_of_files(one: str, other: str, tmp_path: Path) -> None:
    WRITERS[one](tmp_path / f"people{one}")
    WRITERS[other](tmp_path / f"people{other}")
    assert "twice" in refusal(DataError, lambda: open_table(tmp_path, ["a"]))


def test_a_compressed_copy_is_not_read_too(tmp_path: Path) -> None:
    write_csv(tmp_path / "people.csv")
    write_csv(tmp_path / "more.csv.gz")
    assert len(rows_of(tmp_path)) == 8
    write_csv(tmp_path / "people.csv.gz")
    assert "people.csv" in refusal(DataError, lambda: open_table(tmp_path, ["a"]))


@pytest.mark.parametrize(
    ("mark", "what"), [("_delta_log/0.json", "Delta"), (".hoodie/x", "Hudi"), ("metadata/v1.metadata.json", "Iceberg")]
)
def test_a_table_with_versions_is_refused(mark: str, what: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "t" / "data" / "part-0.parquet")
    (tmp_path / "t" / mark).parent.mkdir()
    (tmp_path / "t" / mark).write_text("{}")
    message = refusal(DataError, lambda: open_table(tmp_path, ["a"]))
    assert what in message
    assert str(tmp_path / "t") in message


def test_a_folder_called_metadata_is_a_folder(tmp_path: Path) -> None:
    write_parquet(tmp_path / "metadata" / "part-0.parquet")
    np.testing.assert_array_equal(rows_of(tmp_path), ROWS)


def test_parts_are_listed_in_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b/2.parquet", "a.parquet", "b/1.parquet", "c=1/0.parquet"):
        write_parquet(tmp_path / name)
    parts = files_of(tmp_path)
    assert [part.path.relative_to(tmp_path).as_posix() for part in parts] == [
        "a.parquet",
        "b/1.parquet",
        "b/2.parquet",
        "c=1/0.parquet",
    ]
    assert parts[-1].partition == {"c": "1"}
