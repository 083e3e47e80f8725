"""Where an inferred measure may live: points drawn around what was released, never around records.

A first look (a grid or marginals, denoised) says roughly where records are, the means of cells say it better, and the
measure of a pass before says where the mass went. A grid may have a million cells: those that no record can reach are
left out, and the rest is read in blocks of whole cells, whose sums are measurements like any other. In few columns,
bins are merged alike along each; in more, blocks are small where the released counts are high, and large elsewhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from recoup._random import Rng
from recoup.domain import Domain, uniform_points
from recoup.maxent.consistency import Cells, Rounds
from recoup.maxent.newton import Solution
from recoup.queries.base import Array, Integers, Partition, of_kind
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.queries.counts import GridQuery, as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_UNIFORM_SHARE = 0.03
_SPREADS = (0.02, 0.05, 0.1, 0.2)  # around means
_JITTERS = (0.02, 0.05, 0.1)  # around points of a pass before
LARGEST_MEAN_ERROR = 0.3  # of a cell's mean, where the unit domain is 2 wide: beyond, points around it are anywhere
_MOST_ROWS = 600
_OVERSAMPLED = 8  # points of a first look, from which those of a closer one are drawn
_MERGED_COLUMNS = 3
_INSIDE = 1.0 - 2.0**-42  # of a ball's radius; records keep a little more inside: a cell that only touches is empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Weighted points of the unit domain that explain the rounds."""

    points: Array  # (m, d) support
    weights: Array  # (m,), of the inferred number of records
    solution: Solution | None  # the solver's certificate; none if there was nothing to explain


def drawn_support(
    context: Context,
    rounds: Rounds,
    n_points: int,
    rng: Rng,
    *,
    total: float,
    last: Measure | None = None,
    cells: float = 0.35,
    from_last: float = 0.15,
) -> Array:
    """Points where rounds of counts and sums put records: of cells, of the last pass, and else of a first look."""
    with_sums = [r for r in rounds if as_cells(r.query, "absolute", "relative")]
    n_cells = int(n_points * cells) if with_sums else 0
    n_resampled = 0 if last is None else int(n_points * (from_last if with_sums else 2 * from_last))
    parts = [from_first_look(context, rounds, total, n_points - n_cells - n_resampled, rng)]
    # Spreads are for the box; the unit balls are about half as wide.
    width = 0.5 if context.domain.kind in ("l1", "l2") else 1.0
    if n_cells:
        parts.append(_around_noisy_means(context, with_sums, n_cells, width, rng))
    if last is not None and n_resampled:
        parts.append(resampled(context, last, n_resampled, rng, [width * jitter for jitter in _JITTERS]))
    return np.concatenate(parts)


def around_means(context: Context, cells: Sequence[Cells], n_points: int, rng: Rng) -> Array:
    """Points around the consistent means of all rounds, as often as their counts say."""
    means = np.concatenate([c.means(context) for c in cells])
    counts = np.concatenate([np.maximum(c.counts, 0.0) for c in cells])
    scales = np.concatenate([c.count_scales if c.sum_scales is None else c.sum_scales[:, 0] for c in cells])
    shares = counts / counts.sum() if counts.sum() > 0 else np.full(len(counts), 1.0 / len(counts))
    return _around(context, means, scales / np.maximum(counts, 1e-9), shares, n_points, 1.0, rng)


def resampled(context: Context, measure: Measure, n_points: int, rng: Rng, jitters: Sequence[float]) -> Array:
    """Points of a measure, as often as their weights say, each moved a little."""
    chosen = rng.choice(len(measure.points), size=n_points, p=measure.weights / measure.weights.sum())
    return _jittered(context, measure.points[chosen], rng.choice(jitters, n_points), rng)


def from_first_look(
    context: Context, rounds: Rounds, total: float, n_points: int, rng: Rng, uniform_share: float = _UNIFORM_SHARE
) -> Array:
    """The denoised grid, or the product of the denoised marginals, with some uniform points; without one, uniform."""
    look = next(iter(looks_of(rounds)), None)
    if look is None:
        return uniform_points(context.domain, n_points, rng)
    n_uniform = round(n_points * uniform_share)
    uniform, n_wanted = uniform_points(context.domain, n_uniform, rng), n_points - n_uniform
    closer = closer_look(rounds, look)
    n = n_wanted * _OVERSAMPLED if closer else n_wanted
    n_even = n // 4 if closer else 0  # a cell that seemed empty at first is drawn from too
    columns, start = np.array(uniform_points(context.domain, n, rng), order="C"), 0
    grid, noisy = as_grid(look.query), look.noisy
    for marginal in marginals_of(look.query):
        if grid is not None:
            weights = likely_counts(context.domain, grid, noisy, total)
        else:
            weights = denoised(noisy[start : start + marginal.size], total)
        start += marginal.size
        cells = rng.choice(marginal.size, size=n - n_even, p=weights / weights.sum())
        columns[n_even:, list(marginal.columns)] = marginal.drawn(cells, rng)
    columns = context.domain.clip(columns)
    for answered in closer:
        columns = _redrawn(answered, columns, n_wanted, total, rng)
    return np.concatenate([uniform, columns])


def looks_of(rounds: Rounds) -> list[Round]:
    """The grids and marginals, without a grid that only decided on the one that follows it."""
    following = [*rounds[1:], None]
    pairs = zip(rounds, following, strict=True)
    return [
        look
        for look, after in pairs
        if marginals_of(look.query) and not (as_grid(look.query) and after is not None and as_grid(after.query))
    ]


def closer_look(rounds: Rounds, look: Round) -> Rounds:
    """The round after a grid, if it counts records in cells of any shape with less noise; else none."""
    at = next(i for i, answered in enumerate(rounds) if answered is look)
    following = rounds[at + 1 : at + 2] if as_grid(look.query) else []
    return [
        answered
        for answered in following
        if (cells := as_cells(answered.query, "none")) and cells.n_cells > 1 and answered.scales[0] < look.scales[0]
    ]


def _redrawn(closer: Round, points: Array, n_points: int, total: float, rng: Rng) -> Array:
    """So many of the points, drawn as often as a closer look says that there are records in their cells."""
    query = of_kind(closer.query, VoronoiQuery)
    cells = query.cells(points)
    here = np.bincount(cells, minlength=query.n_cells)
    shares = (denoised(closer.noisy, total) / np.maximum(here, 1))[cells]
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(points), 1.0 / len(points))
    return points[rng.choice(len(points), size=n_points, p=shares)]


def _around_noisy_means(context: Context, rounds: Rounds, n_points: int, width: float, rng: Rng) -> Array:
    """Points around the means of all cells with sums, as released; each round as often as any other."""
    means, errors, weights = [], [], []
    for answered in rounds:
        query = of_kind(answered.query, VoronoiQuery)
        k = query.n_cells
        counts = np.maximum(answered.noisy[:k], 0.0)
        count_scales = answered.scales[:k]
        divisor = np.maximum(counts, count_scales)
        offsets = query.sums_of(answered.noisy) / divisor[:, None]
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
    context: Context, means: Array, errors: Array, shares: Array, n_points: int, width: float, rng: Rng
) -> Array:
    chosen = rng.choice(len(means), size=n_points, p=shares)
    known = np.minimum(errors, LARGEST_MEAN_ERROR)[chosen]
    spread = np.sqrt((width * rng.choice(_SPREADS, n_points)) ** 2 + known**2)
    return _jittered(context, means[chosen], spread, rng)


def _jittered(context: Context, points: Array, spread: Array, rng: Rng) -> Array:
    near = context.domain.clip(points + spread[:, None] * rng.standard_normal(points.shape))
    return context.domain.records_like(near, rng)


def reachable_cells(query: GridQuery, domain: Domain) -> NDArray[np.bool_]:
    """For each cell of a grid, whether the domain allows a record in it: if not, its exact count is 0 in any data."""
    kind, radius = domain.shape()
    if kind == 0:
        return np.ones(query.size, dtype=np.bool_)
    # The norm of the point of each cell that is nearest to the origin, summed up column by column.
    nearest = np.zeros(1)
    for side in query.sides:
        edge = np.maximum(np.abs((2.0 * np.arange(side) + 1.0) / side - 1.0) - 1.0 / side, 0.0)
        nearest = (nearest[:, None] + (edge if kind == 1 else edge**2)).ravel()
    return np.asarray((nearest if kind == 1 else np.sqrt(nearest)) <= radius * _INSIDE)


def coarse_cells(query: GridQuery, counts: Array, n_blocks: int) -> Integers:
    """The block of each cell when a grid with such counts is read in at most so many; its own where these suffice."""
    if query.size <= n_blocks:
        return np.arange(query.size)
    if query.n_columns > _MERGED_COLUMNS:
        return blocks_of_cells(counts.reshape(query.sides), n_blocks)
    merge, coarse_sides = 1, list(query.sides)
    while prod(coarse_sides) > n_blocks:
        merge += 1
        coarse_sides = [-(-side // merge) for side in query.sides]
    index = np.stack(np.unravel_index(np.arange(query.size), query.sides))
    return np.asarray(np.ravel_multi_index(tuple(index // merge), coarse_sides), dtype=np.int64)


def blocks_of_cells(counts: Array, n_blocks: int) -> Integers:
    """Group the cells of a grid, last column fastest, into boxes of similar weight.

    The heaviest is cut in two across its longest side, where half of its weight lies, until there are enough.
    """
    whole: tuple[tuple[int, int], ...] = tuple((0, side) for side in counts.shape)
    open_blocks = [(-float(counts.sum()), 0, whole)]
    closed: list[tuple[tuple[int, int], ...]] = []
    n_made = 1
    while open_blocks and len(open_blocks) + len(closed) < n_blocks:
        weight, _, box = heapq.heappop(open_blocks)
        widths = [high - low for low, high in box]
        if weight == 0.0 or max(widths) == 1:
            closed.append(box)
            continue
        axis = int(np.argmax(widths))
        others = tuple(a for a in range(counts.ndim) if a != axis)
        inside = counts[tuple(slice(*ends) for ends in box)]
        below = np.cumsum(inside.sum(axis=others))
        cut = int(np.clip(np.searchsorted(below, below[-1] / 2.0) + 1, 1, widths[axis] - 1))
        low, high = box[axis]
        for ends, part in (((low, low + cut), below[cut - 1]), ((low + cut, high), below[-1] - below[cut - 1])):
            heapq.heappush(open_blocks, (-float(max(part, 0.0)), n_made, (*box[:axis], ends, *box[axis + 1 :])))
            n_made += 1
    labels = np.empty(counts.shape, dtype=np.int64)
    for block, box in enumerate([*closed, *(item[2] for item in sorted(open_blocks))]):
        labels[tuple(slice(*ends) for ends in box)] = block
    return labels.ravel()


def coarse_rows(
    domain: Domain, query: GridQuery, answered: Round, points: Array, total: float
) -> tuple[Partition, Array, Array]:
    """The rows of a grid on a support, with what was measured in each of their blocks and the scale of its noise."""
    reachable, noisy = reachable_cells(query, domain), answered.noisy
    blocks = coarse_cells(query, likely_counts(domain, query, noisy, total), _MOST_ROWS)
    sums = np.bincount(blocks[reachable], noisy[reachable], minlength=query.size)
    n_merged = np.bincount(blocks[reachable], minlength=query.size)
    used, cells = np.unique(blocks[query.marginal.cells(points)], return_inverse=True)
    # The sum of several noises is treated as one of the same kind with the same variance. Rounding can put a point of
    # the domain's edge into a cell that no record reaches: its row is a count of nothing.
    scale = float(answered.scales[0]) * np.sqrt(np.maximum(n_merged[used], 1))
    if answered.imported is not None:
        squares = np.bincount(blocks[reachable], answered.scales[reachable] ** 2, minlength=query.size)
        scale = np.sqrt(np.maximum(squares[used], answered.scales.min() ** 2))
    return Partition(cells=cells.ravel(), n_cells=len(used)), np.asarray(sums[used], np.float64), scale


def likely_counts(domain: Domain, query: GridQuery, noisy: Array, total: float) -> Array:
    """Counts of a grid's cells that are not negative and add up to the total; none where no record can be."""
    reachable = reachable_cells(query, domain)
    counts = np.zeros(len(noisy))
    counts[reachable] = denoised(noisy[reachable], total)
    return counts


def denoised(noisy: Array, total: float) -> Array:
    """The nearest counts that are not negative and add up to the total."""
    descending = -np.sort(-noisy)
    shifts = (np.cumsum(descending) - total) / np.arange(1, noisy.size + 1)
    return np.asarray(np.maximum(noisy - shifts[np.nonzero(descending > shifts)[0][-1]], 0.0))
