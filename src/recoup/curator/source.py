"""Where records come from: one method, `total`, answered exactly.

An in-memory table is turned into fixed-point records once and kept between rounds (4 bytes for each value); a file or a
table of a database is read anew in every round, block by block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recoup._threads import in_order, over_row_ranges
from recoup.curator.spark import SparkSource, SparkTable
from recoup.curator.tables.database import is_database
from recoup.curator.tables.open import open_table
from recoup.curator.tables.table import Columns, OpenTable, TableRows
from recoup.domain import Domain
from recoup.errors import DataError, ParameterError
from recoup.kernels.fixed_point import fixed_point_columns, fixed_point_rows
from recoup.mixed import Mixed
from recoup.privacy.statement import PerPerson
from recoup.queries.base import Array, Integers, Query, Records

if TYPE_CHECKING:  # workers of Spark read records without it
    from recoup.transcript.context import Context


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

    def __init__(self, table: OpenTable, domain: Domain, *, keep: bool) -> None:
        self._table, self._domain, self._keep = table, domain, keep
        self._kept: list[Records] | None = None
        self.csv_dialect = table.csv_dialect

    def total(self, query: Query, factors: Array) -> list[int]:
        """The exact sum over records of trunc(contribution * factors)."""
        return sum_of_totals(self._totals(query, factors), query.size)

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
        for records in self._made():
            for start in range(0, len(records), _LARGEST_BLOCK):
                yield records[start : start + _LARGEST_BLOCK]
                if self._keep:
                    kept.append(records[start : start + _LARGEST_BLOCK])
        if self._keep:
            self._kept = kept

    def _made(self) -> Iterator[Records]:
        return (fixed_records(block, self._domain) for block in self._table.blocks())


def sum_of_totals(totals: Iterator[tuple[int, Integers]], size: int) -> list[int]:
    """Add up the totals of blocks, each with how many records it has, exactly."""
    total, part, n_added = [0] * size, np.zeros(size, dtype=np.int64), 0
    for n_records, added in totals:
        if n_added + n_records > _LARGEST_SUM:
            total, part, n_added = _added(total, part), np.zeros_like(part), 0
        part += added
        n_added += n_records
    return _added(total, part)


def _added(total: list[int], part: Integers) -> list[int]:
    # Python's integers: a sum over all records need not fit into 64 bits.
    return [a + b for a, b in zip(total, part.tolist(), strict=True)]


def _block_total(rows: TableRows, domain: Domain, query: Query, factors: Array) -> Integers:
    # Records are made in small parts, which are still in the cache when they are added up.
    convert, d = _converter(rows, domain), domain.n_columns
    n_rows = max(1, _CACHED_BYTES // (4 * d))
    records, total = np.empty((min(n_rows, len(rows)), d), dtype=np.int32), np.zeros(query.size, np.int64)
    for start in range(0, len(rows), n_rows):
        part = records[: min(n_rows, len(rows) - start)]
        convert(start, start + len(part), part)
        total += query.integer_total(part, factors)
    return total


def fixed_records(rows: TableRows, domain: Domain) -> Records:
    """Clamp, scale, project and round rows in the user's units, alike for every layout of them.

    Rows with a value that is not finite are marked as dropped.
    """
    convert, records = _converter(rows, domain), np.empty((len(rows), domain.n_columns), dtype=np.int32)
    over_row_ranges(lambda start, stop: convert(start, stop, records[start:stop]), len(rows))
    return records


def _converter(rows: TableRows, domain: Domain) -> Callable[[int, int, Records], None]:
    # Writes the rows from one to before another as records. Kernels write as many columns as they are handed.
    if rows.shape[1] != domain.n_declared:
        raise DataError("The table has other columns than the bounds are declared for.")
    if isinstance(domain, Mixed):
        return _mixed_converter(rows, domain)
    shape, ball = domain.shape()
    radius = ball if shape else None
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


def _mixed_converter(rows: TableRows, domain: Mixed) -> Callable[[int, int, Records], None]:
    columns = rows.arrays if isinstance(rows, Columns) else tuple(rows.T)

    def convert(start: int, stop: int, records: Records) -> None:
        with np.errstate(all="ignore"):  # a warning would tell of a value
            records[:] = domain.fixed_records([column[start:stop] for column in columns])

    return convert


def open_source(
    X: object,
    domain: Domain,
    csv_dialect: str = "rfc4180",
    *,
    person: str | None = None,
    per_person: PerPerson | None = None,
    records_per_person: int = 1,
    key: str | None = None,
) -> Source:
    """Open whatever a user hands over as records of a domain; its column names, if it has any, select columns.

    Where a column names persons, the records are those that each of them contributes. A table that is opened already
    has its columns selected, that of persons too.
    """
    if hasattr(X, "total") and callable(X.total):
        if person is not None:
            raise ParameterError("a source that only answers totals does not say who holds what: leave out person.")
        return X
    table = X if isinstance(X, OpenTable) else _open_declared(X, domain, csv_dialect, person)
    if person is None:
        return source_of(table, domain, keep=not is_stored(X))
    from recoup.curator.persons import person_source

    how = per_person or "mean"
    return person_source(table, domain, per_person=how, records_per_person=records_per_person, key=key)


def _open_declared(X: object, domain: Domain, csv_dialect: str, person: str | None) -> OpenTable:
    check_named(person, domain.table_columns)
    return open_table(
        X,
        domain.table_columns,
        n_columns=domain.n_declared,
        csv_dialect=csv_dialect,
        schema=domain.schema if isinstance(domain, Mixed) else None,
        person=person,
    )


def check_named(person: str | None, columns: object) -> None:
    """Refuse a column of persons beside columns without names, of which it would be one."""
    if person is not None and columns is None:
        raise ParameterError(
            "persons are named by a column, so the others are declared by name, too: give bounds as {column: (low, "
            "high)}, or a Schema."
        )


def source_on_terms(X: object, context: Context, csv_dialect: str) -> Source:
    """Open whatever a user hands over on the terms of a release."""
    return open_source(
        X,
        context.domain,
        csv_dialect,
        person=context.person,
        per_person=context.per_person,
        records_per_person=context.records_per_person,
        key=context.sample_key,
    )


def csv_dialect_of(source: Source) -> str | None:
    """How CSV is read from a source; none if it is no CSV."""
    return getattr(source, "csv_dialect", None)


def source_of(table: OpenTable, domain: Domain, *, keep: bool) -> Source:
    """Records of an opened table: added up here, or by Spark where they are."""
    if isinstance(table, SparkTable):
        return SparkSource(table, domain)
    return TableSource(table, domain, keep=keep)


def is_stored(X: object) -> bool:
    """Whether records lie in files or a database, which are read anew in every round instead of kept in memory."""
    return isinstance(X, str | os.PathLike) or is_database(X)
