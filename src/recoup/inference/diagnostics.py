"""How well an inferred data set explains a transcript, and how much a chain can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from recoup.queries.base import Array
from recoup.transcript.context import Context
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

# The mean of |noise| / scale, and its standard deviation.
ABSOLUTE_NOISE = {"laplace": (1.0, 1.0), "gaussian": (sqrt(2 / pi), sqrt(1 - 2 / pi))}
_WIDTH = 3.0  # standard deviations: one block in several hundred would be outside by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """The misfit of one round: mean |noisy - inferred| in units of the noise scale, by block.

    Near 1 is what Laplace noise of that scale leaves (0.8 for Gaussian); far above, the data set does not explain the
    round; far below, it follows the noise.
    """

    round: int
    by_block: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """What inference reports about itself; fields that a method does not have are none.

    Attributes:
        seconds: time by stage.
        residuals: the misfit of each round.
        log_likelihood: of the transcript under the inferred data set, up to a constant.
        converged: whether an iterative solver met its stopping rule.
        gap: the certified duality gap, in nats.
        gap_per_row: the gap over the number of noisy values.
        n_iterations: of the solver.
        primal_residual: of the consistency step.
        dual_residual: of the consistency step.
        acceptance: share of accepted proposals, by chain.
        log_likelihood_trace: the log target of each chain, thinned; the log-likelihood where its scale is the noise's.
        best_step: the step of each chain that reached its best data set.
        ess: effective sample size of the log target, second half of the chains.
        r_hat: split R-hat of the same, where there are several chains; all but the first start far from it.
        interrupted: whether the run was stopped early.
    """

    seconds: dict[str, float]
    residuals: tuple[Residuals, ...]
    log_likelihood: float
    converged: bool = True
    gap: float | None = None
    gap_per_row: float | None = None
    n_iterations: int | None = None
    primal_residual: float | None = None
    dual_residual: float | None = None
    acceptance: tuple[float, ...] | None = None
    log_likelihood_trace: tuple[Array, ...] | None = field(default=None, repr=False)
    best_step: tuple[int, ...] | None = None
    ess: float | None = None
    r_hat: float | None = None
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """A JSON value with the fields that are not none."""
        value = asdict(self)
        if self.log_likelihood_trace is not None:
            value["log_likelihood_trace"] = [trace.tolist() for trace in self.log_likelihood_trace]
        return {name: item for name, item in value.items() if item is not None}


def expected_answer(answered: Round, points: Array, weights: Array) -> Array:
    """What weighted points of the unit domain say to a round's query."""
    return np.asarray(answered.query.contribution(points).T @ weights, dtype=np.float64)


def residuals_of(
    context: Context, rounds: Sequence[Round], points: Array, weights: Array
) -> tuple[tuple[Residuals, ...], float]:
    """The misfit of each round under weighted points of the unit domain, and the log-likelihood of all of them."""
    residuals, log_likelihood = [], 0.0
    for t, answered in enumerate(rounds):
        deviation = answered.noisy - expected_answer(answered, points, weights)
        log_likelihood += answered.noise.log_density(deviation, answered.scales)
        by_block = {
            block.name: float(np.mean(np.abs(deviation[rows]) / answered.scales[rows]))
            for block, rows in answered.query.sensitivity(context.domain).parts()
        }
        residuals.append(Residuals(round=t, by_block=by_block))
    return tuple(residuals), log_likelihood


class BlockFit(NamedTuple):
    """The misfit of one block of a round, and the range that noise alone would leave."""

    round: int
    block: str
    n_values: int
    residual: float
    low: float
    high: float


def fit_of_blocks(transcript: Transcript, points: Array, weights: Array) -> Iterator[BlockFit]:
    """The misfit of every block of every round under weighted points in the user's units."""
    context = transcript.context
    residuals, _ = residuals_of(context, transcript.rounds, context.domain.to_unit(points), weights)
    mean, deviation = ABSOLUTE_NOISE[context.mechanism]
    for residual, answered in zip(residuals, transcript.rounds, strict=True):
        for block in answered.query.sensitivity(context.domain).blocks:
            width = _WIDTH * deviation / sqrt(block.size)
            value = residual.by_block[block.name]
            yield BlockFit(residual.round, block.name, block.size, value, max(0.0, mean - width), mean + width)
