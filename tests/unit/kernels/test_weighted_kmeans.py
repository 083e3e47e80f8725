"""The weighted k-means kernel against scikit-learn and against itself."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from recoup.kernels.weighted_kmeans import weighted_kmeans


def blobs(seed, k=6, d=3, n=1200):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-1, 1, (k, d))
    return centers[rng.integers(0, k, n)] + 0.05 * rng.normal(size=(n, d)), rng.uniform(0.1, 3, n)


@pytest.mark.parametrize("seed", range(4))
def test_as_good_as_scikit_learn(seed):
    points, weights = blobs(seed)
    ours = weighted_kmeans(points, weights, 6, n_restarts=10, rng=np.random.default_rng(0))
    theirs = KMeans(6, n_init=10, random_state=0).fit(points, sample_weight=weights)
    assert ours.inertia <= 1.001 * theirs.inertia_


def test_the_loss_is_that_of_the_centers():
    points, weights = blobs(9)
    found = weighted_kmeans(points, weights, 5, n_restarts=2, rng=np.random.default_rng(1))
    squared = ((points[:, None] - found.centers) ** 2).sum(axis=2).min(axis=1)
    assert found.inertia == pytest.approx((weights * squared).sum(), rel=1e-12)


def test_a_weight_of_two_is_a_repeated_point():
    points, _ = blobs(3, n=200)
    twice = np.concatenate([points, points])
    start = points[None, :4]
    once = weighted_kmeans(points, np.full(200, 2.0), 4, n_restarts=0, rng=np.random.default_rng(0), starts=start)
    repeated = weighted_kmeans(twice, np.ones(400), 4, n_restarts=0, rng=np.random.default_rng(0), starts=start)
    np.testing.assert_allclose(once.centers, repeated.centers, rtol=1e-12)


def test_points_of_no_weight_do_not_matter():
    points, weights = blobs(4, n=300)
    far = np.concatenate([points, np.full((5, 3), 50.0)])
    rng = np.random.default_rng(0)
    found = weighted_kmeans(far, np.concatenate([weights, np.zeros(5)]), 6, n_restarts=3, rng=rng)
    assert np.abs(found.centers).max() < 2


def test_no_more_points_than_clusters():
    points = np.array([[0.5, 0.5], [0.1, 0.2]])
    found = weighted_kmeans(points, np.zeros(2), 4, n_restarts=3, rng=np.random.default_rng(0))
    assert found.centers.shape == (4, 2)
    assert np.isfinite(found.centers).all()


def test_an_empty_cluster_is_put_to_use():
    points, weights = blobs(5)
    start = np.full((1, 6, 3), 9.0)
    start[0, 0] = 0.0
    found = weighted_kmeans(points, weights, 6, n_restarts=0, rng=np.random.default_rng(0), starts=start)
    assert len(np.unique(((points[:, None] - found.centers) ** 2).sum(axis=2).argmin(axis=1))) == 6


def test_the_number_of_threads_does_not_matter(monkeypatch):
    points, weights = blobs(6, n=4000)
    results = []
    for threads in ("1", "2"):
        monkeypatch.setenv("RECOUP_NUM_THREADS", threads)
        results.append(weighted_kmeans(points, weights, 8, n_restarts=6, rng=np.random.default_rng(3)))
    np.testing.assert_array_equal(results[0].centers, results[1].centers)
