"""The command line: exit codes, messages, JSON, files; and no record in anything that it says or writes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from commands import all_commands, one_line, run
from pyarrow import parquet

from recoup import Box, Ledger, Transcript, refit
from recoup._files import write_whole
from recoup.cli.output import ExitCode, csv_text, privacy_sentence
from recoup.cli.progress import Progress
from recoup.inference.judge import judge
from recoup.transcript.context import Context
from recoup.version import __version__

BOUNDS = "age=17:90,hours=1:99"
CANARY = "31337.4242"  # inside no bounds; if it shows up anywhere, a record has


@pytest.fixture(autouse=True)
def never_slow(monkeypatch):
    # Progress depends on the clock: a machine that compiles or is busy must not change what is tested here.
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "people.csv"
    rows = [f"{a:.1f},{h:.1f},{CANARY}" for a, h in zip(rng.uniform(17, 90, 200), rng.uniform(1, 99, 200), strict=True)]
    rows += [f"{CANARY},{CANARY},{CANARY}", f"x{CANARY},,", "ragged"]
    path.write_text("age,hours,note\n" + "\n".join(rows) + "\n")
    return path


def clustered(people, *more, epsilon="1", bounds=BOUNDS, k="3"):
    # The last iterate: inference has tests of its own.
    given = ("cluster", people, "-k", k, "--epsilon", epsilon, "--bounds", bounds, "--postprocess", "none")
    return run(*given, *more)


def released(people, *more, epsilon="1", rounds="2"):
    return run("release", people, "-k", "3", "--epsilon", epsilon, "--rounds", rounds, "--bounds", BOUNDS, *more)


# ---- the whole ----


def test_version():
    assert run("--version").stdout == f"recoup {__version__}\n"


def test_the_module_is_the_command():
    answer = subprocess.run([sys.executable, "-m", "recoup", "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout == f"recoup {__version__}\n"


def test_the_help_speaks_of_answers_of_any_kind(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert re.search(r"infer +Infer the data behind transcripts and refit their answers\.", run("--help").stdout)


def test_the_privacy_line_names_every_law_and_not_every_column():
    def line(n_columns, mechanism):
        terms = Context(domain=Box([0] * n_columns, [1] * n_columns), epsilon=1)
        privacy = Transcript(context=terms, algorithm={}, simulated=False).privacy
        return privacy_sentence(privacy | {"mechanism": mechanism})

    assert "; Laplace and Gaussian noise, secure;" in line(1, "laplace and gaussian")
    assert "; Gaussian noise, secure;" in line(1, "gaussian")
    assert "column 6 0 to 1, column 7 0 to 1; Recoup" in line(8, "laplace")
    assert "column 6 0 to 1, and 25 more columns; Recoup" in line(32, "laplace")


@pytest.mark.parametrize("field", ["query", "algorithm"])
def test_types_that_are_not_recoups_are_named_safely(people, tmp_path, field):
    path = tmp_path / "t.json"
    assert released(people, "-o", path).exit_code == 0
    for name, shown in (("my-own", "'my-own'"), ("e\x1b[2J\u202e\n'" + "x" * 500, r"\x1b[2J\u202e\n")):
        value = json.loads(path.read_text())
        if field == "query":
            value["rounds"][0]["query"]["type"] = name
        else:
            value["algorithm"]["type"] = name
        body = {key: item for key, item in value.items() if key != "checksum"}
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        value["checksum"] = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        (tmp_path / "own.json").write_text(json.dumps(value))
        answer = run("infer", tmp_path / "own.json")
        assert answer.exit_code == ExitCode.TRANSCRIPT
        line = one_line(answer)
        assert f"the {field} " in line
        assert shown in line
        assert "is not one of Recoup's: recoup.register the class in Python" in line
        assert line.rstrip("\n").isprintable()
        assert line.isascii()
        assert len(line) < 300


def test_help_groups_the_commands_and_shows_an_example(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run("--help").stdout
    # Panels and the first words of their lines, in the order of the page.
    shown = re.findall(r"^╭─ ([^─]+?) ─|^│ ([a-z]+) ", text, re.MULTILINE)
    listed = [panel or command for panel, command in shown]
    assert listed[listed.index("Start here") :] == [
        *("Start here", "demo"),
        *("For the curator: from the records, within a budget", "plan", "bounds", "incomplete", "cluster", "release"),
        *("compare", "ledger", "serve"),
        *("For the analyst: from a transcript alone, at no cost", "infer", "import", "report"),
        *("verify", "registry"),
        *("Measure Recoup itself", "bench", "audit", "experiment"),
    ]
    # The lines of the groups have no second line.
    assert not re.search(r"^│ {6,}\S", text[text.index("Start here") :], re.MULTILINE)
    # A stranger can copy the example: it is on one line.
    example = next(line for line in text.splitlines() if "recoup cluster" in line)
    assert example.rstrip().endswith("-o out")
    for code in ExitCode:
        assert re.search(rf"\b{code.value} ", text[text.index("Exit codes:") :])


@pytest.mark.parametrize("words", all_commands())
def test_every_command_explains_itself(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    answer = run(*words.split(), "--help")
    assert answer.exit_code == 0
    assert "--json" in answer.stdout
    assert words == "demo" or f"recoup {words} " in answer.stdout.split("Usage:")[1].split("\n", 1)[1]


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from recoup.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'sklearn', 'opendp', 'pyarrow', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


# ---- cluster ----


def test_cluster_prints_centres_inside_the_bounds(people):
    answer = clustered(people, "--json")
    assert answer.exit_code == 0
    value = json.loads(answer.stdout)
    centers = np.array(value["centers"])
    assert value["columns"] == ["age", "hours"]
    assert centers.shape == (3, 2)
    assert ((centers >= [17, 1]) & (centers <= [90, 99])).all()
    assert value["privacy"]["epsilon"] == 1
    assert answer.stderr.startswith("Differentially private: epsilon = 1, delta = 0, for adding or removing one record")


def test_cluster_imports_only_what_it_needs(people):
    given = ["cluster", str(people), "-k", "3", "--epsilon", "1", "--bounds", "age=17:90,hours=1:99"]
    program = (
        "import sys; from recoup.cli.app import app\n"
        f"try: app({given!r})\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'sklearn', 'pandas', 'matplotlib', 'scipy.stats', 'scipy.optimize'} & set(sys.modules)\n"
        "assert 'recoup.curator.curator' in sys.modules\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_cluster_prints_a_table_for_people(people):
    answer = clustered(people)
    assert "3 private centres" in answer.stdout
    assert "hours" in answer.stdout
    assert "private:" not in answer.stdout


def test_a_wide_table_is_not_cut(tmp_path):
    names = [f"a_rather_long_name_{j}" for j in range(12)]
    parquet.write_table(pa.table({name: [0.5] for name in names}), tmp_path / "wide.parquet")
    answer = clustered(tmp_path / "wide.parquet", bounds=",".join(f"{name}=0:1" for name in names))
    assert all(name in answer.stdout for name in names)


def test_names_are_not_markup(tmp_path):
    parquet.write_table(pa.table({"[red]": [0.5]}), tmp_path / "odd.parquet")
    assert "[red]" in clustered(tmp_path / "odd.parquet", bounds="[red]=0:1").stdout


def test_cluster_writes_both_files_and_they_agree(people, tmp_path):
    answer = clustered(people, "-o", tmp_path / "new" / "out", "--json")
    folder = tmp_path / "new" / "out"
    assert sorted(p.name for p in folder.iterdir()) == ["centers.csv", "transcript.json"]
    written = np.loadtxt(folder / "centers.csv", delimiter=",", skiprows=1)
    assert written.tolist() == json.loads(answer.stdout)["centers"]
    assert len(Transcript.load(folder / "transcript.json").rounds) == 5


def test_what_was_paid_for_is_not_overwritten(people, tmp_path):
    assert clustered(people, "-o", tmp_path / "out").exit_code == 0
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5)
    answer = clustered(people, "-o", tmp_path / "out", "--ledger", tmp_path / "l.db")
    assert answer.exit_code == 6
    assert "exists and was paid for" in one_line(answer)
    assert ledger.spent == 0


def test_a_folder_that_cannot_be_made_costs_nothing(people, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5)
    (tmp_path / "file").write_text("")
    answer = clustered(people, "-o", tmp_path / "file" / "out", "--ledger", tmp_path / "l.db")
    assert answer.exit_code == 2
    assert "cannot be made" in one_line(answer)
    assert ledger.spent == 0


def test_simulated_noise_repeats_and_is_marked_everywhere(people, tmp_path):
    first = clustered(people, "--simulated-noise", "--seed", "7", "-o", tmp_path / "out")
    again = clustered(people, "--simulated-noise", "--seed", "7")
    assert first.stdout == again.stdout
    for text in (first.stdout, first.stderr, (tmp_path / "out" / "centers.csv").read_text()):
        assert "NOT PRIVATE" in text
    assert "NOT PRIVATE" in clustered(people, "--simulated-noise", "--json").stdout
    assert Transcript.load(tmp_path / "out" / "transcript.json").simulated


def test_a_seed_does_not_reach_secure_noise(people):
    assert clustered(people, "--seed", "7").stdout != clustered(people, "--seed", "7").stdout


def test_gaussian_noise_and_other_choices(people):
    answer = clustered(
        people, "--delta", "1e-6", "--domain", "l2", "--rounds", "3", "--records-per-person", "2", "--n-records", "200",
        "--algorithm", "lloyd", "--json",
    )  # fmt: skip
    privacy = json.loads(answer.stdout)["privacy"]
    assert (privacy["mechanism"], privacy["domain"], privacy["delta"]) == ("gaussian", "l2", 1e-6)
    assert privacy["unit"] == "2 records of one person"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bounds": "age=90:17"}, "smaller than the upper"),
        ({"bounds": "age=17:17"}, "smaller than the upper"),
        ({"bounds": "age=17:inf"}, "must be finite"),
        ({"bounds": "age=17"}, "name=low:high"),
        ({"bounds": "age=a:b"}, "in numbers"),
        ({"bounds": "age=1:2,age=1:2"}, "twice"),
        ({"bounds": ""}, "no bounds were declared"),
        ({"bounds": "nowhere.json"}, "no such file"),
        ({"epsilon": "0"}, "greater than zero"),
        ({"epsilon": "-1"}, "greater than zero"),
        ({"epsilon": "nan"}, "finite"),
        ({"epsilon": "much"}, "must be a number"),
        ({"k": "0"}, "at least 1"),
        ({"k": str(10**9)}, "can be represented"),
    ],
)
def test_bad_input_is_2_with_one_clear_line(people, change, words):
    answer = clustered(people, **change)
    assert answer.exit_code == 2
    assert words in one_line(answer)


@pytest.mark.parametrize(
    "more",
    [("--delta", "1"), ("--delta", "-1"), ("--rounds", "0"), ("--n-records", "0"), ("--records-per-person", "0")],
)  # fmt: skip
def test_bad_choices_are_2(people, more):
    answer = clustered(people, *more)
    assert answer.exit_code == 2
    one_line(answer)


def test_missing_bounds_say_what_to_do(people):
    answer = run("cluster", people, "-k", "2", "--epsilon", "1")
    assert answer.exit_code == 2
    assert "--bounds age=17:90" in one_line(answer)


# ---- release, ledger ----


def test_release_saves_resumes_and_pays_once(people, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    more = ("-o", tmp_path / "t.json", "--ledger", tmp_path / "l.db")
    answer = released(people, *more, "--json")
    assert answer.exit_code == 0
    value = json.loads(answer.stdout)
    assert [round(r["price"], 9) for r in value["rounds"]] == [0.5, 0.5]
    assert [(r["n_cells"], r["measure"]) for r in value["rounds"]] == [(3, "pure")] * 2
    assert [r["sum_scale"] / r["count_scale"] for r in value["rounds"]] == pytest.approx([2.0] * 2)
    spent = ledger.spent
    assert 0.999999999 < spent <= 1
    again = released(people, *more)
    assert again.exit_code == 6
    assert "Continue it with --resume, or" in one_line(again)
    resumed = released(people, *more, "--resume")
    assert resumed.exit_code == 0
    assert "2 rounds" in resumed.stdout
    assert ledger.spent == spent
    other = released(people, *more, "--resume", epsilon="0.5")
    assert other.exit_code == 6
    assert "other terms" in one_line(other)


def test_a_ledger_that_is_too_small_is_3_and_nothing_happens(people, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=0.5)
    for answer in (
        clustered(people, "--ledger", tmp_path / "l.db"),
        released(people, "-o", tmp_path / "t.json", "--ledger", tmp_path / "l.db"),
    ):
        assert answer.exit_code == 3
        assert "0.5 is left" in one_line(answer)
    assert ledger.spent == 0
    assert not (tmp_path / "t.json").exists()


def test_ledger_commands(people, tmp_path):
    path = tmp_path / "l.db"
    assert run("ledger", "create", path, "--epsilon", "0.3").exit_code == 0
    assert run("ledger", "create", path, "--epsilon", "0.3").exit_code == 5
    for _ in range(3):
        more = ("--ledger", path, "--rounds", "1", "--purpose", "opening hours")
        assert clustered(people, *more, epsilon="0.1").exit_code == 0
    assert clustered(people, "--ledger", path, "--rounds", "1", epsilon="0.1").exit_code == 3
    shown = run("ledger", "show", path)
    assert "spent 0.3, left 0" in shown.stdout
    assert shown.stdout.count("opening hours") == 3
    assert shown.stdout.count("voronoi query") == 0
    assert run("ledger", "show", path, "--rounds").stdout.count("voronoi query") == 3
    value = json.loads(run("ledger", "show", path, "--json").stdout)
    assert len(value["entries"]) == 3
    assert value["spent"] == pytest.approx(0.3)
    exported = json.loads(run("ledger", "export", path).stdout)
    assert exported["epsilon"] == "3/10"
    assert run("ledger", "export", path, "-o", tmp_path / "l.json").stdout == ""
    assert json.loads((tmp_path / "l.json").read_text()) == exported
    new = tmp_path / "new" / "l.json"
    both = json.loads(run("ledger", "export", path, "-o", new, "--json").stdout)
    assert both.pop("files") == [str(new)]
    assert both == json.loads(new.read_text()) == exported
    assert run("ledger", "create", tmp_path / "m.db", "--epsilon", "-3").exit_code == 2


def test_one_is_not_plural(people, tmp_path):
    Ledger.create(tmp_path / "l.db", epsilon=5)
    more = ("--ledger", tmp_path / "l.db")
    texts = [
        clustered(people, *more, "--algorithm", "grid", k="1").stdout,
        released(people, "-o", tmp_path / "t.json", *more, rounds="1").stdout,
        run("infer", tmp_path / "t.json", "-k", "1", "--method", "consistency").stdout,
        run("plan", "--columns", "1", "-k", "1", "--epsilon", "1", "--rounds", "1", "--n-records", "1").output,
    ]
    for text, words in zip(texts, ("1 private centre\n", ": 1 round,", "1 centre by", "1 round of"), strict=True):
        assert words in text
    purposes = [entry.purpose for entry in Ledger(tmp_path / "l.db").entries()]
    assert any(purpose.endswith("query of 1 value") for purpose in purposes)
    assert not any(re.search(r"\b1 \w+s\b", text) for text in (*texts, *purposes))


# ---- nothing about records ----


def test_no_record_appears_in_anything(people, tmp_path):
    before = set(tmp_path.rglob("*"))
    Ledger.create(tmp_path / "l.db", epsilon=100)
    more = ("--ledger", tmp_path / "l.db")
    answers = [
        clustered(people, "-o", tmp_path / "out", *more),
        clustered(people, "--json", *more),
        released(people, "-o", tmp_path / "t.json", *more),
        released(people, "-o", tmp_path / "t.json", "--resume", "--json", *more),
        run("ledger", "show", tmp_path / "l.db"),
        clustered(people, bounds="nothing=0:1"),
    ]
    texts = [answer.output for answer in answers]
    texts += [p.read_bytes().decode("latin-1") for p in set(tmp_path.rglob("*")) - before if p.is_file()]
    assert len(texts) > 6
    assert not any(CANARY in text for text in texts)


def test_an_empty_table_is_answered_like_any_other(people, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("age,hours,note\n")
    full, none = (
        clustered(people, "--json", "-o", tmp_path / "full"),
        clustered(empty, "--json", "-o", tmp_path / "none"),
    )
    assert none.exit_code == full.exit_code == 0
    assert none.stderr.replace("/none/", "/full/").splitlines()[:-1] == full.stderr.splitlines()[:-1]
    assert json.loads(none.stdout)["privacy"] == json.loads(full.stdout)["privacy"]
    # The verdict differs, by noisy counts that were paid for: whoever has the transcript can say the same.
    for name, answer in (("full", full), ("none", none)):
        transcript = Transcript.load(tmp_path / name / "transcript.json")
        verdict = judge(transcript, None, refit(transcript))
        assert answer.stderr.splitlines()[-1] == f"{verdict.sentence} {verdict.rests_on}"


# ---- progress and files ----


def test_quick_work_is_silent(capsys):
    with Progress(n_rounds=3) as progress:
        progress.finished(1)
    assert capsys.readouterr().err == ""


def test_files_are_whole_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_whole(path, "old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_csv_reads_back_to_the_same_numbers():
    assert csv_text(["a"], [[0.1 + 0.2]], comment="note") == "# note\na\n0.30000000000000004\n"
    assert csv_text(["a, b"], [[0.1]]) == '"a, b"\n0.1\n'


# ---- as a program ----


def program(*arguments, **options):
    command = [sys.executable, "-m", "recoup.cli.app", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


@pytest.mark.slow
def test_the_program_keeps_results_and_messages_apart(people):
    given = ("-k", "2", "--epsilon", "1", "--bounds", BOUNDS, "--postprocess", "none", "--json")
    answer = program("cluster", people, *given)
    assert answer.returncode == 0
    assert len(json.loads(answer.stdout)["centers"]) == 2
    wrong = program("cluster", people, "-k", "2", "--epsilon", "nan", "--bounds", BOUNDS)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Traceback" not in wrong.stderr
