"""What `refit` and `register` refuse, so that no answer is silently that of another table."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from recoup import Box, InferredDataset, KMeans, infer, refit, register, release
from recoup.algorithms.registry import ALGORITHMS
from recoup.errors import ParameterError
from recoup.queries import QUERIES
from recoup.queries.cells import VoronoiQuery


@pytest.fixture(scope="module")
def transcript():
    x = pd.DataFrame(np.random.default_rng(0).uniform(size=(200, 2)), columns=["a", "b"])
    return release(KMeans(n_clusters=3, n_rounds=2), x, domain=Box([0, 0], [1, 1], ("a", "b")), epsilon=1)


@pytest.fixture(scope="module")
def data(transcript):
    return infer(transcript, n_points=500, random_state=0)


@pytest.mark.parametrize(
    "change",
    [
        {"points": np.zeros((5, 1)), "weights": np.ones(5)},
        {"points": np.zeros((5, 3)), "weights": np.ones(5)},
        {"points": np.zeros((0, 2)), "weights": np.ones(0)},
        {"points": np.full((5, 2), np.nan), "weights": np.ones(5)},
        {"points": np.zeros((5, 2)), "weights": np.full(5, np.nan)},
        {"points": np.zeros((5, 2)), "weights": np.zeros(5)},
        {"points": np.zeros((5, 2)), "weights": -np.ones(5)},
        {"points": np.zeros((5, 2)), "weights": np.ones(4)},
        {"points": np.full((5, 2), 50.0), "weights": np.ones(5)},
        {"columns": ("income", "debt")},
    ],
)
def test_data_of_another_table_is_refused(transcript, data, change):
    with pytest.raises(ParameterError):
        refit(transcript, dataclasses.replace(data, **change))


def test_other_objects_are_refused(transcript, data):
    with pytest.raises(ParameterError, match="inferred is a str"):
        refit(transcript, "x")
    with pytest.raises(ParameterError, match="transcript is a list"):
        refit([transcript, transcript], data)


def test_points_on_the_bounds_are_inside(transcript):
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    data = InferredDataset(points=corners, weights=np.ones(4), columns=("a", "b"), method="maxent", simulated=False)
    assert refit(transcript, data).shape == (3, 2)


class WithoutJson:
    """A query that cannot be read back."""

    type_name = "without-json"

    def contribution(self, x):
        return x


class Impostor(VoronoiQuery):
    """Another class under a taken name."""


@pytest.mark.parametrize("kinds", [(WithoutJson,), (Impostor,), (3,), (dict,), (VoronoiQuery, Impostor)])
def test_register_refuses_and_then_changes_nothing(kinds):
    before = dict(QUERIES), dict(ALGORITHMS)
    with pytest.raises(ParameterError):
        register(*kinds)
    assert before == (QUERIES, ALGORITHMS)


def test_a_class_made_by_a_function_does_not_replace_another_one(monkeypatch):
    def made(sign):
        class Made(VoronoiQuery):
            type_name = "made-by-a-function"

            def contribution(self, x):
                return sign * super().contribution(x)

        return Made

    first = made(1)
    monkeypatch.delitem(QUERIES, "made-by-a-function", raising=False)
    register(first)
    register(first)
    with pytest.raises(ParameterError, match="is taken by"):
        register(made(-1))
    assert QUERIES.pop("made-by-a-function") is first
