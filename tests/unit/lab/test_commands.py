"""The lab's commands are found where it is installed; where it is not, the library says what to do."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from pages import ROOT
from typer.testing import CliRunner

from recoup.cli.app import app
from recoup.version import __version__

COMMANDS = ("bench", "audit", "experiment")
LAB = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_both_packages_have_one_version():
    assert LAB["version"] == __version__
    assert LAB["dependencies"] == [f"recoup=={__version__}"]


def test_each_command_is_an_entry_point():
    assert set(LAB["entry-points"]["recoup.commands"]) == set(COMMANDS)
    listed = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f"\n│ {name} " in listed for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_without_the_lab_one_sentence_says_what_to_install(name, monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    answer = CliRunner().invoke(app, [name, "--quick"])
    assert answer.exit_code == 2
    assert answer.stderr.startswith(f"recoup: `recoup {name}` is in a package of its own, which is not installed: run ")
    assert "`pip install ./lab`" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert name not in CliRunner().invoke(app, ["--help"]).stdout.split("Start here")[1].split("Results go")[0]


def test_a_command_that_nobody_has_is_still_wrong_usage(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    answer = CliRunner().invoke(app, ["audlt"])
    assert answer.exit_code == 2
    assert "audlt" in answer.stderr


def test_the_library_imports_the_lab_only_for_its_commands():
    program = (
        "import sys; from recoup.cli.app import app\n"
        "for words in (['--version'], ['cluster', '--help'], ['ledger', '--help']):\n"
        "    try: app(words)\n"
        "    except SystemExit: pass\n"
        "assert 'recoup_lab' not in sys.modules\n"
        "try: app(['experiment', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'recoup_lab.commands.experiment' in sys.modules\n"
        "assert 'recoup_lab.experiments' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
