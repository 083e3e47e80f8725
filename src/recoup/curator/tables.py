"""Turns what a user hands over (arrays, frames, Arrow, files, folders) into blocks of plain floating-point rows.

It is the only place that knows about table libraries. It sees records, so nothing that leaves it except the blocks may
depend on them: types come from a dtype, a schema or file metadata, and a cell that is missing or is no finite number
becomes NaN without a word.
"""

from __future__ import annotations

import csv
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from recoup.curator.csv_lines import (
    CSV_LINE_BYTES,
    TO_ASCII,
    header_then_lines,
    parse_numbers,
    split_cells,
    well_quoted,
)
from recoup.errors import ColumnTypeError, DataError, RecoupError, UnknownColumnError, UnreadableFileError

Block: TypeAlias = NDArray[np.float64] | NDArray[np.float32]

_NUMERIC_KINDS: Final = "biuf"
_NAMES_SHOWN: Final = 30
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_COMPRESSIONS: Final = {".gz", ".bz2", ".zst", ".lz4"}
_PARQUET: Final = {".parquet", ".pq"}
_IPC: Final = {".feather", ".arrow", ".ipc"}


@dataclass(frozen=True, slots=True)
class Table:
    """Numeric columns of one table, readable as often as needed.

    Attributes:
        columns: names of the selected columns in their order; None for a bare array.
        n_columns: how many columns every block has.
    """

    columns: tuple[str, ...] | None
    n_columns: int
    _read: Callable[[], Iterator[Block]] = field(repr=False, compare=False)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in order, as C-contiguous (n, n_columns) blocks.

        Returns:
            At least one block, also for a table without rows. A row with a value that is not finite is a record that
            contributes nothing.

        Guarantees:
            Every cell that is missing or is no finite number is NaN, except in a float array that is passed through
            uncopied, which may hold infinities too: readers must test for finite, not for NaN.
        """
        empty = True
        for block in self._read():
            empty = False
            yield block
        if empty:
            yield np.empty((0, self.n_columns))


def open_table(
    X: object, columns: Sequence[str] | None = None, *, n_columns: int | None = None, block_rows: int = 262_144
) -> Table:
    """Open a table of any supported kind, selecting its declared columns.

    Args:
        X: a two-dimensional NumPy array (masked cells are missing), a list of rows, a pandas or Polars frame, a PyArrow
            table, batch or reader, anything with `__arrow_c_stream__`, or the path of a `.csv` or `.tsv` file (which
            may be compressed), of a `.parquet`, `.feather` or `.arrow` file, or of a folder of these.
        columns: names of the columns to read, in this order; None: all of them.
        n_columns: how many columns were declared, checked against the table.
        block_rows: the most rows in a block, except for arrays that are passed through as they are.

    Returns:
        The table. Files are read in pieces, each time that blocks are asked for; a stream that can be read only once is
        kept in memory.

    Raises:
        UnknownColumnError: a declared column is not there.
        ColumnTypeError: a column's declared type is not numeric.
        UnreadableFileError: a file is missing, may not be read, or is damaged.
        DataError: anything else that its shape, its schema or its kind makes unusable.

    Guarantees:
        No error, warning or attribute depends on records or on their number. In CSV a record is one line, whatever its
        quotes: a line that is ragged, longer than 1 MiB or wrongly quoted contributes nothing and leaves its
        neighbours as they are, so text with line breaks inside needs Parquet. CSV declares no types: every cell is
        read as text, and one that is not a plain decimal number is missing. Object arrays declare no type and are
        refused.

    >>> import numpy as np
    >>> table = open_table(np.array([[1, 2], [3, 4]]), n_columns=2)
    >>> [block.tolist() for block in table.blocks()]
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    wanted = None if columns is None else tuple(columns)
    if wanted is not None and len(set(wanted)) < len(wanted):
        twice = next(name for name, times in Counter(wanted).items() if times > 1)
        raise DataError(f"Column {twice!r} is declared twice. Declare each column once.")
    table = _open(X, wanted, n_columns, block_rows)
    if n_columns is not None and n_columns != table.n_columns:
        names = "" if table.columns is None else f": {_listed(table.columns)}"
        raise DataError(f"The bounds are declared for {n_columns} columns but the table has {table.n_columns}{names}.")
    if table.n_columns == 0:
        raise DataError("The table has no columns. Declare at least one.")
    return table


def _open(X: object, wanted: tuple[str, ...] | None, n_columns: int | None, block_rows: int) -> Table:
    source: Any = X
    if isinstance(X, str | os.PathLike):
        return _open_path(Path(X), wanted, n_columns, block_rows)
    if _is_a(X, "pandas", "DataFrame"):
        return _open_pandas(source, wanted, block_rows)
    if _is_a(X, "polars", "DataFrame") or _is_a(X, "polars", "LazyFrame"):
        return _open_polars(source, wanted, block_rows)
    if isinstance(X, pa.Table | pa.RecordBatch):
        return _open_arrow_table(source, wanted, block_rows)
    if hasattr(X, "__arrow_c_stream__"):
        return _open_arrow_stream(source, wanted, block_rows)
    if type(X).__module__.startswith("scipy.sparse"):
        raise ColumnTypeError("A sparse matrix cannot be read: every cell counts here. Use X.toarray().")
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "__array__"):
        if wanted is not None:
            raise DataError(
                "The columns are declared by name, but an array has no names. "
                "Declare bounds=(low, high) in the order of its columns, or hand over a data frame."
            )
        if isinstance(X, list | tuple):
            return _open_rows(X, n_columns, block_rows)
        return _open_array(source, block_rows)
    raise DataError(
        f"No table can be read from a {type(X).__name__}. Hand over a NumPy array, a pandas or Polars frame, "
        "a PyArrow table, or the path of a CSV or Parquet file."
    )


def _is_a(X: object, library: str, name: str) -> bool:
    # By name, since the library is optional and must not be imported only to find out.
    return any(base.__name__ == name and base.__module__.split(".")[0] == library for base in type(X).__mro__)


# ---- schema: names and types, which are public ----


def _listed(names: Sequence[str]) -> str:
    more = "" if len(names) <= _NAMES_SHOWN else ", ..."
    return ", ".join(repr(name) for name in names[:_NAMES_SHOWN]) + more


def _select(names: Sequence[str], wanted: tuple[str, ...] | None, hint: str | None = None) -> list[int]:
    times = Counter(names)
    for name in names if wanted is None else wanted:
        if times[name] == 0:
            raise UnknownColumnError(f"There is no column {name!r}. {hint or f'The columns are {_listed(names)}.'}")
        if times[name] > 1:
            raise DataError(f"The table has more than one column named {name!r}. Rename all but one.")
    first = {name: position for position, name in enumerate(names)}
    return [first[name] for name in (names if wanted is None else wanted)]


def _not_numeric(name: str, kind: str) -> ColumnTypeError:
    return ColumnTypeError(
        f"Column {name!r} is declared as {kind}, which is not a number. Leave it out, turn it into a number, "
        "or one-hot encode it over categories that you declare (not ones found in the data)."
    )


def _stored_type(kind: Any) -> Any:
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _check_arrow_type(name: str, kind: Any) -> None:
    stored, types = _stored_type(kind), pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    if not any(test(stored) for test in tests):
        raise _not_numeric(name, str(kind))


# ---- in memory ----


def _sliced(n_rows: int, block_rows: int, cut: Callable[[slice], NDArray[Any]]) -> Iterator[Block]:
    for start in range(0, n_rows, block_rows):
        # A cast may overflow, and a warning would tell.
        with np.errstate(all="ignore"):
            block = cut(slice(start, start + block_rows))
        yield _finite(block)


def _finite(block: NDArray[Any]) -> Block:
    block[np.isinf(block)] = np.nan
    return block


def _open_array(X: Any, block_rows: int) -> Table:
    try:
        array = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    except Exception:
        raise DataError(f"The {type(X).__name__} cannot be turned into an array. Use numpy.asarray on it.") from None
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

    as_it_is = array.dtype in (np.float32, np.float64) and array.flags.c_contiguous and array.flags.aligned
    if as_it_is and not isinstance(array, np.ma.MaskedArray):
        return Table(None, array.shape[1], lambda: iter((array,)))
    return Table(None, array.shape[1], lambda: _sliced(array.shape[0], block_rows, cut))


def _open_rows(rows: Sequence[Any], n_columns: int | None, block_rows: int) -> Table:
    # A list declares no types: its cells are numbers by the user's bounds, or missing.
    if not rows:
        return Table(None, n_columns or 0, lambda: iter(()))
    with warnings.catch_warnings():
        # As an error a warning makes its cell missing; shown, it would tell of the cell.
        warnings.simplefilter("error")
        try:
            array = np.array(rows, dtype=np.float64)
        except (TypeError, ValueError, ArithmeticError, Warning):
            array = _cell_by_cell(rows, n_columns)
        if n_columns is not None and (array.ndim != 2 or array.shape[1] != n_columns):
            array = _cell_by_cell(rows, n_columns)
    return _open_array(_finite(array), block_rows)


def _cell_by_cell(rows: Sequence[Any], n_columns: int | None) -> NDArray[np.float64]:
    records = [row for row in rows if hasattr(row, "__len__") and not isinstance(row, str | bytes)]
    if n_columns is None and not records:
        return np.empty(0)
    # A row of another width contributes nothing; without a declared width, the commonest one is taken for it.
    width = n_columns or Counter(len(row) for row in records).most_common(1)[0][0]
    cells = [[_number(cell) for cell in row] for row in records if len(row) == width]
    return np.array(cells, dtype=np.float64).reshape(len(cells), width)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, ArithmeticError, Warning):
        return math.nan


def _open_pandas(frame: Any, wanted: tuple[str, ...] | None, block_rows: int) -> Table:
    names = tuple(str(name) for name in frame.columns)
    positions = _select(names, wanted)
    for position in positions:
        dtype = frame.dtypes.iloc[position]
        if hasattr(dtype, "pyarrow_dtype"):
            _check_arrow_type(names[position], dtype.pyarrow_dtype)
        # The values of a categorical column have the type that its categories declare.
        elif getattr(getattr(dtype, "categories", dtype), "dtype", dtype).kind not in _NUMERIC_KINDS:
            raise _not_numeric(names[position], str(dtype))

    def cut(rows: slice) -> NDArray[Any]:
        part = frame.iloc[rows]
        block = np.empty((len(part), len(positions)))
        for j, position in enumerate(positions):
            column = part.iloc[:, position]
            if hasattr(column.dtype, "pyarrow_dtype"):
                block[:, j] = _arrow_numbers(column.array.__arrow_array__(), pa.float64())
            else:
                block[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return block

    selected = tuple(names[position] for position in positions)
    return Table(selected, len(selected), lambda: _sliced(len(frame), block_rows, cut))


def _open_polars(frame: Any, wanted: tuple[str, ...] | None, block_rows: int) -> Table:
    import polars

    schema = _run_polars(frame.collect_schema)
    names = tuple(schema.names())
    selected = tuple(names[position] for position in _select(names, wanted))
    for name in selected:
        kind = schema[name].base_type()
        if not (kind.is_numeric() or kind in (polars.Boolean, polars.Null)):
            raise _not_numeric(name, kind.__name__)
    narrow = bool(selected) and all(schema[name] == polars.Float32 for name in selected)
    frame = frame.select(selected)
    if not isinstance(frame, polars.DataFrame):
        frame = _run_polars(frame.collect)
    cells = polars.all().cast(polars.Float32 if narrow else polars.Float64, strict=False).fill_null(math.nan)

    def cut(rows: slice) -> NDArray[Any]:
        numbers = frame.slice(rows.start, block_rows).select(cells).to_numpy(order="c")
        return np.require(numbers, requirements=["C", "W"])

    return Table(selected, len(selected), lambda: _sliced(frame.height, block_rows, cut))


def _run_polars(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception:
        raise DataError("The lazy frame cannot be collected. Try X.collect() where its message may be seen.") from None


# ---- Arrow ----


def _arrow_numbers(array: Any, target: Any) -> NDArray[Any]:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    while _stored_type(array.type) != array.type:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        else:
            array = pc.run_end_decode(array)
    # Safe casts raise for an integer that a float cannot hold exactly, which would tell of a value.
    return np.asarray(array.cast(target, safe=False).to_numpy(zero_copy_only=False))


def _arrow_table(schema: Any, positions: list[int], batches: Callable[[], Iterator[Any]], block_rows: int) -> Table:
    """Make a table of batches that hold the columns at `positions` of the schema, in that order."""
    names = tuple(schema.names[position] for position in positions)
    for name, position in zip(names, positions, strict=True):
        _check_arrow_type(name, schema.types[position])
    narrow = all(pa.types.is_float32(_stored_type(schema.types[position])) for position in positions)

    def read() -> Iterator[Block]:
        for batch in batches():

            def cut(rows: slice, batch: Any = batch) -> NDArray[Any]:
                part = batch.slice(rows.start, block_rows)
                block = np.empty((part.num_rows, len(positions)), np.float32 if narrow else np.float64)
                for j, column in enumerate(part.columns):
                    block[:, j] = _arrow_numbers(column, pa.from_numpy_dtype(block.dtype))
                return block

            yield from _sliced(batch.num_rows, block_rows, cut)

    return Table(names, len(names), read)


def _open_arrow_table(table: Any, wanted: tuple[str, ...] | None, block_rows: int) -> Table:
    positions = _select(table.schema.names, wanted)
    kept = table.select(positions)
    batches = kept.to_batches if isinstance(kept, pa.Table) else lambda: [kept]
    return _arrow_table(table.schema, positions, lambda: iter(batches()), block_rows)


def _open_arrow_stream(stream: Any, wanted: tuple[str, ...] | None, block_rows: int) -> Table:
    kept: list[Any] = []
    kind = type(stream).__name__
    try:
        reader = pa.RecordBatchReader.from_stream(stream)
        positions = _select(reader.schema.names, wanted)
        # Before the only reading: a wrong type should not cost the stream.
        table = _arrow_table(reader.schema, positions, lambda: iter(kept), block_rows)
        kept += [batch.select(positions) for batch in reader]
    except RecoupError:
        raise
    except Exception:
        raise DataError(f"The Arrow stream of this {kind} cannot be read as a table with named columns.") from None
    return table


# ---- files ----


@contextmanager
def _naming_only(path: Path) -> Iterator[None]:
    """Replace what a reader complains about, which may quote records, by the path."""
    try:
        yield
    except RecoupError:
        raise
    except FileNotFoundError:
        raise UnreadableFileError(f"There is no file or folder {str(path)!r}.") from None
    except PermissionError:
        raise UnreadableFileError(f"{str(path)!r} may not be read. Check its permissions.") from None
    except (OSError, ValueError, EOFError, csv.Error, pa.ArrowException):
        raise UnreadableFileError(
            f"{str(path)!r} cannot be read: it is damaged, cut short, or not of the kind that its name says."
        ) from None


def _kind(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix.lower() in _COMPRESSIONS else path
    suffix = inner.suffix.lower()
    return suffix if suffix in _DELIMITERS or (inner is path and suffix in _PARQUET | _IPC) else ""


def _open_path(path: Path, wanted: tuple[str, ...] | None, n_columns: int | None, block_rows: int) -> Table:
    with _naming_only(path):
        if path.is_dir():
            return _open_folder(path, wanted, n_columns, block_rows)
        path.stat()
        kind = _kind(path)
        if kind in _DELIMITERS:
            return _open_csv(path, _DELIMITERS[kind], wanted, n_columns, block_rows)
        if kind in _PARQUET:
            return _open_parquet(path, wanted, block_rows)
        if kind in _IPC:
            return _open_ipc(path, wanted, block_rows)
    raise DataError(
        f"{str(path)!r} is of no kind that can be read. Its name must end in .csv, .tsv (or these with .gz, .bz2, .zst "
        "or .lz4), .parquet, .feather or .arrow."
    )


def _open_folder(folder: Path, wanted: tuple[str, ...] | None, n_columns: int | None, block_rows: int) -> Table:
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _kind(path) and not any(p[0] in "._" for p in path.relative_to(folder).parts)
    ]
    # Writers of parts leave a file of no bytes where a part had no records.
    paths = [path for path in paths if path.stat().st_size > 0]
    if not paths:
        raise UnreadableFileError(f"The folder {str(folder)!r} holds no CSV, Parquet or Arrow files.")
    parts = [_open_path(path, wanted, n_columns, block_rows) for path in paths]
    for path, part in zip(paths, parts, strict=True):
        if part.columns != parts[0].columns:
            raise DataError(f"{str(path)!r} and {str(paths[0])!r} have different columns. Declare which to read.")
    return Table(parts[0].columns, parts[0].n_columns, lambda: chain.from_iterable(part.blocks() for part in parts))


def _open_parquet(path: Path, wanted: tuple[str, ...] | None, block_rows: int) -> Table:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    positions = _select(schema.names, wanted)
    names = [schema.names[position] for position in positions]

    def batches() -> Iterator[Any]:
        with _naming_only(path), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=block_rows, columns=names):
                yield batch.select(names)

    return _arrow_table(schema, positions, batches, block_rows)


def _open_ipc(path: Path, wanted: tuple[str, ...] | None, block_rows: int) -> Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        schema = reader.schema
    positions = _select(schema.names, wanted)
    names = [schema.names[position] for position in positions]
    options = pa.ipc.IpcReadOptions(included_fields=positions)

    def batches() -> Iterator[Any]:
        with _naming_only(path), pa.OSFile(str(path)) as file, pa.ipc.open_file(file, options=options) as reader:
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index).select(names)

    return _arrow_table(schema, positions, batches, block_rows)


# ---- CSV: one line, one record ----


def _open_csv(
    path: Path, delimiter: str, wanted: tuple[str, ...] | None, n_columns: int | None, block_rows: int
) -> Table:
    with pa.input_stream(str(path)) as stream:
        header = next(header_then_lines(stream), b"")
    if not header or len(header) > CSV_LINE_BYTES or b"\0" in header:
        raise UnreadableFileError(f"{str(path)!r} has no first line, in UTF-8, that names its columns.")
    cells = next(csv.reader([header.decode("utf-8", "replace")], delimiter=delimiter))
    names = tuple(cell.strip() for cell in cells)
    # A first line that holds a number or nothing may be a record: a file without header must not be quoted.
    header_like = all(name[:1].isalpha() or name[:1] == "_" for name in names)
    if wanted is None and not (header_like and n_columns == len(names)):
        raise DataError(
            f"Which columns of {str(path)!r} are numbers cannot be known without looking at its records: declare the "
            "columns by bounds={column: (low, high)}, with the names that its first line gives them."
        )
    hint = None if header_like else f"The first line of {str(path)!r} must name the columns."
    positions = _select(names, wanted, hint)
    selected = tuple(names[position] for position in positions)

    def read() -> Iterator[Block]:
        with _naming_only(path), pa.input_stream(str(path)) as stream:
            chunks = header_then_lines(stream)
            next(chunks, None)
            for lines in chunks:
                # Numbers are ASCII; other bytes need not be text, and the reader fails on a ragged line that is not.
                sound = well_quoted(lines.translate(TO_ASCII), delimiter)
                texts = split_cells(sound, delimiter, len(names), positions)
                if texts is None:
                    continue

                def cut(rows: slice, texts: Any = texts) -> NDArray[Any]:
                    return parse_numbers(texts.slice(rows.start, block_rows))

                yield from _sliced(texts.num_rows, block_rows, cut)

    return Table(selected, len(selected), read)
