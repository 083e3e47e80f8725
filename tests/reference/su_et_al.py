"""Closed forms of Su et al. (CODASPY 2016), which the planner must meet."""

from __future__ import annotations

from recoup.algorithms.kmeans.grid import TYPICAL_OFFSET


def best_split_error(*, epsilon, n_clusters, n_columns, n_records):
    """The error of one round of Laplace noise in the box under the best split of its budget: 2 K^3 (d + a)^3 / (N e)^2.

    With a = (4 d 0.225^2)^(1/3) the budget of a count is a times that of one coordinate of a sum.
    """
    a = (4.0 * n_columns * TYPICAL_OFFSET**2) ** (1 / 3)
    return 2.0 * n_clusters**3 * (n_columns + a) ** 3 / (n_records * epsilon) ** 2


def expected_error(*, n_clusters, n_columns, n_records, count_deviation, sum_deviation):
    """The squared distance by which noise moves all centres of a round, columns scaled to [-1, 1], to first order."""
    variance = sum_deviation**2 + (2.0 * TYPICAL_OFFSET * count_deviation) ** 2
    return n_clusters * n_columns * variance / (n_records / n_clusters) ** 2
