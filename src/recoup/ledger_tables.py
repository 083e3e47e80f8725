"""The tables of a ledger's file: how they are made, and how a file is known to hold them and nothing else.

A SQLite file can hold views and triggers, which are programs, and cells of any kind in any column. So nothing is asked
of a file before its tables are known to be ours, and a number is looked at before it is computed with.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from functools import cache
from typing import Final

from recoup.errors import LedgerFormatError

VERSION: Final = 1
_APPLICATION_ID: Final = 0x52434C44  # "RCLD", in the file's header
_FRACTION: Final = re.compile(r"[0-9]{1,4000}/[0-9]{1,4000}")

_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {VERSION};
CREATE TABLE budget (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, time TEXT NOT NULL, library TEXT NOT NULL
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL, purpose TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('pure', 'zcdp')), amount TEXT NOT NULL,
    spent_after TEXT NOT NULL, pure_after TEXT NOT NULL, rho_after TEXT NOT NULL, n_zcdp_after INTEGER NOT NULL,
    time TEXT NOT NULL, library TEXT NOT NULL
);
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty database, in a transaction that is left open."""
    connection.executescript(_SCHEMA)


def check_tables(connection: sqlite3.Connection, name: str) -> None:
    """Refuse what is not a ledger of our version, with our tables alone.

    Args:
        connection: to the file.
        name: of the file, for errors.

    Raises:
        LedgerFormatError: it is something else.
    """
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise LedgerFormatError(f"{name} is not a Recoup ledger. Check the path, or make one with Ledger.create.")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise LedgerFormatError(
            f"{name} is a ledger of version {version}; this library reads {VERSION}. Update Recoup."
        )
    if _tables(connection) != _own_tables():
        raise LedgerFormatError(f"{name} holds other tables than a ledger: it is damaged, or was changed by hand.")


def _tables(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return {tuple(" ".join(str(value).split()) for value in row) for row in rows}


@cache
def _own_tables() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_tables(connection)
        return _tables(connection)


def fraction_text(value: Fraction) -> str:
    """A fraction as it is kept.

    >>> fraction_text(Fraction(3))
    '3/1'
    """
    return f"{value.numerator}/{value.denominator}"


def read_fraction(text: object, name: str) -> Fraction:
    """Read a fraction that `fraction_text` wrote.

    Args:
        text: from a cell, of any type.
        name: of the file, for errors.

    Returns:
        The fraction.

    Guarantees: quick, whatever the text; an exponent of ten characters could take all memory.

    >>> read_fraction("1/10", "l.db")
    Fraction(1, 10)
    """
    try:
        if isinstance(text, str) and _FRACTION.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise LedgerFormatError(f"{name} holds a number that is none: it is damaged. Take its budget as spent.")
