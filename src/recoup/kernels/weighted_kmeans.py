"""Weighted k-means with greedy k-means++ restarts: the non-private algorithm that runs on inferred data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup._threads import n_threads
from recoup.kernels.cells import narrowed, single_precision_error
from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import TILE
from recoup.kernels.nearest import nearest_of_points, reach_of, tiles_of

Array = NDArray[np.float64]


class Clustering(NamedTuple):
    """Centres and the weighted sum of squared distances to them."""

    centers: Array
    inertia: float


def weighted_kmeans(
    points: Array,
    weights: Array,
    n_clusters: int,
    *,
    n_restarts: int,
    rng: np.random.Generator,
    starts: Array | None = None,
    max_iterations: int = 100,
    tolerance: float = 1e-5,
) -> Clustering:
    """The best of several runs of Lloyd's algorithm on weighted points; not more of these than clusters are repeated.

    Runs start from greedy k-means++ centres, or from (s, K, d) given ones; each ends when an iteration improves the
    loss by less than the tolerance, as a part of it.

    Guarantees: K finite centres in the convex hull of the points of positive weight and the starts; the result does not
    depend on the number of threads.
    """
    kept = weights > 0
    points = np.ascontiguousarray(points[kept] if kept.any() else points, dtype=np.float64)
    weights = np.ascontiguousarray(weights[kept] if kept.any() else np.ones(len(points)), dtype=np.float64)
    if len(points) <= n_clusters:
        return Clustering(points[np.arange(n_clusters) % len(points)], 0.0)
    n_starts = 0 if starts is None else len(starts)
    n_candidates = 2 + int(np.log(n_clusters))
    uniforms = rng.random((n_restarts, n_clusters, n_candidates))
    tiles = tiles_of(points)
    error = _lead(points, np.zeros((1, points.shape[1])) if starts is None else starts.reshape(-1, points.shape[1]))

    def run(i: int) -> Clustering:
        if starts is not None and i < n_starts:
            centers = np.array(starts[i], dtype=np.float64)
        else:
            chosen = np.empty(n_clusters, np.int64)
            greedy_plus_plus(tiles, weights, uniforms[i - n_starts], chosen)
            centers = points[chosen]
        inertia = lloyd(points, tiles, weights, error, max_iterations, tolerance, centers)
        return Clustering(centers, inertia)

    n_runs = n_starts + n_restarts
    workers = min(n_threads(), n_runs)
    if workers > 1 and len(points) * n_clusters > 10_000:
        with ThreadPoolExecutor(workers) as pool:
            runs = list(pool.map(run, range(n_runs)))
    else:
        runs = [run(i) for i in range(n_runs)]
    return min(runs, key=lambda clustering: clustering.inertia)


def weighted_inertia(points: Array, weights: Array, centers: Array) -> float:
    """The weighted sum of squared distances of points to their nearest centres."""
    sums, mass = np.empty_like(centers, dtype=np.float64), np.empty(len(centers))
    points, weights = np.ascontiguousarray(points, np.float64), np.ascontiguousarray(weights, np.float64)
    given = (points, tiles_of(points), weights, _lead(points, centers), np.ascontiguousarray(centers))
    return float(_pass(*given, sums, mass, np.zeros(1, np.int64)))


def _lead(points: Array, centers: Array) -> float:
    """What single precision cannot turn round, wherever among points and centres the centres move."""
    reach = max(reach_of(points), reach_of(centers))
    return single_precision_error(np.full((1, points.shape[1]), reach), reach)


@compiled(nogil=True)
def _first_above(ascending, value):
    # np.searchsorted takes two seconds to compile.
    low, high = 0, ascending.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


@compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def greedy_plus_plus(tiles, weights, uniforms, chosen):
    """Write which (k,) points are centres, each the best of some candidates drawn by weight times squared distance.

    The points are tiles, their weights (m,), the uniforms in [0, 1) that draw the candidates (k, candidates).
    """
    m, (n_tiles, d, _) = weights.shape[0], tiles.shape
    k_centers, n_candidates = uniforms.shape
    closest, trial = np.full((n_tiles, TILE), np.float32(np.inf)), np.empty((n_tiles, TILE), np.float32)
    best_closest, cumulative = np.empty((n_tiles, TILE), np.float32), np.empty(m)
    for k in range(k_centers):
        total = 0.0
        for i in range(m):
            total += weights[i] * (1.0 if k == 0 else closest[i // TILE, i % TILE])
            cumulative[i] = total
        best_loss, best = np.inf, 0
        for candidate in range(1 if k == 0 else n_candidates):
            i = _first_above(cumulative, uniforms[k, candidate] * total)
            loss = 0.0
            for t in range(n_tiles):
                distance, before = trial[t], closest[t]
                distance[:] = np.float32(0.0)
                for a in range(d):
                    value, line = tiles[i // TILE, a, i % TILE], tiles[t, a]
                    for b in range(TILE):
                        difference = line[b] - value
                        distance[b] += difference * difference
                for b in range(TILE):
                    distance[b] = min(distance[b], before[b])
                start = t * TILE
                for b in range(min(TILE, m - start)):
                    loss += weights[start + b] * distance[b]
            if loss < best_loss:
                best_loss, best = loss, i
                best_closest, trial = trial, best_closest
        chosen[k] = best
        closest, best_closest = best_closest, closest


@compiled(nogil=True, error_model="numpy")
def lloyd(points, tiles, weights, error, max_iterations, tolerance, centers):
    """Run Lloyd's algorithm in place and return the loss of the centres; an empty cluster moves to the worst point."""
    k_centers, d = centers.shape
    sums, mass = np.empty((k_centers, d)), np.empty(k_centers)
    previous = np.inf
    worst = np.zeros(1, np.int64)
    for _ in range(max_iterations):
        loss = _pass(points, tiles, weights, error, centers, sums, mass, worst)
        if previous - loss <= tolerance * loss:
            break
        previous = loss
        moved = False
        for k in range(k_centers):
            if mass[k] > 0:
                for a in range(d):
                    centers[k, a] = sums[k, a] / mass[k]
            elif not moved:
                for a in range(d):
                    centers[k, a] = points[worst[0], a]
                moved = True
    return _pass(points, tiles, weights, error, centers, sums, mass, worst)


@compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _pass(points, tiles, weights, error, centers, sums, mass, worst):
    d = points.shape[1]
    scratch, cells = np.empty((6, TILE), np.float32), np.empty(TILE, np.int32)
    narrow, halves = narrowed(centers)
    sums[:] = 0.0
    mass[:] = 0.0
    loss, largest = 0.0, -1.0
    for t in range(len(tiles)):
        start = t * TILE
        part = points[start : start + TILE]
        nearest_of_points(part, tiles[t], centers, narrow, halves, error, scratch, cells)
        for b in range(part.shape[0]):
            weight, cell, distance = weights[start + b], cells[b], 0.0
            x, center, total = part[b], centers[cell], sums[cell]
            for a in range(d):
                total[a] += weight * x[a]
            for a in range(d):
                difference = x[a] - center[a]
                distance += difference * difference
            mass[cell] += weight
            loss += weight * distance
            if weight * distance > largest:
                largest = weight * distance
                worst[0] = start + b
    return loss
