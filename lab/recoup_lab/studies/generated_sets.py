"""Accuracy on generated sets unlike the ones that the constants were screened on: multiples of non-private k-means.

python -m recoup_lab.studies.generated_sets [--seeds 3] -o docs/data/generated-sets.json. NOT PRIVATE: simulated noise.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

import recoup
from recoup_lab.pages import write_runs

# name: records, columns, clusters, ratio of the largest to the smallest cluster, spread, tail (degrees of freedom)
SETS = {
    "1 column": (20_000, 1, 4, 1, 0.05, None),
    "few records": (1_000, 2, 3, 1, 0.08, None),
    "plane, 30 clusters": (50_000, 2, 30, 1, 0.03, None),
    "plane, 100 clusters": (200_000, 2, 100, 1, 0.015, None),
    "imbalance 50": (50_000, 3, 8, 50, 0.06, None),
    "heavy tails": (50_000, 4, 6, 3, 0.05, 3),
    "tight clusters": (30_000, 5, 10, 1, 0.01, None),
    "uniform": (30_000, 3, 6, 1, None, None),
    "8 columns": (20_000, 8, 10, 2, 0.08, None),
    "16 columns, 5 clusters": (50_000, 16, 5, 1, 0.1, None),
    "16 columns, 30 clusters": (300_000, 16, 30, 1, 0.08, None),
    "30 columns": (100_000, 30, 6, 2, 0.1, None),
}


def make(name: str) -> tuple[np.ndarray, int]:
    n, d, k, ratio, spread, tail = SETS[name]
    rng = np.random.default_rng([len(name), n, d, k])
    if spread is None:
        return rng.uniform(-1, 1, (n, d)), k
    sizes = np.geomspace(1, ratio, k)
    labels = rng.choice(k, size=n, p=sizes / sizes.sum())
    noise = rng.standard_normal((n, d)) if tail is None else rng.standard_t(tail, (n, d))
    return np.clip(rng.uniform(-0.8, 0.8, (k, d))[labels] + spread * noise, -1, 1), k


def loss(x: np.ndarray, centers: np.ndarray) -> float:
    nearest = np.full(len(x), np.inf)
    for center in centers:
        np.minimum(nearest, ((x - center) ** 2).sum(axis=1), out=nearest)
    return float(nearest.sum())


def non_private(x: np.ndarray, k: int) -> float:
    """The best of scikit-learn's k-means on at most about 50,000 records, scaled to all of them."""
    some = x[:: max(1, len(x) // 50_000)]
    return min(KMeans(k, n_init=5, random_state=s).fit(some).inertia_ for s in (0, 1)) * len(x) / len(some)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", default="0.05,0.25,1")
    parser.add_argument("--sets", default=";".join(SETS), help="names, with ; between them")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    epsilons, runs = [float(e) for e in args.epsilons.split(",")], []
    for name in args.sets.split(";"):
        x, k = make(name)
        floor = non_private(x, k)
        for epsilon in epsilons:
            ours, theirs = [], []
            for seed in range(args.seeds):
                terms = {"epsilon": epsilon, "bounds": (-1, 1), "random_state": seed, "noise": "simulated"}
                ours.append(loss(x, recoup.PrivateKMeans(k, **terms).fit(x).cluster_centers_) / floor)
                plain = recoup.PrivateKMeans(k, algorithm="lloyd", postprocess="none", **terms).fit(x)
                theirs.append(loss(x, plain.cluster_centers_) / floor)
            run = {"set": name, "n": len(x), "d": x.shape[1], "k": k, "epsilon": epsilon}
            found = {"default": ours, "last iterate": theirs}
            runs.append(run | {key: [round(value, 4) for value in values] for key, values in found.items()})
            print(runs[-1], flush=True)
    given = f"--seeds {args.seeds} --epsilons {args.epsilons} --sets '{args.sets}'"
    write_runs(args.output, f"python -m recoup_lab.studies.generated_sets {given}", runs)


if __name__ == "__main__":
    main()
