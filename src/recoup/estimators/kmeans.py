"""Private k-means as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from recoup._random import seed_for
from recoup._validate import choice, whole_number
from recoup.algorithms.base import Algorithm
from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
from recoup.algorithms.kmeans.base import in_order
from recoup.algorithms.kmeans.grid import GridKMeans
from recoup.algorithms.kmeans.hybrid import HybridKMeans
from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.curator.rivals.base import release_model
from recoup.curator.rivals.registry import RIVALS, rival_of
from recoup.driver import release
from recoup.errors import ParameterError
from recoup.estimators.base import PrivateEstimator
from recoup.inference.doubt import doubtful
from recoup.inference.infer import METHODS, Method, infer
from recoup.inference.intervals import Intervals, intervals
from recoup.inference.judge import judge, warn_of
from recoup.inference.refit import refit
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery

# Algorithms that plan their own rounds and are read by maximum entropy only.
# "auto" chooses DP-KMEANS for these.
_OF_LLOYD = ("mcmc", "consistency")
_PLANNED: dict[str, Callable[..., Algorithm]] = {"adaptive": AdaptiveKMeans, "grid": GridKMeans, "hybrid": HybridKMeans}


class PrivateKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, PrivateEstimator):  # type: ignore[misc]
    """Differentially private k-means.

    Args:
        n_clusters: K.
        epsilon: required: the privacy budget of one fit, read as the decimal that is typed.
        bounds: required and public: `(low, high)`, each a number or one number a column, or `{column: (low, high)}`,
            which also selects the columns. Never computed from the data.
        delta: 0 for pure epsilon and Laplace noise; above 0, Gaussian noise.
        domain: "auto" and "box" do not distort the data; "l1", the paper's unit ball, and "l2" project records that lie
            outside the ball, in `fit` as in `predict`, `transform` and `score`; or a `Domain`.
        n_records: a public guess of the number of records, or "auto".
        records_per_person: how many records one person may hold; declared, not enforced.
        algorithm: "auto"; "adaptive", which chooses each query from everything answered so far; "lloyd", the paper's
            Algorithm 1; "grid", noisy counts on one regular grid (EUGkM); "hybrid", a grid and one round of "lloyd"
            where that is predicted to help; or "gupt" (sample and aggregate) and "privgene" (a genetic algorithm),
            which spend pure epsilon and release centres alone: no transcript, nothing to infer from. "auto" is
            "adaptive", unless rounds are asked for, or "mcmc" or "consistency", which were made for DP-KMEANS.
        n_rounds: "auto", or a number of rounds for "lloyd" (the paper uses 5) or "privgene".
        postprocess: "auto" and "maxent" infer the maximum-entropy data set from all rounds and refit on it without
            noise; "mcmc" is the paper's sampler; "consistency" ("lloyd" only) makes the rounds agree; "none" keeps the
            algorithm's own answer: the last iterate of "lloyd", weighted k-means on the cells of "grid".
        ledger: a `Ledger` or its path, charged before every answer. Without one nothing counts the fit.
        csv_dialect: how a CSV file was written: "rfc4180", the default, quotes text, which may then hold line breaks;
            with "lines" each line is a record, and the unit of the promise. Never guessed from the file.
        random_state: harmless randomness only (initial centres, inference, refit). With simulated noise it draws the
            noise too. Without one, the transcript is read with the seed that the commands use.
        noise: "secure" (a cryptographic generator that the system seeds) or "simulated", which is NOT PRIVATE.

    Attributes:
        cluster_centers_: (n_clusters, d), in the user's units, inside the bounds, in the order of their first column.
        transcript_: everything that was released; none for "gupt" and "privgene", which release the centres alone.
        inferred_: the inferred data set, or none.
        verdict_: whether the result can be trusted and how many records it rests on, by the transcript alone: good, or
            doubtful with the columns, clusters and reasons, which `fit` warns of (`recoup.errors.DoubtfulResult`); none
            for "gupt" and "privgene".
        doubtful_: the clusters that may be nothing but noise, as rows of `cluster_centers_`.
        privacy_: the privacy statement, and whether a ledger counts it.
        n_features_in_: the number of columns.

    Guarantees: every learnt attribute is a function of the transcript, so publishing it costs no more than the fit.
    There are no `labels_` and no `inertia_`: those are exact functions of the records. `predict`, `transform` and
    `score` look at the records that they are given and add no noise: what they return is for local use only. A record
    with a missing or non-finite value contributes nothing to the fit, and nothing mentions it.

    >>> x = np.random.default_rng(0).normal([[0.3, 0.7]], 0.1, size=(2000, 2))
    >>> model = PrivateKMeans(n_clusters=2, epsilon=1.0, bounds=(0, 1), random_state=0).fit(x)
    >>> model.cluster_centers_.shape, model.privacy_["epsilon"]
    ((2, 2), 1.0)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        epsilon: Any = None,
        bounds: Any = None,
        *,
        delta: Any = 0.0,
        domain: Any = "auto",
        n_records: int | Literal["auto"] = "auto",
        records_per_person: int = 1,
        algorithm: str = "auto",
        n_rounds: int | Literal["auto"] = "auto",
        postprocess: str = "auto",
        ledger: Ledger | str | os.PathLike[str] | None = None,
        csv_dialect: str = "rfc4180",
        random_state: Any = None,
        noise: Literal["secure", "simulated"] = "secure",
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.bounds = bounds
        self.delta = delta
        self.domain = domain
        self.n_records = n_records
        self.records_per_person = records_per_person
        self.algorithm = algorithm
        self.n_rounds = n_rounds
        self.postprocess = postprocess
        self.ledger = ledger
        self.csv_dialect = csv_dialect
        self.random_state = random_state
        self.noise = noise

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        transcript_path: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_round: Callable[[int], None] | None = None,
    ) -> Self:
        """Cluster records privately.

        Args:
            X: an array, a data frame, an Arrow table or stream, a Spark DataFrame, or a path to Parquet or CSV.
            y: ignored.
            transcript_path: where to save the transcript after every round, so that nothing paid for is lost.
            resume: continue the transcript at that path; only what is missing is paid for.
            on_round: called with the number of finished rounds.

        Returns:
            The fitted estimator.
        """
        terms = self._terms()
        if self.algorithm in RIVALS:
            return self._fit_rival(X, terms, keeps_transcript=transcript_path is not None or resume, on_round=on_round)
        algorithm = self._algorithm()
        choice(self.postprocess, "postprocess", ("auto", "none", *METHODS))
        domain, source = self._source(X)
        transcript = release(
            algorithm,
            source,
            domain=domain,
            **terms,
            path=transcript_path,
            resume=resume,
            on_round=on_round,
        )
        self._set_domain(domain)
        self.transcript_ = transcript
        # Each from this seed anew, as the commands and the page read a transcript: all find the same centres.
        self._seed = seed_for(self.random_state)
        self.inferred_ = None
        if self.postprocess != "none":
            method = METHODS[0] if self.postprocess == "auto" else cast(Method, self.postprocess)
            self.inferred_ = infer(transcript, method, random_state=self._seed, warn=False)
        self.cluster_centers_ = refit(transcript, self.inferred_, random_state=self._seed)
        self.doubtful_ = doubtful(transcript, self.cluster_centers_, self.inferred_)
        self.verdict_ = judge(transcript, self.inferred_, self.cluster_centers_)
        warn_of(self.verdict_, stacklevel=3)
        self.privacy_ = self._statement(transcript.privacy)
        self._n_features_out = len(self.cluster_centers_)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each record, exactly and without noise: for local use only.

        A record with a missing or infinite value has no cluster: it gets -1.
        """
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

    def intervals(self, level: float = 0.9, *, simultaneous: bool = False) -> Intervals:
        """Intervals of the estimate for every centre and cluster size, from the transcript alone.

        They say how far k-means without noise may be from the fitted centres, and nothing about privacy. They are found
        by simulating the transcript again from the inferred data, which takes a few seconds; `docs/intervals.md` has
        their measured coverage.

        Args:
            level: the wanted coverage.
            simultaneous: whether all centres, and all sizes, are to lie inside at once, instead of each by itself.

        Returns:
            Lower and upper ends in the user's units, rows as in `cluster_centers_`.
        """
        check_is_fitted(self)
        if self.transcript_ is None:
            raise ParameterError(f"intervals need a transcript, and {self.algorithm} releases none.")
        if self.inferred_ is None:
            raise ParameterError('intervals need inferred data: fit with another postprocess than "none".')
        return intervals(
            self.transcript_,
            self.inferred_,
            self.cluster_centers_,
            level=level,
            simultaneous=simultaneous,
            random_state=self._seed,
        )

    def report(
        self, path: str | os.PathLike[str], *, level: float = 0.9, intervals: bool = True, title: str | None = None
    ) -> None:
        """Write one self-contained HTML page about the fit, from the transcript and the result alone.

        It says what was promised, shows the clusters and how sure they are, and how each round led there. Intervals and
        the curve for choosing K take a few seconds. Where only centres were released, the page is short.

        Args:
            path: where to; the file appears only when it is complete.
            level: the wanted coverage of the intervals.
            intervals: whether to compute them.
            title: of the page; it is public.
        """
        check_is_fitted(self)
        if self.transcript_ is not None:
            return super().report(path, level=level, intervals=intervals, title=title)
        from recoup.report.facts import gather_model
        from recoup.report.write import write_page

        facts = gather_model(self.privacy_, self.cluster_centers_, algorithm=self.algorithm, title=title)
        return write_page(path, facts)

    def _fit_rival(
        self, X: Any, terms: dict[str, Any], *, keeps_transcript: bool, on_round: Callable[[int], None] | None
    ) -> Self:
        n_rounds = None if self.n_rounds == "auto" else whole_number(self.n_rounds, "n_rounds")
        rival = rival_of(self.algorithm, self.n_clusters, n_rounds)
        if self.postprocess not in ("auto", "none"):
            raise ParameterError(
                f"{self.algorithm} releases centres alone, so postprocess={self.postprocess!r} has nothing to read: "
                'leave postprocess="auto".'
            )
        if keeps_transcript:
            raise ParameterError(f"{self.algorithm} releases no transcript: none can be saved or resumed.")
        domain, source = self._source(X)
        model = release_model(
            rival,
            source,
            domain=domain,
            **terms,
            on_release=on_round,
        )
        self._set_domain(domain)
        self.transcript_, self.inferred_ = None, None
        self.verdict_, self.doubtful_ = None, []
        self.cluster_centers_, self.privacy_ = in_order(model.centers), self._statement(model.privacy)
        self._n_features_out = len(self.cluster_centers_)
        return self

    def _algorithm(self) -> Algorithm:
        choice(self.algorithm, "algorithm", ("auto", *_PLANNED, "lloyd", *RIVALS))
        if self.algorithm in _PLANNED and self.n_rounds != "auto":
            raise ParameterError(f'the {self.algorithm} algorithm plans its own rounds: leave n_rounds="auto".')
        if self.algorithm in _PLANNED and self.postprocess == "consistency":
            raise ParameterError(
                f'postprocess={self.postprocess!r} reads DP-KMEANS only: use algorithm="lloyd" with it.'
            )
        if self.algorithm in _PLANNED:
            return _PLANNED[self.algorithm](n_clusters=self.n_clusters)
        if self.algorithm != "lloyd" and self.n_rounds == "auto" and self.postprocess not in _OF_LLOYD:
            return AdaptiveKMeans(n_clusters=self.n_clusters)
        n_rounds = 5 if self.n_rounds == "auto" else whole_number(self.n_rounds, "n_rounds")
        return KMeans(n_clusters=self.n_clusters, n_rounds=n_rounds)

    def _unit_centers(self) -> Array:
        return self._domain.to_unit(self.cluster_centers_)

    def _cells(self, unit: Array) -> NDArray[np.int64]:
        return VoronoiQuery(centers=self._unit_centers()).cells(unit)


__all__ = ["PrivateKMeans"]
