"""The report of anything that is no clustering: promise, answer, budget, fit and lines, from the transcript alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from html_page import Page, faults
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import recoup
from recoup.algorithms.base import ImportedAlgorithm
from recoup.algorithms.registry import ALGORITHMS
from recoup.cli.app import app
from recoup.cli.output import ExitCode
from recoup.domain import uniform_points
from recoup.errors import ParameterError
from recoup.privacy.statement import IMPORTED, NOT_PRIVATE
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.report.sections.answer import answer_of, has_clusters
from recoup.report.write import render, report_content, without_picture, write_report
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

NAMES = ("age", "hours<b>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The mean of every column, asked for a few times: an algorithm of a user's own, without clusters."""

    n_rounds: int = 2
    shape: str = "vector"

    type_name: ClassVar[str] = "test-means"

    @property
    def pseudo_records(self) -> float:
        return 10.0

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        half = Fraction(1, 2)
        query = VoronoiQuery(centers=np.zeros((1, context.domain.n_columns)))
        request = Request(query=query, share=Fraction(1, self.n_rounds), split={"count": half, "sum": half})
        return None if len(rounds) >= self.n_rounds else request

    def estimate(self, context: Context, rounds: Sequence[Round]) -> np.ndarray:
        return self._shaped(rounds[-1].noisy[1:] / max(rounds[-1].noisy[0], 1.0))

    def support(self, context: Context, rounds: Any, n_points: int, rng: np.random.Generator) -> np.ndarray:
        return uniform_points(context.domain, n_points, rng)

    def refit(self, context: Context, rounds: Any, points: np.ndarray, weights: np.ndarray, rng: Any) -> np.ndarray:
        return self._shaped(np.average(points, axis=0, weights=weights))

    def in_user_units(self, context: Context, answer: np.ndarray) -> np.ndarray:
        return answer

    def _shaped(self, mean: np.ndarray) -> np.ndarray:
        shapes = {
            "vector": mean,
            "number": np.array(mean.sum()),
            "rows": np.stack([mean, mean**2]),
            "wide": np.outer(mean, np.ones(300)),
            "cube": np.multiply.outer(np.outer(mean, mean), mean),
        }
        return shapes[self.shape]

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type_name, "n_rounds": self.n_rounds, "shape": self.shape}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(n_rounds=value["n_rounds"], shape=value["shape"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Means):
    """The same, with names of its own for what it found."""

    type_name: ClassVar[str] = "test-labelled"

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]]:
        return ["first <i>", "second"], ["mean"]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for kind in (Means, Labelled):
        monkeypatch.setitem(ALGORITHMS, kind.type_name, kind)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)


def table_of(x):
    import pyarrow as pa

    return pa.table(dict(zip(NAMES, x.T, strict=True)))


def released(algorithm, *, noise="secure", **more):
    x = np.random.default_rng(0).normal([[40.0, 30.0]], 8.0, size=(800, 2))
    domain = recoup.Box([0, 0], [100, 80], NAMES)
    terms = {"domain": domain, "noise": noise, "random_state": 0, "epsilon": 2, "isolate": False}
    return recoup.release(algorithm, table_of(x), **terms | more)


def page_of(transcript, answer, inferred, **more):
    content = report_content(transcript, answer, inferred, **more)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    text = render(content)
    assert faults(text) == []
    return content, Page(text)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("shape", ["vector", "number", "rows", "wide", "cube"])
def test_an_answer_of_any_shape_is_a_table(shape, delta):
    transcript = released(Means(shape=shape), delta=delta)
    inferred = recoup.infer(transcript, random_state=0, n_points=1000)
    answer = answer_of(transcript, inferred)
    content, page = page_of(transcript, answer, inferred)
    table = content["answer"]
    assert table["shape"] == list(answer.shape)
    flat = answer.reshape(len(table["rows"]), -1)
    np.testing.assert_array_equal([row["values"] for row in table["rows"]], flat[:, :80])
    own = recoup.refit(transcript).reshape(flat.shape)
    np.testing.assert_array_equal([row["before"] for row in table["rows"]], own[:, :80])
    for title in ("The answer", "What is promised", "Rounds and budget", "Does the inferred data explain", "repro"):
        assert title in page.words
    for gone in ("cluster", "Picture", "How many"):
        assert gone.lower() not in page.words.lower()
    assert page.data is None
    assert ("300 columns" in page.words) == (shape == "wide")
    # Nothing is named after columns because there happen to be as many: only the algorithm knows what it found.
    assert [row["label"] for row in table["rows"]] == [str(i) for i in range(len(flat))]
    assert not set(NAMES) & set(table["columns"])


def test_an_algorithm_may_name_what_it_found():
    transcript = released(Labelled())
    content, page = page_of(transcript, recoup.refit(transcript), None)
    assert [row["label"] for row in content["answer"]["rows"]] == ["first <i>", "second"]
    assert content["answer"]["columns"] == ["mean"]
    assert content["answer"]["rows"][0]["before"] is None
    assert "first <i>" in page.words
    assert not page.named("i")
    wrong = released(Labelled(shape="rows"))  # labels of another shape than the answer are not used
    assert page_of(wrong, recoup.refit(wrong), None)[0]["answer"]["columns"] == ["value 0", "value 1"]


def test_the_fit_tells_data_that_explains_nothing():
    transcript = released(Means())
    inferred = recoup.infer(transcript, random_state=0, n_points=1000)
    answer = answer_of(transcript, inferred)
    good = report_content(transcript, answer, inferred)["fit"]["rows"]
    moved = replace(inferred, points=np.full_like(inferred.points, 99.0))
    bad = report_content(transcript, answer, moved)["fit"]["rows"]
    assert not [row for row in good if row["verdict"] == "above"]
    assert [row for row in bad if row["verdict"] == "above"]


def test_simulated_noise_marks_the_page():
    transcript = released(Means(), noise="simulated")
    assert NOT_PRIVATE in page_of(transcript, recoup.refit(transcript), None)[1].words
    secure = released(Means())
    assert NOT_PRIVATE not in page_of(secure, recoup.refit(secure), None)[1].words
    data = recoup.infer(transcript, random_state=0, n_points=500)
    assert NOT_PRIVATE in page_of(secure, recoup.refit(secure, data), data)[1].words


def test_the_lines_on_the_page_give_the_answer_again(tmp_path, monkeypatch):
    transcript = released(Means())
    transcript.save(tmp_path / "transcript.json")
    inferred = recoup.infer(transcript, random_state=7)
    answer = answer_of(transcript, inferred, random_state=7)
    content = write_report(tmp_path / "page.html", transcript, answer, inferred, seed=7, exact=True)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(content["reproduce"]["python"], scope)
    np.testing.assert_array_equal(scope["answer"], answer)
    assert "recoup report transcript.json --method maxent --seed 7" in content["reproduce"]["command"]


def elsewhere(**more):
    rounds = [(GridQuery(sides=(2, 2)), [100.5, 210.25, 90.0, 130.0], [2, 2, 2, 5])]
    return recoup.transcript_from(domain=recoup.Box([0, 0], [100, 80], NAMES), epsilon=0.5, rounds=rounds, **more)


def test_rounds_without_an_algorithm_have_a_page_without_an_answer():
    transcript = elsewhere(algorithm="a <survey>", neighbours="replace-one-record")
    assert not has_clusters(transcript)
    assert answer_of(transcript, recoup.infer(transcript, random_state=0, n_points=500)) is None
    content, page = page_of(transcript, None, None)
    assert content["answer"] is None
    assert not content["private"]
    for phrase in ("Privacy claimed, not verified", "a <survey>", "As claimed, and not verified by Recoup", "replace"):
        assert phrase in page.words
    for wrong in (NOT_PRIVATE, "OpenDP", "add or remove", "whether any one record was in the table"):
        assert wrong not in page.words
    # Noise of scale 2 on one count would cost epsilon 1/2 here.
    assert content["budget"]["total"] == pytest.approx(0.5)
    assert "is claimed for all rounds together, not verified by Recoup" in page.words


def test_the_command_writes_pages_without_clusters(tmp_path):
    for transcript, words in ((released(Means()), "Private answers about 2 columns"), (elsewhere(), IMPORTED)):
        transcript.save(tmp_path / "t.json")
        answer = CliRunner().invoke(app, ["report", str(tmp_path / "t.json"), "-o", str(tmp_path / "page.html")])
        assert answer.exit_code == 0, answer.stderr
        assert words in answer.stdout + answer.stderr
        assert faults((tmp_path / "page.html").read_text()) == []
    for method in ("none", "mcmc"):
        arguments = ["report", str(tmp_path / "t.json"), "-o", str(tmp_path / "page.html"), "--method", method]
        answer = CliRunner().invoke(app, [*arguments, "--json"])
        assert answer.exit_code == 0, answer.stderr
        assert json.loads(answer.stdout)["privacy"]["statement"] == IMPORTED


@pytest.mark.parametrize("named", [True, False])
def test_recoups_own_answers_have_names(named):
    names = list(NAMES) if named else ["column 0", "column 1"]
    x = np.random.default_rng(0).normal([[40.0, 30.0]], 8.0, size=(800, 2))
    domain = recoup.Box([0, 0], [100, 80], NAMES if named else None)
    expected = {
        recoup.LogisticRegression(n_rounds=2): ([names[0], "intercept"], ["coefficient"]),
        recoup.CovariancePCA(n_components=2): (["mean", "component 1", "component 2"], names),
        recoup.PowerPCA(n_components=1, n_rounds=2): (["mean", "component 1"], names),
        recoup.GaussianMixture(n_components=2, n_rounds=2): (
            ["component 0", "component 1"],
            ["weight", *(f"mean {name}" for name in names), *(f"variance {name}" for name in names)],
        ),
    }
    for algorithm, (rows, columns) in expected.items():
        transcript = recoup.release(
            algorithm, table_of(x) if named else x, domain=domain, epsilon=50, noise="simulated", random_state=0
        )
        for data in (None, recoup.infer(transcript, random_state=0, n_points=500)):
            content, page = page_of(transcript, answer_of(transcript, data), data)
            assert [row["label"] for row in content["answer"]["rows"]] == rows
            assert content["answer"]["columns"] == columns
            pca = algorithm.type_name.startswith("pca")
            assert ("directions in columns scaled to [-1, 1]" in page.words) == pca
            assert bool(content["answer"]["note"]) == pca
        with_label = algorithm.type_name == "logistic-regression"
        assert content["title"] == f"Answers about {'1 column and a label' if with_label else '2 columns'}"


@pytest.mark.parametrize("postprocess", ["maxent", "none"])
@pytest.mark.parametrize("algorithm", ["covariance", "power"])
def test_the_note_has_the_variance_that_the_estimator_finds(algorithm, postprocess):
    x = np.random.default_rng(0).normal([[40.0, 30.0]], 8.0, size=(800, 2))
    model = recoup.PrivatePCA(
        1, 50, (0, 100), algorithm=algorithm, postprocess=postprocess, noise="simulated", random_state=0
    ).fit(x)
    content = report_content(model.transcript_, recoup.refit(model.transcript_, model.inferred_), model.inferred_)
    expected = f"component 1 {model.explained_variance_[0]:.3g} ({100 * model.explained_variance_ratio_[0]:.0f}%)"
    assert expected in content["answer"]["note"]


def test_every_estimator_has_a_page(tmp_path, monkeypatch):
    kept = []

    def keeping(content):
        kept.append(content)
        return render(content)

    monkeypatch.setattr("recoup.report.write.render", keeping)
    x = np.random.default_rng(0).normal([[40.0, 30.0]], 8.0, size=(800, 2))
    terms = {"bounds": (0, 100), "epsilon": 50, "noise": "simulated", "random_state": 3}
    found = {
        recoup.PrivateKMeans(2, **terms): lambda m: m.cluster_centers_,
        recoup.PrivateGaussianMixture(2, **terms): lambda m: np.column_stack([m.weights_, m.means_, m.covariances_]),
        recoup.PrivatePCA(1, **terms): lambda m: np.vstack([m.mean_, m.components_]),
        recoup.PrivateLogisticRegression(**terms): lambda m: np.append(m.coef_, m.intercept_)[:, None],
    }
    for model, fitted in found.items():
        model.fit(x, (x[:, 0] > 40).astype(int))
        model.report(tmp_path / "page.html", intervals=False, title="A <title>")
        text = (tmp_path / "page.html").read_text()
        assert faults(text) == []
        assert "A <title>" in Page(text).words
        assert NOT_PRIVATE in Page(text).words
        shown = kept[-1]["centers"] or kept[-1]["answer"]
        np.testing.assert_array_equal([row["values"] for row in shown["rows"]], fitted(model))
        assert kept[-1]["reproduce"]["seed"] == 3
    with pytest.raises(NotFittedError):
        recoup.PrivatePCA(1, **terms).report(tmp_path / "page.html")


def test_data_that_follows_every_answer_is_not_praised_for_it():
    transcript = released(Means(n_rounds=1))
    noisy = transcript.rounds[0].noisy
    points = transcript.context.domain.from_unit((noisy[1:] / noisy[0])[None])
    data = recoup.InferredDataset(points=points, weights=noisy[:1], columns=NAMES, method="maxent", simulated=False)
    content, page = page_of(transcript, recoup.refit(transcript, data), data)
    assert {(row["verdict"], row["residual"]) for row in content["fit"]["rows"]} == {("exact", 0.0)}
    assert "followed exactly, noise and all" in page.words
    assert "as noise would leave it" not in page.words


def test_where_the_algorithm_advises_against_inference_the_page_and_the_commands_say_so(tmp_path):
    weak = released(recoup.PowerPCA(n_components=1, n_rounds=2), noise="simulated", epsilon=0.01)
    strong = released(recoup.PowerPCA(n_components=1, n_rounds=2), noise="simulated", epsilon=50)
    for transcript, warned in ((weak, True), (strong, False)):
        transcript.save(tmp_path / "t.json")
        for command in (["report", "-o", str(tmp_path / "page.html")], ["infer"]):
            answer = CliRunner().invoke(app, [*command, str(tmp_path / "t.json")])
            assert answer.exit_code == 0, answer.stderr
            assert ("the algorithm advises against it" in answer.stderr) == warned
        assert ("the algorithm advises against it" in Page((tmp_path / "page.html").read_text()).words) == warned
    own = answer_of(weak, None)
    assert "advises against" not in page_of(weak, own, None)[1].words


def test_a_report_is_about_one_transcript(tmp_path):
    transcript = released(Means())
    for wrong in ([transcript, transcript], [transcript], "transcript.json", None):
        with pytest.raises(ParameterError, match="a report is about one transcript"):
            write_report(tmp_path / "page.html", wrong, None)
    transcript.save(tmp_path / "t.json")
    answer = CliRunner().invoke(app, ["report", *[str(tmp_path / "t.json")] * 2, "-o", str(tmp_path / "page.html")])
    assert (answer.exit_code, answer.stdout, answer.stderr.count("\n")) == (ExitCode.USAGE, "", 1)
    assert "--inferred together/inferred.parquet" in answer.stderr
    assert not (tmp_path / "page.html").exists()


# Those that Recoup itself has, and whatever joins them.
OWN = sorted(
    n for n, kind in ALGORITHMS.items() if not hasattr(kind, "n_clusters") and n != ImportedAlgorithm.type_name
)


@pytest.mark.parametrize("name", OWN)
def test_every_registered_algorithm_without_clusters_has_a_page(name):
    kind = ALGORITHMS[name]
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    transcript = released(kind(**dict.fromkeys(needed, 2)), noise="simulated")
    inferred = recoup.infer(transcript, random_state=0, n_points=500, warn=False)
    for data in (None, inferred):
        content, page = page_of(transcript, answer_of(transcript, data), data)
        assert content["answer"] is not None
        assert "The answer" in page.words
        assert without_picture(content)["summary"]["n_clusters"] is None


def test_what_does_not_belong_together_is_refused():
    transcript = released(Means())
    inferred = recoup.infer(transcript, random_state=0, n_points=500)
    narrow = replace(inferred, points=inferred.points[:, :1])
    with pytest.raises(ParameterError, match="do not belong together"):
        report_content(transcript, None, narrow)
    with pytest.raises(ParameterError, match="no rounds"):
        report_content(replace(transcript, rounds=()), None)
    clusters = released(recoup.KMeans(n_clusters=2, n_rounds=1))
    with pytest.raises(ParameterError, match="needs their centres"):
        report_content(clusters, None)
