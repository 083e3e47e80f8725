"""Responsibilities of the components of a spherical mixture, and the clipped sums that they weight.

One record is computed by one function, whoever asks: its contribution and a total of many are the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import DROPPED

_STEP = 2.0**-30
# Responsibilities add up to this little less than 1, so that rounding, in up to 2^20 components and columns, cannot
# push a record over its bound.
_INSIDE = 1.0 - 2.0**-31


@compiled(nogil=True, error_model="numpy")
def log_scales(
    weights,  # IN   (k,)
    variances,  # IN   (k,)
    n_columns,  # IN
):
    """The logarithm of each component's weight and of the height of its density, up to a constant of all."""
    logs = np.empty(len(weights))
    for k in range(len(weights)):
        logs[k] = math.log(weights[k]) - 0.5 * n_columns * math.log(variances[k])
    return logs


@compiled(nogil=True, error_model="numpy")
def _fill(
    x,  # IN   (d,)
    logs,  # IN   (k,): as log_scales gives them
    means,  # IN   (k, d)
    variances,  # IN   (k,)
    radii,  # IN   (k,): of the sums, in the given norm
    reaches,  # IN   (k,): of the squared lengths
    norm,  # IN   1 or 2
    out,  # OUT  (k (d + 2),): responsibilities, sums row by row, squared lengths
):
    n_components, d = means.shape
    squares = n_components * (d + 1)
    peak = -np.inf
    for k in range(n_components):
        square = 0.0
        for j in range(d):
            difference = x[j] - means[k, j]
            square += difference * difference
        out[squares + k] = square
        out[k] = logs[k] - square / (2.0 * variances[k])
        peak = max(peak, out[k])
    mass = 0.0
    for k in range(n_components):
        out[k] = math.exp(out[k] - peak)
        mass += out[k]
    for k in range(n_components):
        responsibility = out[k] / mass * _INSIDE
        out[k] = responsibility
        square = out[squares + k]
        size = 0.0
        if norm == 1:
            for j in range(d):
                size += abs(x[j] - means[k, j])
        else:
            size = math.sqrt(square)
        shrink = responsibility * (radii[k] / size if size > radii[k] else 1.0)
        start = n_components + k * d
        for j in range(d):
            out[start + j] = (x[j] - means[k, j]) * shrink
        highest = reaches[k] * reaches[k]
        # From the middle of its range, so that one record moves it by half as much.
        out[squares + k] = responsibility * (min(square, highest) - 0.5 * highest)


@compiled(nogil=True, error_model="numpy")
def mixture_rows(
    points,  # IN   (n, d)
    logs,  # IN   (k,)
    means,  # IN   (k, d)
    variances,  # IN   (k,)
    radii,  # IN   (k,)
    reaches,  # IN   (k,)
    norm,  # IN   1 or 2
    rows,  # OUT  (n, k (d + 2))
):
    """Write what each point adds to the answer."""
    for i in range(len(points)):
        _fill(points[i], logs, means, variances, radii, reaches, norm, rows[i])


@compiled(nogil=True, error_model="numpy")
def mixture_totals(
    records,  # IN   (n, d) int32: fixed point
    logs,  # IN   (k,)
    means,  # IN   (k, d)
    variances,  # IN   (k,)
    radii,  # IN   (k,)
    reaches,  # IN   (k,)
    norm,  # IN   1 or 2
    factors,  # IN   (k (d + 2),)
    totals,  # OUT  (k (d + 2),) int64, added to
):
    """Add up trunc(contribution * factor) over the records that count."""
    x, row = np.empty(means.shape[1]), np.empty(len(totals))
    for i in range(len(records)):
        if records[i, 0] == DROPPED:
            continue
        for j in range(len(x)):
            x[j] = records[i, j] * _STEP
        _fill(x, logs, means, variances, radii, reaches, norm, row)
        for v in range(len(row)):
            totals[v] += np.int64(row[v] * factors[v])
