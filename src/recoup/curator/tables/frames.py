"""Data frames of pandas and Polars, by the types that their columns declare."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recoup.curator.tables.arrow import arrow_numbers
from recoup.curator.tables.rules import NUMBERS
from recoup.curator.tables.table import Columns, OpenTable, quietly, sliced
from recoup.curator.tables.wanted import Wanted
from recoup.errors import DataError

_SEE_COLUMNS: Final = "See X.columns."
_TYPED_SCANS: Final = frozenset({"Parquet", "Ipc"})  # as plans of Polars call them
_NUMERIC_KINDS: Final = "biuf"


def arrow_of(column: NDArray[Any]) -> Any:
    """One column of a numeric array as an Arrow array; NaN stays."""
    native = np.float64 if column.dtype.kind == "f" else column.dtype.newbyteorder("=")
    return pa.array(np.ascontiguousarray(column, dtype=native), from_pandas=False)


def open_pandas(frame: Any, wanted: Wanted) -> OpenTable:
    """Open a pandas frame by the dtypes of its columns."""
    names = tuple(str(name) for name in frame.columns)
    positions = wanted.select(names, hint=_SEE_COLUMNS)
    rules = wanted.rules(len(positions))
    dtypes = [frame.dtypes.iloc[position] for position in positions]
    kinds = [_pandas_type(dtype) for dtype in dtypes]
    for position, dtype, kind, rule in zip(positions, dtypes, kinds, rules, strict=True):
        rule.check(wanted.shown(names, position), kind, str(dtype))

    def numbers(rows: slice) -> NDArray[Any]:
        part = frame.iloc[rows]
        block = np.empty((len(part), len(positions)))
        for j, position in enumerate(positions):
            block[:, j] = _pandas_numbers(part.iloc[:, position])
        return block

    def columns(rows: slice) -> Columns:
        part, made = frame.iloc[rows], []
        for position, rule in zip(positions, rules, strict=True):
            column = part.iloc[:, position]
            if rule is NUMBERS:
                made.append(_pandas_numbers(column))
            else:
                cells = _pandas_cells(column)
                made.append(rule.of_cells(cells) if isinstance(cells, list) else rule.of_arrow(cells))
        return wanted.block(made, len(part))

    cut: Any = numbers if wanted.only_numbers else columns
    return wanted.table(names, positions, lambda block_rows: sliced(len(frame), block_rows, cut), kinds)


def _pandas_type(dtype: Any) -> Any:
    """The Arrow type that a dtype stands for; text for objects, which declare no other; none if there is no such."""
    if hasattr(dtype, "pyarrow_dtype"):
        return dtype.pyarrow_dtype
    # The values of a categorical column have the type that its categories declare.
    if hasattr(dtype, "categories"):
        return _pandas_type(dtype.categories.dtype)
    if _is_sparse(dtype):
        return _pandas_type(dtype.subtype)
    if dtype.kind in _NUMERIC_KINDS:
        return pa.float64() if dtype.kind == "f" else pa.from_numpy_dtype(np.dtype(f"{dtype.kind}{dtype.itemsize}"))
    if dtype.kind == "M":
        return pa.timestamp(_unit(dtype))
    return pa.large_string() if _is_object(dtype) or type(dtype).__name__ == "StringDtype" else None


def _is_object(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _is_sparse(dtype: Any) -> bool:
    return hasattr(dtype, "fill_value")


def _unit(dtype: Any) -> str:
    return str(dtype.unit) if hasattr(dtype, "unit") else str(np.datetime_data(dtype)[0])


def _pandas_numbers(column: Any) -> Any:
    if hasattr(column.dtype, "pyarrow_dtype"):
        return arrow_numbers(column.array.__arrow_array__())
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _pandas_cells(column: Any) -> Any:
    """Cells of a column as an Arrow array, or as a list where it holds objects of Python."""
    column = column.sparse.to_dense() if _is_sparse(column.dtype) else column
    dtype = column.dtype
    if hasattr(dtype, "categories"):
        places, values = column.cat.codes.to_numpy(), _pandas_cells(dtype.categories.to_series())
        if isinstance(values, list):
            return [None if place < 0 else values[place] for place in places]
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return pa.DictionaryArray.from_arrays(pa.array(places, mask=places < 0), values)
    if _is_object(dtype) or getattr(dtype, "storage", None) == "python":
        return list(column.to_numpy(dtype=object))
    if dtype.kind == "M":
        return pa.array(column.to_numpy(dtype=f"M8[{_unit(dtype)}]"))
    if hasattr(column.array, "__arrow_array__"):
        return column.array.__arrow_array__()
    return arrow_of(column.to_numpy())


def open_polars(frame: Any, wanted: Wanted) -> OpenTable:
    """Open a Polars frame by its schema; a lazy one is collected once, if types are declared where it reads."""
    import polars

    if not isinstance(frame, polars.DataFrame):
        _check_lazy(frame)
    schema = frame.collect_schema()
    names = tuple(schema.names())
    positions = wanted.select(names, hint=_SEE_COLUMNS)
    rules = wanted.rules(len(positions))
    kinds = [_polars_type(schema[names[position]]) for position in positions]
    for position, kind, rule in zip(positions, kinds, rules, strict=True):
        rule.check(wanted.shown(names, position), kind, schema[names[position]].base_type().__name__)
    # By position: Polars expands a name such as "*" or "^x.*$" to all columns that it fits.
    places = list(dict.fromkeys(positions))
    frame = frame.select(polars.nth(*places))
    if not isinstance(frame, polars.DataFrame):
        frame = quietly(frame.collect)
        if frame is None:
            raise DataError("The lazy frame cannot be collected. Try X.collect() where its message may be seen.")

    def numbers(rows: slice) -> NDArray[Any]:
        block = frame.slice(rows.start, rows.stop - rows.start).select(_polars_numbers(polars.all(), narrow))
        return np.require(block.to_numpy(order="c"), requirements=["C", "W"])

    def columns(rows: slice) -> Columns:
        part, made = frame.slice(rows.start, rows.stop - rows.start), []
        for position, rule in zip(positions, rules, strict=True):
            column = part.to_series(places.index(position))
            if rule is NUMBERS:
                made.append(_polars_numbers(column, narrow=False).to_numpy())
            else:
                made.append(rule.of_arrow(_polars_cells(column)))
        return wanted.block(made, part.height)

    narrow = bool(positions) and all(schema[names[position]] == polars.Float32 for position in positions)
    cut: Any = numbers if wanted.only_numbers else columns
    return wanted.table(names, positions, lambda block_rows: sliced(frame.height, block_rows, cut), kinds)


def _polars_type(dtype: Any) -> Any:
    """The Arrow type that a data type becomes; none if there is no such."""
    import polars

    wide = dtype in (polars.Int128, polars.UInt128)  # which Arrow does not have
    return pa.decimal128(38, 0) if wide else quietly(lambda: polars.Series([], dtype=dtype).to_arrow().type)


def _polars_cells(column: Any) -> Any:
    import polars

    wide = column.dtype in (polars.Int128, polars.UInt128)
    return (column.cast(polars.Decimal(38, 0), strict=False) if wide else column).to_arrow()


def _polars_numbers(cells: Any, narrow: bool) -> Any:
    import polars

    return cells.cast(polars.Float32 if narrow else polars.Float64, strict=False).fill_null(math.nan)


def _check_lazy(frame: Any) -> None:
    """Refuse a plan that reads what declares no types: these would be learnt from records, and one cell fail it."""
    plan = quietly(lambda: frame.explain(optimized=False) if frame.collect_schema() is not None else None)
    if plan is None or not _TYPED_SCANS.issuperset(re.findall(r"(\w+) SCAN", plan)):
        raise DataError(
            "A lazy frame is read only if its plan can be resolved and reads Parquet, Arrow files or frames in memory; "
            "the types of CSV and JSON are learnt from records. Hand over the path of the file, or X.collect()."
        )
