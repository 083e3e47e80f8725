"""The lines that a privacy proof rests on: all that is imported is counted, and the page says so."""

from __future__ import annotations

import pytest
from pages import DOCS

from recoup_lab.audit import trusted
from recoup_lab.pages import markers


def test_what_is_imported_counts_and_what_only_a_type_checker_sees_does_not(tmp_path):
    files = {
        "recoup/__init__.py": "import recoup.never\n",
        "recoup/domain.py": (
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from recoup.never import x\n"
            "def f():\n    from recoup.kernels import grid\n"
        ),
        "recoup/kernels/__init__.py": '"""Kernels."""\n',
        "recoup/kernels/grid.py": "import recoup.helper\n\nimport numpy\n",
        "recoup/kernels/other.py": "y = 1\n",
        "recoup/helper.py": "# nothing\nz = 1\n",
        "recoup/never.py": "x = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert trusted.table(tmp_path / "recoup", ("domain",)) == [
        ("`domain`", "1", "5", "5"),
        ("`kernels`, as far as imported", "2", "2", "4"),
        ("helpers beside them", "1", "1", "2"),
        ("**all**", "4", "8", "11"),
    ]


def test_the_rooms_of_the_wall_are_all_there_and_nothing_from_below_it_is_trusted():
    parts = {path.relative_to(trusted.PACKAGE).parts[0].removesuffix(".py") for path in trusted.trusted_files()}
    assert set(trusted.ROOMS) <= parts
    assert parts.isdisjoint({"algorithms", "inference", "estimators", "report", "driver", "cli", "plots"})


def test_the_page_is_of_this_tree():
    """A few lines more or less are not worth a run; `python -m recoup_lab.audit.trusted -o docs` writes it again."""
    page = (DOCS / "evidence.md").read_text(encoding="utf-8")
    begin, end = markers(trusted.PART)
    lines = page[page.index(begin) : page.index(end)].splitlines()[3:]
    shown = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    assert trusted.sum_text(shown) in (DOCS / "trust.md").read_text(encoding="utf-8")
    now = trusted.table()
    assert [row[0] for row in shown] == [row[0] for row in now]
    for was, (_, *numbers) in zip(shown, now, strict=True):
        for a, b in zip(was[2:], numbers[1:], strict=True):
            assert int(a.replace(",", "")) == pytest.approx(int(b.replace(",", "")), rel=0.1, abs=20), was[0]
