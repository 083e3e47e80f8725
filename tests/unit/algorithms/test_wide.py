"""Many columns: plans that add up, cells from released answers alone, and an answer that other plans do not reach."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from recoup import AdaptiveKMeans, Box, KMeans, PrivateKMeans, infer, refit, release
from recoup.algorithms.kmeans import wide
from recoup.algorithms.kmeans.adaptive import plan_stages
from recoup.errors import CostlyTerms, ParameterError
from recoup.maxent.clouds import Clouds
from recoup.planner import plan_adaptive
from recoup.queries.base import MAX_SIZE
from recoup.queries.cells import VoronoiQuery
from recoup.transcript.context import Context


def terms(d, mechanism="gaussian", epsilon="1", **more):
    delta = Fraction("1e-6") if mechanism == "gaussian" else Fraction(0)
    box = Box([0.0] * d, [1.0] * d)
    return Context(domain=box, epsilon=Fraction(epsilon), delta=delta, mechanism=mechanism, **more)


def blobs(k, d, n=6000, seed=0, spread=0.03):
    rng = np.random.default_rng(seed)
    middles = rng.uniform(0.15, 0.85, (k, d))
    labels = np.arange(n) % k
    return np.clip(middles[labels] + spread * rng.standard_normal((n, d)), 0, 1), labels


def loss(x, centers):
    return float(((x[:, None, :] - centers[None]) ** 2).sum(axis=2).min(axis=1).sum())


@pytest.mark.parametrize(
    ("mechanism", "d", "wanted"),
    [("gaussian", 10, False), ("gaussian", 11, True), ("laplace", 32, False), ("laplace", 33, True)],
)
def test_many_columns_depend_on_the_noise(mechanism, d, wanted):
    assert wide.is_wide(terms(d, mechanism)) is wanted
    assert any(stage.squares for stage in plan_stages(terms(d, mechanism), 3, 1e4)) is wanted


def test_plans_add_up_and_end_with_the_clusters():
    for d, k, n, epsilon in product((11, 64, 128), (1, 4, 64), (50.0, 2e4, 1e7), ("0.05", "1", "20")):
        for known in (None, int(n)):
            stages = plan_stages(terms(d, epsilon=epsilon, n_records=known), k, n)
            assert sum(stage.share for stage in stages) == 1
            assert [stage.kind for stage in stages[: -1 if known else None]].count("total") == (known is None)
            assert stages[-1].n_cells == k
            counted = next(stage.n_cells for stage in stages if stage.kind == "counts")
            assert k <= counted <= max(4096, k)
            assert all(sum(stage.split.values()) == 1 for stage in stages)


def test_a_release_asks_for_directions_then_for_sums_where_records_are():
    x, _ = blobs(6, 16)
    transcript = release(
        AdaptiveKMeans(n_clusters=6),
        x,
        domain=Box([0.0] * 16, [1.0] * 16),
        epsilon=2,
        delta=1e-6,
        random_state=1,
        noise="simulated",
    )
    queries = [answered.query for answered in transcript.rounds]
    counted = next(query for query in queries if isinstance(query, VoronoiQuery) and query.n_cells > 6)
    assert counted.sums == "none"
    lengths = np.linalg.norm(counted.centers - counted.centers.mean(axis=0), axis=1)
    assert np.ptp(lengths) < 0.2 * lengths.mean()
    assert queries[-1].squares
    assert queries[-1].n_cells >= 6
    assert sum(answered.share for answered in transcript.rounds) == 1


def test_clusters_are_found_in_many_columns_and_not_without_their_rounds():
    # The noise is simulated from a fixed seed, so that this cannot fail by chance.
    x, labels = blobs(12, 32, n=12_000)
    best = loss(x, np.stack([x[labels == c].mean(axis=0) for c in range(12)]))
    model = PrivateKMeans(12, 1.0, (0, 1), delta=1e-6, random_state=0, noise="simulated").fit(x)
    assert loss(x, model.cluster_centers_) < 1.1 * best
    plain = PrivateKMeans(12, 1.0, (0, 1), delta=1e-6, algorithm="lloyd", random_state=0, noise="simulated").fit(x)
    assert loss(x, plain.cluster_centers_) > 3 * best
    other = refit(model.transcript_, model.inferred_, n_clusters=5, random_state=0)
    assert other.shape == (5, 32)
    assert loss(x, other) < loss(x, model.cluster_centers_[:5])
    assert model.verdict_.good


def test_two_clusters_in_one_cell_are_told_apart():
    # A cell that is far wider than others is divided before the last round.
    rng = np.random.default_rng(0)
    middles = rng.uniform(-0.5, 0.5, (4, 16))
    variances = np.array([0.02, 0.02, 0.02, 0.5])
    points = np.repeat(middles, 100, axis=0) + np.repeat(np.sqrt(variances / 16), 100)[:, None] * rng.standard_normal(
        (400, 16)
    )
    drawn = wide.Clouds(points, np.full(400, 10.0), middles, np.full(4, 1000.0), variances)
    divided = wide._divided(drawn, middles, rng)
    assert len(divided) == 3 + wide._PARTS
    nearest = ((divided[:, None] - middles[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert np.bincount(nearest).tolist() == [1, 1, 1, wide._PARTS]
    alike = wide._divided(drawn._replace(variances=np.full(4, 0.02)), middles, rng)
    np.testing.assert_array_equal(alike, middles)


def test_pure_epsilon_in_many_columns_is_advised_against_before_anything_is_spent():
    x = np.random.default_rng(0).uniform(size=(300, 40))
    seen = []
    spent = seen.append

    with pytest.warns(CostlyTerms, match=r"40 columns with pure epsilon.*delta above 0.*Nothing has been spent yet"):
        release(AdaptiveKMeans(n_clusters=2), x, domain=Box([0.0] * 40, [1.0] * 40), epsilon=1, on_round=spent)
    assert seen
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for domain, delta in ((Box([0.0] * 40, [1.0] * 40), 1e-6), (Box([0.0] * 5, [1.0] * 5), 0)):
            release(AdaptiveKMeans(n_clusters=2), x[:, : domain.n_columns], domain=domain, epsilon=1, delta=delta)
    assert plan_adaptive(terms(40, "laplace", n_records=1000), n_clusters=2).notes[0].startswith("40 columns with pure")
    assert not plan_adaptive(terms(40, n_records=1000), n_clusters=2).notes[0].startswith("40 columns with pure")
    seen.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CostlyTerms):
            release(AdaptiveKMeans(n_clusters=2), x, domain=Box([0.0] * 40, [1.0] * 40), epsilon=1, on_round=spent)
    assert not seen, "a warning that is made an error stops before the first round"


def test_sizes_that_a_round_with_squares_cannot_have_are_refused_before_anything_is_spent():
    algorithm, context = AdaptiveKMeans(n_clusters=1024), terms(1023, "gaussian")
    with pytest.raises(ParameterError, match="values"):
        algorithm.next_request(context, (), np.random.default_rng(0))


def test_clusters_are_divided_only_as_far_as_a_query_may_be_large():
    d, k = 1024, 1000
    rng = np.random.default_rng(0)
    means = rng.uniform(-1, 1, size=(k, d))
    variances = np.where(np.arange(k) < 30, 50.0, 1.0)
    wider = Clouds(means, np.ones(k), means, np.full(k, 10.0), variances)
    divided = wide._divided(wider, means, rng)
    assert k < len(divided) <= MAX_SIZE // (2 + d)


def test_one_cluster_is_where_its_last_round_measured_it():
    # The last round asks for the mean of everything: left out, the mean is that of the cells before, with more noise.
    x = np.random.default_rng(0).normal(0.1, 0.2, size=(4000, 40)).clip(-1, 1)
    model = PrivateKMeans(1, 1.0, (-1, 1), delta=1e-6, random_state=0, noise="simulated").fit(x)
    last = model.transcript_.rounds[-1]
    query = last.query
    assert query.n_cells == 1
    told = query.centers[0] + query.sums_of(last.noisy)[0] / last.noisy[0]
    deviation = last.noise.deviation(float(last.scales[1])) / 4000
    assert np.sqrt(np.mean((model.cluster_centers_[0] - told) ** 2)) < 1.5 * deviation


def test_of_several_releases_the_one_that_tells_most_decides_in_any_order():
    x, _ = blobs(5, 12, n=5000)
    box = Box([0.0] * 12, [1.0] * 12)

    def released(algorithm, epsilon, seed):
        options = {"delta": 1e-6, "noise": "simulated", "random_state": seed}
        return release(algorithm, x, domain=box, epsilon=epsilon, **options)

    strong, weak = (released(AdaptiveKMeans(n_clusters=5), epsilon, 0) for epsilon in (5, 0.05))
    lloyd = released(KMeans(n_clusters=5, n_rounds=8), 5, 1)

    def multiple(*parts):
        centers = refit(parts[0], infer(list(parts), random_state=0), random_state=0)
        return loss(x, centers) / loss(x, refit(strong, infer(strong, random_state=0), random_state=0))

    assert multiple(strong, weak) < 1.01
    assert multiple(weak, strong) < 1.01
    # Rounds without spreads, which clouds would leave out, are solved for where they tell more.
    assert multiple(lloyd, weak) < 1.1
