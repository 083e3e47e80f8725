"""What people run and wait for: whole fits, their intervals and reports, and the command from a cold shell.

Beside `KMeans(n_init=10)`, which an analyst with access would run, and diffprivlib. Also what must not depend on the
number of records: everything of a fit but the passes over them, and its memory beyond them.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from recoup.curator.curator import Curator
from recoup.domain import Array
from recoup.estimators import PrivateKMeans
from recoup_lab.bench.data import blobs
from recoup_lab.bench.foreign import running
from recoup_lab.bench.growth import growth_of_races
from recoup_lab.bench.memory import peak_growth
from recoup_lab.bench.results import Part, Race
from recoup_lab.bench.rules import Contestant, Rules, describe_machine, finished, race, stopwatch
from recoup_lab.tree import ROOT

FIT, INTERVALS, REPORT = "fit", "intervals", "report"
YARDSTICK, DIFFPRIVLIB = "scikit-learn KMeans, 10 starts", "diffprivlib"
METHODS: Final = (FIT, INTERVALS, REPORT, YARDSTICK, DIFFPRIVLIB)
SHELL, FIRST, SHELL_YARDSTICK = "recoup cluster", "recoup cluster, first of all", "pandas and KMeans(n_init=10)"
EPSILON: Final = 1.0
_IN_SHELL: Final = ("age=17:90,hours=1:99", 3)
AIM, OURS, PLAIN = "AIM, then k-means", "recoup-delta", "non-private"  # the latter two as in the comparison with others


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one fit is about."""

    n_records: int = 100_000
    n_columns: int = 10
    n_clusters: int = 8


def shapes(rules: Rules) -> list[Shape]:
    """A base, and each factor varied alone.

    >>> len(shapes(Rules())), max(shape.n_records for shape in shapes(Rules(max_records=50_000)))
    (8, 50000)
    """
    base = Shape(n_records=rules.size(100_000, 10_000), n_columns=2 if rules.quick else 10)
    if rules.quick:
        return [base, replace(base, n_records=2000), replace(base, n_columns=4), replace(base, n_clusters=3)]
    varied = [
        base,
        *(replace(base, n_records=rules.size(n, n)) for n in (10_000, 1_000_000)),
        *(replace(base, n_columns=d) for d in (2, 4, 30)),
        *(replace(base, n_clusters=k) for k in (3, 24)),
    ]
    return varied


def measure_whole(rules: Rules, *, diffprivlib: str | None = None) -> Part:
    """Time fits and what follows them, over shapes; then the command from a cold shell."""
    with rules.cores():
        return _measured(rules, diffprivlib)


def _measured(rules: Rules, diffprivlib: str | None) -> Part:
    machine, races = describe_machine(rules), list[Race]()
    with tempfile.TemporaryDirectory() as name, running(DIFFPRIVLIB, diffprivlib, Path(name)) as other:
        for contestant in _contestants(blobs(1000, 2, 2), 2, Path(name), rules).values():
            contestant()  # imports and compiled kernels
        for shape in shapes(rules):
            n, d, k = shape.n_records, shape.n_columns, shape.n_clusters
            rules.say(f"whole fits: {n:,} records, {d} columns, {k} clusters")
            x = blobs(n, d, k)
            contestants = _contestants(x, k, Path(name), rules)
            if other is not None:
                other.load(x)
                contestants[DIFFPRIVLIB] = lambda k=k: other.fit(k, processor=rules.one_core)  # type: ignore[misc]
            seconds = race(contestants, repeats=3, patience=2.0 if rules.quick else 15.0)
            found = {name: seconds.get(name) for name in METHODS}
            races.append(Race(shape={"n_records": n, "n_columns": d, "n_clusters": k}, seconds=found))
        version = None if other is None else other.version
    n, d, k = rules.size(1_000_000, 20_000), 50, 15
    rules.say(f"peak memory: {n:,} records, {d} columns, {k} clusters")
    memory = {"shape": [n, d, k], "records": n * d * 8 / 2**20, "megabytes": peak_growth(work_of, n, d, k)}
    growth = {
        name: growth_of_races(races, name, ("n_records", "n_columns", "n_clusters")).to_json()
        for name in (FIT, INTERVALS, REPORT, YARDSTICK)
    }
    facts = {"diffprivlib": version, "growth": growth, "memory": memory, "beyond_passes": beyond_passes(rules)}
    return Part(
        name="whole",
        quick=rules.quick,
        machine=finished(machine),
        races=tuple(races),
        facts=facts | {"shell": in_shell(rules), "aim": beside_aim()},
        notes=() if version is not None else ("diffprivlib was not measured: no interpreter that has it was named.",),
    )


def _model(n_clusters: int, epsilon: float = EPSILON, **given: Any) -> PrivateKMeans:
    return PrivateKMeans(n_clusters, epsilon, (-1.0, 1.0), random_state=0, **given)


def _contestants(x: Array, n_clusters: int, folder: Path, rules: Rules) -> dict[str, Contestant]:
    from sklearn.cluster import KMeans

    # Turns begin with another contestant each, so there is a fitted model before any of them.
    model, page = _model(n_clusters).fit(x), folder / "report.html"
    works: dict[str, Callable[[], object]] = {
        FIT: lambda: _model(n_clusters).fit(x),
        INTERVALS: model.intervals,
        REPORT: lambda: model.report(page),
        YARDSTICK: lambda: KMeans(n_clusters, n_init=10, random_state=0).fit(x),
    }
    return {name: rules.timed(work) for name, work in works.items()}


def work_of(n_records: int, n_columns: int, n_clusters: int) -> Callable[[], object]:
    """A fit with its records made and its imports and compiled kernels in place: for a process of its own."""
    _model(n_clusters).fit(blobs(1000, n_columns, n_clusters))
    x = blobs(n_records, n_columns, n_clusters)
    return lambda: _model(n_clusters).fit(x)


# ---- what does not depend on the number of records ----


def beyond_passes(rules: Rules) -> list[dict[str, float]]:
    """Seconds of a fit, of the curator's answers in it, and of all the rest, by the number of records.

    First with epsilon times the number of records held fixed, so that the answers are as precise and the plan asks for
    as many values: only the records differ. Then at one epsilon, where a larger table is asked for more.
    """
    sizes = (rules.size(10_000, 1000), rules.size(100_000, 2000), rules.size(1_000_000, 4000))
    alike = [(n, EPSILON * sizes[1] / n) for n in sizes]
    return [_beyond_passes(rules, n, epsilon) for n, epsilon in [*alike, (sizes[0], EPSILON), (sizes[2], EPSILON)]]


def _beyond_passes(rules: Rules, n: int, epsilon: float) -> dict[str, float]:
    rules.say(f"a fit beyond its passes: {n:,} records, epsilon {epsilon:g}")
    clock, k = _clock(rules), 8
    x, best, n_values = blobs(n, 10, k), dict.fromkeys(("fit", "answers", "rest"), float("inf")), 0
    for _ in range(3):
        model = _model(k, epsilon, n_records=n)
        with _answering(clock) as answers:
            fit = stopwatch(lambda model=model: model.fit(x), clock)()  # type: ignore[misc]
        taken = {"fit": fit, "answers": sum(answers), "rest": fit - sum(answers)}
        best = {name: min(best[name], taken[name]) for name in best}
        n_values = sum(answered.query.size for answered in model.transcript_.rounds)
    return {"n_records": n, "epsilon": epsilon, "n_values": n_values} | best


@contextmanager
def _answering(clock: Callable[[], float]) -> Iterator[list[float]]:
    """Seconds of every answer that a curator gives in the block."""
    seconds, plain = list[float](), Curator.answer

    def timed(self: Curator, *given: Any) -> Any:
        start = clock()
        try:
            return plain(self, *given)
        finally:
            seconds.append(clock() - start)

    Curator.answer = timed  # type: ignore[assignment, method-assign]
    try:
        yield seconds
    finally:
        Curator.answer = plain  # type: ignore[method-assign]


def _clock(rules: Rules) -> Callable[[], float]:
    return time.process_time if rules.one_core else time.perf_counter


# ---- from a shell ----


def in_shell(rules: Rules) -> dict[str, float]:
    """Seconds of `recoup cluster` of a small file in a process of its own, from its start to its end.

    With kernels compiled before, and with none. Beside it, a script that reads the file with pandas and fits k-means.
    """
    bounds, k = _IN_SHELL
    with tempfile.TemporaryDirectory() as name:
        folder, table = Path(name), f"{name}/people.csv"
        recoup = [sys.executable, "-P", "-m", "recoup"]
        subprocess.run([*recoup, "demo", "--csv", table], check=True, capture_output=True)
        cluster = [*recoup, "cluster", table, "-k", str(k), "--epsilon", "1", "--bounds", bounds]
        script = (
            f"import pandas; from sklearn.cluster import KMeans; KMeans({k}, n_init=10).fit(pandas.read_csv({table!r}))"
        )
        plain = [sys.executable, "-P", "-c", script]
        rules.say("from a shell: kernels compiled before, and the first run of all")
        started = {
            SHELL: _process(cluster, rules, folder / "kept"),
            SHELL_YARDSTICK: _process(plain, rules, folder / "kept"),
        }
        first = [_process(cluster, rules, folder / f"new{i}")() for i in range(1 if rules.quick else 2)]
        started[SHELL]()  # leaves compiled kernels
        return race(started, repeats=5) | {FIRST: min(first)}


def _process(command: list[str], rules: Rules, compiled: Path) -> Contestant:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(compiled)}

    def run() -> None:
        subprocess.run(command, env=environment, check=True, capture_output=True)

    return stopwatch(run, _of_children if rules.one_core else time.perf_counter)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def beside_aim() -> list[dict[str, Any]]:
    """What the comparison with others found: seconds of AIM then k-means, of Recoup, and of k-means, on its sets.

    AIM needs an environment of its own and minutes for a set, so it is run there and not here. Of its numbers of bins
    the quickest counts; both are at the same epsilon and delta.
    """
    path = ROOT / "docs" / "data" / "rivals.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for one in found["sets"]:
        seconds = {
            cell["contestant"]: statistics.median(cell["seconds"])
            for cell in found["cells"]
            if cell["set"] == one["name"] and cell["epsilon"] in (None, EPSILON) and cell["seconds"]
        }
        aim = [taken for name, taken in seconds.items() if name.startswith("aim-")]
        if aim and OURS in seconds:
            rows.append({**one, "seconds": {AIM: min(aim), OURS: seconds[OURS], PLAIN: seconds.get(PLAIN)}})
    return rows
