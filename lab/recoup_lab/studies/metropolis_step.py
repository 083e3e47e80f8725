"""Time of one Metropolis step, as a ratio against a C++ sampler given by its source, or against the plain twin.

python -m recoup_lab.studies.metropolis_step [--reference sampler.cpp] [--prefetch]

With --prefetch, what fetching the next records ahead is worth: the same step compiled without it, where a million
latent records do not fit into a cache. That is why its hand-written instruction is kept.

The reference is called as `sampler n k d rounds steps epsilon` and prints `ns_per_step <number> ...`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from recoup_lab.tree import ROOT

sys.path.insert(0, str(ROOT / "tests" / "reference"))
from metropolis_twin import Twin

from recoup.inference.record_walk import Proposal, RecordWalk, Target
from recoup.inference.sampler import run_chain
from recoup.maxent.consistency import Cells

SHAPES = {"S1": (5_000, 15, 2), "Lifesci": (26_733, 3, 10), "Gowalla": (107_021, 5, 2)}
N_ROUNDS, EPSILON = 5, 0.25


def make_problem(n, k, d, seed=0):
    """Rounds of noisy Lloyd on k narrow blobs in the unit L1 ball, and the sampler's start."""
    rng = np.random.default_rng(seed)
    blobs = rng.uniform(-0.8 / d, 0.8 / d, (k, d))
    data = blobs[np.arange(n) % k] + 0.03 * rng.normal(size=(n, d))
    scale = 2 * N_ROUNDS / EPSILON
    centers, rounds, means, weights = rng.uniform(-1 / d, 1 / d, (k, d)), [], [], []
    for _ in range(N_ROUNDS):
        cells = ((data[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        counts = np.maximum(1.0, np.bincount(cells, minlength=k) + rng.laplace(scale=scale, size=k))
        sums = np.array([data[cells == c].sum(axis=0) for c in range(k)]) + rng.laplace(scale=scale, size=(k, d))
        rounds.append(Cells(centers=centers, counts=counts, count_scales=scale, sums=sums, sum_scales=scale))
        centers = sums / counts[:, None]
        centers = centers / np.maximum(1.0, np.abs(centers).sum(axis=1, keepdims=True))
        means.append(centers)
        weights.append(counts / counts.sum())
    start = rng.choice(k, size=n, p=weights[-1])
    proposal = Proposal(means=np.concatenate(means), weights=np.concatenate(weights))
    return Target(rounds=rounds), proposal, centers[start], (N_ROUNDS - 1) * k + start


def sample_chain(*problem, rng, n_steps=30_000):
    return run_chain(RecordWalk(*problem, n_steps=n_steps), rng=rng)


def seconds(run, repeats=3):
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def kernel_step(problem):
    """Nanoseconds of one more step, without what a run costs once."""
    short, long = (
        seconds(lambda n=n: sample_chain(*problem, n_steps=n, rng=np.random.default_rng(0)))
        for n in (30_000, 1_030_000)
    )
    return (long - short) * 1e9 / 1_000_000


def reference_step(binary, shape):
    command = [binary, *map(str, shape), str(N_ROUNDS), "2000000", str(EPSILON)]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    return min(float(run.split()[1]) for run in runs)


def twin_step(problem):
    """One step is enough: the twin recomputes all totals and takes seconds."""
    twin = Twin(*problem)
    return seconds(lambda: twin.step(*twin.draw(np.random.default_rng(0))), 1) * 1e9


def bare_step(n, k, d):
    """Nanoseconds of a step, in a process of its own that compiles the kernel without fetching ahead."""
    program = (
        "import numba, recoup.kernels.walks as walks\n"
        "walks.prefetch = numba.njit(lambda array, index: None)\n"
        "from recoup_lab.studies.metropolis_step import kernel_step, make_problem\n"
        f"print(kernel_step(make_problem({n}, {k}, {d})))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}  # a cached kernel would fetch ahead
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
        )
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, help="C++ source of the sampler to compare with")
    parser.add_argument("--prefetch", action="store_true", help="what fetching ahead is worth, and nothing else")
    options = parser.parse_args()
    reference = options.reference
    if options.prefetch:
        for shape in ((107_021, 5, 2), (1_000_000, 5, 2)):
            ours, bare = kernel_step(make_problem(*shape)), bare_step(*shape)
            print(
                f"{shape[0]:9,} records: step / without fetching ahead: {ours / bare:.2f}  ({ours:.0f}, {bare:.0f} ns)"
            )
        return
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "reference"
        if reference is not None:
            subprocess.run(["g++", "-O3", "-march=native", "-o", binary, reference], check=True)
        for name, shape in SHAPES.items():
            problem = make_problem(*shape)
            first = seconds(lambda problem=problem: sample_chain(*problem, rng=np.random.default_rng(0)), 1)
            paper = seconds(lambda problem=problem: sample_chain(*problem, rng=np.random.default_rng(0)))
            ours = kernel_step(problem)
            theirs = twin_step(problem) if reference is None else reference_step(binary, shape)
            print(
                f"{name:8s} step / {'twin' if reference is None else 'C++'}: {ours / theirs:.2g}  ({ours:.0f} ns, "
                f"{theirs:.0f} ns); 30,000 steps {paper * 1e3:.0f} ms, the first time {first:.2f} s"
            )


if __name__ == "__main__":
    main()
