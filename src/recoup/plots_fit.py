"""Pictures of how sure a result is and how well it fits: intervals, residuals, traces, and scores by epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recoup.errors import ParameterError
from recoup.inference.diagnostics import ABSOLUTE_NOISE, fit_of_blocks
from recoup.inference.inferred import InferredDataset
from recoup.inference.intervals import Intervals
from recoup.plot_style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, axis_name, checked_pair, marked
from recoup.transcript.transcript import Transcript

_LINES = tuple(zip((BLUE, RED, GREEN, ORANGE, PURPLE, SKY), "oXDs^v", ("-", "--", "-.", ":", "-", "--"), strict=True))


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

    >>> from recoup.plots import new_figure
    >>> ends = {"center_low": np.array([[0.0, 1.0]]), "center_high": np.array([[2.0, 3.0]])}
    >>> sizes = {"size_low": np.array([1.0]), "size_high": np.array([2.0])}
    >>> found = Intervals(level=0.9, n_draws=39, **ends, **sizes)
    >>> plot_intervals(new_figure()[1][0], found, [[1.0, 2.0]], columns=("x", "y")).get_ylabel()
    'y'
    """
    centers = np.asarray(centers, dtype=np.float64)
    below, above = centers - intervals.center_low, intervals.center_high - centers
    style = {"fmt": "none", "ecolor": RED, "elinewidth": 1.4, "capsize": 2.5, "zorder": 4}
    label = f"{100 * intervals.level:g} % intervals"
    if centers.shape[1] == 1:
        rows = np.arange(len(centers))
        ax.errorbar(centers[:, 0], rows, xerr=[below[:, 0], above[:, 0]], label=label, **style)
        ax.set_xlabel(axis_name(columns, 0))
        ax.set_ylabel("cluster")
        ax.set_yticks(rows)
        return marked(ax, simulated)
    i, j = checked_pair(pair, centers.shape[1])
    errors = {"xerr": [below[:, i], above[:, i]], "yerr": [below[:, j], above[:, j]]}
    ax.errorbar(centers[:, i], centers[:, j], label=label, **errors, **style)
    ax.set_xlabel(axis_name(columns, i))
    ax.set_ylabel(axis_name(columns, j))
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
    found = inferred.diagnostics
    if found is None or not found.log_likelihood_trace:
        raise ParameterError('only data inferred by the sampler has a trace: infer with method="mcmc".')
    for i, trace in enumerate(found.log_likelihood_trace):
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

    >>> from recoup.plots import new_figure
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
