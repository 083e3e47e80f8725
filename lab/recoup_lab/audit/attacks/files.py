"""Tables as files, larger than what is read at a time or with odd cells and lines, and commands that read them."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet
from typer.testing import CliRunner

from recoup.cli.app import app
from recoup.curator.tables.database import Table
from recoup.domain import Box
from recoup.queries.base import Array
from recoup_lab.audit.attacks.subjects import BOX

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
# Lines of a CSV file with two columns; read by lines, each may count as one record or none, whatever stands around it.
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


_FORGED: Final = "0.5,x,2.0"  # a record, were it outside of quotes
# What somebody may write into a column of text; in quotes, it is part of one record.
TEXTS: Final[Mapping[str, str]] = {
    "nothing": "",
    "a comma": "a, b",
    "lines that look like records": "hi\n" + f"{_FORGED}\n" * 100,
    "such lines, and one that is unfinished": f"hi\r\n{_FORGED}\r\n0.5,",
    "a quote that would close, then records": f'hi"\n{_FORGED}\n"',
    "a quote that would open": 'hi,"',
    "only quotes": '"' * 7,
    "carriage returns": f"hi\r{_FORGED}\r",
    # Also more than is read of a file at a time.
    "more than is read of a record": f"{_FORGED}\n" * 600_000,
    "more than that, with quotes": f'{_FORGED}\n","' * 400_000,
}


def quoted_csv(rows: Array, texts: Mapping[int, str]) -> bytes:
    """A CSV file by a writer that quotes: records with a text each; before those of some numbers, one more."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([NAMES[0], "note", NAMES[1]])
    for number, (a, b) in enumerate([*rows.tolist(), (None, None)]):
        if number in texts:
            writer.writerow([0.5, texts[number], 2.0])
        if a is not None:
            writer.writerow([a, "a text", b])
    return out.getvalue().encode()


# With the numbers that `windows_csv` writes beside it, of as many bytes as a record may have.
LONGEST_TEXT: Final = "a" * ((1 << 20) - len("0.5,,2.0"))


def windows_csv(rows: Array, text: str, after: Array) -> bytes:
    """A CSV file whose lines end with two bytes and the last one with none: some records, one with a text, and more."""
    before, behind = ([f"{a!r},a text,{b!r}" for a, b in some.tolist()] for some in (rows, after))
    return "\r\n".join([f"{NAMES[0]},note,{NAMES[1]}", *before, f"0.5,{text},2.0", *behind]).encode()


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


def write_duckdb(columns: Mapping[str, Sequence[object]], types: Sequence[str], path: Path) -> None:
    """Write a table of DuckDB, `records`, and a view of it that fails at a text that is no number, `numbers`."""
    declared = ", ".join(f"{name} {kind}" for name, kind in zip(columns, types, strict=True))
    with closing(import_module("duckdb").connect(str(path))) as connection:
        connection.execute(f"CREATE TABLE records ({declared})")
        connection.register("given", pa.table(dict(columns)))
        connection.execute("INSERT INTO records SELECT * FROM given")
        casts = ", ".join(f"CAST({name} AS DOUBLE) AS {name}" for name in columns)
        connection.execute(f"CREATE VIEW numbers AS SELECT {casts} FROM records")


def write_sqlite(rows: Iterable[Sequence[object]], path: Path) -> None:
    """Write a table of SQLite, `records`, whose columns are declared as numbers and hold what they are given."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE records ({', '.join(f'{name} REAL' for name in NAMES)})")
        connection.executemany(f"INSERT INTO records VALUES ({', '.join('?' * len(NAMES))})", rows)


def readable(path: Path) -> Path | Table:
    """What is handed over to read a file: itself, or the table of a database."""
    database = {".duckdb": "duckdb", ".sqlite": "sqlite"}.get(path.suffix)
    return path if database is None else Table(f"{database}:///{path}", "records")


def _duckdb(rows: Array, path: Path) -> None:
    columns = {name: rows[:, j].tolist() for j, name in enumerate(NAMES)}
    write_duckdb(columns, ["DOUBLE"] * len(NAMES), path.with_name(f"{path.name}.duckdb"))


# Each writes a table to a path, adding the ending that it needs.
FILES: Final[Mapping[str, Callable[[Array, Path], None]]] = {
    "Parquet": lambda rows, path: parquet.write_table(_table(rows), path.with_name(f"{path.name}.parquet")),
    "Feather": lambda rows, path: feather.write_feather(_table(rows), str(path.with_name(f"{path.name}.feather"))),
    "CSV": lambda rows, path: arrow_csv.write_csv(_table(rows), str(path.with_name(f"{path.name}.csv"))),
    "a folder of Parquet": _folder,
    "DuckDB": _duckdb,
    "SQLite": lambda rows, path: write_sqlite(rows.tolist(), path.with_name(f"{path.name}.sqlite")),
}


# Each makes a table in memory of named columns; Recoup needs neither of the libraries of frames, its development does.
FRAMES: Final[Mapping[str, Callable[[Mapping[str, Array]], object]]] = {
    "pandas": lambda columns: import_module("pandas").DataFrame(columns),
    "Polars": lambda columns: import_module("polars").DataFrame(columns),
    "a lazy frame": lambda columns: import_module("polars").DataFrame(columns).lazy(),
    "PyArrow": lambda columns: pa.table(dict(columns)),
}


# ---- commands ----

BOUNDS: Final = ",".join(f"{n}={a}:{b}" for n, a, b in zip(NAMES, NAMED_BOX.low, NAMED_BOX.high, strict=True))


class Streams(NamedTuple):
    """What a command printed."""

    output: str
    errors: str


def called(words: Sequence[str]) -> Streams:
    """Call `recoup` with some words.

    Raises:
        RuntimeError: it did not end with code 0.
    """
    result = CliRunner().invoke(app, list(words))
    if result.exit_code:
        raise RuntimeError(f"recoup {words[0]} ended with {result.exit_code}: {result.stderr[-300:]}")
    return Streams(result.stdout, result.stderr)
