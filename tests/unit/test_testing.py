"""The contract suite finds planted bugs, each by its rule and with its explanation, and passes what is right."""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array

import recoup
from recoup.algorithms.registry import ALGORITHMS
from recoup.custom import Block, Request, Sensitivity, SimpleAlgorithm, SimpleQuery, bounded_block, uniform_points
from recoup.errors import ContractViolation, ParameterError, RecoupError
from recoup.queries import QUERIES
from recoup.queries.base import sum_of_contributions
from recoup.testing import check_algorithm, check_query
from recoup.testing.records import block_ratios
from recoup.testing.report import RULES

BOX = recoup.Box([0.0, -5.0], [1.0, 5.0])
NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def registries():
    before = [(entries, dict(entries)) for entries in (QUERIES, ALGORITHMS)]
    yield
    for entries, kept in before:
        entries.clear()
        entries.update(kept)


@dataclass(frozen=True, eq=False)
class Shift(SimpleQuery):
    """A count, and the sum of x - center: the right one, from which the bugs are made."""

    center: np.ndarray
    type_name: ClassVar[str] = "test-shift"

    @property
    def n_columns(self):
        return len(self.center)

    @property
    def size(self):
        return 1 + len(self.center)

    def sensitivity(self, domain):
        l1 = (domain.sum_bound(1) + np.abs(self.center).sum()) * (1 + 1e-9)
        l2 = (domain.sum_bound(2) + np.sqrt((self.center**2).sum())) * (1 + 1e-9)
        return Sensitivity((Block.of_counts("count", 1), bounded_block("shift", self.size - 1, l1=l1, l2=l2)))

    def contribution(self, x):
        return np.concatenate([np.ones((len(x), 1)), x - self.center], axis=1)


@dataclass(frozen=True)
class Mean(SimpleAlgorithm):
    """The mean, in rounds that each ask for the shift from where the last one ended."""

    n_rounds: int = 3
    type_name: ClassVar[str] = "test-mean"
    query: ClassVar[type] = Shift

    def next_request(self, context, rounds, rng):
        if len(rounds) >= self.n_rounds:
            return None
        center = self.estimate(context, rounds) if rounds else uniform_points(context.domain, 1, rng)[0]
        half = Fraction(1, 2)
        return Request(query=self.query(center), share=Fraction(1, self.n_rounds), split={"count": half, "shift": half})

    def estimate(self, context, rounds):
        noisy = rounds[-1].noisy
        return context.domain.clip(rounds[-1].query.center + noisy[1:] / max(noisy[0], 1.0))

    def refit(self, context, rounds, points, weights, rng):
        return np.average(points, axis=0, weights=weights)


def query_class(**members):
    """The right query with some members replaced, registered."""
    name = f"test-shift-{next(NUMBERS)}"
    made = dataclass(frozen=True, eq=False)(type("PlantedQuery", (Shift,), {"type_name": name, **members}))
    recoup.register(made)
    return made


def algorithm(query=None, **members):
    """The right algorithm with some members, or its query's class, replaced; registered."""
    name = f"test-mean-{next(NUMBERS)}"
    query = Shift if query is None else query
    made = dataclass(frozen=True)(type("Planted", (Mean,), {"type_name": name, "query": query, **members}))
    recoup.register(Shift, made)
    return made()


def asks_with(**members):
    """The right algorithm, asking a query in which some members are replaced."""
    return algorithm(query_class(**members))


# What is right.


@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_a_right_query_passes(n_columns):
    recoup.register(Shift)
    report = check_query(Shift(np.linspace(-0.5, 0.3, n_columns)))
    assert report.passed
    assert "keeps its contract" in str(report)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_a_right_algorithm_passes(n_columns):
    report = check_algorithm(algorithm(), n_columns=n_columns)
    assert report.passed
    assert {check.name for check in report.checks} == set(RULES)
    assert all(check.n_places > 0 and check.message == "" for check in report.checks)


def test_sparse_contributions_pass_and_are_measured_like_dense_ones():
    def sparse(self, x):
        return csr_array(Shift.contribution(self, x))

    query = query_class(contribution=sparse)(np.array([0.2, -0.4]))
    assert check_query(query).passed
    x = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    bounds = query.sensitivity(BOX)
    np.testing.assert_allclose(
        block_ratios(query.contribution(x), bounds), block_ratios(Shift.contribution(query, x), bounds), rtol=1e-15
    )


def test_the_report_is_the_same_for_the_same_seed():
    assert check_algorithm(algorithm(), domain=BOX, random_state=3).passed
    bad = query_class(sensitivity=tighter(0.9))(np.array([0.1, 0.2]))
    first, second = (check_query(bad, raise_on_failure=False, random_state=4) for _ in range(2))
    assert str(first) == str(second)


# What is wrong. Each function makes an algorithm with one bug; its name is free.


def tighter(factor, only=(1, 2)):
    def sensitivity(self, domain):
        counts, shift = Shift.sensitivity(self, domain).blocks
        l1, l2 = (bound * (factor if norm in only else 1) for norm, bound in ((1, shift.l1), (2, shift.l2)))
        return Sensitivity((counts, Block(name="shift", size=shift.size, l1=l1, l2=l2)))

    return sensitivity


def counts_of(ones=None, total=None, value=1.0):
    def sensitivity(self, domain):
        _, shift = Shift.sensitivity(self, domain).blocks
        wide = np.array([max(1.0, value)])
        return Sensitivity((Block(name="count", size=1, l1=wide, l2=wide, ones=ones, total=total), shift))

    def contribution(self, x):
        rows = Shift.contribution(self, x)
        rows[:, 0] = np.where(x[:, 0] > 0, value, 1.0)
        return rows

    return {"sensitivity": sensitivity, "contribution": contribution}


def with_rows(change):
    def contribution(self, x):
        rows = Shift.contribution(self, x)
        rows[:, 1:] = change(self, x, rows[:, 1:])
        return rows

    return {"contribution": contribution}


def counter():
    calls = itertools.count()
    return with_rows(lambda self, x, rows: rows * 0.5 ** (next(calls) % 3))


def mutates(self, x):
    x -= self.center
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)


def speaks(self, x):
    if (x > 0.9).any():
        print("a large record")
    return Shift.contribution(self, x)


def warns_on_zero():
    def change(self, x, rows):
        size = np.abs(x).sum(axis=1, keepdims=True)
        return np.where(size > 0, rows * (size / size), 0.0)

    return with_rows(change)


def bump(height):
    """A contribution whose largest value lies in the interior, where no corner shows it."""

    def sensitivity(self, domain):
        counts, _ = Shift.sensitivity(self, domain).blocks
        return Sensitivity((counts, bounded_block("shift", self.size - 1, l1=height)))

    def contribution(self, x):
        rows = np.zeros((len(x), self.size))
        rows[:, 0] = 1.0
        rows[:, 1] = np.exp(-10 * ((x - 0.37 * self.center) ** 2).sum(axis=1))
        return rows

    return {"sensitivity": sensitivity, "contribution": contribution}


def rounded_json(self):
    return {"type": self.type_name, "center": [round(v, 3) for v in self.center.tolist()]}


def writable(self):
    Shift.__post_init__(self)
    object.__setattr__(self, "center", self.center.copy())


def with_cache(self):
    Shift.__post_init__(self)
    object.__setattr__(self, "cache", {})


def nearest_integers(self, records, factors):
    return np.rint(self.contribution(records / 2.0**30) * factors).astype(np.int64).sum(axis=0)


def with_missing(self, records, factors):
    return sum_of_contributions(self, np.maximum(records, -(2**30)), factors)


def request_of(self, context, rounds, *, share=None, split=None, center=None):
    if len(rounds) >= self.n_rounds:
        return None
    if center is None:
        center = np.zeros(context.domain.n_columns)
    share = Fraction(1, self.n_rounds) if share is None else share
    split = dict.fromkeys(("count", "shift"), Fraction(1, 2)) if split is None else split
    return Request(query=self.query(center), share=share, split=split)


def asking(**how):
    return {"next_request": lambda self, context, rounds, rng: request_of(self, context, rounds, **how)}


def centers_from(draw):
    def next_request(self, context, rounds, rng):
        return request_of(self, context, rounds, center=draw(context.domain.n_columns))

    return {"next_request": next_request}


def hidden_counter():
    calls = itertools.count()
    return algorithm(**centers_from(lambda d: np.full(d, 0.01 * next(calls))))


def remembers_records():
    """The query tells the algorithm how many records it saw, past the noise."""
    seen = [0]

    def integer_total(self, records, factors):
        seen[0] = len(records)
        return Shift.integer_total(self, records, factors)

    kind = query_class(integer_total=integer_total)
    return algorithm(kind, **centers_from(lambda d: np.full(d, min(seen[0], 500) / 1000)))


def one_round_more_for_large_tables():
    seen = [0]

    def integer_total(self, records, factors):
        seen[0] = len(records)
        return Shift.integer_total(self, records, factors)

    def next_request(self, context, rounds, rng):
        half = Fraction(1, 2)
        if seen[0] < 100 and rounds:
            return None
        return request_of(self, context, rounds, split={"count": half, "shift": half})

    return algorithm(query_class(integer_total=integer_total), next_request=next_request)


def unregistered_query():
    made = dataclass(frozen=True, eq=False)(type("Stranger", (Shift,), {"type_name": "test-stranger"}))
    return algorithm(made)


def unregistered_algorithm():
    recoup.register(Shift)
    return dataclass(frozen=True)(type("Stranger", (Mean,), {"type_name": "test-stranger"}))()


class NoQuery:
    type_name = "test-none"
    n_columns = size = 2


def endless(self, context, rounds, rng):
    half = Fraction(1, 2)
    query = self.query(np.zeros(context.domain.n_columns))
    return Request(query=query, share=Fraction(1, 10**6), split={"count": half, "shift": half})


def few_points(self, context, rounds, n_points, rng):
    return uniform_points(context.domain, 300, rng)[rng.choice(300, n_points, replace=False)]


def no_generator(self, context, rounds, n_points, rng):
    return uniform_points(context.domain, n_points, np.random.default_rng())


def changes_points(self, context, rounds, points, weights, rng):
    points *= weights[:, None] / weights.sum()
    return points.sum(axis=0)


def tells(member):
    """A member of the algorithm, made by a function of the last number of records that its query saw."""
    seen = [0]

    def integer_total(self, records, factors):
        seen[0] = len(records)
        return Shift.integer_total(self, records, factors)

    return algorithm(query_class(integer_total=integer_total), **member(seen))


def wrong_in_large_blocks(n_rows):
    return with_rows(lambda self, x, rows: rows * (1000 if len(x) >= n_rows else 1))


def wrong_in_long_tables(self, records, factors):
    return Shift.integer_total(self, records, factors) * (50 if len(records) > 2000 else 1)


def says_how_many(self, records, factors):
    print(len(records))
    return Shift.integer_total(self, records, factors)


def bounds_from_records():
    largest = [1e-3]

    def contribution(self, x):
        largest[0] = max(largest[0], float(np.abs(x - self.center).sum(axis=1).max(initial=0.0)))
        return Shift.contribution(self, x)

    def sensitivity(self, domain):
        bound = largest[0] * (1 + 1e-9)
        return Sensitivity((Block.of_counts("count", 1), bounded_block("shift", self.size - 1, l1=bound)))

    return asks_with(contribution=contribution, sensitivity=sensitivity)


PLANTED = {
    "a support that knows the number of records": (
        lambda: tells(
            lambda seen: {
                "support": lambda self, context, rounds, n, rng: uniform_points(context.domain, n, rng) / (1 + seen[0])
            }
        ),
        "equal draws",
        "the support is another one",
    ),
    "a refit that knows the number of records": (
        lambda: tells(
            lambda seen: {
                "refit": lambda self, context, rounds, points, weights, rng: (
                    np.average(points, axis=0, weights=weights) / (1 + seen[0])
                )
            }
        ),
        "equal draws",
        "refit is another one",
    ),
    "units that know the number of records": (
        lambda: tells(lambda seen: {"in_user_units": lambda self, context, answer: answer + seen[0]}),
        "equal draws",
        "in_user_units is another one",
    ),
    "a strength that knows the number of records": (
        lambda: tells(lambda seen: {"pseudo_records": property(lambda self: 1.0 + seen[0])}),
        "equal draws",
        "pseudo_records is another one",
    ),
    "a guard that knows the number of records": (
        lambda: tells(lambda seen: {"declines": lambda self, context, rounds: f"{seen[0]} are too few"}),
        "equal draws",
        "declines is another one",
    ),
    "wrong in blocks of 4,096": (
        lambda: asks_with(**wrong_in_large_blocks(4096)),
        "one by one",
        "something else among 4096",
    ),
    "wrong in blocks of 4,097": (
        lambda: asks_with(**wrong_in_large_blocks(4097)),
        "one by one",
        "something else among 4097",
    ),
    "totals that are wrong for long tables": (
        lambda: asks_with(integer_total=wrong_in_long_tables),
        "integer total",
        "a table that is repeated",
    ),
    "totals that print": (lambda: asks_with(integer_total=says_how_many), "silence", "integer_total says something"),
    "bounds from the records": (bounds_from_records, "purity", "after records were read"),
    "unbounded contribution": (
        lambda: asks_with(**with_rows(lambda self, x, rows: 1e-3 / (np.abs(x - 0.3) + 1e-9))),
        "sensitivity",
        "times the declared",
    ),
    "both bounds 1 % too small": (
        lambda: asks_with(sensitivity=tighter(0.99)),
        "sensitivity",
        "at least 1.01",
    ),
    "only the l1 bound 1 % too small": (
        lambda: asks_with(sensitivity=tighter(0.99, only=(1,))),
        "sensitivity",
        "declared l1 bound",
    ),
    "only the l2 bound 1 % too small": (
        lambda: asks_with(sensitivity=tighter(0.99, only=(2,))),
        "sensitivity",
        "declared l2 bound",
    ),
    "a bound that only rounding breaks": (
        lambda: asks_with(**bump(1.0 - 2.0**-33)),
        "sensitivity",
        "Leave room for it",
    ),
    "a peak in the interior, 1 % too small": (lambda: asks_with(**bump(0.99)), "sensitivity", "times the declared"),
    "not a number": (
        lambda: asks_with(**with_rows(lambda self, x, rows: rows * (x / np.abs(x)))),
        "finite",
        "NaN or infinite",
    ),
    "a count that is not 0 or 1": (lambda: asks_with(**counts_of(ones=1, value=0.5)), "claims", "Leave out `ones`"),
    "a total that depends on the record": (
        lambda: asks_with(**counts_of(total=1.0, value=2.0)),
        "claims",
        "number of records",
    ),
    "a counter in the query": (lambda: asks_with(**counter()), "purity", "called again with the same records"),
    "its input is changed": (lambda: asks_with(contribution=mutates), "purity", "changes the array it is given"),
    "divided by the number of records": (
        lambda: asks_with(**with_rows(lambda self, x, rows: rows / len(x))),
        "one by one",
        "no len(x)",
    ),
    "the mean of the records taken off": (
        lambda: asks_with(**with_rows(lambda self, x, rows: (rows - rows.mean(axis=0)) / 4 if len(x) else rows)),
        "one by one",
        "contribute",
    ),
    "rounded to the nearest": (lambda: asks_with(integer_total=nearest_integers), "integer total", "toward zero"),
    "missing records count": (lambda: asks_with(integer_total=with_missing), "integer total", "missing value"),
    "it prints": (lambda: asks_with(contribution=speaks), "silence", "a large record"),
    "it warns": (lambda: asks_with(**warns_on_zero()), "silence", "RuntimeWarning"),
    "JSON with three digits": (lambda: asks_with(to_json=rounded_json), "json", "something else"),
    "a query that is not registered": (unregistered_query, "json", "recoup.register(Stranger)"),
    "an algorithm that is not registered": (unregistered_algorithm, "json", "recoup.register(Stranger)"),
    "an array that can be written to": (lambda: asks_with(__post_init__=writable), "frozen", "setflags"),
    "a cache in a query": (lambda: asks_with(__post_init__=with_cache), "frozen", "'cache' is a dict"),
    "a wrong size": (lambda: asks_with(size=property(lambda self: 4)), "sizes", "has the shape"),
    "a query without its methods": (lambda: algorithm(**asking_no_query()), "requests", "no sensitivity"),
    "something else than a request": (
        lambda: algorithm(next_request=lambda *arguments: ("count", 1)),
        "requests",
        "Return a Request",
    ),
    "an unknown block": (lambda: algorithm(**asking(split={"count": 1})), "requests", "Name each block once"),
    "it never ends": (lambda: algorithm(next_request=endless), "requests", "still asks after"),
    "shares above 1": (lambda: algorithm(**asking(share=Fraction(1, 2))), "budget", "add up to 1"),
    "a split above 1": (
        lambda: algorithm(**asking(split={"count": 1, "shift": Fraction(1, 2)})),
        "budget",
        "3/2 of its share",
    ),
    "shares below 1": (lambda: algorithm(**asking(share=0.3)), "whole budget", "9/10 of the budget"),
    "a split below 1": (
        lambda: algorithm(**asking(split={"count": 0.5, "shift": 0.25})),
        "whole budget",
        "3/4 of its share",
    ),
    "a counter in the algorithm": (hidden_counter, "next request", "keep nothing between calls"),
    "a generator of its own": (
        lambda: algorithm(**centers_from(lambda d: np.random.default_rng().uniform(-1, 1, d))),
        "next request",
        "the generator that it is given",
    ),
    "the number of records reaches the next query": (remembers_records, "equal draws", "the number of records"),
    "the number of rounds depends on the records": (
        one_round_more_for_large_tables,
        "equal draws",
        "with a single record",
    ),
    "an estimate that is not a number": (
        lambda: algorithm(**centers_from(np.zeros), estimate=lambda self, context, rounds: np.log(rounds[-1].noisy)),
        "estimate",
        "NaN or infinite",
    ),
    "an estimate that draws": (
        lambda: algorithm(
            **centers_from(np.zeros), estimate=lambda *arguments: np.random.default_rng().uniform(size=2)
        ),
        "estimate",
        "called again",
    ),
    "a support outside": (
        lambda: algorithm(support=lambda self, context, rounds, n_points, rng: rng.normal(size=(n_points, 2))),
        "support",
        "context.domain.clip",
    ),
    "a support of another size": (
        lambda: algorithm(support=lambda self, context, rounds, n_points, rng: np.zeros((9, 2))),
        "support",
        "asked for",
    ),
    "a support with a generator of its own": (lambda: algorithm(support=no_generator), "support", "equal generator"),
    "no trust at all": (lambda: algorithm(pseudo_records=0.0), "support", "positive number"),
    "a refit of another shape": (
        lambda: algorithm(refit=lambda self, context, rounds, points, weights, rng: weights[:1]),
        "refit",
        "has the shape",
    ),
    "a refit that is not a number": (
        lambda: algorithm(refit=lambda self, context, rounds, points, weights, rng: points.std(axis=0, ddof=1)),
        "refit",
        "a single point",
    ),
    "a refit that changes its input": (lambda: algorithm(refit=changes_points), "refit", "Work on copies"),
    "a refit without the weights": (
        lambda: algorithm(refit=lambda self, context, rounds, points, weights, rng: points.mean(axis=0)),
        "weights",
        "two records",
    ),
    "a support that runs out of points": (lambda: algorithm(support=few_points), "inference", "few_points (line"),
    "attributes that can be set": (lambda: Loose(), "frozen", "@dataclass(frozen=True)"),
    "an algorithm without its methods": (NoQuery, "protocol", "no next_request, estimate"),
}


class Loose(Mean):
    """Neither declares itself a frozen dataclass nor keeps others from setting its attributes."""

    type_name = "test-loose"
    __setattr__ = object.__setattr__
    __dataclass_params__ = None


def asking_no_query():
    def next_request(self, context, rounds, rng):
        return Request(query=NoQuery(), share=Fraction(1), split={"count": 1})

    return {"next_request": next_request}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_and_explained(name, monkeypatch):
    monkeypatch.setattr("recoup.testing.drive._MOST_ROUNDS", 12)
    make, check, words = PLANTED[name]
    with pytest.raises(ContractViolation) as violation:
        check_algorithm(make(), domain=BOX)
    found = {failure.name: failure.message for failure in violation.value.report.failures}
    assert check in found, found
    assert words in found[check]
    assert found[check] in str(violation.value)


def test_every_rule_is_broken_by_a_planted_bug():
    assert {check for _, check, _ in PLANTED.values()} == set(RULES)


# A bug in one place is reported there and nowhere else: an explanation that comes with others is no explanation.
ALONE = [
    "both bounds 1 % too small",
    "a peak in the interior, 1 % too small",
    "divided by the number of records",
    "its input is changed",
    "shares above 1",
    "shares below 1",
    "a refit without the weights",
    "a query that is not registered",
    "an estimate that draws",
]


@pytest.mark.parametrize("name", ALONE)
def test_a_planted_bug_breaks_its_own_rule_alone(name):
    make, check, _ = PLANTED[name]
    failures = check_algorithm(make(), domain=BOX, raise_on_failure=False).failures
    others = {"integer total"} if name == "divided by the number of records" else set()
    assert {failure.name for failure in failures} == {check} | others


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "norm"), [(recoup.Box, 1), (recoup.L1Ball, 1), (recoup.L2Ball, 2)])
@pytest.mark.parametrize("n_columns", [1, 3, 8])
def test_a_bound_that_is_too_small_by_one_percent_is_found_in_every_domain(kind, norm, n_columns, seed):
    rng = np.random.default_rng(seed)
    domain = kind([0.0] * n_columns, [1.0] * n_columns)
    center = uniform_points(domain, 1, rng)[0]
    good, bad = query_class(), query_class(sensitivity=tighter(0.99, only=(norm,)))
    # In these pairs of domain and norm the bound is reached: in a ball only where one does not know to look.
    assert check_query(good(center), domain=domain, random_state=seed).passed
    report = check_query(bad(center), domain=domain, random_state=seed, raise_on_failure=False)
    assert [failure.name for failure in report.failures] == ["sensitivity"]
    assert f"declared l{norm} bound" in report.failures[0].message


def test_a_bound_that_forgets_the_radius_of_the_ball_is_found_by_default():
    def sensitivity(self, domain):
        counts, shift = Shift.sensitivity(self, recoup.L1Ball(domain.low, domain.high)).blocks
        return Sensitivity((counts, shift))

    query = query_class(sensitivity=sensitivity)(np.zeros(2))
    assert check_query(query, domain=recoup.L1Ball([0, 0], [1, 1])).passed
    messages = str(check_query(query, raise_on_failure=False))
    assert "sensitivity" in messages


def test_arithmetic_that_depends_on_the_number_of_rows_is_found_to_the_last_bit():
    def contribution(self, x):
        rows = Shift.contribution(self, x)
        if len(x) > 1:  # what a library may do for many rows: another order of additions
            rows[:, 1:] = rows[:, 1:] * (1 + 2.0**-52)
        return rows

    report = check_query(query_class(contribution=contribution)(np.array([0.3, 0.1])), raise_on_failure=False)
    assert "one by one" in {failure.name for failure in report.failures}


def test_a_long_run_is_checked_at_its_last_round_too(monkeypatch):
    monkeypatch.setattr("recoup.testing.algorithms._MOST_QUERIES", 4)
    late = [None]

    def sensitivity(self, domain):
        factor = 0.5 if late[0] is not None and self.center[0] == late[0] else 1.0
        return tighter(factor)(self, domain)

    made = type(algorithm(query_class(sensitivity=sensitivity), **asking_by_round()))(n_rounds=9)
    late[0] = 8 / 100
    found = check_algorithm(made, domain=BOX, raise_on_failure=False).failures
    assert [failure.name for failure in found] == ["sensitivity"]
    assert "round 9" in found[0].message


def asking_by_round():
    def next_request(self, context, rounds, rng):
        return request_of(self, context, rounds, center=np.full(context.domain.n_columns, len(rounds) / 100))

    return {"next_request": next_request}


# What comes back.


def test_a_failure_carries_its_report_and_can_be_asked_not_to_raise():
    bad = query_class(sensitivity=tighter(0.5))(np.array([0.0, 0.0]))
    report = check_query(bad, domain=BOX, raise_on_failure=False)
    with pytest.raises(AssertionError) as violation:
        check_query(bad, domain=BOX)
    assert isinstance(violation.value, RecoupError)
    assert str(violation.value) == str(report)
    assert "breaks its contract in 1 of" in str(report)
    assert RULES["sensitivity"] in str(report)


def test_a_failure_in_many_places_is_told_once():
    bad = query_class(sensitivity=tighter(0.5))(np.array([0.0, 0.0]))
    message = check_query(bad, raise_on_failure=False).failures[0].message
    assert message.count("Declare a bound") == 1
    assert "in 4 more places" in message
    assert message.startswith("In the Box: block 'shift'")
    two = check_query(bad, domain=[BOX, recoup.L2Ball([0, 0], [1, 1])], raise_on_failure=False)
    assert "in 1 more place.)" in two.failures[0].message


def test_shares_that_floats_leave_short_are_shown_exactly():
    def next_request(self, context, rounds, rng):
        request = Mean.next_request(self, context, rounds, rng)
        return None if request is None else Request(query=request.query, share=1 / 3, split=request.split)

    report = check_algorithm(algorithm(next_request=next_request), domain=BOX, raise_on_failure=False)
    (failure,) = report.failures
    assert failure.name == "whole budget"
    assert "ask for 9999999999999999/10000000000000000 of the budget. Write shares as Fraction(1, 3)" in failure.message


def test_an_error_of_the_code_under_test_is_placed():
    def contribution(self, x):
        raise KeyError("what")

    report = check_query(query_class(contribution=contribution)(np.zeros(2)), raise_on_failure=False)
    assert "contribution (line" in report.failures[0].message
    assert "raised KeyError" in report.failures[0].message


def test_something_that_is_no_domain_is_refused():
    with pytest.raises(ParameterError, match="Box, L1Ball"):
        check_algorithm(algorithm(), domain="box")
    with pytest.raises(ParameterError, match="Box, L1Ball"):
        check_query(Shift(np.zeros(2)), domain=[])
    assert check_query(query_class()(np.zeros(2)), domain=[BOX, recoup.L2Ball([0, 0], [1, 1])]).passed


def test_the_tutorial_names_every_check():
    page = (Path(__file__).parents[2] / "docs" / "your-own.md").read_text(encoding="utf-8")
    named = {name.strip() for row in page.splitlines() if row.startswith("| ") for name in row.split("|")[1].split(",")}
    assert set(RULES) <= named
