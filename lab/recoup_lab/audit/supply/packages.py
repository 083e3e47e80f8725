"""Build the packages, look into them, install each in an empty environment, and use it there, away from the source.

What is installed is what pip resolves from the package's own metadata under the project's pins: a missing dependency, a
file left out or a path of the machine that built it fails here, and not at a user's. Ends with code 1 if one does.
The library comes without the lab, and works without it; the lab is a wheel of its own, which adds its commands.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from recoup_lab.audit.supply.dependencies import all_pins, normal
from recoup_lab.tree import LAB, ROOT

SOURCE: Final = ROOT / "src" / "recoup"
BUILD_PINS: Final = ROOT / "lab" / "requirements-build.txt"
# What a source distribution may have at its top. Tests and pages are in it, results and environments are not.
FOLDERS: Final = (".ci", "deploy", "docs", "examples", "lab", "src", "tests")
PROJECT_FILES: Final = (".gitignore", ".importlinter", ".pre-commit-config.yaml", "LICENSE", "Makefile", "PKG-INFO")
_TOP: Final = re.compile(r"[A-Z]+\.md|mkdocs\.yml|pyproject\.toml|requirements(?:-[a-z]+)?\.txt")
_MADE_HERE: Final = re.compile(r"__pycache__|\.(?:pyc|nbi|nbc|db|whl)$|(?:^|/)\.venv")
_RESULTS: Final = ("index.html", "s1-like-report.html", "s1-like-transcript.json", "gowalla-like-report.html")


class Wrong(Exception):
    """A package is not as it should be."""


def wheel_files(path: Path) -> dict[str, bytes]:
    """What is in a wheel."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def sdist_files(path: Path) -> dict[str, bytes]:
    """What is in a source distribution, without its own folder."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if not member.isfile() or file is None:
                raise Wrong(f"{path.name} has something that is no plain file: {member.name}")
            found[str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))] = file.read()
    return found


def source_files(folder: Path = SOURCE) -> dict[str, bytes]:
    """A package as it is in the source tree."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not _MADE_HERE.search(path.as_posix())]
    return {path.relative_to(folder.parent).as_posix(): path.read_bytes() for path in paths}


def machine_paths(files: Mapping[str, bytes], places: Iterable[str]) -> list[str]:
    """The files in which a folder of this machine is named."""
    # A folder's name ends there, or goes on below it; `/a/b` is not named by `/a/bc`.
    wanted = re.compile(b"|".join(re.escape(place.encode()) + rb"(?![\w.-])" for place in sorted(places)))
    return sorted(name for name, content in files.items() if wanted.search(content))


def places_here() -> set[str]:
    """The folders by which this machine would be known: the project's, the user's, the interpreter's."""
    found = {str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix}
    return {place for place in found if place.count("/") > 1 or place == str(Path.home())} - {"/", "/usr", "/usr/local"}


def look_into_wheel(
    files: Mapping[str, bytes], source: Mapping[str, bytes], places: Iterable[str], package: str = "recoup"
) -> None:
    """A wheel holds its package, all of it and nothing else, and its metadata says nothing of where it was built.

    Raises:
        Wrong: it does not.
    """
    inside = {name: content for name, content in files.items() if name.startswith(f"{package}/")}
    if inside != source:
        differ = sorted(name for name in {*inside, *source} if inside.get(name) != source.get(name))
        raise Wrong(f"the wheel's package is not the source's: {', '.join(differ[:5])}")
    about = {name: content for name, content in files.items() if name not in inside}
    strange = [name for name in about if not re.match(rf"{package}-[^/]+\.dist-info/", name)]
    if strange:
        raise Wrong(f"the wheel holds what is not the package: {', '.join(strange[:5])}")
    named = machine_paths(files, places)
    local = [name for name, content in about.items() if b"file:" in content or name.endswith("direct_url.json")]
    if named or local:
        raise Wrong(f"the wheel names folders of this machine: {', '.join([*named, *local])}")


def look_into_sdist(files: Mapping[str, bytes], source: Mapping[str, bytes], places: Iterable[str]) -> None:
    """A source distribution holds the package's source and what belongs to the project, and nothing made by running it.

    Raises:
        Wrong: it does not.
    """
    kept = {
        name for name in files if re.fullmatch(r"tests/golden/ledger-v\d+\.db", name)
    }  # ledgers of earlier versions
    inside = {name.removeprefix("src/"): content for name, content in files.items() if name.startswith("src/recoup/")}
    if inside != source:
        differ = sorted(name for name in {*inside, *source} if inside.get(name) != source.get(name))
        raise Wrong(f"the source distribution's package is not the source's: {', '.join(differ[:5])}")
    strange = [name for name in files if not _of_the_project(name) or (_MADE_HERE.search(name) and name not in kept)]
    if strange:
        raise Wrong(f"the source distribution holds what is not the project's: {', '.join(strange[:5])}")
    named = machine_paths(files, places)
    if named:
        raise Wrong(f"the source distribution names folders of this machine: {', '.join(named[:5])}")


def _of_the_project(name: str) -> bool:
    top, *below = name.split("/")
    return top in FOLDERS if below else top in PROJECT_FILES or _TOP.fullmatch(top) is not None


def clean_environment() -> dict[str, str]:
    """The variables of this process without those by which Python could find the source tree."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "RECOUP"))
    }


def run(
    words: Iterable[str | Path], cwd: Path | None = None, settings: Mapping[str, str] | None = None, code: int = 0
) -> str:
    """Run a program, with some settings in its environment; returns what it printed, or its complaint.

    Raises:
        Wrong: it ended with another code.
    """
    given = [str(word) for word in words]
    ran = subprocess.run(given, capture_output=True, text=True, env=clean_environment() | dict(settings or {}), cwd=cwd)
    if ran.returncode != code:
        said = f"{ran.stdout[-500:]}{ran.stderr[-1500:]}"
        raise Wrong(f"{' '.join(given[:6])} ... ended with code {ran.returncode}:\n{said}")
    return ran.stderr if code else ran.stdout


class Environment:
    """An empty environment: no pip, no setuptools, nothing of the one that runs this."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.folder, self.python = folder, folder / "bin" / "python"

    def pip(self, *words: str | Path) -> str:
        """Run this interpreter's pip on the empty environment."""
        more = ["--disable-pip-version-check", "--no-input", "--python", str(self.python)]
        # What pins the tools of a build: older versions of pip know the first name, newer ones the second.
        pins = (
            {name: str(BUILD_PINS) for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}
            if "--no-deps" in words
            else {}
        )
        return run([sys.executable, "-m", "pip", *more, *words], settings=pins)

    def versions(self) -> dict[str, str]:
        """What is installed, by name."""
        code = "from importlib.metadata import distributions as d; [print(p.metadata['Name'], p.version) for p in d()]"
        lines = [line.split(" ") for line in run([self.python, "-I", "-c", code]).splitlines()]
        return {normal(name): version for name, version in lines}

    def installed_files(self) -> dict[str, str]:
        """The files of the installed package with their hashes, as its record has them."""
        code = "from importlib.metadata import files; [print(f, f.hash and f.hash.value) for f in files('recoup')]"
        lines = [line.split(" ") for line in run([self.python, "-I", "-c", code], cwd=self.folder).splitlines()]
        return {name: value for name, value in lines if name.startswith("recoup/") and "__pycache__" not in name}


def build(folder: Path, project: Path = ROOT, *, only_wheel: bool = False) -> tuple[Path, ...]:
    """Build the wheel of a project, from its source distribution if that is built, too; returns the paths of both."""
    words: list[str | Path] = ["--dependency-constraints-txt", BUILD_PINS, "--outdir", folder, project]
    run([sys.executable, "-m", "build", "--quiet", *(["--wheel"] if only_wheel else []), *words])
    return (*folder.glob("*.whl"), *folder.glob("*.tar.gz"))


def use(environment: Environment, away: Path, version: str, *, demo: bool) -> None:
    """Use what is installed, in a folder that has nothing to do with the source.

    Raises:
        Wrong: it is not this version, it is found elsewhere, or what it makes is not whole.
    """
    recoup = environment.folder / "bin" / "recoup"
    at = run([environment.python, "-c", "import recoup; print(recoup.__file__)"], cwd=away).strip()
    if not Path(at).is_relative_to(environment.folder):
        raise Wrong("the package that runs is not the one that was installed")
    said = run([recoup, "--version"], cwd=away).strip()
    if version not in said:
        raise Wrong(f"version {version} was installed, and {said!r} runs")
    run([recoup, "plan", "--columns", "2", "-k", "3", "--epsilon", "1", "--n-records", "1000"], cwd=away)
    if demo:
        run([recoup, "demo", "-o", "made"], cwd=away)
        empty = [name for name in _RESULTS if (away / "made" / name).stat().st_size < 5_000]
        page = (away / "made" / "s1-like-report.html").read_text(encoding="utf-8")
        if empty or "<style" not in page or "<script" not in page:
            raise Wrong(f"the demo's pages are not whole: {', '.join(empty) or 'no style or script'}")


def use_lab(environment: Environment, away: Path, wheel: Path) -> None:
    """Without the lab its commands say what to install; with it they are there.

    Raises:
        Wrong: they are not.
    """
    recoup = environment.folder / "bin" / "recoup"
    if "`pip install ./lab`" not in run([recoup, "audit", "--quick"], cwd=away, code=2):
        raise Wrong("without the lab, `recoup audit` does not say what to install")
    environment.pip("install", "--quiet", "--no-compile", "--no-deps", wheel)
    environment.pip("check")
    listed = run([recoup, "--help"], cwd=away)
    missing = [name for name in ("audit", "bench", "experiment") if f" {name} " not in listed]
    if missing:
        raise Wrong(f"the lab is installed, and `recoup --help` does not list {', '.join(missing)}")
    run([recoup, "experiment", "paper", "--sets", "s1", "--methods", "data-free", "--seeds", "1", "-o", "e"], cwd=away)
    environment.pip("uninstall", "--quiet", "--yes", "recoup-lab")


def main() -> int:
    """Build, look, install, use; print the seconds of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="the folder for the packages")
    options = parser.parse_args()
    start = time.monotonic()

    def done(what: str) -> None:
        nonlocal start
        print(f"   {what}: {time.monotonic() - start:.0f} s", flush=True)
        start = time.monotonic()

    try:
        with tempfile.TemporaryDirectory(prefix="wheel-") as name:
            folder = Path(name).resolve()
            (folder / "away").mkdir()
            wheel, sdist = build(folder / "dist")
            version = wheel.name.split("-")[1]
            source, places = source_files(), places_here() | {str(folder)}
            look_into_wheel(wheel_files(wheel), source, places)
            look_into_sdist(sdist_files(sdist), source, places)
            (lab,) = build(folder / "lab", ROOT / "lab", only_wheel=True)
            look_into_wheel(wheel_files(lab), source_files(LAB), places, LAB.name)
            done("built and looked into")
            environment = Environment(folder / "environment")
            environment.pip("install", "--quiet", "--no-compile", "--constraint", ROOT / "requirements.txt", wheel)
            check_versions(environment.versions(), all_pins(), version)
            environment.pip("check")
            from_wheel = environment.installed_files()
            done("wheel installed with its dependencies")
            use(environment, folder / "away", version, demo=True)
            done("demo run from the wheel")
            use_lab(environment, folder / "away", lab)
            done("the lab installed beside it, and used")
            environment.pip("uninstall", "--quiet", "--yes", "recoup")
            leave_nothing(environment)
            environment.pip("install", "--quiet", "--no-compile", "--no-deps", sdist)
            if environment.installed_files() != from_wheel or not from_wheel:
                raise Wrong("the source distribution installs other files than the wheel")
            use(environment, folder / "away", version, demo=False)
            done("source distribution installed and run")
            options.output.mkdir(parents=True, exist_ok=True)
            for path in (wheel, sdist, lab):
                shutil.copy(path, options.output / path.name)
    except Wrong as error:
        print(error, file=sys.stderr)
        return 1
    print(f"== {options.output}: {wheel.name}, {sdist.name}, {lab.name}")
    return 0


def check_versions(installed: Mapping[str, str], pins: Mapping[str, str], version: str) -> None:
    """What pip resolved is the package and pinned versions, and nothing else.

    Raises:
        Wrong: it is not.
    """
    expected = {name: pins.get(name, "no pin") for name in installed} | {"recoup": version}
    wrong = [f"{name} {installed.get(name)}" for name in expected if installed.get(name) != expected[name]]
    if wrong:
        raise Wrong(f"installed, but not as pinned: {', '.join(wrong)}")


def leave_nothing(environment: Environment) -> None:
    """After it is removed, nothing of the package can be imported.

    Raises:
        Wrong: something can.
    """
    code = "import importlib.util as u; print(u.find_spec('recoup') is None)"
    # Compiled kernels stay behind in folders that pip did not make.
    for folder in environment.folder.glob("lib/python*/site-packages/recoup"):
        if any(path.suffix == ".py" for path in folder.rglob("*")):
            raise Wrong("the package leaves source files behind")
        shutil.rmtree(folder)
    if run([environment.python, "-I", "-c", code], cwd=environment.folder).strip() != "True":
        raise Wrong("the package can be imported after it was removed")


if __name__ == "__main__":
    sys.exit(main())
