"""Turns what a user hands over (arrays, frames, Arrow, files, folders) into blocks of plain floating-point rows.

This and the modules that it opens tables with are the only ones that know about table libraries. They see records, so
nothing that leaves them except the blocks may depend on these: types come from a dtype, a schema or file metadata, and
a cell that is missing or is no finite number is passed on as one that is not finite, without a word.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from recoup._validate import choice
from recoup.curator.spark import is_spark, spark_table
from recoup.curator.tables import memory
from recoup.curator.tables.files import open_path
from recoup.curator.tables.table import Table
from recoup.errors import ColumnTypeError, DataError
from recoup.privacy.unit import CSV_UNITS


def open_table(
    X: object,
    columns: Sequence[str] | None = None,
    *,
    n_columns: int | None = None,
    block_rows: int = 131_072,
    csv_dialect: str = "rfc4180",
) -> Table:
    """Open a table of any supported kind, selecting its declared columns.

    Args:
        X: a two-dimensional NumPy array (masked cells are missing), a list of rows, a pandas or Polars frame, a PyArrow
            table, batch or reader, anything with `__arrow_c_stream__`, a Spark DataFrame, or the path of a `.csv` or
            `.tsv` file (which may be compressed), of a `.parquet`, `.feather` or `.arrow` file, or of a folder of
            these.
        columns: names of the columns to read, in this order; None: all of them.
        n_columns: how many columns were declared, checked against the table; a list of rows needs it.
        block_rows: the most rows in a block, except for arrays that are passed through as they are.
        csv_dialect: how CSV files were written, "rfc4180" (text in quotes may hold line breaks) or "lines" (each line
            is a record, whatever its quotes); never guessed from a file.

    Returns:
        The table. Files are read in pieces, each time that blocks are asked for; a stream that can be read only once is
        kept in memory.

    Raises:
        UnknownColumnError: a declared column is not there.
        ColumnTypeError: a column's declared type is not numeric.
        UnreadableFileError: a file is missing, may not be read, or is damaged.
        DataError: anything else that its shape, its schema or its kind makes unusable.

    Guarantees:
        No error, warning or attribute depends on records or on their number. In CSV by "rfc4180" a record ends where
        its line ends outside of quotes, which open only at the start of a cell: whatever the text of a cell, a writer
        that quotes makes one record of it. In "lines" it is one line. A record that is ragged, longer than 1 MiB or
        wrongly quoted contributes nothing, up to where it ends. CSV declares no types: every cell is
        read as text, and one that is not a plain decimal number is missing. Object arrays declare no type and are
        refused.

    >>> import numpy as np
    >>> table = open_table(np.array([[1, 2], [3, 4]]), n_columns=2)
    >>> [block.tolist() for block in table.blocks()]
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    choice(csv_dialect, "csv_dialect", CSV_UNITS)
    wanted = None if columns is None else tuple(columns)
    if wanted is not None and len(set(wanted)) < len(wanted):
        twice = next(name for name, times in Counter(wanted).items() if times > 1)
        raise DataError(f"Column {twice!r} is declared twice. Declare each column once.")
    table = _open(X, wanted, n_columns, block_rows, csv_dialect)
    if n_columns is not None and n_columns != table.n_columns:
        declared = "1 column" if n_columns == 1 else f"{n_columns} columns"
        raise DataError(f"The bounds are declared for {declared} but the table has {table.n_columns}.")
    if table.n_columns == 0:
        raise DataError("The table has no columns. Declare at least one.")
    return table


def _open(X: object, wanted: tuple[str, ...] | None, n_columns: int | None, block_rows: int, csv_dialect: str) -> Table:
    source: Any = X
    # First of all: a Spark DataFrame would also pass for a stream of all its records.
    if is_spark(X):
        return spark_table(X, wanted)
    if isinstance(X, str | os.PathLike):
        return open_path(_path(X), wanted, n_columns, block_rows, csv_dialect)
    if _is_a(X, "pandas", "Series") or _is_a(X, "polars", "Series"):
        raise DataError("A Series is one column and no table. Use X.to_frame().")
    if _is_a(X, "pandas", "DataFrame"):
        return memory.open_pandas(source, wanted, block_rows)
    if _is_a(X, "polars", "DataFrame") or _is_a(X, "polars", "LazyFrame"):
        return memory.open_polars(source, wanted, block_rows)
    if isinstance(X, pa.Table | pa.RecordBatch):
        return memory.open_arrow_table(source, wanted, block_rows)
    if hasattr(X, "__arrow_c_stream__"):
        return memory.open_arrow_stream(source, wanted, block_rows)
    if type(X).__module__.startswith("scipy.sparse"):
        raise ColumnTypeError("A sparse matrix cannot be read: every cell counts here. Use X.toarray().")
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "__array__"):
        if wanted is not None:
            raise DataError(
                "The columns are declared by name, but an array has no names. "
                "Declare bounds=(low, high) in the order of its columns, or hand over a data frame."
            )
        if isinstance(X, list | tuple):
            return memory.open_rows(X, n_columns, block_rows)
        return memory.open_array(source, block_rows)
    raise DataError(
        f"No table can be read from a {type(X).__name__}. Hand over a NumPy array, a pandas or Polars frame, "
        "a PyArrow table, a Spark DataFrame, or the path of a CSV or Parquet file."
    )


def _path(X: str | os.PathLike[str]) -> Path:
    path = os.fspath(X)
    if not path or not isinstance(path, str):
        # Path("") would be the current folder.
        raise DataError("The path of the table is empty, or no text. Name a file or a folder; . is the current folder.")
    return Path(path)


def _is_a(X: object, library: str, name: str) -> bool:
    # By name, since the library is optional and must not be imported only to find out.
    return any(base.__name__ == name and base.__module__.split(".")[0] == library for base in type(X).__mro__)
