"""What is kept of the runs of an experiment, and what is made from them: tables, pages and figures."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import asdict, fields, replace

import pytest

from recoup.errors import DataError, ParameterError, UnreadableFileError
from recoup.plots import png
from recoup_lab.experiments import (
    METHODS,
    figures,
    peers,
    report,
)
from recoup_lab.experiments.results import Result, RunStore, read_results, write_results
from recoup_lab.experiments.summary import summarise

# ---- results ----


def result(**changes):
    given = {
        "set": "s1",
        "source": "file",
        "digest": "abc",
        "n_records": 5000,
        "n_columns": 2,
        "n_clusters": 15,
        "metric": "user",
        "method": "dpkm",
        "epsilon": 0.1,
        "seed": 0,
        "wcss": 100.0,
        "epsilon_spent": 0.1,
        "seconds": 1.0,
        "transcript": "t0",
        "recoup": "1",
        "versions": "python 3",
    }
    return Result(**(given | changes))


BASELINE = {"epsilon": None, "epsilon_spent": None, "transcript": None}


def test_results_survive_both_formats(tmp_path):
    results = [result(), result(method="non-private", wcss=1 / 3, **BASELINE), result(seed=1, wcss=1e-300)]
    for path in write_results(tmp_path, results):
        assert sorted(map(str, read_results(path))) == sorted(map(str, results))
    assert (tmp_path / "runs.csv").read_text().startswith("set,source,digest")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(UnreadableFileError):
        read_results(tmp_path / "nothing.csv")
    for name in ("a.csv", "a.parquet"):
        (tmp_path / name).write_text("x,y\n1,2\n")
        with pytest.raises(DataError):
            read_results(tmp_path / name)
    for content in (b"\xff\xfe\x00\x80", b"", b"\n", b"set,source\n", b"a" * 200_000, b"root:x:0\nbin:x:1\n"):
        (tmp_path / "b.csv").write_bytes(content)
        with pytest.raises(DataError):
            read_results(tmp_path / "b.csv")


@pytest.mark.parametrize(
    ("name", "value"), [("wcss", "nan"), ("wcss", "inf"), ("seconds", "-inf"), ("seed", "1e999"), ("seed", "9" * 30)]
)
def test_a_run_without_finite_numbers_is_no_finished_run(tmp_path, name, value):
    names = [field.name for field in fields(Result)]
    cells = [value if n == name else str(getattr(result(), n)) for n in names]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join(cells) + "\n")
    with pytest.raises(DataError, match="finite"):
        read_results(tmp_path / "a.csv")


def test_lines_that_are_no_run_are_passed_over(tmp_path):
    store = RunStore(tmp_path / "runs.jsonl")
    store.append(result())
    good = store.path.read_text()
    bad = ["[" * 200_000, "[]", "1", good.replace('"seed": 0', '"seed": 1e999'), good.replace("100.0", "NaN")]
    bad += [good.replace("100.0", "Infinity"), good.replace('"seed": 0', '"seed": 1.5'), "\x00"]
    bad += [good.replace('"seed": 0', '"seed": ' + "9" * 30)]
    for line in bad:
        assert line != good
        store.path.write_text(line.strip() + "\n" + good)
        assert store.read() == [result()]


@pytest.mark.parametrize("n_written", [0, 1, 50])
def test_a_run_that_the_disk_had_no_room_for_is_taken_back(tmp_path, monkeypatch, n_written):
    store = RunStore(tmp_path / "runs.jsonl")
    store.append(result())
    before, write = store.path.read_bytes(), os.write
    room = [n_written]

    def full(descriptor, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        n, room[0] = write(descriptor, data[: room[0]]), 0
        return n

    with monkeypatch.context() as patched:
        patched.setattr("recoup_lab.experiments.results.os.write", full)
        with pytest.raises(OSError, match="No space"):
            store.append(result(seed=1))
    assert store.path.read_bytes() == before
    # Short writes alone lose nothing, and a cut line of a killed process takes no other with it.
    with monkeypatch.context() as patched:
        patched.setattr("recoup_lab.experiments.results.os.write", lambda d, data: write(d, data[:7]))
        store.append(result(seed=2))
    store.path.write_bytes(store.path.read_bytes() + before[:40])
    store.append(result(seed=3))
    assert [run.seed for run in store.read()] == [0, 2, 3]


def test_a_line_that_a_crash_cut_short_is_dropped_and_the_rest_kept(tmp_path):
    store = RunStore(tmp_path / "runs.jsonl")
    assert store.read() == []
    store.append(result())
    store.append(result(seed=1))
    whole = store.path.read_bytes()
    for cut in range(len(whole) // 2, len(whole), 13):
        store.path.write_bytes(whole[:cut])
        store.repair()
        store.append(result(seed=2))
        kept = {run.seed for run in store.read()}
        assert kept == {0, 2}
    store.path.write_bytes(whole)
    store.repair()
    assert store.path.read_bytes() == whole


def test_of_two_equal_runs_the_later_one_counts(tmp_path):
    store = RunStore(tmp_path / "runs.jsonl")
    for wcss_ in (1.0, 2.0):
        store.append(result(wcss=wcss_))
    assert [run.wcss for run in store.read()] == [2.0]


@pytest.mark.parametrize("name", ["set", "digest", "metric", "method", "epsilon", "seed", "recoup"])
def test_runs_differ_in_what_matters(name):
    other = {"epsilon": 0.2, "seed": 3}.get(name, "other")
    assert replace(result(), **{name: other}).key != result().key
    assert replace(result(), wcss=7.0, seconds=9.0, versions="other").key == result().key


# ---- summary, tables, figures ----


def some_results():
    found = []
    for metric in ("paper", "user"):
        floor = {"paper": 31.3, "user": 41.15}[metric]
        found.append(result(metric=metric, method="non-private", wcss=floor, **BASELINE))
        for seed, factor in ((0, 3.0), (1, 5.0)):
            found.append(result(metric=metric, method="data-free", wcss=10 * floor, seed=seed, **BASELINE))
            for epsilon in (0.05, 0.25):
                at = {"metric": metric, "epsilon": epsilon, "seed": seed}
                last = factor * floor / epsilon**0.5
                found.append(result(**at, wcss=last, transcript=f"t{seed}"))
                found.append(result(**at, wcss=last / 2, transcript=f"t{seed}", method="maxent"))
                found.append(result(**at, wcss=last / 4, transcript=None, method="recoup"))
    return found


def test_means_and_standard_errors_by_hand():
    paper, user = summarise(some_results())
    assert (paper.metric, user.metric) == ("paper", "user")
    score = user.scores["dpkm"][0.25]
    assert score.mean == pytest.approx(4 * 41.15 * 2)
    assert score.error == pytest.approx(1 * 41.15 * 2)  # of 3 and 5: deviation sqrt 2, over sqrt 2
    assert score.n_runs == 2
    assert user.non_private == 41.15
    assert user.methods == ["dpkm", "maxent", "recoup"]
    assert user.epsilons == [0.05, 0.25]


def test_only_readers_of_the_same_transcript_are_paired():
    panel = summarise(some_results())[0]
    assert set(panel.ratios) == {"maxent"}
    assert panel.ratios["maxent"][0.05] == (0.5, 0.0)
    strangers = [replace(run, transcript="other") if run.method == "maxent" else run for run in some_results()]
    assert summarise(strangers)[0].ratios == {}


def test_other_records_are_never_averaged_with_these():
    panels = summarise([result(), result(digest="other", wcss=900.0)])
    assert [panel.scores["dpkm"][0.1].n_runs for panel in panels] == [1, 1]


def test_another_version_is_never_averaged_with_this_one():
    panels = summarise([result(), result(recoup="2", wcss=900.0)])
    assert [panel.scores["dpkm"][0.1].mean for panel in panels] == [100, 900]
    assert [panel.title for panel in panels] == ["S1, Recoup 1", "S1, Recoup 2"]
    assert summarise([result(recoup="2")])[0].title == "S1"


def test_a_run_that_is_in_a_file_twice_is_one_seed(tmp_path):
    path, _ = write_results(tmp_path, [result(), result()])
    assert len(path.read_text().splitlines()) == 3
    assert len(read_results(path)) == 1


def test_a_perfect_score_divides_nothing():
    perfect = [result(wcss=0.0), result(method="maxent"), result(method="non-private", wcss=0.0, **BASELINE)]
    (panel,) = summarise(perfect)
    assert panel.ratios == {}
    assert {score["times_non_private"] for score in report.as_json([panel])["scores"]} == {None}


def test_peers_are_quoted_only_on_the_records_that_they_were_measured_on():
    assert peers.best_peer("paper", "s1", 31.3)[0.05] == 292
    assert peers.best_peer("paper", "s1", 35.0) == {}
    assert peers.best_peer("paper", "s1", None) == {}
    assert peers.best_peer("paper", "of a user", 31.3) == {}
    assert summarise(some_results())[0].peers
    generated = [replace(run, source="generated") for run in some_results()]
    assert not summarise(generated)[0].peers


def test_the_markdown_table_marks_the_best_and_quotes_peers():
    text = report.in_markdown(summarise(some_results()))
    assert text.startswith("NOT PRIVATE")
    lines = [line for line in text.splitlines() if line.startswith("| S1")]
    assert len(lines) == 2 * 2 * 2  # metrics, epsilons, kinds of table
    first = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert first[:2] == ["S1 (31.3)", "0.05"]
    assert first[2] == "559.9±140.0"
    assert first[4] == "**140.0±35.0**"
    assert first[-1] == "292.0"
    assert "not run here" in text
    ratios = next(line for line in text.splitlines() if "0.500±0.000" in line)
    assert "**0.500±0.000**" in ratios
    widths = {line.count("|") for line in text.split("##")[1].splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_the_page_is_whole_escaped_and_asks_nobody_else():
    odd = [replace(run, set="<b>&") for run in some_results()]
    panels = summarise(odd)
    page = report.page(panels, {"paper": b"picture"})
    assert page.count("data:image/png;base64,") == 1
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert "NOT PRIVATE" in page
    assert "color-scheme: light dark" in page


def test_the_figure_holds_every_method_and_says_that_it_is_not_private():
    results = some_results() + [replace(run, set="adult", digest="q") for run in some_results()]
    figure = figures.six_panels(summarise(results), "user")
    axes = figure.axes
    assert [ax.get_title().split(":")[0] for ax in axes] == ["S1", "Adult"]
    assert "NOT PRIVATE" in figure.get_suptitle()
    assert "2 seeds" in figure.get_suptitle()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        "DP-KMEANS", "maximum entropy", "Recoup, default", "non-private", "spread, no data", peers.LABEL
    ]  # fmt: skip
    # The quoted peers are on S1 only: Adult has other records here.
    assert [len(ax.collections) for ax in axes] == [3 + 1, 3]
    (line,) = [c for c in axes[0].containers if c.get_label() == "DP-KMEANS"]
    assert line.lines[0].get_ydata()[1] == pytest.approx(4 * 41.15 * 2)
    assert png(figure).startswith(b"\x89PNG")
    with pytest.raises(ParameterError, match="no runs"):
        figures.six_panels([], "paper")


def test_a_baseline_far_above_is_written_at_the_edge():
    results = [replace(run, wcss=1e6) if run.method == "data-free" else run for run in some_results()]
    ax = figures.six_panels(summarise(results), "user").axes[0]
    assert [text.get_text() for text in ax.texts] == ["spread, no data: 1,000,000 ↑"]
    assert ax.get_ylim()[1] < 1e6


def test_lines_can_be_told_apart_without_colour():
    private = [run for run in some_results() if run.epsilon is not None]
    named = [replace(run, method=name) for run in private for name in METHODS if METHODS[name].private]
    added = [replace(run, method=f"added {i}") for run in private for i in range(3)]
    styles = figures._styles(summarise(named + added))
    assert len({(style.marker, style.line) for style in styles.values()}) == len(styles) >= 13


@pytest.mark.parametrize(("low", "high"), [(31, 900), (327, 620), (5190, 5900), (9400, 16000), (0.02, 3000), (1, 3.5)])
def test_the_axis_has_some_round_numbers(low, high):
    ticks = figures._round_numbers(low, high)
    assert 2 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)


def test_the_report_is_written_and_summarised(tmp_path):
    panels, files = report.write_report(tmp_path, some_results())
    assert {path.name for path in files} == {
        "tables.md", "index.html", "wcss-paper-metric.png", "wcss-user-metric.png"
    }  # fmt: skip
    assert all(path.stat().st_size > 500 for path in files)
    value = json.loads(json.dumps(report.as_json(panels), allow_nan=False))
    assert value["statement"].startswith("NOT PRIVATE")
    (one,) = [s for s in value["scores"] if (s["metric"], s["method"], s["epsilon"]) == ("user", "maxent", 0.25)]
    assert one["times_non_private"] == pytest.approx(4.0)
    assert one["ratio_to_last_iterate"] == 0.5


def test_a_result_is_one_row_with_everything_that_was_promised():
    assert {"set", "metric", "method", "epsilon", "seed", "wcss", "epsilon_spent", "seconds", "versions"} <= set(
        asdict(result())
    )
