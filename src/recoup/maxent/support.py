"""Where an inferred measure may live: points drawn around what was released, never around records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recoup.maxent.rounds import Cells
from recoup.queries.base import Array
from recoup.transcript.context import Context

_SPREADS = (0.02, 0.05, 0.1, 0.2)
_JITTERS = (0.01, 0.03, 0.08)
_LARGEST_CENTER_ERROR = 0.3


def around_means(
    cells: Sequence[Cells],
    context: Context,
    n_points: int,
    rng: np.random.Generator,
) -> Array:
    """Draw points around the consistent means of all rounds, as often as their counts say.

    Args:
        cells: the consistent rounds.
        context: domain and noise.
        n_points: how many.
        rng: harmless randomness.

    Returns:
        (n_points, d) points of the unit domain.
    """
    means = np.concatenate([c.means(context) for c in cells])
    counts = np.concatenate([np.maximum(c.counts, 0.0) for c in cells])
    scales = np.concatenate([c.count_scales if c.sum_scales is None else c.sum_scales[:, 0] for c in cells])
    share = counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1.0 / len(counts))
    chosen = rng.choice(len(means), size=n_points, p=share)
    error = np.minimum(scales / np.maximum(counts, 1e-9), _LARGEST_CENTER_ERROR)[chosen]
    spread = np.sqrt(rng.choice(_SPREADS, size=n_points) ** 2 + error**2)
    return context.domain.clip(means[chosen] + spread[:, None] * rng.standard_normal((n_points, means.shape[1])))


def resampled(points: Array, weights: Array, context: Context, n_points: int, rng: np.random.Generator) -> Array:
    """Draw points by their weights and move each a little.

    Args:
        points: (m, d) support in the unit domain.
        weights: (m,) the measure on it.
        context: the domain to stay in.
        n_points: how many.
        rng: harmless randomness.

    Returns:
        (n_points, d) points of the unit domain.
    """
    chosen = rng.choice(len(points), size=n_points, p=weights / weights.sum())
    jitter = rng.choice(_JITTERS, size=n_points)[:, None]
    return context.domain.clip(points[chosen] + jitter * rng.standard_normal((n_points, points.shape[1])))
