"""How often a verdict is doubtful where it should not be, and where it should: over generated tables.

python benchmarks/verdict_study.py [--smooth 3] [--rough 1] [--null 20] [--columns 2,6,14] [-o FILE]

False alarms: on smooth tables, which the inferred data explain; and on transcripts that are simulated from inferred
data, which therefore explain them by construction. Power: on tables with spikes, zeros, tails and few values, among
fits in which a coordinate of a centre is further than three widths of its own 90% interval from where Lloyd's iteration
on the records, started from the released centres, ends. Intervals are found where a centre is off by more than the
noise of its mean explains at all. The noise is simulated: NOT PRIVATE. A fit has 6,000 records and three clusters.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from recoup import PrivateKMeans
from recoup.errors import DoubtfulResult
from recoup.inference.intervals import intervals
from recoup.inference.judge import judge
from recoup.inference.misfit import expected_answer

N, K, EPSILONS, DELTAS, DRAWS = 6_000, 3, (0.25, 1.0, 10.0), (0.0, 1e-6), 9
SMOOTH = ("blobs", "unequal blobs", "uniform", "skewed")
ROUGH = (
    "integers",
    "spike at an end",
    "spike in the middle",
    "spikes at both ends",
    "zeros and tails",
    "constant column",
    "two values",
)


def table(kind: str, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Records in [-1, 1]; in rough tables half of the columns are rough."""
    middles = rng.uniform(-0.7, 0.7, (K, n_columns))
    share = (0.7, 0.2, 0.1) if kind == "unequal blobs" else (1 / K,) * K
    label = rng.choice(K, N, p=share)
    x = np.clip(middles[label] + 0.12 * rng.standard_normal((N, n_columns)), -1, 1)
    half = max(1, n_columns // 2)
    rough = (N, half)
    match kind:
        case "uniform":
            x = rng.uniform(-1, 1, (N, n_columns))
        case "skewed":
            x = np.clip(-1 + rng.gamma(2.0, 0.15 + 0.15 * label[:, None], (N, n_columns)), -1, 1)
        case "integers":
            x = np.round(5 * x) / 5
        case "spike at an end":
            x[:, :half] = np.where(rng.random(rough) < 0.9, -1.0, x[:, :half])
        case "spike in the middle":
            x[:, :half] = np.where(rng.random(rough) < 0.9, 0.13, x[:, :half])
        case "spikes at both ends":
            x[:, :half] = np.where(rng.random(rough) < 0.5, -1.0, 1.0)
        case "zeros and tails":
            tail = -1 + 0.02 * np.exp(rng.normal(size=rough) + label[:, None])
            x[:, :half] = np.where(rng.random(rough) < 0.6, -1.0, np.clip(tail, -1, 1))
        case "constant column":
            x[:, 0] = 0.31
        case "two values":
            x[:, :half] = np.where(rng.random(rough) < 0.3, 0.2, -0.4)
    return x


def fitted(kind: str, n_columns: int, epsilon: float, delta: float, seed: int) -> tuple[np.ndarray, PrivateKMeans]:
    rng = np.random.default_rng([len(kind), ord(kind[0]), n_columns, int(100 * epsilon), int(delta > 0), seed])
    x = table(kind, n_columns, rng)
    terms = {"delta": delta, "random_state": int(rng.integers(2**31)), "noise": "simulated"}
    return x, PrivateKMeans(K, epsilon, (-1, 1), **terms).fit(x)


def widths_off(x: np.ndarray, model: PrivateKMeans) -> float:
    """How far the worst coordinate of a centre is from Lloyd's on the records, in widths of its interval."""
    centers = model.cluster_centers_
    off = np.abs(KMeans(K, init=centers, n_init=1).fit(x).cluster_centers_ - centers)
    last = model.transcript_.rounds[-1]
    sums = last.scales[last.query.n_cells :].reshape(last.query.centers.shape)
    widest_mean = 3.3 * last.noise.deviation(1.0) * sums.mean() / (2 * N / K)
    if off.max() < widest_mean:
        return 0.0
    found = intervals(model.transcript_, model.inferred_, centers, n_draws=DRAWS, random_state=0)
    return float((off / (found.center_high - found.center_low)).max())


def null_alarms(model: PrivateKMeans, n: int, rng: np.random.Generator) -> int:
    """Doubtful verdicts on transcripts that were simulated from the inferred data themselves."""
    transcript, inferred = model.transcript_, model.inferred_
    points = transcript.context.domain.to_unit(inferred.points)
    exact = [expected_answer(answered, points, inferred.weights) for answered in transcript.rounds]
    alarms = 0
    for _ in range(n):
        rounds = [answered.simulated(e, rng) for answered, e in zip(transcript.rounds, exact, strict=True)]
        alarms += not judge(replace(transcript, rounds=tuple(rounds)), inferred, model.cluster_centers_).good
    return alarms


def settings(columns: list[int], seeds: int):
    return [(d, e, delta, s) for s in range(seeds) for d in columns for e in EPSILONS for delta in DELTAS]


def false_alarms(columns: list[int], seeds: int, n_null: int) -> list[str]:
    lines = ["| table | fits | doubtful | simulated from the inferred data | doubtful |", "|---|---|---|---|---|"]
    totals, rng = Counter(), np.random.default_rng(0)
    for kind in SMOOTH:
        found = Counter()
        for i, setting in enumerate(settings(columns, seeds)):
            _, model = fitted(kind, *setting)
            found["fits"] += 1
            found["alarms"] += not model.verdict_.good
            if not model.verdict_.good:
                print(kind, setting, model.verdict_.sentence, flush=True)
            if i < 6 * len(columns):
                found["null"] += n_null
                found["null alarms"] += null_alarms(model, n_null, rng)
        totals += found
        lines.append(f"| {kind} | {found['fits']} | {found['alarms']} | {found['null']:,} | {found['null alarms']} |")
        print(lines[-1], flush=True)
    share = [f"{100 * totals[a] / max(totals[b], 1):.2g}%" for a, b in (("alarms", "fits"), ("null alarms", "null"))]
    lines.append(f"| all | {totals['fits']} | {totals['alarms']} ({share[0]}) | {totals['null']:,} | {share[1]} |")
    return lines


def power(columns: list[int], seeds: int) -> list[str]:
    header = (
        "| table | fits | doubtful | off by 3 widths | of these doubtful | off by at most 1 width | of these doubtful |"
    )
    lines, totals = [header, "|---|---|---|---|---|---|---|"], Counter()
    for kind in ROUGH:
        found = Counter()
        for setting in settings(columns, seeds):
            x, model = fitted(kind, *setting)
            alarm, off = not model.verdict_.good, widths_off(x, model)
            found += Counter({"fits": 1, "alarms": alarm, "far": off > 3, "near": off <= 1})
            found += Counter({"far alarms": alarm and off > 3, "near alarms": alarm and off <= 1})
            if off > 3 and not alarm:
                print("missed:", kind, setting, f"{off:.1f} widths", flush=True)
        totals += found
        lines.append(row(kind, found))
        print(lines[-1], flush=True)
    return [*lines, row("all", totals)]


def row(name: str, found: Counter) -> str:
    names = ("fits", "alarms", "far", "far alarms", "near", "near alarms")
    return f"| {name} | {' | '.join(str(found[key]) for key in names)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smooth", type=int, default=3, help="seeds of each smooth table and setting")
    parser.add_argument("--rough", type=int, default=1, help="seeds of each rough table and setting")
    parser.add_argument("--null", type=int, default=20, help="transcripts simulated from each of the first fits")
    parser.add_argument("--columns", default="2,6,14")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", DoubtfulResult)
    columns, start = [int(d) for d in args.columns.split(",")], time.perf_counter()
    lines = [*false_alarms(columns, args.smooth, args.null), "", *power(columns, args.rough)]
    lines += ["", f"{time.perf_counter() - start:.0f} seconds."]
    print("\n".join(lines))
    if args.output is not None:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
