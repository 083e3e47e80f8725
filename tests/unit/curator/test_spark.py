"""What can be said about Spark without Spark: the worker's part, and how frames are told apart and refused.

The rest runs on a real Spark: `make test-integration`.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import recoup
from recoup.curator.source import open_source
from recoup.curator.spark import (
    SparkSource,
    SparkTable,
    _unreadable_file,
    is_spark,
    open_spark,
    partial_totals,
    spark_table,
)
from recoup.curator.tables.open import open_table
from recoup.curator.tables.wanted import Wanted
from recoup.errors import ColumnTypeError, DataError, SparkError, UnknownColumnError
from recoup.queries.base import Query
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery

BOX = recoup.Box([-1, -1], [1, 1])
QUERY = VoronoiQuery(centers=np.array([[-0.5, 0.5], [0.5, -0.5]]))


def added(batches: list[Any], query: Query, factors: list[float], version: str = recoup.__version__) -> list[int]:
    total = [0] * query.size
    for part in partial_totals(iter(batches), version, query.to_json(), BOX.to_json(), factors):
        rows = part.to_pydict()
        for i, high, low in zip(rows["position"], rows["high"], rows["low"], strict=True):
            assert 0 <= low < 2**32
            total[i] += (high << 32) + low
    return total


def batches_of(rows: np.ndarray, size: int) -> list[Any]:
    return pa.table({"c0": rows[:, 0], "c4": rows[:, 1]}).to_batches(max_chunksize=size)


@pytest.mark.parametrize("size", [1, 333, 2_000])
def test_a_partition_is_added_up_as_a_local_table(size: int) -> None:
    rows = np.random.default_rng(0).uniform(-1.5, 1.5, size=(2_000, 2))
    rows[::7, 1] = np.nan
    expected = open_source(rows, BOX).total(QUERY, np.full(QUERY.size, 2.0**29))
    assert min(expected) < 0 < max(expected)
    assert added(batches_of(rows, size), QUERY, [2.0**29] * QUERY.size) == expected


def test_totals_beyond_32_bits_travel_in_two_halves() -> None:
    rows = np.full((40, 2), -1.0)
    totals = added(batches_of(rows, 40), QUERY, [2.0**30] * QUERY.size)
    assert max(totals) > 2**32
    assert min(totals) < -(2**32)
    assert totals == open_source(rows, BOX).total(QUERY, np.full(QUERY.size, 2.0**30))


def test_an_empty_partition_says_nothing() -> None:
    query = GridQuery(sides=(2, 2))
    for batches in ([], batches_of(np.full((3, 2), np.nan), 3), batches_of(np.empty((0, 2)), 3)):
        task = (recoup.__version__, query.to_json(), BOX.to_json(), [1.0] * 4)
        assert list(partial_totals(iter(batches), *task)) == []


def test_a_worker_of_another_version_refuses() -> None:
    with pytest.raises(SparkError, match="not the driver's version"):
        added(batches_of(np.zeros((1, 2)), 1), QUERY, [1.0] * QUERY.size, version="0.0")


def test_adding_up_changes_no_setting_of_the_process() -> None:
    before = dict(os.environ)
    added(batches_of(np.zeros((1, 2)), 1), QUERY, [1.0] * QUERY.size)
    assert dict(os.environ) == before


def frame_class(**members: Any) -> type:
    """A class that passes for a Spark DataFrame, as far as a schema goes."""
    return type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"} | members)


def declared(kind: str) -> Any:
    return SimpleNamespace(typeName=lambda: kind, simpleString=lambda: f"{kind}!")


def planned(streaming: bool = False) -> Any:
    def select(self: Any, *names: str) -> Any:
        self.selected = names
        return self

    def stream(self: Any, requested_schema: object = None) -> Any:
        raise AssertionError("records were fetched")

    fields = [SimpleNamespace(name=name, dataType=declared(kind)) for name, kind in zip("abca", KINDS, strict=True)]
    members = {
        "schema": SimpleNamespace(fields=fields),
        "isStreaming": streaming,
        "mapInArrow": None,
        "toDF": lambda self, *names: self,
        "select": select,
        "__arrow_c_stream__": stream,
    }
    return frame_class(**members)()


KINDS = ("double", "decimal", "string", "long")


def test_errors_of_spark_keep_nothing_of_what_spark_said() -> None:
    def fails(*_: object) -> Any:
        raise RuntimeError("SECRET")

    source = object.__new__(SparkSource)
    source._domain = BOX
    source._table = SparkTable(("a", "b"), 2, fails, frame_class(mapInArrow=fails)())
    broken = frame_class(mapInArrow=None, schema=property(fails))()
    for work in (lambda: source.total(QUERY, np.ones(QUERY.size)), lambda: spark_table(broken, Wanted())):
        with pytest.raises(SparkError) as caught:
            work()
        assert "SECRET" not in str(caught.value)
        assert caught.value.__context__ is caught.value.__cause__ is None


def test_a_spark_frame_is_opened_by_its_schema_and_never_read() -> None:
    assert is_spark(planned())
    assert not is_spark(pa.table({"a": [1.0]}))
    with pytest.raises(DataError, match="A list is no Spark DataFrame and no name of a Spark table"):
        open_spark([[1.0, 2.0]])
    for X in (planned(), open_spark(planned())):
        table = open_table(X, ["b"], n_columns=1)
        assert isinstance(table, SparkTable)
        assert table.columns == ("b",)
        assert table.frame.selected == ("c1",)
        with pytest.raises(DataError, match="stay where they are"):
            list(table.blocks())


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["d"], UnknownColumnError, "no column 'd'"),
        (["c"], ColumnTypeError, "'c' is declared as string!"),
        (["a"], DataError, "more than one column 'a'"),
        (["b", "b"], DataError, "declared twice"),
    ],
)
def test_wrong_columns_are_refused(columns: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_table(planned(), columns)


def test_frames_of_other_kinds_are_refused() -> None:
    with pytest.raises(DataError, match="streaming"):
        open_table(planned(streaming=True), ["b"])
    with pytest.raises(DataError, match="to_spark"):
        open_table(frame_class()(), ["b"])
    with pytest.raises(SparkError, match="cannot resolve the DataFrame"):
        open_table(frame_class(mapInArrow=None)(), ["b"])


def test_a_file_that_could_not_be_read_is_named_without_the_values_of_its_folders() -> None:
    class Failed(Exception):
        def getCondition(self) -> str:
            return "FAILED_READ_FILE.NO_HINT"

        def getMessageParameters(self) -> dict[str, str]:
            return {"path": "s3a://in/people/age=31/city=Bad%20Ems/part-0.parquet"}

    assert _unreadable_file(Failed()) == "s3a://in/people/age=*/city=*/part-0.parquet"
