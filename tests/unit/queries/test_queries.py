"""Queries by hand: contributions, sensitivities and what is refused."""

import dataclasses

import numpy as np
import pytest
from cases import queries

from recoup.domain import Box, L1Ball, L2Ball
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.kernels.fixed_point import DROPPED
from recoup.queries import query_from_json, unknown
from recoup.queries.base import (
    Block,
    Sensitivity,
    check_size,
    read_array,
    rows_in_blocks,
    sum_of_contributions,
    sum_parts,
)
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery, Marginal
from recoup.queries.gradient import LogisticGradientQuery
from recoup.queries.mixture import MixtureQuery
from recoup.queries.moments import MomentsQuery, PowerQuery, _reach

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
    block = VoronoiQuery(centers=CENTERS, sums="relative", radii=np.array([0.1, 0.2])).sensitivity(box).blocks[1]
    assert block.l1.tolist() == block.l2.tolist() == [0.1, 0.1, 0.2, 0.2]
    block = HistogramQuery.one_way(dimension=2, bins=5).sensitivity(box).blocks[0]
    assert (block.ones, block.l1[0], block.l2[0]) == (2, 2, 2**0.5)


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


def test_a_query_for_another_number_of_columns_is_refused():
    for query in queries(2).values():
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


def test_limits_are_exact():
    for value in (2.0**20, -(2.0**20)):
        assert VoronoiQuery(centers=[[value]], sums="none").centers[0, 0] == value
        with pytest.raises(ParameterError, match="within"):
            VoronoiQuery(centers=[[np.nextafter(value, value * 2)]], sums="none")
        assert LogisticGradientQuery(coefficients=[value], clip=1).coefficients[0] == value
        with pytest.raises(ParameterError, match="coefficients"):
            LogisticGradientQuery(coefficients=[np.nextafter(value, value * 2)], clip=1)
        assert mixture(means=[[value]]).means[0, 0] == value
        with pytest.raises(ParameterError, match="means"):
            mixture(means=[[np.nextafter(value, value * 2)]])
    for value in (2.0**-30, 2.0**30):
        outside = np.nextafter(value, 0 if value < 1 else np.inf)
        relative = {"centers": [[0.0]], "sums": "relative"}
        assert VoronoiQuery(**relative, radii=[value]).radii[0] == value
        with pytest.raises(ParameterError, match="radii"):
            VoronoiQuery(**relative, radii=[outside])
        assert LogisticGradientQuery(coefficients=[0.0], clip=value).clip == value
        with pytest.raises(ParameterError, match="clip"):
            LogisticGradientQuery(coefficients=[0.0], clip=outside)
        for name in ("weights", "variances", "radii", "reaches"):
            assert getattr(mixture(**{name: [value]}), name)[0] == value
            with pytest.raises(ParameterError, match=name):
                mixture(**{name: [outside]})
    assert MomentsQuery(dimension=1).size == 3
    assert PowerQuery(directions=np.full((4096, 1), 1.0)).n_columns == 4096
    for dimension in (0, -1, 4097, True, 2.0, "2"):
        with pytest.raises(ParameterError, match="dimension"):
            MomentsQuery(dimension=dimension)
    with pytest.raises(ParameterError, match="dimension"):
        PowerQuery(directions=np.full((4097, 1), 1.0))
    assert PowerQuery(directions=[[1.0], [-1.0]]).n_directions == 1
    assert PowerQuery(directions=[[2.0**-20], [0.0]]).n_directions == 1
    for directions in (
        [[1.0000001]],
        [[-1.0000001]],
        [[np.nan]],
        [[np.nextafter(2.0**-20, 0)]],
        [1.0],
        [[]],
        [[1.0, 0.5]],
    ):
        with pytest.raises(ParameterError):
            PowerQuery(directions=directions)


def test_the_cap_on_the_size_of_an_answer_is_exact():
    assert GridQuery(sides=(2**20,)).size == 2**20
    for make in (
        lambda: GridQuery(sides=(2**20 + 1,)),
        lambda: HistogramQuery.one_way(dimension=2, bins=2**19 + 1),
        lambda: VoronoiQuery(centers=np.zeros((2**19 + 1, 1))),
        lambda: MomentsQuery(dimension=1500),
        lambda: PowerQuery(directions=np.ones((1100, 1000))),
        lambda: LogisticGradientQuery(coefficients=np.zeros(2**20), clip=1),
        lambda: mixture(
            means=np.zeros((2**19, 1)), **dict.fromkeys(("weights", "variances", "radii", "reaches"), np.ones(2**19))
        ),
    ):
        with pytest.raises(ParameterError, match="at most 1048576 are allowed"):
            make()
    with pytest.raises(ParameterError, match="a query of 0 values"):
        check_size(0)
    check_size(1)


def mixture(**changes):
    k = len(changes.get("means", [0]))
    fields = dict.fromkeys(("weights", "variances", "radii", "reaches"), np.ones(k))
    return MixtureQuery(**({"means": np.zeros((1, 1))} | fields | changes))


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


def test_json_by_hand():
    assert VoronoiQuery(centers=[[0.5]], sums="none").to_json() == {
        "type": "voronoi",
        "centers": [[0.5]],
        "sums": "none",
    }
    relative = {"type": "voronoi", "centers": [[0.5]], "sums": "relative", "radii": [2.0], "norm": 2}
    assert query_from_json(relative).to_json() == relative
    gradient = {"type": "logistic-gradient", "coefficients": [0.5], "clip": 2.0, "norm": 1}
    assert query_from_json(gradient).to_json() == gradient
    assert query_from_json(gradient | {"clip": 2, "coefficients": [1]}).clip == 2.0
    mixed = {
        "type": "mixture",
        "means": [[0.5]],
        "weights": [1.0],
        "variances": [2.0],
        "radii": [3.0],
        "reaches": [4.0],
    }
    assert query_from_json(mixed | {"norm": 1}).to_json() == mixed | {"norm": 1}
    assert query_from_json({"type": "power", "directions": [[1]]}).to_json() == {"type": "power", "directions": [[1.0]]}
    marginals = [{"columns": [0], "sides": [2]}, {"columns": [1, 0], "sides": [3, 4]}]
    histogram = {"type": "histogram", "dimension": 2, "marginals": marginals}
    assert query_from_json(histogram).to_json() == histogram
    assert query_from_json({"type": "grid", "sides": [2, 3]}).to_json() == {"type": "grid", "sides": [2, 3]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "known are moments, power, voronoi, grid, histogram, logistic-gradient, mixture"),
        ({}, "unknown type"),
        ({"type": "grid"}, "a grid's sides"),
        ({"type": "grid", "sides": {"0": 1}}, "a grid's sides"),
        ({"type": "grid", "sides": [0]}, "cannot be used: a marginal's columns"),
        ({"type": "moments"}, "dimension must be a whole number"),
        ({"type": "moments", "dimension": True}, "dimension must be a whole number"),
        ({"type": "moments", "dimension": 2.0}, "dimension must be a whole number"),
        ({"type": "moments", "dimension": 0}, "cannot be used: dimension=0"),
        ({"type": "power"}, "query field 'directions'"),
        ({"type": "power", "directions": [1.0]}, "must be a 2-dimensional"),
        ({"type": "voronoi", "centers": [[0]]}, "sums must be one of none, absolute, relative"),
        ({"type": "voronoi", "centers": [0.5], "sums": "none"}, "'centers' must be a 2-dimensional"),
        ({"type": "voronoi", "centers": [[0]], "sums": "relative", "norm": 1}, "'radii' must be a 1-dimensional"),
        ({"type": "logistic-gradient", "coefficients": [0.0], "norm": 1}, "misses clip"),
        ({"type": "logistic-gradient", "coefficients": [0.0], "clip": 1}, "misses norm"),
        ({"type": "logistic-gradient", "coefficients": [0.0]}, "misses clip, norm"),
        (
            {"type": "logistic-gradient", "coefficients": [[0.0]], "clip": 1, "norm": 1},
            "'coefficients' must be a 1-dim",
        ),
        ({"type": "mixture", "means": [[0]], "weights": [1], "variances": [1], "radii": [1], "reaches": [1]}, "norm=0"),
        ({"type": "mixture", "means": [[0]], "weights": [1], "variances": [1], "radii": [1], "norm": 1}, "'reaches'"),
        ({"type": "histogram", "dimension": 1}, "list of columns and sides"),
        ({"type": "histogram", "dimension": 1, "marginals": [3]}, "list of columns and sides"),
        ({"type": "histogram", "dimension": 1, "marginals": [{"columns": "0", "sides": [1]}]}, "list of columns"),
        ({"type": "histogram", "dimension": 1, "marginals": [{"columns": [0], "sides": "1"}]}, "list of columns"),
        ({"type": "histogram", "marginals": [{"columns": [0], "sides": [1]}]}, "used: dimension must be whole"),
        ({"type": "histogram", "dimension": 1, "marginals": [{"columns": [0], "sides": [1]}, 3]}, "list of columns"),
    ],
)
def test_json_that_is_no_query_is_refused_for_what_it_is(value, message):
    with pytest.raises(TranscriptFormatError, match=message):
        query_from_json(value)


@pytest.mark.parametrize(
    "items",
    [
        None,
        "1",
        1.0,
        ["1"],
        [None],
        [True],
        [[1], [2, 3]],
        [1j],
        [float("nan")],
        [float("inf")],
        [10**400],
        {"a": 1},
        [1.0, float("nan")],
        [1.5, 10**400],
        (1.0,),
        [[1.0]],
    ],
)
def test_what_is_no_array_of_numbers_is_refused(items):
    with pytest.raises(TranscriptFormatError, match="query field 'a' must be"):
        read_array({"a": items}, "a", 1)


def test_arrays_are_read_as_floats():
    assert read_array({"a": [1, 2]}, "a", 1).dtype == np.float64
    assert read_array({"a": [[1.5], [2.0]]}, "a", 2).tolist() == [[1.5], [2.0]]


def test_blocks_of_counts():
    block = Block.of_counts("count", 3)
    assert (block.name, block.size, block.ones, block.total) == ("count", 3, 1, 1.0)
    assert (block.l1.tolist(), block.l2.tolist()) == ([1.0] * 3, [1.0] * 3)
    assert Block.of_counts("count", 1, ones=4).l2.tolist() == [2.0]
    assert Block.of_counts("count", 1, ones=4).total == 4.0
    plain = Block(name="sum", size=1, l1=np.ones(1), l2=np.ones(1))
    assert (plain.ones, plain.total) == (None, None)
    for value, name in ((block, "size"), (Sensitivity((block,)), "blocks")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, ())
    assert (Sensitivity((block, plain)).size, Sensitivity((block, plain)).names) == (4, ("count", "sum"))


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


def test_the_largest_norms_of_a_record_by_hand():
    low, high = [0] * 3, [1] * 3
    for domain, expected in (
        (Box(low, high), (1.0, 3.0, 3.0, 3.0)),
        (L1Ball(low, high, radius=0.5), (0.5, 0.5, 0.25, 0.0625)),
        (L1Ball(low, high, radius=1.5), (1.0, 1.5, 1.25, 1.0625)),
        (L1Ball(low, high, radius=9.0), (1.0, 3.0, 3.0, 3.0)),
        (L2Ball(low, high, radius=0.5), (0.5, np.sqrt(0.75), 0.25, 0.0625)),
        (L2Ball(low, high, radius=np.sqrt(1.5)), (1.0, np.sqrt(4.5), 1.5, 1.25)),
        (L2Ball(low, high, radius=9.0), (1.0, 3.0, 3.0, 3.0)),
    ):
        assert _reach(domain) == pytest.approx(expected)


def test_bounds_of_moments_by_hand():
    room = 1 + 2.0**-28
    count, total, product = MomentsQuery(dimension=1).sensitivity(L2Ball([0], [1], radius=0.5)).blocks
    assert (count.ones, count.size, total.name, product.name) == (1, 1, "sum", "product")
    np.testing.assert_allclose([total.l1[0], total.l2[0]], 0.5 * room, rtol=1e-15)
    np.testing.assert_allclose([product.l1[0], product.l2[0]], 0.25 * room, rtol=1e-15)
    # In the box of two columns: D = 2 and W = 4 in both norms, so off^q / on^q is (2 / 4)^(1/3), or 0.5^(1/2).
    _, total, product = MomentsQuery(dimension=2).sensitivity(Box([0, 0], [1, 1])).blocks
    np.testing.assert_allclose(total.l1, 2 * room, rtol=1e-15)
    np.testing.assert_allclose(total.l2, np.sqrt(2) * room, rtol=1e-15)
    for found, power, q in ((product.l1, 1 / 3, 1), (product.l2, 1 / 2, 2)):
        ratio = 0.5**power
        on = (2 + 1 / ratio) ** (1 / q)
        np.testing.assert_allclose(found, np.array([on, on * ratio ** (1 / q), on]) * room, rtol=1e-14)
        # One record reaches the bound: (1, 1), whose triangle is three ones.
        assert (np.abs(1 / found) ** q).sum() == pytest.approx(1.0)
    # Far more on the diagonal than off it: the ratio stops at a half.
    _, _, product = MomentsQuery(dimension=2).sensitivity(L1Ball([0, 0], [1, 1])).blocks
    np.testing.assert_allclose(product.l1, np.array([1.0, 0.5, 1.0]) * room, rtol=1e-14)


def test_bounds_of_a_power_step_by_hand():
    room, low, high = 1 + 2.0**-28, [0] * 3, [1] * 3
    first, slanted = [[1.0], [0.0], [0.0]], [[0.6], [0.8], [0.0]]
    both, shorter = [[0.6, -0.8], [0.8, 0.6], [0.0, 0.0]], [[0.5, 0.5], [0.0, 0.25], [0.0, 0.0]]
    for directions, domain, l1, l2 in (
        # The largest |x| of the domain times the largest |V'x|, which is the least of several bounds.
        (first, Box(low, high), 3 * 1, np.sqrt(3) * 1),
        (slanted, Box(low, high), 3 * 1.4, np.sqrt(3) * 1.4),
        (both, Box(low, high), 3 * np.sqrt(6), np.sqrt(3) * np.sqrt(3)),
        (shorter, Box(low, high), 3 * 1.25, np.sqrt(3) * np.sqrt(0.5**2 + 0.75**2)),
        (first, L1Ball(low, high), 1.0, 1.0),
        (slanted, L1Ball(low, high), 0.8, 0.8),
        (both, L1Ball(low, high), 1.4, 1.0),
        (shorter, L1Ball(low, high), 1.0, np.sqrt(0.5)),
        (both, L2Ball(low, high), np.sqrt(3) * np.sqrt(2), 1.0),
        (both, L2Ball(low, high, radius=0.5), np.sqrt(0.75) * np.sqrt(2) * 0.5, 0.25),
        (slanted, L2Ball(low, high, radius=0.5), np.sqrt(0.75) * 0.5, 0.25),
        # Lengths other than one, so that each bound is the least one in some case.
        ([[0.3, 0.03], [0.4, 0.04], [0.0, 0.0]], L2Ball(low, high), np.sqrt(3) * 0.55, np.hypot(0.5, 0.05)),
        ([[0.3, -0.4], [0.4, 0.3], [0.0, 0.0]], L2Ball(low, high), np.sqrt(3) * np.sqrt(0.5), 0.5),
        ([[0.5, 0.0], [0.5, 0.0], [0.0, 0.5]], L1Ball(low, high), 0.5, 0.5),
        (
            *([[1.0, 0.3], [0.0, 0.3], [0.0, 0.3]], L1Ball(low, high, radius=1.5)),
            *(1.5 * 1.45, np.sqrt(1.25) * np.hypot(1, 0.45)),
        ),
    ):
        query = PowerQuery(directions=directions)
        count, total, square, product = query.sensitivity(domain).blocks
        assert [b.name for b in (count, total, square, product)] == ["count", "sum", "square", "product"]
        assert [b.size for b in (count, total, square, product)] == [1, 3, 1, 3 * len(directions[0])]
        np.testing.assert_allclose(product.l1, l1 * room, rtol=1e-12)
        np.testing.assert_allclose(product.l2, l2 * room, rtol=1e-12)
        np.testing.assert_allclose([square.l1[0], square.l2[0]], _reach(domain).squares * room, rtol=1e-15)


def test_bounds_of_a_mixture_and_a_gradient_by_hand():
    box = Box([0, 0], [1, 1])
    for norm in (1, 2):
        query = mixture(means=CENTERS, radii=[0.5, 2.0], reaches=[1.0, 3.0], norm=norm)
        count, total, square = query.sensitivity(box).blocks
        assert [(b.name, b.size, b.ones, b.total) for b in (count, total, square)] == [
            ("count", 2, None, 1.0), ("sum", 4, None, None), ("square", 2, None, None),
        ]  # fmt: skip
        assert (count.l1.tolist(), count.l2.tolist()) == ([1, 1], [1, 1])
        np.testing.assert_allclose(total.l2, [0.5, 0.5, 2, 2])
        np.testing.assert_allclose(total.l1, np.array([0.5, 0.5, 2, 2]) * (1 if norm == 1 else np.sqrt(2)))
        np.testing.assert_allclose([square.l1, square.l2], [[0.5, 4.5]] * 2)
        gradient = LogisticGradientQuery(coefficients=np.zeros(2), clip=0.5, norm=norm)
        count, total = gradient.sensitivity(box).blocks
        assert (count.name, count.ones, total.name, total.size, total.total) == ("count", 1, "gradient", 2, None)
        np.testing.assert_allclose(total.l2, 0.5)
        np.testing.assert_allclose(total.l1, 0.5 if norm == 1 else 0.5 * np.sqrt(2))


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


def test_parts_of_a_total_are_added_up():
    parts = [np.array([1, 2]), np.array([3, 4]), np.array([5, 6])]
    assert sum_parts(parts).tolist() == [9, 12]
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


def test_the_name_of_an_unknown_type_is_quoted_up_to_a_length():
    assert f"the query '{'a' * 60}' is not one" in str(unknown("query", "a" * 60))
    assert f"the query '{'a' * 60}...' is not one" in str(unknown("query", "a" * 61))
    assert r"'\xfc\n'" in str(unknown("query", "ü\n"))
