"""The exact price of Gaussian noise: the curve, the proof's inequalities in exact numbers, and adaptive rounds.

Nothing here is random but the last test's sequences, which hold with certainty: there are no false alarms.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from ledgers import gaussian, pure, zcdp
from scipy.stats import norm

from recoup.privacy import gaussian as exact
from recoup.privacy.gaussian import LEAST_DISTANCE, SLACK, amount_of, counted, epsilon_of
from recoup.privacy.mechanism import LARGEST_SCALE
from recoup.queries.base import MAX_SIZE
from recoup_lab.studies.gaussian_prices import study

CUT = 64  # how many noises off the proof looks


def curve(mu, epsilon):
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


# ---- the curve ----


@pytest.mark.parametrize("delta", ["1e-300", "1e-12", "1e-6", "1e-2", "0.5"])
@pytest.mark.parametrize("amount", ["1e-20", "1e-6", "1e-3", "0.05", "2", "100"])
def test_an_epsilon_is_above_the_curve_and_close(amount, delta):
    epsilon = epsilon_of("gaussian", Fraction(amount), Fraction(delta))
    with mpmath.workdps(400):
        mu = mpmath.sqrt(2 * mpmath.mpf(amount))
        claimed = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        assert curve(mu, claimed) <= mpmath.mpf(delta)
        # What is paid besides the curve is the slack, and what the search leaves.
        paid = float(SLACK) * float(mu) ** 2 * 1.01 + 1e-12 * float(claimed) + 1e-13
        nearer = claimed * (1 - mpmath.mpf("1e-5")) - 3 * paid
        assert nearer <= 0 or curve(mu, nearer) > mpmath.mpf(delta)
        # The same check rejects a mu that is 1% too small.
        small = epsilon_of("gaussian", Fraction(amount) * Fraction(99, 100) ** 2, Fraction(delta))
        assert small == 0 or curve(mu, mpmath.mpf(small.numerator) / small.denominator) > mpmath.mpf(delta)


@pytest.mark.parametrize("delta", ["1e-300", "1e-9", "0.1"])
@pytest.mark.parametrize("epsilon", ["1e-30", "1e-3", "0.25", "3", "999", "1e4"])
def test_an_amount_pays_for_what_it_says_and_is_never_below_that_of_zcdp(epsilon, delta):
    budget = Fraction(epsilon), Fraction(delta)
    amount = amount_of("gaussian", *budget)
    assert amount >= amount_of("zcdp", *budget)
    assert epsilon_of("gaussian", amount, budget[1]) <= budget[0]
    assert epsilon_of("gaussian", amount, budget[1]) <= epsilon_of("zcdp", amount, budget[1])


def test_the_saving():
    delta = Fraction(20_000**-1.1)
    scale = {way: (2 * float(amount_of(way, Fraction(1, 4), delta))) ** -0.5 for way in ("zcdp", "gaussian")}
    assert scale == pytest.approx({"zcdp": 13.964, "gaussian": 12.675}, abs=1e-3)


def test_a_larger_budget_never_pays_for_less():
    delta = Fraction(1, 10**6)
    amounts = [amount_of("gaussian", Fraction(epsilon), delta) for epsilon in ("990", "1000", "1001", "1010", "1200")]
    assert all(one <= other * (1 + Fraction(1, 10**12)) for one, other in pairwise(amounts))


@pytest.mark.parametrize("t", ["-22", "-3.3", "0", "0.001", "1", "7.999", "8.001", "20", "40", "85"])
def test_the_ratio_of_tail_and_density_is_right_to_sixty_digits(t):
    with localcontext(exact._DIGITS):
        found = exact._mills(Decimal(t))
    with mpmath.workdps(120):
        right = mpmath.ncdf(-mpmath.mpf(t)) / mpmath.npdf(mpmath.mpf(t))
        assert abs(mpmath.mpf(str(found)) / right - 1) < mpmath.mpf("1e-60")
        assert abs(mpmath.mpf(str(exact._PI)) - mpmath.pi) < mpmath.mpf("1e-85")


# ---- discrete against rounded noise, in exact numbers ----


@pytest.mark.parametrize("scale", ["0.5", "1", "2.5", "7"])
def test_the_ratio_of_probabilities_is_within_its_bounds(scale):
    sharp = {"discrete over rounded": False, "rounded over discrete": False}
    with mpmath.workdps(60):
        sigma = mpmath.mpf(scale)
        theta = mpmath.nsum(lambda x: mpmath.exp(-(x**2) / (2 * sigma**2)), [-mpmath.inf, mpmath.inf])
        ratio = theta / (sigma * mpmath.sqrt(2 * mpmath.pi))
        normaliser = 3 * mpmath.exp(-2 * mpmath.pi**2 * sigma**2)
        assert 1 <= ratio <= 1 + normaliser
        for t in range(int(12 * sigma) + 1):
            discrete = mpmath.exp(-(mpmath.mpf(t) ** 2) / (2 * sigma**2)) / theta
            rounded = (
                mpmath.erfc((t - 0.5) / (sigma * mpmath.sqrt(2))) - mpmath.erfc((t + 0.5) / (sigma * mpmath.sqrt(2)))
            ) / 2
            above, below = 1 / (24 * sigma**2), mpmath.mpf(t) ** 2 / (24 * sigma**4) + normaliser
            assert mpmath.log(discrete / rounded) <= above
            assert mpmath.log(rounded / discrete) <= below
            # Bounds a tenth smaller do not hold.
            sharp["discrete over rounded"] |= bool(mpmath.log(discrete / rounded) > 0.9 * above)
            sharp["rounded over discrete"] |= bool(
                t > 0 and mpmath.log(rounded / discrete) > 0.9 * (below - normaliser)
            )
    # At smaller scales the next terms count as well.
    assert sigma < 2 or sharp["discrete over rounded"]
    assert sigma < 5 or sharp["rounded over discrete"]


def discrete_delta(scale, shift, epsilon):
    """Of discrete noise in as many coordinates as there are shifts, by summing over all answers."""
    reach = math.ceil(14 * scale) + max(shift)
    one = np.arange(-reach, reach + 1)
    log_p = -(one[:, None] ** 2) / (2 * scale**2)
    normaliser = np.log(np.exp(-(np.arange(-9 * reach, 9 * reach + 1) ** 2) / (2 * scale**2)).sum())
    log_p = log_p - normaliser
    logs = [(log_p[:, 0], -((one - s) ** 2) / (2 * scale**2) - normaliser) for s in shift]
    p, q = logs[0]
    for more_p, more_q in logs[1:]:
        p, q = (np.add.outer(p, more_p).ravel(), np.add.outer(q, more_q).ravel())
    return float(np.maximum(np.exp(p) - np.exp(epsilon + q), 0.0).sum())


@pytest.mark.parametrize("shift", [(1,), (2,), (1, 1), (2, -1)])
@pytest.mark.parametrize("scale", [0.7, 1.0, 2.0])
def test_discrete_noise_keeps_the_curve_with_its_slack_and_not_without(scale, shift):
    mu = math.hypot(*shift) / scale
    cut, n = 10.0, len(shift)
    normaliser = n * 3 * math.exp(-2 * math.pi**2 * scale**2)
    above, below = n / (24 * scale**2), n * cut**2 / (24 * scale**2) + normaliser
    left_out = n * 2 * float(norm.sf(cut - 0.5 / scale))
    exceeded = False
    for epsilon in np.linspace(0.2, 4.5, 30) * mu:
        on_curve = float(curve(mpmath.mpf(mu), mpmath.mpf(epsilon)))
        found = discrete_delta(scale, shift, epsilon + above + below)
        assert found <= math.exp(above) * (on_curve + math.exp(epsilon) * left_out) * (1 + 1e-9)
        exceeded |= discrete_delta(scale, shift, epsilon) > 1.01 * on_curve
    assert exceeded  # whoever forgets the slack promises too much


def test_the_constants_of_the_code_are_those_of_the_proof():
    # Of a round with the most values and the fewest steps, for each unit of mu^2.
    above, below = (MAX_SIZE * Fraction(square, 24) / LEAST_DISTANCE**2 for square in (1, CUT**2))
    assert above + below < Fraction(SLACK) * Fraction(9, 10)  # the rest is for the normaliser, below 1e-1000
    assert above < Fraction(SLACK) / 4096
    least_square = (LEAST_DISTANCE / (2 * LARGEST_SCALE)) ** 2
    with mpmath.workdps(50):
        left_out = MAX_SIZE * 2 * mpmath.ncdf(-mpmath.mpf(CUT - 1)) / least_square
        largest = mpmath.exp(int(exact._MOST_EPSILON)) * 2 * int(exact._MOST)
        assert left_out * largest < mpmath.mpf(str(exact._LEFT_OUT))
        # The scale of the noise is far above 1 wherever the curve is used.
        assert LEAST_DISTANCE / mpmath.sqrt(2 * int(exact._MOST)) > 10**5
    assert Fraction(exact._LEFT_OUT) < Fraction(1, 10**300) / 10**60
    assert float(SLACK) * 2 * exact._MOST < 0.5  # so that e^x is at most 1 + 2 x


# ---- pure prices, and sums ----


@pytest.mark.parametrize("epsilon", ["1e-12", "1e-3", "0.1", "1", "4", "20", "499", "501", "1e30"])
def test_a_pure_price_is_a_gaussian_one_from_above(epsilon):
    amount = counted(pure(epsilon), "gaussian")
    with mpmath.workdps(600):
        mu = mpmath.sqrt(2 * mpmath.mpf(amount.numerator) / amount.denominator)
        corner = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        if mpmath.mpf(epsilon) < 500:
            assert mpmath.ncdf(-mu / 2) <= corner
            assert mpmath.ncdf(-mu * mpmath.mpf("0.4999")) > corner  # and no more than it needs
        else:
            assert amount == 4 * Fraction(epsilon)
    # The whole trade-off curve of epsilon-DP is above that of mu.
    if 1e-3 <= float(Fraction(epsilon)) <= 20:
        e = float(Fraction(epsilon))
        alpha = np.append(np.linspace(1e-9, 1 - 1e-9, 100_001), 1 / (1 + math.exp(e)))
        two_parts = np.maximum(np.maximum(0.0, 1 - math.exp(e) * alpha), math.exp(-e) * (1 - alpha))
        mu = math.sqrt(2 * amount)
        assert (norm.cdf(norm.isf(alpha) - mu) <= two_parts + 1e-15).all()
        assert not (norm.cdf(norm.isf(alpha) - 0.99 * mu) <= two_parts + 1e-15).all()


def test_what_counts_as_what():
    assert counted(gaussian("1/7"), "gaussian") == counted(gaussian("1/7"), "zcdp") == Fraction(1, 7)
    assert counted(zcdp("1/7"), "zcdp") == Fraction(1, 7)
    assert counted(pure("1/10"), "zcdp") == Fraction(1, 200)
    assert epsilon_of("pure", Fraction(1, 7), Fraction(0)) == amount_of("pure", Fraction(1, 7), Fraction(0))


def adaptive_delta(first, then, epsilon):
    """Of a round of ratio `first` and one of ratio `then(loss)`, which is chosen by the answer to the first."""
    x = np.linspace(-12.0, 12.0, 200_001) + first
    loss = first * x - first**2 / 2  # of N(first, 1) against N(0, 1), at x
    ratio = np.array([max(value, 1e-9) for value in then(loss)])
    rest = epsilon - loss
    second = norm.cdf(ratio / 2 - rest / ratio) - np.exp(rest + norm.logcdf(-ratio / 2 - rest / ratio))
    return float(np.trapezoid(norm.pdf(x - first) * second, x))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_rounds_that_are_chosen_by_earlier_answers_keep_the_curve(epsilon):
    mu = 0.8
    on_curve = float(curve(mpmath.mpf(mu), mpmath.mpf(epsilon)))
    rest = math.sqrt(mu**2 - 0.5**2)
    within = {
        "always": lambda loss: np.full_like(loss, rest),
        "when it pays": lambda loss: np.where(np.abs(loss - epsilon) < 0.6, rest, 0.0),
        "when ahead": lambda loss: np.where(loss > 0.2, rest, 0.0),
        "by degrees": lambda loss: rest * np.clip(loss / epsilon, 0.0, 1.0),
        "when behind": lambda loss: np.where(loss < 0.0, rest, 0.1),
    }
    found = {name: adaptive_delta(0.5, then, epsilon) for name, then in within.items()}
    assert found["always"] == pytest.approx(on_curve, rel=1e-6)
    assert max(found.values()) <= on_curve * (1 + 1e-6)
    # A filter that forgets what was spent when the answer looked harmless is not one.
    forgetful = adaptive_delta(0.5, lambda loss: np.where(loss < 0.2, mu, rest), epsilon)
    assert forgetful > 1.01 * on_curve


def test_random_sequences_lie_between_the_optimistic_and_the_pessimistic_loss():
    """The study of 10,000 sequences, on a few."""
    found = study(12, seed=1)
    assert found["wrong"] == {
        **{"optimistic is above ours": 0, "ours is above pessimistic": 0, "discrete is above ours": 0}
    }
    for planted in found["planted"].values():
        assert planted["noticed"] > 0
    for name in ("mu 1% too small", "records of a person left out"):
        assert found["planted"][name]["noticed"] == found["planted"][name]["tried"]
