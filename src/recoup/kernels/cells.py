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


def single_precision_error(centers: NDArray[np.float64], reach: float = 1.0) -> float:
    """A lead between two scores |c|^2 / 2 - x c that single precision cannot turn round, for any record of the domain.

    With unit roundoff u = 2^-24, n roundings that act on a sum of products one after the other, in any order, fused or
    not, change it by at most n u / (1 - n u) of the sum of the products' sizes (Higham, Accuracy and Stability of
    Numerical Algorithms, section 3.1). Here n = d + 4: two factors, their product, and d + 1 sums. With |x_j| <= X, the
    reach, and lengths |c| <= C, the sizes add up to at most C^2 / 2 + sqrt(d) X C. Multiples of the smallest normal
    number bound what is flushed to zero. Double precision rounds too, relative to the record and not to the centre:
    where all centres are tiny, that is the larger part, and half of a squared distance is wrong by less than
    (d + 2) (sqrt(d) X + C)^2 2^-54. Two scores may err in opposite directions; another factor of two covers the terms
    of second order, and that the lead is rounded.
    """
    d = centers.shape[1]
    largest, farthest = float(np.max(np.sqrt(np.sum(centers**2, axis=1)), initial=0.0)), d**0.5 * reach
    narrow = (d + 4) * (largest * (0.5 * largest + farthest) * 2.0**-24 + 2.0**-124)
    return float(4.0 * (narrow + (d + 2) * (farthest + largest) ** 2 * 2.0**-54))


@compiled(nogil=True, error_model="numpy")
def narrowed(centers):
    """Centres in single precision and half their squared lengths, filled up as the scores need it.

    With a column of zeros where their number is odd, and to a multiple of four centres, by some that are too far away
    to be anybody's nearest.
    """
    k, d = centers.shape
    n = (k + 3) // 4 * 4
    factors, halves = np.zeros((n, d + d % 2), np.float32), np.full(n, np.float32(np.inf))
    for i in range(k):
        halves[i] = 0.5 * np.sum(centers[i] * centers[i])
        for j in range(d):
            factors[i, j] = centers[i, j]
    return factors, halves


@compiled(inline="always")
def _compare(b, k, s0, s1, s2, s3, best, rival, cells):
    # The lowest two of a record's scores before and of four more, and whose the lowest is; without a branch.
    swapped = s1 < s0
    low, high, who = (s1, s0, k + 1) if swapped else (s0, s1, k)
    swapped = s3 < s2
    other_low, other_high, other = (s3, s2, k + 3) if swapped else (s2, s3, k + 2)
    swapped = other_low < low
    low, middle, who = (other_low, low, other) if swapped else (low, other_low, who)
    high = high if high < other_high else other_high
    middle = middle if middle < high else high
    lowest = best[b]
    wins = low < lowest
    high = lowest if wins else low
    middle = middle if middle < high else high
    rival[b] = middle if middle < rival[b] else rival[b]
    cells[b] = who if wins else cells[b]
    best[b] = low if wins else lowest


# Contracting to fused multiplications may change a score's last bit but, by the bound above, never a cell.
@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def scores_of_tile(tile, factors, halves, sums, best, rival, cells):
    """Write the lowest two of the scores |c|^2 / 2 - x c, which differ by half as much as the squared distances.

    All in single precision: records by column, centres, half their squared lengths; an even number of columns, and a
    multiple of four centres. `sums`, (4, TILE), is scratch; `cells` says whose the best score is.
    """
    n_cells, d = factors.shape
    for b in range(TILE):
        best[b], rival[b], cells[b] = np.float32(np.inf), np.float32(np.inf), 0
    # Four centres and four columns for each visit of the records, so that a register that was loaded is used four
    # times. The last visit, of four columns or two, also compares, so that scores need not be read again.
    n_last = 2 if d % 4 == 2 else 4
    p, q, r, s = sums[0], sums[1], sums[2], sums[3]
    for k in range(0, n_cells, 4):
        c, e, f, g = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        half_c, half_e, half_f, half_g = halves[k], halves[k + 1], halves[k + 2], halves[k + 3]
        for j in range(0, d - n_last, 4):
            c0, c1, c2, c3 = c[j], c[j + 1], c[j + 2], c[j + 3]
            e0, e1, e2, e3 = e[j], e[j + 1], e[j + 2], e[j + 3]
            f0, f1, f2, f3 = f[j], f[j + 1], f[j + 2], f[j + 3]
            g0, g1, g2, g3 = g[j], g[j + 1], g[j + 2], g[j + 3]
            for b in range(TILE):
                x0, x1, x2, x3 = tile[j, b], tile[j + 1, b], tile[j + 2, b], tile[j + 3, b]
                p[b] = ((((half_c if j == 0 else p[b]) - x0 * c0) - x1 * c1) - x2 * c2) - x3 * c3
                q[b] = ((((half_e if j == 0 else q[b]) - x0 * e0) - x1 * e1) - x2 * e2) - x3 * e3
                r[b] = ((((half_f if j == 0 else r[b]) - x0 * f0) - x1 * f1) - x2 * f2) - x3 * f3
                s[b] = ((((half_g if j == 0 else s[b]) - x0 * g0) - x1 * g1) - x2 * g2) - x3 * g3
        if d == n_last:
            p[:], q[:], r[:], s[:] = half_c, half_e, half_f, half_g
        index, j = np.int32(k), d - 2
        c2, c3, e2, e3, f2, f3, g2, g3 = c[j], c[j + 1], e[j], e[j + 1], f[j], f[j + 1], g[j], g[j + 1]
        if n_last == 2:
            for b in range(TILE):
                x2, x3 = tile[j, b], tile[j + 1, b]
                s0, s1 = (p[b] - x2 * c2) - x3 * c3, (q[b] - x2 * e2) - x3 * e3
                s2, s3 = (r[b] - x2 * f2) - x3 * f3, (s[b] - x2 * g2) - x3 * g3
                _compare(b, index, s0, s1, s2, s3, best, rival, cells)
        else:
            c0, c1, e0, e1, f0, f1, g0, g1 = (
                c[j - 2],
                c[j - 1],
                e[j - 2],
                e[j - 1],
                f[j - 2],
                f[j - 1],
                g[j - 2],
                g[j - 1],
            )
            for b in range(TILE):
                x0, x1, x2, x3 = tile[j - 2, b], tile[j - 1, b], tile[j, b], tile[j + 1, b]
                s0 = (((p[b] - x0 * c0) - x1 * c1) - x2 * c2) - x3 * c3
                s1 = (((q[b] - x0 * e0) - x1 * e1) - x2 * e2) - x3 * e3
                s2 = (((r[b] - x0 * f0) - x1 * f1) - x2 * f2) - x3 * f3
                s3 = (((s[b] - x0 * g0) - x1 * g1) - x2 * g2) - x3 * g3
                _compare(b, index, s0, s1, s2, s3, best, rival, cells)


@compiled(nogil=True, error_model="numpy")
def _nearest_of_records(records, start, size, centers, factors, halves, error, tile, scratch, cells):
    """Write the index of the nearest centre of the `size` records from `start` on; ties go to the lowest index.

    `error` is a lead that single precision can be trusted with; `tile` and `scratch` are written over.
    """
    n_cells, d = centers.shape
    for b in range(size):
        for j in range(d):
            tile[j, b] = np.float32(records[start + b, j]) * _NARROW_STEP
    best, rival = scratch[4], scratch[5]
    scores_of_tile(tile, factors, halves, scratch[:4], best, rival, cells)
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
    factors, halves = narrowed(centers)
    tile, x = np.zeros((factors.shape[1], TILE), np.float32), np.empty(d)
    scratch, cells = np.empty((6, TILE), np.float32), np.empty(TILE, np.int32)
    for start in range(0, n, TILE):
        size = min(TILE, n - start)
        _nearest_of_records(records, start, size, centers, factors, halves, np.float32(error), tile, scratch, cells)
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
