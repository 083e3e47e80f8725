"""Private logistic regression as a scikit-learn classifier, and how records are read together with their label.

Records are the features and, as one more column of the table, which of two declared classes each is. The classes are
public. A label that is neither of them, or is missing, makes its record contribute nothing, silently: that there is a
third value is a fact about records. So labels are translated to 0, 1 or nothing before they are read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted

from recoup.algorithms.base import Algorithm
from recoup.algorithms.logistic import LogisticRegression, trust_in_base
from recoup.curator.source import check_named, is_stored, source_of
from recoup.curator.spark import SparkTable, is_spark
from recoup.curator.tables.open import cells_of, open_table
from recoup.curator.tables.table import Columns, OpenTable, TableRows
from recoup.domain import Box, Domain, declared_bounds, declared_width
from recoup.errors import DataError, ParameterError
from recoup.estimators.base import (
    AnyLedger,
    AnyPerPerson,
    Noise,
    Opened,
    OrAuto,
    PrivateEstimator,
    check_declared,
    declared_schema,
    rows_of,
)
from recoup.estimators.lasting import Summary
from recoup.mixed import Mixed
from recoup.queries.base import Array
from recoup.remote.table import RemoteTable
from recoup.schema import Number, Schema


class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator, BaseEstimator):  # type: ignore[misc]
    """Differentially private binary logistic regression, by gradient descent on clipped gradients.

    A value outside its bounds counts as the nearest one inside, in `fit` and in `predict`.

    Args:
        classes: the two values of the label, the negative one first; public, and never learnt from the data. A record
            with any other label contributes nothing, and no message says so.
        n_rounds: steps of the descent.
        step_size: of the descent, in units in which the longest record has length 1; it mainly affects the last
            iterate.
        l2: the weight of the penalty (l2 / 2) |w|^2 beside the mean loss, w for features scaled to [-1, 1] by their
            bounds; the intercept is free.

    Attributes:
        coef_: (1, d), for features in the user's units; for those of a `Schema`, on its scales.
        intercept_: (1,).
        classes_: (2,), as declared. The last column of `inferred_` is the label, 0 or 1; in a data set inferred from
            this transcript together with others it may lie between, and counts as positive from 0.5 on.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, size=(4000, 2))
    >>> y = x[:, 0] + rng.normal(size=4000) > 5
    >>> model = PrivateLogisticRegression(epsilon=1.0, bounds=(0, 10), classes=(False, True)).fit(x, y)
    >>> model.coef_.shape, model.predict([[9.0, 5.0]])
    ((1, 2), array([ True]))
    """

    _learnt: ClassVar = {"coef_": (1, "d"), "intercept_": (1,)}

    def __init__(
        self,
        epsilon: Any = None,
        bounds: Any = None,
        *,
        classes: Any = (0, 1),
        delta: Any = 0.0,
        n_records: OrAuto = "auto",
        records_per_person: int = 1,
        person: str | None = None,
        per_person: AnyPerPerson = None,
        n_rounds: int = 10,
        step_size: float = 16.0,
        l2: float = 1e-3,
        postprocess: str = "auto",
        ledger: AnyLedger = None,
        csv_dialect: str = "rfc4180",
        random_state: Any = None,
        noise: Noise = "secure",
    ) -> None:
        self._store(locals())

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect: two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def decision_function(self, X: Any) -> Array:
        """The log-odds of the positive class, (n,); NaN where a value is missing. For local use only."""
        return self._decided(self._unit(X))

    def _decided(self, unit: Array) -> Array:
        rows = unit if isinstance(self._domain, Mixed) else self._domain.from_unit(unit)
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict_proba(self, X: Any) -> Array:
        """The probabilities of the two classes, (n, 2); NaN where a value is missing. For local use only."""
        decision = self.decision_function(X)
        return np.column_stack([expit(-decision), expit(decision)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The more likely class of each record, exactly; the negative one where a value is missing. Local use only."""
        positive = self.decision_function(X) >= 0.0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of correct predictions among complete records with a declared label: for local use only.

        The labels y may be the name of a numeric column of X; `sample_weight` says how much each record counts; without
        a complete record the share is NaN.
        """
        check_is_fitted(self)
        classes, columns = (self.classes_[0], self.classes_[1]), self._domain.table_columns
        if isinstance(y, str):
            if columns is None:
                raise DataError("The features have no names, so y cannot be one either: give the labels themselves.")
            schema = None if not isinstance(self._domain, Mixed) else _labelled(self._domain.schema, y)
            rows = rows_of(open_table(X, (*columns, y), csv_dialect=self.csv_dialect, schema=schema))
            decision, codes = self._decided(self._unit_of(rows[:, :-1])), codes_of(rows[:, -1], classes)
        else:
            decision, codes = self.decision_function(X), codes_of(y, classes)
        _check_lengths(len(decision), len(codes))
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        used = ~np.isnan(decision) & ~np.isnan(codes)
        if not weights[used].sum() > 0.0:
            return float("nan")
        return float(np.average((decision >= 0.0)[used] == (codes == 1.0)[used], weights=weights[used]))

    def _open(self, X: Any, y: Any = None) -> Opened:
        if isinstance(X, RemoteTable):
            return self._served(X, y)
        return open_labelled(X, y, self.bounds, declared_classes(self.classes), self.csv_dialect, self.person)

    def _served(self, table: RemoteTable, y: Any) -> Opened:
        """A served table: its last column is the label, of 0 and 1, and has a name for y."""
        names = table.domain.table_columns
        records, last = table.domain, None if names is None else names[-1]
        ends = records.low[-1], records.high[-1]
        if not isinstance(y, str) or y != last or ends != (0.0, 1.0) or declared_classes(self.classes) != (0, 1):
            raise ParameterError(
                f"the labels of a served table are its last column ({last!r} at {table.curator}), with bounds 0 and 1: "
                "name it as y, with classes 0 and 1."
            )
        features = self._features(records)
        self._check_served(table, features)
        return Opened(table, records, features)

    def _algorithm(self, records: Domain) -> Algorithm:
        return LogisticRegression(
            n_rounds=self.n_rounds,
            step_size=self.step_size,
            l2=self.l2,
            pseudo_records=trust_in_base(records.n_columns - 1),
            classes=tuple(c.item() if isinstance(c, np.generic) else c for c in declared_classes(self.classes)),
        )

    def _keep(self, answer: Array, algorithm: Algorithm) -> None:
        self.coef_, self.intercept_ = answer[None, :-1], answer[-1:]
        self._restored(algorithm)

    def _restored(self, algorithm: Algorithm) -> None:
        self.classes_ = np.array(declared_classes(self.classes))

    @classmethod
    def _reads(cls, algorithm: Algorithm) -> bool:
        return isinstance(algorithm, LogisticRegression)

    @classmethod
    def _features(cls, records: Domain) -> Domain:
        if isinstance(records, Mixed):
            *features, _ = records.schema.items()
            return Mixed(schema=Schema(dict(features)))
        return Box(records.low[:-1], records.high[:-1], None if records.columns is None else records.columns[:-1])

    def _summary(self, names: list[str]) -> Summary:
        values = np.append(self.coef_[0], self.intercept_)
        return Summary("feature", [*names, "intercept"], {"coefficient": values, "odds ratio": np.exp(values)})


# ---- labels ----
def declared_classes(classes: Any) -> tuple[Any, Any]:
    """Read the two classes, the negative one first."""
    ok, advice = not isinstance(classes, str | bytes) and np.ndim(classes) == 1 and len(classes) == 2, None
    if not ok or not all(isinstance(c, str | Real | np.bool_) for c in classes) or classes[0] == classes[1]:
        advice = "the two values that a label may have, such as (0, 1)"
    elif isinstance(classes[0], str) != isinstance(classes[1], str):
        advice = "two values of one kind, both texts or both numbers"
    if advice is not None:
        raise ParameterError(f"classes={classes!r}: declare {advice}.", parameter="classes")
    return classes[0], classes[1]


class Features(NamedTuple):
    """The columns beside the label, as they were declared; without names they are those that the table has."""

    columns: tuple[str, ...] | None
    schema: Schema | None
    person: str | None

    @classmethod
    def of(cls, bounds: Any, person: str | None) -> Features:
        """The columns that bounds declare."""
        schema = declared_schema(bounds)
        columns = declared_bounds(bounds)[2] if schema is None else tuple(schema)
        check_named(person, columns)
        return cls(columns, schema, person)


def open_labelled(
    X: Any,
    y: Any,
    bounds: Any,
    classes: tuple[Any, Any],
    csv_dialect: str = "rfc4180",
    person: str | None = None,
) -> Opened:
    """Open a table of any kind and its labels, in the order of the rows or by the name of a numeric column of X.

    Of a person with one row the label is that of most of their records, of as many the positive one.
    """
    if y is None:
        raise ParameterError("this classifier requires y to be passed, but the target y is None.")
    check_declared(bounds)
    declared = Features.of(bounds, person)
    if isinstance(y, str):
        table = _with_own_column(X, y, declared, classes, csv_dialect)
    else:
        table = _with_labels(X, y, bounds, declared, classes)
    if declared.schema is not None:
        label = (table.columns or ("label",))[-1]
        records: Domain = Mixed(schema=_labelled(declared.schema, label))
        features: Domain = Mixed(schema=declared.schema)
    else:
        low, high, _ = declared_bounds(bounds, table.n_columns - 1)
        features = Box(tuple(low), tuple(high), None if table.columns is None else table.columns[:-1])
        records = Box((*features.low, 0.0), (*features.high, 1.0), table.columns)
    # Who holds what is for the release to find: it draws the key by which records are chosen.
    return Opened(table if person else source_of(table, records, keep=not is_stored(X)), records, features)


def _labelled(schema: Schema, label: str) -> Schema:
    return Schema({**schema, label: Number(0, 1)})


def codes_of(labels: Any, classes: tuple[Any, Any]) -> Array:
    """Labels as 0 (negative), 1 (positive) or NaN (neither); never fails because of a value."""
    values = _values(labels)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            said = "A column-vector y was passed when a 1d array was expected: use y.ravel()."
            warnings.warn(said, DataConversionWarning, stacklevel=2)
            values = values[:, 0]
        if values.ndim != 1:
            raise DataError(f"y should be a 1d array of labels, and has {values.ndim} dimension(s).")
        if values.dtype.kind in "biuf" and not isinstance(values, np.ma.MaskedArray) and _are_numbers(classes):
            return np.where(values == classes[0], 0.0, np.where(values == classes[1], 1.0, np.nan))
    return np.array([_code(value, classes) for value in values], dtype=np.float64)


def _values(labels: Any) -> Any:
    """Labels as an array whose type was declared, or one by one.

    Never as an array of a type that NumPy finds by looking at them: then one record would change how others are read.
    """
    if isinstance(labels, list | tuple | np.ndarray):
        return labels
    if isinstance(getattr(labels, "dtype", None), np.dtype) and hasattr(labels, "__array__"):
        return np.asarray(labels)
    for listing in ("to_pylist", "to_list"):
        if hasattr(labels, listing):
            try:
                return getattr(labels, listing)()
            except Exception:  # some value is none that Python has
                return [_item(labels, i) for i in range(len(labels))]
    if hasattr(labels, "__array__"):
        return np.asarray(labels)
    try:
        return list(labels)
    except TypeError:
        raise DataError(f"y should be a 1d array of labels, and is a {type(labels).__name__}.") from None


def _item(labels: Any, i: int) -> Any:
    try:
        return labels[i].as_py() if hasattr(labels[i], "as_py") else labels[i]
    except Exception:
        return None


def _are_numbers(classes: tuple[Any, Any]) -> bool:
    return all(isinstance(c, Real | np.bool_) for c in classes)


def _code(value: Any, classes: tuple[Any, Any]) -> float:
    try:
        return 0.0 if bool(value == classes[0]) else 1.0 if bool(value == classes[1]) else math.nan
    except Exception:
        return math.nan  # what cannot even be compared is neither


def _with_labels(X: Any, y: Any, bounds: Any, declared: Features, classes: tuple[Any, Any]) -> OpenTable:
    if is_stored(X) or is_spark(X):
        raise DataError("Labels in a file, a database or a Spark DataFrame are one of its columns: give y its name.")
    codes = codes_of(y, classes)
    columns, schema, person = declared
    if isinstance(X, list | tuple) and columns is None:
        # Row by row: a row that is none contributes nothing, and neither does its label.
        _check_lengths(len(X), len(codes))
        pairs = zip(map(cells_of, X), codes.tolist(), strict=True)
        rows = [None if cells is None else [*cells, code] for cells, code in pairs]
        width = declared_width(bounds)
        return open_table(rows, n_columns=None if width is None else width + 1)
    width = None if schema is None else len(schema)
    table = open_table(X, columns, n_columns=width, schema=schema, person=person)
    if person is None:
        features, keys = rows_of(table), None
    else:
        blocks = list(table.person_blocks())
        features = np.concatenate([np.asarray(rows, dtype=np.float64) for rows, _ in blocks])
        keys = pa.concat_arrays([keys for _, keys in blocks])
    _check_lengths(len(features), len(codes))
    label = "label"
    while label in (table.columns or columns or ()):
        label += "_"
    names = None if table.columns is None else (*table.columns, label)
    records = np.column_stack([features, codes])
    block = records if keys is None else Columns(tuple(records.T), len(records), keys)
    return OpenTable(names, table.n_columns + 1, lambda _: iter((block,)), person_type=table.person_type)


def _check_lengths(n_rows: int, n_labels: int) -> None:
    """Refuse labels that are not one for each row."""
    # Neighbours differ by a record with its label, so whether this fails is the same for both; the numbers are not.
    if n_rows != n_labels:
        raise DataError("X and y have inconsistent numbers of samples: give one label for each row.")


def _with_own_column(X: Any, name: str, declared: Features, classes: tuple[Any, Any], csv_dialect: str) -> OpenTable:
    finite = _are_numbers(classes) and all(math.isfinite(c) for c in classes)
    if not finite or float(classes[0]) == float(classes[1]):
        raise ParameterError(
            f"classes={classes!r}: the classes of a column are two finite numbers that float64 tells apart.",
            parameter="classes",
        )
    features, schema, person = declared
    if features is not None and name in features:
        raise ParameterError(f"column {name!r} is the label: its values are declared by classes, not by bounds.")
    # Opened once: a stream can be read only once.
    columns = None if features is None else (*features, name)
    both = None if schema is None else _labelled(schema, name)
    table = open_table(X, columns, csv_dialect=csv_dialect, schema=both, person=person)
    if table.columns is None or name not in table.columns:
        raise DataError(f"X has no column {name!r}: give the labels themselves, or a table with named columns.")
    place = table.columns.index(name)
    order = [j for j in range(table.n_columns) if j != place] + [place]
    names = tuple(table.columns[j] for j in order)
    if isinstance(table, SparkTable):
        # The same translation where the records are; columns have plain names of our own there.
        *plain, own = (table.frame.columns[j] for j in order)
        persons = table.frame.columns[table.n_columns :]
        negative, positive = (f"{float(c)!r}D" for c in classes)
        label = f"CAST({own} AS DOUBLE)"
        code = f"CASE WHEN {label} = {negative} THEN 0.0D WHEN {label} = {positive} THEN 1.0D END AS {own}"
        return replace(table, columns=names, frame=table.frame.selectExpr(*plain, code, *persons))

    def read(block_rows: int) -> Iterator[TableRows]:
        for block in table.blocks(block_rows):
            rows = np.asarray(block, dtype=np.float64)[:, order]
            rows[:, -1] = codes_of(rows[:, -1], classes)
            persons = block.persons if isinstance(block, Columns) else None
            yield Columns(tuple(rows.T), len(rows), persons) if person else np.ascontiguousarray(rows)

    return replace(table, columns=names, _read=read)
