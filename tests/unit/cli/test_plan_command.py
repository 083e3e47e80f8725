"""`recoup plan`: cost and expected error, in words and as JSON."""

from __future__ import annotations

import json

import pytest
from commands import one_line, run


def test_plan_says_cost_and_error():
    lloyd = ("plan", "--columns", "10", "-k", "10", "--epsilon", "1", "--n-records", "100000", "--algorithm", "lloyd")
    answer = run(*lloyd, "--json")
    value = json.loads(answer.stdout)
    assert value["epsilon"] == pytest.approx(1)
    assert [r["count_scale"] for r in value["rounds"]] == pytest.approx([10.0] * 5)
    assert [r["sum_scale"] for r in value["rounds"]] == pytest.approx([100.0] * 5)
    shown = run(*lloyd)
    assert "0.01416" in shown.stdout
    assert "within-cluster sum of squares" in shown.stderr
    bare = run("plan", "--columns", "4", "-k", "2", "--epsilon", "1", "--delta", "1e-6")
    assert "rho" in bare.stdout
    assert "--n-records" in bare.stderr
    assert "Gaussian noise, which the delta allows" in " ".join(bare.stderr.split())


def test_plan_says_which_noise_and_why():
    few = run("plan", "--columns", "3", "-k", "2", "--epsilon", "1", "--delta", "1e-6")
    assert "rho" not in few.stdout
    assert "Laplace noise, for epsilon alone, though a delta is allowed" in " ".join(few.stderr.split())
    assert "is allowed" not in run("plan", "--columns", "3", "-k", "2", "--epsilon", "1").stderr


def test_the_default_plan_is_that_of_the_default_algorithm():
    from recoup.planner import EXCESS_LAW, EXCESS_POWER

    terms = ("plan", "--columns", "2", "-k", "15", "--epsilon", "0.5", "--n-records", "5000")
    value = json.loads(run(*terms, "--excess", "0.05", "--json").stdout)
    assert value["relative_excess"] == pytest.approx(EXCESS_LAW * 2 * (15 / (5000 * 0.5)) ** EXCESS_POWER)
    assert value["epsilon_needed"] == pytest.approx((EXCESS_LAW * 2 / 0.05) ** (1 / EXCESS_POWER) * 15 / 5000)
    assert [r["sum_scale"] is None for r in value["rounds"]] == [True, True, True, False, False]
    assert "above non-private" in run(*terms).stderr
    assert run(*terms, "--excess", "-1").exit_code == 2
    assert run(*terms, "--excess", "0.0001").exit_code == 2
    assert "sd of a centre" not in run(*terms).stdout


def test_without_a_number_of_records_the_default_plan_says_what_it_assumes():
    terms = ("plan", "--columns", "2", "-k", "3", "--epsilon", "1")
    value = json.loads(run(*terms, "--json").stdout)
    assert value["algorithm"].startswith("adaptive")
    assert (value["n_records"], value["relative_excess"]) == (None, None)
    assert value["rounds"][0]["n_cells"] == 1
    assert sum(r["price"] for r in value["rounds"]) == pytest.approx(1)
    shown = run(*terms)
    assert "10,000 records" in shown.stderr
    assert "--n-records" in shown.stderr
    assert "Expected" not in shown.stderr
    assert json.loads(run(*terms, "--rounds", "2", "--json").stdout)["algorithm"].startswith("DP-KMEANS, 2 rounds")


def test_a_plan_predicts_nothing_where_records_are_too_few():
    terms = ("plan", "--columns", "2", "-k", "3", "--epsilon", "0.05", "--n-records")
    few, enough = run(*terms, "1000"), run(*terms, "6100")
    assert "N epsilon / K is 16.7" in few.stderr
    assert "several times" in few.stderr
    assert "above non-private" not in few.stderr
    assert "Too few" not in enough.stderr
    assert "above non-private" in enough.stderr
    notes = json.loads(run(*terms, "1000", "--json").stdout)["notes"]
    assert len(notes) == 2
    assert "Too few records" in notes[0]
    for algorithm in ("lloyd", "grid", "hybrid"):
        assert "Too few records" in run(*terms, "1000", "--algorithm", algorithm).stderr


def test_a_plan_says_where_it_does_not_know_and_where_little_is_lost():
    terms = ("plan", "-k", "5", "--epsilon", "1", "--n-records", "100000", "--columns")
    unknown = run(*terms, "40")
    assert "not known: 40 columns, where predictions were found to hold for 1 to 16" in unknown.stderr
    assert "above non-private" not in unknown.stderr
    assert json.loads(run(*terms, "40", "--json").stdout)["relative_excess"] is None
    assert "less than 0.3% above non-private" in run(*terms, "4").stderr


def test_what_is_needed_is_whole_records_and_enough_for_the_law():
    terms = ("plan", "--columns", "2", "-k", "3", "--epsilon", "0.1", "--n-records", "10000", "--excess")
    value = json.loads(run(*terms, "0.01", "--json").stdout)
    assert value["records_needed"] == 10_976
    assert "10,976 records at this epsilon" in run(*terms, "0.01").stderr
    # The law alone would ask for 480.
    value = json.loads(run(*terms, "0.5", "--json").stdout)
    assert value["records_needed"] == 5_000
    assert value["epsilon_needed"] == pytest.approx(0.03)


@pytest.mark.parametrize(
    "more", [("--columns", "0"), ("--columns", "1000000"), ("-k", "0"), ("--rounds", "0"), ("--epsilon", "0")]
)
def test_bad_plans_are_2(more):
    answer = run("plan", "--columns", "2", "-k", "2", "--epsilon", "1", *more)
    assert answer.exit_code == 2
    one_line(answer)


@pytest.mark.parametrize("algorithm", ["adaptive", "grid", "hybrid"])
def test_rounds_are_refused_where_the_algorithm_plans_its_own(algorithm):
    given = ("plan", "--columns", "2", "-k", "2", "--epsilon", "1", "--n-records", "1000", "--algorithm", algorithm)
    assert run(*given).exit_code == 0
    answer = run(*given, "--rounds", "3")
    assert answer.exit_code == 2
    assert "plans its own rounds" in one_line(answer)
    assert "--rounds" in answer.stderr


@pytest.mark.parametrize("algorithm", ["adaptive", "grid", "hybrid", "lloyd"])
def test_a_plan_is_that_of_a_release_that_is_told_the_same_and_says_what_happens_without(tmp_path, algorithm):
    n_records = ("--n-records", "1000")
    terms = ("-k", "2", "--epsilon", "1", "--algorithm", algorithm)
    plan = json.loads(run("plan", "--columns", "2", *terms, *n_records, "--json").stdout)
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{i % 10},{i % 7}\n" for i in range(1000)))
    release = ("release", tmp_path / "t.csv", *terms, "--bounds", "a=0:9,b=0:6", "--json", "-o")
    told = json.loads(run(*release, tmp_path / "told.json", *n_records).stdout)["rounds"]
    asked = json.loads(run(*release, tmp_path / "asked.json").stdout)["rounds"]
    assert [r["price"] for r in told] == [r["price"] for r in plan["rounds"]]
    # The number itself is noise, on which the rest may depend: told is only what the first round is.
    said = any("one more comes first" in note for note in plan["notes"])
    assert said == (asked[0]["n_cells"] == 1) == (algorithm != "lloyd")
    assert not said or asked[0]["price"] == pytest.approx(0.02)
