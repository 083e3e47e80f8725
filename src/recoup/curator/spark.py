"""The same one method, `total`, where the records already live: on a Spark DataFrame.

Every partition adds up its own records with the code that adds up a local table, Spark adds up the partitions, and the
driver receives one integer for each value of the answer. Totals are integers, so neither partitions nor retried tasks
can change them. Works on a classic session and on Spark Connect; PySpark is imported only when it is there already or
a table is asked for by name.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import pyarrow as pa

from recoup.curator.tables.table import OpenTable, is_a
from recoup.curator.tables.wanted import Wanted
from recoup.domain import Domain
from recoup.errors import DataError, SparkError
from recoup.mixed import Mixed, domain_from_json
from recoup.queries.base import Array, Query
from recoup.version import __version__

# The Arrow types that columns arrive in at a worker, as far as rules can tell them apart.
_ARROW_TYPES: Final = {
    **{"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64()},
    **{"float": pa.float32(), "double": pa.float64(), "decimal": pa.decimal128(38, 18), "boolean": pa.bool_()},
    **{"void": pa.null(), "string": pa.string(), "char": pa.string(), "varchar": pa.string()},
    **{"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")},
}
# A total has more than 64 bits once there are 2^33 records, so it travels in two halves that Spark can add exactly.
_LOW_BITS: Final = 32
_LONGEST_CHAIN: Final = 20  # of causes of an error
PARTIAL: Final = "position long, high long, low long"


@dataclass(frozen=True, slots=True)
class SparkFrame:
    """A Spark DataFrame with the name that it was opened by: hand it to `PrivateKMeans.fit` or `recoup.release`."""

    frame: Any
    name: str | None = None


@dataclass(frozen=True, slots=True)
class SparkTable(OpenTable):
    """Columns of a Spark DataFrame, which cannot be read here: its records stay where they are.

    Its frame has names of our own, and the column that says whose a record is last, as `person`; `name` is the table's,
    if it was opened by name.
    """

    frame: Any = field(repr=False, compare=False)
    name: str | None = None

    @property
    def person(self) -> bool:
        """Whether the last column of the frame says whose a record is."""
        return self.person_type is not None


def open_spark(table: Any, *, session: Any = None) -> SparkFrame:
    """Open a table that Spark knows by name; a DataFrame can be opened likewise, or used as it is.

    Args:
        table: a name that `session.table` knows, or a DataFrame of a classic or a Connect session.
        session: where to look up the name; None: the active session, else a new one on this machine (`local[*]`), which
            stays until the process ends.

    Returns:
        The table. No Spark job has run, and no column was looked at.

    Raises:
        SparkError: there is no such table, or Spark cannot be started.
    """
    if isinstance(table, SparkFrame):
        return table
    if isinstance(table, str):
        session = _session() if session is None else session
        frame = _resolved(f"table {table!r}", lambda: session.table(table))
        # Connect looks a table up only when asked for something of it.
        _resolved(f"table {table!r}", lambda: frame.schema)
        return SparkFrame(frame, table)
    if not is_spark(table):
        raise DataError(f"A {type(table).__name__} is no Spark DataFrame and no name of a Spark table.")
    if not hasattr(table, "mapInArrow"):
        raise DataError("A pandas-on-Spark frame cannot be read. Hand over X.to_spark().")
    return SparkFrame(table)


def is_spark(X: object) -> bool:
    """Whether these are records that Spark holds; PySpark need not be installed to find out."""
    return isinstance(X, SparkFrame) or is_a(X, "pyspark", "DataFrame")


def spark_table(X: Any, wanted: Wanted) -> SparkTable:
    """Select the declared columns of what `open_spark` opens; its schema says what they are, never its records."""
    opened = open_spark(X)
    what = "DataFrame" if opened.name is None else f"table {opened.name!r}"
    fields, streaming = _resolved(what, lambda: (list(opened.frame.schema.fields), bool(opened.frame.isStreaming)))
    if streaming:
        raise DataError("A streaming DataFrame has no fixed set of records. Hand over a table that it was written to.")
    names = [field.name for field in fields]
    positions = wanted.select(names, hint="See X.columns.")
    kinds = [_ARROW_TYPES.get(fields[position].dataType.typeName()) for position in positions]
    for position, kind, rule in zip(positions, kinds, wanted.rules(len(positions)), strict=True):
        rule.check(wanted.shown(names, position), kind, fields[position].dataType.simpleString())
    # By position: Spark's own look-up stumbles over dots, and over names that differ in case only.
    frame = opened.frame.toDF(*(f"c{i}" for i in range(len(names))))
    if wanted.person is None:
        frame = frame.select(*(f"c{i}" for i in positions))
    else:
        frame = frame.selectExpr(*(f"c{i}" for i in positions[:-1]), f"c{positions[-1]} as person")
    table = wanted.table(names, positions, _not_here, kinds)
    return SparkTable(table.columns, table.n_columns, _not_here, frame, opened.name, person_type=table.person_type)


class SparkSource:
    """Records of a Spark DataFrame, which is read anew in every round; workers are tried first, without records.

    Guarantees: the totals equal those of the same records in a local table, bit for bit, whatever the partitions and
    however often a task was retried. Nothing else of the records comes to the driver.
    """

    def __init__(self, table: SparkTable, domain: Domain) -> None:
        self._table, self._domain = table, domain
        _check_workers(table.frame.sparkSession)

    def total(self, query: Query, factors: Array) -> list[int]:
        """The exact sum over records of trunc(contribution * factors)."""
        # As JSON values, so that a worker builds its own query as the driver did, compiled kernels included.
        task = (__version__, query.to_json(), self._domain.to_json(), factors.tolist())
        failure: SparkError | None = None
        try:
            partial = self._partial_totals(task)
            position, high, low = partial.groupBy("position").sum("high", "low").toArrow().columns
        except Exception as error:
            failure = self._failure(error)
        if failure is not None:
            # Not in the handler, where it would keep Spark's own error.
            raise failure
        total = [0] * query.size
        for i, a, b in zip(position.to_pylist(), high.to_pylist(), low.to_pylist(), strict=True):
            total[i] = (a << _LOW_BITS) + b
        return total

    def _partial_totals(self, task: tuple[Any, ...]) -> Any:
        return on_workers(self._table.frame, partial_totals, task, PARTIAL)

    def _failure(self, error: Exception) -> SparkError:
        # Spark's own message may quote a record: of it, only the file that could not be read is named. Names of columns
        # may be cells of a file without header.
        n = self._table.n_columns
        over = f"{n} column{'' if n == 1 else 's'}" + ("" if self._table.name is None else f" of {self._table.name!r}")
        path = _unreadable_file(error)
        file = "" if path is None else f" It could not read {path!r}."
        return SparkError(
            f"The Spark job over {over} failed: its round was neither answered nor charged.{file} Spark's log has the "
            "reason, and may quote records."
        )


def partial_totals(
    batches: Iterator[Any], version: str, query: dict[str, Any], domain: dict[str, Any], factors: list[float]
) -> Iterator[Any]:
    """Add up the Arrow batches of one partition, on a worker, for a query and a domain that are given as JSON.

    Returns one batch: position, high and low part of every total that is not zero. None for an empty partition.

    >>> from recoup.domain import Box
    >>> from recoup.queries.counts import GridQuery
    >>> batch = pa.RecordBatch.from_pydict({"c0": [0.1, None, 0.9, 0.8]})
    >>> task = (__version__, GridQuery(sides=(2,)).to_json(), Box([0], [1]).to_json(), [10.0, 10.0])
    >>> [part.to_pydict() for part in partial_totals(iter([batch]), *task)]
    [{'position': [0, 1], 'high': [0, 0], 'low': [10, 20]}]
    """
    import numpy as np

    from recoup.curator.source import TableSource
    from recoup.queries import query_from_json

    check_version(version)
    asked, limits = query_from_json(query), domain_from_json(domain)
    wanted = Wanted(schema=limits.schema if isinstance(limits, Mixed) else None)
    table = OpenTable(None, limits.n_declared, lambda _: map(wanted.columns_of, batches))
    yield from in_halves(TableSource(table, limits, keep=False).total(asked, np.array(factors)))


def in_halves(total: list[int]) -> Iterator[Any]:
    """One batch with the position, high and low part of every total that is not zero; none if all are."""
    parts = [(i, value >> _LOW_BITS, value & (1 << _LOW_BITS) - 1) for i, value in enumerate(total) if value]
    if parts:
        position, high, low = zip(*parts, strict=True)
        yield pa.RecordBatch.from_pydict({"position": position, "high": high, "low": low})


def on_workers(frame: Any, work: Callable[..., Iterator[Any]], task: tuple[Any, ...], schema: str) -> Any:
    """The frame that `work(batches, *task)` makes of each partition of a frame."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        # Spark gives a task one core and runs as many tasks as there are cores.
        os.environ.setdefault("RECOUP_NUM_THREADS", "1")
        return work(batches, *task)

    return _map_in_arrow(frame, run, schema)


def check_version(version: str) -> None:
    """Refuse, on a worker, a driver of another version."""
    if version != __version__:
        raise SparkError(_other_version(__version__))


def _map_in_arrow(frame: Any, work: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Any:
    with warnings.catch_warnings():
        # PySpark doubts new versions of pandas, which take no part in this.
        warnings.filterwarnings("ignore", message=".*pandas", category=FutureWarning)
        return frame.mapInArrow(work, schema)


def _not_here(_: int) -> NoReturn:
    raise DataError(
        "The records of a Spark DataFrame stay where they are, so this works on local tables only. Use it inside "
        "X.mapInArrow, one batch at a time, or on X.toPandas() if the records fit here and may be here."
    )


def _unreadable_file(error: Any) -> str | None:
    # By fields, never by text, which may hold a value. A classic error keeps them in its chain of Java causes.
    link = getattr(error, "java_exception", error)
    for _ in range(_LONGEST_CHAIN):
        try:
            if str(link.getCondition()).startswith("FAILED_READ_FILE"):
                # What follows "=" in a folder's name is the value of a column, in each record of the file.
                return re.sub("=[^/]*", "=*", str(link.getMessageParameters()["path"]))
        except Exception:
            pass
        try:
            link = link.getCause()
        except Exception:
            return None
    return None


def _resolved(what: str, work: Callable[[], Any]) -> Any:
    with suppress(Exception):
        return work()
    raise SparkError(f"Spark cannot resolve the {what}. Check its name, and that it still can be read.")


# ---- the session and its workers: no records here, so Spark's own words may be quoted ----


@contextmanager
def _quoting(what: str, advice: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Of a traceback, what was raised: its last line that is not indented.
        lines = [line for line in str(error).splitlines() if line[:1].strip() and "SQLSTATE" not in line[:9]]
        raise SparkError(f"{what} ({lines[-1] if lines else type(error).__name__}). {advice}") from error


def _session() -> Any:
    with _quoting("PySpark cannot be imported", "Install it: pip install 'recoup[spark]'."):
        from pyspark.sql import SparkSession
    with _quoting("Spark cannot be started", "It needs Java 17 or newer, on the PATH or named by JAVA_HOME."):
        active = SparkSession.getActiveSession()
        if active is not None:
            return active
        builder = SparkSession.builder.appName("recoup")
        if "SPARK_REMOTE" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
            # A Connect server was named, or spark-submit started us: the session is configured already.
            return builder.getOrCreate()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # The web page of a local session, and its open ports, would show how many records there are.
        own = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        for key, value in own.items():
            builder = builder.config(key, value)
        return builder.master("local[*]").getOrCreate()


def _check_workers(session: Any) -> None:
    # A function inside a function travels whole, so it runs where Recoup is not installed.
    def report(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        import pyarrow

        try:
            import recoup.curator.source
            import recoup.queries
            import recoup.version

            answer = {"version": [recoup.version.__version__], "problem": [None]}
        except Exception as error:
            answer = {"version": [None], "problem": [f"{type(error).__name__}: {error}"]}
        kinds = pyarrow.schema({"version": pyarrow.string(), "problem": pyarrow.string()})
        yield pyarrow.RecordBatch.from_pydict(answer, schema=kinds)

    advice = "The workers need the driver's version of Python, PyArrow and pandas: set PYSPARK_PYTHON before the start."
    with _quoting("Spark's workers cannot run Python", advice):
        answers = _map_in_arrow(session.range(0, 1, 1, 1), report, "version string, problem string").toArrow()
    (row,) = answers.to_pylist()
    if row["problem"]:
        raise SparkError(
            f"Recoup cannot be used by Spark's workers ({row['problem']}). Install recoup {__version__} for their "
            "Python, or name a Python that has it: set PYSPARK_PYTHON before the Spark session starts."
        )
    if row["version"] != __version__:
        raise SparkError(_other_version(row["version"]))


def _other_version(theirs: str) -> str:
    return (
        f"Spark's workers have recoup {theirs}, which is not the driver's version. Totals are exact only if both "
        "agree: install the same one."
    )
