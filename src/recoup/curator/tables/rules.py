"""What a rule is that reads the cells of a column, and the one for numbers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recoup.curator.tables.arrow import arrow_numbers, floats, is_numeric, refused_type

PLAIN_NUMBER: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


class Rule(Protocol):
    """How the cells of one column are read."""

    def check(self, shown: str, kind: Any, declared: str, where: str = "") -> None:
        """Refuse an Arrow type that cannot be read so, or none, by the name that the table has for it."""

    def of_arrow(self, array: Any) -> Any:
        """Read an Arrow array of a type that was checked."""

    def of_texts(self, array: Any) -> Any:
        """Read an Arrow array of texts, or of their bytes."""

    def of_cells(self, cells: Iterable[Any]) -> Any:
        """Read cells of any kind."""

    def of_cell(self, cell: Any) -> Any:
        """Read one cell of any kind."""


class Made(NamedTuple):
    """What rules made of some columns of a block: arrays of floats, or of keys."""

    arrays: list[Any]
    n_rows: int


# Reads the columns at some places of a file, each by its rule, in blocks of at most so many rows.
Reader: TypeAlias = Callable[[Sequence[int], Sequence[Rule], int], Generator[Made, None, None]]


class Numbers:
    """Numbers as they are; what is missing, or no number, is not finite."""

    def check(self, shown: str, kind: Any, declared: str, where: str = "") -> None:
        """Refuse a type that is not numeric."""
        if kind is None or not is_numeric(kind):
            advice = (
                "which is not a number. Leave it out, turn it into a number, or declare its categories: "
                'recoup.Category(["a", "b"]), with values that you know (not ones found in the data).'
            )
            raise refused_type(shown, declared, where, advice)

    def of_arrow(self, array: Any) -> NDArray[Any]:
        """Read an Arrow array of a numeric type."""
        return arrow_numbers(array)

    def of_texts(self, array: Any) -> NDArray[np.float64]:
        """Read an Arrow array of texts in ASCII; what is no plain decimal number is not finite."""
        return _parsed(array)

    def of_cells(self, cells: Iterable[Any]) -> NDArray[np.float64]:
        """Read cells of any kind."""
        return np.fromiter(map(self.of_cell, cells), dtype=np.float64)

    def of_cell(self, cell: Any) -> float:
        """Read one cell of any kind."""
        try:
            # A length of time, or an array, would also pass for a number.
            if getattr(getattr(cell, "dtype", None), "kind", None) in ("m", "M") or getattr(cell, "ndim", 0) > 0:
                return math.nan
            return float(cell)
        except Exception:
            return math.nan


NUMBERS: Final = Numbers()


def _parsed(texts: Any) -> NDArray[np.float64]:
    # What it takes and a plain number is not ("nan", "inf") it reads as not finite, so nothing but time is saved.
    with contextlib.suppress(pa.ArrowInvalid):
        return floats(texts.cast(pa.float64()))
    text = pc.ascii_trim_whitespace(texts)
    plain = pc.if_else(pc.match_substring_regex(text, PLAIN_NUMBER), text, pa.nulls(1, text.type)[0])
    return floats(pc.ascii_ltrim(plain, "+").cast(pa.float64()))
