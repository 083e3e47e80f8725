"""What a public reply time may grow with: a question's own numbers, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from recoup.queries.base import Query
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.transcript.wire import effort_of


@pytest.mark.parametrize(
    ("query", "effort"),
    [
        (GridQuery(sides=(4, 5)), 20 + 2),
        # Seven counts in three columns.
        (VoronoiQuery(centers=np.zeros((7, 3)), sums="none"), 7 + 21),
        (VoronoiQuery(centers=np.zeros((7, 3))), 28 + 21),
    ],
)
def test_effort_counts_what_is_asked_for_and_what_is_written(query: Query, effort: int) -> None:
    assert effort_of(query) == effort
