"""Logistic regression by private gradient descent, and its noiseless twin on inferred records.

A record is its features and, as its last column, its label: a value of at least 0 is the positive class. Every round
asks for the sum of clipped gradients at the last iterate. Inference reads all, so its answer depends less on the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from recoup._validate import positive_number
from recoup.algorithms.base import Algorithm, Rng, Rounds, column_names, last_of, whole_fields
from recoup.errors import ParameterError
from recoup.maxent.measure import Pass, Problem, maxent, total_of
from recoup.maxent.support import Measure
from recoup.mixed import Mixed
from recoup.queries.base import Array, check_size, of_kind
from recoup.queries.models import LARGEST_COEFFICIENT, LogisticGradientQuery
from recoup.transcript.context import Context, Request

_COUNT_PART = Fraction(5, 100)  # of every round: N is needed to a few per cent only
_LARGEST_PARAMETER = 2.0**20
_LABEL = (str, bool, int, float)
_NEWTON_STEPS, _NEWTON_ACCURACY, _ARMIJO = 100, 1e-10, 1e-4
_SMALLEST_RIDGE = 1e-9  # keeps a measure of one class from having no minimum
_MOST_NOISE = 0.08  # of the longest gradient at the start: inference lost to the best iterates from 9% on
# Of the longest gradient at the start: by how much answers are taken for less exact than their noise, pass by pass.
_SLACKS = (0.03, 0.01, 0.003, 0.001, 0.0003)
_PRIOR_VARIANCES = 200
# Of the support, found in passes, which need not be solved to the end: they only say where to go on.
_POINTS_OF_A_PASS, _STEPS_OF_A_PASS = 3000, 20
_UNIFORM = 0.02  # of the values of every column, so that no place of its range is empty
_LARGEST_TILT = 1e6
_FEWEST_OF_A_CLASS = 0.02
_BISECTIONS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticRegression(Algorithm):
    """Binary logistic regression by gradient descent with noisy mean gradients, from coefficients of zero.

    Args:
        n_rounds: T.
        step_size: of the descent, in units in which the longest record has length 1: below 8 it cannot diverge without
            noise; data that fills its bounds allows more.
        l2: the weight of the penalty (l2 / 2) |w|^2 beside the mean loss; the intercept is free.
        clip: the longest gradient of a record, in the mechanism's norm; by default the longest one at the start.
        pseudo_records: how many records' worth of trust the base of the inferred measure has.
        classes: what the two labels stand for, the negative one first; public. Nothing is computed from it, but rounds
            about other labels are not continued.

    Guarantees: over T equal rounds the whole budget is asked for. Coefficients are finite, whatever the noise.

    >>> LogisticRegression(n_rounds=5).step_size
    16.0
    """

    n_rounds: int = 10
    step_size: float = 16.0
    l2: float = 1e-3
    clip: float | None = None
    pseudo_records: float = 20.0
    classes: tuple[Any, Any] | None = None

    type_name: ClassVar[str] = "logistic-regression"
    has_label: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole_fields(self)
        for name in ("step_size", "l2", "pseudo_records", *(["clip"] if self.clip is not None else [])):
            number = positive_number(getattr(self, name), name, high=_LARGEST_PARAMETER, or_zero=name == "l2")
            object.__setattr__(self, name, number)
        if (given := self.classes) is not None:
            if not isinstance(given, list | tuple) or len(given) != 2 or not all(isinstance(c, _LABEL) for c in given):
                raise ParameterError("classes must be the two values of a label, each a text or a number.")
            object.__setattr__(self, "classes", tuple(given))

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """Ask for the count and the gradient at the last iterate; none after the last round."""
        if len(rounds) >= self.n_rounds:
            return None
        check_size(context.domain.n_columns + 1)
        norm, split = context.noise.norm, {"count": _COUNT_PART, "gradient": 1 - _COUNT_PART}
        at = self.estimate(context, rounds) if rounds else np.zeros(context.domain.n_columns)
        # At the start every slope is one half.
        clip = 0.5 * _reach(context, norm) if self.clip is None else self.clip
        query = LogisticGradientQuery(coefficients=at, clip=clip, norm=norm)
        return Request(query=query, share=Fraction(1, self.n_rounds), split=split)

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The last iterate, (d + 1,): a coefficient for each feature of the unit domain, then the intercept."""
        last = last_of(rounds)
        query = of_kind(last.query, LogisticGradientQuery, "only a round of gradients leads to a next iterate.")
        # A total below its own noise says nothing: without this floor one step could go anywhere.
        precision = sum(1.0 / answered.noise.deviation(answered.scales[0]) ** 2 for answered in rounds)
        mean = last.noisy[1:] / max(total_of(context, rounds), 1.0 / np.sqrt(precision))
        size = float(np.abs(mean).sum() if query.norm == 1 else np.sqrt((mean**2).sum()))
        if size > query.clip:  # no mean of clipped gradients is longer
            mean = mean * (query.clip / size)
        rate = self.step_size / _reach(context, 2) ** 2
        moved = query.coefficients - rate * mean
        moved[:-1] /= 1.0 + rate * self.l2  # the penalty's own step is implicit, so that it never overshoots
        return np.asarray(np.clip(moved, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT))

    def declines(self, context: Context, rounds: Rounds) -> str | None:
        """Why inference is not to be trusted with these rounds, or none: too much noise for so many coefficients."""
        noise = 1.0 / np.sqrt(sum(1.0 / answered.noise.deviation(answered.scales[1]) ** 2 for answered in rounds))
        n = max(total_of(context, rounds), 1.0)
        noise *= np.sqrt(context.domain.n_columns) / n
        signal = 0.5 * _reach(context, 2)
        if noise <= _MOST_NOISE * signal:
            return None
        return (
            f"over all rounds the mean gradient is known to {noise / signal:.0%} of its largest size, and inference "
            f"needs {_MOST_NOISE:.0%}: there are too few records for so many columns at this epsilon."
        )

    def slack(self, context: Context, total: float) -> float:
        """A small part of the longest gradient at the start, for each record."""
        return _SLACKS[-1] * total * 0.5 * _reach(context, 2)

    def support(self, context: Context, rounds: Rounds, n_points: int, rng: Rng) -> Array:
        """Points where labelled records may lie: all features once with either label, the second half positive.

        Real columns crowd at an end of their range, where few uniform points lie. So each pass explains the rounds on
        some points, and the next ones are drawn from exponential densities with the means that were found. Early passes
        treat answers as less exact, because a distant support would be pulled to its edge by what it cannot explain.
        """

        def support(n: int, last: Measure | None) -> Array:
            means, share = np.zeros((2, context.domain.n_columns - 1)), 0.5
            if last is not None:
                positive = last.points[:, -1] >= 0.0
                of_class = np.stack([last.weights * ~positive, last.weights * positive])
                masses = np.maximum(of_class.sum(axis=1), 1e-300)
                means = of_class @ last.points[:, :-1] / masses[:, None]
                share = float(np.clip(masses[1] / masses.sum(), _FEWEST_OF_A_CLASS, 1.0 - _FEWEST_OF_A_CLASS))
            half = (n + 1) // 2
            tilts = tilt_of_mean(means)[(rng.random(half) < share).astype(np.int64)]
            tilts[rng.random(tilts.shape) < _UNIFORM] = 0.0
            features = exponential_values(tilts, rng.random(tilts.shape))
            both = [np.column_stack([features, np.full(half, label)]) for label in (-1.0, 1.0)]
            return context.domain.records_like(context.domain.clip(np.concatenate(both)[:n]), rng)

        total, n_few = total_of(context, rounds), min(n_points, _POINTS_OF_A_PASS)
        slacks = [part * (total * 0.5 * _reach(context, 2)) for part in _SLACKS[:-1]]
        if not rounds or not slacks:
            return support(n_points, None)
        passes = [Pass(n_points=n_few, max_steps=_STEPS_OF_A_PASS, slack=slack) for slack in slacks]
        problem = Problem(
            context=context,
            rounds=rounds,
            total=total,
            temperature=self.pseudo_records / total,
            support=support,
            passes=passes,
        )
        return support(n_points, maxent(problem))

    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """The minimum of the penalised mean loss on weighted points, as far from the last iterate as rounds support."""
        last = self.estimate(context, rounds)
        minimum = minimum_of_loss(points[:, :-1], points[:, -1] >= 0.0, weights, l2=self.l2, start=last)
        with_one = np.column_stack([points[:, :-1], np.ones(len(points))])
        curvature = _curvature(with_one, weights / weights.sum(), _penalty(len(last), self.l2), minimum)
        return last + supported(minimum - last, curvature, _gradient_variance(rounds, points, weights))

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """The coefficients for features in the user's units, or as a schema scales them, then the intercept."""
        if isinstance(context.domain, Mixed):
            return answer
        low, high = (np.array(bound[:-1]) for bound in (context.domain.low, context.domain.high))
        intercept = answer[-1] - np.sum(answer[:-1] * ((high + low) / (high - low)))
        return np.append(2.0 * answer[:-1] / (high - low), intercept)

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]]:
        """A coefficient for each feature, then the intercept; the label's own column has none."""
        return [*column_names(context.domain)[:-1], "intercept"], ["coefficient"]

    def to_json(self) -> dict[str, Any]:
        """The public description that a transcript carries."""
        described = Algorithm.to_json(self)
        classes = described.pop("classes")
        return described if classes is None else described | {"classes": list(classes)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read an algorithm back from its description."""
        names = [field.name for field in fields(cls) if field.name != "classes"]
        return cls(**{name: value[name] for name in names}, classes=value.get("classes"))


def minimum_of_loss(features: Array, positive: Any, weights: Array, *, l2: float, start: Array | None = None) -> Array:
    """Fit a logistic regression to weighted records by Newton's method: coefficients, then the intercept."""
    x = np.column_stack([features, np.ones(len(features))])
    share = weights / weights.sum()
    signs = np.where(positive, 1.0, -1.0)
    penalty = _penalty(x.shape[1], l2)

    def loss(at: Array) -> float:
        return float(share @ np.logaddexp(0.0, -signs * (x @ at)) + 0.5 * (penalty * at) @ at)

    minimum = np.zeros(x.shape[1])
    if start is not None and loss(start) < loss(minimum):
        minimum = start
    value = loss(minimum)
    for _ in range(_NEWTON_STEPS):
        probability = expit(x @ minimum)
        gradient = (share * (probability - (signs > 0.0))) @ x + penalty * minimum
        step = np.linalg.solve(_curvature(x, share, penalty, minimum), gradient)
        fall = float(gradient @ step)
        if fall <= _NEWTON_ACCURACY:
            break
        length, tried = 1.0, loss(minimum - step)
        while tried > value - _ARMIJO * length * fall and length > 1e-10:
            length *= 0.5
            tried = loss(minimum - length * step)
        if tried >= value:
            break
        minimum, value = minimum - length * step, tried
    return np.asarray(np.clip(minimum, -LARGEST_COEFFICIENT, LARGEST_COEFFICIENT))


def supported(move: Array, curvature: Array, variance: float) -> Array:
    """The part of a move to a minimum that is more than the error of the gradients that it was computed from.

    Where the loss is curved with h, an error of a gradient moves its minimum by 1 / h of it. True moves are taken to be
    normal, with one variance in all directions, the likeliest given those that move by more than their error (a base
    without a signal holds back the others); each direction keeps the share of that variance in the sum of both.
    """
    curved, axes = np.linalg.eigh(curvature)
    along = axes.T @ move
    errors = variance / np.maximum(curved, _SMALLEST_RIDGE) ** 2
    beyond = along**2 > errors
    if not beyond.any():
        return np.zeros_like(move)
    tried = np.square(along).max() * np.geomspace(1e-9, 1.0, _PRIOR_VARIANCES)[:, None]
    spread = tried + errors[beyond]
    prior = tried[np.argmin((np.log(spread) + along[beyond] ** 2 / spread).sum(axis=1))]
    return np.asarray(axes @ (along * prior / (prior + errors)))


def _penalty(n_coefficients: int, l2: float) -> Array:
    return np.append(np.full(n_coefficients - 1, l2), 0.0) + _SMALLEST_RIDGE


def _curvature(x: Array, share: Array, penalty: Array, at: Array) -> Array:
    """The second derivative of the penalised mean loss."""
    probability = expit(x @ at)
    return np.asarray((x * (share * probability * (1.0 - probability))[:, None]).T @ x + np.diag(penalty))


def _gradient_variance(rounds: Rounds, points: Array, weights: Array) -> float:
    """Of a value of the mean gradient: the noise of all rounds together, and all of what their misfit has beyond it."""
    noise = np.array([answered.noise.deviation(answered.scales[1]) ** 2 for answered in rounds])
    misfits = [
        np.mean((answered.noisy - answered.query.contribution(points).T @ weights)[1:] ** 2) for answered in rounds
    ]
    beyond = max(float(np.mean(misfits) - noise.mean()), 0.0)
    return float((1.0 / np.sum(1.0 / noise) + beyond) / weights.sum() ** 2)


def trust_in_base(n_features: int) -> float:
    """Pseudo-records that suit so many features: fewer let noise in, more shrink a strong signal."""
    return float(min(n_features, 15))


def _reach(context: Context, norm: int) -> float:
    """The length of the longest record, its features with a 1 for the intercept."""
    d = context.domain.n_columns - 1
    longest = min(context.domain.sum_bound(norm), float(d) if norm == 1 else float(np.sqrt(d)))
    return 1.0 + longest if norm == 1 else float(np.sqrt(1.0 + longest**2))


def tilt_of_mean(mean: Array) -> Array:
    """The a for which the density proportional to exp(a x) on [-1, 1] has this mean: 1 / tanh(a) - 1 / a."""
    low, high = np.full(mean.shape, -np.arcsinh(_LARGEST_TILT)), np.full(mean.shape, np.arcsinh(_LARGEST_TILT))
    for _ in range(_BISECTIONS):  # on a scale on which tilts of all sizes are as fine
        middle = (low + high) / 2.0
        tilt = np.sinh(middle)
        small = np.abs(tilt) < 1e-3
        safe = np.where(small, 1.0, tilt)
        below = np.where(small, tilt / 3.0, 1.0 / np.tanh(safe) - 1.0 / safe) < mean
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(np.sinh((low + high) / 2.0))


def exponential_values(tilts: Array, uniform: Array) -> Array:
    """Values of [-1, 1] of density proportional to exp(a x), from values that are uniform between 0 and 1."""
    size = np.maximum(np.abs(tilts), 1e-9)
    from_edge = -np.log1p(uniform * np.expm1(-2.0 * size)) / size
    return np.asarray(np.clip(np.where(tilts > 0.0, 1.0 - from_edge, from_edge - 1.0), -1.0, 1.0))
