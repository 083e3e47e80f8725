"""Two transcripts of epsilon / 2 read together, against each half alone and each part at the full epsilon.

python -m recoup_lab.studies.joint [--data FOLDER] [--sets s1,adult] [--epsilons 0.05,0.25,1] [--seeds 0:10]
[--json FILE]. All contestants of a seed share the same halves. Losses are multiples of non-private k-means in the
user's metric (Box). NOT PRIVATE: simulated noise, and bounds of the files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import t as student
from sklearn.cluster import KMeans as PlainKMeans

import recoup
from recoup.algorithms.kmeans.grid import records_known, total_request
from recoup.algorithms.kmeans.lloyd import spread_centers
from recoup.queries.base import Array
from recoup.queries.counts import HistogramQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round
from recoup_lab.experiments.datasets import SETS, load
from recoup_lab.experiments.scoring import wcss

PAIRS = {
    "grid + DP-KMEANS": ("grid", "lloyd"),
    "grid + adaptive": ("grid", "adaptive"),
    "histograms + DP-KMEANS": ("histograms", "lloyd"),
    "histograms + adaptive": ("histograms", "adaptive"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms:
    """A count of the records for a sliver, then every column's histogram with about as many bins as the noise bears."""

    n_clusters: int

    type_name: ClassVar[str] = "study-histograms"

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        if len(rounds) > 1:
            return None
        first = total_request(context)
        if not rounds:
            return first
        d = context.domain.n_columns
        strength = records_known(context, rounds) * float(context.epsilon)
        bins = int(np.clip(2 * np.sqrt(strength / (2 * d)), 4, 64))
        query = HistogramQuery.one_way(dimension=d, bins=bins)
        return Request(query=query, share=1 - first.share, split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        return spread_centers(context.domain, self.n_clusters, np.random.default_rng(0))

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type_name, "n_clusters": self.n_clusters}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(n_clusters=value["n_clusters"])


ALGORITHMS: dict[str, Any] = {
    "grid": recoup.GridKMeans,
    "histograms": Histograms,
    "lloyd": recoup.KMeans,
    "adaptive": recoup.AdaptiveKMeans,
}


def run(name: str, folder: Path | None, epsilon: str, seed: int) -> dict[str, float]:
    """All contestants of one seed: losses over that of non-private k-means."""
    recoup.register(Histograms)
    data = load(SETS[name], folder)
    domain = recoup.Box(data.low, data.high)
    unit = domain.to_unit(data.rows)
    floor = PlainKMeans(data.n_clusters, n_init=20, random_state=0).fit(unit).inertia_

    def released(kind: str, part: Fraction) -> recoup.Transcript:
        return recoup.release(
            ALGORITHMS[kind](n_clusters=data.n_clusters),
            data.rows,
            domain=domain,
            epsilon=Fraction(epsilon) * part,
            random_state=[seed, sorted(ALGORITHMS).index(kind), part.denominator],
            noise="simulated",
            isolate=False,
        )

    def loss(transcript: recoup.Transcript, given: list[recoup.Transcript]) -> float:
        inferred = recoup.infer(given, random_state=seed)
        return wcss(unit, recoup.refit(transcript, inferred, random_state=seed), domain) / floor

    halves = {kind: released(kind, Fraction(1, 2)) for kind in ALGORITHMS}
    found = {f"half {kind}": loss(half, [half]) for kind, half in halves.items()}
    for kind in ALGORITHMS:
        whole = released(kind, Fraction(1))
        found[f"full {kind}"] = loss(whole, [whole])
    for pair, (first, second) in PAIRS.items():
        found[pair] = loss(halves[second], [halves[first], halves[second]])
    return found


def row_of(name: str, epsilon: str, pair: str, runs: list[dict[str, float]]) -> str:
    """One line of the table: mean losses, and paired differences with 95 % intervals of their means."""
    joint = np.array([r[pair] for r in runs])
    cells = [f"{joint.mean():.3f}"]
    for size, kind in product(("half", "full"), PAIRS[pair]):
        other = np.array([r[f"{size} {kind}"] for r in runs])
        difference = joint - other
        width = student.ppf(0.975, len(runs) - 1) * difference.std(ddof=1) / np.sqrt(len(runs))
        cells.append(f"{other.mean():.3f} ({difference.mean():+.3f}±{width:.3f}, {(difference < 0).sum()})")
    return f"| {name} | {epsilon} | {pair} | " + " | ".join(cells) + " |"


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder with the public files; left out, generated sets")
    parser.add_argument("--sets", default="s1,adult")
    parser.add_argument("--epsilons", default="0.05,0.25,1")
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    first, end = map(int, args.seeds.split(":"))
    jobs = list(product(args.sets.split(","), args.epsilons.split(","), range(first, end)))
    with ProcessPoolExecutor(args.processes) as pool:
        results = list(pool.map(run, *zip(*((n, args.data, e, s) for n, e, s in jobs), strict=True)))
    if args.json:
        rows = [{"set": n, "epsilon": e, "seed": s} | found for (n, e, s), found in zip(jobs, results, strict=True)]
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    print("| set | epsilon | pair | joint | first half | second half | first, full epsilon | second, full epsilon |")
    print("|---|---|---|---|---|---|---|---|")
    for name, epsilon, pair in product(args.sets.split(","), args.epsilons.split(","), PAIRS):
        runs = [found for (n, e, _), found in zip(jobs, results, strict=True) if (n, e) == (name, epsilon)]
        print(row_of(name, epsilon, pair, runs), flush=True)


if __name__ == "__main__":
    main()
