"""Running an experiment: what is finished is never repeated, whatever kills it; methods and sets can be added."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from recoup._files import exclusive
from recoup.algorithms.registry import choices
from recoup.cli.app import app
from recoup.errors import DataError, FileInUseError, ParameterError
from recoup_lab.commands import experiment as command
from recoup_lab.experiments import METHODS, SETS, Plan, run_experiment
from recoup_lab.experiments.methods import known_methods
from recoup_lab.experiments.results import read_results, write_results
from recoup_lab.experiments.runner import RUNS_FILE, finished_runs, load_extension

# What the documentation shows: one entry for a set, one function for a method. Each call leaves a line in a log.
EXTENSION = """
import os, time
from recoup_lab.experiments import DataSet, add_set, method
from recoup.demo import gaussian_blobs

def few_blobs():
    return gaussian_blobs(n_records=300)

add_set(DataSet(name="few", title="Few blobs", n_records=300, n_columns=2, n_clusters=15, make=few_blobs))

@method("middle", "one place", metrics=["user"])
def middle(run):
    run.charge_all("nothing was asked")
    with open({log!r}, "a") as log:
        log.write(f"{{run.epsilon}} {{run.seed}} {{os.getpid()}}\\n")
    time.sleep({seconds})
    return run.from_unit([[0.0, 0.0]] * run.n_clusters)

@method("dies", "dies", metrics=["user"])
def dies(run):
    os._exit(1)

@method("fails", "fails", metrics=["user"])
def fails(run):
    raise RuntimeError("of the method")
"""


@pytest.fixture
def extension(tmp_path):
    """Writes the file, and takes its entries off the lists afterwards."""
    sets, methods, modules = dict(SETS), dict(METHODS), set(sys.modules)

    def write(seconds=0.0, name="extension.py"):
        path = tmp_path / name
        path.write_text(EXTENSION.format(log=str(tmp_path / "log"), seconds=seconds))
        return path

    yield write
    for registry, before in ((SETS, sets), (METHODS, methods)):
        registry.clear()
        registry.update(before)
    for name in set(sys.modules) - modules:
        if name.startswith("recoup_extension_"):
            del sys.modules[name]


def plan_of(path, names=("middle",), **changes):
    load_extension(path)
    given = {
        "sets": (SETS["few"],),
        "methods": tuple(METHODS[name] for name in names),
        "epsilons": (Fraction("0.1"), Fraction(1)),
        "n_seeds": 2,
        "extensions": (path,),
    }
    return Plan(**(given | changes))


def calls(tmp_path):
    path = tmp_path / "log"
    return [tuple(line.split()) for line in path.read_text().splitlines()] if path.exists() else []


def test_an_added_set_and_method_take_part(tmp_path, extension):
    plan = plan_of(extension(), ("middle", "dpkm", "non-private", "data-free"))
    seen = []
    before = dict(os.environ)
    outcome = run_experiment(plan, tmp_path / "out", n_processes=1, on_progress=lambda *at: seen.append(at))
    assert not outcome.failures
    assert dict(os.environ) == before
    found = {(r.metric, r.method, r.epsilon, r.seed) for r in outcome.results}
    expected = {("user", "middle", e, s) for e in (0.1, 1.0) for s in (0, 1)}
    expected |= {(m, "dpkm", e, s) for m in ("paper", "user") for e in (0.1, 1.0) for s in (0, 1)}
    expected |= {(m, "data-free", None, s) for m in ("paper", "user") for s in (0, 1)}
    expected |= {(m, "non-private", None, 0) for m in ("paper", "user")}
    assert found == expected
    assert seen[0] == (0, len(expected))
    assert seen[-1] == (len(expected), len(expected))
    by = {r.method: r for r in outcome.results if r.metric == "user" and r.epsilon in (None, 1.0)}
    assert by["middle"].wcss > by["non-private"].wcss
    assert by["middle"].source == "generated"


def test_finished_runs_are_not_repeated(tmp_path, extension):
    path = extension()
    first = run_experiment(plan_of(path, n_seeds=1), tmp_path / "out", n_processes=1)
    assert (len(first.results), first.n_reused) == (2, 0)
    second = run_experiment(plan_of(path, n_seeds=3), tmp_path / "out", n_processes=1)
    assert (len(second.results), second.n_reused) == (6, 2)
    assert len(calls(tmp_path)) == len(set(calls(tmp_path))) == 6
    smaller = run_experiment(plan_of(path, n_seeds=1), tmp_path / "out", n_processes=1)
    assert (len(smaller.results), len(smaller.everything)) == (2, 6)


def test_runs_of_another_version_or_table_do_not_count(tmp_path, extension, monkeypatch):
    path = extension()
    run_experiment(plan_of(path), tmp_path / "out", n_processes=1)
    store = tmp_path / "out" / RUNS_FILE
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    for name in ("recoup", "digest"):
        changed = [line | {name: "other"} for line in lines]
        store.write_text("".join(json.dumps(line) + "\n" for line in changed))
        assert run_experiment(plan_of(path), tmp_path / "out", n_processes=1).n_reused == 0


def test_a_failing_method_does_not_stop_the_others_and_is_tried_again(tmp_path, extension):
    plan = plan_of(extension(), ("fails", "middle"))
    for _ in range(2):
        outcome = run_experiment(plan, tmp_path / "out", n_processes=1)
        assert len(outcome.failures) == 4
        assert {r.method for r in outcome.results} == {"middle"}
    assert len(calls(tmp_path)) == 4


PROGRAM = """
import sys
from fractions import Fraction
from pathlib import Path
from recoup_lab.experiments import METHODS, SETS, Plan, run_experiment
from recoup_lab.experiments.runner import load_extension

if __name__ == "__main__":
    extension, out = map(Path, sys.argv[1:])
    load_extension(extension)
    plan = Plan(sets=(SETS["few"],), methods=(METHODS["middle"],), epsilons=(Fraction("0.1"), Fraction(1)),
                n_seeds=6, extensions=(extension,))
    run_experiment(plan, out, n_processes=2)
"""


def started(tmp_path, path, n_calls):
    """A real experiment of 12 runs in processes of its own, which has begun this many runs."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(path), str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    limit = time.monotonic() + 120
    while len(calls(tmp_path)) < n_calls:
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < limit
        time.sleep(0.02)
    return process


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for_the_end_of(pids):
    limit = time.monotonic() + 60
    while any(map(alive, pids)):
        assert time.monotonic() < limit, "a worker outlived its parent"
        time.sleep(0.05)


def check_that_the_rest_is_done_once(tmp_path, path):
    finished = {(f"{Fraction(str(r.epsilon))}", str(r.seed)) for r in finished_runs(tmp_path / "out")}
    assert 0 < len(finished) < 12
    (tmp_path / "log").unlink()
    outcome = run_experiment(plan_of(path, n_seeds=6), tmp_path / "out", n_processes=1)
    assert outcome.n_reused == len(finished)
    assert len(outcome.results) == 12
    again = [(epsilon, seed) for epsilon, seed, _ in calls(tmp_path)]
    assert len(again) == len(set(again)) == 12 - len(finished)
    assert not finished & set(again)


def test_after_kill_9_the_rest_is_done_and_nothing_finished_is_repeated(tmp_path, extension):
    path = extension(0.3)
    process = started(tmp_path, path, 5)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    workers = {int(pid) for *_, pid in calls(tmp_path)}
    assert 1 <= len(workers) <= 2  # a busy machine may start the second when all is done
    assert process.pid not in workers
    wait_for_the_end_of(workers)
    assert len(finished_runs(tmp_path / "out")) >= 3  # all but the two at work
    check_that_the_rest_is_done_once(tmp_path, path)


@pytest.mark.slow
def test_after_ctrl_c_the_rest_is_done_and_nothing_finished_is_repeated(tmp_path, extension):
    path = extension(0.6)  # long enough for a busy machine not to finish before the signal
    process = started(tmp_path, path, 5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert errors.decode().count("KeyboardInterrupt") == 1
    wait_for_the_end_of({int(pid) for *_, pid in calls(tmp_path)})
    # A run that was begun was finished and kept.
    assert len(finished_runs(tmp_path / "out")) == len(calls(tmp_path))
    check_that_the_rest_is_done_once(tmp_path, path)


def test_a_worker_that_dies_is_reported_and_finished_runs_are_kept(tmp_path, extension):
    answer = run_few(extension(), tmp_path / "out", "--methods", "middle,dies", "--processes", 2)
    assert answer.exit_code == 1
    assert "a worker process was killed" in answer.stderr.splitlines()[-1]
    assert {r.method for r in finished_runs(tmp_path / "out")} == {"middle"}
    assert {r.method for r in read_results(tmp_path / "out" / "runs.csv")} == {"middle"}


def test_two_experiments_never_share_a_folder(tmp_path, extension):
    plan = plan_of(extension())
    (tmp_path / "out").mkdir()
    with exclusive(tmp_path / "out" / RUNS_FILE), pytest.raises(FileInUseError):
        run_experiment(plan, tmp_path / "out", n_processes=1)


def test_a_plan_needs_something_of_everything(extension):
    path = extension()
    for changes in ({"sets": ()}, {"methods": ()}, {"epsilons": ()}, {"metrics": ()}, {"n_seeds": 0}):
        with pytest.raises(ParameterError):
            plan_of(path, **changes)


def test_names_are_taken_once(tmp_path, extension):
    load_extension(extension())
    with pytest.raises(ParameterError, match="'few' already"):
        load_extension(extension(name="copy.py"))
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    with pytest.raises(ParameterError, match=r"broken\.py cannot be loaded: ModuleNotFoundError"):
        load_extension(tmp_path / "broken.py")
    with pytest.raises(ParameterError, match="not a Python file"):
        load_extension(tmp_path / "missing.py")


def test_a_folder_without_the_sets_is_refused_before_anything_runs(tmp_path, extension):
    plan = plan_of(extension(), data=tmp_path)
    with pytest.raises(DataError, match=r"holds none of few.csv.gz"):
        run_experiment(plan, tmp_path / "out")
    assert calls(tmp_path) == []


# ---- the command ----


def run(*arguments):
    return CliRunner().invoke(app, ["experiment", "paper", *map(str, arguments)])


def run_few(path, out, *more):
    few = ("--sets", "few", "--epsilons", "0.1, 1", "--seeds", 2, "--processes", 1, "--extend", path, "-o", out)
    return run(*few, *more)


def test_the_command_writes_everything_and_prints_a_summary(tmp_path, extension):
    out = tmp_path / "out"
    answer = run_few(extension(), out, "--methods", "dpkm,maxent,middle,non-private,data-free", "--json")
    assert answer.exit_code == 0, answer.output
    value = json.loads(answer.stdout)
    assert value["statement"].startswith("NOT PRIVATE")
    assert value["failed"] == []
    assert {"set", "metric", "method", "epsilon", "wcss", "standard_error"} <= set(value["scores"][0])
    names = {"runs.csv", "runs.parquet", "tables.md", "index.html", "wcss-paper-metric.png", "wcss-user-metric.png"}
    assert {os.path.basename(name) for name in value["files"]} == names
    assert names | {RUNS_FILE} == {path.name for path in out.iterdir()}
    assert "every set is generated" in answer.stderr
    assert "0 of them from before" in answer.stderr


def test_the_command_draws_stored_runs_again_without_running(tmp_path, extension):
    path, out = extension(), tmp_path / "out"
    first = run_few(path, out, "--methods", "middle,dpkm,non-private", "--json")
    n_calls = len(calls(tmp_path))
    for name in ("runs.csv", "runs.parquet"):
        again = run("--from", out / name, "--extend", path, "-o", tmp_path / "again", "--json")
        assert again.exit_code == 0, again.output
        assert json.loads(again.stdout)["scores"] == json.loads(first.stdout)["scores"]
        assert (tmp_path / "again" / "tables.md").read_text() == (out / "tables.md").read_text()
    assert len(calls(tmp_path)) == n_calls


def test_the_command_prints_tables_for_people(tmp_path, extension):
    answer = run_few(extension(), tmp_path / "out", "--methods", "middle,dpkm,avg2", "--metrics", "paper")
    assert answer.exit_code == 0, answer.output
    assert "Few blobs (generated)" in answer.stdout
    assert "The same transcripts" in answer.stdout
    assert "NOT PRIVATE" in answer.stderr
    assert not (tmp_path / "out" / "wcss-user-metric.png").exists()


def test_the_command_says_what_failed_and_keeps_the_rest(tmp_path, extension, monkeypatch):
    monkeypatch.delenv("RECOUP_DEBUG", raising=False)
    path = extension()
    answer = run_few(path, tmp_path / "out", "--methods", "fails,middle")
    assert answer.exit_code == 1
    assert "Failed: fails on few at epsilon 0.1, seed 0, user metric: RuntimeError" in answer.stderr
    assert "4 runs failed" in answer.stderr
    assert "of the method" not in answer.stderr
    assert len(finished_runs(tmp_path / "out")) == 4
    monkeypatch.setenv("RECOUP_DEBUG", "1")
    assert "of the method" in run_few(path, tmp_path / "out", "--methods", "fails,middle").stderr


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--sets", "nothing"), "there is no 'nothing'; choose from s1, adult", 2),
        (("--methods", "dpkm,magic"), "there is no 'magic'; choose from dpkm", 2),
        (("--metrics", "mine"), "choose from paper, user", 2),
        (("--epsilons", "much"), "epsilon", 2),
        (("--epsilons", ","), "at least one of its epsilons", 2),
        (("--data", "/nowhere"), "there is no folder '/nowhere'", 4),
        (("--from", "/nowhere.csv"), "/nowhere.csv cannot be read", 4),
        (("--from", __file__), "the columns 'set', 'source', 'digest', 'n_records', 'n_columns', 'n_clusters'", 4),
        (("--from", os.devnull), "does not hold the finished runs", 4),
        (("--extend", "/nowhere.py"), "not a Python file", 2),
    ],
)
def test_wrong_input_is_one_line_and_a_documented_code(tmp_path, arguments, words, code):
    answer = run("-o", tmp_path / "out", *arguments)
    assert answer.exit_code == code
    assert answer.stdout == ""
    assert words in answer.stderr.splitlines()[-1]


def test_no_runs_leave_the_tables_of_others_alone(tmp_path):
    (tmp_path / "tables.md").write_text("of others")
    (empty := tmp_path / "empty.csv").touch()
    header, _ = write_results(tmp_path, [])
    for path in (empty, header):
        assert run("--from", path, "-o", tmp_path).exit_code == 4
        assert (tmp_path / "tables.md").read_text() == "of others"
    assert "no finished run" in run("--from", header, "-o", tmp_path).stderr


def test_a_missing_file_is_announced_and_replaced(tmp_path, extension):
    from recoup.demo import gaussian_blobs

    path = extension()
    folder = tmp_path / "data"
    folder.mkdir()
    rows = gaussian_blobs(3, n_records=5000).rows
    lines = ["x,y", *(f"{a!r},{b!r}" for a, b in rows.tolist())]
    (folder / "s1.csv").write_text("\n".join(lines))
    answer = run_few(path, tmp_path / "out", "--data", folder, "--methods", "data-free", "--sets", "s1,few")
    assert answer.exit_code == 0, answer.output
    assert "Few blobs is missing" in answer.stderr
    assert {(r.set, r.source) for r in finished_runs(tmp_path / "out")} == {("s1", "file"), ("few", "generated")}


def test_the_example_of_the_documentation_runs(tmp_path, extension):
    page = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "mine.py").write_text(code)
    rows = np.random.default_rng(0).uniform(size=(4000, 3))
    np.savetxt(tmp_path / "wells.csv", rows, delimiter=",", header="a,b,c", comments="")
    chosen = ("--sets", "wells", "--methods", "four-rounds,middle", "--epsilons", 1, "--seeds", 1, "--processes", 1)
    answer = run("--data", tmp_path, "--extend", tmp_path / "mine.py", *chosen, "-o", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    spent = {(r.metric, r.method): r.epsilon_spent for r in finished_runs(tmp_path / "out")}
    assert set(spent) == {("paper", "four-rounds"), ("user", "four-rounds"), ("user", "middle")}
    assert spent["user", "four-rounds"] == pytest.approx(1.0)
    assert spent["user", "middle"] == 0.0


def test_the_help_names_what_is_on_the_lists():
    assert command.SET_NAMES.split(", ") == list(SETS)
    assert command.METHOD_NAMES.split(", ") == list(METHODS)
    assert set(known_methods()) - set(METHODS) == set(choices("kmeans")) - {"adaptive", "grid", "hybrid", "lloyd"}
    text = " ".join(CliRunner().invoke(app, ["experiment", "paper", "--help"]).stdout.split())
    assert "NOT PRIVATE" in text
