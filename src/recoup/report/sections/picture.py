"""The moving picture: how the centres came about, round by round, with the inferred density behind them.

Each step says what was asked, what the answer alone says, and what inference makes of all answers so far. Inference is
run again on the rounds up to each one, with a fixed seed: a function of the transcript, so it costs no privacy. Centres
of different rounds are matched, so that each cluster can be followed. Positions are 16-bit fractions of the bounds and
shades are 8-bit ones, in base64: a picture needs no more, and the numbers that are read stand in the table beside it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoup.algorithms.kmeans.lloyd import paired
from recoup.algorithms.registry import algorithm_from_json
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.inference.simulate import quickly_inferred
from recoup.kernels.weighted_kmeans import weighted_inertia, weighted_kmeans
from recoup.maxent.measure import weighted_quantiles
from recoup.maxent.sizes import WeightedPoints
from recoup.mixed import Mixed
from recoup.queries.base import Array, asked_by
from recoup.queries.cells import as_cells
from recoup.queries.counts import Marginal, marginals_of
from recoup.report.html import Markup, element, folded, legend, section, share
from recoup.report.sections import Json
from recoup.report.sections.answer import Result
from recoup.report.sections.clusters import centers_html
from recoup.report.sections.still import axis_name, still
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_MOST_STEPS, _MOST_CELLS, _MOST_BINS = 12, 400, 96
_STEP_POINTS, _STEP_RESTARTS = 3_000, 6
_STEP_BYTES, _RESULT_BYTES = 450_000, 300_000
_SCALE_STEPS = 65  # at which the values of a scale are told; between them it is taken for linear
_TAIL = 0.003  # of the weight on either side that the zoomed view may leave out
_ZOOM_FROM = 0.5  # of the bounds: where the data takes up less, the picture starts zoomed in
_FULL = 65535
_RESULTS = {
    "maxent": "Result: centres inferred from {n_rounds}.",
    "mcmc": "Result: centres of the sampler's data set, which was inferred from {n_rounds}.",
    "consistency": "Result: centres of the last round, after {n_rounds} were made consistent.",
    "none": "Result: the algorithm's own answer after {n_rounds}, without inference.",
}
_STEPS = {
    "maxent": "Step through the rounds to see what inference made of all answers so far, and where each answer alone "
    "would have put the centres.",
    "other": "Step through the rounds to see what maximum entropy makes of all answers so far, and where each answer "
    "alone would have put the centres. The last step is the result.",
    "none": "Step through the rounds to see where the algorithm stood after each answer, and the density that could be "
    "inferred by then.",
}
_NO_SCRIPT = "This picture shows the result. Stepping through the rounds needs a script."
_MOST_OPEN = 4  # clusters whose table is open at first
_MOST_PATHS = 20  # clusters; more paths than that are a thicket until one cluster is followed
_BEHIND = [("density", "inferred density"), ("answer", "noisy answer of the round"), ("none", "nothing")]


def content(result: Result, *, random_state: Any = 0) -> Json:
    """The steps of the picture, at most twelve of them, with positions encoded as parts of the bounds."""
    transcript, domain = result.transcript, result.transcript.context.domain
    columns, clusters = result.shown_columns, result.shown_clusters
    final, n_rounds = domain.to_unit(result.centers), len(transcript.rounds)
    # All rounds are steps, or twelve from the first to the last.
    at = [int(t) for t in np.unique(np.linspace(1, n_rounds, min(n_rounds, _MOST_STEPS)).round())]
    streams = np.random.default_rng(random_state).spawn(len(at))
    n_points = int(np.clip(_STEP_BYTES // (len(at) * len(columns) * 2), 300, _STEP_POINTS))
    inferring, steps, following = result.method != "none", [], final
    # Backwards, so that each step is matched to the one that follows it, and all to the result.
    for t, stream in reversed(list(zip(at, streams, strict=True))):
        so_far = replace(transcript, rounds=transcript.rounds[:t])
        n_settling = algorithm_from_json(transcript.algorithm).settling(transcript.context, so_far.rounds)
        data = quickly_inferred(so_far, "maxent", stream, n_settling=n_settling, n_points=_STEP_POINTS)
        refitted = weighted_kmeans(*data, len(final), n_restarts=_STEP_RESTARTS, rng=stream).centers
        own, answered = _own_answer(so_far, len(final)), transcript.rounds[t - 1]
        # Without inference the picture follows the algorithm's own answer.
        following = matched(refitted if own is None or inferring else own, following)
        before = _encoded(matched(own, final), result) if inferring and own is not None else None
        steps.append(
            {"round": t, "words": asked_by(answered.query).words, "asked": _asked(answered, result)}
            | {"before": before, "after": _encoded(following, result), "moved": _distance(following, final)}
            | {"density": _density(data, result, n_points)}
        )
    last = _own_answer(transcript, len(final)) if inferring else None
    population = WeightedPoints(domain.to_unit(result.population.points), result.population.weights)
    n_final = int(np.clip(_RESULT_BYTES // (len(columns) * 2), 800, 8_000))
    all_rounds = "one round" if n_rounds == 1 else f"all {n_rounds} rounds"
    return {
        "columns": [result.columns[j] for j in columns],
        "n_columns": domain.n_columns,
        "low": [domain.low[j] for j in columns],
        "high": [domain.high[j] for j in columns],
        "units": [unit if isinstance(unit := domain.units[j], str) else None for j in columns],
        "scale": [_scale(domain, int(j)) for j in columns],
        "view": [_view(result, int(j)) for j in columns],
        "pair": _pair(domain, final, columns),
        "labels": [int(k) for k in clusters],
        "n_clusters": len(final),
        "n_rounds": n_rounds,
        "after": _encoded(final, result),
        "before": None if last is None else _encoded(matched(last, final), result),
        "interval": _interval(result),
        "density": _density(population, result, n_final),
        "steps": steps[::-1],
        "method": result.method,
        "result": _RESULTS.get(result.method, _RESULTS["maxent"]).format(n_rounds=all_rounds),
        "gain": None if last is None else _gain(result, last),
    }


def matched(centers: Array, target: Array) -> Array:
    """The centres in the order of a target, such that they are closest to it all together."""
    return np.asarray(centers[paired(target, centers)[1]])


def _own_answer(transcript: Transcript, n_clusters: int) -> Array | None:
    """The answer without inference, if it has as many centres."""
    try:
        own = algorithm_from_json(transcript.algorithm).without_inference(transcript.context, transcript.rounds)
    except ParameterError:
        return None  # rounds that the algorithm itself would not have asked for
    return own if own is not None and len(own) == n_clusters else None


def _gain(result: Result, before: Array) -> Json:
    """How much lower the loss on the inferred data is after inference than before it."""
    domain, data = result.transcript.context.domain, result.population
    points, after = domain.to_unit(data.points), domain.to_unit(result.centers)
    ends = (np.ascontiguousarray(centers) for centers in (before, after))
    first, last = (float(weighted_inertia(points, data.weights, centers)) for centers in ends)
    moved = _distance(matched(before, after), after)
    ratio = last / first if first > 0 else 1.0
    gain = {"loss_before": first, "loss_after": last, "ratio": ratio}
    return gain | {"moved": moved, "moved_words": share(moved)}


def _distance(one: Array, other: Array) -> float:
    """The mean distance between matched centres, as a part of the bounds' diagonal."""
    return float(np.mean(np.sqrt(((one - other) ** 2).sum(axis=1))) / (2.0 * np.sqrt(one.shape[1])))


def _interval(result: Result) -> Json | None:
    sure, domain = result.intervals, result.transcript.context.domain
    if sure is None:
        return None
    # One that is withheld has no length, so that nothing is drawn.
    sides = [np.where(np.isnan(side), result.centers, side) for side in (sure.center_low, sure.center_high)]
    # By bounds alone: an end of an interval may lie outside a ball.
    ends = [_drawn(domain, side) for side in sides]
    low_ends, high_ends = (positions(side[np.ix_(result.shown_clusters, result.shown_columns)]) for side in ends)
    return {"level": sure.level, "low": low_ends, "high": high_ends}


def _view(result: Result, j: int) -> list[float]:
    """The part of a column's bounds that holds nearly all inferred data and every centre, with a margin."""
    domain = result.transcript.context.domain
    points, weights, centers = result.population.points[:, j], result.population.weights, result.centers[:, j]
    left, right = weighted_quantiles(points, weights, (_TAIL, 1.0 - _TAIL))
    left, right = min(left, centers.min()), max(right, centers.max())
    if result.intervals is not None:
        left = np.fmin(left, np.fmin.reduce(result.intervals.center_low[:, j]))
        right = np.fmax(right, np.fmax.reduce(result.intervals.center_high[:, j]))
    start, stop = domain.on_scale([left, right], j)
    margin = 0.06 * (stop - start) + 1e-6
    start, stop = max(0.0, start - margin), min(1.0, stop + margin)
    left, right = domain.off_scale([start, stop], j) if stop - start < _ZOOM_FROM else (domain.low[j], domain.high[j])
    return [float(left), float(right)]


def _asked(answered: Round, result: Result) -> Json:
    """The noisy answer of a round as it can be drawn behind the centres."""
    query, columns = answered.query, [int(j) for j in result.shown_columns]
    kind = asked_by(query).kind
    if (cells := as_cells(query)) and cells.n_cells > 1:
        counts = np.maximum(answered.noisy[: cells.n_cells], 0.0)
        kept = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CELLS])
        domain = result.transcript.context.domain
        points = _on_scales(domain, domain.clip(cells.centers)[kept])[:, columns]
        return {"kind": kind, "points": positions(points), "counts": shades(counts[kept])}
    if marginals := marginals_of(query):
        parts = np.split(answered.noisy, np.cumsum([marginal.size for marginal in marginals]))
        pairs = zip(marginals, parts, strict=False)
        answers = [(marginal, part) for marginal, part in pairs if isinstance(marginal, Marginal)]
        return {"kind": kind} | _histograms(answers, columns)
    return {"kind": kind}


def _histograms(answers: Sequence[tuple[Marginal, Array]], columns: list[int]) -> Json:
    """Histograms by column and by pair of columns, summed over the columns that are not looked at."""
    place, single, pairs = {column: i for i, column in enumerate(columns)}, Json(), Json()
    for marginal, noisy in answers:
        counts = noisy.reshape(marginal.sides)
        axes = [axis for axis, column in enumerate(marginal.columns) if column in place]
        if len(marginal.columns) == 1 and axes:
            bars = _fewer(counts)
            single[str(place[marginal.columns[0]])] = {"n": len(bars), "values": shades(bars)}
        for a, b in combinations(axes, 2):
            others = tuple(axis for axis in range(counts.ndim) if axis not in (a, b))
            flat = _fewer(counts.sum(axis=others))
            # Rows along y and columns along x, as a picture is drawn.
            i, j = place[marginal.columns[a]], place[marginal.columns[b]]
            pairs[f"{i},{j}"] = {"nx": flat.shape[0], "ny": flat.shape[1], "values": shades(flat.T)}
    return {"single": single, "pairs": pairs}


def _fewer(counts: Array) -> Array:
    """Neighbouring bins added up until there are few enough to be seen."""
    for axis, n in enumerate(counts.shape):
        if n > _MOST_BINS:
            starts = np.unique(np.linspace(0, n, _MOST_BINS + 1).astype(int)[:-1])
            counts = np.add.reduceat(counts, starts, axis=axis)
    return counts


def _on_scales(domain: Domain, unit: Array) -> Array:
    """Points by where they lie on the scales of their columns, as axes are drawn, from -1 to 1."""
    return _drawn(domain, domain.from_unit(unit)) if isinstance(domain, Mixed) else unit


def _drawn(domain: Domain, points: Array) -> Array:
    """The same of points in the user's units."""
    return np.stack([2.0 * domain.on_scale(points[:, j], j) - 1.0 for j in range(points.shape[1])], axis=1)


def _scale(domain: Domain, j: int) -> list[float] | None:
    """The values at equal steps along a column's axis; none where it is linear."""
    steps = np.linspace(0.0, 1.0, _SCALE_STEPS)
    values = domain.off_scale(steps, j)
    linear = domain.low[j] + steps * (domain.high[j] - domain.low[j])
    return None if np.allclose(values, linear, rtol=1e-9) else [float(value) for value in values]


def _pair(domain: Domain, centers: Array, columns: NDArray[np.int64]) -> list[int]:
    """The two of the shown columns in which centres differ most; shares of categories only where there is no other."""
    spread = np.std(_on_scales(domain, centers)[:, columns], axis=0)
    shares = [domain.units[j] == "share" for j in columns]
    return sorted(int(i) for i in np.lexsort((-spread, shares))[:2])


def _encoded(unit: Array, result: Result) -> str:
    unit = _on_scales(result.transcript.context.domain, unit)
    return positions(unit[np.ix_(result.shown_clusters, result.shown_columns)])


def _density(data: WeightedPoints, result: Result, n_points: int) -> str:
    unit = _on_scales(result.transcript.context.domain, data.points)[:, result.shown_columns]
    return positions(unit[evenly_chosen(data.weights, n_points)])


def positions(unit: Array) -> str:
    """Points of the unit domain, row by row, as little-endian 16-bit fractions of the bounds."""
    return _base64(np.rint((np.clip(unit, -1.0, 1.0) + 1.0) * 0.5 * _FULL).astype("<u2"))


def shades(values: Array) -> str:
    """Values, negative ones as 0, as 8-bit parts of the largest."""
    values = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    top = float(values.max()) if values.size else 0.0
    scaled = np.rint(255.0 * values / top) if top > 0 else np.zeros(values.shape)
    return _base64(scaled.astype(np.uint8))


def _base64(numbers: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii")


def evenly_chosen(weights: Array, n: int) -> NDArray[np.int64]:
    """Indices of n points that stand for weighted ones with equal weights: resampled without randomness."""
    weights = np.maximum(weights, 0.0)
    total = weights.sum()
    if total <= 0:
        return np.arange(n, dtype=np.int64) % max(len(weights), 1)
    at = (np.arange(n) + 0.5) / n * total
    return np.asarray(np.minimum(np.searchsorted(np.cumsum(weights), at), len(weights) - 1), dtype=np.int64)


def html(at: Json, steps: Json | None, names: Mapping[str, str]) -> Markup:
    """How sure the centres are, as a picture and as numbers; only numbers where there is no transcript."""
    table = centers_html(at, names)
    if steps is None:
        lead = "Only these centres were released. There is no transcript that could tell more, and no interval."
        return section("sure", "The centres", lead, table)
    density = element("canvas", id="map-density", aria_hidden="true")
    stage = element("div", density, still(steps), id="map", class_="stage", role="img", aria_labelledby="map-status")
    status = element("p", f"{steps['result']} {_NO_SCRIPT}", id="map-status", class_="status", aria_live="polite")
    has_before = any(step["before"] is not None for step in (steps, *steps["steps"]))
    sure, after = steps["interval"], "" if steps["method"] == "none" else " after inference"
    keys = {
        "after": f"centre{after}, with its number",
        "before": "the same before inference" if has_before else None,
        "interval": None if sure is None else f"{share(sure['level'])} interval",
        "density": "inferred density",
    }
    marked = legend([(element("span", class_=f"key {kind}"), words) for kind, words in keys.items() if words])
    controls = _slider(steps), status, _options(steps, has_before), element("figcaption", marked)
    wide = " single" if len(steps["columns"]) == 1 else ""
    return section(
        "sure",
        "How sure are the centres?",
        _sure_words(at["level"], steps["method"]),
        element("p", _moved_words(steps), class_="soft"),
        element("figure", stage, element("div", *controls), class_=f"map{wide}"),
        folded("The centres as a table", table, opened=len(at["rows"]) <= _MOST_OPEN),
    )


def _sure_words(level: float | None, method: str) -> str:
    if level is not None:
        return (
            "Noise moves every centre a little. The lines through each centre are "
            f"{share(level)} intervals: about {share(level)} of such intervals contain the centre that k-means without "
            "noise would have found."
        )
    if method == "none":
        return "This is the algorithm's own answer, without inference: no intervals can be given for it."
    return "No intervals were computed for this page, so it does not say how far noise may have moved the centres."


def _moved_words(steps: Json) -> str:
    words = [_STEPS.get(steps["method"], _STEPS["other"])]
    if steps["gain"] is not None:
        moved, ratio = steps["gain"]["moved_words"], steps["gain"]["ratio"]
        words.append(f"Inference from all rounds moved the centres by {moved} of the bounds' diagonal on average")
        lowered = f" and lowered the spread inside the clusters of the inferred data by {share(1 - ratio)}."
        words[-1] += lowered if ratio < 0.995 else "."
    if len(steps["columns"]) > 1:
        words.append("Along both axes the declared ranges are equally long, or one unit is if both have the same unit.")
    return " ".join(words)


def _slider(steps: Json) -> Markup:
    names = [*(str(step["round"]) for step in steps["steps"]), "result"]
    last = len(names) - 1
    every = 1 + last // 9  # numbers that stand close together cannot be read, nor beside the last word
    shown = [i for i in range(last + 1) if i == last or (i % every == 0 and (i < last - 1 or last < 6))]
    ticks = [element("span", names[i], style=f"left:{100 * i / last:.2f}%") for i in shown]
    parts = [
        element("span", "Round", class_="visually-hidden"),
        element("input", id="map-step", type="range", min=0, max=last, step=1, value=last),
        element("span", *ticks, class_="ticks", aria_hidden="true"),
    ]
    play = element("button", "Play", id="map-play", type="button", class_="primary", aria_describedby="map-status")
    return element("div", play, element("label", *parts, class_="slider"), class_="steps")


def _options(steps: Json, has_before: bool) -> Markup:
    columns = [(j, axis_name(steps, j)) for j in range(len(steps["columns"]))]
    clusters = [("", "all clusters"), *enumerate(f"cluster {k}" for k in steps["labels"])]
    lists: list[tuple[str, str, Sequence[tuple[object, str]], object]]  # name, label, choices, and what is chosen
    lists = [("map-behind", "Behind", _BEHIND, "density"), ("map-follow", "Follow", clusters, "")]
    if len(columns) > 2:
        x, y = steps["pair"]
        lists = [("map-x", "Across", columns, x), ("map-y", "Up", columns, y), *lists]
    selects = []
    for name, label, choices, chosen in lists:
        items = [element("option", text, value=value, selected=value == chosen) for value, text in choices]
        select = element("select", *items, id=name)
        selects.append(element("label", element("span", label), select, class_="choice"))
    ends = zip(steps["view"], steps["low"], steps["high"], strict=True)
    boxes = [  # and whether there is any of it, and whether it is shown at first
        ("map-before", "before inference", has_before, True),
        ("map-intervals", "intervals", steps["interval"] is not None, True),
        ("map-paths", "paths", True, len(steps["labels"]) <= _MOST_PATHS),
        ("map-zoom", "zoom to the data", any(view[0] > low or view[1] < high for view, low, high in ends), True),
    ]
    checks = [
        element("label", element("input", id=name, type="checkbox", checked=checked), label, class_="check")
        for name, label, useful, checked in boxes
        if useful
    ]
    note = None
    if len(columns) < steps["n_columns"]:
        words = f"The {len(columns)} of {steps['n_columns']} columns in which clusters differ most."
        note = element("p", words, class_="soft")
    shown = element("fieldset", element("legend", "Show"), *checks)
    return element("div", *selects, shown, note, class_="options")
