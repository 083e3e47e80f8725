"""The gradient of the logistic loss, record by record, each clipped in its norm.

Sums run in column order and the exponential is built from additions and multiplications alone: the last bit of a
library's exponential differs between machines, and totals of the same records must not.
"""

from __future__ import annotations

import math

from recoup.kernels.compiled import compiled

_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is log 2; the first is short
_LARGEST = 700.0  # beyond, exp(-t) is 0 for our purposes


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
def logistic_gradients(
    x,  # IN   (n, d + 1): features, then the label, of which the sign counts
    coefficients,  # IN   (d + 1,): one for each feature, then the intercept
    clip,  # IN   the longest gradient
    norm,  # IN   1 or 2: in what it is measured
    rows,  # OUT  (n, d + 2): 1, then the gradient
):
    """Write a 1 and the clipped gradient of log(1 + exp(-s z)), z the decision and s the label's sign."""
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
