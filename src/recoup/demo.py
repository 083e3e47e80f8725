"""The demo: two generated tables, clustered privately and compared with what one could have had without privacy.

Two things must not be mixed up. The *release* of each table is a real one: secure noise, one transcript, a privacy
statement. The *comparison* looks at the data, as only the holder of a generated table may: it uses seeded, simulated
noise, so that the same seed prints the same table, and it would not be published.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from recoup.algorithms.kmeans.lloyd import spread_centers
from recoup.domain import Array, Box
from recoup.errors import DoubtfulResult
from recoup.estimators import PrivateKMeans
from recoup.generated import GeneratedTable, city_check_ins, gaussian_blobs
from recoup.inference.inferred import InferredDataset
from recoup.transcript.transcript import Transcript

EPSILONS = (0.25, 1.0)
RELEASED_EPSILON = 1.0
N_FITS = 3
NON_PRIVATE, DATA_FREE = "non-private k-means", "spread centres, no data"
COMPARISON_NOTE = (
    "The comparison is NOT PRIVATE: it is an evaluation with access to the data, which one would not publish, and its "
    "noise is simulated from the seed, so that the same seed gives the same figures."
)

Fit = Callable[[GeneratedTable, float, int], Array]
"""A private method: table, epsilon and seed to centres in the table's units."""


def fitted(
    table: GeneratedTable, epsilon: float, seed: int, *, noise: Literal["secure", "simulated"], **choices: Any
) -> PrivateKMeans:
    """Fit Recoup's estimator to a generated table with the bounds that its maker declares."""
    import pyarrow as pa

    ends = zip(table.low, table.high, strict=True)
    bounds = dict(zip(table.columns, ends, strict=True))
    model = PrivateKMeans(table.n_clusters, epsilon, bounds, random_state=seed, noise=noise, **choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulResult)  # the page says it
        return model.fit(pa.table(dict(zip(table.columns, table.rows.T, strict=True))))


def _simulated(**choices: Any) -> Fit:
    def fit(table: GeneratedTable, epsilon: float, seed: int) -> Array:
        centers: Array = fitted(table, epsilon, seed, noise="simulated", **choices).cluster_centers_
        return centers

    return fit


METHODS: dict[str, Fit] = {
    "Recoup, default settings": _simulated(),
    "DP-KMEANS, then maximum entropy": _simulated(algorithm="lloyd", postprocess="maxent"),
    "DP-KMEANS, then MCMC (the paper)": _simulated(algorithm="lloyd", postprocess="mcmc"),
    "DP-KMEANS, last iterate": _simulated(algorithm="lloyd", postprocess="none"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableResult:
    """What the demo found on one table.

    Attributes:
        table: the generated table.
        exact_centers: of non-private k-means.
        non_private: their within-cluster sum of squares, columns scaled to [-1, 1].
        data_free: the mean of centres that were spread out without data.
        private: method to epsilon to the mean over some fits.
        released: the centres of the real release, in units.
        transcript: all that was released.
        inferred: the data set behind the released centres.
        released_score: the within-cluster sum of squares of the real release.
    """

    table: GeneratedTable
    exact_centers: Array = field(repr=False)
    non_private: float
    data_free: float
    private: Mapping[str, Mapping[float, float]]
    released: Array = field(repr=False)
    transcript: Transcript = field(repr=False)
    inferred: InferredDataset | None = field(repr=False)
    released_score: float

    def rows(self) -> list[tuple[str, list[float]]]:
        """The lines of the comparison: a name, and a score for each epsilon."""
        same = [self.non_private] * len(EPSILONS)
        lines = [(NON_PRIVATE, same)]
        lines += [(name, [scores[epsilon] for epsilon in EPSILONS]) for name, scores in self.private.items()]
        return [*lines, (DATA_FREE, [self.data_free] * len(EPSILONS))]


def wcss(table: GeneratedTable, centers: Array) -> float:
    """The within-cluster sum of squares, columns scaled to [-1, 1] by their bounds: the user's metric.

    >>> table = gaussian_blobs(n_records=100)
    >>> wcss(table, table.rows)
    0.0
    """
    box = Box(table.low, table.high)
    unit, at = box.to_unit(table.rows), box.to_unit(centers)
    nearest = np.full(len(unit), np.inf)
    for center in at:
        np.minimum(nearest, ((unit - center) ** 2).sum(axis=1), out=nearest)
    return float(nearest.sum())


def compare(
    table: GeneratedTable, *, seed: int = 0, n_fits: int = N_FITS, methods: Mapping[str, Fit] | None = None
) -> TableResult:
    """Release one table privately, and compare methods on it with access to the data.

    The seed is that of the comparison: it does not reach the noise of the release. A private score is a mean of fits.
    """
    from sklearn.cluster import KMeans

    box = Box(table.low, table.high)
    exact = KMeans(table.n_clusters, n_init=10, random_state=seed).fit(box.to_unit(table.rows))
    exact_centers = box.from_unit(exact.cluster_centers_)
    seeds = [seed * 1000 + i for i in range(n_fits)]
    spread = [spread_centers(box, table.n_clusters, np.random.default_rng(s)) for s in seeds]
    private = {
        name: {e: float(np.mean([wcss(table, fit(table, e, s)) for s in seeds])) for e in EPSILONS}
        for name, fit in (METHODS if methods is None else methods).items()
    }
    release = fitted(table, RELEASED_EPSILON, seed, noise="secure")
    return TableResult(
        table=table,
        exact_centers=exact_centers,
        non_private=wcss(table, exact_centers),
        data_free=float(np.mean([wcss(table, box.from_unit(unit)) for unit in spread])),
        private=private,
        released=release.cluster_centers_,
        transcript=release.transcript_,
        inferred=release.inferred_,
        released_score=wcss(table, release.cluster_centers_),
    )


def tables(seed: int = 0) -> tuple[GeneratedTable, ...]:
    """The tables of the demo.

    >>> [table.name for table in tables()]
    ['S1-like', 'Gowalla-like']
    """
    return gaussian_blobs(seed), city_check_ins(seed)


def report_name(result: TableResult) -> str:
    """The file of a table's report."""
    return f"{result.table.name.lower()}-report.html"


def figures(result: TableResult) -> dict[str, tuple[str, bytes]]:
    """One table's pictures: for each, by its file name without ending, a caption and a PNG."""
    from recoup import plots

    table, stem = result.table, result.table.name.lower()
    evaluation = "With access to the data: not for publication. Grey is where records are."
    released = "From the released transcript alone: costs no further privacy."

    def finished(ax: Any, title: str, n_columns: int) -> bytes:
        ax.set_title(f"{table.name}: {title}", fontsize=11)
        return plots.png(plots.legend_below(ax, n_columns).figure)

    centers, rounds, budget = (plots.new_figure(5.6, height)[1][0] for height in (4.9, 4.9, 3.6))
    plots.plot_density(centers, table.rows, extent=(table.low[0], table.high[0], table.low[1], table.high[1]))
    plots.plot_centers(centers, result.exact_centers, columns=table.columns, kind="exact", label="non-private k-means")
    label = f"private, epsilon = {RELEASED_EPSILON:g}"
    plots.plot_centers(centers, result.released, columns=table.columns, kind="private", label=label)
    plots.plot_rounds(rounds, result.transcript)
    plots.plot_centers(rounds, result.released, columns=table.columns, kind="private", label="after inference")
    plots.plot_budget(budget, result.transcript)
    return {
        f"{stem}-centers": (evaluation, finished(centers, "data, non-private and private centres", 2)),
        f"{stem}-rounds": (released, finished(rounds, "where each round asked, and the result", 2)),
        f"{stem}-budget": (released, finished(budget, "budget by round", 4)),
    }
