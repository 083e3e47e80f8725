"""Commands on tables of databases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from database_cases import DuckDBEngine, Engine, SQLiteEngine, records, written
from typer.testing import CliRunner

from recoup.cli.app import app

BOUNDS = ["--epsilon", "1", "--bounds", "x=0:10,z=-3:3"]


@pytest.fixture(params=[DuckDBEngine, SQLiteEngine])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    engine: Engine = request.param(tmp_path)
    written(engine, records(300, np.random.default_rng(0)))
    return engine


def called(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.slow
def test_every_command_that_reads_records_takes_a_table(engine: Engine, tmp_path: Path) -> None:
    table = [engine.address, "--table", "records"]
    called("release", *table, "-k", "2", *BOUNDS, "--rounds", "2", "-o", str(tmp_path / "t.json"))
    called(
        "cluster", *table, "-k", "2", *BOUNDS, "--person", "who", "--algorithm", "lloyd", "-o", str(tmp_path / "out")
    )
    called("incomplete", *table, *BOUNDS)
    compared = ["compare", *table[:1], str(tmp_path / "t.json"), *table[1:], "--method", "none"]
    called(*compared, "-o", str(tmp_path / "c.png"))
    said = called("bounds", *table, "--columns", "x,z", "--epsilon", "1", "-o", str(tmp_path / "s.toml"))
    assert f"recoup cluster {engine.address} --table records" in said
    assert engine.address not in (tmp_path / "t.json").read_text()


def test_an_address_needs_a_table_and_a_path_has_none(engine: Engine, tmp_path: Path) -> None:
    assert "--table" in called("cluster", engine.address, "-k", "2", *BOUNDS, code=2)
    assert "only a database has tables" in called("incomplete", "a.csv", "--table", "a", *BOUNDS, code=2)
    refused = called("cluster", "postgresql://me:SECRET@host/a", "--table", "t", "-k", "2", *BOUNDS, code=2)
    assert "PGPASSWORD" in refused
    assert "SECRET" not in refused
    assert "SECRET" not in called("cluster", "mysql://me:SECRET@host/a", "-k", "2", *BOUNDS, code=2)


def test_a_config_may_name_the_table(engine: Engine, tmp_path: Path) -> None:
    config = {"data": engine.address, "table": "records", "epsilon": 1, "bounds": "x=0:10,z=-3:3"}
    (tmp_path / "run.json").write_text(json.dumps(config))
    called("incomplete", "--config", str(tmp_path / "run.json"))
