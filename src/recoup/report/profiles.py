"""What each cluster is like against the whole, in words that can be read to colleagues."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.inference.judge import doubtful
from recoup.maxent.measure import weighted_quantile
from recoup.queries.base import Array
from recoup.report.numbers import count, in_units, known, listed, share
from recoup.report.result import Result

# In standard deviations of the whole: from where on a centre counts as different, and as very different.
_DIFFERENT, _VERY_DIFFERENT = 0.5, 1.25
_MOST_TRAITS, _MOST_ROWS = 3, 12
_MOST_ROWS_IN_ALL = 1_200  # of all clusters together, so that a page stays readable and small


def profile_facts(result: Result) -> dict[str, Any]:
    """The clusters, largest first, and the whole that they are compared with.

    Args:
        result: what the report is about.

    Returns:
        JSON: the whole by column; which clusters may be nothing but noise; for each cluster its label (the one that
        `predict` gives), size, share, a sentence, and rows of columns, those that differ most first where not all are
        shown.
    """
    whole = _whole(result)
    shown = result.shown
    n_rows = min(_MOST_ROWS, max(3, _MOST_ROWS_IN_ALL // len(shown.clusters)))
    # Without inferred data the maximum-entropy data says which cells belong to which centre.
    doubts = doubtful(result.transcript, result.centers, result.world)
    rows = {int(k): _rows(result, int(k), whole) for k in shown.clusters}
    for i, of in enumerate(whole):
        of["axis"] = _axis(of["axis"], [found[i] for found in rows.values()])
    return {
        "whole": whole,
        "level": None if result.intervals is None else result.intervals.level,
        "n_records": float(result.sizes.sum()),
        "stands_in": result.stands_in,
        "n_clusters": len(result.centers),
        "n_rows": min(n_rows, len(shown.columns)),
        "doubtful": doubts,
        "clusters": [_cluster(result, k, found, whole, n_rows, k in doubts) for k, found in rows.items()],
    }


def _whole(result: Result) -> list[dict[str, Any]]:
    points, weights = result.world.points, result.world.weights
    found = []
    for j in result.shown.columns:
        column, centers = points[:, j], result.centers[:, j]
        mean = float(np.average(column, weights=weights))
        low, q10, q90, high = (weighted_quantile(column, weights, level) for level in (0.01, 0.1, 0.9, 0.99))
        low, high = min(low, float(centers.min())), max(high, float(centers.max()))
        if not low < high:
            low, high = result.transcript.context.domain.low[j], result.transcript.context.domain.high[j]
        deviation = float(np.sqrt(np.average((column - mean) ** 2, weights=weights)))
        found.append(
            {
                "column": result.columns[j],
                "mean": mean,
                "deviation": deviation,
                "q10": q10,
                "q90": q90,
                "axis": [low, high],
                "span": float(result.spans[j]),
            }
        )
    return found


def _axis(ends: list[float], rows: list[dict[str, Any]]) -> list[float]:
    """The ends of a column's scale, wide enough for the band and the interval of every cluster."""
    marks = [row[name] for row in rows for name in ("q10", "q90", "low", "high") if row[name] is not None]
    return [min(ends[0], *marks), max(ends[1], *marks)]


def _rows(result: Result, k: int, whole: list[dict[str, Any]]) -> list[dict[str, Any]]:
    inside = result.cells == k
    return [_row(result, k, int(j), inside, of) for j, of in zip(result.shown.columns, whole, strict=True)]


def _cluster(
    result: Result, k: int, rows: list[dict[str, Any]], whole: list[dict[str, Any]], n_rows: int, doubted: bool
) -> dict[str, Any]:
    size, total = float(result.sizes[k]), max(float(result.sizes.sum()), 1e-9)
    found = result.intervals
    facts = {
        "label": k,
        "size": size,
        "size_low": None if found is None else known(found.size_low[k]),
        "size_high": None if found is None else known(found.size_high[k]),
        "share": size / total,
        "doubtful": doubted,
    }
    traits = sorted((row for row in rows if row["trait"]), key=lambda row: -abs(row["difference"]))[:_MOST_TRAITS]
    sentence = _sentence(facts, traits, whole, len(result.centers))
    if len(rows) > n_rows:
        rows = sorted(rows, key=lambda row: -abs(row["difference"]))[:n_rows]
    return facts | {"sentence": sentence, "rows": rows}


def _row(result: Result, k: int, j: int, inside: Any, of: dict[str, Any]) -> dict[str, Any]:
    column, weights, center = result.world.points[inside, j], result.world.weights[inside], float(result.centers[k, j])
    deviation, q10, q90 = 0.0, center, center
    if weights.sum() > 0:
        deviation = _deviation(column, weights)
        q10, q90 = weighted_quantile(column, weights, 0.1), weighted_quantile(column, weights, 0.9)
    found = result.intervals
    low = None if found is None else known(found.center_low[k, j])
    high = None if found is None else known(found.center_high[k, j])
    difference = (center - of["mean"]) / of["deviation"] if of["deviation"] > 0 else 0.0
    # A difference that the interval does not bear out is not one to tell colleagues about.
    sure = found is None or (low is not None and high is not None and not low <= of["mean"] <= high)
    size = "much " if abs(difference) >= _VERY_DIFFERENT else ""
    trait = f"{size}{'higher' if difference > 0 else 'lower'}" if abs(difference) >= _DIFFERENT and sure else None
    return {
        "column": of["column"],
        "center": center,
        "low": low,
        "high": high,
        "deviation": deviation,
        "q10": q10,
        "q90": q90,
        "difference": difference,
        "trait": trait,
    }


def _deviation(values: Array, weights: Array) -> float:
    mean = np.average(values, weights=weights)
    return float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))


def _sentence(facts: dict[str, Any], traits: list[dict[str, Any]], whole: list[dict[str, Any]], n_clusters: int) -> str:
    spans = {of["column"]: of["span"] for of in whole}
    means = {of["column"]: of["mean"] for of in whole}
    who = f"About {share(facts['share'])} of the records" if facts["share"] >= 0.001 else "Hardly any records"
    if n_clusters > 1 and facts["size_low"] is not None and facts["size_low"] <= 0:
        return f"{who}, and perhaps none: the interval of its size reaches 0, so noise alone may have made it."
    if facts["doubtful"]:
        return f"{who}. It may be nothing but noise: its counts do not stand out."
    if n_clusters == 1:
        return "All records are in one cluster, so there is nothing to tell them apart by."
    if not traits:
        return f"{who}, close to the whole in every column."
    parts = []
    for row in traits:
        name = row["column"]
        at, overall = (in_units(value, spans[name]) for value in (row["center"], means[name]))
        parts.append(f"{name} is {row['trait']} ({at} against {overall} overall)")
    return f"{who}: {listed(parts)}."


def size_words(cluster: dict[str, Any]) -> str:
    """The size of a cluster with its interval.

    >>> size_words({"size": 1000.4, "size_low": 950.0, "size_high": 1050.0})
    '1,000 (950 to 1,050)'
    """
    if cluster["size_low"] is None:
        return count(cluster["size"])
    return f"{count(cluster['size'])} ({count(cluster['size_low'])} to {count(cluster['size_high'])})"
