"""Tables of PostgreSQL, as streams of Arrow batches by ADBC.

Nothing is cast on the server that could fail: numbers are sent as they are, `numeric` as text. How to log in is read by
PostgreSQL's own library from its own places, and never passes through here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import pyarrow as pa

from recoup.curator.tables.catalogue import (
    LOCK_SECONDS,
    LONG,
    LONGEST_TEXT,
    READ_SECONDS,
    Column,
    check_unchanged,
    found_table,
    made_of,
    quoted,
    saying_only,
)
from recoup.curator.tables.rules import Made, Rule
from recoup.errors import DatabaseError

_KINDS: Final = {
    **{"bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64()},
    **{"float4": pa.float32(), "float8": pa.float64(), "uuid": pa.string()},
    **dict.fromkeys(("text", "varchar", "bpchar"), pa.string()),
}
_TEXTS: Final = ("text", "varchar", "bpchar")
_SHORT: Final = f"CASE WHEN pg_catalog.octet_length({{0}}) > {LONGEST_TEXT} THEN '{LONG}' ELSE {{0}} END"
_AS_TEXT: Final = "{0}::pg_catalog.text"
# In another one, and in SQL_ASCII, which checks nothing, a text may have no form in UTF-8: reading it would fail.
_ENCODING: Final = "UTF8"
_FREE: Final = pa.decimal128(38, 0)  # a number of any length
_MOST_DIGITS: Final = 76  # that Arrow has
_SETTINGS: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'",
    f"SET LOCAL statement_timeout = '{READ_SECONDS}s'",
    "SET LOCAL client_encoding = 'UTF8'",
)
# For the library that connects: how soon it notices that a server does not answer.
_PATIENCE: Final = {"connect_timeout": LOCK_SECONDS, "keepalives_idle": 30, "keepalives_interval": 10}
_TABLES: Final = """
SELECT n.nspname::text, c.relname::text, c.oid::int8
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_VISIBLE: Final = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))::text"
# A domain is what it is a domain of.
_COLUMNS: Final = """
WITH RECURSIVE kinds (place, name, declared, kind, modifier) AS (
  SELECT attnum, attname, pg_catalog.format_type(atttypid, NULL), atttypid, atttypmod
  FROM pg_catalog.pg_attribute WHERE attrelid = {table}::pg_catalog.oid AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT k.place, k.name, k.declared, t.typbasetype, t.typtypmod
  FROM kinds k JOIN pg_catalog.pg_type t ON t.oid = k.kind WHERE t.typtype = 'd'
)
SELECT k.name::text, k.declared::text, k.modifier::int8,
  CASE WHEN t.typtype = 'e' THEN 'enum' WHEN n.nspname = 'pg_catalog' THEN t.typname::text ELSE '' END
FROM kinds k JOIN pg_catalog.pg_type t ON t.oid = k.kind JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE t.typtype <> 'd' ORDER BY k.place
"""


class PostgresTable:
    """One table, read by a connection of its own in every round."""

    def __init__(self, url: str, name: str, shown: str) -> None:
        self._url, self._name, self.shown = url, name, shown

    def columns(self) -> list[Column]:
        """Its columns, of which the catalogue alone was read."""
        with self._snapshot() as cursor:
            return self._columns(cursor)[1]

    def read(self, columns: Sequence[Column], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        """Read some columns, each by its rule, in one snapshot and in blocks."""
        with self._snapshot() as cursor:
            table, now = self._columns(cursor)
            check_unchanged(now, columns, self.shown)
            asked = [(column.cast or "{0}").format(f"t.{quoted(column.name)}") for column in columns]
            cursor.execute(f"SELECT {', '.join(asked)} FROM {table} AS t")
            with closing(cursor.fetch_record_batch()) as reader:
                for batch in reader:
                    for start in range(0, batch.num_rows, block_rows):
                        yield made_of(batch.slice(start, block_rows), columns, rules)

    def _columns(self, cursor: Any) -> tuple[str, list[Column]]:
        numbers = {(schema, name): number for schema, name, number in _rows(cursor, _TABLES)}
        visible = [(schema,) for (schema,) in _rows(cursor, _VISIBLE)]
        found = found_table(self._name, list(numbers), visible, self.shown)
        columns = [_column(*row) for row in _rows(cursor, _COLUMNS.format(table=int(numbers[found[0], found[1]])))]
        ((encoding,),) = _rows(cursor, "SELECT pg_catalog.current_setting('server_encoding')")
        if encoding != _ENCODING:
            columns = [column._replace(kind=None) if column.kind == pa.string() else column for column in columns]
        return ".".join(map(quoted, found)), columns

    @contextmanager
    def _snapshot(self) -> Iterator[Any]:
        with (
            closing(saying_only(_away(self.shown), self._connect)) as connection,
            closing(connection.cursor()) as cursor,
        ):
            for words in _SETTINGS:
                cursor.execute(words)
            try:
                yield cursor
            finally:
                with suppress(Exception):
                    cursor.execute("ROLLBACK")

    def _connect(self) -> Any:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError:
            raise DatabaseError(
                "The driver for PostgreSQL is not installed. Install it with: pip install 'recoup[db]'"
            ) from None
        more = "&".join(f"{name}={value}" for name, value in _PATIENCE.items() if f"{name}=" not in self._url)
        # Each statement for itself: the transaction is begun by one.
        return dbapi.connect(f"{self._url}{'&' if '?' in self._url else '?'}{more}", autocommit=True)


def _rows(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _column(name: str, declared: str, modifier: int, kind: str) -> Column:
    if kind == "numeric":
        precision, scale = (modifier - 4) >> 16, (((modifier - 4) & 0x7FF) ^ 0x400) - 0x400
        if modifier < 4 or precision > _MOST_DIGITS or not 0 <= scale <= precision:
            return Column(name, declared, _FREE, numeral=True)
        decimal = pa.decimal128 if precision <= 38 else pa.decimal256
        return Column(name, declared, decimal(precision, scale))
    if kind in ("enum", "uuid"):
        return Column(name, declared, pa.string(), cast=_AS_TEXT)
    return Column(name, declared, _KINDS.get(kind), cast=_SHORT if kind in _TEXTS else None)


def _away(shown: str) -> str:
    return (
        f"The database with {shown} cannot be reached, or does not let this user in. Check that it runs, and what "
        "PGHOST, PGUSER, PGPASSWORD, PGSERVICE and the file .pgpass say."
    )
