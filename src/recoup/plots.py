"""Pictures of what was released, how sure it is and how well it fits: each draws a thing on axes and returns them.

Kinds of centres differ in shape and colour; colours are those of Okabe and Ito, which colour-blind readers can tell
apart. What simulated noise made says NOT PRIVATE in the picture itself. Only the object interface of matplotlib is
used, never pyplot's global state, so that drawing works in servers and threads.

Everywhere `ax` is the axes to draw on, by default new ones (a notebook shows their `figure`); `pair` says which two
columns to draw, `columns` are the names of all of them, and `simulated` says whether simulated noise made what is
drawn. Points are (n, d), in the user's units. Clusters have the numbers that `predict` gives them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from recoup.algorithms.base import column_names
from recoup.algorithms.kmeans.lloyd import KMeans, paired
from recoup.algorithms.registry import algorithm_from_json
from recoup.domain import Array
from recoup.errors import ParameterError
from recoup.inference.choose import ClusterCurve
from recoup.inference.diagnostics import ABSOLUTE_NOISE, fit_of_blocks
from recoup.inference.inferred import InferredDataset, refit
from recoup.inference.intervals import Intervals
from recoup.privacy.statement import NOT_PRIVATE
from recoup.queries.cells import as_cells
from recoup.transcript.transcript import Transcript

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#B8BCC2"
SKY, PURPLE = "#56B4E9", "#CC79A7"

CenterKind = Literal["private", "exact", "start", "last"]
# Shape, face, edge and size: the kinds can be told apart without colour, and one on top of the other.
_CENTER_STYLES: dict[str, dict[str, Any]] = {
    "private": {"marker": "X", "color": RED, "edgecolors": "white", "linewidths": 0.8, "s": 90, "zorder": 5},
    "exact": {"marker": "o", "facecolors": "none", "edgecolors": BLUE, "linewidths": 1.8, "s": 110, "zorder": 4},
    "start": {"marker": "s", "facecolors": "white", "edgecolors": "#555555", "linewidths": 1.0, "s": 26, "zorder": 3},
    "last": {"marker": "D", "color": BLUE, "edgecolors": "white", "linewidths": 0.8, "s": 44, "zorder": 4},
}
_LINES = tuple(zip((BLUE, RED, GREEN, ORANGE, PURPLE, SKY), "oXDs^v", ("-", "--", "-.", ":", "-", "--"), strict=True))


def new_figure(width: float = 6.4, height: float = 4.8, n_axes: int = 1) -> tuple[Any, list[Any]]:
    """Make a figure of this many inches with axes side by side, without pyplot; returns both.

    >>> len(new_figure(n_axes=2)[1])
    2
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    return figure, list(figure.subplots(1, n_axes, squeeze=False)[0])


def legend_below(ax: Any, n_columns: int = 3) -> Any:
    """Put the legend under the axes, where it hides nothing, with this many entries side by side."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=n_columns, frameon=False, fontsize=9)
    return ax


def png(figure: Any) -> bytes:
    """Render a figure as a PNG.

    >>> png(new_figure(1, 1)[0])[1:4]
    b'PNG'
    """
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def plot_centers(
    centers: ArrayLike,
    ax: Any = None,
    *,
    columns: Sequence[str] | None = None,
    pair: tuple[int, int] = (0, 1),
    kind: CenterKind = "private",
    label: str | None = None,
    simulated: bool = False,
) -> Any:
    """Draw centres in two of their columns; a single column is drawn along a line.

    The `kind` is "private", "exact", "start" or "last" (the last iterate): each has its own shape and colour. The
    `label` is for the legend. Only private centres are numbered.

    >>> plot_centers([[0, 1], [2, 3]], columns=("x", "y")).get_xlabel()
    'x'
    """
    ax, centers = _axes(ax), np.asarray(centers, dtype=np.float64)
    x, y = _coordinates(centers, pair)
    if kind == "private":
        style = {"textcoords": "offset points", "xytext": (6, 5), "fontsize": 8, "zorder": 6, "annotation_clip": False}
        for k, place in enumerate(zip(x, y, strict=True)):
            ax.annotate(str(k), place, **style)
    # A centre may lie on the very edge of the bounds, and is to be seen whole there too.
    ax.scatter(x, y, label=label, clip_on=False, **_CENTER_STYLES[kind])
    _label_axes(ax, centers.shape[1], columns, pair)
    if centers.shape[1] == 1:
        ax.set_yticks([])
    return _marked(ax, simulated)


def plot_density(rows: ArrayLike, ax: Any = None, *, pair: tuple[int, int] = (0, 1), extent: Sequence[float]) -> Any:
    """Draw records as a light density; if they are real, only for those who may see the data.

    The `extent` is left, right, bottom, top: declared bounds, so that the frame says nothing about the records.

    >>> plot_density([[0.2, 0.3], [0.4, 0.1]], extent=(0, 1, 0, 1)).get_xlim() == (0, 1)
    True
    """
    from matplotlib.colors import LinearSegmentedColormap

    ax = _axes(ax)
    greys = LinearSegmentedColormap.from_list("light", ["#E4E7EB", "#8A929C"])
    x, y = _coordinates(np.asarray(rows, dtype=np.float64), pair)
    ax.hexbin(x, y, gridsize=70, bins="log", mincnt=1, cmap=greys, extent=tuple(extent), linewidths=0.1, zorder=1)
    ax.set(xlim=extent[:2], ylim=extent[2:])
    return ax


def plot_rounds(transcript: Transcript, ax: Any = None, *, pair: tuple[int, int] = (0, 1)) -> Any:
    """Draw how the centres of a transcript moved from round to round, from their start to the last iterate.

    An algorithm that places new cells in every round has no paths: the centres of each round's cells are drawn instead,
    darker in later rounds. For a single column the rounds run along the other axis. A transcript without cells raises
    `ParameterError`.
    """
    ax, domain = _axes(ax), transcript.context.domain
    if transcript.algorithm.get("type") != KMeans.type_name:
        return _marked(_plot_cells(ax, transcript, pair), transcript.simulated)
    lines, names = np.stack([domain.from_unit(step) for step in _steps(transcript)]), domain.columns
    i, j = _checked_pair(pair, domain.n_columns)
    if domain.n_columns == 1:
        rounds = np.arange(len(lines))
        ax.plot(lines[:, :, 0], rounds, color=GREY, linewidth=1.2, zorder=2)
        for t, kind, label in ((0, "start", "start, without data"), (-1, "last", "last iterate")):
            ax.scatter(lines[t, :, 0], np.full(lines.shape[1], rounds[t]), label=label, **_CENTER_STYLES[kind])
        _label_axes(ax, 1, names, pair)
        ax.set(ylabel="round", yticks=rounds)
    else:
        paths = ax.plot(lines[:, :, i], lines[:, :, j], color=BLUE, alpha=0.55, linewidth=1.2, zorder=2)
        paths[0].set_label("round by round")
        between = lines[1:-1].reshape(-1, domain.n_columns)
        ax.scatter(between[:, i], between[:, j], s=12, color=BLUE, alpha=0.75, linewidths=0, zorder=3)
        plot_centers(lines[0], ax, columns=names, pair=pair, kind="start", label="start, without data")
        plot_centers(lines[-1], ax, columns=names, pair=pair, kind="last", label="last iterate")
        ax.set(xlim=(domain.low[i], domain.high[i]), ylim=(domain.low[j], domain.high[j]))
    return _marked(ax, transcript.simulated)


def plot_before_after(
    transcript: Transcript, centers: ArrayLike, ax: Any = None, *, pair: tuple[int, int] = (0, 1)
) -> Any:
    """Draw the algorithm's own answer and the centres after inference, each joined to its nearest partner."""
    ax, domain = _axes(ax), transcript.context.domain
    after, before = np.asarray(centers, dtype=np.float64), refit(transcript)
    for row, partner in zip(*paired(domain.to_unit(before), domain.to_unit(after)), strict=True):
        (x0, x1), (y0, y1) = _coordinates(np.stack([before[row], after[partner]]), pair)
        ax.plot([x0, x1], [y0, y1], color=GREY, linewidth=1.2, linestyle="--", zorder=2)
    plot_centers(before, ax, columns=domain.columns, pair=pair, kind="last", label="before inference")
    plot_centers(after, ax, columns=domain.columns, pair=pair, kind="private", label="after inference")
    return _marked(ax, transcript.simulated)


def _plot_cells(ax: Any, transcript: Transcript, pair: tuple[int, int]) -> Any:
    domain = transcript.context.domain
    rounds = enumerate(transcript.rounds, start=1)
    cells = [(t, query) for t, r in rounds if (query := as_cells(r.query)) and query.n_cells > 1]
    if not cells:
        raise ParameterError("no round of the transcript asks about cells.")
    i, j = _checked_pair(pair, domain.n_columns)
    for place, (t, query) in enumerate(cells, start=1):
        centers = domain.from_unit(domain.clip(query.centers))
        heights = np.full(len(centers), t) if domain.n_columns == 1 else centers[:, j]
        style = {"s": 10 + 8 * place, "alpha": place / len(cells), "zorder": 2 + place, "color": BLUE, "linewidths": 0}
        label = f"round {t}: {'counts' if query.sums == 'none' else 'sums'}, {query.n_cells} cells"
        ax.scatter(centers[:, i], heights, label=label, **style)
    _label_axes(ax, domain.n_columns, domain.columns, pair)
    upward = {"ylabel": "round"} if domain.n_columns == 1 else {"ylim": (domain.low[j], domain.high[j])}
    ax.set(xlim=(domain.low[i], domain.high[i]), **upward)
    return ax


def plot_budget(transcript: Transcript, ax: Any = None) -> Any:
    """Draw what each round of a transcript cost, on top of what was spent before it, and how it was split."""
    ax, context = _axes(ax), transcript.context
    total, spent, seen = float(context.budget.amount), 0.0, set[str]()
    for t, answered in enumerate(transcript.rounds, start=1):
        if spent:
            ax.bar(t, spent, color="#E4E7EB", width=0.62, label=_once("spent before", seen))
        for name, height in answered.price_of_blocks(context).items():
            colour = {"count": BLUE, "sum": ORANGE}.get(name, GREEN)
            ax.bar(t, height, bottom=spent, color=colour, width=0.62, label=_once(f"{name}s", seen))
            spent += height
    ax.axhline(total, color="#333333", linewidth=1.0, linestyle="--", label=f"budget: {total:.4g}")
    measure = "epsilon" if context.budget_measure == "pure" else "rho"
    ax.set(xticks=range(1, len(transcript.rounds) + 1), xlabel="round", ylabel=measure, ylim=(0.0, total * 1.12))
    return _marked(ax, transcript.simulated)


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
    intervals: Intervals,
    centers: ArrayLike | None = None,
    ax: Any = None,
    *,
    columns: Sequence[str] | None = None,
    pair: tuple[int, int] = (0, 1),
    simulated: bool = False,
) -> Any:
    """Draw intervals, as from `PrivateKMeans.intervals`, as crosses around their centres; one column, row by row.

    The `centers` and `columns` are by default those that the intervals know.

    >>> ends = {"center_low": np.array([[0.0, 1.0]]), "center_high": np.array([[2.0, 3.0]])}
    >>> sizes = {"size_low": np.array([1.0]), "size_high": np.array([2.0])}
    >>> around = Intervals(level=0.9, n_draws=39, **ends, **sizes)
    >>> plot_intervals(around, [[1.0, 2.0]], columns=("x", "y")).get_ylabel()
    'y'
    """
    given = intervals.centers if centers is None else centers
    if given is None:
        raise ParameterError("these intervals do not know their centres: give them.")
    ax, centers, columns = _axes(ax), np.asarray(given, dtype=np.float64), columns or intervals.columns
    around = np.stack([centers - intervals.center_low, intervals.center_high - centers])
    style = {"fmt": "none", "ecolor": RED, "elinewidth": 1.4, "capsize": 2.5, "zorder": 4}
    single, (i, j) = centers.shape[1] == 1, _checked_pair(pair, centers.shape[1])
    heights, upward = (np.arange(len(centers)), None) if single else (centers[:, j], around[:, :, j])
    label = f"{100 * intervals.level:g}% intervals"
    ax.errorbar(centers[:, i], heights, xerr=around[:, :, i], yerr=upward, label=label, **style)
    _label_axes(ax, centers.shape[1], columns, pair)
    if single:
        ax.set(ylabel="cluster", yticks=heights)
    return _marked(ax, simulated)


def plot_residuals(transcript: Transcript, inferred: InferredDataset, ax: Any = None) -> Any:
    """Draw the mean misfit of each round to inferred data in units of its noise, and what noise alone would give.

    Shaded is the mean of noise, three standard deviations to either side.
    """
    ax, names, seen = _axes(ax), list[str](), set[str]()
    for row, (t, name, _, value, low, high) in enumerate(fit_of_blocks(transcript, inferred.points, inferred.weights)):
        ax.barh(row, high - low, left=low, height=0.6, color="#E4E7EB", zorder=1)
        shape, colour = {"count": ("o", BLUE), "sum": ("D", ORANGE)}.get(name, ("s", GREEN))
        ax.scatter(value, row, marker=shape, color=colour, s=36, zorder=3, label=_once(f"{name}s", seen))
        names.append(f"round {t + 1}, {name}s")
    ax.axvline(ABSOLUTE_NOISE[transcript.context.mechanism][0], color="#555555", linewidth=1.0, linestyle=":", zorder=2)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set(xlim=(0.0, None), xlabel="mean misfit / noise scale")
    return _marked(ax, transcript.simulated)


def plot_trace(inferred: InferredDataset, ax: Any = None) -> Any:
    """Draw the log target along the steps of each chain; data without a sampler raises `ParameterError`."""
    ran = inferred.diagnostics
    if ran is None or not ran.log_likelihood_trace:
        raise ParameterError('only data inferred by the sampler has a trace: infer with method="mcmc".')
    ax = _axes(ax)
    for i, trace in enumerate(ran.log_likelihood_trace):
        colour, _, line = _LINES[i % len(_LINES)]
        ax.plot(trace, color=colour, linestyle=line, linewidth=1.2, label=f"chain {i + 1}")
    ax.set(xlabel="step (thinned)", ylabel="log target")
    return _marked(ax, inferred.simulated)


def plot_wcss(
    scores: Mapping[str, Mapping[float, float]],
    ax: Any = None,
    *,
    errors: Mapping[str, Mapping[float, float]] | None = None,
    references: Mapping[str, float] | None = None,
    simulated: bool = True,
) -> Any:
    """Draw the within-cluster sum of squares of several methods by epsilon, both on log scales.

    `scores` maps a method to epsilon to score, and `errors` to its standard error; `references` are scores that do not
    depend on epsilon, such as that of non-private k-means. Noise is simulated in every comparison with the data.

    >>> plot_wcss({"a": {0.5: 3.0, 1.0: 2.0}}, references={"none": 1.0}).get_xscale()
    'log'
    """
    ax = _axes(ax)
    for (name, by_epsilon), (colour, shape, line) in zip(scores.items(), cycle(_LINES), strict=False):
        at = sorted(by_epsilon)
        spread = None if errors is None else [errors[name][epsilon] for epsilon in at]
        style = {"color": colour, "marker": shape, "linestyle": line, "markersize": 6, "capsize": 2}
        ax.errorbar(at, [by_epsilon[epsilon] for epsilon in at], yerr=spread, label=name, **style)
    for name, score in (references or {}).items():
        ax.axhline(score, color=GREY, linewidth=1.2, linestyle="--", label=name, zorder=1)
    ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="within-cluster sum of squares")
    epsilons = sorted({epsilon for by_epsilon in scores.values() for epsilon in by_epsilon})
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.xaxis.minorticks_off()
    return _marked(ax, simulated)


def plot_curve(curve: ClusterCurve, ax: Any = None, *, asked: int | None = None, simulated: bool = False) -> Any:
    """Draw the loss by number of clusters, with its intervals, as of `suggest_clusters`; `asked` is marked as well."""
    ax = _axes(ax)
    ax.fill_between(
        curve.n_clusters, curve.loss_low, curve.loss_high, color=SKY, alpha=0.35, linewidth=0, label="interval"
    )
    ax.plot(curve.n_clusters, curve.loss, color=BLUE, marker="o", markersize=4, label="loss")
    if curve.outcome != "not conclusive":
        least = "at least " if curve.outcome == "at least" else ""
        ax.axvline(curve.suggested, color=RED, linestyle="--", label=f"suggested: {least}{curve.suggested}")
    if asked is not None:
        ax.axvline(asked, color="#555555", linestyle=":", label=f"asked for: {asked}")
    step = max(1, len(curve.n_clusters) // 10)
    ax.set(
        xticks=curve.n_clusters[::step], xlabel="number of clusters", ylabel="loss of the inferred data", ylim=(0, None)
    )
    return _marked(ax, simulated)


def plot_profiles(transcript: Transcript, centers: ArrayLike, ax: Any = None) -> Any:
    """Draw a heat map of clusters by columns: how far each centre is from the middle of all, in widths of the bounds.

    Cells hold the centres themselves, in the user's units, where there is room.

    >>> from recoup import Box, release
    >>> made = release(KMeans(n_clusters=2), [[0.5]], domain=Box([0], [1]), epsilon=1)
    >>> plot_profiles(made, [[0.1], [0.9]]).get_ylabel()
    'cluster'
    """
    domain, centers = transcript.context.domain, np.asarray(centers, dtype=np.float64)
    if centers.ndim != 2 or centers.shape[1] != domain.n_columns:
        raise ParameterError(f"centers has shape {centers.shape}: give (K, {domain.n_columns}) centres.")
    (k, d), names = centers.shape, column_names(domain)
    ax = new_figure(2.0 + 0.75 * min(d, 24), 1.4 + 0.4 * min(k, 24))[1][0] if ax is None else ax
    places = np.column_stack([domain.on_scale(centers[:, j], j) for j in range(d)])
    away = places - places.mean(axis=0)
    most = max(float(np.abs(away).max()), 1e-9)
    drawn = ax.imshow(away, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
    if k * d <= 150:
        for (row, column), value in np.ndenumerate(centers):
            ink = "white" if abs(away[row, column]) > 0.65 * most else "black"
            ax.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=7, color=ink)
    ax.set_yticks(range(k))
    ax.set_xticks(
        range(d), [_plain(name) for name in names], rotation=35 if d > 3 else 0, ha="right" if d > 3 else "center"
    )
    ax.set(ylabel="cluster")
    ax.figure.colorbar(drawn, ax=ax, label="from the middle of the centres,\nin widths of the bounds")
    return _marked(ax, transcript.simulated)


def _axes(ax: Any) -> Any:
    return new_figure()[1][0] if ax is None else ax


def _plain(name: object) -> str:
    return str(name).replace("$", r"\$")  # a dollar sign would start a formula


def _once(label: str, seen: set[str]) -> str | None:
    """A label for the legend, the first time only."""
    new = label not in seen
    seen.add(label)
    return label if new else None


def _checked_pair(pair: tuple[int, int], n_columns: int) -> tuple[int, int]:
    """The two columns, which must exist; of a single one, it alone."""
    i, j = pair if n_columns > 1 else (0, 0)
    if not (0 <= i < n_columns and 0 <= j < n_columns):
        raise ParameterError(f"pair={pair}: choose two of the columns 0 to {n_columns - 1}.", parameter="pair")
    return i, j


def _coordinates(points: Array, pair: tuple[int, int]) -> tuple[Array, Array]:
    """Two columns of points; a single one lies along a line."""
    i, j = _checked_pair(pair, points.shape[1])
    return points[:, i], points[:, j] if points.shape[1] > 1 else np.zeros(len(points))


def _label_axes(ax: Any, n_columns: int, columns: Sequence[str] | None, pair: tuple[int, int]) -> None:
    """Name the axes by their columns; of a single column only the one that it lies along."""
    for set_label, j in zip((ax.set_xlabel, ax.set_ylabel), pair if n_columns > 1 else (0,), strict=False):
        set_label(f"column {j}" if columns is None else _plain(columns[j]))


def _marked(ax: Any, simulated: bool) -> Any:
    """The axes, marked once if simulated noise made what they show."""
    if simulated and not any(text.get_text() == NOT_PRIVATE for text in ax.texts):
        box = {"facecolor": RED, "edgecolor": "none", "pad": 3.0}
        style = {"ha": "center", "va": "top", "color": "white", "fontsize": 10, "fontweight": "bold", "zorder": 10}
        ax.text(0.5, 0.98, NOT_PRIVATE, transform=ax.transAxes, bbox=box, **style)
    return ax
