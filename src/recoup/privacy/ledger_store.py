"""Where a ledger's tables live: a file that processes share, or the memory of one process."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

from recoup.errors import LedgerError, LedgerFormatError, LedgerLockedError


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
            raise LedgerError(
                f'There is no ledger {self.name}. Make one with Ledger.create("{self.path.name}", epsilon=3).'
            )
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


def _raise_typed(error: sqlite3.Error, name: str, timeout: float) -> NoReturn:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise LedgerLockedError(
            f"Another process has held the ledger {name} for more than {timeout:g} s. Nothing was charged. Try again, "
            "or give a longer timeout."
        ) from error
    # SQLITE_ERROR is a table or column that is not there: our statements themselves are right.
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        raise LedgerFormatError(
            f"{name} is not a ledger, or is damaged ({error}). Check the path, or bring back the file from a copy; a "
            "budget that is unknown must be taken as spent."
        ) from error
    raise LedgerError(f"The ledger {name} cannot be used: {error}. Nothing may be released.") from error
