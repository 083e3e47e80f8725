"""The order of a page, its three sentences, its heat map, names of clusters, and what stands without a script."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from html_page import Page, faults

from recoup import InferredDataset, PrivateKMeans
from recoup.domain import Box
from recoup.errors import ParameterError
from recoup.maxent.sizes import Clusters, WeightedPoints
from recoup.report.html import table
from recoup.report.names import checked_names, names_of_text
from recoup.report.sections import choice, clusters, overview
from recoup.report.sections.answer import Result
from recoup.report.sections.still import still
from recoup.report.write import model_content, render, report_content, write_report
from recoup.transcript.context import Context
from recoup.transcript.transcript import Transcript

SECTIONS = ["overview", "clusters", "sure", "choice", "privacy", "appendix"]
NAMES = {0: '<img src="x" onerror="alert(1)">', 2: "Families & $title"}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = np.clip(rng.normal([[2, 2], [5, 8], [8, 3]], 0.4, size=(600, 3, 2)).reshape(-1, 2), 0, 10)
    return PrivateKMeans(3, 3.0, (0, 10), noise="simulated", random_state=0).fit(x)


@pytest.fixture(scope="module")
def content(model):
    return report_content(model.transcript_, model.cluster_centers_, model.inferred_, level=None, names=NAMES)


def ids(text, tag):
    return [a["id"] for a in Page(text).named(tag) if a.get("id")]


def test_the_order_of_a_page(content):
    text = render(content)
    assert faults(text) == []
    assert ids(text, "section") == SECTIONS
    assert ids(text, "details") == [
        *(f"cluster-{c['label']}" for c in content["profiles"]["clusters"]),
        *("budget", "fit", "reproduce"),
    ]
    assert text.index("What was found") < text.index("How far to trust it") < text.index("What was promised")
    assert text.index("What was promised") < text.index('id="overview"')


def test_three_sentences(content, model):
    said = content["in_short"]
    assert list(said) == ["found", "trust", "promise"]
    assert re.match(r"About 1,\d{3} records fall into 3 clusters by 2 columns: the largest holds about", said["found"])
    assert said["trust"].startswith("Good: the result agrees with")
    assert said["promise"] == content["privacy"]["words"][0]
    away = InferredDataset(
        points=10.0 - model.inferred_.points, weights=model.inferred_.weights, method="maxent", simulated=True
    )
    wrong = report_content(model.transcript_, model.cluster_centers_, away, level=None)
    assert wrong["in_short"]["trust"].startswith("Doubtful")
    alone = model_content(model.transcript_.privacy, model.cluster_centers_, algorithm="x")["in_short"]
    assert "only the centres were released" in alone["found"]
    assert alone["trust"].startswith("Not checked")


# ---- the heat map ----


def known(**more):
    """Two clusters around 2 and 8 in the first column, alike in the second."""
    points, weights = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [8.0, 5.0]]), np.ones(4)
    data = InferredDataset(points=points, weights=weights, columns=("a", "b"), method="maxent", simulated=False)
    context = Context(domain=Box([0, 0], [10, 10], ("a", "b")), epsilon=1)
    centers = np.array([[8.0, 5.0], [2.0, 5.0]])
    unit = context.domain.to_unit(centers)
    given = {
        "transcript": Transcript(context=context, algorithm={}, simulated=False),
        "centers": centers,
        "inferred": data,
        "population": data,
        "intervals": None,
        "sizes": Clusters(unit, WeightedPoints(context.domain.to_unit(points), weights)).sizes,
        "cells": np.array([1, 1, 1, 0]),
        "shown_columns": np.array([0, 1]),
        "shown_clusters": np.array([1, 0]),
    }
    return Result(**given | more)


def test_the_heat_map_of_data_that_is_known():
    result = known()
    profiles = clusters.content(result)
    # All records have a mean of 3.5 and a deviation of 2.69 in a: 8 is 1.67 of them above it, and 2 is 0.56 below.
    assert [(c["label"], c["steps"]) for c in profiles["clusters"]] == [(1, [-1, 0]), (0, [2, 0])]
    html = overview.html(profiles, clusters.centers_content(result), {"0": "High"})
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    assert [Page(f"<p>{row}</p>").words for row in rows[:2]] == ["cluster of records a b", "all records 100% 3.50 5.00"]
    assert "2.00 ▼ , lower" in Page(f"<p>{rows[2]}</p>").words
    assert "0 High 25% 8.00 ▲▲ , much higher 5.00" in Page(f"<p>{rows[3]}</p>").words
    assert 'class="near"' in rows[2]
    assert "not checked against the noise" in html


def test_a_difference_that_may_be_noise_has_no_colour():
    from recoup.inference.intervals import Intervals

    wide = np.array([[0.0, 0.0], [0.0, 0.0]])
    ends = {"center_low": wide, "center_high": wide + 10.0, "size_low": np.ones(2), "size_high": np.full(2, 4.0)}
    result = known(intervals=Intervals(level=0.9, n_draws=39, **ends))
    profiles = clusters.content(result)
    assert [c["steps"] for c in profiles["clusters"]] == [[None, 0], [None, 0]]
    html = overview.html(profiles, clusters.centers_content(result), {})
    assert 'class="unsure"' in html
    assert "higher" not in re.sub(r"(?s)<ul.*?</ul>", "", html)


def test_a_wide_heat_map_and_a_wide_table_are_cut_to_fit_on_paper():
    columns = [f"c{j}" for j in range(30)]
    text = table(["row", *columns], [["first", *map(str, range(30))]], "Numbers")
    page = Page(f"<div>{text}</div>")
    assert len(page.named("table")) == 3
    for j in range(30):
        assert f"c{j}" in page.words.split()
    assert page.words.count("first") == 3
    assert len(Page(f"<div>{table(['a'], [['x']], 'One')}</div>").named("table")) == 1


# ---- names ----


def test_names_are_words_on_the_page_and_numbers_stay(content):
    text = render(content)
    page = Page(text)
    assert not page.named("img")
    for label, name in NAMES.items():
        assert f"Cluster {label} {name}" in page.words
    assert content["names"] == {"0": NAMES[0], "2": NAMES[2]}
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert [a["data-names"] for a in page.named("input") if "data-names" in a] == [
        str(c["label"]) for c in content["profiles"]["clusters"]
    ]


def test_names_of_a_text():
    assert names_of_text(None) == names_of_text(" ") == {}
    assert names_of_text("1=Commuters, 2 = Two = three") == {1: "Commuters", 2: "Two = three"}
    assert names_of_text('{"0": "Old, and alone"}') == {0: "Old, and alone"}
    for wrong in ("Commuters", "a=b", "1", "{", '{"x": "y"}', "1=a,1=b", '{"1": "a", "1": "b"}', '{"1": {"a": "b"}}'):
        with pytest.raises(ParameterError, match="name"):
            checked_names(names_of_text(wrong), 3)


@pytest.mark.parametrize("names", [{3: "x"}, {-1: "x"}, {True: "x"}, {"0": "x"}, {0: ""}, {0: " "}, {0: 5}])
def test_names_that_no_page_can_show_are_refused(names):
    with pytest.raises(ParameterError):
        checked_names(names, 3)
    for name in ("x" * 61, "two\nlines", "\udcff", "\u202eback"):
        with pytest.raises(ParameterError, match="one line of text"):
            checked_names({0: name}, 3)
    assert checked_names({np.int64(1): " a "}, 3) == {"1": "a"}


def test_only_clusters_have_names(model, tmp_path):
    with pytest.raises(ParameterError, match="this result has none"):
        checked_names({0: "x"}, None)
    with pytest.raises(ParameterError, match="no cluster 3"):
        write_report(tmp_path / "r.html", model.transcript_, model.cluster_centers_, names={3: "x"})
    assert not (tmp_path / "r.html").exists()
    model.report(tmp_path / "r.html", intervals=False, names={1: "Middle"})
    assert "Cluster 1 Middle" in Page((tmp_path / "r.html").read_text()).words


# ---- how many ----


@pytest.mark.parametrize(("suggested", "outcome", "off"), [(8, "at least", True), (4, "at least", False)])
def test_a_suggestion_at_the_end_of_the_range_is_marked(suggested, outcome, off):
    curve = {"chosen": 3, "suggested": suggested, "outcome": outcome, "sentence": "So many.", "off_range": off}
    loss = [1.0 / k for k in range(1, 9)]
    curve |= {"n_clusters": list(range(1, 9)), "loss": loss, "low": None, "high": None, "level": None}
    page = Page(str(choice.html(curve | {"gap": loss, "gap_error": loss})))
    assert ("off-range: the largest number looked at is 8" in page.words) == off
    assert ("there may well be more" in page.words) == off


def test_the_content_says_whether_a_suggestion_is_off_range(monkeypatch, model):
    from recoup.report.sections.answer import result_of

    result = result_of(model.transcript_, model.cluster_centers_, model.inferred_, level=None)
    real = choice.suggest_clusters
    for suggested, outcome, off in ((8, "at least", True), (8, "not conclusive", False), (3, "conclusive", False)):

        def changed(*args, suggested=suggested, outcome=outcome, **more):
            from dataclasses import replace

            return replace(real(*args, **more), suggested=suggested, outcome=outcome)

        monkeypatch.setattr(choice, "suggest_clusters", changed)
        assert choice.content(result, level=None)["off_range"] == off


# ---- without a script ----


def test_the_still_picture_has_all_centres_in_a_frame_of_one_shape(content):
    steps = content["map"]
    for units, ratio in (([None, None], 1.0), (["km", "km"], 2.0), (["km", "years"], 1.0), (["share", "share"], 1.0)):
        page = Page(str(still(steps | {"units": units, "high": [20.0, 10.0], "low": [0.0, 0.0]})))
        frame = page.named("rect")[0]
        assert float(frame["width"]) / float(frame["height"]) == pytest.approx(ratio, rel=1e-3)
        circles = page.named("circle")
        assert len(circles) == 3
        assert all(68 <= float(c["cx"]) <= 546 for c in circles)
    words = Page(str(still(steps | {"units": ["km", "years"]}))).words
    assert "column 0 (km)" in words
    assert "column 1 (years)" in words
