"""One row for each person, from a folder of Parquet files, against pyarrow's own group-by of the same columns.

Both read all columns and the identifiers, and make a mean of each column for each person. Ours also clips and scales
records to exact integers and asks the rows for one round of k-means. Peak memory of either is that of a fresh process,
above its imports.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import dataset, parquet

from recoup.curator.source import open_source
from recoup_lab.bench.data import blobs
from recoup_lab.bench.memory import peak_growth
from recoup_lab.bench.results import Part, Race
from recoup_lab.bench.rules import Rules, describe_machine, finished, race
from recoup_lab.bench.streaming import FILE_ROWS, N_CLUSTERS, N_COLUMNS, NAMES, as_table, bounds, question

PERSONS, GROUPS = "one row a person, one round", "pyarrow group-by"
_PERSON: Final = "person"


def measure_persons(rules: Rules) -> Part:
    """Time the grouping of records by person, with whole numbers and with text for identifiers, and its peak memory."""
    with rules.cores():
        return _measured(rules)


def _measured(rules: Rules) -> Part:
    machine, races = describe_machine(rules), list[Race]()
    n_records = rules.size(20_000_000, 500_000)
    n_persons = n_records // 20
    for kind in ("whole numbers", "text"):
        rules.say(
            f"persons: {n_records:,} records of {n_persons:,} persons, {N_COLUMNS} columns, identifiers are {kind}"
        )
        with tempfile.TemporaryDirectory(prefix="recoup-bench-") as name:
            write_records(Path(name), n_records, n_persons, kind)
            work = {PERSONS: one_row_each(name), GROUPS: grouped(name)}
            work[PERSONS]()
            seconds = race(
                {key: rules.timed(value) for key, value in work.items()},
                repeats=3,
                patience=3.0 if rules.quick else 30.0,
            )
            memory = {PERSONS: peak_growth(one_row_each, name), GROUPS: peak_growth(grouped, name)}
        shape: dict[str, int | str] = {"n_records": n_records, "n_persons": n_persons, "identifiers": kind}
        races.append(Race(shape=shape, seconds=dict(seconds), facts={"megabytes": memory}))
    return Part(name="persons", quick=rules.quick, machine=finished(machine), races=tuple(races))


def write_records(folder: Path, n_records: int, n_persons: int, kind: str) -> None:
    """Write records of persons, in no order, as Parquet files of a million rows each."""
    rng = np.random.default_rng(0)
    for part, start in enumerate(range(0, n_records, FILE_ROWS)):
        x = blobs(min(FILE_ROWS, n_records - start), N_COLUMNS, N_CLUSTERS, seed=part)
        who = pa.array(rng.integers(n_persons, size=len(x)))
        who = who if kind == "whole numbers" else who.cast(pa.string())
        parquet.write_table(as_table(x).append_column(_PERSON, who), folder / f"part-{part:03d}.parquet")


def one_row_each(path: str) -> Callable[[], list[int]]:
    """The work of the first round for persons, which reads the table; later rounds ask the rows that are kept."""
    query, factors = question()

    def work() -> list[int]:
        return open_source(path, bounds(), person=_PERSON, per_person="mean").total(query, factors)

    return work


def grouped(path: str) -> Callable[[], object]:
    """The means of all columns by person, as pyarrow makes them."""

    def work() -> object:
        table = dataset.dataset(path).to_table(columns=[*NAMES, _PERSON])
        return table.group_by(_PERSON).aggregate([(name, "mean") for name in NAMES])

    return work
