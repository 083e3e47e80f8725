"""Data sets made from a seed, so that the demo and the tests need no download and hold nobody's records."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from recoup.domain import Array

# Longitude, latitude, spread in degrees and share of all check-ins: five regions on a map of the world.
_REGIONS = (
    (-112.0, 38.0, 12.0, 0.30),
    (-80.0, 36.0, 11.0, 0.27),
    (12.0, 50.0, 16.0, 0.32),
    (104.0, 22.0, 22.0, 0.08),
    (138.0, -30.0, 12.0, 0.03),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GeneratedTable:
    """Rows, (n, d), with what a user would declare about them: bounds that are not computed from them, and K."""

    name: str
    columns: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_clusters: int
    rows: Array = field(repr=False)


def gaussian_blobs(seed: int = 0, n_records: int = 5000) -> GeneratedTable:
    """Make fifteen round clusters of equal size at random places that are far from each other, like the set S1."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    side, n_clusters = 1e6, 15
    places = np.empty((n_clusters, 2))
    n_placed, distance = 0, 0.21 * side
    while n_placed < n_clusters:
        place = rng.uniform(0.12 * side, 0.88 * side, size=2)
        if all(np.linalg.norm(place - other) >= distance for other in places[:n_placed]):
            places[n_placed] = place
            n_placed += 1
        else:
            # Shrinking a little after each failure always ends, whatever the seed.
            distance *= 0.9995
    spread = rng.uniform(0.028, 0.045, size=n_clusters) * side
    cluster = np.arange(n_records) % n_clusters
    rows = rng.normal(places[cluster], spread[cluster, None])
    return GeneratedTable(
        name="S1-like",
        columns=("x", "y"),
        low=(0.0, 0.0),
        high=(side, side),
        n_clusters=n_clusters,
        rows=np.clip(rng.permutation(rows), 0.0, side),
    )


def city_check_ins(seed: int = 0, n_records: int = 107_000) -> GeneratedTable:
    """Make check-ins that crowd into cities of very unequal size on five parts of the world, like the set Gowalla.

    City sizes follow Zipf's law, and the spread around a city is heavy-tailed.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    regions = np.array(_REGIONS)
    n_cities = 60
    stretch = np.array([1.0, 0.55])  # degrees of latitude: regions are wider than they are high
    cities = regions[:, None, :2] + rng.normal(size=(len(regions), n_cities, 2)) * regions[:, 2, None, None] * stretch
    sizes = 1.0 / np.arange(1, n_cities + 1)
    region = rng.choice(len(regions), size=n_records, p=regions[:, 3] / regions[:, 3].sum())
    city = rng.choice(n_cities, size=n_records, p=sizes / sizes.sum())
    rows = cities[region, city] + 0.8 * rng.standard_t(df=2.0, size=(n_records, 2))
    low, high = (-180.0, -90.0), (180.0, 90.0)
    return GeneratedTable(
        name="Gowalla-like",
        columns=("longitude", "latitude"),
        low=low,
        high=high,
        n_clusters=5,
        rows=np.clip(rows, low, high),
    )
