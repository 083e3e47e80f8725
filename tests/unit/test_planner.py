"""Plans agree with the transcripts that follow them, and with the formulas that they cite."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from su_et_al import TYPICAL_OFFSET, best_split_error, expected_error

from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.domain import DOMAINS
from recoup.driver import release
from recoup.errors import RecoupError
from recoup.planner import plan_lloyd, planned_round
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context, Request


def terms(domain="box", n_columns=3, epsilon="0.7", delta="0", **rest):
    return Context(
        domain=DOMAINS[domain]([0.0] * n_columns, [2.0] * n_columns),
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        mechanism="gaussian" if Fraction(delta) else "laplace",
        **rest,
    )


@pytest.mark.parametrize("domain", ["box", "l1", "l2"])
@pytest.mark.parametrize("delta", ["0", "0.000001"])
@pytest.mark.parametrize("records_per_person", [1, 3])
def test_a_plan_is_what_a_release_then_does(domain, delta, records_per_person):
    context = terms(domain, delta=delta, records_per_person=records_per_person, n_records=500)
    plan = plan_lloyd(context, n_clusters=4, n_rounds=3)
    transcript = release(
        KMeans(n_clusters=4, n_rounds=3),
        np.empty((0, 3)),
        domain=context.domain,
        epsilon=context.epsilon,
        delta=context.delta,
        records_per_person=records_per_person,
        n_records=500,
        noise="simulated",
        random_state=0,
    )
    assert len(plan.rounds) == len(transcript.rounds)
    for planned, answered in zip(plan.rounds, transcript.rounds, strict=True):
        assert planned.price == answered.price
        assert planned.n_cells == answered.query.n_cells
        np.testing.assert_allclose(answered.scales[:4], planned.count_scale, rtol=1e-14)
        np.testing.assert_allclose(answered.scales[4:], planned.sum_scale, rtol=1e-14)
    assert plan.epsilon == transcript.epsilon_spent <= context.epsilon


@pytest.mark.parametrize(("n_columns", "n_clusters"), [(1, 1), (2, 15), (10, 5)])
def test_the_best_split_gives_the_closed_form_of_su_et_al(n_columns, n_clusters):
    a = (4 * n_columns * TYPICAL_OFFSET**2) ** (1 / 3)
    count = Fraction(a / (n_columns + a))
    query = VoronoiQuery(centers=np.zeros((n_clusters, n_columns)))
    context = terms(n_columns=n_columns, epsilon="0.5", n_records=4000)
    planned = planned_round(context, Request(query=query, share=Fraction(1), split={"count": count, "sum": 1 - count}))
    from_scales = expected_error(
        n_clusters=n_clusters,
        n_columns=n_columns,
        n_records=4000,
        count_deviation=np.sqrt(2) * planned.count_scale,
        sum_deviation=np.sqrt(2) * planned.sum_scale,
    )
    closed = best_split_error(epsilon=0.5, n_clusters=n_clusters, n_columns=n_columns, n_records=4000)
    assert from_scales == pytest.approx(closed, rel=1e-6)
    assert n_clusters * n_columns * planned.center_deviation**2 == pytest.approx(closed, rel=1e-6)


def test_the_expected_deviation_is_that_of_real_noisy_means():
    # Noise of sums and counts on one cell of 2000 records whose mean is (0.45, -0.45): the planner's typical centre.
    context = terms(n_columns=2, epsilon="1", n_records=2000)
    planned = plan_lloyd(context, n_clusters=1, n_rounds=1).rounds[0]
    rng = np.random.default_rng(5)
    counts = 2000 + rng.laplace(scale=planned.count_scale, size=40_000)
    sums = 2000 * 0.45 + rng.laplace(scale=planned.sum_scale, size=40_000)
    assert np.std(sums / counts) == pytest.approx(planned.center_deviation, rel=0.03)


def test_more_people_and_more_records_make_better_centres():
    small, large = (plan_lloyd(terms(n_records=n), n_clusters=3) for n in (1000, 10_000))
    assert large.rounds[0].center_deviation == pytest.approx(small.rounds[0].center_deviation / 10)
    assert large.expected_displacement == pytest.approx(small.expected_displacement / 100)
    assert large.expected_excess == pytest.approx(small.expected_excess / 10)


def test_without_a_declared_number_nothing_is_expected():
    plan = plan_lloyd(terms(), n_clusters=3)
    assert plan.expected_displacement is plan.expected_excess is plan.suggested_rounds is None
    assert plan.rounds[0].center_deviation is None


def test_suggested_rounds_stay_between_two_and_seven():
    few = terms(n_columns=2, epsilon="0.001", n_records=5000)
    assert plan_lloyd(few, n_clusters=15).suggested_rounds == 2
    many = terms(n_columns=2, epsilon="100", n_records=10**6)
    assert plan_lloyd(many, n_clusters=2).suggested_rounds == 7
    with pytest.raises(RecoupError, match="epsilon"):
        Context(domain=many.domain, epsilon=float("nan"), n_records=10)


def test_many_clusters_are_planned_at_once():
    assert plan_lloyd(terms(), n_clusters=20_000).rounds[0].n_cells == 20_000


def test_relative_sums_are_planned_by_their_radii():
    query = VoronoiQuery(centers=np.zeros((2, 3)), sums="relative", radii=np.array([0.1, 0.1]))
    request = Request(query=query, share=Fraction(1), split={"count": Fraction(1, 2), "sum": Fraction(1, 2)})
    assert planned_round(terms(epsilon="1"), request).sum_scale == pytest.approx(0.2, rel=1e-9)


def test_a_round_of_counts_alone_has_no_centres_to_plan_for():
    request = Request(query=GridQuery(sides=(2, 2, 2)), share=Fraction(1), split={"count": Fraction(1)})
    planned = planned_round(terms(epsilon="1", n_records=100), request)
    assert (planned.n_cells, planned.sum_scale, planned.center_deviation) == (8, None, None)
    assert planned.count_scale == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("n_columns", [1, 3, 6])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_an_adaptive_plan_is_what_the_release_costs(n_columns, delta):
    from recoup import PrivateKMeans
    from recoup.planner import plan_adaptive

    x = np.random.default_rng(0).uniform(size=(400, n_columns))
    model = PrivateKMeans(3, 0.5, (0, 1), delta=delta, n_records=400, noise="simulated", random_state=0).fit(x)
    plan = plan_adaptive(model.transcript_.context, n_clusters=3)
    rounds = model.transcript_.rounds
    assert [r.price for r in plan.rounds][: len(rounds)] == [r.price for r in rounds]
    assert plan.rounds[0].n_cells == rounds[0].query.size
    assert plan.rounds[0].count_scale == pytest.approx(rounds[0].scales[0], rel=1e-6)
    last, query = plan.rounds[-1], rounds[-1].query
    assert last.sum_scale == pytest.approx(rounds[-1].scales[-1] / query.radii[-1], rel=1e-6)


def test_the_inverse_questions_invert_the_law():
    from recoup.planner import epsilon_for, records_for, relative_excess

    shape = {"n_clusters": 7, "n_columns": 3}
    excess = relative_excess(epsilon=0.3, n_records=9000, **shape)
    assert epsilon_for(excess=excess, n_records=9000, **shape) == pytest.approx(0.3)
    assert records_for(excess=excess, epsilon=0.3, **shape) == pytest.approx(9000)


@pytest.mark.parametrize(
    ("n_columns", "n_clusters", "n_records", "reason"),
    [
        (4, 5, 20_000, None),
        (17, 5, 100_000, "17 columns"),
        (4, 1, 20_000, "1 cluster,"),
        (4, 17, 100_000, "17 clusters"),
        (4, 3, 499, "499 records"),
        (16, 16, 2_000, "N epsilon is small for 16 columns and 16 clusters, and a cluster may be missed"),
        (4, 26, 2_000, "Too few records"),
    ],
)
def test_a_plan_tells_a_loss_where_it_was_measured_and_why_not_elsewhere(n_columns, n_clusters, n_records, reason):
    from recoup.planner import plan_adaptive

    context = Context(domain=DOMAINS["box"]([0] * n_columns, [1] * n_columns), epsilon=Fraction(1), n_records=n_records)
    plan = plan_adaptive(context, n_clusters=n_clusters)
    if reason is None:
        assert plan.relative_excess is not None
        assert plan.notes == ()
    else:
        assert plan.relative_excess is None
        assert reason in plan.notes[0]


def test_a_small_loss_is_told_as_little_and_gaussian_noise_as_not_measured():
    from recoup.planner import LEAST_EXCESS, plan_adaptive

    terms = {"domain": DOMAINS["box"]([0] * 4, [1] * 4), "epsilon": Fraction(1), "n_records": 10**7}
    assert plan_adaptive(Context(**terms), n_clusters=5).relative_excess == LEAST_EXCESS
    gaussian = Context(**terms, delta=Fraction(1, 10**6), mechanism="gaussian")
    chosen, taken_over = plan_adaptive(gaussian, n_clusters=5).notes
    assert chosen.startswith("Gaussian noise, which the delta allows")
    assert "Laplace" in taken_over


def test_a_ledger_previews_a_plan_and_writes_nothing():
    from recoup import Ledger

    terms = Context(domain=DOMAINS["box"]([0, 0], [1, 1]), epsilon=Fraction(1, 2))
    ledger = Ledger.in_memory(epsilon=0.75)
    plan = plan_lloyd(terms, n_clusters=3, n_rounds=4)
    preview = ledger.preview(plan)
    assert preview.fits
    assert preview.asked == plan.amount
    assert ledger.spent == 0
    assert not ledger.preview([r.price for r in plan.rounds] * 2).fits


@pytest.mark.parametrize(
    ("n_columns", "n_clusters", "n_records", "reason"),
    [
        (64, 16, 40_000, None),
        (16, 4, 20_000, None),
        (129, 16, 100_000, "129 columns"),
        (16, 65, 10**6, "65 clusters"),
        (64, 64, 20_000, "N epsilon is small for 64 columns and 64 clusters, and a cluster may be missed"),
        (64, 4, 4_900, "4,900 records"),
    ],
)
def test_a_plan_for_many_columns_tells_the_noise_of_the_last_means(n_columns, n_clusters, n_records, reason):
    from recoup.planner import LEAST_EXCESS, WIDE_LAW, plan_adaptive

    terms = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6), "mechanism": "gaussian", "n_records": n_records}
    context = Context(domain=DOMAINS["box"]([0] * n_columns, [1] * n_columns), **terms)
    plan = plan_adaptive(context, n_clusters=n_clusters)
    assert "many columns" in plan.algorithm
    if reason is not None:
        assert plan.relative_excess is None
        assert reason in plan.notes[1]
        return
    noise = WIDE_LAW * n_columns * (plan.rounds[-1].sum_scale * n_clusters / n_records) ** 2
    assert plan.relative_excess == pytest.approx(max(noise, LEAST_EXCESS))
    assert [note.split(",")[0] for note in plan.notes] == ["Gaussian noise"]
