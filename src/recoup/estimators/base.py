"""What all estimators share: bounds become a domain and a table becomes records."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from recoup._validate import choice, whole_number
from recoup.curator.source import is_path, source_of
from recoup.curator.tables.open import Table, open_table
from recoup.domain import DOMAINS, Domain, declared_bounds, declared_width
from recoup.errors import BudgetError, DataError, ParameterError
from recoup.estimators.given_bounds import refuse_text
from recoup.inference.refit import refit
from recoup.privacy.statement import COUNTED, NOT_COUNTED, PrivacyStatement
from recoup.queries.base import Array

_POSTPROCESS = ("auto", "maxent", "mcmc", "none")


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Common ground of the estimators; not for use by itself.

    A subclass has the parameters `bounds` and `domain`, calls `_source` in `fit` and `_set_domain` once fitted, and
    sets `transcript_`, `inferred_`, and `_seed`, by which its answer was inferred and refitted.
    """

    bounds: Any
    domain: Any
    epsilon: Any
    delta: Any
    n_records: Any
    records_per_person: Any
    postprocess: str
    ledger: Any
    csv_dialect: str
    random_state: Any
    noise: Any
    transcript_: Any
    inferred_: Any
    verdict_: Any
    _seed: int

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: missing values are allowed, and results are random."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def report(
        self, path: str | os.PathLike[str], *, level: float = 0.9, intervals: bool = True, title: str | None = None
    ) -> None:
        """Write one self-contained HTML page about the fit, from the transcript and the result alone.

        It says what was promised, what was found, and how each round led there; of clusters also how sure they are,
        which takes a few seconds.

        Args:
            path: where to; the file appears only when it is complete.
            level: the wanted coverage of the intervals of clusters.
            intervals: whether to compute them.
            title: of the page; it is public.
        """
        from recoup.report.write import write_report

        check_is_fitted(self)
        transcript, inferred = self.transcript_, self.inferred_
        # What was fitted is what this seed gives.
        answer = refit(transcript, inferred, random_state=self._seed)
        asked = level if intervals else None
        write_report(path, transcript, answer, inferred, level=asked, title=title, seed=self._seed, exact=True)

    def _terms(self) -> dict[str, Any]:
        """The terms of a release that are parameters of every estimator."""
        if self.epsilon is None:
            raise BudgetError(
                "epsilon is missing, and has no default: how much privacy a fit may cost is yours to decide. Name it, "
                "such as epsilon=1; `recoup plan` says what accuracy to expect."
            )
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "ledger": self.ledger,
            "records_per_person": self.records_per_person,
            "n_records": None if self.n_records == "auto" else whole_number(self.n_records, "n_records"),
            "csv_dialect": self.csv_dialect,
            "random_state": self.random_state,
            "noise": self.noise,
        }

    def _statement(self, privacy: PrivacyStatement) -> PrivacyStatement:
        """What a release promises, and what counts it."""
        return replace(privacy, counted=NOT_COUNTED if self.ledger is None else COUNTED)

    def _check_postprocess(self) -> None:
        choice(self.postprocess, "postprocess", _POSTPROCESS)

    def _set_domain(self, domain: Domain) -> None:
        self._domain = domain
        self.n_features_in_ = domain.n_columns
        if domain.columns is not None:
            self.feature_names_in_ = np.array(domain.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _source(self, X: Any) -> tuple[Domain, Any]:
        """The domain, and the records as a source where the table had to be opened to find its columns."""
        if isinstance(self.domain, Domain):
            return self.domain, X
        kind = "box" if self.domain == "auto" else self.domain
        if not isinstance(kind, str) or kind not in DOMAINS:
            raise ParameterError(
                f'domain={self.domain!r}: choose "auto", {", ".join(DOMAINS)}, or give a Domain.', parameter="domain"
            )
        refuse_text(self.bounds)
        if self.bounds is None:
            declared_bounds(None)
        if isinstance(self.bounds, Mapping):
            low, high, columns = declared_bounds(self.bounds)
            return DOMAINS[kind](tuple(low), tuple(high), columns), X
        # Opened once: a stream can be read only once. A list declares no width, so it takes that of the bounds.
        width = declared_width(self.bounds) if isinstance(X, list | tuple) else None
        table = open_table(X, n_columns=width, csv_dialect=self.csv_dialect)
        low, high, _ = declared_bounds(self.bounds, table.n_columns)
        domain = DOMAINS[kind](tuple(low), tuple(high), table.columns)
        return domain, source_of(table, domain, keep=not is_path(X))

    def _table(self, X: Any) -> Table:
        check_is_fitted(self)
        domain = self._domain
        by_name = domain.columns is not None and not isinstance(X, np.ndarray | list | tuple)
        # A list declares no width: its rows are read by that of the domain.
        width = domain.n_columns if isinstance(X, list | tuple) else None
        columns = domain.columns if by_name else None
        table = open_table(X, columns, n_columns=width, csv_dialect=self.csv_dialect)
        if table.n_columns != domain.n_columns:
            raise DataError(
                f"X has {table.n_columns} features, but {type(self).__name__} is expecting {domain.n_columns} features "
                "as input."
            )
        return table

    def _rows(self, X: Any) -> Array:
        """The records as they are; one with a value that is missing or infinite is NaN throughout."""
        rows = np.concatenate([np.asarray(b, dtype=np.float64) for b in self._table(X).blocks()])
        return np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, np.nan)

    def _unit(self, X: Any) -> Array:
        """The records in the unit domain, exactly; NaN where a value is missing or infinite."""
        rows = self._rows(X)  # says so if nothing is fitted yet
        return self._domain.to_unit(rows)
