"""The table of centres: the text beside the picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.queries.base import Array
from recoup.report.html import Markup, count, element, in_units, join, listed, share, table
from recoup.report.result import Json, Result, finite_or_none


def content(result: Result) -> Json:
    """The centres that are shown, with their intervals, and which of these are withheld."""
    columns, sure = result.shown.columns, result.intervals
    rows = []
    for k in np.sort(result.shown.clusters):
        low = None if sure is None else [finite_or_none(v) for v in sure.center_low[k, columns]]
        high = None if sure is None else [finite_or_none(v) for v in sure.center_high[k, columns]]
        values = [float(v) for v in result.centers[k, columns]]
        rows.append({"label": int(k), "values": values, "low": low, "high": high, "size": float(result.sizes[k])})
    return {
        "columns": [result.columns[j] for j in columns],
        "spans": [float(result.spans[j]) for j in columns],
        "level": None if sure is None else sure.level,
        "withheld": [
            {"cluster": k, "column": None if j is None else result.columns[j], "reason": reason}
            for k, j, reason in (() if sure is None else sure.withheld)
        ],
        "rows": rows,
    }


def content_of_model(centers: Array, bounds: list[dict[str, Any]]) -> Json:
    """The same where nothing but centres was released."""
    unknown = dict.fromkeys(("low", "high", "before", "size"))
    return {
        "columns": [bound["column"] for bound in bounds],
        "spans": [bound["high"] - bound["low"] for bound in bounds],
        "level": None,
        "withheld": [],
        "rows": [
            {"label": k, "values": [float(v) for v in center], **unknown}
            for k, center in enumerate(np.asarray(centers, dtype=np.float64))
        ],
    }


def html(centers: Json) -> Markup:
    """All centres as one table."""
    spans = centers["spans"]

    def cell(row: Json, j: int) -> Markup:
        text = in_units(row["values"][j], spans[j])
        if row["low"] is None:
            return join(text)
        if row["low"][j] is None:
            return join(text, " ", element("small", "(withheld)"))
        ends = f"({in_units(row['low'][j], spans[j])} to {in_units(row['high'][j], spans[j])})"
        return join(text, " ", element("small", ends))

    rows = []
    for row in centers["rows"]:
        size = [] if row["size"] is None else [count(row["size"])]
        rows.append([row["label"], *size, *(cell(row, j) for j in range(len(spans)))])
    sized = any(row["size"] is not None for row in centers["rows"])
    header = ["cluster", *(["records"] if sized else []), *centers["columns"]]
    level = "" if centers["level"] is None else f", with {share(centers['level'])} intervals"
    return join(table(header, rows, f"Centres in the units of the columns{level}"), _withheld(centers))


def _withheld(centers: Json) -> Markup | None:
    """Which intervals are not given, and why: clusters that lack the same ones for the same reason together."""
    columns: dict[tuple[int, str], list[str]] = {}
    for one in centers["withheld"]:
        columns.setdefault((one["cluster"], one["reason"]), []).append(one["column"] or "size")
    clusters: dict[tuple[str, str], list[str]] = {}
    for (k, reason), names in columns.items():
        every = len(names) == len(centers["columns"]) and "size" not in names
        clusters.setdefault(("all columns" if every else listed(names), reason), []).append(str(k))
    sentences = [
        f"{'Clusters' if len(numbers) > 1 else 'Cluster'} {listed(numbers)}, {names}: {reason}."
        for (names, reason), numbers in clusters.items()
    ]
    return element("p", "Withheld intervals. ", " ".join(sentences), class_="soft") if sentences else None
