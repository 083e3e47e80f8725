"""What each cluster is like against the whole, in words that can be read to colleagues; and all centres as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from recoup.inference.judge import doubts_of
from recoup.queries.base import Array
from recoup.report import html as h
from recoup.report.names import LONGEST_NAME
from recoup.report.sections import Json
from recoup.report.sections.answer import Result, spread_of

# In standard deviations of the whole: from where on a centre counts as different, and as very different.
DIFFERENT, VERY_DIFFERENT = 0.5, 1.25
_MOST_TRAITS, _MOST_ROWS = 3, 12
_MOST_OPEN = 4  # clusters whose cards are open at first
_MOST_ROWS_IN_ALL = 1_200  # of all clusters together, so that a page stays readable and small


def content(result: Result) -> Json:
    """The clusters, largest first and labelled as `predict` does, and the whole that they are compared with."""
    whole = [_whole(result, int(j)) for j in result.shown_columns]
    n_rows = min(_MOST_ROWS, max(3, _MOST_ROWS_IN_ALL // len(result.shown_clusters)))
    # Without inferred data the maximum-entropy data says which cells belong to which centre.
    doubts = doubts_of(result.transcript, result.centers, result.population).noise
    rows = {int(k): _rows(result, int(k), whole) for k in result.shown_clusters}
    for j, of, *of_clusters in zip(result.shown_columns, whole, *rows.values(), strict=True):
        # Wide enough for the band and the interval of every cluster.
        ends = [row[name] for row in of_clusters for name in ("q10", "q90", "low", "high") if row[name] is not None]
        of["axis"] = [min(of["axis"][0], *ends), max(of["axis"][1], *ends)]
        for item in (of, *of_clusters):
            item["at"] = _places(result, int(j), item, of["axis"])
    return {
        "whole": whole,
        "level": None if result.intervals is None else result.intervals.level,
        "n_records": float(result.sizes.sum()),
        "counted": result.counted,
        "stands_in": result.population is not result.inferred,
        "n_clusters": len(result.centers),
        "n_rows": min(n_rows, len(whole)),
        "doubtful": doubts,
        "clusters": [_cluster(result, k, of_cluster, whole, n_rows, k in doubts) for k, of_cluster in rows.items()],
    }


def _whole(result: Result, j: int) -> Json:
    """One column of all records."""
    centers, domain = result.centers[:, j], result.transcript.context.domain
    column, weights = domain.on_scale(result.population.points[:, j], j), _present(result)[:, j]
    # On its scale, as centres are: the mean of a logarithm is compared with means of logarithms.
    place, deviation, *levels = spread_of(column, weights, 0.01, 0.1, 0.9, 0.99)
    mean, low, q10, q90, high = (float(value) for value in domain.off_scale([place, *levels], j))
    unit = domain.units[j]
    if unit == "share":  # of which a single record has all or nothing
        low, q10, q90, high = 0.0, mean, mean, 1.0
    axis = [min(low, float(centers.min())), max(high, float(centers.max()))]
    if axis[0] >= axis[1]:
        axis = [domain.low[j], domain.high[j]]
    spread = {"mean": mean, "deviation": deviation, "q10": q10, "q90": q90}
    return {"column": result.columns[j], **spread, "axis": axis, "noise": result.noise(j, mean), "unit": unit}


def _places(result: Result, j: int, item: Json, axis: list[float]) -> Json:
    """Where the values of a row lie on the axis of its column, from 0 to 1."""
    names = [name for name in ("q10", "q90", "low", "high", "center") if item.get(name) is not None]
    start, stop, *found = result.transcript.context.domain.on_scale([*axis, *(item[name] for name in names)], j)
    return {name: float((place - start) / (stop - start)) for name, place in zip(names, found, strict=True)}


def _present(result: Result) -> Array:
    """The weight of each inferred record in each column: none where its value is missing, unless all are."""
    points, weights = result.population.points, result.population.weights
    domain = result.transcript.context.domain
    present = np.stack([weights * domain.presence(points, j) for j in range(points.shape[1])], axis=1)
    return np.where(present.sum(axis=0) > 0, present, weights[:, None])


def _rows(result: Result, k: int, whole: list[Json]) -> list[Json]:
    """Each column of a cluster against the whole."""
    inside, rows, domain = result.cells == k, [], result.transcript.context.domain
    present = _present(result)[inside]
    for j, of in zip(result.shown_columns, whole, strict=True):
        column, center, weights = result.population.points[inside, j], float(result.centers[k, j]), present[:, j]
        empty = weights.sum() <= 0
        _, deviation, q10, q90 = (0.0, 0.0, center, center) if empty else spread_of(column, weights, 0.1, 0.9)
        places = domain.on_scale([center, of["mean"]], int(j))
        if of["unit"] == "share":
            q10 = q90 = center
        low, high = result.interval(k, int(j))
        difference = float(places[0] - places[1]) / of["deviation"] if of["deviation"] > 0 else 0.0
        # A difference that may be noise is not one to tell colleagues about.
        is_sure = result.intervals is None or not (low is None or high is None or low <= of["mean"] <= high)
        trait = None
        if abs(difference) >= DIFFERENT and is_sure:
            much = "much " if abs(difference) >= VERY_DIFFERENT else ""
            words = ("more frequent", "less frequent") if of["unit"] == "share" else ("higher", "lower")
            trait = f"{much}{words[0] if difference > 0 else words[1]}"
        rows.append(
            {"column": of["column"], "center": center, "low": low, "high": high, "deviation": deviation}
            | {"q10": q10, "q90": q90, "difference": difference, "trait": trait}
            | {"noise": result.noise(int(j), center, low, high)}
        )
    return rows


def _step(row: Json) -> int | None:
    """How the heat map shows a row: from much lower, -2, to much higher, 2; none for a difference that is not sure."""
    if abs(row["difference"]) < DIFFERENT:
        return 0
    size = 2 if abs(row["difference"]) >= VERY_DIFFERENT else 1
    return None if row["trait"] is None else size if row["difference"] > 0 else -size


def _cluster(result: Result, k: int, rows: list[Json], whole: list[Json], n_rows: int, doubted: bool) -> Json:
    size, total = float(result.sizes[k]), max(float(result.sizes.sum()), 1e-9)
    low, high = result.interval(k)
    cluster: Json = {"label": k, "size": size, "size_low": low, "size_high": high, "counted": result.counted}
    cluster |= {"share": size / total, "doubtful": doubted, "steps": [_step(row) for row in rows]}
    by_difference = sorted(zip(rows, whole, strict=True), key=lambda pair: -abs(pair[0]["difference"]))
    traits = [
        f"{row['column']} is {row['trait']} ({h.in_units(row['center'], row['noise'], of['unit'])} against "
        f"{h.in_units(of['mean'], of['noise'], of['unit'])} overall)"
        for row, of in by_difference
        if row["trait"]
    ]
    cluster["sentence"] = _sentence(cluster, traits[:_MOST_TRAITS], len(result.centers))
    short = [f"{row['column']} {row['trait']}" for row, _ in by_difference if row["trait"]][:_MOST_TRAITS]
    cluster["brief"] = _brief(cluster, short, len(result.centers))
    return cluster | {"rows": [row for row, _ in by_difference[:n_rows]] if len(rows) > n_rows else rows}


def _sentence(cluster: Json, traits: list[str], n_clusters: int) -> str:
    counted = cluster["counted"]
    who = (
        f"About {h.share(cluster['share'])} of the {counted}" if cluster["share"] >= 0.001 else f"Hardly any {counted}"
    )
    if n_clusters > 1 and cluster["size_low"] is not None and cluster["size_low"] <= 0:
        return f"{who}, and perhaps none: the interval of its size reaches 0, so noise alone may have made it."
    if cluster["doubtful"]:
        return f"{who}. It may be nothing but noise: its counts are no larger than noise would make them."
    if n_clusters == 1:
        return f"All {counted} are in one cluster, so there is nothing to tell them apart by."
    return f"{who}: {h.listed(traits)}." if traits else f"{who}, close to the average of all {counted} in every column."


def _brief(cluster: Json, traits: list[str], n_clusters: int) -> str:
    if n_clusters == 1:
        return f"all {cluster['counted']}"
    if cluster["doubtful"] or (cluster["size_low"] is not None and cluster["size_low"] <= 0):
        return "may be nothing but noise"
    return ", ".join(traits) or "close to the average in every column"


def size_words(cluster: Json) -> str:
    """The size of a cluster with its interval."""
    return h.count(*(cluster[name] for name in ("size", "size_low", "size_high")))


def html(profiles: Json, names: Mapping[str, str]) -> h.Markup:
    """A card per cluster, largest first; each says the most in one line and unfolds."""
    whole, clusters = {of["column"]: of for of in profiles["whole"]}, profiles["clusters"]
    counted = profiles["counted"]
    lead = f"Largest first. Each card compares a cluster with all {counted}."
    if profiles["level"] is not None:
        lead += (
            f" It says higher or lower only if the {h.share(profiles['level'])} interval of the centre, shown in "
            f"brackets, leaves out the average of all {counted}."
        )
    notes = ["The numbers are those that predict and centers.csv use."]
    if profiles["n_rows"] < len(whole):
        notes.append(f"Each card shows the {profiles['n_rows']} columns in which the cluster differs most.")
    if profiles["stands_in"]:
        notes.append("The spreads are those of maximum-entropy data inferred from the same transcript.")
    keys = [
        (h.band("whole", 0.1, 0.9), f"middle 80% of all {counted}"),
        (h.band("own", 0.2, 0.7), "middle 80% of the cluster"),
        (h.mark("center", 0.5), "centre of the cluster"),
    ]
    naming = (
        "Open a card to give its cluster a name. Names are kept in the address of this page: copy it to pass them on."
    )
    fold = h.element("button", "Open all cards", id="fold", type="button")
    opened = len(clusters) <= _MOST_OPEN
    return h.section(
        "clusters",
        "The clusters",
        lead,
        h.element("p", " ".join(notes), class_="soft"),
        h.element("p", naming, " ", fold, class_="soft scripted"),
        h.tracks(keys),
        h.element("div", [_card(cluster, whole, names, opened) for cluster in clusters], class_="cards"),
    )


def _card(cluster: Json, whole: dict[str, Any], names: Mapping[str, str], opened: bool) -> h.Markup:
    label = cluster["label"]
    head = [
        h.element("span", label, class_="badge", aria_hidden="true"),
        h.element("h3", f"Cluster {label}", h.given_name(label, names)),
        h.element("span", h.share(cluster["share"]), class_="share"),
        h.track(h.band("size", 0.0, cluster["share"]), class_="thin"),
        h.element("span", cluster["brief"], class_="brief"),
    ]
    name = h.element("input", type="text", maxlength=LONGEST_NAME, value=names.get(str(label), ""), data_names=label)
    parts = [
        h.element("p", cluster["sentence"], class_="sentence"),
        h.element("label", f"Name of cluster {label}", name, class_="naming scripted"),
        h.element("p", f"{size_words(cluster)} {cluster['counted']}", class_="soft"),
        h.element("ul", [_profile(row, whole[row["column"]]) for row in cluster["rows"]], class_="plain profile"),
    ]
    return h.folded(h.join(*head), *parts, opened=opened, class_="card", id=f"cluster-{label}")


def _profile(row: Json, of: Json) -> h.Markup:
    at = row["at"]

    def units(*values: float, noise: float = row["noise"], bare: bool = False) -> str:
        # Two values are the ends of a range; a unit stands at the end, once.
        short = None if isinstance(of["unit"], str) and of["unit"] != "share" else of["unit"]
        if len(values) == 1:
            return h.in_units(values[0], noise, of["unit"])
        last = h.in_units(values[1], noise, short if bare else of["unit"], 1)
        return f"{h.in_units(values[0], noise, short, -1)} to {last}"

    marks, interval = [h.band("whole", of["at"]["q10"], of["at"]["q90"]), h.band("own", at["q10"], at["q90"])], None
    if row["low"] is not None:
        interval = h.element("small", f"({units(row['low'], row['high'], bare=True)})")
        marks.append(h.band("interval", at["low"], at["high"]))
    marks.append(h.mark("center", at["center"]))
    spread = f"average of all {units(of['mean'], noise=of['noise'])}"
    if of["unit"] != "share":
        spread = f"80% lie in {units(row['q10'], row['q90'])}; {spread}"
    return h.scale_row(row["column"], None, h.join(h.element("b", units(row["center"])), " ", interval), marks, spread)


# ---- all centres as numbers ----
def centers_content(result: Result) -> Json:
    """The centres that are shown, with their intervals, and which of these are withheld."""
    columns, sure, rows = result.shown_columns, result.intervals, []
    for k in np.sort(result.shown_clusters):
        low, high = zip(*(result.interval(k, j) for j in columns), strict=True)
        ends = {"low": None, "high": None} if sure is None else {"low": list(low), "high": list(high)}
        values, size = result.centers[k, columns].tolist(), [float(result.sizes[k]), *result.interval(int(k))]
        sizes = dict(zip(("size", "size_low", "size_high"), size, strict=True))
        noises = [result.noise(int(j), *of) for j, *of in zip(columns, values, low, high, strict=True)]
        rows.append({"label": int(k), "values": values, **ends, "noises": noises, **sizes})
    withheld = [
        {"cluster": k, "column": None if j is None else result.columns[j], "reason": reason}
        for k, j, reason in (() if sure is None else sure.withheld)
    ]
    names, units = [result.columns[j] for j in columns], [result.transcript.context.domain.units[j] for j in columns]
    level = None if sure is None else sure.level
    about = {"columns": names, "units": units, "counted": result.counted}
    return {**about, "level": level, "withheld": withheld, "rows": rows}


def model_centers(centers: Array, bounds: list[Json]) -> Json:
    """The same where nothing but centres was released."""
    names, noises = [bound["column"] for bound in bounds], [(b["high"] - b["low"]) / h.PARTS for b in bounds]
    unknown = dict.fromkeys(("low", "high", "size"))
    rows = [
        {"label": k, "values": list(map(float, center)), "noises": noises, **unknown}
        for k, center in enumerate(centers)
    ]
    about = {"columns": names, "units": [None] * len(names), "counted": "records"}
    return {**about, "level": None, "withheld": [], "rows": rows}


def columns_with_units(centers: Json) -> tuple[list[str], list[Any]]:
    """Names of columns with their units, once; and what is left to say beside a value: percent, or a step's name."""
    shares = [None if isinstance(unit, str) and unit != "share" else unit for unit in centers["units"]]
    named = zip(centers["columns"], centers["units"], strict=True)
    return [f"{name} ({unit})" if isinstance(unit, str) and unit != "share" else name for name, unit in named], shares


def centers_html(centers: Json, names: Mapping[str, str]) -> h.Markup:
    """All centres as one table."""
    columns, shares = columns_with_units(centers)

    def cell(row: Json, j: int, noise: float) -> object:
        text, ends = h.in_units(row["values"][j], noise, shares[j]), "withheld"
        if row["low"] is None:
            return text
        if row["low"][j] is not None:
            ends = " to ".join(h.in_units(row[end][j], noise, shares[j], to) for end, to in (("low", -1), ("high", 1)))
        return text, " ", h.element("small", f"({ends})")

    sizes = [[] if row["size"] is None else [size_words(row)] for row in centers["rows"]]
    header = ["cluster", *([centers["counted"]] if any(sizes) else []), *columns]
    rows = [
        [
            h.join(row["label"], h.given_name(row["label"], names)),
            *size,
            *(cell(row, j, noise) for j, noise in enumerate(row["noises"])),
        ]
        for row, size in zip(centers["rows"], sizes, strict=True)
    ]
    level = "" if centers["level"] is None else f", with {h.share(centers['level'])} intervals"
    return h.join(
        h.table(header, rows, f"Centre of each cluster, in the units of the columns{level}"), _withheld(centers)
    )


def _withheld(centers: Json) -> h.Markup | None:
    """Which intervals are not given, and why: clusters that lack the same ones for the same reason together."""
    columns: dict[tuple[int, str], list[str]] = {}
    for one in centers["withheld"]:
        columns.setdefault((one["cluster"], one["reason"]), []).append(one["column"] or "size")
    clusters: dict[tuple[str, str], list[str]] = {}
    for (k, reason), names in columns.items():
        every = len(names) == len(centers["columns"]) and "size" not in names
        clusters.setdefault(("all columns" if every else h.listed(names), reason), []).append(str(k))
    sentences = [
        f"{'Clusters' if len(numbers) > 1 else 'Cluster'} {h.listed(numbers)}, {names}: {reason}."
        for (names, reason), numbers in clusters.items()
    ]
    return (
        h.element("p", "Intervals that are not given (withheld). ", " ".join(sentences), class_="soft")
        if sentences
        else None
    )
