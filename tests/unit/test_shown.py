"""Results at a prompt and in a notebook: short, escaped, and honest about what is not private."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from recoup import (
    Box,
    Category,
    InferredDataset,
    KMeans,
    Ledger,
    Number,
    PrivateKMeans,
    Schema,
    count_incomplete,
    find_bounds,
    infer,
    release,
)
from recoup._shown import Card, html_of, pandas, shortened
from recoup.errors import ParameterError
from recoup.inference.choose import ClusterCurve
from recoup.inference.intervals import Intervals, Withheld
from recoup.inference.verdict import Reason, Verdict
from recoup.privacy.statement import NOT_PRIVATE

EVIL = '<script>alert("1")</script>&\n' + "x" * 160
N_COLUMNS = 300
COLUMNS = tuple(f"{EVIL}{j}" for j in range(N_COLUMNS))


@pytest.fixture(scope="module")
def shown():
    """One of each, with many columns of terrible names."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(200, N_COLUMNS))
    domain = Box([0.0] * N_COLUMNS, [1.0] * N_COLUMNS)
    ledger = Ledger.in_memory(epsilon=1)
    released = release(KMeans(n_clusters=2, n_rounds=2), rows, domain=domain, epsilon=1, ledger=ledger)
    named = replace(released, context=replace(released.context, domain=replace(domain, columns=COLUMNS)))
    ends = rng.uniform(size=(20, N_COLUMNS))
    sizes = {"size_low": np.zeros(20), "size_high": np.ones(20)}
    curve = np.linspace(9.0, 1.0, 40)
    return {
        "transcript": named,
        "privacy": named.privacy,
        "ledger": ledger,
        "inferred": InferredDataset(
            points=rows, weights=np.ones(200), columns=COLUMNS, method="maxent", simulated=True
        ),
        "intervals": Intervals(level=0.9, n_draws=39, center_low=ends, center_high=ends, columns=COLUMNS, **sizes),
        "curve": ClusterCurve(
            n_clusters=np.arange(1, 41),
            **dict.fromkeys(("loss", "loss_low", "loss_high", "gap", "gap_error"), curve),
            suggested=3,
            outcome="conclusive",
            sentence=EVIL,
        ),
        "verdict": Verdict(reasons=tuple(Reason(kind="column", sentence=f"{EVIL}{i}") for i in range(30))),
        "schema": Schema({EVIL[:150] + str(j): Number(0, 1) for j in range(100)} | {"c": Category(["a", EVIL])}),
    }


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


KINDS = ("transcript", "privacy", "ledger", "inferred", "intervals", "curve", "verdict", "schema")


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_is_short_and_the_html_is_small_escaped_and_whole(shown, kind):
    value = shown[kind]
    assert len(repr(value)) < 300
    assert "\n" not in repr(value)
    html = value._repr_html_()
    assert len(html) < 60_000
    parser = _Tags()
    parser.feed(html)
    assert parser.open == []
    assert parser.seen <= {"div", "span", "b", "table", "tr", "td", "th"}
    assert "url(" not in html


def test_long_tables_are_cut_and_say_so(shown):
    assert "12 of 300 rows are shown." in shown["privacy"]._repr_html_()
    assert "10 of 302 columns are shown." in shown["intervals"]._repr_html_()
    assert "12 of 40 rows are shown." in shown["curve"]._repr_html_()


def test_what_is_not_private_says_so_first(shown):
    released = replace(shown["transcript"], simulated=True)
    for value in (released, released.privacy, shown["inferred"]):
        assert repr(value).split("; ")[1] == NOT_PRIVATE
        assert f">{NOT_PRIVATE}</span>" in value._repr_html_()
    assert NOT_PRIVATE not in repr(shown["transcript"]) + shown["transcript"]._repr_html_()


def test_text_becomes_text_and_never_markup():
    card = Card("<i>", [("a&b", '"<q>"')], ("<th>",), [("<td>",)], warning="<w>", note="<n>")
    html = html_of(card)
    for part in ("&lt;i&gt;", "a&amp;b", "&quot;&lt;q&gt;&quot;", "&lt;th&gt;", "&lt;td&gt;", "&lt;w&gt;", "&lt;n&gt;"):
        assert part in html
    assert not re.search("<(i|q|w|n)>", html)
    assert shortened("a" * 400) == "a" * 296 + "..."


def test_a_ledger_whose_file_is_gone_is_still_shown(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    assert "left</span> 1<" in ledger._repr_html_()
    (tmp_path / "l.db").unlink()
    assert "l.db" in ledger._repr_html_()
    assert repr(ledger).startswith("Ledger(")


def test_intervals_as_a_frame():
    ends = {"center_low": np.array([[0.0, np.nan]]), "center_high": np.array([[1.0, np.nan]])}
    sizes = {"size_low": np.array([5.0]), "size_high": np.array([7.0])}
    reasons = (Withheld(0, 1, "noise"),)
    bare = Intervals(level=0.9, n_draws=39, withheld=reasons, **ends, **sizes)
    frame = bare.to_pandas()
    assert frame["column"].tolist() == ["size", "column 0", "column 1"]
    assert frame["withheld"].tolist() == ["", "", "noise"]
    assert frame["low"].isna().tolist() == [False, False, True]
    assert "estimate" not in frame
    known = replace(bare, centers=np.array([[0.5, 0.6]]), sizes=np.array([6.0]), columns=("a", "b")).to_pandas()
    assert known["estimate"].tolist() == [6.0, 0.5, 0.6]
    assert known["column"].tolist() == ["size", "a", "b"]
    assert "withheld" in bare._repr_html_()


def test_frames_need_pandas_and_say_so(monkeypatch, few_points):
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = np.random.default_rng(0).uniform(size=(200, 1))
    released = release(KMeans(n_clusters=2, n_rounds=2), rows, domain=Box([0], [1]), epsilon=9)
    for ask in (pandas, infer(released).to_pandas):
        with pytest.raises(ParameterError, match="pip install pandas"):
            ask()


def test_whatever_shows_numbers_of_simulated_noise_says_so(few_points):
    x = np.random.default_rng(0).uniform(size=(300, 2))
    terms = {"noise": "simulated", "random_state": 0}
    model = PrivateKMeans(2, 5, (0, 1), algorithm="lloyd", n_rounds=2, **terms).fit(x)
    sure = model.intervals(level=0.5)
    for shown in (count_incomplete(x, (0, 1), **terms), find_bounds(x, epsilon=5, **terms), sure):
        assert "NOT PRIVATE" in repr(shown)
    assert all("NOT PRIVATE" in shown._repr_html_() for shown in (sure, find_bounds(x, epsilon=5, **terms)))
    assert all(made.attrs == {"privacy": NOT_PRIVATE} for made in (sure.to_pandas(), model.summary()))
    secure = PrivateKMeans(2, 5, (0, 1), algorithm="lloyd", n_rounds=2).fit(x)
    assert "NOT PRIVATE" not in repr(secure.intervals(level=0.5))
    assert secure.summary().attrs == {}
