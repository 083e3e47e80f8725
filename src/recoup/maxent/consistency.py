"""All rounds asked the same records, so their totals must agree: the most likely answers that do.

Maximum likelihood subject to equal totals and nonnegative counts (the paper, section 3.2): a weighted L1 problem under
Laplace noise, weighted least squares under Gaussian noise. The rounds meet in one number per column, the common total.
A round's least cost is a convex function of it, piecewise linear under Laplace noise and piecewise quadratic under
Gaussian noise, so sorting breakpoints solves the problem exactly. The paper's own solver, ADMM, is kept beside the
tests (`tests/reference/admm.py`), where both must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recoup.errors import ParameterError

Array = NDArray[np.float64]
Noise = Literal["laplace", "gaussian"]

# Sums and squares of numbers inside these limits neither overflow nor vanish.
_LARGEST, _SMALLEST = 1e50, 1e-50
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistent:
    """Answers of all rounds that agree on every total."""

    counts: tuple[Array, ...]  # per round (k_t,), nonnegative, each with the sum `total`
    # per round (k_t, d), or None for a round without sums; their totals are equal. None if no sums were given.
    sums: tuple[Array | None, ...] | None
    total: float  # the common number of records
    # the attained sum of |x - y| / b (Laplace), or half the sum of ((x - y) / b)^2 (Gaussian), over counts and sums
    objective: float
    primal_residual: float  # the largest mismatch of a round's total, in units of the noise scale
    dual_residual: float  # the slope left at the common total, in units of the slope 1/b of the objective
    n_iterations: int  # Newton steps of the slowest column
    converged: bool  # whether the stopping rule was met; an exact solver always meets it


def consistent(
    counts: Sequence[ArrayLike],
    count_scales: Sequence[ArrayLike],
    sums: Sequence[ArrayLike | None] | None = None,
    sum_scales: Sequence[ArrayLike | None] | None = None,
    *,
    noise: Noise = "laplace",
) -> Consistent:
    """Find the most likely answers whose totals are equal in all rounds and whose counts are nonnegative.

    Guarantees:
        Deterministic. Counts are >= 0 exactly and totals agree up to the rounding of their summation. A Laplace optimum
        is not unique: the one of least sum ((x - y) / b)^2 is returned, which is (cells of equal scale share a
        discrepancy equally).
    """
    if noise not in ("laplace", "gaussian"):
        raise ParameterError(f"noise is {noise!r}; use 'laplace' or 'gaussian'.")
    table, with_sums = stacked(counts, count_scales, sums, sum_scales)
    gaussian = noise == "gaussian"
    of_counts, of_sums = split_columns(table, with_sums)
    x = np.zeros_like(table.y)
    x[:, 0], report = exact_counts(of_counts, gaussian)
    if of_sums is not None:
        x[np.repeat(with_sums, np.diff(table.starts)), 1:], other = exact_sums(of_sums, gaussian)
        report = worst_of([report, other])
    return answers(table, with_sums, x, report, gaussian=gaussian, any_sums=sums is not None)


def answers(
    table: Table, with_sums: NDArray[np.bool_], x: Array, report: Report, *, gaussian: bool, any_sums: bool
) -> Consistent:
    """Cut a solution of the stacked table into its rounds again."""
    deviations = (np.abs(x - table.y) / table.scales)[np.isfinite(table.scales)]
    slices = table.slices()
    sums = tuple(x[rows, 1:].copy() if has else None for rows, has in zip(slices, with_sums, strict=True))
    return Consistent(
        counts=tuple(x[rows, 0].copy() for rows in slices),
        sums=sums if any_sums else None,
        total=float(x[slices[0], 0].sum()),
        objective=float(0.5 * np.square(deviations).sum() if gaussian else deviations.sum()),
        primal_residual=report.primal,
        dual_residual=report.dual,
        n_iterations=report.n_iterations,
        converged=report.converged,
    )


def _checked(values: ArrayLike, what: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.abs(array) <= _LARGEST):
        raise ParameterError(f"{what} must be finite (at most {_LARGEST:g} in absolute value).")
    return array


def _checked_scales(values: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    array = _checked(values, what)
    if not np.all(array >= _SMALLEST):
        raise ParameterError(f"{what} must be positive; the smallest is {array.min():g}.")
    if array.ndim == 1 and len(shape) == 2:
        array = array[:, None]
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ParameterError(f"{what} have shape {array.shape}, which does not fit answers of shape {shape}.") from None


def stacked(
    counts: Sequence[ArrayLike],
    count_scales: Sequence[ArrayLike],
    sums: Sequence[ArrayLike | None] | None,
    sum_scales: Sequence[ArrayLike | None] | None,
) -> tuple[Table, NDArray[np.bool_]]:
    """One table of counts and sums; what was not measured has an infinite scale. Also: which rounds have sums."""
    n_rounds = len(counts)
    sums = [None] * n_rounds if sums is None else sums
    sum_scales = [None] * n_rounds if sum_scales is None else sum_scales
    lengths = (n_rounds, len(count_scales), len(sums), len(sum_scales))
    if n_rounds == 0 or len(set(lengths)) != 1:
        raise ParameterError(
            f"counts, count_scales, sums, sum_scales have {lengths} rounds; they must be equal, not 0."
        )
    blocks: list[tuple[Array, Array, Array | None, Array | None]] = []
    for t, (count, count_scale, total, total_scale) in enumerate(
        zip(counts, count_scales, sums, sum_scales, strict=True)
    ):
        n = _checked(count, f"counts of round {t}")
        if n.ndim != 1 or n.size == 0:
            raise ParameterError(f"counts of round {t} have shape {n.shape}; give one dimension, at least one cell.")
        n_scale = _checked_scales(count_scale, n.shape, f"count scales of round {t}")
        if (total is None) != (total_scale is None):
            raise ParameterError(f"round {t} has sums without scales, or scales without sums; give both or neither.")
        if total is None or total_scale is None:
            blocks.append((n, n_scale, None, None))
            continue
        s = _checked(total, f"sums of round {t}")
        if s.ndim != 2 or s.shape[0] != n.size or s.shape[1] == 0:
            raise ParameterError(f"sums of round {t} have shape {s.shape}; give ({n.size}, d) with d at least 1.")
        blocks.append((n, n_scale, s, _checked_scales(total_scale, s.shape, f"sum scales of round {t}")))
    widths = {s.shape[1] for _, _, s, _ in blocks if s is not None}
    if len(widths) > 1:
        raise ParameterError(f"sums have {sorted(widths)} coordinates in different rounds; they must be equal.")
    starts = np.concatenate([[0], np.cumsum([block[0].size for block in blocks])])
    width = 1 + (widths.pop() if widths else 0)
    y, scales = np.zeros((starts[-1], width)), np.full((starts[-1], width), np.inf)
    for a, (n, n_scale, s_, s_scale) in zip(starts[:-1], blocks, strict=True):
        rows = slice(a, a + n.size)
        y[rows, 0], scales[rows, 0] = n, n_scale
        if s_ is not None and s_scale is not None:
            y[rows, 1:], scales[rows, 1:] = s_, s_scale
    return Table(y, scales, starts), np.array([block[2] is not None for block in blocks])


def split_columns(table: Table, with_sums: NDArray[np.bool_]) -> tuple[Table, Table | None]:
    """Counts, and the sums over the rounds that have them: problems of their own."""
    lengths = np.diff(table.starts)
    of_counts = Table(table.y[:, :1], table.scales[:, :1], table.starts)
    rows = np.repeat(with_sums, lengths)
    if not rows.any():
        return of_counts, None
    starts = np.concatenate([[0], np.cumsum(lengths[with_sums])])
    return of_counts, Table(table.y[rows, 1:], table.scales[rows, 1:], starts)


def worst_of(reports: Sequence[Report]) -> Report:
    """How several columns ended, all together."""
    primal, dual, steps, converged = zip(*reports, strict=True)
    return Report(max(primal), max(dual), max(steps), all(converged))


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
