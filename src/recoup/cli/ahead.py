"""A first run's kernels, compiled by a second process while the first one is still busy with others.

numba compiles one function at a time, whatever the number of threads, so half of the wait of whoever runs Recoup for
the first time is spared by another core. The second process knows no record: it runs what comes last in a fit on a few
made-up points, and leaves the compiled functions where the first one looks for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np


@contextmanager
def compiling_ahead() -> Iterator[None]:
    """Let another process compile what a fit will need, if nothing is compiled yet; it ends with the block."""
    if _is_compiled() or not sys.executable or (os.cpu_count() or 1) < 2:
        yield
        return
    nothing = subprocess.DEVNULL
    # -P: what lies in the current folder is none of its modules, just as for the command itself.
    started = [sys.executable, "-P", "-m", "recoup.cli.ahead"]
    process = subprocess.Popen(started, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        yield
    finally:
        process.kill()  # numba writes files whole or not at all
        process.wait()


def _is_compiled() -> bool:
    from recoup.kernels.weighted_kmeans import lloyd

    kept = Path(lloyd.stats.cache_path)
    return any(kept.glob(f"*{lloyd.py_func.__qualname__}-*.nbi"))


def compile_last() -> None:
    """Compile what a fit needs last, after its first answers: no function is then compiled by both processes."""
    from recoup.kernels.weighted_kmeans import weighted_kmeans
    from recoup.queries.cells import VoronoiQuery

    points, rng = np.linspace(-0.9, 0.9, 16).reshape(8, 2), np.random.default_rng(0)
    query = VoronoiQuery(centers=points[:2], sums="relative", radii=np.ones(2))
    weighted_kmeans(points, np.ones(8), 2, n_restarts=1, rng=rng)
    query.values(points, query.cells(points))


if __name__ == "__main__":
    compile_last()
