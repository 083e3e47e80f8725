"""What every query is: a frozen value that knows its contribution, its sensitivities and its JSON.

The curator sums `contribution` over real records; inference evaluates the same function on latent ones. One statistic,
two readers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from recoup._threads import over_row_ranges
from recoup.domain import Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Records = NDArray[np.int32]

MAX_SIZE = 2**20  # values in one answer: a public cap, so that noise for every cell stays affordable
_BLOCK_ROWS = 4096
_PLAIN = (bool, int, float, str, type(None))  # what JSON keeps as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of the answer with its own share of the budget.

    Attributes:
        name: what the budget split calls it, for example "count".
        size: how many values it holds.
        l1: for each value a positive number such that, for any record, the sum of |contribution| / l1 is at most 1.
        l2: likewise for the square root of the sum of squares of contribution / l2.
        ones: for a block of counts, how many of its values a record raises by exactly 1; else none.
        total: what the values of any record's contribution add up to, if that is one number for all: then the block's
            answers tell how many records there are. None if it depends on the record.
    """

    name: str
    size: int
    l1: Array
    l2: Array
    ones: int | None = None
    total: float | None = None

    @classmethod
    def of_counts(cls, name: str, size: int, ones: int = 1) -> Self:
        """A block of counts of which every record raises `ones`."""
        l1, l2 = np.full(size, float(ones)), np.full(size, np.sqrt(ones))
        return cls(name=name, size=size, l1=l1, l2=l2, ones=ones, total=float(ones))

    @classmethod
    def of_clipped(cls, name: str, radii: Array, d: int, norm: int) -> Self:
        """A block of vectors of d columns, each clipped to its own radius in a norm; a record moves one, or a mix."""
        l2 = np.repeat(radii, d)
        return cls(name=name, size=len(l2), l1=l2 if norm == 1 else l2 * np.sqrt(d), l2=l2)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far one record, if added or removed, can move each block of an answer."""

    blocks: tuple[Block, ...]

    @property
    def size(self) -> int:
        """Values in the whole answer."""
        return sum(block.size for block in self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """The blocks' names, in the order of the answer."""
        return tuple(block.name for block in self.blocks)

    def parts(self) -> Iterator[tuple[Block, slice]]:
        """Each block with the part of the answer that it is."""
        start = 0
        for block in self.blocks:
            yield block, slice(start, start + block.size)
            start += block.size


class Asked(NamedTuple):
    """What a query asks for, as people are told."""

    kind: str  # "total", "grid", "marginals", "counts", "sums" or "other"
    cells: int  # how many; of other kinds how many values
    words: str


@runtime_checkable
class Query(Protocol):
    """A bounded per-record map whose sum over records is asked for.

    A query may have two more methods, for which there are defaults: `asked()`, what people are told (see `asked_by`),
    and `solver_rows(points)`, its rows in a layout that inference solves fast (see `rows_of`).
    """

    type_name: ClassVar[str]

    @property
    def size(self) -> int:
        """Values in the answer."""

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution, by block."""

    def contribution(self, x: Array) -> Array | csr_array:
        """What each record of the unit domain, (n, d), adds to the answer: (n, size)."""

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), exact; a DROPPED first column adds nothing."""

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""


_Kind = TypeVar("_Kind", bound=Query)


def of_kind(query: Query, kind: type[_Kind], otherwise: str | None = None) -> _Kind:
    """The query as one of a kind; another is refused, with a sentence if one is given."""
    if not isinstance(query, kind):
        raise ParameterError(otherwise or f"a query of type {kind.type_name!r} was expected.")
    return query


def asked_by(query: Query) -> Asked:
    """What a query asks for: its own words, or how many numbers there are."""
    own: Callable[[], Asked] | None = getattr(query, "asked", None)
    return Asked("other", query.size, f"{query.size:,} numbers ({query.type_name})") if own is None else own()


def sum_of_contributions(query: Query, records: Records, factors: Array) -> Integers:
    """Add up trunc(contribution * factors) over fixed-point records in blocks: the definition of every total.

    Guarantees: whatever a query computes, one record moves each value by at most 2^30, a contribution that is not a
    number counts as zero, and an error says nothing of a record.
    """
    total = np.zeros(query.size, dtype=np.int64)
    for start in range(0, len(records), _BLOCK_ROWS):
        block = records[start : start + _BLOCK_ROWS]
        block = block[block[:, 0] != DROPPED]
        if len(block) == 0:
            continue
        with np.errstate(all="ignore"):
            rows = _contribution(query, block / GRID)
            if isinstance(rows, np.ndarray):
                total += _whole(rows * factors).sum(axis=0)
            else:
                np.add.at(total, rows.indices, _whole(rows.data * factors[rows.indices]))
    return total


def _contribution(query: Query, x: Array) -> Array | csr_array:
    rows, what = None, f"the contribution of the query {query.type_name!r}"
    # Its message, and its traceback, may hold a record: what is raised in a handler would keep them.
    with suppress(Exception):
        rows = query.contribution(x)
    if rows is None:
        raise ParameterError(f"{what} fails; recoup.testing.check_query may show where.")
    if np.shape(rows) != (len(x), query.size):
        raise ParameterError(f"{what} must be {query.size} values a record.")
    return rows


def _whole(values: Array) -> Integers:
    whole: Integers = np.clip(np.nan_to_num(np.trunc(values)), -GRID, GRID).astype(np.int64)
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows of a query that puts every support point into one cell: all counts, then all sums, cell by cell.

    Attributes:
        cells: (m,) the cell of every support point.
        n_cells: the number of cells, empty ones included.
        values: (m, d) what each point adds to the sums of its cell, or None for counts alone.
    """

    cells: NDArray[np.integer]
    n_cells: int
    values: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of support points and of rows."""
        return len(self.cells), self.n_cells * (1 if self.values is None else 1 + self.values.shape[1])


# A stretch of a query's rows on m support points; arrays are (m, rows).
RowBlock: TypeAlias = Partition | csr_array | Array


def rows_of(query: Query, points: Array) -> list[RowBlock]:
    """A query's contributions on support points, as rows for the solver: in its own layout, or as they are."""
    own: Callable[[Array], list[RowBlock]] | None = getattr(query, "solver_rows", None)
    return [rows_in_blocks(query, points)] if own is None else own(points)


def rows_in_blocks(query: Query, points: Array) -> Array | csr_array:
    """A query's contributions on many points, evaluated a block of points at a time: no large temporaries."""
    first = query.contribution(points[:_BLOCK_ROWS])
    if len(points) <= _BLOCK_ROWS:
        return first
    if not isinstance(first, np.ndarray):
        return query.contribution(points)
    rows = np.empty((len(points), query.size))
    rows[:_BLOCK_ROWS] = first
    for start in range(_BLOCK_ROWS, len(points), _BLOCK_ROWS):
        rows[start : start + _BLOCK_ROWS] = query.contribution(points[start : start + _BLOCK_ROWS])
    return rows


def sum_over_ranges(part: Callable[[int, int], Integers], n_rows: int) -> Integers:
    """Add up the totals of several ranges of records, one for each thread, exactly."""
    return reduce(np.add, over_row_ranges(part, n_rows))


def keep_numbers(query: Query, name: str, ndim: int, bound: float, otherwise: str) -> Array:
    """Keep a field as a read-only copy that is not empty and within +-bound; anything else is refused."""
    values = np.ascontiguousarray(getattr(query, name), dtype=np.float64).copy()
    if values.ndim != ndim or 0 in values.shape or not (np.abs(values) <= bound).all():
        raise ParameterError(otherwise)
    values.setflags(write=False)
    object.__setattr__(query, name, values)
    return values


def keep_radii(query: Query, name: str, n: int, each: str) -> None:
    """Keep a field as a read-only copy of n numbers from 2^-30 to 2^30; anything else is refused."""
    otherwise = f"{name} must be {n} numbers between 2^-30 and 2^30, one {each}."
    values = keep_numbers(query, name, 1, GRID, otherwise)
    if values.shape != (n,) or not (values >= GRID**-1).all():
        raise ParameterError(otherwise)


def check_norm(norm: object) -> None:
    """Refuse another norm of clipping than that of one of the mechanisms."""
    if isinstance(norm, bool) or norm not in (1, 2):
        raise ParameterError(f"norm={norm!r}: choose 1 (Laplace) or 2 (Gaussian).")


def check_size(size: int) -> None:
    """Refuse an answer larger than the public cap."""
    if not 1 <= size <= MAX_SIZE:
        raise ParameterError(f"a query of {size} values: at most {MAX_SIZE} are allowed, ask for fewer cells.")


def check_columns(query: Query, domain: Domain) -> None:
    """Refuse a query that was made for another number of columns."""
    if query.n_columns != domain.n_columns:
        raise ParameterError(f"a query over {query.n_columns} columns for a domain of {domain.n_columns}.")


def check_sensitivity(query: Query, sensitivity: Sensitivity) -> None:
    """Refuse bounds that noise cannot be calibrated to; a block too few would leave values with the noise of others."""
    check_size(query.size)
    bounds = [(block, bound) for block in sensitivity.blocks for bound in (block.l1, block.l2)]
    if (
        sensitivity.size != query.size
        or len(set(sensitivity.names)) != len(sensitivity.names)
        or any(np.shape(bound) != (block.size,) for block, bound in bounds)
        or not all(((bound > 0) & np.isfinite(bound)).all() for _, bound in bounds)
    ):
        raise ParameterError(
            f"the sensitivity of the query {query.type_name!r} must have blocks of different names that hold its "
            f"{query.size} values, each with a positive finite bound."
        )


def read_array(value: Mapping[str, Any], name: str, ndim: int) -> Array:
    """Read a rectangular array of finite numbers from a field of a JSON value."""
    items = value.get(name)
    try:
        array = np.array(items)
    except (TypeError, ValueError, OverflowError):
        raise TranscriptFormatError(f"query field {name!r} must be an array of numbers.") from None
    # Text that reads as a number is not one.
    numbers = isinstance(items, list) and array.ndim == ndim and array.dtype.kind in "if"
    if not numbers or not np.isfinite(array).all():
        raise TranscriptFormatError(f"query field {name!r} must be a {ndim}-dimensional array of finite numbers.")
    return array.astype(np.float64)


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
    """A base for your own queries, as frozen dataclasses.

    Define `type_name`, `n_columns`, `size`, `sensitivity` and `contribution`; totals and JSON follow.

    >>> from dataclasses import dataclass, fields
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
    """A block of real values with one bound for all of them, or one per value.

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
