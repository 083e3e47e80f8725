"""What is attacked: algorithms, rivals and queries from their registries, and pairs of neighbouring tables.

Whatever is registered joins by itself: an algorithm is built with twos for the numbers that it must be given, a query
without an example is taken from what the algorithms ask. `ALGORITHM_EXAMPLES` and `QUERY_EXAMPLES` name better ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from recoup.algorithms.base import Algorithm
from recoup.algorithms.registry import ALGORITHMS
from recoup.curator.rivals import RIVALS, rival_of
from recoup.curator.rivals.base import Rival, release_model
from recoup.curator.rivals.privgene import PrivGene
from recoup.domain import Box, Domain, L1Ball, L2Ball
from recoup.driver import release
from recoup.errors import ParameterError, RecoupError
from recoup.mixed import Mixed
from recoup.privacy.ledger import Ledger
from recoup.queries import QUERIES
from recoup.queries.base import Array, Query
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery, marginals_of_domain
from recoup.transcript.context import Context, Request
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.reference import largest_half_square, largest_rho

_LOW, _HIGH = (-3.0, 1.0), (1.5, 7.0)  # not symmetric, so that a mistake in scaling shows
BOX: Final = Box(_LOW, _HIGH)
DOMAINS: Final[Mapping[str, Domain]] = {"box": BOX, "l1": L1Ball(_LOW, _HIGH), "l2": L2Ball(_LOW, _HIGH, radius=0.9)}
# Other numbers of columns: with two, some mistakes in a sensitivity cancel out.
WIDTHS: Final[tuple[Domain, ...]] = tuple(
    Box((-3.0, 1.0, 0.0, -1.0, -5.0)[:d], (1.5, 7.0, 0.5, 1.0, -2.0)[:d]) for d in (1, 5)
)
DELTA: Final = Fraction(1, 10**6)

ALGORITHM_EXAMPLES: dict[str, Mapping[str, Any]] = {"kmeans-lloyd": {"n_clusters": 2, "n_rounds": 2}}
NEVER_RELEASED: Final = frozenset({"elsewhere"})  # names of what only ran on other people's records
# By name: from the norm of the mechanism and the number of columns to a query.
QUERY_EXAMPLES: dict[str, Callable[[int, int], Query]] = {
    "voronoi": lambda norm, d: VoronoiQuery(centers=_centers(d)),
    "voronoi, counts only": lambda norm, d: VoronoiQuery(centers=_centers(d), sums="none"),
    "voronoi, relative": lambda norm, d: VoronoiQuery(
        centers=_centers(d), sums="relative", radii=np.array([0.2, 0.9, 0.5]), norm=norm
    ),
    "voronoi, squares": lambda norm, d: VoronoiQuery(
        centers=_centers(d), sums="relative", radii=np.array([0.2, 0.9, 0.5]), norm=norm, squares=True
    ),
    "grid": lambda norm, d: GridQuery(sides=(3, *[2] * (d - 1))),
    "histogram": lambda norm, d: HistogramQuery.one_way(dimension=d, bins=4),
}


def _centers(d: int) -> Array:
    last = np.resize(np.array([-0.6, 0.7]), d)
    return np.array([np.full(d, -0.5), np.full(d, 0.5), last])


class Neighbours(NamedTuple):
    """Two tables that differ by what one person holds, in the user's units."""

    without: Array
    having: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The public terms of an attacked release."""

    mechanism: str = "laplace"
    domain: Domain = BOX
    epsilon: Fraction = Fraction(1)
    records_per_person: int = 1
    n_records: int | None = None

    @property
    def delta(self) -> Fraction:
        """0 for Laplace noise."""
        return Fraction(0) if self.mechanism == "laplace" else DELTA

    @property
    def context(self) -> Context:
        """The terms as the curator takes them."""
        return Context(
            domain=self.domain,
            epsilon=self.epsilon,
            delta=self.delta,
            mechanism="laplace" if self.mechanism == "laplace" else "gaussian",
            records_per_person=self.records_per_person,
            n_records=self.n_records,
        )

    @property
    def claimed(self) -> Fraction:
        """What the terms allow, computed here: epsilon itself, or the largest mu^2 / 2 for epsilon and delta.

        Between neighbours that are fewer than 2^24 steps apart, the largest rho of zCDP.
        """
        if self.mechanism == "laplace":
            return self.epsilon
        steps = self.records_per_person * 2**61 // max(2**31, self.n_records or 0)
        return (largest_half_square if steps >= 2**24 else largest_rho)(self.epsilon, self.delta)


class Released(NamedTuple):
    """What left the curator: a transcript, or only centres."""

    transcript: Transcript | None
    centers: Array | None
    privacy: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An algorithm or a rival under attack."""

    name: str
    algorithm: Algorithm | None = None
    rival: Rival | None = None

    def mechanisms(self) -> tuple[str, ...]:
        """Which noise it can use."""
        return ("laplace",) if self.rival is not None else ("laplace", "gaussian")

    def run(
        self, table: object, terms: Terms, *, seed: int | None = 0, ledger: Ledger | None = None, **more: Any
    ) -> Released:
        """Release it on a table with secure noise; the seed is of harmless choices only; None: drawn."""
        if self.rival is not None:
            model = release_model(
                self.rival,
                table,
                domain=terms.domain,
                epsilon=terms.epsilon,
                records_per_person=terms.records_per_person,
                n_records=terms.n_records,
                ledger=ledger,
                random_state=seed,
            )
            return Released(None, model.centers, model.privacy)
        assert self.algorithm is not None
        transcript = release(
            self.algorithm,
            table,
            domain=terms.domain,
            epsilon=terms.epsilon,
            delta=terms.delta,
            mechanism="laplace" if terms.mechanism == "laplace" else "gaussian",
            records_per_person=terms.records_per_person,
            n_records=terms.n_records,
            ledger=ledger,
            random_state=seed,
            **more,
        )
        return Released(transcript, None, transcript.privacy)


def subjects() -> tuple[Subject, ...]:
    """Every registered algorithm and rival, as small as it gets.

    >>> [s.name for s in subjects() if s.rival is not None]
    ['gupt', 'privgene']
    """
    kinds = {name: kind for name, kind in ALGORITHMS.items() if name not in NEVER_RELEASED}
    found = [Subject(name=name, algorithm=_smallest(kind)) for name, kind in kinds.items()]
    for name in RIVALS:
        small = PrivGene(n_clusters=2, n_rounds=2, n_candidates=16, n_survivors=5)
        found.append(Subject(name=name, rival=small if name == PrivGene.type_name else rival_of(name, 2)))
    return tuple(found)


def _smallest(kind: type[Any]) -> Algorithm:
    given = ALGORITHM_EXAMPLES.get(kind.type_name)
    if given is None:
        given = {f.name: 2 for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    try:
        made: Algorithm = kind(**given)
    except (RecoupError, TypeError, ValueError):
        raise ParameterError(f"no example of {kind.type_name}: name one in ALGORITHM_EXAMPLES.") from None
    return made


def queries(mechanism: str, domain: Domain = BOX, table: object = None) -> dict[str, Query]:
    """An example of every registered kind of query, over the columns of a domain; of declared ones, give a table."""
    norm = 1 if mechanism == "laplace" else 2
    found = {name: make(norm, domain.n_columns) for name, make in QUERY_EXAMPLES.items()}
    if isinstance(domain, Mixed):
        # Its cells are categories, and a grid over all columns there is not.
        found["histogram"] = HistogramQuery(dimension=domain.n_columns, marginals=marginals_of_domain(domain, 4))
        del found["grid"]
    missing = set(QUERIES) - {query.type_name for query in found.values()}
    if missing:
        table = ordinary_table(domain, 30, np.random.default_rng(1)) if table is None else table
        found |= {name: query for name, query in _asked(mechanism, domain, table).items() if name in missing}
    # Of one column there are no two components, for example: on other widths some are asked by nobody.
    if domain is BOX and set(QUERIES) - {query.type_name for query in found.values()}:
        raise ParameterError("a registered query is asked by no algorithm: name an example in QUERY_EXAMPLES.")
    return found


def _asked(mechanism: str, domain: Domain, table: object) -> dict[str, Query]:
    asked: dict[str, Query] = {}
    for subject in subjects():
        if subject.algorithm is None or mechanism not in subject.mechanisms():
            continue
        terms = Terms(mechanism=mechanism, domain=domain, epsilon=Fraction(100))
        try:
            transcript = subject.run(table, terms).transcript
        except ParameterError:
            if domain is BOX:
                raise
            continue
        # The last one: its state was moved by answers, while a first one may be special.
        asked |= {answered.query.type_name: answered.query for answered in (transcript.rounds if transcript else ())}
    return asked


def request_for(query: Query, domain: Domain) -> Request:
    """All of the budget for one query, with uneven shares: swapped ones must show."""
    names = query.sensitivity(domain).names
    weights = {name: Fraction(2**i) for i, name in enumerate(names)}
    whole = sum(weights.values())
    return Request(query=query, share=Fraction(1), split={name: weight / whole for name, weight in weights.items()})


def ordinary_table(domain: Domain, n: int, rng: np.random.Generator) -> Array:
    """Records in two lumps inside the bounds."""
    unit = np.where(rng.uniform(size=(n, 1)) < 0.5, -0.5, 0.4) + 0.1 * rng.standard_normal((n, domain.n_columns))
    return domain.from_unit(np.clip(unit, -1.0, 1.0))


def neighbours(domain: Domain, *, n_records: int = 1, rng: np.random.Generator) -> dict[str, Neighbours]:
    """Pairs of tables chosen to hurt: what one person adds is at the worst places, or is no record at all."""
    d = domain.n_columns
    low, high = np.array(domain.low), np.array(domain.high)
    few, none = ordinary_table(domain, 12, rng), np.empty((0, d))
    lump = np.repeat(domain.from_unit(np.full((1, d), -0.5)), 8, axis=0)
    # Between the first two centres of the examples, and on an edge of every grid with an even number of bins.
    middle = domain.from_unit(np.zeros(d))
    axis = domain.from_unit(np.where(np.arange(d) == 0, 1.0, 0.0))
    records = {
        "zero records against one, far corner": (none, high),
        "zero records against one, other corner": (none, low),
        "an empty cell": (lump, high),
        "a vertex of the ball": (few, axis),
        "the boundary between cells": (few, middle),
        "far outside the bounds": (few, np.where(np.arange(d) % 2, -1e300, 1e300)),
        "one record again": (lump, lump[0]),
        "a missing value": (few, np.where(np.arange(d) == 0, np.nan, high)),
    }
    return {
        name: Neighbours(table, np.concatenate([table, np.repeat(row[None], n_records, axis=0)]))
        for name, (table, row) in records.items()
    }
