"""Each bug that the contract suite must find, with the rule that it breaks and its explanation."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from right_contract import Mean, Shift, algorithm, asks_with, query_class

import recoup
from recoup.custom import Block, Request, Sensitivity, bounded_block, uniform_points
from recoup.queries.base import sum_of_contributions


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


def asking_by_round():
    def next_request(self, context, rounds, rng):
        return request_of(self, context, rounds, center=np.full(context.domain.n_columns, len(rounds) / 100))

    return {"next_request": next_request}
