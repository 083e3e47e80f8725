"""Types that are learnt from records are refused, whatever the records are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from table_kinds import NAMES, ROWS, gather, refusal

from recoup.curator.tables.open import open_table
from recoup.errors import ColumnTypeError, DataError


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
