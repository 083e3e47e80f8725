"""Consistency by alternating directions (ADMM), the paper's own solver: it must find what the exact one finds.

It shares the stacking of rounds with `recoup.maxent.consistency` and starts at least squares, which is exact
there; of the structure that the exact solver rests on (breakpoints of a common total) it knows nothing. Nonnegativity
is part of the z-step, a clip, so the x-step is a linear projection: both have closed forms (docs/mathematics.md).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numba import njit

from recoup.domain import Box
from recoup.maxent.consistency import Cells, Filling, Table, exact_counts, exact_sums, made_consistent, stacked
from recoup.transcript.context import Context

_FIRST_CHECK = 16
_IMBALANCE = 5.0
# Beyond this a step of z that matters would drown in rounding, and standing still would look like convergence.
_LARGEST_RHO = 1e6


class Report(NamedTuple):
    """How a solver ended."""

    primal_residual: float
    dual_residual: float
    n_iterations: int
    converged: bool


def worst_of(reports):
    """How several columns ended, all together."""
    primal, dual, steps, converged = zip(*reports, strict=True)
    return Report(max(primal), max(dual), max(steps), all(converged))


def cells_of(counts, count_scales, sums=None, sum_scales=None):
    """Rounds of cells from lists: a scale may be one number, or one for each cell."""
    rounds = []
    none = [None] * len(counts)
    for n, b, s, c in zip(counts, count_scales, sums or none, sum_scales or none, strict=True):
        n = np.asarray(n, dtype=float)
        cells = {"counts": n, "count_scales": np.broadcast_to(np.asarray(b, dtype=float), n.shape)}
        if s is not None:
            s, c = np.asarray(s, dtype=float), np.asarray(c, dtype=float)
            cells |= {"sums": s, "sum_scales": np.broadcast_to(c[:, None] if c.ndim == 1 else c, s.shape)}
        rounds.append(Cells(centers=np.zeros((len(n), 1)), **cells))
    return rounds


def consistent(counts, count_scales, sums=None, sum_scales=None, *, noise="laplace"):
    """The library's exact answer for lists, with what it costs."""
    rounds = cells_of(counts, count_scales, sums, sum_scales)
    context = Context(domain=Box([0], [1]), epsilon=1, delta=1e-6 if noise == "gaussian" else 0, mechanism=noise)
    cells, total, report = made_consistent(rounds, context)
    return _answers(rounds, [c.counts for c in cells], [c.sums for c in cells], total, (*report, True), noise)


def _answers(rounds, counts, sums, total, report, noise):
    """With the objective: the sum of |x - y| / b (Laplace), or half that of ((x - y) / b)^2 (Gaussian)."""
    deviations = [(x - c.counts) / c.count_scales for x, c in zip(counts, rounds, strict=True)]
    deviations += [((x - c.sums) / c.sum_scales).ravel() for x, c in zip(sums, rounds, strict=True) if x is not None]
    far = np.abs(np.concatenate(deviations))
    objective = float(0.5 * np.square(far).sum() if noise == "gaussian" else far.sum())
    return SimpleNamespace(counts=counts, sums=sums, total=total, objective=objective, **Report(*report)._asdict())


def consistent_by_admm(
    counts,
    count_scales,
    sums=None,
    sum_scales=None,
    *,
    noise="laplace",
    tolerance=1e-10,
    max_iterations=100_000,
):
    """What `consistent` returns, found by ADMM; totals agree exactly whether or not it converged.

    It stops when the primal residual is at most tolerance * (1 + the largest |x - y| / b) and the dual one at most
    tolerance (Gaussian: times 1 + the largest multiplier).
    """
    rounds = cells_of(counts, count_scales, sums, sum_scales)
    of_counts, of_sums = stacked(rounds)
    settings = noise == "gaussian", tolerance, max_iterations
    x, report = _counts(of_counts, *settings)
    agreed = [x[rows, 0] for rows in of_counts.slices()]
    agreed_sums = [None] * len(rounds)
    if of_sums is not None:
        x, other = _sums(of_sums, *settings)
        report = worst_of([report, other])
        parts = iter(of_sums.slices())
        agreed_sums = [None if c.sums is None else x[next(parts)] for c in rounds]
    return _answers(rounds, agreed, agreed_sums, float(agreed[0].sum()), report, noise)


def _counts(table, gaussian, *settings):
    start, _ = exact_counts(table, True)
    x, nonnegative, report = _run(table, start[:, None], True, gaussian, *settings)
    total = max(float(x[table.slices()[0], 0].sum()), 0.0)
    parts = [Filling(nonnegative[rows, 0], np.ones(rows.stop - rows.start)) for rows in table.slices()]
    return np.concatenate([part.fill(total) for part in parts])[:, None], report


def _sums(table, gaussian, *settings):
    x, _ = exact_sums(table, True)
    reports = []
    for j in range(x.shape[1]):
        column = Table(table.y[:, j : j + 1], table.scales[:, j : j + 1], table.starts)
        x[:, j : j + 1], _, report = _run(column, x[:, j : j + 1], False, gaussian, *settings)
        reports.append(report)
    totals, lengths = table.totals(x), np.diff(table.starts)
    # the x-step subtracts multipliers that may be far larger than x, and leaves their rounding in the totals
    return x + np.repeat((totals.mean(axis=0) - totals) / lengths[:, None], lengths, axis=0), worst_of(reports)


def _run(table, start, bounded, gaussian, tolerance, max_iterations):
    """Two points, equal at convergence: of equal totals, and of nonnegative counts."""
    # One unit for all cells (Laplace), or one per cell (Gaussian): the faster choices.
    unit = np.abs(table.scales) if gaussian else np.full_like(table.scales, np.exp(np.mean(np.log(table.scales))))
    x, z = (start - table.y) / unit, np.empty_like(table.y)
    totals, squares = table.totals(table.y), table.totals(unit * unit)
    # only differences of totals matter, and without the common part they are not lost in its rounding
    totals -= totals.mean(axis=0)
    columns = (table.y / unit, unit, unit / table.scales, x, z, totals, squares)
    report = _alternate(*(part[:, 0] for part in columns), table.starts, bounded, gaussian, tolerance, max_iterations)
    nonnegative = table.y + z * unit
    return table.y + x * unit, np.maximum(nonnegative, 0.0) if bounded else nonnegative, Report(*report)


@njit
def _equalise_totals(x, unit, starts, answered, squares, totals):
    """Replace deviations by the nearest ones with which all rounds have the same total."""
    weighted, weights = 0.0, 0.0
    for t in range(len(totals)):
        cells = slice(starts[t], starts[t + 1])
        totals[t] = answered[t] + np.sum(unit[cells] * x[cells])
        weighted += totals[t] / squares[t]
        weights += 1.0 / squares[t]
    for t in range(len(totals)):
        cells = slice(starts[t], starts[t + 1])
        x[cells] += (weighted / weights - totals[t]) / squares[t] * unit[cells]


@njit
def _alternate(y, unit, weight, x, z, answered, squares, starts, bounded, gaussian, tolerance, max_iterations):
    """Change x (equal totals) and z (least cost, nonnegative); return primal, dual residual, iterations, converged.

    All are of one column in noise units: deviations from y; weight is unit / noise scale.
    """
    totals, u = np.empty(len(starts) - 1), np.zeros(len(y))
    z[:] = x
    rho = 1.0 if gaussian else min(len(y) / max(np.sum(np.abs(x)), 1e-300), _LARGEST_RHO)
    next_check, primal, dual = _FIRST_CHECK, np.inf, np.inf
    for iteration in range(1, max_iterations + 1):
        x[:] = z - u
        _equalise_totals(x, unit, starts, answered, squares, totals)
        aim = x + u
        if gaussian:
            new = aim * rho / (rho + weight * weight)
        else:
            new = np.sign(aim) * np.maximum(np.abs(aim) - weight / rho, 0.0)
        if bounded:
            new = np.maximum(new, -y)
        moved, primal = np.max(np.abs(new - z) / weight), np.max(np.abs(x - new) * weight)
        u[:], z[:] = aim - new, new
        dual = rho * moved
        # deviations are measured against the largest one, multipliers against 1, the slope of |.| in noise units
        primal_limit = 1.0 + np.max(np.abs(new) * weight)
        dual_limit = 1.0 + (rho * np.max(np.abs(u) / weight) if gaussian else 0.0)
        if primal <= tolerance * primal_limit and dual <= tolerance * dual_limit:
            return primal, dual, iteration, True
        if iteration == next_check:
            # rho is balanced at growing intervals, and between them the method converges as with a fixed one
            next_check = iteration + max(_FIRST_CHECK, iteration // 2)
            ratio = (primal / primal_limit) / max(dual / dual_limit, 1e-300)
            if ratio > _IMBALANCE or ratio < 1.0 / _IMBALANCE:
                factor = min(min(max(np.sqrt(ratio), 0.02), 50.0), _LARGEST_RHO / rho)
                rho *= factor
                u /= factor
    return primal, dual, max_iterations, False
