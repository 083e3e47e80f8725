"""Answers that were made elsewhere are marked as a claim wherever they are shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import run
from html_page import Page, faults
from imported_cases import GRID, table

import recoup
from recoup.cli.output import ExitCode
from recoup.errors import ParameterError, TranscriptError
from recoup.imported import imported_from_json
from recoup.privacy.statement import IMPORTED, NOT_PRIVATE
from recoup.transcript.transcript import Transcript


def test_the_statement_is_a_claim(imported):
    assert imported.imported
    assert imported.statement == IMPORTED == imported.privacy["statement"] == imported.to_json()["privacy"]
    assert "not verified by Recoup" in IMPORTED
    assert (imported.privacy["noise"], imported.privacy["spent"]) == ("unverified", 0.5)
    simulated = imported_from_json(GRID | {"simulated": True})
    assert simulated.statement == NOT_PRIVATE
    replaced = imported_from_json(GRID | {"neighbours": "replace-one-record"})
    assert replaced.privacy["neighbours"] == "replace-one-record"
    with pytest.raises(ParameterError, match="neighbours"):
        recoup.infer([imported_from_json(GRID | {"rounds": [GRID["rounds"][0] | {"noisy": [1, 2, 3, 4]}]}), replaced])


def test_round_trip_through_a_file(imported, tmp_path):
    imported.save(tmp_path / "t.json")
    again = Transcript.load(tmp_path / "t.json")
    assert again.to_json() == imported.to_json()
    assert again.to_json()["schema_version"] == 2
    for a, b in zip(again.rounds, imported.rounds, strict=True):
        np.testing.assert_array_equal(a.noisy, b.noisy)
        np.testing.assert_array_equal(a.scales, b.scales)
    same = [recoup.infer(t, random_state=1, n_points=1000).weights for t in (again, imported)]
    np.testing.assert_array_equal(*same)


def test_it_cannot_be_continued(imported, tmp_path):
    imported.save(tmp_path / "t.json")
    with pytest.raises(TranscriptError, match="made elsewhere: it can be read, and not continued"):
        recoup.release(
            recoup.KMeans(n_clusters=3, n_rounds=3), table(), domain=imported.context.domain, epsilon=0.5,
            path=tmp_path / "t.json", resume=True,
        )  # fmt: skip
    one = recoup.release(recoup.KMeans(n_clusters=3, n_rounds=1), table(), domain=imported.context.domain, epsilon=1)
    with pytest.raises(TranscriptError, match="do not mix"):
        imported.with_round(one.rounds[0])
    with pytest.raises(TranscriptError, match="do not mix"):
        one.with_round(imported.rounds[0])


def test_the_command_line_from_the_file_to_the_report(written, tmp_path, monkeypatch):
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    path = tmp_path / "new" / "t.json"
    answer = run("import", written, "-o", path, "--json")
    assert answer.exit_code == 0, answer.stderr
    value = json.loads(answer.stdout)
    assert list(value) == ["transcript", "algorithm", "rounds", "privacy", "files"]
    assert (value["privacy"]["statement"], value["files"]) == (IMPORTED, [str(path)])
    assert [r["n_values"] for r in value["rounds"]] == [9, 9, 9]
    assert "not verified by Recoup" in answer.stderr
    table = run("import", written, "-o", path)  # made again for free
    assert "not verified by Recoup" in table.stdout
    inferred = run("infer", path, "-o", tmp_path / "out")
    assert inferred.exit_code == 0, inferred.stderr
    assert "not verified by Recoup" in inferred.stdout
    assert "not verified by Recoup" in inferred.stderr
    assert (tmp_path / "out" / "centers.csv").read_text().startswith(f"# {IMPORTED}\n")
    report = run("report", path, "-o", tmp_path / "page.html", "--no-intervals")
    assert report.exit_code == 0, report.stderr
    text = (tmp_path / "page.html").read_text()
    assert faults(text) == []
    words = Page(text).words
    for phrase in ("Privacy claimed, not verified", "As claimed, and not verified by Recoup", "The claim itself"):
        assert phrase in words
    assert "3 clusters in 2 columns" in words
    assert "private clusters" not in words
    assert "OpenDP" not in words


def test_import_never_writes_over_what_was_paid_for(written, tmp_path):
    path = tmp_path / "t.json"
    recoup.release(recoup.KMeans(n_clusters=1, n_rounds=1), [[0.5]], domain=recoup.Box([0], [1]), epsilon=1).save(path)
    before = path.read_bytes()
    answer = run("import", written, "-o", path)
    assert (answer.exit_code, answer.stdout) == (ExitCode.TRANSCRIPT, "")
    assert path.read_bytes() == before
    assert run("import", written, "-o", tmp_path).exit_code == ExitCode.USAGE


def test_noise_that_is_too_small_for_its_claim_is_noticed(tmp_path):
    (tmp_path / "f.json").write_text(json.dumps(GRID | {"epsilon": 0.01}))
    answer = run("import", tmp_path / "f.json", "-o", tmp_path / "t.json")
    assert answer.exit_code == 0
    assert "would cost epsilon 0.5 here, more than the 0.01 that is claimed" in answer.stderr
    (tmp_path / "f.json").write_text(json.dumps(GRID))
    assert "would cost" not in run("import", tmp_path / "f.json", "-o", tmp_path / "t.json").stderr
