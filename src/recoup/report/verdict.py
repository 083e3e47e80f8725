"""The verdict at the top of the page: whether what follows can be trusted, and how many records it rests on."""

from __future__ import annotations

from typing import Any

from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import judge
from recoup.queries.base import Array
from recoup.report.blocks import Facts, more
from recoup.report.markup import Markup, element
from recoup.transcript.transcript import Transcript

_MOST_REASONS = 12  # more would push the result off the first screen


def verdict_facts(transcript: Transcript, inferred: InferredDataset | None, centers: Array | None) -> dict[str, Any]:
    """The verdict on a result, from the transcript and the inferred data alone.

    Args:
        transcript: what was released.
        inferred: the data inferred from it, or none.
        centers: (K, d) in the user's units, or none.

    Returns:
        JSON of the verdict, with "records" and "rests_on".
    """
    found = judge(transcript, inferred, centers)
    records = None if found.records is None else found.records.to_json()
    return found.to_json() | {"records": records, "rests_on": found.rests_on}


def verdict_words(facts: Facts | None) -> Markup | None:
    """The verdict as a callout that cannot be overlooked where it is doubtful, by eye or ear."""
    if facts is None:
        return None
    rests_on = element("p", facts["rests_on"])
    notes = None
    if facts["notes"]:
        notes = more("What else was seen", element("ul", [element("li", note["sentence"]) for note in facts["notes"]]))
    if facts["status"] == "good":
        return element("div", element("p", facts["sentence"]), rests_on, notes, class_="callout verdict")
    said = [reason["sentence"] for reason in facts["reasons"]]
    if len(said) > _MOST_REASONS:
        said[_MOST_REASONS:] = [f"and {len(said) - _MOST_REASONS} more"]
    reasons = element("ul", [element("li", sentence) for sentence in said])
    title = element("strong", "Doubtful: the released answers speak against this result")
    return element("div", title, reasons, rests_on, notes, class_="callout verdict doubtful", role="alert")
