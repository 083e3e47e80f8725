"""One round over a Parquet folder against pyarrow's own scan and sum of the same columns; peak memory of either.

Ratios within one run. `python -m recoup_lab.studies.streaming 20000000` is the size that the documentation quotes.
"""

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

D, K, FILE_ROWS = 10, 10, 1_000_000
NAMES = [f"x{j}" for j in range(D)]


def write_folder(folder, n, dtype):
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    centers = rng.uniform(-0.6, 0.6, (K, D))
    for part, start in enumerate(range(0, n, FILE_ROWS)):
        rows = min(FILE_ROWS, n - start)
        x = np.clip(centers[rng.integers(0, K, rows)] + 0.08 * rng.standard_normal((rows, D)), -1, 1).astype(dtype)
        table = pa.table({name: x[:, j] for j, name in enumerate(NAMES)})
        parquet.write_table(table, folder / f"part-{part:03d}.parquet")


def one_round(path):
    """The work of one round of k-means, as the curator does it."""
    import numpy as np

    import recoup
    from recoup.curator.source import open_source
    from recoup.queries.cells import VoronoiQuery

    source = open_source(path, recoup.Box([-1.0] * D, [1.0] * D, NAMES))
    query = VoronoiQuery(centers=np.random.default_rng(1).uniform(-0.6, 0.6, (K, D)))
    return lambda: source.total(query, np.full(query.size, 2.0**29))


def scan_and_sum(path):
    import pyarrow.compute as pc
    from pyarrow import dataset

    def scan():
        for batch in dataset.dataset(path).to_batches(columns=NAMES):
            for column in batch.columns:
                pc.sum(column)

    return scan


def best_of_both(ours, theirs, repeats=5):
    """The fastest of each, taken in turns, so that a busy machine hinders both alike."""
    times = {ours: [], theirs: []}
    for _ in range(repeats):
        for work in (theirs, ours):
            start = time.perf_counter()
            work()
            times[work].append(time.perf_counter() - start)
    return min(times[ours]), min(times[theirs])


def peak_megabytes():
    # Of this program alone: on Linux ru_maxrss also remembers the process that started it.
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def print_growth(path, what):
    """In a process of its own: how far one pass raises peak memory above that of the imports."""
    import pyarrow.dataset  # noqa: F401

    import recoup.curator.source  # noqa: F401

    before = peak_megabytes()
    {"round": one_round, "scan": scan_and_sum}[what](path)()
    print(f"{peak_megabytes() - before:.0f}")


def growth_in_new_process(path, what):
    command = [sys.executable, __file__, "growth", str(path), what]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(n):
    for dtype in ("float64", "float32"):
        folder = Path(tempfile.mkdtemp(prefix="recoup-streaming-"))
        try:
            write_folder(folder, n, dtype)
            ours, theirs = one_round(folder), scan_and_sum(folder)
            ours()
            seconds, scan_seconds = best_of_both(ours, theirs)
            print(
                f"N={n} d={D} K={K} {dtype}: throughput of one round / pyarrow scan and sum "
                f"{scan_seconds / seconds:.2f} ({seconds:.2f} s, {scan_seconds:.2f} s); peak memory above imports "
                f"{growth_in_new_process(folder, 'round')} MB, scan {growth_in_new_process(folder, 'scan')} MB"
            )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["growth"]:
        print_growth(Path(sys.argv[2]), sys.argv[3])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000)
