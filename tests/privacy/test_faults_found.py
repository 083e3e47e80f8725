"""Bugs that the kills and the fuzzer of `audit/` found, each by the shortest way to it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recoup import Box, KMeans, Ledger, Transcript, release
from recoup._files import exclusive
from recoup.cli.settings import read_columns, read_config
from recoup.errors import (
    BoundsError,
    BudgetError,
    LedgerFormatError,
    ParameterError,
    TranscriptFormatError,
    TranscriptVersionError,
    UnreadableFileError,
)
from recoup.imported import imported_from_json
from recoup.inference.inferred import InferredDataset
from recoup.privacy import price as accounting
from recoup.privacy.price import Price, epsilon_of_rho
from recoup.transcript.context import Context

BOX = Box([0, 0], [1, 1])
TABLE = np.random.default_rng(0).uniform(size=(40, 2))


# ---- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["ledger_file._make_tables", "ledger_file.fraction_text", "ledger.appearing"])
def test_a_ledger_that_dies_while_it_is_made_leaves_no_half_of_one(tmp_path: Path, where: str) -> None:
    dying = f"""
import os, sys, recoup.privacy.ledger, recoup.privacy.ledger_file
recoup.privacy.{where} = lambda *_: os._exit(9)
recoup.privacy.ledger.Ledger.create(sys.argv[1], epsilon=1)
"""
    path = tmp_path / "l.db"
    assert subprocess.run([sys.executable, "-c", dying, str(path)]).returncode == 9
    assert not path.exists()
    assert Ledger.create(path, epsilon=1).left == 1


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left, other = tmp_path / ".t[1].json.abc.part", tmp_path / ".u.json.abc.part"
    left.write_text("half")
    other.write_text("of another file")
    with exclusive(tmp_path / "t[1].json"):
        assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == [other.name]


def test_a_last_round_that_was_lost_is_written_down_as_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, ledger = tmp_path / "t.json", Ledger.create(tmp_path / "l.db", epsilon=1)
    terms = {"domain": BOX, "epsilon": 1, "ledger": ledger, "path": path}
    charge = Ledger.charge

    def charge_and_die(self: Ledger, price: Price, **named: str) -> None:
        charge(self, price, **named)
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "charge", charge_and_die)
        with pytest.raises(SystemExit):
            release(KMeans(n_clusters=2, n_rounds=1), TABLE, **terms)
    assert Transcript.load(path).pending == 1
    done = release(KMeans(n_clusters=2, n_rounds=1), TABLE, resume=True, **terms)
    assert (done.rounds, done.lost, done.pending) == ((), (Fraction(1),), None)
    assert Transcript.load(path).to_json() == done.to_json()


# ---- ledgers ---------------------------------------------------------------------------------------------------------

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.parametrize(
    "statement",
    [
        f"DROP TABLE budget; CREATE VIEW budget AS SELECT 1 id, '1/1' epsilon, '0/1' delta, ({_ENDLESS}) rho",
        "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM entry; END",
        "CREATE VIEW more AS SELECT 1",
        "UPDATE budget SET epsilon = '1e999999999'",
        "UPDATE budget SET epsilon = '-1/1'",
        "UPDATE budget SET epsilon = 1e400",
        "UPDATE budget SET delta = '1/1'",
        "UPDATE entry SET pure_after = '9/1', spent_after = '9/1'",
        "UPDATE entry SET spent_after = '0/1'",
        "UPDATE entry SET n_zcdp_after = 'some'",
        "UPDATE entry SET n_zcdp_after = -1",
    ],
)
def test_a_ledger_with_a_program_or_an_impossible_number_is_refused(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "l.db"
    Ledger.create(path, epsilon=1).charge(Price(measure="pure", amount=Fraction(1, 2)), purpose="round")
    connection = sqlite3.connect(path)
    connection.executescript(statement)
    connection.close()
    with pytest.raises(LedgerFormatError):
        Ledger(path)


@pytest.mark.parametrize("column", ["run", "purpose", "amount"])
def test_an_entry_of_the_wrong_kind_is_refused(tmp_path: Path, column: str) -> None:
    path = tmp_path / "l.db"
    ledger = Ledger.create(path, epsilon=1)
    ledger.charge(Price(measure="pure", amount=Fraction(1, 2)), purpose="round")
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE entry SET {column} = x'ff00'")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerFormatError):
        ledger.entries()


def test_a_ledger_whose_schema_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    Ledger.create(path, epsilon=1)
    content = path.read_bytes()
    assert content.count(b"CREATE TABLE budget") == 1
    path.write_bytes(content.replace(b"CREATE TABLE budget", b"CREATE TABLE \xff\xfe\xfd \xfc\xfb"))
    with pytest.raises(LedgerFormatError):
        Ledger(path)


def test_a_purpose_that_is_no_text_is_refused_and_not_charged() -> None:
    ledger = Ledger.in_memory(epsilon=1)
    with pytest.raises(ParameterError):
        ledger.charge(Price(measure="pure", amount=Fraction(1, 2)), purpose="\ud800")
    assert ledger.spent == 0


# ---- inferred data sets ----------------------------------------------------------------------------------------------


def _parquet(path: Path, columns: dict[str, object], header: bytes | None = None) -> Path:
    header = json.dumps({"method": "maxent", "simulated": False, "named": True}).encode() if header is None else header
    pq.write_table(pa.table(columns).replace_schema_metadata({b"recoup": header}), path, compression="zstd")
    return path


@pytest.mark.parametrize(
    ("columns", "header"),
    [
        ({"x": [1.0, float("nan")], "weight": [1.0, 1.0]}, None),
        ({"x": [1.0, None], "weight": [1.0, 1.0]}, None),
        ({"x": [1.0, 2.0], "weight": [1.0, -1.0]}, None),
        ({"x": [1.0, 2.0], "weight": [1.0, float("inf")]}, None),
        ({"x": ["1", "2"], "weight": [1.0, 1.0]}, None),
        ({"x": pa.array([], pa.float64()), "weight": pa.array([], pa.float64())}, None),
        ({"x": [1.0], "weight": [1.0]}, b"[" * 100_000),
        ({"x": [1.0], "weight": [1.0]}, '{"method": "", "simulated": false, "named": true}'.encode("utf-16")),
    ],
)
def test_an_inferred_data_set_of_other_numbers_is_refused(
    tmp_path: Path, columns: dict[str, object], header: bytes | None
) -> None:
    with pytest.raises(UnreadableFileError):
        InferredDataset.load(_parquet(tmp_path / "i.parquet", columns, header))


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_before(tmp_path: Path) -> None:
    many = pa.array(np.zeros(4_000_000))
    path = _parquet(tmp_path / "i.parquet", {f"x{j}": many for j in range(16)} | {"weight": many})
    assert path.stat().st_size < 1_000_000
    with pytest.raises(UnreadableFileError):
        InferredDataset.load(path)


def test_a_path_is_a_local_file_whatever_it_looks_like() -> None:
    with pytest.raises(UnreadableFileError):
        InferredDataset.load("http://[::1]/inferred.parquet")


# ---- bounds, configurations, transcripts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ' + "[" * 100_000,
        '{"a": [0, 1], "a": [0, 2]}',
        "a" * 5_000 + ".toml",
        "\ud800.json",
        "a=0:" + "9" * 50_000 + "x",
    ],
)
def test_typed_bounds_end_in_a_short_typed_error(text: str) -> None:
    with pytest.raises(BoundsError) as caught:
        read_columns(text)
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("text", ["a" + ".a" * 100_000 + " = 1", "#" * (5 << 20)])
def test_settings_that_would_take_minutes_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bounds.toml"
    path.write_text(text)
    with pytest.raises(BoundsError):
        read_columns(str(path))


def test_deep_bounds_in_a_config_are_refused(tmp_path: Path) -> None:
    import typer

    from recoup.cli.app import app

    path = tmp_path / "run.toml"
    path.write_text("bounds" + ".a" * 5_000 + " = 1")
    with pytest.raises(ParameterError):
        read_config(path, typer.main.get_command(app).commands["release"].params)  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_scale_so_small_that_its_price_is_infinite_is_refused(mechanism: str) -> None:
    # The price in the file could be any: noise of no size was taken for noise of the claimed one.
    made = release(
        KMeans(n_clusters=2, n_rounds=1),
        TABLE,
        domain=BOX,
        epsilon=1,
        delta="1e-6" if mechanism == "gaussian" else 0,
        noise="simulated",
        random_state=0,
    )
    for scale in (5e-324, 1e-300):
        spoilt = replace(made, rounds=(replace(made.rounds[0], scale=scale),))
        with pytest.raises(TranscriptFormatError, match="price does not follow"):
            Transcript.from_json(spoilt.to_json())


def test_a_schema_version_of_any_size_is_refused() -> None:
    with pytest.raises(TranscriptVersionError):
        Transcript.from_json({"format": "recoup-transcript", "schema_version": 10**5000})


def test_a_budget_that_pays_for_no_gaussian_noise_is_refused_at_once() -> None:
    for epsilon, delta in (("1e-100", "1e-6"), ("1", "1e-301")):
        with pytest.raises(BudgetError):
            Context(domain=BOX, epsilon=Fraction(epsilon), delta=Fraction(delta), mechanism="gaussian")


def test_a_number_of_records_that_no_file_can_hold_is_refused() -> None:
    for n in (2**63, 10**5000):
        with pytest.raises(ParameterError, match="too large"):
            Context(domain=BOX, epsilon=Fraction(1), n_records=n)


def test_an_algorithm_of_a_googol_rounds_is_refused() -> None:
    for n in (2**31, 10**5000, -(10**5000)):
        with pytest.raises(ParameterError, match="too large"):
            KMeans(n_clusters=2, n_rounds=n)


def test_a_tiny_epsilon_is_priced_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(accounting, "epsilon_of_rho", lambda rho, delta: calls.append(1) or epsilon_of_rho(rho, delta))
    accounting._largest_rho.cache_clear()
    rho = accounting.rho_of(Fraction(1, 10**23), Fraction(1, 10**6))
    # It took a step for each factor of two between epsilon^2 and delta^2.
    assert len(calls) < 90
    assert epsilon_of_rho(rho, Fraction(1, 10**6)) <= Fraction(1, 10**23)
    accounting._largest_rho.cache_clear()


def test_centres_that_overflow_are_refused_without_a_warning() -> None:
    query = {"type": "voronoi", "centers": [[1e308], [-1e308]], "sums": "absolute"}
    value = {"format": "recoup-foreign", "bounds": {"x": [0, 1e-3]}, "mechanism": "laplace", "epsilon": 1}
    value |= {"units": "user", "rounds": [{"query": query, "noisy": [1, 1, 1, 1], "scale": 1}]}
    with pytest.raises(TranscriptFormatError):
        imported_from_json(value)
