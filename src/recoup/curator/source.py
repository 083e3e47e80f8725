"""Where records come from: one method, `total`, answered exactly.

An in-memory table is turned into fixed-point records once and kept between rounds (4 bytes for each value); a file is
read anew in every round, block by block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from recoup._threads import in_order, over_row_ranges
from recoup.curator.spark import SparkSource, SparkTable
from recoup.curator.tables.open import open_table
from recoup.curator.tables.table import Columns, Table, TableRows
from recoup.domain import Domain
from recoup.errors import DataError
from recoup.kernels.fixed_point import fixed_point_columns, fixed_point_rows
from recoup.queries.base import Array, Integers, Query, Records

_LARGEST_BLOCK = 2**24  # rows; 64-bit totals of a block of 2^30-bounded contributions stay exact
_LARGEST_SUM = 2**32  # rows; so do 64-bit sums of the totals of so many
_CACHED_BYTES = 2**19  # of records that are made and added up before the next ones are made


class Source(Protocol):
    """Records that can be asked for exact totals."""

    def total(self, query: Query, factors: Array) -> list[int]:
        """The exact sum over records of trunc(contribution * factors)."""


class TableSource:
    """Records of an array, a data frame, an Arrow stream or files, clipped to a domain, and kept between rounds or not.

    >>> from recoup.domain import Box
    >>> from recoup.queries.counts import GridQuery
    >>> source = open_source(np.array([[0.1], [0.9], [0.8]]), Box([0], [1]))
    >>> source.total(GridQuery(sides=(2,)), np.full(2, 10.0))
    [10, 20]
    """

    def __init__(self, table: Table, domain: Domain, *, keep: bool) -> None:
        self._table, self._domain, self._keep = table, domain, keep
        self._kept: list[Records] | None = None
        self.csv_dialect = table.csv_dialect

    def total(self, query: Query, factors: Array) -> list[int]:
        """The exact sum over records of trunc(contribution * factors)."""
        total, part, n_added = [0] * query.size, np.zeros(query.size, dtype=np.int64), 0
        for n_records, added in self._totals(query, factors):
            if n_added + n_records > _LARGEST_SUM:
                total, part, n_added = _added(total, part), np.zeros_like(part), 0
            part += added
            n_added += n_records
        return _added(total, part)

    def _totals(self, query: Query, factors: Array) -> Iterator[tuple[int, Integers]]:
        if self._keep:
            return ((len(block), query.integer_total(block, factors)) for block in self.records())
        return in_order(
            lambda block: (len(block), _block_total(block, self._domain, query, factors)), self._table.blocks()
        )

    def records(self) -> Iterator[Records]:
        """The fixed-point records, in blocks of which 64-bit totals are exact, for algorithms that hold records."""
        if self._kept is not None:
            yield from self._kept
            return
        kept = []
        for block in self._table.blocks():
            records = fixed_records(block, self._domain)
            for start in range(0, len(records), _LARGEST_BLOCK):
                yield records[start : start + _LARGEST_BLOCK]
                if self._keep:
                    kept.append(records[start : start + _LARGEST_BLOCK])
        if self._keep:
            self._kept = kept


def _added(total: list[int], part: Integers) -> list[int]:
    # Python's integers: a sum over all records need not fit into 64 bits.
    return [a + b for a, b in zip(total, part.tolist(), strict=True)]


def _block_total(rows: TableRows, domain: Domain, query: Query, factors: Array) -> Integers:
    # Records are made in small parts, which are still in the cache when they are added up.
    convert, n_rows = _converter(rows, domain), max(1, _CACHED_BYTES // (4 * rows.shape[1]))
    records, total = np.empty((min(n_rows, len(rows)), rows.shape[1]), dtype=np.int32), np.zeros(query.size, np.int64)
    for start in range(0, len(rows), n_rows):
        part = records[: min(n_rows, len(rows) - start)]
        convert(start, start + len(part), part)
        total += query.integer_total(part, factors)
    return total


def fixed_records(rows: TableRows, domain: Domain) -> Records:
    """Clamp, scale, project and round rows in the user's units, alike for every layout of them.

    Rows with a value that is not finite are marked as dropped.
    """
    convert, records = _converter(rows, domain), np.empty(rows.shape, dtype=np.int32)
    over_row_ranges(lambda start, stop: convert(start, stop, records[start:stop]), len(rows))
    return records


def _converter(rows: TableRows, domain: Domain) -> Callable[[int, int, Records], None]:
    # Writes the rows from one to before another as records. Kernels write as many columns as they are handed.
    if rows.shape[1] != domain.n_columns:
        raise DataError("The table has other columns than the bounds are declared for.")
    shape, radius = domain.shape()
    low, high = np.array(domain.low), np.array(domain.high)
    if isinstance(rows, np.ndarray) and rows.flags.c_contiguous:
        return lambda start, stop, records: fixed_point_rows(rows[start:stop], low, high, shape, radius, records)
    columns = rows if isinstance(rows, Columns) else Columns(tuple(rows.T), len(rows))
    where, narrow = columns.addresses, columns.narrow

    def convert(start: int, stop: int, records: Records) -> None:
        # The columns must live as long as this function: kernels know no more than where they are.
        assert len(columns) >= stop
        fixed_point_columns(where, narrow, start, stop, low, high, shape, radius, records)

    return convert


def open_source(X: object, domain: Domain, csv_dialect: str = "rfc4180") -> Source:
    """Open whatever a user hands over as records of a domain; its column names, if it has any, select columns."""
    if hasattr(X, "total") and callable(X.total):
        return X
    table = open_table(X, domain.columns, n_columns=domain.n_columns, csv_dialect=csv_dialect)
    return source_of(table, domain, keep=not is_path(X))


def csv_dialect_of(source: Source) -> str | None:
    """How CSV is read from a source; none if it is no CSV."""
    return source.csv_dialect if isinstance(source, TableSource) else None


def source_of(table: Table, domain: Domain, *, keep: bool) -> Source:
    """Records of an opened table: added up here, or by Spark where they are."""
    if isinstance(table, SparkTable):
        return SparkSource(table, domain)
    return TableSource(table, domain, keep=keep)


def is_path(X: object) -> bool:
    """Whether records lie in files, which are read anew in every round instead of being kept in memory."""
    return isinstance(X, str | os.PathLike)
