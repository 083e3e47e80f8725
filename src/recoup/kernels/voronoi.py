"""Count and sum per cell, as exact integers, in one pass over fixed-point records.

Distances are direct differences added in column order; the lanes of a vector register hold different records, so the
compiler needs no reassociation and every machine computes the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from recoup.kernels.fixed_point import DROPPED, TILE

_STEP = 2.0**-30
NO_SUMS, ABSOLUTE, RELATIVE = 0, 1, 2


@njit(cache=True, nogil=True, error_model="numpy")
def nearest_of_tile(
    tile,  # IN   (d, TILE): records by column, so that a vector register holds different records
    centers,  # IN   (k, d)
    distance,  # scratch (TILE,)
    smallest,  # OUT  (TILE,): squared distances
    cells,  # OUT  (TILE,) int64
):
    """Write the index of each record's nearest centre, and its squared distance."""
    # Squares are added column by column, four columns for each visit of memory; ties go to the lowest index.
    d = tile.shape[0]
    for k in range(centers.shape[0]):
        center = centers[k]
        for b in range(TILE):
            difference = tile[0, b] - center[0]
            distance[b] = difference * difference
        j = 1
        while j + 4 <= d:
            c0, c1, c2, c3 = center[j], center[j + 1], center[j + 2], center[j + 3]
            for b in range(TILE):
                total = distance[b]
                difference = tile[j, b] - c0
                total += difference * difference
                difference = tile[j + 1, b] - c1
                total += difference * difference
                difference = tile[j + 2, b] - c2
                total += difference * difference
                difference = tile[j + 3, b] - c3
                total += difference * difference
                distance[b] = total
            j += 4
        while j < d:
            c0 = center[j]
            for b in range(TILE):
                difference = tile[j, b] - c0
                distance[b] += difference * difference
            j += 1
        if k == 0:
            for b in range(TILE):
                smallest[b] = distance[b]
                cells[b] = 0
        else:
            for b in range(TILE):
                nearer = distance[b] < smallest[b]
                smallest[b] = distance[b] if nearer else smallest[b]
                cells[b] = k if nearer else cells[b]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _relative(x, center, radius, norm):
    # x becomes (x - center), scaled back to the radius in the L1 or L2 norm.
    size = 0.0
    for j in range(x.shape[0]):
        x[j] -= center[j]
        size += abs(x[j]) if norm == 1 else x[j] * x[j]
    if norm == 2:
        size = np.sqrt(size)
    if size > radius:
        scale = radius / size
        for j in range(x.shape[0]):
            x[j] *= scale


@njit(cache=True, nogil=True, error_model="numpy")
def voronoi_totals(
    records,  # IN   (n, d) int32, fixed point
    centers,  # IN   (k, d)
    sums,  # IN   NO_SUMS, ABSOLUTE or RELATIVE
    radii,  # IN   (k,), read for RELATIVE only
    norm,  # IN   1 or 2, read for RELATIVE only
    count_factor,  # IN   integer that one record adds to its cell's count
    sum_factors,  # IN   (k,): a sum is multiplied by its cell's factor and truncated
    counts,  # OUT  (k,) int64
    totals,  # OUT  (k, d) int64, untouched for NO_SUMS
):
    """Add each record's integer contribution to its cell."""
    n, d = records.shape
    tile, x = np.zeros((d, TILE)), np.empty(d)
    distance, smallest, cells = np.empty(TILE), np.empty(TILE), np.empty(TILE, np.int64)
    for start in range(0, n, TILE):
        size = min(TILE, n - start)
        for b in range(size):
            for j in range(d):
                tile[j, b] = records[start + b, j] * _STEP
        nearest_of_tile(tile, centers, distance, smallest, cells)
        for b in range(size):
            if records[start + b, 0] == DROPPED:
                continue
            cell = cells[b]
            counts[cell] += count_factor
            if sums == NO_SUMS:
                continue
            factor = sum_factors[cell]
            if sums == ABSOLUTE:
                # A record's own row is contiguous, its column of the tile is not: twice as fast.
                for j in range(d):
                    totals[cell, j] += np.int32((records[start + b, j] * _STEP) * factor)
                continue
            for j in range(d):
                x[j] = tile[j, b]
            _relative(x, centers[cell], radii[cell], norm)
            for j in range(d):
                totals[cell, j] += np.int32(x[j] * factor)


@njit(cache=True, nogil=True, error_model="numpy")
def voronoi_cells(
    points,  # IN   (n, d)
    centers,  # IN   (k, d)
    cells,  # OUT  (n,) int64
):
    """Write the index of each point's nearest centre."""
    n, d = points.shape
    tile = np.zeros((d, TILE))
    distance, smallest, found = np.empty(TILE), np.empty(TILE), np.empty(TILE, np.int64)
    for start in range(0, n, TILE):
        size = min(TILE, n - start)
        for b in range(size):
            for j in range(d):
                tile[j, b] = points[start + b, j]
        nearest_of_tile(tile, centers, distance, smallest, found)
        for b in range(size):
            cells[start + b] = found[b]


@njit(cache=True, nogil=True, error_model="numpy")
def relative_values(
    points,  # IN   (n, d)
    cells,  # IN   (n,)
    centers,  # IN   (k, d)
    radii,  # IN   (k,)
    norm,  # IN   1 or 2
    values,  # OUT  (n, d): point minus centre, scaled back to the cell's radius
):
    """Write each point relative to its cell's centre, clipped to the cell's radius."""
    for i in range(points.shape[0]):
        for j in range(points.shape[1]):
            values[i, j] = points[i, j]
        _relative(values[i], centers[cells[i]], radii[cells[i]], norm)
