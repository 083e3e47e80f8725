"""Tables in files: Parquet, Arrow and CSV, one file or a folder, read anew each time and block by block.

`pyarrow.dataset` would read folders too, but it decodes whole row groups ahead, takes the types of CSV cells and of
partition folders from values, and quotes values in its errors. So each file is opened by its own reader, its schema is
checked before anything is asked, and an error says nothing but names.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from recoup._threads import n_threads, prefetched
from recoup.curator.tables.csv_cells import Form, open_csv
from recoup.curator.tables.keys import key_kind, key_type
from recoup.curator.tables.rules import NUMBERS, Made, Reader, Rule
from recoup.curator.tables.table import Columns, OpenTable, file_changed, listed
from recoup.curator.tables.wanted import Wanted
from recoup.errors import DataError, RecoupError, UnreadableFileError

Item = TypeVar("Item")
Result = TypeVar("Result")

# By its ending, what a file is, and what stands between the cells of CSV.
_FAMILIES: Final = {
    **{".csv": "CSV", ".tsv": "CSV", ".parquet": "Parquet", ".pq": "Parquet"},
    **{".feather": "Arrow", ".arrow": "Arrow", ".ipc": "Arrow"},
}
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
# Their folders also hold files of deleted and of older records, which only their own reader can tell apart.
_VERSIONED: Final = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"  # in the name of a folder: its records have none
# Parquet column chunks are read through a window, or a large row group would be in memory as a whole.
_WINDOW_BYTES: Final = 256 << 10
_WINDOWS_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table, and what the folders around it say of all its records, as in `year=2020`."""

    path: Path
    partition: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The path for a message: without the values in the names of folders, which are those of records."""
        return _shown(self.path, self.partition)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file whose header was read: all its columns, what reads those at some places, and the types that it declares.

    CSV has no schema. Where columns are decoded one by one, an error names the one that cannot be.
    """

    names: tuple[str, ...]
    read: Reader
    schema: Any = None
    by_column: bool = False


def open_path(path: Path, wanted: Wanted, n_columns: int | None, csv_dialect: str) -> OpenTable:
    """Open a file, or all files of a folder, whose names may hold more columns, as in `year=2020`; see `open_table`."""
    files = _naming_only(str(path), lambda: files_of(path) if path.is_dir() else [TableFile(path)])
    in_folder = files[0].path != path
    tried = [(file, _naming_only(file.shown, partial(_open, file, csv_dialect))) for file in files]
    # A part of nothing is one without records, as a file of no bytes is.
    parts = [(file, opened) for file, opened in tried if opened is not None]
    if not parts:
        raise (
            _no_files(path)
            if in_folder
            else UnreadableFileError(f"{str(path)!r} has no first line, in UTF-8, that names its columns.")
        )
    first_file, first = parts[0]
    readers = []
    for file, opened in parts:
        if wanted.columns is None:
            _check_all_meant(opened, file.shown, wanted, n_columns)
            if opened.names != first.names:
                raise DataError(
                    f"{file.shown!r} and {first_file.shown!r} have different columns. Declare which to read."
                )
        readers.append(_reader(opened, file, wanted, f" in {file.shown!r}" if in_folder else ""))
    names = tuple(name for name in first.names if name != wanted.person) if wanted.columns is None else wanted.columns

    def read(block_rows: int) -> Generator[Columns, None, None]:
        for reader in readers:
            yield from reader(block_rows)

    return OpenTable(
        names,
        len(names),
        lambda block_rows: prefetched(read(block_rows)),
        csv_dialect=csv_dialect if first.schema is None else None,
        person_type=None if wanted.person is None else _person_type(parts, wanted.person),
    )


def _check_all_meant(opened: _Opened, shown: str, wanted: Wanted, n_columns: int | None) -> None:
    # A first line that holds a number or nothing may be a record, of a file without header.
    header_like = all(name[:1].isalpha() or name[:1] == "_" for name in opened.names)
    n_meant = len(opened.names) - (wanted.person is not None)
    if opened.schema is None and (not header_like or n_columns != n_meant):
        raise DataError(
            f"Which columns of {shown!r} are numbers cannot be known without looking at its records: declare the "
            "columns by bounds={column: (low, high)}, with the names that its first line gives them."
        )


def _person_type(parts: list[tuple[TableFile, _Opened]], person: str) -> Any:
    """The type of the keys of all files, which must mean the same; text in CSV and in the names of folders."""
    kinds = [
        opened.schema.field(opened.names.index(person)).type
        if opened.schema is not None and person in opened.names
        else pa.string()
        for _, opened in parts
    ]
    for (file, _), kind in zip(parts, kinds, strict=True):
        if key_kind(kind) != key_kind(kinds[0]):
            raise DataError(
                f"Column {person!r} of {file.shown!r} has another type than in {parts[0][0].shown!r}, so that one "
                "person would be two. Write both as text, or as whole numbers."
            )
    return key_type(kinds[0])


def _reader(opened: _Opened, file: TableFile, wanted: Wanted, where: str) -> Callable[[int], Iterator[Columns]]:
    typed, of_file = opened.schema is not None, f"of {file.shown!r}"
    hint = f"See the schema {of_file}." if typed else f"The first line {of_file} must name the columns."
    # A column of the file itself has a declared type, so it goes before one that the folders name.
    asked = dict.fromkeys((*(wanted.columns or ()), *(() if wanted.person is None else (wanted.person,))))
    of_folders = [name for name in asked if name is not None and name in file.partition and name not in opened.names]
    names = [*opened.names, *of_folders]
    positions = wanted.select(names, hint=hint, where=where)
    rules = wanted.rules(len(positions))
    own = [(position, rule) for position, rule in zip(positions, rules, strict=True) if position < len(opened.names)]
    if not own:
        columns = listed(wanted.columns or ())
        raise DataError(f"The columns {columns} are names of folders alone. Declare one that the files hold.")
    for position, rule in own if typed else ():
        kind = opened.schema.types[position]
        rule.check(wanted.shown(names, position), kind, str(kind), f" {of_file}")
    constants = [
        None if position < len(opened.names) else _constant(rule, file.partition[names[position]])
        for position, rule in zip(positions, rules, strict=True)
    ]

    def damaged_column() -> str | None:
        for position, rule in own if opened.by_column else ():
            try:
                for _ in opened.read([position], [rule], 1 << 16):
                    pass
            except Exception:
                return wanted.shown(names, position)
        return None

    def read(block_rows: int) -> Iterator[Columns]:
        blocks = opened.read([position for position, _ in own], [rule for _, rule in own], block_rows)
        for made, n_rows in _each_naming_only(file.shown, blocks, damaged_column):
            of_file = iter(made)
            yield wanted.block([next(of_file) if c is None else _repeated(c, n_rows) for c in constants], n_rows)

    return read


def _constant(rule: Rule, text: str) -> Any:
    """What a rule makes of the text that is the value of a column in all records of a file."""
    text = "" if text == _NO_VALUE else text
    if rule is NUMBERS:
        return rule.of_texts(pa.array([text.encode("ascii", "replace").decode()]))
    # A name that is not UTF-8 stays so.
    return rule.of_texts(pa.array([text.encode("utf-8", "surrogatepass")], pa.large_binary()))


def _repeated(constant: Any, n_rows: int) -> Any:
    repeated = np.zeros(n_rows, np.int64)
    return constant[repeated] if isinstance(constant, np.ndarray) else constant.take(pa.array(repeated))


def _open(file: TableFile, csv_dialect: str) -> _Opened | None:
    path, shown, kind = file.path, file.shown, kind_of(file.path)
    path.stat()
    match _FAMILIES.get(kind):
        case "CSV":
            opened = open_csv(path, shown, Form(_DELIMITERS[kind], csv_dialect, _compression(path)))
            return None if opened is None else _Opened(*opened)
        case "Parquet":
            return _open_parquet(path, shown)
        case "Arrow":
            return _open_ipc(path, shown)
    raise DataError(
        f"{shown!r} is of no kind that can be read. Its name must end in .csv, .tsv (or these with .gz, .bz2, .zst "
        "or .lz4), .parquet, .feather or .arrow."
    )


def _open_parquet(path: Path, shown: str) -> _Opened:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow

    def read(positions: Sequence[int], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        names = [schema.names[position] for position in positions]
        window = min(_WINDOW_BYTES, _WINDOWS_BYTES // max(1, len(names)))
        options = {"pre_buffer": False, "buffer_size": window, "page_checksum_verification": True}
        with parquet.ParquetFile(path, **options) as file:
            _check_same(file.schema_arrow, schema, positions, shown)
            for batch in file.iter_batches(
                block_rows, columns=list(dict.fromkeys(names)), use_threads=_spare_threads()
            ):
                yield _made(batch.select(names), rules)

    return _Opened(tuple(schema.names), read, schema, by_column=True)


def _open_ipc(path: Path, shown: str) -> _Opened:
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as opened:
        schema = opened.schema

    def read(positions: Sequence[int], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        names = [schema.names[position] for position in positions]
        options = pa.ipc.IpcReadOptions(included_fields=list(dict.fromkeys(positions)), use_threads=_spare_threads())
        with pa.OSFile(str(path)) as file:
            with pa.ipc.open_file(file) as opened:
                _check_same(opened.schema, schema, positions, shown)
            with pa.ipc.open_file(file, options=options) as opened:
                for index in range(opened.num_record_batches):
                    batch = opened.get_batch(index).select(names)
                    for start in range(0, batch.num_rows, block_rows):
                        yield _made(batch.slice(start, block_rows), rules)

    return _Opened(tuple(schema.names), read, schema)


def _made(batch: Any, rules: Sequence[Rule]) -> Made:
    return Made([rule.of_arrow(array) for rule, array in zip(rules, batch.columns, strict=True)], batch.num_rows)


def _spare_threads() -> bool:
    # One thread reads ahead anyway: on two cores more of them would only take turns with the kernels.
    return n_threads() > 2


def _check_same(now: Any, before: Any, positions: Sequence[int], shown: str) -> None:
    if max(positions) >= len(now) or any(not now.field(i).equals(before.field(i)) for i in positions):
        raise file_changed(shown)


# ---- which files a path stands for, and what their names say ----


def kind_of(path: Path) -> str:
    """The ending that says how to read a file, or "" if it is of no kind that can be read.

    >>> kind_of(Path("a.CSV.gz")), kind_of(Path("a.parquet")), kind_of(Path("a.parquet.gz"))
    ('.csv', '.parquet', '')
    """
    inner = path.with_suffix("") if _compression(path) else path
    suffix = inner.suffix.lower()
    return suffix if suffix in _DELIMITERS or (inner is path and suffix in _FAMILIES) else ""


def _compression(path: Path) -> str | None:
    return _COMPRESSIONS.get(path.suffix.lower())


def files_of(folder: Path) -> list[TableFile]:
    """The files of a folder and of the folders in it, at least one, in order of their paths.

    Names that start with a dot or an underscore, other kinds of files and files of no bytes are left out; a file or
    folder that is linked twice is read once. What would let a record be read twice is refused: files of more than one
    kind, a file and its compressed copy, a table with versions.
    """
    files = sorted(_walk(folder, {}, set()), key=lambda file: file.path)
    # Writers of parts leave a file of no bytes where a part had no records.
    files = [file for file in files if file.path.stat().st_size > 0]
    if not files:
        raise _no_files(folder)
    families = sorted({_FAMILIES[kind_of(file.path)] for file in files})
    if len(families) > 1:
        raise DataError(
            f"The folder {str(folder)!r} holds {' and '.join(families)} files. Keep one kind, so that no record is "
            "read twice."
        )
    seen: set[tuple[Path, str]] = set()
    for file in files:
        plain = file.path.with_suffix("") if _compression(file.path) else file.path
        # Copies of one table differ in the ending, and on some disks in its letters.
        name = (plain.parent, plain.stem.casefold())
        if name in seen:
            raise DataError(
                f"{_shown(plain, file.partition)!r} is there twice, also compressed or with another ending. Keep "
                "one, so that no record is read twice."
            )
        seen.add(name)
    return files


def _no_files(folder: Path) -> UnreadableFileError:
    return UnreadableFileError(f"The folder {str(folder)!r} holds no CSV, Parquet or Arrow files.")


def _walk(folder: Path, partition: Mapping[str, str], visited: set[Path | tuple[int, int]]) -> Iterator[TableFile]:
    shown = _shown(folder, partition)
    resolved = _naming_only(shown, folder.resolve)
    if resolved in visited:
        return
    visited.add(resolved)
    for entry in _naming_only(shown, lambda: _entries(folder)):
        if entry.name in _VERSIONED:
            raise _versioned(shown, _VERSIONED[entry.name])
        if entry.name == "metadata" and entry.is_dir() and any(Path(entry.path).glob("*.metadata.json")):
            raise _versioned(shown, "Iceberg")
        if entry.name[0] in "._":
            continue
        path = Path(entry.path)
        if entry.is_dir():
            key, equals, value = entry.name.partition("=")
            yield from _walk(path, {**partition, unquote(key): unquote(value)} if equals else partition, visited)
        elif entry.is_file() and kind_of(path):
            names = _identities(path)
            if visited.isdisjoint(names):
                yield TableFile(path, partition)
            visited |= names


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _identities(path: Path) -> set[Path | tuple[int, int]]:
    """By what a file is known again under another name: where a soft link leads, and what a hard link shares."""
    stat = path.stat()
    # Some file systems number no files, but then they have no hard links either.
    return {path.resolve(), (stat.st_dev, stat.st_ino)} if stat.st_nlink > 1 else {path.resolve()}


def _versioned(folder: str, what: str) -> DataError:
    return DataError(
        f"The folder {folder!r} is a {what} table, whose files also hold deleted and older records. Write its "
        "current records to a folder of Parquet files, or hand it over as a Spark DataFrame."
    )


# ---- errors that hold nothing but names ----


def _shown(path: Path, hidden: Collection[str]) -> str:
    def masked(name: str) -> str:
        key, equals, _ = name.partition("=")
        return f"{key}=*" if equals and unquote(key) in hidden else name

    return str(Path(*map(masked, path.parts))) if hidden else str(path)


def _naming_only(
    shown: str, work: Callable[[], Result], damaged_column: Callable[[], str | None] = lambda: None
) -> Result:
    """Do some work with a file; what its reader complains about, which may quote records, is replaced by names.

    Guarantees: the error holds nothing of the one that it replaces, not even as its context.
    """
    try:
        return work()
    except RecoupError:
        raise
    except (OSError, ValueError, EOFError, csv.Error, pa.ArrowException) as error:
        kind = type(error)
    # Here and not in the handler, where an error would keep the one that is handled.
    raise _named(kind, shown, damaged_column)


def _each_naming_only(
    shown: str, blocks: Generator[Item, None, None], damaged_column: Callable[[], str | None]
) -> Iterator[Item]:
    with closing(blocks):
        while (block := _naming_only(shown, lambda: next(blocks, None), damaged_column)) is not None:
            yield block
            del block


def _named(kind: type[Exception], shown: str, damaged_column: Callable[[], str | None]) -> UnreadableFileError:
    if issubclass(kind, FileNotFoundError):
        return UnreadableFileError(f"There is no file or folder {shown!r}.")
    if issubclass(kind, PermissionError):
        return UnreadableFileError(f"{shown!r} may not be read. Check its permissions.")
    if issubclass(kind, pa.ArrowNotImplementedError):
        return UnreadableFileError(f"{shown!r} is encrypted, or coded in a way that pyarrow cannot read.")
    column = damaged_column()
    what = f"{shown!r} cannot be read" if column is None else f"Column {column} of {shown!r} cannot be decoded"
    return UnreadableFileError(f"{what}: the file is damaged, cut short, or not of the kind that its name says.")
