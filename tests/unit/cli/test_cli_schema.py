"""Schemas and persons on the command line: from a messy CSV to centres in the words of people."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import one_line, run

from recoup import Ledger, Number, Schema, Transcript
from recoup.cli.tables import print_centers, with_unit
from recoup.mixed import Mixed

SCHEMA = """
[age]
low = 0
high = 110
unit = "years"
[charges]
low = 1
high = 1e6
scale = "log"
unit = "EUR"
missing = 1
[lab]
low = 40
high = 400
missing = "own"
[sex]
values = ["F", "M"]
[ward]
values = ["a", "b", "c"]
other = true
[stage]
values = ["low", "high", "highest"]
ordered = true
"""
CANARY = "31337.4242"


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for i in range(600):
        kind, lab = i % 3, "" if i % 5 == 0 else f"{rng.uniform(40, 400):.1f}"
        charges = "n/a" if i % 7 == 0 else f"{np.exp(4 * kind + 1):.2f}"
        stage = ("low", "high", "highest")[kind]
        rows.append(f"p{i % 150},{25 + 27 * kind},{charges},{lab},{'FM'[i % 2]},{'abc'[kind]},{stage},{CANARY}")
    rows += [f",{CANARY},1,1,F,a,low,x", f"p1,30,{CANARY},,x{CANARY},{CANARY},{CANARY},", "ragged"]
    (tmp_path / "visits.csv").write_text("who,age,charges,lab,sex,ward,stage,note\n" + "\n".join(rows) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def clustered(files, *more, **changes):
    given = {"bounds": files / "schema.toml", "epsilon": 100, "postprocess": "none", "person": "who"} | changes
    typed = [part for name, value in given.items() if value for part in (f"--{name}", value)]
    return run("cluster", files / "visits.csv", "-k", 3, "--rounds", 3, *typed, *more)


def test_centres_are_printed_in_units_and_shares(files):
    shown = clustered(files, "-o", files / "out")
    assert shown.exit_code == 0, shown.stderr
    for words in ("age (years)", "charges (EUR)", "lab missing", "%", " of 3)"):
        assert words in shown.stdout
    said = " ".join(shown.stderr.split())
    whose = "one person, by column 'who' (each person's records become one row, their mean; CSV as RFC 4180)"
    assert f"adding or removing {whose}" in said
    assert "charges 1 to 1,000,000 EUR on a log scale" in said
    assert "ward one of 3 values" in said
    assert CANARY not in shown.stdout + shown.stderr + (files / "out" / "transcript.json").read_text()
    again = run("infer", files / "out" / "transcript.json", "-k", 3)
    assert "charges (EUR)" in again.stdout
    header = (files / "out" / "centers.csv").read_text().splitlines()[0]
    assert header == "age,charges,lab,lab missing,sex=M,ward=a,ward=b,ward=c,ward=other,stage"


def test_json_has_all_shares(files):
    value = json.loads(clustered(files, "--json").stdout)
    assert len(value["columns"]) == 10
    shares = np.array(value["centers"])[:, 5:9]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert value["units"] == {"age": "years", "charges": "EUR"}
    assert value["privacy"]["unit"] == "one person, by column 'who'"


def test_a_sample_and_a_ledger_of_persons(files):
    Ledger.create(files / "budget.db", epsilon=200)
    sample = ("--per-person", "sample", "--records-per-person", 2, "--ledger", files / "budget.db")
    assert clustered(files, *sample, "-o", files / "out").exit_code == 0
    context = Transcript.load(files / "out" / "transcript.json").context
    assert (context.person, context.per_person, context.records_per_person) == ("who", "sample", 2)
    ledger = Ledger(files / "budget.db")
    assert (str(ledger.unit), 99 < ledger.spent <= 100) == ("one person, by column 'who'", True)
    refused = clustered(files, "--ledger", files / "budget.db", person=None)
    assert refused.exit_code == 5
    assert "a person and a record are not alike" in refused.stderr
    declared = run("ledger", "create", files / "other.db", "--epsilon", 1)
    assert declared.exit_code == 0
    assert run("ledger", "declare", files / "other.db", "--records-per-person", 1, "--person", "who").exit_code == 0
    assert Ledger(files / "other.db").unit == ledger.unit


def test_a_config_file_knows_persons_and_schemas(files):
    config = 'clusters = 3\nepsilon = 100\nperson = "who"\nper-person = "mean"\nrounds = 2\n'
    config += "[bounds.age]\nlow = 0\nhigh = 110\n[bounds.ward]\nvalues = ['a', 'b', 'c']\n"
    (files / "run.toml").write_text(config)
    made = run("release", files / "visits.csv", "--config", files / "run.toml", "-o", files / "t.json")
    assert made.exit_code == 0, made.stderr
    assert Transcript.load(files / "t.json").context.domain.columns == ("age", "ward=a", "ward=b", "ward=c")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--per-person", "mean", "--records-per-person", "2"), "--per-person sample"),
        (("--domain", "l1"), "a schema makes a domain of its own"),
    ],
)
def test_what_does_not_fit_is_refused_in_words_of_the_command_line(files, more, words):
    assert words in one_line(clustered(files, *more))


def test_per_person_needs_person(files):
    assert "--per-person needs --person" in one_line(clustered(files, "--per-person", "mean", person=None))


@pytest.mark.parametrize(
    ("typed", "words", "unit"),
    [
        (("--per-person", "mean"), "One row a person", "person"),
        (("--per-person", "sample"), "One record a person", "person"),
        (("--per-person", "sample", "--records-per-person", "40"), "40 records of each person are kept", "person"),
        (("--records-per-person", "40"), "(declared, not enforced): noise is 40 times as large", "record"),
    ],
)
def test_a_plan_says_what_is_better_for_persons(typed, words, unit):
    terms = ("plan", "--columns", 5, "-k", 3, "--epsilon", 1, "--n-records", 14000, *typed)
    assert words in " ".join(run(*terms).stderr.split())
    value = json.loads(run(*terms, "--json").stdout)
    assert words in value["notes"][-1]
    assert value["unit"]["kind"] == unit


def test_a_plan_of_a_schema(files):
    terms = ("-k", 3, "--epsilon", 1, "--n-records", 14000)
    value = json.loads(run("plan", "--bounds", files / "schema.toml", *terms, "--json").stdout)
    assert value["domain"] == "mixed"
    assert value["epsilon"] == pytest.approx(1)
    assert "give one of them" in one_line(run("plan", *terms))
    assert "give one of them" in one_line(run("plan", *terms, "--columns", 2, "--bounds", "a=0:1"))
    plain = [run("plan", *terms, *columns, "--json").stdout for columns in (("-d", 2), ("--bounds", "a=0:1,b=2:5"))]
    assert plain[0] == plain[1]


def test_units_are_said_once():
    assert [with_unit("a", None), with_unit("a", "m"), with_unit("a (m)", "m")] == ["a", "a (m)", "a (m)"]


def test_a_number_that_a_cluster_lacks_is_a_dash(capsys):
    domain = Mixed(schema=Schema({"lab": Number(40, 400, missing="own"), "age": Number(0, 110)}))
    print_centers("centres", domain, np.array([[123.0, 0.994, 31.0], [124.0, 0.995, 32.0], [125.0, 1.0, 33.0]]))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()[:1].isdigit()]
    assert rows == [["0", "123", "99%", "31.0"], ["1", "–", "100%", "32.0"], ["2", "–", "100%", "33.0"]]
