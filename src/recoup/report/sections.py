"""The sections in words: the title with the result at a glance, the privacy statement, and how to reproduce."""

from __future__ import annotations

from recoup.report.blocks import Facts, more, rows_of, section, table
from recoup.report.markup import Markup, element, join
from recoup.report.numbers import count, figure
from recoup.report.verdict import verdict_words

_PRIVATE_LEAD = (
    "Found under differential privacy and read off the noisy answers alone: nothing on this page was computed from the "
    "records themselves."
)
_CLAIMED_LEAD = (
    "Read off noisy answers{some} that were made elsewhere: nothing on this page was computed from the records "
    "themselves. That the answers are private is claimed by whoever made them, not verified by Recoup."
)
_SIMULATED_LEAD = (
    "An experiment with simulated noise. Nothing on this page was computed from the records themselves, but the noise "
    "could be taken off again."
)


def hero(facts: Facts) -> Markup:
    """The title, the banner where it is due, the verdict, and the result in one glance."""
    summary, privacy = facts["summary"], facts["privacy"]
    numbers = {row["name"]: row["value"] for row in privacy["numbers"]}
    tiles: list[tuple[str, object]] = [("epsilon", numbers["epsilon"])]
    if numbers["delta"] != "0":
        tiles.append(("delta", numbers["delta"]))
    if summary["n_clusters"] is not None:
        tiles.append(("cluster" if summary["n_clusters"] == 1 else "clusters", summary["n_clusters"]))
    if summary["n_records"] is not None:
        tiles.append(("records, about", count(summary["n_records"])))
    tiles.append(("column" if summary["n_columns"] == 1 else "columns", summary["n_columns"]))
    if summary["n_rounds"] is not None:
        tiles.append(("round" if summary["n_rounds"] == 1 else "rounds", summary["n_rounds"]))
    claimed = _CLAIMED_LEAD.format(some="" if privacy["n_releases"] == 1 else ", among them some")
    lead = _PRIVATE_LEAD if facts["private"] else claimed if numbers["noise"] == "unverified" else _SIMULATED_LEAD
    made = join(element("strong", "Released by "), summary["algorithm"], ". ")
    made = join(made, element("strong", "Read by "), summary["method"], ".")
    return element(
        "header",
        _banner(privacy["warning"]),
        element("p", "Recoup report", class_="eyebrow"),
        element("h1", facts["title"]),
        element("p", lead, class_="lead"),
        verdict_words(facts["verdict"]),
        rows_of(tiles, class_="tiles"),
        element("p", privacy["words"][0], " ", element("a", "The promise in full", href="#privacy"), class_="callout"),
        element("p", made, class_="soft"),
        class_="hero",
    )


def _banner(warning: Facts | None) -> Markup | None:
    """The warning that goes with simulated noise; it cannot be overlooked, by eye or ear."""
    if warning is None:
        return None
    words = [element("strong", warning["title"]), element("p", warning["text"])]
    return element("div", words, class_="banner", role="alert")


def answer(facts: Facts) -> Markup | None:
    """The answer of an algorithm without clusters, as a table; before inference too, where there was some."""
    found = facts.get("answer")
    if found is None:
        return None
    header = ["", *found["columns"]]

    def shown(key: str, caption: str) -> Markup:
        cells = [[row["label"], *(figure(value, 5) for value in row[key])] for row in found["rows"]]
        return table(header, cells, caption)

    before = None
    if found["rows"][0]["before"] is not None:
        before = more("Before inference", shown("before", "The algorithm's own answer, before inference"))
    note = element("p", found["note"], class_="soft") if found["note"] else None
    return section("answer", "The answer", found["lead"], note, shown("values", "The answer"), before)


def privacy(facts: Facts) -> Markup:
    """The promise in words and numbers, the bounds, and what is not covered."""
    found = facts["privacy"]
    first, *rest = found["words"]
    words = [element("p", first, class_="promise"), [element("p", text) for text in rest]]
    numbers = [(row["name"], join(row["value"], " ", element("small", row["meaning"]))) for row in found["numbers"]]
    bounds = [[b["column"], figure(b["low"], 12), figure(b["high"], 12)] for b in found["bounds"]]
    gaps = [element("li", element("strong", f"{row['title']}."), " ", row["text"]) for row in found["not_covered"]]
    return section(
        "privacy",
        "What is promised",
        None,
        element("div", element("div", words), rows_of(numbers, class_="numbers"), class_="columns"),
        element("h3", "What is not covered"),
        element("ul", gaps, class_="plain two"),
        more(
            "Declared bounds of each column",
            table(["column", "low", "high"], bounds, "Declared bounds: public, not computed from the data"),
            opened=len(bounds) <= 4,
        ),
    )


def reproduce(facts: Facts) -> Markup | None:
    """The lines that make the page again."""
    found = facts["reproduce"]
    if found is None:
        return None
    rows = [
        ("transcript", element("code", found["checksum"])),
        ("released with", f"Recoup {found['transcript_version']}"),
        ("this page", f"Recoup {found['report_version']}, seed {found['seed']}"),
    ]
    return section(
        "reproduce",
        "How to reproduce",
        join("The page needs the transcript and no records. ", found["note"]),
        element("h3", "On the command line"),
        element("pre", element("code", found["command"]), tabindex="0"),
        element("h3", "In Python"),
        element("pre", element("code", found["python"]), tabindex="0"),
        rows_of(rows, class_="numbers wide"),
    )
