"""How the centres came about, round by round: what was asked, what the answer alone says, what inference makes of it.

Inference is run again on the rounds up to each one, with a fixed seed: a function of the transcript, so it costs no
privacy. Centres of different rounds are matched, so that each cluster can be followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
from recoup.algorithms.registry import algorithm_from_json
from recoup.errors import ParameterError
from recoup.inference.infer import infer
from recoup.inference.inferred import InferredDataset
from recoup.kernels.weighted_kmeans import weighted_inertia, weighted_kmeans
from recoup.maxent.measure import weighted_quantile
from recoup.queries.base import Array, asked_by
from recoup.queries.cells import as_cells
from recoup.queries.counts import Marginal, marginals_of
from recoup.report.encode import evenly_chosen, levels, positions
from recoup.report.numbers import share
from recoup.report.result import Result
from recoup.report.rounds import noisy_cell_means
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_MOST_STEPS, _MOST_CELLS, _MOST_BINS = 12, 400, 96
_STEP_POINTS, _STEP_RESTARTS = 3_000, 6
_STEP_BYTES, _RESULT_BYTES = 450_000, 300_000
_TAIL = 0.003  # of the weight on either side that the zoomed view may leave out
_RESULTS = {
    "maxent": "Result: centres inferred from {n_rounds}.",
    "mcmc": "Result: centres of the sampler's data set, which was inferred from {n_rounds}.",
    "consistency": "Result: centres of the last round, after {n_rounds} were made consistent.",
    "none": "Result: the algorithm's own answer after {n_rounds}, without inference.",
}
_ZOOM_FROM = 0.5  # of the bounds: where the data takes up less, the picture starts zoomed in


def journey_facts(result: Result, *, random_state: Any = 0) -> dict[str, Any]:
    """The steps of the moving picture, positions encoded as parts of the bounds.

    Args:
        result: what the report is about.
        random_state: harmless randomness.

    Returns:
        JSON: the columns with their bounds and the view that the data fills; the final centres with intervals and the
        answer before inference; a step for each round, at most twelve of them; and how much inference moved.
    """
    transcript, domain = result.transcript, result.transcript.context.domain
    columns, clusters = result.shown
    final = domain.to_unit(result.centers)
    at = _chosen_rounds(len(transcript.rounds))
    streams = np.random.default_rng(random_state).spawn(len(at))
    n_points = int(np.clip(_STEP_BYTES // (len(at) * len(columns) * 2), 300, _STEP_POINTS))
    steps, following = [], final
    # Backwards, so that each step is matched to the one that follows it, and all to the result.
    for t, stream in reversed(list(zip(at, streams, strict=True))):
        data = _read_so_far(transcript, t, stream)
        found = weighted_kmeans(
            domain.to_unit(data.points), data.weights, len(final), n_restarts=_STEP_RESTARTS, rng=stream
        ).centers
        own = _own_answer(transcript, t, len(final))
        # Without inference the picture follows the algorithm's own answer.
        following = matched(found if own is None or result.method != "none" else own, following)
        before = None if result.method == "none" else own
        answered = transcript.rounds[t - 1]
        steps.append(
            {
                "round": t,
                "words": asked_by(answered.query).words,
                "asked": _asked(answered, result),
                "before": None if before is None else _encoded(matched(before, final), result),
                "after": _encoded(following, result),
                "moved": _distance(following, final),
                "density": _density(data, result, n_points),
            }
        )
    steps.reverse()
    last = None if result.method == "none" else _own_answer(transcript, len(transcript.rounds), len(final))
    n_final = int(np.clip(_RESULT_BYTES // (len(columns) * 2), 800, 8_000))
    return {
        "columns": [result.columns[j] for j in columns],
        "n_columns": domain.n_columns,
        "low": [domain.low[j] for j in columns],
        "high": [domain.high[j] for j in columns],
        "view": [_view(result, int(j)) for j in columns],
        "pair": _telling_pair(final, columns),
        "labels": [int(k) for k in clusters],
        "n_clusters": len(final),
        "n_rounds": len(transcript.rounds),
        "after": _encoded(final, result),
        "before": None if last is None else _encoded(matched(last, final), result),
        "interval": _interval(result),
        "density": _density(result.world, result, n_final),
        "steps": steps,
        "method": result.method,
        "result": _RESULTS.get(result.method, _RESULTS["maxent"]).format(n_rounds=_n_rounds(len(transcript.rounds))),
        "gain": None if last is None else _gain(result, last),
    }


def matched(centers: Array, target: Array) -> Array:
    """The centres in the order of a target, such that they are closest to it all together.

    >>> matched(np.array([[1.0], [0.0]]), np.array([[0.1], [0.8]]))
    array([[0.],
           [1.]])
    """
    squares = ((target[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
    rows, columns = linear_sum_assignment(squares)
    return np.asarray(centers[columns[np.argsort(rows)]])


def _n_rounds(n: int) -> str:
    return "one round" if n == 1 else f"all {n} rounds"


def _chosen_rounds(n_rounds: int) -> list[int]:
    """The rounds that are steps: all of them, or twelve from the first to the last."""
    if n_rounds <= _MOST_STEPS:
        return list(range(1, n_rounds + 1))
    return [int(t) for t in np.unique(np.linspace(1, n_rounds, _MOST_STEPS).round())]


def _read_so_far(transcript: Transcript, n_rounds: int, rng: np.random.Generator) -> InferredDataset:
    so_far = replace(transcript, rounds=transcript.rounds[:n_rounds])
    return infer(so_far, "maxent", random_state=rng, n_points=_STEP_POINTS, warn=False)


def _own_answer(transcript: Transcript, n_rounds: int, n_clusters: int) -> Array | None:
    """What there is without inference: the algorithm's iterate, or the noisy means of the last round alone."""
    algorithm = algorithm_from_json(transcript.algorithm)
    rounds = transcript.rounds[:n_rounds]
    if isinstance(algorithm, AdaptiveKMeans):
        means = noisy_cell_means(transcript.context, rounds[-1])
    else:
        try:
            means = algorithm.estimate(transcript.context, rounds)
        except ParameterError:
            return None  # rounds that the algorithm itself would not have asked for
    return means if means is not None and len(means) == n_clusters else None


def _gain(result: Result, before: Array) -> dict[str, Any]:
    """How much lower the loss on the inferred data is after inference than before it."""
    domain = result.transcript.context.domain
    points, weights = domain.to_unit(result.world.points), result.world.weights
    after = domain.to_unit(result.centers)
    loss_before = weighted_inertia(points, weights, np.ascontiguousarray(before))
    loss_after = weighted_inertia(points, weights, after)
    moved = _distance(matched(before, after), after)
    return {
        "loss_before": float(loss_before),
        "loss_after": float(loss_after),
        "ratio": float(loss_after / loss_before) if loss_before > 0 else 1.0,
        "moved": moved,
        "moved_words": share(moved),
    }


def _distance(one: Array, other: Array) -> float:
    """The mean distance between matched centres, as a part of the bounds' diagonal."""
    return float(np.mean(np.sqrt(((one - other) ** 2).sum(axis=1))) / (2.0 * np.sqrt(one.shape[1])))


def _telling_pair(unit_centers: Array, columns: NDArray[np.int64]) -> list[int]:
    """The two shown columns along which the centres differ most, in the order of the table."""
    spread = np.std(unit_centers[:, columns], axis=0)
    return sorted(int(i) for i in np.argsort(-spread, kind="stable")[:2])


def _encoded(unit: Array, result: Result) -> str:
    return positions(unit[np.ix_(result.shown.clusters, result.shown.columns)])


def _interval(result: Result) -> dict[str, Any] | None:
    found, domain = result.intervals, result.transcript.context.domain
    if found is None:
        return None
    # By bounds alone: an end of an interval may lie outside a ball.
    low, high = np.array(domain.low), np.array(domain.high)
    # One that is withheld has no length, so that nothing is drawn.
    sides = [np.where(np.isnan(side), result.centers, side) for side in (found.center_low, found.center_high)]
    ends = [2.0 * (side - low) / (high - low) - 1.0 for side in sides]
    return {"level": found.level, "low": _encoded(ends[0], result), "high": _encoded(ends[1], result)}


def _density(data: InferredDataset, result: Result, n_points: int) -> str:
    domain = result.transcript.context.domain
    unit = domain.to_unit(data.points)[:, result.shown.columns]
    return positions(unit[evenly_chosen(data.weights, n_points)])


def _view(result: Result, j: int) -> list[float]:
    """The part of a column's bounds that holds nearly all inferred data and every centre, with a margin."""
    domain = result.transcript.context.domain
    low, high = domain.low[j], domain.high[j]
    points, weights = result.world.points[:, j], result.world.weights
    ends = [weighted_quantile(points, weights, _TAIL), weighted_quantile(points, weights, 1.0 - _TAIL)]
    left, right = min(ends[0], result.centers[:, j].min()), max(ends[1], result.centers[:, j].max())
    if result.intervals is not None:
        left = np.fmin(left, np.fmin.reduce(result.intervals.center_low[:, j]))
        right = np.fmax(right, np.fmax.reduce(result.intervals.center_high[:, j]))
    margin = 0.06 * (right - left) + 1e-6 * (high - low)
    left, right = float(max(low, left - margin)), float(min(high, right + margin))
    return [left, right] if right - left < _ZOOM_FROM * (high - low) else [low, high]


def _asked(answered: Round, result: Result) -> dict[str, Any]:
    """The noisy answer of a round as it can be drawn behind the centres."""
    query, columns = answered.query, [int(j) for j in result.shown.columns]
    kind = asked_by(query).kind
    if (cells := as_cells(query)) and cells.n_cells > 1:
        counts = np.maximum(answered.noisy[: cells.n_cells], 0.0)
        kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CELLS])
        centers = result.transcript.context.domain.clip(cells.centers)[kept][:, columns]
        return {"kind": kind, "points": positions(centers), "counts": levels(counts[kept])}
    if marginals := marginals_of(query):
        starts = np.cumsum([0, *(marginal.size for marginal in marginals)])
        parts = [answered.noisy[a:b] for a, b in pairwise(starts)]
        return {"kind": kind} | _tables(list(zip(marginals, parts, strict=True)), columns)
    return {"kind": kind}


def _tables(answers: Sequence[tuple[Marginal, Array]], columns: list[int]) -> dict[str, Any]:
    """Histograms by column and by pair of columns, summed over the columns that are not looked at."""
    place = {column: i for i, column in enumerate(columns)}
    single: dict[str, Any] = {}
    pairs: dict[str, Any] = {}
    for marginal, noisy in answers:
        table = noisy.reshape(marginal.sides)
        axes = [axis for axis, column in enumerate(marginal.columns) if column in place]
        if len(marginal.columns) == 1 and axes:
            bars = _fewer(table, 0)
            single[str(place[marginal.columns[0]])] = {"n": len(bars), "values": levels(bars)}
        for a, b in combinations(axes, 2):
            others = tuple(axis for axis in range(table.ndim) if axis not in (a, b))
            flat = _fewer(_fewer(table.sum(axis=others), 0), 1)
            # Rows along y and columns along x, as a picture is drawn.
            i, j = place[marginal.columns[a]], place[marginal.columns[b]]
            value = {"nx": flat.shape[0], "ny": flat.shape[1], "values": levels(flat.T)}
            pairs[f"{i},{j}"] = value
    return {"single": single, "pairs": pairs}


def _fewer(table: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Neighbouring bins added up until there are few enough to be seen."""
    n = table.shape[axis]
    if n <= _MOST_BINS:
        return table
    starts = np.unique(np.linspace(0, n, _MOST_BINS + 1).astype(int)[:-1])
    return np.asarray(np.add.reduceat(table, starts, axis=axis))
