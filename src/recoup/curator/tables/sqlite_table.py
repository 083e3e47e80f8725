"""Tables of SQLite, by the library that comes with Python.

A column of SQLite declares what it prefers to hold, and every cell has a type of its own. Drivers that stream columns
look at the first records to find a type, and fail at a later one: here each cell is converted by itself.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recoup.curator.tables.catalogue import (
    LOCK_SECONDS,
    LONG,
    LONGEST_TEXT,
    Column,
    check_unchanged,
    found_table,
    quoted,
    saying_only,
)
from recoup.curator.tables.keys import Keys
from recoup.curator.tables.rules import NUMBERS, PLAIN_NUMBER, Made, Rule

_PLAIN: Final = re.compile(PLAIN_NUMBER)
_ASCII_SPACES: Final = " \t\n\v\f\r"
_NUMBERS: Final = frozenset({int, float, type(None)})
# What SQLite makes of declared types, and the dates that it does not know, by the first of these words in their names.
_WORDS: Final = (
    *(("DATE", None), ("TIME", None), ("INT", pa.int64())),
    *(("CHAR", pa.string()), ("CLOB", pa.string()), ("TEXT", pa.string()), ("BLOB", None)),
    *(("REAL", pa.float64()), ("FLOA", pa.float64()), ("DOUB", pa.float64()), ("BOOL", pa.int64())),
)
# Cells of any type: numbers are read from them as from CSV, persons as text.
_ANY: Final = pa.decimal128(38, 0)
# Neither can fail: a cell that is long, of whatever type, becomes a short one.
_SHORT: Final = (
    f"CASE WHEN typeof({{0}}) IN ('text', 'blob') AND length(CAST({{0}} AS BLOB)) > {LONGEST_TEXT} "
    f"THEN '{LONG}' ELSE {{0}} END"
)


class SQLiteTable:
    """One table of a file."""

    def __init__(self, path: Path, name: str, shown: str) -> None:
        self._path, self._name, self.shown = path, name, shown

    def columns(self) -> list[Column]:
        """Its columns, of which the catalogue alone was read."""
        with self._snapshot() as connection:
            return self._columns(connection)[1]

    def read(self, columns: Sequence[Column], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        """Read some columns, each by its rule, in one snapshot and in blocks."""
        with self._snapshot() as connection:
            table, now = self._columns(connection)
            check_unchanged(now, columns, self.shown)
            # With the table before it: a name alone that is no column would be taken for a text.
            asked = [_SHORT.format(f"t.{quoted(column.name)}") for column in columns]
            with closing(connection.execute(f"SELECT {', '.join(asked)} FROM {table} AS t")) as cursor:
                while rows := cursor.fetchmany(block_rows):
                    cells = zip(rules, columns, zip(*rows, strict=True), strict=True)
                    yield Made([_read(rule, column, list(own)) for rule, column, own in cells], len(rows))

    def _columns(self, connection: sqlite3.Connection) -> tuple[str, list[Column]]:
        names = connection.execute("SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view')").fetchall()
        found = found_table(self._name, [("main", name) for (name,) in names], [("main",)], self.shown)
        described = connection.execute("SELECT name, type, hidden FROM pragma_table_xinfo(?, 'main')", (found[1],))
        # One is hidden that belongs to how a virtual table works.
        columns = [_column(name, declared or "") for name, declared, hidden in described.fetchall() if hidden != 1]
        return ".".join(map(quoted, found)), columns

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        with closing(saying_only(_away(self.shown), self._connect)) as connection:
            yield connection

    def _connect(self) -> sqlite3.Connection:
        # Reading runs in a thread of its own, and another one may close it.
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=LOCK_SECONDS, check_same_thread=False
        )
        connection.isolation_level = None
        # What is no text must not fail; nothing that declared values hold has such codes.
        connection.text_factory = _decoded
        for words in ("PRAGMA query_only = ON", "BEGIN"):
            connection.execute(words)
        connection.execute("SELECT name FROM main.sqlite_schema LIMIT 1").fetchall()
        return connection


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _column(name: str, declared: str) -> Column:
    # Every column may hold cells of every type.
    kind = next((kind for word, kind in _WORDS if word in declared.upper()), _ANY)
    return Column(name, declared, kind)


def _read(rule: Rule, column: Column, cells: list[Any]) -> Any:
    if rule is NUMBERS:
        return _numbers(cells)
    if not isinstance(rule, Keys):
        return rule.of_cells(cells)
    if column.kind in (_ANY, pa.string()):
        return rule.of_texts(pa.array([_bytes(rule, cell) for cell in cells], pa.large_binary()))
    if column.kind == pa.int64():
        return rule.of_arrow(pa.array([cell if type(cell) is int else None for cell in cells], pa.int64()))
    floats = [float(cell) if type(cell) in (int, float) else None for cell in cells]
    return rule.of_arrow(pa.array(floats, pa.float64()))


def _bytes(rule: Keys, cell: Any) -> bytes | None:
    # As it was written: what is too long is so with the white space around it.
    return cell.encode("utf-8", "surrogateescape") if isinstance(cell, str) else rule.of_cell(cell)


def _numbers(cells: list[Any]) -> NDArray[np.float64]:
    if _NUMBERS.issuperset(map(type, cells)):
        return np.array(cells, dtype=np.float64)  # None is NaN
    return np.fromiter(map(_number, cells), dtype=np.float64, count=len(cells))


def _number(cell: Any) -> float:
    if isinstance(cell, int | float):
        return float(cell)
    text = cell.strip(_ASCII_SPACES) if isinstance(cell, str) else ""
    return float(text) if _PLAIN.match(text) else math.nan


def _away(shown: str) -> str:
    return (
        f"The database with {shown} cannot be opened: there is no such file, it may not be read, it is no SQLite "
        "database, or somebody keeps it locked."
    )
