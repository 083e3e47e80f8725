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
from recoup.kernels import GRID
from recoup.kernels.cells import grid_totals
from recoup.kernels.fixed_point import DROPPED
from recoup.mixed import Mixed
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
from recoup.schema import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginal:
    """A regular grid over some columns of the unit box; cells are numbered with the last column fastest.

    Along each column it goes from minus its reach to its reach; no record lies farther out.

    >>> Marginal(columns=(0,), sides=(4,)).cells(np.array([[-1.0], [0.1], [1.0]]))
    array([0, 2, 3])
    """

    columns: tuple[int, ...]
    sides: tuple[int, ...]
    reach: float = 1.0

    def __post_init__(self) -> None:
        _keep_reach(self)
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
            inside = x[:, column] if self.reach == 1.0 else x[:, column] / self.reach
            bins = np.floor((inside + 1.0) * 0.5 * side).astype(np.int64)
            cells = cells * side + np.clip(bins, 0, side - 1)
        return cells

    def centers(self) -> Array:
        """The middle of each cell, (size, number of columns)."""
        axes = [self.reach * ((2.0 * np.arange(side) + 1.0) / side - 1.0) for side in self.sides]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(self.size, len(self.sides))

    def drawn(self, cells: Integers, rng: np.random.Generator) -> Array:
        """A random point in each of some cells, (n, number of columns)."""
        corner = np.stack(np.unravel_index(cells, self.sides), axis=1)
        return np.asarray(self.reach * ((corner + rng.random(corner.shape)) / np.array(self.sides) * 2.0 - 1.0))

    def integer_total(self, records: Records, count_factor: int) -> Integers:
        """The sum over records of the factor, by cell."""
        if self.reach != 1.0:
            return _counted(self, records, count_factor)
        columns, sides = np.array(self.columns), np.array(self.sides)

        def part(start: int, stop: int) -> Integers:
            totals = np.zeros(self.size, dtype=np.int64)
            grid_totals(records[start:stop], columns, sides, count_factor, totals)
            return totals

        return base.sum_over_ranges(part, len(records))


@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """The values of a declared category as cells, for counting: a record is in exactly one of them.

    Args:
        columns: its coordinates: one, at equal steps from minus the reach to the reach; or one for each value.
        levels: how many values there are.
        reach: the largest coordinate of a record.

    >>> Categories(columns=(0, 1, 2), levels=3, reach=0.5).cells(np.array([[0.0, 0.5, 0.0]]))
    array([1])
    """

    columns: tuple[int, ...]
    levels: int
    reach: float

    def __post_init__(self) -> None:
        _keep_reach(self)
        object.__setattr__(self, "columns", tuple(_whole(v, "columns") for v in self.columns))
        object.__setattr__(self, "levels", _whole(self.levels, "levels"))
        if not self.columns or min(self.columns) < 0 or len(set(self.columns)) != len(self.columns):
            raise ParameterError("categories name different columns, from 0 on.")
        if self.levels < 2 or len(self.columns) not in (1, self.levels):
            raise ParameterError("categories have at least two levels, and one column, or one for each.")
        base.check_size(self.levels)

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.levels

    def cells(self, x: Array) -> NDArray[np.int64]:
        """The cell of each point of the unit domain: the nearest value, or the one with the largest share."""
        if len(self.columns) > 1:
            return np.asarray(np.argmax(x[:, list(self.columns)], axis=1), dtype=np.int64)
        steps = (x[:, self.columns[0]] / self.reach + 1.0) * 0.5 * (self.levels - 1)
        return np.clip(np.floor(steps + 0.5), 0, self.levels - 1).astype(np.int64)

    def centers(self) -> Array:
        """The point of each value, (size, number of columns)."""
        return self._points(np.arange(self.levels))

    def drawn(self, cells: Integers, rng: np.random.Generator) -> Array:
        """The point of each of some values, (n, number of columns)."""
        return self._points(cells)

    def _points(self, cells: Integers) -> Array:
        if len(self.columns) > 1:
            return np.where(cells[:, None] == np.arange(self.levels), self.reach, 0.0)
        return np.asarray(self.reach * (2.0 * cells[:, None] / (self.levels - 1) - 1.0))

    def integer_total(self, records: Records, count_factor: int) -> Integers:
        """The sum over records of the factor, by cell."""
        return _counted(self, records, count_factor)


def _counted(cells: Marginal | Categories, records: Records, count_factor: int) -> Integers:
    def part(start: int, stop: int) -> Integers:
        kept = records[start:stop]
        kept = kept[kept[:, 0] != DROPPED]
        return np.bincount(cells.cells(kept / GRID), minlength=cells.size) * count_factor

    return base.sum_over_ranges(part, len(records))


def marginals_of_domain(domain: Domain, bins: int) -> tuple[Marginal | Categories, ...]:
    """Every declared column by itself: numbers in so many bins, categories by their values.

    >>> from recoup.domain import Box
    >>> [m.size for m in marginals_of_domain(Box([0, 0], [1, 1]), 8)]
    [8, 8]
    """
    if not isinstance(domain, Mixed):
        return tuple(Marginal(columns=(j,), sides=(bins,)) for j in range(domain.n_columns))
    marginals: list[Marginal | Categories] = []
    for part in domain.parts:
        columns = tuple(range(part.first, part.first + part.size))
        if isinstance(part.column, Category):
            marginals.append(Categories(columns=columns, levels=len(part.column.all_values), reach=part.reach))
            continue
        marginals.append(Marginal(columns=columns[:1], sides=(bins,), reach=part.reach))
        if part.kind == "flagged":
            marginals.append(Categories(columns=columns[1:], levels=2, reach=part.flag_reach))
    return tuple(marginals)


class _CountsQuery(SimpleQuery):
    """What queries share that count the records in the cells of some grids, a record in one cell of each."""

    marginals: tuple[Marginal | Categories, ...]

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
    marginals: tuple[Marginal | Categories, ...]

    type_name: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", _whole(self.dimension, "dimension"))
        object.__setattr__(self, "marginals", tuple(self.marginals))
        if not self.marginals or any(max(m.columns) >= self.dimension for m in self.marginals):
            raise ParameterError(f"give at least one marginal over the columns 0 to {self.dimension - 1}.")
        base.check_size(self.size)

    @classmethod
    def one_way(cls, *, dimension: int, bins: int) -> Self:
        """Every column's histogram with this many bins."""
        marginals = tuple(Marginal(columns=(j,), sides=(bins,)) for j in range(dimension))
        return cls(dimension=dimension, marginals=marginals)

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return self.dimension

    def asked(self) -> Asked:
        """A histogram of each column, or joint ones."""
        one_way = all(isinstance(m, Categories) or len(m.columns) == 1 for m in self.marginals)
        bins = max((m.size for m in self.marginals if isinstance(m, Marginal)), default=0)
        each = f"a histogram of each column, {bins} bins" if bins else "the categories of each column"
        return Asked("marginals", self.size, each if one_way else f"{len(self.marginals)} joint histograms")

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        marginals = [_written(marginal) for marginal in self.marginals]
        return {"type": self.type_name, "dimension": self.dimension, "marginals": marginals}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        items = value.get("marginals")
        if not isinstance(items, list) or not all(
            isinstance(item, Mapping)
            and isinstance(item.get("columns"), list)
            and (isinstance(item.get("sides"), list) or "levels" in item)
            for item in items
        ):
            raise TranscriptFormatError("a histogram's marginals must be a list of columns and sides, or levels.")
        marginals = tuple(map(_read, items))
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


def _written(marginal: Marginal | Categories) -> dict[str, Any]:
    columns: dict[str, Any] = {"columns": list(marginal.columns)}
    if isinstance(marginal, Categories):
        return columns | {"levels": marginal.levels, "reach": marginal.reach}
    return columns | {"sides": list(marginal.sides)} | ({} if marginal.reach == 1.0 else {"reach": marginal.reach})


def _read(item: Mapping[str, Any]) -> Marginal | Categories:
    columns, reach = tuple(item["columns"]), item.get("reach", 1.0)
    if "levels" in item:
        return Categories(columns=columns, levels=item["levels"], reach=reach)
    return Marginal(columns=columns, sides=tuple(item["sides"]), reach=reach)


def marginals_of(query: Query | None) -> tuple[Marginal | Categories, ...]:
    """The grids that a query counts on, a histogram's several or a grid's one; none of any other query."""
    return query.marginals if isinstance(query, _CountsQuery) else ()


def counts_in_cells(query: Query) -> bool:
    """Whether a query counts records in cells, around centres or of grids, with or without sums."""
    return as_cells(query) is not None or marginals_of(query) != ()


def _keep_reach(marginal: Marginal | Categories) -> None:
    reach = marginal.reach
    if isinstance(reach, bool) or not isinstance(reach, int | float) or not 2.0**-30 <= reach <= 1.0:
        raise ParameterError("reach must be a number above 0 and at most 1.")
    object.__setattr__(marginal, "reach", float(reach))


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -1 <= value <= 2**31:
        raise ParameterError(f"{name} must be whole numbers.")
    return int(value)
