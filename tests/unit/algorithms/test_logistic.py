"""Private logistic regression: its query, its algorithm, its labels and its estimator."""

import json
import math
import warnings
from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import ALPHA, context, domains
from scipy.optimize import minimize
from scipy.stats import binom, norm

import recoup
from recoup import Box, LogisticRegression, PrivateLogisticRegression
from recoup.algorithms.logistic import exponential_values, minimum_of_loss, supported, tilt_of_mean
from recoup.errors import (
    BoundsError,
    DataError,
    MissingBoundsError,
    ParameterError,
    PostprocessDeclined,
    TranscriptError,
)
from recoup.estimators.labels import codes_of, declared_classes, open_labelled
from recoup.kernels.fixed_point import DROPPED
from recoup.kernels.models import exp_minus
from recoup.maxent.measure import explained, total_of
from recoup.queries import query_from_json
from recoup.queries.counts import HistogramQuery
from recoup.queries.gradient import LogisticGradientQuery

RNG = np.random.default_rng(7)
FEATURES = RNG.uniform([0.0, -5.0], [10.0, 5.0], size=(4000, 2))
LABELS = FEATURES[:, 0] - FEATURES[:, 1] + RNG.logistic(size=4000) > 5.0
BOUNDS = ([0.0, -5.0], [10.0, 5.0])


def model(**parameters):
    terms = {"epsilon": 1, "bounds": BOUNDS, "random_state": 0, "noise": "simulated"} | parameters
    return PrivateLogisticRegression(**terms)


def released(x, positive, *, step_size=16.0, epsilon=1, seed=0, delta=1e-6):
    d = x.shape[1]
    records = np.column_stack([x, np.where(positive, 1.0, -1.0)])
    algorithm = LogisticRegression(step_size=step_size)
    domain = Box(-np.ones(d + 1), np.ones(d + 1))
    terms = {"domain": domain, "epsilon": epsilon, "delta": delta, "random_state": seed, "noise": "simulated"}
    return algorithm, recoup.release(algorithm, records, **terms)


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
        assert np.isfinite(algorithm.iterates(transcript.context, transcript.rounds)).all()

    def test_iterates_are_the_states_that_were_asked_at(self):
        algorithm, transcript = released(FEATURES / 10.0, LABELS)
        asked = [answered.query.coefficients for answered in transcript.rounds]
        iterates = algorithm.iterates(transcript.context, transcript.rounds)
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
        for n, d, epsilon, declined in [(400, 31, 0.25, True), (4000, 21, 0.05, True), (4000, 5, 0.25, False)]:
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


class TestLabels:
    @pytest.mark.parametrize("bounds", ["schema.toml", "age=17:90", Path("schema.json")])
    def test_a_file_of_bounds_is_for_the_command_line(self, bounds, tmp_path):
        # Of text columns, which the file would have left out, nothing must be said.
        pd.DataFrame({"name": ["a"], "age": [40], "bought": [1]}).to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(BoundsError, match="read by the command line only"):
            model(bounds=bounds).fit(tmp_path / "t.csv", "bought")

    @pytest.mark.parametrize(
        ("labels", "classes"),
        [
            (np.array([0, 1, 2, 1]), (0, 1)),
            (np.array([0.0, 1.0, np.nan, 1.0]), (0, 1)),
            ([0, 1, None, True], (0, 1)),
            ([0, 1, [3], np.array([0, 0])], (0, 1)),
            (["no", "yes", "perhaps", "yes"], ("no", "yes")),
            (np.array(["no", "yes", "", "yes"]), ("no", "yes")),
            (pd.Series([5, 2, pd.NA, 2], dtype="Int64"), (5, 2)),
            (pl.Series(["no", "yes", None, "yes"]), ("no", "yes")),
            (pa.chunked_array([[0, 1], [None, 1]]), (0, 1)),
            (np.ma.masked_array([0, 1, 1, 1], [False, False, True, False]), (0, 1)),
        ],
    )
    def test_a_label_is_one_of_the_declared_classes_or_nothing(self, labels, classes):
        codes = codes_of(labels, classes)
        np.testing.assert_array_equal(codes[:2], [0.0, 1.0])
        assert math.isnan(codes[2])

    @pytest.mark.parametrize(
        "kind",
        [
            list,
            deque,
            pl.Series,
            pa.array,
            lambda values: pa.chunked_array([values]),
            lambda values: pd.Series(values, dtype="Int64"),
            lambda values: pd.Series(values, dtype="int64[pyarrow]"),
            lambda values: pd.Series(values, dtype=object),
            lambda values: np.array(values, dtype=object),
        ],
    )
    @pytest.mark.parametrize("classes", [(0, 1), (2**53, 2**53 + 1)])
    def test_one_label_does_not_change_how_the_others_are_read(self, kind, classes):
        a, b = classes
        np.testing.assert_array_equal(codes_of(kind([a, b, b]), classes), [0, 1, 1])
        np.testing.assert_array_equal(codes_of(kind([a, b, b, None]), classes), [0, 1, 1, np.nan])

    @pytest.mark.parametrize("odd", ["x", [1, 2], b"1", 10**400, object()])
    def test_nor_does_one_that_is_no_number(self, odd):
        for kind in (list, tuple, deque):
            np.testing.assert_array_equal(codes_of(kind([1, 0, odd]), (0, 1)), [1, 0, np.nan])

    def test_arrow_labels_that_python_cannot_hold_are_neither(self):
        far = pa.array([0, 2**62, None], pa.timestamp("s"))
        assert np.isnan(codes_of(far, (0, 1))).all()
        assert codes_of(pa.array(["no", "yes", None]), ("no", "yes"))[:2].tolist() == [0.0, 1.0]

    def test_classes_of_a_column_must_differ_as_numbers(self):
        with pytest.raises(ParameterError, match="float64 tells apart"):
            open_labelled(pd.DataFrame({"a": [0.0], "y": [1.0]}), "y", {"a": (0, 1)}, (2**53, 2**53 + 1))

    @pytest.mark.parametrize("classes", [(0,), (0, 1, 2), (1, 1), "ab", 3, (None, 1), ((0, 1), (2, 3)), (1, "a")])
    def test_anything_but_two_classes_is_refused(self, classes):
        with pytest.raises(ParameterError, match="two values"):
            declared_classes(classes)

    def test_every_kind_of_table_has_the_same_totals(self, tmp_path):
        codes = np.where(LABELS, 7.0, 3.0)
        codes[::50], codes[1::50], codes[2::50] = 5.0, np.nan, 700.0  # of which nothing may come
        x = FEATURES.copy()
        x[3::50, 0] = np.nan
        frame = pd.DataFrame({"b": x[:, 1], "y": codes, "a": x[:, 0]})
        frame.to_parquet(tmp_path / "t.parquet")
        frame.to_csv(tmp_path / "t.csv", index=False)
        named = {"a": (0.0, 10.0), "b": (-5.0, 5.0)}
        opened = [
            open_labelled(x, codes, BOUNDS, (3, 7)),
            open_labelled(x.tolist(), codes.tolist(), BOUNDS, (3, 7)),
            open_labelled(frame, "y", named, (3, 7)),
            open_labelled(frame[["a", "b", "y"]], "y", BOUNDS, (3, 7)),
            open_labelled(frame[["a", "y", "b"]], "y", BOUNDS, (3, 7)),
            open_labelled(frame, frame["y"], named, (3, 7)),
            open_labelled(pl.from_pandas(frame), "y", named, (3, 7)),
            open_labelled(pa.Table.from_pandas(frame), "y", named, (3, 7)),
            open_labelled(pa.Table.from_pandas(frame[["a", "y", "b"]]).to_reader(), "y", BOUNDS, (3, 7)),
            open_labelled(tmp_path / "t.parquet", "y", named, (3, 7)),
            open_labelled(str(tmp_path / "t.csv"), "y", named, (3, 7)),
        ]
        query = LogisticGradientQuery(coefficients=np.array([1.0, -0.5, 0.1]), clip=0.5)
        totals = [found.source.total(query, np.full(4, 2.0**20)) for found in opened]
        assert all(total == totals[0] for total in totals)
        assert totals[0][0] == 2**20 * int(np.isin(codes, (3, 7))[np.isfinite(x[:, 0])].sum())
        assert all((o.records.low, o.records.high) == ((0.0, -5.0, 0.0), (10.0, 5.0, 1.0)) for o in opened)
        assert {o.records.columns for o in opened} == {None, ("a", "b", "y"), ("a", "b", "label")}

    def test_a_row_that_is_none_takes_its_label_with_it(self):
        rows = [[1.0, 1.0], [2.0], None, "ab", [3.0, 3.0]]
        found = open_labelled(rows, [0, 1, 1, 1, 1], BOUNDS, (0, 1))
        query = LogisticGradientQuery(coefficients=np.zeros(3), clip=10.0)
        assert found.source.total(query, np.full(4, 2.0)) == [4, 0, 0, 0]
        records = next(iter(found.source.records()))
        kept = records[:, 0] != DROPPED
        np.testing.assert_array_equal(kept, [True, False, False, False, True])
        np.testing.assert_array_equal(records[kept, -1], [-(2**30), 2**30])

    @pytest.mark.parametrize(
        ("X", "y", "bounds", "error"),
        [
            (FEATURES, None, BOUNDS, ParameterError),
            (FEATURES, LABELS, None, MissingBoundsError),
            (FEATURES, LABELS[:-1], BOUNDS, DataError),
            (FEATURES.tolist(), LABELS[:-1], BOUNDS, DataError),
            (FEATURES, np.zeros((4000, 2)), BOUNDS, DataError),
            (FEATURES, LABELS, (0, [1, 1, 1]), BoundsError),
            (FEATURES, "y", BOUNDS, DataError),
            ("people.csv", LABELS, BOUNDS, DataError),
            (pd.DataFrame({"a": [1.0], "y": [1]}), "z", {"a": (0, 1)}, DataError),
            (pd.DataFrame({"a": [1.0], "y": [1]}), "y", {"a": (0, 1), "y": (0, 1)}, ParameterError),
            (FEATURES.tolist(), LABELS, {"a": (0, 1), "b": (0, 1)}, DataError),
        ],
    )
    def test_what_is_no_labelled_table_is_refused_before_anything_is_charged(self, X, y, bounds, error, tmp_path):
        ledger = recoup.Ledger.create(tmp_path / "l.db", epsilon=3)
        with pytest.raises(error):
            model(bounds=bounds, ledger=ledger).fit(X, y)
        assert ledger.spent == 0

    def test_a_column_of_text_classes_cannot_be_named(self):
        with pytest.raises(ParameterError, match="finite numbers"):
            open_labelled(pd.DataFrame({"a": [1.0], "y": [1]}), "y", {"a": (0, 1)}, ("no", "yes"))


class TestEstimator:
    def test_the_inferred_fit_is_near_the_one_without_noise(self):
        fitted = model(epsilon=10.0, delta=1e-6, classes=(False, True), n_rounds=20).fit(FEATURES, LABELS)
        assert fitted.declined_ is None
        assert fitted.inferred_ is not None
        exact = minimum_of_loss(Box(*BOUNDS).to_unit(FEATURES), LABELS, np.ones(len(LABELS)), l2=1e-3)
        np.testing.assert_allclose(fitted.coef_[0] * 5.0, exact[:2], atol=0.3)  # half of either column's range is 5
        assert fitted.score(FEATURES, LABELS) > 0.85

    def test_faces_agree_with_each_other(self):
        fitted = model(classes=("no", "yes")).fit(FEATURES, np.where(LABELS, "yes", "no"))
        decision, chance = fitted.decision_function(FEATURES), fitted.predict_proba(FEATURES)
        np.testing.assert_allclose(decision, FEATURES @ fitted.coef_[0] + fitted.intercept_[0], atol=1e-9)
        np.testing.assert_allclose(np.log(chance[:, 1] / chance[:, 0]), decision, atol=1e-9)
        np.testing.assert_array_equal(fitted.predict(FEATURES), np.where(decision >= 0, "yes", "no"))
        assert fitted.classes_.tolist() == ["no", "yes"]
        right = fitted.predict(FEATURES) == np.where(LABELS, "yes", "no")
        assert fitted.score(FEATURES, np.where(LABELS, "yes", "no")) == pytest.approx(right.mean())

    def test_missing_values_have_no_chance_and_do_not_score(self):
        fitted = model().fit(FEATURES, LABELS.astype(int))
        x = FEATURES[:4].copy()
        x[1, 0] = np.nan
        assert np.isnan(fitted.predict_proba(x)).any(axis=1).tolist() == [False, True, False, False]
        assert fitted.predict(x)[1] == 0
        kept = [0, 2]
        whole = fitted.score(FEATURES[kept], LABELS[kept].astype(int))
        assert fitted.score(x, [*LABELS[:3].astype(int), 9]) == whole
        assert math.isnan(fitted.score(x[1:2], [1]))

    def test_values_beyond_the_bounds_count_as_the_nearest_inside(self):
        fitted = model().fit(FEATURES, LABELS.astype(int))
        np.testing.assert_array_equal(
            fitted.decision_function([[1e9, 0.0], [-1e9, -99.0]]), fitted.decision_function([[10.0, 0.0], [0.0, -5.0]])
        )

    def test_a_named_label_is_no_feature(self, tmp_path):
        frame = pd.DataFrame({"a": FEATURES[:, 0], "y": LABELS.astype(float), "b": FEATURES[:, 1]})
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet")
        named = {"a": (0.0, 10.0), "b": (-5.0, 5.0)}
        fits = [model(bounds=named).fit(X, "y") for X in (frame, tmp_path / "t.parquet")]
        assert fits[0].feature_names_in_.tolist() == ["a", "b"]
        np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
        assert (
            fits[0].score(frame, "y") == fits[0].score(frame, frame["y"]) == fits[1].score(tmp_path / "t.parquet", "y")
        )
        with pytest.raises(DataError, match="names"):
            model().fit(FEATURES, LABELS.astype(int)).score(frame, "y")

    def test_no_learnt_attribute_is_a_function_of_the_records(self):
        """Tables that differ by a record, under the same noise, differ in noisy values and in nothing else."""
        fits = [model(postprocess="none").fit(FEATURES[:n], LABELS[:n].astype(int)) for n in (3999, 4000)]
        public = {"classes_", "n_features_in_", "privacy_", "declined_", "inferred_"}
        names = {name for name in vars(fits[0]) if name.endswith("_")}
        assert names - public == {"coef_", "intercept_", "transcript_", "verdict_"}
        for name in public:
            assert str(getattr(fits[0], name)) == str(getattr(fits[1], name))

    def test_a_fit_is_resumed_and_charged_once(self, tmp_path):
        ledger = recoup.Ledger.create(tmp_path / "l.db", epsilon=3)
        path, seen = tmp_path / "t.json", []
        first = model(ledger=ledger).fit(FEATURES, LABELS.astype(int), transcript_path=path, on_round=seen.append)
        assert seen == list(range(1, 11))
        again = model(ledger=ledger).fit(FEATURES, LABELS.astype(int), transcript_path=path, resume=True)
        assert float(ledger.spent) == pytest.approx(1.0)
        np.testing.assert_array_equal(first.coef_, again.coef_)

    @pytest.mark.parametrize("parameters", [{"postprocess": "consistency"}, {"n_rounds": 0}, {"classes": (1, 1)}])
    def test_parameters_outside_what_is_allowed_are_refused(self, parameters):
        with pytest.raises(ParameterError):
            model(**parameters).fit(FEATURES, LABELS)


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
        iterates = algorithm.iterates(transcript.context, transcript.rounds)

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
        solver = {"temperature": 20 / total, "tolerance": 0.03, "max_steps": 15}
        weights = explained(context, rounds, points, total, **solver).weights
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
