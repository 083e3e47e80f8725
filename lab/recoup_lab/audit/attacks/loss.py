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
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

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
    windows_csv,
)
from recoup_lab.audit.attacks.sampler import Draw, Heard, listening
from recoup_lab.audit.attacks.subjects import (
    BOX,
    DOMAINS,
    WIDTHS,
    Neighbours,
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
Odd = TypeVar("Odd", bytes, str)
_ROOM: Final = Fraction(1, 10**9)  # for the conversion from epsilon and delta to rho, which is computed in floats here


class _Worst(NamedTuple):
    loss: Fraction
    pair: str


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
    worst, tries, unequal = _Worst(Fraction(0), "none"), 0, ""
    for number, domain in enumerate(DOMAINS.values()):
        # Of very many records totals must fit into 64 bits, so that each counts with fewer of them.
        for per_person, n_records in ((1, None), (3, None), (1, 2**41)):
            terms = Terms(mechanism=mechanism, domain=domain, records_per_person=per_person, n_records=n_records)
            pairs = neighbours(domain, n_records=per_person, rng=effort.rng(0, number))
            for pair, tables in pairs.items():
                heard = [_answered(query, table, terms, effort.seed) for table in tables]
                tries += 1
                unequal = unequal or _unequal(heard, pair)
                worst = max(worst, _Worst(_share_of_claim(heard, terms), pair))
    return _finding(f"query: {name}, {mechanism}", tries, worst, unequal)


def _on_width(effort: Effort, domain: Domain, mechanism: str) -> Finding:
    """All kinds of queries on tables of another number of columns, where other terms of a sensitivity count."""
    terms, worst, tries, unequal = Terms(mechanism=mechanism, domain=domain), _Worst(Fraction(0), "none"), 0, ""
    pairs = neighbours(domain, rng=effort.rng(0, domain.n_columns))
    for name, query in example_queries(mechanism, domain).items():
        for pair, tables in pairs.items():
            heard = [_answered(query, table, terms, effort.seed) for table in tables]
            tries += 1
            unequal = unequal or _unequal(heard, f"{name}, {pair}")
            worst = max(worst, _Worst(_share_of_claim(heard, terms), f"{name}, {pair}"))
    columns = "1 column" if domain.n_columns == 1 else f"{domain.n_columns} columns"
    return _finding(f"queries on {columns}, {mechanism}", tries, worst, unequal)


def _answered(query: Query, table: Array, terms: Terms, seed: int) -> Heard:
    with listening(held=seed) as heard:
        Curator(open_source(table, terms.domain), terms.context).answer(request_for(query, terms.domain))
    return heard


def _on_subject(effort: Effort, subject: Subject, mechanism: str) -> Finding:
    ball = DOMAINS["l1" if mechanism == "laplace" else "l2"]
    shapes = [(BOX, 1, None), (ball, 1, 100), (BOX, 3, None)]
    worst, tries, unequal = _Worst(Fraction(0), "none"), 0, ""
    for number, (domain, per_person, n_records) in enumerate(shapes[: effort.tries(3, 2)]):
        terms = Terms(mechanism=mechanism, domain=domain, records_per_person=per_person, n_records=n_records)
        chosen = list(neighbours(domain, n_records=per_person, rng=effort.rng(1, number)).items())
        for pair, tables in chosen if not effort.quick else chosen[::3]:
            heard = [_draws(subject, table, terms, effort.seed) for table in tables]
            tries += 1
            unequal = unequal or _unequal(heard, pair)
            worst = max(worst, _Worst(_share_of_claim(heard, terms), pair))
    return _finding(f"{subject.name}, {mechanism}", tries, worst, unequal)


def _on_files(effort: Effort, kind: str, write: Callable[[Array, Path], None]) -> Finding:
    """One record more in files that are read in several blocks, and added up in several parts and threads."""
    terms, worst, tries, unequal = Terms(domain=NAMED_BOX), _Worst(Fraction(0), "none"), 0, ""
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
                heard = _draws(lloyd, path_read, terms, effort.seed)
                if first is None:
                    first = heard
                    continue
                tries += 1
                where = f"{name}, {threads} thread(s)"
                unequal = unequal or _unequal([first, heard], where)
                worst = max(worst, _Worst(_share_of_claim([first, heard], terms), where))
                if name == "the table" and _share_of_claim([first, heard], terms) > 0:
                    unequal = unequal or f"the same file has another total: {where}"
    return _finding(f"{kind} of {FILE_ROWS:,} records", tries, worst, unequal)


def _on_odd_records(
    effort: Effort,
    target: str,
    kinds: Mapping[str, Odd],
    content: Callable[[Array, Mapping[int, Odd]], bytes],
    dialect: str,
) -> Finding:
    """One record more in a CSV file, of every odd kind, at every kind of place, also where there is one already."""
    terms, worst, tries, unequal = Terms(domain=NAMED_BOX), _Worst(Fraction(0), "none"), 0, ""
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    rows = ordinary_table(BOX, 60, effort.rng(10))
    places = (0, 30, 60)
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        path = Path(folder) / "table.csv"

        def draws(odd: Mapping[int, Odd]) -> Heard:
            path.write_bytes(content(rows, odd))
            return _draws(lloyd, path, terms, effort.seed, csv_dialect=dialect)

        for kind, line in kinds.items():
            for before in ({}, {15: line}):
                first = draws(before)
                for place in places[:: effort.tries(1, 2)]:
                    heard = [first, draws(before | {place: line})]
                    where = f"{kind} before record {place}" + (", and one already" if before else "")
                    tries += 1
                    unequal = unequal or _unequal(heard, where)
                    worst = max(worst, _Worst(_share_of_claim(heard, terms), where))
    return _finding(target, tries, worst, unequal)


def _on_the_longest_record(effort: Effort) -> Finding:
    """One record more after one that is just as long as may be, which is no longer the last then."""
    terms, worst, tries, unequal = Terms(domain=NAMED_BOX), _Worst(Fraction(0), "none"), 0, ""
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    rows = ordinary_table(BOX, 20, effort.rng(10))
    with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
        path = Path(folder) / "table.csv"
        for more in range(3):
            heard = []
            for after in (rows[:0], np.array([BOX.low])):
                path.write_bytes(windows_csv(rows, LONGEST_TEXT + "x" * more, after))
                heard.append(_draws(lloyd, path, terms, effort.seed))
            where = f"after one of 1 MiB and {more} bytes"
            tries += 1
            unequal = unequal or _unequal(heard, where)
            worst = max(worst, _Worst(_share_of_claim(heard, terms), where))
    return _finding("CSV with a record as long as may be", tries, worst, unequal)


def _on_undeclared(effort: Effort) -> Finding:
    """Other cells in a column that is not declared change nothing, also where the name of a declared one fits it."""
    pattern, other = "^secret.*$", NAMES[1]
    terms = Terms(domain=Box(BOX.low, BOX.high, columns=(pattern, other)))
    lloyd = next(subject for subject in subjects() if subject.name == "kmeans-lloyd")
    rows = ordinary_table(BOX, 60, effort.rng(10))
    worst, tries, unequal = _Worst(Fraction(0), "none"), 0, ""
    for kind, frame in FRAMES.items():
        named = {pattern: rows[:, 0], other: rows[:, 1]}
        tables = [frame(named | {"secret": column}) for column in (rows[:, 0], rows[::-1, 0])]
        heard = [_draws(lloyd, table, terms, effort.seed) for table in tables]
        tries += 1
        unequal = unequal or _unequal(heard, kind)
        if _share_of_claim(heard, terms) > 0:
            unequal = unequal or f"a column that is not declared was read: {kind}"
    return _finding("columns that are not declared", tries, worst, unequal)


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


def _draws(subject: Subject, table: Neighbours | object, terms: Terms, seed: int, **more: Any) -> Heard:
    with listening(held=seed) as heard:
        subject.run(table, terms, seed=seed, **more)
    return heard


def _unequal(heard: list[Heard], pair: str) -> str:
    if not heard[0].draws:
        return f"nothing was drawn by OpenDP: {pair}"
    return "" if heard[0].public == heard[1].public else f"number or scale of draws differs: {pair}"


def _share_of_claim(heard: list[Heard], terms: Terms) -> Fraction:
    """The loss of the path, as a share of what the terms allow."""
    draws = zip(heard[0].draws, heard[1].draws, strict=False)
    loss = sum((path_loss(a, b) for a, b in draws), Fraction(0))
    return loss / terms.claimed


def path_loss(one: Draw, other: Draw) -> Fraction:
    """What a draw tells at most between two inputs: epsilon, or rho of Gaussian noise.

    >>> a = Draw(kind="laplace", exact=(0, 0), answers=(), scale=8.0)
    >>> b = Draw(kind="laplace", exact=(3, -1), answers=(), scale=8.0)
    >>> path_loss(a, b)
    Fraction(1, 2)
    """
    moved = [b - a for a, b in zip(one.exact, other.exact, strict=False)]
    scale = Fraction(one.scale)
    if one.kind == "laplace":
        return sum(map(abs, moved)) / scale
    if one.kind == "gaussian":
        return sum(v * v for v in moved) / (2 * scale * scale)
    # Scores that all move one way cost the largest move; else a winner may gain what the others lose.
    return one.n_winners * Fraction(max(0, *moved) - min(0, *moved)) / scale


def _finding(target: str, tries: int, worst: _Worst, unequal: str) -> Finding:
    share = float(worst.loss)
    return Finding(
        group=GROUP,
        attack="exact loss on held paths",
        target=target,
        tries=tries,
        result=unequal or f"at most {share:.6f} of the claim ({worst.pair})",
        passed=not unequal and worst.loss <= 1 + _ROOM,
        figures={"share_of_claim": share},
    )
