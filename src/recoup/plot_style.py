"""What every picture shares: colours, figures without pyplot, names of axes, and the mark of simulated noise.

Only the object interface of matplotlib is used, never pyplot's global state, so that drawing works in servers and
threads. Colours are those of Okabe and Ito, which colour-blind readers can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from recoup.domain import Array
from recoup.errors import ParameterError
from recoup.privacy.statement import NOT_PRIVATE

BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#B8BCC2"
SKY, PURPLE = "#56B4E9", "#CC79A7"


def new_figure(width: float = 6.4, height: float = 4.8, n_axes: int = 1) -> tuple[Any, list[Any]]:
    """Make a figure with axes side by side, without pyplot.

    Args:
        width: in inches.
        height: in inches.
        n_axes: how many axes.

    Returns:
        The matplotlib figure, and its axes.

    >>> figure, axes = new_figure(n_axes=2)
    >>> len(axes)
    2
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    axes = figure.subplots(1, n_axes, squeeze=False)
    return figure, list(axes[0])


def legend_below(ax: Any, n_columns: int = 3) -> Any:
    """Put the legend under the axes, where it hides nothing.

    Args:
        ax: the axes.
        n_columns: entries side by side.

    Returns:
        The axes.
    """
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=n_columns, frameon=False, fontsize=9)
    return ax


def png(figure: Any) -> bytes:
    """Render a figure.

    Args:
        figure: from `new_figure`.

    Returns:
        The bytes of a PNG.

    >>> png(new_figure(1, 1)[0])[1:4]
    b'PNG'
    """
    import io

    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def checked_pair(pair: tuple[int, int], n_columns: int) -> tuple[int, int]:
    """Check that two columns exist."""
    i, j = pair
    if not (0 <= i < n_columns and 0 <= j < n_columns):
        raise ParameterError(f"pair={pair}: choose two of the columns 0 to {n_columns - 1}.", parameter="pair")
    return i, j


def _axis_name(columns: Sequence[str] | None, j: int) -> str:
    # A dollar sign would start a formula.
    return f"column {j}" if columns is None else str(columns[j]).replace("$", r"\$")


def coordinates(points: Array, pair: tuple[int, int]) -> tuple[Array, Array]:
    """Two columns of points; a single one lies along a line."""
    if points.shape[1] == 1:
        return points[:, 0], np.zeros(len(points))
    i, j = checked_pair(pair, points.shape[1])
    return points[:, i], points[:, j]


def label_axes(ax: Any, n_columns: int, columns: Sequence[str] | None, pair: tuple[int, int] = (0, 1)) -> None:
    """Name the axes by their columns; of a single column only the one that it lies along."""
    x, y = pair if n_columns > 1 else (0, None)
    ax.set_xlabel(_axis_name(columns, x))
    if y is not None:
        ax.set_ylabel(_axis_name(columns, y))


def marked(ax: Any, simulated: bool) -> Any:
    """The axes, marked once if simulated noise made what they show."""
    if simulated and not any(text.get_text() == NOT_PRIVATE for text in ax.texts):
        style = {"facecolor": RED, "edgecolor": "none", "pad": 3.0}
        ax.text(
            0.5, 0.98, NOT_PRIVATE, transform=ax.transAxes, ha="center", va="top", color="white", fontsize=10,
            fontweight="bold", zorder=10, bbox=style,
        )  # fmt: skip
    return ax
