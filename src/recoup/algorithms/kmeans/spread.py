"""Initial centres that do not look at the data: spread out by rejection, in a box or in a ball."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from recoup.domain import Domain, unclipped_points, uniform_points
from recoup.queries.base import Array

_TRIES = 100
_BISECTIONS = 20


def spread_centers(domain: Domain, n_clusters: int, rng: np.random.Generator) -> Array:
    """Draw centres far from each other, without data.

    In a box: the sphere packing of Su et al. (CODASPY 2016): points at least r from the walls and 2r from each other,
    r halved whenever 100 draws in a row fail. In a ball: uniform points with the largest pairwise distance for which
    such draws succeed, found by bisection.

    Args:
        domain: the unit domain to fill.
        n_clusters: how many.
        rng: harmless randomness.

    Returns:
        (n_clusters, d) points of the unit domain.

    >>> from recoup.domain import Box
    >>> spread_centers(Box([0, 0], [1, 1]), 4, np.random.default_rng(0)).shape
    (4, 2)
    """
    if domain.kind == "box":
        radius = 1.0
        while (centers := _packed_in_box(domain.n_columns, n_clusters, radius, rng)) is None:
            radius /= 2.0
        return centers
    best = uniform_points(domain, n_clusters, rng)
    low, high = 0.0, 2.0 * float(np.sqrt(domain.n_columns))
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        centers = _apart(lambda n: unclipped_points(domain, n, rng), n_clusters, middle)
        if centers is None:
            high = middle
        else:
            best, low = domain.clip(centers), middle
    return best


def _packed_in_box(d: int, n_clusters: int, radius: float, rng: np.random.Generator) -> Array | None:
    inner = 1.0 - radius
    return _apart(lambda n: rng.uniform(-inner, inner, size=(n, d)), n_clusters, 2.0 * radius)


def _apart(draw, n_clusters: int, distance: float) -> Array | None:  # type: ignore[no-untyped-def]
    first = draw(1)
    centers = np.empty((n_clusters, first.shape[1]))
    centers[0] = first[0]
    for k in range(1, n_clusters):
        candidates = draw(_TRIES)
        fits = np.flatnonzero(cdist(candidates, centers[:k]).min(axis=1) >= distance)
        if fits.size == 0:
            return None
        centers[k] = candidates[fits[0]]
    return centers
