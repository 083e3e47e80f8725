"""What it costs that bounds have to be found: `bounds="private"` against true bounds, epsilon 1 in all for both.

The loss is that of all records, unclipped, with columns scaled by their true bounds: what whoever knows these would
score. True bounds are the smallest and the largest value of a column, or, of the generated shop, what somebody would
declare. A folder holds `s1.csv.gz` and `gowalla.csv.gz`. Simulated noise: nothing here is private.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

from recoup import PrivateKMeans
from recoup_lab.pages import write_runs
from recoup_lab.rivals.sets import customers

K = {"s1": 15, "gowalla": 5}


def sets(folder):
    """Name, records, K and true bounds of each set."""
    for name, k in K.items():
        x = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1)
        yield name, x, k, x.min(axis=0), x.max(axis=0)
    shop = customers()
    yield "shop", shop.rows, shop.n_clusters, np.array(shop.low), np.array(shop.high)


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


def study(folder, epsilons, seeds):
    """One entry per set and epsilon."""
    for name, x, k, low, high in sets(folder):
        for epsilon in epsilons:
            runs = [compared(x, k, low, high, epsilon, seed) for seed in seeds]
            size = {"set": name, "n": len(x), "d": x.shape[1], "epsilon": epsilon}
            losses, widths = [float(loss) for loss, _ in runs], [float(width) for _, found in runs for width in found]
            size |= {"seeds": len(runs), "loss": [float(np.median(losses)), max(losses)]}
            yield size | {
                "within 1.10": sum(loss <= 1.1 for loss in losses),
                "widths": [min(widths), float(np.median(widths)), max(widths)],
            }
            print(name, epsilon, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with s1.csv.gz and gowalla.csv.gz")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="docs/data/private-bounds.json")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    first = asked.first_seed
    command = f"python -m recoup_lab.studies.private_bounds --data FOLDER --first-seed {first} --seeds {asked.seeds}"
    write_runs(asked.output, command, list(study(asked.data, asked.epsilons, range(first, first + asked.seeds))))
