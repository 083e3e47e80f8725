"""The top of the page: what was found, how far it can be trusted and what was promised, a sentence each."""

from __future__ import annotations

from recoup.report.html import Markup, count, counted, element, folded, heading, share, terms
from recoup.report.sections import Json

_MOST_REASONS = 4  # more are folded away, or they would push the result off the first screen
_LEADS = {
    "secure": "Everything on this page was computed from noisy answers alone, never from the records themselves.",
    "unverified": "Everything on this page was computed from noisy answers{some} that were made elsewhere, never from "
    "the records themselves. That the answers are private is claimed by whoever made them, not verified by Recoup.",
    "simulated": "This is an experiment with simulated noise. Everything on this page was computed from noisy answers "
    "alone, but the noise could be taken off again.",
}


def content(summary: Json, verdict: Json | None, promise: Json, profiles: Json | None, answer: Json | None) -> Json:
    """The three sentences, for readers who read nothing else."""
    return {
        "found": _found(summary, verdict, profiles, answer),
        "trust": _trust(verdict),
        "promise": promise["words"][0],
    }


def _found(summary: Json, verdict: Json | None, profiles: Json | None, answer: Json | None) -> str:
    n_clusters, columns = summary["n_clusters"], counted(summary["n_columns"], "column")
    if verdict is not None and any(reason["kind"] == "records" for reason in verdict["reasons"]):
        return "Nothing: the noisy answers are no larger than those of an empty table, so what follows may be noise."
    if n_clusters is not None and profiles is None:
        return f"{counted(n_clusters, 'cluster')} in {columns}, of which only the centres were released."
    records = f"about {count(summary['n_records'])} {summary['counted']}"
    if n_clusters is not None and profiles is not None:
        shares = [cluster["share"] for cluster in profiles["clusters"]]
        if n_clusters == 1:
            return f"One cluster that holds all of {records}, in {columns}."
        smallest = f", the smallest about {share(shares[-1])}" if len(shares) == n_clusters else ""
        fall = f"{records[0].upper()}{records[1:]} fall into {counted(n_clusters, 'cluster')} by {columns}"
        return f"{fall}: the largest holds about {share(shares[0])} of them{smallest}."
    if answer is None:
        return f"Noisy answers about {records} in {columns}, made elsewhere: there is no result of Recoup's own."
    rows = counted(len(answer["rows"]), "row")
    return f"A result of {rows}, in the table below, computed for {records} in {columns}."


def _trust(verdict: Json | None) -> str:
    if verdict is None:
        return "Not checked: only the result was released, and nothing that it could be compared with."
    if verdict["status"] != "good":
        return "Doubtful: the noisy answers speak against parts of this result."
    if not verdict["n_rounds"]:
        return (
            "Nothing in the noisy answers speaks against it, but no data was inferred that could be checked with them."
        )
    if any(note["kind"] != "prediction" for note in verdict["notes"]):
        return "Good: the result agrees with the noisy answers in everything that matters."
    return "Good: the result agrees with every noisy answer, as closely as the noise lets anyone tell."


def html(page: Json) -> Markup:
    """The banner where privacy is in doubt, the three sentences, and the most important numbers."""
    glance, privacy, said = page["summary"], page["privacy"], page["in_short"]
    numbers = {row["name"]: row["value"] for row in privacy["numbers"]}
    tiles: list[tuple[str, object]] = [("epsilon", numbers["epsilon"])]
    if numbers["delta"] != "0":
        tiles.append(("delta", numbers["delta"]))
    for thing in ("cluster", "record", "column", "round"):
        if (n := glance[f"n_{thing}s"]) is not None:
            named = thing if n == 1 else f"{thing}s"
            tiles.append((f"{glance['counted']}, about", count(n)) if thing == "record" else (named, n))
    banner = None
    if privacy["warning"] is not None:
        # Of noise that is not Recoup's own: it cannot be overlooked, by eye or ear.
        warning = element("strong", privacy["warning"]["title"]), element("p", privacy["warning"]["text"])
        banner = element("div", *warning, class_="banner", role="alert")
    promised = element("p", said["promise"], " ", element("a", "The promise in full", href="#privacy"))
    three = [
        ("What was found", element("p", said["found"])),
        ("How far to trust it", _trust_html(said["trust"], page["verdict"])),
        ("What was promised", promised),
    ]
    lead = _LEADS[numbers["noise"]].format(some="" if privacy["n_releases"] == 1 else ", among them some")
    parts = terms(three, class_="in-short"), terms(tiles, class_="tiles small"), element("p", lead, class_="soft")
    return heading("Recoup report", page["title"], None, *parts, banner=banner)


def _trust_html(sentence: str, judged: Json | None) -> Markup:
    """The verdict; one that is doubtful cannot be overlooked, by eye or ear."""
    if judged is None:
        return element("p", sentence)
    notes = [element("li", note["sentence"]) for note in judged["notes"]]
    more = folded("What else was seen", element("ul", notes)) if notes else None
    if judged["status"] == "good":
        return element("div", element("p", sentence, " ", judged["rests_on"]), more, class_="callout verdict")
    reasons = [element("li", reason["sentence"]) for reason in judged["reasons"]]
    rest = reasons[_MOST_REASONS:]
    others = folded(f"and {len(rest)} more", element("ul", rest)) if rest else None
    first = element("ul", reasons[:_MOST_REASONS])
    parts = element("strong", sentence), first, others, element("p", judged["rests_on"]), more
    return element("div", *parts, class_="callout verdict doubtful", role="alert")
