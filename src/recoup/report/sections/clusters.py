"""What each cluster is like against the whole, in words that can be read to colleagues."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recoup.inference.judge import doubts_of
from recoup.maxent.measure import weighted_quantile
from recoup.queries.base import Array
from recoup.report.html import Markup, band, count, element, in_units, join, legend, listed, mark, section, share, track
from recoup.report.result import Json, Result, finite_or_none

# In standard deviations of the whole: from where on a centre counts as different, and as very different.
_DIFFERENT, _VERY_DIFFERENT = 0.5, 1.25
_MOST_TRAITS, _MOST_ROWS = 3, 12
_MOST_ROWS_IN_ALL = 1_200  # of all clusters together, so that a page stays readable and small


def content(result: Result) -> Json:
    """The clusters, largest first and labelled as `predict` does, and the whole that they are compared with."""
    whole = _whole(result)
    shown = result.shown
    n_rows = min(_MOST_ROWS, max(3, _MOST_ROWS_IN_ALL // len(shown.clusters)))
    # Without inferred data the maximum-entropy data says which cells belong to which centre.
    doubts = doubts_of(result.transcript, result.centers, result.population).noise
    rows = {int(k): _rows(result, int(k), whole) for k in shown.clusters}
    for i, of in enumerate(whole):
        of["axis"] = _axis(of["axis"], [of_cluster[i] for of_cluster in rows.values()])
    return {
        "whole": whole,
        "level": None if result.intervals is None else result.intervals.level,
        "n_records": float(result.sizes.sum()),
        "stands_in": result.population is not result.inferred,
        "n_clusters": len(result.centers),
        "n_rows": min(n_rows, len(shown.columns)),
        "doubtful": doubts,
        "clusters": [_cluster(result, k, of_cluster, whole, n_rows, k in doubts) for k, of_cluster in rows.items()],
    }


def _whole(result: Result) -> list[Json]:
    points, weights = result.population.points, result.population.weights
    columns = []
    for j in result.shown.columns:
        column, centers = points[:, j], result.centers[:, j]
        low, q10, q90, high = (weighted_quantile(column, weights, level) for level in (0.01, 0.1, 0.9, 0.99))
        low, high = min(low, float(centers.min())), max(high, float(centers.max()))
        if not low < high:
            low, high = result.transcript.context.domain.low[j], result.transcript.context.domain.high[j]
        columns.append(
            {
                "column": result.columns[j],
                "mean": float(np.average(column, weights=weights)),
                "deviation": _deviation(column, weights),
                "q10": q10,
                "q90": q90,
                "axis": [low, high],
                "span": float(result.spans[j]),
            }
        )
    return columns


def _axis(ends: list[float], rows: list[Json]) -> list[float]:
    """The ends of a column's scale, wide enough for the band and the interval of every cluster."""
    marks = [row[name] for row in rows for name in ("q10", "q90", "low", "high") if row[name] is not None]
    return [min(ends[0], *marks), max(ends[1], *marks)]


def _rows(result: Result, k: int, whole: list[Json]) -> list[Json]:
    inside = result.cells == k
    return [_row(result, k, int(j), inside, of) for j, of in zip(result.shown.columns, whole, strict=True)]


def _row(result: Result, k: int, j: int, inside: NDArray[np.bool_], of: Json) -> Json:
    """One column of a cluster against the whole."""
    data, center, sure = result.population, float(result.centers[k, j]), result.intervals
    column, weights = data.points[inside, j], data.weights[inside]
    deviation, q10, q90 = 0.0, center, center
    if weights.sum() > 0:
        deviation = _deviation(column, weights)
        q10, q90 = weighted_quantile(column, weights, 0.1), weighted_quantile(column, weights, 0.9)
    low = None if sure is None else finite_or_none(sure.center_low[k, j])
    high = None if sure is None else finite_or_none(sure.center_high[k, j])
    difference = (center - of["mean"]) / of["deviation"] if of["deviation"] > 0 else 0.0
    # A difference that the interval does not bear out is not one to tell colleagues about.
    borne_out = sure is None or (low is not None and high is not None and not low <= of["mean"] <= high)
    trait = None
    if abs(difference) >= _DIFFERENT and borne_out:
        much = "much " if abs(difference) >= _VERY_DIFFERENT else ""
        trait = f"{much}{'higher' if difference > 0 else 'lower'}"
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
    mean = float(np.average(values, weights=weights))
    return float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))


def _cluster(result: Result, k: int, rows: list[Json], whole: list[Json], n_rows: int, doubted: bool) -> Json:
    size, total = float(result.sizes[k]), max(float(result.sizes.sum()), 1e-9)
    sure = result.intervals
    cluster = {
        "label": k,
        "size": size,
        "size_low": None if sure is None else finite_or_none(sure.size_low[k]),
        "size_high": None if sure is None else finite_or_none(sure.size_high[k]),
        "share": size / total,
        "doubtful": doubted,
    }
    by_difference = sorted(rows, key=lambda row: -abs(row["difference"]))
    traits = [row for row in by_difference if row["trait"]][:_MOST_TRAITS]
    sentence = _sentence(cluster, traits, whole, len(result.centers))
    return cluster | {"sentence": sentence, "rows": by_difference[:n_rows] if len(rows) > n_rows else rows}


def _sentence(cluster: Json, traits: list[Json], whole: list[Json], n_clusters: int) -> str:
    who = f"About {share(cluster['share'])} of the records" if cluster["share"] >= 0.001 else "Hardly any records"
    if n_clusters > 1 and cluster["size_low"] is not None and cluster["size_low"] <= 0:
        return f"{who}, and perhaps none: the interval of its size reaches 0, so noise alone may have made it."
    if cluster["doubtful"]:
        return f"{who}. It may be nothing but noise: its counts do not stand out."
    if n_clusters == 1:
        return "All records are in one cluster, so there is nothing to tell them apart by."
    if not traits:
        return f"{who}, close to the whole in every column."
    columns, parts = {of["column"]: of for of in whole}, []
    for row in traits:
        of = columns[row["column"]]
        at, overall = (in_units(value, of["span"]) for value in (row["center"], of["mean"]))
        parts.append(f"{row['column']} is {row['trait']} ({at} against {overall} overall)")
    return f"{who}: {listed(parts)}."


def size_words(cluster: Json) -> str:
    """The size of a cluster with its interval."""
    if cluster["size_low"] is None:
        return count(cluster["size"])
    return f"{count(cluster['size'])} ({count(cluster['size_low'])} to {count(cluster['size_high'])})"


def html(profiles: Json) -> Markup:
    """What each cluster is like, largest first."""
    whole, clusters = {of["column"]: of for of in profiles["whole"]}, profiles["clusters"]
    notes = []
    if profiles["n_rows"] < len(whole):
        notes.append(f"Each card shows the {profiles['n_rows']} columns in which the cluster differs most.")
    if len(clusters) < profiles["n_clusters"]:
        notes.append(f"Shown are the {len(clusters)} largest of {profiles['n_clusters']} clusters.")
    if profiles["stands_in"]:
        notes.append("Spreads are those of maximum-entropy data inferred from the same transcript.")
    sure = None
    if profiles["level"] is not None:
        sure = (
            f" Higher and lower are told only where the {share(profiles['level'])} interval, which stands in brackets, "
            "bears it out."
        )
    keys = [
        (band("whole", 0.1, 0.9), "middle 80 % of all records"),
        (band("own", 0.2, 0.7), "middle 80 % of the cluster"),
        (mark("center", 0.5), "its centre"),
    ]
    predict = element("code", "predict")
    return section(
        "clusters",
        "The clusters",
        join("Largest first, numbered as ", predict, " numbers them, compared with all records.", sure),
        [element("p", note, class_="soft") for note in notes],
        legend([(track(key), words) for key, words in keys]),
        element("div", [_card(cluster, whole) for cluster in clusters], class_="cards"),
    )


def _card(cluster: Json, whole: dict[str, Any]) -> Markup:
    label = cluster["label"]
    head = [
        element("span", label, class_="badge", aria_hidden="true"),
        element("h3", f"Cluster {label}", id=f"cluster-{label}"),
        element("span", share(cluster["share"]), class_="share"),
    ]
    return element(
        "article",
        element("header", head),
        track(band("size", 0.0, cluster["share"]), class_="thin"),
        element("p", f"{size_words(cluster)} records", class_="soft"),
        element("p", cluster["sentence"], class_="sentence"),
        element("ul", [_profile(row, whole[row["column"]]) for row in cluster["rows"]], class_="plain profile"),
        class_="card",
        aria_labelledby=f"cluster-{label}",
    )


def _profile(row: Json, of: Json) -> Markup:
    low, high = of["axis"]

    def at(value: float) -> float:
        return float((value - low) / (high - low))

    def units(value: float) -> str:
        return in_units(value, of["span"])

    marks = [band("whole", at(of["q10"]), at(of["q90"])), band("own", at(row["q10"]), at(row["q90"]))]
    interval = None
    if row["low"] is not None:
        interval = element("small", f"({units(row['low'])} to {units(row['high'])})")
        marks.append(band("interval", at(row["low"]), at(row["high"])))
    marks.append(mark("center", at(row["center"])))
    spread = f"80 % in {units(row['q10'])} to {units(row['q90'])}; overall mean {units(of['mean'])}"
    return element(
        "li",
        element("span", row["column"], class_="name"),
        element("span", element("b", units(row["center"])), " ", interval, class_="value"),
        track(*marks),
        element("small", spread, class_="spread"),
    )
