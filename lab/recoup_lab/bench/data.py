"""Records for benchmarks: round clusters inside [-1, 1], made from a seed."""

from __future__ import annotations

import numpy as np

from recoup.domain import Array

_CHUNK = 2**18


def blobs(n_records: int, n_columns: int, n_clusters: int, *, seed: int = 0) -> Array:
    """Make (n_records, n_columns) records in clusters of width 0.08 at random places within [-1, 1].

    >>> blobs(5, 2, 3).shape
    (5, 2)
    """
    rng = np.random.default_rng(seed)
    places = rng.uniform(-0.6, 0.6, (n_clusters, n_columns))
    rows = np.empty((n_records, n_columns))
    # In pieces: benchmarks of memory must not be drowned by temporaries of their own records.
    for start in range(0, n_records, _CHUNK):
        piece = rows[start : start + _CHUNK]
        rng.standard_normal(out=piece)
        piece *= 0.08
        piece += places[rng.integers(0, n_clusters, len(piece))]
        np.clip(piece, -1.0, 1.0, out=piece)
    return rows
