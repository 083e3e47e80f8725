"""How close a pass over the records comes to what the machine allows: bytes from memory, and arithmetic.

Bytes and operations are counted from the kernels (`kernels/cells.py`, `kernels/fixed_point.py`):

- conversion, once a release: reads 8 d bytes of a record and writes 4 d, which a cache fetches first, so 16 d bytes;
  8 d operations for a box (test, two clamps, subtract, divide, scale, shift, onto the grid), some 10 d more for a ball.
- a pass, once a round: reads 4 d bytes; 2 d operations to single precision; a difference, a square and a sum for each
  cell and column; 7 for each cell (the minimum, and which cells are near it); 4 d to scale, round and add the record
  to its cell. The few records that single precision cannot decide are not counted.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from recoup._threads import n_threads, over_row_ranges
from recoup.curator.source import fixed_records
from recoup.domain import Box
from recoup.queries.cells import VoronoiQuery
from recoup_lab.bench.data import blobs
from recoup_lab.bench.rules import Rules, race

_SHAPES: Final = ((2, 15), (10, 5), (10, 15), (10, 100), (50, 15))
_MATRIX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one record asks of the machine.

    >>> pass_load(10, 15)
    Load(bytes=40, operations=615)
    """

    bytes: int
    operations: int


def pass_load(n_columns: int, n_clusters: int) -> Load:
    """One record of a pass over fixed-point records."""
    distances = 3 * n_columns * n_clusters
    return Load(bytes=4 * n_columns, operations=distances + 7 * n_clusters + 6 * n_columns)


def conversion_load(n_columns: int) -> Load:
    """One record on its way to a fixed-point record of a box."""
    return Load(bytes=16 * n_columns, operations=8 * n_columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One kernel under the roof.

    Attributes:
        what: "conversion" or "pass".
        n_columns: d.
        n_clusters: K; 0 for a conversion.
        bytes: of memory a record.
        operations: of arithmetic a record.
        seconds: a record.
        memory: share of the measured bandwidth that is used.
        arithmetic: share of the measured arithmetic that is used.
    """

    what: str
    n_columns: int
    n_clusters: int
    bytes: int
    operations: int
    seconds: float
    memory: float
    arithmetic: float


def measure_roofline(rules: Rules) -> dict[str, Any]:
    """Measure the two kernels of a release, and what the machine can do.

    "bandwidth": bytes per second that all cores read together; "copy": of a copy, both ways; "arithmetic":
    single-precision operations per second of all cores without fused multiply-add.
    """
    n_values = 2_000_000 if rules.quick else 40_000_000
    limits = _limits(n_values, rules)
    bandwidth, arithmetic = limits["bandwidth"], limits["arithmetic"]
    points = []
    for d, k in _SHAPES[1:3] if rules.quick else _SHAPES:
        points += _points(n_values // (2 * d), d, k, bandwidth, arithmetic, rules)
    return {**limits, "points": [asdict(point) for point in points]}


def _patience(rules: Rules) -> float:
    return 1.0 if rules.quick else 8.0


def _limits(n_values: int, rules: Rules) -> dict[str, float]:
    x, y = np.ones(n_values), np.empty(n_values)
    a = np.random.default_rng(0).uniform(size=(_MATRIX, _MATRIX)).astype(np.float32)
    cores = n_threads()
    # Threads of our own for all three: those of a BLAS wait for each other, and the busier the machine the longer.
    with threadpool_limits(1), ThreadPoolExecutor(cores) as pool:
        seconds = race(
            {
                "sum": rules.timed(lambda: over_row_ranges(lambda i, j: x[i:j].sum(), n_values)),
                "copy": rules.timed(lambda: over_row_ranges(lambda i, j: np.copyto(y[i:j], x[i:j]), n_values)),
                "multiply": rules.timed(lambda: list(pool.map(lambda _: a @ a, range(cores)))),
            },
            repeats=10,
            patience=_patience(rules),
        )
    return {
        "bandwidth": 8 * n_values / seconds["sum"],
        "copy": 16 * n_values / seconds["copy"],
        # A product of matrices fuses a multiplication and an addition; kernels may not, or bits would differ.
        "arithmetic": cores * 2 * _MATRIX**3 / seconds["multiply"] / 2,
    }


def _points(n: int, d: int, k: int, bandwidth: float, arithmetic: float, rules: Rules) -> list[Point]:
    x = blobs(n, d, k)
    domain = Box((-1.0,) * d, (1.0,) * d)
    records = fixed_records(x, domain)
    query = VoronoiQuery(centers=np.random.default_rng(1).uniform(-0.6, 0.6, (k, d)))
    factors = np.full(query.size, 2.0**29)
    seconds = race(
        {
            "conversion": rules.timed(lambda: fixed_records(x, domain)),
            "pass": rules.timed(lambda: query.integer_total(records, factors)),
        },
        repeats=5,
        patience=_patience(rules),
    )
    loads = {"conversion": conversion_load(d), "pass": pass_load(d, k)}
    return [
        Point(
            what=what,
            n_columns=d,
            n_clusters=k if what == "pass" else 0,
            bytes=load.bytes,
            operations=load.operations,
            seconds=seconds[what] / n,
            memory=load.bytes * n / seconds[what] / bandwidth,
            arithmetic=load.operations * n / seconds[what] / arithmetic,
        )
        for what, load in loads.items()
    ]
