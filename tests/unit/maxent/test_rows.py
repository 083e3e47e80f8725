"""The layout of the solver's rows against the definition of the rows."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from recoup.maxent.rows import Rows
from recoup.queries.base import Partition

M, D = 60, 3


def partition(rng, n_cells, values=None):
    return Partition(cells=rng.integers(n_cells, size=M), n_cells=n_cells, values=values)


def sparse(rng, n_rows):
    return csr_array(rng.normal(size=(M, n_rows)) * (rng.uniform(size=(M, n_rows)) < 0.3))


def mixes(rng):
    """Every kind of block, alone and together."""
    shared = rng.normal(size=(M, D))
    own = partition(rng, 3, rng.normal(size=(M, 2)))
    counts, dense = [partition(rng, 4), partition(rng, 7)], rng.normal(size=(M, 5))
    return {
        "shared values": [partition(rng, 4, shared), partition(rng, 5, shared), partition(rng, 2)],
        "own values": [counts[0], partition(rng, 4, shared), own],
        "counts": counts,
        "sparse": [sparse(rng, 6)],
        "dense": [dense],
        "all": [dense, own, counts[0], sparse(rng, 6), partition(rng, 5, shared), dense[:, :2] + 1.0, counts[1]],
    }


def matrix(block):
    if isinstance(block, np.ndarray):
        return block.T
    if not isinstance(block, Partition):
        return block.toarray().T
    inside = (block.cells[None, :] == np.arange(block.n_cells)[:, None]).astype(float)
    if block.values is None:
        return inside
    sums = inside[:, None, :] * block.values.T[None]
    return np.concatenate([inside, sums.reshape(-1, inside.shape[1])])


@pytest.mark.parametrize("mix", mixes(np.random.default_rng(0)))
@pytest.mark.parametrize("seed", range(3))
def test_products_equal_those_of_the_dense_matrix(mix, seed):
    rng = np.random.default_rng(seed)
    blocks = mixes(rng)[mix]
    a, rows = np.concatenate([matrix(b) for b in blocks]), Rows(blocks)
    assert sorted(rows.points) == list(range(M))
    assert sorted(rows.external) == list(range(len(a)))
    z, weights = rng.normal(size=rows.size), rng.uniform(size=M)
    placed = np.empty(M)
    placed[rows.points] = weights
    np.testing.assert_allclose(rows.gather(z[rows.external]), (a.T @ z)[rows.points], atol=1e-12)
    np.testing.assert_allclose(rows.scatter(weights), (a @ placed)[rows.external], atol=1e-12)
    wanted = ((a * placed) @ a.T)[np.ix_(rows.external, rows.external)]
    np.testing.assert_allclose(rows.squares(weights), wanted.diagonal(), atol=1e-12)
    for chosen in (np.arange(rows.size), np.flatnonzero(rng.random(rows.size) < 0.6)):
        part = np.triu(wanted[np.ix_(chosen, chosen)])
        for dtype, accuracy in ((np.float64, 1e-12), (np.float32, 1e-4)):
            gram = np.full(part.shape, np.nan, dtype=dtype)
            rows.gram(weights, chosen, gram)
            np.testing.assert_allclose(np.triu(gram), part, atol=accuracy)


def test_values_that_partitions_share_are_held_once():
    blocks = mixes(np.random.default_rng(0))["shared values"]
    assert Rows(blocks)._layout.values.shape == (M, 1 + D)
