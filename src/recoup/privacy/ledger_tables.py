"""The tables of a ledger's file: how they are made, and how a file is known to hold them and nothing else.

A SQLite file can hold views and triggers, which are programs, and cells of any kind in any column. So nothing is asked
of a file before its tables are known to be ours, and a number is looked at before it is computed with.

Version 1 had neither an identifier nor units. Such a file is read as it is, and becomes one of version 2 when its unit
is declared.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from functools import cache
from typing import Final

from recoup.errors import LedgerFormatError, ParameterError
from recoup.privacy.unit import Unit

VERSION: Final = 2
_APPLICATION_ID: Final = 0x52434C44  # "RCLD", in the file's header
_FRACTION: Final = re.compile(r"[0-9]{1,4000}/[0-9]{1,4000}")
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{32}")
_LONGEST_UNIT: Final = 200  # characters

_BUDGET: Final = "id, epsilon, delta, rho, time, library"
_ENTRY: Final = (
    "id, run, purpose, measure, amount, spent_after, pure_after, rho_after, n_zcdp_after, time, library"  # of version 1
)


def _schema(version: int) -> tuple[str, ...]:
    identity, unit = (", identifier TEXT NOT NULL, unit TEXT", ", unit TEXT NOT NULL") if version > 1 else ("", "")
    return (
        f"""CREATE TABLE budget (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, time TEXT NOT NULL, library TEXT NOT NULL{identity}
)""",
        f"""CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL, purpose TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('pure', 'zcdp')), amount TEXT NOT NULL,
    spent_after TEXT NOT NULL, pure_after TEXT NOT NULL, rho_after TEXT NOT NULL, n_zcdp_after INTEGER NOT NULL,
    time TEXT NOT NULL, library TEXT NOT NULL{unit}
)""",
    )


def make_tables(connection: sqlite3.Connection, version: int = VERSION) -> None:
    """Make the tables of an empty database, in a transaction that is left open."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    for statement in _schema(version):
        connection.execute(statement)


def renew_tables(connection: sqlite3.Connection, identifier: str, unit: Unit) -> None:
    """Make tables of version 1 into ours, in a transaction that is open: all charges so far were for this unit."""
    for table in ("budget", "entry"):
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in _schema(VERSION):
        connection.execute(statement)
    text = unit_text(unit)
    connection.execute(
        f"INSERT INTO budget ({_BUDGET}, identifier, unit) SELECT {_BUDGET}, ?, ? FROM old_budget", (identifier, text)
    )
    connection.execute(f"INSERT INTO entry ({_ENTRY}, unit) SELECT {_ENTRY}, ? FROM old_entry ORDER BY id", (text,))
    # Seconds tell how long a round took, and so the number of records: no trace of them stays in the file.
    connection.execute("PRAGMA secure_delete = ON")
    for table in ("budget", "entry"):
        connection.execute(f"UPDATE {table} SET time = substr(time, 1, 10)")
        connection.execute(f"DROP TABLE old_{table}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def check_tables(connection: sqlite3.Connection, name: str) -> int:
    """Refuse what is not a ledger of a known version, with our tables alone.

    Args:
        connection: to the file.
        name: of the file, for errors.

    Returns:
        The version.

    Raises:
        LedgerFormatError: it is something else.
    """
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise LedgerFormatError(f"{name} is not a Recoup ledger. Check the path, or make one with Ledger.create.")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= version <= VERSION:
        raise LedgerFormatError(
            f"{name} is a ledger of version {version}; this library reads up to {VERSION}. Update Recoup."
        )
    if _tables(connection) != _own_tables(version):
        raise LedgerFormatError(f"{name} holds other tables than a ledger: it is damaged, or was changed by hand.")
    return int(version)


def _tables(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return {tuple(" ".join(str(value).split()) for value in row) for row in rows}


@cache
def _own_tables(version: int) -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_tables(connection, version)
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


def unit_text(unit: Unit) -> str:
    """A unit as it is kept.

    >>> unit_text(Unit())
    '{"kind": "record", "records_per_person": 1}'
    """
    return json.dumps(unit.to_json())


def read_unit(text: object, name: str) -> Unit:
    """Read a unit that `unit_text` wrote.

    Args:
        text: from a cell, of any type.
        name: of the file, for errors.

    Returns:
        The unit.

    >>> read_unit('{"kind": "record", "records_per_person": 5}', "l.db").records_per_person
    5
    """
    try:
        if isinstance(text, str) and len(text) <= _LONGEST_UNIT:
            return Unit.from_json(json.loads(text))
    except (ValueError, ParameterError):
        pass
    raise LedgerFormatError(f"{name} counts for a unit that is not known: it is damaged, or Recoup must be updated.")


def read_identifier(text: object, name: str) -> str:
    """Read a ledger's identifier.

    Args:
        text: from a cell, of any type.
        name: of the file, for errors.

    Returns:
        The identifier, 32 hexadecimal digits.

    >>> read_identifier("0" * 32, "l.db") == "0" * 32
    True
    """
    if isinstance(text, str) and _IDENTIFIER.fullmatch(text):
        return text
    raise LedgerFormatError(f"{name} has no identifier: it is damaged. Take its budget as spent.")
