"""Declared categories and persons: one rule for a cell wherever it stands, and refusals that quote no cell."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import uuid
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from schema_tables import NAMES, SCHEMA, arrow_table, csv_text, expected_codes, gathered, keys_of
from table_kinds import refusal

from recoup.curator.source import open_source
from recoup.curator.spark import SparkTable, partial_totals
from recoup.curator.tables.categories import Codes
from recoup.curator.tables.keys import LONGEST_KEY, Keys
from recoup.curator.tables.open import open_table
from recoup.errors import ColumnTypeError, DataError, UnknownColumnError
from recoup.mixed import Mixed
from recoup.queries.counts import HistogramQuery, marginals_of_domain
from recoup.schema import Category, Number, Schema
from recoup.version import __version__

NAN = math.nan
ROWS: list[list[Any]] = [
    [20.0, "surgery", 1.0, True, "ann"],
    [None, " Müller ", 2.5, False, "bob"],
    [70.0, 'the "old" one', 3.0, None, " ann"],
    [float("inf"), None, 9.0, True, None],
    [1.0, "SECRET", None, False, ""],
    [2.0, "7.00", float("nan"), True, "a, b"],
]
DOMAIN = Mixed(schema=Schema({name: SCHEMA[name] for name in ("age", "ward")}))
QUERY = HistogramQuery(dimension=DOMAIN.n_columns, marginals=marginals_of_domain(DOMAIN, 4))
SEX = Schema({"sex": Category(["F", "M"])})


class Raising:
    """A cell that nothing can be asked of."""

    def __float__(self) -> float:
        raise RuntimeError("SECRET")

    __str__ = __hash__ = __eq__ = __repr__ = __index__ = __float__  # type: ignore[assignment]


class Sly(str):
    """Text that warns when it is used."""

    def strip(self, chars: str | None = None, /) -> str:
        warnings.warn("SECRET", stacklevel=1)
        return "M"

    def __hash__(self) -> int:
        raise RuntimeError("SECRET")


class Grade(enum.IntEnum):
    ONE = 1


# ---- the rule ----


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        ("F", 0),
        ("  F\u3000", 0),
        ("f", 4),
        ("1", 1),
        ("1.0", 1),
        ("+1e0", 1),
        (1, 1),
        (np.int8(1), 1),
        (1.0, 1),
        (np.float32(1), 1),
        (decimal.Decimal("1.00"), 1),
        (Grade.ONE, 1),
        (True, 2),
        (np.bool_(True), 2),
        ("TRUE", 2),
        (0, 4),
        ("0.5", 3),
        (0.5, 3),
        ("1_0", 4),
        ("١", 4),
        ("nan", 4),
        ("inf", 4),
        (np.inf, 4),
        (10**400, 4),
        (10**5000, 4),
        (decimal.Decimal("1e999999"), 4),
        (decimal.Decimal("sNaN"), 4),
        (b"F", 4),
        ([], 4),
        ({}, 4),
        (object(), 4),
        (Raising(), 4),
        (np.array("F"), 4),
        (datetime.date(2020, 1, 1), 4),
        (Sly("F"), 0),
        ("", NAN),
        (" \t", NAN),
        (None, NAN),
        (NAN, NAN),
        (np.float64("nan"), NAN),
        (decimal.Decimal("NaN"), NAN),
        (pd.NA, NAN),
        (pd.NaT, NAN),
        (np.ma.masked, NAN),
        ("\ud800", 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_cell_of_any_kind_has_one_place(cell: Any, place: float) -> None:
    schema = Schema({"x": Category(["F", "1", "true", "0.5"])})
    found = [
        Codes(schema["x"]).of_cell(cell),  # type: ignore[arg-type]
        *gathered(open_table([[cell], (cell,)], schema=schema), 1).ravel(),
    ]
    column = np.empty((1, 1), dtype=object)
    column[0, 0] = cell
    found += gathered(open_table(column, schema=schema), 1).ravel().tolist()
    found += gathered(open_table(pd.DataFrame(column, columns=["x"], dtype=object), schema=schema), 1).ravel().tolist()
    np.testing.assert_array_equal(found, [place] * 5)


def test_of_several_spellings_a_text_is_its_own_and_a_number_the_plain_one() -> None:
    schema = Schema({"x": Category(["01", "1", "1.50", "2.0", "9007199254740993"])})
    texts = pa.table({"x": ["01", "1", "1.0", "1.5", "2", "9007199254740993"]})
    numbers = pa.table({"x": pa.array([1, 2, 9007199254740993, 5])})
    assert gathered(open_table(texts, schema=schema), 9).ravel().tolist() == [0, 1, 1, 2, 3, 4]
    assert gathered(open_table(numbers, schema=schema), 9).ravel().tolist() == [1, 3, 4, 5]
    floats = pa.table({"x": [1.0, 1.5, 2.0, 5.0, NAN]})
    np.testing.assert_array_equal(gathered(open_table(floats, schema=schema), 9).ravel(), [1, 2, 3, 5, NAN])


COLUMNS: dict[str, Any] = {
    "int8": pa.array([1, 0, None, 2], pa.int8()),
    "uint64": pa.array([1, 0, None, 2**64 - 1], pa.uint64()),
    "half": pa.array([1, 0, None, 2], pa.float16()),
    "decimal32": pa.array([1, 0, None, 2], pa.decimal32(5, 2)),
    "decimal256": pa.array([1, 0, None, 2], pa.decimal256(70, 2)),
    "boolean": pa.array([True, False, None]),
    "string": pa.array(["1", " 0.0", None, "2"]),
    "empty": pa.array(["1", "0", "", "2"]),
    "run ends": pc.run_end_encode(pa.array(["1", "0", None, "2"])),
    "dictionary": pa.array(["1", "0", None, "2"]).dictionary_encode(),
    "dictionary of numbers": pa.array([1.0, 0.0, None, 2.0]).dictionary_encode(),
    "null in a dictionary": pa.DictionaryArray.from_arrays(pa.array([2, 0, 1, 3]), pa.array(["0", None, "1", "2"])),
    "wrong places": pa.DictionaryArray.from_arrays(pa.array([1, 0, -1]), pa.array(["0", "1"]), safe=False),
    "extension": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None, 2], pa.int8())),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_arrow_type_of_texts_and_numbers_can_be_a_category(kind: str) -> None:
    column = COLUMNS[kind]
    table = open_table(pa.table({"x": column}), schema=Schema({"x": Category([0, 1])}))
    expected = [1, 0, NAN, 2][: len(column)]
    for block_rows in (1, 3, 9):
        np.testing.assert_array_equal(gathered(table, block_rows).ravel(), expected)


def test_a_column_of_nothing_is_missing() -> None:
    table = open_table(pa.table({"sex": pa.nulls(2)}), schema=SEX)
    np.testing.assert_array_equal(gathered(table, 9), [[NAN], [NAN]])


def test_numeric_arrays_are_read_by_position() -> None:
    schema = Schema({"age": Number(0, 9), "level": Category([1, 2])})
    for dtype in (np.int8, np.int64, ">i4", np.float16, np.float32, np.longdouble, "O"):
        array = np.array([[5, 1], [6, 2], [7, 3]]).astype(dtype)
        np.testing.assert_array_equal(gathered(open_table(array, schema=schema), 2), [[5, 0], [6, 1], [7, 2]])
    masked = np.ma.array([[5, 1], [6, 2]], mask=[[0, 1], [1, 0]])
    np.testing.assert_array_equal(gathered(open_table(masked, schema=schema), 1), [[5, NAN], [NAN, 1]])
    booleans = open_table(np.array([[True], [False]]), schema=Schema({"x": Category([False, True])}))
    assert gathered(booleans, 9).ravel().tolist() == [1, 0]
    texts = open_table(np.array([["F"], [" M"], ["x"]]), schema=SEX)
    assert gathered(texts, 9).ravel().tolist() == [0, 1, 2]


def test_a_ragged_row_of_a_list_is_missing() -> None:
    found = gathered(open_table([["F"], "F", None, ["F", "M"], Raising()], schema=SEX), 9)
    np.testing.assert_array_equal(found.ravel(), [0, NAN, NAN, NAN, NAN])


def test_wide_integers_of_polars_are_categories_and_persons() -> None:
    frame = pl.DataFrame({"x": pl.Series([1, 2**100, None], dtype=pl.Int128)})
    table = open_table(frame, schema=Schema({"x": Category([1, 2])}), person="x")
    np.testing.assert_array_equal(gathered(table, 2).ravel(), [0, 2, NAN])
    assert keys_of(table, 2) == ["1", str(2**100), None]


def test_text_that_is_not_utf_8_is_undeclared_and_nobodys(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"sex,who\nF,ann\n\xff,\xff\nM,b\xffb\n")
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"F\xff")])
    pq.write_table(pa.table({"sex": broken, "who": broken}), tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.csv", schema=SEX, person="who")
    assert gathered(table, 9).ravel().tolist() == [0, 2, 1]
    assert keys_of(table, 9) == ["ann", None, None]
    for X in (pa.table({"sex": broken, "who": broken}), tmp_path / "t.parquet"):
        table = open_table(X, schema=SEX, person="who")
        assert gathered(table, 9).ravel().tolist() == [0, 2]
        assert keys_of(table, 9) == ["F", None]


def test_quotes_of_csv(tmp_path: Path) -> None:
    schema = Schema({"x": Category(['a"b', 'a""b', "a\nb", "c"])})
    path = tmp_path / "t.csv"
    path.write_bytes(b'x,y\n"a""b",1\na""b,1\n"a\nb",1\n"c",1\n c ,1\n"c"x,1\n')
    assert gathered(open_table(path, schema=schema), 2).ravel().tolist() == [0, 1, 2, 3, 3]
    path.write_bytes(b'x,y\n"a""b",1\n"a\nb",1\nc,1\n')
    assert gathered(open_table(path, schema=schema, csv_dialect="lines"), 2).ravel().tolist() == [0, 4, 3]


# ---- refusals, by types and names alone ----

REFUSED = {
    "binary": pa.array([b"SECRET"]),
    "list": pa.array([["SECRET"]]),
    "struct": pa.array([{"SECRET": 1}]),
    "date32": pa.array([datetime.date(2020, 1, 1)]),
    "timestamp": pa.array([datetime.datetime(2020, 1, 1)]),
    "dictionary": pa.array([b"SECRET"]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_types_are_no_categories(kind: str, tmp_path: Path) -> None:
    table = pa.table({"sex": REFUSED[kind]})
    pq.write_table(table, tmp_path / "t.parquet")
    for X in (table, tmp_path / "t.parquet", table.slice(0, 0), pl.from_arrow(table)):
        message = refusal(ColumnTypeError, lambda X=X: open_table(X, schema=SEX))
        assert "'sex'" in message
        assert "cannot be read as categories" in message


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([pd.Timestamp(2020, 1, 1)]),
        pd.Series([pd.Timedelta(1)]),
        pd.Series([1j]),
        pd.Series(pd.arrays.IntervalArray.from_tuples([(0, 1)])),
        pd.Series([pd.Period("2020")]),
        pd.Series([pd.Timestamp(2020, 1, 1)], dtype="category"),
        pd.Series([b"SECRET"], dtype=pd.ArrowDtype(pa.binary())),
    ],
    ids=lambda column: str(column.dtype),
)
def test_other_dtypes_are_no_categories(column: Any) -> None:
    assert "'sex'" in refusal(ColumnTypeError, lambda: open_table(pd.DataFrame({"sex": column}), schema=SEX))


def test_numbers_keep_their_rules_beside_categories() -> None:
    schema = Schema({"sex": Category(["F", "M"]), "age": Number(0, 9)})
    for X in (pa.table({"sex": ["F"], "age": ["5"]}), pd.DataFrame({"sex": ["F"], "age": ["5"]})):
        assert "recoup.Category" in refusal(ColumnTypeError, lambda X=X: open_table(X, schema=schema))
    assert "str_" in refusal(ColumnTypeError, lambda: open_table(np.array([["F", "5"]]), schema=schema))
    refusal(UnknownColumnError, lambda: open_table(pa.table({"sex": ["F"]}), schema=schema))
    refusal(DataError, lambda: open_table(np.ones((2, 3)), schema=schema))
    objects = np.array([["SECRE" + "T"]], dtype=object)
    refusal(DataError, lambda: open_table(objects, schema=schema))
    assert "no type" in refusal(ColumnTypeError, lambda: open_table(objects))


def test_no_cell_is_heard_of(caplog: Any, capfd: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(csv_text(ROWS), encoding="utf-8")
    odd = pd.DataFrame({"sex": [Raising(), Sly("F"), "SECRET", 10**5000, "\ud800"]}, dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (arrow_table(ROWS), tmp_path / "t.csv", [row[:4] for row in ROWS]):
            table = open_table(X, schema=SCHEMA)
            np.testing.assert_array_equal(gathered(table, 2), expected_codes(ROWS))
            assert repr(table) == repr(open_table(X, schema=SCHEMA))
        frame = odd.assign(who=odd["sex"])
        table = open_table(frame, schema=SEX, person="who")
        assert gathered(table, 2).ravel().tolist() == [2, 0, 2, 2, 2]
        assert keys_of(table, 2) == [None, "F", "SECRET", None, None]
    assert "SECRET" not in caplog.text + "".join(capfd.readouterr()) + repr(table)


# ---- persons ----


@pytest.mark.parametrize(
    ("column", "keys", "kind"),
    [
        (pa.array([1, None, -5], pa.int32()), [1, None, -5], pa.int64()),
        (pa.array([True, None, False]), [1, None, 0], pa.int64()),
        (pa.array([2**64 - 1, None, 0], pa.uint64()), [str(2**64 - 1), None, "0"], pa.large_string()),
        (pa.array([decimal.Decimal("1.50"), None]), ["1.50", None], pa.large_string()),
        (pa.array(["a", " a ", "", None, "\u3000"]), ["a", "a", None, None, None], pa.large_string()),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"], pa.large_string()),
        (pa.array([7, None, 7]).dictionary_encode(), [7, None, 7], pa.int64()),
        (pc.run_end_encode(pa.array(["a", "a", None])), ["a", "a", None], pa.large_string()),
        (pa.array([1, None], pa.date32()), [1, None], pa.int64()),
        (pa.array([86_400_000, None], pa.date64()), [86_400_000, None], pa.int64()),
        (pa.array([5, None], pa.timestamp("ms", "UTC")), [5, None], pa.int64()),
        (pa.nulls(2), [None, None], pa.int64()),
        (pa.array(["x" * LONGEST_KEY, "x" * (LONGEST_KEY + 1)]), ["x" * LONGEST_KEY, None], pa.large_string()),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_keys_by_declared_type(column: Any, keys: list[Any], kind: Any) -> None:
    table = open_table(pa.table({"x": np.ones(len(column)), "who": column}), ["x"], person="who")
    assert table.person_type == kind
    assert (table.columns, table.n_columns) == (("x",), 1)
    for block_rows in (1, 2, 9):
        assert keys_of(table, block_rows) == keys


def test_floats_are_the_same_person_where_they_are_equal() -> None:
    for kind in (pa.float64(), pa.float32(), pa.float16()):
        column = pa.array([0.0, -0.0, 1.5, np.inf, -np.inf, NAN, None], kind)
        a, b, c, plus, minus, *missing = keys_of(open_table(pa.table({"x": column}), ["x"], person="x"), 3)
        assert a == b == 0
        assert len({a, c, plus, minus}) == 4
        assert c == np.float64(1.5).view(np.int64)
        assert missing == [None, None]


def test_objects_are_the_same_person_where_their_text_is() -> None:
    who = uuid.UUID(int=5)
    cells = [
        " ann",
        7,
        "7",
        7.0,
        0.5,
        True,
        decimal.Decimal("7.0"),
        who,
        None,
        NAN,
        pd.NA,
        pd.NaT,
        b"x",
        [1],
        Raising(),
    ]
    table = open_table(pd.DataFrame({"x": 1.0, "who": pd.Series(cells, dtype=object)}), ["x"], person="who")
    expected = ["ann", "7", "7", "7", "0.5", "true", "7.0", str(who), *[None] * 7]
    assert keys_of(table, 4) == expected
    assert Keys().of_cells(cells).to_pylist() == expected


@pytest.mark.parametrize("dtype", ["int64", "Int64", "datetime64[s]", "datetime64[ns, UTC]", "bool", "int64[pyarrow]"])
def test_keys_of_pandas_are_whole_numbers(dtype: str) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "who": pd.Series([0, 1]).astype(dtype)})
    assert keys_of(open_table(frame, ["x"], person="who"), 1) == [0, 1]
    everything = open_table(frame, person="who", n_columns=1)
    assert everything.columns == ("x",)
    assert keys_of(everything, 1) == [0, 1]


def test_a_declared_column_may_also_name_persons(tmp_path: Path) -> None:
    pq.write_table(arrow_table(ROWS), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text(csv_text(ROWS), encoding="utf-8")
    with pa.ipc.new_file(tmp_path / "t.arrow", arrow_table(ROWS).schema) as writer:
        writer.write_table(arrow_table(ROWS))
    frame = pl.from_arrow(arrow_table(ROWS))
    sources = [arrow_table(ROWS), *(tmp_path / f"t.{end}" for end in ("parquet", "csv", "arrow")), frame]
    for X in [*sources, arrow_table(ROWS).to_pandas()]:
        table = open_table(X, schema=SCHEMA, person="ward")
        np.testing.assert_array_equal(gathered(table, 2), expected_codes(ROWS))
        assert keys_of(table, 2) == ["surgery", "Müller", 'the "old" one', None, "SECRET", "7.00"]


def test_an_empty_table_has_keys_of_its_type() -> None:
    table = open_table(
        pa.table({"x": pa.array([], pa.float64()), "who": pa.array([], pa.string())}), ["x"], person="who"
    )
    ((rows, keys),) = table.person_blocks()
    assert rows.shape == (0, 1)
    assert keys.type == pa.large_string()


def test_persons_that_cannot_be_named_are_refused(tmp_path: Path) -> None:
    table = pa.table({"x": [1.0], "who": ["SECRET"], "parts": pa.array([["SECRET"]])})
    assert "'nobody'" in refusal(UnknownColumnError, lambda: open_table(table, ["x"], person="nobody"))
    assert "whose a record is" in refusal(ColumnTypeError, lambda: open_table(table, ["x"], person="parts"))
    for X in (np.ones((1, 1)), [[1.0]]):
        assert "data frame" in refusal(DataError, lambda X=X: open_table(X, n_columns=1, person="who"))
    refusal(DataError, lambda: list(open_table(table, ["x"]).person_blocks()))
    for name, kind in (("1", pa.int64()), ("2", pa.float64())):
        pq.write_table(pa.table({"x": [1.0], "who": pa.array([1], kind)}), tmp_path / f"{name}.parquet")
    assert "2.parquet" in refusal(DataError, lambda: open_table(tmp_path, ["x"], person="who"))


@pytest.mark.parametrize("end", [".parquet", ".csv"])
def test_the_names_of_folders_are_categories_and_persons(end: str, tmp_path: Path) -> None:
    for sex, who in (("F", "ann%20b"), ("x", "7"), ("__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / f"sex={sex}" / f"who={who}"
        folder.mkdir(parents=True)
        if end == ".csv":
            (folder / "t.csv").write_text("age\n5\n6\n")
        else:
            pq.write_table(pa.table({"age": [5, 6]}), folder / "t.parquet")
    schema = Schema({"sex": Category(["F", "M"]), "age": Number(0, 9)})
    table = open_table(tmp_path, schema=schema, person="who")
    sexes = np.repeat([0, NAN, 2], 2)
    np.testing.assert_array_equal(gathered(table, 1), np.column_stack([sexes, [5, 6] * 3]))
    assert keys_of(table, 9) == ["ann b", "ann b", None, None, "7", "7"]


# ---- totals ----


def test_a_source_of_a_schema_counts_categories(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(csv_text(ROWS), encoding="utf-8")
    totals = [
        open_source(X, DOMAIN).total(QUERY, np.ones(QUERY.size))
        for X in (arrow_table(ROWS), tmp_path / "t.csv", [row[:2] for row in ROWS], arrow_table(ROWS).to_pandas())
    ]
    assert totals == [totals[0]] * len(totals)
    # Bins of ages, of which one is missing and one infinite; then wards, "other" and "missing" last.
    assert totals[0] == [3, 2, 1, 0, 1, 1, 1, 0, 1, 1, 1]


def test_a_worker_of_spark_adds_up_what_a_local_table_does() -> None:
    task = (__version__, QUERY.to_json(), DOMAIN.to_json(), [1.0] * QUERY.size)
    batches = arrow_table(ROWS).select(["age", "ward"]).to_batches(max_chunksize=2)
    (part,) = partial_totals(iter(batches), *task)
    found = np.zeros(QUERY.size, dtype=np.int64)
    found[part["position"].to_numpy()] = part["low"].to_numpy()
    assert found.tolist() == open_source(arrow_table(ROWS), DOMAIN).total(QUERY, np.ones(QUERY.size))


class Planned:
    """A Spark DataFrame that knows its columns and holds no record."""

    isStreaming = False
    mapInArrow = None

    def __init__(self, **kinds: str) -> None:
        def declared(kind: str) -> Any:
            return SimpleNamespace(typeName=lambda: kind, simpleString=lambda: kind)

        fields = [SimpleNamespace(name=name, dataType=declared(kind)) for name, kind in kinds.items()]
        self.schema, self.selected = SimpleNamespace(fields=fields), ()

    def toDF(self, *names: str) -> Planned:
        return self

    def select(self, *names: str) -> Planned:
        self.selected = names
        return self

    selectExpr = select


Planned.__name__, Planned.__module__ = "DataFrame", "pyspark.sql"


def test_spark_columns_are_selected_by_their_declared_types() -> None:
    frame = Planned(id="long", age="double", ward="string", level="decimal", smokes="boolean", parts="array")
    table = open_table(frame, schema=SCHEMA, person="id")
    assert isinstance(table, SparkTable)
    assert (table.person, table.person_type, table.n_columns) == (True, pa.int64(), 4)
    assert table.frame.selected == ("c1", "c2", "c3", "c4", "c0 as person")
    twice = open_table(frame, schema=SCHEMA, person="ward")
    assert isinstance(twice, SparkTable)
    assert twice.frame.selected == ("c1", "c2", "c3", "c4", "c2 as person")
    plain = open_table(frame, schema=SCHEMA)
    assert isinstance(plain, SparkTable)
    assert not plain.person
    assert plain.frame.selected == ("c1", "c2", "c3", "c4")
    refusal(ColumnTypeError, lambda: open_table(frame, schema=SCHEMA, person="parts"))
    refusal(ColumnTypeError, lambda: open_table(frame, schema=Schema({"parts": Category(["a", "b"])})))
    refusal(ColumnTypeError, lambda: open_table(frame, schema=Schema({"ward": Number(0, 1)})))


def test_the_names_are_those_of_the_schema() -> None:
    assert open_table(arrow_table(ROWS), schema=SCHEMA).columns == NAMES[:4]
