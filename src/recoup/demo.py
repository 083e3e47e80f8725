"""The demo: two generated tables, clustered privately and compared with what one could have had without privacy.

The *release* of each table is a real one, with secure noise; its report is made from the transcript alone. The
*comparison* looks at the data, as only the holder of a generated table may, and would not be published: its noise is
simulated, so that the same seed prints the same table.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from recoup import plots
from recoup.algorithms.kmeans.lloyd import spread_centers
from recoup.cli.output import privacy_sentence
from recoup.domain import Array, Box
from recoup.errors import DoubtfulResult
from recoup.estimators import PrivateKMeans
from recoup.report.html import Markup, document, element, heading, picture, section, table
from recoup.without_privacy import loss_of

EPSILONS, RELEASED_EPSILON, N_FITS = (0.25, 1.0), 1.0, 3
NON_PRIVATE, DATA_FREE = "non-private k-means", "spread centres, no data"
COMPARISON_NOTE = (
    "The comparison is NOT PRIVATE: it is an evaluation with access to the data, which one would not publish, and its "
    "noise is simulated from the seed, so that the same seed gives the same figures."
)
_YOURS = (
    "recoup cluster people.csv -k 3 --epsilon 1 --bounds age=17:90,hours=1:99 -o out\n"
    "recoup report out/transcript.json -o report.html"
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


Fit = Callable[[GeneratedTable, float, int], Array]  # from table, epsilon and seed to centres in the table's units


def fitted(
    table: GeneratedTable, epsilon: float, seed: int, *, noise: Literal["secure", "simulated"], **choices: Any
) -> PrivateKMeans:
    """Fit Recoup's estimator to a generated table with the bounds that its maker declares."""
    import pyarrow as pa

    bounds = dict(zip(table.columns, zip(table.low, table.high, strict=True), strict=True))
    model = PrivateKMeans(table.n_clusters, epsilon, bounds, random_state=seed, noise=noise, **choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulResult)  # the page says it
        return model.fit(pa.table(dict(zip(table.columns, table.rows.T, strict=True))))


def _simulated(table: GeneratedTable, epsilon: float, seed: int, **choices: Any) -> Array:
    centers: Array = fitted(table, epsilon, seed, noise="simulated", **choices).cluster_centers_
    return centers


METHODS: dict[str, Fit] = {
    "Recoup, default settings": _simulated,
    "DP-KMEANS, then maximum entropy": partial(_simulated, algorithm="lloyd", postprocess="maxent"),
    "DP-KMEANS, then MCMC (the paper)": partial(_simulated, algorithm="lloyd", postprocess="mcmc"),
    "DP-KMEANS, last iterate": partial(_simulated, algorithm="lloyd", postprocess="none"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableResult:
    """The release of one table and the comparison: scores are within-cluster sums of squares, as `wcss` says them."""

    table: GeneratedTable
    exact_centers: Array = field(repr=False)
    scores: Mapping[str, list[float]]  # of each method, one for each of EPSILONS; private ones are means over some fits
    release: PrivateKMeans  # the real one
    released_score: float


def wcss(table: GeneratedTable, centers: Array) -> float:
    """The within-cluster sum of squares, columns scaled to [-1, 1] by their bounds: the user's metric."""
    box = Box(table.low, table.high)
    return loss_of(box.to_unit(table.rows), box.to_unit(centers))


def compare(
    table: GeneratedTable, *, seed: int = 0, n_fits: int = N_FITS, methods: Mapping[str, Fit] | None = None
) -> TableResult:
    """Release one table privately, and compare methods on it with access to the data.

    The seed is that of the comparison: it does not reach the noise of the release.
    """
    from sklearn.cluster import KMeans

    box, k, seeds = Box(table.low, table.high), table.n_clusters, [seed * 1000 + i for i in range(n_fits)]
    exact = KMeans(k, n_init=10, random_state=seed).fit(box.to_unit(table.rows))
    exact_centers = box.from_unit(exact.cluster_centers_)
    spread = [box.from_unit(spread_centers(box, k, np.random.default_rng(s))) for s in seeds]
    scores = {NON_PRIVATE: [wcss(table, exact_centers)] * len(EPSILONS)}
    for name, fit in (METHODS if methods is None else methods).items():
        scores[name] = [float(np.mean([wcss(table, fit(table, e, s)) for s in seeds])) for e in EPSILONS]
    scores[DATA_FREE] = [float(np.mean([wcss(table, centers) for centers in spread]))] * len(EPSILONS)
    release = fitted(table, RELEASED_EPSILON, seed, noise="secure")
    score = wcss(table, release.cluster_centers_)
    return TableResult(table=table, exact_centers=exact_centers, scores=scores, release=release, released_score=score)


def tables(seed: int = 0) -> tuple[GeneratedTable, ...]:
    """The tables of the demo."""
    return gaussian_blobs(seed), city_check_ins(seed)


def report_name(result: TableResult) -> str:
    """The file of a table's report."""
    return f"{result.table.name.lower()}-report.html"


def figures(result: TableResult) -> dict[str, tuple[str, bytes]]:
    """One table's pictures: for each, by its file name without ending, a caption and a PNG."""
    table, stem, release = result.table, result.table.name.lower(), result.release
    evaluation = "With access to the data: not for publication. Grey is where records are."
    released = "From the released transcript alone: costs no further privacy."
    centers, rounds, budget = (plots.new_figure(5.6, height)[1][0] for height in (4.9, 4.9, 3.6))
    plots.plot_density(table.rows, centers, extent=(table.low[0], table.high[0], table.low[1], table.high[1]))
    plots.plot_centers(result.exact_centers, centers, columns=table.columns, kind="exact", label="non-private k-means")
    label = f"private, epsilon = {RELEASED_EPSILON:g}"
    plots.plot_centers(release.cluster_centers_, centers, columns=table.columns, kind="private", label=label)
    plots.plot_rounds(release.transcript_, rounds)
    plots.plot_centers(release.cluster_centers_, rounds, columns=table.columns, kind="private", label="after inference")
    plots.plot_budget(release.transcript_, budget)
    pictures = {}
    for name, ax, n_columns, caption, title in (
        ("centers", centers, 2, evaluation, "data, non-private and private centres"),
        ("rounds", rounds, 2, released, "where each round asked, and the result"),
        ("budget", budget, 4, released, "budget by round"),
    ):
        ax.set_title(f"{table.name}: {title}", fontsize=11)
        pictures[f"{stem}-{name}"] = caption, plots.png(plots.legend_below(ax, n_columns).figure)
    return pictures


def page(results: Sequence[TableResult], pictures: Sequence[Mapping[str, tuple[str, bytes]]]) -> str:
    """The page as HTML, with the pictures of each table inside it; it links to the reports that lie beside it."""
    lead = (
        "Nobody's records are in here: both tables were made from a seed. Each was released once, for real, with noise "
        f"from a cryptographic generator at epsilon = {RELEASED_EPSILON:g}. The reports are made from those "
        "releases alone; the comparison below looks at the data."
    )
    links = [element("li", element("a", f"Report of {one.table.name}", href=report_name(one))) for one in results]
    return document(
        "Recoup demo",
        heading("Recoup demo", "Two generated tables, clustered privately", lead, element("ul", links, class_="links")),
        [_section(result, shown) for result, shown in zip(results, pictures, strict=True)],
        section("yours", "Your own table", None, element("pre", element("code", _YOURS), tabindex="0")),
    )


def _cell(score: float, result: TableResult) -> str:
    """A score, and what multiple of the non-private one it is."""
    digits = ",.0f" if score >= 1000 else ".4g"
    return f"{score:{digits}} ({score / result.scores[NON_PRIVATE][0]:.2f} x)"


def comparison(result: TableResult) -> tuple[str, list[str], list[list[str]]]:
    """Caption, header and rows of one table's comparison, for the page and the terminal."""
    n, d = result.table.rows.shape
    scores = "within-cluster sum of squares, columns scaled to [-1, 1] (multiple of non-private)"
    caption = f"{result.table.name}, {n:,} x {d}, K = {result.table.n_clusters}: {scores}"
    rows = [[name, *(_cell(score, result) for score in scores)] for name, scores in result.scores.items()]
    return caption, ["method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], rows


def _section(result: TableResult, pictures: Mapping[str, tuple[str, bytes]]) -> Markup:
    note = (
        f"{COMPARISON_NOTE} Private figures are means of {N_FITS} fits, {NON_PRIVATE} is the best of ten starts; the "
        f"release scores {_cell(result.released_score, result)}."
    )
    caption, header, rows = comparison(result)
    return section(
        result.table.name.lower(),
        result.table.name,
        None,
        element("p", privacy_sentence(result.release.transcript_.privacy), class_="callout"),
        element("p", note, class_="soft"),
        table(header, rows, caption),
        element("div", [picture(name, png, text) for name, (text, png) in pictures.items()], class_="pictures"),
    )


# ---- data sets made from a seed: no download, and nobody's records ----
def people(seed: int = 0, n_records: int = 6000) -> GeneratedTable:
    """Make ages and weekly hours of work of students, employees and pensioners: `people.csv` of the documentation."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
    middles = np.array([(24.0, 18.0), (43.0, 41.0), (69.0, 6.0)])
    low, high = (17.0, 1.0), (90.0, 99.0)
    rows = np.clip(rng.normal(middles[rng.integers(3, size=n_records)], 5.0), low, high)
    return GeneratedTable(name="People", columns=("age", "hours"), low=low, high=high, n_clusters=3, rows=rows.round(1))


def csv_of(table: GeneratedTable) -> str:
    """A table as a CSV file has it."""
    return "\n".join([",".join(table.columns), *(",".join(f"{v:.1f}" for v in row) for row in table.rows), ""])


def gaussian_blobs(seed: int = 0, n_records: int = 5000) -> GeneratedTable:
    """Make fifteen round clusters of equal size at random places that are far from each other, like the set S1."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    side, n_clusters, places = 1e6, 15, list[Array]()
    distance = 0.21 * side
    while len(places) < n_clusters:
        place = rng.uniform(0.12 * side, 0.88 * side, size=2)
        if all(np.linalg.norm(place - other) >= distance for other in places):
            places.append(place)
        else:
            distance *= 0.9995  # shrinking a little after each failure always ends, whatever the seed
    spread = rng.uniform(0.028, 0.045, size=n_clusters) * side
    cluster = np.arange(n_records) % n_clusters
    rows = rng.normal(np.array(places)[cluster], spread[cluster, None])
    rows, high = np.clip(rng.permutation(rows), 0.0, side), (side, side)
    return GeneratedTable(name="S1-like", columns=("x", "y"), low=(0.0, 0.0), high=high, n_clusters=15, rows=rows)


def city_check_ins(seed: int = 0, n_records: int = 107_000) -> GeneratedTable:
    """Make check-ins that crowd into cities of very unequal size on five parts of the world, like the set Gowalla.

    City sizes follow Zipf's law, and the spread around a city is heavy-tailed.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    regions, n_cities = np.array(_REGIONS), 60
    stretch = np.array([1.0, 0.55])  # degrees of latitude: regions are wider than they are high
    cities = regions[:, None, :2] + rng.normal(size=(len(regions), n_cities, 2)) * regions[:, 2, None, None] * stretch
    sizes = 1.0 / np.arange(1, n_cities + 1)
    region = rng.choice(len(regions), size=n_records, p=regions[:, 3] / regions[:, 3].sum())
    city = rng.choice(n_cities, size=n_records, p=sizes / sizes.sum())
    rows = cities[region, city] + 0.8 * rng.standard_t(df=2.0, size=(n_records, 2))
    low, high, columns = (-180.0, -90.0), (180.0, 90.0), ("longitude", "latitude")
    rows = np.clip(rows, low, high)
    return GeneratedTable(name="Gowalla-like", columns=columns, low=low, high=high, n_clusters=5, rows=rows)
