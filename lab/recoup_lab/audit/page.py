"""Where an audit is kept and shown: JSON files beside `trust.md`, whose text between markers is written again.

Each part of the page has its own pair of markers, so that another command may own another part.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import recoup
from recoup._files import write_whole
from recoup.errors import ParameterError
from recoup.version import __version__
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.summary import power_sentences, summary_rows

ATTACKS, PLANTED = "attacks", "planted bugs"
_TITLE: Final = "# Trust\n"


def markers(name: str) -> tuple[str, str]:
    """The lines between which a part of the page is written.

    >>> markers("attacks")[1]
    '<!-- end of attacks -->'
    """
    return f"<!-- {name}: written by a command -->", f"<!-- end of {name} -->"


def with_part(page: str, name: str, text: str) -> str:
    r"""A page with the text of one part replaced; a page without the part gets it at its end.

    Args:
        page: the page as it is.
        name: of the part.
        text: its new text.

    Returns:
        The page as it should be.

    >>> begin, end = markers("a")
    >>> with_part("x\n", "a", "new") == f"x\n\n{begin}\nnew\n{end}\n"
    True
    """
    begin, end = markers(name)
    if begin not in page and end not in page:
        page = f"{page.rstrip()}\n\n{begin}\n{end}\n"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ParameterError(f"the page must have one line {begin} and later one line {end}.")
    start, stop = page.index(begin) + len(begin), page.index(end)
    return f"{page[:start]}\n{text.strip()}\n{page[stop:]}"


def source_digest() -> str:
    """Which source was audited: a digest of Recoup's modules.

    >>> len(source_digest())
    16
    """
    package, found = Path(recoup.__file__).parent, hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def write_audit(folder: Path, findings: Sequence[Finding], *, quick: bool, seed: int) -> list[Path]:
    """Keep a run of the audit in a folder and write its part of `trust.md`.

    Returns:
        The paths written.
    """
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
    """Keep which planted bugs were caught by what, and write their part of `trust.md`.

    Args:
        folder: beside the results of the audit.
        planted: by bug: `what` it does, and `caught`: the attacks, as "group: attack", that found it.

    Returns:
        The paths written.
    """
    return _write(folder, "planted.json", {"recoup": __version__, "source": source_digest(), "bugs": dict(planted)})


def _write(folder: Path, name: str, value: object) -> list[Path]:
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    write_whole(data / name, json.dumps(value, indent=1, sort_keys=False) + "\n")
    page_path = folder / "trust.md"
    page = page_path.read_text(encoding="utf-8") if page_path.exists() else _TITLE
    run, planted = _read(data / "audit.json"), (_read(data / "planted.json") or {}).get("bugs")
    if run is not None:
        page = with_part(page, ATTACKS, attacks_text(run, planted or {}))
    if planted is not None:
        page = with_part(page, PLANTED, planted_text(planted))
    write_whole(page_path, page)
    return [data / name, page_path]


def _read(path: Path) -> Any:
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ParameterError(f"{path} is not a file that the audit wrote. Move it away.") from None


def caught_by_attack(planted: Mapping[str, Any]) -> dict[str, list[str]]:
    """For each attack, as "group: attack", the planted bugs that it caught.

    >>> caught_by_attack({"half-the-noise": {"what": "...", "caught": ["law: law of the noise"]}})
    {'law: law of the noise': ['half-the-noise']}
    """
    found: dict[str, list[str]] = {}
    for bug, entry in planted.items():
        for attack in entry["caught"]:
            found.setdefault(attack, []).append(bug)
    return found


def attacks_text(run: Mapping[str, Any], planted: Mapping[str, Any]) -> str:
    """The table of attacks, and what the run could have noticed, as Markdown."""
    findings = [Finding.from_json(value) for value in run["findings"]]
    command = "recoup audit --quick" if run["quick"] else "recoup audit"
    lines = [
        f"By `{command}` of Recoup {run['recoup']} with OpenDP {run['opendp']} on Python {run['python']}; "
        f"seed of harmless choices {run['seed']}.",
        "",
        "| group | attack | targets | tries | worst result | planted bugs caught |",
        "|---|---|---:|---:|---|---:|",
    ]
    for row in summary_rows(findings, caught_by_attack(planted)):
        result = row.result if row.passed else f"**failed:** {row.result}"
        bugs = str(len(row.caught)) if planted else "not run"
        lines.append(f"| {row.group} | {row.attack} | {row.n_targets} | {row.tries:,} | {_cell(result)} | {bugs} |")
    n_passed = sum(found.passed for found in findings)
    return "\n".join([*lines, "", f"{n_passed} of {len(findings)} passed.", *power_sentences(findings)])


def planted_text(planted: Mapping[str, Any]) -> str:
    """The table of planted bugs, as Markdown."""
    lines = ["| planted bug | what it does | caught by |", "|---|---|---|"]
    for bug, entry in planted.items():
        lines.append(f"| {bug} | {_cell(entry['what'])} | {_attacks(entry['caught'])} |")
    n_caught = sum(bool(entry["caught"]) for entry in planted.values())
    return "\n".join([*lines, "", f"{n_caught} of {len(planted)} caught."])


def _attacks(caught: Sequence[str]) -> str:
    """Attacks by group; a group whose name says it all stands alone."""
    groups: dict[str, list[str]] = {}
    for name in caught:
        group, attack = name.split(": ", 1)
        groups.setdefault(group, []).append(attack)
    said = [g if g in _ONE_ATTACK else f"{g} ({', '.join(attacks)})" for g, attacks in groups.items()]
    return "; ".join(said) or "**nothing**"


_ONE_ATTACK: Final = frozenset({"loss", "spending", "law"})


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
