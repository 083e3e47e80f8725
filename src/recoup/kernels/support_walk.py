"""Metropolis steps for records that live on a finite support, under any additive measurements.

A step moves one record to another support point; all rows change by the difference of two contributions.
"""

from __future__ import annotations

from recoup.kernels.compiled import compiled


@compiled(nogil=True, error_model="numpy")
def log_target(
    totals,  # IN   (R,): what the data set answers without noise
    observed,  # IN   (R,)
    scales,  # IN   (R,)
    gaussian,  # IN   (R,) bool: the law of each row's noise, else Laplace
):
    """The log-likelihood of the answers, up to a constant."""
    value = 0.0
    for r in range(len(observed)):
        misfit = (observed[r] - totals[r]) / scales[r]
        value -= 0.5 * misfit * misfit if gaussian[r] else abs(misfit)
    return value


@compiled(nogil=True, error_model="numpy")
def walk(
    rows,  # IN   (m, R): contributions of the support points, times the records that each latent one stands for
    observed,  # IN   (R,)
    scales,  # IN   (R,)
    gaussian,  # IN   (R,) bool
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
