"""Labels of a logistic regression, wherever they come from, and its estimator."""

import math
from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logistic_cases import BOUNDS, FEATURES, LABELS, model

import recoup
from recoup import Box
from recoup.algorithms.logistic import minimum_of_loss
from recoup.errors import (
    BoundsError,
    DataError,
    MissingBoundsError,
    ParameterError,
)
from recoup.estimators.logistic import codes_of, declared_classes, open_labelled
from recoup.kernels.fixed_point import DROPPED
from recoup.queries.models import LogisticGradientQuery


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
