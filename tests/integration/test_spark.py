"""On a real Spark: totals equal the local ones bit for bit, whatever happens, and nothing else comes back.

Functions that run on workers are written inside functions: those travel whole, while a worker cannot import this file.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recoup
from recoup.curator.source import open_source
from recoup.curator.spark import open_spark
from recoup.errors import ColumnTypeError, DataError, SparkError, UnknownColumnError
from recoup.queries.base import Query
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

NAMES = ("x", "y", "z")
BOX = recoup.Box([-3, -3, -50], [3, 3, 50], NAMES)
BALL = recoup.L2Ball([-3, -3, -50], [3, 3, 50], NAMES)


def records(n: int, seed: int = 0) -> pa.Table:
    """Doubles, floats and integers, with missing, infinite and far-away values among them."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.normal(size=n).astype(np.float32)
    x[rng.random(n) < 0.01] = np.inf
    y[rng.random(n) < 0.01] = np.nan
    z = pa.array(rng.integers(-60, 60, size=n), mask=rng.random(n) < 0.01)
    return pa.table({"x": x, "name": pa.array(["somebody"] * n), "y": y, "z": z})


def ask(seed: int = 0) -> VoronoiQuery:
    return VoronoiQuery(centers=np.random.default_rng(seed).uniform(-1, 1, size=(5, 3)))


def total(X: Any, domain: recoup.Box, query: Query) -> list[int]:
    # Factors of the size that a real release uses.
    return open_source(X, domain).total(query, np.full(query.size, 2.0**29 + 1))


@pytest.fixture(scope="session")
def million(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    path, table = tmp_path_factory.mktemp("million") / "records.parquet", records(1_000_000)
    pq.write_table(table, path, row_group_size=50_000)
    return path, table


@pytest.mark.parametrize("n_partitions", [1, 7, 64])
def test_a_million_records_in_any_partitions(spark: Any, million: tuple[Path, pa.Table], n_partitions: int) -> None:
    path, table = million
    frame = spark.read.parquet(str(path)).repartition(n_partitions)
    assert frame.rdd.getNumPartitions() == n_partitions
    answer = total(frame, BOX, ask())
    assert answer == total(table, BOX, ask())
    # Power: one record more is seen.
    assert answer != total(pa.concat_tables([table, records(200, seed=1)]), BOX, ask())


@pytest.mark.parametrize(
    "query",
    [
        VoronoiQuery(centers=ask().centers, sums="none"),
        VoronoiQuery(centers=ask().centers, sums="relative", radii=np.full(5, 0.25), norm=2),
        GridQuery(sides=(4, 3, 5)),
        HistogramQuery.one_way(dimension=3, bins=4),
    ],
    ids=["counts", "relative", "grid", "histogram"],
)
@pytest.mark.parametrize("domain", [BOX, BALL], ids=["box", "l2"])
def test_every_query_and_domain(spark: Any, query: Query, domain: Any) -> None:
    table = records(3_000)
    assert total(spark.createDataFrame(table).repartition(3), domain, query) == total(table, domain, query)


def test_the_whole_release_is_the_local_one(spark: Any) -> None:
    table = records(20_000)
    frame = spark.createDataFrame(table).repartition(5)
    terms = {"n_clusters": 3, "epsilon": 1, "noise": "simulated", "random_state": 0}
    named = {name: (low, high) for name, low, high in zip(NAMES, BOX.low, BOX.high, strict=True)}
    for bounds, columns in ((named, list(table.column_names)), ((-3, 3), list(NAMES))):
        there = recoup.PrivateKMeans(bounds=bounds, **terms).fit(frame.select(columns))
        here = recoup.PrivateKMeans(bounds=bounds, **terms).fit(table.select(columns))
        assert len(here.transcript_.rounds) > 2
        assert [r.integers for r in there.transcript_.rounds] == [r.integers for r in here.transcript_.rounds]
        assert np.array_equal(there.cluster_centers_, here.cluster_centers_)
        assert there.feature_names_in_.tolist() == list(NAMES)


def test_failed_tasks_are_tried_again_and_counted_once(spark: Any, tmp_path: Path) -> None:
    def stumble(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        place, attempt = context.partitionId(), context.attemptNumber()
        for number, batch in enumerate(batches):
            # Partition 0 falls before its first batch, 1 in the middle, each time after others were handed on.
            if (place, attempt, number) in ((0, 0, 0), (1, 0, 3), (1, 1, 1)):
                Path(folder, f"{place}-{attempt}").touch()
                raise RuntimeError("planted")
            yield batch
        if (place, attempt) in ((2, 0), (2, 1), (2, 2)):
            Path(folder, f"{place}-{attempt}").touch()
            raise RuntimeError("planted after everything was handed on")

    folder, table = str(tmp_path), records(30_000)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1_000)
    try:
        frame = spark.createDataFrame(table).repartition(4)
        answer = total(frame.mapInArrow(stumble, frame.schema), BOX, ask())
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert answer == total(table, BOX, ask())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "1-0", "1-1", "2-0", "2-1", "2-2"]


def test_empty_partitions_and_empty_frames(spark: Any) -> None:
    table = records(1_000)
    frame = spark.createDataFrame(table)
    scattered = frame.repartition(6, "name")
    assert sorted(scattered.rdd.glom().map(len).collect()) == [0, 0, 0, 0, 0, 1_000]
    assert total(scattered, BOX, ask()) == total(table, BOX, ask())
    nobody = spark.createDataFrame([], frame.schema)
    assert total(nobody, BOX, ask()) == [0] * ask().size
    model = recoup.PrivateKMeans(n_clusters=2, epsilon=1, bounds={"x": (0, 1), "z": (0, 1)}).fit(nobody)
    assert model.cluster_centers_.shape == (2, 2)


def test_every_numeric_type_is_read_as_arrow_reads_it(spark: Any) -> None:
    kinds = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(20,3)", "boolean")
    values = ("1", "-7", "0.3", "99.125", "null", "1e5", "123.456789")
    rows = spark.sql(" union all ".join(f"select cast({value} as double) as v" for value in values))
    precise = "cast(v as decimal(38,18)) / 7 as precise"
    frame = rows.selectExpr(*(f"try_cast(v as {kind}) as `{kind}`" for kind in kinds), precise, "null as nothing")
    columns = (*kinds, "precise")
    domain = recoup.Box([-10] * len(columns), [130] * len(columns), columns)
    query = VoronoiQuery(centers=np.zeros((1, len(columns))))
    answer = total(frame, domain, query)
    assert answer == total(frame.toArrow(), domain, query)
    assert all(answer)
    nothing = VoronoiQuery(centers=np.zeros((1, 1)))
    assert total(frame, recoup.Box([-10], [130], ("nothing",)), nothing) == [0, 0]


def test_columns_are_found_by_their_exact_names(spark: Any) -> None:
    numbers = np.arange(12.0).reshape(4, 3)
    frame = spark.createDataFrame(pa.table({"p": numbers[:, 0], "q": numbers[:, 1], "r": numbers[:, 2]}))
    query = VoronoiQuery(centers=np.zeros((1, 2)))
    for names in (("a.b", "a", "A"), ("A", "back`tick", "a"), ("same", "β", "a b"), ("a", "b", "a")):
        renamed = frame.toDF(*names)
        wanted = (names[1], names[2]) if names[0] != names[2] else (names[1],)
        local = pa.table({name: numbers[:, names.index(name)] for name in wanted})
        domain = recoup.Box([0] * len(wanted), [12] * len(wanted), wanted)
        if len(wanted) == 2:
            assert total(renamed, domain, query) == total(local, domain, query)
        else:
            one = VoronoiQuery(centers=np.zeros((1, 1)))
            assert total(renamed, domain, one) == total(local, domain, one)
    with pytest.raises(DataError, match="more than one column 'a'"):
        open_source(frame.toDF("a", "b", "a"), recoup.Box([0], [1], ("a",)))


def test_a_wrong_frame_is_refused_by_its_schema(spark: Any) -> None:
    frame = spark.createDataFrame(records(10))
    with pytest.raises(UnknownColumnError, match="no column 'w'"):
        open_source(frame, recoup.Box([0], [1], ("w",)))
    with pytest.raises(ColumnTypeError, match="'name' is declared as string"):
        open_source(frame, recoup.Box([0], [1], ("name",)))
    with pytest.raises(ColumnTypeError, match="declared as array,"):
        open_source(frame.selectExpr("array(z) as z"), recoup.Box([0], [1], ("z",)))
    with pytest.raises(DataError, match="2 columns but the table has 4"):
        open_source(frame.selectExpr("x", "y", "z", "z as w"), recoup.Box([0, 0], [1, 1]))
    with pytest.raises(DataError, match="streaming"):
        open_source(spark.readStream.format("rate").load(), recoup.Box([0], [1], ("value",)))
    with pytest.raises(SparkError, match="cannot resolve the table 'nowhere'"):
        open_spark("nowhere")


def test_nothing_but_totals_comes_to_the_driver(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    fetched: list[pa.Table] = []
    to_arrow = DataFrame.toArrow

    def watched(self: Any) -> pa.Table:
        fetched.append(to_arrow(self))
        return fetched[-1]

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("records were fetched")

    frame = spark.createDataFrame(records(5_000)).repartition(4)
    monkeypatch.setattr(DataFrame, "toArrow", watched)
    for name in ("collect", "toPandas", "toLocalIterator", "take", "count", "__arrow_c_stream__"):
        monkeypatch.setattr(DataFrame, name, forbidden)
    source = open_source(frame, BOX)
    (about_workers,) = fetched
    assert about_workers.to_pylist() == [{"version": recoup.__version__, "problem": None}]
    answer = source.total(ask(), np.full(ask().size, 2.0**29))
    assert len(fetched) == 2
    sums = fetched[1].to_pydict()
    assert len(sums["position"]) == len(set(sums["position"])) > 0
    halves = zip(sums["position"], sums["sum(high)"], sums["sum(low)"], strict=True)
    assert {i: (high << 32) + low for i, high, low in halves} == {i: v for i, v in enumerate(answer) if v}


def test_a_job_that_fails_half_way(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame(records(8_000)).repartition(4).write.mode("overwrite").saveAsTable("people")
    folder = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / "people"
    part = sorted(folder.glob("*.parquet"))[2]
    sound = part.read_bytes()
    ledger, path = recoup.Ledger.create(tmp_path / "ledger.db", epsilon=1), tmp_path / "transcript.json"

    def damage(n_rounds: int) -> None:
        if n_rounds == 2:
            part.write_bytes(sound[: len(sound) // 2])

    def run(**more: Any) -> recoup.Transcript:
        terms = {"domain": BOX, "epsilon": 1, "ledger": ledger, "path": path, "random_state": 0}
        return recoup.release(recoup.KMeans(n_clusters=2, n_rounds=5), open_spark("people"), **terms, **more)

    with pytest.raises(SparkError, match=r"over 3 columns of 'people' failed") as caught:
        run(on_round=damage)
    assert part.name in str(caught.value)
    saved = recoup.Transcript.load(path)
    assert (len(saved.rounds), saved.pending, saved.lost) == (2, None, ())
    assert 0 < ledger.spent <= Fraction(2, 5)
    part.write_bytes(sound)
    assert len(run(resume=True).rounds) == 5
    assert Fraction(99, 100) < ledger.spent <= 1


def test_what_failed_is_told_without_any_value(spark: Any) -> None:
    frame = spark.createDataFrame(records(2_000)).selectExpr(
        "x", "y", "if(z = 17, raise_error(concat('the value ', z, ' of somebody in reading file secret.')), z) as z"
    )
    source = open_source(frame, BOX)
    with pytest.raises(SparkError, match="over 3 columns failed") as caught:
        source.total(ask(), np.ones(ask().size))
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(word in shown for word in ("17", "somebody", "secret", "the value"))


def worker_python(folder: Path, files: dict[str, str]) -> str:
    """A Python like ours that finds these files before any installed package."""
    import sys

    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"recoup/__init__.py": "raise ModuleNotFoundError(\"No module named 'recoup'\")"},
            r"cannot be used by Spark's workers \(ModuleNotFoundError: No module named 'recoup'\)\. Install recoup",
        ),
        (
            {
                "recoup/__init__.py": "",
                "recoup/version.py": "__version__ = '99.0'",
                "recoup/curator/source.py": "",
                "recoup/queries/__init__.py": "",
            },
            r"workers have recoup 99\.0, which is not the driver's version",
        ),
        (
            {"pyarrow.py": "raise ImportError('no pyarrow here')"},
            r"workers cannot run Python \(.*no pyarrow here.*set PYSPARK_PYTHON",
        ),
    ],
    ids=["no recoup", "another recoup", "no pyarrow"],
)
def test_workers_that_cannot_help(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], message: str
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", worker_python(tmp_path, files))
    with pytest.raises(SparkError, match=message):
        open_source(spark.createDataFrame(records(10)), BOX)


def test_predict_stays_with_the_records(spark: Any) -> None:
    import pyspark.sql.functions

    table = records(2_000)
    frame = spark.createDataFrame(table).repartition(3)
    bounds = {name: (low, high) for name, low, high in zip(NAMES, BOX.low, BOX.high, strict=True)}
    model = recoup.PrivateKMeans(n_clusters=3, epsilon=1, bounds=bounds, random_state=0).fit(frame)
    for use in (model.predict, model.transform, model.score):
        with pytest.raises(DataError, match=r"stay where they are.*mapInArrow"):
            use(frame)

    def label(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.append_column("cluster", pa.array(model.predict(batch)))

    schema = frame.withColumn("cluster", pyspark.sql.functions.lit(0).cast("long")).schema
    labelled = frame.mapInArrow(label, schema).toArrow()
    assert labelled["cluster"].to_pylist() == model.predict(labelled.drop_columns("cluster")).tolist()
    assert len(set(labelled["cluster"].to_pylist())) == 4
