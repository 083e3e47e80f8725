"""The price of a selection, without any drawing: every small score vector and every neighbour of it, by enumeration."""

import itertools
import math

import pytest
from rival_cases import winner_law, winners_law

MOVE, SCALE = 2, 3.0
CLAIM = MOVE / SCALE


def largest_loss(n_candidates, moves, law, claim_per_winner=CLAIM):
    """The largest |log ratio| of any outcome over all scores and neighbours, as a multiple of the claim."""
    largest = 0.0
    for scores in itertools.product(range(4), repeat=n_candidates):
        before = law(dict(enumerate(scores)))
        for move in itertools.product(moves, repeat=n_candidates):
            after = law({i: scores[i] + move[i] for i in range(n_candidates)})
            largest = max(largest, max(abs(math.log(after[o] / before[o])) for o in before))
    return largest / claim_per_winner


@pytest.mark.parametrize("n_candidates", [2, 3])
def test_scores_that_move_in_one_direction_cost_the_move_over_the_scale_and_no_less(n_candidates):
    found = largest_loss(n_candidates, range(MOVE + 1), lambda scores: winner_law(scores, SCALE))
    assert 0.99 < found <= 1 + 1e-12


def test_scores_that_move_either_way_would_cost_twice_as_much():
    found = largest_loss(2, range(-MOVE, MOVE + 1), lambda scores: winner_law(scores, SCALE))
    assert 1.99 < found <= 2 + 1e-12


def test_two_winners_cost_more_than_one_and_at_most_two():
    def law(scores):
        return winners_law(scores, 2, SCALE)

    assert largest_loss(3, range(MOVE + 1), law) > 1.2
    assert largest_loss(3, range(MOVE + 1), law, claim_per_winner=2 * CLAIM) <= 1 + 1e-12
