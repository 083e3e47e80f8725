"""Additive measurements on a support, in the layout that the solver's kernels read.

A tile is `tile_length` rows from `tile_row` on that only the points of one cell touch: its count and its sums, or one
row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack

from recoup.kernels import maxent as kernels
from recoup.queries.base import Partition, RowBlock

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]


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


class Rows:
    """A stack of blocks on a support; `points` and `external` are the caller's numbers in the kernels' order."""

    def __init__(self, blocks: Sequence[RowBlock]) -> None:
        m, sizes = blocks[0].shape[0], [block.shape[1] for block in blocks]
        self.size = sum(sizes)
        starts = np.cumsum(sizes) - sizes
        placed = [(block, start + np.arange(block.shape[1])) for block, start in zip(blocks, starts, strict=True)]
        tiled = [(b, at) for b, at in placed if isinstance(b, Partition) and b.values is not None]
        of_all = [(b, at) for b, at in placed if isinstance(b, np.ndarray)]
        entries = [(b, at) for b, at in placed if isinstance(b, csr_array | Partition) and not _has_sums(b)]
        cells = np.array([block.cells for block, _ in tiled], dtype=np.int64).reshape(len(tiled), m)
        self.points = np.lexsort(cells[::-1]) if tiled else np.arange(m)
        cells = cells[:, self.points]
        changes = np.flatnonzero((cells[:, 1:] != cells[:, :-1]).any(axis=0)) + 1
        start = np.concatenate([[0], changes, [m]]).astype(np.int64)
        n_entries = sum(len(at) for _, at in entries)
        # Partitions may add the same values, as the absolute sums of all rounds do: these stand there once.
        values, columns, first_row, tile = [np.ones((m, 1))], list[int](), n_entries, list[Integers]()
        places = [at for _, at in entries]
        known: dict[int, int] = {}
        for (block, at), of_points in zip(tiled, cells, strict=True):
            added, n = np.asarray(block.values), block.n_cells
            if id(block.values) not in known:
                known[id(block.values)] = sum(part.shape[1] for part in values)
                values.append(added)
            columns.append(known[id(block.values)])
            tile.append(first_row + (1 + added.shape[1]) * of_points[start[:-1]])
            # The caller lists all counts, then all sums; the kernels keep those of a cell together.
            places.append(np.column_stack([at[:n], at[n:].reshape(n, -1)]).ravel())
            first_row += block.shape[1]
        n_own = sum(part.shape[1] for part in values)
        self._n_of_all = sum(len(at) for _, at in of_all)
        self.external = np.concatenate(places + [at for _, at in of_all])
        lines = _entries([block for block, _ in entries], m)[self.points]
        lines.sum_duplicates()
        self._precisions: dict[Any, kernels.Layout] = {}
        self._layout = kernels.Layout(
            start=start,
            tile=np.array(tile, dtype=np.int64).reshape(len(tile), len(start) - 1).T.copy(),
            column=np.array(columns, dtype=np.int64),
            width=np.array([block.shape[1] // block.n_cells - 1 for block, _ in tiled], dtype=np.int64),
            values=np.concatenate([*values, *(block for block, _ in of_all)], axis=1)[self.points],
            n_own=n_own,
            entry=lines.indptr.astype(np.int64),
            entry_row=lines.indices.astype(np.int64),
            entry_value=lines.data.astype(np.float64),
        )
        squared = self._layout.values**2, self._layout.entry_value**2
        self._squares = self._layout._replace(values=squared[0], entry_value=squared[1])

    def gather(self, z: Floats) -> Floats:
        """A' z."""
        out = np.empty(len(self.points))
        kernels.gather(self._layout, z, out)
        return out

    def scatter(self, weights: Floats) -> Floats:
        """A weights."""
        out = np.empty(self.size)
        kernels.scatter(self._layout, weights, out)
        return out

    def squares(self, weights: Floats) -> Floats:
        """The diagonal of A diag(weights) A'."""
        out = np.empty(self.size)
        kernels.scatter(self._squares, weights, out)
        return out

    def gram(self, weights: Floats, chosen: Integers, out: npt.NDArray[np.floating]) -> None:
        """The upper triangle of A diag(weights) A' for chosen rows, in increasing order, in the precision of `out`."""
        layout, place = self._in_precision(out.dtype), np.full(self.size, -1)
        place[chosen] = np.arange(len(chosen))
        kernels.gram(layout, weights.astype(out.dtype), place, out)
        of_all = chosen[chosen >= self.size - self._n_of_all] - self.size
        if n := len(of_all):
            dense = layout.values[:, of_all]
            out[-n:, -n:] = (dense * weights[:, None].astype(out.dtype)).T @ dense

    def _in_precision(self, dtype: Any) -> kernels.Layout:
        if dtype not in self._precisions:
            values, entries = self._layout.values.astype(dtype), self._layout.entry_value.astype(dtype)
            self._precisions[dtype] = self._layout._replace(values=values, entry_value=entries)
        return self._precisions[dtype]


def _has_sums(block: RowBlock) -> bool:
    return isinstance(block, Partition) and block.values is not None


def _entries(blocks: Sequence[Partition | csr_array], m: int) -> csr_array:
    """Counts and sparse rows side by side, (m, rows)."""
    every, lines = np.arange(m + 1), [csr_array((m, 0))]
    for block in blocks:
        counts = isinstance(block, Partition)
        lines.append(csr_array((np.ones(m), block.cells, every), shape=block.shape) if counts else csr_array(block))
    return csr_array(hstack(lines, format="csr"))


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
