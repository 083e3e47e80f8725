"""What every database is put through: odd cells beside ordinary records, one at a time, and other faults."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import recoup
from recoup.curator.source import open_source
from recoup.curator.tables.open import open_table
from recoup.domain import Box
from recoup.queries.counts import GridQuery

SCHEMA = recoup.Schema({"x": recoup.Number(0, 10), "c": recoup.Category(["a", "ü", "7"], other=True, missing="own")})
BOX = Box([0.0, -3.0], [10.0, 3.0], ("x", "z"))
GRID = GridQuery(sides=(5, 4))


class Engine(Protocol):
    """A database that can be written to."""

    address: Any
    types: dict[str, str]  # of x, z, c and who

    def run(self, *statements: str) -> None:
        """Run statements and commit."""


class DuckDBEngine:
    """A file, opened only to write."""

    types: ClassVar = {"x": "BIGINT", "z": "DOUBLE", "c": "VARCHAR", "who": "VARCHAR"}

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clinic.duckdb"
        self.address = f"duckdb:///{self.path}"

    def run(self, *statements: str) -> None:
        with closing(duckdb.connect(str(self.path))) as connection:
            for statement in statements:
                connection.execute(statement)


class LiveEngine:
    """A connection to a database in memory."""

    types = DuckDBEngine.types

    def __init__(self, folder: Path) -> None:
        self.address = duckdb.connect()

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.address.execute(statement)


class SQLiteEngine:
    """A file that readers do not keep from being written to."""

    types: ClassVar = {"x": "INTEGER", "z": "REAL", "c": "TEXT", "who": "TEXT"}

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clinic.db"
        self.address = f"sqlite:///{self.path}"
        self.run("PRAGMA journal_mode = WAL")

    def run(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)


ENGINES: dict[str, Callable[[Path], Engine]] = {
    "DuckDB": DuckDBEngine,
    "a connection": LiveEngine,
    "SQLite": SQLiteEngine,
}
LONG = "repeat('\N{LATIN SMALL LETTER E WITH ACUTE}', 100000)"
# By the types of columns that may hold them, cells as SQL; all of a record that is otherwise ordinary.
_ODD_TEXTS = ["NULL", "''", "' '", "'SECRET'", "'a''; DROP TABLE records; --'", "'\N{GRINNING FACE}'", "'nan'", "'\1'"]
_ODD_FLOATS = ["NULL", "'NaN'", "'Infinity'", "'-Infinity'", "1e308", "-1e308", "5e-324"]
_DUCKDB = {
    "BIGINT": ["NULL", "9223372036854775807", "-9223372036854775808"],
    "HUGEINT": ["NULL", "170141183460469231731687303715884105727", "-170141183460469231731687303715884105728"],
    "UHUGEINT": ["NULL", "340282366920938463463374607431768211455"],
    "DOUBLE": _ODD_FLOATS,
    "FLOAT": _ODD_FLOATS[:4],
    "DECIMAL(38,10)": ["NULL", "9999999999999999999999999999.9999999999"],
    "VARCHAR": [*_ODD_TEXTS, LONG, "chr(0)"],
    "UUID": ["NULL", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "BOOLEAN": ["NULL", "false"],
}
_SQLITE_LONG = "replace(hex(zeroblob(100000)), '0', 'x')"
_SQLITE = ["NULL", "''", "'SECRET'", "x'00ff'", "zeroblob(200000)", "9e999", "-9e999", "CAST(x'ff41' AS TEXT)", "1.5"]
_SQLITE += ["'12'", "'1_0'", "'inf'", "'nan'", "9223372036854775807", "CAST(x'410042' AS TEXT)", _SQLITE_LONG]
_POSTGRES = {
    "int2": ["NULL", "32767"],
    "int8": ["NULL", "9223372036854775807"],
    "float4": ["NULL", "'NaN'", "'Infinity'", "3e38"],
    "float8": _ODD_FLOATS,
    "numeric": ["NULL", "'NaN'", "'Infinity'", "'-Infinity'", "1e131071", "-1e131071", "1e-16383", "0.5", "7.000"],
    "numeric(12,3)": ["NULL", "'NaN'", "999999999.999"],
    "numeric(100,50)": ["NULL", "'NaN'", "1e49"],
    "text": [*_ODD_TEXTS, LONG],
    "varchar(20)": _ODD_TEXTS[:4],
    "char(8)": _ODD_TEXTS[:4],
    "uuid": ["NULL", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "bool": ["NULL", "false"],
}
# Each: its type, the cell of ordinary records, and an odd one.
ODD: dict[str, list[tuple[str, str, str]]] = {
    "DuckDB": [(kind, "", cell) for kind, cells in _DUCKDB.items() for cell in cells],
    "SQLite": [(kind, "", cell) for kind, cell in product(("INTEGER", "REAL", "NUMERIC", "TEXT", ""), _SQLITE)],
    "PostgreSQL": [(kind, "", cell) for kind, cells in _POSTGRES.items() for cell in cells],
}
_ORDINARY = {"UUID": "'00000000-0000-0000-0000-000000000007'", "BOOL": "true", "BOOLEAN": "true"}
_N = 7


def read_with(engine: Engine, kind: str, cell: str | None) -> dict[str, tuple[np.ndarray, list[Any]]]:
    """What is read of ordinary records, and of one more with an odd cell, by every rule that the type allows."""
    plain = _ORDINARY.get(kind.upper(), "7")
    rows = [f"({i}, {plain})" for i in range(_N)]
    rows += [] if cell is None else [f"({_N}, {cell})"]
    values = f"INSERT INTO records VALUES {', '.join(rows)}"
    engine.run("DROP TABLE IF EXISTS records", f"CREATE TABLE records (x INTEGER, odd {kind})", values)
    table = recoup.Table(engine.address, "records")
    schemas: dict[str, Any] = {
        "numbers": recoup.Schema({"x": recoup.Number(0, 10), "odd": recoup.Number(0, 10)}),
        "categories": recoup.Schema({"x": recoup.Number(0, 10), "odd": SCHEMA["c"]}),
    }
    found = {}
    for name, schema in schemas.items():
        try:
            found[name] = sorted_rows(open_table(table, schema=schema))
        except recoup.errors.ColumnTypeError:
            found[name] = np.empty((0, 0)), []
    found["persons"] = sorted_rows(open_table(table, ["x"], person="odd"))
    return found


def sorted_rows(table: Any) -> tuple[np.ndarray, list[Any]]:
    """All rows of a table, in order of their cells and keys; NaN for what is not finite."""
    blocks = list(table.blocks(3))
    rows = np.concatenate([np.asarray(block, dtype=np.float64) for block in blocks])
    keys: list[Any] = []
    for block in blocks:
        persons = getattr(block, "persons", None)
        keys += [None] * len(block) if persons is None else persons.to_pylist()
    order = sorted(range(len(rows)), key=lambda i: (np.nan_to_num(rows[i], nan=1e300).tolist(), str(keys[i])))
    return np.where(np.isfinite(rows), rows, np.nan)[order], [keys[i] for i in order]


def check_odd_cell(engine: Engine, kind: str, cell: str) -> None:
    """One more record with an odd cell changes nothing but itself: no error, and all others as before."""
    without, beside = read_with(engine, kind, None), read_with(engine, kind, cell)
    assert without.keys() == beside.keys()
    for rule, (rows, keys) in without.items():
        more, more_keys = beside[rule]
        assert len(more) - len(rows) == (len(rows) > 0), (rule, kind, cell)
        np.testing.assert_array_equal(more[: len(rows)], rows)
        assert more_keys[: len(keys)] == keys


# ---- the same records as a file ----


def records(n: int, rng: np.random.Generator) -> pa.Table:
    """Numbers, categories and persons, with gaps."""
    gaps = rng.random((4, n)) < 0.05
    return pa.table(
        {
            "x": pa.array(rng.integers(-2, 13, n), mask=gaps[0]),
            "z": pa.array(rng.normal(size=n), mask=gaps[1]),
            "c": pa.array(rng.choice(["a", "ü", "7", "7.0", " a", "b", ""], n), mask=gaps[2]),
            "who": pa.array(rng.choice([f"p{i}" for i in range(40)], n), mask=gaps[3]),
        }
    )


def written(engine: Engine, table: pa.Table) -> None:
    """Write the records into a database, text by text and number by number."""

    def literal(value: Any) -> str:
        if value is None:
            return "NULL"
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)

    rows = [f"({', '.join(map(literal, row.values()))})" for row in table.to_pylist()]
    types = ", ".join(f"{name} {engine.types[name]}" for name in table.column_names)
    engine.run("DROP TABLE IF EXISTS records", f"CREATE TABLE records ({types})")
    for start in range(0, len(rows), 500):
        engine.run(f"INSERT INTO records VALUES {', '.join(rows[start : start + 500])}")


def check_totals(engine: Engine, folder: Path, seed: int) -> None:
    """Totals are those of a Parquet file with the same records, bit for bit, also by persons and of categories."""
    table = records(400, np.random.default_rng(seed))
    pq.write_table(table, folder / "t.parquet")
    written(engine, table)
    for copy in (False, True):
        for found, expected in zip(
            totals(recoup.Table(engine.address, "records", copy=copy)), totals(folder / "t.parquet"), strict=True
        ):
            assert found == expected


def totals(X: Any) -> Iterator[list[int]]:
    """Totals of one grid query, by records and by persons, and of cells of numbers and categories."""
    from recoup.mixed import Mixed
    from recoup.queries.cells import VoronoiQuery

    factors = np.full(GRID.size, 2.0**29)
    yield open_source(X, BOX).total(GRID, factors)
    yield open_source(X, BOX, person="who").total(GRID, factors)
    key = "00112233445566778899aabbccddeeff"
    more: dict[str, Any] = {"per_person": "sample", "records_per_person": 3, "key": key}
    yield open_source(X, BOX, person="who", **more).total(GRID, factors)
    mixed = Mixed(schema=SCHEMA)
    cells = VoronoiQuery(centers=np.linspace(-0.5, 0.5, 2 * mixed.n_columns).reshape(2, -1))
    yield open_source(X, mixed).total(cells, np.full(cells.size, 2.0**20))
    yield open_source(X, mixed, person="who").total(cells, np.full(cells.size, 2.0**20))


# ---- what happens between rounds, and during one ----


def release_while(engine: Engine, folder: Path, meanwhile: Sequence[str]) -> recoup.Transcript:
    """A release of three rounds, with a ledger; some statements run after its first round."""
    written(engine, records(300, np.random.default_rng(0)))
    ledger = recoup.Ledger.create(folder / "ledger.db", epsilon=10)

    def on_round(number: int) -> None:
        if number == 1:
            engine.run(*meanwhile)

    return recoup.release(
        recoup.KMeans(n_clusters=2, n_rounds=3),
        recoup.Table(engine.address, "records"),
        domain=BOX,
        epsilon=1,
        ledger=ledger,
        path=folder / "t.json",
        on_round=on_round,
    )


def check_snapshot(engine: Engine) -> None:
    """A round that has begun reads what was there then, whatever is written meanwhile."""
    n = 50_000
    engine.run("DROP TABLE IF EXISTS records", f"CREATE TABLE records (x {engine.types['z']})")
    for start in range(0, n, 5_000):
        engine.run(f"INSERT INTO records VALUES {', '.join(f'({i})' for i in range(start, start + 5_000))}")
    blocks = open_table(recoup.Table(engine.address, "records"), ["x"]).blocks(1_000)
    read = [np.asarray(next(blocks))]
    if not isinstance(engine, DuckDBEngine):  # of whose file there is one writer, or readers
        engine.run("DELETE FROM records", "INSERT INTO records VALUES (-1)")
    read += [np.asarray(block) for block in blocks]
    np.testing.assert_array_equal(np.sort(np.concatenate(read)[:, 0]), np.arange(n))
