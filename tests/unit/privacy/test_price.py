"""Prices: what is typed is what is meant, and conversions err on the side of privacy only."""

import math
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.errors import BudgetError
from recoup.privacy.price import Price, as_fraction, epsilon_of_rho, rho_of

DELTAS = [1e-12, 1e-6, 1e-3, 0.1, 0.5]
RHOS = [1e-12, 1e-6, 1e-3, 0.05, 0.5, 7.0, 999.0, 1001.0, 1e6]


def exact_epsilon(rho: Fraction, delta: Fraction) -> mpmath.mpf:
    """The minimum over the order, in 120 digits, by bisection on the logarithm of (order - 1)."""
    with mpmath.workdps(120):
        rho_, delta_ = (mpmath.mpf(v.numerator) / v.denominator for v in (rho, delta))
        low, high = mpmath.mpf(-300), mpmath.mpf(300)
        for _ in range(400):
            middle = (low + high) / 2
            excess = mpmath.exp(middle)
            rising = rho_ * excess**2 + mpmath.log((1 + excess) * delta_) > 0
            low, high = (low, middle) if rising else (middle, high)
        excess = mpmath.exp(low)
        order = 1 + excess
        # From delta = exp((order - 1)(order rho - epsilon)) / (order - 1) (1 - 1/order)^order, solved for epsilon.
        log_rest = order * mpmath.log(1 - 1 / order) - mpmath.log(excess)
        return max(mpmath.mpf(0), order * rho_ + (log_rest - mpmath.log(delta_)) / excess)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (3, Fraction(3)),
        (" 0.1 ", Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        ("1e-6", Fraction(1, 10**6)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(2, 7), Fraction(2, 7)),
        (5e-324, Fraction(5, 10**324)),
        (1e100, Fraction(10**100)),
    ],
)
def test_a_typed_number_is_its_decimal(value: object, exact: Fraction) -> None:
    result = as_fraction(value, "epsilon")
    assert result == exact
    assert type(result) is Fraction
    assert type(result.numerator) is int


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, -0.1, -1, 0, 0.0, True, np.True_, None, 1j, "", "abc", "1/0", "nan", "-1/3"),
        *(Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999999"), Decimal("1e-999999999")),
        *("1e999999999", "1e-999999999", "9" * 100_000, "1e9999999999999999999999", "0." + "0" * 5000 + "1"),
        *(10**101, -(10**5000), Fraction(1, 3**2000), 10**5000, [0.1], np.array(0.1), np.float64("nan"), b"1", 1e101),
    ],
    ids=lambda value: f"{type(value).__name__}"[:20],
)
def test_what_is_no_budget_is_refused(value: object) -> None:
    with pytest.raises(BudgetError, match="epsilon"):
        as_fraction(value, "epsilon")


def test_zero_is_allowed_by_flag_only() -> None:
    assert as_fraction(0, "delta", allow_zero=True) == 0
    assert as_fraction(Decimal("0e999999999"), "delta", allow_zero=True) == 0
    with pytest.raises(BudgetError, match="at least zero"):
        as_fraction(-1e-300, "delta", allow_zero=True)


@given(st.floats(min_value=5e-324, max_value=1e100))
def test_every_float_is_read_as_what_it_prints(value: float) -> None:
    assert float(as_fraction(value, "epsilon")) == value
    assert as_fraction(value, "epsilon") == as_fraction(str(value), "epsilon")


def test_a_price_is_a_checked_value() -> None:
    price = Price(measure="pure", amount=Fraction(1, 10))
    assert price == Price(measure="pure", amount=Fraction(1, 10))
    assert price.rho == Fraction(1, 200)
    assert Price(measure="zcdp", amount=Fraction(1, 10)).rho == Fraction(1, 10)
    with pytest.raises(FrozenInstanceError):
        price.amount = Fraction(0)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Price("pure", Fraction(1))  # type: ignore[misc]


@pytest.mark.parametrize("amount", [Fraction(0), Fraction(-1), 0.1, 1, "1", Fraction(1, 3**2000)])
def test_a_price_that_is_no_price_is_refused(amount: Fraction) -> None:
    with pytest.raises(BudgetError, match="amount of a price"):
        Price(measure="pure", amount=amount)


def test_a_price_of_unknown_measure_is_refused() -> None:
    with pytest.raises(BudgetError, match="measured"):
        Price(measure="renyi", amount=Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_is_above_the_exact_minimum_and_close(rho: float, delta: float) -> None:
    rho_exact, delta_exact = as_fraction(rho, "rho"), as_fraction(delta, "delta")
    epsilon = epsilon_of_rho(rho_exact, delta_exact)
    with mpmath.workdps(120):
        best = exact_epsilon(rho_exact, delta_exact)
        claimed = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        assert claimed >= best
        assert claimed <= best * (1 + mpmath.mpf("1e-6"))
        # The same check must reject an epsilon that is 1e-6 too small.
        assert best == 0 or not claimed * (1 - mpmath.mpf("1e-6")) >= best


@pytest.mark.parametrize("delta", [1e-300, 1e-30])
@pytest.mark.parametrize("rho", [1e-200, 1e-30, 3e99])
def test_epsilon_at_the_ends_of_the_range(rho: float, delta: float) -> None:
    rho_exact, delta_exact = as_fraction(rho, "rho"), as_fraction(delta, "delta")
    epsilon = epsilon_of_rho(rho_exact, delta_exact)
    with mpmath.workdps(320):
        excess = mpmath.sqrt(-mpmath.log(mpmath.mpf(delta)) / mpmath.mpf(rho))
    assert epsilon >= 0
    # At most the classical bound rho + 2 sqrt(rho log(1/delta)).
    assert float(epsilon) <= rho * float(1 + 2 * excess) * (1 + 1e-12)


def test_epsilon_of_nothing_and_of_almost_nothing() -> None:
    delta = Fraction(1, 10**6)
    assert epsilon_of_rho(Fraction(0), delta) == 0
    assert epsilon_of_rho(Fraction(1, 10**650), delta) >= 0


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 10**301)])
def test_delta_out_of_range_is_refused(delta: Fraction) -> None:
    with pytest.raises(BudgetError, match="delta"):
        epsilon_of_rho(Fraction(1), delta)
    with pytest.raises(BudgetError, match="delta"):
        rho_of(Fraction(1), delta)


def test_negative_rho_is_refused() -> None:
    with pytest.raises(BudgetError, match="rho"):
        epsilon_of_rho(Fraction(-1), Fraction(1, 10**6))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_the_rdp_accountant_is_never_tighter(rho: float, delta: float) -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant

    orders = [1 + 10 ** (k / 20) for k in range(-80, 140)]
    accountant = RdpAccountant(orders=orders, neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.GaussianDpEvent(math.sqrt(1 / (2 * rho))))
    theirs = accountant.get_epsilon(delta)
    assert float(epsilon_of_rho(as_fraction(rho, "rho"), as_fraction(delta, "delta"))) <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", ["1e-3", "0.1", "3", "2000"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-4"])
def test_rho_is_the_largest_that_fits(epsilon: str, delta: str) -> None:
    epsilon_exact, delta_exact = Fraction(epsilon), Fraction(delta)
    rho = rho_of(epsilon_exact, delta_exact)
    assert epsilon_of_rho(rho, delta_exact) <= epsilon_exact
    assert epsilon_of_rho(rho * (1 + Fraction(1, 10**9)), delta_exact) > epsilon_exact


def test_rho_of_budgets_of_odd_size() -> None:
    delta = Fraction(1, 10**6)
    assert rho_of(Fraction(1, 10**120), Fraction(1, 10**300)) == 0
    huge = rho_of(Fraction(10**9), delta)
    assert Fraction(99, 100) * 10**9 < huge < 10**9


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-9, 5e3), st.floats(1e-9, 5e3), st.sampled_from(DELTAS))
def test_epsilon_grows_with_rho(one: float, other: float, delta: float) -> None:
    small, large = sorted((Fraction(one), Fraction(other)))
    delta_exact = as_fraction(delta, "delta")
    ratio = 1 + Fraction(1, 10**12)
    assert epsilon_of_rho(small, delta_exact) <= epsilon_of_rho(large, delta_exact) * ratio
