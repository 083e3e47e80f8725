"""Mechanisms by hand: weights, factors, calibration, clamping, densities."""

import dataclasses
from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest
from cases import RecordingNoise

from recoup.domain import Box, L1Ball
from recoup.errors import BudgetError, ParameterError
from recoup.privacy.mechanism import (
    SENSITIVITY,
    Gaussian,
    Laplace,
    SecureNoise,
    SimulatedNoise,
    _InThreads,
    checked_noise,
    integer_sensitivity,
)
from recoup.queries.base import Block, Sensitivity
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import HistogramQuery

HALF = Fraction(1, 2)


@pytest.mark.parametrize("noise", ["none", "SECURE", None, 0])
def test_noise_of_another_kind_is_refused_by_its_name(noise):
    checked_noise("secure")
    checked_noise("simulated")
    with pytest.raises(ParameterError, match=r'^noise=.*"secure", or "simulated" for experiments') as refusal:
        checked_noise(noise)
    assert refusal.value.parameter == "noise"


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
    with pytest.raises(ParameterError, match="each must be positive"):
        Laplace().weights([Fraction(0), HALF], 2**30)
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


def test_limits_are_exact():
    for mechanism in (Laplace(), Gaussian()):
        # The smallest weight that a block may get, and one less.
        share = Fraction(2**10, 2**30) ** mechanism.norm
        assert mechanism.weights([share], 2**30) == (2**10,)
        with pytest.raises(ParameterError, match="too small"):
            mechanism.weights([share * Fraction(1023, 1024)], 2**30)
        # The largest noise, and a little more.
        largest = mechanism.calibrate(Fraction(1, 2**28) if mechanism.norm == 1 else Fraction(1, 2**57), 2**30)
        assert largest.scale == 2.0**58
        with pytest.raises(BudgetError, match="more noise"):
            mechanism.calibrate(Fraction(1, 2**28 + 1) if mechanism.norm == 1 else Fraction(1, 2**57 + 2**30), 2**30)
    with pytest.raises(ParameterError, match="too small"):
        Laplace().weights([HALF, Fraction(1, 2**21)], 2**30)


def test_all_of_the_shares_may_be_used():
    assert Laplace().weights([Fraction(1, 4), Fraction(3, 4)], 2**30) == (2**28, 3 * 2**28)
    assert Gaussian().weights([Fraction(1, 4), Fraction(1, 4), HALF], 2**30)[:2] == (2**29, 2**29)
    with pytest.raises(ParameterError, match="together at most 1"):
        Laplace().weights([HALF, HALF + Fraction(1, 10**9)], 2**30)


def test_factors_of_counts_are_whole_and_others_are_shaved_by_a_stated_part():
    counts = Block.of_counts("count", 2, ones=3)
    real = Block(name="sum", size=2, l1=np.array([2.0, 4.0]), l2=np.array([1.0, 0.5]))
    shaved = 2.0**30 * (1 - 2.0**-40)
    laplace = Laplace().factors(Sensitivity((counts, real)), (1000, 2**30))
    np.testing.assert_allclose(laplace, [333, 333, shaved / 2, shaved / 4], rtol=1e-15)
    gaussian = Gaussian().factors(Sensitivity((counts, real)), (1000, 2**30))
    np.testing.assert_allclose(gaussian, [577, 577, shaved, shaved * 2], rtol=1e-15)
    # A factor of one is the smallest.
    assert Laplace().factors(Sensitivity((counts,)), (3,)).tolist() == [1.0, 1.0]
    assert Gaussian().factors(Sensitivity((counts,)), (2,)).tolist() == [1.0, 1.0]
    for mechanism, weight in ((Laplace(), 2), (Gaussian(), 1)):
        with pytest.raises(ParameterError, match="so many counts"):
            mechanism.factors(Sensitivity((counts,)), (weight,))


def test_what_the_largest_noise_exceeds():
    assert Laplace().largest(10, 0.01) == pytest.approx(log(500))
    assert Gaussian().largest(10, 0.01) == pytest.approx(sqrt(2 * log(500)))
    assert Laplace().largest(1, 1.0) == Gaussian().largest(1, 1.0) == 0.0


def test_calibration_moves_by_few_steps_only():
    for budget in (Fraction(k, 1000) for k in range(1, 300)):
        for mechanism in (Laplace(), Gaussian()):
            found = mechanism.calibrate(budget, SENSITIVITY)
            start = SENSITIVITY / float(budget) if mechanism.norm == 1 else SENSITIVITY / sqrt(2 * float(budget))
            assert start <= found.scale <= start * (1 + 4e-15)
            assert found.price.measure == mechanism.measure


def test_the_sensitivity_stops_shrinking_at_a_thousand():
    assert integer_sensitivity(2**50) == 2**11
    assert integer_sensitivity(2**51) == integer_sensitivity(2**51 + 1) == integer_sensitivity(2**63) == 2**10


def test_simulated_noise_is_what_it_says():
    totals, twin, noise = [100, 200, 2**62], np.random.default_rng(5), SimulatedNoise(np.random.default_rng(5))
    for _ in range(2):
        expected = np.floor(twin.standard_exponential((2, 3)) * 10.0)
        assert noise.laplace(totals, 10.0) == [t + int(a) - int(b) for t, a, b in zip(totals, *expected, strict=True)]
        expected = np.rint(twin.standard_normal(3) * 10.0)
        found = noise.gaussian(totals, 10.0)
        assert found == [t + int(v) for t, v in zip(totals, expected, strict=True)]
        assert {type(v) for v in found} == {int}


def test_secure_noise_is_opendps_of_the_same_name(monkeypatch):
    asked = []

    def sampler(kind, scale):
        asked.append((kind, scale))
        return lambda totals: [total + 1 for total in totals]

    monkeypatch.setattr("recoup.privacy.mechanism._opendp", sampler)
    assert SecureNoise().laplace((1, 2), 3.0) == [2, 3]
    assert SecureNoise().gaussian((1, 2), 4.0) == [2, 3]
    assert asked == [("laplace", 3.0), ("gaussian", 4.0)]


@pytest.mark.parametrize(
    ("n_values", "sizes"), [(0, [0]), (1, [1]), (511, [511]), (513, [256, 257]), (2000, [666, 667, 667])]
)
def test_values_are_drawn_in_parts_that_their_number_alone_decides(monkeypatch, n_values, sizes):
    monkeypatch.setenv("RECOUP_NUM_THREADS", "3")
    found = []

    class Doubling:
        def map(self, distance):
            return distance / 2

        def __call__(self, part):
            found.append(len(part))
            return [2 * value for value in part.tolist()]

    sampler = _InThreads(Doubling())
    assert sampler(range(n_values)) == [2 * value for value in range(n_values)]
    assert sorted(found) == sizes
    assert sampler.map(6) == 3


def test_mechanisms_and_calibrations_are_frozen():
    found = Laplace().calibrate(HALF, SENSITIVITY)
    for value, name in ((found, "scale"), (Laplace(), "name"), (Gaussian(), "name")):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(value, name, 0)
    assert hash(Laplace()) == hash(Laplace())
    assert hash(Gaussian()) == hash(Gaussian())
    assert (Laplace.name, Laplace.norm, Laplace.measure) == ("laplace", 1, "pure")
    assert (Gaussian.name, Gaussian.norm, Gaussian.measure) == ("gaussian", 2, "zcdp")
