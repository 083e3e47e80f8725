"""The paper's Algorithm 1: noise scales, means, and equality with Lloyd's iteration where noise vanishes."""

from fractions import Fraction

import numpy as np
import pytest
from naive import lloyd

from recoup import Box, KMeans, L1Ball, L2Ball, refit, release
from recoup.algorithms.kmeans.lloyd import in_order, paired, spread_centers
from recoup.errors import ParameterError
from recoup.privacy.price import Price
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context
from recoup.transcript.round import Round

DOMAINS = {"box": Box, "l1": L1Ball, "l2": L2Ball}


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("terms", [{}, {"delta": 1e-6}], ids=["laplace", "gaussian"])
def test_a_huge_epsilon_reproduces_lloyd(kind, terms):
    rng = np.random.default_rng(3)
    middles = rng.uniform(0.1, 0.9, size=(4, 3)) * [10, 1, 5] + [0, -1, 2]
    x = rng.normal(middles[rng.integers(4, size=1500)], [1.0, 0.1, 0.5])
    domain = DOMAINS[kind]([0, -1, 2], [10, 0, 7])
    epsilon = 10**6 if not terms else 10**13  # of rho, the square root counts
    transcript = release(KMeans(n_clusters=4, n_rounds=5), x, domain=domain, epsilon=epsilon, random_state=1, **terms)
    start = transcript.rounds[0].query.centers
    expected = domain.from_unit(lloyd(domain.to_unit(x).tolist(), start.tolist(), 5))
    np.testing.assert_allclose(refit(transcript, None), in_order(expected), atol=1e-4)
    assert np.abs(expected - domain.from_unit(start)).max() > 0.05


def test_noise_in_the_unit_l1_ball_has_the_papers_scale():
    transcript = release(
        KMeans(n_clusters=3, n_rounds=4), np.zeros((5, 2)), domain=L1Ball([-1, -1], [1, 1]), epsilon="0.5"
    )
    for answered in transcript.rounds:
        np.testing.assert_allclose(answered.scales, 2 * 4 / 0.5, rtol=1e-9)


def test_means_by_hand():
    context = Context(domain=Box([-1, -1], [1, 1]), epsilon=1)
    query = VoronoiQuery(centers=np.array([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]]))
    factor = 2**29 / 2  # a box of two columns: sums move by up to 2
    integers = (4 * 2**29, 2**28, 2**29, *(int(v * factor) for v in (2, -1, 8, 8, 3, 3)))
    answered = Round.of(
        context,
        query=query,
        integers=integers,
        weights=(2**29, 2**29),
        scale=1.0,
        price=Price(measure="pure", amount=Fraction(1)),
        share=Fraction(1),
    )
    # The second cell's noisy count is below 1: it keeps its centre. The third mean is outside and is moved back.
    means = KMeans(n_clusters=3).estimate(context, (answered,))
    np.testing.assert_allclose(means, [[0.5, -0.25], [0.2, 0.2], [1, 1]], atol=1e-9)


def test_only_absolute_sums_have_means():
    context = Context(domain=Box([-1], [1]), epsilon=1)
    price = Price(measure="pure", amount=Fraction(1))
    for query, n in [(GridQuery(sides=(2,)), 2), (VoronoiQuery(centers=np.zeros((2, 1)), sums="none"), 2)]:
        answered = Round.of(
            context, query=query, integers=(1,) * n, weights=(2**30,), scale=1.0, price=price, share=Fraction(1)
        )
        with pytest.raises(ParameterError, match="means"):
            KMeans(n_clusters=2).estimate(context, (answered,))
    with pytest.raises(ParameterError, match="first round"):
        KMeans(n_clusters=2).estimate(context, ())


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 20), (2, 15), (10, 10), (100, 3)])
def test_initial_centres_are_inside_and_apart(kind, d, k):
    domain = DOMAINS[kind]([0] * d, [1] * d)
    centers = spread_centers(domain, k, np.random.default_rng(0))
    assert centers.shape == (k, d)
    assert domain.contains(centers).all()
    if k > 1:
        gaps = np.linalg.norm(centers[:, None] - centers[None], axis=2)[np.triu_indices(k, 1)]
        uniform = domain.clip(np.random.default_rng(1).uniform(-1, 1, size=(k, d)))
        assert gaps.min() > np.linalg.norm(uniform[:, None] - uniform[None], axis=2)[np.triu_indices(k, 1)].min() * 0.5


def test_initial_centres_in_a_box_keep_their_radius_from_walls_and_each_other():
    centers = spread_centers(Box([0, 0], [1, 1]), 9, np.random.default_rng(0))
    gaps = np.linalg.norm(centers[:, None] - centers[None], axis=2)[np.triu_indices(9, 1)]
    radius = max(2.0**-i for i in range(20) if gaps.min() >= 2 * 2.0**-i)
    assert np.abs(centers).max() <= 1 - radius


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "3", None, 2**20])
def test_bad_numbers_of_clusters_are_refused(value):
    with pytest.raises(ParameterError, match="n_clusters"):
        KMeans(n_clusters=value)


def test_too_many_cells_for_the_columns_are_refused_at_once():
    context = Context(domain=Box([0] * 3, [1] * 3), epsilon=1)
    with pytest.raises(ParameterError, match="at most"):
        KMeans(n_clusters=2**19).next_request(context, (), np.random.default_rng(0))


def test_bad_numbers_of_rounds_are_refused():
    for value in (0, -1, 2.5, True):
        with pytest.raises(ParameterError, match="n_rounds"):
            KMeans(n_clusters=2, n_rounds=value)


def test_centres_are_ordered_by_columns_and_paired_by_distance():
    assert in_order(np.array([[2.0, 0.0], [1.0, 5.0], [1.0, 3.0]])).tolist() == [[1.0, 3.0], [1.0, 5.0], [2.0, 0.0]]
    rows, columns = paired(np.array([[0.1], [0.8]]), np.array([[1.0], [0.0]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
