"""Persons: all records of one, whatever they are, move totals by no more than the promise, and move nobody else's rows.

The person that neighbours differ by holds records at opposite ends, one of them many times, incomplete ones; their
records stand between those of others. Identifiers of others look like theirs once they are cut short or read as floats.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from recoup.curator.curator import Curator
from recoup.curator.source import TableSource, open_source
from recoup.domain import Box, Domain, L1Ball, L2Ball
from recoup.driver import release
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.mixed import Mixed
from recoup.privacy.ledger import Ledger
from recoup.privacy.statement import PerPerson
from recoup.queries.cells import VoronoiQuery
from recoup.transcript.context import Context
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.observed import Observation
from recoup_lab.audit.attacks.paths import Losses
from recoup_lab.audit.attacks.sampler import Heard, listening
from recoup_lab.audit.attacks.schemas import SCHEMA, ordinary_rows
from recoup_lab.audit.attacks.silence import Works, compared
from recoup_lab.audit.attacks.subjects import Terms, request_for, subjects
from recoup_lab.audit.findings import Finding

GROUP: Final = "persons"
LOSS, ROWS, SILENCE = "a whole person", "rows of others", "side information of persons"
_WHO: Final = "who"
_KEY: Final = "00112233445566778899aabbccddeeff"
_NAMES: Final = ("a", "b", "c", "d", "e")
_LOW, _HIGH = (-3.0, 1.0, 0.0, -1.0, -5.0), (1.5, 7.0, 0.5, 1.0, -2.0)
# Powers of two: corners of a ball lie on the records' grid exactly, so that means of them show how they are rounded.
_BALL_LOW, _BALL_HIGH = (-1.0, 0.0, -2.0, -4.0, 0.0), (1.0, 2.0, 2.0, 4.0, 8.0)
_DOMAINS: Final[Mapping[str, Domain]] = {
    "box": Box(_LOW, _HIGH, _NAMES),
    "L1 ball": L1Ball(_BALL_LOW, _BALL_HIGH, _NAMES),
    "L2 ball": L2Ball(_BALL_LOW, _BALL_HIGH, _NAMES, radius=0.9),
    "schema": Mixed(schema=SCHEMA),
}


class _How(NamedTuple):
    per_person: PerPerson
    records_per_person: int


_HOWS: Final = {"mean": _How("mean", 1), "sample of 1": _How("sample", 1), "sample of 3": _How("sample", 3)}


class _Identifiers(NamedTuple):
    """The type of a column of persons, somebody's identifier, and those of others, who are not that person."""

    kind: Any
    own: Any
    others: tuple[Any, ...]


_IDENTIFIERS: Final[Mapping[str, _Identifiers]] = {
    "whole numbers": _Identifiers(pa.int64(), 7, (7 + 2**32, 7 + 2**16, 7 + 2**62, -7, 2**53, 2**53 + 1)),
    "large whole numbers": _Identifiers(pa.uint64(), 2**63 + 1, (2**63, 1, 2**63 + 2, 2**64 - 1)),
    "texts": _Identifiers(
        pa.string(), "p" * 900 + "7", ("p" * 900 + "8", "p" * 900, "P" * 900 + "7", "7", "p" * 64, "p7", "p" * 8)
    ),
    "floats": _Identifiers(pa.float64(), 1.5, (np.nextafter(1.5, 2.0), 1.0, -1.5, float("inf"), 2.0)),
}


@dataclass(frozen=True, slots=True)
class _Visits:
    """Records, and whose they are; no identifier is nobody's."""

    columns: dict[str, list[Any]]
    who: list[Any]

    def __len__(self) -> int:
        return len(self.who)

    def taken(self, places: list[int]) -> _Visits:
        """Those at some places."""
        columns = {name: [cells[i] for i in places] for name, cells in self.columns.items()}
        return _Visits(columns, [self.who[i] for i in places])

    def of(self, who: Any) -> _Visits:
        """The same records, of somebody else."""
        return replace(self, who=[who] * len(self))

    def table(self, kind: Any) -> pa.Table:
        """As a table, in which the persons stand last."""
        columns = {
            name: pa.array(cells, pa.string() if any(isinstance(c, str) for c in cells) else pa.float64())
            for name, cells in self.columns.items()
        }
        return pa.table(columns | {_WHO: pa.array(self.who, kind)})


def attack(effort: Effort) -> Iterator[Finding]:
    """Add a person, of every kind, to others, for every shape of domain, way to keep records and type of identifier."""
    for name, domain in _DOMAINS.items():
        for how, kept in _HOWS.items():
            for mechanism in ("laplace", "gaussian"):
                yield _lost(effort, f"{name}, {how}, {mechanism}", domain, kept, mechanism)
    for kind, identifiers in _IDENTIFIERS.items():
        yield _rows_kept(effort, kind, identifiers)
    yield _many_copies(effort)
    yield compared(effort, "releases by file and frame", _releases(effort), group=GROUP, attack=SILENCE)
    for kept in (_HOWS["mean"], _HOWS["sample of 3"]):
        yield _stated(effort, kept)


# ---- who holds what ----


def _points(domain: Domain, n: int, rng: np.random.Generator) -> _Visits:
    """Records of nobody yet, some of them incomplete."""
    if isinstance(domain, Mixed):
        rows = [list(row) for row in ordinary_rows(n, rng)]
        for i, row in enumerate(rows):
            row[4] = "zz" if i % 5 == 1 else row[4]
            row[3] = None if i % 7 == 6 else row[3]
        # A cell that is missing is one in a table of types, too.
        columns: dict[str, list[Any]] = {name: [row[j] for row in rows] for j, name in enumerate(domain.schema)}
        return _Visits(columns, [None] * n)
    unit = rng.uniform(-1.2, 1.2, size=(n, domain.n_columns))
    points = domain.from_unit(np.clip(unit, -1, 1))
    points[::7, 0] = np.nan
    return _Visits(dict(zip(_NAMES, points.T.tolist(), strict=True)), [None] * n)


def _ends(domain: Domain) -> dict[str, _Visits]:
    """What a person may hold: records at ends of the domain, next to each other or opposite."""
    if isinstance(domain, Mixed):
        first: list[Any] = [6.0, 1000.0, 4.0, "y", "r", "3"]
        second: list[Any] = [-2.0, None, 0.0, "x", "zz", None]
        names, ends = list(domain.schema), [first, second]
    else:
        sizes = np.array([1.0, 0.7, 0.3, 0.3, 0.1])
        points = domain.from_unit(np.stack([sizes, -sizes, *np.eye(5), np.ones(5)]))
        names, ends = list(_NAMES), points.tolist()
    held = {
        "one record": [0],
        "ends that are opposite": [0, 1],
        "three of one and two of another": [0, 1, 0, 1, 0],
        "one record, seven times": [0] * 7,
        "all ends": list(range(len(ends))) * 3,
        "two near each other": [0, len(ends) - 1],
        # Of these the mean lies on the border of a ball, and seventeenths have no place on a grid.
        "corners, seventeen times": [i % len(ends) for i in (*[2] * 10, 3, 3, 3, 4, 4, 5, 6)],
    }
    return {
        name: _Visits({column: [ends[i][j] for i in places] for j, column in enumerate(names)}, [None] * len(places))
        for name, places in held.items()
    }


def _mixed_in(visits: _Visits, added: _Visits) -> _Visits:
    """Records of a person between those of others, first, last and in the middle."""
    both = _Visits({n: c + added.columns[n] for n, c in visits.columns.items()}, visits.who + added.who)
    places = np.concatenate([np.arange(len(visits)), np.linspace(-0.5, len(visits), len(added))])
    return both.taken(np.argsort(places, kind="stable").tolist())


def _others(domain: Domain, identifiers: _Identifiers, rng: np.random.Generator) -> _Visits:
    found = _points(domain, 40, rng)
    whose = [*identifiers.others, None]
    return replace(found, who=[whose[i] for i in rng.integers(len(whose), size=40)])


# ---- the exact loss ----


def _lost(effort: Effort, target: str, domain: Domain, kept: _How, mechanism: str) -> Finding:
    losses = Losses(target)
    terms = Terms(mechanism=mechanism, domain=domain, records_per_person=kept.records_per_person)
    rng = effort.rng(30)
    centers = domain.clip(rng.uniform(-1, 1, size=(3, domain.n_columns)))
    norm = 1 if mechanism == "laplace" else 2
    asked = {
        "counts and sums": VoronoiQuery(centers=centers),
        "around centres": VoronoiQuery(centers=centers, sums="relative", radii=np.array([0.2, 0.9, 2.0]), norm=norm),
    }
    whole, texts = _IDENTIFIERS["whole numbers"], _IDENTIFIERS["texts"]
    for identifiers in (whole, texts):
        others = _others(domain, identifiers, rng)
        nobody = others.taken([])
        for name, held in _ends(domain).items():
            own = held.of(identifiers.own)
            for around in (others, nobody):
                tables = [visits.table(identifiers.kind) for visits in (around, _mixed_in(around, own))]
                for query, made in asked.items():
                    heard = [_answered(made, table, terms, kept, effort.seed) for table in tables]
                    losses.compare(heard, terms, f"{query}, {name}")
    return losses.finding(GROUP, LOSS)


def _context(terms: Terms, kept: _How) -> Context:
    sampled = kept.per_person == "sample"
    return replace(terms.context, person=_WHO, per_person=kept.per_person, sample_key=_KEY if sampled else None)


def _source(table: object, domain: Domain, kept: _How) -> Any:
    key = _KEY if kept.per_person == "sample" else None
    more: dict[str, Any] = {"per_person": kept.per_person, "records_per_person": kept.records_per_person, "key": key}
    return open_source(table, domain, person=_WHO, **more)


def _answered(query: VoronoiQuery, table: object, terms: Terms, kept: _How, seed: int) -> Heard:
    with listening(held=seed) as heard:
        curator = Curator(_source(table, terms.domain, kept), _context(terms, kept))
        curator.answer(request_for(query, terms.domain))
    return heard


def _many_copies(effort: Effort) -> Finding:
    """A person with very many records, beside few others."""
    domain, identifiers = _DOMAINS["box"], _IDENTIFIERS["whole numbers"]
    losses, others = Losses("very many records of one person"), _others(domain, identifiers, effort.rng(31))
    n = effort.tries(1_000_000, 100_000)
    one = others.table(identifiers.kind)
    added = pa.table({name: np.full(n, high) for name, high in zip(_NAMES, domain.high, strict=True)})
    other = pa.concat_tables([added.append_column(_WHO, pa.array(np.full(n, identifiers.own))), one])
    for name, kept in _HOWS.items():
        terms = Terms(domain=domain, records_per_person=kept.records_per_person)
        query = VoronoiQuery(centers=np.zeros((1, domain.n_columns)))
        heard = [_answered(query, table, terms, kept, effort.seed) for table in (one, other)]
        losses.compare(heard, terms, name)
    return losses.finding(GROUP, LOSS)


# ---- whoever is not that person keeps the same rows ----


def _rows_kept(effort: Effort, target: str, identifiers: _Identifiers) -> Finding:
    problems: list[str] = []
    tries, rng = 0, effort.rng(32)
    for name, domain in _DOMAINS.items():
        others = _others(domain, identifiers, rng)
        for how, kept in _HOWS.items():
            before = _rows(others, identifiers, domain, kept)
            for held, visits in _ends(domain).items():
                both = _mixed_in(others, visits.of(identifiers.own))
                after = _rows(both, identifiers, domain, kept)
                tries += 1
                where = f"{name}, {how}, {held}"
                if before - after:
                    problems.append(f"somebody else's row changed: {where}")
                if (after - before).total() > kept.records_per_person:
                    problems.append(f"more rows than are kept of one person: {where}")
                if not all(_is_record(row, domain) for row in after):
                    problems.append(f"a row is not one that a record can have: {where}")
    return Finding(
        group=GROUP,
        attack=ROWS,
        target=target,
        tries=tries,
        result=problems[0] if problems else "unchanged",
        passed=not problems,
    )


def _rows(visits: _Visits, identifiers: _Identifiers, domain: Domain, kept: _How) -> Counter[tuple[int, ...]]:
    source = _source(visits.table(identifiers.kind), domain, kept)
    assert isinstance(source, TableSource)
    return Counter(tuple(map(int, row)) for block in source.records() for row in block if row[0] != DROPPED)


def _is_record(row: tuple[int, ...], domain: Domain) -> bool:
    """Whether a row lies in the domain, in whole numbers."""
    sizes = [abs(value) for value in row]
    if isinstance(domain, Mixed):
        return sum(sizes) <= domain.sum_bound(1) * GRID
    radius = Fraction(1 if not isinstance(domain, L1Ball | L2Ball) else domain.radius or 1) * int(GRID)
    if isinstance(domain, L1Ball):
        return sum(sizes) <= radius
    if isinstance(domain, L2Ball):
        return sum(size**2 for size in sizes) <= radius**2
    return max(sizes) <= radius


# ---- side information, and what is said ----


def _writers(effort: Effort) -> Mapping[str, Callable[[pa.Table, Path], object]]:
    def written(ending: str, write: Callable[[pa.Table, Path], Any]) -> Callable[[pa.Table, Path], object]:
        def made(table: pa.Table, folder: Path) -> Path:
            path = folder / f"table.{ending}"
            write(table, path)
            return path

        return made

    return {
        "PyArrow": lambda table, folder: table,
        "Parquet": written("parquet", parquet.write_table),
        "CSV": written("csv", arrow_csv.write_csv),
    }


def _releases(effort: Effort) -> Works:
    """What can be seen of releases for persons: by whom records are held must not show, nor that nobody holds one."""
    domain, identifiers = _DOMAINS["schema"], _IDENTIFIERS["texts"]
    others = _others(domain, identifiers, effort.rng(33))
    held = _ends(domain)["all ends"]
    tables = {
        "the table": others,
        "no record": others.taken([]),
        "one person more": _mixed_in(others, held.of(identifiers.own)),
        "records of nobody": _mixed_in(others, held.of(None)),
        "an empty name": _mixed_in(others, held.of(" ")),
        "a name as long as none may be": _mixed_in(others, held.of("n" * 5000)),
        "a name that is a number": _mixed_in(others, held.of("1e5")),
        "all of one person": others.of("one"),
        "nobody's": others.of(None),
    }
    lloyd = next(subject.algorithm for subject in subjects() if subject.name == "kmeans-lloyd")
    assert lloyd is not None

    def work(visits: _Visits) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            seen: Observation = {}
            for kind, write in _writers(effort).items():
                for name, kept in _HOWS.items():
                    ledger = Ledger.create(folder / f"{kind} {name}.db", epsilon=2)
                    terms: dict[str, Any] = {"person": _WHO, **kept._asdict(), "random_state": 3, "ledger": ledger}
                    table = write(visits.table(identifiers.kind), folder)
                    path = folder / f"{kind} {name}.json"
                    made = release(lloyd, table, domain=domain, epsilon=1, path=path, **terms)
                    seen[f"{kind}, {name}"] = repr(made)
                    seen[f"{kind}, {name}: promise"] = str(made.privacy)
            return seen

        return run

    return {name: work(visits) for name, visits in tables.items()}


def _stated(effort: Effort, kept: _How) -> Finding:
    """The promise names a person, and the noise is drawn for as many records as are kept of one."""
    terms = Terms(domain=_DOMAINS["box"], records_per_person=kept.records_per_person)
    identifiers = _IDENTIFIERS["whole numbers"]
    table = _others(terms.domain, identifiers, effort.rng(34)).table(identifiers.kind)
    lloyd = next(subject.algorithm for subject in subjects() if subject.name == "kmeans-lloyd")
    assert lloyd is not None
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder, listening() as heard:
        ledger = Ledger.create(Path(folder) / "ledger.db", epsilon=4)
        more: dict[str, Any] = {"person": _WHO, **kept._asdict(), "ledger": ledger}
        said = release(lloyd, table, domain=terms.domain, epsilon=1, random_state=0, **more).privacy
        charged = sum((entry.amount for entry in ledger.entries()), Fraction(0))
    distance = terms.context.sensitivity * terms.records_per_person
    share = sum((draw.price(distance) for draw in heard.draws), Fraction(0)) / terms.claimed
    promised = f"one person, by column {_WHO!r}"
    problems = [] if said["unit"] == promised else [f"the statement's unit is {said['unit']!r}"]
    problems += [f"the noise costs {float(share):.3f} times the claim for a person"] if share > 1 else []
    problems += ["the ledger was charged less than was drawn"] if charged < share * terms.claimed else []
    return Finding(
        group=GROUP,
        attack="price of a person",
        target=f"{kept.per_person}, {kept.records_per_person} of each",
        tries=len(heard.draws),
        result="; ".join(problems) or f"{float(share):.9f} of the claim spent",
        passed=not problems,
        figures={"share_of_claim": float(share)},
    )
