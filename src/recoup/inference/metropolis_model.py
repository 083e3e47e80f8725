"""What the sampler needs of a transcript: its target over data sets and its proposals, as arrays for the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recoup.errors import ParameterError
from recoup.kernels import metropolis as kernel

Floats = NDArray[np.float64]
TargetScale = Literal["one", "noise"]
Correction = Literal["component", "mixture"]
_DOMAINS = {"box": kernel.BOX, "l1": kernel.L1_BALL, "l2": kernel.L2_BALL}
_UNBOUNDED_GAIN = 1e300
# Below this the grid of coordinates would show in the proposal.
_MIN_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRound:
    """What one round released about its cells, and how noisy it is.

    Attributes:
        centers: (k, d) centres of the query's own cells.
        counts: (k,) noisy, usually made consistent.
        count_scale: noise scale of the counts, one number or (k,).
        sums: (k, d) noisy absolute sums, or None.
        sum_scale: noise scale of the sums: one number, (k, 1) or (k, d).
    """

    centers: ArrayLike
    counts: ArrayLike
    count_scale: ArrayLike
    sums: ArrayLike | None = None
    sum_scale: ArrayLike | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The law over data sets: how well each explains all rounds, inside the domain.

    Attributes:
        rounds: what was released.
        noise: "laplace": log target -sum |y - A(D)| / b; "gaussian": -sum (y - A(D))^2 / (2 b^2).
        scale: "noise": b is the released noise scale, so that the target is the likelihood; "one": b = 1 everywhere, as
            the paper prints its acceptance.
        domain: "box": [-1, 1]^d; "l1", "l2": the ball of `radius` within that box.
        radius: of the ball.
    """

    rounds: Sequence[CellRound]
    noise: Literal["laplace", "gaussian"] = "laplace"
    scale: TargetScale = "noise"
    domain: Literal["box", "l1", "l2"] = "l1"
    radius: float = 1.0

    def log_density(self, points: ArrayLike, *, record_weight: float = 1.0) -> float:
        """The log target of a data set, computed from nothing but its points.

        Args:
            points: (n, d) latent records; coordinates are rounded toward zero to multiples of 2**-30.
            record_weight: how many records each point stands for.

        Returns:
            The log target, up to the constant of the noise. The domain is not looked at.

        >>> near = CellRound(centers=[[-0.5], [0.5]], counts=[2.0, 1.0], count_scale=10.0)
        >>> Target(rounds=[near]).log_density([[-0.4], [0.4], [0.6]])
        -0.2
        """
        return log_target_of(build_model(self, record_weight), on_grid(points))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The mixture of Gaussians that replacements are drawn from.

    Attributes:
        means: (C, d), inside the domain.
        weights: (C,) not negative; only ratios matter; a component of weight 0 is never proposed.
        variance: of every coordinate, the paper's delta.
        correction: the q(x) of the acceptance: "component", weight times density of the component that a record was
            drawn from, which it carries; or "mixture", of the whole mixture. Both leave the target invariant.
    """

    means: ArrayLike
    weights: ArrayLike
    variance: float = 0.001
    correction: Correction = "component"


def build_model(target: Target, record_weight: float) -> kernel.Model:
    """Stack the rounds into one table, in units of `record_weight` records."""
    if not target.rounds:
        raise ParameterError("The target needs at least one round.")
    if target.noise not in ("laplace", "gaussian") or target.domain not in _DOMAINS:
        raise ParameterError(f"Unknown noise {target.noise!r} or domain {target.domain!r}.")
    if target.scale not in ("one", "noise"):
        raise ParameterError(f"Unknown scale {target.scale!r} of the target.")
    if not (np.isfinite(record_weight) and record_weight > 0 and np.isfinite(target.radius) and target.radius > 0):
        raise ParameterError(f"record_weight and radius must be positive, got {record_weight} and {target.radius}.")
    tables = [_round_table(cells) for cells in target.rounds]
    centers = np.ascontiguousarray(np.concatenate([np.asarray(c.centers, dtype=np.float64) for c in target.rounds]))
    first = np.cumsum([0, *(len(noisy) for noisy, _ in tables)]).astype(np.int64)
    scale = np.concatenate([scale for _, scale in tables])
    if target.scale == "one":
        scale = np.where(np.isfinite(scale), 1.0, scale)  # what was not released stays so
    scale = scale / record_weight
    gaussian = target.noise == "gaussian"
    precision = 0.5 / scale**2 if gaussian else 1.0 / scale
    count_gain = sum_gain = _UNBOUNDED_GAIN
    if not gaussian:
        count_gain = float(np.maximum.reduceat(precision[:, 0], first[:-1]).sum())
        sum_gain = float(np.maximum.reduceat(precision[:, 1:].max(axis=1), first[:-1]).sum())
    d = centers.shape[1]
    # A start may miss the domain by the rounding of its bounds.
    largest_norm = (
        d * kernel.GRID + {"box": d, "l1": min(d, target.radius), "l2": min(d, target.radius * d**0.5)}[target.domain]
    )
    return kernel.Model(
        centers=np.ascontiguousarray(centers.T),
        first=first,
        noisy=np.concatenate([noisy for noisy, _ in tables]) / record_weight,
        precision=precision,
        count_gain=count_gain,
        sum_gain=sum_gain,
        largest_norm=float(largest_norm),
        is_gaussian=gaussian,
        domain=_DOMAINS[target.domain],
        radius=float(target.radius),
    )


def _round_table(cells: CellRound) -> tuple[Floats, Floats]:
    """The round's noisy values and their scales, each (k, 1 + d); what was not released has an infinite scale."""
    centers = np.asarray(cells.centers, dtype=np.float64)
    if centers.ndim != 2 or centers.size == 0:
        raise ParameterError(f"centers must be a table of cells and columns, got shape {centers.shape}.")
    k, d = centers.shape
    noisy, scale = np.zeros((k, 1 + d)), np.full((k, 1 + d), np.inf)
    blocks: list[tuple[Any, ArrayLike, ArrayLike | None]] = [(np.s_[:, 0], cells.counts, cells.count_scale)]
    if cells.sums is not None:
        blocks.append((np.s_[:, 1:], cells.sums, cells.sum_scale))
    for where, values, block_scale in blocks:
        try:
            noisy[where] = np.asarray(values, dtype=np.float64).reshape(noisy[where].shape)
            scale[where] = np.asarray(block_scale, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"Counts, sums and scales must fit {k} cells and {d} columns.") from error
        if not np.all(scale[where] > 0):
            raise ParameterError("Noise scales must be positive.")
    if not (np.isfinite(centers).all() and np.isfinite(noisy).all()):
        raise ParameterError("Centres and released values must be finite.")
    return noisy, scale


def positive_components(proposal: Proposal) -> NDArray[np.int64]:
    """The components that can be proposed."""
    weights = np.asarray(proposal.weights, dtype=np.float64)
    if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise ParameterError("Proposal weights must be finite, not negative, and not all zero.")
    return np.flatnonzero(weights > 0)


def build_mixture(proposal: Proposal, kept: NDArray[np.int64]) -> kernel.Mixture:
    """Keep the components of positive weight, with an alias table (Vose's method) over them."""
    means = np.asarray(proposal.means, dtype=np.float64)
    if means.ndim != 2 or len(means) != np.size(proposal.weights) or not np.isfinite(means).all():
        raise ParameterError(f"Proposal means must be finite, one row per weight, got shape {means.shape}.")
    if np.abs(means).max() > 1.0 + kernel.GRID:
        raise ParameterError("Proposal means must lie inside the domain, within [-1, 1].")
    if not (np.isfinite(proposal.variance) and proposal.variance >= _MIN_VARIANCE):
        raise ParameterError(f"The proposal variance must be at least {_MIN_VARIANCE}, got {proposal.variance}.")
    if proposal.correction not in ("component", "mixture"):
        raise ParameterError(f"Unknown correction {proposal.correction!r} of the proposal.")
    weights = np.asarray(proposal.weights, dtype=np.float64)[kept]
    weights = weights / weights.sum()
    share = weights * len(kept)
    threshold, alias = np.ones(len(kept)), np.arange(len(kept))
    poor, rich = [int(c) for c in np.flatnonzero(share < 1)], [int(c) for c in np.flatnonzero(share >= 1)]
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        threshold[low], alias[low] = share[low], high
        share[high] -= 1.0 - share[low]
        if share[high] < 1:
            poor.append(rich.pop())
    return kernel.Mixture(
        means=np.ascontiguousarray(means[kept]),
        log_weights=np.log(weights),
        threshold=threshold,
        alias=alias,
        deviation=float(proposal.variance) ** 0.5,
        half_precision=0.5 / float(proposal.variance),
        is_marginal=proposal.correction == "mixture",
    )


def on_grid(points: ArrayLike) -> Floats:
    """The points on the kernel's grid, rounded toward zero so that none leaves the domain."""
    table = np.array(points, dtype=np.float64, ndmin=2)
    return np.ascontiguousarray(np.trunc(table / kernel.GRID) * kernel.GRID)


def log_target_of(model: kernel.Model, points: Floats) -> float:
    """The log target of the points, from scratch."""
    rows = np.empty((len(points), len(model.first) - 1), dtype=np.int32)
    totals = np.empty(model.noisy.shape)
    kernel.total_records(model, points, rows, totals, np.empty(len(model.noisy)))
    return float(kernel.log_target(model, totals))
