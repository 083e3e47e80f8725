"""Principal components from transcripts of the noisy power iteration: inference against what is usually kept.

python -m recoup_lab.studies.components --data FOLDER [--seeds 0,10]. All readers of the power iteration get the same
transcripts; the one-shot covariance spends the same budget in its own round. Score: captured variance, which is the
variance of held-out records along the components as a part of the most that as many directions can capture, columns
scaled to [-1, 1]. NOT PRIVATE: simulated noise.
"""

import argparse
from pathlib import Path

import numpy as np

import recoup
from recoup.algorithms.components import CovariancePCA, PowerPCA, signed
from recoup_lab.experiments.datasets import SETS, load

EPSILONS, DELTA, N_POINTS = (0.05, 0.25, 1.0), 1e-6, 3000
READERS = ("last", "average", "inferred", "least squares", "covariance")


def generated(name):
    """Three strong directions of 12, or a decaying, heavy-tailed cloud off the centre of 8 columns."""
    rng = np.random.default_rng([len(name), 7])
    n, d = (30_000, 12) if name == "spiked" else (20_000, 8)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    if name == "spiked":
        return np.clip((rng.standard_normal((n, d)) * np.where(np.arange(d) < 3, 0.4, 0.1)) @ turn.T, -1, 1), 3
    mean = rng.uniform(-0.3, 0.3, d)
    return np.clip(mean + (rng.standard_t(5, (n, d)) * 0.35 * 0.7 ** np.arange(d)) @ turn.T, -1, 1), 2


def records(folder):
    """Unit records and a number of components, a third of the columns, for each set."""
    for name in ("spiked", "decaying"):
        yield f"generated, {name}", *generated(name)
    for name in ("adult", "lifesci", "image_house"):
        loaded = load(SETS[name], folder)
        low, high = np.array(loaded.low), np.array(loaded.high)
        yield loaded.title, 2.0 * (loaded.rows - low) / (high - low) - 1.0, max(1, loaded.rows.shape[1] // 3)


def captured(covariance, components):
    best = np.linalg.eigvalsh(covariance)[::-1][: len(components)].sum()
    return float(np.trace(components @ covariance @ components.T) / best)


def averaged(algorithm, transcript):
    """The leading directions of the mean projection onto the iterates of the last half."""
    context, rounds, p = transcript.context, transcript.rounds, algorithm.n_components
    ends = range(len(rounds) - len(rounds) // 2 + 1, len(rounds) + 1)
    iterates = [algorithm.estimate(context, rounds[:end])[1:] for end in ends]
    projection = sum(v.T @ v for v in iterates)
    return signed(np.linalg.eigh(projection).eigenvectors[:, ::-1][:, :p].T)


def scores(train, covariance, n_components, epsilon, seed):
    """What each reader captures, and whether the guard declines."""
    d = train.shape[1]
    terms = {"domain": recoup.Box([-1.0] * d, [1.0] * d), "epsilon": epsilon, "delta": DELTA}
    algorithm = PowerPCA(n_components=n_components)
    transcript = recoup.release(algorithm, train, random_state=seed, noise="simulated", **terms)
    inferred = recoup.infer(transcript, "maxent", random_state=seed, n_points=N_POINTS)
    once = recoup.release(
        CovariancePCA(n_components=n_components), train, random_state=seed, noise="simulated", **terms
    )
    answers = (
        recoup.refit(transcript)[1:],
        averaged(algorithm, transcript),
        recoup.refit(transcript, inferred, random_state=seed)[1:],
        algorithm.spread(transcript.context, transcript.rounds).components(n_components)[1:],
        recoup.refit(once)[1:],
    )
    declined = algorithm.declines(transcript.context, transcript.rounds) is not None
    return [captured(covariance, answer) for answer in answers], declined


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="a folder with the sets; without it they are generated")
    parser.add_argument("--seeds", default="0,10", help="first seed, and the one after the last")
    args = parser.parse_args()
    seeds = range(*(int(s) for s in args.seeds.split(",")))
    wins = 0
    print("| set (N, d, p), epsilon | " + " | ".join(READERS) + " | seeds won | declined |")
    print("|---" * (len(READERS) + 3) + "|")
    for title, x, n_components in records(args.data):
        order = np.random.default_rng(0).permutation(len(x))
        cut = int(0.8 * len(x))
        train, covariance = x[order[:cut]], np.cov(x[order[cut:]].T)
        for epsilon in EPSILONS:
            results = [scores(train, covariance, n_components, epsilon, seed) for seed in seeds]
            table = np.array([values for values, _ in results])
            mean = table.mean(axis=0)
            won = int((table[:, 2] > table[:, :2].max(axis=1)).sum())
            wins += bool(mean[2] > mean[:2].max())
            shape = f"{title} ({len(train)}, {x.shape[1]}, {n_components}), {epsilon:g}"
            cells = " | ".join(f"{value:.4f}" for value in mean)
            print(f"| {shape} | {cells} | {won} | {sum(d for _, d in results)} |", flush=True)
    print(f"\ninferred beats last and average, by the mean, in {wins} settings")


if __name__ == "__main__":
    main()
