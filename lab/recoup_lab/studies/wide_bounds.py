"""Bounds several times as wide as the data: is mass that noise alone made taken for a cluster?

The default algorithm with and without the test of `recoup.maxent.sizes`, on the same seeds, as multiples of
k-means without privacy. Records fill about a sixth of each column's bounds. Simulated noise: nothing here is private.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from recoup import PrivateKMeans
from recoup.maxent import sizes
from recoup_lab.pages import write_runs

SETS = (  # columns, records, clusters, epsilon
    (1, 3000, 3, 0.5),
    (1, 6000, 2, 1.0),
    (2, 5000, 3, 0.25),
    (2, 20_000, 5, 1.0),
    (5, 3000, 4, 1.0),
    (5, 20_000, 4, 0.25),
    (10, 20_000, 3, 1.0),
)


def crowded(d, n, k, rng):
    """Tight clusters in the lowest sixth of the unit cube."""
    centers = rng.uniform(0.03, 0.2, size=(k, d))
    return np.clip(centers[rng.integers(k, size=n)] + rng.normal(0, 0.01, size=(n, d)), 0, 1)


def multiples(d, n, k, epsilon, n_seeds, *, test):
    """The loss of each seed, with or without the test."""
    sizes._SMALL = _SMALL if test else 0.0
    found = []
    for seed in range(n_seeds):
        x = crowded(d, n, k, np.random.default_rng(1000 + seed))
        best = KMeans(k, n_init=10, random_state=0).fit(2 * x - 1).inertia_
        model = PrivateKMeans(k, epsilon, (0, 1), random_state=seed, noise="simulated").fit(x)
        found.append(-model.score(x) / best)
    return found


def kept(values):
    """Median, worst, and how many lost more than a tenth."""
    return {"median": float(np.median(values)), "worst": max(values), "over": sum(value > 1.1 for value in values)}


_SMALL = sizes._SMALL

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, required=True, help="docs/data/wide-bounds.json")
    given = parser.parse_args()
    runs = []
    for d, n, k, epsilon in SETS:
        without, tested = (multiples(d, n, k, epsilon, given.seeds, test=test) for test in (False, True))
        runs.append({"d": d, "n": n, "k": k, "epsilon": epsilon})
        runs[-1] |= {"seeds": given.seeds, "without": kept(without), "with": kept(tested)}
        print(runs[-1], flush=True)
    write_runs(given.output, f"python -m recoup_lab.studies.wide_bounds --seeds {given.seeds}", runs)
