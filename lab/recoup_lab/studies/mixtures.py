"""Private mixtures: the last iterate, the average of the last half, and a few steps on inferred data.

python -m recoup_lab.studies.mixtures --data FOLDER [--seeds 10] [--first-seed 0] [--epsilons 0.05,0.25,1]
[--delta 1e-6] [--sets blobs tails adult s1]. NOT PRIVATE: simulated noise; bounds of files are computed from records.

Every contestant reads the same transcript. The score is the mean log-likelihood of held-out records (a fifth of each
set), columns scaled to [-1, 1]. A setting is won if the inferred mean is above both others; "seeds" counts the seeds in
which it is above both.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RECOUP_NUM_THREADS", "1")

import numpy as np
from scipy.special import logsumexp

from recoup import GaussianMixture, PrivateGaussianMixture
from recoup.algorithms.mixture import Mixture, log_joint
from recoup.errors import PostprocessDeclined
from recoup_lab.experiments.datasets import SETS, load

Table = tuple[np.ndarray, int]


def blobs(_: Path) -> Table:
    """Six components of equal weight and different width in three columns."""
    rng = np.random.default_rng(2024)
    labels = rng.integers(6, size=25_000)
    means, widths = rng.uniform(-0.75, 0.75, (6, 3)), rng.uniform(0.06, 0.16, 6)
    return np.clip(means[labels] + widths[labels, None] * rng.standard_normal((25_000, 3)), -1, 1), 6


def tails(_: Path) -> Table:
    """Eight components, the largest ten times the smallest, with heavy tails, in five columns."""
    rng = np.random.default_rng(2025)
    sizes = np.geomspace(1, 10, 8)
    labels = rng.choice(8, size=40_000, p=sizes / sizes.sum())
    means, widths = rng.uniform(-0.75, 0.75, (8, 5)), rng.uniform(0.05, 0.15, 8)
    return np.clip(means[labels] + widths[labels, None] * rng.standard_t(5, (40_000, 5)), -1, 1), 8


def from_file(name: str) -> Callable[[Path], Table]:
    """A set of the paper, scaled by the range of its columns."""

    def table(folder: Path) -> Table:
        loaded = load(SETS[name], folder)
        low, high = np.array(loaded.low), np.array(loaded.high)
        return 2.0 * (loaded.rows - low) / (high - low) - 1.0, loaded.n_clusters

    return table


TABLES = {"blobs": blobs, "tails": tails, "adult": from_file("adult"), "s1": from_file("s1")}


def held_out(answer: np.ndarray, x: np.ndarray) -> float:
    """The mean log-likelihood of a (K, 1 + d + 1) answer in scaled columns."""
    mixture = Mixture(answer[:, 0], answer[:, 1:-1], answer[:, -1])
    return float(logsumexp(log_joint(mixture, x), axis=1).mean())


def contest(table: Table, epsilon: float, delta: float, seed: int) -> tuple[float, float, float, bool]:
    """The scores of the last iterate, the average of the last half and the fit, and whether the guard declined."""
    x, k = table
    order = np.random.default_rng(7).permutation(len(x))
    n_train = len(x) * 4 // 5
    train, test = x[order[:n_train]], x[order[n_train:]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PostprocessDeclined)
        model = PrivateGaussianMixture(k, epsilon, (-1.0, 1.0), delta=delta, random_state=seed, noise="simulated").fit(
            train
        )
    context, rounds = model.transcript_.context, model.transcript_.rounds
    algorithm = GaussianMixture(n_components=k, n_rounds=len(rounds))
    iterates = [algorithm.estimate(context, rounds[:end]) for end in range(1, len(rounds) + 1)]
    average = np.mean(iterates[-(len(rounds) // 2) :], axis=0)
    return held_out(iterates[-1], test), held_out(average, test), model.score(test), model.declined_ is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with adult.csv.gz and s1.csv.gz")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilons", default="0.05,0.25,1")
    parser.add_argument("--delta", type=float, default=1e-6, help="0 for Laplace noise")
    parser.add_argument("--sets", nargs="+", default=list(TABLES), choices=list(TABLES))
    args = parser.parse_args()
    print("| set | epsilon | last | average | inferred | seeds | declined | seconds a fit |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.sets:
        table = TABLES[name](args.data)
        for epsilon in map(float, args.epsilons.split(",")):
            start = time.perf_counter()
            seeds = range(args.first_seed, args.first_seed + args.seeds)
            runs = [contest(table, epsilon, args.delta, seed) for seed in seeds]
            seconds = (time.perf_counter() - start) / len(runs)
            last, average, inferred = np.mean([run[:3] for run in runs], axis=0)
            wins = sum(run[2] > max(run[:2]) for run in runs)
            declined = sum(run[3] for run in runs)
            scores = f"{last:.3f} | {average:.3f} | {inferred:.3f}"
            print(f"| {name} | {epsilon:g} | {scores} | {wins} | {declined} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
