"""Generated tables of the sizes of the paper's data sets: not copies of them, but alike in what is hard about them.

Each is made from a seed and declares its bounds, so that an experiment runs with no download.
"""

from __future__ import annotations

import numpy as np

from recoup.demo import GeneratedTable
from recoup.domain import Array


def _stream(seed: int, table: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(100, table)))


def _table(name: str, columns: dict[str, tuple[float, float]], n_clusters: int, rows: Array) -> GeneratedTable:
    low, high = (tuple(ends[side] for ends in columns.values()) for side in (0, 1))
    return GeneratedTable(
        name=name, columns=tuple(columns), low=low, high=high, n_clusters=n_clusters, rows=np.clip(rows, low, high)
    )


def two_states(seed: int = 0, n_records: int = 16_281) -> GeneratedTable:
    """Places in two states that are far apart, dense in towns and thin between them, like the set TIGER.

    >>> two_states(n_records=100).rows.shape
    (100, 2)
    """
    rng = _stream(seed, 0)
    corners = np.array([[[-124.5, 45.6], [-117.0, 49.0]], [[-109.0, 31.4], [-103.1, 37.0]]])
    n_towns = 40
    towns = rng.uniform(corners[:, None, 0], corners[:, None, 1], size=(2, n_towns, 2))
    sizes = 1.0 / np.arange(1, n_towns + 1)
    state = rng.choice(2, size=n_records, p=[0.65, 0.35])
    town = rng.choice(n_towns, size=n_records, p=sizes / sizes.sum())
    rows = towns[state, town] + 0.18 * rng.standard_t(df=2.0, size=(n_records, 2))
    rural = rng.random(n_records) < 0.25
    rows[rural] = rng.uniform(corners[state[rural], 0], corners[state[rural], 1])
    columns = {"longitude": (-124.9, -102.9), "latitude": (31.2, 49.1)}
    return _table("TIGER-like", columns, 2, np.clip(rows, corners[state, 0], corners[state, 1]))


def colours(seed: int = 0, n_records: int = 33_925) -> GeneratedTable:
    """The distinct colours of a photograph: a few materials from shadow to light, like the set Image.

    >>> colours(n_records=100).columns
    ('red', 'green', 'blue')
    """
    rng = _stream(seed, 1)
    shadow = np.array([[20, 25, 40], [60, 20, 15], [15, 40, 20], [60, 60, 70]], dtype=np.float64)
    light = np.array([[170, 210, 245], [230, 160, 130], [130, 180, 110], [240, 238, 230]], dtype=np.float64)
    n_drawn = 12 * n_records
    material = rng.choice(4, size=n_drawn, p=[0.35, 0.3, 0.1, 0.25])
    at = rng.beta(2.0, 1.5, size=(n_drawn, 1))
    drawn = shadow[material] + at * (light - shadow)[material] + 14.0 * rng.normal(size=(n_drawn, 3))
    distinct = np.unique(np.rint(np.clip(drawn, 0.0, 255.0)), axis=0)
    rows = distinct[rng.choice(len(distinct), size=n_records, replace=False)]
    return _table("Image-like", dict.fromkeys(("red", "green", "blue"), (0.0, 255.0)), 3, rows)


def census(seed: int = 0, n_records: int = 48_842) -> GeneratedTable:
    """Six columns with spikes, long tails and many zeros, like the numeric columns of the set Adult.

    >>> census(n_records=100).rows.shape
    (100, 6)
    """
    rng = _stream(seed, 2)
    age = np.floor(17.0 + rng.gamma(2.6, 8.5, size=n_records))
    weight = np.rint(np.exp(rng.normal(12.0, 0.55, size=n_records)))
    levels, shares = (4, 6, 7, 9, 10, 12, 13, 14, 16), (2, 3, 4, 33, 23, 8, 17, 6, 4)
    education = rng.choice(levels, size=n_records, p=np.array(shares) / 100.0).astype(np.float64)
    chance = rng.random(n_records)
    gain = np.where(chance < 0.08, np.exp(rng.normal(8.6, 0.9, size=n_records)), 0.0)
    gain = np.where(chance < 0.005, 99_999.0, gain)
    loss = np.where(chance > 0.953, rng.normal(1870.0, 350.0, size=n_records), 0.0)
    spike = rng.random(n_records) < 0.47
    hours = np.where(spike, 40.0, np.rint(rng.normal(41.0, 15.0, size=n_records)))
    columns = {
        "age": (17.0, 90.0),
        "weight": (12_000.0, 1_500_000.0),
        "education": (1.0, 16.0),
        "gain": (0.0, 99_999.0),
        "loss": (0.0, 4356.0),
        "hours": (1.0, 99.0),
    }
    return _table("Adult-like", columns, 5, np.column_stack([age, weight, education, gain, loss, hours]))


def components(seed: int = 0, n_records: int = 26_733) -> GeneratedTable:
    """Ten principal components of shrinking size over three overlapping groups, like the set Lifesci.

    >>> components(n_records=100).n_clusters
    3
    """
    rng = _stream(seed, 3)
    spread = 1.0 / np.sqrt(np.arange(1, 11))
    middles = np.zeros((3, 10))
    middles[:, :3] = np.array([[-1.6, 0.4, 0.0], [1.3, 0.9, 0.3], [0.4, -1.3, -0.4]])
    group = rng.choice(3, size=n_records, p=[0.4, 0.35, 0.25])
    rows = middles[group] + spread * rng.standard_t(df=5.0, size=(n_records, 10))
    columns = {f"component {j + 1}": (-6.0 * float(size), 6.0 * float(size)) for j, size in enumerate(spread)}
    return _table("Lifesci-like", columns, 3, rows)
