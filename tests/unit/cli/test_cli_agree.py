"""Commands that read one transcript speak of the same clusters by the same numbers, and say which may be noise."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from commands import run

from recoup import Box, KMeans, PrivateKMeans, Transcript, infer, refit, release, suggest_clusters
from recoup._random import seed_for
from recoup.cli.tables import print_table
from recoup.inference.intervals import intervals
from recoup.inference.judge import Doubts, doubts_of
from recoup.report.sections import clusters
from recoup.report.sections.answer import result_of

GIVEN = ("-k", "4", "--epsilon", "2", "--bounds", "a=0:10,b=0:10")


def read(*words):
    answer = run(*words, "--json")
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)


def middles(rng, n=1200):
    centers = np.array([(2, 2), (2, 8), (8, 3), (7, 7)])
    return np.clip(rng.normal(centers[rng.integers(4, size=n)], 0.6), 0, 10)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("t.csv", middles(np.random.default_rng(0)), delimiter=",", header="a,b", comments="")
    return tmp_path


# ---- one numbering ----


@pytest.mark.parametrize("method", ["maxent", "mcmc", "consistency"])
@pytest.mark.parametrize("seed", [(), ("--seed", "7")])
def test_cluster_infer_report_and_the_lines_on_the_page_agree(folder, method, seed):
    lloyd = ("--rounds", "2") if method != "maxent" else ()
    clustered = read("cluster", "t.csv", *GIVEN, *lloyd, "--postprocess", method, *seed, "-o", "out")
    inferred = read("infer", "out/transcript.json", "--method", method, *seed, "-o", "inferred")
    quick = ("--method", method, "--no-intervals", "-o", "page.html")
    reported = read("report", "out/transcript.json", *quick, *seed)
    assert inferred["centers"] == clustered["centers"]
    assert (folder / "out/centers.csv").read_text() == (folder / "inferred/centers.csv").read_text()
    rows = reported["centers"]["rows"]
    assert [row["label"] for row in rows] == [0, 1, 2, 3]
    assert [row["values"] for row in rows] == clustered["centers"]
    assert inferred["centers"] == sorted(inferred["centers"])
    # As `python` would run the lines that stand on the page.
    names = {}
    exec(reported["reproduce"]["python"].replace('"transcript.json"', '"out/transcript.json"'), names)
    assert names["centers"].tolist() == clustered["centers"]


def test_python_without_a_seed_gives_what_commands_and_the_report_give(folder, monkeypatch):
    monkeypatch.setattr("recoup.inference.intervals._DRAWS", 9)
    monkeypatch.setattr("recoup.inference.choose._DRAWS", 9)
    model = PrivateKMeans(4, 2, {"a": (0, 10), "b": (0, 10)}).fit("t.csv", transcript_path="t.json")
    transcript = Transcript.load("t.json")
    inferred = infer(transcript)
    centers = refit(transcript, inferred)
    assert centers.tolist() == model.cluster_centers_.tolist() == read("infer", "t.json")["centers"]
    np.testing.assert_array_equal(infer(transcript).weights, inferred.weights)
    reported = read("report", "t.json")
    rows = reported["centers"]["rows"]
    assert [row["values"] for row in rows] == centers.tolist()
    for found in (intervals(transcript, inferred, centers), model.intervals()):
        assert [row["low"] for row in rows] == found.center_low.tolist()
        assert [row["high"] for row in rows] == found.center_high.tolist()
    curve, choice = suggest_clusters(inferred, transcript=transcript), reported["choice"]
    for name in ("suggested", "outcome", "sentence"):
        assert getattr(curve, name) == choice[name]
    for name, values in (("loss", curve.loss), ("low", curve.loss_low), ("high", curve.loss_high)):
        assert choice[name] == (values / curve.loss[0]).tolist()
    # A seed of one's own is another reading, and samples are drawn anew.
    assert infer(transcript, random_state=1).weights.tolist() != inferred.weights.tolist()
    assert inferred.sample(50).tolist() != inferred.sample(50).tolist()
    said = run("report", "t.json", "--no-intervals").stderr
    assert "How many clusters? Not conclusive: " in said


def test_the_page_of_a_fitted_model_gives_its_centres_again(folder):
    model = PrivateKMeans(4, 2, {"a": (0, 10), "b": (0, 10)}).fit("t.csv")
    transcript = model.transcript_
    again = refit(transcript, infer(transcript, random_state=0), random_state=0)
    np.testing.assert_array_equal(model.cluster_centers_, again)
    model.report("page.html", intervals=False)
    page = (folder / "page.html").read_text()
    assert "These lines give the same numbers again." in page
    order = np.lexsort(model.cluster_centers_.T[::-1])
    np.testing.assert_array_equal(order, range(4))
    np.testing.assert_array_equal(model.predict(model.cluster_centers_), range(4))


def test_a_rival_is_numbered_alike():
    model = PrivateKMeans(3, 5, (0, 10), algorithm="gupt").fit(middles(np.random.default_rng(1)))
    assert model.cluster_centers_.tolist() == sorted(model.cluster_centers_.tolist())


def test_a_seed_from_anything_that_is_random():
    assert (seed_for(), seed_for(None), seed_for(3), seed_for(np.int64(3))) == (0, 0, 3, 3)
    for make in (lambda: np.random.default_rng(5), lambda: np.random.RandomState(5), lambda: [1, 2]):
        assert seed_for(make()) == seed_for(make()) != 0
    with pytest.raises(ValueError, match="random_state"):
        seed_for("x")


def test_intervals_of_consistent_means_follow_their_centres():
    # Two far clusters of very different size, whose cells stand in the other order than the centres.
    x = np.concatenate([np.full((3000, 1), 0.9), np.full((60, 1), 0.1)])
    terms = {"domain": Box([0], [1]), "epsilon": 3, "noise": "simulated"}
    turned = 0
    for seed in range(4):
        transcript = release(KMeans(n_clusters=2, n_rounds=2), x, random_state=seed, **terms)
        inferred = infer(transcript, "consistency")
        found = intervals(transcript, inferred, refit(transcript, inferred), random_state=0)
        widths = (found.center_high - found.center_low)[:, 0]
        # Noise moves the small cluster much further than the large one.
        assert widths[0] > 5 * widths[1]
        turned += inferred.points[0, 0] > inferred.points[1, 0]
    assert turned


# ---- clusters of noise ----


def noise_cluster():
    """Three clusters asked of data that has one, hardly any records elsewhere, and a centre put where nobody is."""
    x = np.clip(np.random.default_rng(2).normal(0.2, 0.03, size=(4000, 2)), 0, 1)
    terms = {"domain": Box([0, 0], [1, 1]), "epsilon": 0.2, "random_state": 0, "noise": "simulated"}
    transcript = release(KMeans(n_clusters=3), x, **terms)
    inferred = infer(transcript, random_state=0)
    return transcript, inferred, np.array([[0.2, 0.2], [0.25, 0.8], [0.9, 0.9]])


def test_a_cluster_without_records_is_doubted_and_one_with_many_is_not():
    transcript, inferred, centers = noise_cluster()
    found = doubts_of(transcript, centers, inferred).noise
    assert 0 not in found
    assert found
    assert set(found) <= {1, 2}
    assert doubts_of([transcript], centers, inferred).noise == found
    assert doubts_of(transcript, centers[:1], inferred).noise == []
    assert doubts_of(transcript, centers, None).noise == doubts_of(transcript, None, inferred).noise == []


def test_the_profile_says_so():
    transcript, inferred, centers = noise_cluster()
    result = result_of(transcript, centers, inferred, level=None)
    facts = clusters.content(result)
    assert facts["doubtful"] == doubts_of(transcript, centers, inferred).noise
    for cluster in facts["clusters"]:
        assert cluster["doubtful"] == (cluster["label"] in facts["doubtful"])
        assert ("may be nothing but noise: its counts are no larger than noise" in cluster["sentence"]) == cluster[
            "doubtful"
        ]


def test_commands_name_doubtful_clusters(folder, monkeypatch):
    assert read("cluster", "t.csv", *GIVEN, "-o", "out")["doubtful"] == []
    for reader in ("inference.judge", "estimators.clustering"):
        monkeypatch.setattr(f"recoup.{reader}.doubts_of", lambda *_: Doubts(noise=[1, 3], shared=[]))
    for words in (("cluster", "t.csv", *GIVEN), ("infer", "out/transcript.json")):
        assert "clusters 1 and 3 may be nothing but noise." in run(*words).stderr
        assert read(*words)["doubtful"] == [1, 3]


def test_the_scale_of_a_card_holds_every_band_and_interval(folder):
    # A small cluster at the edge: its band lies outside of the middle 98 % of all records.
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(2, 0.3, size=(5000, 1)), rng.normal(9, 0.4, size=(30, 1))]).clip(0, 10)
    model = PrivateKMeans(2, 20, (0, 10), random_state=0, noise="simulated").fit(x)
    result = result_of(model.transcript_, model.cluster_centers_, model.inferred_, level=0.9)
    facts = clusters.content(result)
    low, high = facts["whole"][0]["axis"]
    marks = [
        row[name] for c in facts["clusters"] for row in c["rows"] for name in ("q10", "q90", "low", "high", "center")
    ]
    assert low <= min(marks)
    assert max(marks) <= high
    assert max(marks) > result.centers.max()


# ---- the default algorithm ----


def test_release_runs_the_default_algorithm_and_lloyd_where_rounds_are_asked_for(folder):
    assert read("release", "t.csv", *GIVEN, "-o", "a.json")["algorithm"] == "kmeans-adaptive"
    assert read("release", "t.csv", *GIVEN, "--rounds", "2", "-o", "b.json")["algorithm"] == "kmeans-lloyd"
    lloyd = read("release", "t.csv", *GIVEN, "--algorithm", "lloyd", "-o", "c.json")
    assert (lloyd["algorithm"], len(lloyd["rounds"])) == ("kmeans-lloyd", 5)
    assert Transcript.load("a.json").algorithm["type"] == "kmeans-adaptive"


# ---- what is shown ----


def test_sentences_are_wrapped_on_a_terminal_and_nowhere_else(capsys, monkeypatch):
    rows = [["0", "1,000", "word " * 40]]
    print_table("Title", ["cluster", "records", "what it is like"], rows, left=3, wrap=True)
    assert max(map(len, capsys.readouterr().out.splitlines())) > 150
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    print_table("Title", ["cluster", "records", "what it is like"], rows, left=3, wrap=True)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("word") for line in lines) == 40
    # Numbers are never wrapped or cut: a table that is too wide is turned.
    print_table("Title", ["x" * 30] * 4, [["1" * 30] * 4], wrap=False)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.split() == ["x" * 30, "1" * 30] for line in lines) == 4


def test_a_unit_that_the_name_ends_with_is_not_said_twice():
    from recoup.cli.settings import read_columns

    def header(name, unit):
        column = {"low": 0, "high": 1, "unit": unit}
        return read_columns(json.dumps({"columns": {name: column}})).header()

    assert header("HbA1c (%)", "%") == ["HbA1c (%)"]
    assert header("HbA1c", "%") == ["HbA1c (%)"]
    assert header("age", "years") == ["age (years)"]


def test_what_the_terminal_cannot_show_does_not_end_a_paid_run(folder):
    np.savetxt("g.csv", np.full((50, 1), 5.0), header="größe", comments="", encoding="utf-8")
    words = ["cluster", "g.csv", "-k", "1", "--epsilon", "1", "--bounds", "größe=0:10", "--postprocess", "none"]
    code = "from recoup.cli.app import main; main()"
    settings = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "-o", "out"], env=settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "gr\\xf6\\xdfe" in done.stdout
    assert (folder / "out/centers.csv").read_text(encoding="utf-8").startswith("größe\n")


def test_bytes_that_are_no_text_are_refused_before_anything_is_spent(folder):
    release(KMeans(n_clusters=1, n_rounds=1), [[0.5]], domain=Box([0], [1]), epsilon=1, path="t.json")
    refused = run("report", "t.json", "--title", "\udcff")
    assert refused.exit_code == 2
    assert "title" in refused.stderr
    assert not (folder / "report.html").exists()
    refused = run("cluster", "t.csv", "-k", "1", "--epsilon", "1", "--bounds", "\udcff=0:1", "-o", "out")
    assert refused.exit_code == 2
    assert "not text" in refused.stderr
    assert not (folder / "out").exists()


def test_an_interruption_speaks_of_what_the_command_has(folder, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    release(KMeans(n_clusters=1, n_rounds=1), [[0.5]], domain=Box([0], [1]), epsilon=1, path="t.json")
    monkeypatch.setattr("recoup.report.write.write_report", interrupted)
    monkeypatch.setattr("recoup.estimators.base.release", interrupted)
    reported, released = run("report", "t.json"), run("release", "t.csv", *GIVEN, "-o", "u.json")
    assert reported.exit_code == released.exit_code == 130
    assert "--resume" in released.stderr
    assert "charged" in released.stderr
    assert "--resume" not in reported.stderr
    assert "charged" not in reported.stderr


def test_a_budget_error_names_the_ledger(folder):
    assert run("ledger", "create", "l.db", "--epsilon", "1").exit_code == 0
    for algorithm in ("auto", "gupt"):
        refused = run("cluster", "t.csv", *GIVEN, "--algorithm", algorithm, "--ledger", "l.db")
        assert refused.exit_code == 3
        assert f"recoup: ledger {folder / 'l.db'}: asked for 2" in refused.stderr


def test_a_folder_that_was_paid_for_is_named_by_its_transcript(folder):
    assert run("cluster", "t.csv", *GIVEN, "-o", "out").exit_code == 0
    assert "'out/transcript.json' exists and was paid for" in run("cluster", "t.csv", *GIVEN, "-o", "out").stderr


@pytest.mark.parametrize("command", ["infer", "report"])
def test_arguments_are_written_alike(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert "TRANSCRIPT" in run(command, "--help").stdout
    assert "{transcript}" not in run(command, "--help").stdout
