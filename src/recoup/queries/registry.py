"""The closed registry of query types: a file can name only what is listed here."""

from __future__ import annotations

from collections.abc import Mapping

from recoup.errors import ParameterError, TranscriptFormatError
from recoup.queries.base import Query
from recoup.queries.gradient import LogisticGradientQuery
from recoup.queries.grid import GridQuery
from recoup.queries.histogram import HistogramQuery
from recoup.queries.mixture import MixtureQuery
from recoup.queries.moments import MomentsQuery, PowerQuery
from recoup.queries.voronoi import VoronoiQuery

QUERIES: dict[str, type[Query]] = {
    q.type_name: q
    for q in (MomentsQuery, PowerQuery, VoronoiQuery, GridQuery, HistogramQuery, LogisticGradientQuery, MixtureQuery)
}


def query_from_json(value: object) -> Query:
    """Read a query back from its JSON value.

    >>> query_from_json({"type": "grid", "sides": [2, 3]}).size
    6
    """
    if not isinstance(value, Mapping) or value.get("type") not in QUERIES:
        raise TranscriptFormatError(f"unknown type of query; known are {', '.join(QUERIES)}.")
    try:
        return QUERIES[value["type"]].from_json(value)
    except ParameterError as error:
        raise TranscriptFormatError(f"a query cannot be used: {error}") from None
