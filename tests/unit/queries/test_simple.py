"""Base classes for queries and algorithms of your own: their JSON, their frozen fields, their defaults."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from recoup import Box, L1Ball
from recoup.custom import Query, Sensitivity, SimpleAlgorithm, SimpleQuery, bounded_block
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.queries.base import sum_of_contributions
from recoup.transcript.context import Context


@dataclass(frozen=True, eq=False)
class Everything(SimpleQuery):
    weights: np.ndarray
    n_columns: int = 2
    name: str = "a"
    sides: tuple = (1, 2.5, ("x", None))
    flag: bool = True
    type_name: ClassVar[str] = "test-everything"

    @property
    def size(self):
        return len(self.weights)

    def sensitivity(self, domain):
        return Sensitivity((bounded_block("value", self.size, l1=domain.sum_bound(1)),))

    def contribution(self, x):
        return (x[:, None, :] * self.weights).sum(axis=2)


def test_the_fields_survive_json_to_the_last_bit():
    query = Everything(np.random.default_rng(0).normal(size=(3, 2)), sides=(1, 2.5, ("x", None), (0.1 + 0.2,)))
    assert isinstance(query, Query)
    again = Everything.from_json(json.loads(json.dumps(query.to_json(), allow_nan=False)))
    assert again.weights.tobytes() == query.weights.tobytes()
    assert (again.n_columns, again.name, again.sides, again.flag) == (2, "a", query.sides, True)
    assert query.to_json()["type"] == "test-everything"


def test_arrays_are_read_only_copies_and_numbers_are_plain():
    mine = np.ones((2, 2), dtype=np.int32)
    query = Everything(mine, n_columns=np.int64(2))
    mine[0, 0] = 7
    assert query.weights[0, 0] == 1.0
    assert query.weights.dtype == np.float64
    assert type(query.n_columns) is int
    with pytest.raises(ValueError, match="read-only"):
        query.weights[0, 0] = 3


def test_arrays_of_any_shape_and_order_are_kept_alike():
    mine = np.array([1, 2])
    query = Everything(mine, n_columns=np.array(2), name=np.str_("b"))
    mine[0] = 7
    assert query.weights.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        query.weights[0] = 3
    assert (type(query.n_columns), type(query.name)) == (int, str)
    assert Everything(np.asfortranarray(np.arange(4.0).reshape(2, 2))).weights.flags.c_contiguous


@pytest.mark.parametrize("weights", [np.array([[np.nan, 1.0]]), np.empty((0, 2)), np.array([[np.inf, 1.0]])])
def test_an_array_that_json_cannot_keep_is_refused(weights):
    with pytest.raises(ParameterError, match="weights must hold numbers"):
        Everything(weights)


def test_a_field_without_json_is_refused_when_it_is_written():
    with pytest.raises(ParameterError, match="sides is a list"):
        Everything(np.ones((1, 2)), sides=[1]).to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"weights": [["1", "2"]]},
        {"weights": [[1, 2], [3]]},
        {"weights": []},
        {"weights": [[float("nan"), 1.0]]},
        {"sides": {"list": [1]}},
        {"sides": {"tuple": 3}},
    ],
)
def test_a_file_that_holds_something_else_is_refused(change):
    value = json.loads(json.dumps(Everything(np.ones((1, 2))).to_json()))
    with pytest.raises((TranscriptFormatError, ParameterError)):
        Everything.from_json(value | change)


def test_a_missing_field_is_refused():
    with pytest.raises(TranscriptFormatError, match="no other"):
        Everything.from_json({"type": "test-everything", "weights": [[1.0, 2.0]]})


def test_totals_are_the_sum_of_contributions():
    query, factors = Everything(np.array([[1.0, -2.0], [0.5, 0.25]])), np.array([1e6, 3e5])
    records = Box([0, 0], [1, 1]).fixed(np.random.default_rng(0).uniform(-1, 1, (50, 2)))
    total = query.integer_total(records, factors)
    np.testing.assert_array_equal(total, sum_of_contributions(query, records, factors))
    assert total.dtype == np.int64


def test_a_block_takes_one_bound_or_one_for_each_value():
    block = bounded_block("b", 3, l1=[1.0, 2.0, 3.0], total=1.0)
    assert block.l2.tolist() == block.l1.tolist() == [1.0, 2.0, 3.0]
    assert (block.total, block.ones) == (1.0, None)
    whole = bounded_block("b", 2, l1=2, l2=[1, 1])
    assert whole.l1.dtype == whole.l2.dtype == np.float64
    assert whole.l1.flags.writeable
    with pytest.raises(ValueError, match="broadcast"):
        bounded_block("b", 3, l1=[1.0, 2.0])


@dataclass(frozen=True)
class Fixed(SimpleAlgorithm):
    value: float = 0.25
    type_name: ClassVar[str] = "test-fixed"

    def next_request(self, context, rounds, rng):
        return None

    def estimate(self, context, rounds):
        return np.full(context.domain.n_columns, self.value)

    def refit(self, context, rounds, points, weights, rng):
        return self.estimate(context, rounds)


def test_an_algorithm_has_defaults_that_assume_nothing():
    algorithm = Fixed()
    assert algorithm.can_refit
    assert Fixed.from_json(json.loads(json.dumps(algorithm.to_json()))) == algorithm
    context = Context(domain=L1Ball([0, 0], [10, 20]), epsilon=1)
    points = algorithm.support(context, (), 400, np.random.default_rng(0))
    assert points.shape == (400, 2)
    assert context.domain.contains(points).all()
    assert np.abs(points.mean(axis=0)).max() < 0.15  # even over the ball: 6 standard errors
    assert algorithm.in_user_units(context, algorithm.estimate(context, ())).tolist() == [6.25, 12.5]
    assert algorithm.pseudo_records == 10.0


def test_the_docstring_names_everything_that_must_be_written():
    first = SimpleAlgorithm.__doc__.split(".")[1]
    assert SimpleAlgorithm.__abstractmethods__
    assert all(f"`{name}`" in first for name in SimpleAlgorithm.__abstractmethods__)
