"""The benchmark's Spark part on a real local Spark."""

from __future__ import annotations

from typing import Any

import pytest

from recoup_lab.bench import spark as bench_spark
from recoup_lab.bench.rules import Rules
from recoup_lab.bench.tables import cluster_tables, tables_of


def test_spark_is_raced_and_its_cost_projected(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_spark, "_SIZES", (10**9,))
    part = bench_spark.measure_spark(Rules(quick=True, max_records=8000), session=spark)
    assert [r.shape["held"] for r in part.races] == ["files", "files", "cached", "cached"]
    assert [r.shape["n_records"] for r in part.races] == [2000, 8000, 2000, 2000]
    assert [r.shape["n_partitions"] for r in part.races[2:]] == [1, 7]
    assert all(r.facts["agree"] for r in part.races)
    # Seven partitions send at most 110 totals each; one partition has nothing to send.
    assert part.races[2].facts["shuffled_rows"] == 0
    assert 110 < part.races[3].facts["shuffled_rows"] <= 770
    assert part.facts["projection_from"] == "spark"
    assert all(value >= 0 for value in part.facts["spark"].values())
    assert tables_of(part)[0].rows[0][-2] == "yes"
    assert len(cluster_tables(part)[0].rows) == 2
