"""Private k-means as somebody else might write it, and files of its answers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from recoup.queries.models import MixtureQuery

CENTERS = np.array([[20.0, 60.0], [70.0, 20.0], [60.0, 80.0]])
LOW, HIGH = (0.0, 10.0), (100.0, 90.0)


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(CENTERS[rng.integers(3, size=n)] + rng.normal(0, 4, (n, 2)), LOW, HIGH)


def table():
    return pa.table({"age": people()[:, 0], "hours": people()[:, 1]})


def kmeans_elsewhere(x, *, n_rounds=3, count_scale=3.0, sum_scale=150.0, gaussian=False, seed=1):
    """Private k-means as somebody else might write it: in the columns' own units, with noise of NumPy's."""
    rng = np.random.default_rng(seed)
    draw = rng.normal if gaussian else rng.laplace
    centers, rounds = CENTERS + rng.normal(0, 10, CENTERS.shape), []
    for _ in range(n_rounds):
        nearest = ((x[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        counts = np.bincount(nearest, minlength=3) + draw(0, count_scale, 3)
        sums = np.stack([x[nearest == k].sum(axis=0) for k in range(3)]) + draw(0, sum_scale, (3, 2))
        query = {"type": "voronoi", "centers": centers.tolist(), "sums": "absolute"}
        noisy = {"count": counts.tolist(), "sum": sums.tolist()}
        rounds.append({"query": query, "noisy": noisy, "scale": {"count": count_scale, "sum": sum_scale}})
        centers = np.clip(sums / counts[:, None], LOW, HIGH)
    return rounds, centers


def file_of(rounds, **more):
    bounds = {"age": [0, 100], "hours": [10, 90]}
    return {
        "format": "recoup-foreign", "bounds": bounds, "mechanism": "laplace", "epsilon": 0.5, "units": "user",
        "rounds": rounds,
    } | more  # fmt: skip


GRID = {
    "format": "recoup-foreign", "bounds": [[0, 1]], "mechanism": "laplace", "epsilon": 1,
    "rounds": [{"query": {"type": "grid", "sides": [4]}, "noisy": [10.5, 20.25, 30, -1.5], "scale": 2.0}],
}  # fmt: skip


ONE_COMPONENT = MixtureQuery(
    weights=np.ones(1), means=np.zeros((1, 2)), variances=np.ones(1), radii=np.ones(1), reaches=np.ones(1)
)
