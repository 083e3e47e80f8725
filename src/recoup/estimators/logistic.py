"""Private logistic regression as a scikit-learn classifier."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from recoup.algorithms.logistic import LogisticRegression, trust_in_base
from recoup.curator.tables.open import open_table
from recoup.driver import release
from recoup.errors import DataError
from recoup.estimators.guarded import GuardedEstimator
from recoup.estimators.labels import codes_of, declared_classes, open_labelled
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array


class PrivateLogisticRegression(ClassifierMixin, GuardedEstimator):  # type: ignore[misc]
    """Differentially private binary logistic regression, by gradient descent on clipped gradients.

    Args:
        epsilon: required: the privacy budget of one fit, read as the decimal that is typed.
        bounds: required and public: `(low, high)` of the features, each a number or one number a column, or
            `{column: (low, high)}`, which also selects the features. Never computed from the data.
        classes: the two values of the label, the negative one first; public, and never learnt from the data. A record
            with any other label contributes nothing, and nothing mentions it.
        delta: 0 for pure epsilon and Laplace noise; above 0, Gaussian noise.
        n_records: a public guess of the number of records, or "auto".
        records_per_person: how many records one person may hold; declared, not enforced.
        n_rounds: steps of the descent.
        step_size: of the descent, in units in which the longest record has length 1. The inferred answer hardly depends
            on it, the last iterate does.
        l2: the weight of the penalty (l2 / 2) |w|^2 beside the mean loss, w for features scaled to [-1, 1] by their
            bounds; the intercept is free.
        postprocess: "maxent" infers the maximum-entropy data set from all rounds and refits on it without noise, as far
            from the last iterate as the rounds support; "mcmc" samples one; "none" keeps the last iterate; "auto" is
            "maxent" unless the released values say that there is too much noise to infer from: then it keeps the last
            iterate and warns.
        ledger: a `Ledger` or its path, charged before every answer. Without one nothing counts the fit.
        csv_dialect: how a CSV file was written: "rfc4180", the default, quotes text, which may then hold line breaks;
            with "lines" each line is a record, and the unit of the promise. Never guessed from the file.
        random_state: harmless randomness only. With simulated noise it draws the noise too. Without one, the transcript
            is read with the seed that the commands use.
        noise: "secure" (a cryptographic generator that the system seeds) or "simulated", which is NOT PRIVATE.

    Attributes:
        coef_: (1, d), for features in the user's units.
        intercept_: (1,).
        classes_: (2,), as declared.
        transcript_: everything that was released.
        inferred_: the inferred data set, or none. Its last column is the label, 0 or 1; in a data set inferred from
            this transcript together with others it may lie between, and counts as positive from 0.5 on.
        declined_: why "auto" did not infer, or none.
        verdict_: whether the result can be trusted and how many records it rests on, by the transcript alone; `fit`
            warns (`recoup.errors.DoubtfulResult`) where it is doubtful.
        privacy_: the privacy statement, and whether a ledger counts it.
        n_features_in_: the number of features.

    Guarantees: every learnt attribute is a function of the transcript, so publishing it costs no more than the fit.
    `predict`, `predict_proba`, `decision_function` and `score` look at the records that they are given and add no
    noise: what they return is for local use only. A value outside its bounds counts as the nearest one inside, in `fit`
    as in `predict`. A record with a missing or non-finite value contributes nothing to the fit, and nothing mentions
    it.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, size=(4000, 2))
    >>> y = x[:, 0] + rng.normal(size=4000) > 5
    >>> model = PrivateLogisticRegression(epsilon=1.0, bounds=(0, 10), classes=(False, True)).fit(x, y)
    >>> model.coef_.shape, model.predict([[9.0, 5.0]])
    ((1, 2), array([ True]))
    """

    def __init__(
        self,
        epsilon: Any = None,
        bounds: Any = None,
        *,
        classes: Any = (0, 1),
        delta: Any = 0.0,
        n_records: int | Literal["auto"] = "auto",
        records_per_person: int = 1,
        n_rounds: int = 10,
        step_size: float = 16.0,
        l2: float = 1e-3,
        postprocess: str = "auto",
        ledger: Ledger | str | os.PathLike[str] | None = None,
        csv_dialect: str = "rfc4180",
        random_state: Any = None,
        noise: Literal["secure", "simulated"] = "secure",
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.classes = classes
        self.delta = delta
        self.n_records = n_records
        self.records_per_person = records_per_person
        self.n_rounds = n_rounds
        self.step_size = step_size
        self.l2 = l2
        self.postprocess = postprocess
        self.ledger = ledger
        self.csv_dialect = csv_dialect
        self.random_state = random_state
        self.noise = noise

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        transcript_path: str | os.PathLike[str] | None = None,
        resume: bool = False,
        on_round: Callable[[int], None] | None = None,
    ) -> Self:
        """Fit the classifier privately.

        Args:
            X: the features: an array, a data frame, an Arrow table or stream, a Spark DataFrame, or a path to Parquet
                or CSV.
            y: the labels, one for each row of a table in memory; or the name of a numeric column of X, which is then no
                feature. Files and Spark DataFrames need a name.
            transcript_path: where to save the transcript after every round, so that nothing paid for is lost.
            resume: continue the transcript at that path; only what is missing is paid for.
            on_round: called with the number of finished rounds.

        Returns:
            The fitted estimator.
        """
        terms = self._terms()
        self._check_postprocess()
        classes = declared_classes(self.classes)
        labelled = open_labelled(X, y, self.bounds, classes, self.csv_dialect)
        algorithm = LogisticRegression(
            n_rounds=self.n_rounds,
            step_size=self.step_size,
            l2=self.l2,
            pseudo_records=trust_in_base(labelled.features.n_columns),
            classes=tuple(c.item() if isinstance(c, np.generic) else c for c in classes),
        )
        transcript = release(
            algorithm,
            labelled.source,
            domain=labelled.records,
            **terms,
            path=transcript_path,
            resume=resume,
            on_round=on_round,
        )
        self._set_domain(labelled.features)
        answer = self._answer(transcript, algorithm)
        self.coef_, self.intercept_ = answer[None, :-1], answer[-1:]
        self.classes_ = np.array(classes)
        return self

    def decision_function(self, X: Any) -> Array:
        """The log-odds of the positive class, (n,); NaN where a value is missing. For local use only."""
        check_is_fitted(self)
        rows = self._domain.from_unit(self._unit(X))
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict_proba(self, X: Any) -> Array:
        """The chances of the two classes, (n, 2); NaN where a value is missing. For local use only."""
        decision = self.decision_function(X)
        return np.column_stack([expit(-decision), expit(decision)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class of each record, exactly and without noise: for local use only.

        A record with a missing or infinite value is given the negative class; `predict_proba` tells it by NaN.
        """
        positive = self.decision_function(X) >= 0.0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right predictions among complete records with a declared label: for local use only.

        Args:
            X: a table of any kind that can be read here.
            y: the labels, or the name of a numeric column of X.
            sample_weight: how much each record counts.

        Returns:
            A number between 0 and 1; NaN if no record is complete.
        """
        check_is_fitted(self)
        classes, columns = (self.classes_[0], self.classes_[1]), self._domain.columns
        if isinstance(y, str):
            if columns is None:
                raise DataError("The features have no names, so y cannot be one either: give the labels themselves.")
            table = open_table(X, (*columns, y), csv_dialect=self.csv_dialect)
            rows = np.concatenate([np.asarray(block, dtype=np.float64) for block in table.blocks()])
            decision, codes = self.decision_function(rows[:, :-1]), codes_of(rows[:, -1], classes)
        else:
            decision, codes = self.decision_function(X), codes_of(y, classes)
        if len(decision) != len(codes):
            raise DataError("X and y have inconsistent numbers of samples: give one label for each row.")
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        used = ~np.isnan(decision) & ~np.isnan(codes)
        if not weights[used].sum() > 0.0:
            return float("nan")
        return float(np.average((decision >= 0.0)[used] == (codes == 1.0)[used], weights=weights[used]))


__all__ = ["PrivateLogisticRegression"]
