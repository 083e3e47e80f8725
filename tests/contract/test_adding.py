"""Adding one of each: defined in one file of a user's, and found wherever people pick one of Recoup's."""

from __future__ import annotations

import json

import numpy as np
import pytest
from toys import Above, AsksAbove, Toy, asked
from typer.testing import CliRunner

from recoup import Box, PrivateKMeans, PrivatePCA, Transcript, infer, refit, register, release
from recoup.algorithms.registry import ALGORITHMS, ENTRIES, Entry
from recoup.cli.app import app
from recoup.curator.rivals import RIVALS
from recoup.errors import ParameterError
from recoup.inference.infer import METHODS, register_method
from recoup.planner import Plan, PlannedRound
from recoup.queries import QUERIES
from recoup.testing import check_query
from recoup.transcript.round import quote

BOUNDS = ("--bounds", "age=17:90,hours=1:99")


def plan_toy(context, *, n_clusters):
    terms = quote(context, asked(context, n_clusters))
    only = PlannedRound(n_cells=n_clusters, price=terms.price, count_scale=float(terms.scales[0]))
    return Plan(context=context, algorithm="toy: one look", rounds=(only,), n_clusters=n_clusters)


@pytest.fixture(autouse=True)
def registered(tmp_path, monkeypatch):
    """Everything of this file is registered, and forgotten after each test."""
    kept = [(known, known.copy()) for known in (ALGORITHMS, QUERIES, METHODS)]
    entries = ENTRIES.copy()
    register(Entry(Toy, "kmeans", "toy", "a toy that looks once", plans_rounds=True, plan=plan_toy))
    register(Above, AsksAbove)
    register_method("toy", lambda evidence, rng, n: (rng.uniform(-1, 1, (n // 100, 2)), np.full(n // 100, 2.0)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    np.savetxt("people.csv", people(), delimiter=",", header="age,hours", comments="")
    yield
    for known, before in kept:
        known.clear()
        known.update(before)
    ENTRIES[:] = entries


def people():
    return np.random.default_rng(0).uniform((17, 1), (90, 99), size=(300, 2))


def run(*arguments):
    answer = CliRunner().invoke(app, [str(a) for a in arguments])
    assert answer.exit_code == 0, answer.output
    return answer


# ---- an algorithm ----


def test_an_algorithm_is_picked_by_the_estimator_and_told_in_its_report(tmp_path):
    bounds = {"age": (17, 90), "hours": (1, 99)}
    model = PrivateKMeans(3, 5, bounds, algorithm="toy", random_state=0, noise="simulated").fit("people.csv")
    assert model.cluster_centers_.shape == (3, 2)
    assert model.transcript_.algorithm == {"type": "kmeans-toy", "n_clusters": 3}
    assert model.inferred_.method == "maxent"
    model.report(tmp_path / "page.html", intervals=False)
    assert "a toy that looks once" in (tmp_path / "page.html").read_text()
    with pytest.raises(ParameterError, match="plans its own rounds"):
        PrivateKMeans(3, 5, bounds, algorithm="toy", n_rounds=2).fit("people.csv")


def test_an_algorithm_is_picked_on_the_command_line():
    given = ("people.csv", "-k", "3", "--epsilon", "5", *BOUNDS, "--algorithm", "toy")
    value = json.loads(run("cluster", *given, "--json").stdout)
    assert np.array(value["centers"]).shape == (3, 2)
    assert json.loads(run("release", *given, "--json").stdout)["algorithm"] == "kmeans-toy"
    planned = json.loads(run("plan", "-d", "2", "-k", "3", "--epsilon", "5", "--algorithm", "toy", "--json").stdout)
    assert (planned["algorithm"], [r["n_cells"] for r in planned["rounds"]]) == ("toy: one look", [3])
    # What was planned is what was released.
    answered = Transcript.load("transcript.json").rounds[0]
    assert planned["rounds"][0]["price"] == float(answered.price.amount)
    assert planned["rounds"][0]["count_scale"] == answered.scales[0]
    for command in ("cluster", "release", "plan"):
        assert "toy" in run(command, "--help").stdout
    report = json.loads(run("report", "transcript.json", "--no-intervals", "--json").stdout)
    assert "a toy that looks once" in json.dumps(report)


def test_an_algorithm_is_a_method_of_experiments():
    methods = pytest.importorskip("recoup_lab.experiments.methods")
    found = methods.known_methods()["toy"]
    assert (found.title, found.private) == ("a toy that looks once", True)


def test_names_that_are_taken_are_refused_and_registering_again_replaces():
    with pytest.raises(ParameterError, match="'grid' is taken"):
        register(Entry(Toy, "kmeans", "grid", "another"))
    register(Entry(Toy, "kmeans", "toy", "the same toy"))
    assert [entry.description for entry in ENTRIES if entry.name == "toy"] == ["the same toy"]
    with pytest.raises(ParameterError, match="Recoup's own"):
        register_method("maxent", lambda *_: (np.zeros((1, 2)), np.ones(1)))
    # Words that mean something else wherever a name is given would silently pick that.
    for name in ("auto", *RIVALS):
        with pytest.raises(ParameterError, match=f"'{name}' is taken"):
            register(Entry(Toy, "kmeans", name, "another"))
    for name in ("auto", "none"):
        with pytest.raises(ParameterError, match=f"'{name}' is taken"):
            register_method(name, lambda *_: (np.zeros((1, 2)), np.ones(1)))


# ---- a way to infer ----


def test_a_way_to_infer_is_picked_wherever_one_is():
    bounds = {"age": (17, 90), "hours": (1, 99)}
    model = PrivateKMeans(3, 5, bounds, postprocess="toy", random_state=0).fit("people.csv")
    assert (model.inferred_.method, len(model.inferred_.weights)) == ("toy", 100)
    assert refit(model.transcript_, infer(model.transcript_, method="toy")).shape == (3, 2)
    components = PrivatePCA(1, 5, bounds, postprocess="toy", random_state=0).fit("people.csv")
    assert components.inferred_.method == "toy"
    model.transcript_.save("t.json")
    value = json.loads(run("infer", "t.json", "--method", "toy", "--json").stdout)
    assert (value["method"], np.array(value["centers"]).shape) == ("toy", (3, 2))
    assert run("report", "t.json", "--method", "toy", "--no-intervals").exit_code == 0
    assert "toy" in run("infer", "--help").stdout


# ---- a query ----


def test_a_query_is_asked_read_back_and_inferred_from():
    domain = Box([17, 1], [90, 99])
    transcript = release(
        AsksAbove(value=0.5), people(), domain=domain, epsilon=5, random_state=0, noise="simulated", path="t.json"
    )
    read = Transcript.load("t.json")
    assert read.rounds[0].query == Above(value=0.5)
    exact = np.count_nonzero(domain.to_unit(people())[:, 0] > 0.5)
    assert abs(transcript.rounds[0].noisy[0] - exact) < 20 * transcript.rounds[0].scales[0]
    assert infer(read, random_state=0).n_records == pytest.approx(300, rel=0.1)
    assert check_query(Above(value=0.5), domain=domain).passed
    assert json.loads(run("infer", "t.json", "--json").stdout)["answers"][0]["algorithm"] == "toy-share"
