"""The documentation does what it says: code blocks run, commands exist, links lead somewhere, every page is listed.

A page's ```python and ```sh blocks run in order, in one namespace and one folder that holds nothing but `people.csv`,
with an age and hours of work, as `recoup demo --csv` makes it. Commands in blocks without a language (long runs,
sketches) are only parsed. A block under `<!-- not run: reason -->` is not run; there may be few of those.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import DOCS, ROOT, Block, all_pages, anchors_of, blocks_of, commands_of, links_of, name_of
from typer.main import get_command
from typer.testing import CliRunner

from recoup.algorithms.registry import ALGORITHMS
from recoup.cli.app import app
from recoup.demo import csv_of, people
from recoup.queries import QUERIES
from recoup_lab import experiments

# Pages whose blocks need a service; the file named here runs them with it.
ELSEWHERE = {
    "docs/remote.md": "tests/unit/remote/test_remote_page.py",
    "docs/spark.md": "tests/integration/test_spark_page.py",
}
MOST_NOT_RUN = 3
SHELL = ("sh", "console")
RUNNABLE = ("python", *SHELL)
OTHER = ("", "text", "json", "math")
PAGES = {name_of(page): page.read_text(encoding="utf-8") for page in all_pages()}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EXTRAS = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch, few_points):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)  # progress depends on the clock
    Path("people.csv").write_text(csv_of(people(n_records=400)))
    # A page may add to these lists.
    before = [(entries, dict(entries)) for entries in (experiments.SETS, experiments.METHODS, QUERIES, ALGORITHMS)]
    yield tmp_path
    for entries, kept in before:
        entries.clear()
        entries.update(kept)


def run_page(name: str, text: str) -> None:
    """Run the blocks of a page; an error shows the page's own line."""
    namespace: dict[str, object] = {"__name__": name}
    for block in blocks_of(text):
        if block.not_run is not None:
            continue
        if block.language == "python":
            # Empty lines in front give every statement the number that it has in the page.
            # What this file imports from __future__ is not the page's.
            exec(compile("\n" * (block.line - 1) + block.text, name, "exec", dont_inherit=True), namespace)
        elif block.language in SHELL:
            for words in commands_of(block):
                run_command(words, f"{name}, line {block.line}")


def run_command(words: list[str], where: str) -> None:
    if words[0] == "recoup":
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{where}: {' '.join(words)}\n{result.output}\n{result.stderr}"
    else:
        check_command(words, where)


def check_command(words: list[str], where: str) -> None:
    """Check a command of a page without running it."""
    if words[0] == "recoup":
        parse(words)
    elif words[0] == "make":
        for target in (word for word in words[1:] if "=" not in word):
            assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"{where}: there is no make {target}"
    elif words[0] == "python" and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file(), f"{where}: there is no {words[1]}"
    elif words[:2] == ["pip", "install"]:
        assert re.fullmatch(r"recoup\[(\w+)\]", words[2])[1] in EXTRAS, f"{where}: {words[2]}"
    else:
        known = (["."], ["python", "-m", "http.server"])
        assert any(words[: len(start)] == start for start in known), f"{where}: {words[0]} is neither run nor checked"


def parse(words: list[str]) -> None:
    """Parse a command line as the program does, up to where it would run."""
    command, arguments, context = get_command(app), words[1:], None
    while True:
        context = command.make_context(command.name, list(arguments), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        rest = [*context._protected_args, *context.args]
        _, command, arguments = command.resolve_command(context, rest)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, t in PAGES.items() if any(b.language in RUNNABLE for b in blocks_of(t))])
def test_the_blocks_of_a_page_run(name, folder):
    if name in ELSEWHERE:
        assert (ROOT / ELSEWHERE[name]).is_file()
        return
    if "recoup demo --csv people.csv" in PAGES[name]:
        Path("people.csv").unlink()  # the page makes its own
    run_page(name, PAGES[name])


def test_a_block_that_fails_makes_its_page_fail(folder):
    run_page(
        "good", "```python\nx = 1\n```\n\n```sh\nrecoup --version  # a comment\n```\n\n```python\nassert x == 1\n```\n"
    )
    with pytest.raises(ZeroDivisionError):
        run_page("bad", "```python\n1 / 0\n```\n")
    with pytest.raises(AssertionError, match=r"nowhere\.csv"):
        run_page("bad", "```sh\nrecoup cluster nowhere.csv -k 2 --epsilon 1 --bounds age=0:1\n```\n")
    with pytest.raises(AssertionError, match="rm"):
        run_page("bad", "```sh\nrm people.csv\n```\n")
    run_page("marked", "<!-- not run: it divides by zero -->\n```python\n1 / 0\n```\n")


@pytest.mark.parametrize("name", PAGES)
def test_commands_that_are_not_run_would_be_understood(name):
    for block in blocks_of(PAGES[name]):
        assert block.language in (*RUNNABLE, *OTHER), f"{name}, line {block.line}: {block.language!r}"
        if (block.language in SHELL and block.not_run is not None) or block.language == "":
            lines = [line for line in block.text.splitlines() if re.match(r"\s*(\$ )?(recoup|make) ", line)]
            for words in commands_of(Block(language="sh", line=block.line, text="\n".join(lines), not_run=None)):
                check_command(words, f"{name}, line {block.line}")


def test_a_command_that_does_not_exist_is_found():
    for wrong in ("recoup clutser people.csv", "recoup cluster people.csv --epslion 1", "recoup ledger shwo a.db"):
        with pytest.raises(Exception, match=r"No such (command|option)|shwo|clutser|epslion"):
            parse(wrong.split())
    parse(["recoup", "ledger", "show", "a.db", "--json"])
    with pytest.raises(AssertionError, match="there is no make"):
        check_command(["make", "coffee"], "here")


def test_few_blocks_are_not_run_and_each_says_why():
    reasons = [(name, b.not_run) for name, text in PAGES.items() for b in blocks_of(text) if b.not_run is not None]
    assert len(reasons) <= MOST_NOT_RUN, reasons
    assert all(len(reason.split()) >= 3 for _, reason in reasons)


def dead_links(name: str, text: str) -> list[str]:
    """The links of a page that lead nowhere; addresses of other places are not looked at."""
    dead = []
    for link in links_of(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        alive = target.is_file() and (not anchor or anchor in anchors_of(target.read_text(encoding="utf-8")))
        if not alive:
            dead.append(link)
    return dead


@pytest.mark.parametrize("name", PAGES)
def test_links_and_anchors_lead_somewhere(name):
    assert dead_links(name, PAGES[name]) == []


def test_a_dead_link_is_found():
    alive = "[a](start.md) [b](mathematics.md#maximum-entropy) ![c](images/demo.png) `[d](no)` [e](#the-two-roles)"
    dead = "[f](mathematics.md#no-such-part) ![g](images/no.png) [h](#here)\n# Here\n"
    assert dead_links("docs/index.md", f"{alive} {dead}") == ["mathematics.md#no-such-part", "images/no.png", "#here"]


def test_every_page_of_the_site_is_in_its_navigation():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md") if f": {p.relative_to(DOCS)}\n" not in listed]
    assert missing == []
