"""A run in a file: every option, below what is typed; a wrong name or value is named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import run
from typer.main import get_command

from recoup import Transcript
from recoup.cli.app import app
from recoup.cli.settings import key_of

RUN = """
data = "people.csv"
clusters = 3
epsilon = 0.1
delta = 0
algorithm = "lloyd"
rounds = 2
n_records = 300
records-per-person = 2
simulated-noise = true
seed = 5
domain = "l2"
postprocess = "none"
output = "out"
json = true

[bounds.age]
low = 17
high = 90.25
unit = "years"

[bounds.hours]
low = 1
high = 99
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    rows = np.random.default_rng(0).uniform((17, 1), (90, 99), size=(50, 2))
    np.savetxt("people.csv", rows, delimiter=",", header="age,hours", comments="")
    return tmp_path


def refused(*arguments):
    answer = run(*arguments)
    assert (answer.exit_code, answer.stdout, answer.stderr.count("\n")) == (2, "", 1)
    return answer.stderr


def test_a_file_is_a_whole_run(folder):
    (folder / "run.toml").write_text(RUN)
    answer = run("cluster", "--config", "run.toml")
    assert answer.exit_code == 0, answer.stderr
    value = json.loads(answer.stdout)
    assert (value["columns"], value["units"]) == (["age", "hours"], {"age": "years"})
    assert value["files"] == ["out/centers.csv", "out/transcript.json"]
    privacy = value["privacy"]
    assert (privacy["domain"], privacy["noise"]) == ("l2", "simulated")
    assert privacy["unit"] == "2 records of one person"
    assert privacy["bounds"]["high"] == [90.25, 99.0]
    context = Transcript.load(folder / "out" / "transcript.json").context
    # The decimal that was written, not the float next to it.
    assert (str(context.epsilon), context.n_records) == ("1/10", 300)
    typed = run(
        "cluster", "people.csv", "-k", "3", "--epsilon", "0.1", "--algorithm", "lloyd", "--rounds", "2", "--n-records",
        "300", "--records-per-person", "2", "--simulated-noise", "--seed", "5", "--domain", "l2", "--postprocess",
        "none", "--bounds", "age=17:90.25,hours=1:99", "--json",
    )  # fmt: skip
    assert json.loads(typed.stdout)["centers"] == value["centers"]


def test_what_is_typed_goes_before(folder):
    (folder / "run.toml").write_text(RUN)
    (folder / "other.csv").write_text("a,b\n1,2\n")
    more = ("--epsilon", "1/3", "-k", "2", "-o", "typed", "--bounds", "a=0:1,b=0:1", "--domain", "box", "--rounds", "1")
    answer = run("cluster", "other.csv", *more, "--config", "run.toml")
    assert answer.exit_code == 0, answer.stderr
    value = json.loads(answer.stdout)
    assert (len(value["centers"]), value["columns"], value["privacy"]["domain"]) == (2, ["a", "b"], "box")
    transcript = Transcript.load(folder / "typed" / "transcript.json")
    assert (len(transcript.rounds), str(transcript.context.epsilon)) == (1, "1/3")
    assert not (folder / "out").exists()


def test_release_infer_and_plan_take_one_too(folder):
    (folder / "release.json").write_text(
        '{"data": "people.csv", "clusters": 2, "epsilon": 0.5, "rounds": 2, "bounds": "age=17:90,hours=1:99",'
        ' "output": "t.json"}'
    )
    (folder / "infer.toml").write_text('transcript = "t.json"\nclusters = 3\nmethod = "consistency"\n')
    (folder / "plan.toml").write_text('columns = 2\nclusters = 3\nepsilon = 0.25\nalgorithm = "lloyd"\njson = true\n')
    released = run("release", "--config", "release.json")
    assert released.exit_code == 0, released.stderr
    assert str(Transcript.load("t.json").context.epsilon) == "1/2"
    inferred = run("infer", "--config", "infer.toml", "--json")
    assert inferred.exit_code == 0, inferred.stderr
    assert (json.loads(inferred.stdout)["method"], len(json.loads(inferred.stdout)["centers"])) == ("consistency", 3)
    planned = json.loads(run("plan", "--config", "plan.toml").stdout)
    assert (planned["epsilon"], len(planned["rounds"])) == (pytest.approx(0.25), 5)


@pytest.mark.parametrize("command", ["cluster", "release", "infer", "plan"])
def test_every_option_of_a_command_is_known(folder, command):
    parameters = get_command(app).commands[command].params
    for key in map(key_of, parameters):
        (folder / "run.toml").write_text(f"{key} = []\n")
        known = key not in ("config", "help")
        assert ("has an unknown name" not in refused(command, "--config", "run.toml")) == known


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilonn = 1", "unknown name 'epsilonn'. Did you mean 'epsilon'?"),
        ("colour = 1", "unknown name 'colour'. Known are data, clusters, epsilon"),
        ("[cluster]\nk = 1", "unknown name 'cluster'. Did you mean 'clusters'?"),
        ("clusters = [1]", "'clusters' in the config file 'run.toml' must be a number or text"),
        ("clusters = true", "'clusters' in the config file 'run.toml' must be a number or text"),
        ("data = 2020-01-01", "'data' in the config file 'run.toml' must be a number or text"),
        ('json = "yes"', "'json' in the config file 'run.toml' must be true or false"),
        ("json = 1", "'json' in the config file 'run.toml' must be true or false"),
        ("n-records = 1\nn_records = 1", "names 'n-records' twice"),
        ("clusters = ", "is not TOML"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(folder, text, words):
    (folder / "run.toml").write_text(text)
    assert words in refused("cluster", "--config", "run.toml")


def test_files_that_are_none(folder):
    (folder / "list.json").write_text("[1]")
    (folder / "twice.json").write_text('{"data": "a", "data": "b"}')
    assert "is not there" in refused("cluster", "--config", "nowhere.toml")
    assert "must end in .toml or .json" in refused("cluster", "--config", "people.csv")
    assert "names and values" in refused("cluster", "--config", "list.json")
    assert "names 'data' twice" in refused("cluster", "--config", "twice.json")


def test_bad_values_are_those_of_the_option(folder):
    for text, words in (('clusters = "many"', "--clusters"), ('algorithm = "magic"', "--algorithm")):
        (folder / "run.toml").write_text(text)
        answer = run("cluster", "people.csv", "-k", "2", "--epsilon", "1", "--config", "run.toml")
        if words == "--clusters":
            # What is typed wins, so what is in the file is not even looked at.
            assert "no bounds" in answer.stderr
            answer = run("cluster", "people.csv", "--epsilon", "1", "--config", "run.toml")
        assert (answer.exit_code, answer.stdout) == (2, "")
        assert words in answer.stderr
    (folder / "run.toml").write_text("[bounds]\nage = [17]")
    assert "'age'" in refused("cluster", "people.csv", "-k", "2", "--epsilon", "1", "--config", "run.toml")
    (folder / "run.toml").write_text("[bounds]\nage = [2020-01-01, 2]")
    assert "'age'" in refused("cluster", "people.csv", "-k", "2", "--epsilon", "1", "--config", "run.toml")
