"""Numba kernels for sparse rows of additive measurements, stored point by point.

A support point touches few rows: one cell of every partition. Its entries are kept as *runs*, stretches of
consecutive rows (a cell's count and its sums are one run), so that partitions and general sparse rows share one
format and the inner loops stay contiguous:

    point i owns the runs  run_start[i] <= r < run_start[i+1];
    run r covers the rows  run_row[r] ... run_row[r] + run_length[r] - 1
    with the values        run_value[run_offset[r] : run_offset[r] + run_length[r]].

The rows of one point's runs are increasing, so a Gram matrix needs only pairs of runs a <= b (its upper triangle).
"""

from __future__ import annotations

import numpy as np

from recoup.kernels.compiled import compiled


@compiled(fastmath=False)
def gather(
    run_start,  # IN   (m + 1,)
    run_row,  # IN   (n_runs,)
    run_length,  # IN   (n_runs,)
    run_offset,  # IN   (n_runs,)
    run_value,  # IN   (n_values,)
    z,  # IN   (R,)
    out,  # OUT  (m,): out = A' z
):
    """A' z: what the dual variables say about every point."""
    for i in range(out.shape[0]):
        total = 0.0
        for r in range(run_start[i], run_start[i + 1]):
            row, offset = run_row[r], run_offset[r]
            for j in range(run_length[r]):
                total += z[row + j] * run_value[offset + j]
        out[i] = total


@compiled(fastmath=False)
def scatter(
    run_start,  # IN   (m + 1,)
    run_row,  # IN   (n_runs,)
    run_length,  # IN   (n_runs,)
    run_offset,  # IN   (n_runs,)
    run_value,  # IN   (n_values,)
    weights,  # IN   (m,)
    out,  # OUT  (R,): out = A weights
):
    """A weights: the exact answers of a measure."""
    out[:] = 0.0
    for i in range(weights.shape[0]):
        weight = weights[i]
        for r in range(run_start[i], run_start[i + 1]):
            row, offset = run_row[r], run_offset[r]
            for j in range(run_length[r]):
                out[row + j] += weight * run_value[offset + j]


@compiled(fastmath=False, nogil=True)
def gram(
    run_start,  # IN   (m + 1,)
    run_row,  # IN   (n_runs,)
    run_length,  # IN   (n_runs,)
    run_offset,  # IN   (n_runs,)
    run_value,  # IN   (n_values,)
    weights,  # IN   (m,)
    part,  # IN   which of n_parts disjoint sets of output rows to fill, so that threads never share one
    n_parts,  # IN
    out,  # OUT  (R, >= R): adds the upper triangle of A diag(weights) A'
):
    """Add the part of A diag(weights) A' above the diagonal that belongs to one thread."""
    for i in range(weights.shape[0]):
        weight = weights[i]
        for a in range(run_start[i], run_start[i + 1]):
            row_a, offset_a, length_a = run_row[a], run_offset[a], run_length[a]
            if n_parts > 1 and (row_a // length_a) % n_parts != part:
                continue
            for b in range(a, run_start[i + 1]):
                row_b, offset_b, length_b = run_row[b], run_offset[b], run_length[b]
                for j in range(length_a):
                    scaled = weight * run_value[offset_a + j]
                    for k in range(length_b):
                        out[row_a + j, row_b + k] += scaled * run_value[offset_b + k]


@compiled(fastmath=False)
def gram_dense(
    run_start,  # IN   (m + 1,)
    run_row,  # IN   (n_runs,)
    run_length,  # IN   (n_runs,)
    run_offset,  # IN   (n_runs,)
    run_value,  # IN   (n_values,)
    dense,  # IN   (m, D): rows that every point touches, after the sparse ones
    weights,  # IN   (m,)
    first,  # IN   the number of sparse rows
    out,  # OUT  (R, >= R): adds the products of sparse with dense rows
):
    """Add the products of sparse with dense rows."""
    n_dense = dense.shape[1]
    for i in range(weights.shape[0]):
        for a in range(run_start[i], run_start[i + 1]):
            row, offset = run_row[a], run_offset[a]
            for j in range(run_length[a]):
                scaled = weights[i] * run_value[offset + j]
                tile = out[row + j, first : first + n_dense]
                for k in range(n_dense):
                    tile[k] += scaled * dense[i, k]


@compiled(fastmath=False)
def gram_diagonal(
    run_start,  # IN   (m + 1,)
    run_row,  # IN   (n_runs,)
    run_length,  # IN   (n_runs,)
    run_offset,  # IN   (n_runs,)
    run_value,  # IN   (n_values,)
    weights,  # IN   (m,)
    out,  # OUT  (R, width): out[row + j, k] is the product of the rows row + j and row + k of one run
):
    """The products of rows within one run, for a block-diagonal preconditioner."""
    out[:] = 0.0
    for i in range(weights.shape[0]):
        for a in range(run_start[i], run_start[i + 1]):
            row, offset, length = run_row[a], run_offset[a], run_length[a]
            for j in range(length):
                scaled = weights[i] * run_value[offset + j]
                for k in range(length):
                    out[row + j, k] += scaled * run_value[offset + k]


@compiled(fastmath=False)
def gather_grouped(
    group_start,  # IN   (G + 1,): the points of group g are group_start[g] <= i < group_start[g + 1]
    group_row,  # IN   (G, T): first row of the group's cell in every partition
    width,  # IN   (T,): rows of a cell
    values,  # IN   (m, W): a point's count (1) and its sums
    z,  # IN   (R,)
    out,  # OUT  (m,): out = A' z
):
    """A' z for points grouped by their cells: one vector of coefficients a group."""
    coefficients = np.empty(values.shape[1])
    for g in range(group_row.shape[0]):
        coefficients[:] = 0.0
        for t in range(width.shape[0]):
            for j in range(width[t]):
                coefficients[j] += z[group_row[g, t] + j]
        for i in range(group_start[g], group_start[g + 1]):
            total = 0.0
            for j in range(values.shape[1]):
                total += coefficients[j] * values[i, j]
            out[i] = total


@compiled(fastmath=False)
def scatter_grouped(
    group_start,  # IN   (G + 1,)
    group_row,  # IN   (G, T)
    width,  # IN   (T,)
    values,  # IN   (m, W)
    weights,  # IN   (m,)
    out,  # IN, OUT  (R,): adds A weights
):
    """A weights for points grouped by their cells: one vector of totals a group."""
    totals = np.empty(values.shape[1])
    for g in range(group_row.shape[0]):
        totals[:] = 0.0
        for i in range(group_start[g], group_start[g + 1]):
            for j in range(values.shape[1]):
                totals[j] += weights[i] * values[i, j]
        for t in range(width.shape[0]):
            for j in range(width[t]):
                out[group_row[g, t] + j] += totals[j]


@compiled(fastmath=False)
def moments(
    group_start,  # IN   (G + 1,)
    values,  # IN   (m, W)
    weights,  # IN   (m,)
    out,  # IN, OUT  (G, W, W): adds the sum of weight * value value' over each group
):
    """The second moments of the values in each group."""
    n = values.shape[1]
    for g in range(out.shape[0]):
        for i in range(group_start[g], group_start[g + 1]):
            for j in range(n):
                scaled = weights[i] * values[i, j]
                for k in range(j, n):
                    out[g, j, k] += scaled * values[i, k]
        for j in range(n):
            for k in range(j):
                out[g, j, k] = out[g, k, j]


@compiled(fastmath=False)
def gram_grouped(
    group_row,  # IN   (G, T)
    width,  # IN   (T,)
    group_moments,  # IN   (G, W, W)
    out,  # IN, OUT  (R, >= R): adds the upper triangle of A diag(weights) A'
):
    """Add each group's moments wherever two of its cells meet."""
    for g in range(group_row.shape[0]):
        for a in range(width.shape[0]):
            for b in range(a, width.shape[0]):
                for j in range(width[a]):
                    for k in range(width[b]):
                        out[group_row[g, a] + j, group_row[g, b] + k] += group_moments[g, j, k]


@compiled(fastmath=False)
def tiles_grouped(
    group_row,  # IN   (G, T)
    width,  # IN   (T,)
    group_moments,  # IN   (G, W, W)
    out,  # IN, OUT  (R, W): adds the products of the rows of each cell
):
    """Add each group's moments to the tiles of its cells."""
    for g in range(group_row.shape[0]):
        for a in range(width.shape[0]):
            for j in range(width[a]):
                for k in range(width[a]):
                    out[group_row[g, a] + j, k] += group_moments[g, j, k]


@compiled(fastmath=False)
def center_and_scale(
    scale,  # IN   (R,): multiplies rows and columns
    mean,  # IN   (R,): its outer product is subtracted
    diagonal,  # IN   (R,): is added
    matrix,  # IN, OUT  (R, R): upper triangle
):
    """Turn a Gram matrix into the Hessian: scale, centre, and add a diagonal."""
    n_rows = scale.shape[0]
    for i in range(n_rows):
        for j in range(i, n_rows):
            matrix[i, j] = matrix[i, j] * (scale[i] * scale[j]) - mean[i] * mean[j]
        matrix[i, i] += diagonal[i]


@compiled(fastmath=False)
def factor_tiles(
    tile_row,  # IN   (n_tiles,): first row of every tile
    tile_length,  # IN   (n_tiles,)
    scale,  # IN   (R,): multiplies rows and columns first
    diagonal,  # IN   (R,): is added then
    tiles,  # IN, OUT  (R, width): symmetric tiles become their lower Cholesky factors
):
    """Scale the tiles, add a diagonal, and factor each by Cholesky."""
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


@compiled(fastmath=False)
def solve_tiles(
    tile_row,  # IN   (n_tiles,)
    tile_length,  # IN   (n_tiles,)
    tiles,  # IN   (R, width): lower Cholesky factors
    right,  # IN   (R,)
    out,  # OUT  (R,)
):
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
