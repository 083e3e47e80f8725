"""`--json` everywhere: one document on standard output, with the documented keys; and completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import all_commands
from typer.testing import CliRunner

from recoup import Transcript, infer
from recoup.cli.app import app

PAGE = (Path(__file__).parents[3] / "docs" / "commandline.md").read_text(encoding="utf-8")
GIVEN = ("people.csv", "-k", "2", "--epsilon", "1", "--bounds", "age=17:90,hours=1:99")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("json")
    rows = np.random.default_rng(0).uniform((17, 1), (90, 99), size=(50, 2))
    np.savetxt(path / "people.csv", rows, delimiter=",", header="age,hours", comments="")
    return path


@pytest.fixture
def answers(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)

    def answer(*arguments):
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return answer


def documented(command):
    """The keys that the page lists for a command."""
    section = PAGE.split("## JSON")[1]
    line = next(line for line in section.splitlines() if line.startswith("|") and f"`{command}`" in line.split("|")[1])
    return re.findall(r"`(\w+)`", line.split("|")[2])


def item_keys(name):
    """The keys that the page lists for one of the values."""
    entry = re.search(rf"^- `{name}`: (.+?)(?=^- |\Z|^## )", PAGE.split("## JSON")[1], re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`(\w+)`", entry[1]))


def test_the_keys_are_those_of_the_page(answers):
    created = answers("ledger", "create", "l.db", "--epsilon", "5")
    released = answers("release", *GIVEN, "-o", "t.json", "--rounds", "2", "--ledger", "l.db")
    clustered = answers("cluster", *GIVEN, "-o", "out", "--rounds", "1", "--postprocess", "none", "--ledger", "l.db")
    inferred = answers("infer", "t.json", "-o", "inferred", "--method", "consistency")
    planned = answers("plan", "--columns", "2", "-k", "2", "--epsilon", "1")
    shown, exported = answers("ledger", "show", "l.db"), answers("ledger", "export", "l.db", "-o", "l.json")
    for command, value in (
        ("cluster", clustered),
        ("release", released),
        ("infer", inferred),
        ("plan", planned),
        ("ledger create", created),
        ("ledger show", shown),
        ("ledger export", exported),
    ):
        assert list(value) == documented(command), command
    assert set(clustered["privacy"]) == set(released["privacy"]) == item_keys("privacy")
    assert set(inferred["privacy"]) == item_keys("privacy") - {"counted"}
    assert set(planned["rounds"][0]) == item_keys("rounds") - {"pure", "zcdp", "gaussian"}
    assert set(planned["rounds"][0]) - set(released["rounds"][0]) == {"center_deviation"}
    assert set(shown["entries"][0]) == set(exported["entries"][0]) == item_keys("entries")
    assert answers("ledger", "export", "l.db") == exported | {"files": []}
    assert json.loads(Path("l.json").read_text()) == {name: exported[name] for name in exported if name != "files"}
    for value in (released, clustered, inferred, exported):
        assert all(Path(path).is_file() for path in value["files"])
    assert exported["files"] == ["l.json"]
    assert len(released["files"]) == 1
    assert len(clustered["files"]) == 2
    assert len(inferred["files"]) == 3
    assert list(answers("verify", "t.json")) == documented("verify")
    assert list(answers("registry", "t.json")) == documented("registry")
    reported = answers("report", "t.json", "-o", "r.html", "--method", "none")
    assert list(reported)[: len(documented("report")[:2])] == documented("report")[:2]
    assert set(documented("report")) <= set(reported)
    assert reported["files"] == ["r.html"]
    kept = json.loads(Path("inferred/diagnostics.json").read_text())
    assert kept == {"privacy": inferred["privacy"]["statement"], **inferred["diagnostics"]}


def test_inference_repeats_itself_and_another_seed_does_not(answers):
    answers("release", *GIVEN, "-o", "u.json", "--rounds", "2", "--simulated-noise", "--seed", "1")
    given = ("infer", "u.json", "--method", "mcmc", "--steps", "200", "--chains", "2")
    first, again = answers(*given), answers(*given)
    assert first["centers"] == again["centers"]
    assert first["diagnostics"]["acceptance"] == again["diagnostics"]["acceptance"]
    assert answers(*given, "--seed", "7")["diagnostics"]["acceptance"] != first["diagnostics"]["acceptance"]
    assert len(first["diagnostics"]["acceptance"]) == 2
    assert "NOT PRIVATE" in first["privacy"]["statement"]
    assert first["files"] == []


def test_the_choices_of_the_sampler_reach_it(answers):
    answers("release", *GIVEN, "-k", "8", "-o", "v.json", "--rounds", "2", "--simulated-noise", "--seed", "1")
    given = ("infer", "v.json", "--method", "mcmc", "--steps", "500")
    transcript = Transcript.load("v.json")
    for typed, choice in (
        ((), {}),
        (("--proposal-variance", "0.01"), {"proposal_variance": 0.01}),
        (("--target-scale", "noise"), {"target_scale": "noise"}),
        (("--correction", "mixture"), {"correction": "mixture"}),
        (("--raw",), {"raw": True}),
    ):
        found = answers(*given, *typed)["diagnostics"]
        same = infer(transcript, "mcmc", n_steps=500, random_state=0, **choice).diagnostics
        assert found["log_likelihood_trace"] == [trace.tolist() for trace in same.log_likelihood_trace]
        usual = answers(*given)["diagnostics"]
        assert (found["log_likelihood_trace"] == usual["log_likelihood_trace"]) == (not typed)


@pytest.mark.parametrize("words", all_commands())
def test_every_command_has_json_and_the_same_spelling_of_what_is_common(words):
    command = all_commands()[words]
    spellings = {parameter.name: parameter.opts for parameter in command.params}
    assert spellings["as_json"] == ["--json"]
    common = {"output": ["--output", "-o"], "clusters": ["--clusters", "-k"], "config_file": ["--config"]}
    common |= {name: [f"--{name}"] for name in ("seed", "resume", "epsilon", "delta", "bounds", "ledger", "method")}
    assert all(spellings[name] == option for name, option in common.items() if name in spellings)
    assert all(parameter.help for parameter in command.params)


# ---- completion ----


def completed(*words):
    """What the shell's completion offers after these words, the last of which is being typed."""
    typed = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_RECOUP_COMPLETE": "complete_bash"}
    program = [sys.executable, "-c", "from recoup.cli.app import main; main()"]
    answer = subprocess.run(program, env=os.environ | typed, capture_output=True, text=True, check=False, timeout=60)
    return answer.stdout.split()


@pytest.mark.slow
def test_completion_offers_commands_options_and_values():
    assert {"cluster", "release", "ledger", "report"} <= set(completed("recoup", ""))
    assert completed("recoup", "cluster", "x.csv", "--algorithm", "g") == ["grid", "gupt"]
    assert completed("recoup", "infer", "t.json", "--method", "") == ["maxent", "mcmc", "consistency"]
    # A config file is not read, and a wrong one not complained about, while somebody types.
    assert completed("recoup", "cluster", "--config", "none.toml", "--postp") == ["--postprocess"]
