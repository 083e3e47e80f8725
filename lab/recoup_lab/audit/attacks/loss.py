"""The privacy loss, exactly: how far apart the samplers' inputs are for two neighbours, along one path of answers.

With the answers held fixed, both tables are asked the same. So the integers that reach OpenDP can be compared: their
distance over the scale, summed over all draws, is the loss of that path, and it must be within the claim, whatever
clipping, splitting, calibrating and rounding did. Nothing is random, so there are no false alarms; only mistakes in the
noise itself are not seen.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.domain import Box, Domain
from recoup.queries.base import Array, Query
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.files import (
    FILE_ROWS,
    FILES,
    FRAMES,
    LONGEST_TEXT,
    NAMED_BOX,
    NAMES,
    ODD_LINES,
    TEXTS,
    csv_of,
    quoted_csv,
    readable,
    windows_csv,
)
from recoup_lab.audit.attacks.paths import Losses
from recoup_lab.audit.attacks.sampler import Heard, listening
from recoup_lab.audit.attacks.subjects import (
    BOX,
    DOMAINS,
    WIDTHS,
    Subject,
    Terms,
    neighbours,
    ordinary_table,
    request_for,
    subjects,
)
from recoup_lab.audit.attacks.subjects import queries as example_queries
from recoup_lab.audit.findings import Finding

GROUP: Final = "loss"
ATTACK: Final = "exact loss on held paths"
Odd = TypeVar("Odd", bytes, str)


def attack(effort: Effort) -> Iterator[Finding]:
    """Compare the samplers' inputs for adversarial neighbours: of every query and of every algorithm."""
    for mechanism in ("laplace", "gaussian"):
        for name, query in example_queries(mechanism).items():
            yield _on_query(effort, name, query, mechanism)
        for domain in WIDTHS:
            yield _on_width(effort, domain, mechanism)
    for subject in subjects():
        for mechanism in subject.mechanisms():
            yield _on_subject(effort, subject, mechanism)
    for kind, write in FILES.items():
        yield _on_files(effort, kind, write)
    yield _on_odd_records(effort, "CSV with odd lines", ODD_LINES, csv_of, "lines")
    yield _on_odd_records(effort, "CSV with texts in quotes", TEXTS, quoted_csv, "rfc4180")
    yield _on_the_longest_record(effort)
    yield _on_undeclared(effort)


def _on_query(effort: Effort, name: str, query: Query, mechanism: str) -> Finding:
    losses = Losses(f"query: {name}, {mechanism}")
    for number, domain in enumerate(DOMAINS.values()):
        # Of very many records totals must fit into 64 bits, so that each counts with fewer of them.
        for per_person, n_records in ((1, None), (3, None), (1, 2**41)):
            terms = Terms(mechanism=mechanism, domain=domain, records_per_person=per_person, n_records=n_records)
            pairs = neighbours(domain, n_records=per_person, rng=effort.rng(0, number))
            for pair, tables in pairs.items():
                heard = [answered(query, table, terms, effort.seed) for table in tables]
                losses.compare(heard, terms, pair)
    return losses.finding(GROUP, ATTACK)


def _on_width(effort: Effort, domain: Domain, mechanism: str) -> Finding:
    """All kinds of queries on tables of another number of columns, where other terms of a sensitivity count."""
    columns = "1 column" if domain.n_columns == 1 else f"{domain.n_columns} columns"
    terms, losses = Terms(mechanism=mechanism, domain=domain), Losses(f"queries on {columns}, {mechanism}")
    pairs = neighbours(domain, rng=effort.rng(0, domain.n_columns))
    for name, query in example_queries(mechanism, domain).items():
        for pair, tables in pairs.items():
            heard = [answered(query, table, terms, effort.seed) for table in tables]
            losses.compare(heard, terms, f"{name}, {pair}")
    return losses.finding(GROUP, ATTACK)


def answered(query: Query, table: object, terms: Terms, seed: int) -> Heard:
    """What is drawn for one query, with the samplers' answers held."""
    with listening(held=seed) as heard:
        Curator(open_source(table, terms.domain), terms.context).answer(request_for(query, terms.domain))
    return heard


def _on_subject(effort: Effort, subject: Subject, mechanism: str) -> Finding:
    ball = DOMAINS["l1" if mechanism == "laplace" else "l2"]
    shapes = [(BOX, 1, None), (ball, 1, 100), (BOX, 3, None)]
    losses = Losses(f"{subject.name}, {mechanism}")
    for number, (domain, per_person, n_records) in enumerate(shapes[: effort.tries(3, 2)]):
        terms = Terms(mechanism=mechanism, domain=domain, records_per_person=per_person, n_records=n_records)
        chosen = list(neighbours(domain, n_records=per_person, rng=effort.rng(1, number)).items())
        for pair, tables in chosen if not effort.quick else chosen[::3]:
            heard = [draws_of(subject, table, terms, effort.seed) for table in tables]
            losses.compare(heard, terms, pair)
    return losses.finding(GROUP, ATTACK)


def _on_files(effort: Effort, kind: str, write: Callable[[Array, Path], None]) -> Finding:
    """One record more in files that are read in several blocks, and added up in several parts and threads."""
    terms, losses = Terms(domain=NAMED_BOX), Losses(f"{kind} of {FILE_ROWS:,} records")
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    table = ordinary_table(BOX, FILE_ROWS, effort.rng(9))
    far = np.array([BOX.high])
    tables = {"the table": table} | {
        f"one record more, as number {place:,}": np.concatenate([table[:place], far, table[place:]])
        for place in (0, 65_535, 65_536, FILE_ROWS)
    }
    first: Heard | None = None
    for threads in ("1", "3"):
        with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder, _threads(threads):
            for name, rows in tables.items():
                path = Path(folder) / name.replace(" ", "-")
                write(rows, path)
                (path_read,) = Path(folder).glob(f"{path.name}*")
                heard = draws_of(lloyd, readable(path_read), terms, effort.seed)
                if first is None:
                    first = heard
                    continue
                where = f"{name}, {threads} thread(s)"
                if losses.compare([first, heard], terms, where) > 0 and name == "the table":
                    losses.note(f"the same file has another total: {where}")
    return losses.finding(GROUP, ATTACK)


def _on_odd_records(
    effort: Effort,
    target: str,
    kinds: Mapping[str, Odd],
    content: Callable[[Array, Mapping[int, Odd]], bytes],
    dialect: str,
) -> Finding:
    """One record more in a CSV file, of every odd kind, at every kind of place, also where there is one already."""
    terms, losses = Terms(domain=NAMED_BOX), Losses(target)
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    rows = ordinary_table(BOX, 60, effort.rng(10))
    places = (0, 30, 60)
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        path = Path(folder) / "table.csv"

        def draws(odd: Mapping[int, Odd]) -> Heard:
            path.write_bytes(content(rows, odd))
            return draws_of(lloyd, path, terms, effort.seed, csv_dialect=dialect)

        for kind, line in kinds.items():
            for before in ({}, {15: line}):
                first = draws(before)
                for place in places[:: effort.tries(1, 2)]:
                    where = f"{kind} before record {place}" + (", and one already" if before else "")
                    losses.compare([first, draws(before | {place: line})], terms, where)
    return losses.finding(GROUP, ATTACK)


def _on_the_longest_record(effort: Effort) -> Finding:
    """One record more after one that is just as long as may be, which is no longer the last then."""
    terms, losses = Terms(domain=NAMED_BOX), Losses("CSV with a record as long as may be")
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    rows = ordinary_table(BOX, 20, effort.rng(10))
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        path = Path(folder) / "table.csv"
        for more in range(3):
            heard = []
            for after in (rows[:0], np.array([BOX.low])):
                path.write_bytes(windows_csv(rows, LONGEST_TEXT + "x" * more, after))
                heard.append(draws_of(lloyd, path, terms, effort.seed))
            losses.compare(heard, terms, f"after one of 1 MiB and {more} bytes")
    return losses.finding(GROUP, ATTACK)


def _on_undeclared(effort: Effort) -> Finding:
    """Other cells in a column that is not declared change nothing, also where the name of a declared one fits it."""
    pattern, other = "^secret.*$", NAMES[1]
    terms = Terms(domain=Box(BOX.low, BOX.high, columns=(pattern, other)))
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    rows = ordinary_table(BOX, 60, effort.rng(10))
    losses = Losses("columns that are not declared")
    for kind, frame in FRAMES.items():
        named = {pattern: rows[:, 0], other: rows[:, 1]}
        tables = [frame(named | {"secret": column}) for column in (rows[:, 0], rows[::-1, 0])]
        heard = [draws_of(lloyd, table, terms, effort.seed) for table in tables]
        if losses.compare(heard, terms, kind) > 0:
            losses.note(f"a column that is not declared was read: {kind}")
    return losses.finding(GROUP, ATTACK)


@contextlib.contextmanager
def _threads(number: str) -> Iterator[None]:
    before = os.environ.get("RECOUP_NUM_THREADS")
    os.environ["RECOUP_NUM_THREADS"] = number
    try:
        yield
    finally:
        if before is None:
            del os.environ["RECOUP_NUM_THREADS"]
        else:
            os.environ["RECOUP_NUM_THREADS"] = before


def draws_of(subject: Subject, table: object, terms: Terms, seed: int, **more: Any) -> Heard:
    """What is drawn for a release, with the samplers' answers held."""
    with listening(held=seed) as heard:
        subject.run(table, terms, seed=seed, **more)
    return heard
