"""Rows that are held column by column, as Arrow and files have them, so that nothing is copied into rows first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Columns:
    """A block of rows as contiguous float columns of equal length; NumPy reads it as an array of rows.

    Args:
        arrays: one-dimensional, of float32 or float64; copied only where they are not contiguous.
        n_rows: their length, which must also be known where there is no column.

    >>> block = Columns((np.array([1.0, 2.0]), np.array([3.0, 4.0], np.float32)), 2)
    >>> len(block), block.shape, np.asarray(block).tolist()
    (2, (2, 2), [[1.0, 3.0], [2.0, 4.0]])
    """

    __slots__ = ("arrays", "n_rows")

    def __init__(self, arrays: tuple[NDArray[Any], ...], n_rows: int) -> None:
        self.arrays = tuple(np.require(array, requirements=["C", "ALIGNED"]) for array in arrays)
        self.n_rows = n_rows
        for array in self.arrays:
            # Kernels are handed plain addresses: what is behind them is checked here, once.
            if array.shape != (n_rows,) or array.dtype not in (np.float32, np.float64):
                raise ValueError("columns are one-dimensional, of one length, and of float32 or float64.")

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
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
