"""Private principal components as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from recoup._validate import choice, whole_number
from recoup.algorithms.base import Algorithm
from recoup.algorithms.components import CovariancePCA, PowerPCA, check_width, plan_components
from recoup.algorithms.registry import choices
from recoup.domain import Domain
from recoup.errors import Argument, DataError, ParameterError
from recoup.estimators.base import AnyLedger, AnyPerPerson, Noise, OrAuto, PrivateEstimator
from recoup.estimators.lasting import Summary, by_column
from recoup.maxent.sizes import WeightedPoints
from recoup.privacy.price import as_fraction
from recoup.queries.base import Array
from recoup.transcript.context import Context


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator, BaseEstimator):  # type: ignore[misc]
    """Differentially private principal components of columns scaled by their bounds.

    Every column is scaled by its public bounds to [-1, 1], so that the noise is the same in all columns. Components and
    variances are those of the scaled columns. scikit-learn's PCA works in the user's units; the two agree, up to noise
    and one common factor of the variances, when all bounds have the same width. `mean_` and `inverse_transform` are in
    the user's units.

    Args:
        n_components: p, at most the number of columns.
        domain: "auto" and "box" do not distort the data; "l1" and "l2" project records that lie outside the ball, in
            `fit` and `transform`, and make the noise smaller; or a `Domain`.
        algorithm: "covariance", all second moments in one round; "power", a noisy power iteration; "auto" as
            `recoup.algorithms.components.plan_components` says: the covariance up to 64 columns, above that the less
            noisy of the two. A single round leaves nothing to reconcile, so postprocess="auto" is "none" for the
            covariance.
        n_rounds: "auto", or a number of rounds for "power"; "auto" is 6.

    Attributes:
        components_: (n_components, d), orthonormal, for scaled columns; the largest entry of each is positive.
        explained_variance_: (n_components,), of scaled columns; not negative, and because of noise not always
            descending.
        explained_variance_ratio_: its share of the variance of all scaled columns.
        mean_: (d,), in the user's units, inside the bounds.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(5000, 1)) * [1.0, -1.0, 0.0] + 0.1 * rng.normal(size=(5000, 3))
    >>> model = PrivatePCA(n_components=1, epsilon=5.0, bounds=(-4, 4), random_state=0, noise="simulated").fit(x)
    >>> np.abs(model.components_).round(1)
    array([[0.7, 0.7, 0. ]])
    """

    _learnt: ClassVar = {
        "mean_": ("d",),
        "components_": ("k", "d"),
        "explained_variance_": ("k",),
        "explained_variance_ratio_": ("k",),
    }

    def __init__(
        self,
        n_components: int = 2,
        epsilon: Any = None,
        bounds: Any = None,
        *,
        delta: Any = 0.0,
        domain: Any = "auto",
        n_records: OrAuto = "auto",
        records_per_person: int = 1,
        person: str | None = None,
        per_person: AnyPerPerson = None,
        algorithm: str = "auto",
        n_rounds: OrAuto = "auto",
        postprocess: str = "auto",
        ledger: AnyLedger = None,
        csv_dialect: str = "rfc4180",
        random_state: Any = None,
        noise: Noise = "secure",
    ) -> None:
        self._store(locals())

    def transform(self, X: Any) -> Array:
        """Coordinates along the components, columns scaled to [-1, 1]; NaN where a value is missing. Local use only."""
        return np.asarray((self._unit(X) - self._domain.to_unit(self.mean_)) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Array:
        """Records in the user's units, inside the bounds, that have these coordinates along the components."""
        check_is_fitted(self)
        coordinates = np.asarray(X, dtype=np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != len(self.components_):
            raise DataError(f"give coordinates of shape (n, {len(self.components_)}), one for each component.")
        return self._domain.from_unit(coordinates @ self.components_ + self._domain.to_unit(self.mean_))

    def _infers_by_itself(self, algorithm: Algorithm) -> bool:
        return isinstance(algorithm, PowerPCA)

    def _keep(self, answer: Array, algorithm: Algorithm) -> None:
        assert isinstance(algorithm, CovariancePCA | PowerPCA)
        self.mean_, self.components_ = answer[0], answer[1:]
        transcript, inferred = self.transcript_, self.inferred_
        data = None if inferred is None else WeightedPoints(self._domain.to_unit(inferred.points), inferred.weights)
        along = algorithm.explained(transcript.context, transcript.rounds, self.components_, data)
        self.explained_variance_, self.explained_variance_ratio_ = along
        self._n_features_out = len(self.components_)

    @classmethod
    def _reads(cls, algorithm: Algorithm) -> bool:
        return isinstance(algorithm, CovariancePCA | PowerPCA)

    def _summary(self, names: list[str]) -> Summary:
        variance = {"variance": self.explained_variance_, "share": self.explained_variance_ratio_}
        return Summary("component", range(len(self.components_)), variance | by_column(names, self.components_))

    def _algorithm(self, records: Domain) -> CovariancePCA | PowerPCA:
        choice(self.algorithm, "algorithm", ("auto", *choices("components")))
        n_rounds = 6 if self.n_rounds == "auto" else whole_number(self.n_rounds, "n_rounds")
        if self.algorithm == "covariance" and self.n_rounds != "auto":
            raise ParameterError("the covariance is asked for in one round: leave out ", Argument("n_rounds"), ".")
        chosen = self.algorithm
        if chosen == "auto":
            mechanism: Any = "gaussian" if as_fraction(self.delta, "delta", allow_zero=True) else "laplace"
            terms = Context(domain=records, epsilon=self.epsilon, delta=self.delta, mechanism=mechanism)
            planned = plan_components(terms, n_components=self.n_components, n_rounds=n_rounds).algorithm
            chosen = planned if self.n_rounds == "auto" else "power"
        check_width(whole_number(self.n_components, "n_components"), records)
        if chosen == "covariance":
            return CovariancePCA(n_components=self.n_components)
        return PowerPCA(n_components=self.n_components, n_rounds=n_rounds)
