"""A right query and a right algorithm, from which bugs are made by replacing some members."""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

import recoup
from recoup.custom import Block, Request, Sensitivity, SimpleAlgorithm, SimpleQuery, bounded_block, uniform_points

BOX = recoup.Box([0.0, -5.0], [1.0, 5.0])
NUMBERS = itertools.count()


@dataclass(frozen=True, eq=False)
class Shift(SimpleQuery):
    """A count, and the sum of x - center: the right one, from which the bugs are made."""

    center: np.ndarray
    type_name: ClassVar[str] = "test-shift"

    @property
    def n_columns(self):
        return len(self.center)

    @property
    def size(self):
        return 1 + len(self.center)

    def sensitivity(self, domain):
        l1 = (domain.sum_bound(1) + np.abs(self.center).sum()) * (1 + 1e-9)
        l2 = (domain.sum_bound(2) + np.sqrt((self.center**2).sum())) * (1 + 1e-9)
        return Sensitivity((Block.of_counts("count", 1), bounded_block("shift", self.size - 1, l1=l1, l2=l2)))

    def contribution(self, x):
        return np.concatenate([np.ones((len(x), 1)), x - self.center], axis=1)


@dataclass(frozen=True)
class Mean(SimpleAlgorithm):
    """The mean, in rounds that each ask for the shift from where the last one ended."""

    n_rounds: int = 3
    type_name: ClassVar[str] = "test-mean"
    query: ClassVar[type] = Shift

    def next_request(self, context, rounds, rng):
        if len(rounds) >= self.n_rounds:
            return None
        center = self.estimate(context, rounds) if rounds else uniform_points(context.domain, 1, rng)[0]
        half = Fraction(1, 2)
        return Request(query=self.query(center), share=Fraction(1, self.n_rounds), split={"count": half, "shift": half})

    def estimate(self, context, rounds):
        noisy = rounds[-1].noisy
        return context.domain.clip(rounds[-1].query.center + noisy[1:] / max(noisy[0], 1.0))

    def refit(self, context, rounds, points, weights, rng):
        return np.average(points, axis=0, weights=weights)


def query_class(**members):
    """The right query with some members replaced, registered."""
    name = f"test-shift-{next(NUMBERS)}"
    made = dataclass(frozen=True, eq=False)(type("PlantedQuery", (Shift,), {"type_name": name, **members}))
    recoup.register(made)
    return made


def algorithm(query=None, **members):
    """The right algorithm with some members, or its query's class, replaced; registered."""
    name = f"test-mean-{next(NUMBERS)}"
    query = Shift if query is None else query
    made = dataclass(frozen=True)(type("Planted", (Mean,), {"type_name": name, "query": query, **members}))
    recoup.register(Shift, made)
    return made()


def asks_with(**members):
    """The right algorithm, asking a query in which some members are replaced."""
    return algorithm(query_class(**members))
