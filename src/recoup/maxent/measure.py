"""What the data was like, given any rounds: the maximum-entropy measure on a support that explains them.

Algorithms state their own `Problem`, and rounds of counts and sums are read here in one of three ways, with constants
tuned for each. `by_means` reads rounds of DP-KMEANS: the support lies around the consistent means of all of them.
`by_cells` reads any other mix of one release, from its first look. `by_parts` reads several releases, whose looks may
be of different worth: in few columns a grid tells how columns go together; in more, its cells are wide, and marginals,
or points around measured means, are a better base. Looks that are left out of the support still stand in the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from recoup._progress import OnProgress, told
from recoup._random import Rng
from recoup.domain import Domain
from recoup.maxent.clouds import clouds, read_as_clouds
from recoup.maxent.consistency import Rounds, cells_of, made_consistent, voronoi_cells_of
from recoup.maxent.correction import corrected, solved_and_settled
from recoup.maxent.newton import solve
from recoup.maxent.sizes import records_of
from recoup.maxent.support import (
    LARGEST_MEAN_ERROR,
    Measure,
    around_means,
    closer_look,
    coarse_rows,
    drawn_support,
    looks_of,
    resampled,
)
from recoup.queries.base import Array, RowBlock, rows_of
from recoup.queries.cells import as_cells
from recoup.queries.counts import as_grid, counts_in_cells, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

# Of DP-KMEANS. A quick pass finds where the mass is; a support around the means alone overstates how wide clusters are.
_ROUGH_POINTS, _STEPS_OF_MEANS = 3000, 200
_JITTERS_OF_MEANS = (0.01, 0.03, 0.08)
# By how much all rows of one record may tilt the base: to e^(+-L).
_TILT_GRID, _TILT_OTHER = 10.0, 35.0
_TILT_HYBRID = 70.0  # a grid with absolute sums: those few rows must outweigh a base that is uniform inside cells
_FIRST_POINTS = 4_000  # of a first pass, which only says where the mass is
_SETTLING_POINTS = 4_000  # where only centres are to be moved a little
# Of several releases.
_GRID_COLUMNS = 3  # in more, a grid's cells are too wide for a base; the same bound as the default algorithm's
_CELLS, _FROM_LAST = 0.6, 0.35  # shares of the support where no look is fit to be a base
_FEWEST_PSEUDO_RECORDS = 30.0  # the base weighs at least this much: where noise drowns all rounds, it must hold them


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One support, and how far it is solved on."""

    n_points: int  # of the support
    tolerance: float = 0.03  # the duality gap, in nats for each noisy value, at which the solver stops
    max_steps: int = 60  # of the solver
    slack: float = 0.0  # an error of every answer beside its noise, where no support can be expected to explain more
    last_rounds: int | None = None  # explain only so many of the rounds, the last ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a measure is to explain, and where it may lie."""

    context: Context  # the terms that the rounds share
    rounds: Rounds  # queries with their noisy answers
    total: float  # the number of records
    temperature: float  # the weight of the entropy: how far the base is trusted
    support: Callable[[int, Measure | None], Array]  # draws points, given their number and the measure of the last pass
    passes: Sequence[Pass]  # one after the other
    base: Array | None = None  # weights of the support that the measure departs least from; uniform without any
    settled: Rounds = ()  # rounds that measured means, by which the measure is corrected at the end
    seconds: Mapping[str, float] = field(default_factory=dict)  # what it took to state the problem, by stage


def maxent(problem: Problem, on_progress: OnProgress | None = None) -> Measure:
    """The measure of the last pass, moved to what the settled rounds measured."""
    context, total, measure = problem.context, problem.total, None
    for n_done, step in enumerate(problem.passes, start=1):
        points = problem.support(step.n_points, measure)
        base = np.full(len(points), total / len(points)) if problem.base is None else problem.base
        rounds = problem.rounds if step.last_rounds is None else problem.rounds[-step.last_rounds :]
        blocks, observed, scales, laws = observations(context, rounds, points, total)
        if not blocks:
            measure = Measure(points=points, weights=base, solution=None)
            break
        solver = partial(solve, temperature=problem.temperature, tolerance=step.tolerance, max_steps=step.max_steps)
        solution = solver(blocks, observed, np.hypot(scales, step.slack), base, noise=laws)
        measure = Measure(points=points, weights=solution.measure, solution=solution)
        told(on_progress, n_done, len(problem.passes))
    assert measure is not None
    counted = _counted(problem.rounds)
    points, weights = corrected(context, problem.settled, measure.points, measure.weights, counted=counted)
    return replace(measure, points=points, weights=weights)


def _counted(rounds: Rounds) -> Rounds:
    """The rounds that counted records in the cells of a closer look."""
    return [closer for look in rounds if as_grid(look.query) for closer in closer_look(rounds, look)]


def observations(
    context: Context, rounds: Rounds, points: Array, total: float
) -> tuple[list[RowBlock], Array, Array, NDArray[np.str_]]:
    """Stack the rounds' rows on a support, with their answers, noise scales and the law of their noise."""
    blocks: list[RowBlock] = []
    observed, scales, laws = [np.empty(0)], [np.empty(0)], [np.empty(0, dtype="<U8")]
    for answered in rounds:
        query, noisy, scale = answered.query, answered.noisy, answered.scales
        if (everything := as_cells(query, "none")) and everything.n_cells == 1:
            continue  # a count of everything is in the total, which is fixed
        if grid := as_grid(query):
            block, noisy, scale = coarse_rows(context.domain, grid, answered, points, total)
            blocks.append(block)
        else:
            blocks.extend(rows_of(query, points))
        observed.append(noisy)
        scales.append(scale)
        laws.append(np.full(len(noisy), answered.mechanism))
    return blocks, np.concatenate(observed), np.concatenate(scales), np.concatenate(laws)


def total_of(context: Context, rounds: Rounds) -> float:
    """The number of records that all count totals support together, each weighted by its precision; at least 1."""
    records = records_of(context, rounds)
    return float(context.n_records or 1000) if records is None else max(1.0, records.estimate)


def weighted_quantiles(values: Array, weights: Array, levels: Sequence[float]) -> Array:
    """For each level the smallest value up to which the weights reach that part of their sum."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    places = np.searchsorted(cumulative, np.asarray(levels) * cumulative[-1])
    return np.asarray(values[order][np.minimum(places, len(values) - 1)])


def only_means(rounds: Rounds) -> bool:
    """Whether every round is one of DP-KMEANS: nothing was asked but counts and absolute sums of its cells."""
    return all(as_cells(r.query, "absolute") for r in rounds)


def only_cells(rounds: Rounds) -> bool:
    """Whether every round counts records in cells, with or without sums: then the rows are those of the cells."""
    return all(counts_in_cells(r.query) for r in rounds)


def by_means(context: Context, rounds: Rounds, rng: Rng, *, n_points: int) -> Problem:
    """State the problem of rounds of counts and absolute sums alone."""
    clock = time.perf_counter()
    cells, counted, _ = made_consistent(voronoi_cells_of(rounds), context)
    total = max(1.0, counted)

    def support(n: int, last: Measure | None) -> Array:
        if last is None:
            return around_means(context, cells, n, rng)
        moved = resampled(context, last, n - n // 4, rng, _JITTERS_OF_MEANS)
        return np.concatenate([around_means(context, cells, n // 4, rng), moved])

    last = Pass(n_points=n_points, max_steps=_STEPS_OF_MEANS)
    rough = replace(last, n_points=min(n_points, _ROUGH_POINTS), tolerance=0.1, last_rounds=2)
    return Problem(
        context=context,
        rounds=rounds,
        total=total,
        temperature=temperature_of_means(float(np.mean([c.count_scales.mean() for c in cells])), total),
        support=support,
        passes=(rough, last),
        seconds={"consistency": time.perf_counter() - clock},
    )


def by_cells(
    context: Context,
    rounds: Rounds,
    rng: Rng,
    *,
    n_points: int,
    n_passes: int = 2,
    strength: float | None = None,
    n_settling: int = 0,
) -> Problem:
    """State the problem of rounds of any mix of counts and sums, the last `n_settling` of which settled centres.

    `strength` is the epsilon of Laplace noise that all rounds together are worth; by default the context's.
    """
    if read_as_clouds(rounds):
        return by_clouds(context, rounds, rng, n_points=n_points)
    total = total_of(context, rounds)
    solved, settled = solved_and_settled(rounds, n_settling)
    return Problem(
        context=context,
        rounds=solved,
        total=total,
        temperature=temperature_of(strength_of(context, rounds) if strength is None else strength, solved),
        support=lambda n, last: drawn_support(context, solved, n, rng, total=total, last=last),
        passes=_passes(n_points, n_passes),
        settled=settled,
    )


def _passes(n_points: int, n_passes: int) -> tuple[Pass, ...]:
    return (*(Pass(n_points=min(n_points, _FIRST_POINTS)),) * (n_passes - 1), Pass(n_points=n_points))


def where_centers_settle(context: Context, rounds: Rounds, n_settling: int) -> Measure:
    """The measure of `by_cells` after one of several rounds that settle centres, all of which share what is solved."""
    if read_as_clouds(rounds):
        return maxent(by_cells(context, rounds, np.random.default_rng(0), n_points=_SETTLING_POINTS))
    solved, settled = solved_and_settled(rounds, n_settling)
    before = _solved_once(context, tuple(solved))
    weights = before.weights * (total_of(context, rounds) / float(before.weights.sum()))
    points, weights = corrected(context, settled, before.points, weights, counted=_counted(solved))
    return replace(before, points=points, weights=weights)


@lru_cache(maxsize=1)
def _solved_once(context: Context, rounds: tuple[Round, ...]) -> Measure:
    problem = by_cells(context, rounds, np.random.default_rng(0), n_points=_SETTLING_POINTS, n_passes=1)
    return maxent(replace(problem, settled=()))


def by_clouds(context: Context, rounds: Rounds, rng: Rng, *, n_points: int) -> Problem:
    """State the problem of rounds whose cells were asked for their spread: clouds have it, and nothing is solved."""
    total = total_of(context, rounds)
    data = clouds(context, rounds, n_points, rng, total=total)
    return Problem(
        context=context,
        rounds=(),
        total=total,
        temperature=1.0,
        support=lambda n, _: data.points,
        passes=(Pass(n_points=n_points),),
        base=data.weights,
    )


def by_parts(context: Context, parts: list[tuple[Rounds, int]], rng: Rng, n_points: int, strength: float) -> Problem:
    """State the problem of several releases: the rounds of each, and how many of them settled centres."""
    as_clouds = [rounds for rounds, _ in parts if read_as_clouds(rounds)]
    solvable = [(rounds, n_settling) for rounds, n_settling in parts if not read_as_clouds(rounds)]
    if as_clouds and max(map(_told, as_clouds)) >= max((_told(rounds) for rounds, _ in solvable), default=0.0):
        # Clouds have what the last cells measured: those that know most come last.
        ordered = [answered for rounds in sorted(as_clouds, key=_told) for answered in rounds]
        return by_clouds(context, ordered, rng, n_points=n_points)
    parts = solvable  # which know more, and cannot be solved for together with spreads
    total = total_of(context, [answered for rounds, _ in parts for answered in rounds])
    split = [solved_and_settled(rounds, n_settling) for rounds, n_settling in parts]
    rounds = tuple(answered for solved, _ in split for answered in solved)
    looks = base_looks([solved for solved, _ in split], context.domain)
    closer = {id(look): closer_look(solved, look) for solved, _ in split for look in looks_of(solved)}
    others = [r for r in rounds if not marginals_of(r.query)]
    grids = [r for r in rounds if as_grid(r.query)]
    # A grid that is no part of the base says nothing about how far rows must tilt it.
    weighed = rounds if looks and looks[0] in grids else [r for r in rounds if r not in grids]

    def support(n: int, last: Measure | None) -> Array:
        """An equal number of points from each look, each with its share of points around cells and of the last pass."""
        if not looks:
            return drawn_support(context, others, n, rng, total=total, last=last, cells=_CELLS, from_last=_FROM_LAST)
        means = [r for r in others if has_means(r)]
        sizes = zip(looks, equal_parts(n, len(looks)), strict=True)
        drawn = []
        for look, size in sizes:
            read = [look, *closer[id(look)], *means]
            drawn.append(drawn_support(context, read, size, rng, total=total, last=last))
        return np.concatenate(drawn)

    return Problem(
        context=context,
        rounds=rounds,
        total=total,
        temperature=max(temperature_of(strength, weighed), _FEWEST_PSEUDO_RECORDS / total),
        support=support,
        passes=_passes(n_points, 2),
        settled=[answered for _, late in split for answered in late],
    )


def equal_parts(n: int, n_parts: int) -> list[int]:
    """Whole numbers with the sum n, as equal as they can be."""
    return [int(size) for size in np.diff(np.linspace(0, n, n_parts + 1).astype(int))]


def _told(rounds: Rounds) -> float:
    """How much rounds tell, to compare: the precision of a count in each, together."""
    return sum(answered.noise.deviation(float(answered.scales[0])) ** -2 for answered in rounds)


def base_looks(parts: Sequence[Rounds], domain: Domain) -> list[Round]:
    """The looks of all releases to draw the support from.

    Grids in few columns, marginals in more; else grids, if no round has sums.
    """
    looks = [look for rounds in parts for look in looks_of(rounds)]
    few = domain.has_grid and domain.n_columns <= _GRID_COLUMNS
    wanted = [r for r in looks if bool(as_grid(r.query)) == few]
    with_sums = any(as_cells(r.query, "absolute", "relative") for rounds in parts for r in rounds)
    return wanted or ([] if with_sums and not few else looks)


def has_means(answered: Round) -> bool:
    """Whether a round tells where the middles of its cells are: most of its records lie in cells of known mean."""
    cells = cells_of(answered)
    if cells is None or cells.sum_scales is None:
        return False
    counts = np.maximum(cells.counts, 0.0)
    errors = cells.sum_scales.mean(axis=1) / np.maximum(counts, cells.count_scales)
    return bool(counts[errors <= LARGEST_MEAN_ERROR].sum() > 0.5 * counts.sum())


def temperature_of(strength: float, rounds: Rounds) -> float:
    """The weight of the entropy: all rows of one record weigh at most epsilon, so tilts stay within e^(+-L)."""
    grid = any(as_grid(answered.query) for answered in rounds)
    absolute = any(as_cells(answered.query, "absolute") for answered in rounds)
    tilt = _TILT_OTHER if not grid else _TILT_HYBRID if absolute else _TILT_GRID
    return strength / tilt


def temperature_of_means(count_scale: float, total: float) -> float:
    """The weight of the entropy for DP-KMEANS, 0.4 (w^2 / n)^(1/4), w = 1 / b of the counts: flat in practice."""
    return float(0.4 * (1.0 / (count_scale**2 * max(total, 1.0))) ** 0.25)


def strength_of(context: Context, rounds: Rounds) -> float:
    """The epsilon of Laplace noise that a release is worth; of answers that were made elsewhere, by their noise."""
    if not any(answered.imported is not None for answered in rounds):
        return context.effective_epsilon()
    # What is claimed may be for more than these rounds, or for other neighbours: the noise itself says how far to go.
    amount = float(sum(answered.price.amount for answered in rounds))
    value = amount if context.budget_measure == "pure" else 2.0 * float(np.sqrt(amount))
    return value / context.records_per_person
