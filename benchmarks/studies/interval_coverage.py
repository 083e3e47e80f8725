"""How often intervals of the estimate hold the centres and sizes of k-means without noise, on generated sets.

python benchmarks/studies/interval_coverage.py [--fits 200] [--processes 2] [--sets blobs wide unequal]

Each fit is PrivateKMeans at its defaults with fresh simulated noise on the same table. The truth is scikit-learn's
k-means on the table, matched to the fit by the Hungarian method ("near": Lloyd on the table from the fit's own centres,
which tells a wrong interval from another optimum). An interval as wide as half of its column's bounds
counts as a miss. Standard errors are over fits, because the intervals of one fit are not independent.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RECOUP_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from recoup import PrivateKMeans
from recoup.inference.intervals import intervals


@dataclass(frozen=True)
class Setting:
    n: int
    d: int
    k: int
    spreads: tuple[float, ...]
    shares: tuple[float, ...]
    epsilon: float
    delta: float = 0.0
    algorithm: str = "auto"
    postprocess: str = "auto"


_BLOBS = Setting(n=5_000, d=2, k=5, spreads=(0.1,), shares=(1,), epsilon=1.0)
_WIDE = Setting(n=20_000, d=5, k=4, spreads=(0.12,), shares=(1,), epsilon=0.5)
_UNEQUAL = Setting(
    n=10_000, d=3, k=6, spreads=(0.05, 0.08, 0.1, 0.12, 0.15, 0.2), shares=(6, 5, 4, 3, 2, 1), epsilon=1.0
)
_LLOYD = replace(_BLOBS, algorithm="lloyd")
SETTINGS = {
    "blobs": _BLOBS,
    "wide": _WIDE,
    "unequal": _UNEQUAL,
    "gaussian": replace(_BLOBS, delta=1e-6),
    "lloyd": _LLOYD,
    "lloyd-wide": replace(_WIDE, algorithm="lloyd"),
    "lloyd-unequal": replace(_UNEQUAL, algorithm="lloyd"),
    "lloyd-mcmc": replace(_LLOYD, postprocess="mcmc"),
    "lloyd-consistency": replace(_LLOYD, postprocess="consistency"),
}


def table(setting: Setting, seed: int = 0) -> np.ndarray:
    """Round clusters far from each other in the box [-1, 1]^d."""
    rng = np.random.default_rng(seed)
    distance, places = 0.9, []
    while len(places) < setting.k:
        place = rng.uniform(-0.75, 0.75, setting.d)
        if all(np.linalg.norm(place - other) >= distance for other in places):
            places.append(place)
        else:
            distance *= 0.999
    shares = np.broadcast_to(setting.shares, setting.k) / np.broadcast_to(setting.shares, setting.k).sum()
    cluster = rng.choice(setting.k, size=setting.n, p=shares)
    spreads = np.broadcast_to(setting.spreads, setting.k)
    return np.clip(rng.normal(np.array(places)[cluster], spreads[cluster, None]), -1.0, 1.0)


def one_fit(name: str, seed: int, level: float) -> tuple[float, float, float, float, float]:
    """Coverage of centres, near ones and sizes, a median half width, and seconds for the intervals."""
    setting = SETTINGS[name]
    x = table(setting)
    model = PrivateKMeans(
        setting.k,
        setting.epsilon,
        (np.full(setting.d, -1.0), np.full(setting.d, 1.0)),
        delta=setting.delta,
        algorithm=setting.algorithm,
        postprocess=setting.postprocess,
        noise="simulated",
        random_state=seed,
    ).fit(x)
    truth = KMeans(setting.k, n_init=10, random_state=0).fit(x)
    distances = ((model.cluster_centers_[:, None] - truth.cluster_centers_) ** 2).sum(axis=2)
    match = linear_sum_assignment(distances)[1]
    centers, sizes = truth.cluster_centers_[match], np.bincount(truth.labels_, minlength=setting.k)[match]
    began = time.perf_counter()
    found = intervals(model.transcript_, model.inferred_, model.cluster_centers_, level=level, random_state=seed)
    seconds = time.perf_counter() - began
    near = KMeans(setting.k, n_init=1, init=model.cluster_centers_).fit(x).cluster_centers_
    narrow = found.center_high - found.center_low < 1.0
    size_held = (found.size_low <= sizes) & (sizes <= found.size_high) & (found.size_high < setting.n)
    return (
        *(float((narrow & (found.center_low <= c) & (c <= found.center_high)).mean()) for c in (centers, near)),
        float(size_held.mean()),
        float(np.median(found.center_high - found.center_low)) / 2,
        seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first fit")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--sets", nargs="+", default=["blobs", "wide", "unequal"], choices=SETTINGS)
    options = parser.parse_args()
    print("| set | d | K | N | epsilon | fits | centres | near | sizes | half width | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(options.processes) as pool:
        for name in options.sets:
            s, seeds = SETTINGS[name], range(options.first, options.first + options.fits)
            rows = np.array(list(pool.map(one_fit, [name] * options.fits, seeds, [options.level] * options.fits)))
            mean, error = rows.mean(axis=0), rows.std(axis=0) / np.sqrt(len(rows))
            print(
                f"| {name} | {s.d} | {s.k} | {s.n:,} | {s.epsilon:g} | {options.fits} | "
                + " | ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(mean[:3], error[:3], strict=True))
                + f" | {np.median(rows[:, 3]):.4f} | {np.median(rows[:, 4]):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
