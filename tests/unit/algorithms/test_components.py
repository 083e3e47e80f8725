"""Principal components: bounds of the queries, the algorithms, the guard, the plan and the estimator."""

import itertools
import json
import pickle
import warnings

import naive
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import context, domains

import recoup
from recoup.algorithms.components import (
    CovariancePCA,
    PowerPCA,
    Spread,
    plan_components,
    pooled,
    signed,
    spread_of,
    total_variance,
)
from recoup.domain import Box, L1Ball, L2Ball
from recoup.errors import DataError, DoubtfulResult, ParameterError, PostprocessDeclined, TranscriptFormatError
from recoup.queries import query_from_json
from recoup.queries.base import sum_of_contributions
from recoup.queries.moments import MomentsQuery, PowerQuery
from recoup.transcript.context import Context
from recoup.transcript.transcript import Transcript

RNG = np.random.default_rng(3)
TURN = np.linalg.qr(RNG.standard_normal((5, 5)))[0]
CLOUD = np.clip(0.2 + (RNG.standard_normal((20_000, 5)) * [0.4, 0.3, 0.08, 0.08, 0.08]) @ TURN.T, -1, 1)
UNIT = Box([-1.0] * 5, [1.0] * 5)
WIDE = {
    d: [*domains(d).values(), L1Ball([0.0] * d, [1.0] * d, radius=1.6), L2Ball([0.0] * d, [1.0] * d, radius=1.3)]
    for d in (1, 2, 4)
}


def released(algorithm, x=CLOUD, domain=UNIT, epsilon=2, delta=1e-6, seed=0):
    return recoup.release(
        algorithm, x, domain=domain, epsilon=epsilon, delta=delta, random_state=seed, noise="simulated"
    )


def captured(components, x=CLOUD):
    covariance = np.cov(x.T)
    best = np.linalg.eigvalsh(covariance)[::-1][: len(components)].sum()
    return np.trace(components @ covariance @ components.T) / best


def extreme_points(domain, rng, n=4000):
    """Points of the unit domain, most of them on its edge: corners, vertices and random directions pushed outward."""
    d = domain.n_columns
    corners = [np.array(v) for v in itertools.product((-1.0, 0.0, 1.0), repeat=d)]
    radius = domain.shape()[1]
    radius = min(radius, 4.0 * d)
    whole = np.zeros(d)
    size = radius if domain.kind == "l1" else radius**2
    for j in range(min(d, int(np.ceil(size)))):
        left = min(1.0, size - j)
        whole[j] = left if domain.kind == "l1" else np.sqrt(left)
    drawn = rng.standard_normal((n, d)) * 3.0 * rng.random((n, 1))
    return domain.clip(
        np.concatenate([corners, radius * np.array(corners), np.ones((1, d)) * radius / d**0.5, whole[None], drawn])
    )


def weighted_norms(query, domain, points):
    """The largest weighted norm of each block over the points: (name, l1, l2)."""
    rows, start = np.asarray(query.contribution(points)), 0
    for block in query.sensitivity(domain).blocks:
        part = np.abs(rows[:, start : start + block.size])
        start += block.size
        yield block.name, (part / block.l1).sum(axis=1).max(), np.sqrt(((part / block.l2) ** 2).sum(axis=1)).max()


@pytest.mark.parametrize("d", WIDE)
def test_the_bounds_of_moments_hold_and_are_reached(d):
    for domain in WIDE[d]:
        points = extreme_points(domain, np.random.default_rng(0))
        assert domain.contains(points).all()
        for name, l1, l2 in weighted_norms(MomentsQuery(dimension=d), domain, points):
            assert 0.999 < l1 <= 1.0, (domain, name)
            assert 0.999 < l2 <= 1.0, (domain, name)


@pytest.mark.parametrize("d", WIDE)
@pytest.mark.parametrize("p", [1, 2])
def test_the_bounds_of_products_hold(d, p):
    rng = np.random.default_rng(1)
    for domain in WIDE[d]:
        points = extreme_points(domain, rng)
        for directions in (np.linalg.qr(rng.standard_normal((d, min(p, d))))[0], np.eye(d)[:, : min(p, d)]):
            query = PowerQuery(directions=directions.clip(-1, 1))
            norms = {name: (l1, l2) for name, l1, l2 in weighted_norms(query, domain, points)}
            assert max(max(pair) for pair in norms.values()) <= 1.0
            assert min(norms["square"]) > 0.999
    # Along a column of the box, or anywhere in an L2 ball, the bound is reached.
    assert weighted_norm_of_products(Box([0.0] * d, [1.0] * d), np.eye(d)[:, :1]) > 0.999
    assert weighted_norm_of_products(L2Ball([0.0] * d, [1.0] * d), np.eye(d)[:, :1]) > 0.999


def weighted_norm_of_products(domain, directions):
    points = extreme_points(domain, np.random.default_rng(2))
    return next(
        l2 for name, _, l2 in weighted_norms(PowerQuery(directions=directions), domain, points) if name == "product"
    )


def test_a_bound_that_is_too_small_would_be_noticed(monkeypatch):
    monkeypatch.setattr("recoup.queries.moments._reach", _small)
    points = extreme_points(Box([0.0] * 2, [1.0] * 2), np.random.default_rng(0))
    norms = list(weighted_norms(MomentsQuery(dimension=2), Box([0.0] * 2, [1.0] * 2), points))
    assert max(l2 for _, _, l2 in norms) > 1.01


def _small(domain):
    from recoup.queries import moments

    d = float(domain.n_columns)
    return moments._Reach(1.0, 0.9 * d, 0.9 * d, 0.9 * d)


def test_in_the_plane_the_bounds_are_the_known_ones():
    product = MomentsQuery(dimension=2).sensitivity(L2Ball([0, 0], [1, 1], radius=0.5)).blocks[-1]
    np.testing.assert_allclose(
        product.l2, [0.25, 0.25 / np.sqrt(2), 0.25]
    )  # R^2 for the matrix, off the diagonal twice
    vertex = MomentsQuery(dimension=2).sensitivity(L1Ball([0, 0], [1, 1], radius=0.5)).blocks[-1]
    np.testing.assert_allclose(vertex.l1, [0.25, 0.125, 0.25])
    box = MomentsQuery(dimension=3).sensitivity(Box([0] * 3, [1] * 3)).blocks[-1]
    off = box.l2[1] / box.l2[0]
    assert off == pytest.approx(2**-0.25)
    total = 3 * box.l2[0] ** 2 + 6 * box.l2[1] ** 2
    for other in (off * 0.98, off * 1.02):  # least noise among the pairs whose norm is 1
        on = np.sqrt(3 + 3 / other**2)
        assert total < 3 * on**2 + 6 * (on * other) ** 2


def test_the_triangle_at_a_time_is_the_sum_of_contributions():
    query, rng = MomentsQuery(dimension=5), np.random.default_rng(0)
    records = (rng.uniform(-1, 1, (5000, 5)) * 2**30).astype(np.int32)
    records[::13, 0] = np.iinfo(np.int32).min
    factors = np.concatenate([[2.0**20], rng.uniform(1e5, 1e6, query.size - 1)])
    np.testing.assert_array_equal(query.integer_total(records, factors), sum_of_contributions(query, records, factors))


def test_queries_are_values():
    power = PowerQuery(directions=TURN[:, :2].clip(-1, 1))
    for query in (power, MomentsQuery(dimension=5)):
        again = pickle.loads(pickle.dumps(query))
        np.testing.assert_array_equal(again.contribution(CLOUD[:7]), query.contribution(CLOUD[:7]))
    np.testing.assert_array_equal(power.contribution(CLOUD[:0]), np.empty((0, power.size)))
    expected = [naive.contribution(power, x)[power.size - 1] for x in CLOUD[:5].tolist()]
    np.testing.assert_array_equal(power.contribution(CLOUD[:5])[:, -1], expected)
    # Alone or in a crowd, a record contributes the same bits.
    np.testing.assert_array_equal(power.contribution(CLOUD[:1])[0], power.contribution(CLOUD[:500])[0])
    matrix = MomentsQuery(dimension=2).matrix(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(matrix, [[1, 2], [2, 3]])


@pytest.mark.parametrize(
    "value",
    [
        {"type": "moments"},
        {"type": "moments", "dimension": "3"},
        {"type": "moments", "dimension": True},
        {"type": "moments", "dimension": 0},
        {"type": "moments", "dimension": 4000},
        {"type": "power"},
        {"type": "power", "directions": [1.0]},
        {"type": "power", "directions": [[2.0]]},
        {"type": "power", "directions": [[0.0], [0.0]]},
        {"type": "power", "directions": [[1.0, 0.0]]},
        {"type": "power", "directions": [["1"]]},
    ],
)
def test_a_query_that_is_none_is_refused(value):
    with pytest.raises(TranscriptFormatError):
        query_from_json(value)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("algorithm", [CovariancePCA(n_components=2), PowerPCA(n_components=2, n_rounds=3)])
def test_components_are_orthonormal_signed_and_near_the_truth(algorithm, mechanism):
    transcript = released(algorithm, epsilon=20, delta=1e-6 if mechanism == "gaussian" else 0)
    again = Transcript.from_json(json.loads(json.dumps(transcript.to_json())))
    inferred = recoup.infer(again, "maxent", random_state=0, n_points=1500)
    for answer in (recoup.refit(transcript), recoup.refit(again, inferred)):
        assert answer.shape == (3, 5)
        np.testing.assert_allclose(answer[1:] @ answer[1:].T, np.eye(2), atol=1e-12)
        np.testing.assert_array_equal(answer[1:], signed(answer[1:]))
        assert (answer[1:].max(axis=1) == np.abs(answer[1:]).max(axis=1)).all()
        assert captured(answer[1:]) > 0.98
        np.testing.assert_allclose(answer[0], CLOUD.mean(axis=0), atol=0.03)


def test_the_sampler_reads_them_too():
    transcript = released(PowerPCA(n_components=2, n_rounds=3), x=CLOUD[:2000], epsilon=20)
    inferred = recoup.infer(transcript, "mcmc", random_state=0, n_points=300, n_steps=2000)
    assert captured(recoup.refit(transcript, inferred)[1:]) > 0.9


def test_the_mean_has_the_users_units_and_components_do_not():
    domain = Box([0.0] * 5, [10.0, 1.0, 1.0, 1.0, 1.0])
    transcript = released(CovariancePCA(n_components=1), x=domain.from_unit(CLOUD), domain=domain, epsilon=20)
    plain = released(CovariancePCA(n_components=1), epsilon=20)
    np.testing.assert_allclose(recoup.refit(transcript)[1:], recoup.refit(plain)[1:], atol=1e-6)
    np.testing.assert_allclose(recoup.refit(transcript)[0], domain.from_unit(recoup.refit(plain)[:1])[0], atol=1e-6)


def test_least_squares_solves_its_normal_equations():
    transcript = released(PowerPCA(n_components=2, n_rounds=4))
    terms, rounds = transcript.context, transcript.rounds
    found = PowerPCA(n_components=2).spread(terms, rounds)
    n_records, mean = pooled(terms, rounds)
    variance, scale = total_variance(terms, rounds, n_records, mean)
    tau = variance / 5
    gradient = 2 * (found.covariance - 0.3 * tau * np.eye(5)) / tau**2
    gradient += 2 * (np.trace(found.covariance) - variance) / scale**2 * np.eye(5)
    for answered in rounds:
        directions, where = answered.query.directions, answered.block("product", terms)
        wanted = answered.noisy[where].reshape(5, 2) / n_records - np.outer(mean, mean @ directions)
        misfit = found.covariance @ directions - wanted
        half = misfit @ directions.T / (answered.scales[where][0] / n_records) ** 2
        gradient += half + half.T
    assert np.abs(gradient).max() < 1e-8 * (n_records / rounds[0].scales[-1]) ** 2
    np.testing.assert_array_equal(found.covariance, found.covariance.T)


def test_a_spread_is_that_of_the_points():
    points, weights = CLOUD[:50], np.arange(1.0, 51.0)
    found = spread_of(UNIT, points, weights)
    repeated = np.repeat(points, np.arange(1, 51), axis=0)
    np.testing.assert_allclose(found.mean, repeated.mean(axis=0))
    np.testing.assert_allclose(found.covariance, np.cov(repeated.T, bias=True))
    diagonal = Spread(np.zeros(3), np.diag([1.0, 3.0, 2.0])).components(2)
    np.testing.assert_allclose(diagonal, [[0, 0, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(signed(np.array([[0.6, -0.8]])), [[-0.6, 0.8]])
    _, ratio = Spread(np.zeros(2), np.diag([0.3, -0.1]), 0.6).explained(np.eye(2))
    np.testing.assert_allclose(ratio, [0.5, 0.0])


@pytest.mark.parametrize("algorithm", [CovariancePCA(n_components=2), PowerPCA(n_components=2)])
def test_the_guard_declines_where_noise_hides_everything_and_nowhere_else(algorithm):
    weak, strong = (released(algorithm, x=CLOUD[:n], epsilon=e) for n, e in ((200, 0.1), (20_000, 5)))
    reason = algorithm.declines(weak.context, weak.rounds)
    assert "noise" in reason
    assert reason.count(".") >= 1
    assert algorithm.declines(strong.context, strong.rounds) is None


def test_more_components_than_columns_are_refused():
    for algorithm in (CovariancePCA(n_components=6), PowerPCA(n_components=6)):
        with pytest.raises(ParameterError, match="5 columns"):
            released(algorithm)
    with pytest.raises(ParameterError, match="n_components"):
        CovariancePCA(n_components=0)
    with pytest.raises(ParameterError, match="before the first round"):
        PowerPCA(n_components=1).estimate(context(UNIT), ())


def test_the_plan_prefers_one_round_and_says_why():
    for d, mechanism in itertools.product((3, 20, 64), ("laplace", "gaussian")):
        terms = context(Box([0] * d, [1] * d), mechanism)
        plan = plan_components(terms, n_components=2)
        assert (plan.algorithm, plan.n_rounds) == ("covariance", 1)
        assert "one round" in plan.reason
    # Pure epsilon pays for the square of the columns: from some width on, a few directions are cheaper.
    wide = plan_components(context(Box([0] * 1000, [1] * 1000)), n_components=1, n_rounds=2)
    assert (wide.algorithm, wide.n_rounds) == ("power", 2)
    assert wide.power_noise < wide.covariance_noise
    assert "power iteration" in wide.reason
    gaussian = plan_components(context(Box([0] * 100, [1] * 100), "gaussian"), n_components=2)
    assert gaussian.algorithm == "covariance"
    assert gaussian.covariance_noise < gaussian.power_noise
    huge = plan_components(context(Box([0] * 2000, [1] * 2000), "gaussian"), n_components=2)
    assert huge.algorithm == "power"
    assert huge.covariance_noise is None


def test_the_planned_noise_is_the_noise_of_the_release():
    terms = Context(domain=UNIT, epsilon=2, delta="1e-6", mechanism="gaussian")
    plan = plan_components(terms, n_components=2)
    once = released(CovariancePCA(n_components=2)).rounds[0]
    scales = once.scales[once.block("product", terms)]
    assert plan.covariance_noise == pytest.approx(2 * np.sqrt(5) * np.sqrt(np.mean(scales**2)))


def test_the_estimator_is_shaped_like_scikit_learns():
    model = recoup.PrivatePCA(2, 20.0, (-1, 1), delta=1e-6, random_state=0, noise="simulated").fit(CLOUD)
    assert model.transcript_.algorithm["type"] == "pca-covariance"
    assert model.inferred_ is None
    assert model.declined_ is None
    assert model.components_.shape == (2, 5)
    values = np.linalg.eigvalsh(np.cov(CLOUD.T))[::-1]
    np.testing.assert_allclose(model.explained_variance_, values[:2], rtol=0.05)
    np.testing.assert_allclose(model.explained_variance_ratio_, values[:2] / values.sum(), rtol=0.05)
    scores = model.transform(CLOUD)
    assert scores.shape == (20_000, 2)
    np.testing.assert_allclose(scores, (CLOUD - model.mean_) @ model.components_.T, atol=1e-9)
    inside = scores[:50] * 0.2
    np.testing.assert_allclose(model.transform(model.inverse_transform(inside)), inside, atol=1e-9)
    assert list(model.get_feature_names_out()) == ["privatepca0", "privatepca1"]
    assert np.isnan(model.transform([[np.nan, 0, 0, 0, 0]])).all()
    with pytest.raises(DataError, match=r"\(n, 2\)"):
        model.inverse_transform(np.zeros((3, 5)))
    assert model.privacy_["epsilon"] == 20.0


def test_the_power_iteration_is_inferred_from_unless_noise_hides_it():
    terms = {"bounds": (-1, 1), "delta": 1e-6, "algorithm": "power", "random_state": 0, "noise": "simulated"}
    model = recoup.PrivatePCA(2, 20.0, n_rounds=3, **terms).fit(CLOUD)
    assert len(model.transcript_.rounds) == 3
    assert model.inferred_.method == "maxent"
    assert captured(model.components_) > 0.98
    assert 0.5 < model.explained_variance_ratio_.sum() <= 1.0
    with pytest.warns(PostprocessDeclined, match="last iterate was kept"):
        weak = recoup.PrivatePCA(2, 0.1, **terms).fit(CLOUD[:200])
    assert weak.inferred_ is None
    assert "noise" in weak.declined_
    np.testing.assert_array_equal(weak.components_, recoup.refit(weak.transcript_)[1:])
    assert np.isfinite(weak.explained_variance_ratio_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DoubtfulResult)  # so few records at this epsilon cannot be told from none
        forced = recoup.PrivatePCA(2, 0.1, postprocess="maxent", n_rounds=2, **terms).fit(CLOUD[:200])
        none = recoup.PrivatePCA(2, 0.1, postprocess="none", **terms).fit(CLOUD[:200])
    assert forced.inferred_ is not None
    assert none.inferred_ is None


@pytest.mark.parametrize("algorithm", ["covariance", "power"])
@pytest.mark.parametrize(("random_state", "seed"), [(3, 3), (None, 0)])
def test_the_analyst_finds_the_same_components(algorithm, random_state, seed):
    model = recoup.PrivatePCA(
        2, 5.0, (-1, 1), algorithm=algorithm, postprocess="maxent", random_state=random_state
    ).fit(CLOUD[:3000])
    transcript = model.transcript_
    again = recoup.refit(transcript, recoup.infer(transcript, random_state=seed), random_state=seed)
    np.testing.assert_array_equal(again, np.concatenate([model.mean_[None], model.components_]))
    assert not np.array_equal(recoup.refit(transcript, recoup.infer(transcript, random_state=seed + 1)), again)


@pytest.mark.parametrize("algorithm", [CovariancePCA(n_components=2), PowerPCA(n_components=2)])
def test_whoever_reads_a_weak_transcript_hears_it_too(algorithm):
    weak, strong = (released(algorithm, x=CLOUD[:n], epsilon=e) for n, e in ((200, 0.1), (20_000, 5)))
    with pytest.warns(PostprocessDeclined, match="inferred as asked, but .* told from noise"):
        recoup.infer(weak, n_points=600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recoup.infer(strong, n_points=600)


def test_every_source_gives_the_same_transcript(tmp_path):
    table = pa.table({name: CLOUD[:3000, j] for j, name in enumerate("abcde")})
    pq.write_table(table, tmp_path / "cloud.parquet")
    bounds = dict.fromkeys("abcde", (-1, 1))
    sources = (table.to_pandas(), table, tmp_path / "cloud.parquet")
    for algorithm in ("covariance", "power"):
        models = [
            recoup.PrivatePCA(
                2, 1.0, bounds, algorithm=algorithm, postprocess="none", random_state=0, noise="simulated"
            ).fit(x)
            for x in sources
        ]
        answers = [[r.integers for r in model.transcript_.rounds] for model in models]
        assert answers[0] == answers[1] == answers[2]
        assert list(models[0].feature_names_in_) == list("abcde")


def test_wrong_parameters_are_refused():
    for wrong, text in (
        ({"algorithm": "svd"}, "algorithm"),
        ({"postprocess": "consistency"}, "postprocess"),
        ({"n_components": 9}, "5 columns"),
        ({"n_components": 0}, "n_components"),
        ({"algorithm": "covariance", "n_rounds": 3}, "one round"),
        ({"n_rounds": 0}, "n_rounds"),
    ):
        with pytest.raises(ParameterError, match=text):
            recoup.PrivatePCA(epsilon=1, bounds=(-1, 1)).set_params(**wrong).fit(CLOUD[:10])
    # A number of rounds asks for the power iteration.
    model = recoup.PrivatePCA(1, 1.0, (-1, 1), n_rounds=2, postprocess="none").fit(CLOUD[:100])
    assert model.transcript_.algorithm == {"type": "pca-power", "n_components": 1, "n_rounds": 2}


def test_a_table_without_records_is_answered_like_any_other():
    for algorithm in ("covariance", "power"):
        model = recoup.PrivatePCA(2, 1.0, (-1, 1), algorithm=algorithm, postprocess="none").fit(np.empty((0, 3)))
        assert model.components_.shape == (2, 3)
        assert np.isfinite(model.components_).all()
        assert (np.abs(model.mean_) <= 1).all()
