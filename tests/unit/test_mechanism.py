"""Mechanisms by hand: weights, factors, calibration, clamping, densities."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from cases import RecordingNoise

from recoup.domain import Box, L1Ball
from recoup.errors import BudgetError, ParameterError
from recoup.mechanism import SENSITIVITY, Gaussian, Laplace, SecureNoise, SimulatedNoise, integer_sensitivity
from recoup.queries.histogram import HistogramQuery
from recoup.queries.voronoi import VoronoiQuery

HALF = Fraction(1, 2)


def test_weights_split_the_integer_sensitivity():
    assert Laplace().weights([HALF, HALF], 2**30) == (2**29, 2**29)
    assert sum(Laplace().weights([Fraction(1, 3), Fraction(2, 3)], 2**30)) <= 2**30
    weights = Gaussian().weights([Fraction(1, 3), Fraction(2, 3)], 2**30)
    assert (1 - 1e-8) * 2**60 <= sum(w * w for w in weights) <= 2**60


def test_shares_that_are_no_shares_are_refused():
    for mechanism in (Laplace(), Gaussian()):
        for shares in ([Fraction(2, 3), Fraction(2, 3)], [Fraction(0), HALF], [Fraction(-1, 2), HALF]):
            with pytest.raises(ParameterError):
                mechanism.weights(shares, 2**30)
    with pytest.raises(ParameterError, match="too small"):
        Laplace().weights([Fraction(1, 10**9), HALF], 2**30)


def test_factors_in_the_unit_l1_ball_are_the_papers():
    query, ball = VoronoiQuery(centers=np.zeros((2, 3))), L1Ball([0] * 3, [1] * 3)
    factors = Laplace().factors(query.sensitivity(ball), (2**29, 2**29))
    np.testing.assert_array_equal(factors[:2], 2**29)
    np.testing.assert_allclose(factors[2:], 2**29, rtol=1e-11)
    assert (factors[2:] < 2**29).all()


def test_a_share_too_small_for_its_counts_is_refused():
    query, box = HistogramQuery.one_way(dimension=2000, bins=1), Box([0] * 2000, [1] * 2000)
    for mechanism, weight in ((Laplace(), 2**10), (Gaussian(), 2**4)):
        with pytest.raises(ParameterError, match="too small"):
            mechanism.factors(query.sensitivity(box), (weight,))


def test_calibration_is_the_smallest_noise_within_budget():
    for budget in (Fraction(1, 10), Fraction(1, 3), Fraction(7), Fraction(10**6)):
        found = Laplace().calibrate(budget, SENSITIVITY)
        assert found.price.amount <= budget
        assert found.scale == pytest.approx(SENSITIVITY / float(budget), rel=1e-12)
        found = Gaussian().calibrate(budget, SENSITIVITY)
        assert found.price.amount <= budget
        assert found.scale == pytest.approx(SENSITIVITY / sqrt(2 * float(budget)), rel=1e-12)


def test_a_budget_that_needs_too_much_noise_is_refused():
    for mechanism in (Laplace(), Gaussian()):
        for budget in (Fraction(1, 10**18), Fraction(1, 10**400), Fraction(0)):
            with pytest.raises(BudgetError, match="more noise"):
                mechanism.calibrate(budget, SENSITIVITY)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_totals_are_clamped_before_noise(kind):
    mechanism = {"laplace": Laplace(), "gaussian": Gaussian()}[kind]
    noise = RecordingNoise()
    mechanism.release([2**80, -(2**80), 5], 3.0, noise)
    assert noise.calls == [(kind, [2**62, -(2**62), 5], 3.0)]
    assert all(abs(v) < 2**63 for v in mechanism.release([2**80, -(2**80)], 1e6, SecureNoise()))


def test_log_densities_and_deviations():
    residuals, scales = np.array([1.0, -2.0]), np.array([1.0, 4.0])
    assert Laplace().log_density(residuals, scales) == -1.5
    assert Gaussian().log_density(residuals, scales) == -0.625
    assert Laplace().deviation(2.0) == 2 * sqrt(2)
    assert Gaussian().deviation(2.0) == 2.0


def test_integer_sensitivity_shrinks_only_for_a_huge_declared_n():
    assert {integer_sensitivity(n) for n in (None, 1, 10**6, 2**31)} == {2**30}
    assert integer_sensitivity(2**31 + 1) == 2**29
    assert integer_sensitivity(2**33) == 2**28


def test_simulated_noise_says_so():
    assert SimulatedNoise(np.random.default_rng(0)).simulated
    assert not SecureNoise().simulated
