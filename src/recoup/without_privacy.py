"""What privacy cost a clustering: a result beside k-means without privacy on the same records. NOT PRIVATE.

For whoever holds the records, and for nobody else: every number here is an exact function of them. Nothing is charged,
since nothing is released; so nothing of it may be published.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recoup import plots
from recoup._shown import figure
from recoup.algorithms.base import column_names
from recoup.algorithms.kmeans.lloyd import in_order
from recoup.curator.source import TableSource, source_on_terms
from recoup.domain import Array, Domain
from recoup.errors import DataError, ParameterError
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.queries.cells import VoronoiQuery
from recoup.transcript.transcript import Transcript

WARNING = "NOT PRIVATE: computed from the records themselves, for the curator's eyes; it must not be published"


class WithoutPrivacy(NamedTuple):
    """Both clusterings of the same records; losses are sums of squares of clipped records, columns scaled.

    Attributes:
        records: (n, d), in the unit domain.
        private_centers: (K, d), in the user's units.
        exact_centers: (K, d), of k-means without privacy.
        private_loss: of the private centres.
        exact_loss: of the others.
        adjusted_rand: how far both put the same records together: 1 where they agree, about 0 by chance.
    """

    records: Array
    private_centers: Array
    exact_centers: Array
    private_loss: float
    exact_loss: float
    adjusted_rand: float

    @property
    def ratio(self) -> float:
        """How many times as large the private loss is; infinite where the other one is zero."""
        return self.private_loss / self.exact_loss if self.exact_loss else float("inf")


def compare_with_exact(transcript: Transcript, X: object, centers: Array, *, seed: int = 0) -> WithoutPrivacy:
    """Cluster the records of a transcript without privacy and hold its centres against that.

    Args:
        transcript: of the private clustering: its terms say how the records are read.
        X: the same records, of any kind that `release` takes but a Spark DataFrame.
        centers: (K, d), the private centres in the user's units.
        seed: of k-means without privacy.

    Returns:
        Both clusterings, which are NOT PRIVATE.

    >>> from recoup import Box, KMeans, refit, release
    >>> x = np.random.default_rng(0).uniform(size=(500, 2))
    >>> transcript = release(KMeans(n_clusters=2), x, domain=Box([0, 0], [1, 1]), epsilon=50)
    >>> compare_with_exact(transcript, x, refit(transcript)).ratio > 0.99
    True
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    context = transcript.context
    if transcript.imported:
        raise ParameterError("the answers were made elsewhere, so it is not known how their records were read.")
    source = source_on_terms(X, context, context.csv_dialect or "rfc4180")
    if not isinstance(source, TableSource):
        raise ParameterError("a comparison reads the records themselves: give a file, or a table in memory.")
    blocks = [block[block[:, 0] != DROPPED] / GRID for block in source.records()]
    unit = np.concatenate([np.empty((0, context.domain.n_columns)), *blocks])
    if len(unit) < len(centers):
        raise DataError(f"{WARNING}: there are fewer records than clusters, so k-means cannot be run on them.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would tell of records, without a mark
        exact = KMeans(len(centers), n_init=10, random_state=seed).fit(unit)
    exact_centers = in_order(context.domain.from_unit(exact.cluster_centers_))
    labels = [_nearest(unit, context.domain.to_unit(found)) for found in (centers, exact_centers)]
    private, other = (loss_of(unit, context.domain.to_unit(found)) for found in (centers, exact_centers))
    return WithoutPrivacy(unit, centers, exact_centers, private, other, float(adjusted_rand_score(*labels)))


def _nearest(unit: Array, centers: Array) -> NDArray[np.int64]:
    return VoronoiQuery(centers=centers).cells(unit)


def loss_of(unit: Array, centers: Array) -> float:
    """The within-cluster sum of squares of records and centres in the unit domain."""
    return float(((unit - centers[_nearest(unit, centers)]) ** 2).sum())


def picture_of(compared: WithoutPrivacy, domain: Domain) -> Any:
    """A figure of the records and of both kinds of centres, in the two columns in which these differ most."""
    ax = plots.new_figure(6.4, 5.4)[1][0]
    spread = np.var(domain.to_unit(compared.exact_centers), axis=0)
    first, *second = (int(j) for j in np.sort(np.argsort(-spread, kind="stable")[:2]))
    pair = (first, second[0] if second else first)
    shown: dict[str, Any] = {"columns": column_names(domain), "pair": pair}
    upward = (0.0, 1.0) if second else (-1.0, 1.0)
    records = _on_scales(domain, domain.from_unit(compared.records))
    plots.plot_density(records, ax, pair=pair, extent=(0.0, 1.0, *upward))
    exact, private = (_on_scales(domain, found) for found in (compared.exact_centers, compared.private_centers))
    plots.plot_centers(exact, ax, kind="exact", label="k-means without privacy", **shown)
    plots.plot_centers(private, ax, kind="private", label="private", **shown)
    for axis, column in zip((ax.xaxis, ax.yaxis), pair if second else pair[:1], strict=False):
        # Places on the scale of the column, which may be a logarithm, are named by its values.
        axis.set_major_formatter(lambda place, _, j=column: figure(float(domain.off_scale([place], j)[0])))
    ax.set_title("NOT PRIVATE: shows records, must not be published", color=plots.RED, fontsize=11, fontweight="bold")
    return plots.legend_below(ax, 2).figure


def _on_scales(domain: Domain, rows: Array) -> Array:
    """Where rows in the user's units lie on the scale of each column, from 0 at its lower bound to 1 at its upper."""
    return np.column_stack([domain.on_scale(rows[:, j], j) for j in range(domain.n_columns)])
