"""Tables in files: Parquet, Arrow and CSV, one file or a folder, read anew each time and block by block.

`pyarrow.dataset` would read folders too, but it decodes whole row groups ahead, takes the types of CSV cells and of
partition folders from values, and quotes values in its errors. So each file is opened by its own reader, and its
schema is checked before anything is asked.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from recoup._threads import n_threads, prefetched
from recoup.curator.tables.csv_cells import CSV_RECORD_BYTES, Form, header_then_bytes, number_of, numbers_of
from recoup.curator.tables.paths import (
    DELIMITERS,
    IPC,
    PARQUET,
    TableFile,
    compression_of,
    each_naming_only,
    files_of,
    kind_of,
    naming_only,
)
from recoup.curator.tables.table import (
    Columns,
    Table,
    blocks_of,
    bounded_rows,
    check_numeric,
    columns_of,
    listed,
    select,
)
from recoup.errors import DataError, UnreadableFileError

Reader = Callable[[int], Iterator[Columns]]

# Parquet column chunks are read through a window, or a large row group would be in memory as a whole.
_WINDOW_BYTES: Final = 256 << 10
_WINDOWS_BYTES: Final = 32 << 20
_OTHER_KINDS: Final = {
    b"PAR1": "Parquet",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
}


@dataclass(frozen=True, slots=True)
class _File:
    """A file whose header was read.

    Attributes:
        names: of all its columns; of CSV they may be a record, of a file without header, and are told nowhere.
        dialect: of CSV; none where the file declares the types of its columns.
        reader: checks the types of the columns at some places, and reads these.
    """

    names: tuple[str, ...]
    dialect: str | None
    reader: Callable[[list[int]], Reader]


def open_path(
    path: Path, wanted: tuple[str, ...] | None, n_columns: int | None, block_rows: int, csv_dialect: str
) -> Table:
    """Open a file, or all files of a folder, selecting the declared columns.

    Args:
        path: of a file or a folder.
        wanted: names of the columns to read; None: all that the files have.
        n_columns: how many columns were declared, which a CSV file without declared names must have.
        block_rows: the most rows in a block.
        csv_dialect: how CSV files are written, "rfc4180" or "lines".

    Returns:
        The table; columns that are not in a file may be in the names of its folders, as in `year=2020`.

    Raises:
        UnknownColumnError: a declared column is missing in a file.
        ColumnTypeError: a column's declared type is not numeric in a file.
        UnreadableFileError: a file or folder cannot be read.
        DataError: the files have different columns, or cannot be one table.
    """
    parts = naming_only(str(path), lambda: files_of(path) if path.is_dir() else [TableFile(path)])
    in_folder = parts[0].path != path
    first: tuple[str, ...] | None = None
    readers = []
    for part in parts:
        shown = part.shown
        file = naming_only(shown, partial(_open_file, part.path, shown, csv_dialect))
        if wanted is None:
            _check_all_meant(file, shown, n_columns)
            if first is not None and file.names != first:
                raise DataError(f"{shown!r} and {parts[0].shown!r} have different columns. Declare which to read.")
        first = file.names if first is None else first
        readers.append(_reader(file, part, wanted, f" in {shown!r}" if in_folder else ""))
    names = wanted if wanted is not None else first or ()

    def read() -> Generator[Columns, None, None]:
        for reader in readers:
            yield from reader(bounded_rows(block_rows, len(names)))

    return Table(names, len(names), lambda: prefetched(read()), csv_dialect=file.dialect)


def _check_all_meant(file: _File, shown: str, n_columns: int | None) -> None:
    # A first line that holds a number or nothing may be a record, of a file without header.
    header_like = all(name[:1].isalpha() or name[:1] == "_" for name in file.names)
    if file.dialect is not None and (not header_like or n_columns != len(file.names)):
        raise DataError(
            f"Which columns of {shown!r} are numbers cannot be known without looking at its records: declare the "
            "columns by bounds={column: (low, high)}, with the names that its first line gives them."
        )


def _reader(file: _File, part: TableFile, wanted: tuple[str, ...] | None, where: str) -> Reader:
    hint = f"The first line of {part.shown!r} must name the columns." if file.dialect is not None else ""
    if wanted is None:
        return file.reader(select(file.names, None, hint=hint, where=where))
    # A column of the file itself has a declared type, so it goes before one that the folders name.
    in_file = [name for name in wanted if name in file.names or name not in part.partition]
    reader = file.reader(select(file.names, in_file, hint=hint, where=where))
    if len(in_file) == len(wanted):
        return reader
    if not in_file:
        raise DataError(f"The columns {listed(wanted)} are names of folders alone. Declare one that the files hold.")
    constants = [None if name in in_file else number_of(part.partition[name]) for name in wanted]

    def read(block_rows: int) -> Iterator[Columns]:
        for block in reader(block_rows):
            yield _filled(block, constants)

    return read


def _filled(block: Columns, constants: Sequence[float | None]) -> Columns:
    given = iter(block.arrays)
    arrays = [next(given) if constant is None else np.full(len(block), constant) for constant in constants]
    return Columns(tuple(arrays), len(block))


def _open_file(path: Path, shown: str, csv_dialect: str) -> _File:
    path.stat()
    kind = kind_of(path)
    if kind in DELIMITERS:
        return _open_csv(path, shown, Form(DELIMITERS[kind], csv_dialect))
    if kind in PARQUET:
        return _open_parquet(path, shown)
    if kind in IPC:
        return _open_ipc(path, shown)
    raise DataError(
        f"{shown!r} is of no kind that can be read. Its name must end in .csv, .tsv (or these with .gz, .bz2, .zst "
        "or .lz4), .parquet, .feather or .arrow."
    )


def _changed(shown: str) -> UnreadableFileError:
    return UnreadableFileError(f"{shown!r} is not the file that was opened: its columns have changed since.")


# ---- Parquet and Arrow: types are declared ----


def _open_parquet(path: Path, shown: str) -> _File:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow

    def reader(positions: list[int]) -> Reader:
        meant = _meant(schema, positions, shown)
        names: list[str] = meant.names

        def decoded(columns: list[str], block_rows: int) -> Iterator[Any]:
            window = min(_WINDOW_BYTES, _WINDOWS_BYTES // max(1, len(columns)))
            options = {"pre_buffer": False, "buffer_size": window, "page_checksum_verification": True}
            with parquet.ParquetFile(path, **options) as file:
                _check_same(file.schema_arrow, positions, meant, shown)
                yield from file.iter_batches(block_rows, columns=columns, use_threads=_spare_threads())

        def damaged() -> str | None:
            for name in names:
                try:
                    for _ in decoded([name], 1 << 16):
                        pass
                except Exception:
                    return name
            return None

        def read(block_rows: int) -> Generator[Columns, None, None]:
            for batch in decoded(names, block_rows):
                yield columns_of(batch.select(names))

        return lambda block_rows: each_naming_only(shown, read(block_rows), damaged)

    return _File(tuple(schema.names), None, reader)


def _open_ipc(path: Path, shown: str) -> _File:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as opened:
        schema = opened.schema

    def reader(positions: list[int]) -> Reader:
        meant = _meant(schema, positions, shown)
        names: list[str] = meant.names
        options = pa.ipc.IpcReadOptions(included_fields=positions, use_threads=_spare_threads())

        def read(block_rows: int) -> Generator[Columns, None, None]:
            with pa.OSFile(str(path)) as file:
                with pa.ipc.open_file(file) as opened:
                    _check_same(opened.schema, positions, meant, shown)
                with pa.ipc.open_file(file, options=options) as opened:
                    for index in range(opened.num_record_batches):
                        yield from blocks_of(opened.get_batch(index).select(names), block_rows)

        return lambda block_rows: each_naming_only(shown, read(block_rows))

    return _File(tuple(schema.names), None, reader)


def _spare_threads() -> bool:
    # One thread reads ahead anyway: on two cores more of them would only take turns with the kernels.
    return n_threads() > 2


def _meant(schema: Any, positions: list[int], shown: str) -> Any:
    meant = pa.schema([schema.field(position) for position in positions])
    for name, kind in zip(meant.names, meant.types, strict=True):
        check_numeric(repr(name), kind, f" of {shown!r}")
    return meant


def _check_same(schema: Any, positions: list[int], meant: Any, shown: str) -> None:
    if max(positions) >= len(schema) or not pa.schema([schema.field(position) for position in positions]).equals(meant):
        raise _changed(shown)


# ---- CSV: no types, and a dialect that is declared ----


def _open_csv(path: Path, shown: str, form: Form) -> _File:
    header = _header(path, shown, form)
    cells = next(csv.reader([header.decode("utf-8", "replace")], delimiter=form.delimiter))
    names = tuple(cell.strip() for cell in cells)

    def reader(positions: list[int]) -> Reader:
        def read(block_rows: int) -> Generator[Columns, None, None]:
            with pa.input_stream(str(path), compression=compression_of(path)) as stream:
                chunks = header_then_bytes(stream, form)
                if next(chunks, b"").removesuffix(b"\r") != header:
                    raise _changed(shown)
                yield from numbers_of(chunks, form, len(names), positions, block_rows)

        return lambda block_rows: each_naming_only(shown, read(block_rows))

    return _File(names, form.dialect, reader)


def _header(path: Path, shown: str, form: Form) -> bytes:
    with path.open("rb") as file:
        start = file.read(8)
    # A compressed file is recognised by its reader; one that is named as if it were plain text, by nobody.
    found = next((kind for magic, kind in _OTHER_KINDS.items() if start.startswith(magic)), None)
    if path.suffix.lower() in DELIMITERS and found is not None:
        raise UnreadableFileError(f"{shown!r} is named as CSV but holds {found}. Rename it.")
    with pa.input_stream(str(path), compression=compression_of(path)) as stream:
        header = next(header_then_bytes(stream, form), b"").removesuffix(b"\r")
    if not header or len(header) > CSV_RECORD_BYTES or b"\0" in header:
        raise UnreadableFileError(f"{shown!r} has no first line, in UTF-8, that names its columns.")
    if b"\r" in header and b"\n" not in header:
        raise UnreadableFileError(
            f'The lines of {shown!r} end with carriage returns alone: only csv_dialect="lines" reads them so.'
        )
    return header
