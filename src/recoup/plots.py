"""Pictures of what was released, how sure it is and how well it fits: each draws a thing on an axes and returns it.

Kinds of centres differ in shape and colour. What simulated noise made says NOT PRIVATE in the picture itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from recoup.algorithms.kmeans.lloyd import KMeans, paired
from recoup.algorithms.registry import algorithm_from_json
from recoup.domain import Array
from recoup.errors import ParameterError
from recoup.inference.diagnostics import ABSOLUTE_NOISE, fit_of_blocks
from recoup.inference.inferred import InferredDataset, refit
from recoup.inference.intervals import Intervals
from recoup.plot_style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    checked_pair,
    coordinates,
    label_axes,
    legend_below,
    marked,
    new_figure,
    png,
)
from recoup.queries.cells import as_cells
from recoup.transcript.transcript import Transcript

CenterKind = Literal["private", "exact", "start", "last"]
# Shape, face, edge and size: the kinds can be told apart without colour, and one on top of the other.
_CENTER_STYLES: dict[str, dict[str, Any]] = {
    "private": {"marker": "X", "color": RED, "edgecolors": "white", "linewidths": 0.8, "s": 90, "zorder": 5},
    "exact": {"marker": "o", "facecolors": "none", "edgecolors": BLUE, "linewidths": 1.8, "s": 110, "zorder": 4},
    "start": {"marker": "s", "facecolors": "white", "edgecolors": "#555555", "linewidths": 1.0, "s": 26, "zorder": 3},
    "last": {"marker": "D", "color": BLUE, "edgecolors": "white", "linewidths": 0.8, "s": 44, "zorder": 4},
}
_LINES = tuple(zip((BLUE, RED, GREEN, ORANGE, PURPLE, SKY), "oXDs^v", ("-", "--", "-.", ":", "-", "--"), strict=True))


def plot_centers(
    ax: Any,
    centers: ArrayLike,
    *,
    columns: Sequence[str] | None = None,
    pair: tuple[int, int] = (0, 1),
    kind: CenterKind = "private",
    label: str | None = None,
    simulated: bool = False,
) -> Any:
    """Draw centres in two of their columns; a single column is drawn along a line.

    Args:
        ax: the axes.
        centers: (k, d), in the user's units.
        columns: names of all columns, for the labels of the axes.
        pair: which two columns.
        kind: "private", "exact", "start" or "last" (the last iterate): each has its own shape and colour.
        label: for the legend.
        simulated: whether simulated noise made them.

    Returns:
        The axes.

    >>> _, (ax,) = new_figure()
    >>> plot_centers(ax, [[0, 1], [2, 3]], columns=("x", "y")).get_xlabel()
    'x'
    """
    centers = np.asarray(centers, dtype=np.float64)
    x, y = coordinates(centers, pair)
    # A centre may lie on the very edge of the bounds, and is to be seen whole there too.
    ax.scatter(x, y, label=label, clip_on=False, **_CENTER_STYLES[kind])
    label_axes(ax, centers.shape[1], columns, pair)
    if centers.shape[1] == 1:
        ax.set_yticks([])
    return marked(ax, simulated)


def plot_density(ax: Any, rows: ArrayLike, *, pair: tuple[int, int] = (0, 1), extent: Sequence[float]) -> Any:
    """Draw records themselves as a light density: for evaluation by whoever may see the data, never for publication.

    Args:
        ax: the axes.
        rows: (n, d) records.
        pair: which two columns.
        extent: left, right, bottom, top: declared bounds, so that the frame says nothing about the records.

    Returns:
        The axes.

    >>> _, (ax,) = new_figure()
    >>> plot_density(ax, [[0.2, 0.3], [0.4, 0.1]], extent=(0, 1, 0, 1)).get_xlim() == (0, 1)
    True
    """
    from matplotlib.colors import LinearSegmentedColormap

    rows = np.asarray(rows, dtype=np.float64)
    left, right, bottom, top = extent
    greys = LinearSegmentedColormap.from_list("light", ["#E4E7EB", "#8A929C"])
    x, y = coordinates(rows, pair)
    ax.hexbin(x, y, gridsize=70, bins="log", mincnt=1, cmap=greys, extent=tuple(extent), linewidths=0.1, zorder=1)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    return ax


def plot_rounds(ax: Any, transcript: Transcript, *, pair: tuple[int, int] = (0, 1)) -> Any:
    """Draw how the centres moved from round to round, from their start to the last iterate.

    An algorithm that places its cells anew in every round has no paths: there, the centres of each round's cells are
    drawn, darker in later rounds.

    Args:
        ax: the axes.
        transcript: what was released, with at least one round of cells.
        pair: which two columns; for a single column the rounds run along the other axis.

    Returns:
        The axes.

    Raises:
        ParameterError: no round asks about cells of the algorithm's own number.
    """
    domain = transcript.context.domain
    if transcript.algorithm.get("type") != KMeans.type_name:
        return marked(_plot_cells(ax, transcript, pair), transcript.simulated)
    steps = _steps(transcript)
    lines = np.stack([domain.from_unit(step) for step in steps])
    names = domain.columns
    if domain.n_columns == 1:
        rounds = np.arange(len(lines))
        for k in range(lines.shape[1]):
            ax.plot(lines[:, k, 0], rounds, color=GREY, linewidth=1.2, zorder=2)
        ax.scatter(lines[0, :, 0], np.zeros(lines.shape[1]), label="start, without data", **_CENTER_STYLES["start"])
        last = np.full(lines.shape[1], rounds[-1])
        ax.scatter(lines[-1, :, 0], last, label="last iterate", **_CENTER_STYLES["last"])
        label_axes(ax, 1, names)
        ax.set_ylabel("round")
        ax.set_yticks(rounds)
    else:
        i, j = checked_pair(pair, domain.n_columns)
        for k in range(lines.shape[1]):
            path = "round by round" if k == 0 else None
            ax.plot(lines[:, k, i], lines[:, k, j], color=BLUE, alpha=0.55, linewidth=1.2, zorder=2, label=path)
        between = lines[1:-1].reshape(-1, domain.n_columns)
        ax.scatter(between[:, i], between[:, j], s=12, color=BLUE, alpha=0.75, linewidths=0, zorder=3)
        plot_centers(ax, lines[0], columns=names, pair=pair, kind="start", label="start, without data")
        plot_centers(ax, lines[-1], columns=names, pair=pair, kind="last", label="last iterate")
        ax.set_xlim(domain.low[i], domain.high[i])
        ax.set_ylim(domain.low[j], domain.high[j])
    return marked(ax, transcript.simulated)


def plot_before_after(ax: Any, transcript: Transcript, centers: ArrayLike, *, pair: tuple[int, int] = (0, 1)) -> Any:
    """Draw the algorithm's own answer and the centres after inference, each joined to its nearest partner.

    Args:
        ax: the axes.
        transcript: what was released.
        centers: (K, d) after inference, in the user's units.
        pair: which two columns.

    Returns:
        The axes; centres are matched so that they are closest all together.
    """
    domain = transcript.context.domain
    after, before = np.asarray(centers, dtype=np.float64), refit(transcript)
    for row, partner in zip(*paired(domain.to_unit(before), domain.to_unit(after)), strict=True):
        (x0, x1), (y0, y1) = coordinates(np.stack([before[row], after[partner]]), pair)
        ax.plot([x0, x1], [y0, y1], color=GREY, linewidth=1.2, linestyle="--", zorder=2)
    plot_centers(ax, before, columns=domain.columns, pair=pair, kind="last", label="before inference")
    plot_centers(ax, after, columns=domain.columns, pair=pair, kind="private", label="after inference")
    return marked(ax, transcript.simulated)


def _plot_cells(ax: Any, transcript: Transcript, pair: tuple[int, int]) -> Any:
    domain = transcript.context.domain
    rounds = [(t, as_cells(r.query)) for t, r in enumerate(transcript.rounds, start=1)]
    cells = [(t, query) for t, query in rounds if query is not None and query.n_cells > 1]
    if not cells:
        raise ParameterError("no round of the transcript asks about cells.")
    i, j = (0, 0) if domain.n_columns == 1 else checked_pair(pair, domain.n_columns)
    for place, (t, query) in enumerate(cells, start=1):
        centers = domain.from_unit(domain.clip(query.centers))
        heights = np.full(len(centers), t) if domain.n_columns == 1 else centers[:, j]
        what = "counts" if query.sums == "none" else "sums"
        ax.scatter(
            centers[:, i],
            heights,
            s=10 + 8 * place,
            color=BLUE,
            alpha=place / len(cells),
            linewidths=0,
            zorder=2 + place,
            label=f"round {t}: {what}, {query.n_cells} cells",
        )
    label_axes(ax, domain.n_columns, domain.columns, pair)
    ax.set_xlim(domain.low[i], domain.high[i])
    if domain.n_columns == 1:
        ax.set_ylabel("round")
    else:
        ax.set_ylim(domain.low[j], domain.high[j])
    return ax


def plot_budget(ax: Any, transcript: Transcript) -> Any:
    """Draw what each round cost, on top of what was spent before it, and how it was split over the answer.

    Args:
        ax: the axes.
        transcript: what was released.

    Returns:
        The axes.
    """
    context = transcript.context
    pure = context.budget_measure == "pure"
    total = float(context.budget.amount)
    spent, seen = 0.0, set[str]()
    colours = {"count": BLUE, "sum": ORANGE}
    for t, answered in enumerate(transcript.rounds, start=1):
        label = None if "before" in seen else "spent before"
        if spent:
            ax.bar(t, spent, color="#E4E7EB", width=0.62, label=label)
            seen.add("before")
        for name, height in answered.price_of_blocks(context).items():
            label = None if name in seen else f"{name}s"
            ax.bar(t, height, bottom=spent, color=colours.get(name, GREEN), width=0.62, label=label)
            seen.add(name)
            spent += height
    ax.axhline(total, color="#333333", linewidth=1.0, linestyle="--", label=f"budget: {total:.4g}")
    ax.set_xticks(range(1, len(transcript.rounds) + 1))
    ax.set_xlabel("round")
    ax.set_ylabel("epsilon" if pure else "rho (zCDP)")
    ax.set_ylim(0.0, total * 1.12)
    return marked(ax, transcript.simulated)


def _steps(transcript: Transcript) -> list[Array]:
    # Only rounds with as many cells as the answer has centres can be joined by lines.
    if not transcript.rounds:
        raise ParameterError("the transcript has no rounds to draw.")
    final = algorithm_from_json(transcript.algorithm).estimate(transcript.context, transcript.rounds)
    queries = [as_cells(r.query) for r in transcript.rounds]
    steps = [query.centers for query in queries if query is not None and query.centers.shape == final.shape]
    if not steps:
        raise ParameterError("no round of the transcript asks about cells around the centres.")
    return [*steps, final]


def plot_intervals(
    ax: Any,
    intervals: Intervals,
    centers: ArrayLike,
    *,
    columns: Sequence[str] | None = None,
    pair: tuple[int, int] = (0, 1),
    simulated: bool = False,
) -> Any:
    """Draw the intervals of the estimate as crosses around the centres; for a single column, one below the other.

    Args:
        ax: the axes.
        intervals: from `recoup.inference.intervals` or `PrivateKMeans.intervals`.
        centers: (K, d) that they are around, in the user's units.
        columns: names of all columns.
        pair: which two columns.
        simulated: whether simulated noise made them.

    Returns:
        The axes.

    >>> ends = {"center_low": np.array([[0.0, 1.0]]), "center_high": np.array([[2.0, 3.0]])}
    >>> sizes = {"size_low": np.array([1.0]), "size_high": np.array([2.0])}
    >>> around = Intervals(level=0.9, n_draws=39, **ends, **sizes)
    >>> plot_intervals(new_figure()[1][0], around, [[1.0, 2.0]], columns=("x", "y")).get_ylabel()
    'y'
    """
    centers = np.asarray(centers, dtype=np.float64)
    below, above = centers - intervals.center_low, intervals.center_high - centers
    style = {"fmt": "none", "ecolor": RED, "elinewidth": 1.4, "capsize": 2.5, "zorder": 4}
    label = f"{100 * intervals.level:g} % intervals"
    if centers.shape[1] == 1:
        rows = np.arange(len(centers))
        ax.errorbar(centers[:, 0], rows, xerr=[below[:, 0], above[:, 0]], label=label, **style)
        label_axes(ax, 1, columns)
        ax.set_ylabel("cluster")
        ax.set_yticks(rows)
        return marked(ax, simulated)
    i, j = checked_pair(pair, centers.shape[1])
    errors = {"xerr": [below[:, i], above[:, i]], "yerr": [below[:, j], above[:, j]]}
    ax.errorbar(centers[:, i], centers[:, j], label=label, **errors, **style)
    label_axes(ax, centers.shape[1], columns, pair)
    return marked(ax, simulated)


def plot_residuals(ax: Any, transcript: Transcript, inferred: InferredDataset) -> Any:
    """Draw the mean misfit of each round in units of its noise, with what noise alone would leave.

    Args:
        ax: the axes.
        transcript: what was released.
        inferred: the data set that is to explain it.

    Returns:
        The axes; shaded is the mean of noise, three standard deviations to either side.
    """
    names, seen = list[str](), set[str]()
    shapes = {"count": ("o", BLUE), "sum": ("D", ORANGE)}
    for row, (t, name, _, value, low, high) in enumerate(fit_of_blocks(transcript, inferred.points, inferred.weights)):
        ax.barh(row, high - low, left=low, height=0.6, color="#E4E7EB", zorder=1)
        shape, colour = shapes.get(name, ("s", GREEN))
        label = None if name in seen else f"{name}s"
        ax.scatter(value, row, marker=shape, color=colour, s=36, zorder=3, label=label)
        seen.add(name)
        names.append(f"round {t + 1}, {name}s")
    ax.axvline(ABSOLUTE_NOISE[transcript.context.mechanism][0], color="#555555", linewidth=1.0, linestyle=":", zorder=2)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set_xlabel("mean misfit / noise scale")
    return marked(ax, transcript.simulated)


def plot_trace(ax: Any, inferred: InferredDataset) -> Any:
    """Draw the log target along the steps of each chain.

    Args:
        ax: the axes.
        inferred: a data set that the sampler found.

    Returns:
        The axes.

    Raises:
        ParameterError: the data set was not found by the sampler.
    """
    ran = inferred.diagnostics
    if ran is None or not ran.log_likelihood_trace:
        raise ParameterError('only data inferred by the sampler has a trace: infer with method="mcmc".')
    for i, trace in enumerate(ran.log_likelihood_trace):
        colour, _, line = _LINES[i % len(_LINES)]
        ax.plot(trace, color=colour, linestyle=line, linewidth=1.2, label=f"chain {i + 1}")
    ax.set_xlabel("step (thinned)")
    ax.set_ylabel("log target")
    return marked(ax, inferred.simulated)


def plot_wcss(
    ax: Any,
    scores: Mapping[str, Mapping[float, float]],
    *,
    errors: Mapping[str, Mapping[float, float]] | None = None,
    references: Mapping[str, float] | None = None,
    simulated: bool = True,
) -> Any:
    """Draw the within-cluster sum of squares of several methods by epsilon, both on log scales.

    Args:
        ax: the axes.
        scores: method to epsilon to score.
        errors: the same for standard errors.
        references: name to a score that does not depend on epsilon, such as that of non-private k-means.
        simulated: whether simulated noise made them, as in every comparison that looks at the data.

    Returns:
        The axes.

    >>> plot_wcss(new_figure()[1][0], {"a": {0.5: 3.0, 1.0: 2.0}}, references={"none": 1.0}).get_xscale()
    'log'
    """
    for (name, by_epsilon), (colour, shape, line) in zip(scores.items(), cycle(_LINES), strict=False):
        at = sorted(by_epsilon)
        spread = None if errors is None else [errors[name][epsilon] for epsilon in at]
        style = {"color": colour, "marker": shape, "linestyle": line, "markersize": 6, "capsize": 2}
        ax.errorbar(at, [by_epsilon[epsilon] for epsilon in at], yerr=spread, label=name, **style)
    for name, score in (references or {}).items():
        ax.axhline(score, color=GREY, linewidth=1.2, linestyle="--", label=name, zorder=1)
    ax.set_xscale("log")
    ax.set_yscale("log")
    epsilons = sorted({epsilon for by_epsilon in scores.values() for epsilon in by_epsilon})
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.xaxis.minorticks_off()
    ax.set_xlabel("epsilon")
    ax.set_ylabel("within-cluster sum of squares")
    return marked(ax, simulated)


__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "CenterKind",
    "legend_below",
    "new_figure",
    "plot_before_after",
    "plot_budget",
    "plot_centers",
    "plot_density",
    "plot_intervals",
    "plot_residuals",
    "plot_rounds",
    "plot_trace",
    "plot_wcss",
    "png",
]
