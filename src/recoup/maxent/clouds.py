"""What the data was like in many columns: clouds of points, with the size, mean and spread that was measured of cells.

In many columns no support has points near every record, and sums by cell and column are too many rows to solve for. But
where cells hold whole clusters, what was measured of them is all there is to know. So points are drawn from the first
look, and round by round those of a cell are given the size, moved to the mean and drawn together to the spread that was
measured, as far as it is beyond noise; cells with sums are then drawn anew, as one normal cloud each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recoup._random import Rng
from recoup.domain import Domain
from recoup.maxent.consistency import Rounds
from recoup.maxent.correction import drawn_to_ends, expected_error
from recoup.maxent.sizes import sums_by_cell
from recoup.maxent.support import from_first_look
from recoup.queries.base import Array, Integers
from recoup.queries.cells import VoronoiQuery, as_cells
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_FEWEST_POINTS = 6  # of a cell
_PASSES, _LAST_PASSES = 4, 12  # clipping hides a part of every move, so that some of it is left to do
_MOST_HEARD = 0.9  # of the squared radius: a mean square beyond says that nearly all records are clipped
# A variance beyond so much of what its radius can tell counts as so many typical ones.
_HIDDEN, _HIDDEN_WIDTH = 0.8, 3.0
_LEAST = 0.02  # of a typical variance: noise says less, or less than nothing
_HALVINGS = 4  # of the distance from its mean of a point that left its cell
_NEVER = 1e-12
_ALIKE = 1e-12  # a spread below is nothing but rounding


class Clouds(NamedTuple):
    """Points of the unit domain with what was measured."""

    points: Array  # (m, d)
    weights: Array  # (m,) the records that each stands for
    means: Array  # (k, d) of the last cells with sums; none before there are any
    sizes: Array  # (k,) records in each
    variances: Array  # (k,) mean squared distances of the records of each from its mean


def read_as_clouds(rounds: Rounds) -> bool:
    """Whether cells were asked for their spread, so that clouds can have it."""
    return any(cells.squares for r in rounds if (cells := as_cells(r.query)))


def clouds(context: Context, rounds: Rounds, n_points: int, rng: Rng, *, total: float, unsure: bool = False) -> Clouds:
    """Points of the unit domain, with weights of this total, that have what all rounds measured beyond noise.

    Where the next cells are to be chosen, clouds are as wide as where records may be: their spread, and how `unsure`
    the mean of the last round's cells is.
    """
    points = from_first_look(context, rounds, total, n_points, rng, uniform_share=0.0)
    data = Clouds(points, np.full(len(points), total / len(points)), points[:0], np.zeros(0), np.zeros(0))
    for answered in rounds:
        cells = as_cells(answered.query)
        if cells is None or (cells.n_cells == 1 and cells.sums == "none"):
            continue  # the number of records is the total
        if cells.radii is None:
            data = _resized(cells, answered, data)
        else:
            last = answered is rounds[-1]
            data = _moved(context, cells, answered, data, rng, unsure=last and unsure, drawn_anew=not last or unsure)
    return data


def _sizes(query: VoronoiQuery, answered: Round, sizes: Array) -> Array:
    """How many records each cell has, by its noisy count and by the size that it had before."""
    k = query.n_cells
    deviations = answered.noise.deviation(1.0) * answered.scales[:k]
    more = np.maximum(answered.noisy[:k], 0.0) - sizes
    # How far the sizes before are off, all together: what they are drawn from says little about any one of them.
    off = max(float(np.mean(more**2 - deviations**2)), 0.0)
    return np.maximum(sizes + more * off / (off + deviations**2), 0.0)


def _resized(query: VoronoiQuery, answered: Round, data: Clouds) -> Clouds:
    """Points with the sizes of cells that were only counted."""
    cells, total = query.cells(data.points), float(data.weights.sum())
    before = np.asarray(np.bincount(cells, data.weights, minlength=query.n_cells), dtype=np.float64)
    factors = _sizes(query, answered, before) / np.maximum(before, _NEVER)
    weights = data.weights * factors[cells]
    return data._replace(weights=weights * (total / weights.sum())) if weights.sum() > 0 else data


def _moved(
    context: Context,
    query: VoronoiQuery,
    answered: Round,
    data: Clouds,
    rng: Rng,
    *,
    unsure: bool,
    drawn_anew: bool,
) -> Clouds:
    """A cloud for each cell, with the size, mean and spread that were measured."""
    k, d = query.centers.shape
    total, radii = float(data.weights.sum()), np.ones(k) if query.radii is None else query.radii
    points, weights, cells = _with_points_everywhere(query, data, rng)
    before = np.asarray(np.bincount(cells, weights, minlength=k), dtype=np.float64)
    sizes = _sizes(query, answered, before)
    shares = weights / before[cells]

    def by_cell(values: Array) -> Array:
        return sums_by_cell(cells, shares, values, k)

    deviations = answered.noise.deviation(1.0) * answered.scales
    divisor = np.maximum(sizes, deviations[:k])[:, None]
    errors = query.sums_of(deviations) / divisor
    measured = np.clip(query.sums_of(answered.noisy) / divisor, -radii[:, None], radii[:, None])
    mean = by_cell(query.values(points, cells))
    more = expected_error(measured - mean, errors, answered.mechanism)
    wanted = mean + more
    middle = by_cell(points)
    spread = by_cell((points - middle[cells]) ** 2)
    variances = spread.sum(axis=1)
    # Of a normal cloud, the mean square of distances in the norm of the radius over that of Euclidean ones.
    longer = 1.0 if query.norm == 2 else 1.0 + (d - 1) * 2.0 / np.pi
    if query.squares:
        told, of_told = (values[-k:] / (longer * divisor[:, 0]) for values in (answered.noisy, deviations))
        variances = _variances(told, of_told, measured, errors, sizes, variances, radii / np.sqrt(longer))
        known = spread.sum(axis=1)
        # Points that are all alike, as where a cell is one category of each column, cannot be drawn apart.
        wider = np.sqrt(np.divide(variances, known, out=np.ones(k), where=known > _ALIKE))
        points = middle[cells] + (points - middle[cells]) * wider[cells, None]
    for _ in range(_PASSES if drawn_anew else _LAST_PASSES):
        offsets = points - query.centers[cells]
        reach = np.abs(offsets).sum(axis=1) if query.norm == 1 else np.sqrt((offsets**2).sum(axis=1))
        kept = by_cell(np.minimum(1.0, radii[cells] / np.maximum(reach, _NEVER))[:, None])
        shifts = (wanted - by_cell(query.values(points, cells))) / kept
        points = _shifted(context.domain, points, cells, by_cell(points), shifts)
        if not drawn_anew:
            points = _confined(query, points, cells, by_cell(points))
    middle = by_cell(points)
    if not drawn_anew:
        weights = (sizes / before)[cells] * weights
        weights = weights * (total / max(float(weights.sum()), _NEVER))
        return Clouds(points, weights, middle, sizes, variances)
    width = variances
    if unsure:
        trust = np.sqrt((more**2).sum(axis=1) / np.maximum(((measured - mean) ** 2).sum(axis=1), _NEVER))
        width = width + np.minimum(trust, 1.0) * (errors**2).sum(axis=1)
    # The form of a cloud is that of all of them together: a cell has too few points to tell its own.
    form = np.sqrt(sizes @ spread / max(float(sizes @ spread.sum(axis=1)), _NEVER))
    owners = _owners(sizes, len(data.points))
    drawn = middle[owners] + np.sqrt(width)[owners, None] * form * rng.standard_normal((len(owners), d))
    for _ in range(_PASSES):  # clipped at the ends of a column, a cloud has another mean
        drawn = context.domain.clip(drawn)
        n_drawn = np.maximum(np.bincount(owners, minlength=k), 1)[:, None]
        means = sums_by_cell(owners, np.ones(len(owners)), drawn, k) / n_drawn
        drawn = _shifted(context.domain, drawn, owners, means, middle - means, clip=False)
    new = (sizes / np.maximum(np.bincount(owners, minlength=k), 1))[owners]
    return Clouds(context.domain.clip(drawn), new * (total / max(float(new.sum()), _NEVER)), middle, sizes, variances)


def _shifted(
    domain: Domain, points: Array, cells: Integers, means: Array, shifts: Array, *, clip: bool = True
) -> Array:
    """Shift the mean of each cell's points: all alike, or where they are at the ends of categories, by their shares."""
    if not domain.has_grid:
        return drawn_to_ends(domain, points, cells, means, shifts)
    return domain.clip(points + shifts[cells]) if clip else points + shifts[cells]


def _variances(
    told: Array, of_told: Array, means: Array, errors: Array, sizes: Array, before: Array, radii: Array
) -> Array:
    """How wide each cell is: its mean square less that of its mean, less what of that is noise.

    What all cells say together is known far better than what one of them says, which counts as far as it is beyond
    noise. Where nearly all records are clipped, nothing was said.
    """
    noise = (errors**2).sum(axis=1)
    squares = np.maximum((means**2).sum(axis=1) - noise, 0.0)
    own = told - squares
    unsure = np.sqrt(of_told**2 + 4.0 * squares * (errors**2).mean(axis=1) + 2.0 * (errors**4).sum(axis=1))
    heard = sizes > 0
    shares = sizes[heard] / max(float(sizes.sum()), _NEVER)
    typical, known = float(shares @ own[heard]), float(np.sqrt(shares**2 @ unsure[heard] ** 2))
    prior = float(shares @ before[heard])
    if not (known > 0 and prior > 0):  # no cell holds records, or points
        return before
    # Up to its noise, so that nothing is read from a mean square that is the radius's but for noise.
    if typical + 2.0 * known > _MOST_HEARD * float(shares @ (radii**2 - squares)[heard]):
        return before
    typical = max((typical / known**2 + prior / prior**2) / (1.0 / known**2 + 1.0 / prior**2), _LEAST * prior)
    apart = expected_error((own - typical)[heard, None], unsure[heard, None], "gaussian")[:, 0]
    variances = np.minimum(before, typical)
    variances[heard] = np.clip(typical + apart, _LEAST * typical, radii[heard] ** 2)
    # Of a cell of which nearly all is clipped, though it is clearly wider than others, the radius hides how much.
    hidden = (own > _HIDDEN * (radii**2 - squares)) & (own > typical + 2.0 * unsure)
    variances[hidden] = np.maximum(variances[hidden], _HIDDEN_WIDTH * typical)
    return variances


def _confined(query: VoronoiQuery, points: Array, cells: Integers, middle: Array) -> Array:
    """Points, those that left their cell drawn towards its mean: the records of a cell are inside it."""
    points = np.array(points)
    for _ in range(_HALVINGS):
        left = np.flatnonzero(query.cells(points) != cells)
        points[left] = 0.5 * (points[left] + middle[cells[left]])
    return points


def _with_points_everywhere(query: VoronoiQuery, data: Clouds, rng: Rng) -> tuple[Array, Array, Integers]:
    """Points, weights and cells, with a few points of hardly any weight in cells that have none."""
    k, d = query.centers.shape
    cells = query.cells(data.points)
    few = np.flatnonzero(np.bincount(cells, data.weights > 0, minlength=k) < _FEWEST_POINTS)
    if len(few) == 0:
        return data.points, data.weights, cells
    middle = np.average(data.points, axis=0, weights=data.weights)
    spread = np.sqrt(np.average((data.points - middle) ** 2, axis=0, weights=data.weights) / max(k, 1) ** (2.0 / d))
    added = np.repeat(few, _FEWEST_POINTS)
    points = query.centers[added] + spread * rng.standard_normal((len(added), d))
    light = np.full(len(added), _NEVER * float(data.weights.sum()) + _NEVER)
    return np.concatenate([data.points, points]), np.concatenate([data.weights, light]), np.concatenate([cells, added])


def _owners(sizes: Array, n_points: int) -> Integers:
    """The cell of each of so many points, in proportion to sizes; a few for every cell that is not empty."""
    shares = sizes / max(float(sizes.sum()), _NEVER)
    numbers = np.maximum(np.round(shares * n_points), np.where(sizes > 0, _FEWEST_POINTS, 0)).astype(np.int64)
    return np.asarray(np.repeat(np.arange(len(sizes)), numbers), dtype=np.int64)
