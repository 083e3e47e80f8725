"""K-means of another library, run by an interpreter of its own, since it may need other versions than Recoup.

Started as a plain script with the library's name, by a Python that need not have Recoup. Reads lines, answers each with
a JSON value: `load FILE.npy` (the records), `fit K` (the seconds of one fit, on the clock and of the processor).
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeAlias

Library: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any, int], None]]  # what is done once, and what is timed

_N_ITERATIONS = 5


def _diffprivlib() -> Library:
    import numpy as np
    from diffprivlib.models import KMeans

    def prepare(records: Any) -> Any:
        return records, (np.full(records.shape[1], -1.0), np.full(records.shape[1], 1.0))

    def fit(prepared: Any, n_clusters: int) -> None:
        records, bounds = prepared
        KMeans(n_clusters=n_clusters, epsilon=1.0, bounds=bounds, random_state=0).fit(records)

    return prepare, fit


def _faiss() -> Library:
    import faiss

    def prepare(records: Any) -> Any:
        return records.astype("float32")  # it takes nothing else; not timed

    def fit(records: Any, n_clusters: int) -> None:
        # All records instead of a sample of 256 for each cluster, which is its default.
        every = {"max_points_per_centroid": len(records), "min_points_per_centroid": 1}
        faiss.Kmeans(records.shape[1], n_clusters, niter=_N_ITERATIONS, nredo=1, seed=0, **every).train(records)

    return prepare, fit


def _intelex() -> Library:
    import daal4py
    from sklearnex.cluster import KMeans

    if "OMP_NUM_THREADS" in os.environ:
        daal4py.daalinit(int(os.environ["OMP_NUM_THREADS"]))
    settings = {"init": "random", "n_init": 1, "max_iter": _N_ITERATIONS, "tol": 0, "algorithm": "lloyd"}

    def fit(records: Any, n_clusters: int) -> None:
        KMeans(n_clusters, random_state=0, **settings).fit(records)

    return lambda records: records, fit


_LIBRARIES = {"diffprivlib": _diffprivlib, "faiss-cpu": _faiss, "scikit-learn-intelex": _intelex}


def main() -> None:
    """Answer requests until the input ends."""
    warnings.simplefilter("ignore")
    import numpy as np

    prepare, fit = _LIBRARIES[sys.argv[1]]()
    prepared = None
    _say({"version": version(sys.argv[1])})
    for line in sys.stdin:
        verb, argument = line.rstrip("\n").split(" ", 1)
        if verb == "load":
            records = np.load(argument)
            prepared = prepare(records)
            _say({"loaded": len(records)})
        else:
            start, spent = time.perf_counter(), time.process_time()
            fit(prepared, int(argument))
            _say({"seconds": time.perf_counter() - start, "processor": time.process_time() - spent})


def _say(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
