"""The demo's comparison as a page: what only the holder of a generated table may show, beside links to the reports.

The reports are made from the transcripts alone, as for any table; this page looks at the data and says so.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from recoup.cli.output import privacy_sentence
from recoup.demo import COMPARISON_NOTE, EPSILONS, N_FITS, NON_PRIVATE, RELEASED_EPSILON, TableResult, report_name
from recoup.report.blocks import section, table
from recoup.report.markup import Markup, element, join
from recoup.report.page import template_file
from recoup.version import __version__

_YOURS = (
    "recoup cluster people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99 -o out\n"
    "recoup report out/transcript.json -o report.html"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(results: Sequence[TableResult], pictures: Sequence[Mapping[str, tuple[str, bytes]]]) -> str:
    """Write the page.

    Args:
        results: what was found on each table.
        pictures: for each table its pictures: name to caption and PNG.

    Returns:
        HTML with the pictures inside it; it links to the reports that lie beside it.
    """
    lead = (
        "Nobody's records are in here: both tables were made from a seed. Each was released once, for real, with noise "
        f"from a cryptographic generator at epsilon = {RELEASED_EPSILON:g}. The reports are made from those "
        "releases alone; the comparison below looks at the data."
    )
    links = [
        element("li", element("a", f"Report of {result.table.name}", href=report_name(result))) for result in results
    ]
    hero = element(
        "header",
        element("p", "Recoup demo", class_="eyebrow"),
        element("h1", "Two generated tables, clustered privately"),
        element("p", lead, class_="lead"),
        element("ul", links, class_="links"),
        class_="hero",
    )
    body = element(
        "main",
        hero,
        [_section(result, shown) for result, shown in zip(results, pictures, strict=True)],
        section("yours", "Your own table", None, element("pre", element("code", _YOURS), tabindex="0")),
    )
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", "Recoup demo"),
        Markup(f"<style>{template_file('style.css')}</style>"),
    )
    footer = element("footer", element("p", f"Made by Recoup {__version__}."))
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}{footer}</body>\n</html>\n'


def cell(score: float, result: TableResult) -> str:
    """A score, and what multiple of the non-private one it is."""
    digits = ",.0f" if score >= 1000 else ".4g"
    return f"{score:{digits}} ({score / result.non_private:.2f} x)"


def caption(result: TableResult) -> str:
    """What the comparison of one table shows."""
    n, d = result.table.rows.shape
    return (
        f"{result.table.name}, {n:,} x {d}, K = {result.table.n_clusters}: within-cluster sum of squares, columns "
        f"scaled to [-1, 1] (multiple of non-private)"
    )


def _section(result: TableResult, pictures: Mapping[str, tuple[str, bytes]]) -> Markup:
    rows = [[name, *(cell(score, result) for score in scores)] for name, scores in result.rows()]
    shown = [
        element(
            "figure",
            Markup(f'<img alt="{escape(name)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'),
            element("figcaption", text),
        )
        for name, (text, png) in pictures.items()
    ]
    note = (
        f"{COMPARISON_NOTE} Private figures are means of {N_FITS} fits, {NON_PRIVATE} is the best of ten starts; the "
        f"release scores {cell(result.released_score, result)}."
    )
    return section(
        result.table.name.lower(),
        result.table.name,
        None,
        element("p", privacy_sentence(result.transcript.privacy), class_="callout"),
        element("p", note, class_="soft"),
        table(["method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], rows, caption(result)),
        element("div", shown, class_="pictures"),
    )
