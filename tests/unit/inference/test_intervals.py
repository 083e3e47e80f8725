"""Intervals of the estimate: the simulated transcripts, the order statistic, and what the result promises."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import kstest

import recoup
from recoup.algorithms.components import CovariancePCA
from recoup.errors import ParameterError
from recoup.inference.intervals import (
    _model_errors,
    _shared_widths,
    draws_for,
    error_at,
    intervals,
    withheld_from,
)
from recoup.inference.simulate import Simulations, clumped, simulated_rounds
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent.sizes import WeightedPoints
from recoup.queries.cells import VoronoiQuery

PLACES = np.array([[20.0, -1.0], [80.0, 1.0], [50.0, 3.0]])


def table(seed=0, n=2000):
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(PLACES[rng.integers(0, 3, n)], [6.0, 0.3]), [0, -4], [100, 4])


def fitted(epsilon=1.0, seed=0, x=None, **options):
    return recoup.PrivateKMeans(3, epsilon, ([0, -4], [100, 4]), noise="simulated", random_state=seed, **options).fit(
        table() if x is None else x
    )


def intervals_of(model, **options):
    options = {"n_draws": 19, "random_state": 0} | options
    return intervals(model.transcript_, model.inferred_, model.cluster_centers_, **options)


@pytest.fixture(scope="module")
def model():
    return fitted()


def zeros(transcript):
    return [np.zeros(answered.query.size) for answered in transcript.rounds]


@pytest.mark.statistical
@pytest.mark.parametrize(("delta", "law"), [(0.0, "laplace"), (1e-6, "norm")])
def test_simulated_answers_carry_the_released_noise(delta, law):
    """False-alarm rate 1e-4 each; noise of another scale by a fifth must be rejected."""
    transcript = recoup.release(
        recoup.AdaptiveKMeans(n_clusters=3),
        table(),
        domain=recoup.Box([0, -4], [100, 4]),
        epsilon=1,
        delta=delta,
        mechanism="laplace" if delta == 0 else "gaussian",
        noise="simulated",
        random_state=0,
    )

    def noise_of(of):
        rng = np.random.default_rng(0)
        drawn = [simulated_rounds(of, zeros(of), rng) for _ in range(20)]
        return np.concatenate([r.noisy / q.scales for d in drawn for r, q in zip(d, transcript.rounds, strict=True)])

    assert kstest(noise_of(transcript), law).pvalue > 1e-4
    planted = replace(transcript, rounds=tuple(replace(r, scale=1.2 * r.scale) for r in transcript.rounds))
    assert kstest(noise_of(planted), law).pvalue < 1e-4


def test_simulated_answers_are_the_exact_ones_where_there_is_no_noise(model):
    quiet = replace(model.transcript_, rounds=tuple(replace(r, scale=0.0) for r in model.transcript_.rounds))
    exact = [np.linspace(-5, 5, r.query.size) for r in quiet.rounds]
    for answered, answer in zip(simulated_rounds(quiet, exact, np.random.default_rng(0)), exact, strict=True):
        np.testing.assert_allclose(answered.noisy, answer, atol=1e-6)


def test_the_error_is_an_order_statistic():
    errors = np.array([[3.0], [-1.0], [2.0], [-5.0]])
    assert error_at(errors, 0.8) == 5.0
    assert error_at(errors, 0.6) == 3.0
    assert error_at(errors, 0.5) == 3.0
    assert error_at(errors, 0.2) == 1.0


def test_draws_must_reach_the_level():
    assert draws_for(0.9, 9) == 9
    with pytest.raises(ParameterError, match="needs at least 9 draws"):
        draws_for(0.9, 8)
    for level in (0, 1, -0.5, np.nan, "0.9", None):
        with pytest.raises(ParameterError, match="level"):
            draws_for(level, None)
    with pytest.raises(ParameterError, match="n_draws"):
        draws_for(0.5, 0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delta": 1e-6},
        {"domain": "l1"},
        {"algorithm": "lloyd"},
        {"algorithm": "lloyd", "postprocess": "mcmc"},
        {"algorithm": "lloyd", "postprocess": "consistency"},
    ],
    ids=str,
)
def test_intervals_hold_the_estimate_inside_the_bounds(options):
    model = fitted(**options)
    found = intervals_of(model, n_draws=9)
    centers = model.cluster_centers_
    assert found.center_low.shape == found.center_high.shape == centers.shape
    assert found.size_low.shape == found.size_high.shape == (3,)
    assert (found.center_low <= centers).all()
    assert (centers <= found.center_high).all()
    assert (found.center_low >= [0, -4]).all()
    assert (found.center_high <= [100, 4]).all()
    assert (found.center_low < found.center_high).all()
    assert (found.size_low >= 0).all()
    assert (found.size_low < found.size_high).all()
    assert (found.level, found.n_draws) == (0.9, 9)


def test_the_result_depends_on_the_seed_and_not_on_threads(model, monkeypatch):
    monkeypatch.setenv("RECOUP_NUM_THREADS", "1")
    one = intervals_of(model)
    monkeypatch.setenv("RECOUP_NUM_THREADS", "3")
    three, other = intervals_of(model), intervals_of(model, random_state=1)
    np.testing.assert_array_equal(one.center_low, three.center_low)
    np.testing.assert_array_equal(one.size_high, three.size_high)
    assert not np.array_equal(one.center_low, other.center_low)


def test_a_higher_level_is_wider(model):
    half, most = intervals_of(model, level=0.5), intervals_of(model, level=0.9)
    assert (most.center_low <= half.center_low).all()
    assert (most.size_high >= half.size_high).all()


def test_more_budget_is_narrower(model):
    wide, narrow = intervals_of(fitted(0.1)), intervals_of(fitted(10.0))
    assert np.median(narrow.center_high - narrow.center_low) < 0.3 * np.median(wide.center_high - wide.center_low)
    assert np.median(narrow.size_high - narrow.size_low) < 0.3 * np.median(wide.size_high - wide.size_low)


def test_another_number_of_clusters(model):
    centers = recoup.refit(model.transcript_, model.inferred_, n_clusters=2, random_state=0)
    found = intervals(model.transcript_, model.inferred_, centers, n_draws=9, random_state=0)
    assert found.center_low.shape == (2, 2)


@pytest.mark.parametrize("algorithm", ["adaptive", "lloyd"])
@pytest.mark.parametrize("n", [0, 1, 30])
def test_a_hopeless_release_tells_sizes_and_withholds_centres(n, algorithm):
    found = intervals_of(fitted(0.01, x=table()[:n], algorithm=algorithm), n_draws=9)
    assert np.isfinite([found.size_low, found.size_high]).all()
    assert np.isnan([found.center_low, found.center_high]).all()
    assert [(one.cluster, one.column) for one in found.withheld] == [(k, j) for k in range(3) for j in range(2)]
    assert {one.reason for one in found.withheld} == {"the released counts cannot be told from those of an empty table"}


def test_what_is_measured_outside_of_an_interval_withholds_it(model):
    """Planted: the inferred data of one cluster are moved in one column, by 8 of 100."""
    assert intervals_of(model).withheld == ()
    points, centers = model.inferred_.points.copy(), model.cluster_centers_.copy()
    own = model.predict(points) == 1
    points[own, 0] += 8.0
    centers[1, 0] += 8.0
    moved = replace(model.inferred_, points=points)

    def places(half_width):
        half_widths = np.full((3, 2), half_width)
        found = withheld_from(model.transcript_, moved, centers, half_widths, np.full(3, 2000.0))
        return {(one.cluster, one.column): one.reason for one in found}

    assert places(0.1) == {(1, 0): "the last round measured another value, outside of the interval"}
    assert places(0.2) == {}
    found = intervals(model.transcript_, moved, centers, random_state=0)
    assert np.isnan(found.center_low[1, 0]) or found.center_low[1, 0] < centers[1, 0] - 8.0


def test_a_model_that_misses_the_last_round_has_wider_intervals(model):
    """Planted: the last round measured means that are off by ten deviations of its noise."""
    *before, last = model.transcript_.rounds
    assert isinstance(last.query, VoronoiQuery)
    k, d = last.query.centers.shape
    domain = model.transcript_.context.domain
    start, sizes = domain.to_unit(model.cluster_centers_), np.full(k, 2000 / k)
    same, _ = _model_errors([*before, last], start, sizes)
    shift = np.concatenate([np.zeros(k), 10 * last.noise.deviation(1.0) * last.scales[k:]])
    off = last.simulated(last.noisy + shift, np.random.default_rng(0))
    wider, _ = _model_errors([*before, off], start, sizes)
    errors = last.noise.deviation(1.0) * last.scales[k:].reshape(k, d) / sizes[:, None]
    assert (wider > 5 * errors.min(axis=0)).all()
    assert (same < wider).all()


@pytest.mark.parametrize("centers", [np.zeros((3, 3)), np.zeros(2), np.zeros((0, 2)), np.full((3, 2), np.nan)])
def test_centers_must_fit_the_transcript(model, centers):
    with pytest.raises(ParameterError, match="centers"):
        intervals(model.transcript_, model.inferred_, centers)


def two_clusters_in_one_cell(seed, domain):
    """Three clusters, two of which every round of DP-KMEANS counts as one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(np.array([[-0.7, 0.0], [0.5, 0.5], [0.5, -0.5]])[rng.integers(0, 3, 3000)], 0.06)
    transcript = recoup.release(
        recoup.KMeans(n_clusters=2), x, domain=domain, epsilon=5, noise="simulated", random_state=seed
    )
    return transcript, recoup.infer(transcript, random_state=seed)


@pytest.mark.parametrize("kind", [recoup.Box, recoup.L1Ball, recoup.L2Ball])
def test_other_data_explains_the_same_rounds(kind):
    transcript, inferred = two_clusters_in_one_cell(0, kind([-1, -1], [1, 1]))
    domain, rng = transcript.context.domain, np.random.default_rng(0)
    other = clumped(transcript, WeightedPoints(domain.to_unit(inferred.points), inferred.weights), 6, rng)

    def misfit(weights):
        answers = [r.query.contribution(other.points).T @ weights for r in transcript.rounds]
        return np.mean(
            [np.abs((a - r.noisy) / r.scales).mean() for a, r in zip(answers, transcript.rounds, strict=True)]
        )

    np.testing.assert_allclose(domain.clip(other.points), other.points, atol=1e-12)
    np.testing.assert_allclose(other.weights.sum(), inferred.weights.sum())
    assert misfit(other.weights) < 3  # of exact answers: 1 on average
    assert misfit(rng.permutation(other.weights)) > 10


@pytest.mark.parametrize("seed", range(3))
def test_two_clusters_that_no_round_told_apart_get_wide_intervals(seed):
    transcript, inferred = two_clusters_in_one_cell(seed, recoup.Box([-1, -1], [1, 1]))
    centers = recoup.refit(transcript, inferred, n_clusters=3, random_state=seed)
    cells = transcript.rounds[-1].query.cells(centers)
    shared = cells == np.bincount(cells).argmax()
    assert shared.sum() == 2
    found = intervals(transcript, inferred, centers, n_draws=19, random_state=seed)
    assert (found.center_high - found.center_low)[shared].max() > 0.4

    def near(data, rng):
        return weighted_kmeans(data.points, data.weights, 3, n_restarts=0, rng=rng, starts=centers[None]).centers

    # Planted: the inferred data in the place of the records repeats its own guess of what is inside the cell.
    data, rng = WeightedPoints(inferred.points, inferred.weights), np.random.default_rng(seed)
    draws = Simulations(transcript, data, "maxent", 0, rng).first(19)
    errors = np.stack([near(draw.again, rng) for draw in draws]) - near(data, rng)
    assert np.median(error_at(errors, 0.9)[shared]) < np.median((found.center_high - found.center_low)[shared]) / 4


def test_no_cluster_has_more_records_than_there_are(recwarn):
    model = fitted(x=np.tile([[30.0, 1.0]], (5000, 1)))
    assert np.nanmax(intervals_of(model).size_high) < 5_200


@pytest.mark.statistical
def test_intervals_cover_and_much_narrower_ones_do_not():
    """72 centre coordinates and sizes, of which 90 % should be held: fewer than 70 % is an alarm of rate below 1e-3."""
    held, held_by_a_quarter = [], []
    for seed in range(8):
        x = table(seed)
        model = fitted(seed=seed, x=x)
        found = intervals_of(model, random_state=seed)
        truth = weighted_kmeans(x / [50, 4], np.ones(len(x)), 3, n_restarts=5, rng=np.random.default_rng(0)).centers
        truth = truth * [50, 4]
        match = linear_sum_assignment((((model.cluster_centers_[:, None] - truth) / [50, 4]) ** 2).sum(axis=2))[1]
        size = np.bincount((((x[:, None] - truth[match]) / [50, 4]) ** 2).sum(axis=2).argmin(axis=1), minlength=3)
        low = np.concatenate([found.center_low.ravel(), found.size_low])
        high = np.concatenate([found.center_high.ravel(), found.size_high])
        errors = np.abs(np.concatenate([truth[match].ravel(), size]) - (low + high) / 2)
        held.append(errors <= (high - low) / 2)
        held_by_a_quarter.append(errors <= (high - low) / 8)
    assert np.mean(held) >= 0.7
    assert np.mean(held_by_a_quarter) < 0.7


def test_answers_that_are_not_clusters_are_refused():
    domain = recoup.Box([0, -4], [100, 4])
    terms = {"domain": domain, "epsilon": 5, "noise": "simulated", "random_state": 0}
    transcript = recoup.release(CovariancePCA(n_components=2), table(), **terms)
    inferred = recoup.infer(transcript, random_state=0, n_points=600)
    # A mean and two components: as many columns as centres would have.
    answer = recoup.refit(transcript, inferred)
    with pytest.raises(ParameterError, match="of clusters, and this is a transcript of pca-covariance"):
        intervals(transcript, inferred, answer, n_draws=19)
    marginals = recoup.transcript_from(
        domain=domain, epsilon=1, rounds=[({"type": "grid", "sides": [2, 1]}, [9.0, 8.0], 1.0)]
    )
    with pytest.raises(ParameterError, match="of clusters"):
        intervals(marginals, recoup.infer(marginals, random_state=0), PLACES, n_draws=19)


def test_a_list_of_transcripts_is_refused(model):
    for given in ([model.transcript_], None, "t.json"):
        with pytest.raises(ParameterError, match=r"give one recoup\.Transcript"):
            intervals(given, model.inferred_, model.cluster_centers_)


def drawn_errors(rng, n, deviations, freedom=None):
    """Errors of normal laws, or of ones whose deviations are themselves drawn, (n, K, C)."""
    wild = 1.0 if freedom is None else np.sqrt(freedom / rng.chisquare(freedom, size=deviations.shape))
    return rng.normal(size=(n, *deviations.shape)) * (deviations * wild), deviations * wild


@pytest.mark.statistical
def test_few_draws_tell_the_widths_that_errors_have_in_common():
    """Coverage of fresh errors within 0.01 of 0.9: a false alarm in 1e6; a naive width must not reach it."""
    rng = np.random.default_rng(0)
    deviations = np.outer(rng.uniform(0.5, 2.0, 8), rng.uniform(0.1, 3.0, 16))
    held, naive, relative = [], [], []
    for _ in range(100):
        errors, truth = drawn_errors(rng, 12, deviations)
        if (widths := _shared_widths(errors, 0.9)) is None:
            continue
        fresh = np.abs(rng.normal(size=(9, *truth.shape)) * truth)
        held.append(np.mean(fresh <= widths))
        naive.append(np.mean(fresh <= 1.645 * np.sqrt(np.mean(errors**2, axis=0))))
        relative.append(np.std(widths / (1.645 * truth)))
    assert len(held) == 100
    assert np.mean(held) == pytest.approx(0.9, abs=0.01)
    assert np.mean(naive) < 0.885
    assert np.mean(relative) < 0.12


def test_widths_that_differ_more_than_few_draws_explain_need_more_of_them():
    rng = np.random.default_rng(0)
    alike = np.ones((8, 16))
    assert _shared_widths(drawn_errors(rng, 12, alike)[0], 0.9) is not None
    assert _shared_widths(drawn_errors(rng, 12, alike, freedom=3)[0], 0.9) is None
    assert _shared_widths(drawn_errors(rng, 12, np.ones((2, 2)))[0], 0.9) is None
    assert _shared_widths(np.zeros((12, 8, 16)), 0.9) is None


def test_draws_that_are_there_are_not_drawn_again(model):
    rng = np.random.default_rng(0)
    simulations = Simulations.of(model.transcript_, model.inferred_, 3, rng)
    first = simulations.first(3)
    assert simulations.first(2) == first[:2]
    more = simulations.first(5)
    assert [a is b for a, b in zip(more, first, strict=False)] == [True] * 3
    shared, alone = intervals_of(model, n_draws=9, simulations=simulations), intervals_of(model, n_draws=9)
    assert len(simulations.drawn) == 9
    np.testing.assert_allclose(shared.center_low, alone.center_low)


def test_progress_of_fewer_draws_ends_where_all_would(model, monkeypatch):
    monkeypatch.setattr("recoup.inference.intervals._DRAWS", 39)
    monkeypatch.setattr("recoup.inference.intervals._shared_widths", lambda errors, level: np.ones(errors.shape[1:]))
    heard = []
    found = intervals_of(model, n_draws=None, on_progress=lambda done, total: heard.append((done, total)))
    assert found.n_draws == 12
    assert heard[-1] == (39, 39)
    assert heard.count((39, 39)) == 1
