"""Noise follows its exact law, secure and simulated, at a scale like those of releases and at a small one.

Secure noise has no seed, so these tests are random: 16 assertions at ALPHA = 1e-6 raise about 2e-5 false alarms a run.
Every law is also tested against one whose scale is 10 % off, which must be rejected.
"""

import numpy as np
import pytest
from cases import ALPHA
from scipy.stats import chisquare, kstest, laplace, norm

from recoup.privacy.mechanism import SecureNoise, SimulatedNoise

pytestmark = pytest.mark.statistical

LARGE, SMALL = 2.0**32, 3.0
N = 40_000
REACH = 40  # of the small scale's support that is looked at value by value


def discrete_laplace(k, scale):
    a = np.exp(-1 / scale)
    return (1 - a) / (1 + a) * a ** np.abs(k)


def discrete_gaussian(k, scale):
    support = np.arange(-60 * int(scale), 60 * int(scale) + 1)
    return np.exp(-(k**2) / (2 * scale**2)) / np.exp(-(support**2) / (2 * scale**2)).sum()


def rounded_gaussian(k, scale):
    return norm.cdf(k + 0.5, scale=scale) - norm.cdf(k - 0.5, scale=scale)


def follows(draws, mass, scale):
    """Chi-square of the frequencies of single values; values that are expected less than 20 times are put together."""
    values = np.arange(-REACH, REACH + 1)
    expected = mass(values, scale) * len(draws)
    observed = np.array([(draws == v).sum() for v in values])
    common = expected >= 20
    expected, observed = expected[common], observed[common]
    rest = len(draws) - expected.sum()
    return chisquare([*observed, len(draws) - observed.sum()], [*expected, rest]).pvalue > ALPHA


LAWS = {
    "laplace": (laplace, discrete_laplace, discrete_laplace),
    "gaussian": (norm, discrete_gaussian, rounded_gaussian),
}


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("source", ["secure", "simulated"])
def test_noise_follows_its_law_and_a_scale_10_percent_off_is_caught(kind, source):
    noise = SecureNoise() if source == "secure" else SimulatedNoise(np.random.default_rng(12))
    smooth, exact_mass, simulated_mass = LAWS[kind]
    draw = getattr(noise, kind)

    large = np.array(draw([7] * N, LARGE), dtype=float) - 7
    assert kstest(large, smooth(scale=LARGE).cdf).pvalue > ALPHA
    assert kstest(large, smooth(scale=1.1 * LARGE).cdf).pvalue <= ALPHA
    assert kstest(large, smooth(scale=0.9 * LARGE).cdf).pvalue <= ALPHA

    mass = exact_mass if source == "secure" else simulated_mass
    small = np.array(draw([-5] * N, SMALL)) + 5
    assert follows(small, mass, SMALL)
    assert not follows(small, mass, 1.1 * SMALL)
    assert not follows(small, mass, 0.9 * SMALL)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("source", ["secure", "simulated"])
def test_noises_of_successive_calls_and_of_neighbouring_values_are_uncorrelated(kind, source):
    noise = SecureNoise() if source == "secure" else SimulatedNoise(np.random.default_rng(13))
    first, second = (np.array(getattr(noise, kind)([0] * 20_000, LARGE), dtype=float) for _ in range(2))
    limit = -norm.ppf(ALPHA / 2) / np.sqrt(20_000)

    def correlated(a, b):
        # Signs: their correlation has no heavy tail.
        return abs(np.mean(np.sign(a) * np.sign(b))) > limit

    assert not correlated(first, second)
    assert not correlated(first[:-1], first[1:])
    # Threads draw halves: a generator that they share badly would repeat one half in the other.
    assert not correlated(first[:10_000], first[10_000:])
    assert correlated(first, 0.1 * first + second)


def test_simulated_noise_repeats_for_its_seed_only():
    draws = [SimulatedNoise(np.random.default_rng(seed)).laplace([0] * 50, LARGE) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
