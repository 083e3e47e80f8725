"""Tables of a real PostgreSQL: a cluster of its own, in a temporary folder, with a password."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np
import pytest
from adbc_driver_postgresql import dbapi
from database_cases import (
    ODD,
    check_odd_cell,
    check_snapshot,
    check_totals,
    records,
    release_while,
    sorted_rows,
    written,
)
from table_kinds import refusal
from typer.testing import CliRunner

import recoup
from recoup.cli.app import app
from recoup.curator.tables import postgres_table
from recoup.curator.tables.open import open_table
from recoup.errors import ColumnTypeError, DatabaseError, UnknownColumnError

PASSWORD = "SECRET-of-the-curator"
PORT = "54329"


class Cluster:
    """A cluster that listens on a socket in its folder, run by somebody who is not root."""

    types: ClassVar = {"x": "int8", "z": "float8", "c": "text", "who": "text"}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        if self.user:
            shutil.chown(folder, "postgres", "postgres")
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        options = ["-U", "curator", "-A", "scram-sha-256", "--pwfile", str(folder / "password"), "-E", "UTF8"]
        self.tool("initdb", "-D", str(folder / "data"), "--locale=C.UTF-8", "--no-sync", *options)
        self.start()

    @property
    def address(self) -> str:
        return self.address_of("postgres")

    def address_of(self, database: str) -> str:
        return f"postgresql:///{database}?host={quote(str(self.folder), safe='')}&port={PORT}&user=curator"

    def tool(self, name: str, *words: str) -> None:
        found = shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
        command = [os.path.realpath(found), *words]
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=120, **self.user)

    def start(self) -> None:
        options = f"-k {self.folder} -p {PORT} -c listen_addresses='' -c fsync=off"
        log = str(self.folder / "log")
        self.tool("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self.tool("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "immediate", "stop")

    def run(self, *statements: str, database: str = "postgres") -> None:
        with dbapi.connect(self.address_of(database), autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        folder = Path(tempfile.mkdtemp(prefix="recoup-pg-"))
        cluster = Cluster(folder)
        yield cluster
        cluster.stop()
        shutil.rmtree(folder)


def table(cluster: Cluster, name: str = "records", **more: bool) -> recoup.Table:
    return recoup.Table(cluster.address, name, **more)


@pytest.mark.parametrize("seed", range(3))
def test_totals_are_those_of_a_file(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    check_totals(cluster, tmp_path, seed)


@pytest.mark.parametrize(("kind", "ordinary", "cell"), ODD["PostgreSQL"])
def test_an_odd_cell_changes_nothing_but_itself(cluster: Cluster, kind: str, ordinary: str, cell: str) -> None:
    check_odd_cell(cluster, kind, cell)


def test_a_round_reads_one_snapshot(cluster: Cluster) -> None:
    check_snapshot(cluster)


def test_decimals_of_declared_digits_are_those_of_parquet(cluster: Cluster, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells = [f"{v / 1000:.3f}" for v in np.random.default_rng(0).integers(-(10**11), 10**11, 2000).tolist()]
    pq.write_table(pa.table({"x": pa.array(cells).cast(pa.decimal128(12, 3))}), tmp_path / "t.parquet")
    cluster.run("DROP TABLE IF EXISTS d", "CREATE TABLE d (x numeric(12,3))")
    cluster.run(f"INSERT INTO d VALUES {', '.join(f'({cell})' for cell in cells)}")
    found, expected = (sorted_rows(open_table(X, ["x"]))[0] for X in (table(cluster, "d"), tmp_path / "t.parquet"))
    np.testing.assert_array_equal(found, expected)


def test_types_are_those_of_the_catalogue(cluster: Cluster) -> None:
    cluster.run(
        "DROP SCHEMA IF EXISTS kinds CASCADE",
        "CREATE SCHEMA kinds",
        "CREATE TYPE kinds.ward AS ENUM ('a', 'b')",
        "CREATE DOMAIN kinds.age AS int4 CHECK (VALUE >= 0)",
        "CREATE DOMAIN kinds.years AS kinds.age",
        "CREATE TABLE kinds.t (y kinds.years, w kinds.ward, u uuid, n numeric, d date, ts timestamptz, b bytea,"
        " j jsonb, a int4[], i interval, m money)",
        "INSERT INTO kinds.t (y, w, u, n) VALUES (3, 'b', '00000000-0000-0000-0000-00000000000a', 1.50),"
        " (4, 'a', NULL, 1.5), (5, NULL, NULL, 100), (6, NULL, NULL, 'NaN'), (7, NULL, NULL, 0.0)",
    )
    kinds = table(cluster, "kinds.t")
    schema = recoup.Schema({"y": recoup.Number(0, 9), "w": recoup.Category(["a", "b"])})
    assert np.nan_to_num(sorted_rows(open_table(kinds, schema=schema))[0], nan=-1).tolist() == [
        *([3, 1], [4, 0], [5, -1], [6, -1], [7, -1])
    ]
    assert sorted_rows(open_table(kinds, ["y"], person="n"))[1] == ["1.5", "1.5", "100", None, "0"]
    assert sorted_rows(open_table(kinds, ["y"], person="u"))[1][0] == "00000000-0000-0000-0000-00000000000a"
    for column in ("w", "u", "d", "ts", "b", "j", "a", "i", "m"):
        message = refusal(ColumnTypeError, lambda column=column: open_table(kinds, [column]))
        assert f"Column {column!r} is declared as" in message
    for column in ("d", "ts", "b", "j", "a"):
        refusal(ColumnTypeError, lambda column=column: open_table(kinds, ["y"], person=column))


@pytest.mark.parametrize("name", ["Visits", 'a"b', "a;b", "a'b", "ü", "select", "a.b", "\N{GRINNING FACE}", "$1"])
def test_a_name_is_an_exact_identifier(cluster: Cluster, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    cluster.run(f"DROP TABLE IF EXISTS {quoted}", f"CREATE TABLE {quoted} ({quoted} int4)")
    cluster.run(f"INSERT INTO {quoted} VALUES (3)")
    assert sorted_rows(open_table(table(cluster, name), [name]))[0].tolist() == [[3.0]]
    refusal(UnknownColumnError, lambda: open_table(table(cluster, name), ["ctid"]))
    for other in (name + " ", name + "; DROP TABLE records", quoted, f"public..{name}", "pg_class"):
        refusal(DatabaseError, lambda other=other: open_table(table(cluster, other)))


CHANGES = {
    "dropped": ["DROP TABLE records"],
    "another type": ["ALTER TABLE records ALTER COLUMN x TYPE text"],
    "a column less": ["ALTER TABLE records DROP COLUMN z"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_schema_that_changes_between_rounds_is_refused_before_the_charge(
    cluster: Cluster, tmp_path: Path, change: str
) -> None:
    refusal(DatabaseError, lambda: release_while(cluster, tmp_path, CHANGES[change]))
    assert len(recoup.Ledger(tmp_path / "ledger.db").entries()) == 1


def test_records_that_change_between_rounds_are_read_as_they_are(cluster: Cluster, tmp_path: Path) -> None:
    assert len(release_while(cluster, tmp_path, ["DELETE FROM records"]).rounds) == 3


class Vanishing(Cluster):
    """A cluster that stops instead of running what is asked for between rounds."""

    def __init__(self, cluster: Cluster) -> None:
        self.folder, self.user, self._writes = cluster.folder, cluster.user, cluster.run

    def run(self, *statements: str, database: str = "postgres") -> None:
        self.stop() if statements == ("vanish",) else self._writes(*statements)


def test_a_server_that_vanishes_is_refused_before_the_charge_and_the_run_goes_on_later(
    cluster: Cluster, tmp_path: Path
) -> None:
    try:
        message = refusal(DatabaseError, lambda: release_while(Vanishing(cluster), tmp_path, ["vanish"]))
    finally:
        cluster.start()
    assert "cannot be reached" in message
    assert len(recoup.Ledger(tmp_path / "ledger.db").entries()) == 1
    assert not recoup.Transcript.load(tmp_path / "t.json").pending


def test_a_read_that_is_cut_off_is_refused(cluster: Cluster) -> None:
    cluster.run("DROP TABLE IF EXISTS long", "CREATE TABLE long AS SELECT x::float8 FROM generate_series(1, 3000000) x")
    blocks = open_table(table(cluster, "long"), ["x"]).blocks(1_000)
    next(blocks)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'active'"
    cluster.run(others)
    assert "'long' cannot be read" in refusal(DatabaseError, lambda: list(blocks))
    assert sum(map(len, open_table(table(cluster, "long"), ["x"]).blocks())) == 3_000_000


def test_a_table_that_stays_locked_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    written(cluster, records(5, np.random.default_rng(0)))
    opened = open_table(table(cluster), ["x"])
    short = tuple(words.replace("lock_timeout = '30s'", "lock_timeout = '50ms'") for words in postgres_table._SETTINGS)
    assert short != postgres_table._SETTINGS
    monkeypatch.setattr(postgres_table, "_SETTINGS", short)
    with dbapi.connect(cluster.address) as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE records IN ACCESS EXCLUSIVE MODE")
        refusal(DatabaseError, lambda: list(opened.blocks()))
        connection.rollback()
    assert len(sorted_rows(opened)[0]) == 5


def test_a_message_that_quotes_a_record_does_not_get_through(cluster: Cluster) -> None:
    cluster.run("DROP VIEW IF EXISTS v", "DROP TABLE IF EXISTS s", "CREATE TABLE s AS SELECT 'SECRET'::text AS s")
    cluster.run("CREATE VIEW v AS SELECT s::int4 AS x FROM s")
    opened = open_table(table(cluster, "v"), ["x"])
    assert "'v' cannot be read" in refusal(DatabaseError, lambda: list(opened.blocks()))


def test_a_view_cannot_write(cluster: Cluster) -> None:
    cluster.run("DROP SEQUENCE IF EXISTS numbers CASCADE", "CREATE SEQUENCE numbers")
    cluster.run("CREATE VIEW counting AS SELECT nextval('numbers') AS x")
    opened = open_table(table(cluster, "counting"), ["x"])
    refusal(DatabaseError, lambda: list(opened.blocks()))


@pytest.mark.parametrize("encoding", ["EUC_JP", "SQL_ASCII"])
def test_text_that_may_have_no_form_in_utf8_is_refused_by_type(cluster: Cluster, encoding: str) -> None:
    cluster.run("DROP DATABASE IF EXISTS old")
    cluster.run(f"CREATE DATABASE old ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    cluster.run("CREATE TABLE t (x int4, s text)", "INSERT INTO t VALUES (1, 'a')", database="old")
    old = recoup.Table(cluster.address_of("old"), "t")
    assert sorted_rows(open_table(old, ["x"]))[0].tolist() == [[1.0]]
    refusal(ColumnTypeError, lambda: open_table(old, ["x"], person="s"))


def test_passwords_come_from_postgresqls_own_places_and_go_nowhere(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(cluster, records(300, np.random.default_rng(0)))
    for wrong in ("SECRET-and-wrong", None):
        with monkeypatch.context() as patch:
            patch.setenv("PGPASSWORD", wrong) if wrong else patch.delenv("PGPASSWORD")
            assert "does not let this user in" in refusal(DatabaseError, lambda: open_table(table(cluster), ["x"]))
    (tmp_path / "pgpass").write_text(f"*:*:*:curator:{PASSWORD}\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    recoup.Ledger.create(tmp_path / "ledger.db", epsilon=3)
    words = ["cluster", cluster.address, "--table", "records", "-k", "2", "--epsilon", "1", "--bounds", "x=0:10,z=-3:3"]
    words += ["--person", "who", "--ledger", str(tmp_path / "ledger.db"), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    for path in [*(tmp_path / "out").iterdir(), tmp_path / "ledger.db"]:
        assert PASSWORD.encode() not in path.read_bytes()
        assert str(cluster.folder).encode() not in path.read_bytes()
    assert PASSWORD not in result.output
