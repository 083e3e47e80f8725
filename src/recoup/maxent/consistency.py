"""Rounds as cells with noisy counts and sums; and the most likely ones whose totals agree.

All rounds asked the same records: maximum likelihood subject to equal totals and nonnegative counts (the paper, section
3.2). The rounds meet in one number per column, the common total. A round's least cost is a convex function of it,
piecewise linear under Laplace noise and piecewise quadratic under Gaussian noise, so sorting breakpoints solves the
problem exactly. The paper's solver, ADMM, is kept beside the tests (`tests/reference/admm.py`): both must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recoup.errors import ParameterError
from recoup.queries.base import Array
from recoup.queries.cells import Sums, as_cells
from recoup.transcript.context import Context
from recoup.transcript.round import Round

Rounds: TypeAlias = Sequence[Round]
# Sums and squares of numbers inside these limits neither overflow nor vanish.
_LARGEST, _SMALLEST = 1e50, 1e-50
# Slopes are sums of at most a few thousand terms: less than this, relative to their size, is rounding.
_FLAT = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """One round of a Voronoi query: noisy counts and sums of its cells, with their noise scales."""

    centers: Array
    counts: Array
    count_scales: Array
    sums: Array | None = None
    sum_scales: Array | None = None
    relative: bool = False  # whether sums are of offsets from the centres

    def means(self, context: Context) -> Array:
        """Sum over count, inside the domain; a cell without sums, or a count below 1, keeps the centre of its query."""
        if self.sums is None:
            return self.centers
        usable = self.counts >= 1.0
        means = self.sums / np.where(usable, self.counts, 1.0)[:, None]
        means = self.centers + means if self.relative else means
        return context.domain.clip(np.where(usable[:, None], means, self.centers))


def cells_of(answered: Round) -> Cells | None:
    """Read a round of counts in cells, with or without sums; none of another query."""
    query = as_cells(answered.query)
    if query is None:
        return None
    k = query.n_cells
    cells = Cells(centers=query.centers, counts=answered.noisy[:k], count_scales=answered.scales[:k])
    if query.sums == "none":
        return cells
    sums, scales = query.sums_of(answered.noisy), query.sums_of(answered.scales)
    return replace(cells, sums=sums, sum_scales=scales, relative=query.sums == "relative")


def noisy_means_of(context: Context, answered: Round, *sums: Sums) -> Array | None:
    """Where a round alone would put the middles of its cells; none without sums, or with others than are named."""
    cells = cells_of(answered) if as_cells(answered.query, *sums) else None
    return None if cells is None or cells.sums is None else cells.means(context)


def voronoi_cells_of(rounds: Rounds) -> list[Cells]:
    """Read rounds of counts, with or without absolute sums; other queries are refused."""
    if not rounds:
        raise ParameterError("the transcript holds no round to infer from.")
    cells = [read for answered in rounds if (read := cells_of(answered)) and not read.relative]
    if len(cells) < len(rounds):
        readable = "rounds of counts and absolute sums (DP-KMEANS) only"
        raise ParameterError(f"this method reads {readable}; use another method.")
    return cells


class Table(NamedTuple):
    """The cells of some rounds, stacked: y and scales are (n, c), round t owns the rows starts[t]:starts[t + 1]."""

    y: Array
    scales: Array
    starts: NDArray[np.int64]

    def slices(self) -> list[slice]:
        """The rows of each round."""
        return [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def totals(self, x: Array) -> Array:
        """Sums over the cells of each round, (T, ...)."""
        return np.asarray(np.add.reduceat(x, self.starts[:-1], axis=0))


class Report(NamedTuple):
    """How a solver ended."""

    primal_residual: float  # the largest mismatch of a round's total, in units of the noise scale
    dual_residual: float  # the slope left at the common total, in units of the slope 1/b of the objective
    n_iterations: int  # Newton steps of the slowest column


def made_consistent(rounds: Sequence[Cells], context: Context) -> tuple[list[Cells], float, Report]:
    """The most likely counts and sums whose totals agree over all rounds, no count negative; and their common count.

    Guarantees: counts are >= 0 exactly and totals agree up to the rounding of their summation. A Laplace optimum is not
    unique: the one of least sum ((x - y) / b)^2 is returned, which is (cells of equal scale share a discrepancy).
    """
    of_counts, of_sums = stacked(rounds)
    gaussian = context.mechanism == "gaussian"
    counts, report = exact_counts(of_counts, gaussian)
    cells = [replace(c, counts=counts[rows].copy()) for c, rows in zip(rounds, of_counts.slices(), strict=True)]
    if of_sums is not None:
        sums, other = exact_sums(of_sums, gaussian)
        report = Report(max(report[0], other[0]), max(report[1], other[1]), max(report[2], other[2]))
        parts = iter(of_sums.slices())
        cells = [c if c.sums is None else replace(c, sums=sums[next(parts)].copy()) for c in cells]
    return cells, float(counts[of_counts.slices()[0]].sum()), report


def stacked(rounds: Sequence[Cells]) -> tuple[Table, Table | None]:
    """The counts of all rounds, and the sums of those that have them: problems of their own."""
    of_counts = _table([(c.counts[:, None], c.count_scales[:, None]) for c in rounds])
    sums = [(c.sums, c.sum_scales) for c in rounds if c.sums is not None and c.sum_scales is not None]
    return of_counts, _table(sums) if sums else None


def _table(parts: Sequence[tuple[Array, Array]]) -> Table:
    y, scales = (np.concatenate(values) for values in zip(*parts, strict=True))
    if not (np.all(np.abs(y) <= _LARGEST) and np.all((scales >= _SMALLEST) & (scales <= _LARGEST))):
        raise ParameterError(f"answers and noise scales must be finite, at most {_LARGEST:g}, and scales positive.")
    return Table(y, scales, np.concatenate([[0], np.cumsum([len(values) for values, _ in parts])]))


class Filling:
    """Cells that share a change of their total at least squared cost: x = max(0, y + tau v), tau set by the total."""

    def __init__(self, y: Array, v: Array) -> None:
        self.y, self.v = y, v
        ratio = y / v
        order = np.argsort(-ratio, kind="stable")
        self._y, self._v = np.cumsum(y[order]), np.cumsum(v[order])
        # the total at which the next cell becomes positive
        self._joins = self._y[:-1] - ratio[order][1:] * self._v[:-1]

    def multiplier(self, total: float) -> tuple[float, float]:
        """Tau at this total, and its slope; tau is concave and increasing in the total."""
        j = int(np.searchsorted(self._joins, total, side="right"))
        return float((total - self._y[j]) / self._v[j]), float(1.0 / self._v[j])

    def fill(self, total: float) -> Array:
        """The cells at this total."""
        x = np.maximum(self.y + self.multiplier(total)[0] * self.v, 0.0)
        filled = x.sum()
        return np.asarray(x * (total / filled)) if filled > 0 else x


class _Slopes:
    """A round's least cost as a function of its count total.

    Above the sum of the positive counts its slope is 1/b of the noisiest cells, which take up what is added. Below
    it, cells are emptied one group of equal scale after the other, the noisiest first; below 0 the cost is infinite.
    """

    def __init__(self, y: Array, scales: Array) -> None:
        self.y = y
        negative, self.member = np.unique(-scales, return_inverse=True)
        self.scales, self.slopes = -negative, -1.0 / negative
        capacity = np.bincount(self.member, np.maximum(y, 0.0), minlength=self.slopes.size)
        self.positions = np.concatenate([np.cumsum(capacity[::-1])[::-1], [0.0]])
        self.jumps = np.concatenate([[2.0 * self.slopes[0]], np.diff(self.slopes), [np.inf]])

    def filling(self, total: float) -> tuple[int, float, Filling]:
        """The group of cells that takes up a change of the total here, and the total without it."""
        group = min(int(np.count_nonzero(self.positions[1:] > total)), self.slopes.size - 1)
        y = self.y[self.member == group]
        return group, float(self.positions[group + 1]), Filling(y, np.full(y.size, self.scales[group] ** 2))


def _flat_bottom(positions: Array, jumps: Array, slope: float) -> tuple[float, float, float]:
    """Where a convex piecewise linear function, of this slope at +infinity, is least: low, high, the slope between."""
    order = np.argsort(-positions, kind="stable")
    positions, left = positions[order], slope - np.cumsum(jumps[order])
    high = int(np.argmax(left <= _FLAT * slope))
    low = int(np.argmax(left < -_FLAT * slope))
    return float(positions[low]), float(positions[high]), abs(float(left[high])) if low != high else 0.0


def _common_total(parts: Sequence[tuple[float, Filling]], low: float, high: float) -> tuple[float, float, int]:
    """The total in [low, high] of least squared cost, the slope left there, and the number of Newton steps.

    The slope is concave and increasing: after one step the iterates rise to the root, and reach it in finitely many.
    """
    total, steps = high, 0
    while True:
        tau, slope = np.sum([filling.multiplier(total - offset) for offset, filling in parts], axis=0)
        aim = float(min(max(total - tau / slope, low), high))
        steps += 1
        done = abs(aim - total) <= 1e-15 * abs(total) or (steps > 1 and aim <= total)
        total = aim
        if done:
            return total, float(abs(tau)) if low < total < high else 0.0, steps


def exact_counts(table: Table, gaussian: bool) -> tuple[Array, Report]:
    """Nonnegative counts (n,) with equal totals: the optimum; of several (Laplace), that of least squares."""
    y, scales, slices = table.y[:, 0], table.scales[:, 0], table.slices()
    x = np.maximum(y, 0.0)
    if gaussian:
        own, positive = [Filling(y[rows], scales[rows] ** 2) for rows in slices], table.totals(x)
        parts = [(0.0, filling) for filling in own]
        total, dual, steps = _common_total(parts, float(positive.min()), float(positive.max()))
        x = np.concatenate([filling.fill(total) for filling in own])
    else:
        rounds = [_Slopes(y[rows], scales[rows]) for rows in slices]
        positions, jumps = (np.concatenate(of) for of in zip(*((r.positions, r.jumps) for r in rounds), strict=True))
        low, high, dual = _flat_bottom(positions, jumps, sum(float(r.slopes[0]) for r in rounds))
        active = [r.filling(0.5 * (low + high)) for r in rounds]
        total, _, steps = _common_total([(offset, filling) for _, offset, filling in active], low, high)
        for rows, r, (group, offset, filling) in zip(slices, rounds, active, strict=True):
            part = x[rows]
            part[r.member < group] = 0.0
            part[r.member == group] = filling.fill(max(total - offset, 0.0))
    mismatch = np.abs(table.totals(x) - total) / np.maximum.reduceat(scales, table.starts[:-1])
    return x, Report(float(mismatch.max()), dual, steps)


def exact_sums(table: Table, gaussian: bool) -> tuple[Array, Report]:
    """Unbounded sums (n, d) with equal totals per column: the optimum; of several (Laplace), that of least squares."""
    totals, lengths = table.totals(table.y), np.diff(table.starts)
    largest = np.maximum.reduceat(table.scales, table.starts[:-1], axis=0)
    variances = np.square(table.scales)
    if not gaussian:  # only a round's noisiest cells shift
        variances[table.scales < np.repeat(largest, lengths, axis=0)] = 0.0
    spread = table.totals(variances)
    common = (totals / spread).sum(axis=0) / (1.0 / spread).sum(axis=0)
    dual = 0.0
    for j in range(0 if gaussian else common.size):
        slopes = 1.0 / largest[:, j]
        low, high, slope = _flat_bottom(totals[:, j], 2.0 * slopes, float(slopes.sum()))
        common[j] = min(max(common[j], low), high)
        dual = max(dual, slope)
    x = table.y + variances * np.repeat((common - totals) / spread, lengths, axis=0)
    return x, Report(float((np.abs(table.totals(x) - common) / largest).max()), dual, 1)
