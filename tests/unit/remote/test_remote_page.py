"""The code of the page about served curators runs against one."""

from __future__ import annotations

import shlex

import pytest
from pages import DOCS, blocks_of
from remote_cases import TOKEN, served
from typer.testing import CliRunner

import recoup
from recoup.cli.app import app

ADDRESS = "https://curator.example"


def test_the_blocks_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOUP_TOKEN", TOKEN)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    (tmp_path / "curator").mkdir()
    names: dict[str, object] = {}
    with served(tmp_path / "curator") as there:
        for block in blocks_of((DOCS / "remote.md").read_text(encoding="utf-8")):
            text = block.text.replace(ADDRESS, there.url)
            if block.language == "python":
                exec(compile(text, "docs/remote.md", "exec"), names)
            for line in text.splitlines() if block.language == "sh" else ():
                done = CliRunner().invoke(app, shlex.split(line)[1:])
                assert done.exit_code == 0, done.stderr
    assert names["model"].cluster_centers_.shape == (2, 3)
    assert len(recoup.Transcript.load("segments.json").rounds) > 1
    assert there.ledger.spent == pytest.approx(3.0, abs=1e-6)
