"""Count and sum per cell, as exact integers, in one pass over fixed-point records.

Distances are direct differences added in column order; the lanes of a vector register hold different records, so the
compiler needs no reassociation and every machine computes the same bits.

Records are first compared in single precision, twice as many lanes at a time. That decides every record whose nearest
centre leads by more than single precision can be wrong; the few others are compared again in double precision, so the
cell is always the one that double precision finds.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recoup.kernels.fixed_point import DROPPED, TILE

_STEP, _NARROW_STEP = 2.0**-30, np.float32(2.0**-30)
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


def single_precision_error(centers: NDArray[np.float64]) -> float:
    """A lead between two squared distances that single precision cannot turn round, for any record of the unit domain.

    With |x| <= 1, |c| <= C and unit roundoff u = 2^-24, a difference is wrong by at most 2 u (1 + C), its square by
    5 u (1 + C)^2, and the sum of d squares by d - 1 further roundings: in all u d (d + 4) (1 + C)^2 to first order. Two
    distances may err in opposite directions; another factor of two covers the terms of second order.
    """
    d = centers.shape[1]
    largest = 1.0 + float(np.max(np.abs(centers), initial=0.0))
    return float(4.0 * d * (d + 4) * largest**2 * 2.0**-24)


@njit(cache=True, nogil=True, error_model="numpy")
def _nearest_of_records(
    records,  # IN   (n, d) int32, fixed point
    start,  # IN   first record of the tile
    size,  # IN   records of the tile
    centers,  # IN   (k, d)
    narrow,  # IN   (k, d) float32: the centres
    error,  # IN   float32: a lead that single precision can be trusted with
    tile,  # scratch (d, TILE) float32
    distances,  # scratch (k, TILE) float32
    bound,  # scratch (TILE,) float32
    n_near,  # scratch (TILE,) int32
    cells,  # OUT  (TILE,) int32
):
    """Write the index of each record's nearest centre; ties go to the lowest index."""
    n_cells, d = centers.shape
    for b in range(size):
        for j in range(d):
            tile[j, b] = np.float32(records[start + b, j]) * _NARROW_STEP
    for k in range(n_cells):
        center, distance = narrow[k], distances[k]
        c0 = center[0]
        for b in range(TILE):
            difference = tile[0, b] - c0
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
    for b in range(TILE):
        bound[b] = distances[0, b]
        n_near[b] = 0
        cells[b] = 0
    for k in range(1, n_cells):
        distance = distances[k]
        for b in range(TILE):
            bound[b] = distance[b] if distance[b] < bound[b] else bound[b]
    for b in range(TILE):
        bound[b] += error
    for k in range(n_cells):
        distance, index = distances[k], np.int32(k)
        for b in range(TILE):
            near = distance[b] <= bound[b]
            n_near[b] += np.int32(1) if near else np.int32(0)
            cells[b] += index if near else np.int32(0)
    for b in range(size):
        if n_near[b] != 1:
            smallest = np.inf
            for k in range(n_cells):
                difference = records[start + b, 0] * _STEP - centers[k, 0]
                total = difference * difference
                for j in range(1, d):
                    difference = records[start + b, j] * _STEP - centers[k, j]
                    total += difference * difference
                if total < smallest:
                    smallest = total
                    cells[b] = k


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
    error,  # IN   single_precision_error(centers)
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
    tile, distances, x = np.zeros((d, TILE), np.float32), np.empty((len(centers), TILE), np.float32), np.empty(d)
    bound, n_near, cells = np.empty(TILE, np.float32), np.empty(TILE, np.int32), np.empty(TILE, np.int32)
    narrow, narrow_error = centers.astype(np.float32), np.float32(error)
    for start in range(0, n, TILE):
        size = min(TILE, n - start)
        _nearest_of_records(records, start, size, centers, narrow, narrow_error, tile, distances, bound, n_near, cells)
        for b in range(size):
            if records[start + b, 0] == DROPPED:
                continue
            cell = cells[b]
            counts[cell] += count_factor
            if sums == NO_SUMS:
                continue
            factor = sum_factors[cell]
            if sums == ABSOLUTE:
                for j in range(d):
                    totals[cell, j] += np.int32((records[start + b, j] * _STEP) * factor)
                continue
            for j in range(d):
                x[j] = records[start + b, j] * _STEP
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
