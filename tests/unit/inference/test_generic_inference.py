"""Inference from any query: dense rows and fused ones agree, and the sampler on a support keeps its promises."""

import itertools

import numpy as np
import pytest
from cases import domains, queries

import recoup
from recoup.algorithms.components import PowerPCA
from recoup.algorithms.registry import ALGORITHMS, algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.evidence import evidence_of, reasons_against
from recoup.inference.infer import by_algorithms
from recoup.inference.record_walk import Target, _log_target, _model, _on_grid
from recoup.inference.sampler import (
    MAX_TRACE,
    SupportTarget,
    SupportWalk,
    run_chain,
    run_chains,
    trace_stride,
    whole_parts,
)
from recoup.maxent.consistency import voronoi_cells_of
from recoup.maxent.measure import maxent
from recoup.maxent.newton import solve
from recoup.maxent.rows import dense_rows
from recoup.queries.base import rows_in_blocks, rows_of
from recoup.queries.moments import MomentsQuery
from recoup.transcript.context import Request

BOX = recoup.Box([0.0, 0.0], [1.0, 1.0])
X = np.clip(np.random.default_rng(0).normal([[0.3, 0.6]], 0.15, size=(3000, 2)), 0, 1)


def released(algorithm, delta=0, epsilon=1, x=X, seed=0):
    terms = {"domain": BOX, "epsilon": epsilon, "delta": delta, "random_state": seed, "noise": "simulated"}
    return recoup.release(algorithm, x, **terms, isolate=False)


def dense(query, points):
    rows = query.contribution(points)
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


@pytest.mark.parametrize(("d", "name"), [(d, name) for d in (1, 3) for name in queries(d)])
def test_every_layout_of_rows_is_the_contribution(d, name):
    query = queries(d)[name]
    points = domains(d)["box"].clip(np.random.default_rng(0).uniform(-1, 1, (50, d)))
    np.testing.assert_array_equal(dense_rows(rows_of(query, points), len(points)), dense(query, points))


def test_rows_of_several_blocks_stand_side_by_side():
    points = np.random.default_rng(0).uniform(-1, 1, (30, 3))
    chosen = [queries(3)[name] for name in ("moments", "voronoi-absolute", "histogram-one-way")]
    sparse = queries(3, k=40)["voronoi-relative-1"].contribution(points)
    blocks = [block for query in chosen for block in rows_of(query, points)]
    found = dense_rows([*blocks, sparse], 30)
    expected = [*(dense(query, points) for query in chosen), sparse.toarray()]
    np.testing.assert_array_equal(found, np.concatenate(expected, axis=1))


def noise_of(rounds):
    return np.concatenate([np.full(r.query.size, r.mechanism) for r in rounds])


def test_rows_in_blocks_are_the_rows():
    points = np.random.default_rng(0).uniform(-1, 1, (9000, 3))
    for name, query in queries(3).items():
        rows = rows_in_blocks(query, points)
        rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
        np.testing.assert_array_equal(rows, dense(query, points), err_msg=name)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_dense_rows_solve_the_same_problem_as_partitions(delta):
    rounds = released(recoup.KMeans(n_clusters=3, n_rounds=3), delta).rounds
    points = np.random.default_rng(1).uniform(-1, 1, (400, 2))
    fused = [block for r in rounds for block in rows_of(r.query, points)]
    plain = [dense(r.query, points) for r in rounds]
    observed, scales = (np.concatenate([getattr(r, name) for r in rounds]) for name in ("noisy", "scales"))
    base = np.full(400, 7.5)
    terms = {"temperature": 0.01, "noise": noise_of(rounds), "tolerance": 1e-9}
    one, other = (solve(blocks, observed, scales, base, **terms) for blocks in (fused, plain))
    assert one.converged
    assert other.converged
    assert abs(one.primal - other.primal) <= one.gap + other.gap + 1e-9 * abs(one.primal)
    np.testing.assert_allclose(one.measure, other.measure, rtol=1e-4)
    # Another answer has another solution, by more than any gap.
    moved = solve(plain, observed + 3 * scales * np.arange(len(scales)), scales, base, **terms)
    assert abs(moved.primal - one.primal) > 100 * (moved.gap + one.gap)


def test_the_tolerances_certificate_covers_the_difference():
    rounds = released(recoup.KMeans(n_clusters=3, n_rounds=3)).rounds
    points = np.random.default_rng(1).uniform(-1, 1, (400, 2))
    observed, scales = (np.concatenate([getattr(r, name) for r in rounds]) for name in ("noisy", "scales"))
    plain = [dense(r.query, points) for r in rounds]
    fused = [block for r in rounds for block in rows_of(r.query, points)]
    for tolerance, blocks in itertools.product((0.1, 0.01), (plain, fused)):
        rough = solve(blocks, observed, scales, np.full(400, 7.5), temperature=0.01, tolerance=tolerance)
        fine = solve(fused, observed, scales, np.full(400, 7.5), temperature=0.01, tolerance=1e-9)
        assert -fine.gap - 1e-9 <= rough.primal - fine.primal <= rough.gap + 1e-9


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_the_fused_sampler_has_the_same_target(delta, weight):
    transcript = released(recoup.KMeans(n_clusters=3, n_rounds=3), delta)
    rng = np.random.default_rng(2)
    support = np.trunc(rng.uniform(-1, 1, (60, 2)) * 2**30) / 2**30
    positions = rng.integers(60, size=400)
    fused = Target(rounds=voronoi_cells_of(transcript.rounds), noise=transcript.context.mechanism, domain="box")
    rounds = transcript.rounds
    generic = SupportTarget(
        rows=np.concatenate([dense(r.query, support) for r in rounds], axis=1),
        observed=np.concatenate([r.noisy for r in rounds]),
        scales=np.concatenate([r.scales for r in rounds]),
        gaussian=noise_of(rounds) == "gaussian",
    )
    weights = np.bincount(positions, minlength=60) * weight
    expected = _log_target(_model(fused, weight), _on_grid(support[positions]))
    assert generic.log_density(weights) == pytest.approx(expected, rel=1e-10)
    shifted = np.roll(weights, 1)
    assert generic.log_density(shifted) != pytest.approx(expected, rel=1e-6)


def chain_of(target, seed=0, n_steps=10_000, n_records=300, **more):
    start = np.linspace(1, 2, len(target.rows))
    walk = SupportWalk(target, start, n_records=n_records, n_steps=n_steps)
    return run_chain(walk, rng=np.random.default_rng(seed), **more)


def chains_of(target, n_chains, n_steps, on_progress=None):
    begins = [lambda stream: SupportWalk(target, np.ones(80), n_records=50, n_steps=n_steps)] * n_chains
    return run_chains(begins, rng=np.random.default_rng(0), on_progress=on_progress)


@pytest.fixture
def target():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(80, 12))
    return SupportTarget(
        rows=rows,
        observed=rng.normal(size=12) * 10,
        scales=rng.uniform(1, 3, 12),
        gaussian=np.arange(12) % 2 == 0,
    )


def test_what_a_chain_reports_is_what_its_data_sets_have(target):
    chain = chain_of(target)
    total = np.linspace(1, 2, 80).sum()
    assert chain.best.sum() == pytest.approx(total)
    assert chain.last.sum() == pytest.approx(total)
    counts = chain.best / total * 300
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
    assert chain.best_log_target == pytest.approx(target.log_density(chain.best))
    assert chain.log_targets[0] == pytest.approx(chain_of(target, n_steps=1).log_targets[0])
    assert chain.best_log_target >= chain.log_targets.max() - 1e-9
    assert chain.best_log_target > chain.log_targets[0] + 1.0
    assert 0.0 < chain.acceptance <= 1.0
    assert not chain.interrupted


def test_the_trace_is_of_the_steps_it_says(target):
    for n_steps in (1, 500, 999, 1000, 1999, 4100, 12_345):
        chain = chain_of(target, n_steps=n_steps)
        stride = trace_stride(n_steps)
        assert len(chain.log_targets) == 1 + n_steps // stride <= MAX_TRACE
    # A stride of one keeps every step, so the ends are known.
    short = chain_of(target, n_steps=900)
    assert short.log_targets[-1] == pytest.approx(target.log_density(short.last))
    assert short.log_targets[short.best_step] == pytest.approx(short.best_log_target)
    # The same steps, thinned: the blocks of the walk do not show.
    every, some = (chain_of(target, n_steps=n).log_targets for n in (900, 900 * 9))
    assert len(some) == 901
    np.testing.assert_array_equal(every[0], some[0])


def test_long_chains_do_not_drift(target):
    chain = chain_of(target, n_steps=300_000, n_records=1000)
    assert chain.log_targets[-1] < chain.best_log_target + 1e-6
    ends = chain_of(target, n_steps=4096 * 64, n_records=1000)  # totals are fresh after the last step
    assert ends.best_log_target == pytest.approx(target.log_density(ends.best))


def test_a_seed_gives_one_chain_and_another_seed_another(target):
    one, same, other = chain_of(target, 1), chain_of(target, 1), chain_of(target, 2)
    np.testing.assert_array_equal(one.log_targets, same.log_targets)
    np.testing.assert_array_equal(one.best, same.best)
    assert not np.array_equal(one.log_targets, other.log_targets)


def test_whole_parts_keep_the_sum():
    np.testing.assert_array_equal(whole_parts(np.array([0.5, 1.25, 1.25]) / 3, 3), [1, 1, 1])
    shares = np.random.default_rng(0).dirichlet(np.ones(500))
    whole = whole_parts(shares, 1234)
    assert whole.sum() == 1234
    assert np.abs(whole - shares * 1234).max() <= 1.0


def test_progress_adds_up_over_chains(target):
    seen = []
    chains = chains_of(target, 3, n_steps=5000, on_progress=lambda done, total: seen.append((done, total)))
    assert len(chains) == 3
    assert [total for _, total in seen] == [15_000] * len(seen)
    parts = np.diff([0, *(done for done, _ in seen)])  # in any order: chains run in parallel
    assert sorted(parts) == [904] * 3 + [4096] * 3
    alone = chains_of(target, 1, n_steps=5000)
    np.testing.assert_array_equal(alone[0].log_targets, chains[0].log_targets)


def test_an_interruption_ends_all_chains_and_keeps_the_best_so_far(target):
    def stop(done, total):
        if done > 4096 * 2:
            raise KeyboardInterrupt

    chains = chains_of(target, 3, n_steps=100_000, on_progress=stop)
    assert len(chains) == 3
    assert all(chain.interrupted for chain in chains)
    assert sum(chain.n_steps for chain in chains) <= 4096 * 8
    assert 0 < max(chain.best_step for chain in chains) <= 4096 * 3
    for chain in chains:
        assert chain.best_log_target == pytest.approx(target.log_density(chain.best))
    with pytest.raises(ZeroDivisionError):  # other errors are not swallowed
        chain_of(target, on_progress=lambda done, total: 1 // 0)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("method", ["maxent", "mcmc"])
def test_any_query_is_inferred_from(delta, method):
    transcript = released(PowerPCA(n_components=1, n_rounds=3), delta, epsilon=5)
    terms = {"n_points": 300, "n_steps": 3000, "n_chains": 2}
    one, same, other = (recoup.infer(transcript, method, random_state=s, **terms) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.points, same.points)
    np.testing.assert_array_equal(one.weights, same.weights)
    assert not np.array_equal(one.weights, other.weights)
    assert one.n_records == pytest.approx(3000, rel=0.05)
    mean = one.weights @ one.points / one.weights.sum()
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=0.05)
    assert all(np.isfinite(value).all() for value in (one.points, one.weights))
    if method == "maxent":  # it explains the rounds, within what their noise is expected to cost
        assert one.diagnostics.log_likelihood > -2 * sum(r.query.size for r in transcript.rounds)
    if method == "mcmc":
        assert len(one.draws) == len(one.diagnostics.acceptance) == 2
        assert len(one.draws[0]) == round(one.n_records)


def test_an_interrupted_inference_is_marked():
    transcript = released(PowerPCA(n_components=1, n_rounds=2), epsilon=5)

    def stop(done, total):
        raise KeyboardInterrupt

    inferred = recoup.infer(
        transcript, "mcmc", random_state=0, n_points=200, n_steps=9000, n_chains=2, on_progress=stop
    )
    assert inferred.diagnostics.interrupted
    assert len(inferred.draws) == 2
    with pytest.raises(ParameterError, match="raw"):
        recoup.infer(transcript, "mcmc", raw=True)


def test_rounds_of_both_laws_are_read_together():
    parts = [
        released(PowerPCA(n_components=1, n_rounds=2), delta, epsilon=5, seed=s) for s, delta in ((0, 0), (1, 1e-6))
    ]
    evidence = evidence_of(parts)
    assert not evidence.one_law
    measure = maxent(by_algorithms(evidence, np.random.default_rng(0), n_points=400))
    assert measure.solution.converged
    inferred = recoup.infer(parts, "mcmc", random_state=0, n_points=300, n_steps=2000)
    for weighted in (measure.points, measure.weights), (BOX.to_unit(inferred.points), inferred.weights):
        mean = weighted[1] @ weighted[0] / weighted[1].sum()
        np.testing.assert_allclose(mean, BOX.to_unit(X).mean(axis=0), atol=0.1)


def test_support_and_trust_are_those_of_the_algorithms():
    pca, clusters = (
        released(PowerPCA(n_components=1, n_rounds=2)),
        released(recoup.KMeans(n_clusters=2, n_rounds=2), seed=1),
    )
    evidence = evidence_of([pca, clusters])
    points = evidence.support(101, 3000.0, np.random.default_rng(0))
    assert points.shape == (101, 2)
    assert BOX.contains(points).all()
    wanted = PowerPCA(n_components=1).pseudo_records
    assert evidence_of(pca).pseudo_records == wanted
    assert evidence.pseudo_records == (wanted + 10.0) / 2
    expected = algorithm_from_json(pca.algorithm).support(pca.context, pca.rounds, 50, np.random.default_rng(0))
    np.testing.assert_array_equal(points[:50], BOX.clip(expected))


class CountAlone:
    """An algorithm that asks for moments and cannot be refitted."""

    type_name = "test-moments"

    def next_request(self, context, rounds, rng):
        if rounds:
            return None
        split = {"count": "1/2", "sum": "1/4", "product": "1/4"}
        return Request(query=MomentsQuery(dimension=2), share=1, split=split)

    def estimate(self, context, rounds):
        return rounds[-1].noisy

    def to_json(self):
        return {"type": self.type_name}

    @classmethod
    def from_json(cls, value):
        return cls()


def test_an_algorithm_without_a_refit_is_still_inferred_from(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "test-moments", CountAlone)
    transcript = released(CountAlone(), epsilon=5)
    inferred = recoup.infer(transcript, "maxent", random_state=0, n_points=2000)
    mean = inferred.weights @ inferred.points / inferred.weights.sum()
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=0.05)
    second = (inferred.weights / inferred.weights.sum()) @ BOX.to_unit(inferred.points) ** 2
    np.testing.assert_allclose(second, (BOX.to_unit(X) ** 2).mean(axis=0), atol=0.05)
    with pytest.raises(ParameterError, match="has no refit"):
        recoup.refit(transcript, inferred)


def test_an_algorithm_owns_the_size_of_its_support(monkeypatch):
    mixture, lloyd = (released(a) for a in (recoup.GaussianMixture(n_components=2), recoup.KMeans(n_clusters=2)))
    sizes = [len(recoup.infer(t, random_state=0).points) for t in (mixture, lloyd, [mixture, lloyd])]
    assert sizes == [5000, 10_000, 10_000]
    assert len(recoup.infer(mixture, random_state=0, n_points=700).points) == 700
    monkeypatch.setattr(PowerPCA, "support_points", "many", raising=False)
    with pytest.raises(ParameterError, match="support_points"):
        recoup.infer(released(PowerPCA(n_components=1)))
    monkeypatch.setattr(PowerPCA, "support_points", 800)
    assert len(recoup.infer(released(PowerPCA(n_components=1)), random_state=0).points) == 800


def test_an_algorithm_without_a_guard_or_without_rounds_says_nothing():
    context = released(PowerPCA(n_components=1)).context
    empty = recoup.Transcript(context=context, algorithm=PowerPCA(n_components=1).to_json(), rounds=(), simulated=True)
    assert reasons_against(evidence_of(empty)) == []
    assert reasons_against(evidence_of(released(recoup.KMeans(n_clusters=2), epsilon=0.001))) == []
