"""Several transcripts of one data set, read together: one inferred data set answers all of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from joint_cases import MAKERS, MIDDLES, K, loss, registered, released, table  # noqa: F401

import recoup
from recoup.domain import Box
from recoup.errors import ParameterError
from recoup.inference.evidence import evidence_of
from recoup.inference.infer import problem_of
from recoup.maxent.measure import base_looks, by_cells, has_means, maxent
from recoup.queries.counts import GridQuery, HistogramQuery


@pytest.mark.parametrize(
    "kinds",
    [
        ("grid", "lloyd"), ("marginals", "lloyd"), ("lloyd", "lloyd"), ("grid", "grid"), ("marginals", "adaptive"),
        ("adaptive", "lloyd"), ("grid", "marginals", "lloyd"),
    ],
    ids="+".join,
)  # fmt: skip
def test_one_inferred_data_set_answers_all(kinds):
    parts = [released(kind, seed=i) for i, kind in enumerate(kinds)]
    inferred = recoup.infer(parts, random_state=0, n_points=4000)
    assert inferred.simulated
    assert inferred.diagnostics.converged
    assert len(inferred.diagnostics.residuals) == sum(len(t.rounds) for t in parts)
    assert inferred.n_records == pytest.approx(3000, rel=0.1)
    floor = loss(MIDDLES)
    for part in parts:
        centers = recoup.refit(part, inferred, random_state=0)
        assert centers.shape == (K, 2)
        assert loss(centers) < 1.5 * floor


def box(d):
    """The unit box of d columns."""
    return Box([0] * d, [1] * d)


def test_joint_beats_each_half_on_average():
    """Summed over seeds: fixed ones, so that there is no chance; the planted fault is a part of another data set."""
    joint, alone, misled = 0.0, {"grid": 0.0, "lloyd": 0.0}, 0.0
    other = recoup.release(
        MAKERS["lloyd"], 1 - table()[:, ::-1] ** 3, domain=recoup.Box([0, 0], [1, 1]), epsilon=0.1,
        noise="simulated", random_state=9,
    )  # fmt: skip
    for seed in range(4):
        parts = {kind: released(kind, seed=seed, epsilon=0.05) for kind in alone}
        for kind, part in parts.items():
            own = recoup.infer(part, random_state=0, n_points=4000)
            alone[kind] += loss(recoup.refit(part, own, random_state=0))
        both = recoup.infer(list(parts.values()), random_state=0, n_points=4000)
        joint += loss(recoup.refit(parts["lloyd"], both, random_state=0))
        wrong = recoup.infer([parts["grid"], other], random_state=0, n_points=4000)
        misled += loss(recoup.refit(parts["grid"], wrong, random_state=0))
    assert joint < min(alone.values())
    assert misled > joint


def test_laplace_and_gaussian_rows_are_solved_together():
    parts = [released("grid"), released("lloyd", epsilon=1, delta=1e-6)]
    evidence = evidence_of(parts)
    assert not evidence.one_law
    assert {r.mechanism for r in evidence.rounds} == {"laplace", "gaussian"}
    assert evidence.context.delta == Fraction(1, 10**6)
    inferred = recoup.infer(parts, random_state=0, n_points=4000)
    assert inferred.diagnostics.converged
    # Each row is judged by its own law: noise of the right scales leaves about 1 (Laplace) or 0.8 (Gaussian).
    for misfit in inferred.diagnostics.residuals:
        assert all(0.1 < value < 2.0 for value in misfit.by_block.values())
    assert loss(recoup.refit(parts[1], inferred, random_state=0)) < 1.5 * loss(MIDDLES)
    with pytest.raises(ParameterError, match="one law"):
        recoup.infer(parts, "consistency")


def test_two_laws_of_the_same_rounds():
    parts = [released("lloyd"), released("lloyd", seed=1, epsilon=1, delta=1e-6)]
    inferred = recoup.infer(parts, random_state=0, n_points=4000)
    assert loss(recoup.refit(parts[0], inferred, random_state=0)) < 1.5 * loss(MIDDLES)


@pytest.mark.parametrize("method", ["mcmc", "consistency"])
def test_other_methods_read_several_too(method):
    parts = [released("lloyd"), released("lloyd", seed=1)]
    inferred = recoup.infer(parts, method, random_state=0, n_steps=2000)
    assert inferred.method == method
    assert loss(recoup.refit(parts[1], inferred, random_state=0)) < 2.0 * loss(MIDDLES)


def test_the_order_changes_only_the_randomness():
    parts = [released("grid"), released("marginals", seed=1), released("adaptive", seed=2)]
    found = [recoup.infer(order, random_state=0, n_points=6000) for order in (parts, parts[::-1])]
    losses = [loss(recoup.refit(parts[0], inferred, random_state=0)) for inferred in found]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert found[0].n_records == pytest.approx(found[1].n_records, rel=1e-12)
    # The rows that are solved for are the same ones, in another order.
    evidence = [evidence_of(order) for order in (parts, parts[::-1])]
    assert {id(r) for r in evidence[0].rounds} == {id(r) for r in evidence[1].rounds}
    assert evidence[0].strength == pytest.approx(evidence[1].strength)
    looks = [{id(r) for r in base_looks([e.rounds], box(2))} for e in evidence]
    assert looks[0] == looks[1]


def test_the_same_seed_gives_the_same_data():
    parts = [released("grid"), released("lloyd")]
    found = [recoup.infer(parts, random_state=3, n_points=2000) for _ in range(2)]
    np.testing.assert_array_equal(found[0].points, found[1].points)
    np.testing.assert_array_equal(found[0].weights, found[1].weights)


def test_a_list_of_one_is_that_one():
    part = released("adaptive")
    one, listed = (recoup.infer(given, random_state=0, n_points=1000) for given in (part, [part]))
    np.testing.assert_array_equal(one.points, listed.points)
    np.testing.assert_array_equal(one.weights, listed.weights)


def test_a_part_that_says_nothing_hardly_matters():
    part = released("adaptive", epsilon=2)
    empty = released("marginals", epsilon=1e-4)
    alone, both = (recoup.infer(given, random_state=0) for given in (part, [part, empty]))
    losses = [loss(recoup.refit(part, inferred, random_state=0)) for inferred in (alone, both)]
    assert losses[1] < 1.1 * losses[0]


def test_where_the_support_is_drawn_from():
    """Grids in few columns, marginals in more, and no look at all where only a wide grid is left beside sums."""
    few = evidence_of([released("grid"), released("marginals"), released("lloyd")]).rounds
    assert [type(r.query) for r in base_looks([few], box(2))] == [GridQuery]
    assert [type(r.query) for r in base_looks([few], box(4))] == [HistogramQuery]
    grid_and_sums = tuple(r for r in few if not isinstance(r.query, HistogramQuery))
    assert base_looks([grid_and_sums], box(4)) == []
    grid_alone = tuple(r for r in few if isinstance(r.query, GridQuery))
    assert base_looks([grid_alone], box(4)) == list(grid_alone)
    marginals_alone = tuple(r for r in few if isinstance(r.query, HistogramQuery))
    assert base_looks([marginals_alone], box(2)) == list(marginals_alone)


def test_means_that_nobody_knows_are_not_drawn_around():
    known, unknown = released("lloyd", epsilon=5).rounds[-1], released("lloyd", epsilon=0.01).rounds[-1]
    assert has_means(known)
    assert not has_means(unknown)
    assert not any(has_means(r) for r in released("grid", epsilon=5).rounds)
    assert has_means(released("adaptive", epsilon=5).rounds[-1])


def test_the_joint_path_is_for_several_releases_only():
    """One release is read exactly as before there were several."""
    part = released("grid")
    evidence = evidence_of(part)
    alone = maxent(by_cells(evidence.context, evidence.rounds, np.random.default_rng(0), n_points=1000))
    inferred = recoup.infer(part, random_state=0, n_points=1000)
    np.testing.assert_array_equal(alone.weights, inferred.weights)
    joint = maxent(problem_of(evidence_of([part, released("grid", seed=1)]), np.random.default_rng(0), n_points=1000))
    assert not np.array_equal(joint.weights, alone.weights)


# ---- what is refused ----


def test_different_domains_are_refused():
    part = released("grid")
    for domain in (recoup.Box([0, 0], [1, 2]), recoup.L1Ball([0, 0], [1, 1]), recoup.L2Ball([0, 0], [1, 1], radius=2)):
        with pytest.raises(ParameterError, match="transcripts 1 and 2 have different domains"):
            recoup.infer([part, released("lloyd", domain=domain)])
    with pytest.raises(ParameterError, match="transcripts 1 and 3 have different domains"):
        recoup.infer([part, released("lloyd"), released("lloyd", domain=recoup.Box([0, 0], [1, 2]))])


def test_different_neighbours_are_refused():
    with pytest.raises(ParameterError, match="different neighbours: one record and 3 records of one person"):
        recoup.infer([released("grid"), released("lloyd", records_per_person=3)])


def test_a_round_that_is_given_twice_is_refused(tmp_path):
    part = released("lloyd")
    part.save(tmp_path / "t.json")
    for twice in (part, recoup.Transcript.load(tmp_path / "t.json")):
        with pytest.raises(ParameterError, match="given twice"):
            recoup.infer([part, twice])


@pytest.mark.parametrize(
    ("given", "words"),
    [([], "empty"), (None, "NoneType"), ("t.json", "str"), ([None], "NoneType"), (["t.json"], "str"), (3, "int")],
)
def test_other_things_are_refused(given, words):
    with pytest.raises(ParameterError, match=words):
        recoup.infer(given)
    with pytest.raises(ParameterError, match="holds a str"):
        recoup.infer([released("grid"), "t.json"])
