"""What Recoup depends on: pins, who needs what, and licences, from installed metadata and from the project's own files.

Nothing here asks a network. Addresses and paths in the metadata are never read, so they can get into no page.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from packaging.markers import default_environment
from packaging.requirements import Requirement

from recoup_lab.tree import ROOT

FILES: Final = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-docs.txt",
    "requirements-spark.txt",
    "requirements-browser.txt",
)
PROJECT: Final = "recoup"
NOTES: Final = Path(__file__).resolve().with_name("dependencies.toml")

# Licences under which a package may be used. LGPL and GPL are not among them: nothing needs them so far.
ALLOWED: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD",  # a BSD licence whose metadata does not say with how many clauses
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
        "Zlib",
    }
)
# Older metadata says it in words.
_WORDS: Final = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd license": "BSD",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A pinned package.

    Attributes:
        name: as pins write it.
        version: the pinned one.
        licence: as SPDX writes it, or `unknown`.
        runs: whether Recoup needs it to run; otherwise only developers do.
        direct: whether pyproject.toml names it.
    """

    name: str
    version: str
    licence: str
    runs: bool
    direct: bool


def normal(name: str) -> str:
    """A package's name as pins write it.

    >>> normal("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def pins_in(text: str) -> dict[str, str]:
    r"""The versions that a requirements file pins.

    Raises:
        ValueError: a line that is no comment is no exact pin either. So an option with an address is refused.

    >>> pins_in("numpy==2.4.6\n# a comment\n")
    {'numpy': '2.4.6'}
    """
    pins = {}
    for line in (line.split("#")[0].strip() for line in text.splitlines()):
        found = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+]+)", line)
        if found:
            pins[normal(found[1])] = found[2]
        elif line:
            raise ValueError(f"not an exact pin: {line.split('=')[0].split(' ')[0]!r}")
    return pins


def all_pins(root: Path = ROOT) -> dict[str, str]:
    """The pins of all requirements files, which must agree.

    Raises:
        ValueError: two files pin one package at different versions.
    """
    pins: dict[str, str] = {}
    for file in FILES:
        for name, version in pins_in((root / file).read_text(encoding="utf-8")).items():
            if pins.setdefault(name, version) != version:
                raise ValueError(f"{file} pins {name} {version}, another file {pins[name]}. Run `make requirements`.")
    return dict(sorted(pins.items()))


def direct_names(root: Path = ROOT) -> tuple[frozenset[str], frozenset[str]]:
    """The packages that pyproject.toml names: to run, and for developers and options."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    more = [line for lines in project["optional-dependencies"].values() for line in lines]
    return _names(project["dependencies"]), _names(more)


def _names(lines: Iterable[str]) -> frozenset[str]:
    return frozenset(normal(Requirement(line).name) for line in lines)


def running_names(root: Path = ROOT) -> frozenset[str]:
    """All that Recoup needs to run in this environment, found by following installed metadata."""
    environment = {key: str(value) for key, value in default_environment().items()} | {"extra": ""}
    found, open_ones = set[str](), set(direct_names(root)[0])
    while open_ones:
        name = open_ones.pop()
        found.add(name)
        for line in distribution(name).requires or []:
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate(environment):
                open_ones |= {normal(need.name)} - found
    return frozenset(found)


def licence_of(package: Distribution) -> str:
    """A package's licence from its metadata, as SPDX writes it; `unknown` where that is not clear."""
    fields = package.metadata
    if "License-Expression" in fields:
        return str(fields["License-Expression"])
    text = fields["License"].strip() if "License" in fields else ""
    classifiers = [line.split("::")[1:] for line in fields.get_all("Classifier") or [] if line.startswith("License ::")]
    said: list[str] = [line[-1].strip() for line in classifiers if line[-1].strip() != "OSI Approved"]
    # A classifier that is not understood counts, whatever else is said: it may be a copyleft licence.
    for word in said:
        if _spdx(word) == UNKNOWN:
            return word
    short = _spdx(text)
    if short != UNKNOWN:
        return short
    return _spdx(said[0]) if said else (text if 0 < len(text) < 40 else UNKNOWN)


def _spdx(word: str) -> str:
    return word if word in ALLOWED else _WORDS.get(word.lower(), UNKNOWN)


def allowed(expression: str) -> bool:
    """Whether a licence expression can be met with licences of the list: all of an AND, one of an OR.

    >>> allowed("MIT AND PSF-2.0"), allowed("GPL-3.0-only OR MIT"), allowed("MIT AND (GPL-3.0-only OR AGPL-3.0-only)")
    (True, True, False)
    """
    tokens = re.findall(r"[()]|[^\s()]+(?:\s+WITH\s+[^\s()]+)?", expression)
    value = _either(tokens)
    if tokens:
        raise ValueError(f"no licence expression: {expression!r}")
    return value


def _either(tokens: list[str]) -> bool:
    value = _both(tokens)
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        value = _both(tokens) or value
    return value


def _both(tokens: list[str]) -> bool:
    value = _one(tokens)
    while tokens and tokens[0] == "AND":
        tokens.pop(0)
        value = _one(tokens) and value
    return value


def _one(tokens: list[str]) -> bool:
    if not tokens or tokens[0] in {")", "AND", "OR"}:
        raise ValueError("a licence is missing in the expression")
    token = tokens.pop(0)
    if token != "(":
        return " ".join(token.split()) in ALLOWED
    value = _either(tokens)
    if not tokens or tokens.pop(0) != ")":
        raise ValueError("a bracket is not closed in the licence expression")
    return value


def refused(packages: Iterable[Package]) -> list[str]:
    """One line for each package whose licence is not on the list."""
    lines = []
    for package in packages:
        try:
            good = allowed(package.licence)
        except ValueError:
            good = False
        if not good:
            lines.append(f"{package.name} {package.version}: the licence {package.licence!r} is not on the list.")
    return lines


def notes() -> dict[str, dict[str, Any]]:
    """What was written by hand about direct dependencies."""
    return tomllib.loads(NOTES.read_text(encoding="utf-8"))


def stale_notes(pins: Mapping[str, str], direct: Iterable[str], written: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One line for each direct dependency without a note, with a note of another version, or a note too many."""
    direct = set(direct)
    lines = [f"{name}: no note in dependencies.toml." for name in sorted(direct - set(written))]
    lines += [f"{name}: a note in dependencies.toml, and no dependency." for name in sorted(set(written) - direct)]
    for name in sorted(direct & set(written)):
        if written[name]["version"] != pins[name]:
            seen = written[name]["version"]
            lines.append(f"{name}: {seen} was looked at, {pins[name]} is pinned. Look again, then change the note.")
    return lines


def packages(root: Path = ROOT) -> list[Package]:
    """Every pinned package with its licence.

    Raises:
        ValueError: one is not installed, or at another version.
    """
    pins, runs, (first, second) = all_pins(root), running_names(root), direct_names(root)
    found = []
    for name, version in pins.items():
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            raise ValueError(f"{name} is not installed: install every requirements file.") from None
        if installed.version != version:
            raise ValueError(f"{name} is installed as {installed.version} and pinned as {version}.")
        direct = name in first | second
        found.append(
            Package(name=name, version=version, licence=licence_of(installed), runs=name in runs, direct=direct)
        )
    return found
