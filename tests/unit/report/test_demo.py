"""The demo's parts, on tables small enough for a test."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from html_page import Page, faults
from typer.testing import CliRunner

from recoup import demo
from recoup.cli.app import app
from recoup.demo import city_check_ins, gaussian_blobs

QUICK = {name: fit for name, fit in demo.METHODS.items() if name.startswith("DP-KMEANS")}


@pytest.fixture(scope="module")
def result():
    return demo.compare(gaussian_blobs(n_records=600), seed=3, n_fits=2, methods=QUICK)


@pytest.mark.parametrize("make", [gaussian_blobs, city_check_ins])
def test_generated_tables_follow_their_seed_and_their_bounds(make):
    table = make(4, n_records=2000)
    assert np.array_equal(table.rows, make(4, n_records=2000).rows)
    assert not np.array_equal(table.rows, make(5, n_records=2000).rows)
    assert table.rows.shape == (2000, 2)
    assert ((table.rows >= table.low) & (table.rows <= table.high)).all()


def test_the_tables_have_the_sizes_of_their_models():
    blobs, check_ins = demo.tables()
    assert (blobs.rows.shape, blobs.n_clusters) == ((5000, 2), 15)
    assert (check_ins.rows.shape, check_ins.n_clusters) == ((107_000, 2), 5)


@pytest.mark.slow
def test_the_comparison_repeats_and_the_release_does_not(result):
    again = demo.compare(gaussian_blobs(n_records=600), seed=3, n_fits=2, methods=QUICK)
    assert again.scores == result.scores
    assert not np.array_equal(again.release.cluster_centers_, result.release.cluster_centers_)
    assert not result.release.transcript_.simulated
    assert result.release.transcript_.epsilon_spent <= 1


def test_the_lines_hold_every_method_and_both_references(result):
    assert list(result.scores) == [demo.NON_PRIVATE, *QUICK, demo.DATA_FREE]
    least = result.scores[demo.NON_PRIVATE][0]
    assert all(score >= least * 0.999 for scores in result.scores.values() for score in scores)


def test_a_method_is_added_by_its_name():
    def middle(table, epsilon, seed):
        return np.tile((np.array(table.low) + np.array(table.high)) / 2, (table.n_clusters, 1))

    found = demo.compare(gaussian_blobs(n_records=300), n_fits=1, methods={"the middle": middle})
    assert list(found.scores) == [demo.NON_PRIVATE, "the middle", demo.DATA_FREE]
    unit = 2 * found.table.rows / np.array(found.table.high) - 1
    assert dict(zip(demo.EPSILONS, found.scores["the middle"], strict=True))[1.0] == pytest.approx((unit**2).sum())


def test_the_page_is_whole_and_asks_nobody_else(result):
    pictures = demo.figures(result)
    page = demo.page([result], [pictures])
    assert page.count("data:image/png;base64,") == len(pictures) == 3
    assert (
        re.findall(r"(?:src|href)=\"(?!data:)([^\"]*)", page) == [demo.report_name(result)] == ["s1-like-report.html"]
    )
    assert any("default-src 'none'" in policy for policy in Page(page).all_of("content"))
    assert "color-scheme: light dark" in page
    assert "Differentially private: epsilon = 1" in page
    assert "would not publish" in page
    for name in QUICK:
        assert name in page


@pytest.mark.slow
def test_the_command_writes_everything(tmp_path, monkeypatch, few_points):
    monkeypatch.setattr(demo, "tables", lambda seed: (gaussian_blobs(seed, 400), city_check_ins(seed, 500)))
    monkeypatch.setattr(demo, "METHODS", QUICK)
    answer = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "out"), "--seed", "2", "--json"])
    assert answer.exit_code == 0, answer.output
    value = json.loads(answer.stdout)
    assert [table["name"] for table in value["tables"]] == ["S1-like", "Gowalla-like"]
    assert value["tables"][0]["privacy"]["noise"] == "secure"
    written = {path.name for path in (tmp_path / "out").iterdir()}
    expected = {f"{t}-{f}.png" for t in ("s1-like", "gowalla-like") for f in ("centers", "rounds", "budget")}
    reports = {"s1-like-report.html", "gowalla-like-report.html"}
    assert written == expected | reports | {"index.html", "s1-like-transcript.json", "gowalla-like-transcript.json"}
    assert value["reports"] == [str(tmp_path / "out" / f"{t}-report.html") for t in ("s1-like", "gowalla-like")]
    for name in reports:
        text = (tmp_path / "out" / name).read_text()
        assert faults(text) == []
        assert "NOT PRIVATE" not in Page(text).words


@pytest.mark.slow
def test_the_command_prints_a_table(tmp_path, monkeypatch, few_points):
    monkeypatch.setattr(demo, "tables", lambda seed: (gaussian_blobs(seed, 400),))
    monkeypatch.setattr(demo, "METHODS", QUICK)
    answer = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert answer.exit_code == 0
    assert "non-private k-means" in answer.stdout
    assert "would not publish" in answer.stderr
    assert str(tmp_path / "index.html") in answer.stderr
    assert answer.stderr.splitlines()[-1] == f"Open the reports: {tmp_path / 's1-like-report.html'}."


# ---- a table to try the commands on ----


def test_people_are_made_by_their_seed_and_lie_inside_the_bounds_that_the_pages_use(tmp_path):
    table = demo.people()
    assert (table.columns, table.rows.shape) == (("age", "hours"), (6000, 2))
    assert ((table.rows >= table.low) & (table.rows <= table.high)).all()
    assert (demo.people().rows == table.rows).all()
    assert (demo.people(1).rows != table.rows).any()
    path = tmp_path / "people.csv"
    answer = CliRunner().invoke(app, ["demo", "--csv", str(path)])
    assert answer.exit_code == 0, answer.stderr
    assert (np.loadtxt(path, delimiter=",", skiprows=1) == table.rows).all()
    assert path.read_text().startswith("age,hours\n")
    bounds = "age=17:90,hours=1:99"
    assert f"-k 3 --epsilon 1 --bounds {bounds} -o out" in answer.stderr
    root = Path(__file__).parents[3]
    for page in ("README.md", "docs/start.md"):
        text = (root / page).read_text()
        assert "recoup demo --csv people.csv" in text
        assert f"recoup cluster people.csv -k 3 --epsilon 1 --bounds {bounds} -o out/" in text


def test_a_table_that_is_there_is_not_written_over(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("mine")
    for given in (path, tmp_path / "people.txt"):
        assert CliRunner().invoke(app, ["demo", "--csv", str(given)]).exit_code == 2
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine"]
    answer = CliRunner().invoke(app, ["demo", "--csv", str(tmp_path / "new" / "p.csv"), "--seed", "3", "--json"])
    assert json.loads(answer.stdout)["bounds"] == "age=17:90,hours=1:99"
