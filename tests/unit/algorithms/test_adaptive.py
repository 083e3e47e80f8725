"""The glance of the default algorithm: where records fill little of their bounds, cells are small only there."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.cluster import KMeans

from recoup import AdaptiveKMeans, Box, L1Ball, PrivateKMeans, release
from recoup.algorithms.kmeans import adaptive
from recoup.algorithms.kmeans.adaptive import plan_stages
from recoup.maxent.support import closer_look, reachable_cells
from recoup.maxent.support import looks_of as looks
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery


def crowd(d, n=6000):
    """Records in a part of [-1, 1]^d that is a sixteenth as wide."""
    return 0.3 + np.random.default_rng(0).uniform(-0.06, 0.06, size=(n, d))


def looks_of(x, domain, epsilon=1.0, n_clusters=3):
    rounds = release(
        AdaptiveKMeans(n_clusters=n_clusters), x, domain=domain, epsilon=epsilon, random_state=0, noise="simulated"
    ).rounds
    first = next(r for r in rounds if isinstance(r.query, GridQuery))
    return rounds, first, closer_look(rounds, first)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_cells_with_records_are_cut_and_empty_ones_are_not(d):
    x = crowd(d)
    _, first, (closer,) = looks_of(x, Box([-1.0] * d, [1.0] * d))
    grid, centers = first.query, closer.query.centers
    in_cell = np.bincount(grid.marginal.cells(centers), minlength=grid.size)
    counts = np.bincount(grid.marginal.cells(x), minlength=grid.size)
    assert (in_cell >= 1).all()
    assert in_cell[counts > 1000].min() >= 3
    # A cell without records is cut if its noise is large: Laplace noise is so for at most a few in a hundred cells.
    assert (in_cell[counts == 0] > 1).mean() < 0.1
    assert closer.query.sums == "none"
    assert len(centers) <= max(adaptive._MAX_CLOSER_CELLS, grid.size)


def test_the_cells_of_a_ball_lie_inside_of_it():
    domain = L1Ball([-1.0, -1.0], [1.0, 1.0])
    _, first, (closer,) = looks_of(crowd(2), domain)
    centers = closer.query.centers
    assert np.abs(centers).sum(axis=1).max() <= 1.0
    assert len(np.unique(first.query.marginal.cells(centers))) <= reachable_cells(first.query, domain).sum()


def test_without_many_records_for_each_cluster_there_is_no_glance():
    rounds, first, closer = looks_of(crowd(2, n=500), Box([-1.0] * 2, [1.0] * 2), epsilon=0.5)
    assert first.share == Fraction(40, 100)
    assert not closer  # the round of counts that follows has more noise than the grid
    assert isinstance(rounds[2].query, VoronoiQuery)


def test_a_look_that_finds_other_numbers_does_not_change_the_shares():
    # N epsilon / K is 100, where the plan changes: the noisy total decides alone, and the first look never again.
    x = np.random.default_rng(1).uniform(size=(1000, 2))
    seen = set()
    for seed in range(12):
        transcript = release(
            AdaptiveKMeans(n_clusters=2),
            x,
            domain=Box([0.0] * 2, [1.0] * 2),
            epsilon=Fraction(1, 5),
            random_state=seed,
            noise="simulated",
        )
        assert sum(r.share for r in transcript.rounds) == 1
        seen.add(len(transcript.rounds))
    assert seen == {5, 6}


def test_records_that_fill_their_bounds_are_counted_on_a_grid():
    # Everywhere, or in a dense part with a fifth of them anywhere else: that part is no box around nearly all of them.
    rng = np.random.default_rng(3)
    everywhere = rng.uniform(-1, 1, size=(6000, 2))
    for x in (everywhere, np.concatenate([crowd(2, n=4800), everywhere[:1200]])):
        rounds, glance, closer = looks_of(x, Box([-1.0] * 2, [1.0] * 2))
        assert glance.share == adaptive._GLANCE_SHARE
        assert not closer
        assert isinstance(rounds[2].query, GridQuery)
        assert looks(rounds) == [rounds[2]]  # the glance is not drawn from: the grid after it knows more


def test_a_transcript_of_the_plan_without_a_glance_is_continued_by_that_plan():
    x = crowd(2)
    rounds, _, _ = looks_of(x, Box([-1.0] * 2, [1.0] * 2))
    context = release(
        AdaptiveKMeans(n_clusters=3), x, domain=Box([-1.0] * 2, [1.0] * 2), epsilon=1, random_state=0, noise="simulated"
    ).context
    earlier = [rounds[0], replace(rounds[1], share=Fraction(40, 100))]
    stages, _ = AdaptiveKMeans(n_clusters=3)._stages(context, earlier)
    assert [stage.kind for stage in stages] == ["total", "first look", "counts", "sums", "sums"]
    assert sum(stage.share for stage in stages) == 1
    assert "glance" in [stage.kind for stage in plan_stages(context, 3, 6000.0)]


def test_wide_bounds_cost_little_with_a_glance_and_much_without(monkeypatch):
    # Sixteen times too wide, means of two fits. Of ten fits, the mean was 1.5 with a glance, and 4.0 without.
    rng = np.random.default_rng(1)
    middles = rng.uniform(-0.8, 0.8, size=(5, 3))
    x = np.clip(rng.normal(middles[rng.integers(5, size=10_000)], 0.08), -1, 1)
    best = KMeans(5, n_init=10, random_state=0).fit(x).inertia_

    def mean_multiple():
        models = [PrivateKMeans(5, 0.5, (-16, 16), random_state=s, noise="simulated").fit(x) for s in range(2)]
        losses = [((x[:, None] - m.cluster_centers_) ** 2).sum(axis=2).min(axis=1).sum() for m in models]
        return np.mean(losses) / best

    assert mean_multiple() < 2.2
    monkeypatch.setattr(adaptive, "_GLANCED", np.inf)
    assert mean_multiple() > 2.8


def test_a_glance_is_known_again_where_a_lost_round_made_shares_smaller():
    x = np.random.default_rng(1).uniform(-1, 1, size=(6000, 2))
    transcript = release(
        AdaptiveKMeans(n_clusters=3), x, domain=Box([-1.0] * 2, [1.0] * 2), epsilon=1, random_state=0, noise="simulated"
    )
    shrunk = [replace(r, share=r.share * Fraction(49, 50)) for r in transcript.rounds[:2]]
    stages, _ = AdaptiveKMeans(n_clusters=3)._stages(transcript.context, shrunk)
    assert [stage.kind for stage in stages] == ["total", "glance", "first look", "counts", "sums", "sums"]


def test_a_huge_epsilon_cuts_no_cell_into_less_than_nothing():
    _, _, (closer,) = looks_of(crowd(2), Box([-1.0] * 2, [1.0] * 2), epsilon=1e12)
    assert len(closer.query.centers) <= adaptive._MAX_CLOSER_CELLS
