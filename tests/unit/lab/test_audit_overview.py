"""The one table of all attacks: what fails, is missed or is missing shows, and fails the command."""

from __future__ import annotations

import json
import sys

import pytest

from recoup_lab.audit import overview, planted_bugs
from recoup_lab.audit.evidence import source_digest
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.planted_bugs import CONTROL, Result


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


def catchers(patch):
    """What must catch a patch, as attacks."""
    return [name if ":" in name else f"{name}: an attack" for name in planted_bugs.header(patch)[1]]


@pytest.fixture
def folder(tmp_path):
    def write(*, audit=None, planted=None, source=None, n_faults=None):
        run = {"source": source_digest(), "quick": False}
        attacks = audit or [finding("law of the noise", group=group) for group in planted_bugs.GROUPS]
        faults = [finding(name) for name in ("kill -9", "two processes race", *overview._SAME_CHECKS)]
        faults += [finding(f"control: planted {what}", "a, b") for what in ("bugs", "bug")]
        spoilt = [finding("spoilt files", group="bad input"), finding("control: planted bad loaders", "a")]
        served = [finding(n, "a", group="served") for n in overview._CONTROL_OF if n.startswith("control: bug")]
        served += [finding(overview._CONTROL_OF[one.attack], group="served") for one in served]
        bugs = {p.stem: {"what": "", "caught": list(catchers(p))} for p in planted_bugs.PATCHES.glob("*.patch")}
        files = {
            "audit": run | {"source": source or source_digest(), "findings": [found.to_json() for found in attacks]},
            "faults": run | {"findings": [found.to_json() for found in faults[: n_faults or len(faults)]]},
            "served": run | {"findings": [found.to_json() for found in served]},
            "fuzz": run | {"findings": [found.to_json() for found in spoilt]},
            "planted": run | {"bugs": bugs | (planted or {})},
        }
        (tmp_path / "data").mkdir(exist_ok=True)
        for name, value in files.items():
            (tmp_path / "data" / f"{name}.json").write_text(json.dumps(value))
        (tmp_path / "evidence.md").write_text("# Evidence\n")
        return tmp_path

    return write


def called(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["overview.py", "-o", str(folder)])
    return overview.main()


def test_the_table_is_printed_and_kept(folder, monkeypatch, capsys):
    place = folder()
    assert called(place, monkeypatch) == 0
    n_bugs = len(list(planted_bugs.PATCHES.glob("*.patch")))
    said = capsys.readouterr().out
    assert f"25 of 25 attacks found nothing; {n_bugs} of {n_bugs} bugs planted in the source were caught." in said
    assert "| faults: kill -9 | 3 | nothing wrong; x | 2 |" in (place / "evidence.md").read_text()
    page = (place / "trust.md").read_text()
    assert "| **bad input**: A spoilt file ends in a typed error. | 3 | nothing | 1 |" in page
    assert page.count("\n| **") == len(planted_bugs.GROUPS) + 3
    assert said.splitlines()[-1] in page


@pytest.mark.parametrize(
    "wrong",
    [
        {"audit": [finding("x", group=group, passed=group != "law") for group in planted_bugs.GROUPS]},
        {"audit": [finding("x", group=group) for group in planted_bugs.GROUPS[1:]]},
        {"planted": {"half-the-noise": {"what": "half", "caught": ["law: law of the noise"]}}},
        {"source": "another"},
        {"n_faults": 5},
    ],
)
def test_what_is_wrong_fails_the_command(folder, monkeypatch, capsys, wrong):
    assert called(folder(**wrong), monkeypatch) == 1


def test_an_attack_that_catches_no_planted_bug_is_named():
    tried = ("law: law of the noise", "precision: low-order bits")
    results = [Result(CONTROL, "", tried=tried, caught=tried), Result("a-bug", "", tried=tried, caught=tried[:1])]
    assert planted_bugs.without_a_catch(results) == ["precision: low-order bits"]


def test_what_is_missing_is_said(tmp_path, monkeypatch, capsys):
    assert called(tmp_path, monkeypatch) == 1
    assert "Run `make audit`" in capsys.readouterr().out
