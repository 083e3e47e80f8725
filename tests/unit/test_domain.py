"""Domains by hand: mapping, projection, membership, rounding, and what is refused."""

import numpy as np
import pytest
from cases import domains
from naive import project

from recoup.curator.source import fixed_records
from recoup.domain import Box, L1Ball, L2Ball, declared_bounds, domain_from_json
from recoup.errors import BoundsError, MissingBoundsError, TranscriptFormatError


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
    assert Box([0, 0], [1, 1]).contains([[1, -1], [1.1, 0]]).tolist() == [True, False]
    assert L1Ball([0, 0], [1, 1]).contains([[0.5, 0.5], [0.6, 0.6]]).tolist() == [True, False]
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
