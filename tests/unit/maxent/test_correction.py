"""What was measured wins: noise changes nothing, errors of the model are moved, and the default then converges."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from recoup import AdaptiveKMeans, Box, L1Ball, L2Ball, PrivateKMeans, release
from recoup.algorithms.kmeans.adaptive import plan_stages
from recoup.errors import DoubtfulResult
from recoup.kernels.weighted_kmeans import weighted_kmeans
from recoup.maxent import correction
from recoup.maxent.correction import corrected, expected_error, misfit_of, solved_and_settled
from recoup.maxent.sizes import WeightedPoints
from recoup.maxent.support import Measure
from recoup.privacy.mechanism import MECHANISMS
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context
from recoup.transcript.round import Round

LAWS = ("laplace", "gaussian")
DOMAINS = {"box": Box, "l1": L1Ball, "l2": L2Ball}


def terms(law="laplace", d=3, domain="box", epsilon="1", **rest):
    return Context(
        domain=DOMAINS[domain]([-1.0] * d, [1.0] * d),
        epsilon=Fraction(epsilon),
        delta=Fraction(0) if law == "laplace" else Fraction("0.000001"),
        mechanism=law,
        **rest,
    )


def noise_of(law, rng, scales):
    return scales * (rng.laplace(size=scales.shape) if law == "laplace" else rng.standard_normal(scales.shape))


def answered(context, query, points, weights, rng, count_scale=3.0, sum_scale=3.0):
    """A round about a measure, as if it were the records."""
    k = query.n_cells
    scales = np.r_[np.full(k, count_scale), np.full(query.size - k, sum_scale)]
    cells = query.cells(points)
    exact = [np.bincount(cells, weights, minlength=k)]
    if query.sums != "none":
        values = query.values(points, cells)
        exact.append(np.stack([np.bincount(cells, weights * v, minlength=k) for v in values.T], axis=1).ravel())
    noisy = np.concatenate(exact) + noise_of(context.mechanism, rng, scales)
    return Round.of_imported(context, query=query, noisy=noisy, scales=scales)


def cells_query(rng, k, d, law, sums):
    centers = rng.uniform(-0.3, 0.3, (k, d))
    if sums == "absolute":
        return VoronoiQuery(centers=centers)
    return VoronoiQuery(centers=centers, sums="relative", radii=np.full(k, 1.5), norm=MECHANISMS[law].norm)


def measure(rng, context, m=400, total=4000.0):
    points = context.domain.clip(rng.uniform(-1, 1, (m, context.domain.n_columns)))
    weights = rng.exponential(size=m)
    return points, weights * total / weights.sum()


def log_noise(x, law):
    """The log-density of noise of standard deviation 1."""
    return -np.sqrt(2) * abs(x) - 0.5 * np.log(2) if law == "laplace" else -(x**2) / 2 - 0.5 * np.log(2 * np.pi)


def integrated(offset, error, spread, law):
    """Log-density of an offset, and the mean of the model's error given it, by quadrature."""

    def log_joint(t):
        prior = -0.5 * (t / spread) ** 2 - np.log(spread * np.sqrt(2 * np.pi))
        return prior + log_noise((offset - t) / error, law) - np.log(error)

    grid = np.linspace(min(offset, 0.0), max(offset, 0.0), 20_001)
    logs = log_joint(grid)
    mode, top = grid[logs.argmax()], logs.max()
    around = min(error, spread) * np.array([-300, -40, -10, -3, -1, 1, 3, 10, 40, 300])
    edges = sorted({mode, offset, *(mode + around)})

    def integral(of):
        return sum(quad(of, a, b, epsabs=1e-15, epsrel=1e-9, limit=400)[0] for a, b in pairwise(edges))

    mass = integral(lambda t: np.exp(log_joint(t) - top))
    return top + np.log(mass), mode + integral(lambda t: (t - mode) * np.exp(log_joint(t) - top)) / mass


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("error", [0.03, 1.0])
def test_densities_and_posterior_means_are_those_of_numerical_integration(law, error):
    for ratio in (0.25, 1.0, 4.0, 64.0):
        spread = ratio * error
        for offset in error * np.array([-30.0, -2.5, -0.1, 0.0, 0.7, 5.0, 60.0]):
            log_mass, mean = integrated(offset, error, spread, law)
            x, e = np.array([[offset]]), np.array([[error]])
            log_density, posterior_mean = correction._given_spread(x, e, spread, law)
            assert posterior_mean.item() == pytest.approx(mean, rel=1e-6, abs=1e-6 * error)
            # Components are compared with each other, and with none: all must leave out the same constant.
            alone, no_error = correction._given_spread(x, e, 0.0, law)
            assert no_error.item() == 0.0
            none = alone.item() - (log_noise(offset / error, law) - np.log(error))
            assert log_density.item() - log_mass == pytest.approx(none, abs=1e-6)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [1e2, 1e3, 1e4, 1e5])
def test_what_no_noise_explains_is_taken_as_measured(law, size):
    rng = np.random.default_rng(0)
    offsets = size * rng.choice([-1.0, 1.0], (6, 3)) + rng.standard_normal((6, 3))
    found = expected_error(offsets, np.ones((6, 3)), law)
    # Laplace noise pulls by its scale times scale / spread^2, far less than a deviation.
    assert np.abs(found - offsets).max() < 1.5


@pytest.mark.parametrize("ratio", [2.0**10, 2.0**15])
def test_a_wide_law_of_errors_loses_no_digits(ratio):
    # Far inside a Gaussian that is so much wider, Laplace noise pulls by its variance x / spread^2.
    offsets = ratio * np.array([[-1.5, 0.5, 1.0, 2.0]])
    _, found = correction._given_spread(offsets, np.ones((1, 4)), ratio, "laplace")
    np.testing.assert_allclose((offsets - found) * ratio**2, offsets, rtol=0.05)


def test_posterior_means_stay_between_nothing_and_the_offset():
    rng = np.random.default_rng(1)
    for law in LAWS:
        for size in 10.0 ** rng.uniform(-2, 6, 40):
            offsets = size * rng.standard_normal((5, 4))
            found = expected_error(offsets, 10.0 ** rng.uniform(-1, 1, (5, 4)), law)
            assert (np.abs(found) <= np.abs(offsets) * (1 + 1e-9) + 1e-12).all()
            assert (found * offsets >= 0).all()


def is_moved(found, points, weights):
    return np.abs(found.points - points).max() > 1e-9 or np.abs(found.weights / weights - 1).max() > 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sums", ["absolute", "relative"])
def test_noise_alone_leaves_the_measure_as_it_is_and_an_error_moves_it(law, sums):
    # At most 5% of rounds of noise alone may move anything. False-alarm rate: 0% to 2% do (400 rounds a law in 2, 5 and
    # 14 columns); with 2%, more than 15 of 300 would with a probability below 1e-3.
    rng = np.random.default_rng(2)
    context = terms(law, d=5)
    n_moved = n_found = 0
    for trial in range(300):
        points, weights = measure(rng, context)
        query = cells_query(rng, int(rng.integers(1, 9)), 5, law, sums)
        told = answered(context, query, points, weights, rng)
        n_moved += is_moved(corrected(context, [told], points, weights), points, weights)
        if trial % 10 == 0:
            wrong = context.domain.clip(points + np.array([0.3, 0, 0, 0, 0]))
            n_found += is_moved(corrected(context, [told], wrong, weights), wrong, weights)
    assert n_moved <= 15
    assert n_found == 30


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("sums", ["absolute", "relative"])
def test_a_planted_error_is_moved_to_what_was_measured(law, sums):
    # False-alarm rate: 30 means in each of 5 trials beyond 6 deviations: below 150 e^(-6 sqrt 2) = 3%, and the seed is
    # fixed. Noise is left where it is, so that the truth is as near as the measurement.
    rng = np.random.default_rng(3)
    context = terms(law, d=5)
    for _ in range(5):
        points, weights = measure(rng, context)
        query = cells_query(rng, 6, 5, law, sums)
        told = answered(context, query, points, weights, rng)
        wrong = context.domain.clip(points * np.array([0.75, 1, 1, 1, 1]) + np.array([0.1, 0, -0.2, 0, 0]))
        before = misfit_of(told, wrong, weights)
        moved = corrected(context, [told], wrong, weights)
        after = misfit_of(told, moved.points, moved.weights)
        assert (np.abs(before.offsets / before.offset_errors)[:, 2] > 15).sum() >= 3
        assert np.abs(after.offsets / after.offset_errors).max() < 6
        assert np.sqrt(np.mean((after.offsets / after.offset_errors) ** 2)) < 1.6


def test_sizes_follow_counts():
    rng = np.random.default_rng(4)
    context = terms(d=2)
    points, weights = measure(rng, context)
    query = VoronoiQuery(centers=np.array([[-0.5, 0.0], [0.5, 0.0]]))
    told = answered(context, query, points, weights, rng, sum_scale=1e3)
    left = query.cells(points) == 0
    wrong = weights * np.where(left, 1.3, 1.0)
    wrong *= weights.sum() / wrong.sum()
    moved = corrected(context, [told], points, wrong)
    assert abs(moved.weights[left].sum() - weights[left].sum()) < 20 < abs(wrong[left].sum() - weights[left].sum())


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("law", LAWS)
def test_points_stay_in_the_domain_and_weights_keep_their_total(domain, law):
    rng = np.random.default_rng(5)
    context = terms(law, d=4, domain=domain)
    for _ in range(10):
        points, weights = measure(rng, context)
        others, other_weights = measure(rng, context, total=float(weights.sum()) * rng.uniform(0.5, 2))
        told = [
            answered(context, cells_query(rng, 5, 4, law, sums), others**3, other_weights, rng)
            for sums in ("absolute", "relative")
        ]
        # Means that nothing in the domain can have, and cells that are measured as less than empty.
        impossible = replace(told[0], imported=told[0].noisy * np.r_[-np.ones(3), np.ones(2), np.full(20, 5.0)])
        moved = corrected(context, [*told, impossible], points, weights)
        assert np.isfinite(moved.points).all()
        assert (moved.weights >= 0).all()
        np.testing.assert_allclose(context.domain.clip(moved.points), moved.points, atol=1e-9)
        assert moved.weights.sum() == pytest.approx(weights.sum(), rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_a_spike_at_a_bound_is_reached(law):
    # False-alarm rate: the seed is fixed; one of 8 cells would be beyond 3 deviations in 5% of seeds.
    rng = np.random.default_rng(6)
    context = terms(law, d=3)
    points, weights = measure(rng, context, m=3000, total=50_000.0)
    points[:, 0] = -1.0
    centers = np.array([[-0.95, a, b] for a in (-0.5, 0.5) for b in (-0.5, 0.5)])
    query = VoronoiQuery(centers=centers, sums="relative", radii=np.full(4, 1.5), norm=MECHANISMS[law].norm)
    told = answered(context, query, points, weights, rng, sum_scale=5.0)
    inferred = points.copy()
    inferred[:, 0] = -1.0 + rng.uniform(0, 2 / 32, len(points))
    assert (misfit_of(told, inferred, weights).offsets[:, 0] < 0).all()
    moved = corrected(context, [told], inferred, weights)
    cells = query.cells(moved.points)
    for cell in range(4):
        inside = cells == cell
        distance = np.average(moved.points[inside, 0] + 1.0, weights=moved.weights[inside])
        deviation = misfit_of(told, moved.points, moved.weights).offset_errors[cell, 0]
        before = np.average(inferred[query.cells(inferred) == cell, 0] + 1.0)
        assert 0.0 <= distance < 3 * deviation < before


def test_which_rounds_are_solved_and_which_correct():
    rng = np.random.default_rng(7)
    context = terms(d=2)
    points, weights = measure(rng, context)
    counts = answered(context, VoronoiQuery(centers=np.zeros((1, 2)), sums="none"), points, weights, rng)
    grid = Round.of_imported(context, query=GridQuery(sides=(2, 2)), noisy=np.ones(4), scales=1.0)
    first, second, third = (
        answered(context, cells_query(rng, 3, 2, "laplace", "relative"), points, weights, rng) for _ in range(3)
    )
    assert solved_and_settled([], 0) == ([], [])
    assert solved_and_settled([counts, grid], 0) == ([counts, grid], [])
    assert solved_and_settled([counts, first, second, grid], 0) == ([counts, first, second, grid], [second])
    solved, settled = solved_and_settled([counts, grid, first, second, third], 2)
    assert solved == [counts, grid, first]
    assert settled == [first, second, third]
    assert solved_and_settled([grid, second, third], 2) == ([grid], [second, third])


def test_without_rounds_nothing_is_corrected():
    context = terms(d=2)
    points, weights = measure(np.random.default_rng(8), context)
    found = corrected(context, [], points, weights)
    assert found.points is points
    assert found.weights is weights


def test_an_empty_cell_and_a_measure_of_one_point():
    rng = np.random.default_rng(9)
    context = terms(d=2)
    query = VoronoiQuery(centers=np.array([[-0.5, 0.0], [0.5, 0.0]]))
    told = answered(context, query, np.array([[0.4, 0.4], [-0.6, 0.1]]), np.array([500.0, 500.0]), rng)
    found = corrected(context, [told], np.array([[0.9, 0.9]]), np.array([1000.0]))
    assert np.isfinite(found.points).all()
    assert found.weights == pytest.approx(1000.0)


@pytest.mark.parametrize("law", LAWS)
def test_shares_of_every_plan_add_up_to_one(law):
    for d in range(1, 41):
        context = terms(law, d=d)
        for n_records in (None, 1000):
            asked = replace(context, n_records=n_records)
            for k in (1, 2, 3, 5, 8, 16, 33, 64):
                for n in 10.0 ** np.arange(1, 9):
                    stages = plan_stages(asked, k, float(n))
                    assert sum(stage.share for stage in stages) == 1
                    assert all(stage.share > 0 for stage in stages)
                    assert stages[-1].n_cells == k
                    kinds = [stage.kind for stage in stages]
                    assert (kinds[0] == "total") == (n_records is None)
                    settling = [stage.settles for stage in stages]
                    assert settling == sorted(settling)
                    assert kinds.count("rival") <= 1
                    assert "rival" not in kinds or kinds[kinds.index("rival") - 1] == "sums"


def strong_release(n_clusters=2):
    x = np.random.default_rng(10).uniform(size=(2000, 4))
    return release(
        AdaptiveKMeans(n_clusters=n_clusters),
        x,
        domain=Box([0.0] * 4, [1.0] * 4),
        epsilon=100,
        noise="simulated",
        random_state=0,
    )


def test_settling_is_told_from_the_shares_of_a_plan():
    transcript = strong_release()
    algorithm, context, rounds = AdaptiveKMeans(n_clusters=2), transcript.context, transcript.rounds
    assert sum(r.share for r in rounds) == 1
    assert algorithm.settling(context, rounds) == 3
    on_the_way = [algorithm.settling(context, rounds[:end]) for end in range(len(rounds) + 1)]
    assert on_the_way == [0] * (len(rounds) - 2) + [1, 2, 3]
    other = [*rounds[:-1], replace(rounds[-1], share=rounds[-1].share / 2)]
    assert algorithm.settling(context, other) == 0
    assert algorithm.settling(context, [replace(r, share=Fraction(1, len(rounds))) for r in rounds]) == 0
    assert algorithm.settling(context, [replace(r, share=Fraction(0)) for r in rounds]) == 0
    assert algorithm.settling(context, [*rounds, rounds[-1]]) == 0


def test_rival_clusters_are_asked_for_and_the_better_ones_by_measurement_settle():
    # Split by the first column two clusters explain .25 of the variance, by the second .3025.
    points = np.array([[-0.5, -0.55, 0, 0], [-0.5, 0.55, 0, 0], [0.5, -0.55, 0, 0], [0.5, 0.55, 0, 0]])
    measure = Measure(points=points, weights=np.full(4, 250_000.0), solution=None)
    context, rng = terms(d=4, epsilon="100"), np.random.default_rng(0)
    stages = plan_stages(context, 2, 1e6)
    n_before = [stage.kind for stage in stages].index("rival")

    def told(column):
        query = VoronoiQuery(
            centers=points[[0, 3]] * (np.arange(4) == column), sums="relative", radii=np.full(2, 4.0), norm=1
        )
        return answered(context, query, points, measure.weights, rng)

    def next_centers(rounds):
        return np.sort(AdaptiveKMeans(n_clusters=2)._next_centers(rounds, stages, measure, rng), axis=0)

    for first, second in ((0, 1), (1, 0)):
        before = [told(first)] * n_before
        rival = next_centers(before)
        assert rival[:, second] == pytest.approx([points[0, second], points[3, second]])
        assert rival[:, first] == pytest.approx(0)
        settled = next_centers([*before, told(second)])
        assert settled[:, 1] == pytest.approx([-0.55, 0.55])


def difficult_table(seed, n=40_000):
    """Four clusters in six columns: normal, nearly always zero, spikes, a long tail, integers, and zero or full."""
    rng = np.random.default_rng(seed)
    label = rng.integers(4, size=n)
    near = np.array([[20, 70], [80, 30], [30, 20], [70, 80]])[label]
    spikes = np.array([10.0, 40.0, 50.0, 90.0])
    x = np.column_stack(
        [
            near[:, 0] + rng.normal(0, 6, n),
            np.where(rng.random(n) < 0.04, rng.uniform(20, 100, n), 0.0),
            spikes[(label + (rng.random(n) < 0.2)) % 4],
            rng.lognormal(0.5 + 0.3 * label, 1.0, n),
            np.rint(near[:, 1] / 10 + rng.normal(0, 1, n)) * 10,
            np.where(rng.random(n) < 0.03 + 0.1 * (label == 1), 100.0, 0.0),
        ]
    )
    return np.clip(x, 0.0, 100.0)


def loss_against_lloyd(seed):
    """How much more the released centres cost on the records than what Lloyd's iteration reaches from them."""
    x = difficult_table(seed)
    model = PrivateKMeans(4, 100, ([0.0] * 6, [100.0] * 6), noise="simulated", random_state=seed).fit(x)
    centers = model.cluster_centers_
    cost = ((x[:, None, :] - centers[None]) ** 2).sum(axis=2).min(axis=1).sum()
    settled = weighted_kmeans(
        x, np.ones(len(x)), 4, n_restarts=0, rng=np.random.default_rng(0), starts=centers[None], max_iterations=300
    )
    return cost / settled.inertia - 1.0


@pytest.mark.slow
def test_the_default_converges_to_lloyd_on_the_records():
    assert max(loss_against_lloyd(seed) for seed in range(5)) <= 1e-3


@pytest.mark.slow
def test_without_the_correction_it_does_not(monkeypatch):
    def as_it_is(context, rounds, points, weights, **_):
        return WeightedPoints(points, weights)

    monkeypatch.setattr("recoup.maxent.measure.corrected", as_it_is)
    assert loss_against_lloyd(0) > 1e-3


@pytest.mark.parametrize("n", [5_000, 50_000])
def test_a_spike_that_borders_cut_is_not_driven_out_of_its_cell(n):
    # All records are one: the last cells meet within a grid cell, and a shift carries all of one across a border.
    for seed in range(3):
        model = PrivateKMeans(3, epsilon=1.0, bounds=(0, 100), noise="simulated", random_state=seed)
        with pytest.warns(DoubtfulResult):
            model.fit(np.tile([30.0, 70.0], (n, 1)))
        assert np.abs(model.cluster_centers_ - [30.0, 70.0]).max(axis=1).min() < 1.0
