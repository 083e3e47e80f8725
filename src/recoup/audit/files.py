"""Tables as files that are larger than what is read, or added up, at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import csv, feather, parquet

from recoup.audit.subjects import BOX
from recoup.domain import Box
from recoup.queries.base import Array

NAMES: Final = ("height", "weight")
NAMED_BOX: Final = Box(BOX.low, BOX.high, columns=NAMES)
FILE_ROWS: Final = 150_000  # more than a block of any kind of file, and than a part of one that is added up at a time


def _table(rows: Array) -> pa.Table:
    return pa.table({name: rows[:, j] for j, name in enumerate(NAMES)})


def _folder(rows: Array, path: Path) -> None:
    path.mkdir()
    half = len(rows) // 2
    parquet.write_table(_table(rows[:half]), path / "a.parquet", row_group_size=40_000)
    parquet.write_table(_table(rows[half:]), path / "b.parquet")


# Each writes a table to a path, adding the ending that it needs.
FILES: Final[Mapping[str, Callable[[Array, Path], None]]] = {
    "Parquet": lambda rows, path: parquet.write_table(_table(rows), path.with_name(f"{path.name}.parquet")),
    "Feather": lambda rows, path: feather.write_feather(_table(rows), str(path.with_name(f"{path.name}.feather"))),
    "CSV": lambda rows, path: csv.write_csv(_table(rows), str(path.with_name(f"{path.name}.csv"))),
    "a folder of Parquet": _folder,
}
