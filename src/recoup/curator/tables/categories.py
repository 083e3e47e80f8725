"""Cells of a declared category as places among its values, by one rule for every reader.

A cell is the declared value with the same text, without white space around it; else the one that is the same number,
where true is 1 and false is 0. So 1, 1.0, "1" and " 1.00" are one value, whether a table declares text or numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recoup.curator.tables.arrow import distinct, is_numeric, is_text, refused_type, stored_type
from recoup.curator.tables.rules import PLAIN_NUMBER
from recoup.schema import Category

_PLAIN: Final = re.compile(PLAIN_NUMBER)
_BOOLEANS: Final = {"true": 1.0, "false": 0.0}
_MISSING_TYPES: Final = frozenset({"NoneType", "NAType", "NaTType", "MaskedConstant"})
_LONGEST_NUMBER: Final = 400  # characters; of a longer text no number is made
_LARGEST_WHOLE: Final = 2**64


class Codes:
    """The places of cells among the declared values of a category; one more if undeclared, NaN if missing.

    Guarantees: no cell can make it fail or warn. A cell's place depends on nothing but the cell.

    >>> codes = Codes(Category(["F", "1", "true"]))
    >>> codes.of_cells([" F ", 1.0, "TRUE", "m", ""]).tolist()
    [0.0, 1.0, 2.0, 3.0, nan]
    """

    def __init__(self, category: Category) -> None:
        self._texts = {text: float(place) for place, text in enumerate(category.values)}
        self._undeclared = float(len(category.values))
        numbers: dict[float, list[str]] = {}
        for text in category.values:
            if (number := _number_in(text)) is not None:
                numbers.setdefault(number, []).append(text)
        # Of several spellings of a number that are declared, a column of numbers is the plain one, else the first.
        self._numbers = {
            number: self._texts[written(number) if written(number) in texts else texts[0]]
            for number, texts in numbers.items()
        }

    def check(self, shown: str, kind: Any, declared: str, where: str = "") -> None:
        """Refuse a type that is neither text nor numbers, encoded in whatever way."""
        if kind is None or not (is_text(stored_type(kind)) or is_numeric(kind)):
            advice = "which cannot be read as categories. Turn it into text or numbers, or leave it out."
            raise refused_type(shown, declared, where, advice)

    def of_arrow(self, array: Any) -> NDArray[np.float64]:
        """The places of the cells of an Arrow array of a type that was checked, or of bytes that are taken for text."""
        places, values = distinct(array)
        cells = values.to_pylist()
        if pa.types.is_large_binary(values.type):
            cells = [cell.decode("utf-8", "replace") for cell in cells if cell is not None]
        return np.append(self.of_cells(cells), math.nan)[places]

    of_texts = of_arrow

    def of_cells(self, cells: Iterable[Any]) -> NDArray[np.float64]:
        """The places of cells of any kind."""
        return np.fromiter(map(self.of_cell, cells), dtype=np.float64)

    def of_cell(self, cell: Any) -> float:
        """The place of one cell of any kind."""
        if type(cell) is str:
            return self._of_text(cell)
        try:
            return self._of_object(cell)
        except Exception:
            return self._undeclared

    def _of_object(self, cell: Any) -> float:
        if type(cell).__name__ in _MISSING_TYPES:
            return math.nan
        # By methods of the known type: a subclass may have others.
        if isinstance(cell, str):
            return self._of_text(str.strip(cell))
        if isinstance(cell, bool | np.bool_):
            return self._of_text("true" if cell else "false")
        if isinstance(cell, int | np.integer):
            whole = int.__int__(cell) if isinstance(cell, int) else int(cell)
            text = str(whole) if abs(whole) < _LARGEST_WHOLE else ""
            return self._texts[text] if text in self._texts else self._of_number(float(whole))
        if isinstance(cell, float | np.floating | Decimal):
            return self._of_number(float(cell))
        return self._undeclared

    def _of_text(self, text: str) -> float:
        text = text.strip()
        if not text:
            return math.nan
        if text not in self._texts and text.casefold() in _BOOLEANS:
            text = text.casefold()
        if text in self._texts:
            return self._texts[text]
        number = _number_in(text)
        return self._undeclared if number is None else self._of_number(number)

    def _of_number(self, number: float) -> float:
        return number if math.isnan(number) else self._numbers.get(number, self._undeclared)


def written(number: float) -> str:
    """A finite number as it is written, a whole one without a point."""
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def _number_in(text: str) -> float | None:
    if text.casefold() in _BOOLEANS:
        return _BOOLEANS[text.casefold()]
    return float(text) if len(text) <= _LONGEST_NUMBER and _PLAIN.match(text) else None
