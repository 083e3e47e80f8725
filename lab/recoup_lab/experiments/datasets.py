"""The data sets of an experiment: read from a folder where their files are there, generated where they are not."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from recoup.demo import GeneratedTable, city_check_ins, gaussian_blobs
from recoup.domain import Array
from recoup.errors import DataError, ParameterError, UnreadableFileError
from recoup_lab.experiments import stand_ins

Source = Literal["file", "generated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One entry of the list of data sets.

    Args:
        name: what it is called on the command line and in results; its file is `name.csv.gz` or `name.csv`, with one
            header line and columns of numbers.
        title: what it is called in figures and tables.
        n_records: rows of the file; any other number is refused.
        n_columns: columns of the file, likewise.
        n_clusters: K.
        make: makes a table of the same size for when there is no file; a function of a module, so that other processes
            can call it. None if there is no such table.

    >>> SETS["s1"].n_clusters
    15
    """

    name: str
    title: str
    n_records: int
    n_columns: int
    n_clusters: int
    make: Callable[[], GeneratedTable] | None = None

    def path_in(self, folder: Path) -> Path | None:
        """The file of this set in a folder, if it is there.

        >>> SETS["s1"].path_in(Path("/nowhere")) is None
        True
        """
        paths = (folder / f"{self.name}{ending}" for ending in (".csv.gz", ".csv"))
        return next((path for path in paths if path.is_file()), None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedSet:
    """Records with the bounds under which they are clustered.

    Attributes:
        name: of the set.
        title: for people; says so where the set was generated.
        source: "file" or "generated".
        digest: of the records and bounds, so that results of other records are never taken for results of these.
        n_clusters: K.
        low: smallest value of each column. From a file it is computed from the records, which only an experiment may.
        high: largest value of each column.
        rows: (n, d), in units.
    """

    name: str
    title: str
    source: Source
    digest: str
    n_clusters: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    rows: Array = field(repr=False)


SETS: dict[str, DataSet] = {}


def add_set(entry: DataSet) -> DataSet:
    """Add a data set to the list.

    Args:
        entry: the set; its name must be new.

    Returns:
        The same entry.

    >>> add_set(DataSet(name="s1", title="S1", n_records=1, n_columns=1, n_clusters=1))
    Traceback (most recent call last):
    ...
    recoup.errors.ParameterError: there is a data set 's1' already: choose another name.
    """
    if entry.name in SETS:
        raise ParameterError(f"there is a data set {entry.name!r} already: choose another name.")
    SETS[entry.name] = entry
    return entry


def _check_ins() -> GeneratedTable:
    return city_check_ins(n_records=107_021)


# In the order of the paper's figure. Shapes are those of the public files; the paper prints 34,112 colours of the image
# and 27,733 records of Lifesci.
for _entry in (
    DataSet(name="s1", title="S1", n_records=5000, n_columns=2, n_clusters=15, make=gaussian_blobs),
    DataSet(name="adult", title="Adult", n_records=48_842, n_columns=6, n_clusters=5, make=stand_ins.census),
    DataSet(name="tiger", title="TIGER", n_records=16_281, n_columns=2, n_clusters=2, make=stand_ins.two_states),
    DataSet(name="image_house", title="Image", n_records=33_925, n_columns=3, n_clusters=3, make=stand_ins.colours),
    DataSet(name="gowalla", title="Gowalla", n_records=107_021, n_columns=2, n_clusters=5, make=_check_ins),
    DataSet(name="lifesci", title="Lifesci", n_records=26_733, n_columns=10, n_clusters=3, make=stand_ins.components),
):
    add_set(_entry)


def check_folder(entries: tuple[DataSet, ...], folder: Path) -> list[str]:
    """A sentence for each wanted set that is missing in a folder and will be generated.

    Raises:
        DataError: there is no such folder, none of the sets is in it, or a missing one cannot be generated.

    >>> check_folder((SETS["s1"],), Path("/nowhere"))
    Traceback (most recent call last):
    ...
    recoup.errors.DataError: there is no folder '/nowhere': ...
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r}: leave out --data to use generated sets.")
    missing = [entry for entry in entries if entry.path_in(folder) is None]
    if len(missing) == len(entries):
        names = ", ".join(f"{entry.name}.csv.gz" for entry in entries)
        raise DataError(
            f"{str(folder)!r} holds none of {names}. Name the folder that does, or leave out --data to use generated "
            "sets."
        )
    for entry in missing:
        if entry.make is None:
            raise DataError(f"{_is_missing(entry, folder)} Leave it out with --sets.")
    return [f"{_is_missing(entry, folder)} A generated set of the same size takes its place." for entry in missing]


def load(entry: DataSet, folder: Path | None) -> LoadedSet:
    """Read a set from its file in a folder, or generate it where there is none.

    Raises:
        DataError: the file has another shape, or holds something else than finite numbers.
        UnreadableFileError: the file cannot be read.

    >>> load(SETS["s1"], None).title
    'S1 (generated)'
    """
    path = None if folder is None else entry.path_in(folder)
    source: Source = "generated" if path is None else "file"
    if path is not None:
        rows = _read(path)
        expected = f"{entry.n_records} rows and {entry.n_columns} columns"
        if rows.shape != (entry.n_records, entry.n_columns):
            found = f"{rows.shape[0]} rows and {rows.shape[1]} columns"
            raise DataError(f"{path} has {found} of numbers, but {entry.title} has {expected}: it is another set.")
        if not np.isfinite(rows).all():
            raise DataError(
                f"{path} holds values that are missing or infinite: {entry.title} has {expected} of numbers."
            )
        low, high = tuple(map(float, rows.min(axis=0))), tuple(map(float, rows.max(axis=0)))
    elif entry.make is not None:
        table = entry.make()
        rows, low, high = table.rows, table.low, table.high
        if rows.shape != (entry.n_records, entry.n_columns):
            raise DataError(
                f"the generated {entry.name} has the shape {rows.shape}, but its entry says "
                f"{(entry.n_records, entry.n_columns)}."
            )
    else:
        raise DataError(
            f"{entry.name} has no generated form. Put {entry.name}.csv.gz into a folder and name it with --data."
        )
    parts = (np.ascontiguousarray(rows), np.array([low, high]), np.array([entry.n_clusters], dtype=np.int64))
    return LoadedSet(
        name=entry.name,
        title=entry.title if source == "file" else f"{entry.title} (generated)",
        source=source,
        digest=hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:12],
        n_clusters=entry.n_clusters,
        low=low,
        high=high,
        rows=rows,
    )


def _read(path: Path) -> Array:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an empty file: its shape is checked by the caller
            return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    except ValueError:
        raise DataError(f"{path} cannot be read: one header line, then numbers with commas between them.") from None
    except (OSError, EOFError) as error:
        raise UnreadableFileError(f"{path} cannot be read ({type(error).__name__}).") from None


def _is_missing(entry: DataSet, folder: Path) -> str:
    return (
        f"{entry.title} is missing: there is no {folder / entry.name}.csv.gz (one header line, then {entry.n_records} "
        f"rows of {entry.n_columns} numbers with commas between them)."
    )
