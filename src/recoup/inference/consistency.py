"""All rounds asked the same records, so their totals must agree: the most likely answers that do.

Maximum likelihood subject to equal totals and nonnegative counts (the paper, section 3.2): a weighted L1 problem under
Laplace noise, weighted least squares under Gaussian noise. Here arguments are checked, a solver is chosen and its
result is made exactly consistent; the solvers are kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recoup.errors import ParameterError
from recoup.kernels import consistency as kernel
from recoup.kernels.consistency import Report, Table

Array = NDArray[np.float64]
Noise = Literal["laplace", "gaussian"]

# Sums and squares of numbers inside these limits neither overflow nor vanish.
_LARGEST, _SMALLEST = 1e50, 1e-50
_CONES = {"l1": kernel.L1_CONE, "l2": kernel.L2_CONE, "box": kernel.BOX_CONE}
_ORDERS = {"l1": 1.0, "l2": 2.0, "box": np.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainable:
    """Every cell's mean lies in a ball around the origin: norm(sum) <= radius * count.

    Attributes:
        norm: "l1", "l2", or "box" (the largest absolute coordinate).
        radius: of the ball, in the units of the sums.
    """

    norm: Literal["l1", "l2", "box"]
    radius: float = 1.0

    def __post_init__(self) -> None:
        if self.norm not in _CONES:
            raise ParameterError(f"norm is {self.norm!r}; use 'l1', 'l2' or 'box'.")
        if not _SMALLEST <= self.radius <= _LARGEST:
            raise ParameterError(f"radius is {self.radius!r}; it must be positive and finite.")

    def least_counts(self, sums: Array) -> Array:
        """The smallest counts (k,) with which the cells' sums (k, d) are attainable."""
        return np.asarray(np.linalg.norm(sums, ord=_ORDERS[self.norm], axis=1) / self.radius)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistent:
    """Answers of all rounds that agree on every total.

    Attributes:
        counts: per round (k_t,), nonnegative, each with the sum `total`.
        sums: per round (k_t, d), or None for a round without sums; their totals are equal. None if no sums were given.
        total: the common number of records.
        objective: the attained sum of |x - y| / b (Laplace), or half the sum of ((x - y) / b)^2 (Gaussian), over
            counts, sums and the extra total.
        primal_residual: exact method: the largest mismatch of a round's total; ADMM: the largest |x - y - z| (and
            distance of x from its copy inside the cones) before the last repair. In units of the noise scale.
        dual_residual: exact method: the slope left at the common total; ADMM: rho times the last step of z, in units
            of the slope 1/b of the objective.
        n_iterations: Newton steps of the exact method, or ADMM iterations of the slowest column.
        converged: whether the stopping rule was met within the allowed iterations.
    """

    counts: tuple[Array, ...]
    sums: tuple[Array | None, ...] | None
    total: float
    objective: float
    primal_residual: float
    dual_residual: float
    n_iterations: int
    converged: bool


def consistent(
    counts: Sequence[ArrayLike],
    count_scales: Sequence[ArrayLike],
    sums: Sequence[ArrayLike | None] | None = None,
    sum_scales: Sequence[ArrayLike | None] | None = None,
    *,
    noise: Noise = "laplace",
    extra_total: tuple[float, float] | None = None,
    attainable: Attainable | None = None,
    method: Literal["auto", "admm"] = "auto",
    tolerance: float = 1e-10,
    max_iterations: int = 100_000,
) -> Consistent:
    """Find the most likely answers whose totals are equal in all rounds and whose counts are nonnegative.

    Args:
        counts: noisy counts, one array (k_t,) per round; rounds may differ in their number of cells.
        count_scales: noise scales of the counts, per round a positive scalar or (k_t,).
        sums: noisy sums, per round (k_t, d), or None for a round without sums.
        sum_scales: noise scales of the sums, per round a positive scalar, (k_t,) or (k_t, d).
        noise: "laplace" minimises sum |x - y| / b, "gaussian" half the sum of ((x - y) / b)^2.
        extra_total: a separate noisy number of records and its scale; joins as a round with one cell.
        attainable: if given, every cell's sum must also be attainable with its count.
        method: "auto" is the exact algorithm, and ADMM only where `attainable` binds; "admm" is always ADMM.
        tolerance: ADMM stops when the primal residual is at most tolerance * (1 + the largest |x - y| / b) and the
            dual one at most tolerance (Gaussian: times 1 + the largest multiplier).
        max_iterations: ADMM stops here in any case, and says so in `converged`.

    Returns:
        The consistent answers with the objective and residuals.

    Guarantees:
        Deterministic. Counts are >= 0 exactly and totals agree up to the rounding of their summation, whether or not
        ADMM converged; with `attainable`, norm(sum) <= radius * count up to rounding in every cell that has sums.
        A Laplace optimum is not unique: the exact method returns, among all optima, the one of least
        sum ((x - y) / b)^2, which is unique (cells of equal scale share a discrepancy equally). With "auto" it is also
        returned under `attainable`, if it is attainable; ADMM returns the optimum that it reaches from least squares.

    Raises:
        ParameterError: shapes disagree, a value is not finite, or a scale is not positive.

    >>> import numpy as np
    >>> result = consistent([np.array([6.0, 5.0]), np.array([8.0, -1.0])], [1.0, 1.0])
    >>> result.total, [c.tolist() for c in result.counts]
    (9.0, [[5.0, 4.0], [9.0, 0.0]])
    """
    if noise not in ("laplace", "gaussian"):
        raise ParameterError(f"noise is {noise!r}; use 'laplace' or 'gaussian'.")
    if method not in ("auto", "admm"):
        raise ParameterError(f"method is {method!r}; use 'auto' or 'admm'.")
    if not (tolerance > 0 and max_iterations >= 1):
        raise ParameterError(f"tolerance {tolerance!r} and max_iterations {max_iterations!r} must be positive.")
    table, with_sums = _stack(counts, count_scales, sums, sum_scales, extra_total)
    if attainable is not None and not with_sums.any():
        raise ParameterError("attainable was given, but no round has sums; give sums, or leave it out.")
    gaussian = noise == "gaussian"
    admm = _Admm(gaussian, tolerance, max_iterations)
    if method == "auto":
        x, report = _by_column(table, with_sums, _Exact(gaussian))
        if attainable is not None and not _is_attainable(x, table, with_sums, attainable):
            x, report = admm.jointly(table, with_sums, attainable)
    elif attainable is None:
        x, report = _by_column(table, with_sums, admm)
    else:
        x, report = admm.jointly(table, with_sums, attainable)
    deviations = (np.abs(x - table.y) / table.scales)[np.isfinite(table.scales)]
    slices = table.slices()[: len(counts)]
    return Consistent(
        counts=tuple(x[rows, 0].copy() for rows in slices),
        sums=None
        if sums is None
        else tuple(x[rows, 1:].copy() if has else None for rows, has in zip(slices, with_sums, strict=False)),
        total=float(x[slices[0], 0].sum()),
        objective=float(0.5 * np.square(deviations).sum() if gaussian else deviations.sum()),
        primal_residual=report.primal,
        dual_residual=report.dual,
        n_iterations=report.n_iterations,
        converged=report.converged,
    )


# ---------------------------------------------------------------- reading the arguments


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


def _stack(
    counts: Sequence[ArrayLike],
    count_scales: Sequence[ArrayLike],
    sums: Sequence[ArrayLike | None] | None,
    sum_scales: Sequence[ArrayLike | None] | None,
    extra_total: tuple[float, float] | None,
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
    if extra_total is not None:
        n = _checked([extra_total[0]], "extra_total")
        blocks.append((n, _checked_scales(extra_total[1], n.shape, "the scale of extra_total"), None, None))
    starts = np.concatenate([[0], np.cumsum([block[0].size for block in blocks])])
    width = 1 + (widths.pop() if widths else 0)
    y, scales = np.zeros((starts[-1], width)), np.full((starts[-1], width), np.inf)
    for a, (n, n_scale, s_, s_scale) in zip(starts[:-1], blocks, strict=True):
        rows = slice(a, a + n.size)
        y[rows, 0], scales[rows, 0] = n, n_scale
        if s_ is not None and s_scale is not None:
            y[rows, 1:], scales[rows, 1:] = s_, s_scale
    return Table(y, scales, starts), np.array([block[2] is not None for block in blocks])


# ---------------------------------------------------------------- solving


def _by_column(table: Table, with_sums: NDArray[np.bool_], solve: _Solver) -> tuple[Array, Report]:
    """Counts, and each coordinate of the sums over the rounds that have them, are problems of their own."""
    x, lengths = np.zeros_like(table.y), np.diff(table.starts)
    rows = np.repeat(with_sums, lengths)
    x[:, :1], report = solve.counts(Table(table.y[:, :1], table.scales[:, :1], table.starts))
    if rows.any():
        starts = np.concatenate([[0], np.cumsum(lengths[with_sums])])
        x[rows, 1:], other = solve.sums(Table(table.y[rows, 1:], table.scales[rows, 1:], starts))
        report = _worst([report, other])
    return x, report


def _worst(reports: Sequence[Report]) -> Report:
    primal, dual, steps, converged = zip(*reports, strict=True)
    return Report(max(primal), max(dual), max(steps), all(converged))


@dataclass(frozen=True, slots=True)
class _Exact:
    gaussian: bool

    def counts(self, table: Table) -> tuple[Array, Report]:
        x, report = kernel.exact_counts(table, self.gaussian)
        return x[:, None], report

    def sums(self, table: Table) -> tuple[Array, Report]:
        return kernel.exact_sums(table, self.gaussian)


@dataclass(frozen=True, slots=True)
class _Admm:
    """Nonnegativity is part of the z-step, a clip, so the x-step is a linear projection: both have closed forms."""

    gaussian: bool
    tolerance: float
    max_iterations: int

    def counts(self, table: Table) -> tuple[Array, Report]:
        start, _ = kernel.exact_counts(table, True)
        x, nonnegative, _, report = self._run(table, start[:, None], bounded=True)
        return _with_total(nonnegative, float(x[table.slices()[0], 0].sum()), table), report

    def sums(self, table: Table) -> tuple[Array, Report]:
        x, _ = kernel.exact_sums(table, True)
        reports = []
        for j in range(x.shape[1]):
            column = Table(table.y[:, j : j + 1], table.scales[:, j : j + 1], table.starts)
            x[:, j : j + 1], _, _, report = self._run(column, x[:, j : j + 1], bounded=False)
            reports.append(report)
        totals, lengths = table.totals(x), np.diff(table.starts)
        # the x-step subtracts multipliers that may be far larger than x, and leaves their rounding in the totals
        return x + np.repeat((totals.mean(axis=0) - totals) / lengths[:, None], lengths, axis=0), _worst(reports)

    def jointly(self, table: Table, with_sums: NDArray[np.bool_], attainable: Attainable) -> tuple[Array, Report]:
        """Every cell's (count, sum) lies in a cone, the projection on which is a third step; then an exact repair.

        The repair shifts sums to equal totals, raises counts to what the sums need, and raises the rounds' totals to
        the largest: the last two never leave a cone, and each is as small as the residual.
        """
        start, _ = _by_column(table, with_sums, _Exact(True))
        x, nonnegative, inside, report = self._run(table, start, bounded=True, attainable=attainable)
        slices = table.slices()
        first = slices[int(np.argmax(with_sums))]
        common = x[first, 1:].sum(axis=0)
        for rows, has_sums in zip(slices, with_sums, strict=True):
            if has_sums:
                part = inside[rows]
                part[:, 1:] += (common - part[:, 1:].sum(axis=0)) / len(part)
                part[:, 0] = np.maximum(part[:, 0], attainable.least_counts(part[:, 1:]))
            else:
                inside[rows] = nonnegative[rows]
        inside[:, :1] = _with_total(inside[:, :1], float(table.totals(inside[:, 0]).max()), table)
        return inside, report

    def _run(
        self, table: Table, start: Array, *, bounded: bool, attainable: Attainable | None = None
    ) -> tuple[Array, Array, Array, Report]:
        """Three points, equal at convergence: of equal totals, of nonnegative counts, inside the cones."""
        unit = self._units(table)
        measured = unit > 0
        divisor = np.where(measured, unit, 1.0)
        norm, radius = kernel.NO_CONE, np.full(len(unit), -1.0)
        if attainable is not None:
            norm, has_sums = _CONES[attainable.norm], measured[:, 1]
            radius[has_sums] = attainable.radius * unit[has_sums, 0] / unit[has_sums, 1]
        y, x = table.y / divisor, (start - table.y) / divisor
        z, cone = np.empty_like(x), np.empty_like(x)
        weight = np.where(measured, unit / table.scales, 0.0)
        answered, squares = table.totals(table.y), table.totals(unit * unit)
        # only differences of totals matter, and without the common part they are not lost in its rounding
        answered -= np.mean(answered, axis=0, where=squares > 0)
        report = kernel.alternate(
            y, unit, weight, table.starts, answered, squares, bounded, self.gaussian, norm, radius,
            self.tolerance, self.max_iterations, x, z, cone,
        )  # fmt: skip
        nonnegative = table.y + z * unit
        if bounded:
            nonnegative[:, 0] = np.maximum(nonnegative[:, 0], 0.0)
        return table.y + x * unit, nonnegative, cone * unit, Report(*report)

    def _units(self, table: Table) -> Array:
        """One unit for all counts and one for all sums (Laplace), or one per cell (Gaussian): the faster choices."""
        unit, measured = np.zeros_like(table.scales), np.isfinite(table.scales)
        for block in (slice(0, 1), slice(1, None)):
            known, scales = measured[:, block], table.scales[:, block]
            if not known.any():
                continue
            if self.gaussian:
                rows = known[:, 0]
                unit[rows, block] = np.sqrt(np.mean(np.square(scales[rows]), axis=1, keepdims=True))
            else:
                unit[:, block][known] = np.exp(np.mean(np.log(scales[known])))
        return unit


_Solver = _Exact | _Admm


def _with_total(counts: Array, total: float, table: Table) -> Array:
    """The nearest nonnegative counts (n, 1) whose rounds have this total."""
    parts = [kernel.Filling(counts[rows, 0], np.ones(rows.stop - rows.start)) for rows in table.slices()]
    return np.concatenate([part.fill(max(total, 0.0)) for part in parts])[:, None]


def _is_attainable(x: Array, table: Table, with_sums: NDArray[np.bool_], attainable: Attainable) -> bool:
    rows = np.repeat(with_sums, np.diff(table.starts))
    return bool(np.all(attainable.least_counts(x[rows, 1:]) <= x[rows, 0]))
