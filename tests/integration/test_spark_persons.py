"""On a real Spark: what persons contribute equals the local result bit for bit, on either kind of session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from person_cases import KEY, SCHEMA

import recoup
from recoup.curator.source import open_source
from recoup.domain import Domain
from recoup.errors import SparkError
from recoup.mixed import Mixed
from recoup.queries.cells import VoronoiQuery
from recoup.schema import Category

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

NAMES = ("x", "y")
DOMAINS: dict[str, Domain] = {
    "box": recoup.Box([-1, -1], [1, 1], NAMES),
    "l1": recoup.L1Ball([-1, -1], [1, 1], NAMES),
    "l2": recoup.L2Ball([-1, -1], [1, 1], NAMES),
    "mixed": Mixed(schema=SCHEMA),
}
WHO: dict[str, Any] = {
    "integer": np.array([0, 1, -1, 2**63 - 1, 1 << 32, -(2**63), *range(100, 140)]),
    "text": np.array(["ann", "bo", "ü", "ann ", "c" * 50, "", *map(str, range(40))], dtype=object),
    "float": np.array([0.0, -0.0, 1.5, np.nan, np.inf, -1.5, *np.linspace(2, 3, 40)]),
}
TERMS: dict[str, dict[str, Any]] = {
    "mean": {"per_person": "mean"},
    "sample": {"per_person": "sample", "records_per_person": 3, "key": KEY},
}


def visits(name: str, who: str, n: int = 3_000) -> pa.Table:
    """Records of persons, a few of whom have most of them; incomplete ones and nobody's are among them."""
    rng = np.random.default_rng(len(name) + len(who))
    share = np.array([0.6, 0.1, 0.05, 0.02, 0.02, 0.01] + [0.005] * 40)
    missing = rng.random(n) < 0.05
    columns: dict[str, Any] = {"who": pa.array(rng.choice(WHO[who], size=n, p=share), mask=missing)}
    domain = DOMAINS[name]
    if not isinstance(domain, Mixed):
        # Few different values, so that a person has records twice.
        values = np.round(rng.uniform(-1.3, 1.3, size=(n, 2)), 1)
        values[rng.random((n, 2)) < 0.01] = np.nan
        return pa.table(columns | {"x": values[:, 0], "y": values[:, 1]})
    for part in domain.parts:
        if isinstance(part.column, Category):
            found = rng.choice([*part.column.values, "elsewhere"], size=n, p=_shares(len(part.column.values)))
            columns[part.name] = pa.array(found.tolist(), mask=rng.random(n) < 0.02)
        else:
            found = rng.uniform(*part.bounds[0], size=n)
            columns[part.name] = pa.array(found, mask=rng.random(n) < 0.2)
    return pa.table(columns)


def _shares(n_values: int) -> list[float]:
    return [0.98 / n_values] * n_values + [0.02]


def total(X: Any, name: str, terms: str) -> list[int]:
    domain = DOMAINS[name]
    query = VoronoiQuery(centers=np.random.default_rng(0).uniform(-0.7, 0.7, size=(5, domain.n_columns)))
    source = open_source(X, domain, person="who", **TERMS[terms])
    return source.total(query, np.full(query.size, 2.0**29))


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize(("name", "who"), [("box", "integer"), ("l1", "text"), ("l2", "float"), ("mixed", "text")])
def test_spark_equals_local(spark: Any, name: str, who: str, terms: str) -> None:
    table = visits(name, who)
    expected = total(table, name, terms)
    assert sum(value != 0 for value in expected) > 3
    frame = spark.createDataFrame(table)
    for divided in (frame.coalesce(1), frame.repartition(5)):
        assert total(divided, name, terms) == expected


@pytest.mark.parametrize("person", [None, "who"])
def test_records_that_are_left_out_are_the_same(spark: Any, person: str | None) -> None:
    table = visits("mixed", "text")
    terms = {"epsilon": 1, "person": person, "noise": "simulated", "random_state": 0}
    counted = [
        recoup.count_incomplete(X, SCHEMA, **terms) for X in (table, spark.createDataFrame(table).repartition(5))
    ]
    assert counted[0].transcript.rounds[0].integers == counted[1].transcript.rounds[0].integers
    assert min(counted[0].used, counted[0].left_out) > 1 or person is not None


@pytest.mark.parametrize("terms", TERMS)
def test_two_persons_in_one_would_be_noticed(spark: Any, terms: str) -> None:
    table = visits("box", "text")
    who = pc.if_else(pc.equal(table["who"], "bo"), "ü", table["who"])
    assert total(spark.createDataFrame(table.set_column(0, "who", who)), "box", terms) != total(table, "box", terms)


@pytest.mark.parametrize("terms", TERMS)
def test_no_records_and_records_of_nobody(spark: Any, terms: str) -> None:
    table = visits("box", "integer", 50)
    nobody = table.set_column(0, "who", pa.nulls(50, pa.int64()))
    for X in (spark.createDataFrame(table).limit(0), spark.createDataFrame(nobody)):
        assert set(total(X, "box", terms)) == {0}


def test_a_failure_names_no_person(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "visits"
    folder.mkdir()
    pq.write_table(visits("box", "text"), folder / "a.parquet")
    pq.write_table(visits("box", "text"), folder / "b.parquet")
    frame = spark.read.parquet(str(folder))
    (folder / "b.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(SparkError, match=r"over 2 columns failed") as raised:
        total(frame, "box", "mean")
    assert raised.value.__context__ is None
    assert "ann" not in "".join(traceback.format_exception_only(raised.value)).replace("cannot", "")


SCRIPT = """
import json, sys
import numpy as np
from pyspark.sql import SparkSession
import recoup
from recoup.curator.source import open_source
from recoup.queries.cells import VoronoiQuery

path, terms = sys.argv[1], json.loads(sys.argv[2])
spark = SparkSession.builder.remote("local[2]").getOrCreate()
frame = spark.read.parquet(path).repartition(3)
domain = recoup.Box([-1, -1], [1, 1], ("x", "y"))
query = VoronoiQuery(centers=np.random.default_rng(0).uniform(-0.7, 0.7, size=(5, 2)))
found = [
    open_source(frame, domain, person="who", **own).total(query, np.full(query.size, 2.0**29)) for own in terms.values()
]
print(json.dumps([type(spark).__module__, found]))
"""


def test_spark_connect(tmp_path: Path) -> None:
    path, table = tmp_path / "visits.parquet", visits("box", "text")
    pq.write_table(table, path)
    inherited = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), json.dumps(TERMS)],
        env=inherited | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    kind, found = json.loads(done.stdout.splitlines()[-1])
    assert kind.startswith("pyspark.sql.connect")
    assert found == [total(table, "box", terms) for terms in TERMS]
