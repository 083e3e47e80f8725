"""A query and two algorithms as a user may write them, in a module that another process can import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from recoup.algorithms.kmeans.lloyd import ClusteringAlgorithm
from recoup.custom import Block, Request, Sensitivity, SimpleQuery
from recoup.queries.cells import VoronoiQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy(ClusteringAlgorithm):
    """One round of counts and sums around centres on the diagonal."""

    n_clusters: int

    type_name: ClassVar[str] = "kmeans-toy"

    def next_request(self, context, rounds, rng):
        return None if rounds else asked(context, self.n_clusters)

    def estimate(self, context, rounds):
        k, noisy = self.n_clusters, rounds[0].noisy
        means = noisy[k:].reshape(k, -1) / np.maximum(noisy[:k], 1.0)[:, None]
        return context.domain.clip(means)


def asked(context, n_clusters):
    centers = np.linspace(-0.9, 0.9, n_clusters)[:, None] * np.ones(context.domain.n_columns)
    half = Fraction(1, 2)
    return Request(query=VoronoiQuery(centers=centers), share=Fraction(1), split={"count": half, "sum": half})


@dataclass(frozen=True, slots=True, kw_only=True)
class Above(SimpleQuery):
    """How many records are above a value in the first of two columns, and how many are not."""

    value: float

    n_columns: ClassVar[int] = 2
    size: ClassVar[int] = 2

    type_name: ClassVar[str] = "toy-above"

    def sensitivity(self, domain):
        return Sensitivity((Block.of_counts("count", 2, ones=1),))  # every record raises one of the two

    def contribution(self, x):
        above = x[:, :1] > self.value
        return np.hstack([above, ~above]).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsksAbove:
    """An algorithm of one toy query, which derives from nothing."""

    value: float

    type_name: ClassVar[str] = "toy-share"

    def next_request(self, context, rounds, rng):
        return (
            None if rounds else Request(query=Above(value=self.value), share=Fraction(1), split={"count": Fraction(1)})
        )

    def estimate(self, context, rounds):
        return rounds[0].noisy

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type_name, "value": self.value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(value=value["value"])
