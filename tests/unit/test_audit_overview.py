"""The one table of all attacks: what fails, is missed or is missing shows, and fails the command."""

from __future__ import annotations

import json
import sys

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "audit"))

import overview
import planted_bugs
from planted_bugs import CONTROL, Result

from recoup.audit.findings import Finding


def finding(attack, target="x", *, passed=True, group="faults", result="fine", **figures):
    return Finding(group=group, attack=attack, target=target, tries=3, result=result, passed=passed, figures=figures)


def test_findings_of_one_attack_share_a_row_and_controls_stand_beside_their_attack():
    found = [
        finding("kill -9", "release", reached=2),
        finding("kill -9", "save", reached=1),
        finding("full disk"),
        finding("control: planted bugs", "a, b, c"),
    ]
    assert overview.fault_rows(found) == [
        ("faults: kill -9", "6", "3 ended on the way, nothing wrong; 2 kinds of work", "3"),
        ("faults: full disk", "3", "nothing wrong; x", "by the checks of kill -9"),
    ]


def test_a_failure_shows_wherever_it_happened():
    rows = overview.fault_rows(
        [
            finding("kill -9", "release"),
            finding("kill -9", "save", passed=False, result="half a file"),
            finding("control: planted bugs", "a, b", passed=False, result="not caught: b"),
        ]
    )
    assert rows == [("faults: kill -9", "6", "FAILED: save: half a file", "FAILED: not caught: b")]


@pytest.fixture
def folder(tmp_path):
    def write(*, audit=None, planted=None, version="1"):
        run = {"recoup": "1", "quick": False}
        attacks = audit or [finding("law of the noise", group="law")]
        files = {
            "audit": run | {"recoup": version, "findings": [found.to_json() for found in attacks]},
            "faults": run | {"findings": [finding("kill -9").to_json()]},
            "fuzz": run | {"findings": [finding("spoilt files", group="bad input").to_json()]},
            "planted": planted or {"half-the-noise": {"what": "half", "caught": ["law: law of the noise"]}},
        }
        (tmp_path / "data").mkdir(exist_ok=True)
        for name, value in files.items():
            (tmp_path / "data" / f"{name}.json").write_text(json.dumps(value))
        (tmp_path / "trust.md").write_text("# Trust\n")
        return tmp_path

    return write


def called(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["overview.py", "-o", str(folder)])
    return overview.main()


def test_the_table_is_printed_and_kept(folder, monkeypatch, capsys):
    place = folder()
    assert called(place, monkeypatch) == 0
    assert "3 of 3 attacks found nothing; 1 of 1 bugs planted in the source were caught." in capsys.readouterr().out
    assert "| law: law of the noise | 3 | fine | 1 |" in (place / "trust.md").read_text()


@pytest.mark.parametrize(
    "wrong",
    [
        {"audit": [finding("law of the noise", group="law", passed=False)]},
        {"planted": {"half-the-noise": {"what": "half", "caught": []}}},
        {"version": "2"},
    ],
)
def test_what_is_wrong_fails_the_command(folder, monkeypatch, capsys, wrong):
    assert called(folder(**wrong), monkeypatch) == 1


def test_an_attack_that_catches_no_planted_bug_is_named():
    tried = ("law: law of the noise", "precision: low-order bits")
    results = [Result(CONTROL, "", tried=tried, caught=tried), Result("a-bug", "", tried=tried, caught=tried[:1])]
    assert planted_bugs.without_a_catch(results) == ["precision: low-order bits"]
