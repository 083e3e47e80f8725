"""Which columns of a table are meant: names and their places, which are public."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from recoup.errors import DataError, UnknownColumnError

_NAMES_SHOWN: Final = 30


def listed(names: Sequence[str]) -> str:
    """Quote names for a message, and cut a long list.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    more = "" if len(names) <= _NAMES_SHOWN else ", ..."
    return ", ".join(repr(name) for name in names[:_NAMES_SHOWN]) + more


def select(names: Sequence[str], wanted: Sequence[str] | None, *, hint: str = "", where: str = "") -> list[int]:
    """Find the places of the wanted columns, or of all.

    Args:
        names: the columns of the table.
        wanted: those to read, in this order; None: all.
        hint: said instead of names that the table has and the user did not declare, where these may be a record: of a
            file without header, or a frame that was read from one.
        where: names the file, as in " in 'part-1.parquet'".

    Returns:
        One place for each wanted column.

    >>> select(["a", "b", "c"], ["c", "a"])
    [2, 0]
    """
    times = Counter(names)
    for name in names if wanted is None else wanted:
        if times[name] == 0:
            raise UnknownColumnError(
                f"There is no column {name!r}{where}. {hint or f'The columns are {listed(names)}.'}"
            )
        if times[name] > 1:
            which = "of the same name" if hint and wanted is None else repr(name)
            raise DataError(f"There is more than one column {which}{where}. Rename all but one.")
    first = {name: position for position, name in enumerate(names)}
    return [first[name] for name in (names if wanted is None else wanted)]


def shown_column(names: Sequence[str], position: int, wanted: Sequence[str] | None) -> str:
    """A column for a message: by its name if the user declared that, else by its number.

    Whoever read a file without header into a frame has a record for names.

    >>> shown_column(["a", "Smith"], 1, None), shown_column(["a", "b"], 1, ["b"])
    ('number 2', "'b'")
    """
    return f"number {position + 1}" if wanted is None else repr(names[position])
