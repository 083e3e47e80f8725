"""The nearest centre of any point, near ties and far from the unit box too."""

import numpy as np
import pytest

from recoup.kernels.cells import single_precision_error
from recoup.kernels.nearest import nearest_cells, reach_of


def found(points, centers):
    cells = np.empty(len(points), np.int64)
    nearest_cells(points, centers, single_precision_error(centers, reach_of(points)), cells)
    return cells


def naive(points, centers):
    """The nearest centre in double precision, columns added in their order; the lowest index of a tie."""
    squares = np.zeros((len(points), len(centers)))
    for j in range(points.shape[1]):
        squares += (points[:, j, None] - centers[None, :, j]) ** 2
    return squares.argmin(axis=1)


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e3, 1e30])
@pytest.mark.parametrize(("n_cells", "d"), [(1, 1), (7, 2), (30, 5), (9, 130)])
def test_cells_are_those_of_double_precision(size, n_cells, d):
    rng = np.random.default_rng(n_cells)
    centers = size * rng.uniform(-1, 1, (n_cells, d))
    a, b = rng.integers(n_cells, size=(2, 300))
    # A third of the points lie on borders, to within what single precision cannot tell, and some on ties.
    middles = (centers[a] + centers[b]) / 2 * (1 + rng.choice([0.0, 1e-12, 1e-8], (300, 1)) * rng.normal(size=(300, d)))
    points = np.concatenate([centers[a], middles, size * rng.uniform(-3, 3, (301, d))])
    np.testing.assert_array_equal(found(points, centers), naive(points, centers))


def test_no_points_have_no_cells():
    assert len(found(np.empty((0, 3)), np.zeros((2, 3)))) == 0
