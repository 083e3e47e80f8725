"""`recoup report`: from the transcript's file alone, with one line for whatever is wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from commands import run
from html_page import Page, faults

from recoup import KMeans, Transcript, infer, refit, release
from recoup.domain import Box
from recoup.report.write import write_report


@pytest.fixture(autouse=True)
def never_slow(monkeypatch):
    # Progress depends on the clock: a busy machine must not change what is tested here.
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("release") / "transcript.json"
    x = np.random.default_rng(0).normal([[20.0, 50.0]], 4.0, size=(600, 2))
    table = pa.table({"age": x[:, 0], "hours": x[:, 1]})
    domain = Box([0, 0], [100, 99], ("age", "hours"))
    released = release(
        KMeans(n_clusters=2, n_rounds=3), table, domain=domain, epsilon=2, noise="simulated", random_state=1
    )
    released.save(path)
    return path


def one_line(answer):
    assert answer.exit_code not in (0, 1)  # which of the other codes it is belongs to the command line's own tests
    assert answer.stdout == ""
    assert answer.stderr.startswith("recoup: ")
    assert answer.stderr.count("\n") == 1
    return answer.stderr


def test_help_says_what_it_takes():
    text = run("report", "--help").stdout
    for word in (
        "--method",
        "--inferred",
        "--level",
        "--no-intervals",
        "--title",
        "--names",
        "--seed",
        "--json",
        "--output",
    ):
        assert word in text


def test_a_page_from_the_file_alone(saved, tmp_path):
    answer = run("report", saved, "-o", tmp_path / "new" / "page.html", "--title", "Two <groups>", "--no-intervals")
    assert answer.exit_code == 0, answer.output
    text = (tmp_path / "new" / "page.html").read_text()
    assert faults(text) == []
    assert "Two <groups>" in Page(text).words
    assert "NOT PRIVATE" in Page(text).words
    assert "NOT PRIVATE" in answer.stdout
    assert f"Open {tmp_path / 'new' / 'page.html'}." in answer.stderr


def test_clusters_are_named(saved, tmp_path):
    page, quick = tmp_path / "page.html", ("--no-intervals", "--method", "none")
    answer = run("report", saved, "-o", page, *quick, "--names", "0=Early <birds>,1=Owls")
    assert answer.exit_code == 0, answer.output
    for words in ("Cluster 0 Early <birds>", "Cluster 1 Owls"):
        assert words in Page(page.read_text()).words
    assert "0: Early" in answer.stdout
    page.unlink()
    assert "no cluster 2" in one_line(run("report", saved, "-o", page, *quick, "--names", "2=x"))
    assert "not of the form" in one_line(run("report", saved, "-o", page, *quick, "--names", "Owls"))
    assert not page.exists()


def test_another_process_writes_the_same_bytes(saved, tmp_path):
    command = ["report", str(saved), "-o", str(tmp_path / "a.html"), "--no-intervals", "--seed", "3"]
    program = f"from recoup.cli.app import app; app({command!r})"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    transcript = Transcript.load(saved)
    data = infer(transcript, "maxent", random_state=3)
    centers = refit(transcript, data, random_state=3)
    write_report(tmp_path / "b.html", transcript, centers, data, level=None, seed=3, exact=True)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_the_lines_on_the_page_give_its_centres(saved, tmp_path, monkeypatch):
    answer = run("report", saved, "-o", tmp_path / "page.html", "--no-intervals", "--json", "--method", "consistency")
    value = json.loads(answer.stdout)
    monkeypatch.chdir(saved.parent)
    found: dict = {}
    exec(value["reproduce"]["python"], found)
    assert found["centers"].tolist() == [row["values"] for row in value["centers"]["rows"]]
    command = value["reproduce"]["command"].split()
    again = run(*command[1:-1], tmp_path / "again.html")
    assert again.exit_code == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "page.html").read_bytes()
    assert value["reproduce"]["checksum"] == json.loads(saved.read_text())["checksum"]


@pytest.mark.parametrize("method", ["maxent", "mcmc", "consistency", "none"])
def test_every_method_as_json(saved, tmp_path, method):
    answer = run("report", saved, "-o", tmp_path / "page.html", "--method", method, "--no-intervals", "--json")
    value = json.loads(answer.stdout)
    assert value["reproduce"]["method"] == method
    assert "map" not in value
    assert [len(row["values"]) for row in value["centers"]["rows"]] == [2, 2]


def test_an_inferred_data_set_is_taken_as_it_is(saved, tmp_path):
    assert run("infer", saved, "-o", tmp_path / "inferred").exit_code == 0
    path = tmp_path / "inferred" / "inferred.parquet"
    answer = run("report", saved, "-o", tmp_path / "page.html", "--inferred", path, "--level", "0.5", "--json")
    value = json.loads(answer.stdout)
    assert value["profiles"]["level"] == 0.5
    assert value["fit"]["solver"] == []
    assert "seed of their own" in value["reproduce"]["note"]


def test_bad_input_is_one_line(saved, tmp_path):
    (tmp_path / "other.json").write_text("{}")
    page = tmp_path / "page.html"
    assert "not a Recoup transcript" in one_line(run("report", tmp_path / "other.json", "-o", page))
    assert "cannot be read" in one_line(run("report", tmp_path / "nowhere.json", "-o", page))
    assert "is a folder" in one_line(run("report", saved, "-o", tmp_path))
    assert "between 0 and 1" in one_line(run("report", saved, "-o", page, "--level", "2"))
    both = run("report", saved, "-o", page, "--inferred", "a.parquet", "--method", "mcmc")
    assert "exclude each other" in one_line(both)
    assert "not an inferred data set" in one_line(run("report", saved, "-o", page, "--inferred", saved))
    assert "cannot be made" in one_line(run("report", saved, "-o", saved / "page.html"))
    empty = Transcript.load(saved)
    Transcript(context=empty.context, algorithm=empty.algorithm, simulated=True).save(tmp_path / "empty.json")
    assert "no round" in one_line(run("report", tmp_path / "empty.json", "-o", page))
    assert not page.exists()
