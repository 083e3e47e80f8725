"""The curator by hand: what a refusal says, what the ledger is told, and the round that leaves."""

from fractions import Fraction

import numpy as np
import pytest
from cases import RecordingNoise, context, request
from own_queries import First

from recoup import Box, Ledger
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import BudgetExceededError, ParameterError
from recoup.queries.counts import GridQuery

BOX = Box([0, 0], [1, 1])
GRID = GridQuery(sides=(2, 1))


def curator(ledger=None, **more):
    return Curator(open_source(np.full((5, 2), 0.9), BOX), context(BOX), ledger=ledger, **more)


def test_a_refusal_counts_in_shares_of_the_release():
    asked = request(GRID, BOX, Fraction(1, 2))
    with pytest.raises(BudgetExceededError, match="shares of this release") as refusal:
        curator(spent=Fraction(2, 3)).answer(asked)
    assert (refusal.value.spent, refusal.value.asked, refusal.value.left) == (
        Fraction(2, 3), Fraction(1, 2), Fraction(1, 3),
    )  # fmt: skip
    assert curator(spent=Fraction(1, 2)).answer(asked).share == Fraction(1, 2)


def test_a_curator_begins_with_the_whole_budget_and_no_more():
    fresh = curator()
    for _ in range(2):
        fresh.answer(request(GRID, BOX, Fraction(1, 2)))
    with pytest.raises(BudgetExceededError, match="shares of this release") as refusal:
        fresh.answer(request(GRID, BOX, Fraction(1, 10**6)))
    assert (refusal.value.spent, refusal.value.left) == (1, 0)


def test_the_ledger_is_told_run_price_and_purpose():
    ledger = Ledger.in_memory(epsilon=1)
    answered = curator(ledger, run="run 7").answer(request(GRID, BOX, Fraction(1, 4)))
    curator(ledger).answer(request(GridQuery(sides=(1, 1)), BOX, Fraction(1, 4)), RecordingNoise())
    first, second = ledger.entries()
    assert (first.run, first.purpose, first.amount) == ("run 7", "grid query of 2 values", answered.price.amount)
    assert (second.run, second.purpose) == ("", "NOT PRIVATE: simulated noise; grid query of 1 value")


def test_columns_are_checked_even_if_the_query_does_not():
    with pytest.raises(ParameterError, match="a query over 1 columns for a domain of 2"):
        curator().answer(request(First(), BOX))
    assert curator().answer(request(First(2), BOX)).query == First(2)


def test_the_round_holds_what_was_drawn():
    noise = RecordingNoise()
    answered = curator().answer(request(GRID, BOX, Fraction(1, 2)), noise)
    assert noise.calls == [("laplace", [0, 5 * 2**30], 2.0**31)]
    assert len(answered.integers) == 2
    assert isinstance(answered.integers, tuple)
    assert (answered.weights, answered.scale, answered.share) == ((2**30,), 2.0**31, Fraction(1, 2))
    assert (answered.price.measure, answered.price.amount) == ("pure", Fraction(1, 2))


def test_a_person_with_several_records_gets_as_much_more_noise():
    noise = RecordingNoise()
    Curator(open_source(np.zeros((1, 2)), BOX), context(BOX, records_per_person=3)).answer(request(GRID, BOX), noise)
    assert noise.calls[0][2] == 3 * 2.0**30
