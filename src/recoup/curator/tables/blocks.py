"""A table as blocks of floating-point rows, whatever it was made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recoup.curator.tables.arrow import Block

# What a block may take, however many columns it has; with the default rows it binds from 32 columns on.
_BLOCK_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Table:
    """Numeric columns of one table, readable as often as needed.

    Attributes:
        columns: names of the selected columns in their order; None for a bare array.
        n_columns: how many columns every block has.
        csv_dialect: how CSV was read; none for other tables.
    """

    columns: tuple[str, ...] | None
    n_columns: int
    _read: Callable[[], Iterator[Block]] = field(repr=False, compare=False)
    csv_dialect: str | None = field(default=None, repr=False, kw_only=True)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in order, as arrays that are contiguous by row or by column, or as `Columns`.

        Returns:
            At least one block of n_columns columns, also for a table without rows. A row with a value that is not
            finite is a record that contributes nothing.

        Guarantees:
            Every cell that is missing or is no finite number is NaN or infinite: readers must test for finite.
        """
        empty = True
        for block in self._read():
            empty = False
            yield block
        if empty:
            yield np.empty((0, self.n_columns))


def bounded_rows(block_rows: int, n_columns: int) -> int:
    """The most rows of a block: as wished, and fewer for a table so wide that a block would take much memory.

    >>> bounded_rows(131_072, 10), bounded_rows(131_072, 1000)
    (131072, 4194)
    """
    return max(1, min(block_rows, _BLOCK_BYTES // (8 * max(1, n_columns))))


def sliced(n_rows: int, block_rows: int, cut: Callable[[slice], NDArray[Any]]) -> Iterator[Block]:
    """Yield blocks of at most `block_rows` rows, each cut out by a function."""
    for start in range(0, n_rows, block_rows):
        # A cast may overflow, and a warning would tell.
        with np.errstate(all="ignore"):
            block = cut(slice(start, start + block_rows))
        yield block
