"""Several transcripts of one data set, read together: one inferred data set answers all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from typer.testing import CliRunner

import recoup
from recoup.algorithms.initial import spread_centers
from recoup.algorithms.registry import ALGORITHMS
from recoup.cli import app
from recoup.commands.exits import ExitCode
from recoup.context import Context, Request
from recoup.errors import ParameterError
from recoup.inference.evidence import evidence_of, joint_privacy
from recoup.inference.joint import base_looks, has_means, infer_joint
from recoup.inference.measure import infer_measure
from recoup.kernels.weighted_kmeans import weighted_inertia
from recoup.queries.grid import GridQuery
from recoup.queries.histogram import HistogramQuery
from recoup.transcript import CLAIMED, NOT_PRIVATE, Round

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
    monkeypatch.setattr("recoup.commands.progress._QUIET_SECONDS", 3600.0)


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
    joint = infer_joint(evidence_of([part, released("grid", seed=1)]), np.random.default_rng(0), n_points=1000)
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
    with pytest.raises(ParameterError, match="different neighbours: 1 and 3 records per person"):
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
    assert (both["statement"], both["noise"], both["epsilon"], both["spent"]) == (CLAIMED, "unverified", 0.75, 0.75)
    mixed = joint_privacy([secure, released("lloyd", delta=1e-6)])
    assert (mixed["mechanism"], mixed["delta"]) == ("laplace and gaussian", 1e-6)
    assert set(mixed) == set(secure.privacy)


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
    table_for_people = run("infer", lloyd, grid).stdout
    assert "4 centres by maxent" in table_for_people
    assert f"Answer of kmeans-grid ({grid})" in table_for_people


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
