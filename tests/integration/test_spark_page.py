"""The code of the Spark page runs on a real Spark."""

from __future__ import annotations

import numpy as np
import pyarrow
import pyspark
import pytest
from pages import DOCS, blocks_of
from pyarrow import parquet

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def test_the_blocks_of_the_page_run(spark, tmp_path):
    rows = np.random.default_rng(0).uniform((17, 1), (90, 99), size=(400, 2))
    parquet.write_table(pyarrow.table({"age": rows[:, 0], "hours": rows[:, 1]}), tmp_path / "people.parquet")
    spark.sql("CREATE DATABASE IF NOT EXISTS census")
    people = spark.read.parquet(str(tmp_path / "people.parquet"))
    people.write.mode("overwrite").saveAsTable("census.people")
    names = {"spark": spark, "people": people, "pyarrow": pyarrow, "pyspark": pyspark}
    blocks = [b for b in blocks_of((DOCS / "spark.md").read_text(encoding="utf-8")) if b.language == "python"]
    assert blocks
    try:
        for block in blocks:
            # The last expression of a block is a value that a reader would use: here it is computed.
            *body, last = block.text.rstrip().rsplit("\n\n", 1) if "mapInArrow" in block.text else (block.text, "")
            exec(compile("\n".join(body), "docs/spark.md", "exec"), names)
            if last:
                assert eval(compile(last, "docs/spark.md", "eval"), names).count() == len(rows)
        assert names["model"].cluster_centers_.shape == (10, 2)
    finally:
        spark.sql("DROP DATABASE census CASCADE")
