"""The picture of a benchmark: a panel for each part that has one, in the style of `plots.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recoup.plots import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, legend_below, new_figure, png
from recoup_lab.bench import inference, release, spark, streaming
from recoup_lab.bench.results import Part, PartName

_STYLES = {
    release.OURS: (RED, "X", "-"),
    release.LLOYD: (BLUE, "o", "-"),
    release.LLOYD_RANDOM: (SKY, "s", "--"),
    release.INTELEX: (GREY, "P", "--"),
    release.FAISS: (GREY, "*", ":"),
    release.MINI_BATCH: (GREEN, "v", "--"),
    release.PLAIN: (ORANGE, "^", ":"),
    release.DIFFPRIVLIB: (PURPLE, "D", "-."),
    inference.MAXENT: (RED, "X", "none"),
    inference.MCMC: (ORANGE, "^", "none"),
    inference.YARDSTICK: (BLUE, "o", "none"),
}


def picture(parts: Mapping[PartName, Part]) -> bytes:
    """A PNG of what was measured: release by records, inference by released values, records per second of a round."""
    panels: list[tuple[Any, Part]] = []
    if "release" in parts:
        panels.append((_draw_release, parts["release"]))
    if "inference" in parts:
        panels.append((_draw_inference, parts["inference"]))
    throughput = [parts[name] for name in ("streaming", "spark") if name in parts and parts[name].races]
    n_axes = len(panels) + bool(throughput)
    figure, axes = new_figure(5.4 * max(n_axes, 1), 4.8, max(n_axes, 1))
    for ax, (draw, part) in zip(axes, panels, strict=False):
        draw(ax, part)
    if throughput:
        _draw_throughput(axes[-1], throughput)
    if not n_axes:
        axes[0].set_axis_off()
    return png(figure)


def _draw_release(ax: Any, part: Part) -> None:
    shapes = {(r.shape["n_columns"], r.shape["n_clusters"]) for r in part.races}
    d, k = (10, 15) if (10, 15) in shapes else max(shapes)
    chosen = [r for r in part.races if (r.shape["n_columns"], r.shape["n_clusters"]) == (d, k)]
    for name in release.METHODS:
        timed = [(r.shape["n_records"], t) for r in chosen if (t := r.seconds.get(name)) is not None]
        if timed:
            color, marker, line = _STYLES[name]
            ax.plot(*zip(*timed, strict=True), color=color, marker=marker, linestyle=line, label=name)
    ax.set(xscale="log", yscale="log", xlabel="records", ylabel="seconds")
    ax.set_title(f"Five rounds, d = {d}, K = {k}", fontsize=11)
    legend_below(ax, 2)


def _draw_inference(ax: Any, part: Part) -> None:
    usual = part.races[0].shape["n_points"]
    for name in (inference.MAXENT, inference.MCMC, inference.YARDSTICK):
        color, marker, line = _STYLES[name]
        at = [(r.shape["n_rows"], r.seconds[name]) for r in part.races if r.shape["n_points"] == usual]
        ax.plot(*zip(*at, strict=True), color=color, marker=marker, linestyle=line, label=name)
    ax.set(xscale="log", yscale="log", xlabel="released values, T K (d + 1)", ylabel="seconds")
    ax.set_title(f"Inference by T, K and d; support of {usual:,} points", fontsize=11)
    legend_below(ax, 2)


def _draw_throughput(ax: Any, parts: list[Part]) -> None:
    bars: list[tuple[str, float, str]] = []
    for part in parts:
        for r in part.races:
            for name, seconds in r.seconds.items():
                if seconds is not None and r.shape.get("held", "files") == "files":
                    label = r.shape.get("dtype", f"{int(r.shape['n_records']):,} records")
                    color = {streaming.ROUND: RED, streaming.SCAN: GREY, spark.SPARK: PURPLE, spark.LOCAL: RED}[name]
                    bars.append((f"{name}\n{label}", int(r.shape["n_records"]) / seconds / 1e6, color))
    labels, heights, colors = zip(*bars, strict=True)
    ax.barh(range(len(bars)), heights, color=colors)
    ax.set_yticks(range(len(bars)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("million records a second")
    ax.set_title("One round over Parquet files", fontsize=11)
