"""What estimators say about bounds that only the command line reads."""

from __future__ import annotations

import os

from recoup.errors import BoundsError


def refuse_text(bounds: object) -> None:
    """Say plainly that text, or a path, is no declaration of bounds in Python.

    Without this it would be taken for a pair, or the table be opened with columns that a file may well leave out.

    >>> refuse_text((0, 1))
    """
    if isinstance(bounds, str | bytes | os.PathLike):
        raise BoundsError(
            f"bounds={str(bounds)!r:.80}: files and texts of bounds are read by the command line only. In Python give "
            '(low, high), or {column: (low, high)} such as {"age": (17, 90)}.'
        )
