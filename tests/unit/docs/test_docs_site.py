"""The site fetches nothing, has a page per public name, and shows formulas and doctests as meant.

Needs what `make docs` installs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from pages import DOCS, ROOT

import recoup

pytest.importorskip("mkdocs", reason="make docs installs what this needs")
pytest.importorskip("latex2mathml", reason="make docs installs what this needs")


def module_of(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_formulas_become_mathml_and_what_cannot_be_shown_is_refused():
    from markdown import Markdown

    formulas = module_of("formulas")
    page = Markdown(extensions=[formulas.Formulas()]).convert(
        "With $`b_1 * c_2`$ and `$code$`:\n\n```math\n\\frac{a}{b}\n```\n"
    )
    assert page.count("<math") == 2
    assert "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>" in page
    assert "<em>" not in page
    assert "<code>$code$</code>" in page
    for wrong in (r"\begin{aligned} a & b \end{aligned}", r"\nosuchcommand x"):
        with pytest.raises(ValueError, match="cannot be shown"):
            formulas.as_mathml(wrong, "block")


def test_a_doctest_is_shown_as_an_example():
    as_shown = module_of("docstrings").as_shown
    shown = as_shown("Add.\n\nGuarantees: none.\n\n>>> 1 + 1\n2")
    assert shown == "Add.\n\n**Guarantees:** none.\n\nExamples:\n    >>> 1 + 1\n    2"
    assert as_shown("Nothing to show.") == "Nothing to show."


def test_every_public_name_is_in_the_reference_with_its_sentence():
    made = module_of("reference_pages")
    paths = [
        path for listed in made.groups((DOCS / made.INDEX).read_text(encoding="utf-8")).values() for path in listed
    ]
    names = [path.rpartition(".")[2] for path in paths]
    assert set(recoup.__all__) - {"__version__"} <= set(names)
    assert len(set(names)) == len(names)
    assert [path for path in paths if not made.sentence(path)] == []
    files = set(made.addresses(paths).values())
    assert len({file.lower() for file in files}) == len(files)  # also on a disk that ignores case
    for path in paths:
        exec(made.import_line(path), found := {})
        assert path.rpartition(".")[2] in found


def test_the_site_builds_without_a_warning_and_asks_nothing_of_other_places(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))  # and the page for wrong addresses
    loaded = r"<(?:(?:script|img|iframe)[^>]*\ssrc|link[^>]*(?:stylesheet|icon|preconnect)[^>]*href)=.?(?:https?:)?//"
    assert [page.name for page in pages if re.search(loaded, page.read_text(encoding="utf-8"))] == []
    assert not list(tmp_path.rglob("*.py"))
    index = (tmp_path / "reference.html").read_text(encoding="utf-8")
    for name in set(recoup.__all__) - {"__version__"}:
        text = (tmp_path / "reference" / f"{name}.html").read_text(encoding="utf-8")
        assert f"from recoup import {name}" in re.sub("<[^>]+>", "", text)
        assert f'href="reference/{name}.html"' in index
