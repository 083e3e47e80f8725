"""The score of an experiment: the within-cluster sum of squares on the records themselves, never shown to a method."""

from __future__ import annotations

from recoup.domain import Array, Domain
from recoup.queries.cells import VoronoiQuery


def wcss(unit: Array, centers: Array, domain: Domain) -> float:
    """The sum of squared distances from records to their nearest centre, in a domain's units.

    Records are (n, d), mapped to the domain already; centres (k, d), in the user's units.

    >>> import numpy as np
    >>> from recoup.domain import Box
    >>> box = Box([0.0], [2.0])
    >>> wcss(box.to_unit([[0.0], [2.0]]), np.array([[0.5], [2.0]]), box)
    0.25
    """
    at = domain.to_unit(centers)
    cells = VoronoiQuery(centers=at).cells(unit)
    return float(((unit - at[cells]) ** 2).sum())
