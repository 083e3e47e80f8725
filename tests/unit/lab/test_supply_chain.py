"""Dependencies: pins, licences and the page agree; bills of materials and packages hold nothing that they must not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from types import SimpleNamespace

import pytest
from pages import DOCS, ROOT

from recoup_lab.audit.supply import dependencies, sbom
from recoup_lab.audit.supply import packages as wheel_check
from recoup_lab.audit.supply import run as supply_chain
from recoup_lab.audit.supply.dependencies import Package

PAGE = (DOCS / "dependencies.md").read_text(encoding="utf-8")


def package(name="numpy", version="1", licence="MIT", runs=True, direct=False):
    return Package(name=name, version=version, licence=licence, runs=runs, direct=direct)


# ---- the page ----


def test_pins_notes_licences_and_page_agree():
    assert supply_chain.disagreements(PAGE) == []


def test_licences_on_the_page_are_those_of_what_is_installed():
    seen = 0
    for shown in supply_chain.shown(PAGE):
        try:
            installed = distribution(shown.name)
        except PackageNotFoundError:
            continue  # `make test` needs neither Spark nor the tools for the site
        seen += 1
        assert (shown.version, shown.licence) == (installed.version, dependencies.licence_of(installed)), shown.name
    assert seen >= 60


def test_all_that_is_needed_to_run_is_on_the_page_as_such():
    runs = {shown.name for shown in supply_chain.shown(PAGE) if shown.runs}
    needed = dependencies.running_names()
    assert {"numpy", "opendp", "llvmlite"} <= needed <= runs
    assert "pytest" not in runs


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (r"\| opendp \| [^ ]+ \|", "| opendp | 0.0.1 |", "opendp: the page says 0.0.1"),
        (r"\| pillow \|.*\n", "", "pillow: the page says None"),
        (r"\| MIT-CMU \|", "| GPL-3.0-only |", "pillow .* 'GPL-3.0-only' is not on the list"),
        (
            r"(### Needed to run, named by those\n)",
            r"\1| leftpad | 1 | MIT |\n",
            "leftpad: the page says 1, pinned is None",
        ),
        (r"### Needed to run, named by Recoup", "### For developers, named by Recoup", "numpy: in the wrong table"),
    ],
)
def test_a_page_that_is_out_of_date_or_names_a_bad_licence_is_noticed(old, new, said):
    changed, n = re.subn(old, new, PAGE, count=1)
    assert n == 1
    assert any(re.search(said, line) for line in supply_chain.disagreements(changed))


def test_a_new_version_of_a_direct_dependency_must_be_looked_at():
    notes = {"numpy": {"version": "1.0"}, "gone": {"version": "1"}}
    lines = dependencies.stale_notes({"numpy": "2.0", "scipy": "1.0"}, {"numpy", "scipy"}, notes)
    assert [line.split(":")[0] for line in lines] == ["scipy", "gone", "numpy"]
    assert dependencies.stale_notes({"numpy": "1.0"}, {"numpy"}, {"numpy": {"version": "1.0"}}) == []


@pytest.mark.parametrize(
    "line", ["numpy>=2", "--option https://somewhere.example", "-e .", "x @ file:///a", "numpy==2.*"]
)
def test_a_requirements_file_holds_exact_pins_and_no_address(line):
    with pytest.raises(ValueError, match="not an exact pin") as caught:
        dependencies.pins_in(f"scipy==1.0\n{line}\n")
    assert "registry" not in str(caught.value)


@pytest.mark.parametrize("name", ["sbom", "vulnerabilities", "build"])
def test_tools_are_pinned_too(name):
    assert len(dependencies.pins_in((ROOT / "lab" / f"requirements-{name}.txt").read_text(encoding="utf-8"))) >= 5


def test_pins_that_contradict_each_other_are_refused(tmp_path):
    for file in dependencies.FILES:
        (tmp_path / file).write_text("numpy==1.0\n")
    assert dependencies.all_pins(tmp_path) == {"numpy": "1.0"}
    (tmp_path / "requirements-docs.txt").write_text("NumPy==1.1\n")
    with pytest.raises(ValueError, match=r"pins numpy 1\.1, another file 1\.0"):
        dependencies.all_pins(tmp_path)


# ---- licences ----


def described(*classifiers, **fields):
    """A package whose metadata is this."""
    message = Message()
    for name, value in fields.items():
        message[name.replace("_", "-")] = value
    for line in classifiers:
        message["Classifier"] = line
    return SimpleNamespace(metadata=message)


@pytest.mark.parametrize(
    ("given", "licence"),
    [
        (described(License_Expression="MIT AND PSF-2.0"), "MIT AND PSF-2.0"),
        (described(License="Apache 2.0"), "Apache-2.0"),
        (described("License :: OSI Approved :: BSD License", License="BSD-3-Clause"), "BSD-3-Clause"),
        (described("License :: OSI Approved :: BSD License", License="Copyright: " + "text " * 50), "BSD"),
        (described("License :: OSI Approved", License="MIT"), "MIT"),
        (described("License :: OSI Approved :: MIT License", "License :: Other/Proprietary"), "Other/Proprietary"),
        (described("License :: OSI Approved :: GNU Affero GPL v3", License="MIT"), "GNU Affero GPL v3"),
        (described(License="WTFPL"), "WTFPL"),
        (described(License="some long text " * 50), "unknown"),
        (described(), "unknown"),
    ],
)
def test_licences_are_read_from_every_kind_of_metadata(given, licence):
    assert dependencies.licence_of(given) == licence


@pytest.mark.parametrize(
    ("licence", "good"),
    [
        ("MIT", True),
        ("Apache-2.0 OR BSD-2-Clause", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("(MIT OR GPL-2.0-only) AND ISC", True),
        ("LGPL-3.0-only", False),
        ("MIT AND GPL-3.0-or-later", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("AGPL-3.0-only OR SSPL-1.0", False),
        ("MIT)", False),
        ("MIT AND", False),
        ("(MIT", False),
        ("", False),
        ("unknown", False),
        ("Other/Proprietary License", False),
    ],
)
def test_a_bad_licence_is_refused_by_name(licence, good):
    lines = dependencies.refused([package(licence="ISC"), package("planted", "3", licence)])
    assert lines == ([] if good else [f"planted 3: the licence {licence!r} is not on the list."])


# ---- the bill of materials ----


def raw_document(**more):
    """What the tool writes, in small, with an address and a path wherever it has some."""
    address = [{"type": "distribution", "url": "https://somewhere.example/project/numpy"}]
    text = {"license": {"name": "BSD\nat /home/somebody/licence", "text": {"content": "https://somewhere.example"}}}
    part = {"type": "library", "bom-ref": "numpy==2.0", "name": "NumPy", "version": "2.0", "licenses": [text]}
    extra = {
        "description": "see https://somewhere.example",
        "externalReferences": address,
        "properties": [{"name": "/a/b"}],
    }
    tool = {"type": "application", "name": "cyclonedx-py", "version": "7", "externalReferences": address}
    other = {"type": "library", "bom-ref": "pytest==9", "name": "pytest", "version": "9"}
    return {
        "$schema": "http://schema.example/bom-1.6.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": "of this machine",
        "metadata": {
            "component": {"type": "library", "bom-ref": "root", "name": "recoup", "externalReferences": address},
            "tools": {"components": [tool]},
        },
        "components": [part | extra | {"purl": "pkg:kind/numpy@2.0"} | more, other],
        "dependencies": [
            {"ref": "root", "dependsOn": ["numpy==2.0", "pytest==9"]},
            {"ref": "numpy==2.0"},
            {"ref": "pytest==9"},
        ],
    }


def test_a_bill_of_materials_is_of_what_runs_and_names_no_place():
    assert len(sbom.troubles(raw_document())) == 7
    clean = sbom.cleaned(raw_document(), {"numpy": "2.0"}, "0.1")
    assert sbom.troubles(clean) == []
    text = json.dumps(clean)
    assert "registry" not in text
    assert "/home" not in text
    assert "of this machine" not in text
    assert [part["name"] for part in clean["components"]] == ["NumPy"]
    assert clean["components"][0]["licenses"] == [{"license": {"name": "BSD"}}]
    assert clean["dependencies"] == [{"ref": "numpy==2.0"}, {"ref": "root", "dependsOn": ["numpy==2.0"]}]
    assert clean["metadata"]["component"]["version"] == "0.1"


@pytest.mark.parametrize(
    "more", [{"purl": "pkg:kind/numpy@2.0?url=file:/x"}, {"version": "2.1"}, {"bom-ref": "at /opt/packages/numpy"}]
)
def test_a_bill_of_materials_with_a_place_or_a_wrong_version_is_refused(more):
    with pytest.raises(ValueError, match=r"must not|pinned version"):
        sbom.cleaned(raw_document(**more), {"numpy": "2.0"}, "0.1")


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("BSD-3-Clause AND 0BSD", False),
        ("License :: OSI Approved :: BSD License", False),
        ("Other/Proprietary", False),
        ("pkg:kind/name@1.0", False),
        ("file:///a", True),
        ("git+ssh://host/x", True),
        ("/usr/lib/x", True),
        ("in ~/packages", True),
        ("C:\\packages", True),
        ("www.somewhere.example", True),
    ],
)
def test_addresses_and_paths_are_told_from_other_text(text, bad):
    assert bool(sbom.troubles({"a": text})) is bad


# ---- vulnerabilities ----

CHECKED = {"name": "numpy", "version": "2.0", "vulns": []}
BAD = {"name": "planted", "version": "1", "vulns": [{"id": "ID-1"}, {"id": "ID-2"}]}
SKIPPED = {"name": "scipy", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("listed", "code", "said"),
    [
        ([CHECKED], 0, ["0 of 1 checked packages have a known vulnerability."]),
        ([CHECKED, BAD], 1, ["planted 1: ID-1, ID-2", "1 of 2 checked packages have a known vulnerability."]),
        ([SKIPPED], 0, ["NOT CHECKED: 1 of 1 packages; the advisory service gave no answer for them."]),
    ],
)
def test_a_package_that_was_not_checked_is_said_to_be_not_checked(listed, code, said):
    assert supply_chain.judged({"dependencies": listed}, len(listed)) == (code, said)


def test_a_package_that_is_missing_from_the_answer_is_not_checked_either():
    assert "NOT CHECKED: 2 of 3" in supply_chain.judged({"dependencies": [CHECKED, SKIPPED]}, 3)[1][0]


def test_without_a_service_it_says_so_and_ends_well(tmp_path, capsys):
    tool = tmp_path / "pip-audit"
    tool.write_text("#!/bin/sh\necho 'cannot connect to https://somewhere.example/x now' >&2\nexit 1\n")
    tool.chmod(0o755)
    assert supply_chain.vulnerabilities(tool, 1) == 0
    said = capsys.readouterr().out
    assert said.startswith("NOT CHECKED: all ")
    assert "somewhere" not in said


def test_a_tool_that_fails_is_not_a_missing_network(tmp_path):
    tool = tmp_path / "pip-audit"
    tool.write_text("#!/bin/sh\necho 'unrecognized arguments: --format' >&2\nexit 2\n")
    tool.chmod(0o755)
    with pytest.raises(ValueError, match="pip-audit failed: unrecognized"):
        supply_chain.vulnerabilities(tool, 1)


def test_pins_of_tools_are_asked_about_too(tmp_path, capsys):
    tool = tmp_path / "pip-audit"
    tool.write_text(
        "#!/bin/sh\n"
        """sed 's/\\(.*\\)==\\(.*\\)/{"name": "\\1", "version": "\\2", "vulns": []},/' "$2" |"""
        """ (echo '{"dependencies": ['; cat; echo '{"name": "z"}]}')\n"""
    )
    tool.chmod(0o755)
    assert supply_chain.vulnerabilities(tool, 1) == 0
    said = capsys.readouterr().out
    n_tools = sum(len(dependencies.pins_in(path.read_text())) for path in ROOT.glob("*/requirements-*.txt"))
    assert f"0 of {len(dependencies.all_pins()) + n_tools} checked" in said


# ---- the packages ----

SOURCE = {"recoup/__init__.py": b"x", "recoup/report/template/page.html": b"y"}
WHEEL = SOURCE | {"recoup-0.1.dist-info/METADATA": b"Name: recoup"}
SDIST = {f"src/{name}": content for name, content in SOURCE.items()} | {"README.md": b"r", "tests/unit/test_a.py": b"t"}
SDIST |= {"tests/golden/ledger-v1.db": b"l", "lab/pyproject.toml": b"p"}
PLACES = {"/builds/recoup", "/people/ann"}


def test_good_packages_pass():
    wheel_check.look_into_wheel(WHEEL, SOURCE, PLACES)
    wheel_check.look_into_sdist(SDIST, SOURCE, PLACES)
    lab = {"recoup_lab/planted/a.patch": b"p"}
    wheel_check.look_into_wheel(lab | {"recoup_lab-0.1.dist-info/METADATA": b"m"}, lab, PLACES, "recoup_lab")


@pytest.mark.parametrize(
    "change",
    [
        {"recoup/report/template/page.html": None},
        {"recoup/__init__.py": b"changed"},
        {"recoup/__init__.py": b"root = '/builds/recoup/src'"},
        {"recoup/own.csv": b"1,2"},
        {"tests/test_a.py": b"t"},
        {"docs/index.md": b"d"},
        {"recoup-0.1.dist-info/METADATA": b"built in /people/ann"},
        {"recoup-0.1.dist-info/METADATA": b"from file:///somewhere"},
        {"recoup-0.1.dist-info/direct_url.json": b"{}"},
        {"recoup_lab/__init__.py": b""},
    ],
)
def test_a_bad_wheel_is_refused(change):
    files = {name: content for name, content in (WHEEL | change).items() if content is not None}
    with pytest.raises(wheel_check.Wrong):
        wheel_check.look_into_wheel(files, SOURCE, PLACES)


@pytest.mark.parametrize(
    "change",
    [
        {"src/recoup/report/template/page.html": None},
        {"recoup-demo/index.html": b"r"},
        {"people.csv": b"1"},
        {"docs/budget.db": b"l"},
        {"tests/unit/__pycache__/a.pyc": b"c"},
        {"docs/notes.md": b"see /people/ann/notes"},
    ],
)
def test_a_bad_source_distribution_is_refused(change):
    files = {name: content for name, content in (SDIST | change).items() if content is not None}
    with pytest.raises(wheel_check.Wrong):
        wheel_check.look_into_sdist(files, SOURCE, PLACES)


def test_a_folder_is_named_only_by_its_whole_name():
    files = {"a": b"/people/annabel", "b": b"'/people/ann'", "c": b"/people/ann/x"}
    assert wheel_check.machine_paths(files, PLACES) == ["b", "c"]


def test_what_is_installed_is_what_is_pinned():
    wheel_check.check_versions({"recoup": "0.1", "numpy": "2.0"}, {"numpy": "2.0", "scipy": "1"}, "0.1")
    for installed in ({"recoup": "0.1", "numpy": "2.1"}, {"recoup": "0.1", "extra": "1"}, {"numpy": "2.0"}):
        with pytest.raises(wheel_check.Wrong):
            wheel_check.check_versions(installed, {"numpy": "2.0"}, "0.1")


def test_the_source_tree_has_what_the_report_needs():
    names = set(wheel_check.source_files())
    assert {f"recoup/report/template/{name}" for name in ("page.html", "style.css", "map.js")} <= names
    assert "recoup/py.typed" in names
    assert not [name for name in names if "recoup_lab" in name]
    lab = set(wheel_check.source_files(wheel_check.LAB))
    assert {"recoup_lab/audit/planted/half-the-noise.patch", "recoup_lab/audit/mutation/survivors.toml"} <= lab
    assert not [name for name in names if "__pycache__" in name]


def test_the_check_runs_as_a_command():
    command = [sys.executable, "-m", "recoup_lab.audit.supply.run", "check"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (
        ran.stdout == f"== {len(dependencies.all_pins())} pins, their notes, licences and docs/dependencies.md agree\n"
    )
