"""A ledger's file: what is kept in it, and what is refused because no charges lead to it."""

import copy
import pickle
import sqlite3
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest
from ledgers import Make, gaussian, pure, zcdp

from recoup.errors import (
    BudgetError,
    BudgetExceededError,
    LedgerError,
    LedgerFormatError,
    LedgerLockedError,
    ParameterError,
    UnitConverted,
)
from recoup.privacy.gaussian import epsilon_of
from recoup.privacy.ledger import Ledger
from recoup.privacy.ledger_file import _LONGEST_UNIT, _own_tables, _raise_typed, _read_unit, read_fraction
from recoup.privacy.ledger_rules import bounded
from recoup.privacy.price import Price
from recoup.privacy.statement import ONE_RECORD, Unit

DELTA = Fraction(1, 10**6)


def edited(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        database.execute(statement)
    database.close()


def test_the_header_says_what_the_file_is(path: Path) -> None:
    Ledger.create(path, epsilon=1)
    assert path.read_bytes()[68:72] == b"RCLD"
    assert path.read_bytes()[60:64] == (4).to_bytes(4, "big")


def test_a_connection_is_as_durable_as_sqlite_can_be_and_trusts_no_schema(path: Path) -> None:
    with Ledger.create(path, epsilon=1)._store.connection() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.isolation_level is None


def test_a_charge_takes_the_lock_before_it_reads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, statements = Ledger.create(path, epsilon=1), []
    connect = sqlite3.connect

    def traced(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(statements.append)
        return connection  # type: ignore[no-any-return]

    monkeypatch.setattr(sqlite3, "connect", traced)
    ledger.charge(pure(1), purpose="all")
    words = [statement.split()[0] for statement in statements if not statement.startswith("PRAGMA")]
    assert (words[0], words[-2], words[-1]) == ("BEGIN", "INSERT", "COMMIT")


IMPOSSIBLE = [
    "UPDATE budget SET epsilon = '0/1'",
    "UPDATE budget SET epsilon = '1/0'",
    "UPDATE budget SET epsilon = '1'",
    "UPDATE budget SET epsilon = x'31'",
    "UPDATE budget SET delta = '1/1'",
    "UPDATE budget SET delta = '2/1'",
    f"UPDATE budget SET delta = '1/{10**300 + 1}'",
    f"UPDATE budget SET rho = '{10**200 + 1}/1'",
    f"UPDATE entry SET rho_after = '{10**200 + 1}/1'",
    "UPDATE entry SET spent_after = '2/1'",
    "UPDATE entry SET spent_after = 'x'",
    "UPDATE entry SET pure_after = '4/1', rho_after = '9/1'",
    "UPDATE entry SET n_zcdp_after = -1",
    "UPDATE entry SET n_zcdp_after = 'x'",
    "UPDATE entry SET n_zcdp_after = 0.5",
    "CREATE TABLE more (id INTEGER)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry; END",
    "PRAGMA application_id = 1",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 1",
    "UPDATE budget SET identifier = ''",
    "UPDATE budget SET identifier = 'l.db'",
    "UPDATE budget SET identifier = x'00'",
    "UPDATE budget SET unit = NULL",
    "UPDATE budget SET unit = ''",
    "UPDATE budget SET unit = '[]'",
    "UPDATE budget SET unit = '{}'",
    "UPDATE budget SET unit = x'7b7d'",
    """UPDATE budget SET unit = CAST('{"kind": "record", "records_per_person": 1}' AS BLOB)""",
    """UPDATE budget SET unit = '{"kind": "record"}'""",
    """UPDATE budget SET unit = '{"kind": "people", "records_per_person": 1}'""",
    """UPDATE budget SET unit = '{"kind": "person", "records_per_person": 1}'""",
    """UPDATE budget SET unit = '{"kind": "person", "records_per_person": 2, "column": "who"}'""",
    """UPDATE budget SET unit = '{"kind": "record", "records_per_person": 0}'""",
    """UPDATE budget SET unit = '{"kind": "record", "records_per_person": true}'""",
    """UPDATE budget SET unit = '{"kind": "record", "records_per_person": 1048577}'""",
    f"""UPDATE budget SET unit = '{" " * _LONGEST_UNIT}{{"kind": "record", "records_per_person": 1}}'""",
]


@pytest.mark.parametrize("statement", IMPOSSIBLE)
def test_a_state_that_no_charges_lead_to_is_refused(path: Path, statement: str) -> None:
    ledger = Ledger.create(path, epsilon=1, delta=DELTA)
    ledger.charge(pure("1/2"), purpose="before")
    edited(path, statement)
    for use in (ledger.entries, lambda: ledger.spent, lambda: Ledger(path), lambda: ledger.preview([])):
        with pytest.raises(LedgerFormatError):
            use()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET spent_after = '1/4'",
        "UPDATE entry SET n_zcdp_after = 1",
        "UPDATE entry SET pure_after = '2/1'",
    ],
)
def test_without_delta_the_sum_must_be_what_is_spent(path: Path, statement: str) -> None:
    ledger = Ledger.create(path, epsilon=1)
    ledger.charge(pure("1/2"), purpose="before")
    edited(path, statement)
    with pytest.raises(LedgerFormatError, match="no ledger can"):
        Ledger(path)


def test_a_negative_number_of_charges_is_refused_whatever_fits(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1, delta=DELTA)
    ledger.charge(pure("1/100"), purpose="little")
    edited(path, "UPDATE entry SET n_zcdp_after = -1")
    with pytest.raises(LedgerFormatError, match="no ledger can"):
        Ledger(path)


def test_limits_of_what_is_possible_are_exact(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1, delta=DELTA)
    ledger.charge(pure("1/2"), purpose="before")
    edited(path, f"UPDATE budget SET delta = '1/{10**300}'", f"UPDATE budget SET rho = '{10**200}/1'")
    edited(path, f"UPDATE entry SET rho_after = '{10**200}/1', spent_after = '1/1'")
    assert (ledger.delta, ledger.spent, ledger.left) == (Fraction(1, 10**300), 1, 0)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET amount = '0/1'",
        "UPDATE entry SET amount = 'x'",
        "UPDATE entry SET measure = 'free'",
        "UPDATE entry SET run = x'00'",
        "UPDATE entry SET purpose = x'00'",
        "UPDATE entry SET time = x'00'",
        "UPDATE entry SET library = x'00'",
        "UPDATE entry SET unit = ''",
    ],
)
def test_an_entry_that_is_none_is_refused(path: Path, statement: str) -> None:
    ledger = Ledger.create(path, epsilon=1)
    ledger.charge(pure("1/2"), purpose="before")
    edited(path, statement)
    with pytest.raises(LedgerFormatError, match="damaged"):
        ledger.entries()


def test_an_earlier_entry_that_is_none_is_refused_too(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1)
    for _ in range(2):
        ledger.charge(pure("1/4"), purpose="before")
    edited(path, "UPDATE entry SET spent_after = 'x' WHERE id = 1")
    assert ledger.spent == Fraction(1, 2)
    with pytest.raises(LedgerFormatError, match="number that is none"):
        ledger.entries()


def test_errors_of_sqlite_are_typed_by_their_code() -> None:
    def typed(code: int | None) -> type[Exception]:
        error = sqlite3.OperationalError("said SQLite")
        if code is not None:
            error.sqlite_errorcode = code  # type: ignore[misc]
        with pytest.raises(LedgerError) as refusal:
            _raise_typed(error, "l.db", 1.0)
        return refusal.type

    for code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_BUSY_SNAPSHOT):
        assert typed(code) is LedgerLockedError
    for code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT_INDEX):
        assert typed(code) is LedgerFormatError
    for code in (None, 0, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY):
        assert typed(code) is LedgerError


def test_text_that_is_not_text_is_refused_with_a_typed_error(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1)
    ledger.charge(pure("1/2"), purpose="before")
    edited(path, "UPDATE entry SET purpose = CAST(x'ff' AS TEXT)")
    with pytest.raises(LedgerError, match="Could not decode"):
        ledger.entries()


def test_a_message_of_sqlite_that_cannot_be_read_is_damage(path: Path) -> None:
    store = Ledger.create(path, epsilon=1)._store
    with pytest.raises(LedgerFormatError, match="damaged ledger"), store.connection():
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "as SQLite quotes what it finds")


def test_sqlite_waits_as_long_as_it_was_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, seen = Ledger.create(path, epsilon=1, timeout=7.5), []
    connect = sqlite3.connect

    def watched(*arguments: object, **options: object) -> sqlite3.Connection:
        seen.append(options)
        return connect(*arguments, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", watched)
    assert ledger.left == 1
    assert seen == [{"uri": True, "timeout": 7.5, "isolation_level": None}]


# ---- in memory ----


def test_a_memory_ledger_closes_its_connection_with_its_life() -> None:
    ledger = Ledger.in_memory(epsilon=1)
    connection = ledger._store._connection  # type: ignore[union-attr]
    del ledger
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_names_and_paths(path: Path) -> None:
    ledger, memory = Ledger.create(path, epsilon=1), Ledger.in_memory(epsilon=1)
    assert (ledger.name, ledger.path) == (f"ledger {path}", path)
    assert (memory.name, memory.path) == ("ledger in memory", None)
    assert (repr(ledger), repr(memory)) == (f"Ledger({str(path)!r})", "Ledger.in_memory()")


# ---- what is said and written ----


def test_defaults(path: Path) -> None:
    ledger = Ledger.create(path)
    assert (ledger.epsilon, ledger.delta) == (3, 0)
    assert (Ledger.in_memory().epsilon, Ledger.in_memory().delta) == (3, 0)
    assert ledger._store.timeout == Ledger(path)._store.timeout == 30.0  # type: ignore[union-attr]


def test_a_copy_waits_as_long_as_its_original(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1, timeout=5.5)
    for twin in (ledger, copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger)), copy.copy(ledger)):
        assert twin._store.timeout == 5.5  # type: ignore[union-attr]


def test_the_library_is_named(make: Make) -> None:
    assert make(epsilon=1).charge(pure(1), purpose="all").library == version("recoup")


def test_the_whole_export(make: Make) -> None:
    ledger = make(epsilon="1/3", delta="1e-6")
    assert ledger.export() == {
        **{"format": "recoup-ledger", "version": 4, "identifier": ledger.identifier, "unit": None},
        **{"epsilon": "1/3", "delta": "1/1000000", "accounting": "gaussian"},
        **{"spent": "0/1", "left": "1/3", "entries": [], "releases": []},
    }
    entry = ledger.charge(pure("1/4"), purpose="counts", run="a")
    exported = ledger.export()
    assert (exported["spent"], exported["left"]) == ("1/4", "1/12")
    assert exported["entries"] == [
        {
            **{"id": 1, "run": "a", "purpose": "counts", "measure": "pure", "amount": "1/4", "spent_after": "1/4"},
            **{"time": entry.time, "library": entry.library},
            "unit": {"kind": "record", "records_per_person": 1},
        }
    ]
    assert exported["unit"] == {"kind": "record", "records_per_person": 1}


@pytest.mark.parametrize("field", ["purpose", "run"])
def test_only_text_that_can_be_written_is_taken(make: Make, field: str) -> None:
    ledger = make(epsilon=1)
    for text in ("\ud800", "a\udfff", "\udabc", None, 3, b"a"):
        with pytest.raises(ParameterError, match="must be text"):
            ledger.charge(pure("1/4"), **{"purpose": "p", field: text})  # type: ignore[arg-type]
    assert ledger.entries() == ()
    for text in ("\ud7ff", "\ue000", "größe 数", ""):
        ledger.charge(pure("1/4"), **{"purpose": "p", field: text})
    assert [getattr(entry, field) for entry in ledger.entries()] == ["\ud7ff", "\ue000", "größe 数", ""]


def test_an_export_of_several_charges_shows_the_last_sum(make: Make) -> None:
    ledger = make(epsilon=1)
    for _ in range(2):
        ledger.charge(pure("1/4"), purpose="counts")
    assert (ledger.export()["spent"], ledger.export()["left"]) == ("1/2", "1/2")


def test_what_is_kept_of_the_budget(path: Path) -> None:
    Ledger.create(path, epsilon="1/3")
    database = sqlite3.connect(path)
    epsilon, delta, rho, time, library, identifier, unit = database.execute(
        "SELECT epsilon, delta, rho, time, library, identifier, unit FROM budget"
    ).fetchone()
    database.close()
    assert (epsilon, delta, rho, library, unit) == ("1/3", "0/1", "0/1", version("recoup"), None)
    assert len(time) == len("2026-01-01")
    assert identifier == Ledger(path).identifier


def test_a_fresh_ledger_without_a_budget_is_refused(path: Path) -> None:
    Ledger.create(path, epsilon=1)
    edited(path, "UPDATE budget SET epsilon = '0/1'")
    with pytest.raises(LedgerFormatError, match="no ledger can"):
        Ledger(path)


def test_a_refusal_of_a_budget_names_it(make: Make) -> None:
    with pytest.raises(BudgetError, match=r"^epsilon must be greater"):
        make(epsilon=0)
    with pytest.raises(BudgetError, match=r"^delta must be at least"):
        make(epsilon=1, delta=-1)


def test_delta_must_be_a_probability(make: Make) -> None:
    for delta in (1, 2, "1.5"):
        with pytest.raises(BudgetError, match="less than 1"):
            make(epsilon=1, delta=delta)


def test_a_plan_is_previewed_by_its_rounds() -> None:
    class Planned(NamedTuple):
        price: Price

    class Plan(NamedTuple):
        rounds: tuple[Planned, ...]

    ledger = Ledger.in_memory(epsilon=1)
    assert ledger.preview(Plan((Planned(pure("1/4")), Planned(pure("1/2"))))).left_after == Fraction(1, 4)


def test_sums_are_exact_up_to_a_stated_size() -> None:
    widest = Fraction(1, 2**4095)
    assert widest.denominator.bit_length() == 4096
    assert bounded(widest) == widest
    assert bounded(Fraction(1, 2**4096)) == Fraction(1, 2**2048)
    assert bounded(Fraction(3, 2) + Fraction(1, 2**5000)) == Fraction(3, 2) + Fraction(1, 2**2048)


def test_what_was_refused_says_where(path: Path) -> None:
    with pytest.raises(BudgetExceededError, match="Ledger in memory"):
        Ledger.in_memory(epsilon=1).charge(pure(2), purpose="too much")
    with pytest.raises(BudgetExceededError) as refusal:
        Ledger.create(path, epsilon=1).charge(pure(2), purpose="too much")
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["", "1", "1/0", "-1/2", "1/2 ", "1.5/2", "1e9/1", "1/2/3", "9" * 4001 + "/1", 3, None, b"1/2"]
)
def test_numbers_are_read_strictly(text: object) -> None:
    assert read_fraction("12/8", "l.db") == Fraction(3, 2)
    with pytest.raises(LedgerFormatError, match=r"l\.db holds a number that is none"):
        read_fraction(text, "l.db")


def test_a_ledger_of_version_1_says_so_until_it_is_declared(path: Path) -> None:
    path.write_bytes((Path(__file__).parents[2] / "golden" / "ledger-v1.db").read_bytes())
    assert Ledger(path).export()["version"] == 1
    Ledger(path).declare(records_per_person=1)
    assert Ledger(path).export()["version"] == 4


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_earlier_version_goes_on_to_add_up_zcdp(path: Path, version: int) -> None:
    path.write_bytes((Path(__file__).parents[2] / "golden" / f"ledger-v{version}.db").read_bytes())
    ledger = Ledger(path)
    before, budget = ledger.entries(), read_budget(path)
    if version == 1:
        ledger.declare(records_per_person=1)
    assert (ledger.accounting, read_budget(path)) == ("zcdp", budget)
    assert [entry[:6] for entry in ledger.entries()] == [entry[:6] for entry in before]
    unit = ledger.unit
    assert unit is not None
    total = epsilon_of("zcdp", *rho_and_delta(path))
    assert ledger.spent == total
    entry = ledger.charge(gaussian("1/1000"), purpose="exact", unit=unit)
    assert (entry.measure, ledger.entries()[-1]) == ("zcdp", entry)
    assert ledger.spent == epsilon_of("zcdp", *rho_and_delta(path)) > total
    left = Fraction(budget[2]) - rho_and_delta(path)[0]
    assert not ledger.preview([gaussian(left * (1 + Fraction(1, 10**9)))], unit=unit).fits
    ledger.charge(zcdp(left), purpose="the rest", unit=unit)
    assert ledger.left < Fraction(1, 10**8)


def read_budget(path: Path) -> tuple[str, str, str]:
    return sqlite3.connect(path).execute("SELECT epsilon, delta, rho FROM budget").fetchone()


def rho_and_delta(path: Path) -> tuple[Fraction, Fraction]:
    query = "SELECT rho_after, delta FROM entry, budget ORDER BY entry.id DESC LIMIT 1"
    rho, delta = sqlite3.connect(path).execute(query).fetchone()
    return Fraction(rho), Fraction(delta)


def test_a_ledger_of_another_accounting_is_refused(path: Path) -> None:
    Ledger.create(path, epsilon=1, delta="1e-6")
    edited(path, "UPDATE budget SET accounting = 'renyi'")
    with pytest.raises(LedgerFormatError, match="adds up in a way that is not known"):
        Ledger(path)


def test_there_was_no_version_0(path: Path) -> None:
    """Its tables would be those of version 1."""
    path.write_bytes((Path(__file__).parents[2] / "golden" / "ledger-v1.db").read_bytes())
    edited(path, "PRAGMA user_version = 0")
    with pytest.raises(LedgerFormatError, match="a ledger of version 0; this library reads up to 4"):
        Ledger(path)


def test_a_look_at_a_ledger_leaves_no_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.create(path, epsilon=1)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    _own_tables.cache_clear()
    assert Ledger(path).entries() == ()
    assert list(Path().iterdir()) == []


def test_the_warning_of_a_conversion_is_for_whoever_releases() -> None:
    ledger = Ledger.in_memory(epsilon=1, records_per_person=2)

    def release() -> None:
        ledger.expect(ONE_RECORD)

    with pytest.warns(UnitConverted) as caught:
        release()
    line = release.__code__.co_firstlineno + 4
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def test_days_are_those_of_the_run_and_of_today_for_what_has_no_run(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1)
    for run in ("", "a"):
        ledger.charge(pure("1/8"), purpose="first", run=run)
    edited(path, "UPDATE entry SET time = '2001-02-03T04:05:06'")
    assert ledger.charge(pure("1/8"), purpose="second", run="a").time == "2001-02-03"
    assert ledger.charge(pure("1/8"), purpose="second", run="").time > "2026"
    assert [entry.time[:4] > "2001" for entry in ledger.entries()] == [False, False, False, True]


def test_a_unit_is_read_up_to_a_length(path: Path) -> None:
    unit = '{"kind": "record", "records_per_person": 5}'
    assert _read_unit(unit.ljust(_LONGEST_UNIT), "l.db").records_per_person == 5
    with pytest.raises(LedgerFormatError, match="counts for a unit that is not known"):
        _read_unit(unit.ljust(_LONGEST_UNIT + 1), "l.db")


def test_the_longest_name_of_a_column_of_persons_is_kept(path: Path) -> None:
    unit = Unit(kind="person", column="\U0001f600" * 1000)
    Ledger.create(path, epsilon=1).charge(pure("0.5"), purpose="x", unit=unit)
    assert Ledger(path).unit == unit == Ledger(path).entries()[0].unit
