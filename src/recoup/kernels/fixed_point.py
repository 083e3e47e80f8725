"""From raw rows or columns to fixed-point records in one pass: clamp, scale, project, round toward zero.

Rows are worked on in tiles, column by column, so that the lanes of a vector register hold different rows. Columns stay
where Arrow has put them and come as addresses, since a kernel that took a tuple of arrays would be compiled for each
number of columns.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from recoup.kernels import ALREADY, GRID, INSIDE
from recoup.kernels.compiled import compiled

DROPPED = np.iinfo(np.int32).min  # first column of a record that contributes nothing
TILE = 128  # records whose cells are found together
_ROWS = 64  # rows converted together: in double precision, more would not stay in the first-level cache


@compiled(nogil=True, error_model="numpy")
def fixed_point_rows(
    rows,  # IN   (n, d) float32 or float64, the user's units
    low,  # IN   (d,)
    high,  # IN   (d,)
    shape,  # IN   0 box, 1 L1 ball, 2 L2 ball
    radius,  # IN   of the ball, or None of a box
    records,  # OUT  (n, d) int32: the record on the grid of 2^-30, or DROPPED in its first column
):
    """Write each raw row as a fixed-point record of the unit domain; a row with a non-finite value is dropped."""
    n, d = rows.shape
    tile, size, off, whole = np.zeros((d, _ROWS)), np.empty(_ROWS), np.empty(_ROWS), np.empty((d, _ROWS), np.int32)
    shift, total, kept, n_kept = np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS)
    for start in range(0, n, _ROWS):
        n_rows = min(_ROWS, n - start)
        for b in range(n_rows):
            for j in range(d):
                tile[j, b] = rows[start + b, j]
        for b in range(n_rows, _ROWS):
            for j in range(d):
                tile[j, b] = low[j]
        off[:] = 0.0
        for j in range(d):
            lowest, highest = low[j], high[j]
            width = highest - lowest
            for b in range(_ROWS):
                value = tile[j, b]
                # Zero if finite, else NaN: unlike a test, it fills a vector register.
                off[b] += value - value
                value = min(max(value, lowest), highest)
                tile[j, b] = 2.0 * ((value - lowest) / width) - 1.0
        # A test for None is decided by the compiler: a box waits for no code of balls.
        if radius is not None:
            if shape == 1:
                _onto_l1_ball(tile, radius, size, shift, total, kept, n_kept)
            else:
                _onto_l2_ball(tile, radius, size)
        _onto_grid(tile, off, whole, records[start : start + n_rows])


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
    radius,  # IN   of the ball, or None of a box
    records,  # OUT  (stop - start, d) int32: as fixed_point_rows writes them, bit for bit
):
    """Write rows of a columnar table as fixed-point records; a row with a non-finite value is dropped."""
    d = addresses.shape[0]
    tile, size, off, whole = np.zeros((d, _ROWS)), np.empty(_ROWS), np.empty(_ROWS), np.empty((d, _ROWS), np.int32)
    shift, total, kept, n_kept = np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS), np.empty(_ROWS)
    for first in range(start, stop, _ROWS):
        n_rows = min(_ROWS, stop - first)
        off[:] = 0.0
        for j in range(d):
            if narrow[j]:
                _scaled(carray(_float32_at(addresses[j]), stop), first, n_rows, low[j], high[j], tile[j], off)
            else:
                _scaled(carray(_float64_at(addresses[j]), stop), first, n_rows, low[j], high[j], tile[j], off)
            for b in range(n_rows, _ROWS):
                tile[j, b] = 0.0
        # A test for None is decided by the compiler: a box waits for no code of balls.
        if radius is not None:
            if shape == 1:
                _onto_l1_ball(tile, radius, size, shift, total, kept, n_kept)
            else:
                _onto_l2_ball(tile, radius, size)
        _onto_grid(tile, off, whole, records[first - start : first - start + n_rows])


@compiled(nogil=True, error_model="numpy")
def _scaled(column, first, n_rows, lowest, highest, scaled, off):
    width = highest - lowest
    for b in range(n_rows):
        value = np.float64(column[first + b])
        # Zero if finite, else NaN: unlike a test, it fills a vector register.
        off[b] += value - value
        value = min(max(value, lowest), highest)
        scaled[b] = 2.0 * ((value - lowest) / width) - 1.0


@compiled(nogil=True, error_model="numpy")
def _onto_grid(tile, off, whole, records):
    """Round a (d, _ROWS) tile toward zero onto the grid of 2^-30; what is off, not zero, is dropped.

    By column into `whole`, since a register then holds different records, and from there into rows.
    """
    for j in range(tile.shape[0]):
        for b in range(_ROWS):
            whole[j, b] = np.int32(tile[j, b] * GRID if off[b] == 0.0 else 0.0)
    for b in range(_ROWS):
        whole[0, b] = whole[0, b] if off[b] == 0.0 else DROPPED
    for b in range(records.shape[0]):
        for j in range(records.shape[1]):
            records[b, j] = whole[j, b]


@compiled(nogil=True, error_model="numpy")
def _onto_l1_ball(tile, radius, size, shift, total, kept, n_kept):
    # Michelot (1986): drop the coordinates that the current shift sends to zero, until none is left to drop.
    d = tile.shape[0]
    size[:] = 0.0
    for j in range(d):
        for b in range(_ROWS):
            size[b] += abs(tile[j, b])
    some_outside = False
    for b in range(_ROWS):
        some_outside |= size[b] > radius * ALREADY
    if not some_outside:
        return
    target = radius * INSIDE
    # The first shift keeps every coordinate, so its total is the size.
    for b in range(_ROWS):
        shift[b] = max((size[b] - target) / d, 0.0)
    n_kept[:] = d
    unsettled = True
    while unsettled:
        total[:] = 0.0
        kept[:] = 0.0
        for j in range(d):
            for b in range(_ROWS):
                value = abs(tile[j, b])
                total[b] += value if value > shift[b] else 0.0
                kept[b] += 1.0 if value > shift[b] else 0.0
        unsettled = False
        for b in range(_ROWS):
            if size[b] > radius * ALREADY:
                # In exact arithmetic the shift only grows and coordinates only drop out; rounding must not undo that.
                unsettled |= kept[b] < n_kept[b]
                shift[b] = max(shift[b], (total[b] - target) / max(kept[b], 1.0))
                n_kept[b] = kept[b]
    total[:] = 0.0
    for j in range(d):
        for b in range(_ROWS):
            total[b] += max(abs(tile[j, b]) - shift[b], 0.0)
    for j in range(d):
        for b in range(_ROWS):
            # The shift is rounded relative to sums that may be far larger than the radius: scale the last bit back.
            value = max(abs(tile[j, b]) - shift[b], 0.0) * (target / total[b] if total[b] > target else 1.0)
            inside = size[b] <= radius * ALREADY
            tile[j, b] = tile[j, b] if inside else (value if tile[j, b] > 0.0 else -value)


@compiled(nogil=True, error_model="numpy")
def _onto_l2_ball(tile, radius, size):
    d = tile.shape[0]
    size[:] = 0.0
    for j in range(d):
        for b in range(_ROWS):
            size[b] += tile[j, b] * tile[j, b]
    for b in range(_ROWS):
        length = np.sqrt(size[b])
        size[b] = radius * INSIDE / length if length > radius * ALREADY else 1.0
    for j in range(d):
        for b in range(_ROWS):
            tile[j, b] *= size[b]
