"""What it costs that bounds have to be found: `bounds="private"` against true bounds, epsilon 1 in all for both.

The loss is that of all records, unclipped, with columns scaled by their true bounds: what whoever knows these would
score. True bounds are the smallest and the largest value of a column, or, of the generated shop, what somebody would
declare. A folder holds `s1.csv.gz`, `gowalla.csv.gz` and `tables.py`, which generates the shop. Simulated noise:
nothing here is private.
"""

import argparse
import importlib.util
import warnings
from pathlib import Path

import numpy as np

from recoup import PrivateKMeans

K = {"s1": 15, "gowalla": 5}


def sets(folder, generators):
    """Name, records, K and true bounds of each set."""
    for name, k in K.items():
        x = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1)
        yield name, x, k, x.min(axis=0), x.max(axis=0)
    spec = importlib.util.spec_from_file_location("tables", generators)
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    yield "shop", *tables.named("shop")


def loss(x, centers, low, high):
    """The sum of squared distances to the nearest centre, columns scaled to [-1, 1]."""
    unit, centers = (2 * (v - low) / (high - low) - 1 for v in (x, centers))
    return np.min([((unit - center) ** 2).sum(axis=1) for center in centers], axis=0).sum()


def compared(x, k, low, high, epsilon, seed):
    """The loss with private bounds as a multiple of that with true ones, and how wide the found ranges are."""
    given = {"epsilon": epsilon, "random_state": seed, "noise": "simulated"}
    known = PrivateKMeans(k, bounds=(low, high), **given).fit(x)
    found = PrivateKMeans(k, bounds="private", **given).fit(x)
    widths = [(column.high - column.low) for column in found.bounds_.values()] / (high - low)
    ratio = loss(x, found.cluster_centers_, low, high) / loss(x, known.cluster_centers_, low, high)
    return ratio, widths


def study(folder, generators, epsilons, seeds):
    """One line for each set and epsilon."""
    print("| set | epsilon | seeds | loss: median | worst | within 1.10 | width: least | median | largest |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, x, k, low, high in sets(folder, generators):
        for epsilon in epsilons:
            runs = [compared(x, k, low, high, epsilon, seed) for seed in seeds]
            ratios, widths = np.array([r for r, _ in runs]), np.concatenate([w for _, w in runs])
            print(
                f"| {name} | {epsilon:g} | {len(ratios)} | {np.median(ratios):.3f} | {ratios.max():.3f} "
                f"| {(ratios <= 1.1).sum()} of {len(ratios)} | {widths.min():.2f} | {np.median(widths):.2f} "
                f"| {widths.max():.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with s1.csv.gz and gowalla.csv.gz")
    parser.add_argument("--generators", type=Path, required=True, help="tables.py, which generates the shop")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    first = asked.first_seed
    study(asked.data, asked.generators, asked.epsilons, range(first, first + asked.seeds))
