"""DP-KMEANS, the paper's Algorithm 1: Lloyd's iteration with a noisy count and a noisy sum for each cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.kmeans.base import ClusteringAlgorithm, spread_centers
from recoup.errors import ParameterError
from recoup.maxent.consistency import voronoi_cells_of
from recoup.queries.base import Array, check_size
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class KMeans(ClusteringAlgorithm):
    """The paper's Algorithm 1: equal rounds, half of each for the counts and half for the sums.

    Args:
        n_clusters: K.
        n_rounds: T; the paper uses 5.

    Guarantees: round t asks for epsilon / T; over T rounds the whole budget is asked for. In the unit L1 ball that is
    noise of scale 2T / epsilon on counts and sums.

    >>> KMeans(n_clusters=3).n_rounds
    5
    """

    n_clusters: int
    n_rounds: int = 5

    type_name: ClassVar[str] = "kmeans-lloyd"
    refit_restarts: ClassVar[int] = 10  # beside the last iterate, which is a good start
    has_iterates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        ClusteringAlgorithm.__post_init__(self)
        object.__setattr__(self, "n_rounds", whole_number(self.n_rounds, "n_rounds"))

    def next_request(self, context: Context, rounds: Sequence[Round], rng: np.random.Generator) -> Request | None:
        """Ask for counts and sums around the current centres; none after the last round."""
        if len(rounds) >= self.n_rounds:
            return None
        check_size(self.n_clusters * (1 + context.domain.n_columns))
        centers = self.estimate(context, rounds) if rounds else spread_centers(context.domain, self.n_clusters, rng)
        half = Fraction(1, 2)
        query = VoronoiQuery(centers=centers)
        return Request(query=query, share=Fraction(1, self.n_rounds), split={"count": half, "sum": half})

    def estimate(self, context: Context, rounds: Sequence[Round]) -> Array:
        """The last iterate: noisy sum over noisy count, kept inside the domain."""
        if not rounds:
            raise ParameterError("there is no last iterate before the first round.")
        return noisy_means(context, rounds[-1])

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """As many as were asked for."""
        return self.n_rounds, False


def noisy_means(context: Context, answered: Round) -> Array:
    """The centre of each cell of a round with absolute sums; a cell with a noisy count below 1 keeps its old centre."""
    if not as_cells(answered.query, "absolute"):
        raise ParameterError("only a round of counts and absolute sums has means.")
    return voronoi_cells_of([answered])[0].means(context)
