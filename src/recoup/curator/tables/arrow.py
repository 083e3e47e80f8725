"""Arrow batches as floating-point columns: the one conversion that files, streams and cluster workers share.

Types come from the batch's schema, never from its values; nothing here can fail or warn because of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recoup.curator.tables.columns import Columns
from recoup.errors import ColumnTypeError

Block: TypeAlias = NDArray[np.float64] | NDArray[np.float32] | Columns


def columns_of(batch: Any) -> Columns:
    """Turn a batch of numeric columns into floats.

    Args:
        batch: a `pyarrow.RecordBatch` with the wanted columns in their order: any integers, floats, decimals or
            booleans, also dictionary or run-end encoded, or of an extension type that stores these.

    Returns:
        A float column for each of its columns: float32 where that holds every value of the declared type exactly, else
        float64. Columns that hold such floats and no null are not copied.

    Guarantees:
        A null is NaN. A float that is NaN or infinite stays so: readers must test for finite. What a float64 cannot
        hold exactly (large integers, decimals) is rounded without a word.

    Raises:
        ColumnTypeError: a column's declared type is not numeric.

    >>> batch = pa.record_batch({"a": pa.array([1, None], pa.int16()), "b": [0.5, 2.0]})
    >>> np.asarray(columns_of(batch))
    array([[1. , 0.5],
           [nan, 2. ]])
    """
    for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
        check_numeric(repr(name), kind)
    return Columns(tuple(arrow_numbers(array) for array in batch.columns), batch.num_rows)


def blocks_of(batch: Any, block_rows: int) -> Iterator[Columns]:
    """Yield a batch of numeric columns as blocks of at most so many rows, each as `columns_of` makes it."""
    for start in range(0, batch.num_rows, block_rows):
        yield columns_of(batch.slice(start, block_rows))


def arrow_numbers(array: Any) -> NDArray[Any]:
    """Turn one Arrow array of a numeric type into floats; a null is NaN."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    while _stored_type(array.type) != array.type:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        else:
            array = pc.run_end_decode(array)
    # Safe casts raise for an integer that a float cannot hold exactly, which would tell of a value.
    return np.asarray(array.cast(float_type(array.type), safe=False).to_numpy(zero_copy_only=False))


def check_numeric(shown: str, kind: Any, where: str = "") -> None:
    """Refuse a column whose Arrow type is not numeric; `shown` is its name or number, and `where` names its file."""
    stored, types = _stored_type(kind), pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    if not any(test(stored) for test in tests):
        raise not_numeric(shown, str(kind), where)


def not_numeric(shown: str, kind: str, where: str = "") -> ColumnTypeError:
    """The error for a column that is declared as something else than a number."""
    return ColumnTypeError(
        f"Column {shown}{where} is declared as {kind}, which is not a number. Leave it out, turn it into a number, "
        "or one-hot encode it over categories that you declare (not ones found in the data)."
    )


def float_type(kind: Any) -> Any:
    """The narrower of float32 and float64 that holds every value of an Arrow type, as far as float64 does.

    >>> float_type(pa.int16()), float_type(pa.int32())
    (DataType(float), DataType(double))
    """
    stored, types = _stored_type(kind), pa.types
    if types.is_floating(stored) or types.is_integer(stored):
        narrow = stored.bit_width <= (32 if types.is_floating(stored) else 16)
    else:
        narrow = types.is_boolean(stored) or types.is_null(stored)
    return pa.float32() if narrow else pa.float64()


def _stored_type(kind: Any) -> Any:
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind
