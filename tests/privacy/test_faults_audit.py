"""The scripts of the audit that kill, race, refuse and fuzz, with few tries: they pass, and their controls are caught.

Each script ends with an error if one of its planted bugs is missed, so a pass says that the checks can fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def findings(tmp_path: Path, script: str, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", f"recoup_lab.audit.{script}.run", *options, "-o", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    assert "passed" in (tmp_path / "evidence.md").read_text()
    found: list[dict[str, Any]] = json.loads((tmp_path / "data" / f"{script}.json").read_text())["findings"]
    return found


@pytest.mark.slow
def test_kills_races_and_refusals_lose_nothing(tmp_path: Path) -> None:
    parts = ("kills of releases", "races", "refusals")
    found = findings(tmp_path, "faults", "--quick", "--share", "0.5", *(w for part in parts for w in ("--only", part)))
    attacks = {finding["attack"] for finding in found}
    assert {"kill -9", "two processes race", "writes that fail half-way", "control: planted bugs"} <= attacks
    assert all(finding["passed"] for finding in found)


@pytest.mark.slow
def test_spoilt_files_end_in_typed_errors(tmp_path: Path) -> None:
    found = findings(tmp_path, "fuzz", "--cases", "2000", "--processes", "1")
    assert sum(finding["tries"] for finding in found) >= 1_990
    assert len(found) == 12
    assert all(finding["passed"] for finding in found)


@pytest.mark.slow
def test_a_served_curator_withstands_kills_races_and_spoilt_requests(tmp_path: Path) -> None:
    found = findings(tmp_path, "served", "--quick", "--share", "0.3")
    attacks = {finding["attack"] for finding in found}
    assert {"kill -9 of a server", "two requests race", "spoilt requests", "guessed tokens"} <= attacks
    assert {"replies to neighbours", "many at once", "control: bugs of a server", "control: bug of a header"} <= attacks
    assert all(finding["passed"] for finding in found)
