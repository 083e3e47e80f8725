"""The certified solver of the maximum-entropy problem: a log-barrier Newton method on its dual.

First-order methods stop far from the optimum when rounds are nearly collinear, and nothing tells so. Here the duality
gap of every iterate is known exactly, so the answer comes with a proof of its accuracy. The barrier is handled in
primal-dual form: the two bounds of a row carry multipliers, which need about a third fewer steps than the plain
barrier's Hessian, and a predictor chooses how far the barrier may fall in a step. In the unit-free dual variables
u = b z, with residuals rho = (y - A mu) / b, the gap of a Laplace row is |rho| - u rho and that of a Gaussian row
(rho - u)^2 / 2: sums of nonnegative terms, free of cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dpotrs, spotrf, spotrs

from recoup._threads import one_blas_thread
from recoup.errors import ParameterError
from recoup.kernels import maxent as kernels
from recoup.maxent.rows import Floats, Integers, Rows, merged_by_signature
from recoup.queries.base import Partition, RowBlock

# A row is held by its bounds where these add so many times to the diagonal of the Hessian what the data have there.
_HELD = 3.0
_DENSE_ROWS = 3000  # that are factorised, at most
# Single precision takes the steps of double precision up to this ratio of the largest entry to the least that is added
# to the diagonal; the gap is certified in double precision all the same.
_SINGLE_RATIO = 3e7
_ARMIJO, _TO_BOUNDARY = 1e-4, 0.95
# Of conjugate gradients: how accurate a predictor and a step are, in the norm of the preconditioner.
_FORESEEN, _SOLVED, _CG_STEPS = 0.3, 1e-3, 300


class Solution(NamedTuple):
    """The measure and its certificate."""

    measure: Floats  # (m,) nonnegative weights of the support points, of the base's total
    dual: Floats  # (R,) the unit-free dual variables u = b z, in the order of the rows
    gap: float  # primal minus dual_value, at least 0: the objective is at most this far from its optimum
    gap_per_row: float  # gap divided by the number of rows
    primal: float  # value of the primal objective at `measure`
    dual_value: float  # value of the dual objective at `dual`
    n_steps: int  # Newton steps taken
    converged: bool  # whether gap_per_row reached the tolerance


class _Point(NamedTuple):
    """Everything that is known at one dual point; residual is rho = (y - A mu) / b."""

    u: Floats
    measure: Floats
    residual: Floats
    dual_value: float
    gap: float


class _Problem:
    """The dual objective and its derivatives in unit-free variables, rows and points in the kernels' order."""

    def __init__(
        self, rows: Rows, y: Floats, b: Floats, base: Floats, temperature: float, gaussian: npt.NDArray[np.bool_]
    ) -> None:
        self.rows, self.temperature, self.total = rows, temperature, float(base.sum())
        self.y, self.b, self.gaussian = y[rows.external], b[rows.external], gaussian[rows.external]
        self.laplace = ~self.gaussian
        self.scale = 1 / (self.b * np.sqrt(temperature))
        self.log_share = np.log(base[rows.points] / self.total)
        self._room = np.empty(min(rows.size, _DENSE_ROWS) ** 2, np.float32)
        self._single = True  # until single precision does not do

    def at(self, u: Floats) -> _Point:
        """Evaluate the measure, the residuals, the dual value and the certified gap."""
        z = u / self.b
        exponent = self.log_share + self.rows.gather(z) / self.temperature
        peak = float(exponent.max())
        measure = np.exp(exponent - peak)
        mass = float(measure.sum())
        measure *= self.total / mass
        residual = (self.y - self.rows.scatter(measure)) / self.b
        value = float(z @ self.y) - self.temperature * self.total * (peak + float(np.log(mass)))
        value -= 0.5 * float(np.sum(u[self.gaussian] ** 2))
        gaps = np.where(self.gaussian, 0.5 * (residual - u) ** 2, np.abs(residual) - u * residual)
        return _Point(u, measure, residual, value, float(np.sum(gaps)))

    def merit(self, point: _Point, tau: float) -> float:
        """The dual objective with its barrier, to be maximised."""
        return point.dual_value + tau * float(np.sum(np.log1p(-(point.u[self.laplace] ** 2))))

    def newton_system(self, point: _Point, diagonal: Floats) -> Callable[[Floats, float], Floats]:
        """A solver of (data Hessian + diagonal) x = right: conjugate gradients, preconditioned.

        A row that its bounds hold has a diagonal so large that other rows hardly move it: its preconditioner is that
        diagonal. The others, less than half in most problems, have the Cholesky factor of their part of the matrix.
        """
        rows, scale = self.rows, self.scale
        mean = scale * (self.y - self.b * point.residual) / np.sqrt(self.total)
        own = np.maximum(scale**2 * rows.squares(point.measure) - mean**2, 0.0)
        free = np.flatnonzero(diagonal < _HELD * own)
        if len(free) > _DENSE_ROWS:
            free = np.sort(free[np.argpartition(diagonal[free] / own[free], _DENSE_ROWS)[:_DENSE_ROWS]])
        whole, back = own + diagonal, self._factorised(point, mean, diagonal, free)

        def product(v: Floats) -> Floats:
            slope = rows.gather(v * scale)
            slope -= float(point.measure @ slope) / self.total
            slope *= point.measure
            return np.asarray(scale * rows.scatter(slope) + diagonal * v)

        def conditioned(right: Floats) -> Floats:
            out = np.asarray(right / whole)
            out[free] = back(right[free])
            return out

        def solver(right: Floats, accuracy: float) -> Floats:
            x, r, p = np.zeros_like(right), right.copy(), conditioned(right)
            rho = float(r @ p)
            goal = accuracy**2 * rho
            for _ in range(_CG_STEPS):
                q = product(p)
                curvature = float(p @ q)
                if not curvature > 0:
                    break
                x += (rho / curvature) * p
                r -= (rho / curvature) * q
                z = conditioned(r)
                before, rho = rho, float(r @ z)
                if not rho > goal:
                    break
                p = z + (rho / before) * p
            return x

        return solver

    def _factorised(self, point: _Point, mean: Floats, diagonal: Floats, free: Integers) -> Callable[[Floats], Floats]:
        """A solver of the part of the system that some rows have alone, in single precision where that is enough."""
        single, ridge, n = self._single, 0.0, len(free)
        if n == 0:
            return lambda right: right
        for _ in range(20):
            hessian = self._room[: n * n].reshape(n, n) if single else np.empty((n, n))
            self.rows.gram(point.measure, free, hessian)
            parts = self.scale[free], mean[free], diagonal[free] + ridge
            kernels.center_and_scale(*(part.astype(hessian.dtype) for part in parts), hessian)
            size = float(np.max(hessian.diagonal()))
            if not single or size <= _SINGLE_RATIO * float(diagonal[free].min()):
                # The upper triangle of a C-ordered matrix is the lower one of its transpose: LAPACK reads it in place.
                factor, failed = (spotrf if single else dpotrf)(hessian.T, lower=1, overwrite_a=1)
                if not failed:
                    solve_factor = spotrs if single else dpotrs
                    return lambda right: np.asarray(solve_factor(factor, right, lower=1)[0])
                ridge = 0.0 if single else max(10 * ridge, 1e-14 * size)
            self._single = single = False
        return lambda right: right / size


def solve(
    blocks: Sequence[RowBlock],
    observed: npt.ArrayLike,
    scales: npt.ArrayLike,
    base: npt.ArrayLike,
    *,
    temperature: float,
    noise: str | npt.ArrayLike = "laplace",
    tolerance: float = 0.03,
    max_steps: int = 200,
) -> Solution:
    """Find the measure on a support that explains noisy additive measurements with the least departure from a base.

    Minimises sum_r loss((y_r - (A mu)_r) / b_r) + temperature KL(mu || base) over measures mu >= 0 of the base's total,
    where the loss is |.| for a row with Laplace noise and (.)^2 / 2 for one with Gaussian noise. The blocks are A, one
    after the other, `observed` is y and `scales` is b; `noise` is "laplace", "gaussian", or one for each row. It
    stops when the duality gap per row is at most `tolerance`, or with `converged` false.

    Guarantees: `measure` is nonnegative and sums to the base's total; `dual` is feasible; the objective at `measure`
    exceeds its minimum by at most `gap`, converged or not. Zero rows, equal rows and unattainable answers are ordinary.
    """
    y, b, p = (np.asarray(a, np.float64) for a in (observed, scales, base))
    gaussian = _check(blocks, y, b, p, temperature, noise, tolerance)
    weights, groups = p, None
    if all(isinstance(block, Partition) and block.values is None for block in blocks):
        blocks, weights, groups = merged_by_signature(blocks, p)
    rows = Rows(blocks)
    problem = _Problem(rows, y, b, weights, temperature, gaussian)
    with one_blas_thread():
        point, n_steps = _ascend(problem, np.zeros(rows.size), tolerance * rows.size, max_steps)
    measure = np.empty(len(weights))
    measure[rows.points] = point.measure
    if groups is not None:
        measure = measure[groups] * (p / weights[groups])
    dual = np.empty(rows.size)
    dual[rows.external] = point.u
    return Solution(
        measure=measure,
        dual=dual,
        gap=point.gap,
        gap_per_row=point.gap / rows.size,
        primal=point.dual_value + point.gap,
        dual_value=point.dual_value,
        n_steps=n_steps,
        converged=point.gap <= tolerance * rows.size,
    )


def _ascend(problem: _Problem, u: Floats, wanted_gap: float, max_steps: int) -> tuple[_Point, int]:
    """Primal-dual barrier steps until the certified gap is small; returns the point with the smallest gap."""
    laplace, gaussian, n_rows = problem.laplace, problem.gaussian, problem.rows.size
    n_bounds = 2 * max(int(laplace.sum()), 1)
    last_tau = 0.3 * wanted_gap / n_rows  # on the central path a Laplace row's gap is at most tau

    def room(slack: Floats, change: Floats) -> float:
        """The longest step that keeps every slack nonnegative."""
        falling = laplace & (change < 0)
        return float(np.min(-slack[falling] / change[falling], initial=np.inf))

    best = point = problem.at(u)
    spread = max(float(np.mean(np.abs(point.residual[laplace]))) if laplace.any() else 0.0, 0.1)
    above, below = np.maximum(point.residual, 0) + spread, np.maximum(-point.residual, 0) + spread
    for step_number in range(max_steps):
        if best.gap <= wanted_gap:
            return best, step_number
        u = point.u
        high, low = np.where(laplace, 1 - u, 1.0), np.where(laplace, 1 + u, 1.0)
        solver = problem.newton_system(point, np.where(gaussian, 1.0, above / high + below / low))
        # Predictor: how much slack would be left if the barrier vanished? The barrier may fall by that ratio.
        slack = float(np.sum((above * high + below * low)[laplace])) / n_bounds
        du = solver(np.where(gaussian, point.residual - u, point.residual), _FORESEEN)
        d_above, d_below = above * (du / high - 1), below * (-du / low - 1)
        reach = min(1.0, room(high, -du), room(low, du), room(above, d_above), room(below, d_below))
        left = (above + reach * d_above) * (high - reach * du) + (below + reach * d_below) * (low + reach * du)
        tau = max(min(max(float(np.sum(left[laplace])) / n_bounds, 0.01 * slack), slack), last_tau)
        # Corrector: one damped Newton step towards that barrier.
        pull = u.copy()  # of the barrier, or of a Gaussian row's own square
        np.divide(2 * tau * u, (1 - u) * (1 + u), out=pull, where=laplace)
        gradient = point.residual - pull
        du = solver(gradient, _SOLVED)
        slope, merit = float(gradient @ du), problem.merit(point, tau)
        longest = step = min(1.0, _TO_BOUNDARY * min(room(high, -du), room(low, du)))
        candidate = problem.at(u + step * du)
        while not problem.merit(candidate, tau) >= merit + _ARMIJO * step * slope and step > 1e-10:
            step *= 0.5
            candidate = problem.at(u + step * du)
        d_above = tau / high - above + above / high * du
        d_below = tau / low - below - below / low * du
        reach = _TO_BOUNDARY * min(room(above, d_above), room(below, d_below))
        multiplier_step = min(step if step < longest else 1.0, reach)
        above, below = above + multiplier_step * d_above, below + multiplier_step * d_below
        point = candidate
        if point.gap < best.gap:
            best = point
    return best, max_steps


def _check(
    blocks: Sequence[RowBlock], y: Floats, b: Floats, base: Floats, temperature: float, noise: object, tolerance: float
) -> npt.NDArray[np.bool_]:
    """Refuse input that has no solution; returns which rows have Gaussian noise."""
    n_rows = sum(block.shape[1] for block in blocks)
    if n_rows == 0:
        raise ParameterError("there are no rows to explain: pass at least one block with at least one row")
    if y.shape != (n_rows,) or b.shape != (n_rows,):
        raise ParameterError(f"the blocks have {n_rows} rows, but observed is {y.shape} and scales is {b.shape}")
    if any(block.shape[0] != base.size for block in blocks):
        raise ParameterError(f"base has {base.size} points, but the blocks have {[k.shape[0] for k in blocks]}")
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(b)) and np.all(b > 0)):
        raise ParameterError("observed must be finite, and scales finite and positive")
    if base.size == 0 or not (np.all(np.isfinite(base)) and np.all(base > 0)):
        raise ParameterError("base must have at least one point, and only finite, positive weights")
    if not (0 < temperature < np.inf and 0 < tolerance < np.inf):
        raise ParameterError(f"temperature and tolerance must be positive, not {temperature} and {tolerance}")
    for block in blocks:
        if isinstance(block, Partition) and (np.min(block.cells) < 0 or np.max(block.cells) >= block.n_cells):
            raise ParameterError(f"cells must lie in 0 .. {block.n_cells - 1}")
    names = np.broadcast_to(np.asarray(noise), (n_rows,))
    gaussian: npt.NDArray[np.bool_] = names == "gaussian"
    if not np.all(gaussian | (names == "laplace")):
        raise ParameterError('noise must be "laplace" or "gaussian", for all rows or for each')
    return gaussian
