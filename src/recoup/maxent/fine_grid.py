"""Fine grids, read in as few rows as the solver can take.

A grid may have a million cells, most of them empty and some of them outside the domain. Cells that no record can reach
hold noise alone and are left out. The rest is read in blocks of whole cells, whose sums are measurements like any
other. In few columns, bins are merged alike along each of them. In more columns that would leave one or two bins a
column; there, blocks are small where the released counts are high, and large where there is nothing.
"""

from __future__ import annotations

import heapq
from math import prod

import numpy as np
from numpy.typing import NDArray

from recoup.domain import Domain
from recoup.queries.base import Array, Partition
from recoup.queries.counts import GridQuery
from recoup.transcript.round import Round

_MOST_ROWS = 600
_MERGED_COLUMNS = 3
# Records are kept inside a ball by a little less than this part of its radius: a cell that only touches it is empty.
_INSIDE = 1.0 - 2.0**-42


def reachable_cells(query: GridQuery, domain: Domain) -> NDArray[np.bool_]:
    """For each cell of a grid, whether the domain allows a record in it: if not, its exact count is 0 in any data."""
    kind, radius = domain.shape()
    if kind == 0:
        return np.ones(query.size, dtype=np.bool_)
    # The norm of the point of each cell that is nearest to the origin, summed up column by column.
    nearest = np.zeros(1)
    for side in query.sides:
        edge = np.maximum(np.abs((2.0 * np.arange(side) + 1.0) / side - 1.0) - 1.0 / side, 0.0)
        nearest = (nearest[:, None] + (edge if kind == 1 else edge**2)).ravel()
    return np.asarray((nearest if kind == 1 else np.sqrt(nearest)) <= radius * _INSIDE)


def coarse_cells(query: GridQuery, counts: Array, n_blocks: int) -> NDArray[np.int64]:
    """The block of each cell when a grid with such counts is read in at most so many; its own where these suffice."""
    if query.size <= n_blocks:
        return np.arange(query.size)
    if query.n_columns > _MERGED_COLUMNS:
        return blocks_of_cells(counts.reshape(query.sides), n_blocks)
    merge = 1
    while prod(-(-side // merge) for side in query.sides) > n_blocks:
        merge += 1
    index = np.stack(np.unravel_index(np.arange(query.size), query.sides))
    coarse_sides = [-(-side // merge) for side in query.sides]
    return np.asarray(np.ravel_multi_index(tuple(index // merge), coarse_sides), dtype=np.int64)


def blocks_of_cells(counts: Array, n_blocks: int) -> NDArray[np.int64]:
    """Group the cells of a grid into boxes of similar weight.

    The heaviest block is cut in two across its longest side, where half of its weight lies, until there are enough
    blocks or every block is empty or a single cell. Cells are listed last column fastest.
    """
    whole: tuple[tuple[int, int], ...] = tuple((0, side) for side in counts.shape)
    open_blocks = [(-float(counts.sum()), 0, whole)]
    closed: list[tuple[tuple[int, int], ...]] = []
    n_made = 1
    while open_blocks and len(open_blocks) + len(closed) < n_blocks:
        weight, _, box = heapq.heappop(open_blocks)
        widths = [high - low for low, high in box]
        if weight == 0.0 or max(widths) == 1:
            closed.append(box)
            continue
        axis = int(np.argmax(widths))
        others = tuple(a for a in range(counts.ndim) if a != axis)
        inside = counts[tuple(slice(*ends) for ends in box)]
        below = np.cumsum(inside.sum(axis=others))
        cut = int(np.clip(np.searchsorted(below, below[-1] / 2.0) + 1, 1, widths[axis] - 1))
        low, high = box[axis]
        for ends, part in (((low, low + cut), below[cut - 1]), ((low + cut, high), below[-1] - below[cut - 1])):
            heapq.heappush(open_blocks, (-float(max(part, 0.0)), n_made, (*box[:axis], ends, *box[axis + 1 :])))
            n_made += 1
    labels = np.empty(counts.shape, dtype=np.int64)
    for block, box in enumerate([*closed, *(item[2] for item in sorted(open_blocks))]):
        labels[tuple(slice(*ends) for ends in box)] = block
    return labels.ravel()


def coarse_rows(
    domain: Domain, query: GridQuery, answered: Round, points: Array, total: float
) -> tuple[Partition, Array, Array]:
    """The rows of a grid on a support, with what was measured in each of their blocks and the scale of its noise."""
    reachable, noisy = reachable_cells(query, domain), answered.noisy
    blocks = coarse_cells(query, likely_counts(domain, query, noisy, total), _MOST_ROWS)
    sums = np.bincount(blocks[reachable], noisy[reachable], minlength=query.size)
    n_merged = np.bincount(blocks[reachable], minlength=query.size)
    used, cells = np.unique(blocks[query.marginal.cells(points)], return_inverse=True)
    # The sum of several noises is treated as one of the same kind with the same variance. Rounding can put a point of
    # the domain's edge into a cell that no record reaches: its row is a count of nothing.
    scale = float(answered.scales[0]) * np.sqrt(np.maximum(n_merged[used], 1))
    if answered.imported is not None:
        squares = np.bincount(blocks[reachable], answered.scales[reachable] ** 2, minlength=query.size)
        scale = np.sqrt(np.maximum(squares[used], answered.scales.min() ** 2))
    return Partition(cells=cells.ravel(), n_cells=len(used)), np.asarray(sums[used], np.float64), scale


def likely_counts(domain: Domain, query: GridQuery, noisy: Array, total: float) -> Array:
    """Counts of a grid's cells that are not negative and add up to the total; none where no record can be."""
    reachable = reachable_cells(query, domain)
    counts = np.zeros(len(noisy))
    counts[reachable] = denoised(noisy[reachable], total)
    return counts


def denoised(noisy: Array, total: float) -> Array:
    """The nearest counts that are not negative and add up to the total.

    >>> denoised(np.array([3.0, -1.0, 2.0]), 4.0)
    array([2.5, 0. , 1.5])
    """
    descending = -np.sort(-noisy)
    shifts = (np.cumsum(descending) - total) / np.arange(1, noisy.size + 1)
    return np.asarray(np.maximum(noisy - shifts[np.nonzero(descending > shifts)[0][-1]], 0.0))
