"""Selections follow the exact law of report noisy max with exponential noise, secure and simulated, winner by winner.

Secure noise has no seed, so these tests are random: one assertion at ALPHA = 1e-6 is the only one that can raise a
false alarm; wrong laws (a scale 15 % off, sampling by exp(score)) are missed with a probability below 1e-12 each.
"""

import math
from collections import Counter

import numpy as np
import pytest
from cases import ALPHA
from rival_cases import winners_law
from scipy.stats import chisquare

from recoup.privacy.mechanism import SecureNoise, SimulatedNoise

pytestmark = pytest.mark.statistical

SCORES, N, UNIT = [-4, -2, -2, 0], 12_000, 2**40


def follows(draws, law):
    """Chi-square of the frequencies of all outcomes of a law."""
    counts = Counter(draws)
    assert set(counts) <= set(law)
    return chisquare([counts[o] for o in law], [len(draws) * p for p in law.values()]).pvalue > ALPHA


@pytest.mark.parametrize("source", ["secure", "simulated"])
def test_winners_follow_their_law_and_wrong_laws_are_caught(source):
    selector = SecureNoise() if source == "secure" else SimulatedNoise(np.random.default_rng(5))
    scores = [score * UNIT + 7 for score in SCORES]
    draws = [tuple(selector.winners(scores, 2, float(UNIT))) for _ in range(N)]
    assert follows(draws, winners_law(dict(enumerate(SCORES)), 2, 1.0))
    for factor in (0.85, 1.15):
        assert not follows(draws, winners_law(dict(enumerate(SCORES)), 2, factor))
    weights = {i: math.exp(score) for i, score in enumerate(SCORES)}
    total = sum(weights.values())
    sampled = {(i, j): weights[i] / total * weights[j] / (total - weights[i]) for i, j in set(draws)}
    sampled = {o: p / sum(sampled.values()) for o, p in sampled.items()}
    assert not follows(draws, sampled)
