"""A record that stands out appears nowhere: not in the report, its data, the JSON, the messages or the log."""

from __future__ import annotations

import base64
import logging
import struct

import numpy as np
import pytest
from html_page import Page
from typer.testing import CliRunner

from recoup import PrivateKMeans, Transcript
from recoup.cli.app import app
from recoup.report.write import write_report

CANARY = 123.456789
WORD = "gruffalo-8e1f"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a:.2f},{b:.2f},plain" for a, b in rng.uniform(100, 150, size=(400, 2))]
    rows += [f"{CANARY},{CANARY},{WORD}"] * 3
    place = tmp_path / WORD
    place.mkdir()
    (place / f"{WORD}.csv").write_text("a,b,note\n" + "\n".join(rows) + "\n")
    return tmp_path


def traces(text: str) -> list[str]:
    """The canary as digits, as bytes in text of base 64, or as the word of its record or of its file."""
    found = [mark for mark in (str(CANARY), "123.45678", WORD) if mark in text]
    patterns = [struct.pack("<d", CANARY), struct.pack("<f", CANARY)]
    for word in {w for w in text.replace('"', " ").split() if len(w) >= 8}:
        try:
            raw = base64.b64decode(word, validate=True)
        except ValueError:
            continue
        found += [f"bytes in {word[:20]}" for pattern in patterns if pattern in raw]
    return found


def test_traces_would_be_found():
    assert traces(f"x {CANARY} y")
    assert traces(f'"{WORD}.csv"')
    assert traces(base64.b64encode(struct.pack("<d", CANARY) + b"z").decode())


def test_a_canary_record_and_its_file_appear_nowhere(folder, caplog, monkeypatch):
    monkeypatch.chdir(folder)
    caplog.set_level(logging.DEBUG)
    out = folder / "out"
    data = folder / WORD / f"{WORD}.csv"
    arguments = ["cluster", str(data), "-k", "2", "--epsilon", "1", "--bounds", "a=100:150,b=100:150", "-o", str(out)]
    answers = [CliRunner().invoke(app, arguments)]
    for more in ([], ["--json"]):
        command = ["report", str(out / "transcript.json"), "-o", str(out / "report.html"), "--no-intervals", *more]
        answers.append(CliRunner().invoke(app, command))
    assert [answer.exit_code for answer in answers] == [0, 0, 0]
    page = (out / "report.html").read_text()
    assert traces(page) == []
    assert traces(caplog.text) == []
    for answer in answers:
        assert traces(answer.stdout) == []
        assert traces(answer.stderr) == []
    assert Page(page).data["columns"] == ["a", "b"]


def test_the_page_of_a_model_does_not_change_when_its_records_do(tmp_path):
    """The same transcript, centres and data give the same page, whatever table the estimator had seen."""
    x = np.random.default_rng(0).uniform(size=(300, 2))
    model = PrivateKMeans(2, 1.0, (0, 1), algorithm="lloyd", random_state=0).fit(x)
    model.report(tmp_path / "a.html", intervals=False)
    model.transcript_.save(tmp_path / "t.json")
    released = Transcript.load(tmp_path / "t.json")
    write_report(tmp_path / "b.html", released, model.cluster_centers_, model.inferred_, level=None, exact=True)
    x[:] = CANARY
    model.report(tmp_path / "c.html", intervals=False)
    first = (tmp_path / "a.html").read_bytes()
    assert first == (tmp_path / "b.html").read_bytes() == (tmp_path / "c.html").read_bytes()
