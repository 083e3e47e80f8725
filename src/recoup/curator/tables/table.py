"""What every table becomes: selected columns, read as blocks of floating-point rows, whatever it was made of.

Types come from a schema, never from values, and nothing here can fail or warn because of a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recoup.errors import DataError, UnknownColumnError, UnreadableFileError

# The most that a block holds, in rows and, from 32 columns on, in memory.
BLOCK_ROWS: Final = 131_072
_BLOCK_BYTES: Final = 32 << 20
_NAMES_SHOWN: Final = 30  # in a message


# An Arrow array of int64 or large_string, one key a row; a null is nobody's.
PersonKeys: TypeAlias = Any


class Columns:
    """A block of rows as float32 or float64 columns of equal length; NumPy reads it as an array of rows.

    They are copied only where they are not contiguous. Their length must be given, since there may be no column. Where
    a column says whose each row is, `persons` are its keys.
    """

    __slots__ = ("arrays", "n_rows", "persons")

    def __init__(self, arrays: tuple[NDArray[Any], ...], n_rows: int, persons: PersonKeys | None = None) -> None:
        self.arrays = tuple(np.require(array, requirements=["C", "ALIGNED"]) for array in arrays)
        self.n_rows, self.persons = n_rows, persons
        for array in self.arrays:
            # Kernels are handed plain addresses: what is behind them is checked here, once.
            if array.shape != (n_rows,) or array.dtype not in (np.float32, np.float64):
                raise ValueError("columns are one-dimensional, of one length, and of float32 or float64.")

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.n_rows, len(self.arrays)

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Where each column starts in memory, for as long as this object lives."""
        return np.array([array.ctypes.data for array in self.arrays], dtype=np.int64)

    @property
    def narrow(self) -> NDArray[np.bool_]:
        """Which columns are float32."""
        return np.array([array.dtype == np.float32 for array in self.arrays], dtype=np.bool_)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("columns cannot become rows without a copy.")
        rows = np.empty(self.shape, dtype or np.result_type(np.float32, *self.arrays))
        for j, array in enumerate(self.arrays):
            rows[:, j] = array
        return rows


# A block of rows: an array that is contiguous by row or by column, or columns.
TableRows: TypeAlias = NDArray[np.float64] | NDArray[np.float32] | Columns


@dataclass(frozen=True, slots=True)
class OpenTable:
    """Numeric columns of one table, readable as often as needed.

    Attributes:
        columns: names of the selected columns in their order; None for a bare array.
        n_columns: how many columns every block has.
        csv_dialect: how CSV was read; none for other tables.
        person_type: the Arrow type of the keys that say whose a row is; none if no column was named for that.
    """

    columns: tuple[str, ...] | None
    n_columns: int
    _read: Callable[[int], Iterator[TableRows]] = field(repr=False, compare=False)
    csv_dialect: str | None = field(default=None, repr=False, kw_only=True)
    person_type: Any = field(default=None, repr=False, kw_only=True)

    def blocks(self, block_rows: int = BLOCK_ROWS) -> Iterator[TableRows]:
        """Yield the rows in order, at least one block of n_columns columns, also for a table without rows.

        A block has at most so many rows, and fewer where the table is wide; an array may be passed on as it is.

        Guarantees: every cell that is missing or is no finite number is NaN or infinite: readers must test for finite.
        A row with such a cell is a record that contributes nothing.
        """
        empty = True
        for block in self._read(max(1, min(block_rows, _BLOCK_BYTES // (8 * max(1, self.n_columns))))):
            empty = False
            if block.shape[1] != self.n_columns:
                raise DataError("A block of the table has other columns than were declared, so that it is not read.")
            yield block
        if empty:
            yield np.empty((0, self.n_columns))

    def person_blocks(self, block_rows: int = BLOCK_ROWS) -> Iterator[tuple[TableRows, PersonKeys]]:
        """Yield the same blocks, each with the keys of its rows, of `person_type`; a null is nobody's.

        Guarantees: what `blocks` does. A row whose key is null is a record that contributes nothing.
        """
        if self.person_type is None:
            raise DataError("The table was opened without a column that says whose each record is.")
        for block in self.blocks(block_rows):
            keys = block.persons if isinstance(block, Columns) else None
            yield block, pa.nulls(len(block), self.person_type) if keys is None else keys


def sliced(n_rows: int, block_rows: int, cut: Callable[[slice], NDArray[Any]]) -> Iterator[TableRows]:
    """Yield blocks of at most `block_rows` rows, each cut out by a function."""
    for start in range(0, n_rows, block_rows):
        # A cast may overflow, and a warning would tell.
        with np.errstate(all="ignore"):
            block = cut(slice(start, start + block_rows))
        yield block


def is_a(X: object, library: str, name: str) -> bool:
    """Whether something is of a library's class, by name: the library need not be installed to find out."""
    return any(base.__name__ == name and base.__module__.split(".")[0] == library for base in type(X).__mro__)


def quietly(work: Callable[[], Any]) -> Any:
    """What some work returns; none if it fails: its error may quote a record, and one raised there would keep it."""
    try:
        return work()
    except Exception:
        return None


# ---- names of columns and their places, which are public ----


def listed(names: Sequence[str]) -> str:
    """Quote names for a message, and cut a long list."""
    more = "" if len(names) <= _NAMES_SHOWN else ", ..."
    return ", ".join(repr(name) for name in names[:_NAMES_SHOWN]) + more


def select(names: Sequence[str], wanted: Sequence[str] | None, *, hint: str, where: str = "") -> list[int]:
    """Find the places of the wanted columns, in their order, or of all; `where` names the file for a message.

    The hint is said instead of names that the table has and the user did not declare: they may be a record, of a file
    without header, or of what was made from one.
    """
    times, chosen = Counter(names), names if wanted is None else wanted
    for name in chosen:
        if times[name] == 0:
            raise UnknownColumnError(f"There is no column {name!r}{where}. {hint}")
        if times[name] > 1:
            which = "of the same name" if wanted is None else repr(name)
            raise DataError(f"There is more than one column {which}{where}. Rename all but one.")
    first = {name: position for position, name in enumerate(names)}
    return [first[name] for name in chosen]


def shown_column(names: Sequence[str], position: int, wanted: Sequence[str] | None) -> str:
    """A column for a message: by its name if the user declared that, else by its number.

    Whoever read a file without header into a frame has a record for names.
    """
    return f"number {position + 1}" if wanted is None else repr(names[position])


def file_changed(shown: str) -> UnreadableFileError:
    """The error for a file that has other columns than when it was opened."""
    return UnreadableFileError(f"{shown!r} is not the file that was opened: its columns have changed since.")
