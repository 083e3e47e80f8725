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
from typer.testing import CliRunner

import recoup
from recoup.algorithms.elsewhere import Elsewhere
from recoup.algorithms.initial import uniform_points
from recoup.algorithms.registry import ALGORITHMS
from recoup.cli import app
from recoup.commands.exits import ExitCode
from recoup.context import Context, Request
from recoup.errors import ParameterError
from recoup.queries.grid import GridQuery
from recoup.queries.voronoi import VoronoiQuery
from recoup.report.facts import gather, without_picture
from recoup.report.page import render
from recoup.report.plain import answer_of, has_clusters
from recoup.report.write import write_report
from recoup.transcript import CLAIMED, NOT_PRIVATE, Round

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
    monkeypatch.setattr("recoup.commands.progress._QUIET_SECONDS", 3600.0)


def released(algorithm, *, noise="secure", **more):
    import pyarrow as pa

    x = np.random.default_rng(0).normal([[40.0, 30.0]], 8.0, size=(800, 2))
    table = pa.table(dict(zip(NAMES, x.T, strict=True)))
    domain = recoup.Box([0, 0], [100, 80], NAMES)
    return recoup.release(algorithm, table, domain=domain, noise=noise, random_state=0, **{"epsilon": 2} | more)


def page_of(transcript, answer, inferred, **more):
    facts = gather(transcript, answer, inferred, **more)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    text = render(facts)
    assert faults(text) == []
    return facts, Page(text)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("shape", ["vector", "number", "rows", "wide", "cube"])
def test_an_answer_of_any_shape_is_a_table(shape, delta):
    transcript = released(Means(shape=shape), delta=delta)
    inferred = recoup.infer(transcript, random_state=0, n_points=1000)
    answer = answer_of(transcript, inferred)
    facts, page = page_of(transcript, answer, inferred)
    table = facts["answer"]
    assert table["shape"] == list(answer.shape)
    flat = answer.reshape(len(table["rows"]), -1)
    np.testing.assert_array_equal([row["values"] for row in table["rows"]], flat[:, :80])
    own = recoup.refit(transcript).reshape(flat.shape)
    np.testing.assert_array_equal([row["before"] for row in table["rows"]], own[:, :80])
    for title in ("The answer", "What is promised", "Where the budget went", "Does the inferred data explain", "repro"):
        assert title in page.words
    for gone in ("cluster", "Picture", "How many"):
        assert gone not in page.words.lower().replace("the clusters, the pictures", "")
    assert page.data is None
    assert ("300 columns" in page.words) == (shape == "wide")
    if shape == "vector":
        assert [row["label"] for row in table["rows"]] == list(NAMES)


def test_an_algorithm_may_name_what_it_found():
    transcript = released(Labelled())
    facts, page = page_of(transcript, recoup.refit(transcript), None)
    assert [row["label"] for row in facts["answer"]["rows"]] == ["first <i>", "second"]
    assert facts["answer"]["columns"] == ["mean"]
    assert facts["answer"]["rows"][0]["before"] is None
    assert "first <i>" in page.words
    assert not page.named("i")
    wrong = released(Labelled(shape="rows"))  # labels of another shape than the answer are not used
    assert page_of(wrong, recoup.refit(wrong), None)[0]["answer"]["columns"] == list(NAMES)


def test_the_fit_tells_data_that_explains_nothing():
    transcript = released(Means())
    inferred = recoup.infer(transcript, random_state=0, n_points=1000)
    answer = answer_of(transcript, inferred)
    good = gather(transcript, answer, inferred)["fit"]["rows"]
    moved = replace(inferred, points=np.full_like(inferred.points, 99.0))
    bad = gather(transcript, answer, moved)["fit"]["rows"]
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
    facts = write_report(tmp_path / "page.html", transcript, answer, inferred, seed=7, exact=True)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(facts["reproduce"]["python"], scope)
    np.testing.assert_array_equal(scope["answer"], answer)
    assert "recoup report transcript.json --method maxent --seed 7" in facts["reproduce"]["command"]


def elsewhere(**more):
    rounds = [(GridQuery(sides=(2, 2)), [100.5, 210.25, 90.0, 130.0], [2, 2, 2, 5])]
    return recoup.transcript_from(domain=recoup.Box([0, 0], [100, 80], NAMES), epsilon=0.5, rounds=rounds, **more)


def test_rounds_without_an_algorithm_have_a_page_without_an_answer():
    transcript = elsewhere(algorithm="a <survey>", neighbours="replace-one-record")
    assert not has_clusters(transcript)
    assert answer_of(transcript, recoup.infer(transcript, random_state=0, n_points=500)) is None
    facts, page = page_of(transcript, None, None)
    assert facts["answer"] is None
    assert not facts["private"]
    for phrase in ("Privacy claimed, not verified", "a <survey>", "As claimed, and not verified by Recoup", "replace"):
        assert phrase in page.words
    for wrong in (NOT_PRIVATE, "OpenDP", "add or remove", "whether any one record was in the table"):
        assert wrong not in page.words
    # Noise of scale 2 on one count would cost epsilon 1/2 here.
    assert facts["budget"]["total"] == pytest.approx(0.5)
    assert "is claimed for all rounds together, not verified by Recoup" in page.words


def test_the_command_writes_pages_without_clusters(tmp_path):
    for transcript, words in ((released(Means()), "Private answers about 2 columns"), (elsewhere(), CLAIMED)):
        transcript.save(tmp_path / "t.json")
        answer = CliRunner().invoke(app, ["report", str(tmp_path / "t.json"), "-o", str(tmp_path / "page.html")])
        assert answer.exit_code == 0, answer.stderr
        assert words in answer.stdout + answer.stderr
        assert faults((tmp_path / "page.html").read_text()) == []
    for method in ("none", "mcmc"):
        arguments = ["report", str(tmp_path / "t.json"), "-o", str(tmp_path / "page.html"), "--method", method]
        answer = CliRunner().invoke(app, [*arguments, "--json"])
        if method == "none":
            assert answer.exit_code == 0, answer.stderr
            assert json.loads(answer.stdout)["privacy"]["statement"] == CLAIMED
        else:
            assert answer.exit_code == ExitCode.USAGE  # the paper's sampler reads rounds of DP-KMEANS


# Those that Recoup itself has, and whatever joins them.
OWN = sorted(n for n, kind in ALGORITHMS.items() if not hasattr(kind, "n_clusters") and n != Elsewhere.type_name)


@pytest.mark.parametrize("name", OWN)
def test_every_registered_algorithm_without_clusters_has_a_page(name):
    kind = ALGORITHMS[name]
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    transcript = released(kind(**dict.fromkeys(needed, 2)), noise="simulated")
    inferred = recoup.infer(transcript, random_state=0, n_points=500)
    for data in (None, inferred):
        facts, page = page_of(transcript, answer_of(transcript, data), data)
        assert facts["answer"] is not None
        assert "The answer" in page.words
        assert without_picture(facts)["summary"]["n_clusters"] is None


def test_what_does_not_belong_together_is_refused():
    transcript = released(Means())
    inferred = recoup.infer(transcript, random_state=0, n_points=500)
    narrow = replace(inferred, points=inferred.points[:, :1])
    with pytest.raises(ParameterError, match="do not belong together"):
        gather(transcript, None, narrow)
    with pytest.raises(ParameterError, match="no rounds"):
        gather(replace(transcript, rounds=()), None)
    clusters = released(recoup.KMeans(n_clusters=2, n_rounds=1))
    with pytest.raises(ParameterError, match="needs their centres"):
        gather(clusters, None)
