"""Additive measurements on a support, in the layout that the solver's kernels read.

Two layouts share one interface. Where all rounds add the same values of a point (the absolute sums of DP-KMEANS),
points with the same tuple of cells differ only in those: the moments of each group say everything, and a Gram matrix
costs next to nothing. Other mixes are runs. `points` and `external` are the caller's numbers of points and rows in the
kernels' order; a tile is `tile_length` rows from `tile_row` on that only the points of one cell touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from recoup._threads import n_threads
from recoup.kernels import maxent as kernels
from recoup.queries.base import Partition, RowBlock

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = "GroupedRows | RunRows"

_THREADED_WORK = 4_000_000  # products in a Gram matrix below which a second thread does not pay


def dense_rows(blocks: Sequence[RowBlock], n_points: int) -> Floats:
    """The rows of all blocks as one dense array, (n_points, R): for readers that need a point's whole contribution."""
    rows = np.zeros((n_points, sum(block.shape[1] for block in blocks)))
    start, every = 0, np.arange(n_points)
    for block in blocks:
        part = rows[:, start : start + block.shape[1]]
        start += block.shape[1]
        if isinstance(block, np.ndarray):
            part[:] = block
        elif not isinstance(block, Partition):
            part[:] = block.toarray()
        else:
            part[every, block.cells] = 1.0
            for j, values in enumerate(() if block.values is None else block.values.T):
                part[every, block.n_cells + block.cells * (block.shape[1] // block.n_cells - 1) + j] = values
    return rows


def packed(blocks: Sequence[RowBlock]) -> Rows:
    """Choose the layout for a stack of blocks."""
    partitions = [block for block in blocks if isinstance(block, Partition)]
    values = [block.values for block in partitions if block.values is not None]
    if len(partitions) == len(blocks) and all(v is values[0] for v in values):
        return GroupedRows(partitions, values[0] if values else None)
    return RunRows(blocks)


class GroupedRows:
    """Partitions that add the same values of a point, or its count alone: points grouped by their tuple of cells."""

    def __init__(self, blocks: Sequence[Partition], values: Floats | None) -> None:
        m = blocks[0].shape[0]
        cells = np.stack([block.cells for block in blocks], axis=1).astype(np.int64)
        self.points = np.lexsort(cells.T[::-1])
        cells = cells[self.points]
        changes = np.flatnonzero((cells[1:] != cells[:-1]).any(axis=1)) + 1
        start = np.concatenate([[0], changes, [m]]).astype(np.int64)
        counted = np.ones((m, 1 if values is None else 1 + values.shape[1]))
        if values is not None:
            counted[:, 1:] = values[self.points]
        width = np.array([block.shape[1] // block.n_cells for block in blocks])
        sizes = np.array([block.shape[1] for block in blocks])
        first = np.cumsum(sizes) - sizes
        self._groups = kernels.Groups(start, first + width * cells[start[:-1]], width, counted)
        self.size = int(sizes.sum())
        self.external, self.tile_row, self.tile_length = _in_kernels_order(blocks, first)

    def gather(self, z: Floats) -> Floats:
        """A' z."""
        out = np.empty(len(self.points))
        kernels.gather_grouped(self._groups, z, out)
        return out

    def scatter(self, weights: Floats) -> Floats:
        """A weights."""
        out = np.zeros(self.size)
        kernels.scatter_grouped(self._groups, weights, out)
        return out

    def gram(self, weights: Floats, out: Floats) -> None:
        """The upper triangle of A diag(weights) A'."""
        out[:] = 0.0
        kernels.gram_grouped(self._groups, self._moments(weights), out)

    def tiles(self, weights: Floats) -> Floats:
        """The products of rows of the same cell, one tile per cell."""
        out = np.zeros((self.size, self._groups.values.shape[1]))
        kernels.tiles_grouped(self._groups, self._moments(weights), out)
        return out

    def _moments(self, weights: Floats) -> Floats:
        width = self._groups.values.shape[1]
        moments = np.zeros((len(self._groups.row), width, width))
        kernels.moments(self._groups, weights, moments)
        return moments


class RunRows:
    """Any mix of blocks: sparse rows as runs, points sorted by cell, then the dense rows."""

    def __init__(self, blocks: Sequence[RowBlock]) -> None:
        m = blocks[0].shape[0]
        self.points = _sorted_by_cells(blocks, m)
        sizes = np.array([block.shape[1] for block in blocks])
        self.size = int(sizes.sum())
        dense_last = sorted(range(len(blocks)), key=lambda i: isinstance(blocks[i], np.ndarray))
        self.external, self.tile_row, self.tile_length = _in_kernels_order(
            [blocks[i] for i in dense_last], (np.cumsum(sizes) - sizes)[dense_last]
        )
        pieces, self.n_sparse = [], 0
        for block in blocks:
            if not isinstance(block, np.ndarray):
                pack = _pack_partition if isinstance(block, Partition) else _pack_sparse
                pieces.append(pack(block, self.points, self.n_sparse))
                self.n_sparse += block.shape[1]
        dense = [block for block in blocks if isinstance(block, np.ndarray)]
        self.dense = np.empty((m, self.size - self.n_sparse))
        if dense:
            self.dense = np.concatenate(dense, axis=1, out=self.dense)[self.points]
        self.runs = _interleave(pieces, m)
        work = np.add.reduceat(self.runs.length, self.runs.start[:-1]).astype(float) ** 2 if pieces else np.zeros(1)
        self.n_threads = n_threads() if work.sum() > 2 * _THREADED_WORK else 1

    def gather(self, z: Floats) -> Floats:
        """A' z."""
        out = np.empty(len(self.points))
        kernels.gather(self.runs, z[: self.n_sparse], out)
        return out + self.dense @ z[self.n_sparse :] if self.dense.shape[1] else out

    def scatter(self, weights: Floats) -> Floats:
        """A weights."""
        out = np.empty(self.size)
        kernels.scatter(self.runs, weights, out[: self.n_sparse])
        if self.dense.shape[1]:
            out[self.n_sparse :] = weights @ self.dense
        return out

    def gram(self, weights: Floats, out: Floats) -> None:
        """The upper triangle of A diag(weights) A'."""
        out[:] = 0.0
        if self.n_threads == 1:
            kernels.gram(self.runs, weights, 0, 1, out)
        else:
            with ThreadPoolExecutor(self.n_threads) as pool:
                parts = range(self.n_threads)
                list(pool.map(lambda part: kernels.gram(self.runs, weights, part, self.n_threads, out), parts))
        if self.dense.shape[1]:
            kernels.gram_dense(self.runs, self.dense, weights, self.n_sparse, out)
            out[self.n_sparse :, self.n_sparse :] = (self.dense * weights[:, None]).T @ self.dense

    def tiles(self, weights: Floats) -> Floats:
        """The products of rows of the same cell, one tile per cell."""
        out = np.zeros((self.size, int(self.tile_length.max(initial=1))))
        kernels.gram_diagonal(self.runs, weights, out[: self.n_sparse])
        out[self.n_sparse :, 0] = weights @ self.dense**2
        return out


class _Piece(NamedTuple):
    """The runs of one block: how many a point has, then their rows, lengths and values."""

    per_point: Integers
    row: Integers
    length: Integers
    value: Floats


def _sorted_by_cells(blocks: Sequence[RowBlock], m: int) -> Integers:
    """An order of the points in which neighbours share cells, which keeps Gram tiles in cache."""
    key, room = np.zeros(m, np.int64), 2**62
    for block in blocks:
        if isinstance(block, Partition):
            room //= block.n_cells
            if room == 0:
                break
            key = key * block.n_cells + block.cells
    return np.argsort(key, kind="stable")


def _in_kernels_order(blocks: Sequence[RowBlock], starts: Integers) -> tuple[Integers, Integers, Integers]:
    """The caller's number of each of the kernels' rows, then the first row and the length of each tile.

    The caller, whose blocks start at these rows, lists all counts, then all sums; the kernels keep a cell's together.
    """
    external, lengths = [], []
    for block, start in zip(blocks, starts, strict=True):
        k = block.n_cells if isinstance(block, Partition) else block.shape[1]
        counts_then_sums = start + np.arange(block.shape[1])
        external.append(np.column_stack([counts_then_sums[:k], counts_then_sums[k:].reshape(k, -1)]).ravel())
        lengths.append(np.full(k, block.shape[1] // k))
    length = np.concatenate(lengths)
    return np.concatenate(external), np.cumsum(length) - length, length


def _pack_partition(block: Partition, points: Integers, first: int) -> _Piece:
    m, width = len(points), block.shape[1] // block.n_cells
    value = np.ones((m, width))
    if block.values is not None:
        value[:, 1:] = block.values[points]
    row = first + width * block.cells[points].astype(np.int64)
    return _Piece(per_point=np.ones(m, np.int64), row=row, length=np.full(m, width), value=value.ravel())


def _pack_sparse(block: csr_array, points: Integers, first: int) -> _Piece:
    lines = csr_array(block)[points]
    lines.sum_duplicates()
    return _Piece(
        per_point=np.diff(lines.indptr).astype(np.int64),
        row=first + lines.indices.astype(np.int64),
        length=np.ones(lines.nnz, np.int64),
        value=lines.data.astype(np.float64),
    )


def _interleave(pieces: Sequence[_Piece], m: int) -> kernels.Runs:
    """Turn runs listed block by block into runs listed point by point."""
    empty = np.zeros(0, np.int64)
    row = np.concatenate([empty, *(p.row for p in pieces)])
    length = np.concatenate([empty, *(p.length for p in pieces)])
    start = np.concatenate([[0], np.cumsum(sum((p.per_point for p in pieces), np.zeros(m, np.int64)))])
    if all(bool(np.all(p.per_point == 1)) for p in pieces):
        order = np.arange(len(row)).reshape(len(pieces), m).T.ravel()
        by_point = [p.value.reshape(m, -1) for p in pieces]
        value = np.concatenate([np.zeros((m, 0)), *by_point], axis=1).ravel()
        offset = np.cumsum(length[order]) - length[order]
    else:
        order = np.argsort(np.concatenate([np.repeat(np.arange(m), p.per_point) for p in pieces]), kind="stable")
        value = np.concatenate([np.zeros(0), *(p.value for p in pieces)])
        offset = (np.cumsum(length) - length)[order]
    return kernels.Runs(start, row[order], length[order], offset, value)


def merged_by_signature(blocks: Sequence[RowBlock], base: Floats) -> tuple[list[RowBlock], Floats, Integers]:
    """Merge points that lie in the same cells throughout: counts cannot tell them apart."""
    partitions = [block for block in blocks if isinstance(block, Partition)]
    groups = np.zeros(len(base), np.int64)
    for block in partitions:
        groups = np.unique(groups * (int(block.cells.max()) + 1) + block.cells, return_inverse=True)[1]
    members = np.zeros(int(groups.max()) + 1, np.int64)
    members[groups] = np.arange(len(base))
    merged: list[RowBlock] = [Partition(cells=b.cells[members], n_cells=b.n_cells) for b in partitions]
    return merged, np.asarray(np.bincount(groups, weights=base), np.float64), groups
