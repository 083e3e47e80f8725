"""The mixture: its query's bounds, the noisy M step, the noiseless twin, the guard and the estimator."""

import json
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains, extreme_rows
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Exact

import recoup
from recoup.algorithms.mixture import GaussianMixture, Mixture, em_step, log_joint, noisy_step
from recoup.curator.source import fixed_records
from recoup.domain import Box
from recoup.errors import DoubtfulResult, ParameterError, PostprocessDeclined, TranscriptFormatError
from recoup.privacy.mechanism import Gaussian, Laplace
from recoup.queries import query_from_json
from recoup.queries.models import MixtureQuery

UNIT = Box([-1.0, -1.0], [1.0, 1.0])


def some_query(d=2, k=3, norm=2, seed=0, width=1.0):
    rng = np.random.default_rng(seed)
    fields = {name: width * rng.uniform(0.02, 1.0, size=k) for name in ("weights", "variances", "radii", "reaches")}
    return MixtureQuery(means=rng.uniform(-0.9, 0.9, size=(k, d)), **fields, norm=norm)


def two_groups(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    means = np.array([[-0.5, -0.3], [0.4, 0.5]])
    return means[rng.integers(2, size=n)] + 0.1 * rng.standard_normal((n, 2))


def released(x, *, delta=1e-6, epsilon=2, n_rounds=6, seed=0, domain=UNIT):
    algorithm = GaussianMixture(n_components=2, n_rounds=n_rounds)
    terms = {"domain": domain, "epsilon": epsilon, "delta": delta, "random_state": seed, "noise": "simulated"}
    return algorithm, recoup.release(algorithm, x, **terms)


class TestQuery:
    @pytest.mark.parametrize("norm", [1, 2])
    @pytest.mark.parametrize("d", [1, 2, 5])
    @pytest.mark.parametrize("width", [1.0, 1e-6, 1e6])
    def test_one_record_stays_within_the_integer_sensitivity(self, d, norm, width):
        query, mechanism = some_query(d, k=4, norm=norm, width=width), (Laplace(), Gaussian())[norm - 1]
        for domain in domains(d).values():
            sensitivity = query.sensitivity(domain)
            weights = mechanism.weights([Fraction(1, 6), Fraction(2, 6), Fraction(3, 6)], 2**30)
            factors = mechanism.factors(sensitivity, weights)
            rows = np.concatenate([extreme_rows(domain), np.random.default_rng(1).normal(0, 3, size=(100, d))])
            for record in fixed_records(rows, domain):
                moved = [int(v) for v in query.integer_total(record[None], factors)]
                parts = [moved[:4], moved[4 : 4 + 4 * d], moved[4 + 4 * d :]]
                for part, weight in zip(parts, weights, strict=True):
                    size = sum(map(abs, part)) if norm == 1 else sum(v * v for v in part)
                    assert size <= (weight if norm == 1 else weight**2)

    def test_the_bounds_are_reached(self):
        # Half the radius, or a square that is not measured from mid-range, would break the bound.
        query = some_query(k=1)
        row = query.contribution(np.array([[1.0, 1.0]]) if query.means[0].sum() < 0 else -np.ones((1, 2)))[0]
        blocks = query.sensitivity(UNIT).blocks
        np.testing.assert_allclose(row[0] / blocks[0].l2, 1.0, rtol=1e-8)
        np.testing.assert_allclose(np.linalg.norm(row[1:3] / blocks[1].l2), 1.0, rtol=1e-8)
        np.testing.assert_allclose(row[3] / blocks[2].l2, 1.0, rtol=1e-8)

    def test_responsibilities_are_the_posterior_of_the_component(self):
        query = some_query()
        x = np.random.default_rng(3).uniform(-1, 1, size=(20, 2))
        joint = np.stack(
            [
                w * multivariate_normal(m, v * np.eye(2)).pdf(x)
                for w, m, v in zip(query.weights, query.means, query.variances, strict=True)
            ],
            axis=1,
        )
        np.testing.assert_allclose(query.contribution(x)[:, :3], joint / joint.sum(axis=1, keepdims=True), rtol=1e-8)

    def test_far_and_narrow_components_stay_finite(self):
        tiny = np.full(2, 2.0**-30)
        query = MixtureQuery(means=np.full((2, 1), 2.0**20), weights=tiny, variances=tiny, radii=tiny, reaches=tiny)
        row = query.contribution(np.array([[-1.0]]))[0]
        np.testing.assert_allclose(row[:2], 0.5)
        assert np.isfinite(row).all()

    def test_travels_to_other_processes(self):
        query, x = some_query(), np.random.default_rng(0).uniform(-1, 1, size=(9, 2))
        for again in (pickle.loads(pickle.dumps(query)), query_from_json(json.loads(json.dumps(query.to_json())))):
            np.testing.assert_array_equal(again.contribution(x), query.contribution(x))

    @pytest.mark.parametrize(
        "change",
        [
            {"means": [[0.0, np.inf]]},
            {"means": [0.0]},
            {"weights": [0.0]},
            {"variances": [-1.0]},
            {"radii": [1.0, 1.0]},
            {"reaches": [np.nan]},
            {"norm": 3},
        ],
    )
    def test_nonsense_is_refused(self, change):
        fields = {
            "means": [[0.0, 0.0]],
            "weights": [1.0],
            "variances": [1.0],
            "radii": [1.0],
            "reaches": [1.0],
        } | change
        with pytest.raises(ParameterError):
            MixtureQuery(**{name: np.array(v) if name != "norm" else v for name, v in fields.items()})
        value = {"type": "mixture", "norm": 2} | fields
        with pytest.raises(TranscriptFormatError):
            query_from_json(value)


class TestSteps:
    @pytest.mark.parametrize("delta", [0, 1e-6])
    def test_with_next_to_no_noise_the_step_is_the_exact_one_but_for_clipping(self, delta):
        x = two_groups()
        _, transcript = released(x, delta=delta, epsilon=10**6, n_rounds=12)
        query = transcript.rounds[-1].query
        before = Mixture(query.weights, query.means, query.variances)
        exact, noisy = em_step(before, x, np.ones(len(x))), noisy_step(transcript.context, transcript.rounds)
        np.testing.assert_allclose(noisy.weights, exact.weights, atol=1e-3)
        np.testing.assert_allclose(noisy.means, exact.means, atol=0.01)
        # What clipping takes from a Gaussian component's variance is given back.
        np.testing.assert_allclose(noisy.variances, exact.variances, rtol=0.05)

    def test_an_answer_of_mere_noise_hardly_moves_the_state(self):
        _, transcript = released(np.empty((0, 2)), epsilon="0.01", n_rounds=3)
        query = transcript.rounds[-1].query
        after = noisy_step(transcript.context, transcript.rounds)
        noisy = transcript.rounds[-1].noisy
        # Taken at its word, the answer would move a component by half its clipping radius or more.
        taken = noisy[2:6].reshape(2, 2) / np.maximum(noisy[:2], 1.0)[:, None]
        assert (np.linalg.norm(taken, axis=1) > 0.5 * query.radii).any()
        assert (np.linalg.norm(after.means - query.means, axis=1) < 0.25 * np.sqrt(query.variances)).all()
        np.testing.assert_allclose(after.variances, query.variances, rtol=0.25)
        assert after.weights.min() > 0.1

    def test_exact_steps_climb_to_scikit_learns_optimum(self):
        x = two_groups()
        state = Mixture(np.full(2, 0.5), np.array([[-0.1, 0.0], [0.1, 0.0]]), np.full(2, 0.3))
        levels = []
        for _ in range(60):
            state = em_step(state, x, np.ones(len(x)))
            levels.append(float(np.logaddexp.reduce(log_joint(state, x), axis=1).mean()))
        assert (np.diff(levels) > -1e-12).all()
        assert levels[-1] == pytest.approx(
            Exact(2, covariance_type="spherical", random_state=0).fit(x).score(x), abs=1e-4
        )

    def test_a_weight_is_a_number_of_copies(self):
        x = two_groups(50)
        copies = np.random.default_rng(0).integers(0, 4, size=50)
        state = Mixture(np.full(2, 0.5), np.array([[-0.1, 0.0], [0.1, 0.0]]), np.full(2, 0.3))
        weighted = em_step(state, x, copies.astype(float))
        repeated = em_step(state, np.repeat(x, copies, axis=0), np.ones(copies.sum()))
        np.testing.assert_allclose(weighted.packed(), repeated.packed())

    def test_points_out_of_reach_and_no_weight_at_all_change_nothing(self):
        state = Mixture(np.ones(1), np.zeros((1, 1)), np.full(1, 1e-4))
        for points, weights in ((np.ones((1, 1)), np.ones(1)), (np.zeros((1, 1)), np.zeros(1))):
            np.testing.assert_array_equal(em_step(state, points, weights).packed(), state.packed())


class TestAlgorithm:
    @pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
    @pytest.mark.parametrize("domain_name", domains(1))
    def test_answers_are_mixtures_of_the_domain(self, domain_name, mechanism):
        domain = domains(2)[domain_name]
        delta = context(domain, mechanism).delta
        for x in (np.empty((0, 2)), two_groups(300)):
            algorithm, transcript = released(x, delta=delta, domain=domain, n_rounds=3)
            terms, rounds = transcript.context, transcript.rounds
            points = algorithm.support(terms, rounds, 400, np.random.default_rng(0))
            assert points.shape == (400, 2)
            assert domain.contains(points).all()
            refitted = algorithm.refit(terms, rounds, points, np.ones(400), np.random.default_rng(0))
            for answer in (algorithm.estimate(terms, rounds), refitted):
                assert answer.shape == (2, 4)
                assert answer[:, 0].sum() == pytest.approx(1.0)
                assert (answer[:, 0] > 0).all()
                assert domain.contains(answer[:, 1:3]).all()
                assert (answer[:, 3] > 0).all()

    @pytest.mark.parametrize(("delta", "method"), [(1e-6, "maxent"), (0, "maxent"), (1e-6, "mcmc")])
    def test_inferred_data_gives_the_groups_back(self, delta, method):
        _, transcript = released(two_groups(), delta=delta, epsilon=4)
        inferred = recoup.infer(transcript, method, random_state=0, n_points=1500, n_steps=2000)
        answer = recoup.refit(transcript, inferred)
        order = answer[:, 1].argsort()
        np.testing.assert_allclose(answer[order, 1:3], [[-0.5, -0.3], [0.4, 0.5]], atol=0.05)
        np.testing.assert_allclose(answer[order, 3:], 0.01, rtol=0.4)

    def test_inference_is_the_same_from_the_file(self, tmp_path):
        _, transcript = released(two_groups(500))
        transcript.save(tmp_path / "t.json")
        again = recoup.Transcript.load(tmp_path / "t.json")
        answers = [recoup.refit(t, recoup.infer(t, random_state=1, n_points=800)) for t in (transcript, again)]
        np.testing.assert_array_equal(*answers)

    def test_before_the_first_round(self):
        algorithm, terms = GaussianMixture(n_components=2), context(UNIT)
        assert algorithm.support(terms, (), 5, np.random.default_rng(0)).shape == (5, 2)
        assert algorithm.declines(terms, ()) is not None
        with pytest.raises(ParameterError, match="first round"):
            algorithm.estimate(terms, ())
        with pytest.raises(ParameterError, match="first round"):
            algorithm.refit(terms, (), np.zeros((1, 2)), np.ones(1), np.random.default_rng(0))

    @pytest.mark.parametrize(
        "arguments", [{"n_components": 0}, {"n_components": 2**20}, {"n_components": 2, "n_rounds": 0}]
    )
    def test_nonsense_is_refused(self, arguments):
        with pytest.raises(ParameterError):
            GaussianMixture(**arguments)


class TestGuard:
    def test_is_silent_where_there_are_records_and_speaks_where_there_are_none(self):
        # Released counts of an empty table pass for records with probability 2.3 %, a two-sigma normal tail.
        full = [released(two_groups(2000), seed=seed)[1] for seed in range(10)]
        empty = [released(np.empty((0, 2)), seed=seed)[1] for seed in range(40)]
        algorithm = GaussianMixture(n_components=2, n_rounds=6)
        assert all(algorithm.declines(t.context, t.rounds) is None for t in full)
        # Five or more of 40 would pass with probability 0.2 %; the seeds are fixed.
        assert sum(algorithm.declines(t.context, t.rounds) is None for t in empty) < 5

    def test_the_estimator_says_so_and_keeps_the_last_iterate(self):
        terms = {"n_components": 2, "epsilon": 0.01, "bounds": (-1, 1), "random_state": 0, "noise": "simulated"}
        with pytest.warns(PostprocessDeclined, match="twice their error"):
            model = recoup.PrivateGaussianMixture(**terms).fit(np.zeros((5, 2)))
        assert model.declined_ is not None
        assert model.inferred_ is None
        np.testing.assert_array_equal(model.means_, recoup.refit(model.transcript_, None)[:, 1:3])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DoubtfulResult)
            forced = recoup.PrivateGaussianMixture(**terms, postprocess="maxent").fit(np.zeros((5, 2)))
        assert forced.declined_ is None
        assert forced.inferred_ is not None

    def test_whoever_reads_the_transcript_hears_it_too(self):
        weak, strong = released(np.zeros((5, 2)), epsilon=0.01)[1], released(two_groups(2000))[1]
        with pytest.warns(PostprocessDeclined, match="inferred as asked, but .* twice their error"):
            recoup.infer(weak, n_points=600)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            recoup.infer(weak, n_points=600, warn=False)
            recoup.infer(strong, n_points=600)


@pytest.fixture(scope="module")
def model():
    terms = {"epsilon": 4, "bounds": ([0, -100], [10, 100]), "delta": 1e-6, "random_state": 0, "noise": "simulated"}
    return recoup.PrivateGaussianMixture(2, **terms).fit(two_groups() * [5, 100] + [5, 0])


class TestEstimator:
    @pytest.mark.parametrize(("random_state", "seed"), [(3, 3), (None, 0)])
    def test_the_analyst_finds_the_same_mixture(self, random_state, seed):
        terms = {"epsilon": 4, "bounds": (-1, 1), "delta": 1e-6, "postprocess": "maxent", "n_rounds": 3}
        fitted = recoup.PrivateGaussianMixture(2, **terms, random_state=random_state).fit(two_groups(1000))
        again = recoup.refit(fitted.transcript_, recoup.infer(fitted.transcript_, random_state=seed), random_state=seed)
        np.testing.assert_array_equal(again, np.column_stack([fitted.weights_, fitted.means_, fitted.covariances_]))
        other = recoup.refit(fitted.transcript_, recoup.infer(fitted.transcript_, random_state=seed + 1))
        assert not np.array_equal(other, again)

    def test_speaks_in_the_users_units(self, model):
        order = model.means_[:, 0].argsort()
        np.testing.assert_allclose(model.means_[order], [[2.5, -30], [7, 50]], rtol=0.1)
        np.testing.assert_allclose(model.covariances_, np.tile([0.25, 100.0], (2, 1)), rtol=0.4)
        assert model.weights_.sum() == pytest.approx(1.0)

    def test_densities_are_those_of_the_stated_mixture(self, model):
        # Beyond the bounds too: nothing is clamped.
        x = np.array([[5.0, 0.0], [2.0, -30.0], [12.0, 150.0]])
        joint = np.stack(
            [
                w * multivariate_normal(m, np.diag(v)).pdf(x)
                for w, m, v in zip(model.weights_, model.means_, model.covariances_, strict=True)
            ],
            axis=1,
        )
        np.testing.assert_allclose(model.score_samples(x), np.log(joint.sum(axis=1)))
        np.testing.assert_allclose(model.predict_proba(x), joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
        np.testing.assert_array_equal(model.predict(x), joint.argmax(axis=1))
        assert model.score(x) == pytest.approx(np.log(joint.sum(axis=1)).mean())

    def test_a_missing_value_has_no_component(self, model):
        x = np.array([[5.0, np.nan], [np.inf, 0.0], [5.0, 0.0]])
        assert model.predict(x)[:2].tolist() == [-1, -1]
        assert np.isnan(model.predict_proba(x)[:2]).all()
        assert np.isnan(model.score_samples(x)[:2]).all()
        assert model.score(x) == model.score(x[2:])

    def test_samples_follow_the_mixture(self, model):
        drawn = model.sample(4000)
        for k in range(2):
            of_one = drawn.records[drawn.components == k]
            misses = (of_one.mean(axis=0) - model.means_[k]) / np.sqrt(model.covariances_[k])
            assert np.abs(misses).max() < 0.2  # about 2000 records each: nine standard errors
            np.testing.assert_allclose(of_one.var(axis=0), model.covariances_[k], rtol=0.2)

    def test_every_learnt_attribute_is_a_function_of_the_transcript(self, model):
        learnt = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
        assert learnt == {
            "weights_", "means_", "covariances_", "transcript_", "inferred_", "declined_", "verdict_", "privacy_",
            "n_features_in_",
        }  # fmt: skip
        again = recoup.refit(model.transcript_, recoup.infer(model.transcript_, random_state=0), random_state=0)
        np.testing.assert_array_equal(again, np.column_stack([model.weights_, model.means_, model.covariances_]))

    def test_sources_agree(self, tmp_path):
        import pandas as pd

        frame = pd.DataFrame(two_groups(300), columns=["a", "b"])
        frame.to_parquet(tmp_path / "x.parquet")
        terms = {"epsilon": 4, "bounds": {"a": (-1, 1), "b": (-1, 1)}, "random_state": 0, "noise": "simulated"}
        fitted = [
            recoup.PrivateGaussianMixture(2, **terms, n_rounds=2, postprocess="none").fit(x)
            for x in (frame, tmp_path / "x.parquet")
        ]
        np.testing.assert_array_equal(fitted[0].means_, fitted[1].means_)

    def test_nonsense_is_refused(self):
        with pytest.raises(ParameterError, match="postprocess"):
            recoup.PrivateGaussianMixture(2, 1, (0, 1), postprocess="consistency").fit(np.zeros((3, 1)))
