"""Parameters are refused with their name as data, and what is absurd is not even printed."""

import pickle

import numpy as np
import pytest

from recoup._validate import LARGEST, ORDINARY, choice, positive_number, probability, whole_number
from recoup.errors import BudgetError, ParameterError
from recoup.privacy.price import as_fraction


@pytest.mark.parametrize("value", [1, np.int64(7), ORDINARY])
def test_whole_numbers_are_read(value):
    assert whole_number(value, "n") == int(value)
    assert type(whole_number(value, "n")) is int


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, np.bool_(True), 2**31])
def test_other_things_are_no_whole_numbers(value):
    with pytest.raises(ParameterError, match="give a whole number of at least 1") as refusal:
        whole_number(value, "n_rounds")
    assert refusal.value.parameter == "n_rounds"


def test_what_is_too_large_to_print_is_called_so():
    for value in (2**31, 10**5000, -(10**5000)):
        with pytest.raises(ParameterError, match=r"^n=too large: "):
            whole_number(value, "n")
    for check in (positive_number, probability, lambda value, name: choice(value, name, ("a",))):
        with pytest.raises(ParameterError, match=r"^n=too large: "):
            check(10**5000, "n")
    with pytest.raises(ParameterError, match=r"^n=-5: "):
        whole_number(-5, "n")
    assert whole_number(2**40, "n", high=LARGEST) == 2**40
    with pytest.raises(ParameterError, match="too large: give a whole number of at least 1"):
        whole_number(LARGEST + 1, "n", high=LARGEST)


def test_both_ends_are_named_where_the_upper_one_matters():
    assert [whole_number(value, "n", low=0, high=3) for value in (0, 3)] == [0, 3]
    for value in (-1, 4):
        with pytest.raises(ParameterError, match=f"^n={value}: give a whole number from 0 to 3"):
            whole_number(value, "n", low=0, high=3)


def test_positive_numbers():
    assert positive_number(np.float32(0.5), "v") == 0.5
    assert positive_number(0, "v", or_zero=True) == 0.0
    assert positive_number(8, "v", high=8.0) == 8.0
    for value in (0, -1, float("nan"), float("inf"), True, "1", None):
        with pytest.raises(ParameterError, match="give a positive number") as refusal:
            positive_number(value, "v")
        assert refusal.value.parameter == "v"
    with pytest.raises(ParameterError, match="a number of at least 0, at most 8"):
        positive_number(9, "v", high=8.0, or_zero=True)


def test_probabilities():
    assert probability(0.5, "level") == 0.5
    for value in (0, 1, 0.0, 1.0, -0.5, 2, float("nan"), True, "0.5"):
        with pytest.raises(ParameterError, match="between 0 and 1") as refusal:
            probability(value, "level")
        assert refusal.value.parameter == "level"


def test_choices():
    assert choice("a", "letter", ("a", "b")) == "a"
    for value in ("c", 1, None, ["a"]):
        with pytest.raises(ParameterError, match="choose one of a, b") as refusal:
            choice(value, "letter", ("a", "b"))
        assert refusal.value.parameter == "letter"
    with pytest.raises(ParameterError, match="choose the first"):
        choice("c", "letter", ("a", "b"), "the first")


def test_a_refused_budget_names_its_parameter_and_survives_a_pickle():
    with pytest.raises(BudgetError) as refusal:
        as_fraction(-1, "epsilon")
    assert refusal.value.parameter == "epsilon"
    assert pickle.loads(pickle.dumps(refusal.value)).parameter == "epsilon"
    with pytest.raises(BudgetError) as refusal:
        as_fraction(-1, "a round's share")
    assert refusal.value.parameter is None
