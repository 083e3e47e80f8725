"""From raw rows to fixed-point records in one pass: clamp, scale, project, round toward zero.

Rows are worked on in tiles, column by column, so that the lanes of a vector register hold different rows.
"""

from __future__ import annotations

import numpy as np

from recoup.kernels.compiled import compiled
from recoup.kernels.transpose import rows_of_columns

DROPPED = np.iinfo(np.int32).min  # first column of a record that contributes nothing
TILE = 128  # rows worked on together
_GRID = 2.0**30
_INSIDE = 1.0 - 2.0**-40
_ALREADY = 1.0 - 2.0**-41


@compiled(nogil=True, error_model="numpy")
def fixed_point_rows(
    rows,  # IN   (n, d) float32 or float64, the user's units
    low,  # IN   (d,)
    high,  # IN   (d,)
    shape,  # IN   0 box, 1 L1 ball, 2 L2 ball
    radius,  # IN   of the ball
    records,  # OUT  (n, d) int32: the record on the grid of 2^-30, or DROPPED in its first column
):
    """Write each raw row as a fixed-point record of the unit domain; a row with a non-finite value is dropped."""
    n, d = rows.shape
    tile, size, off, whole = np.zeros((d, TILE)), np.empty(TILE), np.empty(TILE), np.empty((d, TILE), np.int32)
    shift, total, kept, n_kept = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(0, n, TILE):
        n_rows = min(TILE, n - start)
        for b in range(n_rows):
            for j in range(d):
                tile[j, b] = rows[start + b, j]
        for b in range(n_rows, TILE):
            for j in range(d):
                tile[j, b] = low[j]
        off[:] = 0.0
        for j in range(d):
            lowest, highest = low[j], high[j]
            width = highest - lowest
            for b in range(TILE):
                value = tile[j, b]
                # Zero if finite, else NaN: unlike a test, it fills a vector register.
                off[b] += value - value
                value = min(max(value, lowest), highest)
                tile[j, b] = 2.0 * ((value - lowest) / width) - 1.0
        if shape == 1:
            _onto_l1_ball(tile, radius, size, shift, total, kept, n_kept)
        elif shape == 2:
            _onto_l2_ball(tile, radius, size)
        onto_grid(tile, off, whole)
        rows_of_columns(whole, start, n_rows, records)


@compiled(nogil=True, error_model="numpy")
def onto_grid(
    tile,  # IN   (d, TILE): records of the unit domain
    off,  # IN   (TILE,): zero if all values of a record are finite
    whole,  # OUT  (d, TILE) int32
):
    """Round toward zero onto the grid of 2^-30, or drop; by column, since a register then holds different records."""
    for j in range(tile.shape[0]):
        for b in range(TILE):
            whole[j, b] = np.int32(tile[j, b] * _GRID if off[b] == 0.0 else 0.0)
    for b in range(TILE):
        whole[0, b] = whole[0, b] if off[b] == 0.0 else DROPPED


@compiled(nogil=True, error_model="numpy")
def _onto_l1_ball(tile, radius, size, shift, total, kept, n_kept):
    # Michelot (1986): drop the coordinates that the current shift sends to zero, until none is left to drop.
    d = tile.shape[0]
    size[:] = 0.0
    for j in range(d):
        for b in range(TILE):
            size[b] += abs(tile[j, b])
    some_outside = False
    for b in range(TILE):
        some_outside |= size[b] > radius * _ALREADY
    if not some_outside:
        return
    target = radius * _INSIDE
    # The first shift keeps every coordinate, so its total is the size.
    for b in range(TILE):
        shift[b] = max((size[b] - target) / d, 0.0)
    n_kept[:] = d
    unsettled = True
    while unsettled:
        total[:] = 0.0
        kept[:] = 0.0
        for j in range(d):
            for b in range(TILE):
                value = abs(tile[j, b])
                total[b] += value if value > shift[b] else 0.0
                kept[b] += 1.0 if value > shift[b] else 0.0
        unsettled = False
        for b in range(TILE):
            if size[b] > radius * _ALREADY:
                # In exact arithmetic the shift only grows and coordinates only drop out; rounding must not undo that.
                unsettled |= kept[b] < n_kept[b]
                shift[b] = max(shift[b], (total[b] - target) / max(kept[b], 1.0))
                n_kept[b] = kept[b]
    total[:] = 0.0
    for j in range(d):
        for b in range(TILE):
            total[b] += max(abs(tile[j, b]) - shift[b], 0.0)
    for j in range(d):
        for b in range(TILE):
            # The shift is rounded relative to sums that may be far larger than the radius: scale the last bit back.
            value = max(abs(tile[j, b]) - shift[b], 0.0) * (target / total[b] if total[b] > target else 1.0)
            inside = size[b] <= radius * _ALREADY
            tile[j, b] = tile[j, b] if inside else (value if tile[j, b] > 0.0 else -value)


@compiled(nogil=True, error_model="numpy")
def _onto_l2_ball(tile, radius, size):
    d = tile.shape[0]
    size[:] = 0.0
    for j in range(d):
        for b in range(TILE):
            size[b] += tile[j, b] * tile[j, b]
    for b in range(TILE):
        length = np.sqrt(size[b])
        size[b] = radius * _INSIDE / length if length > radius * _ALREADY else 1.0
    for j in range(d):
        for b in range(TILE):
            tile[j, b] *= size[b]
