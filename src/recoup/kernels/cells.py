"""Count and sum per cell, around centres or of a grid, as exact integers, in one pass over fixed-point records.

Distances are direct differences added in column order; the lanes of a vector register hold different records, so the
compiler needs no reassociation and every machine computes the same bits.

Records are first compared in single precision, twice as many lanes at a time. That decides every record whose nearest
centre leads by more than single precision can be wrong; the few others are compared again in double precision, so the
cell is always the one that double precision finds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recoup.kernels import GRID
from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import DROPPED, TILE

_STEP, _NARROW_STEP = 1.0 / GRID, np.float32(1.0 / GRID)
_HALF = 1 << 30  # of the width of the unit box, in steps
NO_SUMS, ABSOLUTE, RELATIVE = 0, 1, 2


@compiled(nogil=True, error_model="numpy")
def nearest_of_tile(tile, centers, distance, smallest, cells):
    """Write the index of each record's nearest centre, and its squared distance; ties go to the lowest index.

    The tile is (d, TILE), so that a vector register holds different records; `distance` is scratch. Squares are added
    column by column, four columns for each visit of memory.
    """
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
    """A lead between two scores |c|^2 / 2 - x c that single precision cannot turn round, for any record of the domain.

    With |x| <= 1, |c| <= C and unit roundoff u = 2^-24, a product of rounded factors is wrong by at most 3 u C, the
    half square of a centre's length, computed in double precision, by u d C^2 / 2, and d further roundings act on
    partial sums of at most d C (1 + C / 2): in all u d (d + 4) C (1 + C) to first order, with fused multiplications or
    without. Two scores may err in opposite directions; another factor of two covers the terms of second order, and the
    smallest normal number those that single precision flushes to zero. Double precision rounds too, relative to the
    record and not to the centre: where all centres are tiny, that is the larger part, and half of a squared distance is
    wrong by less than d (d + 2) (1 + C)^2 2^-53.
    """
    d = centers.shape[1]
    largest = float(np.max(np.abs(centers), initial=0.0))
    narrow = d * (d + 4) * (largest * (1.0 + largest) * 2.0**-24 + 2.0**-126)
    return float(4.0 * (narrow + d * (d + 2) * (1.0 + largest) ** 2 * 2.0**-53))


# Contracting to fused multiplications may change a score's last bit but, by the bound above, never a cell.
@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _scores_of_tile(tile, narrow, halves, first, second, best, rival, cells):
    """Write the lowest two of the scores |c|^2 / 2 - x c, which differ by half as much as the squared distances.

    All in single precision: records by column, centres, half their squared lengths; `first` and `second` are scratch,
    `cells` says whose the best score is.
    """
    n_cells, d = narrow.shape
    infinite, zero = np.float32(np.inf), np.float32(0.0)
    for b in range(TILE):
        best[b], rival[b], cells[b] = infinite, infinite, 0
    # Two centres and four columns for each visit of the records; the last visit also compares, so that scores need not
    # be read again. It takes what columns are left, from one to four, the missing ones with a factor of zero.
    n_before = (d - 1) // 4 * 4
    last = d - 1
    left0, left1, left2 = max(last - 3, 0), max(last - 2, 0), max(last - 1, 0)
    for k in range(0, n_cells, 2):
        alone = k + 1 == n_cells
        c, e = narrow[k], narrow[k if alone else k + 1]
        half_c, half_e = halves[k], infinite if alone else halves[k + 1]
        for j in range(0, n_before, 4):
            c0, c1, c2, c3 = c[j], c[j + 1], c[j + 2], c[j + 3]
            e0, e1, e2, e3 = e[j], e[j + 1], e[j + 2], e[j + 3]
            for b in range(TILE):
                x0, x1, x2, x3 = tile[j, b], tile[j + 1, b], tile[j + 2, b], tile[j + 3, b]
                score = half_c if j == 0 else first[b]
                first[b] = (((score - x0 * c0) - x1 * c1) - x2 * c2) - x3 * c3
                score = half_e if j == 0 else second[b]
                second[b] = (((score - x0 * e0) - x1 * e1) - x2 * e2) - x3 * e3
        n_left = d - n_before
        c0, e0 = (c[left0], e[left0]) if n_left >= 4 else (zero, zero)
        c1, e1 = (c[left1], e[left1]) if n_left >= 3 else (zero, zero)
        c2, e2 = (c[left2], e[left2]) if n_left >= 2 else (zero, zero)
        c3, e3 = c[last], e[last]
        index, next_index = np.int32(k), np.int32(k + 1)
        for b in range(TILE):
            x0, x1, x2, x3 = tile[left0, b], tile[left1, b], tile[left2, b], tile[last, b]
            score = half_c if n_before == 0 else first[b]
            score = (((score - x0 * c0) - x1 * c1) - x2 * c2) - x3 * c3
            other = half_e if n_before == 0 else second[b]
            other = (((other - x0 * e0) - x1 * e1) - x2 * e2) - x3 * e3
            swapped = other < score
            low, high = (other, score) if swapped else (score, other)
            who, lowest = next_index if swapped else index, best[b]
            wins = low < lowest
            middle = lowest if wins else low
            middle = middle if middle < high else high
            rival[b] = middle if middle < rival[b] else rival[b]
            cells[b] = who if wins else cells[b]
            best[b] = low if wins else lowest


@compiled(nogil=True, error_model="numpy")
def _nearest_of_records(records, start, size, centers, narrow, halves, error, tile, scratch, cells):
    """Write the index of the nearest centre of the `size` records from `start` on; ties go to the lowest index.

    `error` is a lead that single precision can be trusted with; `tile` and `scratch` are written over.
    """
    n_cells, d = centers.shape
    for b in range(size):
        for j in range(d):
            tile[j, b] = np.float32(records[start + b, j]) * _NARROW_STEP
    best, rival = scratch[2], scratch[3]
    _scores_of_tile(tile, narrow, halves, scratch[0], scratch[1], best, rival, cells)
    # Counted first, without a branch, since most tiles have none. Also true where a score is not a number.
    n_unsure = 0
    for b in range(size):
        n_unsure += not rival[b] - best[b] > error
    if n_unsure == 0:
        return
    for b in range(size):
        if not rival[b] - best[b] > error:
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


@compiled(nogil=True, error_model="numpy", inline="always")
def _relative(x, center, radius, norm):
    # x becomes (x - center), scaled back to the radius in the L1 or L2 norm, whose square is returned.
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
        size = radius
    return size * size


@compiled(nogil=True, error_model="numpy")
def voronoi_totals(
    records,  # IN   (n, d) int32, fixed point
    centers,  # IN   (k, d)
    error,  # IN   single_precision_error(centers)
    sums,  # IN   NO_SUMS, ABSOLUTE or RELATIVE
    radii,  # IN   (k,), read for RELATIVE only
    norm,  # IN   1 or 2, read for RELATIVE only
    count_factor,  # IN   integer that one record adds to its cell's count
    sum_factors,  # IN   (k,): a sum is multiplied by its cell's factor and truncated
    square_factors,  # IN   (k,) likewise, or (0,) where no squares are wanted
    counts,  # OUT  (k,) int64
    totals,  # OUT  (k, d) int64, untouched for NO_SUMS
    squares,  # OUT  (k,) int64, untouched for anything but RELATIVE
):
    """Add each record's integer contribution to its cell."""
    n, d = records.shape
    tile, x = np.zeros((d, TILE), np.float32), np.empty(d)
    scratch, cells = np.empty((4, TILE), np.float32), np.empty(TILE, np.int32)
    narrow, halves, narrow_error = centers.astype(np.float32), np.empty(len(centers), np.float32), np.float32(error)
    for k in range(len(centers)):
        halves[k] = 0.5 * np.sum(centers[k] * centers[k])
    for start in range(0, n, TILE):
        size = min(TILE, n - start)
        _nearest_of_records(records, start, size, centers, narrow, halves, narrow_error, tile, scratch, cells)
        for b in range(size):
            if records[start + b, 0] == DROPPED:
                continue
            cell = cells[b]
            counts[cell] += count_factor
            if sums == NO_SUMS:
                continue
            factor = sum_factors[cell]
            if sums == ABSOLUTE:
                factor *= _STEP  # a power of two: the products are the same to the last bit
                for j in range(d):
                    totals[cell, j] += np.int32(records[start + b, j] * factor)
                continue
            for j in range(d):
                x[j] = records[start + b, j] * _STEP
            square = _relative(x, centers[cell], radii[cell], norm)
            for j in range(d):
                totals[cell, j] += np.int32(x[j] * factor)
            if square_factors.shape[0] > 0:
                squares[cell] += np.int32(square * square_factors[cell])


@compiled(nogil=True, error_model="numpy")
def voronoi_cells(points, centers, cells):
    """Write the index of the nearest of (k, d) centres for each of (n, d) points."""
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


@compiled(nogil=True, error_model="numpy")
def relative_values(points, cells, centers, radii, norm, values, squares):
    """Write each point, (n, d), relative to its cell's centre, clipped to the cell's radius in the L1 or L2 norm.

    And the square of that norm, after clipping.
    """
    for i in range(points.shape[0]):
        for j in range(points.shape[1]):
            values[i, j] = points[i, j]
        squares[i] = _relative(values[i], centers[cells[i]], radii[cells[i]], norm)


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
