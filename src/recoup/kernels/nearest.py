"""The nearest centres of points that are no records: those of inferred data.

As for records, single precision decides wherever its lead is certain, and double precision the rest, so the cell is
always the one that double precision finds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recoup.kernels.cells import narrowed, scores_of_tile
from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import TILE

Array = NDArray[np.float64]


def reach_of(points: Array) -> float:
    """The largest coordinate, in absolute value, of all points."""
    return float(max(points.max(initial=0.0), -points.min(initial=0.0)))


@compiled(nogil=True)
def tiles_of(points):
    """Points, (m, d), in single precision and by column, so that a register holds many.

    (ceil(m / TILE), d, TILE), with one more column of zeros where d is odd.
    """
    m, d = points.shape
    tiles = np.zeros(((m + TILE - 1) // TILE, d + d % 2, TILE), np.float32)
    for i in range(m):
        for j in range(d):
            tiles[i // TILE, j, i % TILE] = points[i, j]
    return tiles


@compiled(nogil=True, error_model="numpy")
def nearest_cells(points, centers, error, cells):
    """Write the index of the nearest of (k, d) centres for each of (n, d) points; ties go to the lowest index.

    `error` is a lead that single precision can be trusted with, for these centres and the points' reach.
    """
    narrow, halves = narrowed(centers)
    scratch, found = np.empty((6, TILE), np.float32), np.empty(TILE, np.int32)
    for start in range(0, points.shape[0], TILE):
        part = points[start : start + TILE]
        nearest_of_points(part, tiles_of(part)[0], centers, narrow, halves, error, scratch, found)
        for b in range(part.shape[0]):
            cells[start + b] = found[b]


@compiled(nogil=True, error_model="numpy")
def nearest_of_points(points, tile, centers, narrow, halves, error, scratch, cells):
    """Write the index of the nearest centre of each of the points of one tile; `scratch` is written over."""
    n_cells, d = centers.shape
    best, rival = scratch[4], scratch[5]
    scores_of_tile(tile, narrow, halves, scratch[:4], best, rival, cells)
    for b in range(points.shape[0]):
        if not rival[b] - best[b] > error:  # also where a score is not a number
            smallest = np.inf
            for k in range(n_cells):
                total = 0.0
                for j in range(d):
                    difference = points[b, j] - centers[k, j]
                    total += difference * difference
                if total < smallest:
                    smallest = total
                    cells[b] = k
