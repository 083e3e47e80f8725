"""Numba kernels for the rows of additive measurements, by groups of support points.

A point touches few rows. Partitions with sums put it into a tile, a cell's count and sums; points with the same tuple
of tiles are one group, whose moments say everything about how its tiles meet. Counts alone are single entries of a
point, since with them hardly two points would be alike; rows that every point touches come last. Loops run along
stretches of memory that nothing else writes to, so that they become vector instructions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recoup.kernels.compiled import compiled


class Layout(NamedTuple):
    """Rows point by point: entries first, then tiles, then the rows of all points."""

    start: np.ndarray  # (G + 1,): the points of group g are start[g] <= i < start[g + 1]
    tile: np.ndarray  # (G, P): first row of the group's cell in every partition with sums: its count, then its sums
    column: np.ndarray  # (P,): where the sums of a partition start among the values
    width: np.ndarray  # (P,): how many they are
    values: np.ndarray  # (m, C): 1, then what a point adds to sums, then what it adds to the rows of all points
    n_own: int  # of the values, those before the rows of all points
    entry: np.ndarray  # (m + 1,): the entries of point i are entry[i] <= e < entry[i + 1]
    entry_row: np.ndarray  # (E,) increasing in a point
    entry_value: np.ndarray  # (E,)


@compiled(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def gather(layout, z, out):
    """Write A' z, (m,): what the dual variables z, (R,), say about every point."""
    start, tile, column, width, values, n_own, entry, entry_row, entry_value = layout
    n_columns = values.shape[1]
    first_of_all = z.shape[0] - (n_columns - n_own)
    coefficients = np.empty(n_columns)
    for g in range(start.shape[0] - 1):
        coefficients[:n_own] = 0.0
        coefficients[n_own:] = z[first_of_all:]
        for p in range(tile.shape[1]):
            row = tile[g, p]
            coefficients[0] += z[row]
            for j in range(width[p]):
                coefficients[column[p] + j] += z[row + 1 + j]
        for i in range(start[g], start[g + 1]):
            total = 0.0
            for j in range(n_columns):
                total += coefficients[j] * values[i, j]
            for e in range(entry[i], entry[i + 1]):
                total += z[entry_row[e]] * entry_value[e]
            out[i] = total


@compiled(nogil=True)
def scatter(layout, weights, out):
    """Write A weights, (R,): the exact answers of a measure."""
    start, tile, column, width, values, n_own, entry, entry_row, entry_value = layout
    n_columns = values.shape[1]
    first_of_all = out.shape[0] - (n_columns - n_own)
    out[:] = 0.0
    totals = np.empty(n_columns)
    for g in range(start.shape[0] - 1):
        totals[:] = 0.0
        for i in range(start[g], start[g + 1]):
            weight = weights[i]
            for j in range(n_columns):
                totals[j] += weight * values[i, j]
            for e in range(entry[i], entry[i + 1]):
                out[entry_row[e]] += weight * entry_value[e]
        for p in range(tile.shape[1]):
            row = tile[g, p]
            out[row] += totals[0]
            for j in range(width[p]):
                out[row + 1 + j] += totals[column[p] + j]
        for j in range(n_own, n_columns):
            out[first_of_all + j - n_own] += totals[j]


@compiled(nogil=True)
def gram(layout, weights, out):
    """Write the upper triangle of A diag(weights) A', (R, R), without the products of two rows of all points."""
    start, tile, column, width, values, n_own, entry, entry_row, entry_value = layout
    n_columns, n_tiles = values.shape[1], tile.shape[1]
    first_of_all = out.shape[0] - (n_columns - n_own)
    out[:] = 0.0
    moments = np.zeros((n_own, n_columns), values.dtype)
    scaled = np.empty(n_columns, values.dtype)
    for g in range(start.shape[0] - 1):
        moments[:] = 0.0
        for i in range(start[g], start[g + 1]):
            for j in range(n_columns):
                scaled[j] = weights[i] * values[i, j]
            if n_tiles > 0:
                for j in range(n_own):
                    value = values[i, j]
                    line = moments[j]
                    for k in range(j, n_columns):
                        line[k] += value * scaled[k]
            for e in range(entry[i], entry[i + 1]):
                value = entry_value[e]
                line = out[entry_row[e]]
                for f in range(e, entry[i + 1]):
                    line[entry_row[f]] += weights[i] * (value * entry_value[f])
                for p in range(n_tiles):
                    row, first = tile[g, p], column[p]
                    line[row] += value * scaled[0]
                    sums, added = line[row + 1 : row + 1 + width[p]], scaled[first : first + width[p]]
                    for j in range(width[p]):
                        sums[j] += value * added[j]
                for j in range(n_own, n_columns):
                    line[first_of_all + j - n_own] += value * scaled[j]
        for j in range(n_own):
            for k in range(j):
                moments[j, k] = moments[k, j]
        for a in range(n_tiles):
            for j in range(1 + width[a]):
                line, moment = out[tile[g, a] + j], moments[0 if j == 0 else column[a] + j - 1]
                for b in range(a, n_tiles):
                    row, first = tile[g, b], column[b]
                    line[row] += moment[0]
                    for k in range(width[b]):
                        line[row + 1 + k] += moment[first + k]
                for k in range(n_own, n_columns):
                    line[first_of_all + k - n_own] += moment[k]


@compiled()
def tiles(layout, weights, out):
    """Write the products of the rows of one tile, (R, width): what a block-diagonal preconditioner is made of."""
    start, tile, column, width, values, n_own, entry, entry_row, entry_value = layout
    first_of_all = out.shape[0] - (values.shape[1] - n_own)
    out[:] = 0.0
    for g in range(start.shape[0] - 1):
        for i in range(start[g], start[g + 1]):
            weight = weights[i]
            for e in range(entry[i], entry[i + 1]):
                out[entry_row[e], 0] += weight * entry_value[e] ** 2
            for j in range(n_own, values.shape[1]):
                out[first_of_all + j - n_own, 0] += weight * values[i, j] ** 2
            for p in range(tile.shape[1]):
                row, first = tile[g, p], column[p]
                out[row, 0] += weight
                for j in range(width[p]):
                    scaled = weight * values[i, first + j]
                    out[row, 1 + j] += scaled
                    out[row + 1 + j, 0] += scaled
                    for k in range(width[p]):
                        out[row + 1 + j, 1 + k] += scaled * values[i, first + k]


@compiled()
def center_and_scale(scale, mean, diagonal, matrix):
    """Turn the upper triangle of a Gram matrix into that of the Hessian: scale, centre, and add a diagonal."""
    n_rows = scale.shape[0]
    for i in range(n_rows):
        for j in range(i, n_rows):
            matrix[i, j] = matrix[i, j] * (scale[i] * scale[j]) - mean[i] * mean[j]
        matrix[i, i] += diagonal[i]


@compiled()
def factor_tiles(tile_row, tile_length, scale, diagonal, tiles):
    """Scale rows and columns of symmetric tiles, (R, width), add a diagonal, and turn each into its Cholesky factor."""
    for t in range(tile_row.shape[0]):
        row, length = tile_row[t], tile_length[t]
        for j in range(length):
            for k in range(j + 1):
                tiles[row + j, k] *= scale[row + j] * scale[row + k]
            tiles[row + j, j] += diagonal[row + j]
            ridge = tiles[row + j, j] * 1e-12
            for k in range(j + 1):
                total = tiles[row + j, k]
                for c in range(k):
                    total -= tiles[row + j, c] * tiles[row + k, c]
                if k == j:
                    # Only rounding can bring a pivot this low; a larger one keeps the factor a valid preconditioner.
                    tiles[row + j, j] = np.sqrt(max(total, ridge))
                else:
                    tiles[row + j, k] = total / tiles[row + k, k]


@compiled()
def solve_tiles(tile_row, tile_length, tiles, right, out):
    """Solve with the factored tiles."""
    for t in range(tile_row.shape[0]):
        row, length = tile_row[t], tile_length[t]
        for j in range(length):
            total = right[row + j]
            for c in range(j):
                total -= tiles[row + j, c] * out[row + c]
            out[row + j] = total / tiles[row + j, j]
        for j in range(length - 1, -1, -1):
            total = out[row + j]
            for c in range(j + 1, length):
                total -= tiles[row + c, j] * out[row + c]
            out[row + j] = total / tiles[row + j, j]
