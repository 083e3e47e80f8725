"""Whose record it is: a column of identifiers as keys, of a type that its declared type decides.

Two records are of one person where their keys are equal. A null is nobody's, and its record contributes nothing: a
missing cell, an empty text, one that is not UTF-8 or longer than any identifier, a NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recoup.curator.tables.arrow import dictionary_places, is_text, refused_type, stored_type, unwrapped
from recoup.curator.tables.categories import written

LONGEST_KEY: Final = 1024  # bytes of a text; a limit, so that what a person costs in memory has one
_SPACES: Final = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())  # all there are


class Keys:
    """The keys of cells: int64 of whole numbers, truth values, dates and of the bits of floats; text of all others.

    Guarantees: no cell can make it fail or warn. A cell's key depends on nothing but the cell and the declared type.

    >>> keys = Keys()
    >>> keys.of_arrow(pa.array([" ann", "", None])).to_pylist(), keys.of_arrow(pa.array([7, None])).to_pylist()
    (['ann', None, None], [7, None])
    """

    def check(self, shown: str, kind: Any, declared: str, where: str = "") -> None:
        """Refuse a type that holds no identifiers."""
        if kind is None or key_kind(kind) is None:
            advice = "which cannot say whose a record is. Turn it into text or whole numbers."
            raise refused_type(shown, declared, where, advice)

    def of_arrow(self, array: Any) -> Any:
        """The keys of an Arrow array of a type that was checked, or of bytes that are taken for text."""
        array = unwrapped(array)
        if pa.types.is_dictionary(array.type):
            # By the values that occur: others may be too long to be repeated.
            used, inverse = np.unique(dictionary_places(array), return_inverse=True)
            return self.of_arrow(array.dictionary.take(pa.array(used, mask=used < 0))).take(pa.array(inverse))
        kind, types = array.type, pa.types
        if types.is_null(kind):
            return pa.nulls(len(array), pa.int64())
        if types.is_floating(kind):
            # Both zeros are one value, with one pattern of bits.
            values = array.cast(pa.float64()).fill_null(np.nan).to_numpy() + 0.0
            return pa.array(values.view(np.int64), mask=np.isnan(values))
        if types.is_decimal(kind) or types.is_uint64(kind):
            return array.cast(pa.large_string())
        if types.is_date32(kind):
            return array.cast(pa.int32()).cast(pa.int64())
        return self.of_texts(array) if is_text(kind) or _is_bytes(kind) else array.cast(pa.int64())

    def of_texts(self, array: Any) -> Any:
        """The keys of texts, or of bytes that are taken for text."""
        raw = array.cast(pa.large_binary())
        short = pc.if_else(pc.less_equal(pc.binary_length(raw), LONGEST_KEY), raw, None)
        texts = short.view(pa.large_string())
        if not _is_valid(texts):
            texts = pa.array(
                [None if cell is None else _decoded(cell) for cell in short.to_pylist()], pa.large_string()
            )
        texts = pc.utf8_trim(texts, _SPACES)
        return pc.if_else(pc.greater(pc.binary_length(texts), 0), texts, None)

    def of_cells(self, cells: Iterable[Any]) -> Any:
        """The keys of cells of any kind: their text, that of a number without a point if it is whole."""
        return self.of_texts(pa.array(map(self.of_cell, cells), pa.large_binary()))

    def of_cell(self, cell: Any) -> bytes | None:
        """The bytes of the text of one cell of any kind."""
        try:
            return _text_of(cell).encode("utf-8")
        except Exception:
            return None


def key_type(kind: Any) -> Any:
    """The Arrow type of the keys of a declared type that was checked."""
    stored, types = stored_type(kind), pa.types
    text = is_text(stored) or types.is_decimal(stored) or types.is_uint64(stored)
    return pa.large_string() if text else pa.int64()


def key_kind(kind: Any) -> str | None:
    """What the keys of a declared type mean: those of two tables are the same persons' only if this is equal."""
    stored, types = stored_type(kind), pa.types
    if is_text(stored):
        return "text"
    if types.is_uint64(stored):
        return "uint64"
    if types.is_integer(stored) or types.is_boolean(stored):
        return "integer"
    if types.is_floating(stored):
        return "float"
    if types.is_decimal(stored):
        return f"decimal with {stored.scale} places"
    return str(stored) if types.is_timestamp(stored) or types.is_date(stored) or types.is_null(stored) else None


def _is_bytes(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_valid(texts: Any) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decoded(cell: bytes) -> str | None:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _text_of(cell: Any) -> str:
    if isinstance(cell, str):
        return str.strip(cell)
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, int | np.integer | UUID):
        return str(cell if isinstance(cell, UUID) else int(cell))
    number = float(cell) if isinstance(cell, float | np.floating | Decimal) else np.nan
    if np.isnan(number):
        return ""
    # Decimals as they are: as floats two of them may be one.
    return str(cell) if isinstance(cell, Decimal) else written(number)
