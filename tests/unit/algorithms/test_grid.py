"""EUGkM: the size of its grid by both rules, its limits, and k-means on cells whatever the counts."""

from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains

from recoup import Box, GridKMeans, L1Ball, L2Ball, Ledger, PrivateKMeans, Transcript, infer, refit, release
from recoup.algorithms.kmeans.grid import TOTAL_SHARE, centers_of_grid, choose_grid, most_bins
from recoup.demo import gaussian_blobs
from recoup.errors import ParameterError
from recoup.maxent.support import reachable_cells
from recoup.privacy.price import Price
from recoup.queries.base import MAX_SIZE
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context
from recoup.transcript.round import Round

WHOLE = Fraction(1)


def terms(d, epsilon="1", kind=Box, **rest):
    return Context(domain=kind([0] * d, [1] * d), epsilon=Fraction(epsilon), **rest)


def answered(terms, sides, counts):
    """A round over a grid with given answers."""
    return Round.of(
        terms,
        query=GridQuery(sides=sides),
        integers=tuple(int(v * 2**30) for v in counts),
        weights=(2**30,),
        scale=2.0**30,
        price=Price(measure="pure", amount=WHOLE),
        share=WHOLE,
    )


# ---- the grid ----


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "bins"),
    # Worked out by hand from m = (N epsilon / 10)^(2 / (2 + d)): 500^(1/2), 25^(1/2), 3392.5^(2/5), 2673.3^(1/6).
    [(5000, 2, "1", 22), (5000, 2, "0.05", 5), (33_925, 3, "1", 26), (26_733, 10, "1", 4), (1000, 1, "1", 22)],
)
def test_the_published_number_of_bins(n, d, epsilon, bins):
    assert choose_grid(terms(d, epsilon), 2, n, WHOLE, "eugkm").query.sides == (bins,) * d


def test_the_share_of_the_budget_and_the_records_of_a_person_count():
    grid = choose_grid(terms(2), 2, 5000, Fraction(1, 4), "eugkm")
    assert grid.query.sides == choose_grid(terms(2, "0.25"), 2, 5000, WHOLE, "eugkm").query.sides == (11, 11)
    assert choose_grid(terms(2, records_per_person=4), 2, 5000, WHOLE, "eugkm").query.sides == (11, 11)


@pytest.mark.parametrize("n", [30, 5000, 107_021])
@pytest.mark.parametrize(("d", "k"), [(1, 3), (2, 5), (2, 15), (3, 3), (6, 5)])
@pytest.mark.parametrize("epsilon", ["0.05", "1"])
def test_the_later_rule_minimises_its_bound(n, d, k, epsilon):
    e = float(Fraction(epsilon))

    def bound(m):
        third = np.sqrt(2) * m ** (d / 2) / (e * k ** (2 / d))
        return n / (3 * m**2) + 2 * np.sqrt(n / 3) / (m * k ** (1 / d)) + third

    asked = choose_grid(terms(d, epsilon), k, n, WHOLE, "rugnik").asked
    assert bound(asked) <= min(bound(m) for m in range(1, 3000)) * (1 + 1e-12)


def test_a_grid_keeps_to_the_cap_and_says_so():
    for d in (1, 2, 3, 7, 13, 20):
        grid = choose_grid(terms(d), 2, 10**15, WHOLE, "eugkm")
        assert grid.query.size <= MAX_SIZE < (grid.query.sides[0] + 1) ** d
        assert "lowered" in grid.reason
        assert str(MAX_SIZE) in grid.reason
    assert choose_grid(terms(2), 2, 5000, WHOLE, "eugkm").reason == ""
    assert most_bins(21) == 1


@pytest.mark.parametrize("rule", ["eugkm", "rugnik"])
@pytest.mark.parametrize("domain_name", domains(2))
@pytest.mark.parametrize("k", [1, 4, 9, 60])
def test_there_are_never_fewer_usable_cells_than_clusters(rule, domain_name, k):
    for n in (1.0, 100.0):
        grid = choose_grid(context(domains(2)[domain_name], epsilon="0.01"), k, n, WHOLE, rule)
        assert np.count_nonzero(reachable_cells(grid.query, domains(2)[domain_name])) >= k
        assert grid.query.size <= MAX_SIZE
        if grid.query.sides[0] > grid.asked:
            assert "raised" in grid.reason


def test_what_no_grid_can_do_is_refused_before_anything_is_spent():
    ledger = Ledger.in_memory(epsilon=1)
    with pytest.raises(ParameterError, match="adaptive"):
        release(GridKMeans(n_clusters=3), np.zeros((5, 21)), domain=Box([0] * 21, [1] * 21), epsilon=1, ledger=ledger)
    narrow = L1Ball([0] * 20, [1] * 20, radius=0.01)
    with pytest.raises(ParameterError, match="adaptive"):
        GridKMeans(n_clusters=2**19).next_request(
            Context(domain=L1Ball([0] * 12, [1] * 12, radius=0.01), epsilon=1), (), np.random.default_rng(0)
        )
    assert ledger.spent == 0
    # Twenty columns are the most: two bins each.
    request = GridKMeans(n_clusters=3).next_request(
        Context(domain=narrow, epsilon=1, n_records=10), (), np.random.default_rng(0)
    )
    assert request.query.size == 2**20


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "3", None, 2**20])
def test_bad_numbers_of_clusters_are_refused(value):
    with pytest.raises(ParameterError, match="n_clusters"):
        GridKMeans(n_clusters=value)


def test_bad_rules_are_refused():
    with pytest.raises(ParameterError, match="rule"):
        GridKMeans(n_clusters=3, rule="square")


# ---- rounds ----


def test_a_declared_number_of_records_saves_the_total():
    x, domain = np.zeros((50, 2)), Box([0, 0], [1, 1])
    declared = release(GridKMeans(n_clusters=2), x, domain=domain, epsilon=1, n_records=5000)
    assert [(r.query.type_name, r.share) for r in declared.rounds] == [("grid", 1)]
    assert declared.rounds[0].query.sides == (22, 22)
    unknown = release(GridKMeans(n_clusters=2), x, domain=domain, epsilon=1)
    assert (unknown.rounds[0].query.size, unknown.rounds[0].share) == (1, TOTAL_SHARE)
    assert unknown.rounds[1].share == 1 - TOTAL_SHARE
    expected = choose_grid(unknown.context, 2, max(1.0, unknown.rounds[0].noisy[0]), 1 - TOTAL_SHARE, "eugkm")
    assert unknown.rounds[1].query == expected.query


# ---- k-means on cells ----


def test_cells_count_by_their_noisy_counts():
    t = terms(1)
    # Middles at -.75, -.25, .25, .75; the first two make one centre, weighted 3 to 1.
    found = centers_of_grid(t, (answered(t, (4,), [3, 1, 0, 8]),), 2)
    np.testing.assert_allclose(np.sort(found, axis=0), [[-0.625], [0.75]], atol=1e-12)


def test_counts_below_zero_weigh_nothing():
    t = terms(1)
    few, many = ([3, 1, -50, 8, -2, 0], [3, 1, 0, 8, 0, 0])
    a, b = (centers_of_grid(t, (answered(t, (6,), counts),), 2) for counts in (few, many))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("counts", [[-5, -1, -3, -2], [0, 0, 0, 0], [-5, 7, -3, -2]], ids=["negative", "zero", "one"])
@pytest.mark.parametrize("kind", [Box, L1Ball, L2Ball])
def test_with_too_few_positive_counts_the_largest_are_the_centres(counts, kind):
    t = terms(2, kind=kind)
    round_ = answered(t, (2, 2), counts)
    found = centers_of_grid(t, (round_,), 3)
    middles = t.domain.clip(round_.query.marginal.centers())
    order = np.argsort(-np.array(counts), kind="stable")[:3]
    np.testing.assert_array_equal(found, middles[order])


def test_cells_outside_the_domain_do_not_count():
    t = terms(2, kind=L1Ball)
    counts = np.zeros((4, 4))
    counts[0, 0] = counts[3, 3] = 1000.0  # no record can be there: this is noise
    counts[1, 1], counts[2, 2], counts[1, 2] = 5.0, 5.0, 1.0
    found = centers_of_grid(t, (answered(t, (4, 4), counts.ravel()),), 2)
    assert np.abs(found).max() <= 0.25 + 1e-12


def test_many_cells_are_clustered_alike_by_way_of_a_sample():
    t = terms(2)
    rng = np.random.default_rng(0)
    sides = (200, 200)
    middles = GridQuery(sides=sides).marginal.centers()
    places = np.array([[-0.5, -0.5], [0.5, 0.4], [-0.4, 0.6]])
    distances = ((middles[:, None] - places) ** 2).sum(axis=2).min(axis=1)
    counts = 100 * np.exp(-distances / 0.005) + rng.uniform(0, 0.01, len(middles))
    found = centers_of_grid(t, (answered(t, sides, counts),), 3)
    for place in places:
        assert np.abs(found - place).sum(axis=1).min() < 0.02


def test_no_round_no_estimate_and_no_grid_no_data():
    with pytest.raises(ParameterError, match="first round"):
        GridKMeans(n_clusters=2).estimate(terms(2), ())
    total = release(GridKMeans(n_clusters=3), np.zeros((5, 2)), domain=L2Ball([0, 0], [1, 1]), epsilon=1).rounds[:1]
    found = GridKMeans(n_clusters=3).estimate(terms(2, kind=L2Ball), total)
    assert found.shape == (3, 2)
    assert L2Ball([0, 0], [1, 1]).contains(found).all()


# ---- accuracy, on a table like S1 ----


def test_a_grid_finds_blobs_and_inference_does_not_lose_them():
    table = gaussian_blobs()
    domain = L1Ball(table.low, table.high)
    unit = domain.to_unit(table.rows)

    def loss(centers):
        distances = ((unit[:, None] - domain.to_unit(centers)) ** 2).sum(axis=2)
        return distances.min(axis=1).sum()

    transcript = release(
        GridKMeans(n_clusters=15), table.rows, domain=domain, epsilon=1, random_state=1, noise="simulated"
    )
    own = loss(refit(transcript, None))
    inferred = loss(refit(transcript, infer(transcript, random_state=0), random_state=0))
    empty = release(
        GridKMeans(n_clusters=15), table.rows[:0], domain=domain, epsilon=1, random_state=1, noise="simulated"
    )
    assert own < 0.5 * loss(refit(empty, None))
    assert inferred < 1.1 * own


@pytest.mark.parametrize("algorithm", ["grid", "hybrid"])
@pytest.mark.parametrize("domain", ["box", "l1", "l2"])
def test_the_estimator_reaches_both(algorithm, domain, tmp_path):
    x = np.random.default_rng(0).uniform(size=(400, 2))
    for postprocess in ("auto", "none"):
        model = PrivateKMeans(
            3, 1, (0, 1), algorithm=algorithm, domain=domain, postprocess=postprocess, random_state=0
        ).fit(x)
        assert model.cluster_centers_.shape == (3, 2)
        assert ((model.cluster_centers_ >= 0) & (model.cluster_centers_ <= 1)).all()
        assert model.transcript_.algorithm["type"] == f"kmeans-{algorithm}"
        assert (model.inferred_ is None) == (postprocess == "none")
    # From the file alone, in any process.
    model.transcript_.save(tmp_path / "t.json")
    np.testing.assert_array_equal(refit(Transcript.load(tmp_path / "t.json"), None), model.cluster_centers_)


def test_the_estimator_refuses_what_does_not_fit():
    x = np.zeros((5, 2))
    for more, words in (({"n_rounds": 3}, "plans its own rounds"), ({"postprocess": "consistency"}, "lloyd")):
        with pytest.raises(ParameterError, match=words):
            PrivateKMeans(3, 1, (0, 1), algorithm="grid", **more).fit(x)
    with pytest.raises(ParameterError, match="hybrid"):
        PrivateKMeans(3, 1, (0, 1), algorithm="magic").fit(x)
