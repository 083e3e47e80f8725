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


def counts(records, centers):
    query = VoronoiQuery(centers=centers, sums="none")
    return np.array(query.integer_total(records, np.ones(len(centers))))


def around_the_boundary(rng, centers, n, width):
    """Records half-way between two centres, moved by a few steps of the grid."""
    pairs = rng.integers(len(centers), size=(n, 2))
    middle = np.clip(centers[pairs].mean(axis=1), -1, 1)
    return np.trunc(middle * GRID).astype(np.int64) + rng.integers(-width, width + 1, size=middle.shape)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 3, 5, 10, 50]),
    k=st.sampled_from([2, 3, 16]),
    width=st.sampled_from([0, 1, 30, 1000]),
    spread=st.sampled_from([1.0, 1e-4, 1e-8]),
)
def test_records_around_boundaries_fall_where_double_precision_puts_them(seed, d, k, width, spread):
    rng = np.random.default_rng(seed)
    centers = np.clip(rng.uniform(-1, 1, d) + spread * rng.uniform(-1, 1, (k, d)), -1, 1)
    records = np.clip(around_the_boundary(rng, centers, 300, width), -(2**30), 2**30).astype(np.int32)
    wanted = np.bincount(double_precision_cells(records, centers), minlength=k)
    np.testing.assert_array_equal(counts(records, centers), wanted)


@pytest.mark.parametrize("size", [2.0**20, 37.0, 1e-8, 1e-11, 1e-16, 1e-20, 1e-300])
def test_centres_of_any_size_are_compared_exactly(size):
    rng = np.random.default_rng(0)
    centers = size * rng.uniform(-1, 1, (5, 3))
    records = rng.integers(-(2**30), 2**30, size=(500, 3)).astype(np.int32)
    wanted = np.bincount(double_precision_cells(records, centers), minlength=5)
    np.testing.assert_array_equal(counts(records, centers), wanted)


def test_the_bound_is_above_what_single_precision_gets_wrong_and_is_needed():
    rng = np.random.default_rng(1)
    x, centers = rng.integers(-(2**30), 2**30, size=(20_000, 10)) / GRID, rng.uniform(-1, 1, (8, 10))
    exact = 0.5 * (centers**2).sum(axis=1) - x @ centers.T
    halves = (0.5 * (centers**2).sum(axis=1)).astype(np.float32)
    narrow = halves - x.astype(np.float32) @ centers.astype(np.float32).T
    assert narrow.dtype == np.float32
    worst = np.abs(narrow - exact).max()
    assert 0 < 2 * worst < single_precision_error(centers)
    # Without the second look some records would change cells.
    near = np.clip(around_the_boundary(rng, centers, 20_000, 3), -(2**30), 2**30).astype(np.int32)
    hasty = (((near / GRID).astype(np.float32)[:, None] - centers.astype(np.float32)) ** 2).sum(axis=2).argmin(axis=1)
    assert (hasty != double_precision_cells(near, centers)).any()
