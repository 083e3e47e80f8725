"""Sessions that need a process of their own: Spark Connect, one that Recoup starts, and a machine without Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recoup
from recoup.curator.source import open_source
from recoup.queries.cells import VoronoiQuery

DOMAIN = recoup.Box([-3, -3], [3, 3], ("x", "y"))
QUERY = VoronoiQuery(centers=np.array([[-0.5, 0.1], [0.3, 0.2], [0.0, -0.4]]))
FACTORS = np.full(QUERY.size, 2.0**29)

PREAMBLE = """
import json, sys
import numpy as np
import recoup
from recoup.curator.source import open_source
from recoup.curator.spark import open_spark
from recoup.errors import SparkError
from recoup.queries import query_from_json

path, query = sys.argv[1], query_from_json(json.loads(sys.argv[2]))
domain, factors = recoup.Box([-3, -3], [3, 3], ("x", "y")), np.full(query.size, 2.0**29)
"""


def run(script: str, path: Path, **environment: str) -> dict[str, Any]:
    """The last line that a script prints, run in a process of its own."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("PYSPARK_PYTHON", "SPARK_REMOTE")}
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script, str(path), json.dumps(QUERY.to_json())],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=path.parent,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    rows[::100, 0] = np.nan
    folder = tmp_path / "records"
    folder.mkdir()
    for part in range(4):
        pq.write_table(pa.table({"x": rows[part::4, 0], "y": rows[part::4, 1]}), folder / f"{part}.parquet")
    return folder


def local(path: Path) -> list[int]:
    return open_source(path, DOMAIN).total(QUERY, FACTORS)


def test_spark_connect(table: Path) -> None:
    # Its own server on this machine: the client speaks to it through the protocol alone.
    expected = local(table)
    found = run(
        """
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
frame = spark.read.parquet(path)
frame.createOrReplaceTempView("people")
found = {"kind": type(spark).__module__, "frame": open_source(frame.repartition(5), domain).total(query, factors)}
named = open_source(open_spark("people"), domain)
found["name"] = named.total(query, factors)
Path(path, "2.parquet").write_bytes(b"PAR1 no more")
for key, work in {"failed": lambda: named.total(query, factors), "missing": lambda: open_spark("nowhere")}.items():
    try:
        work()
    except SparkError as error:
        found[key] = str(error)
print(json.dumps(found))
""",
        table,
        PYSPARK_PYTHON=sys.executable,
    )
    assert found["kind"].startswith("pyspark.sql.connect")
    assert found["frame"] == found["name"] == expected
    assert "over 2 columns of 'people' failed" in found["failed"]
    assert "2.parquet" in found["failed"]
    assert "cannot resolve the table 'nowhere'" in found["missing"]


def test_a_session_is_started_for_a_name(table: Path) -> None:
    found = run(
        """
import os
named = open_spark(f"parquet.`{path}`")
context = named.frame.sparkSession.sparkContext
found = {"total": open_source(named, domain).total(query, factors), "master": context.master, "page": context.uiWebUrl}
found["python"], found["host"] = os.environ["PYSPARK_PYTHON"], context.getConf().get("spark.driver.host")
found["same"] = open_spark(f"parquet.`{path}`").frame.sparkSession is named.frame.sparkSession
print(json.dumps(found))
""",
        table,
    )
    assert found == {
        "total": local(table),
        "master": "local[*]",
        "page": None,
        "python": sys.executable,
        "host": "127.0.0.1",
        "same": True,
    }


def test_without_java(table: Path) -> None:
    found = run(
        """
try:
    open_spark("people")
except SparkError as error:
    print(json.dumps({"error": str(error)}))
""",
        table,
        JAVA_HOME=str(table / "nowhere"),
    )
    assert "Spark cannot be started" in found["error"]
    assert "Java 17" in found["error"]
