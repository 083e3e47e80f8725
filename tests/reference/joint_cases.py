"""Several releases of one table, to be read together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import pytest

import recoup
from recoup.algorithms.kmeans.lloyd import spread_centers
from recoup.algorithms.registry import ALGORITHMS
from recoup.kernels.weighted_kmeans import weighted_inertia
from recoup.queries.counts import HistogramQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

K = 4
MIDDLES = np.array([[0.2, 0.2], [0.8, 0.3], [0.3, 0.8], [0.75, 0.75]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginals:
    """Every column's histogram, once; a clustering only so that it can be refitted."""

    n_clusters: int = K
    bins: int = 12

    type_name: ClassVar[str] = "test-marginals"

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        query = HistogramQuery.one_way(dimension=context.domain.n_columns, bins=self.bins)
        return None if rounds else Request(query=query, share=Fraction(1), split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Sequence[Round]) -> np.ndarray:
        return spread_centers(context.domain, self.n_clusters, np.random.default_rng(0))

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type_name, "n_clusters": self.n_clusters, "bins": self.bins}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(n_clusters=value["n_clusters"], bins=value["bins"])


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(MIDDLES[rng.integers(K, size=n)] + rng.normal(0, 0.05, (n, 2)), 0, 1)


MAKERS = {
    "grid": recoup.GridKMeans(n_clusters=K),
    "lloyd": recoup.KMeans(n_clusters=K, n_rounds=3),
    "adaptive": recoup.AdaptiveKMeans(n_clusters=K),
    "marginals": Marginals(),
}


def released(kind, *, seed=0, epsilon=0.5, domain=None, **more):
    domain = recoup.Box([0, 0], [1, 1]) if domain is None else domain
    more = {"noise": "simulated"} | more
    return recoup.release(
        MAKERS[kind], table(), domain=domain, epsilon=epsilon, random_state=seed, isolate=False, **more
    )


def loss(centers):
    return weighted_inertia(table(), np.ones(len(table())), centers)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, Marginals.type_name, Marginals)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
