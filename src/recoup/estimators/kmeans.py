"""Private k-means as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from recoup._progress import OnProgress
from recoup.errors import ParameterError
from recoup.estimators.clustering import Clustering
from recoup.estimators.lasting import Summary, by_column
from recoup.inference.intervals import Intervals, intervals
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery


class PrivateKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Clustering, BaseEstimator):  # type: ignore[misc]
    """Differentially private k-means.

    There are no `labels_` and no `inertia_`: those are exact functions of the records.

    Args:
        n_clusters: K.
        domain: "auto" and "box" do not distort the data; "l1", the paper's unit ball, and "l2" project records that lie
            outside the ball, in `fit`, `predict`, `transform` and `score`; or a `Domain`.
        algorithm: "auto"; "adaptive", which chooses each query from everything answered so far; "lloyd", the paper's
            Algorithm 1; "grid", noisy counts on one regular grid (EUGkM); "hybrid", a grid and one round of "lloyd"
            where that is predicted to help; or "gupt" (sample and aggregate) and "privgene" (a genetic algorithm),
            which spend pure epsilon and release only centres: there is no transcript to infer from. "auto" is
            "adaptive", unless you give `n_rounds` or a `postprocess` that was made for "lloyd": the paper's sampler
            "mcmc", or "consistency", which makes its rounds agree.
        n_rounds: "auto", or a number of rounds for "lloyd" (the paper uses 5) or "privgene".

    Attributes:
        cluster_centers_: (n_clusters, d), in the user's units, inside the bounds, in the order of their first column;
            for a category, the share of each value, so there may be more columns than declared.
        doubtful_: the clusters that may be only noise, as rows of `cluster_centers_`.

    >>> x = np.random.default_rng(0).normal([[0.3, 0.7]], 0.1, size=(2000, 2))
    >>> model = PrivateKMeans(n_clusters=2, epsilon=1.0, bounds=(0, 1), random_state=0).fit(x)
    >>> model.cluster_centers_.shape, model.privacy_["epsilon"]
    ((2, 2), 1.0)
    """

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each record, exactly; -1 where a value is missing or infinite. For local use only."""
        unit = self._unit(X)
        return np.where(np.isnan(unit).any(axis=1), -1, self._cells(unit))

    def fit_predict(self, X: Any, y: object = None, **kwargs: Any) -> NDArray[np.int64]:
        """Fit privately, then assign the same records exactly: the labels are for local use only."""
        return self.fit(X, **kwargs).predict(X)

    def transform(self, X: Any) -> Array:
        """The distance of each record to each centre, columns scaled to [-1, 1] by their bounds: for local use only."""
        unit, centers = self._unit(X), self._unit_centers()
        return np.stack([np.sqrt(((unit - center) ** 2).sum(axis=1)) for center in centers], axis=1)

    def score(self, X: Any, y: object = None) -> float:
        """Minus the within-cluster sum of squares, columns scaled to [-1, 1] by their bounds: for local use only."""
        unit = self._unit(X)
        unit = unit[~np.isnan(unit).any(axis=1)]
        return -float(((unit - self._unit_centers()[self._cells(unit)]) ** 2).sum())

    def intervals(
        self, level: float = 0.9, *, simultaneous: bool = False, on_progress: OnProgress | None = None
    ) -> Intervals:
        """How far k-means without noise may be from every fitted centre and cluster size, from the transcript alone.

        Args:
            level: the wanted coverage; `docs/intervals.md` has the measured one.
            simultaneous: whether all intervals of centres, and all of sizes, must hold at once, instead of each by
                itself.
            on_progress: called with (done, total), the draws, as the work goes on.

        Returns:
            Lower and upper ends in the user's units, rows as in `cluster_centers_`, after a few seconds of simulation.
        """
        check_is_fitted(self)
        if self.transcript_ is None:
            raise ParameterError(f"intervals need a transcript, and {self.algorithm} releases none.")
        if self.inferred_ is None:
            raise ParameterError('intervals need inferred data: fit with another postprocess than "none".')
        given: dict[str, Any] = {"level": level, "simultaneous": simultaneous, "random_state": self._seed}
        return intervals(self.transcript_, self.inferred_, self.cluster_centers_, **given, on_progress=on_progress)

    def _summary(self, names: list[str]) -> Summary:
        k, doubtful = len(self.cluster_centers_), set(self.doubtful_)
        columns: dict[str, Any] = {}
        if self.transcript_ is not None:
            from recoup.report.sections.answer import result_of

            given = self.transcript_, self.cluster_centers_, self.inferred_
            sizes = result_of(*given, level=None, seed=self._seed).sizes
            columns = {
                "size": sizes,
                "share": sizes / max(sizes.sum(), 1e-9),
                "doubtful": [i in doubtful for i in range(k)],
            }
        return Summary("cluster", range(k), columns | by_column(names, self.cluster_centers_))

    def _unit_centers(self) -> Array:
        return self._domain.to_unit(self.cluster_centers_)

    def _cells(self, unit: Array) -> NDArray[np.int64]:
        return VoronoiQuery(centers=self._unit_centers()).cells(unit)
