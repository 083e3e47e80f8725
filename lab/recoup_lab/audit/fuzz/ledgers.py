"""Ledgers for the fuzzer: valid ones as bytes, and ways to spoil one from inside SQLite."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, Final

from recoup.privacy.ledger import Ledger
from recoup.privacy.price import Price
from recoup_lab.audit.fuzz.mutations import TEXTS, hostile
from recoup_lab.tree import ROOT

_BUDGET: Final = ("id", "epsilon", "delta", "rho", "time", "library", "identifier", "unit", "accounting")
_ENTRY: Final = (
    *("id", "run", "purpose", "measure", "amount", "spent_after", "pure_after", "rho_after", "n_zcdp_after", "time"),
    *("library", "unit"),
)
_SAID: Final = ("run", "purpose", "who")
_FIRST_VERSION: Final = ROOT / "tests" / "golden" / "ledger-v1.db"
_ENDLESS: Final = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
_STATEMENTS: Final = (
    "DELETE FROM budget",
    "DELETE FROM entry WHERE id = 2",
    "DROP TABLE entry",
    "DROP TABLE budget",
    "ALTER TABLE budget RENAME TO other",
    "ALTER TABLE entry RENAME COLUMN amount TO quantity",
    "ALTER TABLE entry ADD COLUMN more TEXT",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 3",
    "PRAGMA user_version = -1",
    "PRAGMA application_id = 0",
    "PRAGMA journal_mode = WAL",
    "PRAGMA journal_mode = OFF",
    "CREATE INDEX more ON entry (amount)",
    "CREATE UNIQUE INDEX one ON entry (measure)",
    "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry; END",
    "CREATE TRIGGER t BEFORE INSERT ON entry BEGIN SELECT raise(IGNORE); END",
    f"CREATE TRIGGER t AFTER INSERT ON entry BEGIN INSERT INTO budget (id, rho) SELECT 2, i FROM ({_ENDLESS}); END",
    "CREATE VIEW more AS SELECT * FROM entry",
    f"DROP TABLE budget; CREATE VIEW budget AS SELECT 1 id, '1/1' epsilon, '0/1' delta, ({_ENDLESS}) rho, '' time",
    "DROP TABLE budget; CREATE VIEW budget AS SELECT 1 id, '9/1' epsilon, '0/1' delta, '0/1' rho, '' time, '' library",
    "DROP TABLE budget; CREATE TABLE budget (id, epsilon AS (zeroblob(1000000000)), delta, rho, time, library)",
    "INSERT INTO sqlite_sequence VALUES ('entry', 9223372036854775807)",
    "UPDATE sqlite_sequence SET seq = 9223372036854775807",
    "UPDATE sqlite_sequence SET seq = 'x'",
    "UPDATE entry SET id = 9223372036854775807 WHERE id = 3",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE entry (x)' WHERE name = 'entry'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 99 WHERE name = 'entry'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 2 WHERE name = 'budget'",
    "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'sqlite_sequence'",
)


def templates() -> list[bytes]:
    """Valid ledgers: unused, used, one with a delta and charges of both kinds, and one of the first version."""
    found = [_FIRST_VERSION.read_bytes()]
    pure, gaussian = (Price(measure=m, amount=Fraction(1, 7)) for m in ("pure", "gaussian"))
    for delta, prices in ((0, []), (0, [pure] * 3), ("1e-6", [pure, gaussian, pure])):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.db"
            ledger = Ledger.create(path, epsilon=3, delta=delta)
            ledger.begin("run", purpose="beds", by="ada")
            for number, price in enumerate(prices):
                ledger.charge(price, purpose=f"round {number}", run="run")
            found.append(path.read_bytes())
    return found


def spoil_by_sql(path: Path, rng: Random) -> None:
    """Change cells, tables, views and triggers of a valid ledger, as SQLite itself would write them."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("synchronous = OFF", "ignore_check_constraints = ON", "journal_mode = MEMORY"):
            connection.execute(f"PRAGMA {statement}")
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            try:
                if rng.random() < 0.65:
                    _change_cell(connection, rng)
                else:
                    connection.executescript(rng.choice(_STATEMENTS))
            except sqlite3.Error:
                pass  # some changes do not go together


def _change_cell(connection: sqlite3.Connection, rng: Random) -> None:
    table, columns = rng.choice((("budget", _BUDGET), ("entry", _ENTRY), ("entry", _ENTRY), ("said", _SAID)))
    statement = f"UPDATE {table} SET {rng.choice(columns)} = ? WHERE rowid = ?"
    connection.execute(statement, (_cell(rng), rng.choice((1, 2, 3, 3)) if table == "entry" else 1))


def _cell(rng: Random) -> Any:
    value = rng.choice(
        (*TEXTS, b"", b"\xff\xfe", b"1/2", "5/2", "-5/2", "7/3", "3/1", "1/1", hostile(rng), hostile(rng))
    )
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, bool | None | bytes | float):
        return value
    return value if isinstance(value, int) and abs(value) < 2**63 else "9" * 100
