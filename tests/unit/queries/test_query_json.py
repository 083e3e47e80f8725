"""Queries as JSON: written, read, and refused for what is wrong."""

import numpy as np
import pytest

from recoup.errors import TranscriptFormatError
from recoup.queries import query_from_json, unknown
from recoup.queries.base import (
    read_array,
)
from recoup.queries.cells import VoronoiQuery


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"type": "eval"},
        {"type": "grid", "sides": "22"},
        {"type": "grid", "sides": [2.5]},
        {"type": "voronoi", "centers": [[0], [0, 1]], "sums": "none"},
        {"type": "voronoi", "centers": [["0"]], "sums": "absolute"},
        {"type": "voronoi", "centers": [[0]], "sums": "relative", "radii": [1], "norm": 7},
        {"type": "histogram", "dimension": 1, "marginals": [{"columns": [0]}]},
        {"type": "histogram", "dimension": "1", "marginals": []},
    ],
)
def test_json_that_is_no_query_is_refused(value):
    with pytest.raises(TranscriptFormatError):
        query_from_json(value)


def test_json_by_hand():
    assert VoronoiQuery(centers=[[0.5]], sums="none").to_json() == {
        "type": "voronoi",
        "centers": [[0.5]],
        "sums": "none",
    }
    relative = {"type": "voronoi", "centers": [[0.5]], "sums": "relative", "radii": [2.0], "norm": 2}
    assert query_from_json(relative).to_json() == relative
    gradient = {"type": "logistic-gradient", "coefficients": [0.5], "clip": 2.0, "norm": 1}
    assert query_from_json(gradient).to_json() == gradient
    assert query_from_json(gradient | {"clip": 2, "coefficients": [1]}).clip == 2.0
    mixed = {
        "type": "mixture",
        "means": [[0.5]],
        "weights": [1.0],
        "variances": [2.0],
        "radii": [3.0],
        "reaches": [4.0],
    }
    assert query_from_json(mixed | {"norm": 1}).to_json() == mixed | {"norm": 1}
    assert query_from_json({"type": "power", "directions": [[1]]}).to_json() == {"type": "power", "directions": [[1.0]]}
    marginals = [{"columns": [0], "sides": [2]}, {"columns": [1, 0], "sides": [3, 4]}]
    histogram = {"type": "histogram", "dimension": 2, "marginals": marginals}
    assert query_from_json(histogram).to_json() == histogram
    assert query_from_json({"type": "grid", "sides": [2, 3]}).to_json() == {"type": "grid", "sides": [2, 3]}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "known are moments, power, voronoi, grid, histogram, logistic-gradient, mixture"),
        ({}, "unknown type"),
        ({"type": "grid"}, "a grid's sides"),
        ({"type": "grid", "sides": {"0": 1}}, "a grid's sides"),
        ({"type": "grid", "sides": [0]}, "cannot be used: a marginal's columns"),
        ({"type": "moments"}, "dimension must be a whole number"),
        ({"type": "moments", "dimension": True}, "dimension must be a whole number"),
        ({"type": "moments", "dimension": 2.0}, "dimension must be a whole number"),
        ({"type": "moments", "dimension": 0}, "cannot be used: dimension=0"),
        ({"type": "power"}, "query field 'directions'"),
        ({"type": "power", "directions": [1.0]}, "must be a 2-dimensional"),
        ({"type": "voronoi", "centers": [[0]]}, "sums must be one of none, absolute, relative"),
        ({"type": "voronoi", "centers": [0.5], "sums": "none"}, "'centers' must be a 2-dimensional"),
        ({"type": "voronoi", "centers": [[0]], "sums": "relative", "norm": 1}, "'radii' must be a 1-dimensional"),
        ({"type": "logistic-gradient", "coefficients": [0.0], "norm": 1}, "misses clip"),
        ({"type": "logistic-gradient", "coefficients": [0.0], "clip": 1}, "misses norm"),
        ({"type": "logistic-gradient", "coefficients": [0.0]}, "misses clip, norm"),
        (
            {"type": "logistic-gradient", "coefficients": [[0.0]], "clip": 1, "norm": 1},
            "'coefficients' must be a 1-dim",
        ),
        ({"type": "mixture", "means": [[0]], "weights": [1], "variances": [1], "radii": [1], "reaches": [1]}, "norm=0"),
        ({"type": "mixture", "means": [[0]], "weights": [1], "variances": [1], "radii": [1], "norm": 1}, "'reaches'"),
        ({"type": "histogram", "dimension": 1}, "list of columns and sides"),
        ({"type": "histogram", "dimension": 1, "marginals": [3]}, "list of columns and sides"),
        ({"type": "histogram", "dimension": 1, "marginals": [{"columns": "0", "sides": [1]}]}, "list of columns"),
        ({"type": "histogram", "dimension": 1, "marginals": [{"columns": [0], "sides": "1"}]}, "list of columns"),
        ({"type": "histogram", "marginals": [{"columns": [0], "sides": [1]}]}, "used: dimension must be whole"),
        ({"type": "histogram", "dimension": 1, "marginals": [{"columns": [0], "sides": [1]}, 3]}, "list of columns"),
    ],
)
def test_json_that_is_no_query_is_refused_for_what_it_is(value, message):
    with pytest.raises(TranscriptFormatError, match=message):
        query_from_json(value)


@pytest.mark.parametrize(
    "items",
    [
        None,
        "1",
        1.0,
        ["1"],
        [None],
        [True],
        [[1], [2, 3]],
        [1j],
        [float("nan")],
        [float("inf")],
        [10**400],
        {"a": 1},
        [1.0, float("nan")],
        [1.5, 10**400],
        (1.0,),
        [[1.0]],
    ],
)
def test_what_is_no_array_of_numbers_is_refused(items):
    with pytest.raises(TranscriptFormatError, match="query field 'a' must be"):
        read_array({"a": items}, "a", 1)


def test_arrays_are_read_as_floats():
    assert read_array({"a": [1, 2]}, "a", 1).dtype == np.float64
    assert read_array({"a": [[1.5], [2.0]]}, "a", 2).tolist() == [[1.5], [2.0]]


def test_the_name_of_an_unknown_type_is_quoted_up_to_a_length():
    assert f"the query '{'a' * 60}' is not one" in str(unknown("query", "a" * 60))
    assert f"the query '{'a' * 60}...' is not one" in str(unknown("query", "a" * 61))
    assert r"'\xfc\n'" in str(unknown("query", "ü\n"))
