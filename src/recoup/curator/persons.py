"""Persons, enforced: of all records of one person, one row or a few, whatever a table holds.

What a person contributes depends on that person's complete records alone, as a set: not on others, nor on order, blocks
or partitions. The mean of records lies in the domain, which is convex, and rounding toward zero does not leave it; so a
person moves a total by no more than one record does, or than as many records as are kept of each.

The table is read once. Memory grows with persons, never with records. Beside a few blocks a person takes, of d
coordinates, up to a quarter more than
- 8 d + 8 bytes for a mean, of which 4 d stay after reading; 4 d + 8 for each record that may be kept, and 8;
- 16 to 24 bytes for an identifier that is a whole number; 24 to 32 and its length for a text. These go after reading.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recoup._threads import in_order
from recoup._validate import choice, whole_number
from recoup.curator.source import Source, TableSource, fixed_records
from recoup.curator.spark import SparkTable
from recoup.curator.tables.table import BLOCK_ROWS, Columns, OpenTable, TableRows
from recoup.domain import Domain
from recoup.errors import DataError, ParameterError
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.kernels.persons import add_by_person, fill_slots, keep_smallest, place_persons, place_texts, siphash
from recoup.mixed import Mixed, Part
from recoup.privacy.statement import PER_PERSON, PerPerson
from recoup.queries.base import Array, Integers, Query, Records

_TOO_MANY: Final = 2**33  # records of one person, who then contributes nothing: their sums may not fit into 64 bits
_PERSONS_AT_ONCE: Final = 2**16  # whose means are computed together
_KEY: Final = re.compile("[0-9a-fA-F]{32}")


def person_source(
    table: OpenTable,
    domain: Domain,
    *,
    per_person: PerPerson,
    records_per_person: int = 1,
    key: str | None = None,
    keep: bool = True,
) -> Source:
    """Records of a table with a column of persons, as few of each as promised.

    Args:
        table: opened with its column of persons.
        domain: where records lie; incomplete ones are dropped before all else.
        per_person: "mean" makes one row of a person: of numbers the mean toward zero, of categories the most frequent,
            of these the first declared; "sample" keeps the records with the smallest keyed hashes.
        records_per_person: how many "sample" keeps at most.
        key: of the hash, 32 hexadecimal digits, drawn once for a run, independently of records; "mean" has no use for
            it.
        keep: whether rows stay in memory between rounds; else the table is read anew.

    Returns:
        The source. Nothing was read.

    Guarantees: a person, whatever records they hold, moves a total by at most what one record can, or what
    `records_per_person` can. A record without an identifier contributes nothing, and so does a person with 2^33
    complete records or more if means are made.

    >>> from recoup.domain import Box
    >>> from recoup.queries.counts import GridQuery
    >>> from recoup.curator.tables.open import open_table
    >>> visits = pa.table({"who": ["Ann", "Bob", "Ann", None], "x": [0.7, 0.1, 0.9, 0.1]})
    >>> table = open_table(visits, ("x",), person="who")
    >>> source = person_source(table, Box([0], [1], ("x",)), per_person="mean")
    >>> source.total(GridQuery(sides=(2,)), np.full(2, 10.0))
    [10, 10]
    """
    terms = PersonTerms.checked(per_person, records_per_person, key)
    if isinstance(table, SparkTable):
        from recoup.curator.spark_persons import SparkPersonSource

        return SparkPersonSource(table, domain, terms)
    return PersonSource(table, domain, terms, keep=keep)


class PersonTerms(NamedTuple):
    """What is kept of a person: one mean if there is no key, else so many records by the hash with that key."""

    n_kept: int
    key: str | None

    @classmethod
    def checked(cls, per_person: PerPerson, records_per_person: int, key: str | None) -> PersonTerms:
        """The terms that a user declares, which are public."""
        choice(per_person, "per_person", PER_PERSON)
        n_kept = whole_number(records_per_person, "records_per_person")
        if per_person == "mean":
            if n_kept != 1:
                raise ParameterError("the mean of a person's records is one row: leave out records_per_person.")
            return cls(1, None)
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ParameterError("the key of a sample is 32 hexadecimal digits.", parameter="key")
        return cls(n_kept, key)


class PersonSource(TableSource):
    """The rows that persons contribute, made when they are first asked for."""

    def __init__(self, table: OpenTable, domain: Domain, terms: PersonTerms, *, keep: bool = True) -> None:
        super().__init__(table, domain, keep=True)
        self._terms, self._forget = terms, not keep

    def total(self, query: Query, factors: Array) -> list[int]:
        """The exact sum over the rows of persons of trunc(contribution * factors)."""
        total = super().total(query, factors)
        if self._forget:
            self._kept = None
        return total

    def _made(self) -> Iterator[Records]:
        yield person_rows(self._table, self._domain, self._terms)


def person_rows(table: OpenTable, domain: Domain, terms: PersonTerms) -> Records:
    """The rows that persons contribute, as fixed-point records, of which some may be marked as dropped."""
    gathered = _Means(domain) if terms.key is None else _Samples(domain.n_columns, terms.n_kept)
    persons = _NamedPersons() if table.person_type == pa.large_string() else _NumberedPersons()
    for block in in_order(lambda part: _complete(*part, domain, terms.key), _parts(table)):
        places = persons.places(block.keys)
        gathered.add(block, places, persons.n_persons)
    n_persons = persons.n_persons
    del persons  # so that its memory is there for the rows
    return gathered.rows(n_persons)


# ---- from a block of a table to complete records with their persons ----


class Texts(NamedTuple):
    """Identifiers of records that are texts, as their bytes, which need not be well formed.

    Attributes:
        data: the bytes.
        ends: (n + 1,) where each text starts, and the last one ends.
    """

    data: NDArray[np.uint8]
    ends: Integers

    @classmethod
    def of(cls, keys: Any) -> Texts:
        """Of an Arrow array of large texts without nulls."""
        if not len(keys):
            return cls(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))
        _, ends, data = keys.buffers()
        own = slice(keys.offset, keys.offset + len(keys) + 1)
        return cls(np.frombuffer(data or b"", dtype=np.uint8), np.frombuffer(ends, dtype=np.int64)[own])

    def hashes(self, halves: NDArray[np.uint64]) -> Integers:
        """SipHash of each text."""
        hashes = np.empty(len(self.ends) - 1, dtype=np.uint64)
        siphash(self.data, self.ends, halves, hashes)
        return hashes.view(np.int64)


class _Block(NamedTuple):
    """Complete records, the identifiers of their persons, and their hashes where some are to be chosen."""

    records: Records
    keys: Integers | Texts
    hashes: Integers | None


def _parts(table: OpenTable) -> Iterator[tuple[TableRows, Any]]:
    # An array may come whole: its records are made in parts, so that they do not take memory beside it.
    for rows, keys in table.person_blocks():
        if keys.type != table.person_type:
            raise DataError("The column of persons has another type in a part of the table, so that it is not read.")
        for start in range(0, len(rows), BLOCK_ROWS):
            own = slice(start, start + BLOCK_ROWS)
            part = rows[own] if isinstance(rows, np.ndarray) else _cut(rows, own)
            yield part, keys[own]


def _cut(rows: Columns, own: slice) -> Columns:
    arrays = tuple(array[own] for array in rows.arrays)
    return Columns(arrays, len(range(*own.indices(len(rows)))))


def _complete(rows: TableRows, keys: Any, domain: Domain, key: str | None) -> _Block:
    records, keys = complete_records(rows, keys, domain)
    return _Block(records, keys, None if key is None else record_hashes(records, keys, key))


def complete_records(rows: TableRows, keys: Any, domain: Domain) -> tuple[Records, Integers | Texts]:
    """The complete records among rows, and the identifiers of their persons, none of which is missing."""
    records = fixed_records(rows, domain)
    used = records[:, 0] != DROPPED
    if keys.null_count:
        used &= keys.is_valid().to_numpy(zero_copy_only=False)
    if not used.all():
        records, keys = records[used], keys.filter(pa.array(used))
    if keys.type == pa.large_string():
        return records, Texts.of(keys)
    if keys.type != pa.int64():
        raise DataError("Identifiers of persons are read as 64-bit integers or as text, and as nothing else.")
    return records, keys.to_numpy()


def record_hashes(records: Records, keys: Integers | Texts, key: str) -> Integers:
    """SipHash of each record after its person: 8 bytes, an integer itself or the hash of a text; then coordinates."""
    halves = np.frombuffer(bytes.fromhex(key), dtype="<u8").astype(np.uint64)
    n, d = records.shape
    persons = keys.hashes(halves) if isinstance(keys, Texts) else keys
    message = np.empty((n, 8 + 4 * d), dtype=np.uint8)
    message[:, :8] = persons.astype(persons.dtype.newbyteorder("<"))[:, None].view(np.uint8)
    message[:, 8:] = np.ascontiguousarray(records, dtype="<i4").view(np.uint8)
    hashes = np.empty(n, dtype=np.uint64)
    siphash(message.reshape(-1), np.arange(n + 1) * message.shape[1], halves, hashes)
    return hashes.view(np.int64)


# ---- a place for each person ----


class _NumberedPersons:
    """Places of persons whose identifiers are integers: open addressing in a table that is at most half full."""

    def __init__(self) -> None:
        salt = np.frombuffer(os.urandom(16), dtype=np.uint64) | np.array([0, 1], dtype=np.uint64)
        self._salt, self.n_persons = salt, 0
        self._persons, self._slots = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)

    def places(self, keys: Any) -> Integers:
        """The place of each person, where those that are new get the next ones."""
        places = self._room_for(len(keys))
        self.n_persons = place_persons(keys, self._salt, self._slots, self._persons, self.n_persons, places)
        return places

    def _room_for(self, n_new: int) -> Integers:
        """Room for the places of so many records, whose persons may all be new."""
        needed = self.n_persons + n_new
        _make_room(self._persons, needed)
        if len(self._slots) < 2 * needed:
            n_slots = 1 << (2 * needed - 1).bit_length()
            del self._slots  # before there is a larger one
            self._slots = np.full(n_slots, -1, dtype=np.int32 if n_slots <= 2**31 else np.int64)
            fill_slots(self._persons[: self.n_persons], self._salt, self._slots)
        return np.empty(n_new, dtype=np.int64)


class _NamedPersons(_NumberedPersons):
    """Places of persons whose identifiers are text: by a hash with a key of this run, and then by all of the bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._key = np.frombuffer(os.urandom(16), dtype=np.uint64)
        self._names, self._ends = np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)

    def places(self, keys: Any) -> Integers:
        """The place of each person, where those that are new get the next ones."""
        hashes = keys.hashes(self._key)
        places = self._room_for(len(hashes))
        _make_room(self._names, int(self._ends[self.n_persons] + keys.ends[-1] - keys.ends[0]))
        _make_room(self._ends, self.n_persons + len(hashes) + 1)
        tables = (self._salt, self._slots, self._persons, self._names, self._ends)
        self.n_persons = place_texts(keys.data, keys.ends, hashes, *tables, self.n_persons, places)
        return places


def _make_room(array: NDArray[Any], n: int) -> None:
    """Lengthen an array in place, with zeros, so that it has room for n, and a quarter more than it had."""
    if len(array) < n:
        # Nobody holds a view of it between blocks.
        array.resize((max(n, len(array) * 5 // 4), *array.shape[1:]), refcheck=False)


# ---- what is kept of each person ----


class _Means:
    """How many records each person has, and their sums."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._tallies = np.zeros((0, 1 + domain.n_columns), dtype=np.int64)

    def add(self, block: _Block, places: Integers, n_persons: int) -> None:
        """Add complete records of persons at their places."""
        _make_room(self._tallies, n_persons)
        add_by_person(tallied(block.records, self._domain), places, self._tallies)

    def rows(self, n_persons: int) -> Records:
        """One row for each person, in the memory of the sums: a row is shorter, so it is never written over a sum."""
        tallies, d = self._tallies, self._domain.n_columns
        written = tallies.reshape(-1).view(np.int32)
        for start in range(0, n_persons, _PERSONS_AT_ONCE):
            rows = mean_rows(tallies[start : min(start + _PERSONS_AT_ONCE, n_persons)], self._domain)
            written[start * d : start * d + rows.size] = rows.reshape(-1)
        del written, self._tallies
        tallies.resize(-(-n_persons * d // 2), refcheck=False)
        return tallies.view(np.int32)[: n_persons * d].reshape(n_persons, d)


class _Samples:
    """The records of each person that have the smallest hashes so far."""

    def __init__(self, n_columns: int, n_kept: int) -> None:
        self._kept = np.zeros((0, n_kept, n_columns), dtype=np.int32)
        self._hashes, self._n_kept = np.zeros((0, n_kept), dtype=np.int64), np.zeros(0, dtype=np.int64)

    def add(self, block: _Block, places: Integers, n_persons: int) -> None:
        """Add complete records of persons at their places."""
        for array in (self._kept, self._hashes, self._n_kept):
            _make_room(array, n_persons)
        keep_smallest(block.records, block.hashes, places, self._kept, self._hashes, self._n_kept)

    def rows(self, n_persons: int) -> Records:
        """All that are kept; where a person has fewer, the others are marked as dropped."""
        kept, n_kept = self._kept, self._n_kept[:n_persons]
        kept.resize((n_persons, *kept.shape[1:]), refcheck=False)
        kept[:, :, 0][np.arange(kept.shape[1]) >= n_kept[:, None]] = DROPPED
        return kept.reshape(-1, kept.shape[2])


def tallied(records: Records, domain: Domain) -> Records:
    """What a record adds to its person's sums: its numbers; of categories, and of what may be missing, whether it is.

    So there is one sum for each coordinate: two categories are told by how often it is the second.
    """
    counted = [j for part in _parts_of(domain) for j in _counted(part)]
    if not counted:
        return records
    values = records.copy()
    values[:, counted] = records[:, counted] > 0
    return values


def mean_rows(tallies: Integers, domain: Domain) -> Records:
    """The rows of persons, (n, d), from how many records each has, at least one, and sums of `tallied` records.

    >>> from recoup.domain import Box
    >>> mean_rows(np.array([[3, -5, 7]]), Box([0, 0], [1, 1]))
    array([[-1,  2]], dtype=int32)
    """
    number, sums = tallies[:, 0], tallies[:, 1:]
    rows: Records = _toward_zero(sums, number[:, None])
    for part in _parts_of(domain):
        own, reach = sums[:, part.own], int(part.reach * GRID)
        if part.kind == "two":
            rows[:, part.first] = np.where(2 * own[:, 0] > number, reach, -reach)
        elif part.kind == "corners":
            # The first of several largest: the one that was declared first.
            rows[:, part.own] = np.where(np.arange(part.size) == own.argmax(axis=1)[:, None], reach, 0)
        elif part.kind == "flagged":
            # A missing value adds 0 to the sum, so that the sum is over those that are there.
            given, flag = number - own[:, 1], int(part.flag_reach * GRID)
            missing = own[:, 1] > given
            rows[:, part.first] = np.where(missing, 0, _toward_zero(own[:, 0], np.maximum(given, 1)))
            rows[:, part.first + 1] = np.where(missing, flag, -flag)
    rows[number >= _TOO_MANY, 0] = DROPPED
    return rows


def _parts_of(domain: Domain) -> tuple[Part, ...]:
    return domain.parts if isinstance(domain, Mixed) else ()


def _counted(part: Part) -> range:
    """The coordinates of a declared column that are counted, not added up."""
    first = {"two": 0, "corners": 0, "flagged": 1}.get(part.kind, part.size)
    return range(part.first + first, part.first + part.size)


def _toward_zero(sums: Integers, number: Integers) -> Any:
    # Whole numbers throughout: a float would round the sums of many records.
    return (np.sign(sums) * (np.abs(sums) // number)).astype(np.int32)
