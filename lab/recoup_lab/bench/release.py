"""Release against k-means that is not private, and against another private one: five rounds each, on the same records.

Everything uses all cores. scikit-learn's start (k-means++) grows with K and has no counterpart in a private algorithm,
so its Lloyd is timed from a random start too: that is five iterations and little else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from recoup.domain import Array, L1Ball
from recoup.driver import release
from recoup_lab.bench.data import blobs
from recoup_lab.bench.foreign import Foreign, running
from recoup_lab.bench.growth import growth_of_races
from recoup_lab.bench.memory import peak_growth
from recoup_lab.bench.results import Part, Race
from recoup_lab.bench.roofline import measure_roofline
from recoup_lab.bench.rules import Contestant, Rules, describe_machine, finished, race

N_ROUNDS: Final = 5
MAX_VALUES: Final = 10**8
OURS, LLOYD, LLOYD_RANDOM = "release", "scikit-learn Lloyd", "scikit-learn Lloyd, random start"
MINI_BATCH, PLAIN, DIFFPRIVLIB = "scikit-learn MiniBatchKMeans", "plain NumPy", "diffprivlib"
INTELEX, FAISS = "scikit-learn-intelex", "faiss-cpu"
METHODS: Final = (OURS, LLOYD, LLOYD_RANDOM, INTELEX, FAISS, MINI_BATCH, PLAIN, DIFFPRIVLIB)
FASTEST: Final = (LLOYD_RANDOM, INTELEX, FAISS)  # five iterations from a random start, and little else
LONGEST: Final = 20.0  # seconds of one run; what would take longer is left out
# It stops when batches get no better, after one pass or after five: above this its time cannot be told beforehand.
MOST_FOR_MINI_BATCH: Final = 1_000_000


def measure_release(rules: Rules, *, diffprivlib: str | None = None, peers: str | None = None) -> Part:
    """Time releases over a grid of shapes, and what else takes as many rounds.

    In the facts: growth, peak memory, and how close a pass is to the machine's limits.

    Args:
        rules: sizes, clock and cores.
        diffprivlib: a Python that has diffprivlib; None: it is not measured.
        peers: a Python that has scikit-learn-intelex and faiss-cpu; None: they are not measured.
    """
    with rules.cores():
        return _measured(rules, {DIFFPRIVLIB: diffprivlib, INTELEX: peers, FAISS: peers})


def _measured(rules: Rules, pythons: dict[str, str | None]) -> Part:
    machine, races = describe_machine(rules), list[Race]()
    for contestant in contestants_on(blobs(1000, 2, 5), 5, rules).values():
        contestant()  # imports and compiled kernels
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        started = {name: stack.enter_context(running(name, python, Path(folder))) for name, python in pythons.items()}
        others = {name: other for name, other in started.items() if other is not None}
        for n, d, k in shapes(rules):
            rules.say(f"release: {n:,} records, {d} columns, {k} clusters")
            x = blobs(n, d, k)
            contestants = contestants_on(x, k, rules)
            for name, other in others.items():
                other.load(x)
                contestants[name] = _turns_of(other, k, rules)
            slow = too_slow(races, n, d, k)
            contestants = {name: run for name, run in contestants.items() if name not in slow}
            patience = 2.0 if rules.quick else 10.0
            seconds = race(contestants, repeats=3 if rules.quick else 5, patience=patience)
            shape: dict[str, int | str] = {"n_records": n, "n_columns": d, "n_clusters": k}
            found = {name: seconds.get(name) for name in METHODS}
            races.append(Race(shape=shape, seconds=found, facts={"left_out": slow}))
        versions = {name: other.version for name, other in others.items()}
    absent = [name for name in pythons if name not in versions]
    n, d, k = rules.size(1_000_000, 100_000), 10, 15
    rules.say(f"peak memory: {n:,} records, {d} columns, {k} clusters")
    memory = {name: peak_growth(work_of, name, n, d, k) for name in (OURS, LLOYD, LLOYD_RANDOM, MINI_BATCH, PLAIN)}
    rules.say("memory bandwidth and arithmetic")
    return Part(
        name="release",
        quick=rules.quick,
        machine=finished(machine),
        races=tuple(races),
        facts={
            "n_rounds": N_ROUNDS,
            "max_values": MAX_VALUES,
            "others": versions,
            "growth": _growth(races),
            "memory": {"shape": [n, d, k], "records": n * d * 8 / 2**20, "megabytes": memory},
            "roofline": measure_roofline(rules),
        },
        notes=tuple(f"{name} was not measured: no interpreter that has it was named." for name in absent),
    )


def shapes(rules: Rules) -> Iterator[tuple[int, int, int]]:
    """Records, columns and clusters of each race, small ones first; no more than 1e8 values.

    >>> len(list(shapes(Rules()))), max(n * d for n, d, _ in shapes(Rules())) <= MAX_VALUES
    (37, True)
    """
    sizes, columns, clusters = ((10_000, 100_000), (2, 10), (5, 15)) if rules.quick else _GRID
    for n in sizes:
        for d in columns:
            for k in clusters if d != 10 or rules.quick else (*clusters[:1], 10, *clusters[1:]):
                if n * d <= MAX_VALUES and n <= rules.size(n, n):
                    yield n, d, k


_GRID: Final = ((10_000, 100_000, 1_000_000, 10_000_000), (2, 10, 50), (5, 15, 100))  # and d = K = 10


def too_slow(races: Sequence[Race], n_records: int, n_columns: int, n_clusters: int) -> list[str]:
    """Contestants that are not worth the wait, by what they took on a tenth of the records.

    >>> before = Race(
    ...     shape={"n_records": 10, "n_columns": 2, "n_clusters": 5},
    ...     seconds={"release": 1.0, "diffprivlib": 9.0, "plain NumPy": None},
    ...     facts={"left_out": ["plain NumPy"]},
    ... )
    >>> too_slow([before], 100, 2, 5), too_slow([before], 100, 2, 6)
    (['diffprivlib', 'plain NumPy'], [])
    """
    slow = [MINI_BATCH] if n_records > MOST_FOR_MINI_BATCH else []
    for r in races:
        if r.shape == {"n_records": n_records // 10, "n_columns": n_columns, "n_clusters": n_clusters}:
            slow += [name for name, taken in r.seconds.items() if taken is not None and 10 * taken > LONGEST]
            slow += r.facts["left_out"]
    return [name for name in dict.fromkeys(slow) if name != OURS]


def contestants_on(x: Array, n_clusters: int, rules: Rules) -> dict[str, Contestant]:
    """Everything that can be timed in this process, on these records."""
    names = (OURS, LLOYD, LLOYD_RANDOM, MINI_BATCH, PLAIN)
    return {name: rules.timed(_works(name, x, n_clusters)) for name in names}


def _turns_of(other: Foreign, n_clusters: int, rules: Rules) -> Contestant:
    return lambda: other.fit(n_clusters, processor=rules.one_core)


def work_of(name: str, n_records: int, n_columns: int, n_clusters: int) -> Callable[[], object]:
    """One contestant with its records made and its imports and compiled kernels in place: for a process of its own."""
    _works(name, blobs(1000, n_columns, n_clusters), n_clusters)()
    return _works(name, blobs(n_records, n_columns, n_clusters), n_clusters)


def _works(name: str, x: Array, n_clusters: int) -> Callable[[], object]:
    if name == OURS:
        from recoup.algorithms.kmeans.lloyd import KMeans as PrivateLloyd

        domain = L1Ball((-1.0,) * x.shape[1], (1.0,) * x.shape[1])
        algorithm = PrivateLloyd(n_clusters=n_clusters, n_rounds=N_ROUNDS)
        return lambda: release(algorithm, x, domain=domain, epsilon=1.0)
    if name == PLAIN:
        return lambda: plain_lloyd(x, x[:n_clusters].copy(), N_ROUNDS)
    from sklearn.cluster import KMeans, MiniBatchKMeans

    if name == MINI_BATCH:
        return lambda: MiniBatchKMeans(n_clusters, max_iter=N_ROUNDS, random_state=0).fit(x)
    start = "random" if name == LLOYD_RANDOM else "k-means++"
    # With tol=0 it stops early only where no record changes its cell.
    settings = {"n_init": 1, "max_iter": N_ROUNDS, "tol": 0, "algorithm": "lloyd", "random_state": 0}
    return lambda: KMeans(n_clusters, init=start, **settings).fit(x)


def plain_lloyd(x: Array, centers: Array, n_rounds: int) -> Array:
    """Lloyd's iteration as one would write it with NumPy alone, in blocks so that memory stays bounded.

    An empty cluster keeps its centre.

    >>> plain_lloyd(np.array([[0.0], [1.0], [5.0]]), np.array([[0.0], [4.0]]), 2).ravel()
    array([0.5, 5. ])
    """
    k, block = len(centers), 2**16
    for _ in range(n_rounds):
        counts, sums = np.zeros(k), np.zeros_like(centers)
        for start in range(0, len(x), block):
            rows = x[start : start + block]
            cells = ((centers**2).sum(axis=1) - 2.0 * (rows @ centers.T)).argmin(axis=1)
            counts += np.bincount(cells, minlength=k)
            for j in range(x.shape[1]):
                sums[:, j] += np.bincount(cells, weights=rows[:, j], minlength=k)
        centers = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1.0)[:, None], centers)
    return centers


def _growth(races: list[Race]) -> dict[str, object]:
    # On small tables the noise and the starting centres cost more than the records.
    sizes = sorted({int(r.shape["n_records"]) for r in races})[-2:]
    large = [r for r in races if r.shape["n_records"] in sizes]
    return growth_of_races(large, OURS, ("n_records", "n_columns", "n_clusters")).to_json() | {"sizes": sizes}
