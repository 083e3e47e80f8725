"""Plans of grids agree with the transcripts that follow them, and commands reach both."""

import json
from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains
from commands import run

from recoup import GridKMeans, HybridKMeans, Transcript, release
from recoup.errors import ParameterError
from recoup.planner import plan_grid, plan_hybrid
from recoup.queries.counts import GridQuery


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("domain_name", ["box", "l1", "l2"])
@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("k", [2, 25])
def test_a_plan_is_what_a_release_then_does(mechanism, domain_name, d, k):
    domain = domains(d)[domain_name]
    terms = context(domain, mechanism, "0.7", n_records=3000, records_per_person=2)
    plans = (
        (plan_grid(terms, n_clusters=k), GridKMeans(n_clusters=k)),
        (plan_grid(terms, n_clusters=k, rule="rugnik"), GridKMeans(n_clusters=k, rule="rugnik")),
        (plan_hybrid(terms, n_clusters=k), HybridKMeans(n_clusters=k)),
    )
    for plan, algorithm in plans:
        transcript = release(
            algorithm,
            np.empty((0, d)),
            domain=domain,
            epsilon=terms.epsilon,
            delta=terms.delta,
            n_records=3000,
            records_per_person=2,
            noise="simulated",
            random_state=0,
        )
        assert len(plan.rounds) == len(transcript.rounds)
        for planned, answered in zip(plan.rounds, transcript.rounds, strict=True):
            assert planned.price == answered.price
            assert planned.n_cells == (
                answered.query.size if isinstance(answered.query, GridQuery) else answered.query.n_cells
            )
            np.testing.assert_allclose(answered.scales[: planned.n_cells], planned.count_scale, rtol=1e-14)
            if planned.sum_scale is not None:
                np.testing.assert_allclose(answered.scales[planned.n_cells :], planned.sum_scale, rtol=1e-14)
        assert plan.epsilon == transcript.epsilon_spent <= terms.epsilon


def test_a_plan_says_what_differs_from_the_rule_and_why_a_round_is_bought():
    box = domains(10)["box"]
    capped = plan_grid(context(box, epsilon="2", n_records=100_000), n_clusters=3)
    assert capped.rounds[0].n_cells == 2**20
    assert "lowered from 5" in capped.notes[0]
    assert "raised" in plan_grid(context(box, epsilon="0.01", n_records=10), n_clusters=3).notes[0]
    assert plan_grid(context(domains(2)["box"], n_records=5000), n_clusters=3).notes == ()
    hybrid = plan_hybrid(context(box, n_records=100_000), n_clusters=3)
    assert any("is bought" in note for note in hybrid.notes)
    assert hybrid.expected_excess == pytest.approx(hybrid.expected_displacement * 100_000 / 3)
    alone = plan_hybrid(context(domains(2)["box"], n_records=5000), n_clusters=15)
    assert any("is not bought" in note for note in alone.notes)
    assert alone.expected_displacement is None


def test_plans_need_a_number_of_records_and_not_too_many_columns():
    for plan in (plan_grid, plan_hybrid):
        with pytest.raises(ParameterError, match="n_records"):
            plan(context(domains(2)["box"]), n_clusters=3)
        with pytest.raises(ParameterError, match="adaptive"):
            plan(context(domains(30)["box"], n_records=100), n_clusters=3)


# ---- commands ----


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    path = tmp_path / "people.csv"
    rows = np.random.default_rng(0).uniform([17, 1], [90, 99], size=(300, 2))
    np.savetxt(path, rows, delimiter=",", header="age,hours", comments="")
    return path


@pytest.mark.parametrize("algorithm", ["grid", "hybrid", "adaptive"])
def test_release_and_infer(table, tmp_path, algorithm):
    target = tmp_path / "t.json"
    given = ("-k", "2", "--epsilon", "1", "--bounds", "age=17:90,hours=1:99", "--algorithm", algorithm)
    answer = run("release", table, *given, "-o", target)
    assert answer.exit_code == 0, answer.output
    transcript = Transcript.load(target)
    assert transcript.algorithm["type"] == f"kmeans-{algorithm}"
    assert abs(transcript.epsilon_spent - 1) < Fraction(1, 10**9)
    assert f"{len(transcript.rounds)} rounds" in answer.stdout
    assert run("infer", target, "-o", tmp_path / "inferred").exit_code == 0
    refused = run("release", table, *given, "--rounds", "3", "-o", tmp_path / "u.json")
    assert refused.exit_code == 2
    assert "--rounds" in refused.stderr
    assert not (tmp_path / "u.json").exists()


@pytest.mark.parametrize("algorithm", ["grid", "hybrid"])
def test_cluster_and_plan(table, algorithm):
    given = ("-k", "2", "--epsilon", "1", "--algorithm", algorithm)
    answer = run("cluster", table, *given, "--bounds", "age=17:90,hours=1:99", "--postprocess", "none", "--json")
    assert np.isfinite(json.loads(answer.stdout)["centers"]).all()
    planned = run("plan", "--columns", "10", *given, "--n-records", "10000000")
    assert "lowered" in planned.stderr
    assert "Give --n-records" not in planned.stderr
    value = json.loads(run("plan", "--columns", "10", *given, "--n-records", "10000000", "--json").stdout)
    assert any("lowered" in note for note in value["notes"])
