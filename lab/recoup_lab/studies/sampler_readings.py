"""The paper's sampler in other readings, on the transcripts of the evaluation: what its choices are worth.

python -m recoup_lab.studies.sampler_readings STUDY --data FOLDER -o docs/data/sampler-STUDY.json

Loss as a part of that of the last iterate of the same transcript, in the paper's metric (T = 5, 30,000 steps, variance
0.001), with the acceptance rate and the step of the best data set. "rounds" weighs the rounds of the proposal, which is
no option of the library. Simulated noise: nothing here is private.
"""

import argparse
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from recoup import infer, refit
from recoup.inference import record_walk
from recoup_lab.experiments.datasets import SETS, load
from recoup_lab.experiments.run import Run
from recoup_lab.experiments.scoring import wcss
from recoup_lab.pages import mean_and_error, write_runs

ROUNDS = {
    "equal": lambda t, n_rounds: 1.0,
    "linear": lambda t, n_rounds: t + 1.0,
    "doubled": lambda t, n_rounds: 2.0**t,
    "last": lambda t, n_rounds: float(t == n_rounds - 1),
}
STUDIES = {
    "accepted": {scale: {"target_scale": scale} for scale in ("one", "noise")},
    "length": {
        f"{scale}, {n:,}": {"target_scale": scale, "n_steps": n}
        for scale in ("one", "noise")
        for n in (30_000, 1_000_000, 10_000_000)
    },
    "rounds": {name: {"rounds": name} for name in ROUNDS},
    "choices": {"default": {}, "mixture": {"correction": "mixture"}, "raw": {"raw": True}},
}
_mixture = record_walk._mixture


def weighed(rounds):
    """The proposal with the weights of its rounds multiplied."""

    def mixture(cells, context, reading):
        proposal = _mixture(cells, context, reading)
        factors = [np.full(len(c.counts), ROUNDS[rounds](t, len(cells))) for t, c in enumerate(cells)]
        return replace(proposal, weights=proposal.weights * np.concatenate(factors))

    return mixture


def tried(run, *, rounds="equal", **choices):
    """The ratio to the last iterate, the acceptance rate and the step of the best data set."""
    unit = run.domain.to_unit(run.data.rows)
    last = wcss(unit, refit(run.transcript, None), run.domain)
    record_walk._mixture = weighed(rounds)
    inferred = infer(run.transcript, "mcmc", random_state=run.seed, warn=False, **choices)
    centers = refit(run.transcript, inferred, random_state=run.seed)
    found = inferred.diagnostics
    return wcss(unit, centers, run.domain) / last, found.acceptance[0], found.best_step[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--data", type=Path, help="the folder of the sets; without it they are generated")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--epsilons", default="0.05,0.25,1")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    found = []
    for name in given.sets.split(","):
        data = load(SETS[name], given.data)
        for epsilon in given.epsilons.split(","):
            runs = [Run.of(data, "paper", Fraction(epsilon), seed) for seed in range(given.seeds)]
            for variant, choices in STUDIES[given.study].items():
                ratios, accepted, best = zip(*(tried(run, **choices) for run in runs), strict=True)
                entry = {"set": name, "epsilon": float(epsilon), "variant": variant}
                entry |= {"ratio": mean_and_error(ratios), "accepted": round(float(np.mean(accepted)), 4)}
                found.append(entry | {"best": int(np.mean(best))})
                print(found[-1], flush=True)
    arguments = f"{given.study} --data FOLDER --sets {given.sets} --seeds {given.seeds}"
    write_runs(given.output, f"python -m recoup_lab.studies.sampler_readings {arguments}", found)
