"""The certified solver of the maximum-entropy problem: a log-barrier Newton method on its dual.

First-order methods stop far from the optimum when rounds are nearly collinear, and nothing tells so. Newton's method
does not, and the duality gap of every iterate is known exactly, so the answer comes with a proof of its accuracy.

In the unit-free dual variables u = b z, with residuals rho = (y - A mu) / b, the gap of a Laplace row is
|rho| - u rho and that of a Gaussian row (rho - u)^2 / 2: sums of nonnegative terms, free of cancellation.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.sparse import csr_array

from recoup.kernels import maxent as kernels

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

START = 0.1
MODE = 2
POW = 2
CORR = 1.0
ACC = 0.1
_DENSE_ROWS = 3000  # above this a Cholesky factorisation costs more than conjugate gradients
_FIRST_TAU, _TAU_FACTOR = 1.0, 0.2
_ARMIJO, _TO_BOUNDARY = 1e-4, 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows of a query that puts every support point into one cell: all counts, then all sums, cell by cell.

    Attributes:
        cells: (m,) the cell of every support point.
        n_cells: the number of cells, empty ones included.
        values: (m, d) what each point adds to the sums of its cell, or None for counts alone.
    """

    cells: npt.NDArray[np.integer]
    n_cells: int
    values: Floats | None = None

    @property
    def n_points(self) -> int:
        """The number of support points."""
        return len(self.cells)

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.n_cells * (1 if self.values is None else 1 + self.values.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseRows:
    """Rows of any query whose contribution touches few rows.

    Attributes:
        contribution: (m, size) one line per support point.
    """

    contribution: csr_array

    @property
    def n_points(self) -> int:
        """The number of support points."""
        return int(self.contribution.shape[0])

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.contribution.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseRows:
    """Rows of any query whose contribution touches every row.

    Attributes:
        contribution: (m, size) one line per support point.
    """

    contribution: Floats

    @property
    def n_points(self) -> int:
        """The number of support points."""
        return len(self.contribution)

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.contribution.shape[1])


Block: TypeAlias = Partition | SparseRows | DenseRows


class Solution(NamedTuple):
    """The measure, its certificate, and what it took.

    Attributes:
        measure: (m,) nonnegative weights of the support points, of the base's total.
        dual: (R,) the unit-free dual variables u = b z, in the order of the rows.
        gap: primal minus dual_value, at least 0: the objective is at most this far from its optimum.
        gap_per_row: gap divided by the number of rows.
        primal: value of the primal objective at `measure`.
        dual_value: value of the dual objective at `dual`.
        n_steps: Newton steps taken.
        converged: whether gap_per_row reached the tolerance.
        seconds: wall-clock time.
    """

    measure: Floats
    dual: Floats
    gap: float
    gap_per_row: float
    primal: float
    dual_value: float
    n_steps: int
    converged: bool
    seconds: float


class _Rows:
    """The stacked rows in the kernels' format: points sorted by cell, a cell's count and sums side by side."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        m = blocks[0].n_points
        partitions = [b for b in blocks if isinstance(b, Partition)]
        key = np.zeros(m, np.int64)
        room = 2**62
        for block in partitions:  # neighbours in memory then share their cells, which keeps Gram tiles in cache
            room //= max(block.n_cells, 1)
            if room > 0:
                key = key * block.n_cells + block.cells
        self.points = np.argsort(key, kind="stable")
        external, first_rows = [], np.cumsum([0] + [b.size for b in blocks])
        counts, lengths, rows, values, tile_rows, tile_lengths = [], [], [], [], [], []
        internal = 0
        for block, first in zip(blocks, first_rows, strict=False):
            if isinstance(block, Partition):
                width = block.size // max(block.n_cells, 1)
                counts.append(np.ones(m, np.int64))
                lengths.append(np.full(m, width))
                rows.append(internal + width * block.cells[self.points].astype(np.int64))
                features = np.ones((m, width))
                if block.values is not None:
                    features[:, 1:] = block.values[self.points]
                values.append(features)
                order = np.empty((block.n_cells, width), np.int64)
                order[:, 0] = np.arange(block.n_cells)
                order[:, 1:] = block.n_cells + np.arange(block.n_cells * (width - 1)).reshape(block.n_cells, width - 1)
                external.append(first + order.ravel())
                tile_rows.append(internal + width * np.arange(block.n_cells))
                tile_lengths.append(np.full(block.n_cells, width))
            elif isinstance(block, SparseRows):
                lines = csr_array(block.contribution)[self.points]
                lines.sum_duplicates()
                counts.append(np.diff(lines.indptr).astype(np.int64))
                lengths.append(np.ones(lines.nnz, np.int64))
                rows.append(internal + lines.indices.astype(np.int64))
                values.append(lines.data.astype(np.float64))
                external.append(np.arange(first, first + block.size))
                tile_rows.append(np.arange(internal, internal + block.size))
                tile_lengths.append(np.ones(block.size, np.int64))
            else:
                continue
            internal += block.size
        self.n_sparse = internal
        dense = [(b, f) for b, f in zip(blocks, first_rows, strict=False) if isinstance(b, DenseRows)]
        external += [np.arange(first, first + block.size) for block, first in dense]
        self.dense = np.ascontiguousarray(
            np.concatenate([np.zeros((m, 0)), *(b.contribution for b, _ in dense)], axis=1)[self.points],
            dtype=np.float64,
        )
        self.size = int(first_rows[-1])
        self.external = np.concatenate(external)
        tile_rows.append(np.arange(internal, self.size))
        tile_lengths.append(np.ones(self.size - internal, np.int64))
        self.tile_row, self.tile_length = np.concatenate(tile_rows), np.concatenate(tile_lengths)
        self.width = int(self.tile_length.max(initial=1))
        self.runs = _interleave(counts, lengths, rows, values)

    def gather(self, z: Floats) -> Floats:
        """A' z."""
        out = np.empty(len(self.points))
        kernels.gather(*self.runs, z[: self.n_sparse], out)
        return out + self.dense @ z[self.n_sparse :] if self.dense.shape[1] else out

    def scatter(self, weights: Floats) -> Floats:
        """A weights."""
        out = np.empty(self.size)
        kernels.scatter(*self.runs, weights, out[: self.n_sparse])
        if self.dense.shape[1]:
            out[self.n_sparse :] = weights @ self.dense
        return out

    def gram(self, weights: Floats, out: Floats) -> None:
        """The upper triangle of A diag(weights) A'."""
        kernels.gram(*self.runs, weights, out)
        if self.dense.shape[1]:
            kernels.gram_dense(*self.runs, self.dense, weights, self.n_sparse, out)
            out[self.n_sparse :, self.n_sparse : self.size] = (self.dense * weights[:, None]).T @ self.dense

    def tiles(self, weights: Floats) -> Floats:
        """The products of rows of the same cell, one tile a cell."""
        out = np.zeros((self.size, self.width))
        kernels.gram_diagonal(*self.runs, weights, out[: self.n_sparse])
        out[self.n_sparse :, 0] = weights @ self.dense**2
        return out


def _interleave(
    counts: list[Integers], lengths: list[Integers], rows: list[Integers], values: list[Floats]
) -> tuple[Integers, npt.NDArray[np.int32], npt.NDArray[np.int32], Integers, Floats]:
    """Turn runs listed block by block into runs listed point by point, as the kernels want them."""
    if not counts:
        return np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0)
    m = len(counts[0])
    length, row = np.concatenate(lengths), np.concatenate(rows)
    offset = np.cumsum(length) - length
    start = np.concatenate([[0], np.cumsum(np.sum(counts, axis=0))])
    if len(row) == m * len(counts):
        order = np.arange(len(row)).reshape(len(counts), m).T.ravel()
    else:
        order = np.argsort(np.concatenate([np.repeat(np.arange(m), c) for c in counts]), kind="stable")
    value = np.concatenate([v.ravel() for v in values])
    return start, row[order].astype(np.int32), length[order].astype(np.int32), offset[order], value


class _Point(NamedTuple):
    """Everything that is known at one dual point."""

    u: Floats
    measure: Floats
    residual: Floats  # rho = (y - A mu) / b
    dual_value: float
    gap: float


class _Problem:
    """The dual objective, its derivatives and its barrier, in unit-free variables."""

    def __init__(
        self, rows: _Rows, y: Floats, b: Floats, base: Floats, temperature: float, gaussian: npt.NDArray[np.bool_]
    ):
        self.rows, self.temperature, self.total = rows, temperature, float(base.sum())
        self.y, self.b, self.gaussian = y[rows.external], b[rows.external], gaussian[rows.external]
        self.laplace = ~self.gaussian
        self.log_share = np.log(base[rows.points] / self.total)
        self.direct = rows.size <= _DENSE_ROWS
        self.buffer = np.zeros((rows.size, rows.size + 8)) if self.direct else np.zeros((0, 0))

    def at(self, u: Floats) -> _Point:
        z = u / self.b
        exponent = self.log_share + self.rows.gather(z) / self.temperature
        peak = float(exponent.max())
        measure = np.exp(exponent - peak)
        partition = float(measure.sum())
        measure *= self.total / partition
        residual = (self.y - self.rows.scatter(measure)) / self.b
        value = float(z @ self.y) - self.temperature * self.total * (peak + np.log(partition))
        row_gap = np.where(self.gaussian, 0.5 * (residual - u) ** 2, np.abs(residual) - u * residual)
        value -= 0.5 * float(np.sum(u[self.gaussian] ** 2))
        return _Point(u, measure, residual, value, float(np.sum(row_gap)))

    def merit(self, point: _Point, tau: float) -> float:
        """The dual objective with the barrier, to be maximised."""
        return point.dual_value + tau * float(np.sum(np.log1p(-(point.u[self.laplace] ** 2))))

    def gradient(self, point: _Point, tau: float) -> Floats:
        u = point.u
        return np.where(self.gaussian, point.residual - u, point.residual - 2 * tau * u / ((1 - u) * (1 + u)))

    def direction(self, point: _Point, right: Floats, diagonal: Floats, accuracy: float) -> Floats:
        """Solve (Hessian of the data term + diagonal) direction = right."""
        return (
            self._by_cholesky(point, right, diagonal)
            if self.direct
            else self._by_gradients(point, right, diagonal, accuracy)
        )

    def _by_cholesky(self, point: _Point, right: Floats, diagonal: Floats) -> Floats:
        n_rows = len(right)
        self.rows.gram(point.measure, self.buffer)
        scale = 1 / (self.b * np.sqrt(self.temperature))
        mean = scale * (self.y - self.b * point.residual) / np.sqrt(self.total)
        hessian = self.buffer[:, :n_rows] * scale
        hessian *= scale[:, None]
        hessian -= np.outer(mean, mean)
        curvature = hessian.diagonal().copy()
        ridge = 0.0
        for _ in range(20):
            np.fill_diagonal(hessian, curvature + diagonal + ridge)
            # A C-ordered upper triangle is LAPACK's lower one.
            factor, failed = dpotrf(hessian.T, lower=1, overwrite_a=0)
            if not failed:
                return np.asarray(dpotrs(factor, right, lower=1)[0])
            ridge = max(10 * ridge, 1e-12 * float(np.max(np.abs(curvature) + diagonal)))
        return right / (np.abs(curvature) + diagonal)

    def factor(self, point, diagonal):
        if not self.direct:
            return lambda right: self._by_gradients(point, right, diagonal, ACC)
        n_rows = len(diagonal)
        self.rows.gram(point.measure, self.buffer)
        scale = 1 / (self.b * np.sqrt(self.temperature))
        mean = scale * (self.y - self.b * point.residual) / np.sqrt(self.total)
        hessian = self.buffer[:, :n_rows] * scale
        hessian *= scale[:, None]
        hessian -= np.outer(mean, mean)
        curvature = hessian.diagonal().copy()
        ridge = 0.0
        for _ in range(20):
            np.fill_diagonal(hessian, curvature + diagonal + ridge)
            factor, failed = dpotrf(hessian.T, lower=1, overwrite_a=0)
            if not failed:
                return lambda right: np.asarray(dpotrs(factor, right, lower=1)[0])
            ridge = max(10 * ridge, 1e-12 * float(np.max(np.abs(curvature) + diagonal)))
        return lambda right: right / (np.abs(curvature) + diagonal)

    def _by_gradients(self, point: _Point, right: Floats, diagonal: Floats, accuracy: float) -> Floats:
        """Conjugate gradients, preconditioned by the cells' own tiles."""
        rows, scale = self.rows, 1 / (self.b * np.sqrt(self.temperature))
        tiles = rows.tiles(point.measure)
        kernels.scale_tiles(rows.tile_row, rows.tile_length, scale, diagonal, tiles)
        kernels.factor_tiles(rows.tile_row, rows.tile_length, tiles)

        def product(v: Floats) -> Floats:
            slope = rows.gather(v * scale)
            slope -= float(point.measure @ slope) / self.total
            slope *= point.measure
            return scale * rows.scatter(slope) + diagonal * v

        x, r, preconditioned = np.zeros_like(right), right.copy(), np.empty_like(right)
        kernels.solve_tiles(rows.tile_row, rows.tile_length, tiles, r, preconditioned)
        p = preconditioned.copy()
        rz = float(r @ preconditioned)
        goal = accuracy**2 * rz
        for iteration in range(300):
            q = product(p)
            curvature = float(p @ q)
            if not curvature > 0:
                break
            step = rz / curvature
            x += step * p
            r -= step * q
            kernels.solve_tiles(rows.tile_row, rows.tile_length, tiles, r, preconditioned)
            rz, before = float(r @ preconditioned), rz
            if rz <= goal:
                break
            p = preconditioned + (rz / before) * p
        self.cg = iteration + 1
        return x


def solve(
    blocks: Sequence[Block],
    observed: npt.ArrayLike,
    scales: npt.ArrayLike,
    base: npt.ArrayLike,
    *,
    temperature: float,
    noise: str | Sequence[str] | npt.NDArray[np.str_] = "laplace",
    tolerance: float = 0.03,
    warm_start: npt.ArrayLike | None = None,
    max_steps: int = 200,
    verbose=False,
    GF=0.0,
    mode=2,
    start_=1,
    pw=1,
    corr=0.0,
    dense=3000,
) -> Solution:
    start = time.perf_counter()
    MODE = mode
    START = start_
    POW = pw
    CORR = corr
    global _DENSE_ROWS
    _DENSE_ROWS = dense
    y = np.asarray(observed, float)
    b = np.asarray(scales, float)
    p = np.asarray(base, float)
    gaussian = np.broadcast_to(np.asarray(noise), y.shape) == "gaussian"
    rows = _Rows(blocks)
    problem = _Problem(rows, y, b, p, temperature, gaussian)
    u = np.zeros(rows.size)
    if warm_start is not None:
        u = np.clip(np.asarray(warm_start, float)[rows.external], -0.9, 0.9)
    t1 = time.perf_counter() - start
    point = problem.at(u)
    tau = _FIRST_TAU
    lap = problem.laplace
    rho = point.residual
    base_ = max(np.mean(np.abs(rho[lap])) if lap.any() else 1.0, 0.1) * START
    up = np.maximum(rho, 0) + base_
    down = np.maximum(-rho, 0) + base_
    steps = 0
    n = max(lap.sum(), 1)
    gau = problem.gaussian

    def bound(x, dx):
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(dx < 0, -x / dx, np.inf)[lap].min(initial=np.inf))

    laststep = 1.0
    while steps < max_steps and point.gap > tolerance * rows.size:
        u = point.u
        lo = 1 + u
        hi = 1 - u
        diag = np.where(gau, 1.0, up / hi + down / lo)
        solver = problem.factor(point, diag)
        compl = max(float((up * hi + down * lo)[lap].sum()) / (2 * n), GF * point.gap / rows.size)
        rho = point.residual
        if MODE == 2 and problem.direct:
            da = solver(np.where(gau, rho - u, rho))
            dup = -up + up / hi * da
            ddn = -down - down / lo * da
            al = min(1.0, bound(hi, -da), bound(lo, da), bound(up, dup), bound(down, ddn))
            ca = float(((up + al * dup) * (hi - al * da) + (down + al * ddn) * (lo + al * da))[lap].sum()) / (2 * n)
            sigma = min(1.0, max((ca / compl) ** POW, 0.01))
            tau = max(sigma * compl, 0.3 * tolerance)
            cu = dup * da * CORR
            cd = ddn * da * CORR
        else:
            sigma = 0.1 if laststep > 0.9 else 0.3 if laststep > 0.5 else 0.7
            tau = max(sigma * compl, 0.3 * tolerance)
            cu = cd = 0.0
        g = np.where(gau, rho - u, rho - (tau + cu) / hi + (tau - cd) / lo)
        dx = solver(g)
        gt = problem.gradient(point, tau)
        slope = float(gt @ dx)
        if slope <= 0:
            cu = cd = 0.0
            dx = solver(gt)
            slope = float(gt @ dx)
        full = step = min(1.0, _TO_BOUNDARY * min(bound(hi, -dx), bound(lo, dx)))
        merit = problem.merit(point, tau)
        while True:
            new = problem.at(u + step * dx)
            if problem.merit(new, tau) >= merit + _ARMIJO * step * slope or step < 1e-10:
                break
            step *= 0.5
        steps += 1
        laststep = step
        d_up = (tau + cu) / hi - up + up / hi * dx
        d_down = (tau - cd) / lo - down - down / lo * dx
        sd = min(step if step < full else 1.0, _TO_BOUNDARY * min(bound(up, d_up), bound(down, d_down)))
        up = up + sd * d_up
        down = down + sd * d_down
        if verbose:
            print(
                steps,
                "compl %.3g tau %.3g step %.3g/%.3g sd %.2g slope %.3g gap/row %.4g cg %d"
                % (compl, tau, step, full, sd, slope, new.gap / rows.size, getattr(problem, "cg", 0)),
            )
        point = new
    measure = np.empty(len(p))
    measure[rows.points] = point.measure
    dual = np.empty(rows.size)
    dual[rows.external] = point.u
    return Solution(
        measure,
        dual,
        point.gap,
        point.gap / rows.size,
        point.dual_value + point.gap,
        point.dual_value,
        steps,
        point.gap <= tolerance * rows.size,
        time.perf_counter() - start,
    )
