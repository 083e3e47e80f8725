"""Which columns of a table are read and as what: numbers, declared categories, and whose a record is.

Every reader hands its columns to the rules here, so that a cell is read alike wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from recoup.curator.tables.categories import Codes
from recoup.curator.tables.keys import Keys, key_type
from recoup.curator.tables.rules import NUMBERS, Rule
from recoup.curator.tables.table import Columns, OpenTable, TableRows, select, shown_column
from recoup.schema import Category, Schema


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns to read, in their order, then one that says whose a record is, if it is named.

    Args:
        columns: their names; None: all but the person's.
        schema: what they are; None: numbers.
        person: the name of one more column, or of one of them, which is then read twice.
    """

    columns: tuple[str, ...] | None = None
    schema: Schema | None = None
    person: str | None = None
    _rules: tuple[Rule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        declared = () if self.schema is None else self.schema.values()
        rules = tuple(Codes(column) if isinstance(column, Category) else NUMBERS for column in declared)
        object.__setattr__(self, "_rules", rules)
        if self.schema is not None:
            object.__setattr__(self, "columns", tuple(self.schema))

    @property
    def names(self) -> tuple[str, ...] | None:
        """All names that are declared, the person's last; none if not all are."""
        own = () if self.person is None else (self.person,)
        return None if self.columns is None else (*self.columns, *own)

    @property
    def only_numbers(self) -> bool:
        """Whether nothing but numbers is read."""
        return self.person is None and all(rule is NUMBERS for rule in self._rules)

    def select(self, names: Sequence[str], *, hint: str, where: str = "") -> list[int]:
        """Find the places of the columns that are read, the person's last; see `table.select`."""
        if self.names is not None or self.person is None:
            return select(names, self.names, hint=hint, where=where)
        (person,) = select(names, (self.person,), hint=hint, where=where)
        select([name for name in names if name != self.person], None, hint=hint, where=where)
        return [*(position for position in range(len(names)) if position != person), person]

    def rules(self, n_selected: int) -> list[Rule]:
        """How each of so many selected columns is read."""
        n_columns = n_selected - (self.person is not None)
        person: list[Rule] = [] if self.person is None else [Keys()]
        return [*(self._rules or [NUMBERS] * n_columns), *person]

    def shown(self, names: Sequence[str], position: int) -> str:
        """A selected column for a message: by its name if the user declared that, else by its number."""
        declared = self.columns is not None or names[position] == self.person
        return shown_column(names, position, names if declared else None)

    def check(self, names: Sequence[str], positions: Sequence[int], kinds: Sequence[Any], where: str = "") -> None:
        """Refuse Arrow types of selected columns that cannot be read as declared; `where` names their file."""
        for rule, position, kind in zip(self.rules(len(positions)), positions, kinds, strict=True):
            rule.check(self.shown(names, position), kind, str(kind), where)

    def block(self, made: Sequence[Any], n_rows: int) -> Columns:
        """Put what the rules made of the selected columns together."""
        if self.person is None:
            return Columns(tuple(made), n_rows)
        return Columns(tuple(made[:-1]), n_rows, made[-1])

    def table(
        self,
        names: Sequence[str],
        positions: Sequence[int],
        read: Callable[[int], Iterator[TableRows]],
        kinds: Sequence[Any],
    ) -> OpenTable:
        """The table of selected columns, of these Arrow types, that a function reads in blocks."""
        n_columns = len(positions) - (self.person is not None)
        selected = tuple(names[position] for position in positions[:n_columns])
        return OpenTable(selected, n_columns, read, person_type=None if self.person is None else key_type(kinds[-1]))

    def columns_of(self, batch: Any) -> Columns:
        """Turn an Arrow batch of the selected columns, in their order, into a block; other types are refused.

        Guarantees: those of the rules. A null is missing.
        """
        self.check(batch.schema.names, range(batch.num_columns), batch.schema.types)
        rules = self.rules(batch.num_columns)
        made = [rule.of_arrow(array) for rule, array in zip(rules, batch.columns, strict=True)]
        return self.block(made, batch.num_rows)

    def blocks_of(self, batch: Any, block_rows: int) -> Iterator[Columns]:
        """Yield such a batch as blocks of at most so many rows."""
        for start in range(0, batch.num_rows, block_rows):
            yield self.columns_of(batch.slice(start, block_rows))
