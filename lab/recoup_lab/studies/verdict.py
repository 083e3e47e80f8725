"""How often a verdict is doubtful where it should not be, and where it should: over generated tables.

python -m recoup_lab.studies.verdict [--smooth 3] [--rough 1] [--null 20] [--columns 2,6,14] -o docs/data/verdict.json

False alarms: on smooth tables, which the inferred data explain; and on transcripts that are simulated from inferred
data, which therefore explain them by construction. Power: of errors that are planted in the inferred data of smooth
tables, one cluster moved in one column by three widths of its 90% interval; and on tables with spikes, zeros, tails and
few values, among fits in which a coordinate of a centre is further than three widths of its interval from where Lloyd's
iteration on the records, started from the released centres, ends. Intervals are found where a centre is off by more
than the noise of its mean explains at all. Smooth tables have 6,000 records and three clusters, rough ones 20,000 and
four. The noise is simulated: NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from recoup import PrivateKMeans
from recoup.errors import DoubtfulResult
from recoup.inference.diagnostics import expected_answer
from recoup.inference.intervals import intervals
from recoup.inference.judge import judge
from recoup_lab.pages import write_runs

EPSILONS, DELTAS, DRAWS = (0.25, 1.0, 10.0), (0.0, 1e-6), 9
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


def size_of(kind: str) -> tuple[int, int]:
    """Records and clusters."""
    return (6_000, 3) if kind in SMOOTH else (20_000, 4)


def table(kind: str, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Records in [-1, 1]; in rough tables half of the columns are rough."""
    n, k = size_of(kind)
    middles = rng.uniform(-0.7, 0.7, (k, n_columns))
    label = rng.choice(k, n, p=(0.7, 0.2, 0.1) if kind == "unequal blobs" else None)
    x = np.clip(middles[label] + 0.1 * rng.standard_normal((n, n_columns)), -1, 1)
    half = max(1, n_columns // 2)
    rough = (n, half)
    match kind:
        case "uniform":
            x = rng.uniform(-1, 1, (n, n_columns))
        case "skewed":
            x = np.clip(-1 + rng.gamma(2.0, 0.15 + 0.15 * label[:, None], (n, n_columns)), -1, 1)
        case "integers":
            x = np.round(5 * x) / 5
        case "spike at an end":
            x[:, :half] = np.where(rng.random(rough) < 0.9, -1.0, x[:, :half])
        case "spike in the middle":
            x[:, :half] = np.where(rng.random(rough) < 0.9, 0.13, x[:, :half])
        case "spikes at both ends":
            x[:, :half] = np.where(rng.random(rough) < 0.5, -1.0, 1.0)
        case "zeros and tails":
            tail = -1 + 0.02 * np.exp(rng.normal(size=rough) + label[:, None] % 3)
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
    return x, PrivateKMeans(size_of(kind)[1], epsilon, (-1, 1), **terms).fit(x)


def widths_off(x: np.ndarray, model: PrivateKMeans) -> float:
    """How far the worst coordinate of a centre is from Lloyd's on the records, in widths of its interval."""
    centers = model.cluster_centers_
    off = np.abs(KMeans(len(centers), init=centers, n_init=1).fit(x).cluster_centers_ - centers)
    last = model.transcript_.rounds[-1]
    k, d = last.query.centers.shape
    sums = last.scales[k : k * (1 + d)].reshape(k, d)  # spreads may follow
    widest_mean = 3.3 * last.noise.deviation(1.0) * sums.mean() / (2 * len(x) / len(centers))
    if off.max() < widest_mean:
        return 0.0
    found = intervals(model.transcript_, model.inferred_, centers, n_draws=DRAWS, random_state=0)
    return float((off / np.maximum(found.center_high - found.center_low, 1e-9)).max())


def null_alarms(model: PrivateKMeans, n: int, rng: np.random.Generator) -> int:
    """Doubtful verdicts on transcripts that were simulated from the inferred data themselves."""
    transcript, inferred = model.transcript_, model.inferred_
    points = transcript.context.domain.to_unit(inferred.points)
    exact = [expected_answer(answered, points, inferred.weights) for answered in transcript.rounds]
    alarms = 0
    for _ in range(n):
        rounds = [answered.simulated(e, rng) for answered, e in zip(transcript.rounds, exact, strict=True)]
        again = replace(transcript, rounds=tuple(rounds))
        alarms += not judge(again, inferred, model.cluster_centers_, predictions={}).good
    return alarms


def planted_error_is_seen(model: PrivateKMeans, rng: np.random.Generator) -> bool:
    """Whether the verdict names a column in which one cluster of the inferred data was moved by three widths."""
    centers, inferred = model.cluster_centers_, model.inferred_
    found = intervals(model.transcript_, inferred, centers, n_draws=DRAWS, random_state=0)
    k, j = rng.integers(len(centers)), rng.integers(centers.shape[1])
    points = inferred.points.copy()
    # Toward the middle, so that it stays inside the bounds.
    points[model.predict(points) == k, j] -= np.sign(centers[k, j]) * 3 * (found.center_high - found.center_low)[k, j]
    return (
        j in judge(model.transcript_, replace(inferred, points=np.clip(points, -1, 1)), centers, predictions={}).columns
    )


def settings(columns: list[int], seeds: int):
    return [(d, e, delta, s) for s in range(seeds) for d in columns for e in EPSILONS for delta in DELTAS]


def false_alarms(columns: list[int], seeds: int, n_null: int) -> list[dict]:
    names = ("fits", "alarms", "null", "null alarms", "planted", "named")
    lines, rng = [], np.random.default_rng(0)
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
                found["planted"] += 1
                seen = planted_error_is_seen(model, rng)
                found["named"] += seen
                if not seen:
                    print("not named:", kind, setting, flush=True)
        lines.append({"part": "smooth", "table": kind} | {name: int(found[name]) for name in names})
        print(lines[-1], flush=True)
    return lines


def power(columns: list[int], seeds: int) -> list[dict]:
    names = ("fits", "alarms", "far", "far alarms", "near", "near alarms")
    lines = []
    for kind in ROUGH:
        found = Counter()
        for setting in settings(columns, seeds):
            x, model = fitted(kind, *setting)
            alarm, off = not model.verdict_.good, widths_off(x, model)
            found += Counter({"fits": 1, "alarms": alarm, "far": off > 3, "near": off <= 1})
            found += Counter({"far alarms": alarm and off > 3, "near alarms": alarm and off <= 1})
            if off > 3 and not alarm:
                print("missed:", kind, setting, f"{off:.1f} widths", flush=True)
        lines.append({"part": "rough", "table": kind} | {name: int(found[name]) for name in names})
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smooth", type=int, default=3, help="seeds of each smooth table and setting")
    parser.add_argument("--rough", type=int, default=1, help="seeds of each rough table and setting")
    parser.add_argument("--null", type=int, default=20, help="transcripts simulated from each of the first fits")
    parser.add_argument("--columns", default="2,6,14")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    warnings.simplefilter("ignore", DoubtfulResult)
    columns = [int(d) for d in args.columns.split(",")]
    arguments = f"--smooth {args.smooth} --rough {args.rough} --null {args.null} --columns {args.columns}"
    runs = [*false_alarms(columns, args.smooth, args.null), *power(columns, args.rough)]
    write_runs(args.output, f"python -m recoup_lab.studies.verdict {arguments}", runs)


if __name__ == "__main__":
    main()
