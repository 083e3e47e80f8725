"""Sensitivities of queries by hand, and the limits of what may be asked."""

import dataclasses

import numpy as np
import pytest
from cases import queries
from query_cases import CENTERS, mixture

from recoup.domain import Box, L1Ball, L2Ball
from recoup.errors import ParameterError
from recoup.queries.base import (
    Block,
    Sensitivity,
    check_size,
)
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery
from recoup.queries.models import LogisticGradientQuery
from recoup.queries.moments import MomentsQuery, PowerQuery, _least_noise, _reach


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


def test_a_query_for_another_number_of_columns_is_refused():
    for query in queries(2).values():
        with pytest.raises(ParameterError, match="columns"):
            query.sensitivity(Box([0], [1]))


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


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("d", [2, 4, 7])
def test_the_bounds_of_a_matrix_give_it_the_least_noise(d, norm):
    diagonal, whole = 1.0, 50.0

    def noise(on, off):
        return d * on**2 + d * (d - 1) * off**2

    def allowed(ratio):
        on = diagonal + (whole - diagonal) / (2.0 * ratio)
        return on ** (1.0 / norm), (on * ratio) ** (1.0 / norm)

    least = min(noise(*allowed(ratio)) for ratio in np.linspace(0.5, 8.0, 2000))
    assert noise(*_least_noise(diagonal, whole, d, norm=norm)) == pytest.approx(least, rel=1e-5)


def test_directions_are_a_matrix():
    for other in (np.ones(3), np.ones((2, 1, 1)), np.ones((0, 1))):
        with pytest.raises(ParameterError, match=r"^directions must be a \(d, p\) array"):
            PowerQuery(directions=other)


def test_too_many_columns_are_refused_by_their_name():
    for make in (lambda: MomentsQuery(dimension=0), lambda: PowerQuery(directions=np.ones((2**14, 1)))):
        with pytest.raises(ParameterError, match=r"^dimension=") as refusal:
            make()
        assert refusal.value.parameter == "dimension"


def test_the_bounds_of_moments_in_three_columns_by_hand():
    # In the box of three columns sum x_i^2 and sum x_i^4 are at most 3, (sum |x_i|)^2 and (sum x_i^2)^2 at most 9.
    count, total, triangle = MomentsQuery(dimension=3).sensitivity(Box([0, 0, 0], [1, 1, 1])).blocks
    assert (count.name, total.size, triangle.size) == ("count", 3, 6)
    diagonal = np.array([True, False, False, True, False, True])
    for bounds, norm in ((triangle.l1, 1), (triangle.l2, 2)):
        on, off = _least_noise(3.0, 9.0, 3, norm=norm)
        assert on != pytest.approx(off, rel=1e-3)
        np.testing.assert_allclose(bounds, np.where(diagonal, on, off), rtol=1e-6)
