"""Queries by hand: contributions, sensitivities and what is refused."""

import numpy as np
import pytest

from recoup.domain import Box, L1Ball, L2Ball
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.queries.grid import GridQuery
from recoup.queries.histogram import HistogramQuery, Marginal
from recoup.queries.registry import query_from_json
from recoup.queries.voronoi import VoronoiQuery

CENTERS = np.array([[-0.5, 0.0], [0.5, 0.0]])


def test_absolute_sums():
    rows = VoronoiQuery(centers=CENTERS).contribution(np.array([[-0.25, 0.5], [0.75, -1.0]]))
    np.testing.assert_array_equal(rows, [[1, 0, -0.25, 0.5, 0, 0], [0, 1, 0, 0, 0.75, -1.0]])


def test_relative_sums_are_scaled_back_to_the_radius():
    query = VoronoiQuery(centers=CENTERS, sums="relative", radii=np.array([1.0, 0.25]))
    rows = query.contribution(np.array([[-0.25, 0.5], [0.75, -0.25]]))
    np.testing.assert_array_equal(rows, [[1, 0, 0.25, 0.5, 0, 0], [0, 1, 0, 0, 0.125, -0.125]])
    query = VoronoiQuery(centers=CENTERS, sums="relative", radii=np.array([0.5, 0.5]), norm=2)
    np.testing.assert_allclose(query.contribution(np.array([[-0.2, 0.4]]))[0, 2:4], [0.3, 0.4])


def test_ties_go_to_the_lowest_index():
    assert VoronoiQuery(centers=CENTERS).cells(np.array([[0.0, 0.3]])).tolist() == [0]
    assert VoronoiQuery(centers=CENTERS[[0, 0, 1]]).cells(np.array([[-0.5, 0.0]])).tolist() == [0]


def test_sensitivities_follow_from_query_and_domain():
    low, high, root = [0, 0], [1, 1], 2**0.5
    for domain, l1, l2 in [(Box(low, high), 2, root), (L1Ball(low, high), 1, 1), (L2Ball(low, high), root, 1)]:
        count, total = VoronoiQuery(centers=CENTERS).sensitivity(domain).blocks
        assert (count.name, count.size, count.ones, total.name, total.size) == ("count", 2, 1, "sum", 4)
        np.testing.assert_allclose(total.l1, l1)
        np.testing.assert_allclose(total.l2, l2)
    box = Box([0, 0], [1, 1])
    relative = VoronoiQuery(centers=CENTERS, sums="relative", radii=np.array([0.1, 0.2]), norm=2)
    block = relative.sensitivity(box).blocks[1]
    np.testing.assert_allclose(block.l2, [0.1, 0.1, 0.2, 0.2])
    np.testing.assert_allclose(block.l1, block.l2 * 2**0.5)
    block = HistogramQuery.one_way(dimension=2, bins=5).sensitivity(box).blocks[0]
    assert (block.ones, block.l1[0], block.l2[0]) == (2, 2, 2**0.5)


def test_grid_and_marginals():
    grid = GridQuery(sides=(2, 3))
    assert grid.contribution(np.array([[1.0, 1.0], [-1.0, 0.0]])).argmax(axis=1).tolist() == [5, 1]
    two_way = HistogramQuery.two_way(dimension=3, pairs=[(0, 2)], bins=2)
    assert two_way.contribution(np.array([[0.5, -1.0, -0.5]])).tolist() == [[0, 0, 1, 0]]
    np.testing.assert_allclose(Marginal(columns=(0,), sides=(4,)).centers().ravel(), [-0.75, -0.25, 0.25, 0.75])


def test_a_large_contribution_is_sparse():
    rows = GridQuery(sides=(50, 50)).contribution(np.array([[0.0, 0.0]]))
    assert rows.shape == (1, 2500)
    assert rows.nnz == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"centers": np.zeros(3)},
        {"centers": np.zeros((0, 2))},
        {"centers": np.full((1, 1), np.nan)},
        {"centers": CENTERS, "sums": "median"},
        {"centers": CENTERS, "sums": "relative"},
        {"centers": CENTERS, "radii": np.ones(2)},
        {"centers": CENTERS, "sums": "relative", "radii": np.ones(3)},
        {"centers": CENTERS, "sums": "relative", "radii": np.array([1.0, 0.0])},
        {"centers": CENTERS, "sums": "relative", "radii": np.array([1.0, np.inf])},
        {"centers": CENTERS, "sums": "relative", "radii": np.array([1.0, 1e-250])},
        {"centers": CENTERS, "sums": "relative", "radii": np.ones(2), "norm": 3},
        {"centers": np.zeros((2**20, 1))},
    ],
)
def test_unusable_voronoi_queries_are_refused(arguments):
    with pytest.raises(ParameterError):
        VoronoiQuery(**arguments)


def test_unusable_grids_are_refused():
    for sides in [(0,), (-2,), (2**11, 2**11), (1.5,), (True,)]:
        with pytest.raises(ParameterError):
            GridQuery(sides=sides)
    for columns, sides in [((0, 0), (2, 2)), ((), ()), ((0,), (2, 2)), ((-1,), (2,))]:
        with pytest.raises(ParameterError):
            Marginal(columns=columns, sides=sides)
    with pytest.raises(ParameterError):
        HistogramQuery(dimension=1, marginals=(Marginal(columns=(1,), sides=(2,)),))


def test_a_query_for_another_number_of_columns_is_refused():
    for query in (VoronoiQuery(centers=CENTERS), GridQuery(sides=(2, 2)), HistogramQuery.one_way(dimension=2, bins=2)):
        with pytest.raises(ParameterError, match="columns"):
            query.sensitivity(Box([0], [1]))


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"type": "eval"},
        {"type": "grid", "sides": "22"},
        {"type": "grid", "sides": [2.5]},
        {"type": "voronoi", "centers": [[0], [0, 1]], "sums": "none"},
        {"type": "voronoi", "centers": [["0"]], "sums": "absolute"},
        {"type": "voronoi", "centers": [[0]], "sums": "relative", "radii": [1], "norm": 7},
        {"type": "histogram", "dimension": 1, "marginals": [{"columns": [0]}]},
        {"type": "histogram", "dimension": "1", "marginals": []},
    ],
)
def test_json_that_is_no_query_is_refused(value):
    with pytest.raises(TranscriptFormatError):
        query_from_json(value)
