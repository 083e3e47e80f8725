"""Persons on Spark: its own grouping brings the records of a person together, wherever they lie.

Workers turn records into integers, Spark adds them up by person or ranks them by hash, and workers turn what is left of
each person into totals, with the code that does so for a local table. Identifiers never come to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from recoup.curator.persons import PersonTerms, Texts, complete_records, mean_rows, record_hashes, tallied
from recoup.curator.source import sum_of_totals
from recoup.curator.spark import PARTIAL, SparkSource, SparkTable, check_version, in_halves, on_workers
from recoup.curator.tables.wanted import Wanted
from recoup.domain import Domain
from recoup.errors import DataError
from recoup.mixed import Mixed, domain_from_json
from recoup.queries import query_from_json
from recoup.queries.base import Integers, Records

_BATCH_ROWS: Final = 2**14  # of at most 4096 coordinates, so that 32-bit offsets into their bytes suffice
_PERSON: Final = "number long, text binary"  # one of which is null in all records of a table
_LOWEST: Final = np.int64(-(2**31))


class SparkPersonSource(SparkSource):
    """What persons of a Spark DataFrame contribute, which is found anew in every round.

    Guarantees: the totals equal those of the same records in a local table, bit for bit, whatever the partitions and
    however often a task was retried. Nothing else of the records comes to the driver.
    """

    def __init__(self, table: SparkTable, domain: Domain, terms: PersonTerms) -> None:
        if not table.person:
            raise DataError("The table was opened without a column that says whose each record is.")
        super().__init__(table, domain)
        self._terms = terms

    def _partial_totals(self, task: tuple[Any, ...]) -> Any:
        version, _, domain, _ = task
        made = (version, domain, self._terms.key)
        if self._terms.key is not None:
            records = on_workers(self._table.frame, hashed_records, made, f"{_PERSON}, hash long, record binary")
            place = "row_number() over (partition by number, text order by hash, record) as place"
            kept = records.selectExpr("record", place).where(f"place <= {self._terms.n_kept}").select("record")
            return on_workers(kept, totals_of_records, task, PARTIAL)
        names = ["n", *(f"c{j}" for j in range(self._domain.n_columns))]
        schema = ", ".join([_PERSON, *(f"{name} int" for name in names)])
        values = on_workers(self._table.frame, tallied_records, made, schema)
        # A sum that does not fit into 64 bits is null instead of an error, which would tell of it.
        sums = values.groupBy("number", "text").agg(dict.fromkeys(names, "try_sum"))
        return on_workers(sums.select(*(f"`try_sum({name})`" for name in names)), totals_of_means, task, PARTIAL)


# ---- on workers ----


def tallied_records(batches: Iterator[Any], version: str, domain: dict[str, Any], _: str | None) -> Iterator[Any]:
    """Each complete record as its person, a 1 to be counted, and what it adds to the person's sums."""
    limits = domain_from_json(domain)
    for records, person in _complete(batches, version, limits):
        values = tallied(records, limits)
        columns = {"n": pa.array(np.ones(len(values), dtype=np.int32))}
        columns |= {f"c{j}": pa.array(np.ascontiguousarray(values[:, j])) for j in range(values.shape[1])}
        yield pa.RecordBatch.from_pydict(_as_columns(person) | columns)


def hashed_records(batches: Iterator[Any], version: str, domain: dict[str, Any], key: str) -> Iterator[Any]:
    """Each complete record as its person, its hash, and bytes in the order of its coordinates."""
    for records, person in _complete(batches, version, domain_from_json(domain)):
        columns = {"hash": pa.array(record_hashes(records, person, key)), "record": _as_bytes(records)}
        yield pa.RecordBatch.from_pydict(_as_columns(person) | columns)


def totals_of_means(
    batches: Iterator[Any], version: str, query: dict[str, Any], domain: dict[str, Any], factors: list[float]
) -> Iterator[Any]:
    """Totals over the rows of persons, of whom each batch has how many records there are, and their sums."""
    limits = domain_from_json(domain)

    def rows(batch: Any) -> Records:
        # A null is a sum of too many records, whose number says so, too.
        sums = [column.fill_null(0).to_numpy(zero_copy_only=False) for column in batch.columns]
        return mean_rows(np.column_stack(sums), limits)

    return _totals(map(rows, batches), version, query, factors)


def totals_of_records(
    batches: Iterator[Any], version: str, query: dict[str, Any], domain: dict[str, Any], factors: list[float]
) -> Iterator[Any]:
    """Totals over the records that are kept."""
    d = domain_from_json(domain).n_columns
    return _totals((_from_bytes(batch.column(0), d) for batch in batches), version, query, factors)


def _complete(batches: Iterator[Any], version: str, domain: Domain) -> Iterator[tuple[Records, Integers | Texts]]:
    check_version(version)
    wanted = Wanted(schema=domain.schema if isinstance(domain, Mixed) else None, person="person")
    for batch in batches:
        for block in wanted.blocks_of(batch, _BATCH_ROWS):
            yield complete_records(block, block.persons, domain)


def _totals(made: Iterator[Records], version: str, query: dict[str, Any], factors: list[float]) -> Iterator[Any]:
    check_version(version)
    asked, scaled = query_from_json(query), np.array(factors)
    blocks = ((len(records), asked.integer_total(records, scaled)) for records in made)
    yield from in_halves(sum_of_totals(blocks, asked.size))


def _as_columns(person: Integers | Texts) -> dict[str, Any]:
    if isinstance(person, Texts):
        n, buffers = len(person.ends) - 1, [None, pa.py_buffer(person.ends), pa.py_buffer(person.data)]
        texts = pa.Array.from_buffers(pa.large_binary(), n, buffers).cast(pa.binary())
        return {"number": pa.nulls(len(texts), pa.int64()), "text": texts}
    return {"number": pa.array(person), "text": pa.nulls(len(person), pa.binary())}


def _as_bytes(records: Records) -> Any:
    """Records as bytes that Spark puts in the order in which local code puts records."""
    n, d = records.shape
    data = (records - _LOWEST).astype(">u4").tobytes()
    ends = np.arange(n + 1, dtype=np.int32) * np.int32(4 * d)
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(data)])


def _from_bytes(array: Any, d: int) -> Records:
    data = np.frombuffer(b"".join(array.to_pylist()), dtype=">u4").reshape(-1, d)
    return (data.astype(np.int64) + _LOWEST).astype(np.int32)
