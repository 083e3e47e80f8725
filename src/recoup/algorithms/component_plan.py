"""Which way to principal components, from public numbers alone: all second moments at once, or a power iteration.

What spoils components is the spectral norm of the noise matrix that is added to the covariance. For both ways it
follows from the sensitivities and the calibration of the release itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.components import CovariancePCA, PowerPCA, check_width
from recoup.queries.base import MAX_SIZE
from recoup.transcript.context import Context, Request
from recoup.transcript.quote import quote

# Measured: up to here the covariance in one round beats or ties every iterative plan, whatever the noise.
ONE_SHOT_COLUMNS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """A way to principal components, and why.

    Attributes:
        algorithm: "covariance" or "power".
        n_rounds: 1, or the rounds of the power iteration.
        covariance_noise: the expected spectral norm of the noise in the sum of x x', asked for at once; none where that
            answer would be too long to ask for.
        power_noise: likewise of the noise in one round of the power iteration.
        reason: one sentence for people.
    """

    algorithm: Literal["covariance", "power"]
    n_rounds: int
    covariance_noise: float | None
    power_noise: float
    reason: str


def plan_components(context: Context, *, n_components: int, n_rounds: int = 6) -> ComponentPlan:
    """Choose between the noisy covariance and the power iteration, without data.

    Args:
        context: the terms of the release; its bounds matter only through their shape and number of columns.
        n_components: p.
        n_rounds: T, if it is the power iteration.

    Returns:
        The plan. Up to 64 columns it is the covariance; above, the one with the smaller noise.

    Guarantees: the noise is that of the release on these terms, in expectation.

    >>> from recoup.domain import Box
    >>> plan = plan_components(Context(domain=Box([0] * 10, [1] * 10), epsilon=1), n_components=3)
    >>> plan.algorithm, plan.n_rounds
    ('covariance', 1)
    """
    d, p = context.domain.n_columns, whole_number(n_components, "n_components")
    check_width(p, context.domain)
    power = PowerPCA(n_components=p, n_rounds=n_rounds)
    # The directions are random before the first round, and typical: their bound is the one of every later round.
    rng = np.random.default_rng(0)
    power_noise = (sqrt(d) + sqrt(p)) * _deviation(context, power.next_request(context, (), rng))
    covariance_noise = None
    if 1 + d + d * (d + 1) // 2 <= MAX_SIZE:
        covariance = CovariancePCA(n_components=p)
        covariance_noise = 2.0 * sqrt(d) * _deviation(context, covariance.next_request(context, (), rng))
    one_shot = covariance_noise is not None and (d <= ONE_SHOT_COLUMNS or covariance_noise <= power_noise)
    return ComponentPlan(
        algorithm="covariance" if one_shot else "power",
        n_rounds=1 if one_shot else power.n_rounds,
        covariance_noise=covariance_noise,
        power_noise=power_noise,
        reason=_reason(d, power.n_rounds, covariance_noise, power_noise),
    )


def _deviation(context: Context, request: Request | None) -> float:
    """The root mean square deviation of the noise of one product."""
    assert request is not None
    terms = quote(context, request)
    products = terms.scales[-terms.sensitivity.blocks[-1].size :]
    return context.noise.deviation(float(np.sqrt(np.mean(products**2))))


def _reason(d: int, n_rounds: int, covariance_noise: float | None, power_noise: float) -> str:
    if covariance_noise is None:
        return f"All second moments of {d} columns are too many values for one answer: a power iteration asks for few."
    if d <= ONE_SHOT_COLUMNS:
        return (
            f"All second moments in one round: up to {ONE_SHOT_COLUMNS} columns that beats or ties a power iteration, "
            "which pays for every round anew."
        )
    compared = f"the noise of one round of all second moments is {covariance_noise:.3g} in the spectral norm"
    other = f"that of each of {n_rounds} rounds of a power iteration {power_noise:.3g}"
    choice = "All second moments in one round" if covariance_noise <= power_noise else "A power iteration"
    return f"{choice}: {compared}, {other}."
