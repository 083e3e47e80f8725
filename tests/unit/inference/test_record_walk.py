from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, uniform

from recoup.errors import ParameterError
from recoup.inference.record_walk import Proposal, RecordWalk, Target, _log_target, _model, _on_grid, mixture_of
from recoup.inference.sampler import run_chain, run_chains, trace_stride
from recoup.kernels import walks as kernel
from recoup.maxent.consistency import Cells

sys.path.insert(0, str(Path(__file__).parents[2] / "reference"))
from metropolis_twin import Twin, component_of, is_inside, log_target

ALPHA = 1e-6  # false-alarm rate of the one statistical assertion in this file


def make_problem(
    seed=0,
    n=40,
    d=2,
    cells=(4, 4, 3),
    noise="laplace",
    domain="l1",
    scale=4.0,
    sums=True,
    target_scale="noise",
    correction="component",
):
    """Rounds of different sizes, the last without sums if asked, and a start at the last round's means."""
    rng = np.random.default_rng(seed)
    data = rng.uniform(-1 / d, 1 / d, (n, d))
    rounds, means, weights = [], [], []
    for k in cells:
        centers = rng.uniform(-1 / d, 1 / d, (k, d))
        labels = ((data[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        counts = np.maximum(0.0, np.bincount(labels, minlength=k) + rng.laplace(scale=scale, size=k))
        counts[0] += 1.0
        noisy_sums = np.array([data[labels == c].sum(axis=0) for c in range(k)]) + rng.laplace(scale=scale, size=(k, d))
        released = {"sums": noisy_sums, "sum_scales": 0.7 * scale} if sums else {}
        rounds.append(Cells(centers=centers, counts=counts, count_scales=scale, **released))
        mean = np.divide(noisy_sums, counts[:, None], out=np.zeros((k, d)), where=counts[:, None] > 0)
        means.append(mean / np.maximum(1.0, np.abs(mean).sum(axis=1, keepdims=True)))
        weights.append(counts / counts.sum())
    components = sum(cells[:-1]) + rng.choice(cells[-1], size=n, p=weights[-1])
    proposal = Proposal(
        means=np.concatenate(means), weights=np.concatenate(weights), variance=0.01, correction=correction
    )
    target = Target(rounds=rounds, noise=noise, scale=target_scale, domain=domain, radius=1.0)
    return target, proposal, np.concatenate(means)[components], components


def log_density(target, points):
    """The log target of a data set as the kernel computes it, from nothing but its points."""
    return _log_target(_model(target, 1.0), _on_grid(points))


def sample_chain(*problem, rng, n_steps=30_000, record_weight=1.0, on_progress=None):
    """One chain."""
    walk = RecordWalk(*problem, n_steps=n_steps, record_weight=record_weight)
    return run_chain(walk, rng=rng, on_progress=on_progress)


def sample_chains(problem, n_chains, *, n_steps, **options):
    """Several chains from one start."""
    return run_chains([lambda stream: RecordWalk(*problem, n_steps=n_steps)] * n_chains, **options)


def draw_block(rng, n, d, size):
    return kernel.Draws(
        rng.integers(0, n, size=size), rng.random(size), rng.standard_normal((size, d)), rng.standard_exponential(size)
    )


def fingerprint(chain):
    arrays = (chain.best, chain.last, chain.log_targets)
    numbers = (chain.best_log_target, chain.best_step, chain.n_accepted, chain.n_steps)
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays) + repr(numbers).encode()).hexdigest()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": "gaussian", "domain": "l2"},
        {"domain": "box", "sums": False},
        {"d": 1, "cells": (1,), "n": 5},
        {"d": 4, "cells": (2, 5), "n": 1, "seed": 3},
        {"target_scale": "one"},
        {"correction": "mixture"},
        {"target_scale": "one", "correction": "mixture", "noise": "gaussian", "scale": 0.5},
    ],
    ids=["laplace", "gaussian", "counts only", "one cell", "one record", "scale one", "mixture", "both"],
)
@pytest.mark.parametrize("record_weight", [1.0, 3.5])
def test_the_kernel_and_the_plain_twin_agree_step_by_step(options, record_weight):
    problem = make_problem(**options)
    n, d = problem[2].shape
    walk = RecordWalk(*problem, n_steps=200, record_weight=record_weight)
    state, memory = walk.state, walk.memory
    twin = Twin(*problem, record_weight=record_weight)
    draws = draw_block(np.random.default_rng(5), n, d, 200)
    for s in range(200):
        walk.walk(kernel.Draws(*(array[s : s + 1] for array in draws)), 1)
        twin.step(*(array[s] for array in draws))
        assert state.points.tobytes() == twin.points.tobytes()
        assert (walk.kept[state.components] == twin.components).all()
        assert memory.counters[kernel.N_ACCEPTED] == twin.n_accepted
        assert memory.best_log_target[0] == pytest.approx(twin.best_log_target, abs=1e-9)
        assert memory.trace[s + 1] == pytest.approx(twin.log_target, abs=1e-9)
    kernel.save_best(state.points, memory)
    assert memory.best_points.tobytes() == twin.best_points.tobytes()
    assert 0 < twin.n_accepted < 200


def test_totals_and_caches_after_a_million_steps_equal_a_recomputation():
    problem = make_problem(n=500, cells=(5, 5, 5))
    walk = RecordWalk(*problem, n_steps=1_000_000)
    state = walk.state
    rng = np.random.default_rng(1)
    for _ in range(10):
        walk.walk(draw_block(rng, 500, 2, 100_000), 100_000)
    rows, totals = np.empty_like(state.rows), np.empty_like(state.totals)
    kernel.total_records(walk.model, state.points, rows, totals, np.empty(len(totals)))
    assert (totals == state.totals).all()
    assert (rows == state.rows).all()
    again = state._replace(log_densities=np.empty_like(state.log_densities))
    kernel.fill_log_densities(walk.mixture, again)
    assert (again.log_densities == state.log_densities).all()
    assert all(is_inside(problem[0], point) for point in state.points)


def test_the_best_data_set_is_at_least_the_start_and_scores_what_is_reported():
    for seed in range(5):
        problem = make_problem(seed=seed)
        chain = sample_chain(*problem, rng=np.random.default_rng(seed), n_steps=20_000)
        assert chain.best_log_target == log_density(problem[0], chain.best)
        assert chain.best_log_target == pytest.approx(log_target(problem[0], chain.best), abs=1e-9)
        assert chain.best_log_target >= chain.log_targets.max() - 1e-9
        assert chain.log_targets[0] == log_density(problem[0], problem[2])
        assert chain.log_targets[-1] == pytest.approx(log_target(problem[0], chain.last), abs=1e-9) or (
            chain.n_steps % trace_stride(chain.n_steps)
        )


def test_a_journal_that_overflows_still_finds_the_best():
    problem = make_problem(n=6)
    short, long = (RecordWalk(*problem, n_steps=3000) for _ in range(2))
    journal = {name: getattr(short.memory, name)[:4] for name in ("journal_records", "journal_points")}
    short.memory = short.memory._replace(**journal)
    draws = draw_block(np.random.default_rng(2), 6, 2, 3000)
    for walk in (short, long):
        walk.walk(draws, 3000)
    assert short.memory.counters[kernel.BEST_IS_SAVED]
    assert not long.memory.counters[kernel.BEST_IS_SAVED]
    kernel.save_best(long.state.points, long.memory)
    assert short.memory.best_points.tobytes() == long.memory.best_points.tobytes()
    assert short.memory.counters[kernel.BEST_STEP] == long.memory.counters[kernel.BEST_STEP] > 0


def test_a_start_that_nothing_beats_is_returned():
    cells = Cells(centers=[[-0.5], [0.5]], counts=[2.0, 2.0], count_scales=0.01)
    mixture = Proposal(means=[[-0.5], [0.5]], weights=[0.5, 0.5])
    points = [[-0.5], [-0.5], [0.5], [0.5]]
    chain = sample_chain(Target(rounds=[cells]), mixture, points, [0, 0, 1, 1], rng=np.random.default_rng(0))
    assert (chain.best_step, chain.best_log_target) == (0, 0.0)
    assert (chain.best == points).all()
    assert chain.n_accepted > 0


def test_the_same_seed_gives_the_same_chain_and_a_shorter_run_is_its_beginning():
    problem = make_problem()
    one, two = (sample_chain(*problem, rng=np.random.default_rng(7), n_steps=9_990) for _ in range(2))
    assert fingerprint(one) == fingerprint(two)
    assert trace_stride(9_990) == 10
    short = sample_chain(*problem, rng=np.random.default_rng(7), n_steps=500)
    assert (short.log_targets[::10] == one.log_targets[:51]).all()
    other = sample_chain(*problem, rng=np.random.default_rng(8), n_steps=9_990)
    assert fingerprint(one) != fingerprint(other)


def test_chains_do_not_depend_on_the_number_of_threads_or_of_chains(monkeypatch):
    problem, runs = make_problem(), []
    for n, threads in ((4, 1), (4, 2), (4, 4), (1, 4)):
        monkeypatch.setenv("RECOUP_NUM_THREADS", str(threads))
        runs.append(sample_chains(problem, n, n_steps=5_000, rng=np.random.default_rng(3)))
    prints = [[fingerprint(chain) for chain in chains] for chains in runs]
    assert prints[0] == prints[1] == prints[2]
    assert prints[3] == prints[0][:1]
    assert len(set(prints[0])) == 4


SHORT_CHAINS = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
import test_record_walk as tests
for noise in ("laplace", "gaussian"):
    problem = tests.make_problem(noise=noise)
    print(tests.fingerprint(tests.sample_chain(*problem, rng=np.random.default_rng(0), n_steps=400)))
"""


def test_compiled_and_interpreted_chains_are_equal():
    prints = [
        subprocess.run(
            [sys.executable, "-c", SHORT_CHAINS.format(folder=str(Path(__file__).parent))],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_DISABLE_JIT": disable},
        ).stdout.split()
        for disable in ("0", "1")
    ]
    assert len(prints[0]) == 2
    assert prints[0] == prints[1]


def test_the_trace_is_thinned():
    problem = make_problem()
    for n_steps, length, stride in ((0, 1, 1), (10, 11, 1), (999, 1000, 1), (1000, 501, 2), (30_000, 968, 31)):
        chain = sample_chain(*problem, rng=np.random.default_rng(0), n_steps=n_steps)
        assert (len(chain.log_targets), trace_stride(n_steps), chain.n_steps) == (length, stride, n_steps)
        assert not chain.interrupted
    assert chain.acceptance == chain.n_accepted / 30_000
    assert sample_chain(*problem, rng=np.random.default_rng(0), n_steps=0).acceptance == 0


def interrupt(done, total):
    raise KeyboardInterrupt


def test_an_interrupt_keeps_the_best_so_far():
    problem = make_problem()
    chain = sample_chain(*problem, rng=np.random.default_rng(0), n_steps=10**9, on_progress=interrupt)
    assert chain.interrupted
    assert RecordWalk.report_every <= chain.n_steps < 2 * RecordWalk.report_every
    assert chain.best_log_target == log_density(problem[0], chain.best) > chain.log_targets[0]
    chains = sample_chains(problem, 2, n_steps=10**9, rng=np.random.default_rng(0), on_progress=interrupt)
    assert all(chain.interrupted for chain in chains)


def test_an_error_in_one_chain_stops_all():
    def fail(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        sample_chains(make_problem(), 3, n_steps=10**9, rng=np.random.default_rng(0), on_progress=fail)


def test_progress_is_reported_now_and_then_and_at_the_end():
    problem, one, all_chains = make_problem(), [], []
    sample_chain(*problem, rng=np.random.default_rng(0), n_steps=250_000, on_progress=lambda *a: one.append(a))
    assert [total for _, total in one] == [250_000] * 3
    assert one[-1][0] == 250_000
    sample_chains(
        problem,
        2,
        rng=np.random.default_rng(0),
        n_steps=1000,
        on_progress=lambda *a: all_chains.append(a),
    )
    assert all_chains == [(1000, 2000), (2000, 2000)]


def test_the_alias_table_has_the_weights_and_skips_the_zeros():
    weights = np.array([0.0, 3.0, 0.25, 0.0, 1.0, 1e-9, 2.0])
    proposal = Proposal(means=np.zeros((7, 1)), weights=weights)
    mixture, kept = mixture_of(proposal)
    probability = mixture.threshold.copy()
    np.add.at(probability, mixture.alias, 1.0 - mixture.threshold)
    np.testing.assert_allclose(probability / len(kept), weights[kept] / weights.sum(), rtol=1e-9, atol=1e-16)
    for number in (0.0, 0.3, np.nextafter(1.0, 0.0), *np.linspace(0, 0.999, 50)):
        component, _ = kernel.propose(mixture, number, np.zeros(1), np.empty(1))
        assert kept[component] == component_of(weights, number)


def test_proposals_lie_on_the_grid_at_their_deviation_from_the_mean():
    proposal = Proposal(means=[[0.3, -0.2]], weights=[2.0], variance=0.04)
    mixture, _ = mixture_of(proposal)
    point = np.empty(2)
    _, density = kernel.propose(mixture, 0.5, np.array([1.0, -2.0]), point)
    np.testing.assert_allclose(point, [0.5, -0.6], atol=kernel.GRID)
    assert (point / kernel.GRID == np.rint(point / kernel.GRID)).all()
    assert density == pytest.approx(-(1.0 + 4.0) / 2, abs=1e-7)


def last_positions(planted_deviation=1.0, n=50_000, steps_each=60, seed=11):
    """Where many records are at the end under a flat target, which makes them independent of each other."""
    cells = Cells(centers=[[-0.5], [0.5]], counts=[1.0, 1.0], count_scales=1e15)
    mixture = Proposal(means=[[-0.4], [0.5]], weights=[0.4, 0.6], variance=0.5)
    problem = Target(rounds=[cells], domain="box"), mixture, np.full((n, 1), 0.5), np.ones(n, dtype=int)
    walk = RecordWalk(*problem, n_steps=n * steps_each)
    walk.mixture = walk.mixture._replace(deviation=planted_deviation * walk.mixture.deviation)
    rng = np.random.default_rng(seed)
    for _ in range(steps_each):
        walk.walk(draw_block(rng, n, 1, n), n)
    return walk.state.points[:, 0]


@pytest.mark.statistical
def test_a_flat_target_spreads_records_uniformly_over_the_domain():
    law = uniform(loc=-1.0, scale=2.0).cdf
    assert kstest(last_positions(), law).pvalue > ALPHA
    assert kstest(last_positions(planted_deviation=0.9), law).pvalue <= ALPHA  # power: narrower than claimed


@pytest.mark.parametrize(
    "options",
    [
        {"n": 1, "cells": (1,), "d": 1},
        {"n": 2, "cells": (3, 1)},
        {"scale": 1e9},
        {"scale": 1e-3},
        {"noise": "gaussian", "scale": 1e-2},
        {"d": 7, "domain": "box"},
    ],
)
def test_degenerate_inputs_run(options):
    problem = make_problem(**options)
    chain = sample_chain(*problem, rng=np.random.default_rng(0), n_steps=3000)
    assert chain.best_log_target >= chain.log_targets[0]
    assert np.isfinite(chain.log_targets).all()
    assert chain.best.shape == problem[2].shape
    assert all(is_inside(problem[0], point) for point in chain.best)


def test_all_weight_on_one_component():
    target, proposal, points, _ = make_problem()
    weights = np.zeros(len(proposal.weights))
    weights[4] = 5.0
    walk = RecordWalk(target, replace(proposal, weights=weights), points, [4] * len(points), n_steps=30_000)
    chain = run_chain(walk, rng=np.random.default_rng(0))
    assert (walk.kept[walk.state.components] == 4).all()
    assert chain.n_accepted > 0


def test_a_start_on_the_boundary_stays_inside():
    cells = Cells(centers=[[0.0] * 3], counts=[9.0], count_scales=1.0)
    points = np.full((9, 3), 1 / 3)
    proposal = Proposal(means=[[1 / 3] * 3], weights=[1.0])
    chain = sample_chain(Target(rounds=[cells]), proposal, points, [0] * 9, rng=np.random.default_rng(0))
    assert (np.abs(chain.last).sum(axis=1) <= 1.0).all()


def test_a_proposal_finer_than_the_grid_is_refused():
    target, proposal, *start = make_problem()
    with pytest.raises(ParameterError, match="variance must be"):
        sample_chain(target, replace(proposal, variance=0.0), *start, rng=np.random.default_rng(0))
