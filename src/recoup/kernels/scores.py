"""How much worse each candidate set of centres serves each record than the best candidate does, as exact integers.

A private selection sees candidates only through these totals. A record's part in each total is an integer between 0 and
a public cap, whatever the record: that is the sensitivity of the selection, and it needs no real arithmetic to hold.
"""

from __future__ import annotations

import numpy as np

from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import DROPPED, TILE

_STEP = 2.0**-30


@compiled(nogil=True, error_model="numpy")
def excess_totals(
    records,  # IN   (n, d) int32, fixed point
    centers,  # IN   (c, d): every centre that some candidate holds, once
    members,  # IN   (m, k) int64: the centres of each candidate
    factor,  # IN   integer steps for one unit of squared distance
    cap,  # IN   the most that a record adds to a total; at most 2^30
    totals,  # OUT  (m,) int64: sums over records of min(trunc(factor * (loss - smallest loss)), cap)
):
    """Add each record's integer excess loss under every candidate."""
    n, d = records.shape
    n_candidates, n_clusters = members.shape
    tile = np.zeros((d, TILE))
    distances = np.empty((centers.shape[0], TILE))
    losses, smallest, factors = np.empty((n_candidates, TILE)), np.empty(TILE), np.empty(TILE)
    start = 0
    while start < n:
        size = 0
        while start < n and size < TILE:
            if records[start, 0] != DROPPED:
                for j in range(d):
                    tile[j, size] = records[start, j] * _STEP
                size += 1
            start += 1
        for c in range(centers.shape[0]):
            distance, center = distances[c], centers[c]
            for b in range(TILE):
                difference = tile[0, b] - center[0]
                distance[b] = difference * difference
            for j in range(1, d):
                column, value = tile[j], center[j]
                for b in range(TILE):
                    difference = column[b] - value
                    distance[b] += difference * difference
        for b in range(TILE):
            smallest[b] = np.inf
            factors[b] = factor if b < size else 0.0  # places without a record add nothing
        for i in range(n_candidates):
            loss, distance = losses[i], distances[members[i, 0]]
            for b in range(TILE):
                loss[b] = distance[b]
            for k in range(1, n_clusters):
                distance = distances[members[i, k]]
                for b in range(TILE):
                    loss[b] = distance[b] if distance[b] < loss[b] else loss[b]
            for b in range(TILE):
                smallest[b] = loss[b] if loss[b] < smallest[b] else smallest[b]
        for i in range(n_candidates):
            loss, total = losses[i], np.int64(0)
            for b in range(TILE):
                steps = (loss[b] - smallest[b]) * factors[b]
                total += np.int64(steps if steps < cap else cap)
            totals[i] += total
