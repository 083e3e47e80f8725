"""The hybrid: its split, its predictions, the decision that they make, and its two parts."""

from fractions import Fraction

import numpy as np
import pytest
from naive import lloyd
from su_et_al import best_split_error, expected_error

from recoup import Box, HybridKMeans, L1Ball, L2Ball, infer, refit, release
from recoup.algorithms.kmeans.grid import (
    GridKMeans,
    best_count_part,
    centers_of_grid,
    choose_grid,
    choose_rounds,
    predicted_grid_error,
    predicted_lloyd_error,
)
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import ParameterError
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context

DOMAINS = {"box": Box, "l1": L1Ball, "l2": L2Ball}


def terms(d=2, kind="box", epsilon="1", delta="0", **rest):
    return Context(
        domain=DOMAINS[kind]([0] * d, [1] * d),
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        mechanism="gaussian" if Fraction(delta) else "laplace",
        **rest,
    )


@pytest.mark.parametrize(("d", "k"), [(1, 2), (2, 15), (10, 3)])
def test_the_lloyd_round_has_the_published_split_and_error(d, k):
    t = terms(d)
    a = (4 * d * 0.225**2) ** (1 / 3)
    assert float(best_count_part(t)) == pytest.approx(a / (d + a), abs=1e-3)
    found = predicted_lloyd_error(t, k, 4000, Fraction(1, 2))
    assert found == pytest.approx(best_split_error(epsilon=0.5, n_clusters=k, n_columns=d, n_records=4000), rel=1e-4)


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("delta", ["0", "0.000001"])
def test_the_split_is_the_best_one(kind, delta):
    t = terms(3, kind, delta=delta)

    def error(part):
        """Noisy means with this split, from the mechanism's own calibration."""
        weights = t.noise.weights([part, 1 - part], t.sensitivity)
        scale = t.noise.calibrate(t.budget.amount, t.distance).scale
        return expected_error(
            n_clusters=4,
            n_columns=3,
            n_records=1000,
            count_deviation=t.noise.deviation(scale / weights[0]),
            sum_deviation=t.noise.deviation(scale / weights[1] * t.domain.sum_bound(t.noise.norm)),
        )

    best = best_count_part(t)
    assert predicted_lloyd_error(t, 4, 1000, Fraction(1)) == pytest.approx(error(best), rel=1e-4)
    assert error(best) < min(error(best * Fraction(9, 10)), error(min(best * Fraction(11, 10), Fraction(99, 100))))


def test_the_predicted_noise_of_a_grid_is_that_of_its_centres():
    # One cluster that fills the box: its centre is the mean of all cells.
    t = terms(2, epsilon="0.5")
    query, n = GridQuery(sides=(40, 40)), 50_000.0
    middles = query.marginal.centers()
    rng = np.random.default_rng(0)
    exact = np.full(len(middles), n / len(middles))
    moved = []
    for _ in range(400):
        counts = exact + rng.laplace(scale=2.0, size=len(exact))
        moved.append(((counts @ middles / counts.sum()) ** 2).sum())
    cells = 2 / (3 * 40**3)  # the other part of the prediction: bins, which a uniform density does not feel
    assert np.mean(moved) == pytest.approx(predicted_grid_error(t, query, 1, n, Fraction(1)) - cells, rel=0.25)


def test_the_cheaper_error_wins():
    for d, k, n, epsilon in [(2, 15, 5000, "1"), (2, 15, 5000, "0.05"), (6, 5, 4000, "1"), (3, 3, 33_925, "0.25")]:
        t = terms(d, epsilon=epsilon, n_records=n)
        plan = choose_rounds(t, k, n)
        assert bool(plan.lloyd_share) == (plan.lloyd_error < plan.grid_error)
        assert plan.grid.share + plan.lloyd_share == 1
        assert plan.grid.query == choose_grid(t, k, n, plan.grid.share, "eugkm").query
        transcript = release(
            HybridKMeans(n_clusters=k),
            np.zeros((9, d)),
            domain=t.domain,
            epsilon=epsilon,
            n_records=n,
            noise="simulated",
        )
        assert len(transcript.rounds) == 1 + bool(plan.lloyd_share)
    assert not choose_rounds(terms(2), 15, 5000).lloyd_share
    assert choose_rounds(terms(6), 5, 48_842).lloyd_share == (1 - Fraction(2, 100)) / 2


def test_without_a_lloyd_round_it_is_the_grid_algorithm():
    x = np.random.default_rng(0).uniform(size=(500, 2))
    terms = {"domain": Box([0, 0], [1, 1]), "epsilon": 1, "n_records": 500, "random_state": 3, "noise": "simulated"}
    hybrid, grid = (release(a(n_clusters=15), x, **terms) for a in (HybridKMeans, GridKMeans))
    assert [r.integers for r in hybrid.rounds] == [r.integers for r in grid.rounds]
    np.testing.assert_array_equal(refit(hybrid, None), refit(grid, None))


class NoNoise:
    """What a curator would answer if it kept nothing secret."""

    simulated = True

    def laplace(self, totals, scale):
        return list(totals)

    gaussian = laplace


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("delta", ["0", "0.000001"])
def test_without_noise_the_second_part_is_one_step_of_lloyd(kind, delta):
    rng = np.random.default_rng(3)
    middles = rng.uniform(0.1, 0.9, size=(4, 3))
    x = rng.normal(middles[rng.integers(4, size=1500)], 0.08)
    t, algorithm, rounds = terms(3, kind, delta=delta, n_records=1500), HybridKMeans(n_clusters=4), []
    curator = Curator(open_source(x, t.domain), t)
    while request := algorithm.next_request(t, rounds, rng):
        rounds.append(curator.answer(request, NoNoise()))
    assert [r.query.type_name for r in rounds] == ["grid", "voronoi"]
    start = centers_of_grid(t, rounds, 4)
    np.testing.assert_array_equal(rounds[1].query.centers, start)
    expected = np.array(lloyd(t.domain.to_unit(x).tolist(), start.tolist(), 1))
    np.testing.assert_allclose(algorithm.estimate(t, rounds), expected, atol=1e-6)
    assert np.abs(expected - start).max() > 0.01


def test_inference_reads_both_parts():
    rng = np.random.default_rng(0)
    places = np.array([[0.2, 0.2, 0.7], [0.8, 0.3, 0.3], [0.4, 0.8, 0.5]])
    x = rng.normal(places[rng.integers(3, size=4000)], 0.05)
    transcript = release(
        HybridKMeans(n_clusters=3), x, domain=Box([0] * 3, [1] * 3), epsilon=1, random_state=0, noise="simulated"
    )
    assert [r.query.type_name for r in transcript.rounds] == ["voronoi", "grid", "voronoi"]
    inferred = infer(transcript, random_state=0)
    assert [r.round for r in inferred.diagnostics.residuals] == [0, 1, 2]
    assert set(inferred.diagnostics.residuals[2].by_block) == {"count", "sum"}
    for centers in (refit(transcript, None), refit(transcript, inferred, random_state=0)):
        for place in places:
            assert np.abs(centers - place).max(axis=1).min() < 0.03
    with pytest.raises(ParameterError, match="absolute sums"):
        infer(transcript, "consistency")


def test_a_crash_between_the_parts_leaves_the_grid():
    x = np.random.default_rng(0).uniform(size=(500, 3))
    transcript = release(HybridKMeans(n_clusters=2), x, domain=Box([0] * 3, [1] * 3), epsilon=1, n_records=500)
    algorithm, rounds = HybridKMeans(n_clusters=2), transcript.rounds
    assert len(rounds) == 2
    np.testing.assert_array_equal(
        algorithm.estimate(transcript.context, rounds[:1]), centers_of_grid(transcript.context, rounds, 2)
    )
    with pytest.raises(ParameterError, match="first round"):
        algorithm.estimate(transcript.context, ())
    for value in (0, True, 2**20):
        with pytest.raises(ParameterError, match="n_clusters"):
            HybridKMeans(n_clusters=value)
