"""How often intervals of the estimate hold the centres and sizes of k-means without noise, on generated sets.

python -m recoup_lab.studies.interval_coverage [--fits 200] [--processes 2] [--sets ...] -o docs/data/intervals.json

Each fit is PrivateKMeans at its defaults with fresh simulated noise on the same table. The truth is scikit-learn's
k-means on the table, matched to the fit by the Hungarian method ("near": Lloyd on the table from the fit's own centres,
which tells a wrong interval from another optimum). "At once": fits in which all simultaneous intervals of near centres
hold, and all of sizes. An interval as wide as half of its column's bounds counts as a miss, one that is withheld as
neither. Standard errors are over fits, because the intervals of one fit are not independent.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RECOUP_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from recoup import PrivateKMeans
from recoup.inference.intervals import Intervals, intervals
from recoup_lab.pages import mean_and_error, write_runs


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
    rough: str = ""  # how records differ from round clusters


_BLOBS = Setting(n=5_000, d=2, k=5, spreads=(0.1,), shares=(1,), epsilon=1.0)
_WIDE = Setting(n=20_000, d=5, k=4, spreads=(0.12,), shares=(1,), epsilon=0.5)
_UNEQUAL = Setting(
    n=10_000, d=3, k=6, spreads=(0.05, 0.08, 0.1, 0.12, 0.15, 0.2), shares=(6, 5, 4, 3, 2, 1), epsilon=1.0
)
_LLOYD = replace(_BLOBS, algorithm="lloyd")
_SURVEY = Setting(n=1_500, d=4, k=3, spreads=(0.25,), shares=(3, 2, 1), epsilon=1.0, rough="integers")
SETTINGS = {
    "spikes": Setting(n=10_000, d=4, k=3, spreads=(0.15,), shares=(3, 2, 1), epsilon=1.0, rough="spikes"),
    "tails": Setting(n=10_000, d=3, k=4, spreads=(0.1,), shares=(4, 3, 2, 1), epsilon=1.0, rough="tails"),
    "survey": _SURVEY,
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
    """Clusters far from each other in the box [-1, 1]^d: round ones, or with spikes, tails or few values."""
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
    x = rng.normal(np.array(places)[cluster], spreads[cluster, None])
    if setting.rough == "spikes":
        # Two columns are zero for most records, in each cluster for a part of its own; one has a spike in the middle.
        zero = rng.random((setting.n, 2)) < np.linspace(0.95, 0.4, setting.k)[cluster, None]
        x[:, :2] = np.where(zero, -1.0, -1.0 + 0.05 * np.exp(rng.normal(size=zero.shape) + cluster[:, None] / 2))
        x[:, 2] = np.where(rng.random(setting.n) < 0.6, 0.13, x[:, 2])
    elif setting.rough == "tails":
        x[:, :2] = -1.0 + 0.03 * np.exp(rng.normal(size=(setting.n, 2)) + cluster[:, None])
        x[:, 2] += spreads[cluster] * rng.standard_t(2, setting.n)
    elif setting.rough == "integers":
        x = np.round(2.0 * x) / 2.0  # answers from 1 to 5
    return np.clip(x, -1.0, 1.0)


def one_fit(name: str, seed: int, level: float) -> tuple[float, ...]:
    """Parts that hold (MEASURES), a median half width, and seconds for the intervals."""
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
    fitted = model.cluster_centers_
    best = KMeans(setting.k, n_init=10, random_state=0).fit(x)
    near = KMeans(setting.k, n_init=1, init=fitted, tol=0.0, max_iter=1000).fit(x)
    match = linear_sum_assignment(((fitted[:, None] - best.cluster_centers_) ** 2).sum(axis=2))[1]
    sizes, near_sizes = (np.bincount(truth.labels_, minlength=setting.k) for truth in (best, near))
    began = time.perf_counter()
    found = intervals(model.transcript_, model.inferred_, fitted, level=level, random_state=seed)
    seconds = time.perf_counter() - began
    together = intervals(model.transcript_, model.inferred_, fitted, level=level, random_state=seed, simultaneous=True)
    return (
        float(np.nanmean(centers_held(found, best.cluster_centers_[match]))),
        float(np.nanmean(centers_held(found, near.cluster_centers_))),
        float(np.nanmean(sizes_held(found, sizes[match], setting.n))),
        float(np.nanmean(sizes_held(found, near_sizes, setting.n))),
        float(np.nanmin(centers_held(together, near.cluster_centers_))),
        float(np.nanmin(sizes_held(together, near_sizes, setting.n))),
        float(np.isnan(found.center_low).mean()),
        float(np.nanmedian(found.center_high - found.center_low)) / 2,
        seconds,
    )


MEASURES = ("centres", "near", "sizes", "near sizes", "centres at once", "sizes at once", "withheld")


def centers_held(found: Intervals, centers: np.ndarray) -> np.ndarray:
    """1 where an interval holds a coordinate and is not wide, else 0; NaN where it is withheld."""
    held = (found.center_low <= centers) & (centers <= found.center_high)
    held &= found.center_high - found.center_low < 1.0
    return np.where(np.isnan(found.center_low), np.nan, held)


def sizes_held(found: Intervals, sizes: np.ndarray, n: int) -> np.ndarray:
    held = (found.size_low <= sizes) & (sizes <= found.size_high) & (found.size_high < n)
    return np.where(np.isnan(found.size_low), np.nan, held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first fit")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--sets", nargs="+", default=["spikes", "tails", "survey"], choices=SETTINGS)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    kept = []
    with ProcessPoolExecutor(options.processes) as pool:
        for name in options.sets:
            s, seeds = SETTINGS[name], range(options.first, options.first + options.fits)
            rows = np.array(list(pool.map(one_fit, [name] * options.fits, seeds, [options.level] * options.fits)))
            run = {"set": name, "d": s.d, "k": s.k, "n": s.n, "epsilon": s.epsilon, "level": options.level}
            columns = [column[np.isfinite(column)].tolist() for column in rows.T]
            run["fits"] = options.fits
            run |= {name: mean_and_error(column) for name, column in zip(MEASURES, columns, strict=False)}
            kept.append(run | {"half width": float(np.median(rows[:, -2])), "seconds": float(np.median(rows[:, -1]))})
            print(kept[-1], flush=True)
    arguments = f"--first {options.first} --fits {options.fits} --sets {' '.join(options.sets)}"
    write_runs(options.output, f"python -m recoup_lab.studies.interval_coverage {arguments}", kept)


if __name__ == "__main__":
    main()
