"""A private Gaussian mixture as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from recoup._random import sampler
from recoup._validate import whole_number
from recoup.algorithms.base import Algorithm
from recoup.algorithms.mixture import GaussianMixture, Mixture, half_widths, log_joint
from recoup.domain import Domain
from recoup.estimators.base import AnyLedger, AnyPerPerson, Noise, OrAuto, PrivateEstimator
from recoup.estimators.lasting import Summary, by_column
from recoup.mixed import Mixed
from recoup.queries.base import Array


class Sample(NamedTuple):
    """Records drawn from a fitted mixture, and the component that each came from."""

    records: Array
    components: NDArray[np.int64]


class PrivateGaussianMixture(DensityMixin, PrivateEstimator, BaseEstimator):  # type: ignore[misc]
    """A differentially private mixture of Gaussians, spherical in columns scaled by their bounds.

    Columns are scaled to [-1, 1] by their public bounds, and each component has one variance for all columns. In the
    user's units that is a diagonal covariance, which is wide where the bounds are wide.

    Args:
        n_components: K.
        domain: "auto" and "box" do not distort the data; "l1" and "l2" project records that lie outside the ball, in
            `fit` only; or a `Domain`.
        n_rounds: steps of private expectation maximisation; "auto" is 10.

    Attributes:
        weights_: (n_components,), of sum 1.
        means_: (n_components, d), in the user's units, inside the bounds.
        covariances_: (n_components, d), the variance of each column, in the user's units; for the columns of a
            `Schema`, on its scales.

    >>> x = np.random.default_rng(0).normal([0.3, 0.7], 0.05, size=(5000, 2)).reshape(-1, 1)
    >>> model = PrivateGaussianMixture(2, 1.0, (0, 1), delta=1e-6, random_state=0, noise="simulated").fit(x)
    >>> np.sort(model.means_.ravel()).round(1)
    array([0.3, 0.7])
    """

    _learnt: ClassVar = {"weights_": ("k",), "means_": ("k", "d"), "covariances_": ("k", "d")}

    def __init__(
        self,
        n_components: int = 1,
        epsilon: Any = None,
        bounds: Any = None,
        *,
        delta: Any = 0.0,
        domain: Any = "auto",
        n_records: OrAuto = "auto",
        records_per_person: int = 1,
        person: str | None = None,
        per_person: AnyPerPerson = None,
        n_rounds: OrAuto = "auto",
        postprocess: str = "auto",
        ledger: AnyLedger = None,
        csv_dialect: str = "rfc4180",
        random_state: Any = None,
        noise: Noise = "secure",
    ) -> None:
        self._store(locals())

    def score_samples(self, X: Any) -> Array:
        """The log-density at each record, in the user's units; NaN where a value is missing. For local use only.

        For the columns of a `Schema`, on its scales.
        """
        return np.asarray(logsumexp(self._log_joint(X), axis=1)) - float(np.log(half_widths(self._domain)).sum())

    def score(self, X: Any, y: object = None) -> float:
        """The mean log-density of the complete records: for local use only."""
        densities = self.score_samples(X)
        return float(np.mean(densities[~np.isnan(densities)]))

    def predict_proba(self, X: Any) -> Array:
        """Each component's responsibility for each record, (n, K); NaN where a value is missing. For local use only."""
        joint = self._log_joint(X)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The most likely component of each record, exactly; -1 where a value is missing. For local use only."""
        joint = self._log_joint(X)
        return np.where(np.isnan(joint).any(axis=1), -1, joint.argmax(axis=1))

    def fit_predict(self, X: Any, y: object = None, **kwargs: Any) -> NDArray[np.int64]:
        """Fit privately, then label the same records exactly: the labels are for local use only."""
        return self.fit(X, **kwargs).predict(X)

    def sample(self, n_samples: int = 1) -> Sample:
        """Draw records in the user's units, and the component of each, from the fitted mixture; it costs no privacy.

        Tails are not cut, so some records may lie outside the bounds, except with a `Schema`, whose scales end there.
        """
        check_is_fitted(self)
        n_samples = whole_number(n_samples, "n_samples")
        rng = sampler(self.random_state)
        components = rng.choice(len(self.weights_), size=n_samples, p=self.weights_ / self.weights_.sum())
        spread = np.sqrt(self.covariances_)[components]
        moves = spread * rng.standard_normal(spread.shape)
        if isinstance(self._domain, Mixed):
            near = self._domain.clip(self._domain.to_unit(self.means_)[components] + moves)
            return Sample(self._domain.from_unit(self._domain.records_like(near, rng)), components)
        return Sample(self.means_[components] + moves, components)

    def _algorithm(self, records: Domain) -> Algorithm:
        rounds = {} if self.n_rounds == "auto" else {"n_rounds": self.n_rounds}
        return GaussianMixture(n_components=self.n_components, **rounds)

    def _keep(self, answer: Array, algorithm: Algorithm) -> None:
        d = self._domain.n_columns
        self.weights_, self.means_, self.covariances_ = answer[:, 0], answer[:, 1 : 1 + d], answer[:, 1 + d :]

    @classmethod
    def _reads(cls, algorithm: Algorithm) -> bool:
        return isinstance(algorithm, GaussianMixture)

    def _summary(self, names: list[str]) -> Summary:
        spreads = by_column([f"{name} deviation" for name in names], np.sqrt(self.covariances_))
        columns = {"weight": self.weights_} | by_column(names, self.means_) | spreads
        return Summary("component", range(len(self.weights_)), columns)

    def _log_joint(self, X: Any) -> Array:
        """Of records scaled by the bounds, neither clamped nor projected: a density is that of the record itself."""
        check_is_fitted(self)
        half = half_widths(self._domain)
        if isinstance(self._domain, Mixed):
            means = self._domain.to_unit(self.means_)
            return log_joint(Mixture(self.weights_, means, self.covariances_.mean(axis=1)), self._unit(X))
        rows, middle = self._rows(X), np.array(self._domain.low) + half
        variances = (self.covariances_ / half**2).mean(axis=1)
        return log_joint(Mixture(self.weights_, (self.means_ - middle) / half, variances), (rows - middle) / half)
