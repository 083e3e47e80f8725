"""Private logistic regression: its query, its algorithm, and where it declines."""

import json
import math
import warnings

import numpy as np
import pytest
from cases import ALPHA, context, domains
from logistic_cases import FEATURES, LABELS, RNG, model, released
from scipy.optimize import minimize
from scipy.stats import binom, norm

import recoup
from recoup import Box, LogisticRegression, PrivateLogisticRegression
from recoup.algorithms.logistic import exponential_values, minimum_of_loss, supported, tilt_of_mean, trust_in_base
from recoup.errors import ParameterError, PostprocessDeclined, TranscriptError
from recoup.kernels.models import exp_minus
from recoup.maxent.measure import Pass, Problem, maxent, total_of
from recoup.queries import query_from_json
from recoup.queries.counts import HistogramQuery
from recoup.queries.models import LogisticGradientQuery


def iterates_of(algorithm, transcript):
    rounds = transcript.rounds
    return np.array([algorithm.estimate(transcript.context, rounds[: t + 1]) for t in range(len(rounds))])


def test_the_base_is_trusted_by_the_number_of_features():
    assert (trust_in_base(5), trust_in_base(40)) == (5.0, 15.0)


class TestQuery:
    def test_the_exponential_is_right_to_a_few_last_bits(self):
        for t in [0.0, 1e-300, 1e-9, 0.3, math.log(2) / 2, math.log(2), 1.0, 36.7, 699.9, *RNG.uniform(0, 60, 500)]:
            assert exp_minus(t) == pytest.approx(math.exp(-t), rel=2e-15)
        assert exp_minus(1e6) == exp_minus(1e300) == 0.0

    def test_gradient_is_the_slope_of_the_loss(self):
        at, x = np.array([0.7, -1.2, 0.3]), np.array([[0.4, -0.9, 1.0], [0.4, -0.9, -1.0]])
        rows = LogisticGradientQuery(coefficients=at, clip=100.0).contribution(x)

        def loss(row, w):
            return math.log1p(math.exp(-row[2] * (row[:2] @ w[:2] + w[2])))

        for row, found in zip(x, rows, strict=True):
            slopes = [(loss(row, at + step) - loss(row, at - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
            np.testing.assert_allclose(found, [1.0, *slopes], rtol=1e-8)

    @pytest.mark.parametrize("norm", [1, 2])
    @pytest.mark.parametrize("size", [0.0, 1.0, 2.0**20])
    def test_no_record_moves_the_gradient_further_than_the_clip(self, norm, size):
        rng = np.random.default_rng(3)
        x = np.concatenate([rng.uniform(-1, 1, (200, 6)), np.sign(rng.normal(size=(200, 6)))])
        query = LogisticGradientQuery(coefficients=size * rng.uniform(-1, 1, 6), clip=0.3, norm=norm)
        gradients = query.contribution(x)[:, 1:]
        assert np.isfinite(gradients).all()
        lengths = np.linalg.norm(gradients, ord=norm, axis=1)
        assert lengths.max() <= 0.3 * (1 + 1e-14)
        assert lengths.max() > 0.3 * (1 - 1e-9)
        # A planted error, a clip in the other norm, would be seen: it lets longer gradients through in this one.
        other = LogisticGradientQuery(coefficients=query.coefficients, clip=0.3, norm=3 - norm)
        longer = np.linalg.norm(other.contribution(x)[:, 1:], ord=norm, axis=1).max() > 0.3 * (1 + 1e-9)
        assert longer == (norm == 1)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"coefficients": np.zeros((2, 2)), "clip": 1.0},
            {"coefficients": np.zeros(0), "clip": 1.0},
            {"coefficients": [np.nan, 0.0], "clip": 1.0},
            {"coefficients": [2.0**21, 0.0], "clip": 1.0},
            {"coefficients": [0.0], "clip": 0.0},
            {"coefficients": [0.0], "clip": True},
            {"coefficients": [0.0], "clip": float("nan")},
            {"coefficients": [0.0], "clip": 1.0, "norm": 3},
        ],
    )
    def test_what_cannot_be_asked_is_refused(self, parameters):
        with pytest.raises(ParameterError):
            LogisticGradientQuery(**parameters)
        value = {"type": "logistic-gradient", "norm": 2} | {k: np.array(v).tolist() for k, v in parameters.items()}
        with pytest.raises(recoup.errors.TranscriptFormatError):
            query_from_json(value)

    def test_a_query_without_its_clip_is_refused(self):
        with pytest.raises(recoup.errors.TranscriptFormatError, match="clip"):
            query_from_json({"type": "logistic-gradient", "coefficients": [0.0], "norm": 2})


class TestAlgorithm:
    def test_one_step_by_hand(self):
        x = np.array([[0.5], [0.5], [-0.5]])
        _, transcript = released(x, [True, True, False], step_size=4.0, epsilon=10**6)
        # The mean gradient at zero is -(1/2) (1/2, 1/3); the longest record has squared length 2; l2 is 1/1000.
        expected = np.array([4.0 / 2 * 0.25 / (1 + 2e-3), 4.0 / 2 / 6])
        np.testing.assert_allclose(transcript.rounds[1].query.coefficients, expected, rtol=1e-2)

    @pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
    @pytest.mark.parametrize("domain_name", ["box", "l1-wide", "l2"])
    def test_the_start_clips_nothing(self, mechanism, domain_name):
        domain = domains(3)[domain_name]
        request = LogisticRegression().next_request(context(domain, mechanism), (), np.random.default_rng(0))
        corners = domain.clip(np.sign(np.random.default_rng(1).normal(size=(50, 3))))
        wide = LogisticGradientQuery(coefficients=np.zeros(3), clip=2.0**20, norm=request.query.norm)
        np.testing.assert_allclose(request.query.contribution(corners), wide.contribution(corners), rtol=1e-14)

    def test_huge_steps_and_no_records_stay_finite(self):
        algorithm = LogisticRegression(step_size=2.0**20, l2=2.0**20, clip=2.0**20)
        terms = {"domain": Box([-1, -1], [1, 1]), "epsilon": 0.01, "random_state": 0, "noise": "simulated"}
        transcript = recoup.release(algorithm, np.empty((0, 2)), **terms)
        assert np.isfinite(iterates_of(algorithm, transcript)).all()

    def test_iterates_are_the_states_that_were_asked_at(self):
        algorithm, transcript = released(FEATURES / 10.0, LABELS)
        asked = [answered.query.coefficients for answered in transcript.rounds]
        iterates = iterates_of(algorithm, transcript)
        np.testing.assert_array_equal(iterates[:-1], asked[1:])
        np.testing.assert_array_equal(iterates[-1], algorithm.estimate(transcript.context, transcript.rounds))

    def test_support_covers_the_region_with_both_labels(self):
        for domain in domains(3).values():
            points = LogisticRegression().support(context(domain), (), 1001, np.random.default_rng(0))
            assert points.shape == (1001, 3)
            assert domain.contains(points).all()
            assert set(np.sign(points[:, -1])) == {-1.0, 1.0}
        box = LogisticRegression().support(context(domains(3)["box"]), (), 2000, np.random.default_rng(0))
        np.testing.assert_array_equal(box[:1000, :2], box[1000:, :2])
        assert np.abs(box[:, :2]).max() > 0.99

    def test_the_minimum_of_the_loss_is_one(self):
        rng = np.random.default_rng(5)
        points, weights = rng.uniform(-1, 1, (300, 3)), rng.random(300)
        found = minimum_of_loss(points[:, :-1], points[:, -1] >= 0, weights, l2=1e-3)
        signs, x = np.where(points[:, -1] >= 0, 1.0, -1.0), np.column_stack([points[:, :-1], np.ones(300)])

        def loss(at):
            return weights @ np.logaddexp(0, -signs * (x @ at)) / weights.sum() + 0.5e-3 * at[:-1] @ at[:-1]

        np.testing.assert_allclose(found, minimize(loss, np.zeros(3), tol=1e-12).x, atol=1e-4)

    def test_refit_goes_to_the_minimum_of_data_that_explain_the_rounds_and_nowhere_for_others(self):
        algorithm, transcript = released(FEATURES / 10.0, LABELS, epsilon=1000)
        rng, n = np.random.default_rng(5), len(LABELS)
        own = np.column_stack([FEATURES / 10.0, np.where(LABELS, 1.0, -1.0)])
        found = algorithm.refit(transcript.context, transcript.rounds, own, np.ones(n), rng)
        np.testing.assert_allclose(found, minimum_of_loss(own[:, :-1], LABELS, np.ones(n), l2=1e-3), atol=0.02)
        last = algorithm.estimate(transcript.context, transcript.rounds)
        other = own * [1.0, 1.0, -1.0]  # the answers contradict it
        far = minimum_of_loss(other[:, :-1], ~LABELS, np.ones(n), l2=1e-3)
        kept = algorithm.refit(transcript.context, transcript.rounds, other, np.ones(n), rng)
        assert np.linalg.norm(kept - last) < 0.35 * np.linalg.norm(far - last)

    def test_a_move_is_kept_where_it_is_known_and_not_where_the_loss_is_flat(self):
        axes = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
        curvature = axes @ np.diag([0.2, 0.1, 1e-3]) @ axes.T
        move = axes @ [1.0, -1.0, 30.0]
        np.testing.assert_allclose(supported(move, curvature, 1e-12), move, rtol=1e-4)
        kept = axes.T @ supported(move, curvature, 1e-3)
        assert 0.8 < kept[0] <= 1.0
        assert -1.0 <= kept[1] < -0.5
        assert abs(kept[2]) < 1.0
        np.testing.assert_array_equal(supported(move, curvature, 10.0), 0.0)

    def test_exponential_values_have_the_means_that_were_asked_for(self):
        """Ten means, each within norm.isf(ALPHA) errors: false alarm 2e-5; a tenth further from its edge is seen."""
        means = np.array([-0.999, -0.95, -0.5, -1e-3, 0.0, 0.0004, 0.2, 0.7, 0.99, 0.9999])
        uniform = np.random.default_rng(0).random((20_000, len(means)))
        values = exponential_values(np.broadcast_to(tilt_of_mean(means), uniform.shape), uniform)
        limit = norm.isf(ALPHA) * values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(values.mean(axis=0) - means) < limit).all()
        planted = means - 0.1 * np.sign(means) * (1.0 - np.abs(means))
        assert (np.abs(values.mean(axis=0) - planted) > limit)[np.abs(means) > 0.4].all()

    def test_the_support_goes_where_columns_crowd(self):
        x = np.column_stack([np.full(4000, -0.98), FEATURES[:, 1] / 10.0])
        algorithm, transcript = released(x, LABELS, epsilon=10)
        points = algorithm.support(transcript.context, transcript.rounds, 4000, np.random.default_rng(0))
        assert np.median(points[:, 0]) < -0.9
        assert abs(np.median(points[:, 1])) < 0.1
        assert points[:, 0].max() > 0.5  # no place is empty

    def test_refit_of_one_class_and_of_one_point_is_finite(self):
        algorithm, transcript = released(FEATURES / 10.0, LABELS)
        for points in (np.full((1, 3), 0.5), np.column_stack([FEATURES[:50] / 10.0, np.ones(50)])):
            weights = np.ones(len(points))
            answer = algorithm.refit(transcript.context, transcript.rounds, points, weights, np.random.default_rng(0))
            assert np.isfinite(answer).all()

    def test_user_units_keep_the_decision(self):
        domain = Box([0.0, -5.0, 0.0], [10.0, 5.0, 1.0])
        answer = np.array([1.5, -0.5, 0.2])
        user = LogisticRegression().in_user_units(context(domain), answer)
        rows = np.column_stack([FEATURES[:20], np.zeros(20)])
        unit = domain.to_unit(rows)[:, :2]
        np.testing.assert_allclose(FEATURES[:20] @ user[:2] + user[2], unit @ answer[:2] + answer[2], atol=1e-12)

    @pytest.mark.parametrize("method", ["maxent", "mcmc"])
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_a_transcript_is_read_from_its_file_alone(self, method, delta, tmp_path):
        _, transcript = released(FEATURES / 10.0, LABELS, delta=delta)
        transcript.save(tmp_path / "t.json")
        answers = []
        for each in (transcript, recoup.Transcript.load(tmp_path / "t.json")):
            inferred = recoup.infer(each, method, random_state=1, n_points=1000, n_steps=2000)
            answers.append(recoup.refit(each, inferred))
        np.testing.assert_array_equal(*answers)
        assert (answers[0][:-1] * [1, -1] > 0).all()

    @pytest.mark.parametrize(
        "parameters",
        [{"n_rounds": 0}, {"step_size": 0.0}, {"step_size": "8"}, {"l2": -1.0}, {"clip": 0}, {"pseudo_records": True}],
    )
    def test_parameters_outside_what_is_allowed_are_refused(self, parameters):
        with pytest.raises(ParameterError):
            LogisticRegression(**parameters)


class TestGuard:
    def test_few_records_in_many_columns_are_declined_and_many_are_not(self):
        rng = np.random.default_rng(2)
        for n, d, epsilon, declined in [(400, 31, 0.2, True), (3000, 21, 0.05, True), (4000, 5, 0.25, False)]:
            x = np.clip(0.35 * rng.normal(size=(n, d)), -1, 1)
            algorithm, transcript = released(x, x[:, 0] > 0, epsilon=epsilon)
            reason = algorithm.declines(transcript.context, transcript.rounds)
            assert (reason is not None) == declined

    def test_the_reason_is_a_function_of_what_was_released(self):
        algorithm, transcript = released(FEATURES[:40] / 10.0, LABELS[:40], epsilon=0.1)
        again = recoup.Transcript.from_json(json.loads(json.dumps(transcript.to_json())))
        assert algorithm.declines(transcript.context, transcript.rounds) is not None
        assert algorithm.declines(again.context, again.rounds) == algorithm.declines(
            transcript.context, transcript.rounds
        )

    def test_the_estimator_says_so_and_keeps_the_last_iterate(self):
        x = RNG.uniform(-1, 1, size=(400, 31))
        terms = {"bounds": (-1, 1), "epsilon": 0.25, "delta": 1e-6}
        with pytest.warns(PostprocessDeclined, match="too few records"):
            declined = model(**terms).fit(x, (x[:, 0] > 0).astype(int))
        assert declined.inferred_ is None
        assert "too few records" in declined.declined_
        last = recoup.refit(declined.transcript_, None)
        np.testing.assert_array_equal(np.append(declined.coef_[0], declined.intercept_), last)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            forced = model(postprocess="maxent", **terms).fit(x, (x[:, 0] > 0).astype(int))
        assert forced.inferred_ is not None
        assert forced.declined_ is None

    @pytest.mark.parametrize("method", ["maxent", "mcmc"])
    def test_whoever_reads_the_transcript_hears_it_once_and_can_ask_for_silence(self, method):
        _, weak = released(FEATURES[:40] / 10.0, LABELS[:40], epsilon=0.1)
        _, strong = released(FEATURES / 10.0, LABELS)
        terms = {"n_points": 600, "n_steps": 500}
        with pytest.warns(PostprocessDeclined, match="inferred as asked, but .* too few records") as heard:
            recoup.infer(weak, method, **terms)
        assert [warning.category for warning in heard].count(PostprocessDeclined) == 1
        assert {warning.filename for warning in heard} == {__file__}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            recoup.infer(weak, method, warn=False, **terms)
            recoup.infer(strong, method, **terms)

    def test_of_several_transcripts_the_weak_one_is_named(self):
        weak, strong = (released(FEATURES[:n] / 10.0, LABELS[:n], epsilon=e)[1] for n, e in ((40, 0.1), (4000, 1)))
        with pytest.warns(
            PostprocessDeclined, match="advises against reading transcript 2 alone: .* few records"
        ) as found:
            recoup.infer([strong, weak], n_points=600)
        assert [warning.category for warning in found].count(PostprocessDeclined) == 1


class TestSeeds:
    @pytest.mark.parametrize(("random_state", "seed"), [(3, 3), (None, 0)])
    def test_the_analyst_finds_the_same_coefficients(self, random_state, seed):
        fitted = model(postprocess="maxent", random_state=random_state, n_rounds=3).fit(FEATURES, LABELS)
        transcript = fitted.transcript_
        again = recoup.refit(transcript, recoup.infer(transcript, random_state=seed), random_state=seed)
        np.testing.assert_array_equal(again, np.append(fitted.coef_[0], fitted.intercept_))
        assert not np.array_equal(recoup.refit(transcript, recoup.infer(transcript, random_state=seed + 1)), again)

    def test_labels_are_0_or_1_and_between_only_together_with_other_rounds(self):
        fitted = model(postprocess="maxent", n_rounds=3).fit(FEATURES, LABELS)
        assert set(np.unique(fitted.inferred_.points[:, -1])) == {0.0, 1.0}
        query = HistogramQuery.one_way(dimension=3, bins=4)
        counts = np.asarray(
            query.contribution(fitted.transcript_.context.domain.to_unit(np.column_stack([FEATURES, LABELS]))).sum(
                axis=0
            )
        )
        marginals = recoup.transcript_from(
            domain=fitted.transcript_.context.domain, epsilon=1, rounds=[(query, counts, 5.0)]
        )
        both = recoup.infer([fitted.transcript_, marginals], random_state=0)
        labels = both.points[:, -1]
        assert ((labels >= 0) & (labels <= 1)).all()
        assert ((labels > 0) & (labels < 1)).any()
        # From 0.5 on a label counts as positive: the share of such points is that of the records.
        share = both.weights[labels >= 0.5].sum() / both.n_records
        assert share == pytest.approx(LABELS.mean(), abs=0.03)


def test_inference_beats_the_iterates_on_most_transcripts():
    """A sign test at ALPHA: where inference and the better iterate were equal in chance, 1 run in 10^6 would fail.

    The power half: an answer that adds as much error to the inferred one as it gains must not pass.
    """
    rng = np.random.default_rng(11)
    x = np.clip(0.35 * rng.normal(size=(6000, 4)), -1, 1)
    signs = np.where(rng.logistic(size=6000) < x @ [3.0, -2.0, 1.0, 0.0] + 0.3, 1.0, -1.0)
    wins = spoilt = 0
    n_runs = 24
    for seed in range(n_runs):
        algorithm, transcript = released(x[:4000], signs[:4000] > 0, epsilon=0.5, seed=seed)
        inferred = recoup.refit(transcript, recoup.infer(transcript, random_state=seed, n_points=2000))
        iterates = iterates_of(algorithm, transcript)

        def loss(at):
            return np.logaddexp(0, -signs[4000:] * (x[4000:] @ at[:-1] + at[-1])).mean()

        best = min(loss(iterates[-1]), loss(iterates[5:].mean(axis=0)))
        wins += loss(inferred) < best
        spoilt += loss(0.3 * inferred) < best
    needed = int(binom.isf(ALPHA, n_runs, 0.5)) + 1
    assert wins >= needed
    assert spoilt < needed


def crowded_table(seed, n):
    """14 columns: amounts with tails, amounts that are mostly 0, counts, measurements; half of them have no effect."""
    rng = np.random.default_rng(seed)
    z = 0.7 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 14))
    kinds = np.arange(14) % 4
    amounts = np.exp(4.0 + z) * np.where(kinds == 1, z > 0.8, 1.0)
    x = np.select([kinds < 2, kinds == 2], [amounts, np.round(np.exp(1.0 + 0.5 * z))], 45.0 + 12.0 * z)
    high = np.select([kinds < 2, kinds == 2], [10_000.0, 100.0], 100.0)
    logs = np.log1p(np.clip(x, 0, high))
    effects = np.where(np.arange(14) < 7, rng.normal(0, 1.0, 14), 0.0)
    positive = rng.random(n) < 1 / (1 + np.exp(-((logs - logs.mean(axis=0)) / logs.std(axis=0)) @ effects))
    return Box(np.zeros(14), high).to_unit(x), positive


def test_columns_that_crowd_do_not_make_the_default_worse_than_the_last_iterate():
    """A sign test over 20 tables, Laplace and Gaussian noise in turn: equal answers would pass once in 10^6 runs.

    The power half: the minimum on weighted uniform points, which cannot lie where such columns do, must not pass.
    """
    wins = spoilt = 0
    n_runs = 20
    for seed in range(n_runs):
        x, positive = crowded_table(seed, 12_500)
        terms = {"epsilon": (1, 5)[seed % 2], "delta": (1e-6, 0)[seed % 2], "seed": seed}
        algorithm, transcript = released(x[:10_000], positive[:10_000], **terms)
        context, rounds = transcript.context, transcript.rounds
        points = algorithm.support(context, (), 1000, np.random.default_rng(seed))
        total = total_of(context, rounds)
        terms = {"context": context, "rounds": rounds, "total": total, "temperature": 20 / total}
        passes = (Pass(n_points=1000, max_steps=15),)
        weights = maxent(Problem(**terms, support=lambda n, _, points=points: points, passes=passes)).weights
        answers = [
            algorithm.estimate(context, rounds),
            recoup.refit(transcript, recoup.infer(transcript, random_state=seed, n_points=1000)),
            minimum_of_loss(points[:, :-1], points[:, -1] >= 0, weights, l2=1e-3),
        ]
        signs = np.where(positive, 1.0, -1.0)[10_000:]
        none, default, uniform = (np.logaddexp(0, -signs * (x[10_000:] @ at[:-1] + at[-1])).mean() for at in answers)
        wins += default < none
        spoilt += uniform < none
    needed = int(binom.isf(ALPHA, n_runs, 0.5)) + 1
    assert wins >= needed
    assert spoilt < needed


def test_the_noise_of_a_gradient_is_as_declared():
    """Residuals over their scales are standard normal; false alarm 2 ALPHA, and 10 % too little noise is rejected."""
    x = np.clip(RNG.normal(size=(50, 9)), -1, 1)
    records = np.column_stack([x, np.ones(50)])
    residuals = []
    for seed in range(100):
        _, transcript = released(x, np.ones(50, bool), seed=seed)
        for answered in transcript.rounds:
            exact = answered.query.contribution(records).sum(axis=0)
            residuals.extend((answered.noisy - exact) / answered.scales)
    n, mean_square = len(residuals), float(np.mean(np.square(residuals)))
    limit = norm.isf(ALPHA) * math.sqrt(2 / n)
    assert abs(mean_square - 1) < limit
    assert abs(0.9**2 * mean_square - 1) > limit


def test_rounds_about_other_labels_are_not_continued(tmp_path):
    def stop(t):
        if t == 2:
            raise KeyboardInterrupt

    x, y = FEATURES[:500] / 10.0, LABELS[:500].astype(int)
    path = tmp_path / "t.json"
    terms = {"epsilon": 1, "bounds": (-1, 1), "n_rounds": 4, "noise": "simulated", "random_state": 0}
    with pytest.raises(KeyboardInterrupt):
        PrivateLogisticRegression(**terms).fit(x, y, transcript_path=path, on_round=stop)
    with pytest.raises(TranscriptError, match="other terms"):
        PrivateLogisticRegression(**terms, classes=(1, 0)).fit(x, y, transcript_path=path, resume=True)
    fitted = PrivateLogisticRegression(**terms, classes=np.array([0, 1])).fit(x, y, transcript_path=path, resume=True)
    assert len(fitted.transcript_.rounds) == 4
    assert fitted.transcript_.algorithm["classes"] == [0, 1]


@pytest.mark.parametrize("classes", [(0,), (0, 1, 2), "ab", (None, 1), (0, [1])])
def test_an_algorithm_takes_two_classes_or_none(classes):
    with pytest.raises(ParameterError, match="two values"):
        LogisticRegression(classes=classes)


def test_an_inference_that_ends_far_from_its_optimum_is_not_used(monkeypatch):
    # Two places alone, and hardly any noise: points that no pass has moved, read without slack, give no such gradients.
    x = np.where(np.arange(50_000)[:, None] % 2 == 0, 1.0, -1.0) * np.ones((1, 2))
    y = (x[:, 0] > 0).astype(int)
    terms = {"epsilon": 1e5, "bounds": (-1, 1), "noise": "simulated", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = PrivateLogisticRegression(**terms).fit(x, y)
    assert moved.inferred_ is not None
    assert moved.score(x, y) == 1.0
    monkeypatch.setattr("recoup.algorithms.logistic._SLACKS", (0.0,))
    with pytest.warns(PostprocessDeclined, match="last iterate was kept: inference stopped"):
        kept = PrivateLogisticRegression(**terms).fit(x, y)
    assert kept.inferred_ is None
    assert "nats" in kept.declined_
    with pytest.warns(PostprocessDeclined, match="^inference stopped"):
        forced = PrivateLogisticRegression(**terms, postprocess="maxent").fit(x, y)
    assert forced.inferred_ is not None
    assert forced.declined_ is None
    assert kept.score(x, y) == 1.0


@pytest.mark.parametrize("more", [{"average_last": 2}, {"average_last": -5}, {"n_restarts": 3}])
def test_what_only_clusterings_have_is_refused(more):
    _, transcript = released(FEATURES[:100] / 10.0, LABELS[:100], epsilon=1)
    with pytest.raises(ParameterError, match="for clusterings"):
        recoup.refit(transcript, None, **more)
