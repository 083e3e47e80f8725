"""Clouds have what was measured: all of it where there is hardly any noise, nothing where there is nothing else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from recoup import Box, L2Ball
from recoup.maxent.clouds import clouds, read_as_clouds
from recoup.maxent.measure import by_cells, maxent
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import HistogramQuery
from recoup.transcript.context import Context
from recoup.transcript.round import Round

D = 12
MIDDLES = 0.5 * np.sign(np.random.default_rng(5).standard_normal((3, D)))
SIZES, SPREADS = np.array([3000, 1000, 500]), np.array([0.03, 0.1, 0.06])  # by column
TERMS = Context(domain=Box([-1.0] * D, [1.0] * D), epsilon=Fraction(1), delta=Fraction("1e-6"), mechanism="gaussian")


def table():
    rng = np.random.default_rng(0)
    parts = zip(MIDDLES, SPREADS, SIZES, strict=True)
    return np.concatenate([middle + spread * rng.standard_normal((n, D)) for middle, spread, n in parts])


def answered(query, x, noise, seed=0):
    """A round about records, with noise of one deviation for a contribution of one."""
    blocks = query.sensitivity(TERMS.domain).blocks
    scales = noise * np.concatenate([block.l2 for block in blocks])
    exact = np.asarray(query.contribution(x).sum(axis=0)).ravel()
    noisy = exact + scales * np.random.default_rng(seed).standard_normal(len(exact))
    return Round.of_imported(TERMS, query=query, noisy=noisy, scales=scales)


def cells(radius=1.5, centers=MIDDLES, **more):
    options = {"sums": "relative", "radii": np.full(len(centers), radius), "norm": 2, "squares": True}
    return VoronoiQuery(centers=centers + 0.05, **options | more)


def by_cell(query, data):
    """Size, mean and variance of the points of each cell."""
    owners = query.cells(data.points)
    sizes = np.bincount(owners, data.weights, minlength=query.n_cells)
    means = np.stack(
        [np.average(data.points[owners == c], axis=0, weights=data.weights[owners == c]) for c in range(3)]
    )
    squares = ((data.points - means[owners]) ** 2).sum(axis=1)
    return sizes, means, np.bincount(owners, data.weights * squares, minlength=query.n_cells) / sizes


def look(noise):
    return answered(HistogramQuery.one_way(dimension=D, bins=4), table(), noise)


@pytest.mark.parametrize("radius", [1.5, 0.3], ids=["wide", "most records clipped"])
def test_without_noise_clouds_have_the_sizes_means_and_spreads_of_cells(radius):
    query = cells(radius)
    data = clouds(TERMS, [look(1e-3), answered(query, table(), 1e-3)], 3000, np.random.default_rng(0), total=4500.0)
    sizes, means, variances = by_cell(query, data)
    np.testing.assert_allclose(sizes, SIZES, rtol=0.01)
    np.testing.assert_allclose(means, MIDDLES, atol=0.03 if radius > 1 else 0.1)
    if radius > 1:
        np.testing.assert_allclose(variances, D * SPREADS**2, rtol=0.25)
    assert data.weights.sum() == pytest.approx(4500.0)
    # The check above can fail: of other records, clouds are elsewhere.
    moved = clouds(
        TERMS, [look(1e-3), answered(query, table() + 0.15, 1e-3)], 3000, np.random.default_rng(0), total=4500.0
    )
    assert np.abs(by_cell(query, moved)[1] - MIDDLES).max() > 0.12


def test_noise_alone_moves_nothing():
    # Noise alone says that means are off by more than the domain. The median of 20 transcripts moves clouds by less
    # than a tenth; who believed the noise would move all of them, so that a false alarm is no matter of chance.
    first, query = look(1e-3), cells(centers=MIDDLES)
    before = clouds(TERMS, [first], 3000, np.random.default_rng(0), total=4500.0)
    means, moves, told = by_cell(query, before)[1], [], []
    for seed in range(20):
        noisy = answered(query, before.points[:0], 3000.0, seed)
        after = clouds(TERMS, [first, noisy], 3000, np.random.default_rng(0), total=4500.0)
        moves.append(np.sqrt(((after.means - means) ** 2).mean()))
        told.append(np.sqrt(((query.sums_of(noisy.noisy) / 1500.0) ** 2).mean()))
    assert np.median(moves) < 0.1
    assert np.median(told) > 1.0


def test_points_stay_in_the_domain_and_in_their_cells():
    ball = L2Ball([-1.0] * D, [1.0] * D, radius=1.8)
    terms = Context(domain=ball, epsilon=Fraction(1), delta=Fraction("1e-6"), mechanism="gaussian")
    query = cells()
    data = clouds(terms, [look(5.0), answered(query, table(), 5.0)], 2000, np.random.default_rng(1), total=4500.0)
    assert (np.linalg.norm(data.points, axis=1) <= 1.8 + 1e-9).all()
    assert (data.weights >= 0).all()
    np.testing.assert_allclose(by_cell(query, data)[1], data.means, atol=0.02)


def test_a_cell_without_points_is_given_some():
    far = np.concatenate([MIDDLES[:2], np.full((1, D), 0.9)])
    records = np.concatenate([table()[:3000], np.full((1000, D), 0.95)])
    rounds = [look(1e-3), answered(cells(centers=far), records, 1e-3)]
    data = clouds(TERMS, rounds, 2000, np.random.default_rng(0), total=4000.0)
    assert data.sizes[2] == pytest.approx(1000, rel=0.02)
    np.testing.assert_allclose(data.means[2], 0.95, atol=0.05)


def test_counts_alone_change_weights_alone():
    counted = VoronoiQuery(centers=MIDDLES, sums="none")
    rounds = [look(1e-3), answered(counted, table(), 1e-3)]
    data, before = (clouds(TERMS, r, 3000, np.random.default_rng(0), total=4500.0) for r in (rounds, rounds[:1]))
    np.testing.assert_array_equal(data.points, before.points)
    np.testing.assert_allclose(np.bincount(counted.cells(data.points), data.weights), SIZES, rtol=0.01)
    assert data.means.shape == (0, D)


def test_rounds_decide_whether_they_are_read_as_clouds():
    rounds = [look(5.0), answered(cells(), table(), 5.0)]
    assert read_as_clouds(rounds)
    assert not read_as_clouds(rounds[:1])
    assert not read_as_clouds([answered(cells(squares=False), table(), 5.0)])
    one, two = (maxent(by_cells(TERMS, rounds, np.random.default_rng(3), n_points=500)) for _ in range(2))
    np.testing.assert_array_equal(one.points, two.points)
    assert one.solution is None
