"""What a served curator keeps: tokens, runs, what each answer costs, and the answer itself before it is sent.

One SQLite file in the state folder, as durable as a ledger (`recoup.privacy.ledger_file` says how) and shared by all
workers. An answer has a row from before it is charged to the table's ledger: the row is the charge to the token's own
budget. Its reply is filled in once, and only what is filled in is ever sent; so whatever dies, and whenever, no key
has two answers.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from recoup.errors import BudgetExceededError, ParameterError
from recoup.privacy.ledger_file import fraction_text
from recoup.privacy.ledger_rules import Budget, State, Totals, bounded
from recoup.privacy.price import Measure, Price
from recoup.privacy.statement import Unit
from recoup.serve.refusals import StateError, exceeded, too_many, unauthorized
from recoup.serve.tokens import Kind, Token, digest_of

_FILE: Final = "serve.db"
_APPLICATION_ID: Final = 0x52435356  # "RCSV"
_VERSION: Final = 1
_DAY: Final = 86_400.0
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")  # it stands in charges, logs and metrics
_OWN: Final = "This token's budget"
_TABLES: Final = (
    "CREATE TABLE terms (id INTEGER PRIMARY KEY CHECK (id = 1), text TEXT NOT NULL)",
    """CREATE TABLE token (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, revoked INTEGER NOT NULL, day TEXT NOT NULL,
    pure TEXT NOT NULL DEFAULT '0/1', rho TEXT NOT NULL DEFAULT '0/1', n_zcdp INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE run (name TEXT PRIMARY KEY, token INTEGER NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
    purpose TEXT NOT NULL, transcript TEXT NOT NULL, day TEXT NOT NULL, touched REAL NOT NULL, UNIQUE (token, key))""",
    """CREATE TABLE answer (id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, token INTEGER NOT NULL,
    key TEXT NOT NULL, digest TEXT NOT NULL, measure TEXT NOT NULL, amount TEXT NOT NULL, share TEXT NOT NULL,
    reply BLOB, due REAL, UNIQUE (run, key))""",
    "CREATE INDEX answers_of_tokens ON answer (token)",
)
_RUN: Final = "name, token, key, digest, purpose, transcript, day"
_ANSWER: Final = "run, key, digest, measure, amount, share, reply, due"


class Run(NamedTuple):
    """A run: its transcript without rounds, as JSON, has its terms and who pays."""

    name: str
    token: int
    key: str
    digest: str
    purpose: str
    transcript: str
    day: str


class Answer(NamedTuple):
    """An answer: what it costs and, if it was drawn, the reply, which nobody may see before `due` (seconds of Unix)."""

    run: str
    key: str
    digest: str
    price: Price
    share: Fraction
    reply: bytes | None
    due: float | None


class Store:
    """The state folder; every operation has its own connection, so threads and processes share none."""

    def __init__(self, folder: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self.folder, self._timeout = Path(folder).absolute(), timeout
        self._path = self.folder / _FILE
        # SQLite lets those who wait try again at random; in one process they take turns instead.
        self._turn = threading.Lock()

    @classmethod
    def opened(cls, folder: str | os.PathLike[str]) -> Store:
        """The state in a folder, which is made where it is not there; for the eyes of its owner only."""
        store = cls(folder)
        try:
            store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            store.locks.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(store._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise ParameterError(f"the state folder {store.folder} cannot be used: {error.strerror}.") from None
        try:
            with store._transaction() as connection:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                known = connection.execute("PRAGMA application_id").fetchone()[0]
                if (known, version) == (0, 0):
                    for statement in (*_TABLES, f"PRAGMA application_id = {_APPLICATION_ID}"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                elif (known, version) != (_APPLICATION_ID, _VERSION):
                    raise ParameterError(f"the state folder {store.folder} holds a file of another kind or version.")
        except StateError as error:
            raise ParameterError(f"the state folder {store.folder} cannot be used: {error}.") from None
        return store

    @property
    def locks(self) -> Path:
        """The folder of the locks of runs, which die with whoever holds them."""
        return self.folder / "locks"

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            uri = f"{self._path.as_uri()}?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=self._timeout, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA trusted_schema = OFF")
                yield connection
        except sqlite3.Error as error:
            raise StateError(f"{type(error).__name__}") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._turn, self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    # ---- terms ----
    def bind(self, terms: str) -> bool:
        """Keep the terms of the first start; whether those of this one are the same."""
        with self._transaction() as connection:
            connection.execute("INSERT INTO terms VALUES (1, ?) ON CONFLICT (id) DO NOTHING", (terms,))
            return bool(connection.execute("SELECT text FROM terms").fetchone()[0] == terms)

    # ---- tokens ----
    def add_token(self, name: str, secret: str, kind: Kind, epsilon: Fraction, delta: Fraction) -> None:
        """Keep the hash of a new token under a name that no other has, or ever had."""
        if not _NAME.fullmatch(name):
            raise ParameterError("the name of a token must be 1 to 64 letters, digits, or . _ - @.")
        row = (name, digest_of(secret), kind, fraction_text(epsilon), fraction_text(delta), _today())
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM token WHERE name = ?", (name,)).fetchone():
                raise ParameterError(f"a token with the name {name!r} exists, or existed: choose another name.")
            connection.execute(
                "INSERT INTO token (name, digest, kind, epsilon, delta, revoked, day) VALUES (?, ?, ?, ?, ?, 0, ?)", row
            )

    def revoke(self, name: str) -> None:
        """Refuse a token from now on; what it has spent stays spent."""
        with self._transaction() as connection:
            if not connection.execute("UPDATE token SET revoked = 1 WHERE name = ?", (name,)).rowcount:
                raise ParameterError(f"there is no token with the name {name!r}.")

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, also those that were revoked."""
        with self._connection() as connection:
            rows = connection.execute(f"SELECT {', '.join(Token._fields)} FROM token ORDER BY id").fetchall()
        return tuple(
            Token(number, name, digest, kind, Fraction(epsilon), Fraction(delta), bool(revoked), day)
            for number, name, digest, kind, epsilon, delta, revoked, day in rows
        )

    def state_of(self, token: Token, budget: Budget, unit: Unit) -> State:
        """What a token has spent of its own budget."""
        with self._connection() as connection:
            return _spent(connection, token.id, budget, unit)

    # ---- runs ----
    def add_run(self, run: Run, most_open: int) -> Run:
        """Keep a new run, or give the one that the same token has begun with the same key."""
        with self._transaction() as connection:
            same = connection.execute(f"SELECT {_RUN} FROM run WHERE token = ? AND key = ?", (run.token, run.key))
            if (row := same.fetchone()) is not None:
                return Run(*row)
            since = time.time() - _DAY
            recent = connection.execute("SELECT name FROM run WHERE token = ? AND touched > ?", (run.token, since))
            shares = _shares(connection, run.token)
            if sum(shares.get(name, Fraction(0)) < 1 for (name,) in recent.fetchall()) >= most_open:
                raise too_many(
                    f"This token has {most_open} open runs: continue them, or wait for a day after their last answers."
                )
            connection.execute(
                f"INSERT INTO run ({_RUN}, touched) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*run, time.time())
            )
            return run

    def run_by_key(self, token: int, key: str) -> Run | None:
        """The run that a token has begun with this key."""
        with self._connection() as connection:
            row = connection.execute(f"SELECT {_RUN} FROM run WHERE token = ? AND key = ?", (token, key)).fetchone()
        return None if row is None else Run(*row)

    def run(self, token: int, name: str) -> Run | None:
        """A run of this token."""
        with self._connection() as connection:
            row = connection.execute(f"SELECT {_RUN} FROM run WHERE name = ? AND token = ?", (name, token)).fetchone()
        return None if row is None else Run(*row)

    def runs(self, token: int | None = None) -> list[tuple[Run, Fraction]]:
        """The runs of one token, or of all, in the order in which they began, each with the share that it has spent."""
        where, given = ("WHERE token = ?", (token,)) if token is not None else ("", ())
        with self._connection() as connection:
            rows = connection.execute(f"SELECT {_RUN} FROM run {where} ORDER BY rowid", given).fetchall()
            shares = _shares(connection, token)
        return [(Run(*row), shares.get(row[0], Fraction(0))) for row in rows]

    # ---- answers ----
    def answers(self, run: str, key: str | None = None) -> list[Answer]:
        """All answers of a run, in the order in which they were asked for; given a key, only that one has its reply."""
        reply, given = ("reply", ()) if key is None else ("CASE WHEN key = ? THEN reply END", (key,))
        columns = _ANSWER.replace("reply", reply)
        with self._connection() as connection:
            rows = connection.execute(
                f"SELECT {columns} FROM answer WHERE run = ? ORDER BY id", (*given, run)
            ).fetchall()
        return [_answer(row) for row in rows]

    def reserve(self, answer: Answer, token: Token, budget: Budget, unit: Unit) -> None:
        """Charge an answer to the token's own budget; refused where that, or the token itself, is no longer there."""
        price = answer.price
        with self._transaction() as connection:
            valid = connection.execute("SELECT 1 FROM token WHERE id = ? AND revoked = 0", (token.id,)).fetchone()
            if valid is None:
                raise unauthorized()
            before = _spent(connection, token.id, budget, unit)
            _keep_totals(connection, token.id, check_fits(before, [price], unit))
            connection.execute(
                "INSERT INTO answer (run, token, key, digest, measure, amount, share) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(answer.run, token.id, answer.key, answer.digest, price.measure),
                    *(fraction_text(price.amount), fraction_text(answer.share)),
                ),
            )
            connection.execute("UPDATE run SET touched = ? WHERE name = ?", (time.time(), answer.run))

    def withdraw(self, answer: Answer, token: Token, budget: Budget, unit: Unit) -> None:
        """Give back what was charged to the token for an answer that the table's ledger has refused."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM answer WHERE run = ? AND key = ? AND reply IS NULL", (answer.run, answer.key)
            )
            rows = connection.execute("SELECT measure, amount FROM answer WHERE token = ? ORDER BY id", (token.id,))
            prices = [Price(measure=cast(Measure, measure), amount=Fraction(amount)) for measure, amount in rows]
            _keep_totals(connection, token.id, _state(budget, unit).charged(prices, unit, _OWN))

    def keep(self, answer: Answer, reply: bytes, due: float) -> bytes:
        """Keep a reply, durably; the reply that may be sent, which is another one if that was kept before."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE answer SET reply = ?, due = ? WHERE run = ? AND key = ? AND reply IS NULL",
                (reply, due, answer.run, answer.key),
            )
            row = connection.execute("SELECT reply FROM answer WHERE run = ? AND key = ?", (answer.run, answer.key))
            return bytes(row.fetchone()[0])


def check_fits(before: State, prices: Sequence[Price], unit: Unit) -> State:
    """The state of a token's own budget after these prices; refused where it does not cover them."""
    after = before.charged(prices, unit, _OWN)
    if not after.totals.fits(before.budget):
        spent, left = before.spent, before.budget.epsilon - before.spent
        asked = after.spent - spent
        raise exceeded(BudgetExceededError(spent=spent, asked=asked, left=left, where=_OWN), _OWN)
    return after


def _spent(connection: sqlite3.Connection, token: int, budget: Budget, unit: Unit) -> State:
    row = connection.execute("SELECT pure, rho, n_zcdp FROM token WHERE id = ?", (token,)).fetchone()
    totals = Totals(Fraction(row[0]), Fraction(row[1]), row[2])
    return _state(budget, unit)._replace(totals=totals, spent=totals.spent(budget))


def _state(budget: Budget, unit: Unit) -> State:
    return State(budget, identifier="token", unit=unit)


def _keep_totals(connection: sqlite3.Connection, token: int, after: State) -> None:
    pure, rho, n_zcdp = after.totals
    row = (fraction_text(pure), fraction_text(rho), n_zcdp, token)
    connection.execute("UPDATE token SET pure = ?, rho = ?, n_zcdp = ? WHERE id = ?", row)


def _shares(connection: sqlite3.Connection, token: int | None) -> dict[str, Fraction]:
    where, given = ("WHERE token = ?", (token,)) if token is not None else ("", ())
    shares: dict[str, list[Fraction]] = {}
    for run, share in connection.execute(f"SELECT run, share FROM answer {where} ORDER BY id", given):
        shares.setdefault(run, []).append(Fraction(share))
    return {run: sum_of(parts) for run, parts in shares.items()}


def sum_of(shares: Iterable[Fraction]) -> Fraction:
    """What shares of a run add up to; rounded up as in a ledger where nobody could print it."""
    return reduce(lambda total, share: bounded(total + share), shares, Fraction(0))


def _answer(row: Sequence[Any]) -> Answer:
    run, key, digest, measure, amount, share, reply, due = row
    price = Price(measure=measure, amount=Fraction(amount))
    return Answer(run, key, digest, price, Fraction(share), reply, due)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def new_run(name: str, token: Token, key: str, digest: str, purpose: str, transcript: str) -> Run:
    """A run that begins today."""
    return Run(name, token.id, key, digest, purpose, transcript, _today())
