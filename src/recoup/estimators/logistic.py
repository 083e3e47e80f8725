"""Private logistic regression as a scikit-learn classifier."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from recoup.algorithms.base import Algorithm
from recoup.algorithms.logistic import LogisticRegression, trust_in_base
from recoup.curator.tables.open import open_table
from recoup.errors import DataError
from recoup.estimators.base import Prepared, PrivateEstimator
from recoup.estimators.labels import check_lengths, codes_of, declared_classes, open_labelled
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array


class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Differentially private binary logistic regression, by gradient descent on clipped gradients.

    Args:
        classes: the two values of the label, the negative one first; public, and never learnt from the data. A record
            with any other label contributes nothing, and nothing mentions it.
        n_rounds: steps of the descent.
        step_size: of the descent, in units in which the longest record has length 1. The inferred answer hardly depends
            on it, the last iterate does.
        l2: the weight of the penalty (l2 / 2) |w|^2 beside the mean loss, w for features scaled to [-1, 1] by their
            bounds; the intercept is free.
        postprocess: "maxent" infers the maximum-entropy data set from all rounds and refits on it without noise, as far
            from the last iterate as the rounds support; "mcmc" samples one; "none" keeps the last iterate; "auto" is
            "maxent" unless the released values say that there is too much noise to infer from: then it keeps the last
            iterate and warns.

    Attributes:
        coef_: (1, d), for features in the user's units.
        intercept_: (1,).
        classes_: (2,), as declared. The last column of `inferred_` is the label, 0 or 1; in a data set inferred from
            this transcript together with others it may lie between, and counts as positive from 0.5 on.
        declined_: why "auto" did not infer, or none.

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

    classes: Any
    step_size: float
    l2: float

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
        self._store(locals())

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

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
        check_lengths(len(decision), len(codes))
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        used = ~np.isnan(decision) & ~np.isnan(codes)
        if not weights[used].sum() > 0.0:
            return float("nan")
        return float(np.average((decision >= 0.0)[used] == (codes == 1.0)[used], weights=weights[used]))

    def _prepare(self, X: Any, y: Any) -> Prepared:
        classes = declared_classes(self.classes)
        labelled = open_labelled(X, y, self.bounds, classes, self.csv_dialect)
        algorithm = LogisticRegression(
            n_rounds=self.n_rounds,
            step_size=self.step_size,
            l2=self.l2,
            pseudo_records=trust_in_base(labelled.features.n_columns),
            classes=tuple(c.item() if isinstance(c, np.generic) else c for c in classes),
        )
        return Prepared(algorithm, labelled.source, labelled.records, labelled.features)

    def _keep(self, answer: Array, algorithm: Algorithm) -> None:
        self.coef_, self.intercept_ = answer[None, :-1], answer[-1:]
        self.classes_ = np.array(declared_classes(self.classes))
