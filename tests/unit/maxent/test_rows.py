"""Both layouts of the solver's rows against the definition of the rows, and against each other."""

import numpy as np
import pytest

from recoup.maxent.rows import GroupedRows, RunRows, packed
from recoup.queries.base import Partition


def partitions(rng, m=60, d=3, cells=(4, 5, 2), with_values=(True, True, False)):
    values = rng.normal(size=(m, d))
    return [
        Partition(cells=rng.integers(k, size=m), n_cells=k, values=values if used else None)
        for k, used in zip(cells, with_values, strict=True)
    ]


def matrix(block):
    inside = (block.cells[None, :] == np.arange(block.n_cells)[:, None]).astype(float)
    if block.values is None:
        return inside
    sums = inside[:, None, :] * block.values.T[None]
    return np.concatenate([inside, sums.reshape(-1, inside.shape[1])])


@pytest.mark.parametrize("layout", [lambda b: GroupedRows(b, b[0].values), RunRows], ids=["grouped", "runs"])
@pytest.mark.parametrize("seed", range(5))
def test_products_equal_those_of_the_dense_matrix(layout, seed):
    rng = np.random.default_rng(seed)
    blocks = partitions(rng)
    a, rows = np.concatenate([matrix(b) for b in blocks]), layout(blocks)
    z, weights = rng.normal(size=rows.size), rng.uniform(size=len(rows.points))
    placed = np.empty(len(weights))
    placed[rows.points] = weights
    np.testing.assert_allclose(rows.gather(z[rows.external]), (a.T @ z)[rows.points], atol=1e-12)
    np.testing.assert_allclose(rows.scatter(weights), (a @ placed)[rows.external], atol=1e-12)
    gram = np.full((rows.size, rows.size), np.nan)
    rows.gram(weights, gram)
    wanted = ((a * placed) @ a.T)[np.ix_(rows.external, rows.external)]
    np.testing.assert_allclose(np.triu(gram), np.triu(wanted), atol=1e-12)
    tiles = rows.tiles(weights)
    for row, length in zip(rows.tile_row, rows.tile_length, strict=True):
        tile = wanted[row : row + length, row : row + length]
        np.testing.assert_allclose(tiles[row : row + length, :length], tile, atol=1e-12)


def test_shared_values_are_grouped_and_other_mixes_are_runs():
    rng = np.random.default_rng(0)
    blocks = partitions(rng)
    assert isinstance(packed(blocks), GroupedRows)
    other = Partition(cells=blocks[1].cells, n_cells=5, values=rng.normal(size=(60, 3)))
    assert isinstance(packed([blocks[0], other]), RunRows)
    assert isinstance(packed([Partition(cells=blocks[0].cells, n_cells=4)]), GroupedRows)
