"""The overview: all clusters in all columns as one table, in which a colour and a sign say how each differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recoup.report import html as h
from recoup.report.sections import Json
from recoup.report.sections.clusters import DIFFERENT, VERY_DIFFERENT, columns_with_units

# A step away from the average of all records: its class, its sign, and its words.
_STEPS = {
    -2: ("much-lower", "\N{BLACK DOWN-POINTING TRIANGLE}" * 2, "much lower"),
    -1: ("lower", "\N{BLACK DOWN-POINTING TRIANGLE}", "lower"),
    0: ("near", "", "close to the average"),
    1: ("higher", "\N{BLACK UP-POINTING TRIANGLE}", "higher"),
    2: ("much-higher", "\N{BLACK UP-POINTING TRIANGLE}" * 2, "much higher"),
    None: ("unsure", "?", "different, but it may be noise"),
}
_BLOCK = 11  # columns per table, so that one fits on a sheet of paper; those after the first are folded away


def html(profiles: Json, centers: Json, names: Mapping[str, str]) -> h.Markup:
    """The heat map: one row per cluster, largest first, under a row of averages."""
    counted, level = profiles["counted"], profiles["level"]
    lead = (
        f"Each number is the centre of a cluster in a column. The colour compares it with the average of all "
        f"{counted}, in standard deviations of all {counted}: one sign from {DIFFERENT:g}, two from {VERY_DIFFERENT:g}."
    )
    if level is None:
        lead += " The differences were not checked against the noise."
    else:
        lead += f" A difference that the {h.share(level)} interval does not confirm has a question mark and no colour."
    seen = {step for cluster in profiles["clusters"] for step in cluster["steps"]} | {-1, 1}
    keys = [(_key(step), words) for step, (_, _, words) in _STEPS.items() if step in seen]
    columns, units = columns_with_units(centers)
    widths = range(0, len(columns), _BLOCK)
    tables = [_table(profiles, centers, columns, units, slice(at, at + _BLOCK), names) for at in widths]
    rest = f"The other {h.counted(len(columns) - _BLOCK, 'column')}"
    shown, all_clusters = len(profiles["clusters"]), profiles["n_clusters"]
    few = f"Shown are the {shown} largest of {all_clusters} clusters." if shown < all_clusters else None
    return h.section(
        "overview",
        "The clusters at a glance",
        lead,
        h.element("p", few, class_="soft") if few else None,
        h.legend(keys),
        tables[0],
        h.folded(rest, *tables[1:]) if len(tables) > 1 else None,
    )


def _key(step: int | None) -> h.Markup:
    kind, sign, _ = _STEPS[step]
    return h.element("span", sign, class_=f"swatch {kind}", aria_hidden="true")


def _table(
    profiles: Json, centers: Json, columns: list[str], units: list[Any], shown: slice, names: Mapping[str, str]
) -> h.Markup:
    rows, units, counted = {row["label"]: row for row in centers["rows"]}, units[shown], profiles["counted"]

    def texts(values: list[float], noises: list[float]) -> list[str]:
        return [h.in_units(*cell) for cell in zip(values, noises, units, strict=True)]

    averages = texts(*([of[name] for of in profiles["whole"][shown]] for name in ("mean", "noise")))
    cells = [h.element("td", text, class_="number") for text in averages]
    body = [h.element("tr", h.element("th", f"all {counted}", scope="row"), h.element("td", "100%"), cells)]
    for cluster in profiles["clusters"]:
        label = cluster["label"]
        badge = h.element("span", label, class_="badge")
        link = h.element("a", badge, href=f"#cluster-{label}", aria_label=f"Cluster {label}")
        doubt = h.element("small", "may be noise") if cluster["doubtful"] else None
        head = h.element("th", link, " ", h.given_name(label, names), doubt, scope="row")
        share = h.element("td", h.share(cluster["share"]), class_="number")
        own = (rows[label][name][shown] for name in ("values", "noises"))
        pairs = zip(texts(*own), cluster["steps"][shown], strict=True)
        body.append(h.element("tr", head, share, [_cell(text, step) for text, step in pairs]))
    header = [h.element("th", h.breakable(name), scope="col") for name in ("cluster", f"of {counted}", *columns[shown])]
    caption = f"Centres of the clusters, compared with all {counted}"
    return h.scrolling(caption, h.element("thead", h.element("tr", header)), h.element("tbody", body), class_="heat")


def _cell(text: str, step: int | None) -> h.Markup:
    kind, sign, words = _STEPS[step]
    if step == 0:
        return h.element("td", text, class_=kind)
    hidden = h.element("span", f", {words}", class_="visually-hidden")
    return h.element("td", text, " ", h.element("i", sign, aria_hidden="true"), hidden, class_=kind)
