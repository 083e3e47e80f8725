"""What a person contributes: one row or a few, by hand and by the plain twin, for every kind of identifier."""

from __future__ import annotations

import traceback
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from person_cases import DOMAINS, KEY, MEAN, Visits, kept_rows, naive_rows, sample, siphash, source

from recoup.curator import persons
from recoup.curator.persons import PersonTerms, mean_rows, person_source, record_hashes, tallied
from recoup.domain import Box
from recoup.errors import DataError, ParameterError
from recoup.kernels import GRID
from recoup.kernels import persons as kernels
from recoup.kernels.fixed_point import DROPPED
from recoup.mixed import Mixed
from recoup.queries.cells import VoronoiQuery
from recoup.schema import Category, Number, Schema

LINE = Box([-1], [1])
QUARTER = int(GRID) // 4


def rows_of(values: Any) -> Any:
    return np.asarray(values, dtype=np.float64)[:, None]


def test_a_mean_is_rounded_toward_zero() -> None:
    # 2^-30 steps: (1 + 2) / 2 and (-1 - 2) / 2.
    step = 1 / GRID
    visits = Visits(rows_of([step, 2 * step, -step, -2 * step]), [1, 1, 2, 2])
    assert kept_rows(visits, LINE, MEAN) == [(-1,), (1,)]


@pytest.mark.parametrize(
    "who",
    [
        [7, 7, 7, -(2**63), 2**63 - 1, None],
        ["Ann", "Ann", "Ann", "Bo", "ßé", None],
        [0.5, 0.5, 0.5, float("inf"), -0.25, None],
    ],
    ids=["integers", "text", "floats"],
)
def test_every_kind_of_identifier(who: list[Any]) -> None:
    visits = Visits(rows_of([0.25, 0.5, 0.75, -0.5, 0.0, 1.0]), who)
    assert kept_rows(visits, LINE, MEAN) == [(-2 * QUARTER,), (0,), (2 * QUARTER,)]
    for n in (1, 2, 3, 5):
        assert kept_rows(visits, LINE, sample(n)) == naive_rows(visits._rows, who, LINE, sample(n))
        assert len(kept_rows(visits, LINE, sample(n))) == 2 + min(n, 3)


def test_zero_of_either_sign_is_one_person() -> None:
    assert len(kept_rows(Visits(rows_of([0.1, 0.2]), [0.0, -0.0]), LINE, MEAN)) == 1


def test_incomplete_records_are_dropped_first() -> None:
    visits = Visits(rows_of([0.5, np.nan, np.inf, np.nan]), [1, 1, 1, 2])
    assert kept_rows(visits, LINE, MEAN) == [(2 * QUARTER,)]
    assert kept_rows(visits, LINE, sample(4)) == [(2 * QUARTER,)]


@pytest.mark.parametrize("terms", [MEAN, sample(2)])
@pytest.mark.parametrize("persons", [[], [None, None], ["x"]], ids=["none", "missing", "one"])
def test_few_persons_or_none(persons: Any, terms: PersonTerms) -> None:
    visits = Visits(np.full((len(persons), 1), 0.25), persons)
    some = source(visits, LINE, terms)
    query = VoronoiQuery(centers=np.zeros((1, 1)), sums="none")
    n = 1 if list(persons) == ["x"] else 0
    assert some.total(query, np.full(1, 8.0)) == [8 * n]
    assert all(block.shape[1] == 1 for block in some.records())


def test_a_person_with_a_million_records_takes_the_memory_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**30), 2**30 + 1, size=1_000_000)
    visits = Visits(rows_of(values / GRID), pa.array(np.full(len(values), 5)), cuts=[3, 500_000])
    assert kept_rows(visits, LINE, MEAN) == [(int(np.fix(int(values.sum()) / len(values))),)]
    kept = kept_rows(visits, LINE, sample(3))
    hashes = record_hashes(values[:, None].astype(np.int32), np.full(len(values), 5), KEY)
    assert kept == sorted((int(values[i]),) for i in np.argsort(hashes)[:3])
    (block,) = source(visits, LINE, sample(3)).records()
    assert block.base.nbytes == 3 * 4


def test_many_persons_have_places_of_their_own() -> None:
    # More than a block holds, with keys that differ in a few bits only, low and high.
    n = 300_000
    keys = np.concatenate([np.arange(n), np.arange(n) << 40])
    visits = Visits(rows_of(np.zeros(2 * n)), pa.array(keys))
    assert len(kept_rows(visits, LINE, MEAN)) == len(np.unique(keys))


def test_ties_of_categories_go_to_the_first_declared() -> None:
    schema = Schema({"two": Category(["F", "M"]), "three": Category(["a", "b", "c"])})
    domain = Mixed(schema=schema)
    two, three = (int(part.reach * GRID) for part in domain.parts)
    visits = Visits([[1, 2], [0, 1], [1, 1], [1, 0], [0, 0], [0, 2]], [1, 1, 2, 2, 2, 3])
    assert kept_rows(visits, domain, MEAN) == sorted([(-two, 0, three, 0), (two, three, 0, 0), (-two, 0, 0, three)])


def test_numbers_that_may_be_missing() -> None:
    domain = Mixed(schema=Schema({"lab": Number(-1, 1, missing="own")}))
    flag = int(domain.parts[0].flag_reach * GRID)
    nan = np.nan
    # A tie, more missing, none missing: values are means of those that are there.
    visits = Visits(rows_of([0.5, 1.0, nan, nan, 1.0, nan, nan, -0.5, -0.25]), [1, 1, 1, 1, 2, 2, 2, 3, 3])
    expected = [(3 * QUARTER, -flag), (0, flag), (-3 * QUARTER // 2, -flag)]
    assert kept_rows(visits, domain, MEAN) == sorted(expected)


def test_steps_of_an_order_have_a_mean() -> None:
    domain = Mixed(schema=Schema({"stage": Category(["I", "II", "III"], ordered=True)}))
    assert kept_rows(Visits(rows_of([0, 1, 2, 1]), [1, 1, 2, 2]), domain, MEAN) == [(-2 * QUARTER,), (2 * QUARTER,)]


def test_a_person_whose_sums_may_not_fit_contributes_nothing() -> None:
    most = 2**33 - 1
    tallies = np.array([[most, most * 2**30, -most * 2**30], [most + 1, 5, 5]])
    rows = mean_rows(tallies, Box([0, 0], [1, 1]))
    assert rows[0].tolist() == [2**30, -(2**30)]
    assert rows[1, 0] == DROPPED


def test_rows_stand_where_the_sums_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persons, "_PERSONS_AT_ONCE", 2)
    rng = np.random.default_rng(0)
    rows, who = rng.uniform(-2, 3, size=(200, 3)), rng.integers(0, 51, size=200)
    for name in ("box", "l1", "l2"):
        visits = Visits(rows, who.tolist(), cuts=range(0, 200, 13))
        assert kept_rows(visits, DOMAINS[name], MEAN) == naive_rows(rows, who.tolist(), DOMAINS[name], MEAN)


def test_the_table_is_read_once_or_anew_and_never_before() -> None:
    query, factors = VoronoiQuery(centers=np.zeros((1, 1)), sums="none"), np.ones(1)
    for keep, times in ((True, 1), (False, 3)):
        visits = Visits(rows_of([0.1, 0.2]), [1, 1])
        some = source(visits, LINE, MEAN, keep=keep)
        assert visits.n_read == 0
        assert [some.total(query, factors) for _ in range(3)] == [[1]] * 3
        assert visits.n_read == times


def test_tallied_leaves_records_as_they_are() -> None:
    domain = DOMAINS["mixed"]
    assert isinstance(domain, Mixed)
    records = domain.fixed_records([[0.0, 3.0], [10.0, 20.0], [np.nan, 5.0], [1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    before = records.copy()
    counted = [0, 1, 2, 3, 6, 7]  # the wards, whether the lab is missing, the sex
    values = tallied(records, domain)
    np.testing.assert_array_equal(records, before)
    np.testing.assert_array_equal(values[:, counted], [[1, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 0]])
    others = np.setdiff1d(np.arange(domain.n_columns), counted)
    np.testing.assert_array_equal(values[:, others], before[:, others])


# The first vectors of Aumasson and Bernstein's reference code, and one each around the ends of words.
@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, 0x726FDB47DD0E0E31), (1, 0x74F839C593DC67FD), (8, 0x93F5F5799A932462), (15, 0xA129CA6149BE45E5)],
)
def test_siphash_is_the_published_one(length: int, expected: int) -> None:
    message = bytes(range(length))
    assert siphash(bytes.fromhex(KEY), message) == expected
    halves, found = np.frombuffer(bytes.fromhex(KEY), dtype=np.uint64), np.empty(1, dtype=np.uint64)
    kernels.siphash(np.frombuffer(message, dtype=np.uint8), np.array([0, length]), halves, found)
    assert int(found[0]) == expected


def test_siphash_of_long_messages() -> None:
    data, ends = np.random.default_rng(0).integers(0, 256, 2_000).astype(np.uint8), np.array([0, 7, 7, 300, 2_000])
    halves, found = np.frombuffer(bytes.fromhex(KEY), dtype=np.uint64), np.empty(4, dtype=np.uint64)
    kernels.siphash(data, ends, halves, found)
    messages = [data[a:b].tobytes() for a, b in pairwise(ends)]
    assert found.tolist() == [siphash(bytes.fromhex(KEY), message) for message in messages]


def test_hashes_that_are_equal_fall_back_on_the_records() -> None:
    records = np.array([[3, 1], [2, 9], [2, -5], [2, 9], [4, 0]], dtype=np.int32)
    kept, hashes, n_kept = np.zeros((1, 3, 2), np.int32), np.zeros((1, 3), np.int64), np.zeros(1, np.int64)
    order = np.random.default_rng(0)
    for _ in range(10):
        n_kept[:] = 0
        mixed = order.permutation(records)
        kernels.keep_smallest(mixed, np.zeros(5, np.int64), np.zeros(5, np.int64), kept, hashes, n_kept)
        assert kept[0].tolist() == [[2, -5], [2, 9], [2, 9]]


def test_another_key_keeps_other_records() -> None:
    values = np.linspace(-1, 1, 200)
    visits = Visits(rows_of(values), [1] * 200)
    kept = {tuple(kept_rows(visits, LINE, sample(5, key=f"{i:032x}"))) for i in range(20)}
    assert len(kept) == 20


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"per_person": "median"}, "per_person"),
        ({"per_person": "mean", "records_per_person": 2}, "one row"),
        ({"per_person": "sample", "records_per_person": 0, "key": KEY}, "records_per_person"),
        ({"per_person": "sample"}, "32 hexadecimal"),
        ({"per_person": "sample", "key": KEY[:-1]}, "32 hexadecimal"),
        ({"per_person": "sample", "key": KEY[:-1] + "\n"}, "32 hexadecimal"),
    ],
)
def test_terms_that_cannot_be(terms: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        person_source(Visits(rows_of([0.0]), [1]), LINE, **terms)  # type: ignore[arg-type]


def test_identifiers_of_another_type_are_refused_without_a_cell() -> None:
    class Changing(Visits):
        def person_blocks(self, block_rows: int = 0) -> Any:
            yield rows_of([0.1]), pa.array([4711])
            yield rows_of([0.2]), pa.array(["secret"], type=pa.large_string())

    tables = [Visits(rows_of([0.1]), pa.array([47.11])), Changing(rows_of([0.1]), [4711])]
    for table in tables:
        with pytest.raises(DataError, match=r"persons") as raised:
            list(source(table, LINE, MEAN).records())
        shown = "".join(traceback.format_exception(raised.value, chain=True))
        assert "47.11" not in str(raised.value)
        assert "4711" not in str(raised.value)
        assert raised.value.__context__ is None
        assert shown.count("Error:") == 1


def test_the_salt_of_places_changes_and_the_rows_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows, who = rng.uniform(-1, 1, size=(500, 1)), rng.integers(0, 40, size=500).tolist()
    found = [np.concatenate(list(source(Visits(rows, who), LINE, MEAN).records())).tolist() for _ in range(3)]
    assert found[0] == found[1] == found[2]
    drawn = [persons._NumberedPersons()._salt for _ in range(3)]
    assert len({salt.tobytes() for salt in drawn}) == 3
    assert all(salt[1] % 2 == 1 for salt in drawn)


@pytest.mark.parametrize("same_hash", [False, True])
def test_places_of_texts_are_those_of_a_dictionary(monkeypatch: pytest.MonkeyPatch, same_hash: bool) -> None:
    # Also where every text has the same hash: then the bytes alone decide.
    if same_hash:
        monkeypatch.setattr(persons.Texts, "hashes", lambda self, _: np.zeros(len(self.ends) - 1, dtype=np.int64))
    rng, named, known = np.random.default_rng(1), persons._NamedPersons(), dict[bytes, int]()
    for n in (1, 0, 3, 400, 50):
        texts = [rng.bytes(rng.integers(1, 4)) * rng.integers(1, 20) for _ in range(n)]
        keys = pa.array([b"before", *texts, b"after"], pa.large_binary())[1:-1]
        expected = [known.setdefault(text, len(known)) for text in texts]
        assert named.places(persons.Texts.of(keys)).tolist() == expected
        assert named.n_persons == len(known)
