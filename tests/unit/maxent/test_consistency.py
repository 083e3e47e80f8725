"""Consistency on instances small enough to solve by hand, and what it refuses."""

import numpy as np
import pytest
from admm import consistent, consistent_by_admm

from recoup.errors import ParameterError

BOTH = pytest.mark.parametrize("solve", [consistent, consistent_by_admm])


@BOTH
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_one_round_is_clipped_at_zero_and_its_sums_are_kept(solve, noise):
    counts, sums = np.array([3.0, -2.0, 0.0, 7.5]), np.array([[1.0, -1.0], [4.0, 0.0], [0.1, 0.2], [-3.0, 5.0]])
    result = solve([counts], [[1.0, 2.0, 3.0, 4.0]], [sums], [0.5], noise=noise)
    np.testing.assert_allclose(result.counts[0], [3.0, 0.0, 0.0, 7.5], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.sums[0], sums, rtol=0, atol=1e-9)
    assert result.total == pytest.approx(10.5)
    assert result.objective == pytest.approx(1.0 if noise == "laplace" else 0.5)
    assert result.converged


def test_laplace_moves_the_noisiest_cells_only_and_shares_equally_between_them():
    # round 0 is trusted more (scale 1 against 2), so round 1 gives way: 12 too many, taken from its two noisier cells
    result = consistent([[5.0, 5.0], [8.0, 4.0, 10.0]], [1.0, [2.0, 1.9, 2.0]])
    assert result.total == pytest.approx(10.0)
    np.testing.assert_allclose(result.counts[0], [5.0, 5.0])
    np.testing.assert_allclose(result.counts[1], [2.0, 4.0, 4.0])
    assert result.objective == pytest.approx(6.0)


def test_laplace_empties_the_noisiest_cell_before_it_touches_the_next():
    result = consistent([[2.0], [3.0, 4.0]], [0.1, [2.0, 1.0]])
    np.testing.assert_allclose(result.counts[1], [0.0, 2.0])
    assert result.total == pytest.approx(2.0)
    assert result.objective == pytest.approx(1.5 + 2.0)


def test_the_laplace_total_is_a_weighted_median():
    totals, scales = [10.0, 11.0, 50.0], [1.0, 1.0, 1.0]
    assert consistent([[t] for t in totals], scales).total == pytest.approx(11.0)
    assert consistent([[t] for t in totals], [1.0, 1.0, 0.4]).total == pytest.approx(50.0)


def test_among_equally_likely_totals_the_one_of_least_squares():
    # any total in [8, 14] costs 6; two cells share the first round's change, so least squares gives it less weight
    result = consistent([[7.0, 7.0], [8.0]], [1.0, 1.0])
    assert result.objective == pytest.approx(6.0)
    assert result.total == pytest.approx(10.0)
    np.testing.assert_allclose(result.counts[0], [5.0, 5.0])


def test_gaussian_totals_are_weighted_by_inverse_variance():
    result = consistent([[10.0], [20.0]], [1.0, 2.0], noise="gaussian")
    assert result.total == pytest.approx((10.0 + 20.0 / 4) / (1 + 1 / 4))
    shared = consistent([[10.0, 10.0], [14.0]], [1.0, 1.0], noise="gaussian")
    assert shared.total == pytest.approx((20.0 / 2 + 14.0) / 1.5)
    np.testing.assert_allclose(shared.counts[0], [8.0, 8.0])


@BOTH
def test_all_negative_rounds_pull_to_zero(solve):
    result = solve([[-3.0, -1.0], [-2.0]], [1.0, 1.0])
    assert result.total == 0.0
    assert all((c == 0).all() for c in result.counts)


@BOTH
def test_a_precise_total_of_one_cell_decides(solve):
    result = solve([[4.0, 5.0], [30.0]], [1.0, 0.01])
    assert result.total == pytest.approx(30.0)
    np.testing.assert_allclose(result.counts[0], [14.5, 15.5])
    assert result.objective == pytest.approx(21.0)


@BOTH
def test_a_round_without_sums_shares_only_its_counts(solve):
    result = solve([[1.0], [2.0, 2.0], [4.0]], [1.0, 1.0, 1.0], [[[1.0, 0.0]], None, [[3.0, 0.0]]], [1.0, None, 4.0])
    assert result.sums[1] is None
    np.testing.assert_allclose(result.sums[0], [[1.0, 0.0]], atol=1e-9)
    np.testing.assert_allclose(result.sums[2], [[1.0, 0.0]], atol=1e-9)
    assert [c.sum() for c in result.counts] == pytest.approx([4.0, 4.0, 4.0])


def test_scales_of_sums_broadcast_per_cell():
    counts, sums = [np.ones(2), np.ones(2)], [np.zeros((2, 3)), np.ones((2, 3))]
    per_cell = consistent(counts, [1.0, 1.0], sums, [1.0, [2.0, 3.0]])
    per_entry = consistent(counts, [1.0, 1.0], sums, [np.ones((2, 3)), [[2.0] * 3, [3.0] * 3]])
    for a, b in zip(per_cell.sums, per_entry.sums, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(per_cell.sums[1], [[1.0] * 3, [-1.0] * 3])


def test_unequal_cells_and_order_of_cells_do_not_matter():
    rng = np.random.default_rng(3)
    counts, scales = [rng.normal(2, 3, 7), rng.normal(2, 3, 4)], [rng.choice([1.0, 2.0], 7), rng.choice([1.0, 2.0], 4)]
    order = rng.permutation(7)
    plain = consistent(counts, scales)
    shuffled = consistent([counts[0][order], counts[1]], [scales[0][order], scales[1]])
    np.testing.assert_allclose(shuffled.counts[0], plain.counts[0][order], atol=1e-12)


def test_admm_says_when_it_did_not_converge_and_is_consistent_all_the_same():
    counts = [np.array([5.0, -3.0, 8.0]), np.array([40.0, 2.0])]
    result = consistent_by_admm(counts, [1.0, 7.0], max_iterations=3)
    assert not result.converged
    assert result.n_iterations == 3
    assert max(result.primal_residual, result.dual_residual) > 1e-10
    assert result.counts[0].sum() == pytest.approx(result.counts[1].sum(), rel=1e-14)
    assert min(c.min() for c in result.counts) >= 0


def test_admm_residuals_obey_the_stated_rule():
    counts = [np.array([5.0, -3.0, 8.0]), np.array([40.0, 2.0])]
    result = consistent_by_admm(counts, [1.0, 7.0], tolerance=1e-6)
    assert result.converged
    largest = max(np.abs(x - y).max() / b for x, y, b in zip(result.counts, counts, [1.0, 7.0], strict=True))
    assert result.primal_residual <= 1e-6 * (1 + largest) * (1 + 1e-3)
    assert result.dual_residual <= 1e-6


@pytest.mark.parametrize(
    "arguments",
    [
        ([[np.nan]], [1.0]),
        ([[np.inf]], [1.0]),
        ([[1e60]], [1.0]),
        ([[1.0]], [-1.0]),
        ([[1.0]], [0.0]),
        ([[1.0]], [np.nan]),
        ([[1.0]], [np.inf]),
        ([[1.0]], [1.0], [[[np.nan]]], [1.0]),
        ([[1.0]], [1.0], [[[1.0]]], [-1.0]),
    ],
)
def test_answers_and_scales_that_no_release_has_are_refused(arguments):
    with pytest.raises(ParameterError):
        consistent(*arguments)
