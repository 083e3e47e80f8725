"""The contract suite finds planted bugs, each by its rule and with its explanation."""

import numpy as np
import pytest
from planted_contracts import PLANTED, asking_by_round, tighter
from right_contract import BOX, Shift, algorithm, query_class

import recoup
from recoup.custom import Sensitivity, uniform_points
from recoup.errors import ContractViolation
from recoup.testing import check_algorithm, check_query
from recoup.testing.report import RULES

# A bug in one place is reported there and nowhere else: an explanation that comes with others is no explanation.
ALONE = {
    "both bounds 1 % too small",
    "a peak in the interior, 1 % too small",
    "divided by the number of records",
    "its input is changed",
    "shares above 1",
    "shares below 1",
    "a refit without the weights",
    "a query that is not registered",
    "an estimate that draws",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_and_explained(name, monkeypatch):
    monkeypatch.setattr("recoup.testing.algorithms._MOST_ROUNDS", 12)
    make, check, words = PLANTED[name]
    with pytest.raises(ContractViolation) as violation:
        check_algorithm(make(), domain=BOX)
    found = {failure.name: failure.message for failure in violation.value.report.failures}
    assert check in found, found
    assert words in found[check]
    assert found[check] in str(violation.value)
    if name in ALONE:
        others = {"integer total"} if name == "divided by the number of records" else set()
        assert set(found) == {check} | others


def test_every_rule_is_broken_by_a_planted_bug():
    assert set(PLANTED) >= ALONE
    assert {check for _, check, _ in PLANTED.values()} == set(RULES)


@pytest.mark.parametrize(("kind", "norm"), [(recoup.Box, 1), (recoup.L1Ball, 1), (recoup.L2Ball, 2)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_columns", [1, 3, 8])
def test_a_bound_that_is_too_small_by_one_percent_is_found_in_every_domain(kind, norm, n_columns, seed):
    rng = np.random.default_rng(seed)
    domain = kind([0.0] * n_columns, [1.0] * n_columns)
    center = uniform_points(domain, 1, rng)[0]
    good, bad = query_class(), query_class(sensitivity=tighter(0.99, only=(norm,)))
    # In these pairs of domain and norm the bound is reached: in a ball only where one does not know to look.
    assert check_query(good(center), domain=domain, random_state=seed).passed
    report = check_query(bad(center), domain=domain, random_state=seed, raise_on_failure=False)
    assert [failure.name for failure in report.failures] == ["sensitivity"]
    assert f"declared l{norm} bound" in report.failures[0].message


def test_a_bound_that_forgets_the_radius_of_the_ball_is_found_by_default():
    def sensitivity(self, domain):
        counts, shift = Shift.sensitivity(self, recoup.L1Ball(domain.low, domain.high)).blocks
        return Sensitivity((counts, shift))

    query = query_class(sensitivity=sensitivity)(np.zeros(2))
    assert check_query(query, domain=recoup.L1Ball([0, 0], [1, 1])).passed
    messages = str(check_query(query, raise_on_failure=False))
    assert "sensitivity" in messages


def test_arithmetic_that_depends_on_the_number_of_rows_is_found_to_the_last_bit():
    def contribution(self, x):
        rows = Shift.contribution(self, x)
        if len(x) > 1:  # what a library may do for many rows: another order of additions
            rows[:, 1:] = rows[:, 1:] * (1 + 2.0**-52)
        return rows

    report = check_query(query_class(contribution=contribution)(np.array([0.3, 0.1])), raise_on_failure=False)
    assert "one by one" in {failure.name for failure in report.failures}


def test_a_long_run_is_checked_at_its_last_round_too(monkeypatch):
    monkeypatch.setattr("recoup.testing.algorithms._MOST_QUERIES", 4)
    late = [None]

    def sensitivity(self, domain):
        factor = 0.5 if late[0] is not None and self.center[0] == late[0] else 1.0
        return tighter(factor)(self, domain)

    made = type(algorithm(query_class(sensitivity=sensitivity), **asking_by_round()))(n_rounds=9)
    late[0] = 8 / 100
    found = check_algorithm(made, domain=BOX, raise_on_failure=False).failures
    assert [failure.name for failure in found] == ["sensitivity"]
    assert "round 9" in found[0].message
