"""Mass that noise alone may have made is not clustered, and mass that stands out is."""

from types import SimpleNamespace

import numpy as np
import pytest

from recoup import Box, GridKMeans, KMeans, PrivateKMeans, infer, refit, release
from recoup.maxent.sizes import Clusters, WeightedPoints, evidence_of, sizes_by_counts, without_doubtful_clusters
from recoup.privacy.mechanism import MECHANISMS


def released(x, n_clusters=2, seed=0, epsilon=1.0, high=50.0):
    domain = Box([0.0] * x.shape[1], [high] * x.shape[1])
    algorithm = GridKMeans(n_clusters=n_clusters)
    return release(algorithm, x, domain=domain, epsilon=epsilon, random_state=seed, noise="simulated")


def crowded(rng, n=6000):
    """Records in the lowest sixth of wide bounds, as they are where bounds were declared with care."""
    return np.clip(rng.normal(3.0, 1.3, size=(n, 1)), 0.0, 8.0)


def test_wide_bounds_do_not_make_a_cluster_of_noise():
    rng = np.random.default_rng(0)
    x = crowded(rng)
    for seed in range(4):
        model = PrivateKMeans(2, 1.0, ([0.0], [50.0]), random_state=seed, noise="simulated").fit(x)
        assert model.cluster_centers_.max() < 8.0


def test_a_small_cluster_that_stands_out_is_kept():
    rng = np.random.default_rng(1)
    # 150 of 6,150 records, a twentieth of an equal part, far from the others.
    x = np.concatenate([crowded(rng), rng.normal(45.0, 0.3, size=(150, 1))])
    for seed in range(4):
        model = PrivateKMeans(2, 1.0, ([0.0], [50.0]), random_state=seed, noise="simulated").fit(x)
        assert abs(model.cluster_centers_.max() - 45.0) < 2.0


def test_sizes_are_estimated_without_bias():
    # False-alarm rate: the mean of 60 estimates is five standard errors from 0 with a probability below 1e-6.
    rng = np.random.default_rng(2)
    x, errors, naive = crowded(rng), [], []
    for seed in range(60):
        transcript = released(x, seed=seed)
        grid = transcript.rounds[-1]
        points = grid.query.marginal.centers()
        counts = np.maximum(grid.noisy, 0.0)
        sizes = sizes_by_counts([grid], Clusters(np.array([[-0.9], [0.5]]), WeightedPoints(points, counts)))
        errors.append(sizes.estimates[1] / sizes.deviations[1])
        naive.append(counts[points[:, 0] > -0.2].sum() / sizes.deviations[1])
    assert abs(np.mean(errors)) * np.sqrt(60) < 5
    # Without the negative counts the same cells seem to hold records: the bias that the estimate avoids.
    assert np.mean(naive) * np.sqrt(60) > 5


def test_large_clusters_are_never_doubted():
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 50, size=(300, 1))
    transcript = released(x, epsilon=0.001)
    points = np.linspace(-1, 1, 200)[:, None]
    weights = np.full(200, 1.5)
    kept = without_doubtful_clusters(transcript.rounds, points, weights, 3, rng)
    np.testing.assert_array_equal(kept, weights)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_largest_of_many_values_is_bounded(mechanism):
    rng = np.random.default_rng(4)
    draws = rng.laplace(size=(20_000, 100)) if mechanism == "laplace" else rng.standard_normal((20_000, 100))
    limit = MECHANISMS[mechanism].largest(100, 0.01)
    # At most 1 % may exceed it: more than 1.4 % of 20,000 has a probability below 1e-6. A limit a tenth lower fails.
    assert (draws.max(axis=1) > limit).mean() < 0.014
    assert (draws.max(axis=1) > 0.8 * limit).mean() > 0.014


def test_a_round_without_cells_tells_nothing():
    x = np.random.default_rng(5).uniform(0, 50, size=(500, 1))
    domain = Box([0.0], [50.0])
    transcript = release(KMeans(n_clusters=2, n_rounds=2), x, domain=domain, epsilon=1, random_state=0)
    clusters = Clusters(np.array([[0.0], [1.0]]), WeightedPoints(np.zeros((3, 1)), np.ones(3)))
    sizes = sizes_by_counts([], clusters)
    assert np.isinf(sizes.deviations).all()
    assert not (sizes.sure | sizes.likely).any()
    assert refit(transcript, infer(transcript, random_state=0), random_state=0).shape == (2, 1)


def with_counts(grid, counts):
    """A round of a grid that answered these counts, with noise of scale 10."""
    counts = np.asarray(counts, dtype=np.float64)
    return SimpleNamespace(query=grid.query, noise=grid.noise, noisy=counts, scales=np.full(len(counts), 10.0))


def one_cell(transcript, cell, records):
    """The grid of a release, and two clusters: one fills most of a cell, with so many records, the other is empty."""
    grid = transcript.rounds[-1]
    middles = grid.query.marginal.centers()
    width = 2.0 / len(middles)
    points = middles[cell] + width * np.linspace(-0.4, 0.4, 101)[:, None]
    data = WeightedPoints(points, np.full(101, records / 101))
    return grid, len(middles), Clusters(np.array([middles[cell], middles[cell] + 9.0]), data)


def test_evidence_is_the_likelihood_with_a_cluster_over_that_without_it():
    grid, n_cells, clusters = one_cell(released(crowded(np.random.default_rng(0))), 3, 50.0)
    for count in (-30.0, 0.0, 20.0, 50.0, 200.0):
        counts = np.zeros(n_cells)
        counts[3] = count
        sizes = [50.0, 100.0]
        likelier = [np.exp((abs(count) - abs(count - size)) / 10.0) for size in sizes]
        found = evidence_of([with_counts(grid, counts)], clusters, [0, 1])
        # The box by the quartiles holds all points but the outermost ones of rounding: one record in a hundred.
        assert found[0] == pytest.approx(np.log(np.mean(likelier)), abs=0.15)
        assert found[1] == 0.0
        # Rounds add up.
        assert evidence_of([with_counts(grid, counts)] * 3, clusters, [0, 1])[0] >= 3 * found[0] - 1e-9


def test_noise_alone_seldom_makes_evidence_and_records_do():
    # Exact: noise alone exceeds log 20 in at most 1 of 20 tables; more than 9 % of 2,000 then has less than 1e-12.
    rng = np.random.default_rng(6)
    grid, n_cells, clusters = one_cell(released(crowded(rng)), 3, 60.0)

    def share(records):
        exact = np.zeros(n_cells)
        exact[3] = records
        tables = (with_counts(grid, exact + rng.laplace(0.0, 10.0, n_cells)) for _ in range(2000))
        return np.mean([evidence_of([table], clusters, [0, 1])[0] > np.log(20.0) for table in tables])

    assert share(0.0) < 0.09
    # A planted cluster of six scales of noise is seen in 85 of 100: fewer than 80 % has a probability below 1e-8.
    assert share(60.0) > 0.8


def test_many_cells_of_positive_noise_are_no_evidence():
    # k-means gathers what the measure keeps of positive noise; an even box takes the negative counts in too.
    rng = np.random.default_rng(7)
    grid = released(crowded(rng)).rounds[-1]
    middles = grid.query.marginal.centers()
    n_cells, found = len(middles), []
    for _ in range(40):
        noisy = rng.laplace(0.0, 10.0, n_cells)
        mass = np.where(middles[:, 0] > -0.2, np.maximum(noisy, 0.0), 0.0)
        clusters = Clusters(np.array([[-0.9], [0.5]]), WeightedPoints(middles, mass))
        found.append(evidence_of([with_counts(grid, noisy)], clusters, [0, 1])[1])
        # What those cells hold, without the negative counts, would be evidence of a cluster each time.
        assert mass.sum() / 10.0 > np.log(n_cells)
    assert np.mean(np.array(found) > np.log(n_cells / 2)) <= 0.2
