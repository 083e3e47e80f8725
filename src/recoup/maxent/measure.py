"""What the data was like, given any rounds: the maximum-entropy measure on a support that explains them.

One function, `maxent`, for every algorithm. A `Problem` says which rounds, how many records, where these may lie and
how far to trust that; `recoup.maxent.readings` and the algorithms state problems. The support is drawn in passes, so
that points move to where the mass is. Everything is a function of the rounds and harmless randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from recoup.maxent.correction import corrected
from recoup.maxent.fine_grid import coarse_rows
from recoup.maxent.newton import Solution, solve
from recoup.maxent.records import records_of
from recoup.queries.base import Array, RowBlock, rows_of
from recoup.queries.cells import as_cells
from recoup.queries.counts import as_grid
from recoup.transcript.context import Context
from recoup.transcript.round import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Weighted points of the unit domain that explain the rounds."""

    points: Array  # (m, d) support
    weights: Array  # (m,), of the inferred number of records
    solution: Solution | None  # the solver's certificate; none if there was nothing to explain


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
    rounds: Sequence[Round]  # queries with their noisy answers
    total: float  # the number of records
    temperature: float  # the weight of the entropy: how far the base, which is uniform on the support, is trusted
    # draws so many points, given the measure of the pass before; none before the first
    support: Callable[[int, Measure | None], Array]
    passes: Sequence[Pass]  # one after the other
    settled: Sequence[Round] = ()  # rounds that measured means, by which the measure is corrected at the end
    seconds: Mapping[str, float] = field(default_factory=dict)  # what it took to state the problem, by stage


def maxent(problem: Problem) -> Measure:
    """The measure of the last pass, moved to what the settled rounds measured."""
    measure: Measure | None = None
    for step in problem.passes:
        points = problem.support(step.n_points, measure)
        rounds = problem.rounds if step.last_rounds is None else problem.rounds[-step.last_rounds :]
        measure = explained(
            problem.context,
            rounds,
            points,
            problem.total,
            temperature=problem.temperature,
            tolerance=step.tolerance,
            max_steps=step.max_steps,
            slack=step.slack,
        )
        if measure.solution is None:
            break
    assert measure is not None
    points, weights = corrected(problem.context, problem.settled, measure.points, measure.weights)
    return replace(measure, points=points, weights=weights)


def explained(
    context: Context,
    rounds: Sequence[Round],
    points: Array,
    total: float,
    *,
    temperature: float,
    base: Array | None = None,
    tolerance: float = 0.03,
    max_steps: int = 200,
    slack: float = 0.0,
) -> Measure:
    """The measure on given points, of this total, that explains the rounds; even if there is nothing to explain.

    It departs as little from a base as it can, which is uniform unless one is given.
    """
    blocks, observed, scales, laws = observations(context, rounds, points, total)
    base = np.full(len(points), total / len(points)) if base is None else base
    if not blocks:
        return Measure(points=points, weights=base, solution=None)
    solution = solve(
        blocks,
        observed,
        np.hypot(scales, slack),
        base,
        temperature=temperature,
        noise=laws,
        tolerance=tolerance,
        max_steps=max_steps,
    )
    return Measure(points=points, weights=solution.measure, solution=solution)


def observations(
    context: Context, rounds: Sequence[Round], points: Array, total: float
) -> tuple[list[RowBlock], Array, Array, NDArray[np.str_]]:
    """Stack the rounds' rows on a support, with their answers, noise scales and the law of their noise.

    A fine grid is read in blocks of cells, empty ones of which drop out.
    """
    blocks: list[RowBlock] = []
    observed, scales = [np.empty(0)], [np.empty(0)]
    laws = [np.empty(0, dtype="<U8")]
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


def total_of(context: Context, rounds: Sequence[Round]) -> float:
    """The number of records that all count totals support together, each weighted by its precision; at least 1."""
    records = records_of(context, rounds)
    return float(context.n_records or 1000) if records is None else max(1.0, records.estimate)


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """The smallest value up to which the weights reach a level of their sum.

    >>> weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    2.0
    """
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(cumulative, level * cumulative[-1]), len(values) - 1)])
