"""What the catalogue of a database says of a table, and what is made of its cells: the same for every database.

Types come from the catalogue, never from values. What a database complains about may quote records, or how to log in:
nothing of it is passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from recoup.curator.tables.arrow import is_text, unwrapped
from recoup.curator.tables.keys import LONGEST_KEY, Keys
from recoup.curator.tables.rules import NUMBERS, PLAIN_NUMBER, Made, Rule
from recoup.errors import DatabaseError, RecoupError

# Of a longer text no more is read than that it is long: one cell must not fill the memory.
LONGEST_TEXT: Final = 4096  # bytes
# In its place: no declared value, and too long for an identifier.
LONG: Final = "\1" * (LONGEST_KEY + 1)
# How long a database may keep a reader waiting, in seconds; both are public, whatever a table holds.
LOCK_SECONDS: Final = 30
READ_SECONDS: Final = 24 * 3600

Item = TypeVar("Item")
Result = TypeVar("Result")


class Column(NamedTuple):
    """A column as its database declares it.

    Attributes:
        name: exactly as the catalogue has it.
        declared: the database's own name for its type.
        kind: the Arrow type that stands for it; none if it is not read.
        numeral: whether its numbers come as text, with as many digits as they have.
        cast: the SQL of a conversion to text that cannot fail, with a place for the column; none for the plain column.
    """

    name: str
    declared: str
    kind: Any
    numeral: bool = False
    cast: str | None = None


class Database(Protocol):
    """One table of a database."""

    shown: str

    def columns(self) -> list[Column]:
        """Its columns, of which the catalogue alone was read."""

    def read(self, columns: Sequence[Column], rules: Sequence[Rule], block_rows: int) -> Generator[Made, None, None]:
        """Read some columns, each by its rule, in one snapshot and in blocks; other columns than these are refused."""


def made_of(batch: Any, columns: Sequence[Column], rules: Sequence[Rule]) -> Made:
    """What rules make of an Arrow batch of the columns, in their order."""
    cells = zip(rules, columns, batch.columns, strict=True)
    return Made([_read(rule, column, array) for rule, column, array in cells], batch.num_rows)


def _read(rule: Rule, column: Column, array: Any) -> Any:
    # Which way a cell goes depends on its declared type alone, never on other cells.
    array = unwrapped(array)
    if not is_text(array.type) or not (column.numeral or pa.types.is_decimal(column.kind)):
        return rule.of_arrow(array)
    # PostgreSQL has NaN and infinite numbers of any declared precision.
    texts = pc.if_else(pc.match_substring_regex(array, PLAIN_NUMBER), array, None)
    if not column.numeral:
        return rule.of_arrow(texts.cast(column.kind))
    if rule is NUMBERS:
        return rule.of_texts(texts)
    if isinstance(rule, Keys):
        # 1.50 and 1.5 are one person.
        whole = pc.replace_substring_regex(texts, r"\.0*$", "")
        return rule.of_texts(pc.replace_substring_regex(whole, r"(\.[0-9]*[1-9])0+$", r"\1"))
    return rule.of_texts(texts)


# ---- names ----


def quoted(name: str) -> str:
    """A name as an identifier of SQL, whatever it holds.

    >>> quoted('a "b"; c')
    '"a ""b""; c"'
    """
    return '"' + name.replace('"', '""') + '"'


def found_table(
    name: str, tables: Sequence[tuple[str, ...]], visible: Sequence[tuple[str, ...]], shown: str
) -> tuple[str, ...]:
    """The one table of a catalogue that a name means, letter for letter.

    Args:
        name: of a table, or after the schemas that it is in, with dots between.
        tables: all that there are, each after its schemas.
        visible: the schemas that need not be named, in their order.
        shown: the table for a message.

    >>> found_table("visits", [("main", "visits"), ("b", "visits")], [("main",)], "")
    ('main', 'visits')
    >>> found_table("b.visits", [("main", "visits"), ("b", "visits")], [("main",)], "")
    ('b', 'visits')
    """
    there = set(tables)
    plain = next(((*schemas, name) for schemas in visible if (*schemas, name) in there), None)
    below = {schemas[:n] for schemas in visible for n in range(len(schemas))}
    dotted = {table for table in there for n in range(len(table) - 1) if _meant(name, table, n, below)}
    found = dotted | ({plain} if plain is not None else set())
    if not found:
        raise DatabaseError(f"There is no {shown} in the database, or this user may not see it. Names are exact.")
    if len(found) > 1:
        raise DatabaseError(f"There is more than one {shown} in the database: a dot may be part of a name. Rename one.")
    return found.pop()


def _meant(name: str, table: tuple[str, ...], n: int, below: set[tuple[str, ...]]) -> bool:
    return (n == 0 or table[:n] in below) and name == ".".join(table[n:])


def check_unchanged(now: Sequence[Column], chosen: Sequence[Column], shown: str) -> None:
    """Refuse to read columns that are no longer what they were when the table was opened."""
    if not set(chosen) <= set(now):
        raise DatabaseError(f"{_start(shown)} is not what was opened: its columns have changed since.")


# ---- errors that hold nothing but names ----


def saying_only(message: str, work: Callable[[], Result]) -> Result:
    """Do some work with a database; what it complains about is replaced by a fixed message.

    Guarantees: the error holds nothing of the one that it replaces, not even as its context.
    """
    try:
        return work()
    except RecoupError:
        raise
    except Exception:
        pass
    # Here and not in the handler, where an error would keep the one that is handled.
    raise DatabaseError(message)


def each_saying_only(message: str, items: Generator[Item, None, None]) -> Iterator[Item]:
    """Yield items that a database sends, under the same rule."""
    with closing(items):
        while (item := saying_only(message, lambda: next(items, None))) is not None:
            yield item
            del item


def unreadable(shown: str) -> str:
    """What is said of a table that was there and cannot be read."""
    return (
        f"{_start(shown)} cannot be read: the database is away, refused the read, kept it waiting, or the table is "
        "damaged. Nothing was charged for this round."
    )


def _start(shown: str) -> str:
    return shown[0].upper() + shown[1:]
