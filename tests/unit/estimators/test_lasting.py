"""Models that live on: from a transcript, through pickles and files, in another process; and without a ledger."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from recoup import (
    Category,
    L2Ball,
    Ledger,
    Number,
    PrivateGaussianMixture,
    PrivateKMeans,
    PrivateLogisticRegression,
    PrivatePCA,
    Schema,
    Transcript,
)
from recoup._files import checksum_of
from recoup.errors import ModelFormatError, ParameterError, TranscriptFormatError

RNG = np.random.default_rng(0)
N = 3000
KIND = RNG.integers(3, size=N)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(np.array([25, 50, 75])[KIND], 6),
        "pay": np.exp(RNG.normal(np.array([6, 8, 9])[KIND], 0.4)),
        "ward": np.array(["a", "b", "c"])[KIND],
        "ill": (RNG.random(N) < np.array([0.1, 0.5, 0.9])[KIND]).astype(int),
    }
)
NUMBERS = {"age": (0, 110), "pay": (0, 40_000)}
SCHEMA = Schema(
    {"age": Number(0, 110, unit="years"), "pay": Number(10, 1e5, scale="log"), "ward": Category(["a", "b", "c"])}
)
MAKE = {
    "kmeans": lambda **terms: PrivateKMeans(3, 20, **terms),
    "mixture": lambda **terms: PrivateGaussianMixture(3, 20, n_rounds=3, **terms),
    "components": lambda **terms: PrivatePCA(2, 20, **terms),
    "power": lambda **terms: PrivatePCA(2, 20, algorithm="power", n_rounds=3, **terms),
    "logistic": lambda **terms: PrivateLogisticRegression(20, classes=(0, 1), **terms),
}
ASK = {
    "kmeans": lambda model, rows: model.predict(rows),
    "mixture": lambda model, rows: model.predict_proba(rows),
    "components": lambda model, rows: model.transform(rows),
    "power": lambda model, rows: model.transform(rows),
    "logistic": lambda model, rows: model.predict_proba(rows),
}
CASES = [(name, declared) for name in MAKE for declared in ("numbers", "schema")]


@pytest.fixture(scope="module")
def fitted():
    """Each kind of model, fitted once with numbers and once with a schema."""
    patch = pytest.MonkeyPatch()
    patch.setattr("recoup.algorithms.base.Algorithm.support_points", 1_000)
    models = {}
    for name, declared in CASES:
        bounds = NUMBERS if declared == "numbers" else SCHEMA
        model = MAKE[name](bounds=bounds, ledger=Ledger.in_memory(epsilon=20), random_state=7)
        models[name, declared] = model.fit(FRAME, "ill" if name == "logistic" else None)
    yield models
    patch.undo()


def same(one, other, name):
    for attribute in one._learnt:
        np.testing.assert_array_equal(getattr(one, attribute), getattr(other, attribute), attribute)
    np.testing.assert_array_equal(ASK[name](one, FRAME), ASK[name](other, FRAME))
    assert one.privacy_ == other.privacy_
    assert one.transcript_.to_json() == other.transcript_.to_json()
    assert list(one.feature_names_in_) == list(other.feature_names_in_)


@pytest.mark.parametrize(("name", "declared"), CASES)
def test_a_model_from_its_transcript_is_the_fitted_one(fitted, name, declared, tmp_path):
    model = fitted[name, declared]
    model.transcript_.save(tmp_path / "t.json")
    for source in (model.transcript_, tmp_path / "t.json", str(tmp_path / "t.json")):
        again = type(model).from_transcript(source, random_state=7)
        same(model, again, name)
    assert again.verdict_ == model.verdict_
    assert again.ledger is None
    # Its parameters are those of the release: it could be made again.
    asked = clone(again)._prepared(FRAME, "ill" if name == "logistic" else None, path=None, resume=False, on_round=None)
    assert asked.algorithm.to_json() == dict(model.transcript_.algorithm)
    assert asked.records == model.transcript_.context.domain


@pytest.mark.parametrize(("name", "declared"), CASES)
def test_pickles_leave_the_ledger_behind(fitted, name, declared, tmp_path):
    model = fitted[name, declared]
    joblib.dump(model, tmp_path / "m.joblib")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "m.joblib")):
        same(model, again, name)
        assert not isinstance(again.ledger, Ledger)
        with pytest.raises(ParameterError, match=r"give a recoup\.Ledger or its path"):
            again.fit(FRAME, "ill" if name == "logistic" else None)
        assert again.set_params(ledger=None).get_params()["ledger"] is None
    assert isinstance(model.ledger, Ledger)


@pytest.mark.parametrize(("name", "declared"), CASES)
def test_files_hold_all_of_a_model_and_no_ledger(fitted, name, declared, tmp_path):
    model, path = fitted[name, declared], tmp_path / "model.json"
    model.save(path)
    again = type(model).load(path)
    same(model, again, name)
    assert again.ledger is None
    assert "inferred_" not in vars(again)  # found again when it is asked for
    assert again.verdict_ == model.verdict_
    assert (again.inferred_ is None) == (model.inferred_ is None)
    if model.inferred_ is not None:
        np.testing.assert_array_equal(again.inferred_.weights, model.inferred_.weights)
    assert getattr(again, "declined_", None) == getattr(model, "declined_", None)
    again.save(tmp_path / "twice.json")
    assert (tmp_path / "twice.json").read_text() == path.read_text()
    pd.testing.assert_frame_equal(again.summary(), model.summary())


IN_ANOTHER = """
import sys, numpy as np, pandas as pd, recoup
folder = sys.argv[1]
frame = pd.read_parquet(f"{folder}/rows.parquet")
loaded = recoup.PrivateKMeans.load(f"{folder}/model.json").predict(frame)
read = recoup.PrivateKMeans.from_transcript(f"{folder}/t.json").predict(frame)
np.save(f"{folder}/labels.npy", np.stack([loaded, read]))
"""


@pytest.mark.slow
def test_another_process_predicts_the_same_labels(tmp_path):
    model = PrivateKMeans(3, 20, SCHEMA).fit(FRAME)
    model.save(tmp_path / "model.json")
    model.transcript_.save(tmp_path / "t.json")
    FRAME.to_parquet(tmp_path / "rows.parquet")
    subprocess.run([sys.executable, "-W", "error", "-c", IN_ANOTHER, str(tmp_path)], check=True)
    labels = np.load(tmp_path / "labels.npy")
    np.testing.assert_array_equal(labels, np.stack([model.predict(FRAME)] * 2))
    assert len(set(labels[0])) == 3


def test_files_hold_no_record(tmp_path):
    canary = 0.1234567890123
    model = PrivateKMeans(2, 1, (0, 1), postprocess="none").fit(np.full((50, 2), canary))
    model.save(tmp_path / "m.json")
    model.export(tmp_path / "e.json")
    for path in tmp_path.iterdir():
        assert "0.12345678" not in path.read_text()


def test_private_bounds_are_kept_with_what_they_cost(tmp_path, few_points):
    model = PrivateKMeans(2, 20, "private", noise="simulated", random_state=0).fit(FRAME[["age", "pay"]])
    model.save(tmp_path / "m.json")
    again = PrivateKMeans.load(tmp_path / "m.json")
    assert (again.privacy_, dict(again.bounds_)) == (model.privacy_, dict(model.bounds_))
    assert again.privacy_.epsilon == 20.0 > again.transcript_.privacy.epsilon
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))


def test_balls_and_plain_arrays_come_back(tmp_path, few_points):
    rows = RNG.normal(0.5, 0.1, size=(500, 3))
    model = PrivateKMeans(2, 5, domain=L2Ball([0] * 3, [1] * 3, radius=0.7), postprocess="none").fit(rows)
    model.save(tmp_path / "m.json")
    for again in (
        PrivateKMeans.load(tmp_path / "m.json"),
        PrivateKMeans.from_transcript(model.transcript_, postprocess="none"),
    ):
        np.testing.assert_array_equal(again.transform(rows), model.transform(rows))
        assert again.inferred_ is None
        assert not hasattr(again, "feature_names_in_")


def test_pipelines_in_production(fitted, tmp_path):
    model = fitted["kmeans", "numbers"]
    model.save(tmp_path / "m.json")
    served = PrivateKMeans.load(tmp_path / "m.json").set_output(transform="pandas")
    pipe = make_pipeline(FunctionTransformer(lambda frame: frame * [1, 1000]), served)
    frame = FRAME[["age", "pay"]] / [1, 1000]
    assert np.mean(pipe.predict(frame) == model.predict(FRAME)) > 0.999  # up to rounding of the columns
    distances = served.transform(FRAME)
    assert list(distances.columns) == [f"privatekmeans{k}" for k in range(3)]
    np.testing.assert_array_equal(distances.to_numpy().argmin(axis=1), model.predict(FRAME))
    assert not hasattr(clone(served), "cluster_centers_")


def test_a_transcript_of_another_kind_is_refused(fitted, tmp_path):
    released = fitted["kmeans", "numbers"].transcript_
    for kind in (PrivatePCA, PrivateGaussianMixture, PrivateLogisticRegression):
        with pytest.raises(ParameterError, match=f"kmeans-adaptive, which is none of {kind.__name__}"):
            kind.from_transcript(released)
    with pytest.raises(ParameterError, match="choose one of"):
        PrivateKMeans.from_transcript(released, postprocess="magic")
    fitted["kmeans", "numbers"].save(tmp_path / "m.json")
    with pytest.raises(ModelFormatError, match=r"a PrivateKMeans, not a PrivatePCA: read it with PrivateKMeans\.load"):
        PrivatePCA.load(tmp_path / "m.json")


def outside(body):
    body["learnt"]["cluster_centers_"][0][0] = 1e6


def tall(body):
    body["learnt"]["cluster_centers_"].append([1.0, 2.0])


SPOILT = {
    "format": lambda body: body.update(format="recoup-transcript"),
    "version": lambda body: body.update(schema_version=2),
    "method": lambda body: body.update(method="os.system"),
    "postprocess": lambda body: body.update(postprocess=[]),
    "seed": lambda body: body.update(seed=-1),
    "text in a centre": lambda body: body["learnt"].update(cluster_centers_=[["a", "b"]] * 3),
    "no numbers": lambda body: body["learnt"].update(cluster_centers_=None),
    "another shape": tall,
    "outside of the bounds": outside,
    "doubts": lambda body: body["learnt"].update(doubtful_=[3]),
    "something learnt": lambda body: body["learnt"].update(labels_=[1]),
    "a field": lambda body: body.update(records=[1]),
    "no transcript": lambda body: body.update(transcript=None),
    "found bounds": lambda body: body.update(found_bounds=body["transcript"]),
    "a list": lambda body: body.update(learnt=[]),
}


@pytest.mark.parametrize("what", SPOILT)
def test_spoilt_files_are_refused_with_a_typed_error(fitted, tmp_path, what):
    path = tmp_path / "m.json"
    fitted["kmeans", "numbers"].save(path)
    body = json.loads(path.read_text())
    del body["checksum"]
    SPOILT[what](body)
    path.write_text(json.dumps(body | {"checksum": checksum_of(body)}))
    with pytest.raises((ModelFormatError, TranscriptFormatError)):
        PrivateKMeans.load(path)


def test_changed_truncated_and_missing_files_are_refused(fitted, tmp_path):
    path = tmp_path / "m.json"
    fitted["kmeans", "numbers"].save(path)
    text = path.read_text()
    for spoilt in (text.replace('"seed": 7', '"seed": 8'), text[:-20], "[]", "\x00", ""):
        path.write_text(spoilt)
        with pytest.raises(ModelFormatError):
            PrivateKMeans.load(path)
    with pytest.raises(ModelFormatError, match="cannot be read"):
        PrivateKMeans.load(tmp_path / "none.json")


@pytest.mark.parametrize("algorithm", ["gupt", "privgene"])
def test_rivals_have_no_transcript_to_save_and_export_their_centres(algorithm, tmp_path):
    model = PrivateKMeans(2, 5, NUMBERS, algorithm=algorithm, ledger=Ledger.in_memory(epsilon=5)).fit(FRAME)
    with pytest.raises(ParameterError, match="keep the numbers with export"):
        model.save(tmp_path / "m.json")
    model.export(tmp_path / "plain.json")
    assert (
        json.loads((tmp_path / "plain.json").read_text())["learnt"]["cluster_centers_"]
        == model.cluster_centers_.tolist()
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(FRAME), model.predict(FRAME))
    assert list(model.summary().columns) == ["age", "pay"]
    assert "released the centres alone" in model.describe()


@pytest.mark.parametrize(("name", "declared"), CASES)
def test_exports_are_plain_numbers(fitted, name, declared, tmp_path):
    model = fitted[name, declared]
    model.export(tmp_path / "e.json")
    value = json.loads((tmp_path / "e.json").read_text())
    for attribute in model._learnt:
        np.testing.assert_array_equal(np.array(value["learnt"][attribute]), getattr(model, attribute))
    assert value["privacy"]["epsilon"] == 20.0
    assert len(value["columns"]) == model._domain.n_columns
    assert ("coordinates" in value) == (declared == "schema")
    if name == "kmeans" and declared == "numbers":
        # All that another program needs, by hand.
        low, high = (np.array(value["domain"][end]) for end in ("low", "high"))
        rows = FRAME[value["columns"]].to_numpy().clip(low, high)
        unit, centers = 2 * (rows - low) / (high - low) - 1, np.array(value["learnt"]["unit_centers"])
        nearest = ((unit[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        np.testing.assert_array_equal(nearest, model.predict(FRAME))
    with pytest.raises(ParameterError, match=r"\.json, or \.onnx"):
        model.export(tmp_path / "e.txt")


def test_onnx_predicts_the_same_labels(fitted, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = fitted["kmeans", "numbers"]
    model.export(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    rows = np.vstack([FRAME[["age", "pay"]].to_numpy(), [[np.nan, 1], [1, np.inf], [-1e9, 1e9], [110, 0]]])
    (labels,) = session.run(None, {"records": rows})
    np.testing.assert_array_equal(labels, model.predict(rows))
    assert set(labels) == {-1, 0, 1, 2}
    assert session.get_modelmeta().custom_metadata_map["privacy"] == "differentially private"
    for name, declared in CASES[1:]:
        with pytest.raises(ParameterError, match=r"export others as \.json"):
            fitted[name, declared].export(tmp_path / "no.onnx")


def test_without_onnx_it_says_what_to_install(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ParameterError, match=r"pip install recoup\[onnx\]"):
        fitted["kmeans", "numbers"].export(tmp_path / "m.onnx")


@pytest.mark.parametrize(("name", "declared"), CASES)
def test_summaries_have_a_row_for_each_thing_in_the_users_units(fitted, name, declared):
    model, frame = fitted[name, declared], fitted[name, declared].summary()
    columns = ["age", "pay"] + ["ward=a", "ward=b", "ward=c"] * (declared == "schema")
    if name == "kmeans":
        assert list(frame.columns) == ["size", "share", "doubtful", *columns]
        np.testing.assert_array_equal(frame[columns].to_numpy(), model.cluster_centers_)
        assert frame["size"].sum() == pytest.approx(model.inferred_.n_records)
        assert frame["share"].sum() == pytest.approx(1.0)
    elif name == "mixture":
        np.testing.assert_array_equal(frame[columns].to_numpy(), model.means_)
        np.testing.assert_allclose(frame["age deviation"] ** 2, model.covariances_[:, 0])
    elif name == "logistic":
        assert list(frame.index) == [*columns, "intercept"]
        np.testing.assert_array_equal(frame["coefficient"][:-1], model.coef_[0])
    else:
        np.testing.assert_array_equal(frame[columns].to_numpy(), model.components_)
    assert frame.index.name in ("cluster", "component", "feature")


@pytest.mark.parametrize(("name", "declared"), CASES)
def test_descriptions_say_what_the_report_says(fitted, name, declared):
    from recoup.inference.inferred import refit
    from recoup.report.write import report_content

    model = fitted[name, declared]
    text = model.describe(intervals=False)
    answer = refit(model.transcript_, model.inferred_, random_state=7)
    content = report_content(model.transcript_, answer, model.inferred_, level=None, seed=7, exact=True)
    said = [content["verdict"]["sentence"], *content["privacy"]["words"]]
    said += [cluster["sentence"] for cluster in (content["profiles"] or {"clusters": []})["clusters"]]
    assert all(sentence in text for sentence in said)
    assert "<" not in text


def test_what_is_not_private_is_described_so(few_points):
    model = PrivateKMeans(2, 5, NUMBERS, noise="simulated", random_state=0).fit(FRAME)
    assert model.describe(intervals=False).startswith("NOT PRIVATE")


def test_an_imported_clustering_becomes_a_model():
    golden = Transcript.load(Path(__file__).parents[2] / "golden" / "lloyd-v1.json")
    again = PrivateKMeans.from_transcript(golden)
    assert (again.algorithm, again.n_rounds, again.noise) == ("lloyd", 3, "simulated")
    assert again.predict([[20.0, 3.0]]).shape == (1,)
