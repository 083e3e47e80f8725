"""Histograms and grids: their names in files, what people are told, and the layout of their rows."""

import numpy as np
import pytest

from recoup.errors import ParameterError
from recoup.queries import query_from_json
from recoup.queries.base import Asked
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery, Marginal, as_grid, counts_in_cells
from recoup.queries.moments import MomentsQuery

ONE_WAY = HistogramQuery.one_way(dimension=2, bins=5)
JOINT = HistogramQuery(
    dimension=3, marginals=(Marginal(columns=(0, 2), sides=(2, 3)), Marginal(columns=(1,), sides=(4,)))
)
GRID = GridQuery(sides=(2, 3, 2))


def test_files_name_them():
    assert (ONE_WAY.to_json()["type"], GRID.to_json()["type"]) == ("histogram", "grid")
    for query in (ONE_WAY, JOINT, GRID):
        assert type(query_from_json(query.to_json())) is type(query)


def test_what_people_are_told():
    assert ONE_WAY.asked() == Asked("marginals", 10, "a histogram of each column, 5 bins")
    assert JOINT.asked() == Asked("marginals", 10, "2 joint histograms")
    assert GRID.asked() == Asked("grid", 12, "counts on a grid of 2 x 3 x 2 cells")
    assert GridQuery(sides=(2,) * 4).asked() == Asked("grid", 16, "counts on a grid of 2 bins in each column cells")


@pytest.mark.parametrize("query", [ONE_WAY, JOINT, GRID], ids=["one way", "joint", "grid"])
def test_rows_for_the_solver_are_the_contributions(query):
    points = np.random.default_rng(0).uniform(-1, 1, size=(50, query.n_columns))
    parts = []
    for rows in query.solver_rows(points):
        assert rows.values is None
        part = np.zeros(rows.shape)
        part[np.arange(50), rows.cells] = 1.0
        parts.append(part)
    expected = query.contribution(points)
    np.testing.assert_array_equal(
        np.hstack(parts), expected if isinstance(expected, np.ndarray) else expected.toarray()
    )


def test_which_queries_count_in_cells():
    for counts in (ONE_WAY, JOINT, GRID, VoronoiQuery(centers=np.zeros((1, 2)), sums="none")):
        assert counts_in_cells(counts)
    assert not counts_in_cells(MomentsQuery(dimension=2))
    assert as_grid(GRID) is GRID
    assert as_grid(ONE_WAY) is as_grid(None) is None


def test_a_histogram_keeps_to_the_public_cap():
    with pytest.raises(ParameterError, match="at most 1048576 are allowed"):
        HistogramQuery(dimension=2, marginals=(Marginal(columns=(0,), sides=(2**19,)),) * 3)


def test_what_is_no_whole_number_is_named_and_others_are_kept_as_plain_numbers():
    with pytest.raises(ParameterError, match=r"^dimension must be whole numbers\.$"):
        HistogramQuery(dimension=1.5, marginals=(Marginal(columns=(0,), sides=(2,)),))
    assert type(HistogramQuery(dimension=np.int64(1), marginals=(Marginal(columns=(0,), sides=(2,)),)).dimension) is int
    sides = GridQuery(sides=[np.int64(2), 3]).sides
    assert sides == (2, 3)
    assert type(sides) is tuple
    assert {type(side) for side in sides} == {int}
