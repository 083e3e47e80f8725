"""Read the rounds of a transcript as cells with noisy counts and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recoup.errors import ParameterError
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.context import Context
from recoup.transcript.round import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """One round of a Voronoi query: noisy counts and absolute sums of its cells, with their noise scales."""

    centers: Array
    counts: Array
    count_scales: Array
    sums: Array | None = None
    sum_scales: Array | None = None

    def means(self, context: Context) -> Array:
        """Sum over count, inside the domain; a cell with a count below 1 keeps the centre of its query."""
        return self.centers if self.sums is None else _means(context, self.centers, self.counts, self.sums)


def noisy_means_of(context: Context, answered: Round) -> Array | None:
    """Where a round alone would put the middle of each of its cells; relative sums are offsets from it; none without.

    A cell with a count below 1 keeps the centre of its query.
    """
    query = as_cells(answered.query, "absolute", "relative")
    if query is None:
        return None
    counts, sums = answered.noisy[: query.n_cells], answered.noisy[query.n_cells :].reshape(query.centers.shape)
    return _means(context, query.centers, counts, sums, query.centers if query.sums == "relative" else None)


def _means(context: Context, centers: Array, counts: Array, sums: Array, start: Array | None = None) -> Array:
    usable = counts >= 1.0
    means = sums / np.where(usable, counts, 1.0)[:, None]
    if start is not None:
        means = start + means
    return context.domain.clip(np.where(usable[:, None], means, centers))


def voronoi_cells_of(rounds: Sequence[Round]) -> list[Cells]:
    """Read rounds of counts, with or without absolute sums; other queries are refused."""
    cells = []
    for answered in rounds:
        query = as_cells(answered.query, "none", "absolute")
        if query is None:
            raise ParameterError(
                "this method reads rounds of counts and absolute sums (DP-KMEANS) only; use another method."
            )
        noisy, scales, k = answered.noisy, answered.scales, query.n_cells
        has_sums = query.sums == "absolute"
        cells.append(
            Cells(
                centers=query.centers,
                counts=noisy[:k],
                count_scales=scales[:k],
                sums=noisy[k:].reshape(query.centers.shape) if has_sums else None,
                sum_scales=scales[k:].reshape(query.centers.shape) if has_sums else None,
            )
        )
    if not cells:
        raise ParameterError("the transcript holds no round to infer from.")
    return cells
