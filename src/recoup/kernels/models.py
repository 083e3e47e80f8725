"""What a record adds to a step of a model: the gradient of the logistic loss, or its shares in a spherical mixture.

One record is computed by one function, whoever asks: its contribution and a total of many are the same bits. Sums run
in column order, and the exponential of a gradient is built from additions and multiplications alone: the last bit of a
library's exponential differs between machines, and totals of the same records must not.
"""

from __future__ import annotations

import math

import numpy as np

from recoup.kernels import GRID
from recoup.kernels.compiled import compiled
from recoup.kernels.fixed_point import DROPPED

_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is log 2; the first is short
_LARGEST = 700.0  # beyond, exp(-t) is 0 for our purposes
_STEP = 1.0 / GRID
# Responsibilities add up to this little less than 1, so that rounding, in up to 2^20 components and columns, cannot
# push a record over its bound.
_SHARED = 1.0 - 2.0**-31


@compiled(nogil=True, error_model="numpy")
def exp_minus(t):
    """exp(-t) for t >= 0, to a few units in the last place and equal on every machine."""
    if t > _LARGEST:
        return 0.0
    k = math.floor(t / (_LOG2_HIGH + _LOG2_LOW) + 0.5)
    # |r| <= log(2) / 2, where 13 terms of the series leave 4e-18.
    r = -((t - k * _LOG2_HIGH) - k * _LOG2_LOW)
    value = 1.0
    for n in range(13, 0, -1):
        value = 1.0 + value * (r / n)
    return math.ldexp(value, -int(k))


@compiled(nogil=True, error_model="numpy")
def logistic_gradients(x, coefficients, clip, norm, rows):
    """Write (n, d + 2) rows: a 1 and the gradient of log(1 + exp(-s z)), clipped in the L1 or L2 norm.

    A row of x, (n, d + 1), is the features and then the label, of which s is the sign; z is the decision by the
    coefficients, (d + 1,), the last of which is the intercept.
    """
    d = x.shape[1] - 1
    for i in range(x.shape[0]):
        z = 0.0
        for j in range(d):
            z += x[i, j] * coefficients[j]
        z += coefficients[d]
        s = 1.0 if x[i, d] >= 0.0 else -1.0
        # -s / (1 + exp(s z)), without overflow.
        e = exp_minus(abs(z))
        slope = -s * (e / (1.0 + e)) if s * z > 0.0 else -s / (1.0 + e)
        size = 1.0
        for j in range(d):
            size += abs(x[i, j]) if norm == 1 else x[i, j] * x[i, j]
        size = abs(slope) * (size if norm == 1 else math.sqrt(size))
        factor = slope * (clip / size) if size > clip else slope
        rows[i, 0] = 1.0
        for j in range(d):
            rows[i, 1 + j] = factor * x[i, j]
        rows[i, 1 + d] = factor


@compiled(nogil=True, error_model="numpy")
def log_scales(weights, variances, n_columns):
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
        responsibility = out[k] / mass * _SHARED
        out[k] = responsibility
        square = out[squares + k]
        size = 0.0 if norm == 1 else math.sqrt(square)
        if norm == 1:
            for j in range(d):
                size += abs(x[j] - means[k, j])
        shrink = responsibility * (radii[k] / size if size > radii[k] else 1.0)
        start = n_components + k * d
        for j in range(d):
            out[start + j] = (x[j] - means[k, j]) * shrink
        highest = reaches[k] * reaches[k]
        # From the middle of its range, so that one record moves it by half as much.
        out[squares + k] = responsibility * (min(square, highest) - 0.5 * highest)


@compiled(nogil=True, error_model="numpy")
def mixture_rows(points, logs, means, variances, radii, reaches, norm, rows):
    """Write what each of (n, d) points adds to the answer, (n, k (d + 2)), as `_fill` does for one."""
    for i in range(len(points)):
        _fill(points[i], logs, means, variances, radii, reaches, norm, rows[i])


@compiled(nogil=True, error_model="numpy")
def mixture_totals(records, logs, means, variances, radii, reaches, norm, factors, totals):
    """Add trunc(contribution * factor) of all fixed-point records that count, (n, d), to the (k (d + 2),) totals."""
    x, row = np.empty(means.shape[1]), np.empty(len(totals))
    for i in range(len(records)):
        if records[i, 0] == DROPPED:
            continue
        for j in range(len(x)):
            x[j] = records[i, j] * _STEP
        _fill(x, logs, means, variances, radii, reaches, norm, row)
        for v in range(len(row)):
            totals[v] += np.int64(row[v] * factors[v])
