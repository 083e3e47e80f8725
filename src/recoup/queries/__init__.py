"""What can be asked: bounded per-record maps as values, each with its sensitivities.

The registry here is closed: a file can name only what it lists.
"""

from __future__ import annotations

from collections.abc import Mapping

from recoup.errors import ParameterError, TranscriptFormatError
from recoup.queries.base import Query
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery
from recoup.queries.models import LogisticGradientQuery, MixtureQuery
from recoup.queries.moments import MomentsQuery, PowerQuery

QUERIES: dict[str, type[Query]] = {
    q.type_name: q
    for q in (MomentsQuery, PowerQuery, VoronoiQuery, GridQuery, HistogramQuery, LogisticGradientQuery, MixtureQuery)
}

_LONGEST_NAME = 60  # of a type, in a message


def query_from_json(value: object) -> Query:
    """Read a query back from its JSON value.

    >>> query_from_json({"type": "grid", "sides": [2, 3]}).size
    6
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise TranscriptFormatError(f"unknown type of query; known are {', '.join(QUERIES)}.")
    if value["type"] not in QUERIES:
        raise unknown("query", value["type"])
    try:
        return QUERIES[value["type"]].from_json(value)
    except ParameterError as error:
        raise TranscriptFormatError(f"a query cannot be used: {error}") from None


def unknown(what: str, name: str) -> TranscriptFormatError:
    """The error about a type that is none of Recoup's, with what to do about it; the name, a file's, is quoted."""
    shown = ascii(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}...")
    return TranscriptFormatError(
        f"the {what} {shown} is not one of Recoup's: recoup.register the class in Python and read the transcript there."
    )
