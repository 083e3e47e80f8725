"""Numba kernels for sparse rows of additive measurements, stored point by point.

A support point touches few rows: one cell of every partition. Its entries are kept as *runs*, stretches of
consecutive rows (a cell's count and its sums are one run), so that partitions and general sparse rows share one
format and the inner loops stay contiguous. Where all partitions add the same values, points with the same tuple of
cells are *groups* instead, and one vector of coefficients or totals serves a whole group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recoup.kernels.compiled import compiled


class Runs(NamedTuple):
    """Sparse rows point by point; the rows of one point's runs are increasing.

    So a Gram matrix needs only pairs of runs a <= b, its upper triangle.
    """

    start: np.ndarray  # (m + 1,): point i owns the runs start[i] <= r < start[i + 1]
    row: np.ndarray  # (n_runs,): run r covers length[r] rows from row[r] on
    length: np.ndarray  # (n_runs,)
    offset: np.ndarray  # (n_runs,): where its values start
    value: np.ndarray  # (n_values,)


class Groups(NamedTuple):
    """Points grouped by their cells."""

    start: np.ndarray  # (G + 1,): the points of group g are start[g] <= i < start[g + 1]
    row: np.ndarray  # (G, T): first row of the group's cell in every partition
    width: np.ndarray  # (T,): rows of a cell
    values: np.ndarray  # (m, W): a point's count (1) and its sums


@compiled()
def gather(runs, z, out):
    """Write A' z, (m,): what the dual variables z, (R,), say about every point."""
    starts, rows, lengths, offsets, values = runs
    for i in range(out.shape[0]):
        total = 0.0
        for r in range(starts[i], starts[i + 1]):
            row, offset = rows[r], offsets[r]
            for j in range(lengths[r]):
                total += z[row + j] * values[offset + j]
        out[i] = total


@compiled()
def scatter(runs, weights, out):
    """Write A weights, (R,): the exact answers of a measure."""
    starts, rows, lengths, offsets, values = runs
    out[:] = 0.0
    for i in range(weights.shape[0]):
        weight = weights[i]
        for r in range(starts[i], starts[i + 1]):
            row, offset = rows[r], offsets[r]
            for j in range(lengths[r]):
                out[row + j] += weight * values[offset + j]


@compiled(nogil=True)
def gram(runs, weights, part, n_parts, out):
    """Add the upper triangle of A diag(weights) A' to out, (R, >= R).

    Of n_parts disjoint sets of rows only one is filled, so that threads never share one.
    """
    starts, rows, lengths, offsets, values = runs
    for i in range(weights.shape[0]):
        weight = weights[i]
        for a in range(starts[i], starts[i + 1]):
            row_a, offset_a, length_a = rows[a], offsets[a], lengths[a]
            if n_parts > 1 and (row_a // length_a) % n_parts != part:
                continue
            for b in range(a, starts[i + 1]):
                row_b, offset_b, length_b = rows[b], offsets[b], lengths[b]
                for j in range(length_a):
                    scaled = weight * values[offset_a + j]
                    for k in range(length_b):
                        out[row_a + j, row_b + k] += scaled * values[offset_b + k]


@compiled()
def gram_dense(runs, dense, weights, first, out):
    """Add the products of the sparse rows with the dense ones, (m, D), which come after these `first` rows."""
    starts, rows, lengths, offsets, values = runs
    n_dense = dense.shape[1]
    for i in range(weights.shape[0]):
        for a in range(starts[i], starts[i + 1]):
            row, offset = rows[a], offsets[a]
            for j in range(lengths[a]):
                scaled = weights[i] * values[offset + j]
                tile = out[row + j, first : first + n_dense]
                for k in range(n_dense):
                    tile[k] += scaled * dense[i, k]


@compiled()
def gram_diagonal(runs, weights, out):
    """Write the products of rows within one run, (R, width): the tiles of a block-diagonal preconditioner."""
    starts, rows, lengths, offsets, values = runs
    out[:] = 0.0
    for i in range(weights.shape[0]):
        for a in range(starts[i], starts[i + 1]):
            row, offset, length = rows[a], offsets[a], lengths[a]
            for j in range(length):
                scaled = weights[i] * values[offset + j]
                for k in range(length):
                    out[row + j, k] += scaled * values[offset + k]


@compiled()
def gather_grouped(groups, z, out):
    """Write A' z, (m,), by one vector of coefficients for each group."""
    starts, rows, widths, values = groups
    coefficients = np.empty(values.shape[1])
    for g in range(rows.shape[0]):
        coefficients[:] = 0.0
        for t in range(widths.shape[0]):
            for j in range(widths[t]):
                coefficients[j] += z[rows[g, t] + j]
        for i in range(starts[g], starts[g + 1]):
            total = 0.0
            for j in range(values.shape[1]):
                total += coefficients[j] * values[i, j]
            out[i] = total


@compiled()
def scatter_grouped(groups, weights, out):
    """Add A weights to out, (R,), by one vector of totals for each group."""
    starts, rows, widths, values = groups
    totals = np.empty(values.shape[1])
    for g in range(rows.shape[0]):
        totals[:] = 0.0
        for i in range(starts[g], starts[g + 1]):
            for j in range(values.shape[1]):
                totals[j] += weights[i] * values[i, j]
        for t in range(widths.shape[0]):
            for j in range(widths[t]):
                out[rows[g, t] + j] += totals[j]


@compiled()
def moments(groups, weights, out):
    """Add the sum of weight * value value' over each group to out, (G, W, W)."""
    starts, values = groups.start, groups.values
    n = values.shape[1]
    for g in range(out.shape[0]):
        for i in range(starts[g], starts[g + 1]):
            for j in range(n):
                scaled = weights[i] * values[i, j]
                for k in range(j, n):
                    out[g, j, k] += scaled * values[i, k]
        for j in range(n):
            for k in range(j):
                out[g, j, k] = out[g, k, j]


@compiled()
def gram_grouped(groups, group_moments, out):
    """Add each group's moments wherever two of its cells meet: the upper triangle of A diag(weights) A'."""
    rows, widths = groups.row, groups.width
    for g in range(rows.shape[0]):
        for a in range(widths.shape[0]):
            for b in range(a, widths.shape[0]):
                for j in range(widths[a]):
                    for k in range(widths[b]):
                        out[rows[g, a] + j, rows[g, b] + k] += group_moments[g, j, k]


@compiled()
def tiles_grouped(groups, group_moments, out):
    """Add each group's moments to the tiles of its cells, (R, W)."""
    rows, widths = groups.row, groups.width
    for g in range(rows.shape[0]):
        for a in range(widths.shape[0]):
            for j in range(widths[a]):
                for k in range(widths[a]):
                    out[rows[g, a] + j, k] += group_moments[g, j, k]


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
