"""What the default estimator loses, as a multiple of k-means without privacy: the runs behind several tables.

python -m recoup_lab.studies.default_estimator PART [--data FOLDER] [--seeds N] -o docs/data/PART.json

bounds   bounds that are too tight or too wide, beside the last iterate of DP-KMEANS;
floor    what is left at a large epsilon, also against what Lloyd's iteration on the records reaches from there;
columns  many columns and clusters, with a delta;
noise    Laplace and Gaussian noise side by side.

Public sets are read from a folder; everything else is generated. Simulated noise: nothing here is private.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RECOUP_NUM_THREADS", "1")

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs

from recoup import PrivateKMeans
from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
from recoup_lab.experiments.datasets import SETS, load
from recoup_lab.pages import write_runs
from recoup_lab.rivals.sets import blobs, customers

TOO_WIDE = (0.5, 1, 2, 4, 8, 16)
FLOOR = ("s1", "image_house", "adult", "lifesci", "shop", "overlap", "blobs_16_16")
COLUMNS = (*(f"blobs_{k}_{d}" for d in (4, 16, 64, 128) for k in (4, 16, 64)), "digits", "embedding")
NOISE = (
    *(f"round_{d}" for d in (1, 2, 3, 4, 5, 6, 8, 10)),
    "s1",
    "tiger",
    "image_house",
    "lifesci",
)


def example():
    """The table of the page on bounds."""
    rng = np.random.default_rng(1)
    middles = rng.uniform(-0.8, 0.8, size=(5, 3))
    return np.clip(rng.normal(middles[rng.integers(5, size=10_000)], 0.08), -1, 1), 5, -np.ones(3), np.ones(3)


def embedding():
    """70,000 x 84: ten clusters of unequal size on a ten-dimensional subspace."""
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((84, 10)))[0]
    label = rng.choice(10, 70_000, p=rng.dirichlet(np.full(10, 8.0)))
    latent = 2 * rng.standard_normal((10, 10))[label] + rng.standard_normal((70_000, 10))
    return latent @ basis.T + 0.25 * rng.standard_normal((70_000, 84))


def overlap():
    """26 clusters that overlap, in 16 correlated columns of integers from 0 to 15."""
    rng = np.random.default_rng(5)
    middle = np.clip(rng.normal(7, 1.6, size=(26, 16)), 1, 14)
    load = rng.normal(0, 1.2, size=(26, 3, 16))
    label = rng.choice(26, 20_000)
    factors = np.einsum("nf,nfd->nd", rng.normal(size=(20_000, 3)), load[label])
    return np.clip(np.round(middle[label] + factors + rng.gamma(2, 0.6, size=(20_000, 16))), 0, 15)


def named(name, folder):
    """Records, K and declared bounds; those of public sets and blobs are the ends of the records."""
    if name in SETS:
        data = load(SETS[name], folder)
        return data.rows, data.n_clusters, np.array(data.low), np.array(data.high)
    if name == "shop":
        made = customers()
        return made.rows, made.n_clusters, np.array(made.low), np.array(made.high)
    if name == "digits":
        return load_digits().data, 10, np.zeros(64), np.full(64, 16.0)
    if name == "overlap":
        return overlap(), 26, np.zeros(16), np.full(16, 15.0)
    if name == "embedding":
        x, k = embedding(), 10
    elif name.startswith("round_"):
        x, k = make_blobs(10_000, int(name.removeprefix("round_")), centers=6, random_state=1)[0], 6
    else:
        k, d = (int(value) for value in name.removeprefix("blobs_").split("_"))
        x = blobs(k, d).rows
    return x, k, x.min(axis=0), x.max(axis=0)


def cases(part):
    """Set, epsilon, name of the case and what it changes."""
    if part == "bounds":
        last = {"algorithm": "lloyd", "postprocess": "none"}
        for width in TOO_WIDE:
            yield "example", 0.5, f"default, {width:g}", {"width": width}
            yield "example", 0.5, f"last iterate, {width:g}", {"width": width} | last
    elif part == "floor":
        yield from ((name, epsilon, "default", {}) for name in FLOOR for epsilon in (1, 10, 100))
    elif part == "columns":
        yield from ((name, epsilon, "default", {"delta": "N^-1.1"}) for name in COLUMNS for epsilon in (0.25, 1))
    else:
        for name in NOISE:
            for epsilon in (0.05, 0.25) if name == "image_house" else (0.05, 1) if name == "tiger" else (0.25, 1):
                for law in ("laplace", "gaussian"):
                    yield name, epsilon, law, {"delta": 1e-6, "law": law}


def fitted(x, k, low, high, epsilon, seed, *, width=1.0, law=None, delta=0.0, **choice):
    """A fit, and its seconds of a processor."""
    AdaptiveKMeans.law = classmethod(lambda cls, domain, delta: law) if law else _LAW
    middle, half = (low + high) / 2, (high - low) / 2
    bounds = (middle - width * half, middle + width * half)
    delta = len(x) ** -1.1 if delta == "N^-1.1" else delta
    given = {"delta": delta, "noise": "simulated", "random_state": seed} | choice
    start = time.process_time()
    return PrivateKMeans(k, epsilon, bounds, **given).fit(x).cluster_centers_, time.process_time() - start


def loss(x, centers):
    """The sum of squared distances to the nearest centre."""
    return float(np.min([((x - center) ** 2).sum(axis=1) for center in centers], axis=0).sum())


def runs_of(part, folder, n_seeds):
    """One entry per case, with a value per seed."""
    table, now = None, None
    for name, epsilon, case, terms in cases(part):
        if name != now:
            x, k, low, high = table = example() if name == "example" else named(name, folder)
            unit = 2 * (x - low) / np.where(high > low, high - low, 1) - 1
            best, now = KMeans(k, n_init=10, random_state=0).fit(unit).inertia_, name
            fitted(*table, epsilon, 0, **terms)  # compile before the clock runs
        found = {"multiples": [], "of its own optimum": [], "seconds": []}
        for seed in range(n_seeds):
            centers, seconds = fitted(*table, epsilon, seed, **terms)
            at = 2 * (centers - low) / np.where(high > low, high - low, 1) - 1
            scored = loss(unit, at)
            found["multiples"].append(round(scored / best, 5))
            found["seconds"].append(round(seconds, 2))
            if part == "floor":
                own = KMeans(k, init=at, n_init=1, tol=0, max_iter=1000).fit(unit).inertia_
                found["of its own optimum"].append(round(scored / own, 5))
        size = {"set": name, "n": len(x), "d": x.shape[1], "k": k, "non_private": round(best, 3)}
        yield size | {"epsilon": epsilon, "case": case} | {key: values for key, values in found.items() if values}
        print(f"{name} {epsilon:g} {case}: {np.mean(found['multiples']):.4f}", flush=True)


_LAW = AdaptiveKMeans.law

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("bounds", "floor", "columns", "noise"))
    parser.add_argument("--data", type=Path, help="the folder of the public sets")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    command = f"python -m recoup_lab.studies.default_estimator {given.part} --data FOLDER --seeds {given.seeds}"
    write_runs(given.output, command, list(runs_of(given.part, given.data, given.seeds)))
