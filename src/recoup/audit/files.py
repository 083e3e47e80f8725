"""Tables as files: larger than what is read, or added up, at a time; and with odd cells and lines."""

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

# As cells of text; a list of rows and CSV have them all, arrays and Parquet those that are numbers or missing.
CELLS: Final[Mapping[str, str]] = {
    "an ordinary record": "0.5",
    "a missing cell": "",
    "an unparsable cell": "12.5x",
    "an infinite cell": "inf",
    "minus infinity": "-inf",
    "not a number": "nan",
    "a far-out cell": "1e308",
    "a text cell": "unknown",
    "a long text": "z" * 5000,
}
# Lines of a CSV file with two columns; each may count as one record or none, whatever stands around it.
ODD_LINES: Final[Mapping[str, bytes]] = {name: f"{cell},2.0".encode() for name, cell in CELLS.items()} | {
    "a ragged line": b"1.0,2.0,3.0",
    "a short line": b"1.0",
    "an empty line": b"",
    "an open quote": b'"1.0,2.0',
    "a closing quote": b'1.0,2.0"',
    "a quote in a cell": b'1"0,2.0',
    "two quotes in quotes": b'"1""0",2.0',
    "quoted numbers": b'"0.5","2.0"',
    "bytes that are no text": b"\xff\xfe,2.0",
    "a byte of zero": b"1\x000,2.0",
    "a carriage return": b"0.5,2.0\r",
}


def csv_of(rows: Array, odd: Mapping[int, bytes]) -> bytes:
    """A CSV file of some records, with odd lines before those of some numbers."""
    lines = [",".join(NAMES).encode()]
    for number, (a, b) in enumerate([*rows.tolist(), (None, None)]):
        if number in odd:
            lines.append(odd[number])
        if a is not None:
            lines.append(f"{a!r},{b!r}".encode())
    return b"\n".join(lines) + b"\n"


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
