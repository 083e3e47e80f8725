"""What all estimators share: bounds become a domain, a table becomes records, a transcript becomes an answer."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from recoup._progress import OnProgress
from recoup._random import seed_for
from recoup._threads import one_blas_thread
from recoup._validate import choice, whole_number
from recoup.algorithms.base import Algorithm
from recoup.curator.source import check_named, is_stored, source_of
from recoup.curator.tables.open import cells_of, open_table
from recoup.curator.tables.table import OpenTable
from recoup.domain import DOMAINS, Box, Domain, declared_bounds, declared_width
from recoup.driver import check_on_round, release
from recoup.errors import (
    Argument,
    BoundsError,
    BudgetError,
    CostlyTerms,
    DataError,
    ParameterError,
    PostprocessDeclined,
)
from recoup.estimators.lasting import LastingModel, check_is_fitted, verdict_of
from recoup.found_bounds import Fit, find_within, is_private, stand_ins
from recoup.inference.infer import METHODS, infer
from recoup.inference.inferred import InferredDataset, refit
from recoup.inference.judge import warn_of
from recoup.mixed import Mixed
from recoup.privacy.ledger import Ledger
from recoup.privacy.statement import PerPerson, PrivacyStatement
from recoup.queries.base import Array
from recoup.remote.table import RemoteTable
from recoup.schema import Category, Number, Schema
from recoup.transcript.transcript import Transcript

_LARGEST_GAP = 1.0  # nats per noisy value: what was found is then nowhere near the measure that was looked for

OrAuto = int | Literal["auto"]
AnyLedger = Ledger | str | os.PathLike[str] | None
Noise = Literal["secure", "simulated"]
AnyPerPerson = PerPerson | None

# What `help` and the reference say about the parameters and attributes of every estimator, after its own.
_PARAMETERS = """
        epsilon: required: the privacy budget of one fit, read as the decimal that you type.
        bounds: required and public: `(low, high)` of the features, each a number or one number per column; a list of
            pairs `[(low, high), ...]`, one per column; `{column: (low, high)}`, which also selects the columns; or a
            `Schema` (or `{column: Number or Category}`), where columns are not only numbers. Never computed from the
            data, except with "private", for all columns of numbers or in place of one pair: a part of epsilon, a tenth
            to three tenths depending on the number of columns, then finds them as `find_bounds` does.
        delta: 0 for pure epsilon; above 0 allows Gaussian noise, which k-means uses in more than three columns.
        n_records: a public guess of the number of records (of persons, where each has one row), or "auto".
        records_per_person: how many records one person may have; declared, and enforced only with per_person="sample".
        person: the column that identifies persons: the promise then covers all records of a person together, and a
            record without an identifier contributes nothing. Columns must be declared by name.
        per_person: "mean" (the default with `person`) makes one row of a person's records; "sample" keeps
            `records_per_person` of them, and the noise is that many times as large.
        postprocess: "maxent" infers the maximum-entropy data set from all rounds and refits on it without noise; "mcmc"
            samples one; "none" keeps the algorithm's own answer, such as the last iterate. "auto" is "maxent", or
            "none" with a warning where the released values are too noisy to infer from (never for clusters).
        ledger: a `Ledger` or its path, charged before every answer. Without one, nothing counts the fit.
        csv_dialect: how a CSV file was written: "rfc4180", the default, quotes text, which may then contain line
            breaks; with "lines" each line is a record, and the unit of the promise. Never guessed from the file.
        random_state: seeds only choices that need no protection (first states, inference, refit), and the noise if it
            is simulated. Without one, the transcript is read with the seed that the commands use.
        noise: "secure" (a cryptographic generator that the system seeds) or "simulated", which is NOT PRIVATE."""
_ATTRIBUTES = """
        transcript_: everything that was released; None where an algorithm releases only its answer.
        inferred_: the inferred data set, or none.
        verdict_: whether the result can be trusted and how many records it rests on, from the transcript alone: good,
            or doubtful with the reasons, of which `fit` warns (`recoup.errors.DoubtfulResult`); None without a
            transcript.
        declined_: why "auto" did not infer, or None; for clusters see `doubtful_` instead.
        privacy_: the privacy statement, and whether a ledger counts it.
        bounds_: where bounds are "private", those that were found, with the transcript that found them.
        n_features_in_: the number of declared columns, which a table must have; `feature_names_in_` their names. Learnt
            attributes have one column per number, and one per value of a category with three or more values."""
_GUARANTEES = """

    Guarantees: every learnt attribute is a function of the transcript, so publishing it costs no more than the fit.
    Methods that take records (`predict`, `transform`, `score` and similar ones) answer exactly and without noise: they
    are for local use only. A record with a missing or non-finite value contributes nothing to the fit, and no message
    says so."""


class Opened(NamedTuple):
    """The records of a fit, and their domain, which may hold more than the features: a label."""

    source: Any
    records: Domain
    features: Domain


class PrivateEstimator(LastingModel):
    """Common ground of the estimators; not for use by itself.

    A subclass says what to run on the domain of its records in `_algorithm(records)`, and sets its learnt attributes
    from an answer in the user's units in `_keep(answer, algorithm)`.
    """

    def __init_subclass__(cls, **given: Any) -> None:
        """Complete the documentation of a subclass."""
        super().__init_subclass__(**given)
        own, heading, rest = (cls.__doc__ or "").partition("\n\n    Attributes:")
        attributes, doctest, rest = rest.partition("\n\n    >>>")
        if heading:
            cls.__doc__ = own + _PARAMETERS + heading + attributes + _ATTRIBUTES + _GUARANTEES + doctest + rest

    def _store(self, given: Mapping[str, Any]) -> None:
        """Keep every parameter of `__init__` under its own name and unread, as scikit-learn asks for."""
        for name in given.keys() - {"self"}:
            setattr(self, name, given[name])

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: missing values are allowed, and results are random."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        transcript_path: str | os.PathLike[str] | None = None,
        resume: bool = False,
        purpose: str = "",
        on_round: Callable[[int], None] | None = None,
    ) -> Self:
        """Fit privately.

        Args:
            X: an array, a data frame, an Arrow table or stream, a Spark DataFrame, a path to Parquet or CSV, or a table
                that somebody else serves, by `recoup.connect`.
            y: for a classifier, the labels, one per row of a table in memory; or the name of a numeric column of X,
                which is then not a feature. Files and Spark DataFrames need a name. Ignored by other estimators.
            transcript_path: where to save the transcript after every round, so that nothing that was paid for is lost.
            resume: continue the transcript at that path; only what is missing is paid for.
            purpose: what the fit is for, in one line of public text that the ledger keeps.
            on_round: called with the number of finished rounds.

        Returns:
            The fitted estimator.
        """
        if is_private(self.bounds):
            if isinstance(X, RemoteTable):
                raise BoundsError(f"{X.curator} has bounds of its own: leave them out.")
            return self._fit_found(X, y, transcript_path, resume, purpose, on_round)
        with one_blas_thread():
            released = self._release(X, y, path=transcript_path, resume=resume, purpose=purpose, on_round=on_round)
            self.__dict__.pop("bounds_", None)  # of an earlier fit
            if released is not None:
                self._read(*released)
        return self

    def _fit_found(
        self, X: Any, y: Any, path: str | os.PathLike[str] | None, resume: bool, purpose: str, on_round: Any
    ) -> Self:
        """Find bounds with a part of the budget, then fit a copy with the rest, and take over what it learnt."""
        from sklearn.base import clone

        # Whatever is wrong is refused before anything is spent.
        check_on_round(on_round)
        domain = getattr(self, "domain", None)
        if isinstance(domain, Domain):
            has_its_own = f" is a {type(domain).__name__}, which has bounds of its own: leave it out, or "
            raise ParameterError(Argument("domain"), has_its_own, Argument("bounds"), ".", parameter="domain")
        copy = clone(self).set_params(bounds=stand_ins(self.bounds, X))
        part = find_within(self.bounds, X, copy._prepared(X, y, path=path, resume=resume), path, resume, purpose)
        copy.set_params(bounds=part.bounds, epsilon=part.epsilon, delta=part.delta)
        resume = resume and path is not None and os.path.exists(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CostlyTerms)  # which came while nothing was spent
            copy.fit(X, y, transcript_path=path, resume=resume, purpose=purpose, on_round=on_round)
        given = self.get_params(deep=False)
        for name in vars(copy).keys() - given.keys():
            setattr(self, name, getattr(copy, name))
        both = PrivacyStatement.together([copy.privacy_, part.found.privacy])
        # Whatever pays for one of them pays for the other.
        self.bounds_, self.privacy_ = part.found, replace(both, counted=copy.privacy_.counted)
        return self

    def _release(self, X: Any, y: Any = None, **saved: Any) -> tuple[Transcript, Algorithm] | None:
        """Spend the budget; none where the answer alone was released, so that there is nothing left to read."""
        fit = self._prepared(X, y, **saved)
        transcript = release(fit.algorithm, fit.source, domain=fit.records, **fit.terms, **saved)
        self._set_domain(fit.features)
        return transcript, fit.algorithm

    def _prepared(self, X: Any, y: Any = None, **saved: Any) -> Fit:
        """What a release takes, after everything was refused that no fit can be made with."""
        terms = self._terms()
        choice(self.postprocess, "postprocess", self._postprocesses())
        opened = self._open(X, y)
        algorithm = self._algorithm(opened.records)
        if self.postprocess == "mcmc" and not opened.records.has_grid:
            moves = " moves records freely, and those of this schema cannot be: use "
            raise ParameterError(Argument("postprocess", '"mcmc"'), moves, Argument("postprocess", '"maxent"'), ".")
        return Fit(*opened, algorithm, terms)

    def _postprocesses(self) -> tuple[str, ...]:
        """What may be done with the rounds."""
        return ("auto", *(method for method in METHODS if method != "consistency"), "none")

    def _infers_by_itself(self, algorithm: Algorithm) -> bool:
        """Whether postprocess="auto" infers at all."""
        return True

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        level: float = 0.9,
        intervals: bool = True,
        title: str | None = None,
        names: Mapping[int, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Write one self-contained HTML page about the fit, from the transcript and the result alone.

        Args:
            path: where to; the file appears only when it is complete.
            level: the wanted coverage of the intervals of clusters.
            intervals: whether to compute them, which takes a few seconds.
            title: of the page; it is public.
            names: of clusters, by their numbers; they are public too.
            on_progress: called with (done, total), in percent, as the work goes on.
        """
        from recoup.report.write import model_content, write_page, write_report

        check_is_fitted(self)
        bounds = getattr(self, "bounds_", None)
        told: dict[str, Any] = {"title": title, "names": names, "found": None if bounds is None else bounds.privacy}
        if self.transcript_ is None:  # of a rival, which released centres alone
            content = model_content(self.privacy_, self.cluster_centers_, algorithm=self.algorithm, **told)
            return write_page(path, content)
        # What was fitted is what this seed gives.
        answer, seed = refit(self.transcript_, self.inferred_, random_state=self._seed), self._seed
        told |= {"level": level if intervals else None, "on_progress": on_progress}
        write_report(path, self.transcript_, answer, self.inferred_, seed=seed, exact=True, **told)

    # ---- from parameters to a release ----

    def _terms(self) -> dict[str, Any]:
        """The terms of a release that are parameters of every estimator."""
        if self.epsilon is None:
            raise BudgetError(
                "epsilon is missing, and has no default: how much privacy a fit may cost is yours to decide. Name it, "
                "such as epsilon=1; `recoup plan` says what accuracy to expect."
            )
        same = ["epsilon", "delta", "ledger", "records_per_person", "person", "per_person"]
        same += ["csv_dialect", "random_state", "noise"]
        n_records = None if self.n_records == "auto" else whole_number(self.n_records, "n_records")
        return {name: getattr(self, name) for name in same} | {"n_records": n_records}

    def _open(self, X: Any, y: Any = None) -> Opened:
        """The records, as a source where the table had to be opened to find its columns."""
        if isinstance(X, RemoteTable):
            self._check_served(X, X.domain)
            return Opened(X, X.domain, X.domain)
        if isinstance(self.domain, Domain):
            return Opened(X, self.domain, self.domain)
        kind = "box" if self.domain == "auto" else self.domain
        if not isinstance(kind, str) or kind not in DOMAINS:
            raise ParameterError(
                f'domain={self.domain!r}: choose "auto", {", ".join(DOMAINS)}, or give a Domain.', parameter="domain"
            )
        check_declared(self.bounds)
        if (schema := declared_schema(self.bounds)) is not None:
            if kind != "box":
                raise ParameterError(
                    f'domain={self.domain!r}: a schema makes a domain of its own, so leave it at "auto".',
                    parameter="domain",
                )
            mixed = Mixed(schema=schema)
            return Opened(X, mixed, mixed)
        if isinstance(self.bounds, Mapping):
            low, high, columns = declared_bounds(self.bounds)
            domain = DOMAINS[kind](tuple(low), tuple(high), columns)
            return Opened(X, domain, domain)
        check_named(self.person, None)
        # Opened once: a stream can be read only once. A list declares no width, so it takes that of the bounds.
        width = declared_width(self.bounds) if isinstance(X, list | tuple) else None
        table = open_table(X, n_columns=width, csv_dialect=self.csv_dialect)
        low, high, _ = declared_bounds(self.bounds, table.n_columns)
        domain = DOMAINS[kind](tuple(low), tuple(high), table.columns)
        return Opened(source_of(table, domain, keep=not is_stored(X)), domain, domain)

    def _check_served(self, table: RemoteTable, features: Domain) -> None:
        """Refuse bounds that are declared here and are not those that a curator serves."""
        kind = getattr(self, "domain", "auto")
        if not isinstance(kind, Domain):
            if choice(kind, "domain", ("auto", *DOMAINS)) not in ("auto", features.kind):
                raise ParameterError(Argument("domain"), f" is {features.kind!r} at {table.curator}: leave it out.")
            if self.bounds is None:
                return
            check_declared(self.bounds)
            if (schema := declared_schema(self.bounds)) is not None:
                kind = Mixed(schema=schema)
            else:
                low, high, columns = declared_bounds(self.bounds, features.n_declared)
                kind = DOMAINS.get(features.kind, Box)(tuple(low), tuple(high), columns)
        table.check_domain(kind, features)

    # ---- from a transcript to an answer ----

    def _read(self, transcript: Transcript, algorithm: Algorithm, on_progress: OnProgress | None = None) -> None:
        """Infer from a transcript where that is wanted and nothing speaks against it, refit, and set all attributes.

        For a seed s as random_state the answer is what `refit(t, infer(t, random_state=s), random_state=s)` gives.
        """
        auto = self.postprocess == "auto"
        wanted = self._infers_by_itself(algorithm) if auto else self.postprocess != "none"
        guarded = not algorithm.has_centers  # a clustering is told what to doubt instead, cluster by cluster
        self.transcript_, self.privacy_, self.inferred_ = transcript, transcript.privacy, None
        # Each from this seed anew, as the commands and the page read a transcript: all find the same answer.
        self._seed = seed_for(self.random_state)
        declined = None
        if wanted and auto and guarded:
            declined = algorithm.declines(transcript.context, transcript.rounds)
        if wanted and declined is None:
            method: Any = "maxent" if auto else self.postprocess
            inferred = infer(transcript, method, random_state=self._seed, on_progress=on_progress, warn=False)
            declined = _far_from_optimal(inferred) if guarded else None
            # Whoever names a method has decided against the guard.
            if declined is None or not auto:
                self.inferred_ = inferred
        if declined is not None:
            # Of the line that called `fit`, which called this.
            kept = "the last iterate was kept: " if auto else ""
            warnings.warn(kept + declined, PostprocessDeclined, stacklevel=3)
        self._method = None if self.inferred_ is None else self.inferred_.method
        if guarded:
            self.declined_ = declined if auto else None
        answer = refit(transcript, self.inferred_, random_state=self._seed)
        self._keep(answer, algorithm)
        self.verdict_ = verdict_of(transcript, self.inferred_, answer)
        warn_of(self.verdict_, stacklevel=4)

    def _set_domain(self, domain: Domain) -> None:
        self._domain = domain
        self.n_features_in_ = domain.n_declared
        if domain.table_columns is not None:
            self.feature_names_in_ = np.array(domain.table_columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # ---- records that a fitted estimator is asked about ----

    def _rows(self, X: Any) -> Array:
        """The records as they are; one with a value that is missing or infinite is NaN throughout."""
        return _complete(self._cells_of(X))

    def _cells_of(self, X: Any) -> Array:
        """The declared columns of the records, as readers give them."""
        check_is_fitted(self)
        domain = self._domain
        expecting = f"{type(self).__name__} is expecting {domain.n_declared} features as input"
        if isinstance(X, list | tuple):
            if any(isinstance(row, Mapping) for row in X):
                raise DataError("X is a list of dictionaries: make a data frame of it, or give rows of values.")
            # Nothing is hidden from whoever asks about given records, so a slip is told; `fit` reads it as missing.
            widths = {None if cells is None else len(cells) for cells in map(cells_of, X)}
            if widths == {None} and not all(row is None for row in X):
                raise DataError("X is one row; give a list of rows.")
            if other := widths - {domain.n_declared}:
                found = "that is none" if None in other else f"of {min(other)} features"  # type: ignore[type-var]
                raise DataError(f"X has a row {found}, but {expecting}: give a list of rows of that length.")
        schema = domain.schema if isinstance(domain, Mixed) else None
        named = schema is not None or not isinstance(X, list | tuple | np.ndarray)
        # A list declares no width: its rows are read by that of the domain.
        width = domain.n_declared if isinstance(X, list | tuple) else None
        columns = domain.table_columns if named else None
        table = open_table(X, columns, n_columns=width, csv_dialect=self.csv_dialect, schema=schema)
        if table.n_columns != domain.n_declared:
            raise DataError(f"X has {table.n_columns} features, but {expecting}.")
        return rows_of(table)

    def _unit(self, X: Any) -> Array:
        """The records in the unit domain, exactly; NaN where a value is missing or infinite, and nothing stands in."""
        return self._unit_of(self._cells_of(X))

    def _unit_of(self, rows: Array) -> Array:
        if isinstance(self._domain, Mixed):
            return self._domain.encode(list(rows.T))
        return self._domain.to_unit(_complete(rows))


def rows_of(table: OpenTable) -> Array:
    """All records of a table, for local use."""
    return np.concatenate([np.asarray(block, dtype=np.float64) for block in table.blocks()])


def _complete(rows: Array) -> Array:
    return np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, np.nan)


def declared_schema(bounds: object) -> Schema | None:
    """The schema that bounds are, or declare column by column; none where they are numbers alone."""
    if isinstance(bounds, Schema):
        return bounds
    columns = list(bounds.values()) if isinstance(bounds, Mapping) else []
    return Schema(bounds) if any(isinstance(column, Number | Category) for column in columns) else None  # type: ignore[arg-type]


def check_declared(bounds: object) -> None:
    """Refuse bounds that are missing, and text, which would be taken for a pair: only the command line reads it."""
    if isinstance(bounds, str | bytes | os.PathLike):
        raise BoundsError(
            f"bounds={str(bounds)!r:.80}: files and texts of bounds are read by the command line only. In Python give "
            '(low, high), or {column: (low, high)} such as {"age": (17, 90)}.'
        )
    if bounds is None:
        declared_bounds(None)


def _far_from_optimal(inferred: InferredDataset) -> str | None:
    diagnostics = inferred.diagnostics
    gap = None if diagnostics is None or diagnostics.converged else diagnostics.gap_per_row
    if gap is None or gap <= _LARGEST_GAP:
        return None
    return (
        f"inference stopped {gap:.3g} nats per noisy value from its optimum: no data set on its points comes near all "
        "answers. Are the records at a few places, or the bounds far too wide?"
    )
