"""Every figure of the pages is that of its runs, and the check notices one that is not."""

from __future__ import annotations

import json
import re

import pytest

import recoup
from recoup.errors import ParameterError
from recoup_lab.audit.supply.dependencies import pins_in, running_names
from recoup_lab.figures import __main__ as command
from recoup_lab.figures import check
from recoup_lab.figures.keys import FIGURES
from recoup_lab.figures.parts import PAGES
from recoup_lab.figures.runs import DOCS, paper_runs
from recoup_lab.pages import markers, mean_and_error, write_runs
from recoup_lab.tree import ROOT

TEXTS = check.pages_of(ROOT, PAGES)


def test_every_page_agrees_with_its_runs(capsys):
    assert command.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", PAGES)
def test_every_part_and_every_figure_is_compared(name):
    parts, text = PAGES[name], TEXTS[name]
    assert check.rewritten(text, parts, FIGURES) == text
    for part in parts:
        begin, _ = markers(part)
        planted = text.replace(begin, f"{begin}\n9", 1)
        assert [d.key for d in check.disagreements(name, planted, parts, FIGURES)] == [part]
    for value, key in check._KEYED.findall(text):
        planted = text.replace(f"{value}<!-- figure: {key} -->", f"{value}9<!-- figure: {key} -->", 1)
        assert list(check.disagreements(name, planted, parts, FIGURES)) == [
            check.Disagreement(name, key, f"{value}9", value)
        ]


def test_a_planted_disagreement_fails_the_command_and_is_named(tmp_path, monkeypatch, capsys):
    for page, text in TEXTS.items():
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text(text, encoding="utf-8")
    path = tmp_path / "docs" / "choosing.md"
    value, key = check._KEYED.findall(path.read_text(encoding="utf-8"))[0]
    path.write_text(
        path.read_text(encoding="utf-8").replace(f"{value}<!-- figure: {key}", f"9.10<!-- figure: {key}", 1)
    )
    monkeypatch.setattr(command, "ROOT", tmp_path)
    assert command.main(["--check"]) == 1
    assert f"docs/choosing.md: {key}: stands '9.10', should be '{value}'" in capsys.readouterr().out
    # Writing mends it.
    assert command.main([]) == 0
    assert path.read_text(encoding="utf-8") == TEXTS["docs/choosing.md"]


@pytest.mark.parametrize("key", ["nothing", "loss user s1", "loss user nowhere 1", "loss user s1 7", "bounds 3"])
def test_a_key_without_a_run_is_refused(key):
    with pytest.raises(ParameterError, match="no run stands behind"):
        check.figure(key, FIGURES)


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("x\n\n| a | b |\n|---|--:|\n| c | 1 |\n", ["| a | b |"]),
        ("The loss is 3±1 here, and there 1.024.", ["3±1", "1.024"]),
        ("<!-- cited: somebody -->\n| a |\n|---|\n\nThe loss is 1.024. <!-- not measured: a constant -->", []),
        ("At epsilon .05 `1.024` and\n\n```python\n1.024\n```\n", []),
        ("1.024<!-- figure: loss --> and {}".format("\n1.024\n".join(markers("a"))), []),
    ],
)
def test_what_no_run_stands_behind_is_found(text, stands):
    assert [orphan.stands for orphan in check.orphans("page", text)] == stands


def test_two_measurements_of_the_default_agree():
    """The comparison and the evaluation ran the same fits: one of them is older if they differ."""
    ours = {(r.set, r.seed): r.wcss for r in paper_runs() if (r.metric, r.method, r.epsilon) == ("user", "recoup", 1.0)}
    cells = json.loads((DOCS / "data" / "rivals.json").read_text(encoding="utf-8"))["cells"]
    compared = 0
    for cell in cells:
        if cell["contestant"] == "recoup":
            for seed, score in zip(cell["seeds"], cell["wcss"], strict=True):
                if (cell["set"], seed) in ours:
                    assert score == pytest.approx(ours[cell["set"], seed], rel=1e-5)
                    compared += 1
    assert compared >= 30


def test_runs_are_kept_with_their_command(tmp_path):
    path = tmp_path / "new" / "a.json"
    write_runs(path, 'python -m "a"', [{"multiple": mean_and_error([1.0, 2.0])}, {}], "note")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept == {"command": 'python -m "a"', "note": "note", "runs": [{"multiple": [1.5, 0.5]}, {}]}
    assert len(path.read_text(encoding="utf-8").splitlines()) == 4


# ---- what is installed ----


def test_a_user_installs_what_runs_and_no_more():
    user, developer = (pins_in((ROOT / f"requirements{end}.txt").read_text(encoding="utf-8")) for end in ("", "-dev"))
    assert set(user) == running_names()
    assert user.items() < developer.items()


def test_the_sizes_of_an_installation_are_the_measured_ones():
    kept = json.loads((DOCS / "data" / "install.json").read_text(encoding="utf-8"))["runs"]
    said = re.findall(r"\(([\d.]+) GB(?: more)?, about a minute", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert said == [f"{run['megabytes'] / 1000:.1f}" for run in kept]


def test_the_comparison_names_every_model():
    others = [name for name in recoup.__all__ if name.startswith("Private") and name != "PrivateKMeans"]
    row = re.search(r"^\| other models \| ([^|]+) \|", TEXTS["docs/comparison.md"], re.MULTILINE)
    assert row is not None
    assert len(row[1].split(",")) == len(others)
