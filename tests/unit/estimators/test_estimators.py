"""PrivateKMeans as a scikit-learn estimator that holds neither data nor budget."""

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from recoup import Box, Ledger, PrivateKMeans
from recoup.errors import (
    BoundsError,
    BudgetError,
    BudgetExceededError,
    ColumnTypeError,
    DataError,
    LedgerError,
    MissingBoundsError,
    ParameterError,
    UnknownColumnError,
)
from recoup.inference.judge import doubts_of, judge
from recoup.privacy.mechanism import SecureNoise

X = np.random.default_rng(0).normal([[0.3, 0.7]], 0.1, size=(400, 2))


def model(**terms):
    return PrivateKMeans(**({"n_clusters": 3, "epsilon": 1, "bounds": (0, 1), "postprocess": "none"} | terms))


def assert_inside(fitted, low=0, high=1, d=2):
    centers = fitted.cluster_centers_
    assert centers.shape == (fitted.n_clusters, d)
    assert np.isfinite(centers).all()
    assert ((centers >= low) & (centers <= high)).all()


def test_parameters():
    parameters = model().get_params()
    assert set(parameters) == {
        *("n_clusters", "epsilon", "bounds", "delta", "domain", "n_records", "records_per_person", "algorithm"),
        *("person", "per_person"),
        *("n_rounds", "postprocess", "ledger", "csv_dialect", "random_state", "noise"),
    }
    assert model().set_params(epsilon=2).epsilon == 2
    with pytest.raises(ValueError, match="Invalid parameter"):
        model().set_params(secret=1)


def test_clone_is_unfitted_and_equal():
    fitted = model(random_state=3).fit(X)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "cluster_centers_")


def test_a_clone_spends_from_the_same_ledger(tmp_path):
    for ledger in (Ledger.in_memory(epsilon=1), Ledger.create(tmp_path / "l.db", epsilon=1)):
        original = model(ledger=ledger, epsilon="0.6")
        original.fit(X)
        with pytest.raises(BudgetExceededError):
            clone(original).fit(X)


def test_pickles_hold_neither_data_nor_ledger(tmp_path):
    canary = 0.1234567890123
    ledger = Ledger.create(tmp_path / "l.db", epsilon=9)
    fitted = model(ledger=ledger).fit(np.full((50, 2), canary))
    for estimator in (fitted, model(ledger=ledger)):
        data = pickle.dumps(estimator)
        assert np.float64(canary).tobytes() not in data
        assert np.int32((2 * canary - 1) * 2**30).tobytes() not in data
        assert b"voronoi query of" not in data
        assert b"SQLite" not in data
        again = pickle.loads(data)
        assert again.get_params()["n_clusters"] == 3
        # What was fitted travels without the ledger, whose path stands for it; what is to be fitted needs it.
        assert Ledger(again.ledger if estimator is fitted else again.ledger.path).spent == ledger.spent
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.transcript_.to_json() == fitted.transcript_.to_json()
    with pytest.raises(LedgerError):
        pickle.dumps(model(ledger=Ledger.in_memory(epsilon=1)))


def test_learnt_attributes_are_functions_of_the_transcript():
    fitted = model().fit(X)
    learnt = {name for name in vars(fitted) if name.endswith("_")}
    told = {"cluster_centers_", "transcript_", "inferred_", "privacy_", "verdict_", "doubtful_"}
    assert learnt == told | {"n_features_in_"}
    assert fitted.verdict_ == judge(fitted.transcript_, None, fitted.cluster_centers_)
    assert fitted.doubtful_ == doubts_of(fitted.transcript_, fitted.cluster_centers_, None).noise
    for name in ("labels_", "inertia_", "n_iter_"):
        assert not hasattr(fitted, name)
    assert fitted.inferred_ is None
    assert (fitted.privacy_["epsilon"], fitted.privacy_["statement"]) == (1.0, "differentially private")
    assert_inside(fitted)


def test_post_processing_uses_the_transcript_alone():
    fitted = model(postprocess="auto", noise="simulated", random_state=0).fit(X)
    assert fitted.inferred_ is not None
    assert_inside(fitted)
    plain = model(noise="simulated", random_state=0).fit(X)
    assert fitted.transcript_.to_json() == plain.transcript_.to_json()


def test_pipelines():
    # Bounds refer to what the estimator is given, so the steps before it must not learn from the data.
    logged = make_pipeline(FunctionTransformer(np.log1p), model(bounds=(0, 1)))
    assert_inside(logged.fit(X.clip(0)).steps[-1][1])
    assert logged.predict(X.clip(0)).shape == (400,)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(text="x")
    chosen = make_pipeline(ColumnTransformer([("numbers", "passthrough", ["b", "a"])]), model(), FunctionTransformer())
    assert chosen.fit_transform(frame).shape == (400, 3)


def test_output_names():
    fitted = model().fit(X)
    assert fitted.get_feature_names_out().tolist() == [f"privatekmeans{i}" for i in range(3)]
    frame = model().set_output(transform="pandas").fit(X).transform(X[:2])
    assert frame.shape == (2, 3)


FRAMES = {
    "pandas": lambda: pd.DataFrame(X, columns=["a", "b"]).assign(text="x"),
    "polars": lambda: pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "text": ["x"] * 400}),
    "arrow": lambda: pa.table({"a": X[:, 0], "b": X[:, 1], "text": ["x"] * 400}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_bounds_by_name_choose_the_columns(kind):
    frame = FRAMES[kind]()
    fitted = model(bounds={"b": (0, 1), "a": (-1, 1)}).fit(frame)
    assert fitted.feature_names_in_.tolist() == ["b", "a"]
    assert fitted.n_features_in_ == 2
    assert fitted.privacy_["bounds"] == {"low": [0, -1], "high": [1, 1], "columns": ("b", "a")}
    np.testing.assert_array_equal(fitted.predict(frame), fitted.predict(X[:, ::-1]))
    with pytest.raises(UnknownColumnError, match="age"):
        model(bounds={"age": (0, 1)}).fit(frame)
    with pytest.raises(ColumnTypeError, match="text"):
        model(bounds={"a": (0, 1), "text": (0, 1)}).fit(frame)


def test_names_of_a_frame_are_kept_and_arrays_have_none():
    fitted = model().fit(pd.DataFrame(X, columns=["a", "b"]))
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(fitted.fit(X), "feature_names_in_")
    with pytest.raises(DataError, match="names"):
        model(bounds={"a": (0, 1)}).fit(X)


def test_no_bounds_no_fit():
    with pytest.raises(MissingBoundsError, match="do not compute them from the data"):
        model(bounds=None).fit(X)


@pytest.mark.parametrize(
    "bounds",
    [(1, 0), (0, 0), (0, np.inf), (np.nan, 1), ([0] * 3, [1] * 3), ([0], [1]), (0,), 5, "01", ("a", "b"), {"a": (0,)}],
)
def test_bad_bounds_are_refused(bounds):
    with pytest.raises(BoundsError):
        model(bounds=bounds).fit(X)


@pytest.mark.parametrize("epsilon", [0, -1, np.nan, np.inf, "much", None, [1]])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(BudgetError):
        model(epsilon=epsilon).fit(X)


@pytest.mark.parametrize(
    "terms",
    [
        *({"n_clusters": k} for k in (0, -1, 2.0, "3", 2**20, 2**19)),
        *({"n_rounds": t} for t in (0, 1.5, "five")),
        *({"n_records": n} for n in (0, "many", 2.5)),
        *({"records_per_person": n} for n in (0, 1.5, 2**21)),
        {"algorithm": "magic"},
        {"postprocess": "magic"},
        {"domain": "sphere"},
        {"domain": 7},
        {"noise": "little"},
        {"delta": -1},
        {"delta": 1},
        {"random_state": -1},
    ],
    ids=str,
)
def test_other_bad_parameters_are_refused_before_a_release(terms):
    ledger = Ledger.in_memory(epsilon=10, delta="1e-6")
    with pytest.raises(ParameterError):
        model(ledger=ledger, **terms).fit(X)
    assert ledger.spent == 0


@pytest.mark.parametrize("domain", ["auto", "box", "l1", "l2"])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 5), (3, 1), (3, 4)])
def test_any_table_gets_finite_centres_inside_the_bounds(domain, delta, d, k, few_points):
    for n in (0, 1, 2):
        assert_inside(model(n_clusters=k, domain=domain, delta=delta).fit(np.full((n, d), 0.9)), d=d)
    assert_inside(model(n_clusters=k, domain=domain, delta=delta).fit(np.full((3, d), np.nan)), d=d)


def test_a_domain_may_be_given_whole():
    fitted = model(domain=Box([0, 0.5], [0.5, 1]), bounds=None).fit(X)
    assert_inside(fitted, [0, 0.5], [0.5, 1])


def test_predict_transform_and_score_agree():
    fitted = model(epsilon=1000).fit(X)
    distances, labels = fitted.transform(X), fitted.predict(X)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)
    assert fitted.score(X) == pytest.approx(-(distances.min(axis=1) ** 2).sum())
    assert fitted.fit_predict(X).shape == (400,)
    assert fitted.fit_transform(X).shape == (400, 3)
    assert fitted.predict([[0.5, np.nan], [0.5, 0.5]])[0] == -1
    with pytest.raises(DataError, match="expecting 2 features"):
        fitted.predict(np.zeros((2, 3)))
    for method in ("predict", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(model(), method)(X)


def test_random_state_does_not_make_secure_noise_repeat():
    first, second = (model(random_state=0).fit(X).transcript_.rounds for _ in range(2))
    assert first[0].query.to_json() == second[0].query.to_json()
    assert first[0].integers != second[0].integers
    simulated = [model(random_state=0, noise="simulated").fit(X) for _ in range(2)]
    assert simulated[0].transcript_.to_json() == simulated[1].transcript_.to_json()
    assert simulated[0].privacy_["statement"].startswith("NOT PRIVATE")


def test_thirty_fits_of_a_tenth_fit_into_three_and_the_next_is_refused(monkeypatch):
    ledger = Ledger.in_memory(epsilon=3)
    spending = model(epsilon=0.1, n_rounds=3, ledger=ledger)
    for _ in range(30):
        spending.fit(X[:5])
    assert len(ledger.entries()) == 90
    assert 3 * (1 - Fraction(1, 10**9)) <= ledger.spent <= 3
    before = spending.transcript_

    def never(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(SecureNoise, "laplace", never)
    with pytest.raises(BudgetExceededError) as caught:
        spending.fit(X[:5])
    assert caught.value.asked == Fraction(1, 10)
    assert caught.value.left < Fraction(1, 10**8)
    assert len(ledger.entries()) == 90
    assert spending.transcript_ is before


def test_gaussian_fits_share_a_ledger_with_delta():
    ledger = Ledger.in_memory(epsilon=1, delta=1e-6)
    model(epsilon=0.5, delta=1e-6, ledger=ledger, algorithm="lloyd").fit(X)
    assert 0.499 < ledger.spent <= Fraction(1, 2)
    with pytest.raises(BudgetError, match="delta"):
        model(epsilon=0.5, delta=1e-6, ledger=Ledger.in_memory(epsilon=1), algorithm="lloyd").fit(X)


def test_intervals_come_from_the_transcript_alone():
    x = np.random.default_rng(0).normal([[0.3, 0.7]], 0.05, size=(2000, 2))
    fitted = PrivateKMeans(2, 2.0, (0, 1), random_state=0, noise="simulated").fit(x)
    found = fitted.intervals(level=0.5)
    assert (found.center_low <= fitted.cluster_centers_).all()
    assert (fitted.cluster_centers_ <= found.center_high).all()
    with pytest.raises(ParameterError, match="postprocess"):
        PrivateKMeans(2, 2.0, (0, 1), postprocess="none", noise="simulated").fit(x).intervals()
