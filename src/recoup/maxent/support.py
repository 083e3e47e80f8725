"""Where an inferred measure may live: points drawn around what was released, never around records.

A first look (a grid or marginals, denoised) says roughly where records are, the means of cells say it better, and the
measure of a pass before says where the mass went. Each part is drawn here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from recoup.domain import uniform_points
from recoup.maxent.consistency import Cells
from recoup.maxent.fine_grid import denoised, likely_counts
from recoup.maxent.newton import Solution
from recoup.queries.base import Array, of_kind
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_UNIFORM_SHARE = 0.03
_SPREADS = (0.02, 0.05, 0.1, 0.2)  # around means
_JITTERS = (0.02, 0.05, 0.1)  # around points of a pass before
LARGEST_MEAN_ERROR = 0.3  # of a cell's mean, where the unit domain is 2 wide: beyond, points around it are anywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Weighted points of the unit domain that explain the rounds."""

    points: Array  # (m, d) support
    weights: Array  # (m,), of the inferred number of records
    solution: Solution | None  # the solver's certificate; none if there was nothing to explain


class Shares(NamedTuple):
    """How the support is composed once rounds with sums exist: shares of the first look, of cells, of the last pass."""

    first_look: float = 0.5
    cells: float = 0.35
    resampled: float = 0.15


_SHARES = Shares()


def drawn_support(
    context: Context,
    rounds: Sequence[Round],
    n_points: int,
    rng: np.random.Generator,
    *,
    total: float,
    last: Measure | None = None,
    shares: Shares = _SHARES,
) -> Array:
    """Points where rounds of counts and sums put records: their first look, their cells, and the last pass."""
    with_sums = [r for r in rounds if as_cells(r.query, "absolute", "relative")]
    n_cells = int(n_points * shares.cells) if with_sums else 0
    n_resampled = 0 if last is None else int(n_points * (shares.resampled if with_sums else 2 * shares.resampled))
    parts = [_from_first_look(context, rounds, total, n_points - n_cells - n_resampled, rng)]
    # Spreads are for the box; the unit balls are about half as wide.
    width = 1.0 if context.domain.kind == "box" else 0.5
    if n_cells:
        parts.append(_around_noisy_means(context, with_sums, n_cells, width, rng))
    if last is not None and n_resampled:
        parts.append(resampled(context, last, n_resampled, rng, width=width))
    return np.concatenate(parts)


def around_means(context: Context, cells: Sequence[Cells], n_points: int, rng: np.random.Generator) -> Array:
    """Points around the consistent means of all rounds, as often as their counts say."""
    means = np.concatenate([c.means(context) for c in cells])
    counts = np.concatenate([np.maximum(c.counts, 0.0) for c in cells])
    scales = np.concatenate([c.count_scales if c.sum_scales is None else c.sum_scales[:, 0] for c in cells])
    shares = counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1.0 / len(counts))
    return _around(context, means, scales / np.maximum(counts, 1e-9), shares, n_points, 1.0, rng)


def resampled(
    context: Context,
    measure: Measure,
    n_points: int,
    rng: np.random.Generator,
    *,
    jitters: tuple[float, ...] = _JITTERS,
    width: float = 1.0,
) -> Array:
    """Points of a measure, as often as their weights say, each moved a little."""
    chosen = rng.choice(len(measure.points), size=n_points, p=measure.weights / measure.weights.sum())
    return _jittered(context, measure.points[chosen], width * rng.choice(jitters, n_points), rng)


def _from_first_look(
    context: Context, rounds: Sequence[Round], total: float, n_points: int, rng: np.random.Generator
) -> Array:
    """The denoised grid, or the product of the denoised marginals, with some uniform points; without one, uniform."""
    look = next((r for r in rounds if marginals_of(r.query)), None)
    n_uniform = n_points if look is None else round(n_points * _UNIFORM_SHARE)
    parts = [uniform_points(context.domain, n_uniform, rng)]
    if look is not None:
        grid, noisy, n = as_grid(look.query), look.noisy, n_points - n_uniform
        columns = np.empty((n, context.domain.n_columns))
        columns[:] = uniform_points(context.domain, n, rng)
        start = 0
        for marginal in marginals_of(look.query):
            if grid is not None:
                weights = likely_counts(context.domain, grid, noisy, total)
            else:
                weights = denoised(noisy[start : start + marginal.size], total)
            start += marginal.size
            cells = rng.choice(marginal.size, size=n, p=weights / weights.sum())
            sides = np.array(marginal.sides)
            corner = np.stack(np.unravel_index(cells, marginal.sides), axis=1)
            columns[:, list(marginal.columns)] = (corner + rng.random(corner.shape)) / sides * 2.0 - 1.0
        parts.append(context.domain.clip(columns))
    return np.concatenate(parts)


def _around_noisy_means(
    context: Context, rounds: Sequence[Round], n_points: int, width: float, rng: np.random.Generator
) -> Array:
    """Points around the means of all cells with sums, as released; each round as often as any other."""
    means, errors, weights = [], [], []
    for answered in rounds:
        query = of_kind(answered.query, VoronoiQuery)
        k = query.n_cells
        counts = np.maximum(answered.noisy[:k], 0.0)
        count_scales = answered.scales[:k]
        divisor = np.maximum(counts, count_scales)
        offsets = answered.noisy[k:].reshape(query.centers.shape) / divisor[:, None]
        if query.radii is None:
            means.append(np.where((counts >= count_scales)[:, None], offsets, query.centers))
        else:
            length = np.abs(offsets).sum(axis=1) if query.norm == 1 else np.sqrt((offsets**2).sum(axis=1))
            means.append(query.centers + offsets * np.minimum(1.0, query.radii / np.maximum(length, 1e-12))[:, None])
        errors.append(answered.scales[k :: query.n_columns][:k] / divisor)
        weights.append(counts / max(counts.sum(), 1e-9) + 1e-12)
    weight = np.concatenate(weights)
    at = context.domain.clip(np.concatenate(means))
    return _around(context, at, np.concatenate(errors), weight / weight.sum(), n_points, width, rng)


def _around(
    context: Context, means: Array, errors: Array, shares: Array, n_points: int, width: float, rng: np.random.Generator
) -> Array:
    chosen = rng.choice(len(means), size=n_points, p=shares)
    known = np.minimum(errors, LARGEST_MEAN_ERROR)[chosen]
    spread = np.sqrt((width * rng.choice(_SPREADS, n_points)) ** 2 + known**2)
    return _jittered(context, means[chosen], spread, rng)


def _jittered(context: Context, points: Array, spread: Array, rng: np.random.Generator) -> Array:
    return context.domain.clip(points + spread[:, None] * rng.standard_normal(points.shape))
