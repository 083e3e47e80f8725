"""What a query of your own need not write itself: its JSON, its exact totals, arrays that nothing can change.

A query is a value and travels in transcripts; a base class that derives both from the fields leaves three things to
say: what a record contributes, how large that can be, and how many values there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from recoup.domain import Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.queries.base import Array, Block, Integers, Records, Sensitivity, read_array, sum_of_contributions

_PLAIN = (bool, int, float, str, type(None))


class FieldsAsJson:
    """A frozen dataclass whose JSON is its fields: numbers, text, tuples of those, and arrays of finite numbers.

    Guarantees: arrays are copied and made read-only; what `to_json` writes, `from_json` reads back to the last bit.
    """

    type_name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Keep read-only copies of arrays, and plain numbers for NumPy's; call it first if you write your own."""
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray) and value.ndim > 0:
                value = np.array(value, dtype=np.float64, order="C")
                if value.size == 0 or not np.isfinite(value).all():
                    raise ParameterError(f"{field.name} must hold numbers, all of them finite.")
                value.setflags(write=False)
                object.__setattr__(self, field.name, value)
            elif isinstance(value, np.generic | np.ndarray):
                object.__setattr__(self, field.name, value.item())

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back: the fields, under the type's name."""
        written = {field.name: _written(field.name, getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"type": self.type_name} | written

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a value back; one with other fields than the class has is refused."""
        names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        if set(value) - {"type"} != names:
            raise TranscriptFormatError(f"a {cls.type_name} must have the fields {', '.join(sorted(names))}, no other.")
        return cls(**{name: _read(value, name) for name in names})


class SimpleQuery(FieldsAsJson, ABC):
    """A base for queries of your own, as frozen dataclasses.

    Say `type_name`, `n_columns`, `size`, `sensitivity` and `contribution`; totals and JSON follow.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Squares(SimpleQuery):
    ...     n_columns: int
    ...     type_name = "squares"
    ...     size = property(lambda self: self.n_columns)
    ...     def sensitivity(self, domain):
    ...         return Sensitivity((bounded_block("square", self.size, l1=domain.sum_bound(2) ** 2),))
    ...     def contribution(self, x):
    ...         return x * x
    >>> Squares(2).to_json()
    {'type': 'squares', 'n_columns': 2}
    """

    if TYPE_CHECKING:  # a property here would become the default value of a field of the same name

        @property
        def size(self) -> int:
            """Values in the answer."""

        @property
        def n_columns(self) -> int:
            """Columns that a record must have."""

    @abstractmethod
    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution, by block."""

    @abstractmethod
    def contribution(self, x: Array) -> Array | csr_array:
        """What each record of the unit domain, (n, d), adds to the answer: (n, size)."""

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), exact."""
        return sum_of_contributions(self, records, factors)


def bounded_block(
    name: str, size: int, *, l1: ArrayLike, l2: ArrayLike | None = None, total: float | None = None
) -> Block:
    """A block of real values with one bound for all of them, or one for each.

    Args:
        name: what the budget split calls it.
        size: how many values it holds.
        l1: the largest sum of |contribution| of any record; or, for each value, what it is divided by so that the sum
            is at most 1.
        l2: likewise for the square root of the sum of squares; none: the l1 bound, which always holds.
        total: what the values of any record add up to, if that is one number for all.

    Returns:
        The block.

    >>> bounded_block("sum", 2, l1=2.0, l2=1.5).l2
    array([1.5, 1.5])
    """
    wide = np.array(np.broadcast_to(np.asarray(l1, dtype=np.float64), (size,)))
    narrow = wide if l2 is None else np.array(np.broadcast_to(np.asarray(l2, dtype=np.float64), (size,)))
    return Block(name=name, size=size, l1=wide, l2=narrow, total=total)


def _written(name: str, value: object) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return {"tuple": [_written(name, item) for item in value]}
    if isinstance(value, _PLAIN):
        return value
    raise ParameterError(
        f"{name} is a {type(value).__name__}, which has no JSON here: use numbers, text, tuples or arrays, or write "
        "to_json and from_json yourself."
    )


def _read(value: Mapping[str, Any], name: str) -> Any:
    item = value[name]
    if isinstance(item, list):
        depth, inner = 0, item
        while isinstance(inner, list) and inner:
            depth, inner = depth + 1, inner[0]
        return read_array(value, name, depth)
    if isinstance(item, Mapping):
        if set(item) != {"tuple"} or not isinstance(item["tuple"], list):
            raise TranscriptFormatError(f"field {name!r} must be a number, text, a tuple or an array.")
        return tuple(_read({name: part}, name) for part in item["tuple"])
    return item
