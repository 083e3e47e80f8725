"""Held-out log-loss of private logistic regression: inferred and refitted, against the iterates of the same rounds.

python -m recoup_lab.studies.logistic --data FOLDER [--seeds 10] [--first-seed 0] [--crowded]

With --crowded: the default estimator against postprocess="none", on generated tables of columns as people have them.
FOLDER holds adult.csv.gz and lifesci.csv.gz; without it only generated sets run. Every set is split 80 / 20 by a fixed
seed. The noise is simulated. All contestants read the same transcripts: the last iterate, the average of the last half
of the iterates, and the fit on inferred data, with and without the guard. Settings were frozen on other generated sets
and other seeds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from recoup import Box, PrivateLogisticRegression, infer, refit, release
from recoup.algorithms.logistic import LogisticRegression, minimum_of_loss, trust_in_base

EPSILONS, STEPS, N_ROUNDS, L2, DELTA = (0.05, 0.25, 1.0), (8.0, 32.0, 128.0), 10, 1e-3, 1e-6
CROWDED = ((20_000, 14), (2_000, 14), (20_000, 3), (20_000, 6), (40_000, 30), (100_000, 14))  # records, columns
CONTESTANTS = ("last", "average", "inferred", "guarded")


def spread(rng):
    """20,000 records, 8 correlated features that fill about half of their bounds, a strong signal."""
    mixing = np.eye(8) + rng.uniform(-0.3, 0.3, (8, 8))
    x = np.clip(0.35 * rng.standard_normal((20_000, 8)) @ mixing, -1, 1)
    return labelled(x, rng.normal(0, 1.5, 8), 0.4, rng)


def lopsided(rng):
    """30,000 records, 6 features that crowd at their lower bounds, a moderate signal."""
    x = np.clip(-1 + rng.exponential((0.05, 0.1, 0.3, 0.5, 0.7, 0.9), (30_000, 6)), -1, 1)
    return labelled(x, rng.normal(0, 1.0, 6), 0.5, rng)


def few(rng):
    """500 records of which 400 are fitted, 31 columns that share three factors: more noise than signal."""
    x = np.clip(rng.standard_normal((500, 3)) @ rng.normal(0, 0.25, (3, 31)) + 0.15 * rng.normal(size=(500, 31)), -1, 1)
    return labelled(x, rng.normal(0, 1.0, 31), 0.0, rng)


def weak(rng):
    """5,000 records, 21 features, a weak signal."""
    x = np.clip(0.35 * rng.standard_normal((5_000, 21)), -1, 1)
    return labelled(x, rng.normal(0, 0.4, 21), 0.2, rng)


def crowded(rng, n, d):
    """Amounts with tails, amounts that are mostly 0, small counts, measurements and flags, within declared bounds."""
    z = rng.standard_normal((n, 2)) @ rng.normal(0, 0.5, (2, d)) + rng.standard_normal((n, d))
    x, high = np.empty((n, d)), np.ones(d)
    for j in range(d):
        kind, middle, spread = j % 5, rng.uniform(2, 6), rng.uniform(0.6, 1.2)
        if kind in (0, 1):
            x[:, j] = np.exp(middle + spread * z[:, j]) * (z[:, j] > (-9.0, 0.8)[kind])
            high[j] = 10.0 ** np.ceil(np.log10(np.exp(middle + 3 * spread)))
        elif kind == 2:
            x[:, j], high[j] = rng.poisson(np.exp(0.8 + 0.5 * z[:, j])), 100.0
        elif kind == 3:
            x[:, j], high[j] = 45.0 + 12.0 * z[:, j], 100.0
        else:
            x[:, j] = z[:, j] > rng.uniform(-1, 1)
    x = np.clip(x, 0.0, high)
    logs = np.log1p(x / x.std(axis=0))
    coefficients = rng.normal(0, 3 / np.sqrt(d), d) * (rng.random(d) < 0.6)  # of some columns it is 0
    positive = labelled((logs - logs.mean(axis=0)) / logs.std(axis=0), coefficients, rng.uniform(-1, 0.5), rng)[1]
    return x, high, positive


def labelled(x, coefficients, intercept, rng):
    return x, rng.random(len(x)) < 1 / (1 + np.exp(-(x @ coefficients + intercept)))


def from_file(folder, name, column, threshold):
    """Unit features and the label "column above a public threshold"; bounds are those of the file."""
    table = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1)
    x = np.delete(table, column, axis=1)
    return Box(x.min(axis=0), x.max(axis=0)).to_unit(x), table[:, column] > threshold


def data_sets(folder):
    """The sets that count, then those that show the guard."""
    rng = np.random.default_rng(2024)
    counted = {"spread": spread(rng), "lopsided": lopsided(rng)}
    if folder is not None:
        counted["Adult"] = from_file(folder, "adult", column=5, threshold=40)  # works more than 40 hours a week
        counted["Lifesci"] = from_file(folder, "lifesci", column=0, threshold=-6.7)  # the middle of the first bounds
    return counted, {"few": few(rng), "weak": weak(rng)}


def log_loss(answer, x, positive):
    return float(np.logaddexp(0.0, -np.where(positive, 1.0, -1.0) * (x @ answer[:-1] + answer[-1])).mean())


def losses(train, held_out, epsilon, step, seed):
    """One transcript, read by every contestant."""
    x, positive = train
    d = x.shape[1]
    records = np.column_stack([x, np.where(positive, 1.0, -1.0)])
    algorithm = LogisticRegression(n_rounds=N_ROUNDS, step_size=step, l2=L2, pseudo_records=trust_in_base(d))
    domain = Box(-np.ones(d + 1), np.ones(d + 1))
    terms = {"epsilon": str(epsilon), "delta": str(DELTA), "random_state": seed, "noise": "simulated"}
    transcript = release(algorithm, records, domain=domain, **terms)
    context, rounds = transcript.context, transcript.rounds
    iterates = np.array([algorithm.estimate(context, rounds[: t + 1]) for t in range(len(rounds))])
    inferred = refit(transcript, infer(transcript, "maxent", random_state=seed))
    declined = algorithm.declines(context, rounds) is not None
    answers = {
        "last": iterates[-1],
        "average": iterates[N_ROUNDS // 2 :].mean(axis=0),
        "inferred": inferred,
        "guarded": iterates[-1] if declined else inferred,
    }
    return {name: log_loss(answer, *held_out) for name, answer in answers.items()} | {"declined": float(declined)}


def study(sets, seeds):
    """Means over seeds for every setting, printed as a table; returns how many settings inference wins."""
    wins = settings = 0
    print(
        "| set | epsilon | step | last | average | inferred | seeds won | declined |\n|---|---|---|---|---|---|---|---|"
    )
    for name, (x, positive) in sets.items():
        order = np.random.default_rng(0).permutation(len(x))
        first, rest = order[: len(x) * 4 // 5], order[len(x) * 4 // 5 :]
        train, held_out = (x[first], positive[first]), (x[rest], positive[rest])
        exact = log_loss(minimum_of_loss(*train, np.ones(len(first)), l2=L2), *held_out)
        rate = np.clip(train[1].mean(), 1e-3, 1 - 1e-3)
        constant = log_loss(np.append(np.zeros(x.shape[1]), np.log(rate / (1 - rate))), *held_out)
        for epsilon in EPSILONS:
            for step in STEPS:
                runs = [losses(train, held_out, epsilon, step, seed) for seed in seeds]
                mean = {key: np.mean([run[key] for run in runs]) for key in (*CONTESTANTS, "declined")}
                best = min(mean["last"], mean["average"])
                won = sum(run["inferred"] < min(run["last"], run["average"]) for run in runs)
                wins, settings = wins + (mean["inferred"] < best), settings + 1
                cells = [f"{mean[key]:.4f}" for key in CONTESTANTS[:3]]
                cells[2] = f"**{cells[2]}**" if mean["inferred"] < best else cells[2]
                declined = f"{mean['declined']:.0%}"
                print(
                    f"| {name} | {epsilon:g} | {step:g} | {' | '.join(cells)} | {won}/{len(runs)} | {declined} |",
                    flush=True,
                )
        print(f"| {name} | none | | {exact:.4f} without noise | {constant:.4f} without features | | | |", flush=True)
    return wins, settings


def against_none(sizes, seeds):
    """The default estimator and the last iterate of its transcript; a table of its own for each seed."""
    print("| records x columns | epsilon | delta | without noise | none | default | default - none | seeds worse |")
    print("|---|---|---|---|---|---|---|---|")
    for n, d in sizes:
        for epsilon in ("0.25", "0.5", "1", "10", "100"):
            for delta in ("0", "1e-6"):
                found = np.array([pair(n, d, epsilon, delta, seed) for seed in seeds])
                exact, none, default = found.mean(axis=0)
                more = found[:, 2] - found[:, 1]
                error = more.std(ddof=1) / np.sqrt(len(more))
                print(
                    f"| {n} x {d} | {epsilon} | {delta} | {exact:.4f} | {none:.4f} | {default:.4f} | "
                    f"{more.mean():+.4f} +- {error:.4f} | {(more > 0).sum()}/{len(more)} |",
                    flush=True,
                )


def pair(n, d, epsilon, delta, seed):
    """Held-out losses without noise, of the last iterate and of the default."""
    x, high, positive = crowded(np.random.default_rng([seed, n, d]), n * 5 // 4, d)
    terms = {"epsilon": epsilon, "delta": delta, "bounds": (0.0, high), "classes": (False, True)}
    model = PrivateLogisticRegression(**terms, random_state=seed, noise="simulated").fit(x[:n], positive[:n])
    none = refit(model.transcript_, None)
    default = np.append(model.coef_[0], model.intercept_)
    unit = Box(np.zeros(d), high).to_unit(x)
    exact = log_loss(minimum_of_loss(unit[:n], positive[:n], np.ones(n), l2=L2), unit[n:], positive[n:])
    return exact, log_loss(none, x[n:], positive[n:]), log_loss(default, x[n:], positive[n:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with adult.csv.gz and lifesci.csv.gz")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--crowded", action="store_true", help="the default against none, on columns that crowd")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    began = time.perf_counter()
    if options.crowded:
        against_none(CROWDED, seeds)
        return
    counted, guarded = data_sets(options.data)
    wins, settings = study(counted, seeds)
    print(
        f"\ninferred below both in {wins} of {settings} settings ({wins / settings:.0%})\n\nWhere the guard is for:\n"
    )
    study(guarded, seeds)
    print(f"\n{time.perf_counter() - began:.0f} s, of which {time.process_time():.0f} s on the processor")


if __name__ == "__main__":
    main()
