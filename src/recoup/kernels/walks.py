"""The two walks over data sets, compiled: of records anywhere in the domain, as in the paper, or on a finite support.

On a support a step moves one record to another point, and all rows change by the difference of two contributions
(`walk_on_support`). The rest is one step of the paper's Metropolis-Hastings sampler: it replaces one latent
record by a draw from a mixture and is made of `propose`, `log_acceptance` and `replace`, so that the function that
decides can be enumerated on its own. Four things make a step cheap:

* A record remembers the cell it lies in, for every round, and its log proposal density: taking it away costs no search.
* The noise scales bound what any record can gain, so that most rejections are certain before the cells of the
  proposed point are known. Only the others pay for the search. No decision changes by this.
* The best data set is not copied when it is found. A journal keeps what was replaced since then, to be undone at the
  end; a full journal is undone once, into a copy, and stays closed until a better data set comes.
* The randomness of a block of steps is drawn beforehand, so that records are fetched from memory before their turn.

Coordinates are multiples of `GRID` within [-1, 1], held in float64, and there are at most `MAX_RECORDS` records: every
sum over records is exact, in any order, however long the chain runs. Throughout `point` is (d,), `rows` (T,) int32 are
the rows of a point's cells in every round, and `distances` (M,) is scratch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from recoup.kernels.compiled import compiled

GRID = 2.0**-30
MAX_RECORDS = 2**22
BOX, L1_BALL, L2_BALL = 0, 1, 2
STEP, N_ACCEPTED, BEST_STEP, N_JOURNAL, BEST_IS_SAVED, N_COUNTERS = 0, 1, 2, 3, 4, 5

# Without numba's own memory management a compiled function cannot allocate, and passing a tuple of arrays costs no
# atomic reference counting, which took longer than the step itself.
_COMPILED = {"nogil": True, "fastmath": False, "error_model": "numpy", "_nrt": False}
# Records are drawn at random, far apart in memory: they are fetched this many steps before their turn.
_AHEAD = 8
# Adding and subtracting this rounds a float64 of size below 2**21 to the nearest multiple of GRID.
_ROUNDER = 1.5 * 2.0**22
# Certain rejections leave room for the rounding of the exact ratio, so that both paths decide alike.
_SLACK = 1e-9


class Model(NamedTuple):
    """The target: the cells of T rounds are the rows of one table, M in all; column 0 counts, the others sum.

    Everything is in units of the number of records that a point stands for.
    """

    centers: np.ndarray  # (d, M)
    first: np.ndarray  # (T + 1,) int64: round t owns the rows first[t] .. first[t + 1] - 1
    noisy: np.ndarray  # (M, 1 + d)
    precision: np.ndarray  # (M, 1 + d): 1 / b, or 1 / (2 b^2) for Gaussian noise; 0 where nothing was released
    count_gain: float  # the most that adding or removing one record can gain by the counts of all rounds
    sum_gain: float  # the same for the sums, per unit of the record's L1 norm
    largest_norm: float  # L1 norm that no point of the domain exceeds
    is_gaussian: bool
    domain: int  # BOX, L1_BALL or L2_BALL, always within the box [-1, 1]^d
    radius: float


class Mixture(NamedTuple):
    """The proposal: C components of positive weight and one variance, with an alias table to draw from."""

    means: np.ndarray  # (C, d)
    log_weights: np.ndarray  # (C,)
    threshold: np.ndarray  # (C,)
    alias: np.ndarray  # (C,) int64
    deviation: float
    half_precision: float  # 1 / (2 variance)
    is_marginal: bool  # a point's density is that of the whole mixture, not of the component it was drawn from


class State(NamedTuple):
    """The latent records and all that follows from them."""

    points: np.ndarray  # (n, d) multiples of GRID
    components: np.ndarray  # (n,) int32
    log_densities: np.ndarray  # (n,) log proposal density, up to a constant
    rows: np.ndarray  # (n, T) int32: the row of the cell in every round
    totals: np.ndarray  # (M, 1 + d)


class Memory(NamedTuple):
    """What is kept of the way: the best data set, as a journal or as a copy, the trace and the counters."""

    journal_records: np.ndarray  # (J,) int64
    journal_points: np.ndarray  # (J, d)
    best_points: np.ndarray  # (n, d)
    trace: np.ndarray  # (1 + n_steps // stride,)
    stride: int
    counters: np.ndarray  # (N_COUNTERS,) int64
    best_log_target: np.ndarray  # (1,)


class Draws(NamedTuple):
    """The randomness of a block of steps."""

    records: np.ndarray  # (block,) int64 below n
    uniforms: np.ndarray  # (block,)
    normals: np.ndarray  # (block, d)
    exponentials: np.ndarray  # (block,)


def prefetch(array, index):
    """Ask the processor for a row of an array before it is needed; does nothing where it is not compiled."""


@intrinsic
def _prefetch_row(typing_context, array, index):
    def generate(context, builder, signature, arguments):
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, view.strides, array_type.ndim)[0]
        start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
        pointer = builder.gep(start, [builder.mul(stride, arguments[1])])
        number = ir.IntType(32)
        signature_type = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], signature_type)
        for_reading, keep_in_all_caches, data = number(0), number(3), number(1)
        builder.call(function, [pointer, for_reading, keep_in_all_caches, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@overload(prefetch, jit_options={"_nrt": False, "forceinline": True})
def _compiled_prefetch(array, index):
    return lambda array, index: _prefetch_row(array, index)


@compiled(**_COMPILED, forceinline=True)
def find_rows(model, point, rows, distances):
    """Write the row of the nearest centre of every round; ties to the lowest row."""
    centers, first = model.centers, model.first
    for row in range(distances.shape[0]):
        difference = point[0] - centers[0, row]
        distances[row] = difference * difference
    for j in range(1, point.shape[0]):
        for row in range(distances.shape[0]):
            difference = point[j] - centers[j, row]
            distances[row] += difference * difference
    for t in range(rows.shape[0]):
        nearest = first[t]
        best = distances[nearest]
        for row in range(first[t] + 1, first[t + 1]):
            if distances[row] < best:
                best = distances[row]
                nearest = row
        rows[t] = nearest


@compiled(**_COMPILED, forceinline=True)
def misfit(residual, precision, is_gaussian):
    """Minus the log density of one released value, up to a constant."""
    if is_gaussian:
        return residual * residual * precision
    return abs(residual) * precision


@compiled(**_COMPILED, forceinline=True)
def gain(residual, move, precision, is_gaussian):
    """By how much the log target grows when a residual moves."""
    return misfit(residual, precision, is_gaussian) - misfit(residual + move, precision, is_gaussian)


@compiled(**_COMPILED, forceinline=True)
def log_target(model, totals):
    """The log target of a data set with these (M, 1 + d) totals."""
    value = 0.0
    for row in range(totals.shape[0]):
        for j in range(totals.shape[1]):
            value -= misfit(model.noisy[row, j] - totals[row, j], model.precision[row, j], model.is_gaussian)
    return value


@compiled(**_COMPILED, forceinline=True)
def log_component_density(mixture, component, point):
    """Log of the component's weight times its density at the point, up to a constant common to all components."""
    squares = 0.0
    for j in range(point.shape[0]):
        difference = point[j] - mixture.means[component, j]
        squares += difference * difference
    return mixture.log_weights[component] - squares * mixture.half_precision


@compiled(**_COMPILED, forceinline=True)
def log_correction(mixture, component, point):
    """The point's part of the Metropolis-Hastings correction: the density of its component, or of the whole mixture."""
    if not mixture.is_marginal:
        return log_component_density(mixture, component, point)
    largest, total = -np.inf, 0.0
    for c in range(mixture.means.shape[0]):
        value = log_component_density(mixture, c, point)
        if value > largest:
            total = total * np.exp(largest - value) + 1.0
            largest = value
        else:
            total += np.exp(value - largest)
    return largest + np.log(total)


@compiled(**_COMPILED)
def total_records(model, points, rows, totals, distances):
    """Write the (n, T) cells of all (n, d) points and their (M, 1 + d) totals, from scratch."""
    for row in range(totals.shape[0]):
        for j in range(totals.shape[1]):
            totals[row, j] = 0.0
    for i in range(points.shape[0]):
        find_rows(model, points[i], rows[i], distances)
        for t in range(rows.shape[1]):
            row = rows[i, t]
            totals[row, 0] += 1.0
            for j in range(points.shape[1]):
                totals[row, 1 + j] += points[i, j]


@compiled(**_COMPILED)
def fill_log_densities(mixture, state):
    """Write every record's log proposal density into the state, from its point and component."""
    for i in range(state.points.shape[0]):
        state.log_densities[i] = log_correction(mixture, state.components[i], state.points[i])


@compiled(**_COMPILED, forceinline=True)
def propose(mixture, uniform, normals, point):
    """Draw a component and write a point of it; returns the component and the log density to correct by."""
    scaled = uniform * mixture.threshold.shape[0]
    component = int(scaled)
    if scaled - component >= mixture.threshold[component]:
        component = mixture.alias[component]
    for j in range(point.shape[0]):
        point[j] = (mixture.means[component, j] + mixture.deviation * normals[j] + _ROUNDER) - _ROUNDER
    return component, log_correction(mixture, component, point)


@compiled(**_COMPILED, forceinline=True)
def norm_in_domain(model, point):
    """The L1 norm of a point of the domain, or infinity for any other point."""
    total, largest, squares = 0.0, 0.0, 0.0
    for j in range(point.shape[0]):
        size = abs(point[j])
        total += size
        largest = max(largest, size)
        squares += size * size
    if (
        largest > 1.0
        or (model.domain == L1_BALL and total > model.radius)
        or (model.domain == L2_BALL and squares > model.radius * model.radius)
    ):
        return np.inf
    return total


@compiled(**_COMPILED, forceinline=True)
def log_acceptance(model, state, record, point, norm, log_density, floor, rows, distances):
    """The log acceptance ratio, and the change of the log target alone; minus infinity if certainly below `floor`.

    `norm` is the proposed point's, infinite outside the domain; its `rows` are written where the ratio is above. The
    old record is taken away first and the new one added to what is left, so that a record that stays in its cell needs
    no case of its own.
    """
    correction = state.log_densities[record] - log_density
    bound = 2.0 * model.count_gain + model.sum_gain * (model.largest_norm + norm)
    if norm == np.inf or correction + bound < floor - _SLACK:
        return -np.inf, 0.0
    n_rounds = rows.shape[0]
    n_columns = point.shape[0]
    noisy, totals, precision, is_gaussian = model.noisy, state.totals, model.precision, model.is_gaussian
    change = 0.0
    for t in range(n_rounds):
        row = state.rows[record, t]
        change += gain(noisy[row, 0] - totals[row, 0], 1.0, precision[row, 0], is_gaussian)
        for j in range(n_columns):
            residual = noisy[row, 1 + j] - totals[row, 1 + j]
            change += gain(residual, state.points[record, j], precision[row, 1 + j], is_gaussian)
    if correction + change + model.count_gain + model.sum_gain * norm < floor - _SLACK:
        return -np.inf, 0.0
    find_rows(model, point, rows, distances)
    for t in range(n_rounds):
        row = rows[t]
        stays = 1.0 if row == state.rows[record, t] else 0.0
        change += gain(noisy[row, 0] - totals[row, 0] + stays, -1.0, precision[row, 0], is_gaussian)
        for j in range(n_columns):
            residual = noisy[row, 1 + j] - totals[row, 1 + j] + stays * state.points[record, j]
            change += gain(residual, -point[j], precision[row, 1 + j], is_gaussian)
    return correction + change, change


@compiled(**_COMPILED, forceinline=True)
def replace(state, record, point, component, log_density, rows):
    """Put the proposed point in the record's place, in all rounds."""
    totals = state.totals
    n_columns = point.shape[0]
    for t in range(rows.shape[0]):
        old, new = state.rows[record, t], rows[t]
        totals[old, 0] -= 1.0
        totals[new, 0] += 1.0
        for j in range(n_columns):
            totals[old, 1 + j] -= state.points[record, j]
            totals[new, 1 + j] += point[j]
        state.rows[record, t] = new
    for j in range(n_columns):
        state.points[record, j] = point[j]
    state.components[record] = component
    state.log_densities[record] = log_density


@compiled(**_COMPILED)
def save_best(points, memory):
    """Turn the journal of changes up to the current points into a copy of the best data set."""
    best = memory.best_points
    for i in range(points.shape[0]):
        for j in range(points.shape[1]):
            best[i, j] = points[i, j]
    for entry in range(memory.counters[N_JOURNAL] - 1, -1, -1):
        record = memory.journal_records[entry]
        for j in range(points.shape[1]):
            best[record, j] = memory.journal_points[entry, j]
    memory.counters[N_JOURNAL] = 0
    memory.counters[BEST_IS_SAVED] = 1


@compiled(**_COMPILED)
def run_block(model, mixture, state, memory, draws, n_steps, point, rows, distances):
    """Take steps of the chain, at most as many as were drawn; all that it learns is then in `state` and `memory`."""
    counters = memory.counters
    step, n_accepted, n_journal = counters[STEP], counters[N_ACCEPTED], counters[N_JOURNAL]
    current, best = log_target(model, state.totals), memory.best_log_target[0]
    next_trace = (step // memory.stride + 1) * memory.stride
    for s in range(n_steps):
        step += 1
        record = draws.records[s]
        ahead = draws.records[min(s + _AHEAD, n_steps - 1)]
        prefetch(state.log_densities, ahead)
        prefetch(state.points, ahead)
        prefetch(state.rows, ahead)
        component, log_density = propose(mixture, draws.uniforms[s], draws.normals[s], point)
        norm = norm_in_domain(model, point)
        floor = -draws.exponentials[s]
        ratio, change = log_acceptance(model, state, record, point, norm, log_density, floor, rows, distances)
        if ratio >= floor:
            n_accepted += 1
            current += change
            if current > best:
                best = current
                counters[BEST_STEP], counters[BEST_IS_SAVED], n_journal = step, 0, 0
            elif counters[BEST_IS_SAVED] == 0:
                if n_journal == memory.journal_records.shape[0]:
                    counters[N_JOURNAL] = n_journal
                    save_best(state.points, memory)
                    n_journal = 0
                else:
                    memory.journal_records[n_journal] = record
                    for j in range(point.shape[0]):
                        memory.journal_points[n_journal, j] = state.points[record, j]
                    n_journal += 1
            replace(state, record, point, component, log_density, rows)
        if step == next_trace:
            memory.trace[step // memory.stride] = current
            next_trace += memory.stride
    counters[STEP], counters[N_ACCEPTED], counters[N_JOURNAL] = step, n_accepted, n_journal
    memory.best_log_target[0] = best


@compiled(nogil=True, error_model="numpy")
def log_target_on_support(totals, observed, scales, gaussian):
    """The log-likelihood of noisy answers, up to a constant; all are (R,), noise that is not Gaussian is Laplace."""
    value = 0.0
    for r in range(len(observed)):
        misfit = (observed[r] - totals[r]) / scales[r]
        value -= 0.5 * misfit * misfit if gaussian[r] else abs(misfit)
    return value


@compiled(nogil=True, error_model="numpy")
def walk_on_support(
    rows,  # IN   (m, R): contributions of the support points, times the records that each latent one stands for
    observed,  # IN   (R,), as are the scales and laws of noise
    scales,  # IN
    gaussian,  # IN
    movers,  # IN   (S,) int64: which record each step moves
    goals,  # IN   (S,) int64: to which support point
    log_uniforms,  # IN   (S,)
    positions,  # IN/OUT (n,) int64: the support point of each record
    totals,  # IN/OUT (R,)
    current,  # IN   the log target at the start
    left,  # OUT  (S,) int64: the point that each accepted step moved from, else -1
    trace,  # OUT  (S,): the log target after each step
):
    """Walk S steps; a step is accepted with probability min(1, likelihood ratio). Returns the last log target."""
    for s in range(len(movers)):
        old, new = positions[movers[s]], goals[s]
        change = 0.0
        for r in range(len(observed)):
            before = (observed[r] - totals[r]) / scales[r]
            after = before - (rows[new, r] - rows[old, r]) / scales[r]
            if gaussian[r]:
                change += 0.5 * (before * before - after * after)
            else:
                change += abs(before) - abs(after)
        left[s] = -1
        if log_uniforms[s] < change:
            for r in range(len(observed)):
                totals[r] += rows[new, r] - rows[old, r]
            positions[movers[s]] = new
            left[s] = old
            current += change
        trace[s] = current
    return current
