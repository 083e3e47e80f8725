"""The studies are run by hand; that they still find what they import is tested here."""

from __future__ import annotations

import importlib
from pathlib import Path
from pkgutil import iter_modules

import pytest
from pages import ROOT

from recoup_lab import studies

NAMES = sorted(module.name for module in iter_modules(studies.__path__))


@pytest.mark.parametrize("name", NAMES)
def test_a_study_can_be_loaded(name):
    study = importlib.import_module(f"recoup_lab.studies.{name}")
    assert study.__doc__
    assert "__main__" in Path(study.__file__).read_text(encoding="utf-8")


def test_each_study_that_a_page_names_is_there():
    pages = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/**/*.md"))
    named = {word.split("`")[0].split(" ")[0].strip(").,;:") for word in pages.split("recoup_lab.studies.")[1:]}
    assert named
    assert named <= set(NAMES)
