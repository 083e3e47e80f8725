"""Turns what a user hands over (arrays, rows, frames, Arrow, files, folders) into blocks of plain floating-point rows.

This folder alone knows about table libraries. It sees records, so nothing that leaves it except the blocks may depend
on these: types come from a dtype, a schema or file metadata (a list of rows declares none, so its cells are numbers or
missing), and a cell that is missing or is no finite number is passed on as one that is not finite, without a word.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recoup._validate import choice
from recoup.curator.spark import is_spark, spark_table
from recoup.curator.tables.files import open_path
from recoup.curator.tables.table import (
    Table,
    TableRows,
    arrow_numbers,
    blocks_of,
    check_numeric,
    is_a,
    not_numeric,
    select,
    shown_column,
    sliced,
)
from recoup.errors import ColumnTypeError, DataError
from recoup.privacy.statement import CSV_UNITS

_NUMERIC_KINDS: Final = "biuf"
_TYPED_SCANS: Final = frozenset({"Parquet", "Ipc"})  # as plans of Polars call them
_SEE_COLUMNS, _SEE_SCHEMA = "See X.columns.", "See X.schema."
_FLOATS: Final = frozenset({float, bool, np.float64, np.float32})  # turned into a float without fail


def open_table(
    X: object,
    columns: Sequence[str] | None = None,
    *,
    n_columns: int | None = None,
    csv_dialect: str = "rfc4180",
) -> Table:
    """Open a table of any supported kind, selecting its declared columns.

    Args:
        X: a two-dimensional NumPy array (masked cells are missing), a list of rows, a pandas or Polars frame, a PyArrow
            table, batch or reader, anything with `__arrow_c_stream__`, a Spark DataFrame, or the path of a `.csv` or
            `.tsv` file (which may be compressed), of a `.parquet`, `.feather` or `.arrow` file, or of a folder of
            these, read in pieces each time that blocks are asked for.
        columns: names of the columns to read, in this order; None: all of them.
        n_columns: how many columns were declared, checked against the table; a list of rows needs it.
        csv_dialect: how CSV files were written, "rfc4180" or "lines".

    Guarantees:
        No error, warning or attribute depends on records or on their number. In CSV by "rfc4180" a record ends where
        its line ends outside of quotes, which open only at the start of a cell: whatever the text of a cell, a writer
        that quotes makes one record of it. In "lines" it is one line. A record that is ragged, longer than 1 MiB or
        wrongly quoted contributes nothing, up to where it ends. CSV declares no types: every cell is read as text, and
        one that is not a plain decimal number is missing.

    >>> table = open_table(np.array([[1, 2], [3, 4]]), n_columns=2)
    >>> [block.tolist() for block in table.blocks()]
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    choice(csv_dialect, "csv_dialect", CSV_UNITS)
    wanted = None if columns is None else tuple(columns)
    if wanted is not None and len(set(wanted)) < len(wanted):
        twice = next(name for name, times in Counter(wanted).items() if times > 1)
        raise DataError(f"Column {twice!r} is declared twice. Declare each column once.")
    table = _open(X, wanted, n_columns, csv_dialect)
    if n_columns is not None and n_columns != table.n_columns:
        declared = "1 column" if n_columns == 1 else f"{n_columns} columns"
        raise DataError(f"The bounds are declared for {declared} but the table has {table.n_columns}.")
    if table.n_columns == 0:
        raise DataError("The table has no columns. Declare at least one.")
    return table


def _open(X: object, wanted: tuple[str, ...] | None, n_columns: int | None, csv_dialect: str) -> Table:
    source: Any = X
    # First of all: a Spark DataFrame would also pass for a stream of all its records.
    if is_spark(X):
        return spark_table(X, wanted)
    if isinstance(X, str | os.PathLike):
        path = os.fspath(X)
        if not path or not isinstance(path, str):
            # Path("") would be the current folder.
            raise DataError(
                "The path of the table is empty, or no text. Name a file or a folder; . is the current folder."
            )
        return open_path(Path(path), wanted, n_columns, csv_dialect)
    if is_a(X, "pandas", "Series") or is_a(X, "polars", "Series"):
        raise DataError("A Series is one column and no table. Use X.to_frame().")
    if is_a(X, "pandas", "DataFrame"):
        return _open_pandas(source, wanted)
    if is_a(X, "polars", "DataFrame") or is_a(X, "polars", "LazyFrame"):
        return _open_polars(source, wanted)
    if isinstance(X, pa.ChunkedArray) and pa.types.is_struct(X.type):
        # As a stream, a record that is null would be an error; here its cells are.
        source = X = pa.Table.from_arrays(X.flatten(), names=[field.name for field in X.type])
    if isinstance(X, pa.Table | pa.RecordBatch):
        return _open_arrow_table(source, wanted)
    if hasattr(X, "__arrow_c_stream__"):
        return _open_arrow_stream(source, wanted)
    if type(X).__module__.startswith("scipy.sparse"):
        raise ColumnTypeError("A sparse matrix cannot be read: every cell counts here. Use X.toarray().")
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "__array__"):
        if wanted is not None:
            raise DataError(
                "The columns are declared by name, but an array has no names. "
                "Declare bounds=(low, high) in the order of its columns, or hand over a data frame."
            )
        if isinstance(X, list | tuple):
            return _open_rows(X, n_columns)
        return _open_array(source)
    raise DataError(
        f"No table can be read from a {type(X).__name__}. Hand over a NumPy array, a pandas or Polars frame, "
        "a PyArrow table, a Spark DataFrame, or the path of a CSV or Parquet file."
    )


def _open_array(X: Any) -> Table:
    """Open a two-dimensional array, or what turns into one; floats that are contiguous are passed on uncopied."""
    array: Any = X if isinstance(X, np.ma.MaskedArray) else _quietly(lambda: np.asarray(X))
    if array is None:
        raise DataError(f"The {type(X).__name__} cannot be turned into an array. Use numpy.asarray on it.")
    if array.ndim != 2:
        raise DataError(
            f"The array has {array.ndim} dimension(s), not 2. Reshape your data: X.reshape(-1, 1) if it is one column, "
            "X.reshape(1, -1) if it is one record."
        )
    # The name of the scalar type: the dtype of text would tell the longest text.
    kind, name = array.dtype.kind, array.dtype.type.__name__
    if kind == "O":
        raise ColumnTypeError("An array of objects declares no type. Use X.astype(float) if it holds numbers.")
    if kind == "V":
        raise ColumnTypeError("A structured array cannot be read. Use pandas.DataFrame(X).")
    if kind == "c":
        raise ColumnTypeError(f"Complex data not supported ({name}). Give the real and the imaginary part as columns.")
    if kind not in _NUMERIC_KINDS:
        raise ColumnTypeError(f"The array is declared as {name}, which is not a real number. Leave such columns out.")

    def cut(rows: slice) -> NDArray[Any]:
        block = np.array(array[rows], dtype=np.float64, order="C", subok=False)
        if isinstance(array, np.ma.MaskedArray):
            block[np.ma.getmaskarray(array[rows])] = np.nan
        return block

    contiguous = array.flags.aligned and (array.flags.c_contiguous or array.flags.f_contiguous)
    if contiguous and array.dtype in (np.float32, np.float64) and not isinstance(array, np.ma.MaskedArray):
        return Table(None, array.shape[1], lambda _: iter((array,)))
    return Table(None, array.shape[1], lambda block_rows: sliced(array.shape[0], block_rows, cut))


def _quietly(work: Callable[[], Any]) -> Any:
    """What some work returns; none if it fails: its error may quote a record, and one raised there would keep it."""
    try:
        return work()
    except Exception:
        return None


def _open_rows(rows: Sequence[Any], n_columns: int | None) -> Table:
    """Open a list of rows: it declares no types, so its cells are numbers by the user's bounds, or missing.

    Guarantees: a cell is read by one rule, whatever the other cells and rows are. A row that is none, or of another
    width, is a record whose cells are all missing.
    """
    if n_columns is None:
        raise DataError(
            "How many columns a list of rows has cannot be known without looking at its records: declare bounds with "
            "one entry a column, as in bounds=([0, 0], [1, 1]), or hand over a NumPy array of two dimensions "
            "(X.reshape(-1, 1) if it is one column) or a data frame."
        )
    missing = [math.nan] * n_columns

    def numbers() -> Iterator[float]:
        for row in rows:
            cells = cells_of(row)
            if cells is None or len(cells) != n_columns:
                yield from missing
            else:
                # What most lists hold, without a call for each cell.
                yield from map(float if _FLOATS.issuperset(map(type, cells)) else _number, cells)

    with warnings.catch_warnings():
        # As an error a warning makes its cell missing; shown, it would tell of the cell.
        warnings.simplefilter("error")
        array = np.fromiter(numbers(), dtype=np.float64, count=len(rows) * n_columns)
    return _open_array(array.reshape(len(rows), n_columns))


def cells_of(row: Any) -> list[Any] | None:
    """The cells of one row of a list; none if it is no row."""
    if type(row) is list:
        return row
    try:
        # Of an object that says how long it is, no more is read.
        return None if isinstance(row, str | bytes) else list(islice(row, len(row)))
    except Exception:
        return None


def _number(cell: Any) -> float:
    try:
        # A length of time, or an array, would also pass for a number.
        if getattr(getattr(cell, "dtype", None), "kind", None) in ("m", "M") or getattr(cell, "ndim", 0) > 0:
            return math.nan
        return float(cell)
    except Exception:
        return math.nan


def _open_pandas(frame: Any, wanted: tuple[str, ...] | None) -> Table:
    """Open a pandas frame by the dtypes of its columns."""
    names = tuple(str(name) for name in frame.columns)
    positions = select(names, wanted, hint=_SEE_COLUMNS)
    for position in positions:
        dtype, shown = frame.dtypes.iloc[position], shown_column(names, position, wanted)
        if hasattr(dtype, "pyarrow_dtype"):
            check_numeric(shown, dtype.pyarrow_dtype)
        # The values of a categorical column have the type that its categories declare.
        elif getattr(getattr(dtype, "categories", dtype), "dtype", dtype).kind not in _NUMERIC_KINDS:
            raise not_numeric(shown, str(dtype))

    def cut(rows: slice) -> NDArray[Any]:
        part = frame.iloc[rows]
        block = np.empty((len(part), len(positions)))
        for j, position in enumerate(positions):
            column = part.iloc[:, position]
            if hasattr(column.dtype, "pyarrow_dtype"):
                block[:, j] = arrow_numbers(column.array.__arrow_array__())
            else:
                block[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return block

    selected = tuple(names[position] for position in positions)
    return Table(selected, len(selected), lambda block_rows: sliced(len(frame), block_rows, cut))


def _open_polars(frame: Any, wanted: tuple[str, ...] | None) -> Table:
    """Open a Polars frame by its schema; a lazy one is collected once, if types are declared where it reads."""
    import polars

    if not isinstance(frame, polars.DataFrame):
        _check_lazy(frame)
    schema = frame.collect_schema()
    names = tuple(schema.names())
    positions = select(names, wanted, hint=_SEE_COLUMNS)
    selected = tuple(names[position] for position in positions)
    for position, name in zip(positions, selected, strict=True):
        kind = schema[name].base_type()
        if not (kind.is_numeric() or kind in (polars.Boolean, polars.Null)):
            raise not_numeric(shown_column(names, position, wanted), kind.__name__)
    narrow = bool(selected) and all(schema[name] == polars.Float32 for name in selected)
    # By position: Polars expands a name such as "*" or "^x.*$" to all columns that it fits.
    frame = frame.select(polars.nth(*positions))
    if not isinstance(frame, polars.DataFrame):
        frame = _quietly(frame.collect)
        if frame is None:
            raise DataError("The lazy frame cannot be collected. Try X.collect() where its message may be seen.")
    cells = polars.all().cast(polars.Float32 if narrow else polars.Float64, strict=False).fill_null(math.nan)

    def cut(rows: slice) -> NDArray[Any]:
        numbers = frame.slice(rows.start, rows.stop - rows.start).select(cells).to_numpy(order="c")
        return np.require(numbers, requirements=["C", "W"])

    return Table(selected, len(selected), lambda block_rows: sliced(frame.height, block_rows, cut))


def _check_lazy(frame: Any) -> None:
    """Refuse a plan that reads what declares no types: these would be learnt from records, and one cell fail it."""
    plan = _quietly(lambda: frame.explain(optimized=False) if frame.collect_schema() is not None else None)
    if plan is None or not _TYPED_SCANS.issuperset(re.findall(r"(\w+) SCAN", plan)):
        raise DataError(
            "A lazy frame is read only if its plan can be resolved and reads Parquet, Arrow files or frames in memory; "
            "the types of CSV and JSON are learnt from records. Hand over the path of the file, or X.collect()."
        )


def _open_arrow_table(table: Any, wanted: tuple[str, ...] | None) -> Table:
    """Open a PyArrow table or record batch."""
    positions = select(table.schema.names, wanted, hint=_SEE_SCHEMA)
    kept = table.select(positions)
    return _arrow_table(kept.schema, wanted, kept.to_batches() if isinstance(kept, pa.Table) else [kept])


def _open_arrow_stream(stream: Any, wanted: tuple[str, ...] | None) -> Table:
    """Open anything with `__arrow_c_stream__`; it may be readable only once, so its columns are kept."""
    if type(stream).__name__ == "CSVStreamingReader":
        raise DataError(
            "The types of a reader of CSV are learnt from records. Hand over the path of the file: Recoup reads each "
            "cell by the bounds that you declare."
        )
    unreadable = DataError(
        f"The Arrow stream of this {type(stream).__name__} cannot be read as a table with named columns. If it reads a "
        "file, hand over the path of the file."
    )
    reader: Any = _quietly(lambda: pa.RecordBatchReader.from_stream(stream))
    if reader is None:
        raise unreadable
    positions = select(reader.schema.names, wanted, hint=_SEE_SCHEMA)
    # Before the only reading: a wrong type should not cost the stream.
    chosen = pa.schema([reader.schema.field(position) for position in positions])
    kept: list[Any] = []
    table = _arrow_table(chosen, wanted, kept)
    batches = _quietly(lambda: [batch.select(positions) for batch in reader])
    if batches is None:
        raise unreadable
    kept += batches
    return table


def _arrow_table(schema: Any, wanted: tuple[str, ...] | None, batches: list[Any]) -> Table:
    for position, kind in enumerate(schema.types):
        check_numeric(shown_column(schema.names, position, wanted), kind)

    def read(block_rows: int) -> Iterator[TableRows]:
        for batch in batches:
            yield from blocks_of(batch, block_rows)

    return Table(tuple(schema.names), len(schema), read)
