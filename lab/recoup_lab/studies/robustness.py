"""What a wrong number of records and Gaussian noise do to the default algorithm: multiples of non-private k-means.

python -m recoup_lab.studies.robustness [--seeds 5] [--epsilons 0.05,0.25,1] [--cases "auto;N;N / 3;3 N;Gaussian"].
NOT PRIVATE: simulated noise. After ± is one standard error over seeds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RECOUP_NUM_THREADS", "1")

import numpy as np

import recoup
from recoup_lab.studies.generated_sets import SETS, loss, make, non_private

# Different numbers of columns, clusters and records, and one set with clusters of very different sizes.
CHOSEN = ("few records", "plane, 30 clusters", "imbalance 50", "heavy tails", "8 columns", "16 columns, 5 clusters")
CASES: dict[str, Callable[[int], dict[str, Any]]] = {
    "auto": lambda n: {},
    "N": lambda n: {"n_records": n},
    "N / 3": lambda n: {"n_records": n // 3},
    "3 N": lambda n: {"n_records": 3 * n},
    "Gaussian": lambda n: {"delta": 1e-6},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epsilons", default="0.05,0.25,1")
    parser.add_argument("--sets", default=";".join(CHOSEN), help=f"names, with ; between them: {'; '.join(SETS)}")
    parser.add_argument("--cases", default=";".join(CASES), help="names, with ; between them")
    args = parser.parse_args()
    cases = args.cases.split(";")
    print(f"| set (N, d, K) | epsilon | {' | '.join(cases)} |")
    print("|---" * (len(cases) + 2) + "|")
    for name in args.sets.split(";"):
        x, k = make(name)
        floor = non_private(x, k)
        for epsilon in (float(e) for e in args.epsilons.split(",")):
            cells = []
            for case in cases:
                terms = {"epsilon": epsilon, "bounds": (-1, 1), "noise": "simulated"} | CASES[case](len(x))
                losses = [
                    loss(x, recoup.PrivateKMeans(k, random_state=seed, **terms).fit(x).cluster_centers_) / floor
                    for seed in range(args.first, args.first + args.seeds)
                ]
                cells.append(f"{np.mean(losses):.3f}±{np.std(losses) / max(1, args.seeds - 1) ** 0.5:.3f}")
            print(f"| {name} ({len(x)}, {x.shape[1]}, {k}) | {epsilon:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
