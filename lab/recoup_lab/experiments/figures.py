"""The figures of an experiment: WCSS by epsilon, a panel for each set, mean and standard error.

Lines differ in colour, marker and dash, so that they can be told apart without colour. Solid lines read the transcript
of DP-KMEANS; dashed ones are algorithms of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from recoup.domain import Array
from recoup.errors import ParameterError
from recoup.plots import BLUE, GREEN, ORANGE, PURPLE, RED, SKY
from recoup.privacy.statement import NOT_PRIVATE
from recoup_lab.experiments.peers import LABEL
from recoup_lab.experiments.run import Metric
from recoup_lab.experiments.summary import DATA_FREE, LAST_ITERATE, NON_PRIVATE, TITLES, Panel, method_title

_INK, _SOFT = "#222222", "#8A929C"
_N_COLUMNS = 3
ABOVE = "hollow: above the axis"


class _Style(NamedTuple):
    color: str
    marker: str
    line: str = "-"
    width: float = 1.5


_STYLES = {
    "dpkm": _Style(_INK, "o"),
    "avg2": _Style(_SOFT, "s", ":"),
    "consistency": _Style(_INK, "1", ":", 1.0),
    "mcmc": _Style(ORANGE, "^"),
    "mcmc-noise": _Style(ORANGE, "2", ":", 1.0),
    "maxent": _Style(BLUE, "D"),
    "recoup": _Style(RED, "X", "-", 2.4),
    "eugkm": _Style(GREEN, "v", "--"),
    "hybrid": _Style(SKY, "P", "--"),
    "gupt": _Style(PURPLE, "<", "--"),
    "privgene": _Style(_SOFT, ">", "--"),
}
# For methods that were added: other shapes again.
_FURTHER = tuple(_Style(color, marker, "-.") for color, marker in zip((BLUE, RED, GREEN, PURPLE), "*hpd", strict=True))


def six_panels(panels: Sequence[Panel], metric: Metric) -> Any:
    """Draw the figure of one metric, with a panel for each set.

    Raises:
        ParameterError: nothing was run in the metric.
    """
    from matplotlib.figure import Figure

    shown = [panel for panel in panels if panel.metric == metric]
    if not shown:
        raise ParameterError(f"there are no runs in the {metric} metric to draw.")
    n_columns = min(_N_COLUMNS, len(shown))
    n_rows = -(-len(shown) // n_columns)
    figure = Figure(figsize=(max(4.6 * n_columns, 7.5), 3.7 * n_rows + 1.5), dpi=110, layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    styles = _styles(shown)
    for ax, panel in zip(axes, shown, strict=False):
        plot_panel(ax, panel, styles)
    for ax in axes[len(shown) :]:
        ax.set_axis_off()
    for row in range(n_rows):
        axes[row * n_columns].set_ylabel("WCSS")
    seeds = {panel.scores[name][e].n_runs for panel in shown for name in panel.methods for e in panel.scores[name]}
    n_seeds = " to ".join(str(n) for n in sorted({min(seeds), max(seeds)}))
    over = f"mean ± standard error over {n_seeds} seeds" if max(seeds) > 1 else "one seed"
    figure.suptitle(f"{TITLES[metric]}; {over}\n{NOT_PRIVATE}, scored on the records", fontsize=12)
    handles: dict[str, Any] = {}
    for ax in axes[: len(shown)]:
        handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True)) | handles
    order = [*map(method_title, (*styles, NON_PRIVATE, DATA_FREE)), LABEL, ABOVE]
    handles = {label: handles[label] for label in order if label in handles}
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(7, len(handles)), frameon=False,
        fontsize=10, handlelength=3.2,
    )  # fmt: skip
    return figure


def plot_panel(ax: Any, panel: Panel, styles: dict[str, _Style] | None = None) -> Any:
    """Draw one set: a line for each private method, level lines for the baselines, rings for quoted peers."""
    styles = _styles([panel]) if styles is None else styles
    low, high = _range(panel)
    # Side by side, so that error bars do not hide each other.
    shifts = dict(zip(panel.methods, np.geomspace(0.94, 1.064, max(len(panel.methods), 2)), strict=False))
    for name in panel.methods:
        scores = panel.scores[name]
        at = [epsilon for epsilon in panel.epsilons if epsilon in scores]
        x, means = np.array(at) * shifts[name], np.array([scores[epsilon].mean for epsilon in at])
        _draw_line(ax, name, styles[name], x, means, np.array([scores[epsilon].error for epsilon in at]))
        _draw_above(ax, styles[name], x[means > high] * shifts[name], high)
    if panel.peers:
        at = [epsilon for epsilon in panel.peers if epsilon in panel.epsilons]
        ring = {"facecolors": "none", "edgecolors": _INK, "s": 95, "linewidths": 1.3, "zorder": 4}
        ax.scatter(at, [panel.peers[epsilon] for epsilon in at], label=LABEL, **ring)
    n, d, k = panel.shape
    ax.set_title(f"{panel.title}: {n:,} x {d}, K = {k}", fontsize=11, pad=9)
    _draw_baselines(ax, panel, high)
    _scale(ax, panel, low, high)
    return ax


def _range(panel: Panel) -> tuple[float, float]:
    """Where the axis begins and ends: somewhat above the algorithm of the paper, so that its neighbours can be seen."""
    tops = {name: max(score.mean + score.error for score in panel.scores[name].values()) for name in panel.methods}
    means = [score.mean for name in panel.methods for score in panel.scores[name].values()]
    bottom = min([*means, *([] if panel.non_private is None else [panel.non_private])])
    top = tops.get(LAST_ITERATE, max(tops.values()))
    peers = [panel.peers[epsilon] for epsilon in panel.peers if epsilon in panel.epsilons]
    top = min(max(tops.values()), max(top * (top / bottom) ** 0.3, *peers, 1.02 * bottom))
    span = max(top / bottom, 1.001)
    return bottom * span**-0.05, top * span**0.08


def _draw_line(ax: Any, name: str, style: _Style, x: Array, means: Array, errors: Array) -> None:
    strokes = style.marker in "1234"  # markers without a face
    ax.errorbar(
        x,
        means,
        yerr=errors,
        label=method_title(name),
        color=style.color,
        marker=style.marker,
        linestyle=style.line,
        linewidth=style.width,
        markersize=6.5,
        markeredgecolor=style.color if strokes else "white",
        markeredgewidth=1.4 if strokes else 0.6,
        elinewidth=1.0,
        zorder=5 if name == "recoup" else 3,
    )


def _draw_above(ax: Any, style: _Style, x: Array, high: float) -> None:
    if x.size:
        ax.plot(
            x,
            np.full(x.size, high),
            linestyle="none",
            marker=style.marker,
            markersize=6.5,
            markerfacecolor="white",
            markeredgecolor=style.color,
            markeredgewidth=1.3,
            clip_on=False,
            label=ABOVE,
            zorder=6,
        )


def _draw_baselines(ax: Any, panel: Panel, high: float) -> None:
    for name in (NON_PRIVATE, DATA_FREE):
        score = panel.scores.get(name, {}).get(None)
        if score is None:
            continue
        # A baseline far above every method would press them all into one line: it is written at the edge instead.
        inside = score.mean <= high
        ax.plot(
            [0, 1],
            [score.mean if inside else np.nan] * 2,
            transform=ax.get_yaxis_transform(),
            label=method_title(name),
            color=_INK,
            linewidth=1.1,
            linestyle="-" if name == NON_PRIVATE else (0, (1, 2)),
            zorder=1,
        )
        if not inside:
            text = f"{method_title(name)}: {score.mean:,.0f} \N{UPWARDS ARROW}"
            behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
            where = {"transform": ax.transAxes, "ha": "right", "va": "top", "zorder": 7}
            ax.text(0.99, 0.955, text, fontsize=9, color=_INK, bbox=behind, **where)


def _scale(ax: Any, panel: Panel, low: float, high: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.xaxis.set_major_locator(FixedLocator(panel.epsilons))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("epsilon")
    ax.yaxis.set_major_locator(FixedLocator(_round_numbers(low, high)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    ax.grid(axis="y", color="#E4E7EB", linewidth=0.8)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _round_numbers(low: float, high: float) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    if high < 4 * low:
        evenly = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [float(tick) for tick in evenly if low <= tick <= high]
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks: list[float] = []
    for steps in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1,)):
        every = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in every if low <= tick <= high]
        if len(ticks) <= 7:
            break
    return ticks


def _styles(panels: Sequence[Panel]) -> dict[str, _Style]:
    names = dict.fromkeys(name for panel in panels for name in panel.methods)
    further = cycle(_FURTHER)
    return {name: _STYLES[name] if name in _STYLES else next(further) for name in names}
