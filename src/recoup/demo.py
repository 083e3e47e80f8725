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

# Longitude, latitude, spread in degrees and share of all check-ins: five regions on a map of the world.
_REGIONS = (
    (-112.0, 38.0, 12.0, 0.30),
    (-80.0, 36.0, 11.0, 0.27),
    (12.0, 50.0, 16.0, 0.32),
    (104.0, 22.0, 22.0, 0.08),
    (138.0, -30.0, 12.0, 0.03),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GeneratedTable:
    """Rows, (n, d), with what a user would declare about them: bounds that are not computed from them, and K."""

    name: str
    columns: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_clusters: int
    rows: Array = field(repr=False)


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


# ---- data sets made from a seed: no download, and nobody's records ----


def gaussian_blobs(seed: int = 0, n_records: int = 5000) -> GeneratedTable:
    """Make fifteen round clusters of equal size at random places that are far from each other, like the set S1."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    side, n_clusters = 1e6, 15
    places = np.empty((n_clusters, 2))
    n_placed, distance = 0, 0.21 * side
    while n_placed < n_clusters:
        place = rng.uniform(0.12 * side, 0.88 * side, size=2)
        if all(np.linalg.norm(place - other) >= distance for other in places[:n_placed]):
            places[n_placed] = place
            n_placed += 1
        else:
            # Shrinking a little after each failure always ends, whatever the seed.
            distance *= 0.9995
    spread = rng.uniform(0.028, 0.045, size=n_clusters) * side
    cluster = np.arange(n_records) % n_clusters
    rows = rng.normal(places[cluster], spread[cluster, None])
    return GeneratedTable(
        name="S1-like",
        columns=("x", "y"),
        low=(0.0, 0.0),
        high=(side, side),
        n_clusters=n_clusters,
        rows=np.clip(rng.permutation(rows), 0.0, side),
    )


def city_check_ins(seed: int = 0, n_records: int = 107_000) -> GeneratedTable:
    """Make check-ins that crowd into cities of very unequal size on five parts of the world, like the set Gowalla.

    City sizes follow Zipf's law, and the spread around a city is heavy-tailed.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    regions = np.array(_REGIONS)
    n_cities = 60
    stretch = np.array([1.0, 0.55])  # degrees of latitude: regions are wider than they are high
    cities = regions[:, None, :2] + rng.normal(size=(len(regions), n_cities, 2)) * regions[:, 2, None, None] * stretch
    sizes = 1.0 / np.arange(1, n_cities + 1)
    region = rng.choice(len(regions), size=n_records, p=regions[:, 3] / regions[:, 3].sum())
    city = rng.choice(n_cities, size=n_records, p=sizes / sizes.sum())
    rows = cities[region, city] + 0.8 * rng.standard_t(df=2.0, size=(n_records, 2))
    low, high = (-180.0, -90.0), (180.0, 90.0)
    return GeneratedTable(
        name="Gowalla-like",
        columns=("longitude", "latitude"),
        low=low,
        high=high,
        n_clusters=5,
        rows=np.clip(rows, low, high),
    )
