"""The public terms of a release: what is read how, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest

from recoup.domain import Box
from recoup.errors import BudgetError, ParameterError
from recoup.privacy.gaussian import amount_of
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context, Request

BOX = Box([0], [1])


def test_epsilon_is_read_as_the_decimal_that_was_typed():
    assert Context(domain=BOX, epsilon=0.1).epsilon == Fraction(1, 10)
    assert Context(domain=BOX, epsilon="0.3").budget.amount == Fraction(3, 10)


@pytest.mark.parametrize(
    ("more", "measure"),
    [
        ({}, "gaussian"),
        ({"accounting": "zcdp"}, "zcdp"),
        ({"n_records": 2**37}, "gaussian"),  # 2^24 steps between neighbours, the fewest of the proof
        ({"n_records": 2**37 + 1}, "zcdp"),
        ({"n_records": 2**37 + 1, "records_per_person": 2}, "gaussian"),
    ],
)
def test_gaussian_noise_is_priced_exactly_where_that_is_proved(more, measure):
    context = Context(domain=BOX, epsilon=1, delta=1e-6, mechanism="gaussian", **more)
    assert context.budget.measure == context.calibrated(Fraction(1, 2)).price.measure == measure
    assert context.budget.amount == amount_of(measure, Fraction(1), Fraction(1, 10**6))
    assert ("accounting" in context.to_json()) == (measure == "gaussian")
    assert Context(domain=BOX, epsilon=1, delta=1e-6, **more).budget_measure == "pure"


def test_an_accounting_is_one_of_two():
    with pytest.raises(ParameterError, match="accounting"):
        Context(domain=BOX, epsilon=1, accounting="renyi")


@pytest.mark.parametrize("epsilon", [0, -1, np.nan, np.inf, "x", None, True, [1], 1e200])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(BudgetError):
        Context(domain=BOX, epsilon=epsilon)


@pytest.mark.parametrize("delta", [1, 2, -0.1, np.nan])
def test_bad_deltas_are_refused(delta):
    with pytest.raises(BudgetError):
        Context(domain=BOX, epsilon=1, delta=delta)


def test_other_bad_terms_are_refused():
    with pytest.raises(BudgetError, match="delta above 0"):
        Context(domain=BOX, epsilon=1, mechanism="gaussian")
    with pytest.raises(ParameterError, match="mechanism"):
        Context(domain=BOX, epsilon=1, mechanism="uniform")
    for name in ("n_records", "records_per_person"):
        for value in (0, -1, 1.5, True, "3"):
            with pytest.raises(ParameterError, match=name):
                Context(domain=BOX, epsilon=1, **{name: value})
    with pytest.raises(ParameterError, match="records_per_person"):
        Context(domain=BOX, epsilon=1, records_per_person=2**21)


def test_records_per_person_multiply_the_distance():
    assert Context(domain=BOX, epsilon=1, records_per_person=3).distance == 3 * 2**30


def test_a_request_must_ask_for_a_share():
    for share in (Fraction(0), Fraction(-1), Fraction(3, 2)):
        with pytest.raises(ParameterError, match="share"):
            Request(query=GridQuery(sides=(2,)), share=share, split={"count": Fraction(1)})


def test_terms_are_frozen():
    with pytest.raises(AttributeError):
        Context(domain=BOX, epsilon=1).epsilon = 2


def test_a_domain_is_a_domain():
    with pytest.raises(ParameterError, match="domain is a str: give a Box, L1Ball or L2Ball"):
        Context(domain="box", epsilon=1)


KEY = "0123456789abcdef" * 2


def test_persons_are_the_unit_and_a_sample_is_priced_for_all_that_is_kept():
    mean = Context(domain=BOX, epsilon=1, person="who")
    assert (mean.per_person, str(mean.unit), mean.distance) == ("mean", "one person, by column 'who'", mean.sensitivity)
    kept = Context(domain=BOX, epsilon=1, person="who", per_person="sample", records_per_person=3, sample_key=KEY)
    assert (kept.unit, kept.distance) == (mean.unit, 3 * kept.sensitivity)
    assert kept.per_person_words == "at most 3 records of each person, chosen by a keyed hash"
    by_lines = Context(domain=BOX, epsilon=1, person="who", csv_dialect="lines")
    assert str(by_lines.unit) == "one person by lines, by column 'who'"


def test_persons_are_in_the_terms_where_there_are_such():
    assert not {"person", "per_person", "sample_key"} & set(Context(domain=BOX, epsilon=1).to_json())
    mean = Context(domain=BOX, epsilon=1, person="who").to_json()
    assert (mean["person"], mean["per_person"], "sample_key" in mean) == ("who", "mean", False)
    kept = Context(domain=BOX, epsilon=1, person="who", per_person="sample", sample_key=KEY).to_json()
    assert kept["sample_key"] == KEY


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"per_person": "mean"}, "per_person needs person"),
        ({"sample_key": KEY}, "sample_key needs person"),
        ({"person": ""}, "person is the name of a column"),
        ({"person": 3}, "person is the name of a column, not int"),
        ({"person": "who", "per_person": "median"}, "choose one of mean, sample"),
        ({"person": "who", "records_per_person": 2}, "the mean of a person's records is one row"),
        ({"person": "who", "sample_key": KEY}, "32 hexadecimal digits"),
        ({"person": "who", "per_person": "sample", "sample_key": KEY[:31]}, "32 hexadecimal digits"),
        ({"person": "who", "per_person": "sample", "records_per_person": 0}, "records_per_person=0"),
    ],
)
def test_terms_of_persons_that_cannot_be_kept_are_refused(terms, words):
    with pytest.raises(ParameterError, match=words):
        Context(domain=BOX, epsilon=1, **terms)
