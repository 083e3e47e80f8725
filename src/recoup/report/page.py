"""The page: the sections, the files of the template and the picture's data in one file that needs no network.

A content policy inside the page forbids every request and every script but the page's own, by its hash: even a name
that slipped through the escaping could not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from html import escape
from importlib import resources
from string import Template
from typing import Any

from recoup.report import bars, lines, sections
from recoup.report.markup import Markup, element, join
from recoup.report.picture import picture

_SCRIPTS = ("theme.js", "draw.js", "map.js")
_SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], Markup | None]], ...] = (
    ("answer", "Answer", sections.answer),
    ("picture", "Picture", picture),
    ("clusters", "Clusters", bars.clusters),
    ("choice", "How many", lines.choice),
    ("privacy", "Privacy", sections.privacy),
    ("budget", "Budget", bars.budget),
    ("fit", "Fit", bars.fit),
    ("chains", "Chains", lines.chains),
    ("reproduce", "Reproduce", sections.reproduce),
)


def render(facts: dict[str, Any]) -> str:
    """Write the page.

    Args:
        facts: from `gather` or `gather_model`.

    Returns:
        HTML in one piece: style, script and data inside it.

    Guarantees: a function of the facts; every word of theirs is escaped; the page makes no request.

    >>> import numpy as np
    >>> from recoup import Box, Transcript
    >>> from recoup.transcript.context import Context
    >>> from recoup.report.facts import gather_model
    >>> terms = Context(domain=Box([0], [1], ("a<b",)), epsilon=1)
    >>> privacy = Transcript(context=terms, algorithm={}, simulated=False).privacy
    >>> text = render(gather_model(privacy, np.array([[0.2], [0.8]]), algorithm="a rival"))
    >>> "a<b" in text, "a&lt;b" in text
    (False, True)
    """
    shown = [(anchor, name, found) for anchor, name, build in _SECTIONS if (found := build(facts)) is not None]
    links = [element("li", element("a", name, href=f"#{anchor}")) for anchor, name, _ in shown]
    script = "\n".join(template_file(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(template_file("page.html")).substitute(
        title=escape(f"{facts['title']} - Recoup report"),
        script_hash=f"sha256-{digest}",
        style=template_file("style.css"),
        links=join(*links),
        hero=sections.hero(facts),
        sections=join(*(found for _, _, found in shown)),
        version=escape(facts["version"]),
        data=_embedded(facts["map"]),
        script=script,
    )


def template_file(name: str) -> str:
    """One of the files that pages are made of."""
    return resources.files("recoup.report").joinpath("template", name).read_text(encoding="utf-8")


def _embedded(value: object) -> str:
    """JSON that cannot end the element it stands in, whatever text it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
