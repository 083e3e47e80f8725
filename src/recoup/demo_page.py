"""The demo's comparison as a page: what only the holder of a generated table may show, beside links to the reports.

The reports are made from the transcripts alone, as for any table; this page looks at the data and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recoup.cli.output import privacy_sentence
from recoup.demo import COMPARISON_NOTE, EPSILONS, N_FITS, NON_PRIVATE, RELEASED_EPSILON, TableResult, report_name
from recoup.report.html import Markup, document, element, heading, picture, section, table

_YOURS = (
    "recoup cluster people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99 -o out\n"
    "recoup report out/transcript.json -o report.html"
)


def page(results: Sequence[TableResult], pictures: Sequence[Mapping[str, tuple[str, bytes]]]) -> str:
    """The page as HTML, with the pictures of each table inside it; it links to the reports that lie beside it."""
    lead = (
        "Nobody's records are in here: both tables were made from a seed. Each was released once, for real, with noise "
        f"from a cryptographic generator at epsilon = {RELEASED_EPSILON:g}. The reports are made from those "
        "releases alone; the comparison below looks at the data."
    )
    links = [element("li", element("a", f"Report of {one.table.name}", href=report_name(one))) for one in results]
    title = "Two generated tables, clustered privately"
    return document(
        "Recoup demo",
        heading("Recoup demo", title, lead, element("ul", links, class_="links")),
        [_section(result, shown) for result, shown in zip(results, pictures, strict=True)],
        section("yours", "Your own table", None, element("pre", element("code", _YOURS), tabindex="0")),
    )


def cell(score: float, result: TableResult) -> str:
    """A score, and what multiple of the non-private one it is."""
    digits = ",.0f" if score >= 1000 else ".4g"
    return f"{score:{digits}} ({score / result.non_private:.2f} x)"


def comparison(result: TableResult) -> tuple[str, list[str], list[list[str]]]:
    """Caption, header and rows of one table's comparison, for the page and the terminal."""
    n, d = result.table.rows.shape
    caption = (
        f"{result.table.name}, {n:,} x {d}, K = {result.table.n_clusters}: within-cluster sum of squares, columns "
        f"scaled to [-1, 1] (multiple of non-private)"
    )
    rows = [[name, *(cell(score, result) for score in scores)] for name, scores in result.rows()]
    return caption, ["method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], rows


def _section(result: TableResult, pictures: Mapping[str, tuple[str, bytes]]) -> Markup:
    note = (
        f"{COMPARISON_NOTE} Private figures are means of {N_FITS} fits, {NON_PRIVATE} is the best of ten starts; the "
        f"release scores {cell(result.released_score, result)}."
    )
    caption, header, rows = comparison(result)
    return section(
        result.table.name.lower(),
        result.table.name,
        None,
        element("p", privacy_sentence(result.transcript.privacy), class_="callout"),
        element("p", note, class_="soft"),
        table(header, rows, caption),
        element("div", [picture(name, png, text) for name, (text, png) in pictures.items()], class_="pictures"),
    )
