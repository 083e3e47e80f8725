"""The examples run, on less data, and write what they say; the analyst's half never meets the curator's side."""

from __future__ import annotations

import runpy
import subprocess
import sys

import numpy as np
import pytest
from pages import ROOT

from recoup import Ledger, Transcript

EXAMPLES = ROOT / "examples"

ANALYST = """
import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
curator = sorted(name for name in sys.modules if name.startswith(("recoup.curator", "recoup.driver", "opendp.")))
sys.exit(f"the curator's side was loaded: {curator}" if curator else 0)
"""


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr("recoup.inference.intervals._DRAWS", 9)  # enough for a level of 0.9, and four times as quick
    monkeypatch.setattr("recoup.inference.choose._DRAWS", 9)


def run(monkeypatch, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def is_picture(path):
    return path.read_bytes()[1:4] == b"PNG" and path.stat().st_size > 10_000


def test_every_example_is_tested_here():
    tested = {"customer_segments.py", "check_ins.py", "handover_curator.py", "handover_analyst.py", "hospital.py"}
    tested |= {"served_curator.py", "served_analyst.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_customer_segments(tmp_path, monkeypatch, capsys):
    run(monkeypatch, "customer_segments.py", "-o", tmp_path / "out", "--records", 2000)
    assert is_picture(tmp_path / "out" / "segments.png")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Customer segments" in page
    assert "basket_eur" in page
    assert "c000001" not in page  # nor any other customer
    assert (
        Ledger(tmp_path / "out" / "budget.db").spent == Transcript.load(tmp_path / "out/transcript.json").epsilon_spent
    )
    assert "epsilon 0.25 of 1" in capsys.readouterr().out


def test_hospital(tmp_path, monkeypatch, capsys):
    run(monkeypatch, "hospital.py", "-o", tmp_path / "out", "--patients", 1500)
    page, said = (tmp_path / "out" / "report.html").read_text(encoding="utf-8"), capsys.readouterr().out
    assert "Kinds of patients" in page
    assert "ward=geriatrics" in page
    assert "P00001" not in page + said  # nor any other patient
    assert "Promised to: one person, by column 'patient_id'. Spent: epsilon 1 of 3." in said
    assert Transcript.load(tmp_path / "out/transcript.json").context.person == "patient_id"


def test_check_ins_are_generated_or_read_from_a_folder(tmp_path, monkeypatch, capsys):
    run(monkeypatch, "check_ins.py", "-o", tmp_path / "generated", "--records", 5000)
    assert is_picture(tmp_path / "generated" / "check-ins.png")
    rows = np.random.default_rng(0).uniform((-60, -180), (70, 180), size=(3000, 2))
    np.savetxt(tmp_path / "gowalla.csv", rows, delimiter=",", header="latitude,longitude", comments="")
    run(monkeypatch, "check_ins.py", "-o", tmp_path / "read", "--data", tmp_path, "--epsilon", 1)
    assert is_picture(tmp_path / "read" / "check-ins.png")
    assert "epsilon 1." in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"holds no gowalla"):
        run(monkeypatch, "check_ins.py", "-o", tmp_path / "none", "--data", tmp_path / "generated")


@pytest.mark.slow
def test_the_analyst_needs_the_transcript_and_nothing_else(tmp_path, monkeypatch):
    curator, analyst = tmp_path / "curator", tmp_path / "analyst"
    run(monkeypatch, "handover_curator.py", "-o", curator, "--records", 3000)
    assert sorted(path.name for path in curator.iterdir()) == ["budget.db", "transcript.json"]
    analyst.mkdir()
    (curator / "transcript.json").rename(analyst / "transcript.json")
    words = [EXAMPLES / "handover_analyst.py", "transcript.json", "-o", "."]
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", ANALYST, *words], cwd=analyst, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "differentially private: epsilon 1" in result.stdout
    assert is_picture(analyst / "reading.png")
    assert "Read from a transcript" in (analyst / "report.html").read_text(encoding="utf-8")
    assert len((analyst / "sample.csv").read_text().splitlines()) == 1001


@pytest.mark.slow
def test_served(tmp_path, monkeypatch, capfd):
    run(monkeypatch, "served_curator.py", "-o", tmp_path / "out", "--records", 2000)
    said = capfd.readouterr().out
    assert "The ledger: token ann, 'Who sleeps how', 6 charges." in said
    assert "resting_pulse_bpm" in (tmp_path / "out" / "analyst" / "report.html").read_text(encoding="utf-8")
    assert Ledger(tmp_path / "out" / "curator" / "ledger.db").spent <= 1
