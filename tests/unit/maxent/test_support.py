"""Fine grids read in few rows: no record is lost, no cell is counted twice, and empty space costs little."""

import numpy as np
import pytest
from cases import domains, extreme_rows

from recoup import Box, GridKMeans, L1Ball, infer, release
from recoup.curator.source import open_source
from recoup.maxent.measure import by_cells, maxent, observations, weighted_quantiles
from recoup.maxent.support import blocks_of_cells, coarse_cells, denoised, reachable_cells
from recoup.queries.counts import GridQuery


@pytest.mark.parametrize("domain_name", domains(1))
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("side", [2, 3, 4, 7, 10])
def test_every_record_is_in_a_reachable_cell(domain_name, d, side):
    domain, query = domains(d)[domain_name], GridQuery(sides=(side,) * d)
    rng = np.random.default_rng(0)
    span = np.array(domain.high) - np.array(domain.low)
    anywhere = rng.uniform(np.array(domain.low) - span, np.array(domain.high) + span, size=(3000, d))
    rows = np.concatenate([extreme_rows(domain), anywhere])
    totals = np.array(open_source(rows, domain).total(query, np.ones(query.size)))
    assert totals.sum() == len(rows)
    assert totals[~reachable_cells(query, domain)].sum() == 0


def test_denoised_counts_and_quantiles_by_hand():
    np.testing.assert_array_equal(denoised(np.array([3.0, -1.0, 2.0]), 4.0), [2.5, 0.0, 1.5])
    quantiles = weighted_quantiles(np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 1.0]), (0.5, 0.51, 1.0))
    assert quantiles.tolist() == [2.0, 3.0, 3.0]


def test_reachable_cells_by_hand():
    # Four bins of 0.5: in the L1 ball the corner cells only touch the edge, and no record is ever on it.
    expected = np.ones((4, 4), dtype=bool)
    expected[[0, 0, 3, 3], [0, 3, 0, 3]] = False
    np.testing.assert_array_equal(
        reachable_cells(GridQuery(sides=(4, 4)), L1Ball([0, 0], [1, 1])).reshape(4, 4), expected
    )
    wide = L1Ball([0, 0], [1, 1], radius=1.001)
    assert reachable_cells(GridQuery(sides=(4, 4)), wide).all()


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 6), (3, 4, 5), (2,) * 8])
@pytest.mark.parametrize("n_blocks", [1, 2, 17, 10_000])
def test_blocks_are_boxes_that_cover_every_cell_once(shape, n_blocks):
    counts = np.random.default_rng(0).uniform(size=shape)
    blocks = blocks_of_cells(counts, n_blocks)
    assert blocks.shape == (counts.size,)
    used = np.unique(blocks)
    np.testing.assert_array_equal(used, np.arange(len(used)))
    assert len(used) == min(n_blocks, counts.size)
    where = np.stack(np.unravel_index(np.arange(counts.size), shape), axis=1)
    for block in used:
        inside = where[blocks == block]
        assert np.prod(inside.max(axis=0) - inside.min(axis=0) + 1) == len(inside)


def test_blocks_are_small_where_the_weight_is():
    counts = np.zeros((64, 64))
    counts[10:14, 20:24] = 1.0
    blocks = blocks_of_cells(counts, 40).reshape(64, 64)
    assert len(np.unique(blocks[10:14, 20:24])) == 16
    assert len(np.unique(blocks)) <= 40
    assert np.bincount(blocks.ravel()).max() > 500
    assert len(np.unique(blocks_of_cells(np.zeros((64, 64)), 40))) == 1


@pytest.mark.parametrize("sides", [(40, 40), (12, 12, 12), (6, 5, 4, 7), (3,) * 9])
def test_a_grid_is_read_in_at_most_so_many_blocks(sides):
    query = GridQuery(sides=sides)
    counts = np.random.default_rng(0).exponential(size=query.size)
    blocks = coarse_cells(query, counts, 600)
    assert 100 < len(np.unique(blocks)) <= 600
    np.testing.assert_array_equal(coarse_cells(query, counts, query.size), np.arange(query.size))


@pytest.mark.parametrize("kind", [Box, L1Ball])
def test_many_cells_in_many_columns_are_explained(kind):
    rng = np.random.default_rng(0)
    places = rng.uniform(0.3, 0.7, size=(3, 8))
    x = np.clip(rng.normal(places[rng.integers(3, size=20_000)], 0.05), 0, 1)
    transcript = release(
        GridKMeans(n_clusters=3),
        x,
        domain=kind([0] * 8, [1] * 8),
        epsilon=2,
        n_records=20_000,
        random_state=0,
        noise="simulated",
    )
    assert transcript.rounds[0].query.size == 5**8
    measure = maxent(by_cells(transcript.context, transcript.rounds, rng, n_points=2000))
    blocks, observed, scales, _ = observations(transcript.context, transcript.rounds, measure.points, 20_000.0)
    assert sum(block.shape[1] for block in blocks) == len(observed) == len(scales) <= 600
    assert (scales > 0).all()
    assert measure.solution.converged
    # What is read agrees with the cells it was read from.
    reachable = reachable_cells(transcript.rounds[0].query, transcript.context.domain)
    assert measure.weights.sum() == pytest.approx(transcript.rounds[0].noisy[reachable].sum(), rel=1e-6)


@pytest.mark.parametrize("x", [np.empty((0, 4)), np.zeros((1, 4)), np.full((3, 4), np.nan)], ids=["none", "one", "nan"])
def test_hardly_any_records_are_no_special_case(x):
    for epsilon in ("0.05", "1"):
        transcript = release(GridKMeans(n_clusters=3), x, domain=Box([0] * 4, [1] * 4), epsilon=epsilon, random_state=0)
        inferred = infer(transcript, random_state=0, n_points=500)
        assert np.isfinite(inferred.points).all()
        assert inferred.weights.sum() >= 0.99
