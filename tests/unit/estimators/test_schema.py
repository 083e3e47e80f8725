"""Estimators of tables as people have them: a schema as bounds, persons, and rows that are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import recoup
from recoup import Category, Number, Schema
from recoup.errors import BoundsError, DataError, ParameterError
from recoup.mixed import Mixed

SCHEMA = Schema(
    {
        "age": Number(0, 110, unit="years"),
        "charges": Number(1, 1e6, scale="log", unit="EUR", missing=1),
        "lab": Number(40, 400, missing="own"),
        "sex": Category(["F", "M"]),
        "ward": Category(["a", "b", "c"], other=True),
    }
)
COLUMNS = ["age", "charges", "lab", "lab missing", "sex=M", "ward=a", "ward=b", "ward=c", "ward=other"]


def visits(n=1200, n_persons=400, seed=0):
    rng = np.random.default_rng(seed)
    who = rng.integers(0, n_persons, n)
    kind = who % 3
    return pd.DataFrame(
        {
            "who": [f"p{i}" for i in who],
            "age": np.array([25.0, 50.0, 80.0])[kind] + rng.normal(0, 4, n),
            "charges": np.exp(np.array([2.0, 6.0, 10.0])[kind] + rng.normal(0, 0.5, n)),
            "lab": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(40, 400, n)),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, n)],
            "ward": np.array(["a", "b", "c"])[kind],
            "sick": (kind == 2).astype(int),
        }
    )


TABLE = visits()
PERSONS = [{}, {"person": "who"}, {"person": "who", "per_person": "sample", "records_per_person": 2}]
SURE = {"epsilon": 1000, "bounds": SCHEMA, "noise": "simulated", "random_state": 0}
ESTIMATORS = {
    "kmeans": recoup.PrivateKMeans(3, **SURE, postprocess="none"),
    "mixture": recoup.PrivateGaussianMixture(3, **SURE, n_rounds=3, postprocess="none"),
    "components": recoup.PrivatePCA(2, **SURE),
    "logistic": recoup.PrivateLogisticRegression(**SURE, postprocess="none"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("persons", PERSONS, ids=["records", "mean", "sample"])
def test_every_estimator_takes_a_schema_and_persons(name, persons):
    label = ["sick"] if name == "logistic" else []
    model = clone(ESTIMATORS[name]).set_params(**persons).fit(TABLE, *label)
    assert (model.n_features_in_, list(model.feature_names_in_)) == (5, list(SCHEMA))
    assert model.privacy_.unit.startswith("one person, by column " if persons else "one record")
    assert model.transcript_.context.domain.columns == (*COLUMNS, *label)
    learnt = {"kmeans": "cluster_centers_", "mixture": "means_", "components": "components_", "logistic": "coef_"}
    assert getattr(model, learnt[name]).shape[1] == len(COLUMNS)
    asked = model.transform if name == "components" else model.predict
    assert len(asked(TABLE)) == len(TABLE)
    assert len(asked(TABLE.drop(columns=["who", "sick"]))) == len(TABLE)
    again = clone(ESTIMATORS[name]).set_params(**persons).fit(TABLE.sample(frac=1, random_state=1), *label)
    np.testing.assert_allclose(getattr(again, learnt[name]), getattr(model, learnt[name]))


def test_centres_are_in_the_units_of_people():
    centers = clone(ESTIMATORS["kmeans"]).set_params(person="who", postprocess="auto").fit(TABLE).cluster_centers_
    np.testing.assert_allclose(centers[:, 0], [25, 50, 80], atol=2)
    np.testing.assert_allclose(np.log(centers[:, 1]), [2, 6, 10], atol=0.4)
    np.testing.assert_allclose(centers[:, 5:8], np.eye(3), atol=0.05)
    np.testing.assert_allclose(centers[:, 5:].sum(axis=1), 1.0)


def test_labels_are_those_of_a_column_or_in_the_order_of_rows():
    for persons in PERSONS:
        named, given = (clone(ESTIMATORS["logistic"]).set_params(**persons) for _ in range(2))
        np.testing.assert_array_equal(named.fit(TABLE, "sick").coef_, given.fit(TABLE, TABLE["sick"]).coef_)
        assert named.score(TABLE, "sick") == given.score(TABLE, TABLE["sick"]) > 0.95


def test_what_stands_for_missing_stands_for_it_in_predict_too():
    model = clone(ESTIMATORS["kmeans"]).fit(TABLE)
    rows = [[25.0, None, None, "F", "a"], [None, 7.0, 100.0, "F", "a"], [25.0, 7.0, 100.0, "x", "a"]]
    rows += [[25.0, 7.0, 100.0, "M", "x"]]
    assert (model.predict(rows) >= 0).tolist() == [True, False, False, True]
    assert np.isnan(model.transform(rows)[:, 0]).tolist() == [False, True, True, False]
    assert np.isfinite(model.score(rows))


def test_a_mapping_with_a_declaration_is_a_schema():
    bounds = {"age": (0, 110), "sex": Category(["F", "M"])}
    model = recoup.PrivateKMeans(2, 1, bounds, postprocess="none").fit(TABLE)
    assert model.transcript_.context.domain == Mixed(schema=Schema(bounds))
    plain = recoup.PrivateKMeans(2, 1, {"age": (0, 110)}, postprocess="none").fit(TABLE)
    assert plain.transcript_.context.domain == recoup.Box([0], [110], ("age",))


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"domain": "l1"}, "a schema makes a domain of its own"),
        ({"algorithm": "grid"}, "counts in a grid of numbers"),
        ({"algorithm": "hybrid"}, "counts in a grid of numbers"),
        ({"postprocess": "mcmc"}, "moves records freely"),
        ({"bounds": (0, 1), "person": "who"}, "declared by name, too"),
        ({"person": "who", "records_per_person": 2}, "one row, however many"),
        ({"per_person": "mean"}, "per_person needs person"),
        ({"bounds": {"age": Number(0, 1), "sex": "FM"}}, "a Number, a Category or a pair"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_spent(terms, words):
    ledger = recoup.Ledger.in_memory(epsilon=2000)
    with pytest.raises((ParameterError, BoundsError), match=words):
        clone(ESTIMATORS["kmeans"]).set_params(ledger=ledger, **terms).fit(TABLE)
    assert ledger.entries() == ()


@pytest.mark.parametrize("algorithm", ["gupt", "privgene"])
def test_rivals_have_persons_too(algorithm):
    bounds = {"age": (0, 110), "charges": (1, 1e6)}
    model = recoup.PrivateKMeans(2, 1, bounds, algorithm=algorithm, person="who").fit(TABLE)
    assert model.privacy_.unit.startswith("one person, by column ")
    assert model.privacy_.per_person == "each person's records become one row, their mean"


@pytest.mark.parametrize("rows", [[[0.5, 0.5], [0.5]], [[0.5]], [[0.5, 0.5, 0.5]], [None], [[0.5, 0.5], 0.5]])
def test_a_row_of_the_wrong_length_is_refused(rows):
    x = np.random.default_rng(0).uniform(size=(200, 2))
    model = recoup.PrivateKMeans(2, 1, ([0, 0], [1, 1]), postprocess="none").fit([*x.tolist(), [0.5]])
    with pytest.raises(DataError, match="expecting 2 features"):
        model.predict(rows)
    for row in ([0.5, 0.5], [0.5, "a"], ["ab"], (0.5, None)):
        with pytest.raises(DataError, match="X is one row; give a list of rows"):
            model.predict(row)
    assert model.predict([[0.5, None], (0.5, 0.5)]).tolist()[0] == -1


def test_scipys_bounds():
    x = np.random.default_rng(0).uniform(size=(200, 2)) * [1, 5]
    model = recoup.PrivateKMeans(2, 1, [(0, 1), (0, 5)], postprocess="none").fit(x)
    assert model.privacy_["bounds"]["high"] == [1.0, 5.0]
    with pytest.raises(BoundsError, match="a list of tuples"):
        recoup.PrivateKMeans(2, 1, [[0, 0], [1, 5]]).fit(x)
