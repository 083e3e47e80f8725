"""Queries by hand: contributions, totals and what is refused."""

import dataclasses

import numpy as np
import pytest
from query_cases import CENTERS, mixture

from recoup.domain import Box
from recoup.errors import ParameterError
from recoup.kernels.fixed_point import DROPPED
from recoup.queries.base import (
    rows_in_blocks,
    sum_of_contributions,
    sum_over_ranges,
)
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery, Marginal
from recoup.queries.models import LogisticGradientQuery
from recoup.queries.moments import MomentsQuery, PowerQuery


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


def test_grid_and_marginals():
    grid = GridQuery(sides=(2, 3))
    assert grid.contribution(np.array([[1.0, 1.0], [-1.0, 0.0]])).argmax(axis=1).tolist() == [5, 1]
    two_way = HistogramQuery(dimension=3, marginals=(Marginal(columns=(0, 2), sides=(2, 2)),))
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogisticGradientQuery(coefficients=[[0.0]], clip=1),
        lambda: LogisticGradientQuery(coefficients=[], clip=1),
        lambda: LogisticGradientQuery(coefficients=[np.nan], clip=1),
        lambda: LogisticGradientQuery(coefficients=[0.0], clip=True),
        lambda: LogisticGradientQuery(coefficients=[0.0], clip="1"),
        lambda: LogisticGradientQuery(coefficients=[0.0], clip=np.nan),
        lambda: LogisticGradientQuery(coefficients=[0.0], clip=1, norm=3),
        lambda: LogisticGradientQuery(coefficients=[0.0], clip=1, norm=0),
        lambda: LogisticGradientQuery(coefficients=[0.0], clip=1, norm=True),
        lambda: mixture(means=[0.0]),
        lambda: mixture(means=np.zeros((0, 1))),
        lambda: mixture(means=np.zeros((1, 0))),
        lambda: mixture(means=[[np.nan]]),
        lambda: mixture(norm=3),
        lambda: mixture(norm=0),
        lambda: mixture(weights=[1.0, 1.0]),
        lambda: mixture(radii=[[1.0]]),
        lambda: mixture(reaches=[np.nan]),
        lambda: VoronoiQuery(centers=np.zeros((1, 0))),
        lambda: VoronoiQuery(centers=CENTERS, norm=0),
        lambda: VoronoiQuery(centers=CENTERS, sums="relative", radii=[[1.0, 1.0]]),
        lambda: Marginal(columns=(0, 1), sides=(2,)),
        lambda: Marginal(columns=(0,), sides=(0,)),
        lambda: Marginal(columns=(True,), sides=(1,)),
        lambda: Marginal(columns=(0.0,), sides=(1,)),
        lambda: Marginal(columns=(2**31 + 1,), sides=(1,)),
        lambda: Marginal(columns=(-2,), sides=(1,)),
        lambda: Marginal(columns=(0, -1), sides=(2, 2)),
        lambda: Marginal(columns=(0, 1), sides=(2, 0)),
        lambda: HistogramQuery(dimension=1, marginals=(Marginal(columns=(0, 1), sides=(2, 2)),)),
        lambda: LogisticGradientQuery(coefficients=[0.0, np.nan], clip=1),
        lambda: mixture(means=[[0.0, np.nan]]),
        lambda: mixture(means=CENTERS, weights=[1.0, np.nan]),
        lambda: VoronoiQuery(centers=[[0.0, np.nan]]),
        lambda: PowerQuery(directions=[[1.0], [np.nan]]),
        lambda: PowerQuery(directions=[[1.0, 0.0], [0.0, 0.0]]),
        lambda: HistogramQuery(dimension=1.0, marginals=(Marginal(columns=(0,), sides=(1,)),)),
        lambda: HistogramQuery(
            dimension=1, marginals=(Marginal(columns=(0,), sides=(1,)), Marginal(columns=(1,), sides=(1,)))
        ),
    ],
)
def test_unusable_queries_are_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_numbers_of_numpy_are_numbers():
    assert Marginal(columns=(np.int64(0),), sides=(np.int32(2),)).sides == (2,)
    assert MomentsQuery(dimension=np.int64(2)).to_json() == {"type": "moments", "dimension": 2}
    assert Marginal(columns=(2**31,), sides=(1,)).columns == (2**31,)
    assert type(LogisticGradientQuery(coefficients=[0], clip=1).clip) is float
    assert LogisticGradientQuery(coefficients=[0], clip=1).coefficients.dtype == np.float64
    assert VoronoiQuery(centers=[[0]], sums="none").centers.dtype == np.float64
    assert PowerQuery(directions=[[1]]).directions.dtype == np.float64
    assert mixture(means=[[0]], weights=[1]).weights.dtype == np.float64
    assert mixture(means=[[0]]).means.dtype == np.float64
    assert VoronoiQuery(centers=[[0]], sums="relative", radii=[1]).radii.dtype == np.float64


def test_arrays_are_read_only_copies():
    centers, radii, unit = CENTERS.copy(), np.ones(2), np.eye(2)
    for query, given, name in (
        (VoronoiQuery(centers=centers, sums="relative", radii=radii), centers, "centers"),
        (VoronoiQuery(centers=centers, sums="relative", radii=radii), radii, "radii"),
        (LogisticGradientQuery(coefficients=radii, clip=1), radii, "coefficients"),
        (PowerQuery(directions=unit), unit, "directions"),
        (mixture(means=centers), centers, "means"),
        (mixture(means=centers, weights=radii), radii, "weights"),
    ):
        kept = getattr(query, name)
        assert not np.shares_memory(kept, given)
        assert kept.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0
    turned = VoronoiQuery(centers=np.asfortranarray(np.arange(4.0).reshape(2, 2)))
    assert turned.centers.flags.c_contiguous


def test_defaults():
    assert (VoronoiQuery(centers=CENTERS).sums, VoronoiQuery(centers=CENTERS).norm) == ("absolute", 1)
    assert LogisticGradientQuery(coefficients=[0.0], clip=1).norm == 2
    assert mixture().norm == 2


def test_small_answers_are_dense_and_large_ones_sparse():
    x = np.zeros((2, 1))
    assert isinstance(GridQuery(sides=(64,)).contribution(x), np.ndarray)
    assert not isinstance(GridQuery(sides=(65,)).contribution(x), np.ndarray)
    assert isinstance(VoronoiQuery(centers=np.zeros((64, 1)), sums="none").contribution(x), np.ndarray)
    assert not isinstance(VoronoiQuery(centers=np.zeros((65, 1)), sums="none").contribution(x), np.ndarray)


@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 9000])
def test_blocks_of_rows_change_nothing(n):
    rng = np.random.default_rng(n)
    x = rng.uniform(-1, 1, size=(n, 2))
    for query in (MomentsQuery(dimension=2), GridQuery(sides=(10, 10)), GridQuery(sides=(2, 2))):
        rows, whole = rows_in_blocks(query, x), query.contribution(x)
        assert rows.shape == whole.shape
        assert isinstance(rows, np.ndarray) == isinstance(whole, np.ndarray)
        np.testing.assert_array_equal(np.asarray((rows - whole).sum()), 0.0)
        records = Box([0, 0], [1, 1]).fixed(x)
        factors = np.full(query.size, 1000.0)
        total = sum_of_contributions(query, records, factors)
        assert total.dtype == np.int64
        dense = query.contribution(records / 2.0**30)
        dense = dense if isinstance(dense, np.ndarray) else dense.toarray()
        np.testing.assert_array_equal(total, np.trunc(dense * 1000.0).sum(axis=0))
        np.testing.assert_array_equal(query.integer_total(records, factors), total)


def test_the_triangle_becomes_a_symmetric_matrix():
    matrix = MomentsQuery(dimension=3).matrix(np.arange(1.0, 7.0))
    assert matrix.tolist() == [[1, 2, 3], [2, 4, 5], [3, 5, 6]]


def test_a_marginal_by_hand():
    marginal = Marginal(columns=(2, 0), sides=(2, 3))
    x = np.array([[-1.0, 9.0, -1.0], [1.0, 9.0, 1.0], [0.0, 9.0, 0.0], [-5.0, 9.0, 5.0], [-1 / 3, 0, -0.001]])
    assert marginal.cells(x).tolist() == [0, 5, 4, 3, 1]
    assert marginal.size == 6
    np.testing.assert_allclose(marginal.centers()[[0, 1, 5]], [[-0.5, -2 / 3], [-0.5, 0], [0.5, 2 / 3]])
    one = HistogramQuery.one_way(dimension=3, bins=2)
    assert [(m.columns, m.sides) for m in one.marginals] == [((0,), (2,)), ((1,), (2,)), ((2,), (2,))]
    for value, name in ((marginal, "sides"), (one, "dimension"), (GridQuery(sides=(2,)), "sides")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, ())


def test_a_histogram_says_what_is_wrong_and_keeps_a_tuple():
    with pytest.raises(ParameterError, match=r"^dimension must be"):
        HistogramQuery(dimension="1", marginals=(Marginal(columns=(0,), sides=(1,)),))
    with pytest.raises(ParameterError, match="at least one marginal over the columns 0 to 0"):
        HistogramQuery(dimension=1, marginals=())
    with pytest.raises(ParameterError, match="columns start at 0"):
        Marginal(columns=(-1,), sides=(1,))
    with pytest.raises(ParameterError, match="at least one bin along each"):
        Marginal(columns=(0, 1), sides=(2, 0))
    with pytest.raises(ParameterError, match="columns must be whole numbers"):
        Marginal(columns=(-2,), sides=(1,))
    query = HistogramQuery(dimension=1, marginals=[Marginal(columns=(0,), sides=(1,))])
    assert isinstance(query.marginals, tuple)
    assert query.sensitivity(Box([0], [1])).names == ("count",)
    records = Box([0], [1]).fixed(np.zeros((3, 1)))
    for single in (query, GridQuery(sides=(1,))):
        assert single.integer_total(records, np.array([7.0])).tolist() == [21]


def test_queries_with_arrays_are_compared_by_identity():
    for query in (
        VoronoiQuery(centers=CENTERS), LogisticGradientQuery(coefficients=[0.0], clip=1), mixture(),
        PowerQuery(directions=[[1.0]]),
    ):  # fmt: skip
        assert query == query
        assert query != dataclasses.replace(query)
        assert len({query, dataclasses.replace(query)}) == 2
    assert GridQuery(sides=(2,)) == GridQuery(sides=(2,))


def test_one_cell_alone():
    records = Box([0], [1]).fixed(np.array([[0.5], [-0.25]]))
    counts = VoronoiQuery(centers=[[0.0]], sums="none")
    assert counts.integer_total(records, np.array([3.0])).tolist() == [6]
    assert VoronoiQuery(centers=[[0.0]]).integer_total(records, np.array([3.0, 100.0])).tolist() == [6, 25]


def test_parts_of_a_total_are_added_up(monkeypatch):
    monkeypatch.setenv("RECOUP_NUM_THREADS", "3")
    parts = {0: np.array([1, 2]), 20_000: np.array([3, 4]), 40_000: np.array([5, 6])}
    assert sum_over_ranges(lambda start, stop: parts[start], 60_000).tolist() == [9, 12]
    assert parts[0].tolist() == [1, 2]


def test_a_block_of_dropped_records_hides_nothing_after_it():
    records = np.full((4096 + 3, 2), DROPPED, dtype=np.int32)
    records[4096:] = 2**29
    assert sum_of_contributions(GridQuery(sides=(1, 1)), records, np.array([2.0])).tolist() == [6]


def test_sparse_contributions_are_truncated_toward_zero():
    query = VoronoiQuery(centers=np.linspace(-1, 1, 66).reshape(33, 2))
    records = Box([0, 0], [1, 1]).fixed(np.array([[-0.7, -0.3], [0.3, 0.9]]))
    factors = np.full(query.size, 10.0)
    expected = np.trunc(query.contribution(records / 2.0**30).toarray() * 10.0).sum(axis=0)
    assert sum_of_contributions(query, records, factors).tolist() == expected.tolist()
    assert (expected < 0).any()
