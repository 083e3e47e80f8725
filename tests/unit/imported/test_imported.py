"""Answers that were made elsewhere are inferred from like any other."""

from __future__ import annotations

import numpy as np
import pytest
from imported_cases import GRID, HIGH, LOW, file_of, kmeans_elsewhere, people, table

import recoup
from recoup.algorithms.kmeans.lloyd import in_order
from recoup.errors import ParameterError
from recoup.imported import imported_from_json
from recoup.inference.intervals import intervals
from recoup.kernels.weighted_kmeans import weighted_inertia
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery


def test_sums_in_own_units_are_moved_to_the_unit_domain(imported):
    given = kmeans_elsewhere(people())[0][0]
    answered, domain = imported.rounds[0], imported.context.domain
    np.testing.assert_allclose((answered.query.centers + 1) * [50, 40] + [0, 10], given["query"]["centers"])
    counts, sums = np.array(given["noisy"]["count"]), np.array(given["noisy"]["sum"])
    np.testing.assert_array_equal(answered.noisy[:3], counts)
    # Their quotient is the same centre in both units.
    unit = answered.noisy[3:].reshape(3, 2) / counts[:, None]
    np.testing.assert_allclose(domain.from_unit(unit), sums / counts[:, None], rtol=1e-12)
    np.testing.assert_array_equal(answered.scales[:3], 3.0)
    np.testing.assert_allclose(answered.scales[3:5], [np.hypot(150, 50 * 3) / 50, np.hypot(150, 50 * 3) / 40])


@pytest.mark.parametrize("gaussian", [False, True])
def test_inference_recovers_what_the_noise_took(gaussian):
    x = people()
    rounds, last = kmeans_elsewhere(x, count_scale=60.0, sum_scale=6000.0, gaussian=gaussian)
    terms = {"mechanism": "gaussian", "delta": 1e-6} if gaussian else {}
    transcript = imported_from_json(file_of(rounds, **terms))
    inferred = recoup.infer(transcript, random_state=0)
    centers = recoup.refit(transcript, inferred, random_state=0)
    ones = np.ones(len(x))
    np.testing.assert_allclose(recoup.refit(transcript), in_order(last), rtol=1e-9)
    assert weighted_inertia(x, ones, centers) < weighted_inertia(x, ones, last)
    assert abs(inferred.n_records - len(x)) < 0.1 * len(x)


def test_the_noise_that_is_stated_decides_and_not_the_claim():
    rounds = kmeans_elsewhere(people(), sum_scale=600.0)[0]
    grid = {"query": {"type": "grid", "sides": [6, 6]}, "noisy": [80.0] * 36, "scale": 20.0}
    points = [
        recoup.infer(imported_from_json(file_of([*rounds, grid], epsilon=e)), random_state=0).weights for e in (0.1, 9)
    ]
    np.testing.assert_array_equal(*points)


def test_every_method_and_intervals_read_it(imported):
    for method in ("mcmc", "consistency"):
        inferred = recoup.infer(imported, method, random_state=0, n_steps=500)
        assert recoup.refit(imported, inferred, random_state=0).shape == (3, 2)
    inferred = recoup.infer(imported, random_state=0, n_points=2000)
    centers = recoup.refit(imported, inferred, random_state=0)
    found = intervals(imported, inferred, centers, level=0.5, n_draws=5, random_state=0)
    assert ((found.center_low <= centers) & (centers <= found.center_high)).all()
    assert (found.center_high > found.center_low).any()


def test_scales_of_a_value_a_block_or_all():
    domain = recoup.Box([0, 0], [1, 1])
    query = VoronoiQuery(centers=np.zeros((2, 2)))
    for scales, expected in (
        (2.0, [2.0] * 6),
        ([1, 3], [1, 1, 3, 3, 3, 3]),
        ({"sum": 3, "count": 1}, [1, 1, 3, 3, 3, 3]),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        (np.arange(1.0, 7.0), [1, 2, 3, 4, 5, 6]),
    ):
        made = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, np.arange(6), scales)])
        np.testing.assert_array_equal(made.rounds[0].scales, expected)
    wrong = [[1, 2, 3], 0, -1, float("nan"), float("inf"), [], "2", True, [[1, 3]], {"count": 1}]
    for scales in [*wrong, {"count": [1, 2], "sum": 3}]:
        with pytest.raises(ParameterError, match="round 1"):
            recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, np.arange(6), scales)])


def test_a_grid_with_a_scale_of_its_own_for_each_cell_trusts_the_quiet_ones():
    domain, query = recoup.Box([0], [1]), GridQuery(sides=(4,))
    noisy = [100.0, 100.0, 100.0, 300.0]
    loud = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, noisy, [1, 1, 1, 500])])
    quiet = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, noisy, [500, 1, 1, 1])])
    last = [recoup.infer(t, random_state=0) for t in (loud, quiet)]
    share = [float(i.weights[i.points[:, 0] > 0.75].sum() / i.n_records) for i in last]
    assert share[0] < share[1]


def test_the_price_is_what_such_noise_would_cost_here():
    x = np.random.default_rng(0).uniform(size=(100, 2))
    for delta in (0, 1e-6):
        domain = recoup.Box([0, 0], [1, 1])
        released = recoup.release(recoup.KMeans(n_clusters=3), x, domain=domain, epsilon=2, delta=delta)
        again = recoup.transcript_from(
            domain=domain, epsilon=2, delta=delta, mechanism=released.context.mechanism,
            rounds=[(r.query, r.noisy, r.scales) for r in released.rounds],
        )  # fmt: skip
        for a, b in zip(again.rounds, released.rounds, strict=True):
            assert float(a.price.amount) == pytest.approx(float(b.price.amount), rel=1e-6)
            assert np.array(a.weights) / sum(a.weights) == pytest.approx(np.array(b.weights) / sum(b.weights), rel=1e-6)
        # The same answers give the same inferred data, wherever they were made.
        same = [recoup.infer(t, random_state=0).weights for t in (again, released)]
        np.testing.assert_allclose(*same, rtol=1e-3, atol=1e-6)


def test_rounds_alone_are_inferred_from_and_have_no_answer():
    transcript = imported_from_json(GRID | {"algorithm": "a survey's histogram"})
    assert transcript.algorithm == {"type": "elsewhere", "name": "a survey's histogram"}
    inferred = recoup.infer(transcript, random_state=0)
    assert inferred.n_records == pytest.approx(59.25)
    for data in (None, inferred):
        with pytest.raises(ParameterError, match="inferred data set itself"):
            recoup.refit(transcript, data)
    with pytest.raises(ParameterError, match=r"algorithm=recoup\.AdaptiveKMeans"):
        recoup.refit(transcript, inferred, n_clusters=2)
    # What the message names works.
    clustered = imported_from_json(GRID | {"algorithm": recoup.AdaptiveKMeans(n_clusters=2).to_json()})
    assert recoup.refit(clustered, recoup.infer(clustered, random_state=0), random_state=0).shape == (2, 1)
    with pytest.raises(ParameterError, match="ran elsewhere"):
        recoup.release(recoup.algorithms.base.ImportedAlgorithm(), [[0.5]], domain=recoup.Box([0], [1]), epsilon=1)


def test_marginals_can_be_clustered_if_an_algorithm_is_named():
    x = people()
    query = HistogramQuery.one_way(dimension=2, bins=10)
    domain = recoup.Box(LOW, HIGH)
    noisy = np.asarray(query.contribution(domain.to_unit(x)).sum(axis=0)) + np.random.default_rng(0).laplace(0, 5, 20)
    made = recoup.transcript_from(
        domain=domain, epsilon=0.4, rounds=[(query, noisy, 5)], algorithm=recoup.GridKMeans(n_clusters=3)
    )
    assert recoup.refit(made, recoup.infer(made, random_state=0), random_state=0).shape == (3, 2)


def test_it_is_read_together_with_a_release(imported):
    terms = {"epsilon": 1, "noise": "simulated", "random_state": 0}
    grid = recoup.release(recoup.GridKMeans(n_clusters=3), table(), domain=imported.context.domain, **terms)
    unnamed = recoup.release(recoup.GridKMeans(n_clusters=3), people(), domain=recoup.Box(LOW, HIGH), **terms)
    with pytest.raises(ParameterError, match="columns"):
        recoup.infer([imported, unnamed])
    inferred = recoup.infer([imported, grid], random_state=0, n_points=3000)
    assert inferred.simulated
    assert recoup.refit(imported, inferred, random_state=0).shape == (3, 2)


def test_extreme_numbers_give_finite_results():
    domain = recoup.Box([0], [1])
    query = VoronoiQuery(centers=np.array([[-0.5], [0.5]]))
    for noisy, scale in (([1e12, -1e12, 1e12, 1e12], 1.0), ([0.0] * 4, 1e12), ([5, 6, 1, -1], 1e-6)):
        made = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, noisy, scale)])
        centers = recoup.refit(made, recoup.infer(made, random_state=0, n_points=500), random_state=0)
        assert np.isfinite(centers).all()
        assert ((centers >= 0) & (centers <= 1)).all()
