"""What crosses the wall, as JSON: public terms and rounds to the analyst's side, requests to the curator's.

A transcript, a served curator and an algorithm in a process of its own speak the same; whatever is read is taken for
hostile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recoup.errors import ParameterError, TranscriptFormatError
from recoup.mixed import domain_from_json
from recoup.queries import query_from_json
from recoup.queries.base import Query
from recoup.transcript.context import Context, Request
from recoup.transcript.round import fraction_from_json


def context_from_json(terms: Mapping[str, Any]) -> Context:
    """Read public terms back from `Context.to_json`; what misses a field or has another type raises as Python does."""
    context = Context(
        domain=domain_from_json(terms["domain"]),
        epsilon=fraction_from_json(terms["epsilon"]),
        delta=fraction_from_json(terms["delta"]),
        mechanism=terms["mechanism"],
        n_records=terms["n_records"],
        records_per_person=terms["records_per_person"],
        csv_dialect=terms.get("csv_dialect"),
        person=terms.get("person"),
        per_person=terms.get("per_person"),
        sample_key=terms.get("sample_key"),
        # It says nothing where noise is Laplace.
        accounting=terms.get("accounting", "zcdp" if terms["mechanism"] == "gaussian" else "gaussian"),
    )
    if context.per_person == "sample" and context.sample_key is None:
        raise TranscriptFormatError("the transcript does not say by which key records of a person were chosen.")
    return context


def effort_of(query: Query) -> int:
    """The numbers that a query asks for and those that it is written with: by them its public reply time grows.

    To find one count for each of k centres in d columns takes k times d steps a record, though only k are asked for.

    >>> effort_of(query_from_json({"type": "grid", "sides": [4, 5]}))
    22
    """
    return query.size + _numbers_in(query.to_json())


def _numbers_in(value: object) -> int:
    if isinstance(value, Mapping):
        return sum(map(_numbers_in, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_numbers_in, value))
    return int(isinstance(value, int | float) and not isinstance(value, bool))


def request_to_json(request: Request) -> dict[str, Any]:
    """A JSON value that `request_from_json` reads back."""
    split = {name: str(part) for name, part in request.split.items()}
    return {"query": request.query.to_json(), "share": str(request.share), "split": split}


def request_from_json(value: object) -> Request:
    """Read a request back; the query by the closed registry, shares as exact fractions.

    >>> asked = {"query": {"type": "grid", "sides": [4]}, "share": "1/2", "split": {"count": "1"}}
    >>> request_from_json(asked).share
    Fraction(1, 2)
    """
    if not isinstance(value, Mapping) or set(value) != {"query", "share", "split"}:
        raise TranscriptFormatError("a request holds query, share and split, and nothing else.")
    split = value["split"]
    if not isinstance(split, Mapping) or not all(isinstance(name, str) for name in split):
        raise TranscriptFormatError("a request's split gives each block of the answer, by its name, a part.")
    try:
        query = query_from_json(value["query"])
        parts = {name: fraction_from_json(part) for name, part in split.items()}
        return Request(query=query, share=fraction_from_json(value["share"]), split=parts)
    except ParameterError as error:
        raise TranscriptFormatError(f"a request cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, TranscriptFormatError):
            raise
        raise TranscriptFormatError("a request's query misses a field, or one has the wrong type.") from None
