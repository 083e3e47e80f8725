"""The picture of the result without a script: drawn once, for the pair of columns that a script would show first.

A script draws over it; on paper and where scripts are off it stays. Both keep one shape: the declared ranges of two
columns are equally long, or one unit is where both have the same, however wide the window is.
"""

from __future__ import annotations

import base64

import numpy as np

from recoup.queries.base import Array
from recoup.report.html import PARTS, Markup, element, in_units
from recoup.report.sections import Json

_WIDTH, _LEFT, _TOP, _RIGHT, _BOTTOM = 560.0, 68.0, 12.0, 14.0, 46.0  # as the script has them
_NARROWEST = 0.5  # height by width, or width by height, of the frame
_MOST_POINTS = 700


def shape(steps: Json) -> float:
    """Width by height of the frame: that of the bounds where both columns have one unit, else a square."""
    x, y = steps["pair"]
    same = steps["units"][x] is not None and steps["units"][x] == steps["units"][y] != "share"
    if not same or steps["scale"][x] or steps["scale"][y]:
        return 1.0
    wide, high = (steps["high"][j] - steps["low"][j] for j in (x, y))
    return float(np.clip(wide / high, _NARROWEST, 1.0 / _NARROWEST))


def still(steps: Json) -> Markup:
    """The result as SVG: inferred data as dots, intervals, and each centre with its number."""
    d = len(steps["columns"])
    x, y = steps["pair"] if d > 1 else (0, None)
    width = _WIDTH - _LEFT - _RIGHT
    height = width / (shape(steps) if d > 1 else 2.4)
    views = _views(steps, [x] if y is None else [x, y])

    def across(places: Array) -> Array:
        return _LEFT + width * (places - views[0][0]) / (views[0][1] - views[0][0])

    def upward(places: Array | None, n: int) -> Array:
        if places is None:  # a single column: all stand on one line
            return np.full(n, _TOP + 0.9 * height)
        return _TOP + height * (1.0 - (places - views[1][0]) / (views[1][1] - views[1][0]))

    def drawn(text: str, most: int | None = None) -> tuple[Array, Array]:
        found = np.frombuffer(base64.b64decode(text), "<u2").reshape(-1, d) / 65535.0
        found = found if most is None else found[:: max(1, -(-len(found) // most))]
        return across(found[:, x]), upward(None if y is None else found[:, y], len(found))

    left, top = drawn(steps["density"], _MOST_POINTS)
    inside = (left > _LEFT) & (left < _LEFT + width) & (top > _TOP) & (top < _TOP + height)
    dots = "".join(f"M{a:.0f} {b:.0f}h3v3h-3z" for a, b in zip(left[inside], top[inside], strict=True))
    frame = element("rect", class_="frame", x=_LEFT, y=_TOP, width=f"{width:.1f}", height=f"{height:.1f}")
    parts = [frame, element("path", class_="points", d=dots)]
    centers = np.stack(drawn(steps["after"]), axis=1)
    if steps["interval"] is not None:
        low, high = (np.stack(drawn(steps["interval"][end]), axis=1) for end in ("low", "high"))
        for (a, b), (start, bottom), (stop, up) in zip(centers, low, high, strict=True):
            path = f"M{start:.1f} {b:.1f}H{stop:.1f}" + ("" if y is None else f"M{a:.1f} {bottom:.1f}V{up:.1f}")
            parts.append(element("path", class_="interval", d=path))
    if steps["before"] is not None:
        own = zip(*drawn(steps["before"]), strict=True)
        parts += [element("path", class_="before", d=f"M{a:.1f} {b - 6:.1f}l6 6l-6 6l-6 -6z") for a, b in own]
    parts += [element("circle", class_="after", cx=f"{a:.1f}", cy=f"{b:.1f}", r=5.5) for a, b in centers]
    for label, (a, b) in zip(steps["labels"], centers, strict=True):
        parts.append(element("text", label, class_="label", x=f"{a + 8:.1f}", y=f"{b - 7:.1f}"))
    return element("svg", *parts, *_axes(steps, x, y, views, width, height), **_attributes(height))


def _attributes(height: float) -> dict[str, object]:
    box = f"0 0 {_WIDTH:.0f} {height + _TOP + _BOTTOM:.0f}"
    return {"id": "map-marks", "viewbox": box, "aria_hidden": "true", "focusable": "false"}


def _views(steps: Json, columns: list[int]) -> list[tuple[float, float]]:
    """The visible part of each column's bounds: the same part of both, or the picture would be out of shape."""
    ends = []
    for j in columns:
        scale = steps["scale"][j] or [steps["low"][j], steps["high"][j]]
        ends.append(np.interp(steps["view"][j], scale, np.linspace(0.0, 1.0, len(scale))))
    part = max(float(stop - start) for start, stop in ends)
    starts = [min(max(0.0, float(start + stop - part) / 2.0), 1.0 - part) for start, stop in ends]
    return [(start, start + part) for start in starts]


def _axes(
    steps: Json, x: int, y: int | None, views: list[tuple[float, float]], width: float, height: float
) -> list[Markup]:
    """The ends of each axis, and its name."""

    def ends(j: int, view: tuple[float, float]) -> list[str]:
        scale = steps["scale"][j] or [steps["low"][j], steps["high"][j]]
        around = np.clip([[at, at - 0.5 / PARTS, at + 0.5 / PARTS] for at in view], 0.0, 1.0)
        values = np.interp(around, np.linspace(0.0, 1.0, len(scale)), scale)
        return [in_units(float(value), float(above - below)) for value, below, above in values]

    right, bottom = _LEFT + width, _TOP + height
    first, last = ends(x, views[0])
    texts = [
        element("text", first, x=_LEFT, y=f"{bottom + 18:.1f}"),
        element("text", last, x=right, y=f"{bottom + 18:.1f}", text_anchor="end"),
        element("text", axis_name(steps, x), class_="axis-name", x=right, y=f"{bottom + 38:.1f}", text_anchor="end"),
    ]
    if y is not None:
        first, last = ends(y, views[1])
        texts += [
            element("text", first, x=_LEFT - 8, y=f"{bottom:.1f}", text_anchor="end"),
            element("text", last, x=_LEFT - 8, y=_TOP + 10, text_anchor="end"),
            element("text", axis_name(steps, y), class_="axis-name", x=_LEFT + 8, y=_TOP + 18),
        ]
    return texts


def axis_name(steps: Json, j: int) -> str:
    """The name of a column, with its unit."""
    unit = steps["units"][j]
    return f"{steps['columns'][j]} ({unit})" if unit not in (None, "share") else str(steps["columns"][j])
