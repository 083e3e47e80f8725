"""The section with the moving picture: its frame, its controls and, as text, the table of centres beside it."""

from __future__ import annotations

from recoup.report.blocks import Facts, legend_of, more, section, table
from recoup.report.markup import Markup, element, join
from recoup.report.numbers import count, in_units, listed, share

_LEADS = {
    "maxent": "Step through the rounds: what inference made of all answers so far, and where each answer alone would "
    "have put the centres.",
    "other": "Step through the rounds: what maximum entropy makes of all answers so far, and where each answer alone "
    "would have put the centres. The last step is the result.",
    "none": "Step through the rounds: where the algorithm stood after each answer, over the density that could be "
    "inferred by then.",
}
_NO_SCRIPT = "The picture needs a script; the table below has the same centres."
_MOST_PATHS = 20  # clusters; more paths than that are a thicket until one cluster is followed
_BEHIND = [("density", "inferred density"), ("answer", "noisy answer of the round"), ("none", "nothing")]


def picture(facts: Facts) -> Markup | None:
    """The picture of centres and density over the rounds; only a table where there is no transcript."""
    found = facts["map"]
    if facts["centers"] is None:
        return None
    if found is None:
        lead = "Only these centres were released; there is no transcript that could tell more."
        return section("picture", "The centres", lead, centers(facts))
    stage = element(
        "div",
        element("canvas", id="map-density", aria_hidden="true"),
        element("svg", id="map-marks", aria_hidden="true", focusable="false"),
        id="map",
        class_="stage",
        role="img",
        aria_labelledby="map-status",
    )
    status = element("p", _NO_SCRIPT, id="map-status", class_="status", aria_live="polite")
    return section(
        "picture",
        "How the centres came about",
        join(_LEADS.get(found["method"], _LEADS["other"]), _gain(found["gain"])),
        element("figure", stage, _steps(found), status, _options(found), _key(found), class_="map"),
        more("The centres as a table", centers(facts), opened=len(facts["centers"]["rows"]) <= 10),
    )


def centers(facts: Facts) -> Markup:
    """All centres as one table: the text beside the picture."""
    found = facts["centers"]
    spans = found["spans"]

    def cell(row: Facts, j: int) -> Markup:
        text = in_units(row["values"][j], spans[j])
        if row["low"] is None:
            return join(text)
        if row["low"][j] is None:
            return join(text, " ", element("small", "(withheld)"))
        ends = f"({in_units(row['low'][j], spans[j])} to {in_units(row['high'][j], spans[j])})"
        return join(text, " ", element("small", ends))

    rows = []
    for row in found["rows"]:
        size = [] if row["size"] is None else [count(row["size"])]
        rows.append([row["label"], *size, *(cell(row, j) for j in range(len(spans)))])
    sized = any(row["size"] is not None for row in found["rows"])
    header = ["cluster", *(["records"] if sized else []), *found["columns"]]
    level = "" if found["level"] is None else f", with {share(found['level'])} intervals"
    return join(table(header, rows, f"Centres in the units of the columns{level}"), _withheld(found))


def _withheld(found: Facts) -> Markup | None:
    """Which intervals are not given, and why: clusters that lack the same ones for the same reason together."""
    columns: dict[tuple[int, str], list[str]] = {}
    for one in found["withheld"]:
        columns.setdefault((one["cluster"], one["reason"]), []).append(one["column"] or "size")
    clusters: dict[tuple[str, str], list[str]] = {}
    for (k, reason), names in columns.items():
        every = len(names) == len(found["columns"]) and "size" not in names
        clusters.setdefault(("all columns" if every else listed(names), reason), []).append(str(k))
    sentences = [
        f"{'Clusters' if len(numbers) > 1 else 'Cluster'} {listed(numbers)}, {names}: {reason}."
        for (names, reason), numbers in clusters.items()
    ]
    return element("p", "Withheld intervals. ", " ".join(sentences), class_="soft") if sentences else None


def _gain(gain: Facts | None) -> str:
    if gain is None:
        return ""
    words = f" Inference from all rounds moved the centres by {gain['moved_words']} of the bounds' diagonal on average"
    if gain["ratio"] < 0.995:
        return f"{words} and lowered the spread inside the clusters of the inferred data by {share(1 - gain['ratio'])}."
    return f"{words}."


def _steps(found: Facts) -> Markup:
    last = len(found["steps"])
    names = [*(str(step["round"]) for step in found["steps"]), "result"]
    ticks = [element("span", name, style=f"left:{100 * i / last:.2f}%") for i, name in enumerate(names)]
    slider = element(
        "label",
        element("span", "Round", class_="visually-hidden"),
        element("input", id="map-step", type="range", min=0, max=last, step=1, value=last),
        element("span", *ticks, class_="ticks", aria_hidden="true"),
        class_="slider",
    )
    play = element("button", "Play", id="map-play", type="button", class_="primary", aria_describedby="map-status")
    return element("div", play, slider, class_="steps")


def _options(found: Facts) -> Markup:
    columns = [(str(i), name) for i, name in enumerate(found["columns"])]
    pair = None
    if len(columns) > 2:
        x, y = (str(i) for i in found["pair"])
        pair = join(_select("map-x", "Across", columns, x), _select("map-y", "Up", columns, y))
    labels = [("", "all clusters"), *((str(i), f"cluster {k}") for i, k in enumerate(found["labels"]))]
    boxes = [
        _box("map-before", "before inference", _has_before(found)),
        _box("map-intervals", "intervals", found["interval"] is not None),
        _box("map-paths", "paths", True, checked=len(found["labels"]) <= _MOST_PATHS),
        _box("map-zoom", "zoom to the data", _zooms(found)),
    ]
    note = None
    if len(columns) < found["n_columns"]:
        words = f"The {len(columns)} of {found['n_columns']} columns in which clusters differ most."
        note = element("p", words, class_="soft")
    return element(
        "div",
        pair,
        _select("map-behind", "Behind", _BEHIND, "density"),
        _select("map-follow", "Follow", labels, ""),
        element("fieldset", element("legend", "Show"), *boxes),
        note,
        class_="options",
    )


def _has_before(found: Facts) -> bool:
    return found["before"] is not None or any(step["before"] is not None for step in found["steps"])


def _zooms(found: Facts) -> bool:
    ends = zip(found["view"], found["low"], found["high"], strict=True)
    return any(view[0] > low or view[1] < high for view, low, high in ends)


def _select(name: str, label: str, options: list[tuple[str, str]], chosen: str) -> Markup:
    items = [element("option", text, value=value, selected=value == chosen) for value, text in options]
    return element("label", element("span", label), element("select", *items, id=name), class_="choice")


def _box(name: str, label: str, useful: bool, *, checked: bool = True) -> Markup | None:
    if not useful:
        return None
    return element("label", element("input", id=name, type="checkbox", checked=checked), label, class_="check")


def _key(found: Facts) -> Markup:
    words = "centre, with its number" if found["method"] == "none" else "centre after inference, with its number"
    items = [("after", words)]
    if _has_before(found):
        items.append(("before", "the same before inference"))
    if found["interval"] is not None:
        items.append(("interval", f"{share(found['interval']['level'])} interval"))
    items.append(("density", "inferred density"))
    return element("figcaption", legend_of([(element("span", class_=f"key {kind}"), text) for kind, text in items]))
