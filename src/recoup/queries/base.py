"""What every query is: a frozen value that knows its contribution, its sensitivities and its JSON.

The curator sums `contribution` over real records; inference evaluates the same function on latent ones. One statistic,
two readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recoup.domain import GRID, Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.kernels.fixed_point import DROPPED

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Records = NDArray[np.int32]

MAX_SIZE = 2**20  # values in one answer: a public cap, so that noise for every cell stays affordable
_BLOCK_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of the answer that shares one part of the budget.

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


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far one record, added or removed, can move each block of an answer."""

    blocks: tuple[Block, ...]

    @property
    def size(self) -> int:
        """Values in the whole answer."""
        return sum(block.size for block in self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """The blocks' names, in the order of the answer."""
        return tuple(block.name for block in self.blocks)


@runtime_checkable
class Query(Protocol):
    """A bounded per-record map whose sum over records is asked for."""

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
        """The sum over records of trunc(contribution * factors), exact."""

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""


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
    rows = None
    # Its message, and its traceback, may hold a record: what is raised in a handler would keep them.
    with suppress(Exception):
        rows = query.contribution(x)
    if rows is None:
        raise ParameterError(
            f"the contribution of the query {query.type_name!r} fails; recoup.testing.check_query may show where."
        )
    if np.shape(rows) != (len(x), query.size):
        raise ParameterError(f"the contribution of the query {query.type_name!r} must be {query.size} values a record.")
    return rows


def _whole(values: Array) -> Integers:
    whole: Integers = np.clip(np.nan_to_num(np.trunc(values)), -GRID, GRID).astype(np.int64)
    return whole


def rows_in_blocks(query: Query, points: Array) -> Array | csr_array:
    """A query's contributions on many points, evaluated a block of points at a time: no large temporaries."""
    if len(points) <= _BLOCK_ROWS:
        return query.contribution(points)
    first = query.contribution(points[:_BLOCK_ROWS])
    if not isinstance(first, np.ndarray):
        return query.contribution(points)
    rows = np.empty((len(points), query.size))
    rows[:_BLOCK_ROWS] = first
    for start in range(_BLOCK_ROWS, len(points), _BLOCK_ROWS):
        rows[start : start + _BLOCK_ROWS] = query.contribution(points[start : start + _BLOCK_ROWS])
    return rows


def sum_parts(parts: Sequence[Integers]) -> Integers:
    """Add up the totals of several ranges of records, exactly."""
    total = np.zeros_like(parts[0])
    for part in parts:
        total += part
    return total


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
    if (
        not isinstance(items, list)
        or array.ndim != ndim
        or array.dtype.kind not in "if"
        or not np.isfinite(array).all()
    ):
        raise TranscriptFormatError(f"query field {name!r} must be a {ndim}-dimensional array of finite numbers.")
    return array.astype(np.float64)
