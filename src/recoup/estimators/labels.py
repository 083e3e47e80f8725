"""Records with a label: the features and, as one more column of the table, which of two declared classes it is.

The classes are public. A label that is neither of them, or is missing, makes its record contribute nothing, silently:
that there is a third value is a fact about records. So labels are translated to 0, 1 or nothing before they are read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import DataConversionWarning

from recoup.curator.source import Source, is_path, source_of
from recoup.curator.spark import SparkTable, is_spark
from recoup.curator.tables.open import cells_of, open_table
from recoup.curator.tables.table import Table, TableRows
from recoup.domain import Box, declared_bounds, declared_width
from recoup.errors import DataError, ParameterError
from recoup.estimators.base import check_declared
from recoup.queries.base import Array


class Labelled(NamedTuple):
    """Records to fit a classifier to, their domain, whose last column is the label, and that of the features alone."""

    features: Box
    records: Box
    source: Source


def declared_classes(classes: Any) -> tuple[Any, Any]:
    """Read the two classes, the negative one first."""
    ok = not isinstance(classes, str | bytes) and np.ndim(classes) == 1 and len(classes) == 2
    if not ok or not all(isinstance(c, str | Real | np.bool_) for c in classes) or classes[0] == classes[1]:
        raise ParameterError(
            f"classes={classes!r}: declare the two values that a label may have, such as (0, 1).", parameter="classes"
        )
    if isinstance(classes[0], str) != isinstance(classes[1], str):
        raise ParameterError(
            f"classes={classes!r}: declare two values of one kind, both texts or both numbers.", parameter="classes"
        )
    return classes[0], classes[1]


def open_labelled(X: Any, y: Any, bounds: Any, classes: tuple[Any, Any], csv_dialect: str = "rfc4180") -> Labelled:
    """Open a table of any kind and its labels, in the order of the rows or by the name of a numeric column of X."""
    if y is None:
        raise ParameterError("this classifier requires y to be passed, but the target y is None.")
    check_declared(bounds)
    if isinstance(y, str):
        table = _with_own_column(X, y, bounds, classes, csv_dialect)
    else:
        table = _with_labels(X, y, bounds, classes)
    names = None if table.columns is None else table.columns[:-1]
    low, high, _ = declared_bounds(bounds, table.n_columns - 1)
    features = Box(tuple(low), tuple(high), names)
    records = Box((*features.low, 0.0), (*features.high, 1.0), table.columns)
    return Labelled(features, records, source_of(table, records, keep=not is_path(X)))


def codes_of(labels: Any, classes: tuple[Any, Any]) -> Array:
    """Labels as 0 (negative), 1 (positive) or NaN (neither); never fails because of a value."""
    values = _values(labels)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected: use y.ravel().",
                DataConversionWarning,
                stacklevel=2,
            )
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


def _with_labels(X: Any, y: Any, bounds: Any, classes: tuple[Any, Any]) -> Table:
    if is_path(X) or is_spark(X):
        raise DataError("The labels of a file or of a Spark DataFrame are one of its columns: give y its name.")
    codes = codes_of(y, classes)
    columns = declared_bounds(bounds)[2]
    if isinstance(X, list | tuple) and columns is None:
        # Row by row: a row that is none contributes nothing, and neither does its label.
        check_lengths(len(X), len(codes))
        pairs = zip(map(cells_of, X), codes.tolist(), strict=True)
        rows = [None if cells is None else [*cells, code] for cells, code in pairs]
        width = declared_width(bounds)
        return open_table(rows, n_columns=None if width is None else width + 1)
    table = open_table(X, columns)
    blocks = [np.asarray(block, dtype=np.float64) for block in table.blocks()]
    check_lengths(sum(map(len, blocks)), len(codes))
    records = np.column_stack([np.concatenate(blocks), codes])
    label = "label"
    while label in (table.columns or ()):
        label += "_"
    names = None if table.columns is None else (*table.columns, label)
    return Table(names, table.n_columns + 1, lambda: iter((records,)))


def check_lengths(n_rows: int, n_labels: int) -> None:
    """Refuse labels that are not one for each row."""
    # Neighbours differ by a record with its label, so whether this fails is the same for both; the numbers are not.
    if n_rows != n_labels:
        raise DataError("X and y have inconsistent numbers of samples: give one label for each row.")


def _with_own_column(X: Any, name: str, bounds: Any, classes: tuple[Any, Any], csv_dialect: str) -> Table:
    finite = _are_numbers(classes) and all(math.isfinite(c) for c in classes)
    if not finite or float(classes[0]) == float(classes[1]):
        raise ParameterError(
            f"classes={classes!r}: the classes of a column are two finite numbers that float64 tells apart.",
            parameter="classes",
        )
    features = declared_bounds(bounds)[2]
    if features is not None and name in features:
        raise ParameterError(f"column {name!r} is the label: its values are declared by classes, not by bounds.")
    # Opened once: a stream can be read only once.
    table = open_table(X, None if features is None else (*features, name), csv_dialect=csv_dialect)
    if table.columns is None or name not in table.columns:
        raise DataError(f"X has no column {name!r}: give the labels themselves, or a table with named columns.")
    place = table.columns.index(name)
    order = [j for j in range(table.n_columns) if j != place] + [place]
    names = tuple(table.columns[j] for j in order)
    if isinstance(table, SparkTable):
        return replace(table, columns=names, frame=_spark_columns(table.frame, order, classes))

    def read() -> Iterator[TableRows]:
        for block in table.blocks():
            rows = np.asarray(block, dtype=np.float64)[:, order]
            rows[:, -1] = codes_of(rows[:, -1], classes)
            yield np.ascontiguousarray(rows)

    return replace(table, columns=names, _read=read)


def _spark_columns(frame: Any, order: list[int], classes: tuple[Any, Any]) -> Any:
    """The same translation where the records are; columns have plain names of our own there."""
    *features, name = (frame.columns[j] for j in order)
    negative, positive = (f"{float(c)!r}D" for c in classes)
    label = f"CAST({name} AS DOUBLE)"
    code = f"CASE WHEN {label} = {negative} THEN 0.0D WHEN {label} = {positive} THEN 1.0D END AS {name}"
    return frame.selectExpr(*features, code)
