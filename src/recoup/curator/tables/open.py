"""Turns what a user hands over (arrays, rows, frames, Arrow, files, folders) into blocks of plain floating-point rows.

This folder alone knows about table libraries. It sees records, so nothing that leaves it except the blocks may depend
on these: types come from a dtype, a schema or file metadata (a list of rows declares none, so its cells are what they
are declared to be here, or missing), and a cell that is missing or is no finite number is passed on as one that is not
finite, without a word.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recoup._validate import choice
from recoup.curator.spark import is_spark, spark_table
from recoup.curator.tables.database import is_address, is_database, open_database
from recoup.curator.tables.files import open_path
from recoup.curator.tables.frames import arrow_of, open_pandas, open_polars
from recoup.curator.tables.rules import NUMBERS
from recoup.curator.tables.table import OpenTable, TableRows, is_a, quietly, sliced
from recoup.curator.tables.wanted import Wanted
from recoup.errors import ColumnTypeError, DataError
from recoup.privacy.statement import CSV_UNITS
from recoup.schema import Category, Schema

_NUMERIC_KINDS: Final = "biuf"
_SEE_SCHEMA = "See X.schema."
_FLOATS: Final = frozenset({float, bool, np.float64, np.float32})  # turned into a float without fail


def open_table(
    X: object,
    columns: Sequence[str] | None = None,
    *,
    n_columns: int | None = None,
    csv_dialect: str = "rfc4180",
    schema: Schema | None = None,
    person: str | None = None,
) -> OpenTable:
    """Open a table of any supported kind, selecting its declared columns.

    Args:
        X: a two-dimensional NumPy array (masked cells are missing), a list of rows, a pandas or Polars frame, a PyArrow
            table, batch or reader, anything with `__arrow_c_stream__`, a Spark DataFrame, or the path of a `.csv` or
            `.tsv` file (which may be compressed), of a `.parquet`, `.feather` or `.arrow` file, or of a folder of
            these, read in pieces each time that blocks are asked for; so is a `recoup.Table` of a database, or a
            relation of DuckDB that is one table.
        columns: names of the columns to read, in this order; None: all of them.
        n_columns: how many columns were declared, checked against the table; a list of rows needs it.
        csv_dialect: how CSV files were written, "rfc4180" or "lines".
        schema: what the columns are, instead of their names alone. A category becomes the place of its value among
            those declared, one more if it is none of them; `tables.categories` says how it is matched.
        person: the name of a column, one more or one of these, that says whose a record is; see
            `OpenTable.person_blocks`.

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
    wanted = Wanted(None if columns is None else tuple(columns), schema, person)
    if wanted.columns is not None and len(set(wanted.columns)) < len(wanted.columns):
        twice = next(name for name, times in Counter(wanted.columns).items() if times > 1)
        raise DataError(f"Column {twice!r} is declared twice. Declare each column once.")
    n_columns = n_columns if schema is None else len(schema)
    table = _open(X, wanted, n_columns, csv_dialect)
    _check_width(table.n_columns, n_columns)
    if table.n_columns == 0:
        raise DataError("The table has no columns. Declare at least one.")
    return table


def _check_width(width: int, n_columns: int | None) -> None:
    if n_columns is not None and n_columns != width:
        declared = "1 column" if n_columns == 1 else f"{n_columns} columns"
        raise DataError(f"The bounds are declared for {declared} but the table has {width}.")


def _open(X: object, wanted: Wanted, n_columns: int | None, csv_dialect: str) -> OpenTable:
    source: Any = X
    # First of all: a Spark DataFrame would also pass for a stream of all its records.
    if is_spark(X):
        return spark_table(X, wanted)
    # Likewise a relation of DuckDB.
    if is_database(X):
        return open_database(X, wanted)
    if is_address(X):
        # Not quoted: it may hold a password.
        raise DataError("This is an address and no path. Name the table: recoup.Table(address, name), or --table NAME.")
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
        return open_pandas(source, wanted)
    if is_a(X, "polars", "DataFrame") or is_a(X, "polars", "LazyFrame"):
        return open_polars(source, wanted)
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
        if wanted.person is not None:
            raise DataError(
                f"The column {wanted.person!r} is to say whose a record is, but an array has no names. Hand over a "
                "data frame or a file."
            )
        if wanted.columns is not None and wanted.schema is None:
            raise DataError(
                "The columns are declared by name, but an array has no names. "
                "Declare bounds=(low, high) in the order of its columns, or hand over a data frame."
            )
        return _open_rows(X, n_columns, wanted) if isinstance(X, list | tuple) else _open_array(source, wanted)
    raise DataError(
        f"No table can be read from a {type(X).__name__}. Hand over a NumPy array, a pandas or Polars frame, "
        "a PyArrow table, a Spark DataFrame, a recoup.Table of a database, or the path of a CSV or Parquet file."
    )


def _open_array(X: Any, wanted: Wanted) -> OpenTable:
    """Open a two-dimensional array, or what turns into one; floats that are contiguous are passed on uncopied."""
    array: Any = X if isinstance(X, np.ma.MaskedArray) else quietly(lambda: np.asarray(X))
    if array is None:
        raise DataError(f"The {type(X).__name__} cannot be turned into an array. Use numpy.asarray on it.")
    if array.ndim != 2:
        raise DataError(
            f"The array has {array.ndim} dimension(s), not 2. Reshape your data: X.reshape(-1, 1) if it is one column, "
            "X.reshape(1, -1) if it is one record."
        )
    if wanted.schema is not None:
        _check_width(array.shape[1], len(wanted.schema))
    _check_kind(array.dtype, wanted.schema)
    if array.dtype.kind not in _NUMERIC_KINDS:
        return _open_rows(array, array.shape[1], wanted)
    categories = [(j, rule) for j, rule in enumerate(wanted.rules(array.shape[1])) if rule is not NUMBERS]

    def cut(rows: slice) -> NDArray[Any]:
        part = array[rows]
        block = np.array(part, dtype=np.float64, order="C", subok=False)
        for j, rule in categories:
            block[:, j] = rule.of_arrow(arrow_of(np.asarray(part[:, j])))
        if isinstance(part, np.ma.MaskedArray):
            block[np.ma.getmaskarray(part)] = np.nan
        return block

    contiguous = array.flags.aligned and (array.flags.c_contiguous or array.flags.f_contiguous)
    as_it_is = contiguous and not categories and not isinstance(array, np.ma.MaskedArray)
    if as_it_is and array.dtype in (np.float32, np.float64):
        return OpenTable(None, array.shape[1], lambda _: iter((array,)))
    return OpenTable(None, array.shape[1], lambda block_rows: sliced(array.shape[0], block_rows, cut))


def _check_kind(dtype: Any, schema: Schema | None) -> None:
    # The name of the scalar type: the dtype of text would tell the longest text.
    kind, name = dtype.kind, dtype.type.__name__
    only_categories = schema is not None and all(isinstance(column, Category) for column in schema.values())
    if kind in _NUMERIC_KINDS or (kind == "O" and schema is not None) or (kind in "UT" and only_categories):
        return
    if kind == "O":
        raise ColumnTypeError("An array of objects declares no type. Use X.astype(float) if it holds numbers.")
    if kind == "V":
        raise ColumnTypeError("A structured array cannot be read. Use pandas.DataFrame(X).")
    if kind == "c":
        raise ColumnTypeError(f"Complex data not supported ({name}). Give the real and the imaginary part as columns.")
    raise ColumnTypeError(f"The array is declared as {name}, which is not a real number. Leave such columns out.")


def _open_rows(rows: Any, n_columns: int | None, wanted: Wanted) -> OpenTable:
    """Open a list of rows: it declares no types, so its cells are what the user declares them to be, or missing.

    Guarantees: a cell is read by one rule, whatever the other cells and rows are. A row that is none, or of another
    width, is a record whose cells are all missing.
    """
    if n_columns is None:
        raise DataError(
            "How many columns a list of rows has cannot be known without looking at its records: declare bounds with "
            "one entry a column, as in bounds=([0, 0], [1, 1]), or hand over a NumPy array of two dimensions "
            "(X.reshape(-1, 1) if it is one column) or a data frame."
        )
    missing, plain = [math.nan] * n_columns, wanted.only_numbers
    readers = [rule.of_cell for rule in wanted.rules(n_columns)]

    def numbers() -> Iterator[float]:
        for row in rows:
            cells = cells_of(row)
            if cells is None or len(cells) != n_columns:
                yield from missing
            elif plain and _FLOATS.issuperset(map(type, cells)):
                # What most lists hold, without a call of ours for each cell.
                yield from map(float, cells)
            else:
                yield from (read(cell) for read, cell in zip(readers, cells, strict=True))

    with warnings.catch_warnings():
        # As an error a warning makes its cell missing; shown, it would tell of the cell.
        warnings.simplefilter("error")
        array = np.fromiter(numbers(), dtype=np.float64, count=len(rows) * n_columns)
    return _open_array(array.reshape(len(rows), n_columns), Wanted())


def cells_of(row: Any) -> list[Any] | None:
    """The cells of one row of a list; none if it is no row."""
    if type(row) is list:
        return row
    try:
        # Of an object that says how long it is, no more is read.
        return None if isinstance(row, str | bytes) else list(islice(row, len(row)))
    except Exception:
        return None


def _open_arrow_table(table: Any, wanted: Wanted) -> OpenTable:
    """Open a PyArrow table or record batch."""
    names, positions = table.schema.names, wanted.select(table.schema.names, hint=_SEE_SCHEMA)
    kept = table.select(positions)
    return _arrow_table(
        names, positions, kept.schema, wanted, kept.to_batches() if isinstance(kept, pa.Table) else [kept]
    )


def _open_arrow_stream(stream: Any, wanted: Wanted) -> OpenTable:
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
    reader: Any = quietly(lambda: pa.RecordBatchReader.from_stream(stream))
    if reader is None:
        raise unreadable
    positions = wanted.select(reader.schema.names, hint=_SEE_SCHEMA)
    # Before the only reading: a wrong type should not cost the stream.
    chosen = pa.schema([reader.schema.field(position) for position in positions])
    kept: list[Any] = []
    table = _arrow_table(reader.schema.names, positions, chosen, wanted, kept)
    batches = quietly(lambda: [batch.select(positions) for batch in reader])
    if batches is None:
        raise unreadable
    kept += batches
    return table


def _arrow_table(
    names: Sequence[str], positions: Sequence[int], schema: Any, wanted: Wanted, batches: list[Any]
) -> OpenTable:
    wanted.check(names, positions, schema.types)

    def read(block_rows: int) -> Iterator[TableRows]:
        for batch in batches:
            yield from wanted.blocks_of(batch, block_rows)

    return wanted.table(names, positions, read, schema.types)
