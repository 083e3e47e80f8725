"""From contiguous columns, as Arrow stores them, to fixed-point records, without a row-major copy in between."""

from __future__ import annotations

import numpy as np
from numba import njit

from recoup.kernels.fixed_point import _GRID, DROPPED, TILE, _onto_l1_ball, _onto_l2_ball


@njit(cache=True, nogil=True, error_model="numpy")
def fixed_point_columns(
    columns,  # IN   (d, n) float32 or float64, the user's units
    start,  # IN   first row to convert
    stop,  # IN   row after the last
    low,  # IN   (d,)
    high,  # IN   (d,)
    shape,  # IN   0 box, 1 L1 ball, 2 L2 ball
    radius,  # IN   of the ball
    records,  # OUT  (n, d) int32, rows start to stop: as fixed_point_rows writes them, bit for bit
):
    """Write rows of a columnar table as fixed-point records; a row with a non-finite value is dropped."""
    d = columns.shape[0]
    tile, size, off = np.zeros((d, TILE)), np.empty(TILE), np.empty(TILE)
    shift, total, kept, n_kept = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for first in range(start, stop, TILE):
        n_rows = min(TILE, stop - first)
        off[:] = 0.0
        for j in range(d):
            lowest, highest = low[j], high[j]
            width = highest - lowest
            for b in range(n_rows):
                value = np.float64(columns[j, first + b])
                # Zero if finite, else NaN: unlike a test, it fills a vector register.
                off[b] += value - value
                value = min(max(value, lowest), highest)
                tile[j, b] = 2.0 * ((value - lowest) / width) - 1.0
            for b in range(n_rows, TILE):
                tile[j, b] = 0.0
        if shape == 1:
            _onto_l1_ball(tile, radius, size, shift, total, kept, n_kept)
        elif shape == 2:
            _onto_l2_ball(tile, radius, size)
        for b in range(n_rows):
            finite = off[b] == 0.0
            for j in range(d):
                records[first + b, j] = np.int32(tile[j, b] * _GRID) if finite else 0
            if not finite:
                records[first + b, 0] = DROPPED
