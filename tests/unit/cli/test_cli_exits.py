"""Exit codes: one for each kind of trouble, with one line in the command line's own words."""

from __future__ import annotations

import errno
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from commands import run

from recoup import Ledger
from recoup._random import seed_for
from recoup.cli import options
from recoup.cli.output import MEANINGS, ExitCode, code_of, in_words_of_commands
from recoup.errors import (
    Argument,
    FileInUseError,
    ParameterError,
    RecoupError,
    SparkError,
    TranscriptVersionError,
    UnknownColumnError,
)
from recoup.transcript.transcript import FORMAT

PAGE = Path(__file__).parents[3] / "docs" / "commandline.md"
BOUNDS = ("--bounds", "age=17:90,hours=1:99")
CANARY = "31337.4242"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    monkeypatch.delenv("RECOUP_DEBUG", raising=False)
    rows = np.random.default_rng(0).uniform((17, 1), (90, 99), size=(50, 2))
    np.savetxt("people.csv", rows, delimiter=",", header="age,hours", comments="")
    return tmp_path


def clustered(*more):
    return run("cluster", "people.csv", "-k", "2", "--epsilon", "1", *BOUNDS, "--postprocess", "none", *more)


def released(*more):
    return run("release", "people.csv", "-k", "2", "--epsilon", "1", "--rounds", "2", *BOUNDS, *more)


def one_line(answer, code):
    assert answer.exit_code == code, answer.output
    assert answer.stdout == ""
    assert answer.stderr.startswith("recoup: ")
    assert answer.stderr.count("\n") == 1
    # No message speaks Python.
    assert not re.search(
        r"[a-z]_[a-z]+=|\"auto\"|Ledger\(|Ledger\.|=True|\bNone\b|random_state|n_clusters", answer.stderr
    )
    return answer.stderr


def test_the_documentation_lists_exactly_these_codes():
    section = PAGE.read_text().split("## Exit codes")[1].split("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == [
        code.value for code in ExitCode
    ]
    assert list(MEANINGS) == list(ExitCode)


def test_done_is_0():
    assert clustered("--rounds", "1").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("cluster",),
        ("nothing",),
        ("plan", "--columns", "x"),
        ("cluster", "a.csv", "-k", "2", "--wrong"),
        ("cluster", "people.csv", "-k", "2", "--epsilon", "1", *BOUNDS, "--algorithm", "magic"),
        ("cluster", "people.csv", "-k", "2", "--epsilon", "1", *BOUNDS, "--postprocess", "magic"),
        ("cluster", "people.csv", "-k", "2", "--epsilon", "1", *BOUNDS, "--seed", "-1"),
        ("infer", "t.json", "--seed", "-1"),
    ],
)
def test_wrong_usage_is_2(arguments):
    answer = run(*arguments)
    assert answer.exit_code == ExitCode.USAGE == 2
    assert answer.stdout == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("-k", "0"), "--clusters 0: give a whole number"),
        (("--rounds", "0"), "--rounds 0: give a whole number"),
        (("--n-records", "0"), "--n-records 0: give a whole number"),
        (("--records-per-person", "0"), "--records-per-person 0: give"),
        (("--algorithm", "adaptive", "--rounds", "3"), "leave out --rounds"),
        (("--algorithm", "grid", "--postprocess", "consistency"), "--postprocess consistency reads DP-KMEANS only"),
        (("--algorithm", "gupt", "--rounds", "3"), "leave out --rounds"),
        (("--algorithm", "gupt", "--delta", "1e-6"), "leave out --delta"),
        (("--algorithm", "gupt", "--postprocess", "maxent"), "leave out --postprocess"),
        (("--algorithm", "privgene", "--resume", "-o", "out"), "nothing to resume"),
        (("--resume",), "name it with -o"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_2_in_the_words_of_the_command_line(more, words):
    assert words in one_line(clustered(*more), ExitCode.USAGE)


def test_a_folder_is_no_transcript(folder):
    assert "is a folder" in one_line(released("-o", "."), ExitCode.USAGE)


def test_a_budget_that_is_too_small_is_3(folder):
    Ledger.create("l.db", epsilon=0.5)
    assert "0.5 is left" in one_line(clustered("--ledger", "l.db"), 3)
    assert "0.5 is left" in one_line(released("--ledger", "l.db"), 3)


def test_data_that_cannot_be_read_are_4(folder):
    (folder / "broken.parquet").write_text(f"PAR1 {CANARY}")
    (folder / "kind.xyz").write_text(CANARY)
    for path in ("nowhere.csv", "broken.parquet", "kind.xyz"):
        line = one_line(run("cluster", path, "-k", "2", "--epsilon", "1", *BOUNDS), 4)
        assert CANARY not in line
    line = one_line(run("cluster", "people.csv", "-k", "2", "--epsilon", "1", "--bounds", "height=1:2"), 4)
    assert "no column 'height'" in line


def test_a_ledger_that_cannot_be_used_is_5_and_says_which_command_helps(folder):
    (folder / "text.db").write_text("not a ledger" * 100)
    (folder / "empty.db").write_text("")
    make = "Make one with: recoup ledger create 'my budgets/l.db' --epsilon 3"
    path = "my budgets/l.db"
    for answer in (clustered("--ledger", path), released("--ledger", path), run("ledger", "show", path)):
        assert make in one_line(answer, 5)
    assert make in one_line(run("ledger", "export", path), 5)
    for path in ("text.db", "empty.db"):
        for answer in (clustered("--ledger", path), run("ledger", "show", path), run("ledger", "export", path)):
            one_line(answer, 5)
    assert "recoup ledger create" in one_line(run("ledger", "show", "empty.db"), 5)
    assert run("ledger", "create", "new/l.db", "--epsilon", "1").exit_code == 0
    again = one_line(run("ledger", "create", "new/l.db", "--epsilon", "1"), 5)
    assert "Look at it with: recoup ledger show new/l.db" in again


def test_gaussian_noise_needs_a_ledger_with_a_delta(folder):
    Ledger.create("l.db", epsilon=3)
    line = one_line(clustered("--ledger", "l.db", "--delta", "1e-6", "--algorithm", "lloyd"), 2)
    assert "recoup ledger create PATH --epsilon 3 --delta 1e-6" in line


def test_a_transcript_that_cannot_be_used_is_6(folder):
    (folder / "other.json").write_text("{}")
    for path in ("nowhere.json", "other.json"):
        one_line(run("infer", path), 6)
    assert released("-o", "t.json").exit_code == 0
    assert "Continue it with --resume" in one_line(released("-o", "t.json"), 6)
    assert "other terms" in one_line(released("-o", "t.json", "--resume", "--epsilon", "2"), 6)
    assert clustered("--rounds", "1", "-o", "out").exit_code == 0
    assert "--resume" in one_line(clustered("--rounds", "1", "-o", "out"), 6)


def test_nothing_is_resumed_that_is_not_there(folder):
    ledger = Ledger.create("l.db", epsilon=3)
    for answer in (
        clustered("--resume", "-o", "out", "--ledger", "l.db"),
        released("--resume", "-o", "new/t.json", "--ledger", "l.db"),
    ):
        assert "leave out --resume to begin" in one_line(answer, 6)
    assert ledger.spent == 0
    assert sorted(path.name for path in folder.iterdir()) == ["l.db", "people.csv"]


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RuntimeError(f"could not convert {CANARY}"), 1, "internal error (RuntimeError)"),
        (OSError(f"no number, {CANARY}"), 1, "internal error (OSError)"),
        (OSError(errno.ENOSPC, CANARY, CANARY), 7, "No space left on device"),
        (PermissionError(errno.EACCES, CANARY, f"year={CANARY}"), 7, "Permission denied"),
    ],
)
def test_what_nobody_foresaw_is_told_without_quoting_it(folder, monkeypatch, error, code, words):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("recoup.estimators.base.release", broken)
    line = one_line(released("-o", "t.json"), code)
    assert words in line
    assert CANARY not in line


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that nobody can write to")
def test_a_folder_that_the_system_keeps_to_itself_is_7():
    assert released("-o", "t.json").exit_code == 0
    for path in ("/proc/nope", "/proc/nope/deeper"):
        for answer in (
            clustered("-o", path),
            released("-o", path),
            run("infer", "t.json", "--method", "consistency", "-o", path),
            run("report", "t.json", "--method", "none", "-o", path),
            run("ledger", "create", path, "--epsilon", "1"),
        ):
            assert "/proc" in one_line(answer, 7)


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 7), (errno.EACCES, 7), (errno.ENOENT, 5)])
def test_a_ledger_that_the_system_refuses_to_make_is_7(monkeypatch, number, code):
    def refused(*_, **__):
        raise OSError(number, "refused")

    monkeypatch.setattr("recoup.privacy.ledger.appearing", refused)
    one_line(run("ledger", "create", "l.db", "--epsilon", "1"), code)


def test_an_empty_path_is_not_the_current_folder():
    answer = run("cluster", "", "-k", "2", "--epsilon", "1", *BOUNDS)
    assert answer.exit_code == 2
    assert "path is empty" in answer.stderr


# ---- what was paid for is never replaced ----


def kept(path, answer, code):
    """The answer refuses, and the file is as it was."""
    before = Path(path).read_bytes()
    line = one_line(answer(), code)
    assert Path(path).read_bytes() == before
    return line


def test_no_output_replaces_a_ledger_or_a_transcript(folder):
    Ledger.create("l.db", epsilon=3)
    assert released("-o", "t.json", "--ledger", "l.db").exit_code == 0
    (folder / "same.db").symlink_to("l.db")
    for path in ("l.db", "same.db"):
        assert "is a ledger" in kept("l.db", lambda path=path: run("ledger", "export", "l.db", "-o", path), 5)
        assert "is a ledger" in kept("l.db", lambda path=path: run("report", "t.json", "-o", path), 5)
    assert "is a transcript" in kept("t.json", lambda: run("report", "t.json", "-o", "t.json"), 6)
    assert "is a transcript" in kept("t.json", lambda: run("ledger", "export", "l.db", "-o", "t.json"), 6)
    # Another program may have written the same transcript in another order.
    value = json.loads((folder / "t.json").read_text())
    (folder / "t.json").write_text(json.dumps(dict(reversed(value.items()))))
    assert "is a transcript" in kept("t.json", lambda: run("report", "t.json", "-o", "t.json"), 6)
    # What costs nothing is written again without a word.
    for _ in range(2):
        assert run("ledger", "export", "l.db", "-o", "l.json").exit_code == 0
        assert run("report", "t.json", "-o", "r.html", "--method", "none", "--no-intervals").exit_code == 0


def test_no_output_replaces_what_the_command_reads(folder):
    assert released("-o", "t.json").exit_code == 0
    (folder / "run.toml").write_text('transcript = "t.json"')
    assert "also what is read" in kept("run.toml", lambda: run("report", "--config", "run.toml", "-o", "run.toml"), 2)
    (folder / "t.json").rename("answers.json")
    assert "is a transcript" in kept("answers.json", lambda: run("infer", "answers.json", "-o", "."), 6)


def test_inference_leaves_the_centres_of_others_alone(folder):
    assert released("-o", "t.json").exit_code == 0
    assert clustered("--algorithm", "gupt", "--postprocess", "auto", "-o", "gg").exit_code == 0
    infer = ("infer", "t.json", "--method", "consistency", "-o")
    assert "choose another folder" in kept("gg/centers.csv", lambda: run(*infer, "gg"), 6)
    assert [run(*infer, "own").exit_code for _ in range(2)] == [0, 0]


def test_the_mark_of_a_transcript_is_its_format():
    assert json.loads(options._TRANSCRIPT_MARK) == FORMAT


def test_an_interruption_is_130(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("recoup.estimators.base.release", interrupted)
    assert "interrupted" in one_line(released("-o", "t.json"), 130)


def test_the_family_of_an_error_decides():
    families = {UnknownColumnError("a"): 4, SparkError("a"): 4, TranscriptVersionError("a"): 6, FileInUseError("a"): 6}
    assert {error: code_of(error) for error in families} == families


@pytest.mark.parametrize(
    ("parts", "python", "command"),
    [
        (("t.json exists. Continue it with ", Argument("resume", "True"), "."),
         "t.json exists. Continue it with resume=True.", "t.json exists. Continue it with --resume."),
        (("declare ", Argument("n_records"), "."), "declare n_records.", "declare --n-records."),
        (("with ", Argument("delta", "0"), " use Laplace noise"),
         "with delta=0 use Laplace noise", "with --delta 0 use Laplace noise"),
        ((Argument("epsilon", "0.5"), ": too small"), "epsilon=0.5: too small", "--epsilon 0.5: too small"),
        ((Argument("algorithm", '"lloyd"'), " or ", Argument("method", "'mcmc'")),
         "algorithm=\"lloyd\" or method='mcmc'", "--algorithm lloyd or --method mcmc"),
        ((Argument("n_chains"), " ", Argument("n_clusters"), " ", Argument("n_rounds"), " ", Argument("n_steps")),
         "n_chains n_clusters n_rounds n_steps", "--chains --clusters --rounds --steps"),
    ],
)  # fmt: skip
def test_arguments_are_data_that_each_face_spells(parts, python, command):
    for error in (ParameterError(*parts), pickle.loads(pickle.dumps(ParameterError(*parts)))):
        assert str(error) == python
        assert in_words_of_commands(error) == command
        assert error.parameter == next(part.name for part in parts if isinstance(part, Argument))


def refused_by(function, *arguments, **named):
    with pytest.raises(RecoupError) as refused:
        function(*arguments, **named)
    return str(refused.value), in_words_of_commands(refused.value)


def test_what_the_library_advises_has_its_command(folder):
    python, command = refused_by(Ledger, "a.db")
    assert 'Make one with Ledger.create("a.db", epsilon=3).' in python
    assert "Make one with recoup ledger create a.db --epsilon 3." in command
    Path("empty.db").write_text("")
    python, command = refused_by(Ledger, "empty.db")
    assert "or make one with Ledger.create." in python
    assert "or make one with recoup ledger create." in command
    python, command = refused_by(seed_for, "x")
    assert python == "random_state must be a whole number of at least 0, a Generator, or None."
    assert command == "--seed must be a whole number of at least 0."


@pytest.mark.parametrize(
    "text",
    [
        "There is no column 'n_records'. The columns are 'n_rounds', 'a'.",
        "domain=us/part-0.parquet cannot be read.",
        "/data/method=x/n_rounds/part.parquet is damaged.",
        "the algorithm chooses its own domain, whatever epsilon is.",
    ],
)
def test_names_that_are_the_users_own_stay(text):
    assert in_words_of_commands(RecoupError(text)) == text
