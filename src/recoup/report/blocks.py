"""The building blocks of every section: headings that can be linked to, tables as text, things that fold away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recoup.report.markup import Markup, element

Facts = dict[str, Any]


def section(anchor: str, title: str, lead: object, *children: object) -> Markup:
    """A section with a heading that can be linked to."""
    heading = element("h2", title, id=f"{anchor}-title")
    intro = element("p", lead, class_="lead") if lead else None
    return element("section", heading, intro, *children, id=anchor, aria_labelledby=f"{anchor}-title")


def table(header: Sequence[str], rows: Sequence[Sequence[object]], caption: str, *, words: int = 1) -> Markup:
    """A table that scrolls by itself on a narrow screen; the first columns are words, the others numbers."""
    head = [element("th", name, scope="col", class_=None if i < words else "number") for i, name in enumerate(header)]
    body = []
    for first, *others in rows:
        cells = [element("td", v, class_=None if i < words else "number") for i, v in enumerate(others, start=1)]
        body.append(element("tr", element("th", first, scope="row"), cells))
    parts = element("caption", caption), element("thead", element("tr", head)), element("tbody", body)
    inner = element("table", *parts)
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def more(summary: str, *children: object, opened: bool = False) -> Markup:
    """Something that is folded away until it is wanted."""
    return element("details", element("summary", summary), *children, open=opened)


def rows_of(items: Sequence[Sequence[object]], *, class_: str) -> Markup:
    """A list of terms, each with its value."""
    return element("dl", [element("div", element("dt", a), element("dd", b)) for a, b in items], class_=class_)


def legend_of(items: Sequence[Sequence[object]]) -> Markup:
    """What the marks of a chart mean: a mark and its words, for each."""
    return element("ul", [element("li", mark, words) for mark, words in items], class_="legend")
