"""Everything that is HTML, once: elements, tables, charts, numbers as text, whole documents; for reports and others.

Text becomes markup only through `element`, which escapes it: the name of a column can hold anything. Charts are HTML
and stretched SVG whose strokes keep their width; words stand outside it, so that they stay readable on a phone. Charts
follow the page's colours, need no script, and have the same numbers beside them as text.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING

from recoup.version import __version__

if TYPE_CHECKING:
    from recoup.domain import Domain

_WIDEST_TABLE = 13  # columns that fit on a sheet of paper, the first of them included
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
# SVG writes these attributes in mixed case.
_MIXED_CASE = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element; children that are not `Markup` are text and are escaped, and so are attributes; none is left out.

    `class_` is written `class`, other underscores become hyphens; true writes the bare name, false and none leave the
    attribute out.
    """
    tag = name
    for key, value in attributes.items():
        if value is not None and value is not False:
            written = key.rstrip("_").replace("_", "-")
            tag += f" {_MIXED_CASE.get(written, written)}"
            tag += "" if value is True else f'="{escape(str(value), quote=True)}"'
    return Markup(f"<{tag}>" if name in _VOID else f"<{tag}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Markup one after the other; lists are gone through."""

    def written(child: object) -> str:
        if isinstance(child, list | tuple):
            return join(*child)
        return child if isinstance(child, Markup) else "" if child is None else escape(str(child), quote=True)

    return Markup("".join(map(written, children)))


# ---- documents and their parts ----
def template_file(name: str) -> str:
    """One of the files that pages are made of."""
    return resources.files("recoup.report").joinpath("template", name).read_text(encoding="utf-8")


def document(title: str, *children: object) -> str:
    """A whole page without scripts, in the report's style: its policy forbids every request."""
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", title),
        Markup(f"<style>{template_file('style.css')}</style>"),
    )
    body = join(element("main", *children), element("footer", element("p", f"Made by Recoup {__version__}.")))
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'


def heading(eyebrow: str, title: str, lead: object, *children: object, banner: Markup | None = None) -> Markup:
    """What a document begins with."""
    intro = element("p", lead, class_="lead") if lead else None
    words = element("p", eyebrow, class_="eyebrow"), element("h1", title), intro
    return element("header", banner, *words, *children, class_="hero")


def picture(name: str, png: bytes, caption: object = None) -> Markup:
    """A figure that holds its PNG."""
    image = element("img", alt=name, src=f"data:image/png;base64,{base64.b64encode(png).decode()}")
    return element("figure", image, None if caption is None else element("figcaption", caption))


def section(anchor: str, title: str, lead: object, *children: object) -> Markup:
    """A section with a heading that can be linked to."""
    title_line = element("h2", title, id=f"{anchor}-title")
    intro = element("p", lead, class_="lead") if lead else None
    return element("section", title_line, intro, *children, id=anchor, aria_labelledby=f"{anchor}-title")


def table(header: Sequence[object], rows: Sequence[Sequence[object]], caption: str, *, words: int = 1) -> Markup:
    """A table that scrolls by itself on a narrow screen; the first columns are words, the others numbers.

    One that is too wide for a sheet of paper is cut into tables below each other, each with the first column.
    """
    step, parts = _WIDEST_TABLE - 1, []
    for start in range(1, max(len(header), 2), step):
        shown, part = slice(start, start + step), f"{caption} (continued)" if start > 1 else caption
        kinds = [None if i < words else "number" for i in range(len(header))][shown]
        first = element("th", header[0], scope="col")
        head = [element("th", name, scope="col", class_=kind) for name, kind in zip(header[shown], kinds, strict=True)]
        body = []
        for row in rows:
            cells = [element("td", value, class_=kind) for value, kind in zip(row[shown], kinds, strict=True)]
            body.append(element("tr", element("th", row[0], scope="row"), cells))
        parts.append(scrolling(part, element("thead", element("tr", first, head)), element("tbody", body)))
    return join(*parts)


def scrolling(caption: str, *parts: Markup, class_: str | None = None) -> Markup:
    """The parts of a table in a frame that scrolls by itself, also by keyboard."""
    inner = element("table", element("caption", caption), *parts, class_=class_)
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def folded(summary: object, *children: object, opened: bool = False, **attributes: object) -> Markup:
    """Something that is folded away until it is wanted."""
    return element("details", element("summary", summary), *children, open=opened, **attributes)


def appended(anchor: str, title: str, lead: object, *children: object) -> Markup:
    """A part of the appendix: folded away, and unfolded on paper."""
    return folded(element("h3", title), element("p", lead, class_="lead"), *children, id=anchor, class_="appended")


def given_name(label: int, names: Mapping[str, str]) -> Markup:
    """The name that a cluster was given, which stands beside its number; a reader's own takes its place."""
    return element("span", names.get(str(label)), class_="given", data_name=label)


def terms(items: Sequence[Sequence[object]], *, class_: str) -> Markup:
    """A list of terms, each with its value."""
    return element("dl", [element("div", element("dt", a), element("dd", b)) for a, b in items], class_=class_)


def legend(items: Sequence[Sequence[object]]) -> Markup:
    """What the marks of a chart mean: a mark and its words, for each."""
    return element("ul", [element("li", key, words) for key, words in items], class_="legend")


# ---- charts ----
def track(*marks: Markup, class_: str = "") -> Markup:
    """A horizontal scale to put marks on; readers of the screen get the numbers beside it instead."""
    return element("span", *marks, class_=f"track {class_}".strip(), aria_hidden="true")


def band(kind: str, start: float, stop: float) -> Markup:
    """A stretch of a track, in parts of its width."""
    start, stop = (min(max(end, 0.0), 1.0) for end in (start, stop))
    style = f"left:{100 * start:.2f}%;width:{100 * max(stop - start, 0.0):.2f}%"
    return element("span", class_=f"band {kind}", style=style)


def mark(kind: str, at: float) -> Markup:
    """A point of a track, in parts of its width."""
    return element("span", class_=f"mark {kind}", style=f"left:{100 * min(max(at, 0.0), 1.0):.2f}%")


def tracks(items: Sequence[tuple[Markup, str]]) -> Markup:
    """What the marks of tracks mean."""
    return legend([(track(key), words) for key, words in items])


def breakable(name: str) -> Markup:
    """A name that a narrow column may break after the = between a column and its value, rather than within a word."""
    before, sign, after = name.partition("=")
    return join(before, sign, Markup("<wbr>"), after) if sign else join(name)


def scale_row(name: str, what: str | None, value: object, marks: Sequence[Markup], words: str) -> Markup:
    """A line of a list of tracks: what it is about, its number, the marks of its track, and what it says in words."""
    texts = {"name": name, "what": what, "value": value}
    parts = [element("span", text, class_=kind) for kind, text in texts.items() if text is not None]
    return element("li", *parts, track(*marks), element("small", words, class_="spread"))


def line_chart(
    lines: Sequence[Sequence[tuple[float, float]]],
    *,
    band_between: Sequence[tuple[float, float, float]] = (),
    points: Sequence[tuple[float, float, str]] = (),
    x_labels: Sequence[tuple[float, str]],
    y_labels: Sequence[tuple[float, str]],
    x_title: str,
    y_title: str,
    label: str,
) -> Markup:
    """Lines in a frame, everything in parts of its width and height, upwards; the label is the chart in words.

    A band is given as x, lower and upper end; points as x, y and a class. Two labels along the bottom stay inside.
    """

    def places(line: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{100 * x:.2f},{100 * (1 - y):.2f}" for x, y in line)

    def beside(kind: str, *words: object) -> Markup:
        return element("div", *words, class_=kind, aria_hidden="true")

    around = [(x, high) for x, _, high in band_between] + [(x, low) for x, low, _ in reversed(band_between)]
    shapes = [element("polygon", class_="area", points=places(around))] if around else []
    heights = [f"{100 * (1 - place):.2f}" for place, _ in y_labels]
    shapes += [element("line", class_="grid", x1=0, x2=100, y1=height, y2=height) for height in heights]
    shapes += [element("polyline", class_=f"line line-{i % 4}", points=places(line)) for i, line in enumerate(lines)]
    frame = element("svg", *shapes, viewbox="0 0 100 100", preserveaspectratio="none", aria_hidden="true")
    at = [(f"dot {kind}".strip(), f"left:{100 * x:.2f}%;bottom:{100 * y:.2f}%") for x, y, kind in points]
    dots = [element("span", class_=kind, style=place) for kind, place in at]
    left = [element("span", text, style=f"bottom:{100 * place:.2f}%") for place, text in y_labels]
    below = [element("span", text, style=f"left:{100 * place:.2f}%") for place, text in x_labels]
    across = beside("x-axis ends" if len(below) == 2 else "x-axis", *below), beside("x-title", x_title)
    upward = beside("y-title", y_title), beside("y-axis", *left)
    parts = *upward, element("div", frame, *dots, class_="frame"), *across
    return element("div", *parts, class_="chart", role="img", aria_label=label)


# ---- numbers for readers: as many digits as matter where they stand, never more; the terminal has the same rules ----
PARTS = 100  # of the range of a column: what is smaller is not shown where nothing else says how sure a number is


def in_units(value: float, noise: float, unit: str | Sequence[str] | None = None, outward: int = 0) -> str:
    """A value of a column, without the digits that a change by `noise` would change, and its unit; shares in percent.

    Of steps in an order, which are named instead of a unit, the nearest and its place; `outward` as of `settled`.

    >>> in_units(24.0864, 0.5, "years"), in_units(0.371, 0.1, "share"), in_units(1.1, 0.1, ["low", "middle", "high"])
    ('24.1 years', '37%', 'middle (2.1 of 3)')
    """
    if unit is not None and not isinstance(unit, str) and isfinite(value):
        return f"{unit[round(value)]} ({value + 1:.2g} of {len(unit)})"
    if unit == "share" and isfinite(value):
        return share(value)
    if unit is not None:
        return f"{in_units(value, noise, None, outward)} {unit}"
    if not isfinite(value):
        return "none"
    return _signed(settled(value, noise, outward) if 1e-7 <= noise <= 1e12 else f"{value:.4g}")


def noise_on_scale(domain: Domain, column: int, value: float) -> float:
    """What counts as a small change of a value where only the bounds and the scale of its column are known."""
    place = float(domain.on_scale([value], column)[0])
    low, high = domain.off_scale([max(place - 0.5 / PARTS, 0.0), min(place + 0.5 / PARTS, 1.0)], column)
    return float(high - low)


def settled(value: float, noise: float, outward: int = 0) -> str:
    """A value without the digits that a change by `noise` would change.

    With -1 or 1 it is the lower or the upper end of an interval, and is rounded outward.

    >>> settled(24.0864, 0.3), settled(1979.4, 33.0), settled(-0.04, 0.5), settled(33.4, 107.0, -1)
    ('24.1', '1,980', '0.0', '30')
    """
    if not isfinite(value) or not isfinite(noise) or noise <= 0 or abs(value) >= 1e15:
        return figure(value, 4).replace("\N{MINUS SIGN}", "-")
    # A unit of the last digit that is shown is at most two fifths of the noise.
    place = -floor(log10(noise / 2.5))
    steps = round(value * 10.0**place, 6)
    rounded = (ceil(steps) if outward > 0 else floor(steps) if outward < 0 else round(steps)) / 10.0**place
    return f"{rounded + 0.0:,.{max(0, place)}f}"


def between(value: float, low: float, high: float, noise: float | None = None) -> tuple[str, str, str]:
    """A value and the ends of its interval, half of which says how many digits are worth showing."""
    noise = (high - low) / 2.0 if noise is None else noise
    return settled(value, noise), settled(low, noise, -1), settled(high, noise, 1)


def count(value: float, low: float | None = None, high: float | None = None) -> str:
    """A number of records, of which three digits count, or as many as an interval settles; with that, if there is one.

    >>> count(6067.2), count(41.7), count(2089.0, 1786.0, 2392.0)
    ('6,070', '42', '2,100 (1,700 to 2,400)')
    """
    value = max(0.0, value)
    if low is None or high is None or high <= low:
        return settled(value, max(2.5, 2.5 * 10.0 ** (floor(log10(max(value, 1.0))) - 2)))
    return "{} ({} to {})".format(*between(value, low, high, max(2.5, (high - low) / 2.0)))


def share(part: float) -> str:
    """A part of a whole, as a percentage with two digits that matter."""
    percent = 100.0 * part
    if percent < 0.1:
        return "less than 0.1%" if percent else "0%"
    return f"{percent:.{1 if percent < 10 else 0}f}%"


def figure(value: float, digits: int = 3) -> str:
    """A plain number with so many digits that matter."""
    if value == 0 or not isfinite(value):
        return "0" if value == 0 else "none"
    size = floor(log10(abs(value)))
    if size < -4 or size > 12:
        return _signed(f"{value:.{digits}g}")
    text = f"{value:,.{max(0, digits - 1 - size)}f}"
    return _signed(text.rstrip("0").rstrip(".") if "." in text else text)


def _signed(text: str) -> str:
    return "\N{MINUS SIGN}" + text[1:] if text.startswith("-") else text


def counted(n: int, thing: str) -> str:
    """A number of things."""
    return f"{n} {thing}" if n == 1 else f"{n:,} {thing}s"


def listed(parts: Sequence[str]) -> str:
    """Words one after the other, as a sentence lists them."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
