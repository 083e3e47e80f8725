"""Where records come from: one method, `total`, answered exactly.

An in-memory table is turned into fixed-point records once and kept between rounds (4 bytes a value); a file is read
anew in every round, block by block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recoup.curator.columns import Columns
from recoup.curator.spark import SparkSource, SparkTable
from recoup.curator.tables import Block, Table, open_table
from recoup.domain import Domain
from recoup.kernels.fixed_point import fixed_point_rows
from recoup.kernels.fixed_point_columns import fixed_point_columns
from recoup.kernels.threads import over_row_ranges
from recoup.queries.base import Array, Query

_LARGEST_BLOCK = 2**24  # rows; 64-bit totals of a block of 2^30-bounded contributions stay exact
_LARGEST_SUM = 2**32  # rows; so do 64-bit sums of the totals of so many


class Source(Protocol):
    """Records that can be asked for exact totals."""

    def total(self, query: Query, factors: Array) -> list[int]:
        """The exact sum over records of trunc(contribution * factors)."""


class TableSource:
    """Records of an array, a data frame, an Arrow stream or files.

    Args:
        table: the opened table.
        domain: where its records are clipped to.
        keep: keep the fixed-point records in memory between rounds.

    >>> from recoup.domain import Box
    >>> from recoup.queries.grid import GridQuery
    >>> source = open_source(np.array([[0.1], [0.9], [0.8]]), Box([0], [1]))
    >>> source.total(GridQuery(sides=(2,)), np.full(2, 10.0))
    [10, 20]
    """

    def __init__(self, table: Table, domain: Domain, *, keep: bool) -> None:
        self._table, self._domain, self._keep = table, domain, keep
        self._kept: list[NDArray[np.int32]] | None = None

    def total(self, query: Query, factors: Array) -> list[int]:
        """The exact sum over records of trunc(contribution * factors)."""
        total, part, n_added = [0] * query.size, np.zeros(query.size, dtype=np.int64), 0
        for records in self.records():
            for start in range(0, len(records), _LARGEST_BLOCK):
                block = records[start : start + _LARGEST_BLOCK]
                if n_added + len(block) > _LARGEST_SUM:
                    total, part, n_added = _added(total, part), np.zeros_like(part), 0
                part += query.integer_total(block, factors)
                n_added += len(block)
        return _added(total, part)

    def records(self) -> Iterator[NDArray[np.int32]]:
        """The fixed-point records, block by block: for algorithms that hold records instead of asking for totals."""
        if self._kept is not None:
            yield from self._kept
            return
        kept = []
        for block in self._table.blocks():
            records = fixed_records(block, self._domain)
            if self._keep:
                kept.append(records)
            yield records
        if self._keep:
            self._kept = kept


def _added(total: list[int], part: NDArray[np.int64]) -> list[int]:
    # Python's integers: a sum over all records need not fit into 64 bits.
    return [a + b for a, b in zip(total, part.tolist(), strict=True)]


def fixed_records(rows: Block, domain: Domain) -> NDArray[np.int32]:
    """Clamp, scale, project and round rows in the user's units; rows with a non-finite value are marked as dropped.

    Args:
        rows: an array that is contiguous by row or by column, or columns.
        domain: where they are clipped to.

    Returns:
        One fixed-point record a row, the same for every layout.
    """
    shape, radius = domain.shape()
    low, high = np.array(domain.low), np.array(domain.high)
    records = np.empty(rows.shape, dtype=np.int32)
    if isinstance(rows, np.ndarray) and rows.flags.c_contiguous:
        over_row_ranges(lambda a, b: fixed_point_rows(rows[a:b], low, high, shape, radius, records[a:b]), len(rows))
        return records
    # Kept in a variable until the kernels are done: they know no more than addresses.
    columns = rows if isinstance(rows, Columns) else Columns(tuple(rows.T), len(rows))
    where, narrow = columns.addresses, columns.narrow
    over_row_ranges(lambda a, b: fixed_point_columns(where, narrow, a, b, low, high, shape, radius, records), len(rows))
    return records


def open_source(X: object, domain: Domain) -> Source:
    """Open whatever a user hands over as records of a domain; its column names, if it has any, select columns."""
    if hasattr(X, "total") and callable(X.total):
        return X
    table = open_table(X, domain.columns, n_columns=domain.n_columns)
    return source_of(table, domain, keep=not is_path(X))


def source_of(table: Table, domain: Domain, *, keep: bool) -> Source:
    """Records of an opened table: added up here, or by Spark where they are."""
    if isinstance(table, SparkTable):
        return SparkSource(table, domain)
    return TableSource(table, domain, keep=keep)


def is_path(X: object) -> bool:
    """Whether records lie in files, which are read anew in every round instead of being kept in memory."""
    return isinstance(X, str | os.PathLike)
