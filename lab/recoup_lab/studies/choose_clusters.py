"""How often the suggested number of clusters is right, flagged, or wrong without a word, on generated tables.

python -m recoup_lab.studies.choose_clusters [--seed 0] [--part 0/1] -o docs/data/choose-clusters.json

Tables: 1, 2, 3, 5 and 8 round clusters of unequal size, or none (uniform), in 2, 6 and 12 columns, 800 to 20,000
records, epsilon 0.5, 1 and 5; and surveys of 800 x 12 answers from 1 to 5 in three groups. Half of the fits ask for the
true number, the others for 4 or 6. "before" is the gap statistic alone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from recoup import PrivateKMeans, suggest_clusters
from recoup_lab.pages import read_json, write_runs

SETTINGS = [
    *(
        ("blobs", k, *rest)
        for k in (1, 2, 3, 5, 8)
        for rest in itertools.product((2, 6, 12), (800, 4000, 20_000), (0.5, 1, 5))
    ),
    *(("uniform", 1, *rest) for rest in itertools.product((2, 6, 12), (800, 4000, 20_000), (0.5, 1, 5))),
    *(("survey", 3, 12, 800, epsilon) for epsilon in (0.5, 1, 5) for _ in range(3)),
]


def table(kind: str, k: int, d: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """A table in the box [-1, 1]^d."""
    if kind == "uniform":
        return rng.uniform(-1, 1, (n, d))
    if kind == "survey":
        profiles = rng.uniform(1.5, 4.5, (k, d))
        answers = profiles[rng.integers(k, size=n)] + rng.normal(0, 0.9, (n, d))
        return (np.clip(np.rint(answers), 1, 5) - 3) / 2
    spread = float(rng.choice([0.05, 0.1, 0.15]))
    distance, places = min(6 * spread * max(1, np.sqrt(d) / 2), 0.9), []
    while len(places) < k:
        place = rng.uniform(-0.75, 0.75, d)
        if all(np.linalg.norm(place - other) > distance for other in places):
            places.append(place)
        else:
            distance *= 0.999
    cluster = rng.choice(k, size=n, p=rng.dirichlet(np.full(k, 8.0)))
    return np.clip(rng.normal(np.array(places)[cluster], spread), -1, 1)


def verdict(suggested: int, outcome: str, k: int) -> str:
    """Whether what was said is right."""
    if outcome == "not conclusive":
        return outcome
    if outcome == "at least":
        return "at least, right" if suggested <= k else "at least, too many"
    return "right" if suggested == k else "wrong, unflagged"


def main() -> None:
    """Print one line per fit, and keep the counts; those of other seeds in the file stay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="0/1", help="every n-th setting, such as 1/4")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    first, step = map(int, arguments.part.split("/"))
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for index in range(first, len(SETTINGS), step):
        kind, k, d, n, epsilon = SETTINGS[index]
        rng = np.random.default_rng([arguments.seed, index])
        asked = int(rng.choice([k, k, 4, 6]))
        x = table(kind, k, d, n, rng)
        seed = int(rng.integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PrivateKMeans(asked, epsilon, (-1, 1), noise="simulated", random_state=seed).fit(x)
        # The intervals of the curve are not looked at: one draw is enough.
        curve = suggest_clusters(model.inferred_, transcript=model.transcript_, level=0.5, n_draws=1)
        best = int(np.argmax(curve.gap))
        gap_alone = 1 + int(np.nonzero(curve.gap >= curve.gap[best] - curve.gap_error[best])[0][0])
        said = verdict(curve.suggested, curve.outcome, k)
        before["right" if gap_alone == k else "wrong, unflagged"] += 1
        after[said] += 1
        print(kind, k, d, n, epsilon, f"asked {asked} gap {gap_alone} suggested {curve.suggested}: {said}", flush=True)
    kept = (read_json(arguments.output, "this study") or {"runs": []})["runs"]
    runs = [run for run in kept if run["seed"] != arguments.seed]
    for name, counts in (("gap statistic alone", before), ("held against noise", after)):
        runs.append({"seed": arguments.seed, "tables": counts.total(), "method": name} | dict(counts))
    write_runs(arguments.output, "python -m recoup_lab.studies.choose_clusters --seed 7 --part 0/2", runs)


if __name__ == "__main__":
    main()
