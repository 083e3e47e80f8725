"""How large can a contribution be? A search over the records of a domain for the one that comes nearest to its bound.

It climbs along single columns, up the slope that these show, and in random directions, from the best known records.
It is a search, not a proof: it can only find that a bound is too small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recoup.domain import Domain
from recoup.queries.base import Array, Query, Sensitivity
from recoup.testing.records import on_grid, random_records

_CLIMBERS = 48  # in all, shared by the blocks and norms
_STEPS = 40
_MOST_COLUMNS_TRIED = 8
_RANDOM_DIRECTIONS = 4
_FIRST_STEP = 2.0  # from one side of the domain to the other
_SMALLEST_STEP = 2.0**-20


def block_ratios(rows: Array | csr_array, sensitivity: Sensitivity) -> Array:
    """For each record and block: its contribution over the declared bound, in L1, then in L2: (n, 2 n_blocks)."""
    n, n_blocks = rows.shape[0], len(sensitivity.blocks)
    l1 = np.concatenate([block.l1 for block in sensitivity.blocks])
    l2 = np.concatenate([block.l2 for block in sensitivity.blocks])
    edges = np.cumsum([0] + [block.size for block in sensitivity.blocks])
    if isinstance(rows, np.ndarray):
        first = np.add.reduceat(np.abs(rows / l1), edges[:-1], axis=1)
        second = np.sqrt(np.add.reduceat((rows / l2) ** 2, edges[:-1], axis=1))
        return np.concatenate([first, second], axis=1)
    rows = rows.copy()
    rows.sum_duplicates()
    owner = np.repeat(np.arange(n), np.diff(rows.indptr))
    place = owner * n_blocks + (np.searchsorted(edges, rows.indices, side="right") - 1)
    parts = [np.abs(rows.data / l1[rows.indices]), (rows.data / l2[rows.indices]) ** 2]
    first, second = (np.bincount(place, weights=p, minlength=n * n_blocks).reshape(n, n_blocks) for p in parts)
    return np.concatenate([first, np.sqrt(second)], axis=1)


def worst_records(
    query: Query, domain: Domain, sensitivity: Sensitivity, known: Array, rng: np.random.Generator
) -> Array:
    """For each block and norm, the record that comes nearest to the bound, or breaks it: (2 n_blocks, d)."""
    ratios = block_ratios(query.contribution(known.copy()), sensitivity)
    n_goals, d = ratios.shape[1], domain.n_columns
    each = max(2, _CLIMBERS // n_goals)
    best = np.argsort(-ratios, axis=0, kind="stable")[: each // 2]
    fresh = random_records(domain, each - len(best), rng)
    climbers = np.concatenate([np.concatenate([known[best[:, g]], fresh]) for g in range(n_goals)])
    goals = np.repeat(np.arange(n_goals), len(best) + len(fresh))
    heights = _heights(query, climbers, sensitivity, goals)
    m, everyone = len(climbers), np.arange(len(climbers))
    steps, slopes = np.full(m, _FIRST_STEP), np.zeros((m, d))
    for _ in range(_STEPS):
        if (steps < _SMALLEST_STEP).all():
            break
        columns = np.arange(d) if d <= _MOST_COLUMNS_TRIED else rng.choice(d, _MOST_COLUMNS_TRIED, replace=False)
        moves = _moves(columns, slopes, rng)
        tried = on_grid(domain, climbers[:, None] + steps[:, None, None] * moves)
        reached = _heights(query, tried.reshape(-1, d), sensitivity, np.repeat(goals, moves.shape[1])).reshape(m, -1)
        ahead, back = reached[:, : len(columns)], reached[:, len(columns) : 2 * len(columns)]
        slopes[:, columns] = np.where(np.isfinite(ahead - back), ahead - back, 0.0)
        choice = reached.argmax(axis=1)
        top = reached[everyone, choice]
        higher = top > heights
        climbers[higher] = tried[higher, choice[higher]]
        heights = np.where(higher, top, heights)
        steps = np.where(higher, np.minimum(steps * 1.5, _FIRST_STEP), steps * 0.5)
    winners = [np.flatnonzero(goals == g)[heights[goals == g].argmax()] for g in range(n_goals)]
    return climbers[winners]


def _heights(query: Query, x: Array, sensitivity: Sensitivity, goals: NDArray[np.int64]) -> Array:
    found = block_ratios(query.contribution(x.copy()), sensitivity)[np.arange(len(x)), goals]
    return np.where(np.isnan(found), np.inf, found)


def _moves(columns: NDArray[np.int64], slopes: Array, rng: np.random.Generator) -> Array:
    """For each climber: along each column, both ways; up its last known slope; and anywhere."""
    m, d = slopes.shape
    axes = np.broadcast_to(np.eye(d)[columns], (m, len(columns), d))
    anywhere = np.broadcast_to(rng.standard_normal((_RANDOM_DIRECTIONS, d)), (m, _RANDOM_DIRECTIONS, d))
    uphill = np.stack([slopes, np.sign(slopes)], axis=1)
    free = np.concatenate([uphill, anywhere], axis=1)
    free = free / np.maximum(np.abs(free).max(axis=2, keepdims=True), 1e-300)
    return np.concatenate([axes, -axes, free], axis=1)
