"""Arrow arrays of any encoding as numbers, and as distinct values: what files, streams and cluster workers share.

Only a declared type is ever refused; nothing here can fail or warn because of a value.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recoup.errors import ColumnTypeError

# Arrow's own ways to and from Python import pandas, where it is installed: that takes longer than a small fit.
_NAN = pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(np.array([np.nan]))])[0]


class Distinct(NamedTuple):
    """The distinct values of an array, and where each cell's is among them; -1 for a null."""

    places: NDArray[np.int64]
    values: Any


def distinct(array: Any) -> Distinct:
    """Take an Arrow array apart, however it is encoded; texts become bytes, which need not be UTF-8."""
    array = unwrapped(array)
    if pa.types.is_dictionary(array.type):
        # Only values that occur: a dictionary may be longer than the block, and its texts may be long.
        used, inverse = np.unique(dictionary_places(array), return_inverse=True)
        inner = distinct(array.dictionary.take(pa.array(used, mask=used < 0)))
        return Distinct(inner.places[inverse], inner.values)
    if pa.types.is_null(array.type):
        return Distinct(np.full(len(array), -1), array[:0])
    coded = array.cast(_encodable(array.type), safe=False).dictionary_encode()
    return Distinct(coded.indices.fill_null(-1).to_numpy().astype(np.int64), coded.dictionary)


def _encodable(kind: Any) -> Any:
    types = pa.types
    if is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return pa.large_binary()
    if types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    return pa.float64() if types.is_floating(kind) else kind


def unwrapped(array: Any) -> Any:
    """The same cells in one plain array, or one of places in a dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def dictionary_places(array: Any) -> NDArray[np.int64]:
    """Where each cell's value is in a dictionary; -1 for a null, and for a place that the dictionary does not have."""
    # Arrow raises for such a place, with the place; here it is a missing cell.
    places = array.indices.cast(pa.int64(), safe=False).fill_null(-1).to_numpy()
    return np.where((places >= 0) & (places < len(array.dictionary)), places, -1)


def arrow_numbers(array: Any) -> NDArray[Any]:
    """Turn one Arrow array of a numeric type into floats; a null is NaN.

    They are float32 where that holds every value of the declared type exactly, else float64; an array of such floats
    without a null is not copied.

    Guarantees: a float that is NaN or infinite stays so: readers must test for finite. What a float64 cannot hold
    exactly (large integers, decimals) is rounded without a word.
    """
    array = unwrapped(array)
    while pa.types.is_dictionary(array.type):
        places = dictionary_places(array)
        array = unwrapped(array.dictionary.take(pa.array(places, mask=places < 0)))
    # Safe casts raise for an integer that a float cannot hold exactly, which would tell of a value.
    return floats(array.cast(_float_type(array.type), safe=False))


def floats(array: Any) -> NDArray[Any]:
    """An Arrow array of floats for NumPy, not copied unless it has a null, which is NaN."""
    return np.from_dlpack(pc.coalesce(array, _NAN.cast(array.type)) if array.null_count else array)


def is_text(kind: Any) -> bool:
    """Whether a plain Arrow type is one of text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type, however encoded, is one of numbers."""
    stored, types = stored_type(kind), pa.types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(stored) for test in tests)


def refused_type(shown: str, kind: str, where: str, advice: str) -> ColumnTypeError:
    """The error for a column whose declared type cannot be read as what it is declared to be here.

    Of a type no more is shown than its own name: what follows may name fields, or a value that fills gaps.
    """
    kind = re.split(r"[<\[(]", kind)[0]
    return ColumnTypeError(f"Column {shown}{where} is declared as {kind}, {advice}")


def stored_type(kind: Any) -> Any:
    """The type of an Arrow array's values, whatever they are encoded in."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _float_type(stored: Any) -> Any:
    """The narrower of float32 and float64 that holds every value of an Arrow type, as far as float64 does."""
    types = pa.types
    if types.is_floating(stored) or types.is_integer(stored):
        narrow = stored.bit_width <= (32 if types.is_floating(stored) else 16)
    else:
        narrow = types.is_boolean(stored) or types.is_null(stored)
    return pa.float32() if narrow else pa.float64()
