"""The two pages: one for the operator, one for the analyst; each in one piece, which asks nobody but this service.

A page is the same for everybody. It takes a token in a form, asks for JSON with it, and keeps it nowhere.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple

from recoup.report.html import Markup, element, heading, join, template_file
from recoup.version import __version__


class Page(NamedTuple):
    """A page, and its policy: its own style and script, and requests to where it comes from."""

    text: str
    policy: str


@cache
def analyst() -> Page:
    """What is offered, what is left, and how a run is started."""
    lead = "Ask this table questions without seeing it. Give the token that you were given: it stays in this page."
    return _page("A table behind a wall", "For analysts", lead, "analyst.js")


@cache
def operator() -> Page:
    """What every token has left, and what was run."""
    lead = "What is left, and for whom. Give the operator's token: it stays in this page."
    return _page("The curator", "For the operator", lead, "operator.js")


def _page(title: str, eyebrow: str, lead: str, script: str) -> Page:
    style = template_file("style.css") + _template("page.css")
    code = _template(script) + _template("page.js")
    field = element("input", id="token", type="password", required=True, autocomplete="off", spellcheck="false")
    form = element("form", element("label", "Token", field), element("button", "Show", type="submit"))
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title}: Recoup"),
        element("link", rel="icon", href="data:,"),
        Markup(f"<style>{style}</style>"),
    )
    trouble = element("p", id="trouble", role="alert")
    shown = element("div", id="shown", hidden=True, tabindex="-1", aria_label="What the curator says")
    main = element("main", heading(eyebrow, title, lead), form, trouble, shown)
    body = join(main, element("footer", element("p", f"Served by Recoup {__version__}.")))
    whole = f"<head>{head}</head>\n<body>{body}<script>{code}</script></body>"
    text = f'<!doctype html>\n<html lang="en">\n{whole}\n</html>\n'
    own = f"script-src '{_digest(code)}'; style-src '{_digest(style)}'"
    others = "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    policy = f"default-src 'none'; {own}; connect-src 'self'; {others}"
    return Page(text, policy)


def _template(name: str) -> str:
    return resources.files("recoup.serve").joinpath("template", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
