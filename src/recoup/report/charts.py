"""Small still charts as HTML and SVG: they stretch to any width, follow the page's colours, and need no script.

Lines are drawn in a stretched SVG whose strokes keep their width; words stand outside it as HTML, so that they stay
readable on a phone. Every chart has the same numbers beside it as text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recoup.report.markup import Markup, element, join


def track(*marks: Markup, class_: str = "") -> Markup:
    """A horizontal scale to put marks on; readers of the screen get the numbers beside it instead."""
    return element("span", *marks, class_=f"track {class_}".strip(), aria_hidden="true")


def band(kind: str, start: float, stop: float) -> Markup:
    """A stretch of a track, in parts of its width.

    >>> band("whole", 0.25, 0.5)
    '<span class="band whole" style="left:25.00%;width:25.00%"></span>'
    """
    start, stop = (float(np.clip(v, 0.0, 1.0)) for v in (start, stop))
    width = max(stop - start, 0.0)
    return element("span", class_=f"band {kind}", style=f"left:{100 * start:.2f}%;width:{100 * width:.2f}%")


def mark(kind: str, at: float) -> Markup:
    """A point of a track, in parts of its width."""
    return element("span", class_=f"mark {kind}", style=f"left:{100 * float(np.clip(at, 0.0, 1.0)):.2f}%")


def line_chart(
    lines: Sequence[Sequence[tuple[float, float]]],
    *,
    band_between: Sequence[tuple[float, float, float]] | None = None,
    points: Sequence[tuple[float, float, str]] = (),
    x_labels: Sequence[tuple[float, str]],
    y_labels: Sequence[tuple[float, str]],
    x_title: str,
    y_title: str,
    label: str,
    class_: str = "",
) -> Markup:
    """Lines in a frame, everything in parts of its width and height, upwards.

    Args:
        lines: points of each line.
        band_between: x, lower and upper end of a shaded band.
        points: x, y and a class of points that are marked.
        x_labels: places and texts along the bottom; the outer ones stay inside where there are only two.
        y_labels: places and texts along the left.
        x_title: what runs along the bottom.
        y_title: what runs along the left.
        label: the chart in words.
        class_: further classes.

    Returns:
        A figure.
    """
    shapes = []
    if band_between:
        upper = [(x, high) for x, _, high in band_between]
        lower = [(x, low) for x, low, _ in reversed(band_between)]
        shapes.append(element("polygon", class_="area", points=_points([*upper, *lower])))
    shapes += [element("line", class_="grid", x1=0, x2=100, y1=_y(at), y2=_y(at)) for at, _ in y_labels]
    for position, line in enumerate(lines):
        shapes.append(element("polyline", class_=f"line line-{position % 4}", points=_points(line)))
    frame = element("svg", *shapes, viewbox="0 0 100 100", preserveaspectratio="none", aria_hidden="true")
    dots = [
        element("span", class_=f"dot {kind}".strip(), style=f"left:{100 * x:.2f}%;bottom:{100 * y:.2f}%")
        for x, y, kind in points
    ]
    left = [element("span", text, style=f"bottom:{100 * place:.2f}%") for place, text in y_labels]
    below = [element("span", text, style=f"left:{100 * place:.2f}%") for place, text in x_labels]
    return element(
        "div",
        element("div", y_title, class_="y-title", aria_hidden="true"),
        element("div", *left, class_="y-axis", aria_hidden="true"),
        element("div", frame, join(*dots), class_="frame"),
        element("div", *below, class_="x-axis ends" if len(below) == 2 else "x-axis", aria_hidden="true"),
        element("div", x_title, class_="x-title", aria_hidden="true"),
        class_=f"chart {class_}".strip(),
        role="img",
        aria_label=label,
    )


def _points(line: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{100 * x:.2f},{_y(y)}" for x, y in line)


def _y(place: float) -> str:
    return f"{100 * (1 - place):.2f}"
