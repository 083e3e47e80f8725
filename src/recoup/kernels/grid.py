"""Counts on a regular grid over some columns, in one pass over fixed-point records and in exact integer arithmetic."""

from __future__ import annotations

from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import DROPPED

_HALF = 1 << 30


@compiled(nogil=True)
def grid_totals(
    records,  # IN   (n, d) int32, fixed point
    columns,  # IN   (j,) int64: the columns that span the grid
    sides,  # IN   (j,) int64: bins along each of them
    count_factor,  # IN   integer that one record adds to its cell
    totals,  # OUT  (product of sides,) int64, last column fastest
):
    """Add each record to its grid cell; bins are half open, the last one is closed."""
    for i in range(records.shape[0]):
        if records[i, 0] == DROPPED:
            continue
        cell = 0
        for a in range(columns.shape[0]):
            bin_index = ((records[i, columns[a]] + _HALF) * sides[a]) >> 31
            cell = cell * sides[a] + min(bin_index, sides[a] - 1)
        totals[cell] += count_factor
