"""Several transcripts of one data set, read together: one inferred data set answers all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pytest
from html_page import Page
from typer.testing import CliRunner

import recoup
from recoup.algorithms.kmeans.base import spread_centers
from recoup.algorithms.registry import ALGORITHMS
from recoup.cli.app import app
from recoup.cli.exits import ExitCode
from recoup.errors import ParameterError, UnreadableFileError
from recoup.inference.evidence import evidence_of, joint_privacy, privacy_of
from recoup.inference.problem import problem_of
from recoup.kernels.weighted_kmeans import weighted_inertia
from recoup.maxent.measure import maxent
from recoup.maxent.readings import base_looks, has_means, infer_measure
from recoup.privacy.statement import IMPORTED, NOT_PRIVATE
from recoup.queries.counts import GridQuery, HistogramQuery
from recoup.report.page import report_content
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

K = 4
MIDDLES = np.array([[0.2, 0.2], [0.8, 0.3], [0.3, 0.8], [0.75, 0.75]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginals:
    """Every column's histogram, once; a clustering only so that it can be refitted."""

    n_clusters: int = K
    bins: int = 12

    type_name: ClassVar[str] = "test-marginals"

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        query = HistogramQuery.one_way(dimension=context.domain.n_columns, bins=self.bins)
        return None if rounds else Request(query=query, share=Fraction(1), split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Sequence[Round]) -> np.ndarray:
        return spread_centers(context.domain, self.n_clusters, np.random.default_rng(0))

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type_name, "n_clusters": self.n_clusters, "bins": self.bins}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(n_clusters=value["n_clusters"], bins=value["bins"])


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, Marginals.type_name, Marginals)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(MIDDLES[rng.integers(K, size=n)] + rng.normal(0, 0.05, (n, 2)), 0, 1)


MAKERS = {
    "grid": recoup.GridKMeans(n_clusters=K),
    "lloyd": recoup.KMeans(n_clusters=K, n_rounds=3),
    "adaptive": recoup.AdaptiveKMeans(n_clusters=K),
    "marginals": Marginals(),
}


def released(kind, *, seed=0, epsilon=0.5, domain=None, **more):
    domain = recoup.Box([0, 0], [1, 1]) if domain is None else domain
    more = {"noise": "simulated"} | more
    return recoup.release(MAKERS[kind], table(), domain=domain, epsilon=epsilon, random_state=seed, **more)


def loss(centers):
    return weighted_inertia(table(), np.ones(len(table())), centers)


@pytest.mark.parametrize(
    "kinds",
    [
        ("grid", "lloyd"), ("marginals", "lloyd"), ("lloyd", "lloyd"), ("grid", "grid"), ("marginals", "adaptive"),
        ("adaptive", "lloyd"), ("grid", "marginals", "lloyd"),
    ],
    ids="+".join,
)  # fmt: skip
def test_one_inferred_data_set_answers_all(kinds):
    parts = [released(kind, seed=i) for i, kind in enumerate(kinds)]
    inferred = recoup.infer(parts, random_state=0, n_points=4000)
    assert inferred.simulated
    assert inferred.diagnostics.converged
    assert len(inferred.diagnostics.residuals) == sum(len(t.rounds) for t in parts)
    assert inferred.n_records == pytest.approx(3000, rel=0.1)
    floor = loss(MIDDLES)
    for part in parts:
        centers = recoup.refit(part, inferred, random_state=0)
        assert centers.shape == (K, 2)
        assert loss(centers) < 1.5 * floor


def test_joint_beats_each_half_on_average():
    """Summed over seeds: fixed ones, so that there is no chance; the planted fault is a part of another data set."""
    joint, alone, misled = 0.0, {"grid": 0.0, "lloyd": 0.0}, 0.0
    other = recoup.release(
        MAKERS["lloyd"], 1 - table()[:, ::-1] ** 3, domain=recoup.Box([0, 0], [1, 1]), epsilon=0.1,
        noise="simulated", random_state=9,
    )  # fmt: skip
    for seed in range(4):
        parts = {kind: released(kind, seed=seed, epsilon=0.05) for kind in alone}
        for kind, part in parts.items():
            own = recoup.infer(part, random_state=0, n_points=4000)
            alone[kind] += loss(recoup.refit(part, own, random_state=0))
        both = recoup.infer(list(parts.values()), random_state=0, n_points=4000)
        joint += loss(recoup.refit(parts["lloyd"], both, random_state=0))
        wrong = recoup.infer([parts["grid"], other], random_state=0, n_points=4000)
        misled += loss(recoup.refit(parts["grid"], wrong, random_state=0))
    assert joint < min(alone.values())
    assert misled > joint


def test_laplace_and_gaussian_rows_are_solved_together():
    parts = [released("grid"), released("lloyd", epsilon=1, delta=1e-6)]
    evidence = evidence_of(parts)
    assert not evidence.one_law
    assert {r.mechanism for r in evidence.rounds} == {"laplace", "gaussian"}
    assert evidence.context.delta == Fraction(1, 10**6)
    inferred = recoup.infer(parts, random_state=0, n_points=4000)
    assert inferred.diagnostics.converged
    # Each row is judged by its own law: noise of the right scales leaves about 1 (Laplace) or 0.8 (Gaussian).
    for misfit in inferred.diagnostics.residuals:
        assert all(0.1 < value < 2.0 for value in misfit.by_block.values())
    assert loss(recoup.refit(parts[1], inferred, random_state=0)) < 1.5 * loss(MIDDLES)
    with pytest.raises(ParameterError, match="one law"):
        recoup.infer(parts, "consistency")


def test_two_laws_of_the_same_rounds():
    parts = [released("lloyd"), released("lloyd", seed=1, epsilon=1, delta=1e-6)]
    inferred = recoup.infer(parts, random_state=0, n_points=4000)
    assert loss(recoup.refit(parts[0], inferred, random_state=0)) < 1.5 * loss(MIDDLES)


@pytest.mark.parametrize("method", ["mcmc", "consistency"])
def test_other_methods_read_several_too(method):
    parts = [released("lloyd"), released("lloyd", seed=1)]
    inferred = recoup.infer(parts, method, random_state=0, n_steps=2000)
    assert inferred.method == method
    assert loss(recoup.refit(parts[1], inferred, random_state=0)) < 2.0 * loss(MIDDLES)


def test_the_order_changes_only_the_randomness():
    parts = [released("grid"), released("marginals", seed=1), released("adaptive", seed=2)]
    found = [recoup.infer(order, random_state=0, n_points=6000) for order in (parts, parts[::-1])]
    losses = [loss(recoup.refit(parts[0], inferred, random_state=0)) for inferred in found]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert found[0].n_records == pytest.approx(found[1].n_records, rel=1e-12)
    # The rows that are solved for are the same ones, in another order.
    evidence = [evidence_of(order) for order in (parts, parts[::-1])]
    assert {id(r) for r in evidence[0].rounds} == {id(r) for r in evidence[1].rounds}
    assert evidence[0].strength == pytest.approx(evidence[1].strength)
    looks = [{id(r) for r in base_looks(e.rounds, 2)} for e in evidence]
    assert looks[0] == looks[1]


def test_the_same_seed_gives_the_same_data():
    parts = [released("grid"), released("lloyd")]
    found = [recoup.infer(parts, random_state=3, n_points=2000) for _ in range(2)]
    np.testing.assert_array_equal(found[0].points, found[1].points)
    np.testing.assert_array_equal(found[0].weights, found[1].weights)


def test_a_list_of_one_is_that_one():
    part = released("adaptive")
    one, listed = (recoup.infer(given, random_state=0, n_points=1000) for given in (part, [part]))
    np.testing.assert_array_equal(one.points, listed.points)
    np.testing.assert_array_equal(one.weights, listed.weights)


def test_a_part_that_says_nothing_hardly_matters():
    part = released("adaptive", epsilon=2)
    empty = released("marginals", epsilon=1e-4)
    alone, both = (recoup.infer(given, random_state=0) for given in (part, [part, empty]))
    losses = [loss(recoup.refit(part, inferred, random_state=0)) for inferred in (alone, both)]
    assert losses[1] < 1.1 * losses[0]


def test_where_the_support_is_drawn_from():
    """Grids in few columns, marginals in more, and no look at all where only a wide grid is left beside sums."""
    few = evidence_of([released("grid"), released("marginals"), released("lloyd")]).rounds
    assert [type(r.query) for r in base_looks(few, 2)] == [GridQuery]
    assert [type(r.query) for r in base_looks(few, 4)] == [HistogramQuery]
    grid_and_sums = tuple(r for r in few if not isinstance(r.query, HistogramQuery))
    assert base_looks(grid_and_sums, 4) == []
    grid_alone = tuple(r for r in few if isinstance(r.query, GridQuery))
    assert base_looks(grid_alone, 4) == list(grid_alone)
    marginals_alone = tuple(r for r in few if isinstance(r.query, HistogramQuery))
    assert base_looks(marginals_alone, 2) == list(marginals_alone)


def test_means_that_nobody_knows_are_not_drawn_around():
    known, unknown = released("lloyd", epsilon=5).rounds[-1], released("lloyd", epsilon=0.01).rounds[-1]
    assert has_means(known)
    assert not has_means(unknown)
    assert not any(has_means(r) for r in released("grid", epsilon=5).rounds)
    assert has_means(released("adaptive", epsilon=5).rounds[-1])


def test_the_joint_path_is_for_several_releases_only():
    """One release is read exactly as before there were several."""
    part = released("grid")
    evidence = evidence_of(part)
    alone = infer_measure(evidence.context, evidence.rounds, np.random.default_rng(0), n_points=1000)
    inferred = recoup.infer(part, random_state=0, n_points=1000)
    np.testing.assert_array_equal(alone.weights, inferred.weights)
    joint = maxent(problem_of(evidence_of([part, released("grid", seed=1)]), np.random.default_rng(0), n_points=1000))
    assert not np.array_equal(joint.weights, alone.weights)


# ---- what is refused ----


def test_different_domains_are_refused():
    part = released("grid")
    for domain in (recoup.Box([0, 0], [1, 2]), recoup.L1Ball([0, 0], [1, 1]), recoup.L2Ball([0, 0], [1, 1], radius=2)):
        with pytest.raises(ParameterError, match="transcripts 1 and 2 have different domains"):
            recoup.infer([part, released("lloyd", domain=domain)])
    with pytest.raises(ParameterError, match="transcripts 1 and 3 have different domains"):
        recoup.infer([part, released("lloyd"), released("lloyd", domain=recoup.Box([0, 0], [1, 2]))])


def test_different_neighbours_are_refused():
    with pytest.raises(ParameterError, match="different neighbours: one record and 3 records of one person"):
        recoup.infer([released("grid"), released("lloyd", records_per_person=3)])


def test_a_round_that_is_given_twice_is_refused(tmp_path):
    part = released("lloyd")
    part.save(tmp_path / "t.json")
    for twice in (part, recoup.Transcript.load(tmp_path / "t.json")):
        with pytest.raises(ParameterError, match="given twice"):
            recoup.infer([part, twice])


@pytest.mark.parametrize(
    ("given", "words"),
    [([], "empty"), (None, "NoneType"), ("t.json", "str"), ([None], "NoneType"), (["t.json"], "str"), (3, "int")],
)
def test_other_things_are_refused(given, words):
    with pytest.raises(ParameterError, match=words):
        recoup.infer(given)
    with pytest.raises(ParameterError, match="holds a str"):
        recoup.infer([released("grid"), "t.json"])


# ---- what they promise together ----


def test_one_simulated_part_marks_all():
    secure = released("grid", noise="secure")
    simulated = released("lloyd")
    assert not recoup.infer([secure, released("lloyd", noise="secure")], random_state=0, n_points=500).simulated
    for order in ([secure, simulated], [simulated, secure]):
        assert recoup.infer(order, random_state=0, n_points=500).simulated
        assert joint_privacy(order)["statement"] == NOT_PRIVATE
    claimed = recoup.transcript_from(
        domain=secure.context.domain, epsilon=0.25, rounds=[(GridQuery(sides=(2, 2)), [1, 2, 3, 4], 3)]
    )
    both = joint_privacy([secure, claimed])
    assert (both["statement"], both["noise"], both["epsilon"], both["spent"]) == (IMPORTED, "unverified", 0.75, 0.75)
    mixed = joint_privacy([secure, released("lloyd", delta=1e-6)])
    assert (mixed["mechanism"], mixed["delta"]) == ("laplace and gaussian", 1e-6)
    assert set(mixed) == set(secure.privacy)


def claimed(**more):
    rounds = [(GridQuery(sides=(2, 2)), [751.5, 760.25, 740.0, 755.0], 2)]
    return recoup.transcript_from(domain=recoup.Box([0, 0], [1, 1]), epsilon=0.25, rounds=rounds, **more)


# Of the transcript that the page is about, and of another one.
PROMISES = {
    "secure and secure": (lambda: released("grid", noise="secure"), 1.0, "secure", "differentially private"),
    "secure and unverified": (claimed, 0.75, "unverified", IMPORTED),
    "secure and simulated": (lambda: released("grid"), 1.0, "simulated", NOT_PRIVATE),
    "single": (None, 0.5, "secure", "differentially private"),
}


@pytest.mark.parametrize("kind", PROMISES)
def test_what_is_said_of_a_result_is_the_promise_of_all_that_it_was_made_from(kind, tmp_path):
    other, epsilon, noise, statement = PROMISES[kind]
    part = released("lloyd", noise="secure")
    parts = [part] if other is None else [part, other()]
    paths = [tmp_path / f"{i}.json" for i in range(len(parts))]
    for item, path in zip(parts, paths, strict=True):
        item.save(path)
    inferred = recoup.infer(parts, random_state=0, n_points=800)
    assert (inferred.privacy, inferred.simulated) == (joint_privacy(parts), noise == "simulated")
    assert inferred.privacy["spent"] == inferred.privacy["epsilon"] == epsilon
    for name in ("a", "b"):
        inferred.save(tmp_path / f"{name}.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    loaded = recoup.InferredDataset.load(tmp_path / "a.parquet")
    assert (loaded.privacy, loaded.sources) == (inferred.privacy, inferred.sources)
    centers = recoup.refit(part, inferred, random_state=0)
    pages = [report_content(part, centers, data, level=None) for data in (inferred, loaded)]
    assert json.loads(json.dumps(pages)) == pages
    for order in (paths, paths[::-1]):
        assert run("infer", *order, "-o", tmp_path / "out").exit_code == 0
        page = tmp_path / "page.html"
        arguments = ("report", paths[0], "--inferred", tmp_path / "out" / "inferred.parquet", "-o", page)
        answer = run(*arguments, "--no-intervals", "--json")
        assert answer.exit_code == 0, answer.stderr
        pages.append(json.loads(answer.stdout))
        assert f"epsilon = {epsilon:g}," in answer.stderr
        assert answer.stderr.lower().startswith(statement.lower())
        words = Page(page.read_text()).words
        assert (f"of {len(parts)} releases together" in words) == (len(parts) > 1)
        assert ("from another release as well" in words) == (len(parts) > 1)
        assert ("Privacy claimed, not verified" in words) == (noise == "unverified")
        assert ("Some of the answers behind this page were made elsewhere" in words) == (noise == "unverified")
        assert ("among them some that were made elsewhere" in words) == (noise == "unverified")
        assert (NOT_PRIVATE in words) == (noise == "simulated")
    for facts in pages:
        numbers = {row["name"]: row["value"] for row in facts["privacy"]["numbers"]}
        assert (numbers["epsilon"], numbers["spent"], numbers["noise"]) == (f"{epsilon:g}", f"{epsilon:g}", noise)
        assert (facts["privacy"]["statement"], facts["private"]) == (statement, noise == "secure")
        assert facts["budget"]["epsilon"] == 0.5  # the rounds on the page are those of one transcript
        # Lines that read one transcript alone would give other numbers.
        assert ("--inferred inferred.parquet" in facts["reproduce"]["command"]) == (len(parts) > 1)
        assert ("InferredDataset.load" in facts["reproduce"]["python"]) == (len(parts) > 1)


def test_data_of_another_release_adds_what_that_one_promises():
    """It may be used, so both stand behind the page."""
    part, other = released("lloyd", noise="secure"), released("grid", noise="secure", delta=1e-6)
    found = privacy_of(part, recoup.infer(other, random_state=0, n_points=500))
    assert (found["epsilon"], found["delta"], found["mechanism"]) == (1.0, 1e-6, "laplace and gaussian")
    assert privacy_of(part, recoup.infer(claimed(), random_state=0, n_points=500))["statement"] == IMPORTED
    assert privacy_of(part, None) == part.privacy
    # A file that says less than this transcript itself cannot be the statement of both: both are added up.
    own = recoup.infer(part, random_state=0, n_points=500)
    assert privacy_of(part, own) == part.privacy
    for less in ({"epsilon": 0.1}, {"noise": "secure", "epsilon": 0.49}):
        assert privacy_of(part, replace(own, privacy=replace(own.privacy, **less)))["epsilon"] == 0.5 + less["epsilon"]
    whole = claimed()
    vouched = recoup.infer(whole, random_state=0, n_points=500)
    vouched = replace(vouched, privacy=replace(vouched.privacy, noise="secure"))
    assert privacy_of(whole, vouched)["statement"] == IMPORTED
    several = recoup.infer(released("grid", noise="secure", records_per_person=2), random_state=0, n_points=500)
    with pytest.raises(ParameterError, match="do not add up"):
        privacy_of(part, several)


def test_epsilons_add_up_as_the_decimals_they_are():
    parts = [released("lloyd", noise="secure", epsilon=e) for e in ("0.1", "0.2", "1/3")]
    found = joint_privacy(parts)
    assert (found["epsilon"], found["spent"]) == (0.633333333334, 0.633333333334)  # rounded up: never below
    assert joint_privacy(parts[:2])["spent"] == joint_privacy(parts[:2])["epsilon"] == 0.3


def test_files_of_older_versions_say_what_they_know(tmp_path):
    part = released("lloyd", noise="secure")
    inferred = recoup.infer([part, released("grid", noise="secure")], random_state=0, n_points=500)
    for simulated in (False, True):
        old = replace(inferred, privacy=None, sources=(), simulated=simulated)
        assert set(json.loads(old.to_arrow().schema.metadata[b"recoup"])) == {"method", "simulated", "named"}
        old.save(tmp_path / "old.parquet")
        loaded = recoup.InferredDataset.load(tmp_path / "old.parquet")
        assert (loaded.privacy, loaded.sources) == (None, ())
        found = privacy_of(part, loaded)
        assert found == (part.privacy | {"statement": NOT_PRIVATE, "noise": "simulated"} if simulated else part.privacy)


@pytest.mark.parametrize(
    "change",
    [
        {"noise": "none"}, {"epsilon": "0.1"}, {"epsilon": float("inf")}, {"epsilon": -1.0}, {"spent": True},
        {"mechanism": "laplace\x1b[2J"}, {"unit": "9 records of one person\n"}, {"neighbours": None}, {"bounds": {}},
        {"bounds": {"low": ["0"], "high": [1.0], "columns": None}}, {"delta": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_statement_that_recoup_would_not_have_written_is_refused(change, tmp_path):
    inferred = recoup.infer(released("lloyd"), "consistency")
    replace(inferred, privacy=inferred.privacy | change).save(tmp_path / "i.parquet")
    with pytest.raises(UnreadableFileError):
        recoup.InferredDataset.load(tmp_path / "i.parquet")
    # The statement follows from the kind of noise, whatever the file calls it.
    replace(inferred, privacy=inferred.privacy | {"statement": "perfectly private"}).save(tmp_path / "i.parquet")
    assert recoup.InferredDataset.load(tmp_path / "i.parquet").privacy["statement"] == NOT_PRIVATE


# ---- the command ----


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def saved(tmp_path):
    paths = [tmp_path / "grid.json", tmp_path / "lloyd.json", tmp_path / "counts.json"]
    released("grid").save(paths[0])
    released("lloyd").save(paths[1])
    recoup.transcript_from(
        domain=recoup.Box([0, 0], [1, 1]), epsilon=1, simulated=True, algorithm="counts of quarters",
        rounds=[(GridQuery(sides=(2, 2)), [750.0, 760.0, 740.0, 755.0], 2)],
    ).save(paths[2])  # fmt: skip
    return paths


def test_the_command_reads_several(saved, tmp_path):
    grid, lloyd, counts = saved
    answer = run("infer", counts, lloyd, grid, "-o", tmp_path / "out", "--json")
    assert answer.exit_code == 0, answer.stderr
    value = json.loads(answer.stdout)
    parts = [recoup.Transcript.load(path) for path in (counts, lloyd, grid)]
    rng = np.random.default_rng(0)
    inferred = recoup.infer(parts, random_state=rng)
    centers = recoup.refit(parts[1], inferred, random_state=rng)
    assert value["centers"] == centers.tolist()
    assert [a["algorithm"] for a in value["answers"]] == ["elsewhere", "kmeans-lloyd", "kmeans-grid"]
    assert [a["transcript"] for a in value["answers"]] == [str(counts), str(lloyd), str(grid)]
    assert value["answers"][0]["answer"] is None
    assert value["answers"][1]["answer"] == value["centers"]
    assert np.array(value["answers"][2]["answer"]).shape == (K, 2)
    assert (value["privacy"]["epsilon"], value["privacy"]["statement"]) == (2.0, NOT_PRIVATE)
    names = ["centers.csv", "answers.json", "inferred.parquet", "diagnostics.json"]
    assert value["files"] == [str(tmp_path / "out" / name) for name in names]
    kept = json.loads((tmp_path / "out" / "answers.json").read_text())
    assert (kept["answers"], kept["privacy"]) == (value["answers"], NOT_PRIVATE)
    assert json.loads((tmp_path / "out" / "diagnostics.json").read_text())["privacy"] == NOT_PRIVATE
    assert (value["answers"][2]["rows"], value["answers"][2]["columns"]) == (list("0123"), ["column 0", "column 1"])
    table_for_people = run("infer", lloyd, grid).stdout
    assert "4 centres by maxent" in table_for_people
    assert f"Answer of kmeans-grid ({grid})" in table_for_people
    assert len(re.findall(r"^ *cluster +column 0 +column 1 *$", table_for_people, re.M)) == 2


def test_another_number_of_clusters_is_for_every_clustering(saved):
    value = json.loads(run("infer", *saved, "-k", "2", "--json").stdout)
    assert [None if a["answer"] is None else len(a["answer"]) for a in value["answers"]] == [2, 2, None]
    assert "2 centres by maxent" in run("infer", *saved, "-k", "2").stdout


def test_answers_without_clusters_have_headers(tmp_path):
    x = np.column_stack([table(), (table()[:, 0] > 0.5).astype(float)])
    kinds = {
        "mixture": (recoup.GaussianMixture(n_components=2, n_rounds=2), "weight", "component 1"),
        "logistic": (recoup.LogisticRegression(n_rounds=2), "coefficient", "intercept"),
        "pca": (recoup.CovariancePCA(n_components=1), "bought", "component 1"),
    }
    domain = recoup.Box([0, 0, 0], [1, 1, 1], ("age", "hours", "bought"))
    for name, (algorithm, _, _) in kinds.items():
        transcript = recoup.release(
            algorithm, pa.table(dict(zip(domain.columns, x.T, strict=True))), domain=domain, epsilon=20,
            noise="simulated", random_state=0,
        )  # fmt: skip
        transcript.save(tmp_path / f"{name}.json")
    for name, (algorithm, column, row) in kinds.items():
        path = tmp_path / f"{name}.json"
        shown = run("infer", path)
        assert shown.exit_code == 0, shown.stderr
        title, _, header, *rows = shown.stdout.splitlines()
        assert f"Answer of {algorithm.type_name} ({path})" in title
        assert column in header
        assert any(line.strip().startswith(row) for line in rows)
        found = json.loads(run("infer", path, "-o", tmp_path / name, "--json").stdout)["answers"][0]
        assert row in found["rows"]
        assert column in found["columns"]
        assert np.shape(found["answer"])[0] == len(found["rows"])
        assert json.loads((tmp_path / name / "answers.json").read_text())["answers"] == [found]
    assert "directions in columns scaled to [-1, 1]" in run("infer", tmp_path / "pca.json").stderr
    assert not re.search(r"^ *bought", run("infer", tmp_path / "logistic.json").stdout, re.M)


def test_one_transcript_is_read_as_before(saved, tmp_path):
    answer = run("infer", saved[1], "-o", tmp_path / "out", "--json")
    value = json.loads(answer.stdout)
    part = recoup.Transcript.load(saved[1])
    rng = np.random.default_rng(0)
    assert value["centers"] == recoup.refit(part, recoup.infer(part, random_state=rng), random_state=rng).tolist()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "centers.csv",
        "diagnostics.json",
        "inferred.parquet",
    ]
    assert value["privacy"] == part.privacy


def test_rounds_without_an_algorithm_have_data_and_no_centres(saved, tmp_path):
    value = json.loads(run("infer", saved[2], "-o", tmp_path / "out", "--json").stdout)
    assert (value["centers"], value["answers"][0]["answer"]) == ([], None)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"answers.json", "diagnostics.json", "inferred.parquet"}
    refused = run("infer", saved[2], "-k", "3")
    assert (refused.exit_code, refused.stdout) == (ExitCode.USAGE, "")
    assert "none of these transcripts" in refused.stderr
    assert '{"type": "kmeans-adaptive", "n_clusters": 3}' in refused.stderr
    shown = run("infer", saved[2])
    assert "About 3,005 records by maxent, NOT PRIVATE" in shown.stdout
    assert re.search(r"^ *column 1 +0\.\d+ +0\.\d+", shown.stdout, re.M)
    assert "-o FOLDER writes the inferred data" in shown.stderr
    assert "-o FOLDER" not in run("infer", saved[2], "-o", tmp_path / "out").stderr


def test_the_way_to_clusters_that_the_refusal_names_works(saved, tmp_path):
    read = recoup.Transcript.load(saved[2])
    rounds = [(r.query, r.noisy, r.scales) for r in read.rounds]
    named = recoup.transcript_from(
        domain=read.context.domain, epsilon=1, rounds=rounds, algorithm={"type": "kmeans-adaptive", "n_clusters": 3}
    )
    named.save(tmp_path / "named.json")
    assert len(json.loads(run("infer", tmp_path / "named.json", "--json").stdout)["centers"]) == 3


def test_what_does_not_belong_together_is_one_line(saved, tmp_path):
    released("lloyd", domain=recoup.Box([0, 0], [1, 2])).save(tmp_path / "other.json")
    for second, words in ((tmp_path / "other.json", "different domains"), (saved[0], "given twice")):
        answer = run("infer", saved[0], second)
        assert (answer.exit_code, answer.stdout, answer.stderr.count("\n")) == (ExitCode.USAGE, "", 1)
        assert words in answer.stderr
    assert run("infer", saved[0], tmp_path / "missing.json").exit_code == ExitCode.TRANSCRIPT


def test_a_config_file_names_one_or_several(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text('transcript = ["grid.json", "lloyd.json"]\njson = true\n')
    (tmp_path / "one.toml").write_text('transcript = "lloyd.json"\njson = true\n')
    assert [len(json.loads(run("infer", "--config", name).stdout)["answers"]) for name in ("two.toml", "one.toml")] == [
        2,
        1,
    ]
    (tmp_path / "bad.toml").write_text('transcript = ["grid.json", true]\n')
    answer = run("infer", "--config", "bad.toml")
    assert answer.exit_code == ExitCode.USAGE
    assert "'transcript' in the config file" in answer.stderr
