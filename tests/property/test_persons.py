"""What a person contributes is a function of the set of that person's records: no order, block or neighbour matters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from person_cases import DOMAINS, MEAN, Visits, cells, kept_rows, naive_rows, sample

from recoup.curator import persons
from recoup.curator.persons import PersonTerms

TERMS = st.sampled_from([MEAN, sample(1), sample(2), sample(5)])
WHO = st.sampled_from(
    [
        (0, 1, -1, 2**63 - 1, -(2**63), 1 << 32, None),
        ("a", "b", "a ", "ä", "a" * 300, "\x00", None),
        (0.5, -0.5, 1e300, float("inf"), -0.0, None),
    ]
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, list[list[float]], list[Any]]:
    name, who = draw(st.sampled_from(sorted(DOMAINS))), draw(WHO)
    row = st.tuples(*(st.sampled_from(column) for column in cells(DOMAINS[name])))
    held = draw(st.lists(st.tuples(row, st.sampled_from(who)), max_size=40))
    return name, [list(row) for row, _ in held], [person for _, person in held]


def as_rows(rows: list[list[float]], name: str) -> Any:
    return np.array(rows, dtype=np.float64).reshape(len(rows), DOMAINS[name].n_declared)


@settings(deadline=None, max_examples=150)
@given(table=tables(), terms=TERMS, seed=st.integers(0, 2**32 - 1), data=st.data())
def test_rows_of_persons_are_those_of_the_plain_twin(
    table: tuple[str, list[list[float]], list[Any]], terms: PersonTerms, seed: int, data: st.DataObject
) -> None:
    name, rows, who = table
    order = np.random.default_rng(seed).permutation(len(rows))
    expected = naive_rows(as_rows(rows, name), who, DOMAINS[name], terms)
    mixed = as_rows([rows[i] for i in order], name)
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    visits = Visits(mixed, [who[i] for i in order], cuts, by_column=data.draw(st.booleans()))
    assert kept_rows(visits, DOMAINS[name], terms) == expected


@settings(deadline=None, max_examples=80)
@given(table=tables(), terms=TERMS)
def test_a_person_adds_own_rows_and_changes_no_other(
    table: tuple[str, list[list[float]], list[Any]], terms: PersonTerms
) -> None:
    name, rows, who = table
    domain = DOMAINS[name]
    everybody = Counter(kept_rows(Visits(as_rows(rows, name), who), domain, terms))
    for person in set(who):
        others = [i for i, other in enumerate(who) if other != person]
        without = Visits(as_rows([rows[i] for i in others], name), [who[i] for i in others])
        fewer = Counter(kept_rows(without, domain, terms))
        assert fewer <= everybody
        assert (everybody - fewer).total() <= (0 if person is None else terms.n_kept)


def order_matters() -> bool:
    """Whether some table in another order, or in other blocks, gives other rows."""
    rng = np.random.default_rng(0)
    rows, who = rng.uniform(-1, 1, size=(60, 3)), rng.integers(0, 5, 60).tolist()
    visits = [Visits(rows, who), Visits(rows, who, [7, 30]), Visits(rows[::-1], who[::-1])]
    found = [kept_rows(some, DOMAINS["box"], terms) for terms in (MEAN, sample(2)) for some in visits]
    return found[:3] != [found[0]] * 3 or found[3:] != [found[3]] * 3


def first_come(records: Any, keys: Any, key: str) -> Any:
    """The planted leak: records are kept by where they stand in their block."""
    return np.arange(len(records))


def test_order_does_not_matter() -> None:
    assert not order_matters()


def test_records_kept_by_position_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persons, "record_hashes", first_come)
    assert order_matters()


def test_categories_that_are_added_up_like_numbers_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, rows, who = DOMAINS["mixed"], [[0, 1, 5, 0, 0, 1], [1, 1, np.nan, 1, 1, 1], [1, 1, 5, 1, 2, 1]], [3, 3, 3]
    assert kept_rows(Visits(rows, who), domain, MEAN) == naive_rows(rows, who, domain, MEAN)
    monkeypatch.setattr(persons, "tallied", lambda records, domain: records)
    assert kept_rows(Visits(rows, who), domain, MEAN) != naive_rows(rows, who, domain, MEAN)
