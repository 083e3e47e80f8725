"""Which files a path stands for, what their names say, and errors that tell nothing but a name."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from recoup.errors import DataError, RecoupError, UnreadableFileError

Item = TypeVar("Item")
Result = TypeVar("Result")

DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
PARQUET: Final = {".parquet", ".pq"}
IPC: Final = {".feather", ".arrow", ".ipc"}
_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
# Their folders also hold files of deleted and of older records, which only their own reader can tell apart.
_VERSIONED: Final = {"_delta_log": "Delta", ".hoodie": "Hudi"}


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table.

    Attributes:
        path: where it is.
        partition: what the folders between the table's and this file say of all its records, as in `year=2020`.
    """

    path: Path
    partition: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The path for a message: without the values in the names of folders, which are those of records.

        >>> TableFile(Path("in/age=31/1.parquet"), {"age": "31"}).shown
        'in/age=*/1.parquet'
        """
        return shown_path(self.path, self.partition)


def shown_path(path: Path, partition: Collection[str]) -> str:
    """A path for a message, without the values of these columns in the names of its folders."""
    return str(Path(*(_masked(name, partition) for name in path.parts))) if partition else str(path)


def _masked(name: str, hidden: Collection[str]) -> str:
    key, equals, _ = name.partition("=")
    return f"{key}=*" if equals and unquote(key) in hidden else name


def kind_of(path: Path) -> str:
    """The ending that says how to read a file, or "" if it is of no kind that can be read.

    >>> kind_of(Path("a.CSV.gz")), kind_of(Path("a.parquet")), kind_of(Path("a.parquet.gz"))
    ('.csv', '.parquet', '')
    """
    inner = path.with_suffix("") if path.suffix.lower() in _COMPRESSIONS else path
    suffix = inner.suffix.lower()
    return suffix if suffix in DELIMITERS or (inner is path and suffix in PARQUET | IPC) else ""


def compression_of(path: Path) -> str | None:
    """The compression that the name tells, in letters of either case; none where it tells none.

    >>> compression_of(Path("a.csv.GZ"))
    'gzip'
    """
    return _COMPRESSIONS.get(path.suffix.lower())


def files_of(folder: Path) -> list[TableFile]:
    """Find the files of a folder and of the folders in it, in order of their paths.

    Args:
        folder: of CSV, Parquet or Arrow files.

    Returns:
        The files that are read, at least one. Names that start with a dot or an underscore, other kinds of files and
        files of no bytes are left out; a file or folder that is linked twice is read once.

    Raises:
        UnreadableFileError: a folder may not be listed, or there is nothing to read.
        DataError: it holds files of more than one kind, a file and its compressed copy, or a table with versions:
            some records would be read twice.
    """
    parts = sorted(_walk(folder, {}, set()), key=lambda part: part.path)
    # Writers of parts leave a file of no bytes where a part had no records.
    parts = [part for part in parts if part.path.stat().st_size > 0]
    if not parts:
        raise UnreadableFileError(f"The folder {str(folder)!r} holds no CSV, Parquet or Arrow files.")
    families = sorted({_family(part.path) for part in parts})
    if len(families) > 1:
        raise DataError(
            f"The folder {str(folder)!r} holds {' and '.join(families)} files. Keep one kind, so that no record is "
            "read twice."
        )
    seen: set[tuple[Path, str]] = set()
    for part in parts:
        plain = part.path.with_suffix("") if part.path.suffix.lower() in _COMPRESSIONS else part.path
        # Copies of one table differ in the ending, and on some disks in its letters.
        name = (plain.parent, plain.stem.casefold())
        if name in seen:
            raise DataError(
                f"{shown_path(plain, part.partition)!r} is there twice, also compressed or with another ending. Keep "
                "one, so that no record is read twice."
            )
        seen.add(name)
    return parts


def _walk(folder: Path, partition: Mapping[str, str], visited: set[Path | tuple[int, int]]) -> Iterator[TableFile]:
    shown = shown_path(folder, partition)
    resolved = naming_only(shown, folder.resolve)
    if resolved in visited:
        return
    visited.add(resolved)
    for entry in naming_only(shown, lambda: _entries(folder)):
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
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


def _identities(path: Path) -> set[Path | tuple[int, int]]:
    """By what a file is known again under another name: where a soft link leads, and what a hard link shares."""
    found = path.stat()
    # Some file systems number no files, but then they have no hard links either.
    return {path.resolve(), (found.st_dev, found.st_ino)} if found.st_nlink > 1 else {path.resolve()}


def _versioned(folder: str, what: str) -> DataError:
    return DataError(
        f"The folder {folder!r} is a {what} table, whose files also hold deleted and older records. Write its "
        "current records to a folder of Parquet files, or hand it over as a Spark DataFrame."
    )


def _family(path: Path) -> str:
    kind = kind_of(path)
    return "CSV" if kind in DELIMITERS else "Parquet" if kind in PARQUET else "Arrow"


def naming_only(
    shown: str, work: Callable[[], Result], damaged_column: Callable[[], str | None] = lambda: None
) -> Result:
    """Do some work with a file; what its reader complains about, which may quote records, is replaced by names.

    Args:
        shown: the path of the file.
        work: what to do.
        damaged_column: finds the column that cannot be decoded, asked for only if something is damaged.

    Returns:
        What the work returned.

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


def each_naming_only(
    shown: str, blocks: Generator[Item, None, None], damaged_column: Callable[[], str | None] = lambda: None
) -> Iterator[Item]:
    """Yield blocks of a file, with errors as in `naming_only`."""
    with closing(blocks):
        while (block := naming_only(shown, lambda: next(blocks, None), damaged_column)) is not None:
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
    what = f"{shown!r} cannot be read" if column is None else f"Column {column!r} of {shown!r} cannot be decoded"
    return UnreadableFileError(f"{what}: the file is damaged, cut short, or not of the kind that its name says.")
