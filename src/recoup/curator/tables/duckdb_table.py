"""Tables of DuckDB: a file, a live connection, or a relation that is one table.

A file is opened for reading only, for each round anew, without extensions or files beside it. Of a live connection a
cursor is made, with a transaction of its own: what the connection has not committed is not seen.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from recoup._threads import n_threads
from recoup.curator.tables.catalogue import (
    LONG,
    LONGEST_TEXT,
    Column,
    check_unchanged,
    found_table,
    made_of,
    quoted,
    saying_only,
)
from recoup.curator.tables.rules import Made, Rule
from recoup.curator.tables.table import is_a
from recoup.errors import DatabaseError, DataError

# By the library's own names of types. A wide integer comes as text: Arrow has no type that holds it.
_KINDS: Final = {
    **{"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "decimal": pa.decimal128(38, 0)},
    **{"tinyint": pa.int8(), "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64()},
    **{"utinyint": pa.uint8(), "usmallint": pa.uint16(), "uinteger": pa.uint32(), "ubigint": pa.uint64()},
    **{"hugeint": pa.decimal128(38, 0), "uhugeint": pa.decimal128(38, 0)},
    **{"varchar": pa.string(), "enum": pa.string(), "uuid": pa.string(), "date": pa.date32()},
    **{"timestamp": pa.timestamp("us"), "timestamp with time zone": pa.timestamp("us", "UTC")},
    **{"timestamp_s": pa.timestamp("s"), "timestamp_ms": pa.timestamp("ms"), "timestamp_ns": pa.timestamp("ns")},
}
_WIDE: Final = ("hugeint", "uhugeint")
# Functions by their full names: a database may have others of the same short ones.
_SHORT: Final = f"CASE WHEN system.main.strlen({{0}}) > {LONGEST_TEXT} THEN '{LONG}' ELSE {{0}} END"
_AS_TEXT: Final = "CAST({0} AS VARCHAR)"
_CASTS: Final = {"varchar": _SHORT, "enum": _AS_TEXT, "uuid": _AS_TEXT, **dict.fromkeys(_WIDE, _AS_TEXT)}
_SETTINGS: Final = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": False,
}
# Megabytes for each thread, which loads the texts of 2,048 rows whole before it asks how long they are. Twice and more
# what `recoup.Table` has operators declare, since the library rounds up. Without texts blocks are small, and the rest
# would fill with what was read.
_MEMORY, _MEMORY_WITHOUT_TEXTS = 256, 64
_TABLES: Final = """
SELECT database_name, schema_name, table_name FROM system.main.duckdb_tables() WHERE NOT internal AND NOT temporary
UNION ALL
SELECT database_name, schema_name, view_name FROM system.main.duckdb_views() WHERE NOT internal AND NOT temporary
"""
_VISIBLE: Final = "SELECT system.main.current_database(), system.main.current_schema()"
_PLAIN_RELATIONS: Final = ("TABLE_RELATION", "VIEW_RELATION")


def is_connection(X: object) -> bool:
    """Whether this is a connection of DuckDB."""
    return is_a(X, "_duckdb", "DuckDBPyConnection") or is_a(X, "duckdb", "DuckDBPyConnection")


def is_relation(X: object) -> bool:
    """Whether this is a relation of DuckDB."""
    return is_a(X, "duckdb", "DuckDBPyRelation") or is_a(X, "_duckdb", "DuckDBPyRelation")


def connected(path: Path, *, read_only: bool = True) -> Any:
    """A connection to a file, which has nothing but that file."""
    try:
        import duckdb
    except ImportError:
        raise DatabaseError("DuckDB is not installed. Install it with: pip install 'recoup[db]'") from None
    # Without its own file DuckDB would make an empty one.
    limits = {"threads": n_threads(), "memory_limit": f"{_MEMORY * n_threads()}MB"}
    return duckdb.connect(str(path), read_only=read_only, config={**_SETTINGS, **limits})


class DuckDBTable:
    """One table of a file, or of a live connection."""

    def __init__(self, database: Path | Any, name: str, shown: str) -> None:
        self._database, self._name, self.shown = database, name, shown

    def columns(self) -> list[Column]:
        """Its columns, of which the catalogue alone was read."""
        with self._snapshot() as connection:
            return _columns(self._relation(connection))

    def read(self, columns: Sequence[Column], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        """Read some columns, each by its rule, in one snapshot and in blocks."""
        with self._snapshot() as connection:
            relation = self._relation(connection)
            check_unchanged(_columns(relation), columns, self.shown)
            if isinstance(self._database, Path) and not any(column.cast == _SHORT for column in columns):
                connection.execute(f"SET memory_limit = '{_MEMORY_WITHOUT_TEXTS * n_threads()}MB'")
            yield from _blocks(relation, columns, rules, block_rows)

    def _relation(self, connection: Any) -> Any:
        tables = connection.execute(_TABLES).fetchall()
        visible = connection.execute(_VISIBLE).fetchall()
        found = found_table(self._name, tables, visible, self.shown)
        return connection.sql(f"SELECT * FROM {'.'.join(map(quoted, found))}")

    @contextmanager
    def _snapshot(self) -> Iterator[Any]:
        with closing(saying_only(_away(self.shown), self._connect)) as connection:
            connection.begin()
            try:
                yield connection
            finally:
                with suppress(Exception):
                    connection.rollback()

    def _connect(self) -> Any:
        return connected(self._database) if isinstance(self._database, Path) else self._database.cursor()


class DuckDBRelation:
    """A relation that is one table or view, read by the connection that it belongs to."""

    def __init__(self, relation: Any) -> None:
        self._relation, self.shown = relation, "the table of this relation"
        if str(relation.type) not in _PLAIN_RELATIONS:
            raise DataError(
                "A relation of DuckDB is read only if it is one table or view, such as connection.table(name): joins, "
                "windows and limits would let one record change others. Name a view by recoup.Table(connection, name)."
            )

    def columns(self) -> list[Column]:
        """Its columns, of which the catalogue alone was read."""
        return _columns(self._relation)

    def read(self, columns: Sequence[Column], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        """Read some columns, each by its rule, in one statement and in blocks."""
        yield from _blocks(self._relation, columns, rules, block_rows)


def _columns(relation: Any) -> list[Column]:
    return [_column(name, kind) for name, kind in zip(relation.columns, relation.types, strict=True)]


def _column(name: str, kind: Any) -> Column:
    identity = kind.id
    declared = str(kind) if identity != "enum" else "ENUM"
    return Column(name, declared, _KINDS.get(identity), identity in _WIDE, _CASTS.get(identity))


def _blocks(
    relation: Any, columns: Sequence[Column], rules: Sequence[Rule], block_rows: int
) -> Generator[Made, None, None]:
    asked = [(column.cast or "{0}").format(quoted(column.name)) for column in columns]
    selected = relation.project(", ".join(f"{cells} AS c{i}" for i, cells in enumerate(asked)))
    with closing(selected.to_arrow_reader(block_rows)) as reader:
        for batch in reader:
            for start in range(0, batch.num_rows, block_rows):
                yield made_of(batch.slice(start, block_rows), columns, rules)


def _away(shown: str) -> str:
    return (
        f"The database with {shown} cannot be opened: there is no such file, it is no database of DuckDB or one of "
        "another version, or somebody writes to it. If this program has it open, hand over that connection."
    )
