"""The supply chain by command: the table of dependencies, a bill of materials, and known vulnerabilities.

    python -m recoup_lab.audit.supply.run table            write docs/dependencies.md again
    python -m recoup_lab.audit.supply.run check            pins, notes, licences and the page agree; code 1 if not
    python -m recoup_lab.audit.supply.run sbom             write dist/sbom.json; needs `cyclonedx-py`
    python -m recoup_lab.audit.supply.run vulnerabilities  ask an advisory service; needs `pip-audit` and a network

`make dependencies`, `make sbom` and `make vulnerabilities` install what each needs and call them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from recoup._files import write_whole
from recoup.version import __version__
from recoup_lab.audit.supply.dependencies import (
    Package,
    all_pins,
    direct_names,
    notes,
    packages,
    pins_in,
    refused,
    running_names,
    stale_notes,
)
from recoup_lab.audit.supply.sbom import SPEC_VERSION, cleaned
from recoup_lab.pages import markdown, markers, write_part
from recoup_lab.tree import ROOT

PAGE: Final = ROOT / "docs" / "dependencies.md"
PART: Final = "dependencies"
_HEADER: Final = ("package", "version", "licence", "used for", "built", "who looks after it")
_VALIDATE: Final = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V{}).validate_str(sys.stdin.read())
sys.exit("not valid: " + str(wrong) if wrong else 0)
"""


def tables(found: Sequence[Package], written: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables of the page, as Markdown."""
    parts = []
    for title, runs, direct in (
        ("Needed to run, named by Recoup", True, True),
        ("Needed to run, named by those", True, False),
        ("For developers and options, named by Recoup", False, True),
        ("For developers and options, named by those", False, False),
    ):
        chosen = [package for package in found if (package.runs, package.direct) == (runs, direct)]
        rows = [_row(package, written[package.name] if direct else None) for package in chosen]
        parts.append(f"### {title}\n{markdown(_HEADER if direct else _HEADER[:3], rows)}")
    return "\n\n".join(parts)


def _row(package: Package, note: Mapping[str, Any] | None) -> list[str]:
    cells = [package.name, package.version, package.licence]
    if note is not None:
        cells += [note["purpose"], note["built"] or "not stated", note["upkeep"]]
    return cells


def shown(page: str) -> list[Package]:
    """The packages in the tables of the page."""
    begin, end = markers(PART)
    found, runs, direct = list[Package](), False, False
    for line in page[page.index(begin) : page.index(end)].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("### "):
            runs, direct = "to run" in line, line.endswith("by Recoup")
        elif line.startswith("|") and cells[0] != "package" and not re.fullmatch(r"-+", cells[0]):
            name, version, licence = cells[:3]
            found.append(Package(name=name, version=version, licence=licence, runs=runs, direct=direct))
    return found


def disagreements(page: str, root: Path = ROOT) -> list[str]:
    """Where the page, the pins, the notes and the list of licences disagree; needs nothing installed."""
    pins, (first, second), table = all_pins(root), direct_names(root), shown(page)
    versions = {package.name: package.version for package in table}
    lines = [
        f"{name}: the page says {versions.get(name)}, pinned is {pins.get(name)}. Run `make dependencies`."
        for name in sorted(pins | versions)
        if versions.get(name) != pins.get(name)
    ]
    for package in table:
        if package.direct != (package.name in first | second) or (package.name in first and not package.runs):
            lines.append(f"{package.name}: in the wrong table of the page.")
    return [*lines, *refused(table), *stale_notes(pins, first | second, notes())]


def write_table() -> int:
    """Write the page's tables from what is installed."""
    pins, (first, second) = all_pins(), direct_names()
    found = packages()
    wrong = [*stale_notes(pins, first | second, notes()), *refused(found)]
    if not wrong:
        write_part(PAGE, "Dependencies", PART, tables(found, notes()))
        print(f"== {PAGE.relative_to(ROOT)}: {len(found)} packages, {sum(p.runs for p in found)} needed to run")
    return _end(wrong)


def check() -> int:
    """Compare everything that is written about dependencies."""
    wrong = disagreements(PAGE.read_text(encoding="utf-8"))
    if not wrong:
        print(f"== {len(all_pins())} pins, their notes, licences and docs/dependencies.md agree")
    return _end(wrong)


def write_sbom(tool: Path, output: Path) -> int:
    """Write the bill of materials of what Recoup needs to run, by the program `cyclonedx-py`."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "sbom.json"
        command = [tool, "environment", sys.executable, "--pyproject", ROOT / "pyproject.toml", "--mc-type", "library"]
        command += ["--spec-version", SPEC_VERSION, "--output-reproducible", "--short-PURLs", "--of", "JSON", "-o", raw]
        subprocess.run([str(word) for word in command], check=True)
        document = json.loads(raw.read_text(encoding="utf-8"))
    pins, runs = all_pins(), running_names()
    result = cleaned(document, {name: pins[name] for name in sorted(runs)}, __version__)
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    # Cleaned by hand, so held to the schema once more, by the library that comes with the tool.
    validate = _VALIDATE.format(SPEC_VERSION.replace(".", "_"))
    subprocess.run([str(tool.parent / "python"), "-c", validate], input=text, text=True, check=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, text)
    print(f"== {output}: {len(result['components'])} packages, CycloneDX {SPEC_VERSION}, valid")
    return 0


def judged(report: Mapping[str, Any], n_pins: int) -> tuple[int, list[str]]:
    """What a report of `pip-audit` means: the code to end with, and what to say.

    A package that the service did not answer for is not a package without vulnerabilities, and is not passed over.
    """
    listed = report["dependencies"]
    bad = [entry for entry in listed if entry.get("vulns")]
    n_silent = n_pins - sum("vulns" in entry for entry in listed)
    lines = [f"{e['name']} {e['version']}: {', '.join(v['id'] for v in e['vulns'])}" for e in bad]
    if n_silent:
        lines.append(f"NOT CHECKED: {n_silent} of {n_pins} packages; the advisory service gave no answer for them.")
    if n_pins > n_silent:
        lines.append(f"{len(bad)} of {n_pins - n_silent} checked packages have a known vulnerability.")
    return (1 if bad else 0), lines


def vulnerabilities(tool: Path, seconds: int) -> int:
    """Ask an advisory service, by the program `pip-audit`, about every pin, those of tools too.

    Without a network it says so and ends with code 0.

    Raises:
        ValueError: the tool failed, and not for want of a network.
    """
    tools = sorted(path for path in (ROOT / "lab").glob("requirements-*.txt"))
    asked = [all_pins(), *(pins_in(path.read_text(encoding="utf-8")) for path in tools)]
    listed, n_pins = [], sum(map(len, asked))
    for pins in asked:
        report, said = _report(tool, pins, seconds)
        if report is None and not _UNREACHED.search(said):
            raise ValueError(f"{tool.name} failed: {_last_line(said)}")
        if report is None:
            print(f"NOT CHECKED: all {n_pins} packages; the advisory service cannot be reached: {_last_line(said)}")
            return 0
        listed += report["dependencies"]
    code, lines = judged({"dependencies": listed}, n_pins)
    print("\n".join(lines))
    return code


_UNREACHED: Final = re.compile(
    r"connect|timed out|timeout|no answer|unreachable|resolve|resolution|name or service|proxy|certificate|max retries"
    r"|ServiceError|\b(?:403|404|407|429|5\d\d)\b",
    re.IGNORECASE,
)


def _report(tool: Path, pins: Mapping[str, str], seconds: int) -> tuple[dict[str, Any] | None, str]:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "pins.txt"
        listed.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="utf-8")
        command = [str(tool), "--requirement", str(listed), "--no-deps", "--disable-pip", "--format", "json"]
        command += ["--progress-spinner", "off", "--timeout", str(seconds)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return None, "no answer within ten minutes"
    try:
        return json.loads(ran.stdout), ran.stderr
    except ValueError:
        return None, ran.stderr


def _last_line(said: str) -> str:
    """It says why; it may quote an address, which belongs to nobody's log."""
    return re.sub(r"\S*://\S*", "(address)", (said.strip().splitlines() or ["no reason given"])[-1])[:200]


def _end(wrong: Sequence[str]) -> int:
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    """Do what the first argument says."""
    parser = argparse.ArgumentParser(description="The supply chain of Recoup.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="write docs/dependencies.md again")
    commands.add_parser("check", help="compare pins, notes, licences and the page")
    sbom = commands.add_parser("sbom", help="write a bill of materials")
    sbom.add_argument("--tool", type=Path, required=True, help="the program cyclonedx-py")
    sbom.add_argument("-o", "--output", type=Path, default=ROOT / "dist" / "sbom.json")
    known = commands.add_parser("vulnerabilities", help="ask for known vulnerabilities")
    known.add_argument("--tool", type=Path, required=True, help="the program pip-audit")
    known.add_argument("--timeout", type=int, default=10, help="seconds for one answer")
    options = parser.parse_args()
    try:
        if options.command == "sbom":
            return write_sbom(options.tool, options.output)
        if options.command == "vulnerabilities":
            return vulnerabilities(options.tool, options.timeout)
        return write_table() if options.command == "table" else check()
    except ValueError as error:
        return _end([str(error)])


if __name__ == "__main__":
    sys.exit(main())
