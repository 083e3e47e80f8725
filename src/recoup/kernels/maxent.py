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
        # One by one: the check of two lengths, with its message, takes two seconds to compile.
        for j in range(n_own, n_columns):
            coefficients[j] = z[first_of_all + j - n_own]
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
def gram(layout, weights, place, out):
    """Write the upper triangle of A diag(weights) A' for some rows, without the products of two rows of all points.

    `place`, (R,), says where a row stands in the matrix, in the same order, or is negative where it is left out.
    """
    start, tile, column, width, values, n_own, entry, entry_row, entry_value = layout
    n_columns = values.shape[1]
    first_of_all = place.shape[0] - (n_columns - n_own)
    out[:] = 0.0
    most = n_columns - n_own
    for p in range(width.shape[0]):
        most += 1 + width[p]
    # Of the rows that all points of a group touch: where they stand, and which values they add up.
    row, source = np.empty(most, np.int64), np.empty(most, np.int64)
    value, scaled = np.empty(most, values.dtype), np.empty(most, values.dtype)
    moments = np.empty((most, most), values.dtype)
    for g in range(start.shape[0] - 1):
        n = 0
        for p in range(tile.shape[1]):
            for j in range(1 + width[p]):
                if place[tile[g, p] + j] >= 0:
                    row[n], source[n] = place[tile[g, p] + j], 0 if j == 0 else column[p] + j - 1
                    n += 1
        n_tiled = n
        for j in range(n_own, n_columns):
            if place[first_of_all + j - n_own] >= 0:
                row[n], source[n] = place[first_of_all + j - n_own], j
                n += 1
        moments[:n_tiled, :n] = 0.0
        for i in range(start[g], start[g + 1]):
            for t in range(n):
                value[t] = values[i, source[t]]
                scaled[t] = weights[i] * value[t]
            for t in range(n_tiled):
                line, factor = moments[t], value[t]
                for s in range(t, n):
                    line[s] += factor * scaled[s]
            for e in range(entry[i], entry[i + 1]):
                if place[entry_row[e]] >= 0:
                    line, factor = out[place[entry_row[e]]], entry_value[e]
                    for f in range(e, entry[i + 1]):
                        if place[entry_row[f]] >= 0:
                            line[place[entry_row[f]]] += weights[i] * (factor * entry_value[f])
                    for t in range(n):
                        line[row[t]] += factor * scaled[t]
        for t in range(n_tiled):
            line = out[row[t]]
            for s in range(t, n):
                line[row[s]] += moments[t, s]


@compiled()
def center_and_scale(scale, mean, diagonal, matrix):
    """Turn the upper triangle of a Gram matrix into that of the Hessian: scale, centre, and add a diagonal."""
    n_rows = scale.shape[0]
    for i in range(n_rows):
        for j in range(i, n_rows):
            matrix[i, j] = matrix[i, j] * (scale[i] * scale[j]) - mean[i] * mean[j]
        matrix[i, i] += diagonal[i]
