"""The tables on which everyone is compared: the six sets of the paper, customers of a shop, and blobs."""

from __future__ import annotations

from functools import partial

import numpy as np

from recoup.demo import GeneratedTable
from recoup_lab.experiments.datasets import SETS, DataSet


def customers(seed: int = 3, n_records: int = 60_000) -> GeneratedTable:
    """Eight columns of four kinds of customers, six of them lognormal and most with many zeros; declared bounds.

    >>> customers(n_records=100).rows.shape
    (100, 8)
    """
    rng = np.random.default_rng(seed)
    kind = rng.choice(4, n_records, p=[0.45, 0.30, 0.17, 0.08])
    # For each kind: the middle of the logarithm, and the share of zeros; the spread of the logarithm is the same.
    columns = {
        "spent": ((4.0, 5.6, 6.9, 8.1), (0.0, 0.0, 0.0, 0.0), 0.6, 20_000.0),
        "orders": ((0.5, 1.7, 2.6, 2.4), (0.0, 0.0, 0.0, 0.0), 0.5, 200.0),
        "days since": ((4.8, 3.4, 2.6, 2.2), (0.0, 0.0, 0.0, 0.0), 0.7, 365.0),
        "minutes": ((0.5, 2.6, 4.1, 1.5), (0.7, 0.3, 0.05, 0.4), 1.0, 3_000.0),
        "points": ((3.0, 5.0, 6.6, 7.6), (0.2, 0.1, 0.0, 0.0), 0.8, 50_000.0),
        "returns": ((-1.5, 0.0, 0.8, 0.3), (0.85, 0.6, 0.3, 0.5), 0.8, 60.0),
    }
    made = []
    for middle, zero, spread, _ in columns.values():
        values = np.exp(np.array(middle)[kind] + spread * rng.normal(size=n_records))
        made.append(np.where(rng.random(n_records) < np.array(zero)[kind], 0.0, values))
    made.append(rng.normal(np.array([34.0, 41.0, 47.0, 58.0])[kind], 9.0))
    made.append(rng.beta(np.array([2.0, 3.0, 2.0, 1.0])[kind], np.array([5.0, 4.0, 8.0, 12.0])[kind]))
    high = (*(end for *_, end in columns.values()), 100.0, 1.0)
    low = (0.0,) * 8
    rows = np.clip(np.column_stack(made), low, high)
    names = (*columns, "age", "discounts")
    return GeneratedTable(name="Customers", columns=names, low=low, high=high, n_clusters=4, rows=rows)


def blobs(n_clusters: int, n_columns: int) -> GeneratedTable:
    """20,000 records as the evaluation of PE-means generates them; the bounds are those of the records.

    >>> blobs(4, 3).rows.shape
    (20000, 3)
    """
    from sklearn.datasets import make_blobs

    rows = np.round(make_blobs(n_samples=20_000, n_features=n_columns, centers=n_clusters, random_state=1)[0], 4)
    low, high = (tuple(map(float, ends)) for ends in (rows.min(axis=0), rows.max(axis=0)))
    names = tuple(f"x{j}" for j in range(n_columns))
    return GeneratedTable(name="Blobs", columns=names, low=low, high=high, n_clusters=n_clusters, rows=rows)


def _blobs(n_clusters: int, n_columns: int) -> DataSet:
    return DataSet(
        name=f"blobs_{n_clusters}_{n_columns}",
        title=f"Blobs, {n_clusters} in {n_columns} columns",
        n_records=20_000,
        n_columns=n_columns,
        n_clusters=n_clusters,
        make=partial(blobs, n_clusters, n_columns),
    )


def compared_sets() -> dict[str, DataSet]:
    """All sets of the comparison.

    >>> list(compared_sets())
    ['s1', 'adult', 'tiger', 'image_house', 'gowalla', 'lifesci', 'shop', 'blobs_16_4', 'blobs_16_16']
    """
    shop = DataSet(name="shop", title="Shop", n_records=60_000, n_columns=8, n_clusters=4, make=customers)
    return SETS | {entry.name: entry for entry in (shop, _blobs(16, 4), _blobs(16, 16))}
