"""GUPT (Mohan et al. 2012): sample and aggregate. K-means on disjoint blocks of records, then a noisy average.

**Blocks.** Neighbours differ in one record, and one record must change one block only. Shuffling the rows and cutting
them would not do: a record more or less shifts every cut. Here a record's block is a hash of its own values and of its
rank among records equal to it. A further record gets the next rank and so joins one block; all others stay where they
are, in whatever order the rows come. That holds for every key of the hash, so the key may be known. The number of
blocks, about N^0.4, comes from the declared or the noisy N.

**Outputs.** A block's output is a function of its own records: the best of a few k-means runs from the block's own
seed, or K times the middle of the domain for a block without records. The centres of a block are put in lexicographic
order (by the first column, then the second, ...), which is how GUPT matches the outputs of blocks. The order is crude:
centres that are close in the first column change places between blocks and average to points between clusters.

**Noise.** Outputs are clamped to the domain and rounded toward zero onto integers of at most D / 2 in L1 for a block;
one record exchanges one block's integers for others, so the sum moves by at most D. The average is the noisy sum over
the public number of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recoup._validate import whole_number
from recoup.curator.rivals.base import ChargedNoise
from recoup.curator.source import TableSource
from recoup.domain import Domain
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.queries.base import Array, Integers, Records, check_size

_EXPONENT = 0.4
_MOST_BLOCKS = 2**16
_RESTARTS = 3
_ITERATIONS = 50
# A little less than the whole sensitivity, so that rounding in a product can never exceed it.
_SHAVE = 1.0 - 2.0**-40


@dataclass(frozen=True, slots=True, kw_only=True)
class Gupt:
    """Private k-means by sample and aggregate.

    Args:
        n_clusters: K.
        n_blocks: a public number of blocks; by default about N^0.4, as published.

    Guarantees: epsilon-differential privacy for adding or removing one record; K d + 1 noises are drawn (K d if the
    number of records or of blocks is declared), whatever the records are. Time is not protected: how long a block takes
    depends on its records.

    >>> Gupt(n_clusters=3).n_clusters
    3
    """

    n_clusters: int
    n_blocks: int | None = None

    type_name: ClassVar[str] = "gupt"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_clusters", whole_number(self.n_clusters, "n_clusters"))
        if self.n_blocks is not None:
            object.__setattr__(self, "n_blocks", whole_number(self.n_blocks, "n_blocks"))

    def centers(self, source: TableSource, noise: ChargedNoise, rng: np.random.Generator) -> Array:
        """The noisy average of the blocks' centres, in the unit domain."""
        domain, sensitivity = noise.context.domain, noise.context.sensitivity
        check_size(self.n_clusters * domain.n_columns)
        n_blocks = self.n_blocks if self.n_blocks is not None else blocks_for(noise.number_of_records(source))
        outputs = block_outputs(source, domain, self.n_clusters, n_blocks, key=int(rng.integers(2**62)))
        factor = sensitivity / (2 * self.n_clusters * domain.sum_bound(1)) * _SHAVE
        totals = np.trunc(outputs * factor).astype(np.int64).sum(axis=0)
        noisy = noise.noisy_totals([int(v) for v in totals.ravel()], share=noise.left, purpose="average of the blocks")
        average = np.array([float(v) for v in noisy]).reshape(totals.shape) / (factor * n_blocks)
        return domain.clip(average)


def blocks_for(n_records: float) -> int:
    """The published number of blocks, N^0.4, for a rough number of records."""
    return int(np.clip(round(max(n_records, 1.0) ** _EXPONENT), 1, _MOST_BLOCKS))


def block_outputs(source: TableSource, domain: Domain, n_clusters: int, n_blocks: int, *, key: int) -> Array:
    """The centres of every block, (n_blocks, K, d), matched and clamped; the key, which may be known, makes the blocks.

    Guarantees: one record more or less changes the output of at most one block; the order of records changes nothing.
    """
    outputs = np.zeros((n_blocks, n_clusters, domain.n_columns))
    for block, points in _blocks(source, domain.n_columns, n_blocks, key):
        rng = np.random.default_rng(np.random.SeedSequence(key, spawn_key=(block,)))
        centers = weighted_kmeans(
            points, np.ones(len(points)), n_clusters, n_restarts=_RESTARTS, rng=rng, max_iterations=_ITERATIONS
        ).centers
        centers = domain.clip(centers)
        # In lexicographic order, so that outputs of blocks can be averaged place by place.
        outputs[block] = centers[np.lexsort(centers.T[::-1])]
    return outputs


def _blocks(source: TableSource, n_columns: int, n_blocks: int, key: int) -> Iterator[tuple[int, Array]]:
    """The records of each block that has any, in an order that their values decide."""
    parts = [block[block[:, 0] != DROPPED] for block in source.records()]
    records = np.concatenate([np.empty((0, n_columns), np.int32), *parts])
    records = records[np.lexsort(records.T[::-1])]
    of_record = assigned_blocks(records, n_blocks, key)
    order = np.argsort(of_record, kind="stable")
    edges = np.searchsorted(of_record[order], np.arange(n_blocks + 1))
    for block in range(n_blocks):
        inside = order[edges[block] : edges[block + 1]]
        if len(inside):
            yield block, records[inside] / GRID


def assigned_blocks(records: Records, n_blocks: int, key: int) -> Integers:
    """The block of each record, a hash of its values and its rank among its equals, which are neighbours in order."""
    n = len(records)
    first = np.ones(n, dtype=bool)
    first[1:] = (records[1:] != records[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    rank = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))
    mixed = _mix(np.full(n, key, dtype=np.uint64))
    for column in (*records.T, rank):
        mixed = _mix(mixed ^ column.astype(np.int64).view(np.uint64))
    return (mixed % np.uint64(n_blocks)).astype(np.int64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # The finaliser of SplitMix64: every bit of the input reaches every bit of the output. Overflow is meant.
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
