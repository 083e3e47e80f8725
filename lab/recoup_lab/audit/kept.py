"""How the scripts of the audit show and keep what they found: a table, a JSON file, and a part of `trust.md`."""

from __future__ import annotations

import json
import platform
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recoup._files import write_whole
from recoup.version import __version__
from recoup_lab.audit.findings import HEADER, Finding
from recoup_lab.audit.page import source_digest, with_part


def cpu_seconds() -> float:
    """What this process and its finished children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def keep(
    folder: Path | None,
    part: str,
    name: str,
    findings: Sequence[Finding],
    command: str,
    start: float,
    cpu: float,
) -> dict[str, Any]:
    """Put a run together and, where a folder is given, write it there.

    Args:
        folder: with `trust.md`; its `data` gets the JSON file. None: nothing is written.
        part: of the page, between its markers.
        name: of the JSON file.
        findings: of the run.
        command: that made them.
        start: by `time.monotonic`.
        cpu: seconds used.

    Returns:
        The run as JSON.
    """
    run = {
        "command": command,
        "recoup": __version__,
        "source": source_digest(),
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(cpu, 1),
        "passed": all(found.passed for found in findings),
        "findings": [found.to_json() for found in findings],
    }
    if folder is not None:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        write_whole(folder / "data" / name, json.dumps(run, indent=1) + "\n")
        page = folder / "trust.md"
        before = page.read_text(encoding="utf-8") if page.exists() else "# Trust\n"
        write_whole(page, with_part(before, part, text_of(run)))
    return run


def text_of(run: dict[str, Any]) -> str:
    """The findings of a run as Markdown."""
    lines = [
        f"By `{run['command']}` of Recoup {run['recoup']} on Python {run['python']}.",
        "",
        "| attack | run on | tries | result | passed |",
        "|---|---|---:|---|---|",
    ]
    for value in run["findings"]:
        cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in Finding.from_json(value).row()]
        lines.append(f"| {' | '.join(cells)} |")
    n_passed = sum(value["passed"] for value in run["findings"])
    return "\n".join([*lines, "", f"{n_passed} of {len(run['findings'])} passed."])


def show(findings: Sequence[Finding], run: dict[str, Any]) -> int:
    """Print the table; returns what the script ends with."""
    rows = [HEADER, *(found.row() for found in findings)]
    widths = [min(60, max(len(row[j]) for row in rows)) for j in range(len(HEADER))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    wrong = sum(not found.passed for found in findings)
    print(
        f"{len(findings) - wrong} of {len(findings)} passed; {run['seconds']:.0f} s, {run['cpu_seconds']:.0f} s of CPU."
    )
    return 1 if wrong else 0
