"""What a wrong number of records and Gaussian noise do to the default algorithm: multiples of non-private k-means.

python -m recoup_lab.studies.robustness [--seeds 5] -o docs/data/robustness.json. NOT PRIVATE: simulated noise.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RECOUP_NUM_THREADS", "1")

import recoup
from recoup_lab.pages import mean_and_error, write_runs
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
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    runs = []
    for name in args.sets.split(";"):
        x, k = make(name)
        floor = non_private(x, k)
        for epsilon in (float(e) for e in args.epsilons.split(",")):
            for case in args.cases.split(";"):
                terms = {"epsilon": epsilon, "bounds": (-1, 1), "noise": "simulated"} | CASES[case](len(x))
                losses = [
                    loss(x, recoup.PrivateKMeans(k, random_state=seed, **terms).fit(x).cluster_centers_) / floor
                    for seed in range(args.first, args.first + args.seeds)
                ]
                size = {"set": name, "n": len(x), "d": x.shape[1], "k": k, "epsilon": epsilon, "case": case}
                runs.append(size | {"multiple": mean_and_error(losses)})
                print(runs[-1], flush=True)
    given = f"--seeds {args.seeds} --epsilons {args.epsilons} --sets '{args.sets}' --cases '{args.cases}'"
    write_runs(args.output, f"python -m recoup_lab.studies.robustness {given}", runs)


if __name__ == "__main__":
    main()
