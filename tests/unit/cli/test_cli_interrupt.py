"""Ctrl-C on a real process: code 130, every file whole or not there, and what was paid for can be continued."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from commands import run

from recoup import Ledger, Transcript

ROUNDS = 3
GIVEN = ("-k", "2", "--epsilon", "1", "--rounds", str(ROUNDS), "--bounds", "age=17:90,hours=1:99", "--ledger", "l.db")
COMMANDS = {
    "cluster": ("cluster", "people.csv", *GIVEN, "--postprocess", "none", "-o", "out"),
    "release": ("release", "people.csv", *GIVEN, "-o", "out/transcript.json"),
}
# The program itself, but it waits at one place, so that the signal arrives exactly there.
PROGRAM = """
import sys, time
import recoup._files
from recoup.cli.progress import Progress

def wait():
    print("here", file=sys.stderr, flush=True)
    for _ in range(1200):  # a signal just before a long sleep would be seen only after it
        time.sleep(0.1)

if sys.argv.pop(1) == "after a round":
    sys.stderr.isatty = lambda: True  # rounds are followed only where somebody is watching
    Progress._show, Progress.finished = lambda self: None, lambda self, n_rounds: wait()
else:
    recoup._files._flush = lambda path: wait()
from recoup.cli.app import main
main()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    rows = np.random.default_rng(0).uniform((17, 1), (90, 99), size=(50, 2))
    np.savetxt("people.csv", rows, delimiter=",", header="age,hours", comments="")
    Ledger.create("l.db", epsilon=1)
    return tmp_path


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def interrupted(place, arguments):
    """Run the program until it waits, press Ctrl-C, and say how it ended."""
    command = [sys.executable, "-c", PROGRAM, place, *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(running.stderr.readline, "")
        assert any(line == "here\n" for line in lines)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "recoup: interrupted; files are whole" in " ".join(err.split())  # which a terminal wraps


@pytest.mark.parametrize("command", COMMANDS)
def test_between_rounds_the_transcript_is_kept_and_continued(folder, command):
    interrupted("after a round", COMMANDS[command])
    assert names(folder) == ["l.db", "out", "out/transcript.json", "people.csv"]
    kept = Transcript.load("out/transcript.json")
    assert len(kept.rounds) == 1
    spent = Ledger("l.db").spent
    assert abs(spent - Fraction(1, ROUNDS)) < Fraction(1, 10**9)
    # Without --resume nothing is overwritten and nothing is paid.
    assert run(*COMMANDS[command]).exit_code == 6
    assert Ledger("l.db").spent == spent
    answer = run(*COMMANDS[command], "--resume", "--json")
    assert answer.exit_code == 0, answer.stderr
    whole = Transcript.load("out/transcript.json")
    assert len(whole.rounds) == ROUNDS
    assert whole.rounds[0].integers == kept.rounds[0].integers
    assert 1 - Fraction(1, 10**9) < Ledger("l.db").spent <= 1
    assert all(path in names(folder) for path in json.loads(answer.stdout)["files"])


@pytest.mark.parametrize("command", COMMANDS)
def test_while_a_file_is_written_no_part_of_it_stays(folder, command):
    interrupted("while writing", COMMANDS[command])
    assert [name for name in names(folder) if not name.startswith("l.db")] == ["out", "people.csv"]
    # The round is announced on disk before it is charged.
    assert Ledger("l.db").spent == 0


def test_during_inference_the_whole_transcript_is_kept(folder, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    given = [word for word in COMMANDS["cluster"] if word not in ("--postprocess", "none")] + [
        "--postprocess",
        "consistency",
    ]
    with monkeypatch.context() as patch:
        patch.setattr("recoup.estimators.base.infer", stop)
        answer = run(*given)
    assert (answer.exit_code, answer.stdout) == (130, "")
    assert names(folder) == ["l.db", "out", "out/transcript.json", "people.csv"]
    spent = Ledger("l.db").spent
    assert run(*given, "--resume").exit_code == 0
    assert "out/centers.csv" in names(folder)
    assert Ledger("l.db").spent == spent


def test_a_sampler_that_was_stopped_gives_its_best_and_says_so(folder, monkeypatch):
    from recoup.estimators import base
    from recoup.inference import infer as module

    whole = module.infer

    def stopped(*arguments, **options):
        found = whole(*arguments, **options | {"n_steps": 50})
        return dataclasses.replace(found, diagnostics=dataclasses.replace(found.diagnostics, interrupted=True))

    monkeypatch.setattr(module, "infer", stopped)
    monkeypatch.setattr(base, "infer", stopped)
    clustered = run(*COMMANDS["cluster"], "--postprocess", "mcmc", "--json")
    inferred = run("infer", "out/transcript.json", "--method", "mcmc", "-o", "inferred", "--json")
    for answer in (clustered, inferred):
        assert answer.exit_code == 130, answer.output
        assert "Interrupted: the centres are of the best data set so far" in answer.stderr
        assert all(path in names(folder) for path in json.loads(answer.stdout)["files"])
    assert json.loads((folder / "inferred" / "diagnostics.json").read_text())["interrupted"] is True
