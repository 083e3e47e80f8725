"""Domains by hand: mapping, projection, membership, rounding, and what is refused."""

import dataclasses

import numpy as np
import pytest
from cases import domains
from naive import project

from recoup.curator.source import fixed_records
from recoup.domain import Box, L1Ball, L2Ball, declared_bounds, declared_width, uniform_points
from recoup.errors import BoundsError, MissingBoundsError, TranscriptFormatError
from recoup.mixed import domain_from_json


def test_box_maps_bounds_to_the_unit_box_and_back():
    box = Box([0, -10], [10, 30])
    np.testing.assert_array_equal(box.to_unit([[0, -10], [10, 30], [5, 10]]), [[-1, -1], [1, 1], [0, 0]])
    np.testing.assert_array_equal(box.from_unit([[-1, -1], [1, 1], [0, 0]]), [[0, -10], [10, 30], [5, 10]])
    np.testing.assert_array_equal(box.to_unit([[-99, 99]]), [[-1, 1]])


def test_projection_onto_the_l1_ball_by_hand():
    ball = L1Ball([-1] * 3, [1] * 3)
    unit = ball.clip([[1, 0, 0], [1, 0.5, 0], [0.2, -0.3, 0.1], [-1, 1, 1]])
    np.testing.assert_allclose(unit, [[1, 0, 0], [0.75, 0.25, 0], [0.2, -0.3, 0.1], [-1 / 3, 1 / 3, 1 / 3]], atol=1e-11)


def test_projection_onto_the_l2_ball_by_hand():
    ball = L2Ball([-1] * 2, [1] * 2, radius=0.5)
    np.testing.assert_allclose(ball.clip([[0.6, 0.8], [0.1, 0.2]]), [[0.3, 0.4], [0.1, 0.2]], atol=1e-11)


@pytest.mark.parametrize("name", domains(1))
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_projection_is_the_nearest_point_inside_and_clipping_twice_is_clipping_once(name, d):
    domain, rng = domains(d)[name], np.random.default_rng(d)
    unit = rng.uniform(-1, 1, size=(50, d))
    clipped = domain.clip(unit)
    assert domain.contains(clipped).all()
    np.testing.assert_array_equal(domain.clip(clipped), clipped)
    np.testing.assert_allclose(clipped, [project(u, domain.kind, domain.shape()[1]) for u in unit.tolist()], atol=1e-9)
    others = domain.clip(rng.uniform(-1, 1, size=(50, d)))
    moved = np.linalg.norm(unit - clipped, axis=1)
    assert (np.linalg.norm(unit[:, None] - others[None], axis=2) >= moved[:, None] - 1e-9).all()


@pytest.mark.parametrize("radius", [2.0**-20, 1e-3, 1.0])
@pytest.mark.parametrize("d", [2, 200, 4096])
def test_a_projection_in_many_columns_never_leaves_a_small_ball(radius, d):
    # The shift of the projection is rounded relative to sums of up to d, not to the radius.
    ball, rng = L1Ball([-1] * d, [1] * d, radius=radius), np.random.default_rng(d)
    rows = np.concatenate([rng.uniform(0.9999, 1, size=(20, d)), np.ones((1, d))])
    assert ball.contains(ball.to_unit(rows)).all()
    records = fixed_records(rows, ball)
    assert all(sum(map(int, record)) <= radius * 2**30 for record in np.abs(records.astype(np.int64)))


def test_rounding_is_toward_zero():
    box = Box([-1], [1])
    step = 2.0**-30
    values = np.array([[0.6 * step], [-0.6 * step], [1.5 * step], [-1.5 * step], [1.0], [-1.0]])
    assert box.fixed(values).ravel().tolist() == [0, 0, 1, -1, 2**30, -(2**30)]
    assert fixed_records(np.array([[1.0], [-1.0], [1.5 * step]]), box).ravel().tolist() == [2**30, -(2**30), 1]


def test_contains():
    assert Box([0, 0], [1, 1]).contains([[1, -1], [1.1, 0], [0, -1.1]]).tolist() == [True, False, False]
    assert L1Ball([0, 0], [1, 1]).contains([[0.5, 0.5], [0.6, 0.6], [-0.6, 0.6]]).tolist() == [True, False, False]
    assert L2Ball([0, 0], [1, 1]).contains([[0.6, 0.8], [0.8, 0.8]]).tolist() == [True, False]
    assert L2Ball([0, 0], [1, 1], radius=9.0).contains([[1, 1], [1.1, 0]]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("domain", "l1", "l2"),
    [
        (Box([0] * 9, [1] * 9), 9, 3),
        (L1Ball([0] * 9, [1] * 9), 1, 1),
        (L1Ball([0] * 9, [1] * 9, radius=50.0), 9, 3),
        (L2Ball([0] * 9, [1] * 9), 3, 1),
        (L2Ball([0] * 9, [1] * 9, radius=50.0), 9, 3),
    ],
)
def test_sum_bounds_are_those_of_the_table(domain, l1, l2):
    assert (domain.sum_bound(1), domain.sum_bound(2)) == (l1, l2)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([1], [0]),
        ([1], [1]),
        ([0], [np.inf]),
        ([np.nan], [1]),
        ([0, 0], [1]),
        ([], []),
        ([-1.7e308], [1.7e308]),
        ([1.0], [np.nextafter(1.0, 2)]),
        (["a"], ["b"]),
        ([0], [10**400]),
        ([[0]], [[1]]),
        ([0] * 5000, [1] * 5000),
    ],
)
def test_unusable_bounds_are_refused(low, high):
    with pytest.raises(BoundsError):
        Box(low, high)


def test_missing_bounds_and_bad_radii_and_names_are_refused():
    with pytest.raises(MissingBoundsError, match="public knowledge"):
        Box(None, None)
    for radius in (0, -1, np.inf, np.nan, 1e-17):
        with pytest.raises(BoundsError, match="radius"):
            L1Ball([0], [1], radius=radius)
    for columns in (("a",), ("a", "a"), ("a", "b", "c")):
        with pytest.raises(BoundsError, match="column names"):
            Box([0, 0], [1, 1], columns)


def test_declared_bounds():
    low, high, columns = declared_bounds((0, [1, 2, 3]), 3)
    assert (low.tolist(), high.tolist(), columns) == ([0, 0, 0], [1, 2, 3], None)
    assert declared_bounds({"a": (0, 1)})[2] == ("a",)
    with pytest.raises(MissingBoundsError):
        declared_bounds(None)
    with pytest.raises(MissingBoundsError):
        declared_bounds({})
    for bad in ("ab", 3, (1, 2, 3), {"a": 1}, {"a": ("x", "y")}, (0, [1, 2])):
        with pytest.raises(BoundsError):
            declared_bounds(bad, 3)


@pytest.mark.parametrize("name", domains(1))
def test_json_round_trip(name):
    domain = domains(3)[name]
    assert domain_from_json(domain.to_json()) == domain


@pytest.mark.parametrize(
    "change",
    [
        {"type": "os.system"},
        {"type": ["box"]},
        {"low": "0"},
        {"low": [True]},
        {"extra": 1},
        {"columns": "a"},
        {"high": [-9]},
    ],
)
def test_a_domain_that_is_not_one_is_refused(change):
    value = Box([0], [1], ("a",)).to_json() | change
    with pytest.raises((TranscriptFormatError, TypeError)):
        domain_from_json(value)


MARGIN = 2.0**-40


@pytest.mark.parametrize("ball", [L1Ball, L2Ball])
def test_what_is_moved_lands_a_stated_margin_inside_and_what_lies_inside_stays(ball):
    domain = ball([-1, -1], [1, 1], radius=0.5)
    for point in ([1.0, 0.0], [0.5, 0.0], [0.5 * (1 - MARGIN / 4), 0.0]):
        assert domain.clip([point])[0, 0] == pytest.approx(0.5 * (1 - MARGIN), rel=1e-15, abs=0)
    for point in ([0.5 * (1 - MARGIN), 0.0], [0.5 * (1 - MARGIN / 2), 0.0]):
        assert domain.clip([point]).tolist() == [point]


def test_a_single_point_is_clipped_like_a_table_of_one():
    for domain in domains(3).values():
        point = np.array([0.9, -0.8, 0.7])
        np.testing.assert_array_equal(domain.clip(point), domain.clip(point[None])[0])
        np.testing.assert_array_equal(domain.clip(np.stack([[point], [point]]))[1, 0], domain.clip(point))
        assert bool(domain.contains(domain.clip(point)))


def test_points_outside_of_the_unit_domain_never_leave_the_bounds():
    box = Box([0, -10], [10, 30])
    np.testing.assert_array_equal(box.from_unit([[-3, 5]]), [[0, 30]])
    np.testing.assert_array_equal(box.clip([[-3, 5]]), [[-1, 1]])


def test_limits_are_exact():
    assert Box([0] * 4096, [1] * 4096).n_columns == 4096
    with pytest.raises(BoundsError, match="between 1 and 4096"):
        Box([0] * 4097, [1] * 4097)
    for ball in (L1Ball, L2Ball):
        assert ball([0], [1], radius=2.0**-20).radius == 2.0**-20
        with pytest.raises(BoundsError, match="radius"):
            ball([0], [1], radius=np.nextafter(2.0**-20, 0))
    assert Box([0], [1e-290]).high == (1e-290,)
    with pytest.raises(BoundsError, match="too close"):
        Box([0], [np.nextafter(1e-290, 0)])
    two_steps = np.nextafter(np.nextafter(1.0, 2), 2)
    assert Box([1.0], [two_steps]).high == (two_steps,)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ([-np.inf], [1], "both must be finite"),
        ([0], [np.inf], "both must be finite"),
        ([np.nan], [1], "both must be finite"),
        ([0], [np.nan], "both must be finite"),
        ([1], [1], "must be smaller"),
        ([-1.7e308], [1.7e308], "too large"),
        ([1.0], [np.nextafter(1.0, 2)], "too close"),
        ([0, 0], [1], "2 lower bounds and 1 upper"),
        ([[0]], [1], "one pair"),
        ([0], [[1]], "one pair"),
        ([], [], "between 1 and"),
        ({}, [1], "must be numbers"),
        ([0], {}, "must be numbers"),
        (["a"], [1], "must be numbers"),
        ([0], [10**400], "must be numbers"),
    ],
)
def test_unusable_bounds_are_refused_for_what_they_are(low, high, message):
    with pytest.raises(BoundsError, match=message):
        Box(low, high)


def test_a_refusal_names_the_column():
    with pytest.raises(BoundsError, match="column 'b' has"):
        Box([0, 1], [1, 0], ("a", "b"))
    for columns in (None, ("a",)):
        with pytest.raises(BoundsError, match="column 1 has"):
            Box([0, 1], [1, 0], columns)
    with pytest.raises(BoundsError, match=r"3 column names \(2 of them different\) for 2 bounds"):
        Box([0, 0], [1, 1], ("a", "a", "b"))


def test_half_a_declaration_is_none():
    for low, high in ((None, [1]), ([0], None)):
        with pytest.raises(MissingBoundsError, match="public knowledge"):
            Box(low, high)


@pytest.mark.parametrize("radius", [None, "wide", 10**400, [1, 2]])
def test_a_radius_that_is_no_number_is_refused(radius):
    with pytest.raises(BoundsError, match="radius"):
        L2Ball([0], [1], radius=radius)


def test_domains_are_frozen_and_keep_plain_numbers():
    ball = L1Ball(np.array([0, 1]), np.array([1, 2]), columns=np.array(["a", "b"]), radius=np.float32(0.5))
    assert (ball.low, ball.high, ball.columns, ball.radius) == ((0.0, 1.0), (1.0, 2.0), ("a", "b"), 0.5)
    assert {type(v) for v in (*ball.low, *ball.high, ball.radius)} == {float}
    assert L1Ball([0], [1]).radius == L2Ball([0], [1]).radius == 1.0
    for domain in (Box([0], [1]), L1Ball([0], [1]), L2Ball([0], [1])):
        assert hash(domain) == hash(type(domain)([0], [1]))
        with pytest.raises(dataclasses.FrozenInstanceError):
            domain.low = (9.0,)


def test_kinds_and_json_are_the_documented_ones():
    assert [domain([0], [1]).shape() for domain in (Box, L1Ball, L2Ball)] == [(0, np.inf), (1, 1.0), (2, 1.0)]
    assert Box([0], [1]).to_json() == {"type": "box", "low": [0.0], "high": [1.0]}
    assert L1Ball([0], [1], ("a",), radius=2).to_json() == {
        **{"type": "l1", "low": [0.0], "high": [1.0], "columns": ["a"], "radius": 2.0}
    }
    whole = {"type": "l2", "low": [0], "high": [1], "radius": 2}
    assert domain_from_json(whole) == L2Ball([0], [1], radius=2.0)
    assert domain_from_json({"type": "l1", "low": [0], "high": [1]}) == L1Ball([0], [1])
    assert domain_from_json({"type": "box", "low": 0.5, "high": 1, "columns": None}) == Box([0.5], [1])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "unknown domain; known are box, l1, l2"),
        ({"low": [0], "high": [1]}, "unknown domain"),
        ({"type": "box", "low": [0], "high": [1], "radius": 1}, r"unknown fields: \['radius'\]"),
        ({"type": "box", "low": [0], "high": [1], "extra": 1}, r"unknown fields: \['extra'\]"),
        ({"type": "box", "low": [0], "high": [1], "columns": [1]}, "list of names"),
        ({"type": "box", "low": [0], "high": [1], "columns": ["a", 1]}, "list of names"),
        ({"type": "box", "low": [0], "high": [1], "columns": "a"}, "list of names"),
        ({"type": "box", "low": [0], "high": [1], "columns": {"a": 1}}, "list of names"),
        ({"type": "box", "low": [0]}, "must be numbers"),
        ({"type": "box", "high": [0]}, "must be numbers"),
        ({"type": "l1", "radius": 1.0}, "must be numbers"),
        ({"type": "box", "low": ["0"], "high": [1]}, "must be numbers"),
        ({"type": "box", "low": [0], "high": [1, "2"]}, "must be numbers"),
        ({"type": "box", "low": [False], "high": [1]}, "must be numbers"),
        ({"type": "l1", "low": [0], "high": [1], "radius": True}, "must be numbers"),
        ({"type": "l1", "low": [0], "high": [1], "radius": -1.0}, "cannot be used: radius"),
        ({"type": "box", "low": [1], "high": [0]}, "cannot be used: column 0"),
    ],
)
def test_a_file_with_another_domain_is_refused_for_what_it_is(value, message):
    with pytest.raises(TranscriptFormatError, match=message):
        domain_from_json(value)


def test_declared_bounds_are_spread_over_columns_or_left_as_they_are():
    low, high, columns = declared_bounds(([0, 1], 5), 2)
    assert (low.tolist(), high.tolist(), columns) == ([0, 1], [5, 5], None)
    assert [side.tolist() for side in declared_bounds((0, 5))[:2]] == [[0], [5]]
    assert [side.tolist() for side in declared_bounds(np.array([[0, 1], [5, 6]]), 2)[:2]] == [[0, 1], [5, 6]]
    low, high, columns = declared_bounds({1: (0, 1), "b": [2, 3]}, 7)
    assert (low.tolist(), high.tolist(), columns) == ([0, 2], [1, 3], ("1", "b"))
    assert low.dtype == high.dtype == np.float64
    # Sides of more dimensions are for the domain to refuse.
    assert declared_bounds(([[0]], 1), 3)[0].ndim == 2
    assert declared_bounds((0, [[1]]), 3)[1].ndim == 2
    with pytest.raises(BoundsError, match=r"^bounds: give a pair"):
        declared_width(3)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("ab", "^bounds: give a pair"),
        (b"ab", "^bounds: give a pair"),
        ({0, 1}, "^bounds: give a pair"),
        ((1, 2, 3), "^bounds: give a pair"),
        ({"a": 1}, "column 'a': give a pair"),
        ({"a": ("x", 1)}, "column 'a': low and high must be numbers"),
        ({"a": (1, "x")}, "column 'a': low and high must be numbers"),
        (("0", 1), "^bounds: low and high must be numbers"),
        ((0, [1, 2]), "1 lower|3 lower and 2 upper bounds for 3 columns"),
        (([1, 2], 0), "2 lower and 3 upper bounds for 3 columns"),
        (([1, 2], [3, 4]), "2 lower and 2 upper bounds for 3 columns"),
        (([0], {}), "must be numbers"),
        ((["x"], [1]), "must be numbers"),
        (([0], [10**400]), "must be numbers"),
    ],
)
def test_what_is_no_declaration_is_refused_for_what_it_is(bounds, message):
    with pytest.raises(BoundsError, match=message):
        declared_bounds(bounds, 3)


def test_the_declared_width_is_that_of_the_wider_side():
    assert declared_width((0, [1, 2, 3])) == declared_width(([1, 2, 3], 0)) == 3
    assert declared_width(([0], [1, 2])) == 2
    assert declared_width(np.array([0, 1])) is None


# ---- uniform points ----


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize(("kind", "order"), [(Box, np.inf), (L1Ball, 1), (L2Ball, 2)])
def test_uniform_points_fill_a_domain_evenly(kind, order, d):
    domain = kind(np.zeros(d), np.full(d, 2.0))
    points = uniform_points(domain, 4000, np.random.default_rng(d))
    assert points.shape == (4000, d)
    assert domain.contains(points).all()
    # Of a ball of radius 1 in any norm, the part within r is r**d, and either side of the middle holds half.
    size = np.linalg.norm(points, ord=order, axis=1)
    for part in (0.1, 0.5, 0.9):
        assert (size <= part ** (1 / d)).mean() == pytest.approx(part, abs=0.03)
    assert (points > 0.0).mean(axis=0) == pytest.approx(np.full(d, 0.5), abs=0.03)
    assert np.corrcoef(points.T, rowvar=True).reshape(d, d) == pytest.approx(np.eye(d), abs=0.06)


def test_points_of_a_box_are_drawn_as_they_are():
    drawn = uniform_points(Box([0, 0], [1, 1]), 10, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, np.random.default_rng(0).uniform(-1.0, 1.0, size=(10, 2)))


LOW, HIGH = [0.0, 2.0], [1.0, 5.0]


@pytest.mark.parametrize(
    "bounds",
    [
        [(0, 1), (2, 5)],
        [(np.float64(0), 1.0), (2, np.int64(5))],
        (LOW, HIGH),
        (tuple(LOW), tuple(HIGH)),
        (np.array(LOW), HIGH),
        np.array([LOW, HIGH]),
    ],
)
def test_a_list_of_tuples_is_a_pair_per_column_and_a_tuple_or_an_array_is_low_and_high(bounds):
    low, high, names = declared_bounds(bounds, 2)
    assert (low.tolist(), high.tolist(), names) == (LOW, HIGH, None)
    assert declared_width(bounds) == 2


@pytest.mark.parametrize(
    "bounds",
    [
        [LOW, HIGH],
        [np.array(LOW), np.array(HIGH)],
        [[0, 1]],
        [[0, 1], [0, 1], [0, 1]],
        [(0, 1), [0, 1]],
        [(0, 0, 0), (1, 1, 1)],
        ((0, 1), (0, 1), (0, 1)),
    ],
)
@pytest.mark.parametrize("read", [declared_bounds, declared_width])
def test_what_could_be_either_is_refused_with_both_spellings(bounds, read):
    with pytest.raises(BoundsError, match=r"\(\[low, low, \.\.\.\], \[high, high, \.\.\.\]\).*\[\(low, high\), "):
        read(bounds)


def test_two_numbers_fit_any_columns():
    for bounds in ((0, 1), [0, 1], np.array([0, 1])):
        assert declared_width(bounds) is None
        assert [side.tolist() for side in declared_bounds(bounds, 3)[:2]] == [[0.0] * 3, [1.0] * 3]
    with pytest.raises(BoundsError, match="3 lower and 3 upper bounds for 2 columns"):
        declared_bounds([(0, 1)] * 3, 2)
