"""Private selection by hand: price, refusals, clamping, removal of winners."""

from fractions import Fraction

import numpy as np
import pytest
from rival_cases import RecordingSelector

from recoup.errors import BudgetError, ParameterError
from recoup.privacy.mechanism import NoisyMax, SecureNoise, SimulatedNoise


@pytest.mark.parametrize("n_winners", [1, 10])
@pytest.mark.parametrize("budget", [Fraction(1, 10), Fraction(1, 3), Fraction(7)])
def test_the_noise_is_the_smallest_within_budget(n_winners, budget):
    found = NoisyMax().calibrate(budget, distance=2**30, n_winners=n_winners)
    exact = n_winners * 2**30 / Fraction(found.scale)
    assert exact <= found.price.amount <= budget
    assert exact >= budget * (1 - Fraction(1, 10**12))
    assert (found.price.measure, NoisyMax.name) == ("pure", "exponential")


def test_a_budget_that_needs_too_much_noise_is_refused():
    for budget in (Fraction(1, 10**12), Fraction(1, 10**400), Fraction(0)):
        with pytest.raises(BudgetError, match="more noise"):
            NoisyMax().calibrate(budget, distance=2**30, n_winners=1)


def test_scores_are_clamped_before_noise():
    selector = RecordingSelector()
    NoisyMax().release([2**80, -(2**80), 5], 3.0, 1, selector)
    assert selector.calls == [([2**62, -(2**62), 5], 1, 3.0)]


def test_there_must_be_enough_candidates():
    for n_winners in (0, 3):
        with pytest.raises(ParameterError, match="candidates"):
            NoisyMax().release([1, 2], 1.0, n_winners, RecordingSelector())
    assert NoisyMax().release([1, 2], 1.0, 2, RecordingSelector()) == [0, 1]


@pytest.mark.parametrize("selector", [SecureNoise(), SimulatedNoise(np.random.default_rng(0))])
def test_winners_are_the_best_ones_and_all_different(selector):
    scores = [0, 2**50, -(2**60), 2**40, 2**45]
    assert selector.winners(scores, 3, 1.0) == [1, 4, 3]
    for scale in (1.0, 2.0**57):
        assert sorted(selector.winners(scores, 5, scale)) == list(range(5))


def test_simulated_selections_repeat_for_their_seed_only():
    draws = [SimulatedNoise(np.random.default_rng(seed)).winners([0] * 100, 20, 1.0) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert SimulatedNoise.simulated
    assert not SecureNoise.simulated


def test_a_simulated_selection_by_hand():
    scores = [3, 0, 2, 1]
    first, second = np.random.default_rng(7).standard_exponential((2, 4)) * 5.0 + scores
    best = int(np.argmax(first))
    second[best] = -np.inf
    assert SimulatedNoise(np.random.default_rng(7)).winners(scores, 2, 5.0) == [best, int(np.argmax(second))]
