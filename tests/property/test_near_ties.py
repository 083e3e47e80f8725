"""Single precision may only decide what double precision would decide alike: records on and around every boundary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.kernels.cells import single_precision_error
from recoup.queries.cells import VoronoiQuery

GRID = 2.0**30


def double_precision_cells(records, centers):
    """Nearest centres by direct differences added in column order; ties to the lowest index."""
    x = records / GRID
    distances = np.zeros((len(x), len(centers)))
    for k, center in enumerate(centers):
        for j in range(x.shape[1]):
            distances[:, k] += (x[:, j] - center[j]) ** 2
    return distances.argmin(axis=1)


def assert_decided_in_double_precision(records, centers):
    """Counts and sums of the records of each cell: two records that swapped their cells would be noticed."""
    k, d = centers.shape
    cells = double_precision_cells(records, centers)
    sums = np.zeros((k, d), dtype=np.int64)
    np.add.at(sums, cells, records.astype(np.int64))
    query = VoronoiQuery(centers=centers)
    # With these factors the contribution of a record is one, and its own integers.
    found = query.integer_total(records, np.concatenate([np.ones(k), np.full(k * d, GRID)]))
    np.testing.assert_array_equal(found[:k], np.bincount(cells, minlength=k))
    np.testing.assert_array_equal(found[k:].reshape(k, d), sums)


def on_the_grid(steps):
    return np.clip(steps, -(2**30), 2**30).astype(np.int32)


def around_the_boundary(rng, centers, n, width):
    """Records half-way between two centres, moved by a few steps of the grid."""
    pairs = rng.integers(len(centers), size=(n, 2))
    middle = np.clip(centers[pairs].mean(axis=1), -1, 1)
    return np.trunc(middle * GRID).astype(np.int64) + rng.integers(-width, width + 1, size=middle.shape)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 10, 50, 127, 128]),
    k=st.sampled_from([1, 2, 3, 4, 5, 6, 7, 16]),
    width=st.sampled_from([0, 1, 30, 1000]),
    spread=st.sampled_from([1.0, 1e-4, 1e-8]),
)
def test_records_around_boundaries_fall_where_double_precision_puts_them(seed, d, k, width, spread):
    rng = np.random.default_rng(seed)
    centers = np.clip(rng.uniform(-1, 1, d) + spread * rng.uniform(-1, 1, (k, d)), -1, 1)
    assert_decided_in_double_precision(on_the_grid(around_the_boundary(rng, centers, 300, width)), centers)


@pytest.mark.parametrize("d", [*range(1, 13), 31, 32, 33, 64, 100, 128])
@pytest.mark.parametrize("k", [1, 2, 5, 8, 9])
def test_every_shape_and_number_of_records_is_decided_in_double_precision(d, k):
    rng = np.random.default_rng([d, k])
    centers = rng.uniform(-1, 1, (k, d))
    centers[k // 2] = centers[0]  # a centre that never wins
    for n in (1, 63, 64, 65, 200):
        records = on_the_grid(np.trunc(rng.uniform(-1, 1, (n, d)) * GRID))
        records[::7] = on_the_grid(np.trunc(centers[rng.integers(k, size=len(records[::7]))] * GRID))  # on a centre
        assert_decided_in_double_precision(records, centers)


@pytest.mark.parametrize("d", [1, 2, 10, 128])
def test_exact_ties_go_to_the_lowest_index(d):
    rng = np.random.default_rng(d)
    half = rng.integers(-(2**29), 2**29, size=(4, d)) / GRID
    centers = np.concatenate([half, -half, half])
    centers[:, 0] = np.abs(centers[:, 0])
    records = rng.integers(-(2**30), 2**30, size=(500, d)).astype(np.int32)
    records[:200, 1:] = 0  # as far from half as from -half, to the last bit
    assert_decided_in_double_precision(records, centers)
    assert not (double_precision_cells(records, centers) >= 8).any()


@pytest.mark.parametrize("size", [2.0**20, 37.0, 1e-8, 1e-11, 1e-16, 1e-20, 1e-300])
def test_centres_of_any_size_are_compared_exactly(size):
    rng = np.random.default_rng(0)
    for d in (1, 3, 40):
        centers = size * rng.uniform(-1, 1, (5, d))
        records = rng.integers(-(2**30), 2**30, size=(500, d)).astype(np.int32)
        assert_decided_in_double_precision(records, centers)


def test_one_far_centre_among_near_ones_loses_no_tie():
    rng = np.random.default_rng(3)
    centers = 1e-3 * rng.uniform(-1, 1, (6, 4))
    centers[2] = 2.0**20
    assert_decided_in_double_precision(on_the_grid(around_the_boundary(rng, centers, 2000, 30)), centers)


@pytest.mark.parametrize("d", [1, 2, 10, 50, 128])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_the_bound_is_above_what_single_precision_gets_wrong_in_any_order(d, size):
    rng = np.random.default_rng(d)
    x, centers = rng.integers(-(2**30), 2**30, size=(5_000, d)) / GRID, size * rng.uniform(-1, 1, (8, d))
    x[:100] = np.sign(x[:100])  # corners, whose products are largest
    exact = 0.5 * (centers**2).sum(axis=1) - x @ centers.T
    error = single_precision_error(centers)
    for order in (np.arange(d), np.arange(d)[::-1], rng.permutation(d)):
        narrow = np.tile((0.5 * (centers**2).sum(axis=1)).astype(np.float32), (len(x), 1))
        for j in order:
            narrow -= x[:, j].astype(np.float32)[:, None] * centers[:, j].astype(np.float32)
        assert narrow.dtype == np.float32
        assert 0 < 2 * np.abs(narrow - exact).max() < error


def test_without_a_second_look_some_records_would_change_cells():
    rng = np.random.default_rng(1)
    centers = rng.uniform(-1, 1, (8, 10))
    near = on_the_grid(around_the_boundary(rng, centers, 20_000, 3))
    hasty = (((near / GRID).astype(np.float32)[:, None] - centers.astype(np.float32)) ** 2).sum(axis=2).argmin(axis=1)
    assert (hasty != double_precision_cells(near, centers)).any()
