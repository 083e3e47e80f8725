"""Records on which a contract is tried: corners, vertices, poles, faces and the centre of a domain, and random ones.

All lie on the grid of 2^-30, as the curator's do.
"""

from __future__ import annotations

import itertools

import numpy as np

from recoup.domain import Box, Domain, L1Ball, L2Ball, uniform_points
from recoup.kernels import GRID
from recoup.queries.base import Array

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
