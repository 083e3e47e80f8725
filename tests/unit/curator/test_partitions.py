"""Columns in the names of folders: read where they are declared, and told nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import ROWS, WRITERS, rows_of, write_parquet
from table_kinds import refusal

from recoup.curator.tables.open import open_table
from recoup.errors import DataError, UnknownColumnError, UnreadableFileError


def partitioned(folder: Path, suffix: str, values: list[str]) -> Path:
    for i, value in enumerate(values):
        WRITERS[suffix](folder / f"year={value}" / "half=1" / f"part-0{suffix}", ROWS[i : i + 1])
    return folder


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_partition_column_is_read_by_its_name(suffix: str, tmp_path: Path) -> None:
    folder = partitioned(tmp_path, suffix, ["2019", "2020", "__HIVE_DEFAULT_PARTITION__"])
    found = rows_of(folder, ("a", "year", "b", "half"))
    expected = [[1, 2019, 10.5, 1], [2, 2020, 0.25, 1], [3, np.nan, 7, 1]]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(rows_of(folder, ("b", "a")), ROWS[:3, ::-1])


@pytest.mark.parametrize(
    ("value", "number"), [("1e3", 1000), ("-2.5", -2.5), ("%31%32", 12), ("x", np.nan), ("", np.nan)]
)
def test_a_partition_value_is_read_like_a_cell_of_csv(value: str, number: float, tmp_path: Path) -> None:
    folder = partitioned(tmp_path, ".parquet", [value])
    np.testing.assert_array_equal(rows_of(folder, ("year", "a")), [[number, 1]])


def test_the_names_of_folders_are_no_columns_unless_they_are_declared(tmp_path: Path) -> None:
    table = open_table(partitioned(tmp_path, ".parquet", ["2019", "2020"]), n_columns=2)
    assert table.columns == ("a", "b")
    np.testing.assert_array_equal(np.concatenate(list(table.blocks())), ROWS[:2])


def test_the_column_of_a_file_goes_before_that_of_its_folder(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a=99" / "1.parquet")
    np.testing.assert_array_equal(rows_of(tmp_path), ROWS)


def test_float32_columns_leave_a_partition_value_exact(tmp_path: Path) -> None:
    (tmp_path / "id=16777217").mkdir()
    pq.write_table(pa.table({"a": pa.array([1.5], pa.float32())}), tmp_path / "id=16777217" / "1.parquet")
    np.testing.assert_array_equal(rows_of(tmp_path, ("a", "id")), [[1.5, 16777217]])


def test_a_partition_column_alone_is_no_table(tmp_path: Path) -> None:
    folder = partitioned(tmp_path, ".parquet", ["2019"])
    assert "'year'" in refusal(DataError, lambda: open_table(folder, ["year"]))


def test_a_partition_column_that_some_files_lack_is_named(tmp_path: Path) -> None:
    folder = partitioned(tmp_path, ".parquet", ["2019"])
    write_parquet(folder / "zz.parquet")
    message = refusal(UnknownColumnError, lambda: open_table(folder, ["a", "year"]))
    assert "'year'" in message
    assert "zz.parquet" in message


def test_a_message_does_not_tell_the_value_of_a_partition_column(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_parquet(folder / "age=4242" / "day=4141" / "part-0.parquet")
    damaged = folder / "age=4343" / "day=4141" / "part-0.parquet"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"SECRET" * 50)
    shown = str(folder / "age=*" / "day=*" / "part-0.parquet")
    # A column that is not asked for may have been made from records too.
    for columns in (["a", "age"], ["a"], None):
        message = refusal(UnreadableFileError, lambda columns=columns: open_table(folder, columns))
        assert shown in message
        assert not re.search("4343|4141", message)
    damaged.unlink()
    write_parquet(damaged.with_name("other.parquet"))
    (damaged.parent / "_delta_log").mkdir()
    assert "age=*" in refusal(DataError, lambda: open_table(folder, ["a"]))
    (damaged.parent / "_delta_log").rmdir()
    for name in ("1.csv", "1.csv.gz"):
        (tmp_path / "c" / "age=4343").mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / "age=4343" / name).write_text("a\n1\n")
    assert "4343" not in refusal(DataError, lambda: open_table(tmp_path / "c", ["a"]))
