"""Equal totals over rounds, at the level of arrays: an exact finite algorithm, and an alternating one (ADMM).

The rounds meet in one number per column, the common total. A round's least cost is a convex function of it, piecewise
linear under Laplace noise and piecewise quadratic under Gaussian noise, so sorting breakpoints solves the problem
exactly. ADMM solves it independently of that structure, and also the one in which a cell's count bounds its sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup.kernels.compiled import compiled

Array = NDArray[np.float64]

# Slopes are sums of at most a few thousand terms: less than this, relative to their size, is rounding.
_FLAT = 1e-12


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

    primal: float
    dual: float
    n_iterations: int
    converged: bool


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

    def active(self, total: float) -> int:
        """The group that takes up a change of the total here."""
        return min(int(np.count_nonzero(self.positions[1:] > total)), self.slopes.size - 1)

    def filling(self, group: int) -> Filling:
        y = self.y[self.member == group]
        return Filling(y, np.full(y.size, self.scales[group] ** 2))


def _flat_bottom(positions: Array, jumps: Array, slope: float) -> tuple[float, float, float]:
    """Where a convex piecewise linear function, of this slope at +infinity, is least: low, high, the slope between."""
    order = np.argsort(-positions, kind="stable")
    positions, left = positions[order], slope - np.cumsum(jumps[order])
    high = int(np.argmax(left <= _FLAT * slope))
    low = int(np.argmax(left < -_FLAT * slope))
    return float(positions[low]), float(positions[high]), abs(float(left[high])) if low != high else 0.0


def _common_total(fillings: list[Filling], offsets: list[float], low: float, high: float) -> tuple[float, float, int]:
    """The total in [low, high] of least squared cost, the slope left there, and the number of Newton steps.

    The slope is concave and increasing: after one step the iterates rise to the root, and reach it in finitely many.
    """
    total, steps = high, 0
    while True:
        tau, slope = np.sum([f.multiplier(total - o) for f, o in zip(fillings, offsets, strict=True)], axis=0)
        aim = float(min(max(total - tau / slope, low), high))
        steps += 1
        done = abs(aim - total) <= 1e-15 * abs(total) or (steps > 1 and aim <= total)
        total = aim
        if done:
            return total, float(abs(tau)) if low < total < high else 0.0, steps


def exact_counts(table: Table, gaussian: bool) -> tuple[Array, Report]:
    """Nonnegative counts (n,) with equal totals: the optimum; of several (Laplace), the one of least squares."""
    y, scales, slices = table.y[:, 0], table.scales[:, 0], table.slices()
    x = np.maximum(y, 0.0)
    if gaussian:
        fillings, offsets = [Filling(y[rows], scales[rows] ** 2) for rows in slices], [0.0] * len(slices)
        positive = table.totals(x)
        total, dual, steps = _common_total(fillings, offsets, float(positive.min()), float(positive.max()))
        x = np.concatenate([filling.fill(total) for filling in fillings])
    else:
        rounds = [_Slopes(y[rows], scales[rows]) for rows in slices]
        low, high, dual = _flat_bottom(
            np.concatenate([r.positions for r in rounds]),
            np.concatenate([r.jumps for r in rounds]),
            sum(float(r.slopes[0]) for r in rounds),
        )
        active = [r.active(0.5 * (low + high)) for r in rounds]
        fillings = [r.filling(g) for r, g in zip(rounds, active, strict=True)]
        offsets = [float(r.positions[g + 1]) for r, g in zip(rounds, active, strict=True)]
        total, _, steps = _common_total(fillings, offsets, low, high)
        for rows, r, g, filling, offset in zip(slices, rounds, active, fillings, offsets, strict=True):
            part = x[rows]
            part[r.member < g] = 0.0
            part[r.member == g] = filling.fill(max(total - offset, 0.0))
    mismatch = np.abs(table.totals(x) - total) / np.maximum.reduceat(scales, table.starts[:-1])
    return x, Report(float(mismatch.max()), dual, steps, True)


def exact_sums(table: Table, gaussian: bool) -> tuple[Array, Report]:
    """Unbounded sums (n, d) with equal totals per column: the optimum; of several (Laplace), the one of least squares.

    All cells (Gaussian), or a round's noisiest ones (Laplace), shift in proportion to their variances.
    """
    totals, lengths = table.totals(table.y), np.diff(table.starts)
    largest = np.maximum.reduceat(table.scales, table.starts[:-1], axis=0)
    variances = np.square(table.scales)
    if not gaussian:
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
    return x, Report(float((np.abs(table.totals(x) - common) / largest).max()), dual, 1, True)


# ADMM. Arrays are (n_cells, n_columns), every entry divided by its `unit`, so that noise is of order one whatever was
# measured and a total is the sum of unit * x. Entries that were not measured have unit 0 and weight 0.
NO_CONE, L1_CONE, L2_CONE, BOX_CONE = 0, 1, 2, 3

_FIRST_CHECK = 16
_IMBALANCE = 5.0
# Beyond this a step of z that matters would drown in rounding, and standing still would look like convergence.
_LARGEST_RHO = 1e6


@compiled(fastmath=False)
def project_on_cone(
    cell,  # IN, OUT  (1 + d,): count, then sums; replaced by the nearest point of {norm(sums) <= radius * count}
    norm,  # IN       L1_CONE, L2_CONE or BOX_CONE
    radius,  # IN
):
    """Project on the cone of attainable (count, sums)."""
    n_columns = cell.shape[0]
    if norm == L2_CONE:
        length = 0.0
        for j in range(1, n_columns):
            length += cell[j] * cell[j]
        length = np.sqrt(length)
        if length <= radius * cell[0]:
            return
        if radius * length <= -cell[0]:
            cell[:] = 0.0
            return
        count = (cell[0] + radius * length) / (1.0 + radius * radius)
        for j in range(1, n_columns):
            cell[j] *= radius * count / length
        cell[0] = count
    elif norm == L1_CONE:
        # sums shrink by theta, the count grows by radius * theta: Newton on a convex decreasing function
        theta = 0.0
        while True:
            above, n_above = 0.0, 0
            for j in range(1, n_columns):
                if abs(cell[j]) > theta:
                    above += abs(cell[j])
                    n_above += 1
            step = (above - radius * cell[0]) / (n_above + radius * radius)
            if not step > theta:
                break
            theta = step
        if theta == 0.0:
            return
        if cell[0] + radius * theta <= 0.0:
            cell[:] = 0.0
            return
        cell[0] += radius * theta
        for j in range(1, n_columns):
            cell[j] = np.sign(cell[j]) * max(abs(cell[j]) - theta, 0.0)
    else:
        # the count grows by radius * (what clipping removes): Newton on a concave increasing function
        count = max(cell[0], 0.0)
        while True:
            above, n_above = 0.0, 0
            for j in range(1, n_columns):
                if abs(cell[j]) > radius * count:
                    above += abs(cell[j])
                    n_above += 1
            step = (cell[0] + radius * above) / (1.0 + radius * radius * n_above)
            if not step > count:
                break
            count = step
        cell[0] = count
        for j in range(1, n_columns):
            cell[j] = min(max(cell[j], -radius * count), radius * count)


@compiled(fastmath=False)
def equalise_totals(
    x,  # IN, OUT  (n, c): deviations, replaced by the nearest ones with which all rounds have the same total
    unit,  # IN    (n, c)
    starts,  # IN  (T + 1,): the cells of round t are starts[t]:starts[t + 1]
    answered,  # IN  (T, c): the totals of the noisy answers, up to a common constant per column
    squares,  # IN   (T, c): sums of unit ** 2; 0 where a round has no such column
    totals,  # OUT (T,): scratch
):
    """Project on equal totals."""
    n_rounds = starts.shape[0] - 1
    for j in range(x.shape[1]):
        weighted, weights = 0.0, 0.0
        for t in range(n_rounds):
            if squares[t, j] > 0.0:
                total = 0.0
                for i in range(starts[t], starts[t + 1]):
                    total += unit[i, j] * x[i, j]
                totals[t] = answered[t, j] + total
                weighted += totals[t] / squares[t, j]
                weights += 1.0 / squares[t, j]
        for t in range(n_rounds):
            if squares[t, j] > 0.0:
                shift = (weighted / weights - totals[t]) / squares[t, j]
                for i in range(starts[t], starts[t + 1]):
                    x[i, j] += shift * unit[i, j]


@compiled(fastmath=False)
def alternate(
    y,  # IN       (n, c): the noisy answers
    unit,  # IN    (n, c)
    weight,  # IN  (n, c): unit / noise scale
    starts,  # IN  (T + 1,)
    answered,  # IN  (T, c): totals of unit * y, up to a common constant per column
    squares,  # IN   (T, c): totals of unit ** 2
    bounded,  # IN bool: column 0 is >= 0
    gaussian,  # IN bool: squared instead of absolute deviations
    norm,  # IN    NO_CONE, or the cone that every cell with radius >= 0 must lie in
    radius,  # IN  (n,): in noise units; negative: no cone
    tolerance,  # IN
    max_iterations,  # IN
    x,  # IN, OUT  (n, c): deviations from y: the start, then those with equal totals
    z,  # OUT      (n, c): the deviations that cost least, counts nonnegative
    cone,  # OUT   (n, c): the cells inside the cones (not deviations); unset without cones
):
    """Return (primal residual, dual residual, iterations, converged)."""
    n, c = y.shape
    totals, cell = np.empty(starts.shape[0] - 1), np.empty(c)
    u, u_cone = np.zeros((n, c)), np.zeros((n, c))
    size, entries = 0.0, 0
    for i in range(n):
        for j in range(c):
            cell[j] = y[i, j] + x[i, j]
        if norm != NO_CONE and radius[i] >= 0.0:
            project_on_cone(cell, norm, radius[i])
        for j in range(c):
            z[i, j] = x[i, j]
            cone[i, j] = cell[j]
            if weight[i, j] > 0.0:
                size += abs(z[i, j]) + abs(y[i, j] + x[i, j] - cell[j])
                entries += 1
    rho = 1.0
    if not gaussian:
        rho = min(entries / max(size, 1e-300), _LARGEST_RHO)
    next_check, primal, dual = _FIRST_CHECK, np.inf, np.inf
    for iteration in range(1, max_iterations + 1):
        for i in range(n):
            for j in range(c):
                x[i, j] = z[i, j] - u[i, j]
                if norm != NO_CONE:
                    x[i, j] = 0.5 * (x[i, j] + cone[i, j] - y[i, j] - u_cone[i, j])
        equalise_totals(x, unit, starts, answered, squares, totals)
        primal, moved, largest, largest_dual = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            for j in range(c):
                if weight[i, j] == 0.0:
                    continue
                aim = x[i, j] + u[i, j]
                if gaussian:
                    new = aim * rho / (rho + weight[i, j] * weight[i, j])
                else:
                    new = np.sign(aim) * max(abs(aim) - weight[i, j] / rho, 0.0)
                if bounded and j == 0:
                    new = max(new, -y[i, j])
                moved = max(moved, abs(new - z[i, j]) / weight[i, j])
                primal = max(primal, abs(x[i, j] - new) * weight[i, j])
                largest = max(largest, abs(new) * weight[i, j])
                u[i, j] = aim - new
                z[i, j] = new
                largest_dual = max(largest_dual, abs(u[i, j]) / weight[i, j])
        if norm != NO_CONE:
            for i in range(n):
                if radius[i] < 0.0:
                    for j in range(c):
                        cone[i, j] = y[i, j] + x[i, j]
                    continue
                for j in range(c):
                    cell[j] = y[i, j] + x[i, j] + u_cone[i, j]
                    u_cone[i, j] = cell[j]
                project_on_cone(cell, norm, radius[i])
                for j in range(c):
                    u_cone[i, j] -= cell[j]
                    moved = max(moved, abs(cell[j] - cone[i, j]) / weight[i, j])
                    primal = max(primal, abs(y[i, j] + x[i, j] - cell[j]) * weight[i, j])
                    cone[i, j] = cell[j]
        dual = rho * moved
        # deviations are measured against the largest one, multipliers against 1, the slope of |.| in noise units
        primal_limit, dual_limit = 1.0 + largest, 1.0 + (rho * largest_dual if gaussian else 0.0)
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
                u_cone /= factor
    return primal, dual, max_iterations, False
