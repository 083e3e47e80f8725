"""A ledger's SQLite: where it lives, what its tables are, and how they are read and written.

A SQLite file can hold views and triggers, which are programs, and cells of any kind in any column. So nothing is asked
of a file before its tables are known to be ours, and a number is looked at before it is computed with.

Version 1 had neither an identifier nor units, versions 1 and 2 added up zCDP, and version 3 did not say what releases
were for. Such a file is read as it is, and stays so; one of version 1 becomes one of today's when its unit is declared,
any other when a release says what it is for. It goes on to add up as before.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, cast, get_args

from recoup.errors import Call, LedgerError, LedgerFormatError, LedgerLockedError, ParameterError
from recoup.privacy.gaussian import Accounting
from recoup.privacy.ledger_rules import Budget, State, Totals
from recoup.privacy.price import MEASURES, Measure, Price
from recoup.privacy.statement import LONGEST_NAME, Unit
from recoup.version import __version__

VERSION: Final = 4
_APPLICATION_ID: Final = 0x52434C44  # "RCLD", in the file's header
_FRACTION: Final = re.compile(r"[0-9]{1,4000}/[0-9]{1,4000}")
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{32}")
_LONGEST_LINE: Final = 200  # characters of what is said of a release
_LONGEST_UNIT: Final = 200 + 12 * LONGEST_NAME  # characters, of which a letter can take twelve
# The columns of version 1.
_BUDGET: Final = "id, epsilon, delta, rho, time, library"
_ENTRY: Final = "id, run, purpose, measure, amount, spent_after, pure_after, rho_after, n_zcdp_after, time, library"


class Entry(NamedTuple):
    """One charge; entries are in the order of their ids.

    Attributes:
        amount: its price, for its own unit.
        spent_after: the epsilon that was spent after it, for the ledger's unit.
        time: the day on which its run began, for people to read: clocks may go back.
        unit: whose presence the price hides; none in a ledger of an earlier version.
    """

    id: int
    run: str
    purpose: str
    measure: Measure
    amount: Fraction
    spent_after: Fraction
    time: str
    library: str
    unit: Unit | None


class Said(NamedTuple):
    """What was said of a release, in public, when it began: what it is for, and who made it; empty where nobody did."""

    purpose: str = ""
    by: str = ""


class File:
    """A ledger's file; every operation has its own connection, so threads and forked processes share none."""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self.path = Path(path).absolute()
        self.timeout = timeout
        self.name = str(self.path)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection whose errors are typed; what was not committed is rolled back."""
        if os.path.isdir(self.path):
            raise LedgerFormatError(f"{self.name} is a folder, not a ledger.")
        if not os.path.exists(self.path):
            file = self.path.name
            make = Call(f'Ledger.create("{file}", epsilon=3)', f"recoup ledger create {file} --epsilon 3")
            raise LedgerError(f"There is no ledger {self.name}. Make one with ", make, ".")
        try:
            # mode=rw never creates; closing without a commit rolls back.
            uri = f"{self.path.as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA trusted_schema = OFF")
                yield connection
        except sqlite3.Error as error:
            _raise_typed(error, self.name, self.timeout)
        except UnicodeDecodeError:
            # SQLite quotes what it cannot read.
            raise LedgerFormatError(f"{self.name} is a damaged ledger. Bring back the file from a copy.") from None


class Memory:
    """One connection behind a lock, in one process."""

    path = None
    name = "in memory"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time; what was not committed is rolled back."""
        if os.getpid() != self._process:
            raise LedgerError(
                "This ledger lives in the memory of another process, and here it would be a second budget. "
                "Use Ledger.create(path, ...), which processes can share."
            )
        with self._lock:
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def __del__(self) -> None:
        self._connection.close()


@contextmanager
def transaction(store: File | Memory) -> Iterator[sqlite3.Connection]:
    """A connection beside which nobody else writes; what was done is kept when the block ends well."""
    with store.connection() as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def _raise_typed(error: sqlite3.Error, name: str, timeout: float) -> NoReturn:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise LedgerLockedError(
            f"Another process has held the ledger {name} for more than {timeout:g} s. Nothing was charged. Try again",
            Call(", or give a longer timeout", ""),
            ".",
        ) from error
    # SQLITE_ERROR is a table or column that is not there: our statements themselves are right.
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        raise LedgerFormatError(
            f"{name} is not a ledger, or is damaged ({error}). Check the path, or bring back the file from a copy; a "
            "budget that is unknown must be taken as spent."
        ) from error
    raise LedgerError(f"The ledger {name} cannot be used: {error}. Nothing may be released.") from error


def create(connection: sqlite3.Connection, budget: Budget, unit: Unit | None) -> None:
    """Make the tables of an empty database and a budget in them, in a transaction that is open."""
    _make_tables(connection, VERSION)
    connection.execute(
        f"INSERT INTO budget ({_BUDGET}, identifier, unit, accounting) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(*map(fraction_text, budget[:3]), _today(), __version__),
            *(uuid.uuid4().hex, unit and _unit_text(unit), budget.accounting),
        ),
    )


def declare(connection: sqlite3.Connection, state: State, unit: Unit) -> None:
    """Keep the unit, in a transaction that is open; in a file of version 1, all charges so far were for it."""
    if state.identifier is not None:
        connection.execute("UPDATE budget SET unit = ?", (_unit_text(unit),))
    else:
        _bring_up_to_date(connection, state._replace(identifier=uuid.uuid4().hex, unit=unit), own_units=False)


def say(connection: sqlite3.Connection, name: str, run: str, said: Said) -> None:
    """Keep what is said of a release, in a transaction that is open; what was said of its run before stays."""
    state = read_state(connection, name)
    if connection.execute("PRAGMA user_version").fetchone()[0] < VERSION:
        if not said.purpose or state.identifier is None:
            return
        _bring_up_to_date(connection, state, own_units=True)
    connection.execute(
        "INSERT INTO said (run, purpose, who) VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE"
        " SET purpose = excluded.purpose WHERE said.purpose = ''",
        (run, *said),
    )


def read_said(connection: sqlite3.Connection, name: str) -> dict[str, Said]:
    """What was said of each run."""
    if _check_tables(connection, name) < VERSION:
        return {}
    rows = connection.execute("SELECT run, purpose, who FROM said ORDER BY rowid").fetchall()
    if not all(isinstance(text, str) and is_line(text) for row in rows for text in row):
        raise LedgerFormatError(f"{name} says of a release what nobody can have said: it is damaged.")
    return {run: Said(*said) for run, *said in rows}


def is_line(text: str) -> bool:
    """Whether a text can be shown and kept as one line."""
    return text.isprintable() and len(text) <= _LONGEST_LINE


def _bring_up_to_date(connection: sqlite3.Connection, state: State, *, own_units: bool) -> None:
    """Make a file of an earlier version one of today's, in a transaction that is open; sums and entries stay."""
    for table in ("budget", "entry"):
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in _schema(VERSION):
        connection.execute(statement)
    text = state.unit and _unit_text(state.unit)
    connection.execute(
        f"INSERT INTO budget ({_BUDGET}, identifier, unit, accounting) SELECT {_BUDGET}, ?, ?, ? FROM old_budget",
        (state.identifier, text, state.budget.accounting),
    )
    unit, given = ("unit", ()) if own_units else ("?", (text,))
    connection.execute(f"INSERT INTO entry ({_ENTRY}, unit) SELECT {_ENTRY}, {unit} FROM old_entry ORDER BY id", given)
    # Seconds tell how long a round took, and so the number of records: no trace of them stays in the file.
    connection.execute("PRAGMA secure_delete = ON")
    for table in ("budget", "entry"):
        connection.execute(f"UPDATE {table} SET time = substr(time, 1, 10)")
        connection.execute(f"DROP TABLE old_{table}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def read_state(connection: sqlite3.Connection, name: str) -> State:
    """All but the entries; what no charges could have led to is refused."""
    version = _check_tables(connection, name)
    known = "identifier, budget.unit, accounting" if version > 2 else "identifier, budget.unit, 'zcdp'"
    known = known if version > 1 else "NULL, NULL, 'zcdp'"
    # One statement, so that budget and totals are of one moment.
    row = connection.execute(
        f"SELECT epsilon, delta, rho, spent_after, pure_after, rho_after, n_zcdp_after, {known} FROM budget"
        " LEFT JOIN entry ON entry.id = (SELECT max(id) FROM entry)"
    ).fetchone()
    if row is None:
        raise LedgerFormatError(f"{name} is a ledger without a budget: it is damaged.")
    if row[9] not in get_args(Accounting):
        raise LedgerFormatError(f"{name} adds up in a way that is not known: it is damaged, or Recoup must be updated.")
    epsilon, delta, rho = (read_fraction(text, name) for text in row[:3])
    state = State(Budget(epsilon, delta, rho, row[9]))
    if version > 1:
        if not isinstance(row[7], str) or not _IDENTIFIER.fullmatch(row[7]):
            raise LedgerFormatError(f"{name} has no identifier: it is damaged. Take its budget as spent.")
        unit = None if row[8] is None else _read_unit(row[8], name)
        state = state._replace(identifier=row[7], unit=unit)
        if unit is None and row[3] is not None:
            raise LedgerFormatError(f"{name} holds charges and does not say for whom: it is damaged.")
    if row[3] is not None:
        spent, pure, rho = (read_fraction(text, name) for text in row[3:6])
        state = state._replace(totals=Totals(pure, rho, row[6]), spent=spent)
    if not state.possible:
        raise LedgerFormatError(f"{name} holds numbers that no ledger can: it is damaged. Take its budget as spent.")
    return state


def add_entry(
    connection: sqlite3.Connection, price: Price, after: State, *, purpose: str, run: str, unit: Unit, day: str
) -> Entry:
    """Write one charge, in a transaction that is open; `after` is the state that it leads to."""
    totals = after.totals
    if price.measure == "gaussian" and after.budget.accounting == "zcdp":
        price = Price(measure="zcdp", amount=price.amount)
    cursor = connection.execute(
        "INSERT INTO entry (run, purpose, measure, amount, spent_after, pure_after, rho_after, n_zcdp_after,"
        " time, library, unit) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(run, purpose, price.measure, fraction_text(price.amount), fraction_text(after.spent)),
            *(fraction_text(totals.pure), fraction_text(totals.rho), totals.n_zcdp, day, __version__),
            _unit_text(unit),
        ),
    )
    number = cast(int, cursor.lastrowid)
    return Entry(number, run, purpose, price.measure, price.amount, after.spent, day, __version__, unit)


def charges_of(connection: sqlite3.Connection, run: str) -> tuple[int, str]:
    """How many charges a run has, and the day on which it began: today, if it has none or is not named."""
    n_charged, day = connection.execute(
        "SELECT count(*), (SELECT time FROM entry WHERE run = ?1 ORDER BY id LIMIT 1) FROM entry WHERE run = ?1", (run,)
    ).fetchone()
    return n_charged, str(day)[:10] if n_charged and run else _today()


def read_entries(connection: sqlite3.Connection, name: str) -> tuple[Entry, ...]:
    """All charges, oldest first."""
    has_units = read_state(connection, name).identifier is not None
    columns = [field if has_units or field != "unit" else "NULL" for field in Entry._fields]
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM entry ORDER BY id").fetchall()
    entries = [_entry(row, name) for row in rows]
    # An earlier version kept the seconds of each charge.
    days: dict[str, str] = {}
    return tuple(e._replace(time=days.setdefault(e.run or str(e.id), e.time[:10])) for e in entries)


def _schema(version: int) -> tuple[str, ...]:
    identity, unit = (", identifier TEXT NOT NULL, unit TEXT", ", unit TEXT NOT NULL") if version > 1 else ("", "")
    accounting, gaussian = (", accounting TEXT NOT NULL", ", 'gaussian'") if version > 2 else ("", "")
    identity += accounting
    said = "CREATE TABLE said (run TEXT PRIMARY KEY, purpose TEXT NOT NULL, who TEXT NOT NULL)"
    return (
        f"""CREATE TABLE budget (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, time TEXT NOT NULL, library TEXT NOT NULL{identity}
)""",
        f"""CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL, purpose TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('pure', 'zcdp'{gaussian})), amount TEXT NOT NULL,
    spent_after TEXT NOT NULL, pure_after TEXT NOT NULL, rho_after TEXT NOT NULL, n_zcdp_after INTEGER NOT NULL,
    time TEXT NOT NULL, library TEXT NOT NULL{unit}
)""",
        *([said] if version > 3 else []),
    )


def _make_tables(connection: sqlite3.Connection, version: int) -> None:
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    for statement in _schema(version):
        connection.execute(statement)


def _check_tables(connection: sqlite3.Connection, name: str) -> int:
    """Refuse what is not a ledger of a known version, with our tables alone."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        make = Call("Ledger.create", "recoup ledger create")
        raise LedgerFormatError(f"{name} is not a Recoup ledger. Check the path, or make one with ", make, ".")
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
        _make_tables(connection, version)
        return _tables(connection)


def fraction_text(value: Fraction) -> str:
    """A fraction as it is kept, with a denominator even if it is 1."""
    return f"{value.numerator}/{value.denominator}"


def read_fraction(text: object, name: str) -> Fraction:
    """Read a fraction that `fraction_text` wrote."""
    try:
        if isinstance(text, str) and _FRACTION.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise LedgerFormatError(f"{name} holds a number that is none: it is damaged. Take its budget as spent.")


def _unit_text(unit: Unit) -> str:
    return json.dumps(unit.to_json())


def _read_unit(text: object, name: str) -> Unit:
    try:
        if isinstance(text, str) and len(text) <= _LONGEST_UNIT:
            return Unit.from_json(json.loads(text))
    except (ValueError, ParameterError):
        pass
    raise LedgerFormatError(f"{name} counts for a unit that is not known: it is damaged, or Recoup must be updated.")


def _entry(row: tuple[Any, ...], name: str) -> Entry:
    entry = Entry(*row)
    entry = entry._replace(amount=read_fraction(row[4], name), spent_after=read_fraction(row[5], name))
    texts = (entry.run, entry.purpose, entry.time, entry.library)
    if entry.amount == 0 or entry.measure not in MEASURES or not all(isinstance(text, str) for text in texts):
        raise LedgerFormatError(f"{name} holds an entry that is none: it is damaged.")
    return entry if entry.unit is None else entry._replace(unit=_read_unit(entry.unit, name))


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
