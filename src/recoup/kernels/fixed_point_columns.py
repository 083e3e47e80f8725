"""From float columns, where Arrow has put them, to fixed-point records: no copy into rows comes in between.

Columns come as addresses, since a kernel that took a tuple of arrays would be compiled for each number of columns.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import TILE, _onto_l1_ball, _onto_l2_ball, onto_grid
from recoup.kernels.transpose import rows_of_columns


def _pointer_to(kind):
    @intrinsic
    def pointer(typing_context, address):
        signature = types.CPointer(kind)(types.int64)

        def build(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, build

    return pointer


_float32_at, _float64_at = _pointer_to(types.float32), _pointer_to(types.float64)


@compiled(nogil=True, error_model="numpy")
def fixed_point_columns(
    addresses,  # IN   (d,) int64: where the columns start, in the user's units
    narrow,  # IN   (d,) bool: whether a column is float32; else it is float64
    start,  # IN   first row to convert
    stop,  # IN   row after the last
    low,  # IN   (d,)
    high,  # IN   (d,)
    shape,  # IN   0 box, 1 L1 ball, 2 L2 ball
    radius,  # IN   of the ball
    records,  # OUT  (stop - start, d) int32: as fixed_point_rows writes them, bit for bit
):
    """Write rows of a columnar table as fixed-point records; a row with a non-finite value is dropped."""
    d = addresses.shape[0]
    tile, size, off, whole = np.zeros((d, TILE)), np.empty(TILE), np.empty(TILE), np.empty((d, TILE), np.int32)
    shift, total, kept, n_kept = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for first in range(start, stop, TILE):
        n_rows = min(TILE, stop - first)
        off[:] = 0.0
        for j in range(d):
            if narrow[j]:
                _scaled(carray(_float32_at(addresses[j]), stop), first, n_rows, low[j], high[j], tile[j], off)
            else:
                _scaled(carray(_float64_at(addresses[j]), stop), first, n_rows, low[j], high[j], tile[j], off)
            for b in range(n_rows, TILE):
                tile[j, b] = 0.0
        if shape == 1:
            _onto_l1_ball(tile, radius, size, shift, total, kept, n_kept)
        elif shape == 2:
            _onto_l2_ball(tile, radius, size)
        onto_grid(tile, off, whole)
        rows_of_columns(whole, first - start, n_rows, records)


@compiled(nogil=True, error_model="numpy")
def _scaled(column, first, n_rows, lowest, highest, scaled, off):
    width = highest - lowest
    for b in range(n_rows):
        value = np.float64(column[first + b])
        # Zero if finite, else NaN: unlike a test, it fills a vector register.
        off[b] += value - value
        value = min(max(value, lowest), highest)
        scaled[b] = 2.0 * ((value - lowest) / width) - 1.0
