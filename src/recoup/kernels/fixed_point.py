"""From raw rows to fixed-point records in one pass: clamp, scale, project, round toward zero."""

from __future__ import annotations

import numpy as np
from numba import njit

DROPPED = np.iinfo(np.int32).min  # first column of a record that contributes nothing
_GRID = 2.0**30
_INSIDE = 1.0 - 2.0**-40
_ALREADY = 1.0 - 2.0**-41


@njit(cache=True, nogil=True, error_model="numpy")
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
    unit = np.empty(d)
    for i in range(n):
        finite = True
        size = 0.0
        for j in range(d):
            value = np.float64(rows[i, j])
            finite &= np.isfinite(value)
            value = min(max(value, low[j]), high[j])
            value = 2.0 * ((value - low[j]) / (high[j] - low[j])) - 1.0
            unit[j] = value
            size += abs(value) if shape == 1 else value * value
        if not finite:
            for j in range(d):
                records[i, j] = 0
            records[i, 0] = DROPPED
            continue
        if shape == 1 and size > radius * _ALREADY:
            _onto_l1_ball(unit, radius * _INSIDE)
        elif shape == 2:
            size = np.sqrt(size)
            if size > radius * _ALREADY:
                scale = radius * _INSIDE / size
                for j in range(d):
                    unit[j] *= scale
        for j in range(d):
            records[i, j] = np.int32(unit[j] * _GRID)


@njit(cache=True, nogil=True, error_model="numpy")
def _onto_l1_ball(unit, radius):
    # Michelot (1986): drop the coordinates that the current shift sends to zero, until none is left to drop.
    d = unit.shape[0]
    shift = 0.0
    n_kept = d + 1
    while True:
        total = 0.0
        n = 0
        for j in range(d):
            if abs(unit[j]) > shift:
                total += abs(unit[j])
                n += 1
        shift = (total - radius) / n
        if n == n_kept:
            break
        n_kept = n
    total = 0.0
    for j in range(d):
        kept = max(abs(unit[j]) - shift, 0.0)
        unit[j] = kept if unit[j] > 0 else -kept
        total += kept
    # The shift is rounded relative to sums that may be far larger than the radius.
    if total > radius:
        scale = radius / total
        for j in range(d):
            unit[j] *= scale
