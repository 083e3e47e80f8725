"""Records on which a contract is tried: corners, vertices, poles, faces and the centre of a domain, and random ones.

All lie on the grid of 2^-30, as the curator's do. From the best known of them a search climbs, along single columns, up
the slope that these show, and in random directions, to the record whose contribution comes nearest to its bound. It is
a search, not a proof: it can only find that a bound is too small.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recoup.domain import Box, Domain, L1Ball, L2Ball, uniform_points
from recoup.kernels import GRID
from recoup.queries.base import Array, Query, Sensitivity

_MOST_PATTERNS = 81  # all of {-1, 0, 1}^4; in more columns, as many drawn ones
_MOST_AXES = 32
_N_ROWS = 240


def default_domains(n_columns: int) -> dict[str, Domain]:
    """Every kind of domain, with bounds that are not symmetric, and balls that are wider than the unit one."""
    low, high = (tuple(np.linspace(*ends, n_columns)) for ends in ((-3.0, 1.0), (1.5, 7.0)))
    return {
        "Box": Box(low, high),
        "L1Ball": L1Ball(low, high),
        "L2Ball": L2Ball(low, high),
        "L1Ball of radius 1.5": L1Ball(low, high, radius=1.5),
        "L2Ball of radius 1.25": L2Ball(low, high, radius=1.25),
    }


def on_grid(domain: Domain, unit: Array) -> Array:
    """Points moved into the domain and onto the grid, as records are."""
    return domain.fixed(domain.clip(unit)) / GRID


def extreme_records(domain: Domain, rng: np.random.Generator) -> Array:
    """The centre, corners, edges, faces, vertices and poles of a domain, and points just beside them."""
    d = domain.n_columns
    if 3**d <= _MOST_PATTERNS:
        patterns = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=d)))
    else:
        patterns = rng.integers(-1, 2, size=(_MOST_PATTERNS, d)).astype(np.float64)
        corners = 2.0 * rng.integers(0, 2, size=(_MOST_PATTERNS, d)) - 1.0
        patterns = np.concatenate([np.zeros((1, d)), np.ones((1, d)), -np.ones((1, d)), corners, patterns])
    axes = np.eye(d)[: min(d, _MOST_AXES)]
    unit = np.concatenate([patterns, axes, -axes])
    # A hair inside: a step of the grid, and a little more.
    return on_grid(domain, np.concatenate([unit, unit * (1.0 - 2.0**-29), unit * 0.999, unit * 0.5]))


def random_records(domain: Domain, n: int, rng: np.random.Generator) -> Array:
    """Records spread over the domain, half of them on its boundary."""
    inside = uniform_points(domain, n - n // 2, rng)
    outside = rng.standard_normal((n // 2, domain.n_columns)) * 4.0
    return on_grid(domain, np.concatenate([inside, outside]))


def tables(domain: Domain, rng: np.random.Generator) -> dict[str, Array]:
    """Tables in the user's units on which an algorithm is driven: two full ones and three degenerate ones."""
    d = domain.n_columns
    spread = domain.from_unit(uniform_points(domain, _N_ROWS, rng))
    centers = domain.clip(rng.uniform(-1.0, 1.0, size=(3, d)))
    lumps = centers[rng.integers(3, size=_N_ROWS)] + 0.05 * rng.standard_normal((_N_ROWS, d))
    lumps[: _N_ROWS // 3] = 1.0  # a third in one corner, where bounds are met
    return {
        "a table of lumps": domain.from_unit(lumps),
        "a table spread evenly": spread,
        "an empty table": np.empty((0, d)),
        "a table of one record": spread[:1],
        "a table of missing values": np.full((3, d), np.nan),
    }


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
    heights = block_ratios(query.contribution(x.copy()), sensitivity)[np.arange(len(x)), goals]
    return np.where(np.isnan(heights), np.inf, heights)


def _moves(columns: NDArray[np.int64], slopes: Array, rng: np.random.Generator) -> Array:
    """For each climber: along each column, both ways; up its last known slope; and anywhere."""
    m, d = slopes.shape
    axes = np.broadcast_to(np.eye(d)[columns], (m, len(columns), d))
    anywhere = np.broadcast_to(rng.standard_normal((_RANDOM_DIRECTIONS, d)), (m, _RANDOM_DIRECTIONS, d))
    uphill = np.stack([slopes, np.sign(slopes)], axis=1)
    free = np.concatenate([uphill, anywhere], axis=1)
    free = free / np.maximum(np.abs(free).max(axis=2, keepdims=True), 1e-300)
    return np.concatenate([axes, -axes, free], axis=1)
