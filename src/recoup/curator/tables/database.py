"""Tables and views of databases, named and never described by SQL: `recoup.Table`, and how one is opened.

A statement of a user's own could join, rank or limit records, and then one of them would change what others contribute.
A name cannot. Every round reads one snapshot, of the declared columns alone.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from recoup._threads import prefetched
from recoup.curator.tables.catalogue import Database, each_saying_only, saying_only, unreadable
from recoup.curator.tables.copied import copied
from recoup.curator.tables.duckdb_table import DuckDBRelation, DuckDBTable, is_connection, is_relation
from recoup.curator.tables.postgres_table import PostgresTable
from recoup.curator.tables.sqlite_table import SQLiteTable
from recoup.curator.tables.table import OpenTable, TableRows, quietly
from recoup.curator.tables.wanted import Wanted
from recoup.errors import ParameterError

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SERVERS: Final = ("postgresql", "postgres")
_FILES: Final = ("sqlite", "duckdb")
# What an address may say beside the server: no password, and no settings of a session.
_PUBLIC: Final = frozenset(
    {
        *("host", "hostaddr", "port", "dbname", "user", "service", "passfile", "connect_timeout", "application_name"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "gssencmode", "krbsrvname", "channel_binding"),
        "target_session_attrs",
    }
)
_FORMS: Final = '"postgresql://host/database", "sqlite:///file.db", "duckdb:///file.duckdb"'


@dataclass(frozen=True)
class Table:
    """A table or view of a database, wherever a table can be handed over.

    Args:
        database: an address, `postgresql://host/database`, `sqlite:///file.db` or `duckdb:///file.duckdb` (four slashes
            before a path from the root), or a connection of DuckDB. A password is never part of it: PostgreSQL's
            library finds it in PGPASSWORD, in the file .pgpass, or by PGSERVICE.
        name: of the table or view, letter for letter; `schema.table` if its schema is not searched.
        copy: whether the declared columns are copied, when they are first read, into a private file of DuckDB that is
            removed in the end, so that all rounds read the same records.

    Guarantees: nothing is opened before records are. Every round reads one snapshot, in bounded memory, and only the
    declared columns; no record can make a statement fail, and no message of a database is passed on. Of a view the row
    is the unit: whoever made it declares that one person's data change no other row, and that no row can make it fail.
    Of a file of DuckDB they declare that the texts of a row in the declared columns have at most 32,000 bytes together:
    it loads them whole, 2,048 rows at a time and thread, and much longer ones would make every read fail.

    >>> Table("sqlite:///clinic.db", "visits")
    Table('sqlite:///clinic.db', 'visits')
    """

    database: Any
    name: str
    copy: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or "\0" in self.name:
            raise ParameterError("name is that of a table or view, as text.", parameter="name")
        if not isinstance(self.copy, bool):
            raise ParameterError("copy is True or False.", parameter="copy")
        if isinstance(self.database, str):
            check_address(self.database)
        elif not is_connection(self.database):
            raise ParameterError(
                f"database is a {type(self.database).__name__}: give an address such as {_FORMS}, or a connection of "
                "DuckDB.",
                parameter="database",
            )

    def __repr__(self) -> str:
        database = repr(self.database) if isinstance(self.database, str) else "<connection>"
        return f"Table({database}, {self.name!r}{', copy=True' if self.copy else ''})"


def is_address(X: object) -> bool:
    """Whether a text is an address and no path of a file."""
    return isinstance(X, str) and _URL.match(X) is not None


def check_address(address: str) -> None:
    """Refuse what is not the address of a database, or says more than where it is; nothing of it is quoted."""
    if not is_address(address) or not address.isprintable():
        raise _refused(f"this is no address of a database, such as {_FORMS}.")
    parts = quietly(lambda: urlsplit(address))
    if parts is None:
        raise _refused("its parts cannot be told apart.")
    more = dict(parse_qsl(parts.query, keep_blank_values=True))
    user, _, _ = parts.netloc.rpartition("@")
    # A password that was not encoded may look like another part.
    if ":" in user or "@" in parts.path + parts.query + user or {"password", "sslpassword"} & set(more):
        raise _refused(
            "a password must not be part of it. Put it into PGPASSWORD or the file .pgpass, where PostgreSQL's library "
            "finds it."
        )
    if "#" in address:
        raise _refused("it must not hold a #.")
    if parts.scheme in _FILES:
        if parts.netloc or parts.query or not parts.path.strip("/"):
            raise _refused(f"a file is named after three slashes, as in {parts.scheme}:///clinic.db.")
    elif parts.scheme in _SERVERS:
        if unknown := sorted(set(more) - _PUBLIC):
            raise _refused(f"{unknown[0]!r:.40} is no part of it that may be given here.")
    else:
        raise _refused(f"databases that can be read are {_FORMS}.")


def _refused(why: str) -> ParameterError:
    return ParameterError(f"the address of the database: {why}", parameter="database")


def is_database(X: object) -> bool:
    """Whether records lie in a database; its library need not be installed to find out."""
    return isinstance(X, Table) or is_connection(X) or is_relation(X)


def open_database(X: Any, wanted: Wanted) -> OpenTable:
    """Open a table of a database, or a relation of DuckDB that is one; see `open_table`."""
    if is_connection(X):
        raise ParameterError("a connection has many tables: name one by recoup.Table(connection, name).")
    database = DuckDBRelation(X) if is_relation(X) else _database(X)
    columns = saying_only(unreadable(database.shown), database.columns)
    names = [column.name for column in columns]
    positions = wanted.select(names, hint="Names are exact, as in the database.")
    chosen, rules = [columns[position] for position in positions], wanted.rules(len(positions))
    for position, column, rule in zip(positions, chosen, rules, strict=True):
        rule.check(wanted.shown(names, position), column.kind, column.declared or "no type")

    def read(block_rows: int) -> Generator[TableRows, None, None]:
        blocks = database.read(chosen, rules, block_rows)
        for made in each_saying_only(unreadable(database.shown), blocks):
            yield wanted.block(made.arrays, made.n_rows)

    kinds = [column.kind for column in chosen]
    table = wanted.table(names, positions, lambda block_rows: prefetched(read(block_rows)), kinds)
    return copied(table) if isinstance(X, Table) and X.copy else table


def _database(table: Table) -> Database:
    name, shown = table.name, f"table {table.name!r}"
    if not isinstance(table.database, str):
        return DuckDBTable(table.database, name, shown)
    parts = urlsplit(table.database)
    if parts.scheme in _SERVERS:
        return PostgresTable(table.database, name, shown)
    # As others write it: after the third slash comes the path.
    path = Path(unquote(parts.path[1:]))
    return SQLiteTable(path, name, shown) if parts.scheme == "sqlite" else DuckDBTable(path, name, shown)
