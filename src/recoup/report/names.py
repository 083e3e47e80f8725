"""Names of clusters: given by whoever writes or reads a page, shown beside the numbers, and public like the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral

from recoup.errors import ParameterError

LONGEST_NAME = 60  # characters: a name stands in a table's first column
_FORM = '1=Commuters,2=Families, or JSON such as {"1": "Commuters, early"}'


def names_of_text(text: str | None) -> dict[int, str]:
    """The names in a text such as "1=Commuters,2=Families"; JSON where a name holds a comma.

    >>> names_of_text("1=Commuters, 2=Families")
    {1: 'Commuters', 2: 'Families'}
    """
    if not text or not text.strip():
        return {}
    try:
        if text.lstrip().startswith("{"):
            parts = json.loads(text, object_pairs_hook=list)
        else:
            parts = [part.split("=", 1) for part in text.split(",")]
        found = {int(label): name for label, name in parts}
    except (ValueError, TypeError, RecursionError):
        raise ParameterError(f"names {text!r} are not of the form {_FORM}.") from None
    if len(found) < len(parts):
        raise ParameterError(f"names {text!r} name a cluster twice: name each cluster once.")
    return {label: name.strip() if isinstance(name, str) else name for label, name in found.items()}


def checked_names(names: Mapping[int, str] | None, n_clusters: int | None) -> dict[str, str]:
    """Names by the numbers of their clusters, as JSON has them; refused where no page could show them."""
    for label, name in (names or {}).items():
        if n_clusters is None:
            raise ParameterError("names are of clusters, and this result has none: leave them out.")
        if isinstance(label, bool) or not isinstance(label, Integral) or not 0 <= label < n_clusters:
            raise ParameterError(f"names: there is no cluster {label!r}. They have the numbers 0 to {n_clusters - 1}.")
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise ParameterError(
                f"the name of cluster {label} is {name!r}: give one line of text, at most {LONGEST_NAME} characters."
            )
    return {str(int(label)): name.strip() for label, name in sorted((names or {}).items())}
