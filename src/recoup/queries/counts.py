"""Counts on regular grids: over all columns (`GridQuery`), or several over a few columns each (`HistogramQuery`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recoup.domain import Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.kernels.cells import grid_totals
from recoup.queries import base
from recoup.queries.base import (
    Array,
    Asked,
    Block,
    Integers,
    Partition,
    Query,
    Records,
    RowBlock,
    Sensitivity,
    SimpleQuery,
)
from recoup.queries.cells import as_cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginal:
    """A regular grid over some columns of the unit box; cells are numbered with the last column fastest.

    >>> Marginal(columns=(0,), sides=(4,)).cells(np.array([[-1.0], [0.1], [1.0]]))
    array([0, 2, 3])
    """

    columns: tuple[int, ...]
    sides: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("columns", "sides"):
            object.__setattr__(self, name, tuple(_whole(v, name) for v in getattr(self, name)))
        if not self.columns or len(self.columns) != len(self.sides) or len(set(self.columns)) != len(self.columns):
            raise ParameterError("a marginal names different columns and a number of bins for each.")
        if min(self.columns) < 0 or min(self.sides) < 1:
            raise ParameterError("a marginal's columns start at 0 and it has at least one bin along each.")
        base.check_size(self.size)

    @property
    def size(self) -> int:
        """The number of cells."""
        return prod(self.sides)

    def cells(self, x: Array) -> NDArray[np.int64]:
        """The cell of each point of the unit domain; bins are half open, the last one is closed."""
        cells = np.zeros(len(x), dtype=np.int64)
        for column, side in zip(self.columns, self.sides, strict=True):
            bins = np.floor((x[:, column] + 1.0) * 0.5 * side).astype(np.int64)
            cells = cells * side + np.clip(bins, 0, side - 1)
        return cells

    def centers(self) -> Array:
        """The middle of each cell, (size, number of columns)."""
        axes = [(2.0 * np.arange(side) + 1.0) / side - 1.0 for side in self.sides]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(self.size, len(self.sides))

    def integer_total(self, records: Records, count_factor: int) -> Integers:
        """The sum over records of the factor, by cell."""
        columns, sides = np.array(self.columns), np.array(self.sides)

        def part(start: int, stop: int) -> Integers:
            totals = np.zeros(self.size, dtype=np.int64)
            grid_totals(records[start:stop], columns, sides, count_factor, totals)
            return totals

        return base.sum_over_ranges(part, len(records))


class _CountsQuery(SimpleQuery):
    """What queries share that count the records in the cells of some grids, a record in one cell of each."""

    marginals: tuple[Marginal, ...]

    @property
    def size(self) -> int:
        """Values in the answer."""
        return sum(m.size for m in self.marginals)

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution: as many ones as there are grids."""
        base.check_columns(self, domain)
        return Sensitivity((Block.of_counts("count", self.size, ones=len(self.marginals)),))

    def solver_rows(self, points: Array) -> list[RowBlock]:
        """Its rows on support points: each lies in one cell of every grid."""
        return [Partition(cells=marginal.cells(points), n_cells=marginal.size) for marginal in self.marginals]

    def contribution(self, x: Array) -> Array | csr_array:
        """What each record of the unit domain, (n, d), adds to the answer: dense if small, CSR if large."""
        offsets = np.cumsum([0, *(m.size for m in self.marginals[:-1])])
        cells = np.stack([m.cells(x) + offset for m, offset in zip(self.marginals, offsets, strict=True)], axis=1)
        starts = np.arange(len(x) + 1) * len(self.marginals)
        rows = csr_array((np.ones(cells.size), cells.ravel(), starts), shape=(len(x), self.size))
        return rows if self.size > 64 else rows.toarray()

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), by one fused pass for each grid."""
        return np.concatenate([m.integer_total(records, int(factors[0])) for m in self.marginals])


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramQuery(_CountsQuery):
    """Counts of several marginals at once.

    Args:
        dimension: columns of a record.
        marginals: the grids; a record adds 1 to one cell of each.

    Guarantees: with j marginals a record changes the answer by j in L1 and sqrt(j) in L2.

    >>> HistogramQuery.one_way(dimension=2, bins=4).contribution(np.array([[-1.0, 0.9]]))
    array([[1., 0., 0., 0., 0., 0., 0., 1.]])
    """

    dimension: int
    marginals: tuple[Marginal, ...]

    type_name: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", _whole(self.dimension, "dimension"))
        object.__setattr__(self, "marginals", tuple(self.marginals))
        if not self.marginals or any(max(m.columns) >= self.dimension for m in self.marginals):
            raise ParameterError(f"give at least one marginal over the columns 0 to {self.dimension - 1}.")
        base.check_size(self.size)

    @classmethod
    def one_way(cls, *, dimension: int, bins: int) -> Self:
        """Every column's histogram with so many bins."""
        marginals = tuple(Marginal(columns=(j,), sides=(bins,)) for j in range(dimension))
        return cls(dimension=dimension, marginals=marginals)

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return self.dimension

    def asked(self) -> Asked:
        """A histogram of each column, or joint ones."""
        one_way = all(len(marginal.columns) == 1 for marginal in self.marginals)
        each = f"a histogram of each column, {self.marginals[0].size} bins"
        return Asked("marginals", self.size, each if one_way else f"{len(self.marginals)} joint histograms")

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        marginals = [{"columns": list(m.columns), "sides": list(m.sides)} for m in self.marginals]
        return {"type": self.type_name, "dimension": self.dimension, "marginals": marginals}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        items = value.get("marginals")
        if not isinstance(items, list) or not all(
            isinstance(item, Mapping) and isinstance(item.get("columns"), list) and isinstance(item.get("sides"), list)
            for item in items
        ):
            raise TranscriptFormatError("a histogram's marginals must be a list of columns and sides.")
        marginals = tuple(Marginal(columns=tuple(item["columns"]), sides=tuple(item["sides"])) for item in items)
        return cls(dimension=_whole(value.get("dimension"), "dimension"), marginals=marginals)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridQuery(_CountsQuery):
    """The number of records in each cell of a regular grid over the unit box.

    Args:
        sides: the number of bins along each column.

    Guarantees: a record changes one count by 1.

    >>> GridQuery(sides=(2, 2)).contribution(np.array([[-0.5, 0.5]]))
    array([[0., 1., 0., 0.]])
    """

    sides: tuple[int, ...]

    type_name: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", self.marginal.sides)

    @property
    def marginal(self) -> Marginal:
        """The grid as a marginal over all columns."""
        return Marginal(columns=tuple(range(len(self.sides))), sides=tuple(self.sides))

    @property
    def marginals(self) -> tuple[Marginal, ...]:  # type: ignore[override]
        """Its one grid."""
        return (self.marginal,)

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return len(self.sides)

    def asked(self) -> Asked:
        """Counts on a grid of so many cells."""
        sides = self.sides
        shape = " x ".join(map(str, sides)) if len(sides) <= 3 else f"{sides[0]} bins in each column"
        return Asked("grid", self.size, f"counts on a grid of {shape} cells")

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        return {"type": self.type_name, "sides": list(self.sides)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        sides = value.get("sides")
        if not isinstance(sides, list):
            raise TranscriptFormatError("a grid's sides must be a list of whole numbers.")
        return cls(sides=tuple(sides))


def as_grid(query: Query | None) -> GridQuery | None:
    """The query, if it asks about a grid over all columns; else none."""
    return query if isinstance(query, GridQuery) else None


def marginals_of(query: Query | None) -> tuple[Marginal, ...]:
    """The grids that a query counts on, a histogram's several or a grid's one; none of any other query."""
    return query.marginals if isinstance(query, _CountsQuery) else ()


def counts_in_cells(query: Query) -> bool:
    """Whether a query counts records in cells, around centres or of grids, with or without sums."""
    return as_cells(query) is not None or marginals_of(query) != ()


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -1 <= value <= 2**31:
        raise ParameterError(f"{name} must be whole numbers.")
    return int(value)
