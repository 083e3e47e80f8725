"""The contract suite passes what is right; what comes back from it."""

from pathlib import Path

import numpy as np
import pytest
from planted_contracts import tighter
from right_contract import BOX, Mean, Shift, algorithm, query_class
from scipy.sparse import csr_array

import recoup
from recoup.custom import Request
from recoup.errors import ParameterError, RecoupError
from recoup.testing import check_algorithm, check_query
from recoup.testing.queries import block_ratios
from recoup.testing.report import RULES

# What is right.


@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_a_right_query_passes(n_columns):
    recoup.register(Shift)
    report = check_query(Shift(np.linspace(-0.5, 0.3, n_columns)))
    assert report.passed
    assert "keeps its contract" in str(report)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_a_right_algorithm_passes(n_columns):
    report = check_algorithm(algorithm(), n_columns=n_columns)
    assert report.passed
    assert {check.name for check in report.checks} == set(RULES)
    assert all(check.n_places > 0 and check.message == "" for check in report.checks)


def test_sparse_contributions_pass_and_are_measured_like_dense_ones():
    def sparse(self, x):
        return csr_array(Shift.contribution(self, x))

    query = query_class(contribution=sparse)(np.array([0.2, -0.4]))
    assert check_query(query).passed
    x = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    bounds = query.sensitivity(BOX)
    np.testing.assert_allclose(
        block_ratios(query.contribution(x), bounds), block_ratios(Shift.contribution(query, x), bounds), rtol=1e-15
    )


def test_the_report_is_the_same_for_the_same_seed():
    assert check_algorithm(algorithm(), domain=BOX, random_state=3).passed
    bad = query_class(sensitivity=tighter(0.9))(np.array([0.1, 0.2]))
    first, second = (check_query(bad, raise_on_failure=False, random_state=4) for _ in range(2))
    assert str(first) == str(second)


# What comes back.


def test_a_failure_carries_its_report_and_can_be_asked_not_to_raise():
    bad = query_class(sensitivity=tighter(0.5))(np.array([0.0, 0.0]))
    report = check_query(bad, domain=BOX, raise_on_failure=False)
    with pytest.raises(AssertionError) as violation:
        check_query(bad, domain=BOX)
    assert isinstance(violation.value, RecoupError)
    assert str(violation.value) == str(report)
    assert "breaks its contract in 1 of" in str(report)
    assert RULES["sensitivity"] in str(report)


def test_a_failure_in_many_places_is_told_once():
    bad = query_class(sensitivity=tighter(0.5))(np.array([0.0, 0.0]))
    message = check_query(bad, raise_on_failure=False).failures[0].message
    assert message.count("Declare a bound") == 1
    assert "in 4 more places" in message
    assert message.startswith("In the Box: block 'shift'")
    two = check_query(bad, domain=[BOX, recoup.L2Ball([0, 0], [1, 1])], raise_on_failure=False)
    assert "in 1 more place.)" in two.failures[0].message


def test_shares_that_floats_leave_short_are_shown_exactly():
    def next_request(self, context, rounds, rng):
        request = Mean.next_request(self, context, rounds, rng)
        return None if request is None else Request(query=request.query, share=1 / 3, split=request.split)

    report = check_algorithm(algorithm(next_request=next_request), domain=BOX, raise_on_failure=False)
    (failure,) = report.failures
    assert failure.name == "whole budget"
    assert "ask for 9999999999999999/10000000000000000 of the budget. Write shares as Fraction(1, 3)" in failure.message


def test_an_error_of_the_code_under_test_is_placed():
    def contribution(self, x):
        raise KeyError("what")

    report = check_query(query_class(contribution=contribution)(np.zeros(2)), raise_on_failure=False)
    assert "contribution (line" in report.failures[0].message
    assert "raised KeyError" in report.failures[0].message


def test_something_that_is_no_domain_is_refused():
    with pytest.raises(ParameterError, match="Box, L1Ball"):
        check_algorithm(algorithm(), domain="box")
    with pytest.raises(ParameterError, match="Box, L1Ball"):
        check_query(Shift(np.zeros(2)), domain=[])
    assert check_query(query_class()(np.zeros(2)), domain=[BOX, recoup.L2Ball([0, 0], [1, 1])]).passed


def test_the_tutorial_names_every_check():
    page = (Path(__file__).parents[3] / "docs" / "your-own.md").read_text(encoding="utf-8")
    named = {name.strip() for row in page.splitlines() if row.startswith("| ") for name in row.split("|")[1].split(",")}
    assert set(RULES) <= named
