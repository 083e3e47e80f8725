"""Tables with persons, and the plain twin of what is kept of each: loops, Python's integers, no hash table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from recoup.curator.persons import PersonSource, PersonTerms
from recoup.curator.source import fixed_records
from recoup.curator.tables.table import Columns
from recoup.domain import Box, Domain, L1Ball, L2Ball
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.mixed import Mixed
from recoup.schema import Category, Number, Schema

KEY = "000102030405060708090a0b0c0d0e0f"
MEAN = PersonTerms(1, None)

SCHEMA = Schema(
    {
        "ward": Category(["a", "b", "c"], other=True, weight=0.5),
        "age": Number(0, 100),
        "lab": Number(1, 1000, scale="log", missing="own", weight=0.7),
        "sex": Category(["F", "M"], missing="F"),
        "stage": Category(["I", "II", "III"], ordered=True),
        "fee": Number(-2, 2, missing=0.5, weight=0.1),
    }
)
DOMAINS: dict[str, Domain] = {
    "box": Box([-1, -2, 0], [1, 2, 3]),
    "l1": L1Ball([-1, -2, 0], [1, 2, 3]),
    "l2": L2Ball([-1, -2, 0], [1, 2, 3], radius=0.8),
    "mixed": Mixed(schema=SCHEMA),
}


def sample(n_kept: int, key: str = KEY) -> PersonTerms:
    """Terms that keep so many records of each person."""
    return PersonTerms(n_kept, key)


def cells(domain: Domain) -> list[list[float]]:
    """For each declared column the cells worth trying: ends, far outside, off the grid, missing, undeclared."""
    if not isinstance(domain, Mixed):
        ends = zip(domain.low, domain.high, strict=True)
        return [[a, b, (a + b) / 2, a + (b - a) / 3, b - (b - a) / 7, 1e300, -1e300, np.nan, np.inf] for a, b in ends]
    found = []
    for part in domain.parts:
        if isinstance(part.column, Category):
            found.append([*range(len(part.column.values) + 1), np.nan])
        else:
            a, b = part.bounds[0]
            found.append([a, b, (a + b) / 2, a + (b - a) / 3, 1e300, -1e300, np.nan, np.inf])
    return found


class Visits:
    """A table in memory with a column of persons, cut into blocks anywhere; its rows come by row or by column."""

    columns, csv_dialect = None, None

    def __init__(self, rows: Any, persons: Any, cuts: Any = (), *, by_column: bool = False) -> None:
        self._rows, self._keys = np.asarray(rows, dtype=np.float64), as_keys(persons)
        self._edges, self._by_column, self.n_read = [0, *sorted(cuts), len(self._rows)], by_column, 0
        self.n_columns, self.person_type = self._rows.shape[1], self._keys.type

    def person_blocks(self, block_rows: int = 0) -> Iterator[tuple[Any, Any]]:
        self.n_read += 1
        for start, stop in pairwise(self._edges):
            rows = np.ascontiguousarray(self._rows[start:stop])
            yield (Columns(tuple(rows.T), len(rows)) if self._by_column else rows), self._keys[start:stop]


def as_keys(persons: Any) -> Any:
    """Identifiers as readers hand them over: integers, text, or the bits of floats; none is null."""
    if isinstance(persons, pa.Array):
        return persons
    some = next((person for person in persons if person is not None), 0)
    if isinstance(some, float):
        bits = [None if p is None else int((np.float64(p) + 0.0).view(np.int64)) for p in persons]
        return pa.array(bits, type=pa.int64())
    return pa.array(list(persons), type=pa.large_string() if isinstance(some, str) else pa.int64())


def source(visits: Visits, domain: Domain, terms: PersonTerms, **options: Any) -> PersonSource:
    """The rows that persons contribute."""
    return PersonSource(visits, domain, terms, **options)  # type: ignore[arg-type]


def kept_rows(visits: Visits, domain: Domain, terms: PersonTerms) -> list[tuple[int, ...]]:
    """The records that are not dropped, in an order of their own."""
    return sorted(
        tuple(row.tolist()) for block in source(visits, domain, terms).records() for row in block if row[0] != DROPPED
    )


def naive_rows(rows: Any, persons: Any, domain: Domain, terms: PersonTerms) -> list[tuple[int, ...]]:
    """What `kept_rows` must give."""
    held: dict[Any, list[tuple[int, ...]]] = {}
    records = fixed_records(np.ascontiguousarray(rows, dtype=np.float64), domain)
    for record, key in zip(records.tolist(), as_keys(persons).to_pylist(), strict=True):
        if key is not None and record[0] != DROPPED:
            held.setdefault(key, []).append(tuple(record))
    if terms.key is None:
        return sorted(naive_mean(own, domain) for own in held.values())
    key_bytes = bytes.fromhex(terms.key)
    found = []
    for key, own in held.items():
        word = siphash(key_bytes, key.encode()) if isinstance(key, str) else key % 2**64
        start = word.to_bytes(8, "little")
        ranked = sorted((_signed(siphash(key_bytes, start + np.array(r, dtype="<i4").tobytes())), r) for r in own)
        found += [record for _, record in ranked[: terms.n_kept]]
    return sorted(found)


def naive_mean(own: list[tuple[int, ...]], domain: Domain) -> tuple[int, ...]:
    """One row of a person's records, in words of the declared columns."""
    if not isinstance(domain, Mixed):
        return tuple(toward_zero(sum(column), len(own)) for column in zip(*own, strict=True))
    row: list[int] = []
    for part in domain.parts:
        values = [record[part.own] for record in own]
        if part.kind in ("number", "steps"):
            row.append(toward_zero(sum(v[0] for v in values), len(values)))
        elif part.kind == "flagged":
            flag = int(part.flag_reach * GRID)
            given = [v[0] for v in values if v[1] == -flag]
            missing = len(values) - len(given)
            row += [0, flag] if missing > len(given) else [toward_zero(sum(given), len(given)), -flag]
        else:
            times = Counter(values)
            # By place: the first of two lies at the negative end, and of more at the coordinate that is not 0.
            places = sorted(times, key=lambda v: v[0] if len(v) == 1 else int(np.argmax(v)))
            row += max(places, key=lambda v: times[v])
    return tuple(row)


def toward_zero(total: int, n: int) -> int:
    """Divide whole numbers toward zero."""
    return -(-total // n) if total < 0 else total // n


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4, from its definition."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    whole = 2**64 - 1

    def turned(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & whole

    def rounds(n: int) -> None:
        for _ in range(n):
            v[0] = (v[0] + v[1]) & whole
            v[2] = (v[2] + v[3]) & whole
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = (turned(v[0], 32) + v[3]) & whole
            v[2] = (v[2] + v[1]) & whole
            v[3], v[1] = turned(v[3], 21) ^ v[0], turned(v[1], 17) ^ v[2]
            v[2] = turned(v[2], 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
