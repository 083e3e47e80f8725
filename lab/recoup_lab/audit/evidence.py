"""What the audit keeps and shows: JSON files in `data/`, and the parts of `evidence.md` that are written from them."""

from __future__ import annotations

import hashlib
import platform
import resource
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import recoup
import recoup_lab
from recoup.cli.tables import print_table
from recoup.version import __version__
from recoup_lab.audit.findings import HEADER, Finding, power_sentences, summary_rows
from recoup_lab.pages import markdown, read_json, write_json, write_part

ATTACKS, PLANTED = "attacks", "planted bugs"
_ONE_ATTACK: Final = frozenset({"loss", "spending", "law"})  # groups whose names say it all


def source_digest() -> str:
    """Which source was audited, and by which: a digest of the modules of Recoup and of its lab.

    >>> len(source_digest())
    16
    """
    digest = hashlib.sha256()
    for package in (Path(str(module.__file__)).parent for module in (recoup, recoup_lab)):
        for path in sorted(package.rglob("*.py")):
            digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def cpu_seconds() -> float:
    """What this process and its finished children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def write_evidence(folder: Path, part: str, text: str) -> None:
    """Write one part of `evidence.md` in a folder."""
    write_part(folder / "evidence.md", "Evidence", part, text)


def write_trust(folder: Path, part: str, text: str) -> None:
    """Write one part of `trust.md` in a folder, the short page before `evidence.md`."""
    write_part(folder / "trust.md", "Trust", part, text)


# ---- `recoup audit`, and the bugs that it must catch ----


def write_audit(folder: Path, findings: Sequence[Finding], *, quick: bool, seed: int) -> list[Path]:
    """Keep a run of the audit in a folder and write its part of `evidence.md`; returns the paths written."""
    run = {
        "quick": quick,
        "seed": seed,
        "recoup": __version__,
        "opendp": version("opendp"),
        "source": source_digest(),
        "python": platform.python_version(),
        "findings": [found.to_json() for found in findings],
    }
    return _write(folder, "audit.json", run)


def write_planted(folder: Path, planted: Mapping[str, Any]) -> list[Path]:
    """Keep bugs: `what` each does, and the attacks, "group: attack", by which it was `caught`; write their part."""
    return _write(folder, "planted.json", {"recoup": __version__, "source": source_digest(), "bugs": dict(planted)})


def _write(folder: Path, name: str, value: object) -> list[Path]:
    data = folder / "data"
    write_json(data / name, value)
    # Each shows something of the other.
    run, bugs = (read_json(data / f"{kept}.json", "the audit") for kept in ("audit", "planted"))
    planted = None if bugs is None else bugs["bugs"]
    if run is not None:
        write_evidence(folder, ATTACKS, attacks_text(run, planted or {}))
    if planted is not None:
        write_evidence(folder, PLANTED, planted_text(planted))
    return [data / name, folder / "evidence.md"]


def caught_by_attack(planted: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each attack, as "group: attack", the planted bugs that it caught.

    >>> caught_by_attack({"half-the-noise": {"what": "...", "caught": ["law: law of the noise"]}})
    {'law: law of the noise': ['half-the-noise']}
    """
    bugs: dict[str, list[str]] = {}
    for bug, entry in planted.items():
        for attack in entry["caught"]:
            bugs.setdefault(attack, []).append(bug)
    return bugs


def attacks_text(run: Mapping[str, Any], planted: Mapping[str, Any]) -> str:
    """The table of attacks, and what the run could have noticed, as Markdown."""
    findings = [Finding.from_json(value) for value in run["findings"]]
    command = "recoup audit --quick" if run["quick"] else "recoup audit"
    rows = []
    for row in summary_rows(findings, caught_by_attack(planted)):
        result = row.result if row.passed else f"**failed:** {row.result}"
        bugs = str(len(row.caught)) if planted else "not run"
        rows.append((row.group, row.attack, str(row.n_targets), f"{row.tries:,}", result, bugs))
    header = ("group", "attack", "targets", "tries", "worst result", "planted bugs caught")
    n_passed = sum(found.passed for found in findings)
    return "\n".join(
        [
            f"By `{command}` of Recoup {run['recoup']} with OpenDP {run['opendp']} on Python {run['python']}; "
            f"seed of harmless choices {run['seed']}.",
            "",
            markdown(header, rows, {2, 3, 5}),
            "",
            f"{n_passed} of {len(findings)} passed.",
            *power_sentences(findings),
        ]
    )


def planted_text(planted: Mapping[str, Any]) -> str:
    """The table of planted bugs, as Markdown."""
    rows = [(bug, entry["what"], _attacks(entry["caught"])) for bug, entry in planted.items()]
    n_caught = sum(bool(entry["caught"]) for entry in planted.values())
    table = markdown(("planted bug", "what it does", "caught by"), rows)
    return f"{table}\n\n{n_caught} of {len(planted)} caught."


def _attacks(caught: Sequence[str]) -> str:
    """Attacks by group; a group whose name says it all stands alone."""
    groups: dict[str, list[str]] = {}
    for name in caught:
        group, attack = name.split(": ", 1)
        groups.setdefault(group, []).append(attack)
    said = [g if g in _ONE_ATTACK else f"{g} ({', '.join(attacks)})" for g, attacks in groups.items()]
    return "; ".join(said) or "**nothing**"


# ---- faults and spoilt files ----


def end_run(
    folder: Path | None, part: str, name: str, module: str, findings: Sequence[Finding], *, start: float, cpu: float
) -> int:
    """Print the findings of a run and, where a folder is given, keep them there and write their part of `evidence.md`.

    Args:
        folder: with `evidence.md`; its `data` gets the JSON file. None: nothing is written.
        part: of the page.
        name: of the JSON file.
        module: that found them.
        findings: of the run.
        start: by `time.monotonic`.
        cpu: seconds used.

    Returns:
        What the program ends with: 1 if an attack succeeded.
    """
    run = {
        "command": f"python -m {module}",
        "recoup": __version__,
        "source": source_digest(),
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(cpu, 1),
        "passed": all(found.passed for found in findings),
        "findings": [found.to_json() for found in findings],
    }
    if folder is not None:
        write_json(folder / "data" / f"{name}.json", run)
        write_evidence(folder, part, run_text(run))
    n_passed = sum(found.passed for found in findings)
    print_table(f"Attacks: {part}", HEADER, [found.row() for found in findings], left=len(HEADER))
    print(f"{n_passed} of {len(findings)} passed; {run['seconds']:.0f} s, {run['cpu_seconds']:.0f} s of CPU.")
    return 0 if run["passed"] else 1


def run_text(run: Mapping[str, Any]) -> str:
    """The findings of a run as Markdown."""
    rows = [Finding.from_json(value).row() for value in run["findings"]]
    n_passed = sum(value["passed"] for value in run["findings"])
    said = f"By `{run['command']}` of Recoup {run['recoup']} on Python {run['python']}."
    return f"{said}\n\n{markdown(HEADER, rows, {2})}\n\n{n_passed} of {len(rows)} passed."
