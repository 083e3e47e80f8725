"""Tables of databases: names are exact, types are the catalogue's, and no message of a database gets through."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from database_cases import (
    BOX,
    ENGINES,
    ODD,
    DuckDBEngine,
    Engine,
    LiveEngine,
    SQLiteEngine,
    check_odd_cell,
    check_snapshot,
    check_totals,
    records,
    release_while,
    sorted_rows,
    written,
)
from table_kinds import refusal

import recoup
from recoup.curator.tables import catalogue
from recoup.curator.tables.open import open_table
from recoup.errors import (
    ColumnTypeError,
    DatabaseError,
    DataError,
    ParameterError,
    RecoupError,
    UnknownColumnError,
)


def check_same(one: tuple[np.ndarray, list[Any]], other: tuple[np.ndarray, list[Any]]) -> None:
    np.testing.assert_array_equal(one[0], other[0])
    assert one[1] == other[1]


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return ENGINES[request.param](tmp_path)


# ---- records ----


@pytest.mark.parametrize("seed", range(3))
def test_totals_are_those_of_a_file(engine: Engine, tmp_path: Path, seed: int) -> None:
    check_totals(engine, tmp_path, seed)


@pytest.mark.parametrize(("kind", "ordinary", "cell"), ODD["DuckDB"])
def test_an_odd_cell_of_duckdb_changes_nothing_but_itself(kind: str, ordinary: str, cell: str) -> None:
    check_odd_cell(LiveEngine(Path()), kind, cell)


@pytest.mark.parametrize(("kind", "ordinary", "cell"), ODD["SQLite"])
def test_an_odd_cell_of_sqlite_changes_nothing_but_itself(kind: str, ordinary: str, cell: str, tmp_path: Path) -> None:
    check_odd_cell(SQLiteEngine(tmp_path), kind, cell)


def test_cells_of_sqlite_are_read_by_themselves(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path)
    cells = ["1", "2.5", "'3'", "' 4.5 '", "'1_0'", "'inf'", "x'35'", "NULL", "'x'"]
    engine.run("CREATE TABLE records (i INTEGER, x)", *(f"INSERT INTO records VALUES (1, {cell})" for cell in cells))
    rows = np.concatenate([np.asarray(b) for b in open_table(recoup.Table(engine.address, "records"), ["x"]).blocks()])
    np.testing.assert_array_equal(rows[:, 0], [1, 2.5, 3, 4.5, *[np.nan] * 5])


def test_a_long_text_is_no_declared_value_and_nobody(engine: Engine) -> None:
    engine.run("CREATE TABLE records (x INTEGER, c VARCHAR)")
    longest = "a" + " " * (catalogue.LONGEST_TEXT - 1)
    for number, text in enumerate((longest, longest + " ", "p" * 1024, "p" * 1025)):
        engine.run(f"INSERT INTO records VALUES ({number}, '{text}')")
    table = recoup.Table(engine.address, "records")
    schema = recoup.Schema({"x": recoup.Number(0, 9), "c": recoup.Category(["a"], other=True)})
    assert sorted_rows(open_table(table, schema=schema))[0][:, 1].tolist() == [0, 1, 1, 1]
    assert sorted_rows(open_table(table, ["x"], person="c"))[1] == [None, None, "p" * 1024, None]


def test_an_empty_table_is_answered_like_any_other(engine: Engine) -> None:
    written(engine, records(0, np.random.default_rng(0)))
    for copied in (False, True):
        (block,) = open_table(recoup.Table(engine.address, "records", copy=copied), ["x", "z"], person="who").blocks()
        assert block.shape == (0, 2)


def test_only_declared_columns_are_asked_for(tmp_path: Path) -> None:
    engine = SQLiteEngine(tmp_path)
    engine.run("CREATE TABLE t (x INTEGER, s TEXT)", "INSERT INTO t VALUES (1, 'SECRET'), (2, '[]')")
    engine.run("CREATE VIEW v AS SELECT x, json_array_length(s) AS n FROM t")
    view = recoup.Table(engine.address, "v")
    assert sorted_rows(open_table(view, ["x"]))[0][:, 0].tolist() == [1, 2]
    assert "cannot be read" in refusal(DatabaseError, lambda: list(open_table(view, ["n"]).blocks()))


def test_a_round_reads_one_snapshot(engine: Engine) -> None:
    check_snapshot(engine)


def test_whoever_stops_early_leaves_nothing_open(engine: Engine) -> None:
    written(engine, records(400, np.random.default_rng(0)))
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    blocks = open_table(recoup.Table(engine.address, "records"), ["x"]).blocks(10)
    next(blocks)
    blocks.close()
    engine.run("DELETE FROM records")
    assert (len(os.listdir("/proc/self/fd")) if before else 0) <= before
    assert not [t for t in threading.enumerate() if t.name.startswith("recoup-read")]


# ---- names ----

NAMES = [
    "visits",
    "Visits 2020",
    'a"b',
    "a;b",
    "a'b",
    "ü-Besuche",
    "select",
    "a.b",
    "\N{GRINNING FACE}",
    "*",
    "%s",
    "--",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_an_exact_identifier(engine: Engine, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    engine.run(f"CREATE TABLE {quoted} ({quoted} INTEGER, other INTEGER)", f"INSERT INTO {quoted} VALUES (3, 4)")
    rows, _ = sorted_rows(open_table(recoup.Table(engine.address, name), [name]))
    assert rows.tolist() == [[3.0]]


@pytest.mark.parametrize(
    "name",
    ["Records", "records ", "records; DROP TABLE records", '"records"', "records AS t", "(SELECT 1)", "rec%", "x"],
)
def test_any_other_name_is_refused(engine: Engine, name: str) -> None:
    written(engine, records(3, np.random.default_rng(0)))
    message = refusal(DatabaseError, lambda: open_table(recoup.Table(engine.address, name), ["x"]))
    assert repr(name) in message
    table = recoup.Table(engine.address, "records")
    for column in ("X", "x; --", '"x"', "rowid", "1", "count(*)"):
        refusal(UnknownColumnError, lambda column=column: open_table(table, [column]))
    assert len(sorted_rows(open_table(table, ["x"]))[0]) == 3


def test_a_schema_may_be_named(tmp_path: Path) -> None:
    for engine in (DuckDBEngine(tmp_path), LiveEngine(tmp_path)):
        engine.run(
            "CREATE SCHEMA ward", "CREATE TABLE ward.visits AS SELECT 1 AS x", "CREATE TABLE visits AS SELECT 2 AS x"
        )
        for name, value in {"ward.visits": 1, "visits": 2, "main.visits": 2}.items():
            assert sorted_rows(open_table(recoup.Table(engine.address, name), ["x"]))[0].tolist() == [[value]]
        engine.run('CREATE TABLE "ward.visits" AS SELECT 3 AS x')
        ambiguous = refusal(
            DatabaseError, lambda engine=engine: open_table(recoup.Table(engine.address, "ward.visits"))
        )
        assert "more than one" in ambiguous


def test_a_name_is_never_a_python_variable_or_a_file(tmp_path: Path) -> None:
    frame = records(3, np.random.default_rng(0))
    (tmp_path / "t.csv").write_text("x\n1\n")
    live = LiveEngine(tmp_path)
    for name in ("frame", str(tmp_path / "t.csv")):
        refusal(DatabaseError, lambda name=name: open_table(recoup.Table(live.address, name), ["x"]))
    assert frame.num_rows == 3


def test_a_view_is_read_like_a_table(engine: Engine) -> None:
    written(engine, records(50, np.random.default_rng(0)))
    engine.run("CREATE VIEW ten AS SELECT x, z, who FROM records")
    table, view = recoup.Table(engine.address, "records"), recoup.Table(engine.address, "ten")
    check_same(*(sorted_rows(open_table(each, ["z", "x"], person="who")) for each in (table, view)))


# ---- types ----


def test_types_are_those_of_the_catalogue(tmp_path: Path) -> None:
    refused = {
        LiveEngine: [
            "VARCHAR",
            "DATE",
            "TIMESTAMP",
            "BLOB",
            "INTEGER[]",
            "STRUCT(a INTEGER)",
            "TIME",
            "UUID",
            "INTERVAL",
        ],
        SQLiteEngine: ["TEXT", "DATE", "DATETIME", "TIMESTAMP", "BLOB", "VARCHAR(9)"],
    }
    for kind, types in refused.items():
        for number, declared in enumerate(types):
            engine = kind(tmp_path)
            engine.run(f"CREATE TABLE t{number} (x {declared})")
            table = recoup.Table(engine.address, f"t{number}")
            assert "Column 'x' is declared as" in refusal(ColumnTypeError, lambda table=table: open_table(table, ["x"]))


def test_wide_integers_are_read_as_numbers_and_keep_persons_apart() -> None:
    engine = LiveEngine(Path())
    engine.run(
        "CREATE TABLE t (x HUGEINT, u UHUGEINT)", f"INSERT INTO t VALUES ({-(2**127)}, {2**128 - 1}), (3, {2**128 - 2})"
    )
    table = recoup.Table(engine.address, "t")
    assert sorted_rows(open_table(table, ["x", "u"]))[0].tolist() == [[-(2.0**127), 2.0**128], [3.0, 2.0**128]]
    assert sorted_rows(open_table(table, ["x"], person="u"))[1] == [str(2**128 - 1), str(2**128 - 2)]


# ---- DuckDB's own ----


def test_a_relation_is_read_only_if_it_is_one_table(tmp_path: Path) -> None:
    engine = LiveEngine(tmp_path)
    written(engine, records(20, np.random.default_rng(0)))
    connection: Any = engine.address
    plain = connection.table("records")
    engine.run("CREATE VIEW v AS SELECT x FROM records LIMIT 3")
    assert len(sorted_rows(open_table(plain, ["x"]))[0]) == 20
    assert len(sorted_rows(open_table(connection.view("v"), ["x"]))[0]) == 3
    for relation in (
        plain.limit(3),
        plain.filter("x > 1"),
        connection.sql("SELECT * FROM records"),
        plain.join(plain.set_alias("other"), "x"),
    ):
        refusal(DataError, lambda relation=relation: open_table(relation, ["x"]))
    assert "name one" in refusal(ParameterError, lambda: open_table(connection, ["x"]))


def test_what_a_connection_has_not_committed_is_not_seen(tmp_path: Path) -> None:
    engine = LiveEngine(tmp_path)
    engine.run("CREATE TABLE records AS SELECT 1 AS x", "BEGIN", "INSERT INTO records VALUES (2)")
    table = recoup.Table(engine.address, "records")
    assert len(sorted_rows(open_table(table, ["x"]))[0]) == 1
    engine.run("COMMIT")
    assert len(sorted_rows(open_table(table, ["x"]))[0]) == 2


def test_a_file_cannot_reach_beyond_itself(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("x\n1\n")
    engine = DuckDBEngine(tmp_path)
    engine.run(f"CREATE VIEW v AS SELECT x FROM read_csv('{tmp_path / 'other.csv'}')")
    refusal(DatabaseError, lambda: list(open_table(recoup.Table(engine.address, "v"), ["x"]).blocks()))


def test_macros_of_a_database_do_not_replace_functions(tmp_path: Path) -> None:
    engine = LiveEngine(tmp_path)
    engine.run("CREATE MACRO strlen(x) AS error('SECRET')", "CREATE TABLE t AS SELECT 1 AS x, 'a' AS who")
    assert sorted_rows(open_table(recoup.Table(engine.address, "t"), ["x"], person="who"))[1] == ["a"]


def test_texts_of_the_declared_length_are_read_by_any_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOUP_NUM_THREADS", "4")
    engine = DuckDBEngine(tmp_path)
    # As many long texts as a thread loads at once, at the start of each part that a thread reads.
    engine.run(
        "CREATE TABLE t AS SELECT 1.0 AS x, CASE WHEN i % 122880 < 2048 THEN repeat(md5(i::VARCHAR), 1000) ELSE 'y' END"
        " AS who FROM range(491520) AS r(i)"
    )
    table = open_table(recoup.Table(engine.address, "t"), ["x"], person="who")
    assert sum(len(block) for block in table.blocks()) == 491520


# ---- faults ----


def test_a_message_that_quotes_a_record_does_not_get_through(tmp_path: Path) -> None:
    for engine in (DuckDBEngine(tmp_path), LiveEngine(tmp_path)):
        engine.run("CREATE TABLE t AS SELECT 'SECRET' AS s", "CREATE VIEW v AS SELECT CAST(s AS INTEGER) AS x FROM t")
        table = open_table(recoup.Table(engine.address, "v"), ["x"])
        assert "'v' cannot be read" in refusal(DatabaseError, lambda table=table: list(table.blocks()))


CHANGES = {
    "dropped": ["DROP TABLE records"],
    "another type": ["DROP TABLE records", "CREATE TABLE records (x VARCHAR, z VARCHAR)"],
    "a column less": ["ALTER TABLE records DROP COLUMN z"],
    "a column renamed": ["ALTER TABLE records RENAME COLUMN x TO y"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_schema_that_changes_between_rounds_is_refused_before_the_charge(
    engine: Engine, tmp_path: Path, change: str
) -> None:
    refusal(DatabaseError, lambda: release_while(engine, tmp_path, CHANGES[change]))
    saved = recoup.Transcript.load(tmp_path / "t.json")
    assert len(saved.rounds) == len(recoup.Ledger(tmp_path / "ledger.db").entries()) == 1
    assert not saved.pending


@pytest.mark.parametrize("change", ["DELETE FROM records", "INSERT INTO records SELECT * FROM records"])
def test_records_that_change_between_rounds_are_read_as_they_are(engine: Engine, tmp_path: Path, change: str) -> None:
    more = ["ALTER TABLE records ADD COLUMN more INTEGER"] if "DELETE" in change else []
    assert len(release_while(engine, tmp_path, [change, *more]).rounds) == 3


def test_a_copy_is_the_same_in_every_round_and_goes_away(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    written(engine, records(200, np.random.default_rng(0)))
    table = open_table(recoup.Table(engine.address, "records", copy=True), ["x", "z"], person="who")
    assert not list((tmp_path / "temporary").iterdir())
    before = sorted_rows(table)
    (folder,) = (tmp_path / "temporary").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    engine.run("DELETE FROM records")
    check_same(before, sorted_rows(table))
    del table
    assert not list((tmp_path / "temporary").iterdir())


def test_a_copy_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SQLiteEngine(tmp_path)
    written(engine, records(20, np.random.default_rng(0)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    table = open_table(recoup.Table(engine.address, "records", copy=True), ["x"])
    assert "has room" in refusal(DatabaseError, lambda: list(table.blocks()))


def test_files_that_are_no_databases_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("SECRET " * 1000)
    for kind in ("sqlite", "duckdb"):
        for name in ("text", "nothing", "."):
            table = recoup.Table(f"{kind}:///{tmp_path / name}", "records")
            assert "cannot be opened" in refusal(DatabaseError, lambda table=table: open_table(table, ["x"]))
    assert not (tmp_path / "nothing").exists()


def test_a_database_that_is_kept_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoup.curator.tables.sqlite_table.LOCK_SECONDS", 0.01)
    with closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE records (x INTEGER)")
        connection.execute("BEGIN EXCLUSIVE")
        table = recoup.Table(f"sqlite:///{tmp_path / 't.db'}", "records")
        assert "locked" in refusal(DatabaseError, lambda: open_table(table, ["x"]))
    with closing(duckdb.connect(str(tmp_path / "t.duckdb"))):
        table = recoup.Table(f"duckdb:///{tmp_path / 't.duckdb'}", "records")
        assert "hand over that connection" in refusal(DatabaseError, lambda: open_table(table, ["x"]))


def test_a_driver_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, address in {"duckdb": f"duckdb:///{tmp_path}/a", "adbc_driver_postgresql": "postgresql:///a"}.items():
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(DatabaseError, match=r"recoup\[db\]"):
            open_table(recoup.Table(address, "records"), ["x"])


# ---- addresses ----


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:SECRET@host/clinic",
        "postgresql://me:SEC@RET@host/clinic",
        "postgresql://me:SEC/RET@host/clinic",
        "postgresql://me:SEC?RET@host/clinic",
        "postgresql://me:SEC#RET@host/clinic",
        "postgresql:///clinic?password=SECRET",
        "postgresql:///clinic?sslpassword=SECRET",
        "postgresql:///clinic?options=-csearch_path%3DSECRET",
        "postgresql://me:SECRET@[host/clinic",
        "postgres://:SECRET@host/clinic",
        "mysql://me:SECRET@host/clinic",
        "host=a password=SECRET",
        "sqlite://SECRET/clinic.db",
        "sqlite:///clinic.db?SECRET=1",
        "sqlite:///",
        "sqlite:///a\nSECRET",
        "SECRET.db",
        "",
    ],
)
def test_an_address_that_says_too_much_is_refused_and_not_quoted(address: str) -> None:
    refusal(ParameterError, lambda: recoup.Table(address, "visits"))
    if "://" in address:
        refusal(DataError, lambda: open_table(address, ["x"]))


def test_other_arguments_are_refused() -> None:
    for arguments in (
        {"database": 1, "name": "a"},
        {"database": "sqlite:///a", "name": ""},
        {"database": "sqlite:///a", "name": 3},
        {"database": "sqlite:///a", "name": "a\0b"},
        {"database": "sqlite:///a", "name": "a", "copy": "yes"},
    ):
        refusal(ParameterError, lambda arguments=arguments: recoup.Table(**arguments))


def test_a_table_can_be_shown_compared_and_stored() -> None:
    table = recoup.Table("postgresql://me@host:5433/clinic?sslmode=require", "visits", copy=True)
    assert repr(table) == "Table('postgresql://me@host:5433/clinic?sslmode=require', 'visits', copy=True)"
    assert pickle.loads(pickle.dumps(table)) == table == copy.deepcopy(table)
    live = recoup.Table(duckdb.connect(), "visits")
    assert repr(live) == "Table(<connection>, 'visits')"


def test_relative_and_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = SQLiteEngine(tmp_path)
    engine.run("CREATE TABLE t (x INTEGER)", "INSERT INTO t VALUES (5)")
    (tmp_path / "clinic.db").rename(tmp_path / "a b?#%.db")
    for address in ("sqlite:///a%20b%3F%23%25.db", f"sqlite:///{tmp_path}/a%20b%3F%23%25.db"):
        assert sorted_rows(open_table(recoup.Table(address, "t"), ["x"]))[0].tolist() == [[5.0]]


# ---- what hands it over ----


def test_estimators_and_functions_take_a_table(engine: Engine) -> None:
    written(engine, records(300, np.random.default_rng(0)))
    table = recoup.Table(engine.address, "records")
    bounds = {"x": (0, 10), "z": (-3, 3)}
    model = recoup.PrivateKMeans(2, epsilon=1, bounds=bounds, person="who", random_state=0).fit(table)
    assert model.cluster_centers_.shape == (2, 2)
    assert len(model.predict(table)) == 300
    assert recoup.count_incomplete(table, bounds, epsilon=1).used > 0
    assert set(recoup.find_bounds(table, ["x", "z"], epsilon=1)) == {"x", "z"}
    logistic = recoup.PrivateLogisticRegression(epsilon=1, bounds={"z": (-3, 3)}, classes=(3, 4), postprocess="none")
    logistic.fit(table, "x")
    refusal(DataError, lambda: logistic.fit(table, [3, 4] * 150))


def test_rivals_read_a_table_too(engine: Engine) -> None:
    written(engine, records(300, np.random.default_rng(0)))
    model = recoup.PrivateKMeans(2, epsilon=1, bounds={"x": (0, 10), "z": (-3, 3)}, algorithm="gupt")
    assert model.fit(recoup.Table(engine.address, "records")).cluster_centers_.shape == (2, 2)


def test_no_error_is_untyped(engine: Engine) -> None:
    written(engine, records(5, np.random.default_rng(0)))
    for columns, name in (
        (["x", "x"], "records"),
        ([], "records"),
        (["c"], "records"),
        (["x"], "no"),
        (None, "records"),
    ):
        with pytest.raises(RecoupError):
            open_table(recoup.Table(engine.address, name), columns)
    assert BOX.columns == ("x", "z")
