"""Side information: with the samplers' answers held fixed, everything else must be equal for neighbours, byte for byte.

Tables differ by one record: an ordinary one, one with a missing, unparsable, infinite, far-out or text cell, a ragged
line, or by all records. Compared are transcript files, ledgers, models with all attributes, errors, warnings, log
records, what commands print, names and sizes of files, and the number and scales of draws.
"""

from __future__ import annotations

import math
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from recoup.curator.tables.database import Table
from recoup.driver import release
from recoup.estimators import PrivateGaussianMixture, PrivateKMeans, PrivateLogisticRegression, PrivatePCA
from recoup.privacy.ledger import Ledger
from recoup.queries.base import Array
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.files import (
    BOUNDS,
    CELLS,
    NAMED_BOX,
    NAMES,
    ODD_LINES,
    called,
    csv_of,
    readable,
    write_duckdb,
    write_sqlite,
)
from recoup_lab.audit.attacks.observed import Observation, differences, names_that_repeat, observe
from recoup_lab.audit.attacks.subjects import BOX, Subject, Terms, ordinary_table, subjects
from recoup_lab.audit.attacks.unseeded import unseeded_choices
from recoup_lab.audit.findings import Finding

GROUP: Final = "silence"
ATTACK: Final = "side information"
_PROGRESS: Final = re.compile(r"^(?:round \d+ of(?: at most)? \d+, \d+%|working \.\.\.)\n", re.MULTILINE)
_MODELS: Final[Mapping[Callable[..., Any], Mapping[str, Any]]] = {
    PrivateKMeans: {"n_clusters": 2, "n_rounds": 2},
    PrivateGaussianMixture: {"n_components": 2, "n_rounds": 2},
    PrivateLogisticRegression: {"n_rounds": 2},
    PrivatePCA: {"n_components": 1},
}


def attack(effort: Effort) -> Iterator[Finding]:
    """Compare all that can be seen for tables of many kinds, with every algorithm, in Python and by command."""
    rng = effort.rng(8)
    few, many = ordinary_table(BOX, 15, rng), ordinary_table(BOX, 3000, rng)
    arrays = arrays_of(few) | {"no record": few[:0], "3,000 records": many}
    for subject in subjects():
        for mechanism in subject.mechanisms():
            if effort.quick and mechanism == "gaussian" and subject.name != "kmeans-lloyd":
                continue
            yield compared(effort, f"{subject.name}, {mechanism}: arrays", _releases(subject, mechanism, arrays))
    first = next(s for s in subjects() if s.name == "kmeans-lloyd")
    yield compared(effort, "lists of rows", _releases(first, "laplace", _rows(few)))
    yield compared(effort, "CSV files", _on_files(_csv_files(few, many)))
    yield compared(effort, "Parquet files", _on_files(_parquet_files(few, many)))
    yield compared(effort, "tables of SQLite", _on_files(_sqlite_files(few, many), "table.sqlite"))
    yield compared(effort, "tables of DuckDB", _on_files(_duckdb_files(few, many), "table.duckdb"))
    yield compared(effort, "a view that fails", _failing_views(), should_fail=True)
    for kind, terms in _MODELS.items():
        for postprocess in ("none", "auto"):
            how = "as released" if postprocess == "none" else "by default"
            works = _models(kind, {**terms, "postprocess": postprocess}, arrays)
            yield compared(effort, f"{kind.__name__} and its attributes, {how}", works)
    yield compared(effort, "what is refused, and how", _refusals(arrays), should_fail=True)
    yield compared(effort, "files without header, and frames of them", _without_header(), should_fail=True)
    yield compared(effort, "recoup release and recoup cluster", _commands(_csv_files(few, many), effort))
    yield from unseeded_choices(effort, GROUP)


Works = Mapping[str, Callable[[Path], Observation]]


def compared(
    effort: Effort, target: str, works: Works, *, should_fail: bool = False, group: str = GROUP, attack: str = ATTACK
) -> Finding:
    """Observe all works and compare each with the first."""
    first: Observation | None = None
    found: list[str] = []
    n_seen, broken = 0, False
    for name, work in works.items():
        with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
            seen = observe(work, Path(folder), held=effort.seed)
        n_seen += len(seen)
        if should_fail:
            found += [f"{name}: {case} was not refused" for case in seen if case.startswith("taken")]
        if should_fail != ("error" in seen or any(name.startswith("refused") for name in seen)):
            found.append(f"{name}: {seen.get('error', 'was not refused')}"[:120])
            # Where nothing works there is nothing to compare: that is no attack that succeeded.
            broken = broken or (first is None and not should_fail)
        if first is None:
            first = seen
            with tempfile.TemporaryDirectory(prefix="recoup-audit-") as folder:
                again = observe(work, Path(folder), held=effort.seed)
            found += [f"{what} is the same again" for what in names_that_repeat(seen, again)]
        else:
            found += [f"{what} differs ({name})" for what in differences(first, seen)]
    return Finding(
        group=group,
        attack=attack,
        target=target,
        tries=len(works),
        result=f"{n_seen} observations, nothing differs" if not found else "; ".join(found[:3]),
        passed=not found,
        broken=broken,
        figures={"observations": float(n_seen), "differences": float(len(found))},
    )


# ---- tables ----


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def arrays_of(few: Array) -> dict[str, Array]:
    """A table, and what one odd record makes of it."""
    found = {"the table": few}
    for name, cell in CELLS.items():
        found[name] = np.concatenate([few, [[_number(cell), 2.0]]])
    return found


def _rows(few: Array) -> dict[str, list[Any]]:
    rows: list[Any] = few.tolist()
    found: dict[str, list[Any]] = {"the table": rows, "a ragged row": [*rows, [1.0]], "nothing as a row": [*rows, None]}
    for name, cell in CELLS.items():
        found[name] = [*rows, [cell, 2.0]]
    return found


def _csv_files(few: Array, many: Array) -> dict[str, Callable[[Path], None]]:
    def writer(rows: Array, odd: Mapping[int, bytes]) -> Callable[[Path], None]:
        content = csv_of(rows, odd)

        def write(path: Path) -> None:
            path.write_bytes(content)

        return write

    found = {"the table": writer(few, {}), "no record": writer(few[:0], {}), "3,000 records": writer(many, {})}
    odd_lines = (*CELLS, "a ragged line", "an open quote", "an empty line")
    return found | {name: writer(few, {len(few): ODD_LINES[name]}) for name in odd_lines}


def _parquet_files(few: Array, many: Array) -> dict[str, Callable[[Path], None]]:
    def writer(rows: Array, *more: list[float | None]) -> Callable[[Path], None]:
        columns = [[*rows[:, j].tolist(), *(row[j] for row in more)] for j in range(2)]
        table = pa.table({name: pa.array(c, pa.float64()) for name, c in zip(NAMES, columns, strict=True)})
        return lambda path: pa.parquet.write_table(table, path)

    return {
        "the table": writer(few),
        "no record": writer(few[:0]),
        "3,000 records": writer(many),
        "an ordinary record": writer(few, [0.5, 2.0]),
        "a missing cell": writer(few, [None, 2.0]),
        "an infinite cell": writer(few, [math.inf, 2.0]),
        "a far-out cell": writer(few, [1e308, 2.0]),
    }


def _sqlite_files(few: Array, many: Array) -> dict[str, Callable[[Path], None]]:
    def writer(rows: Array, *more: list[object]) -> Callable[[Path], None]:
        return lambda path: write_sqlite([*rows.tolist(), *more], path)

    found = {"the table": writer(few), "no record": writer(few[:0]), "3,000 records": writer(many)}
    odd = {**CELLS, "bytes": b"\xff\0", "nothing": None}
    return found | {name: writer(few, [cell, 2.0]) for name, cell in odd.items()}


def _duckdb_files(few: Array, many: Array) -> dict[str, Callable[[Path], None]]:
    def writer(rows: Array, *more: list[float | None]) -> Callable[[Path], None]:
        columns = {name: [*rows[:, j].tolist(), *(row[j] for row in more)] for j, name in enumerate(NAMES)}
        return lambda path: write_duckdb(columns, ["DOUBLE"] * 2, path)

    found = {"the table": writer(few), "no record": writer(few[:0]), "3,000 records": writer(many)}
    odd = {"a missing cell": None, "an infinite cell": math.inf, "not a number": math.nan, "a far-out cell": 1e308}
    return found | {name: writer(few, [cell, 2.0]) for name, cell in odd.items()}


def _failing_views() -> Works:
    """Views that a text makes fail: whatever the text, no more is said than that."""

    def work(text: str) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            path = folder / "table.duckdb"
            write_duckdb({name: [text] for name in NAMES}, ["VARCHAR"] * 2, path)
            first = next(s for s in subjects() if s.name == "kmeans-lloyd")
            assert first.algorithm is not None
            release(first.algorithm, Table(f"duckdb:///{path}", "numbers"), domain=NAMED_BOX, epsilon=1, random_state=3)
            return {}

        return run

    return {name: work(CELLS[name]) for name in ("an unparsable cell", "a text cell", "a long text")}


# ---- work that is observed ----


def _releases(subject: Subject, mechanism: str, tables: Mapping[str, object]) -> Works:
    terms = Terms(mechanism=mechanism)

    def work(table: object) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            ledger = Ledger.create(folder / "ledger.db", epsilon=2, delta=terms.delta)
            rounds: list[int] = []
            more = {} if subject.rival is not None else {"path": folder / "t.json", "on_round": rounds.append}
            released = subject.run(table, terms, seed=3, ledger=ledger, **more)
            shown = repr(released.transcript) if released.transcript is not None else repr(released.centers.tolist())  # type: ignore[union-attr]
            return {"shown": shown, "privacy": released.privacy, "rounds": rounds}

        return run

    return {name: work(table) for name, table in tables.items()}


def _on_files(files: Mapping[str, Callable[[Path], None]], file: str | None = None) -> Works:
    first = next(s for s in subjects() if s.name == "kmeans-lloyd")

    def work(write: Callable[[Path], None]) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            path = folder / (file or ("table.csv" if "a text cell" in files else "table.parquet"))
            write(path)
            assert first.algorithm is not None
            rounds: list[int] = []
            terms = {"domain": NAMED_BOX, "epsilon": 1, "random_state": 3, "on_round": rounds.append}
            transcript = release(first.algorithm, readable(path), path=folder / "t.json", **terms)  # type: ignore[arg-type]
            return {"shown": repr(transcript), "rounds": rounds}

        return run

    return {name: work(write) for name, write in files.items()}


def _models(kind: Callable[..., Any], terms: Mapping[str, Any], tables: Mapping[str, Array]) -> Works:
    def work(table: Array) -> Callable[[Path], Observation]:
        # The record that tables differ by also has the one unheard-of label.
        labels = np.where(np.arange(len(table)) == 15, 7, np.arange(len(table)) % 2)

        def run(folder: Path) -> Observation:
            ledger = Ledger.create(folder / "ledger.db", epsilon=2)
            bounds = (list(BOX.low), list(BOX.high))
            model = kind(epsilon=1, bounds=bounds, ledger=ledger, random_state=3, **terms)
            model.fit(table, labels)
            model.ledger = None  # its path is this run's own
            if model.inferred_ is not None:
                model.inferred_.diagnostics.seconds.clear()  # of inference, which reads no record
            return {"attributes": sorted(vars(model)), "pickle": pickle.dumps(model), "shown": repr(model)}

        return run

    return {name: work(table) for name, table in tables.items()}


def _refusals(tables: Mapping[str, Array]) -> Works:
    bounds = (list(BOX.low), list(BOX.high))
    refused: list[dict[str, Any]] = [
        {"ledger": 0.5},
        {"epsilon": -1},
        {"epsilon": "1e-30"},
        {"bounds": None},
        {"bounds": ([0, 0, 0], [1, 1, 1])},
        {"bounds": (1, 0)},
        {"n_clusters": 2**20},
        {"n_clusters": 0},
        {"algorithm": "unheard of"},
    ]

    def work(table: Array) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            seen: Observation = {}
            for number, terms in enumerate(refused):
                given: dict[str, Any] = {
                    "n_clusters": 2,
                    "epsilon": 1,
                    "bounds": bounds,
                    "n_rounds": 2,
                    "random_state": 3,
                } | terms
                if "ledger" in given:
                    given["ledger"] = Ledger.in_memory(epsilon=given["ledger"])
                try:
                    PrivateKMeans(**given).fit(table)
                except Exception as error:  # its type and text are what is compared
                    seen[f"refused {number}"] = f"{type(error).__name__}: {error}"
                else:
                    seen[f"taken {number}"] = "was not refused"
            return seen

        return run

    return {name: work(table) for name, table in tables.items()}


# First records of a file without header; those that look like names do so most.
_FIRST_RECORDS: Final = ("Smith,NA", "Jones,NA", "Smith,Smith", "Smith,12", "41,7", "Jones,")


def _without_header() -> Works:
    """Which record comes first must not show, not even in what is said of the missing names."""

    def work(record: str) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            path, part = folder / "table.csv", folder / "tables"
            part.mkdir()
            for to in (path, part / "table-1.csv"):
                to.write_text(f"{record}\n1,2\n")
            (part / "table-0.csv").write_bytes(csv_of(np.ones((2, 2)), {}))
            names = record.split(",")
            frame = pa.Table.from_arrays([pa.array([1.0]), pa.array(["text"])], names=names)
            tables: dict[str, object] = {"file": path, "folder": part, "frame": frame, "pandas": frame.to_pandas()}
            seen: Observation = {}
            for name, table in tables.items():
                for dialect in ("rfc4180", "lines"):
                    model = PrivateKMeans(
                        n_clusters=2,
                        epsilon=1,
                        bounds=dict(zip(NAMES, zip(BOX.low, BOX.high, strict=True), strict=True)),
                        csv_dialect=dialect,
                    )
                    try:
                        model.fit(table)
                    except Exception as error:  # its type and text are what is compared, and what it holds
                        text = f"{type(error).__name__}: {error} {error.__context__!r}"
                        seen[f"refused {name} {dialect}"] = text.replace(str(folder), "FOLDER")
                    else:
                        seen[f"taken {name} {dialect}"] = "was not refused"
            return seen

        return run

    return {record: work(record) for record in _FIRST_RECORDS}


def _commands(files: Mapping[str, Callable[[Path], None]], effort: Effort) -> Works:
    common = ["-k", "2", "--epsilon", "1", "--bounds", BOUNDS, "--seed", "3"]

    def work(write: Callable[[Path], None]) -> Callable[[Path], Observation]:
        def run(folder: Path) -> Observation:
            table = folder / "table.csv"
            write(table)
            ledger = folder / "ledger.db"
            Ledger.create(ledger, epsilon=3)
            seen: Observation = {}
            release_to, cluster_to = str(folder / "t.json"), str(folder / "out")
            calls = {
                "release": [str(table), *common, "--rounds", "2", "--ledger", str(ledger), "-o", release_to],
                "release --json": [str(table), *common, "--rounds", "2", "-o", str(folder / "u.json"), "--json"],
            }
            if not effort.quick:
                calls["cluster"] = [str(table), *common, "--ledger", str(ledger), "-o", cluster_to, "--json"]
            for name, arguments in calls.items():
                printed = called([name.split()[0], *arguments])
                streams = {"output": printed.output, "errors": _PROGRESS.sub("", printed.errors)}
                seen |= {f"{name}: {what}": text.replace(str(folder), "FOLDER") for what, text in streams.items()}
            return seen

        return run

    chosen = list(files.items())
    return {name: work(write) for name, write in (chosen[:7] if effort.quick else chosen)}
