"""The documentation opened from the disk in a real browser: its search finds pages, and nothing is fetched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


def found_by(browser: Any, page: Path, words: str) -> tuple[list[str], list[str], list[str]]:
    """Search on a page: the addresses found, and what the page asked for and complained about."""
    opened = browser.new_page()
    asked, said = list[str](), list[str]()
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(page.as_uri())
    opened.locator("input.md-search__input").press_sequentially(words)
    links = opened.locator("a.md-search-result__link")
    links.first.wait_for(timeout=10_000)
    found = [link.get_attribute("href") for link in links.all()]
    opened.close()
    return found, asked, said


@pytest.mark.parametrize("page", ["index.html", "decisions/0004-one-blas-thread.html"])
def test_a_search_from_the_disk_finds_pages_and_fetches_nothing(browser, site, page):
    found, asked, said = found_by(browser, site / page, "suggest_clusters")
    files = {urlsplit(address).path for address in found}
    assert str(site / "reference" / "suggest_clusters.html") in files
    assert all(Path(file).is_file() for file in files)
    assert [address for address in asked if not address.startswith(site.as_uri())] == []
    assert said == []


def test_without_its_script_the_search_finds_nothing(browser, site):
    # What the first test sees is the work of that script, not of this browser.
    (site / "iframe-worker.js").rename(site / "gone.js")
    try:
        with pytest.raises(Exception, match="Timeout"):
            found_by(browser, site / "index.html", "suggest_clusters")
    finally:
        (site / "gone.js").rename(site / "iframe-worker.js")


def printed_pages(browser: Any, page: Path) -> int:
    opened = browser.new_page()
    opened.goto(page.as_uri())
    paper = opened.pdf(format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "10mm"))
    opened.close()
    return len(re.findall(rb"/Type\s*/Page\b", paper))


def test_trust_is_two_printed_pages_and_its_evidence_is_many(browser, site):
    assert printed_pages(browser, site / "trust.html") <= 2
    assert printed_pages(browser, site / "evidence.html") > 5  # so pages are really counted
