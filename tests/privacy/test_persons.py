"""A person with any records moves no total beyond the sensitivity; grouping that leaks is caught by the same search.

The search is over tables drawn from the ends of every domain, in exact integers, and over some made to be hard: there
is no chance in what it asserts of the right grouping, and its seeds are fixed for what it must catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from person_cases import DOMAINS, MEAN, Visits, cells, sample, source

from recoup.curator import persons
from recoup.curator.persons import PersonTerms
from recoup.domain import Domain, L1Ball
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.mixed import Mixed
from recoup.privacy.mechanism import MECHANISMS, SENSITIVITY
from recoup.queries.base import Query
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import HistogramQuery, marginals_of_domain

N_TABLES = 12
TERMS = {"mean": MEAN, "sample-1": sample(1), "sample-3": sample(3)}


def questions(domain: Domain) -> list[Query]:
    """Cells with sums of either kind, and every column by itself."""
    d, rng = domain.n_columns, np.random.default_rng(0)
    centers, radii = rng.uniform(-0.6, 0.6, size=(3, d)), np.array([0.1, 0.5, 1.0])
    return [
        VoronoiQuery(centers=centers),
        VoronoiQuery(centers=centers, sums="relative", radii=radii, norm=1),
        VoronoiQuery(centers=centers, sums="relative", radii=radii, norm=2),
        HistogramQuery(dimension=d, marginals=marginals_of_domain(domain, 3)),
    ]


def tables(domain: Domain) -> Iterator[tuple[Any, Any, Any]]:
    """Rows, persons, and the person who is left out: of few others or many, with few records or many."""
    columns = cells(domain)
    for seed in range(N_TABLES):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 60))
        rows = np.column_stack([rng.choice(np.array(column), size=n) for column in columns])
        finite = np.isfinite(rows) | (rng.random(rows.shape) < 0.3)
        rows = np.where(finite, rows, [column[0] for column in columns])
        # Far apart and close by, so that a table of keys that loses bits of either end is found out.
        who = rng.choice(np.array([0, 1, 1 << 20, 1 << 40, -1]), size=n, p=[0.4, 0.15, 0.15, 0.15, 0.15])
        yield rows, who, who[0]
    if isinstance(domain, L1Ball):
        # Means of vertices, none of which is whole: rounded the wrong way, they leave the ball.
        middle, high = (np.array(domain.low) + domain.high) / 2, np.array(domain.high)
        rows = np.array([np.where(np.arange(len(high)) == j, high, middle) for j in (0, 1, 1, 2, 2)])
        yield rows, np.full(5, 7), 7


def largest_move(domain: Domain, terms: PersonTerms) -> Fraction:
    """How far a person moves totals, in units of what is promised; for L2 the square of it."""
    largest = Fraction(0)
    for rows, who, person in tables(domain):
        with_all = source(Visits(rows, who.tolist(), cuts=[len(who) // 3]), domain, terms)
        others = who != person
        without = source(Visits(rows[others], who[others].tolist()), domain, terms)
        for query in questions(domain):
            for mechanism in MECHANISMS.values():
                sensitivity = query.sensitivity(domain)
                n = len(sensitivity.blocks)
                factors = mechanism.factors(sensitivity, mechanism.weights([Fraction(1, n)] * n, SENSITIVITY))
                after, before = with_all.total(query, factors), without.total(query, factors)
                moved = [a - b for a, b in zip(after, before, strict=True)]
                largest = max(largest, _size(moved, mechanism.norm, terms.n_kept * SENSITIVITY))
        # The sum of the records themselves, to the last step of their grid.
        moved = [a - b for a, b in zip(_sums(with_all, domain), _sums(without, domain), strict=True)]
        for norm in (1, 2):
            bound = terms.n_kept * Fraction(domain.sum_bound(norm)) * int(GRID)
            largest = max(largest, _size(moved, norm, bound))
    return largest


def _size(moved: list[int], norm: int, bound: int | Fraction) -> Fraction:
    return Fraction(sum(abs(v) ** norm for v in moved)) / Fraction(bound) ** norm


def _sums(some: Any, domain: Domain) -> list[int]:
    records = np.concatenate([np.empty((0, domain.n_columns), np.int32), *some.records()])
    sums: list[int] = records[records[:, 0] != DROPPED].sum(axis=0, dtype=np.int64).tolist()
    return sums


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("terms", TERMS)
def test_a_person_moves_no_total_beyond_the_sensitivity(name: str, terms: str) -> None:
    assert largest_move(DOMAINS[name], TERMS[terms]) <= 1


@pytest.mark.parametrize("name", ["box", "mixed"])
def test_the_promise_is_nearly_attained(name: str) -> None:
    # So that a search which looks at nothing does not pass.
    assert largest_move(DOMAINS[name], MEAN) > Fraction(1, 2)


# ---- planted leaks ----


def merged(keys: Any, *others: Any) -> Any:
    """Places by the lower half of an identifier, so that some persons share one."""
    return _place_persons(keys & 0xFFFFFFFF, *others)


def away_from_zero(sums: Any, number: Any) -> Any:
    return (np.sign(sums) * -(-np.abs(sums) // number)).astype(np.int32)


def not_divided(sums: Any, number: Any) -> Any:
    return np.clip(sums, -(2**31) + 1, 2**31 - 1).astype(np.int32)


def one_too_many(records: Any, hashes: Any, places: Any, kept: Any, kept_hashes: Any, n_kept: Any) -> None:
    """Whoever has more records than are kept gets another person's place for the rest of them."""
    n_seen = np.array([np.count_nonzero(places[:i] == place) for i, place in enumerate(places)])
    over = n_seen >= kept.shape[1]
    _keep_smallest(records, hashes, np.where(over, (places + 1) % len(kept), places), kept, kept_hashes, n_kept)


def by_place_in_the_table(records: Any, keys: Any, key: str) -> Any:
    """Which records of a person are kept depends on how many records of others come before."""
    return np.arange(len(records)) * 7919 % 31


_place_persons, _keep_smallest = persons.place_persons, persons.keep_smallest


@pytest.mark.parametrize(
    ("where", "leak", "name", "terms"),
    [
        ("place_persons", merged, "box", "mean"),
        ("place_persons", merged, "mixed", "mean"),
        ("place_persons", merged, "l2", "sample-1"),
        ("_toward_zero", away_from_zero, "l1", "mean"),
        ("_toward_zero", not_divided, "box", "mean"),
        ("_toward_zero", not_divided, "mixed", "mean"),
        ("keep_smallest", one_too_many, "box", "sample-1"),
        ("record_hashes", by_place_in_the_table, "box", "sample-1"),
        ("record_hashes", by_place_in_the_table, "mixed", "sample-1"),
    ],
)
def test_a_planted_leak_is_caught(
    monkeypatch: pytest.MonkeyPatch, where: str, leak: Any, name: str, terms: str
) -> None:
    monkeypatch.setattr(persons, where, leak)
    assert largest_move(DOMAINS[name], TERMS[terms]) > 1


@pytest.mark.parametrize("domain", [DOMAINS["mixed"]])
def test_rows_of_persons_are_points_that_records_can_have(domain: Mixed) -> None:
    # Queries promise for records: of one, a category is whole, and a number that is missing is at its middle.
    for rows, who, _ in tables(domain):
        made = np.concatenate(list(source(Visits(rows, who.tolist()), domain, MEAN).records()))
        for part in domain.parts:
            own, reach = made[:, part.own], int(part.reach * GRID)
            assert (np.abs(own) <= reach).all()
            if part.kind == "corners":
                assert ((own == 0) | (own == reach)).all()
                assert (own.sum(axis=1) == reach).all()
            elif part.kind == "two":
                assert (np.abs(own) == reach).all()
            elif part.kind == "flagged":
                flag = int(part.flag_reach * GRID)
                assert (np.abs(own[:, 1]) == flag).all()
                assert (own[own[:, 1] == flag, 0] == 0).all()
