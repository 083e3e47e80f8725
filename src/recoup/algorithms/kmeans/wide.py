"""Many columns: the plan of the default algorithm, and where its cells lie.

A grid has too many cells there, and marginals do not tell where columns are large together. But a count costs the same
in any number of columns, and clusters are far apart in many: so records are first counted by their direction from the
middle, in many more cells than there are clusters. Hardly two clusters share a cell, most cells are empty, and those
that are not say where sums are worth their price. Each cell with sums is also asked for its spread, which tells how
wide the next ones are.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import pi, sqrt

import numpy as np

from recoup._random import Rng
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.clouds import Clouds
from recoup.maxent.consistency import Rounds
from recoup.maxent.measure import weighted_quantiles
from recoup.queries.base import MAX_SIZE, Array, Integers
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.transcript.context import Context

LOOK_SHARE, COUNTS_SHARE = Fraction(5, 100), Fraction(12, 100)
SPLIT = {"count": Fraction(12, 100), "sum": Fraction(83, 100), "square": Fraction(5, 100)}  # of a round with sums
_MANY_COLUMNS = {"gaussian": 10, "laplace": 32}  # above: Laplace noise of sums grows with their number, not its root
_MOST_CELLS, _CELLS_PER_CLUSTER, _SUMS_PER_CLUSTER = 4096, 24, 3
# N epsilon / (K sqrt(d)) from which on there is a second round with sums before centres settle, and a second after.
_SEARCHED, _SETTLED = 30.0, 300.0
_ADVISED = 16  # columns, beyond which pure epsilon is advised against
_SMALL_DELTA, _USUAL_ROUNDS = Fraction(1, 10**6), 5  # of the comparison with Gaussian noise
_OCCUPIED = 3.0  # deviations of its noise that the count of a cell must have to be asked for sums
_RESTARTS = 40
# A cell wider than so many typical ones is divided into parts, by directions from its mean.
_WIDE, _PARTS, _PART_OFFSET = 2.0, 5, 0.1


def is_wide(context: Context) -> bool:
    """Whether there are many columns, for the noise in use."""
    law = context.mechanism if context.domain.has_grid else "laplace"  # shares of categories are no clouds
    return context.domain.n_columns > _MANY_COLUMNS[law]


def advice(context: Context) -> str | None:
    """Why to allow a delta, where there are many columns and none is allowed."""
    d = context.domain.n_declared  # a category moves two of its coordinates, however many it has
    if context.mechanism != "laplace" or d <= _ADVISED:
        return None
    delta = min(max(_SMALL_DELTA, context.delta), Fraction(1, 100))
    allowed = replace(context, delta=delta, mechanism="gaussian")
    # Of a sum over a cell: Laplace noise is for its L1 norm, some sqrt(2 d / pi) of the L2 norm, and grows with the
    # number of rounds instead of its square root.
    ratio = sqrt(2.0 * d / pi * _USUAL_ROUNDS) * allowed.effective_epsilon() / context.effective_epsilon()
    if ratio < 1.5:
        return None
    return (
        f"{d} columns with pure epsilon: the noise of every mean grows with their number. Gaussian noise, which needs "
        f"a delta above 0 (far below one over the number of records, such as {float(delta):g}), grows with its square "
        f"root only: that of a cell's mean would be some {ratio:.0f} times smaller here."
    )


def counted_cells(context: Context, n_clusters: int, n: float) -> int:
    """How many directions are told apart: where each would hold but its part of all, the noise would drown it."""
    deviation = context.noise.deviation(1.0) * np.sqrt(2.0) / context.effective_epsilon(float(COUNTS_SHARE))
    most = min(_CELLS_PER_CLUSTER * n_clusters, _MOST_CELLS)
    return int(np.clip(n / deviation, min(2 * n_clusters, most), max(most, n_clusters)))


def rounds_with_sums(context: Context, n_clusters: int, n: float) -> list[tuple[Fraction, int]]:
    """The part of what is left, and the number of cells, of each round with sums."""
    k, d = n_clusters, context.domain.n_columns
    strength = n * context.effective_epsilon() / (k * np.sqrt(d))
    most = max(k, min(_SUMS_PER_CLUSTER * k, MAX_SIZE // (2 + d)))
    if strength < _SEARCHED:
        return [(Fraction(2, 5), most), (Fraction(3, 5), k)]
    if strength < _SETTLED:
        return [(Fraction(3, 10), most), (Fraction(3, 10), most), (Fraction(4, 10), k)]
    return [(Fraction(2, 10), most), (Fraction(2, 10), most), (Fraction(3, 10), k), (Fraction(3, 10), k)]


def next_centers(rounds: Rounds, clouds: Clouds, n_cells: int, n_clusters: int, rng: Rng) -> Array:
    """Centres of the cells of the next round: directions first, then those that hold records, at last the clusters."""
    query = as_cells(rounds[-1].query)
    if query is None or (query.n_cells == 1 and query.sums == "none"):
        return _directions(clouds, n_cells, rng)
    counts, deviation = rounds[-1].noisy[: query.n_cells], rounds[-1].noise.deviation(float(rounds[-1].scales[0]))
    places = query.centers if query.sums == "none" else clouds.means
    occupied = int((counts > _OCCUPIED * deviation).sum())
    if n_cells > n_clusters and (query.sums == "none" or occupied >= n_clusters):
        fullest = np.argsort(-counts, kind="stable")
        kept = fullest[: int(np.clip(occupied, min(n_clusters, len(fullest)), n_cells))]
        return places[kept] if query.sums == "none" else _split(clouds, kept, n_cells, rng)
    # There are few means, so that many restarts are cheap.
    coarse = weighted_kmeans(clouds.means, clouds.sizes, n_clusters, n_restarts=_RESTARTS, rng=rng)
    of_points = (clouds.points, clouds.weights, n_clusters)
    centers = weighted_kmeans(*of_points, n_restarts=1, rng=rng, starts=coarse.centers[None]).centers
    return _divided(clouds, centers, rng)


def _divided(clouds: Clouds, centers: Array, rng: Rng) -> Array:
    """Centres, those of clusters that are far wider than others divided: two clusters may have shared all cells."""
    owners, k = VoronoiQuery(centers=centers, sums="none").cells(clouds.means), len(centers)
    sizes = np.asarray(np.bincount(owners, clouds.sizes, minlength=k), dtype=np.float64)
    variances = np.bincount(owners, clouds.sizes * clouds.variances, minlength=k) / np.maximum(sizes, 1e-12)
    wide = variances > _WIDE * weighted_quantiles(variances, sizes, (0.5,))[0]
    most = (MAX_SIZE // (2 + centers.shape[1]) - k) // (_PARTS - 1)
    wide &= np.argsort(np.argsort(-sizes * variances * wide, kind="stable"), kind="stable") < most
    parts = [_parts(centers[cell], float(variances[cell]), _PARTS, rng) for cell in np.flatnonzero(wide)]
    return np.concatenate([centers[~wide], *parts])


def _parts(mean: Array, variance: float, n_parts: int, rng: Rng) -> Array:
    """Centres that divide a cell by the direction from its mean."""
    offsets = rng.standard_normal((n_parts, len(mean)))
    directions = offsets / np.linalg.norm(offsets, axis=1, keepdims=True)
    return np.asarray(mean + _PART_OFFSET * np.sqrt(variance) * directions)


def _split(clouds: Clouds, kept: Integers, n_cells: int, rng: Rng) -> Array:
    """The means of cells; those far wider than others are divided, the heaviest first, as far as cells last."""
    variances, sizes = clouds.variances[kept], clouds.sizes[kept]
    typical = weighted_quantiles(variances, sizes, (0.5,))[0]
    places = []
    left = n_cells - len(kept)
    for cell in kept[np.argsort(-sizes * variances, kind="stable")]:
        mean, variance = clouds.means[cell], float(clouds.variances[cell])
        n_parts = min(_PARTS, left + 1) if variance > _WIDE * typical else 1
        places.append(_parts(mean, variance, n_parts, rng) if n_parts > 1 else mean[None])
        left -= n_parts - 1
    return np.concatenate(places)


def _directions(clouds: Clouds, n_cells: int, rng: Rng) -> Array:
    """Centres in as many directions from the middle of all points, equally far: cells are cones."""
    shares = clouds.weights / clouds.weights.sum()
    middle = shares @ clouds.points
    spread = np.sqrt(float((shares @ (clouds.points - middle) ** 2).sum()))
    offsets = clouds.points[rng.choice(len(shares), size=n_cells, p=shares)] - middle
    # How far along the nearest of so many directions a record lies, in units of its distance from the middle.
    along = min(0.9, np.sqrt(2.0 * np.log(n_cells) / clouds.points.shape[1]))
    length = np.sqrt((offsets**2).sum(axis=1, keepdims=True))
    return np.asarray(middle + along * spread * offsets / np.maximum(length, 1e-12))
