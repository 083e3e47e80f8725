"""How rounds of counts and sums are read: three ways, one for each kind of release, with the constants tuned for it.

`by_means` reads rounds of DP-KMEANS: the support lies around the consistent means of all of them. `by_cells` reads any
other mix of one release, from its first look. `of_several` reads several releases together. Each of these alone has at
most one first look; together they may have several of different worth. In few columns a grid tells how columns go
together, which marginals cannot. In more columns its cells are a large part of each column, and a base that is uniform
inside them is worse than marginals, or than points around the means that other rounds measured. Looks that are left out
of the support still stand in the rows: nothing that was released is ignored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from recoup.maxent.cells import voronoi_cells_of
from recoup.maxent.consistency import made_consistent
from recoup.maxent.correction import solved_and_settled
from recoup.maxent.measure import Measure, Pass, Problem, maxent, total_of
from recoup.maxent.support import Shares, around_means, drawn_support, resampled
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.queries.counts import as_grid, marginals_of
from recoup.transcript.context import Context
from recoup.transcript.round import Round

# Of DP-KMEANS. A quick pass finds where the mass is; a support around the means alone overstates how wide clusters are.
_ROUGH_POINTS, _ROUGH_ROUNDS, _ROUGH_TOLERANCE, _MAX_STEPS_OF_MEANS = 3000, 2, 0.1, 200
_JITTERS_OF_MEANS = (0.01, 0.03, 0.08)
# By how much all rows of one record may tilt the base: to e^(+-L).
_TILT_GRID, _TILT_OTHER = 10.0, 35.0
_TILT_HYBRID = 70.0  # a grid with absolute sums: those few rows must outweigh a base that is uniform inside cells
# Of several releases.
_GRID_COLUMNS = 3  # in more, a grid's cells are too wide for a base; the same bound as the default algorithm's
_AROUND_MEANS = Shares(first_look=0.05, cells=0.6, resampled=0.35)  # where no look is fit to be a base
_FEWEST_PSEUDO_RECORDS = 30.0  # the base weighs at least this much: where noise drowns all rounds, it must hold them
_LARGEST_MEAN_ERROR = 0.3  # of a cell's mean, where the unit domain is 2 wide: beyond, points around it are anywhere


def by_means(context: Context, rounds: Sequence[Round], rng: np.random.Generator, *, n_points: int) -> Problem:
    """State the problem of rounds of counts and absolute sums alone."""
    start = time.perf_counter()
    cells, counted, _ = made_consistent(voronoi_cells_of(rounds), context)
    total = max(1.0, counted)

    def support(n: int, last: Measure | None) -> Array:
        if last is None:
            return around_means(context, cells, n, rng)
        moved = resampled(context, last, n - n // 4, rng, jitters=_JITTERS_OF_MEANS)
        return np.concatenate([around_means(context, cells, n // 4, rng), moved])

    rough = Pass(
        n_points=min(n_points, _ROUGH_POINTS),
        tolerance=_ROUGH_TOLERANCE,
        max_steps=_MAX_STEPS_OF_MEANS,
        last_rounds=_ROUGH_ROUNDS,
    )
    return Problem(
        context=context,
        rounds=rounds,
        total=total,
        temperature=temperature_of_means(float(np.mean([c.count_scales.mean() for c in cells])), total),
        support=support,
        passes=(rough, Pass(n_points=n_points, max_steps=_MAX_STEPS_OF_MEANS)),
        seconds={"consistency": time.perf_counter() - start},
    )


def by_cells(
    context: Context,
    rounds: Sequence[Round],
    rng: np.random.Generator,
    *,
    n_points: int,
    n_passes: int = 2,
    strength: float | None = None,
    n_settling: int = 0,
) -> Problem:
    """State the problem of rounds of any mix of counts and sums, the last `n_settling` of which settled centres.

    `strength` is the epsilon of Laplace noise that all rounds together are worth; by default the context's.
    """
    total = total_of(context, rounds)
    strength = strength_of(context, rounds) if strength is None else strength
    solved, settled = solved_and_settled(rounds, n_settling)
    return Problem(
        context=context,
        rounds=solved,
        total=total,
        temperature=temperature_of(strength, solved),
        support=lambda n, last: drawn_support(context, solved, n, rng, total=total, last=last),
        passes=(Pass(n_points=n_points),) * n_passes,
        settled=settled,
    )


def infer_measure(
    context: Context,
    rounds: Sequence[Round],
    rng: np.random.Generator,
    *,
    n_points: int,
    n_passes: int = 2,
    n_settling: int = 0,
) -> Measure:
    """The measure of rounds of any mix of counts and sums; parameters are those of `by_cells`."""
    return maxent(by_cells(context, rounds, rng, n_points=n_points, n_passes=n_passes, n_settling=n_settling))


def of_several(
    context: Context,
    releases: Sequence[tuple[Sequence[Round], int]],
    rng: np.random.Generator,
    *,
    n_points: int,
    strength: float,
) -> Problem:
    """State the problem of several releases of counts and sums: the rounds of each, how many of them settled centres.

    `strength` is the epsilon of Laplace noise that all of them together are worth.
    """
    total = total_of(context, [answered for rounds, _ in releases for answered in rounds])
    split = [solved_and_settled(rounds, n_settling) for rounds, n_settling in releases]
    rounds = tuple(answered for solved, _ in split for answered in solved)
    looks = base_looks(rounds, context.domain.n_columns)
    others = [r for r in rounds if not marginals_of(r.query)]
    grids = [r for r in rounds if as_grid(r.query)]
    # A grid that is no part of the base says nothing about how far rows must tilt it.
    weighed = rounds if looks and looks[0] in grids else [r for r in rounds if r not in grids]

    def support(n: int, last: Measure | None) -> Array:
        """An equal number of points from each look, each with its share of points around cells and of the last pass."""
        if not looks:
            return drawn_support(context, others, n, rng, total=total, last=last, shares=_AROUND_MEANS)
        means = [r for r in others if has_means(r)]
        sizes = np.diff(np.linspace(0, n, len(looks) + 1).astype(int))
        return np.concatenate(
            [
                drawn_support(context, [look, *means], int(size), rng, total=total, last=last)
                for look, size in zip(looks, sizes, strict=True)
            ]
        )

    return Problem(
        context=context,
        rounds=rounds,
        total=total,
        temperature=max(temperature_of(strength, weighed), _FEWEST_PSEUDO_RECORDS / total),
        support=support,
        passes=(Pass(n_points=n_points),) * 2,
        settled=[answered for _, late in split for answered in late],
    )


def base_looks(rounds: Sequence[Round], n_columns: int) -> list[Round]:
    """The first looks that the support is drawn from: grids in few columns, marginals in more.

    Where there is only the other kind it is taken; but a grid in many columns only where no round has sums to draw
    around.
    """
    looks = [r for r in rounds if marginals_of(r.query)]
    few = n_columns <= _GRID_COLUMNS
    wanted = [r for r in looks if bool(as_grid(r.query)) == few]
    if wanted or few:
        return wanted or looks
    with_sums = any(as_cells(r.query, "absolute", "relative") for r in rounds)
    return [] if with_sums else looks


def has_means(answered: Round) -> bool:
    """Whether a round tells where the middles of its cells are: most of its records lie in cells of known mean."""
    query = as_cells(answered.query, "absolute", "relative")
    if query is None:
        return False
    k = query.n_cells
    counts, scales = np.maximum(answered.noisy[:k], 0.0), answered.scales
    errors = scales[k:].reshape(query.centers.shape).mean(axis=1) / np.maximum(counts, scales[:k])
    return bool(counts[errors <= _LARGEST_MEAN_ERROR].sum() > 0.5 * counts.sum())


def temperature_of(strength: float, rounds: Sequence[Round]) -> float:
    """The weight of the entropy: all rows of one record weigh at most epsilon, so tilts stay within e^(+-L)."""
    grid = any(as_grid(answered.query) for answered in rounds)
    absolute = any(as_cells(answered.query, "absolute") for answered in rounds)
    tilt = _TILT_OTHER if not grid else _TILT_HYBRID if absolute else _TILT_GRID
    return strength / tilt


def temperature_of_means(count_scale: float, total: float) -> float:
    """The weight of the entropy for DP-KMEANS: 0.4 (w^2 / n)^(1/4), w = 1 / b of the counts.

    Flat in practice: a factor of three either way changes little once the problem is solved.

    >>> round(temperature_of_means(20.0, 5000.0), 6)
    0.010637
    """
    return float(0.4 * (1.0 / (count_scale**2 * max(total, 1.0))) ** 0.25)


def strength_of(context: Context, rounds: Sequence[Round]) -> float:
    """The epsilon of Laplace noise that a release is worth; of answers that were made elsewhere, by their noise."""
    if not any(answered.imported is not None for answered in rounds):
        return context.effective_epsilon()
    # What is claimed may be for more than these rounds, or for other neighbours: the noise itself says how far to go.
    amount = float(sum(answered.price.amount for answered in rounds))
    value = amount if context.budget_measure == "pure" else 2.0 * float(np.sqrt(amount))
    return value / context.records_per_person
