"""Answers that were made elsewhere in other units than was said."""

from __future__ import annotations

import numpy as np
import pytest
from imported_cases import HIGH, LOW, ONE_COMPONENT, file_of, kmeans_elsewhere, people

import recoup
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.imported import imported_from_json
from recoup.queries.models import LogisticGradientQuery
from recoup.queries.moments import MomentsQuery


def without_units(rounds):
    return {name: item for name, item in file_of(rounds).items() if name != "units"}


def counts_alone(rounds):
    return [
        {"query": r["query"] | {"sums": "none"}, "noisy": r["noisy"]["count"], "scale": r["scale"]["count"]}
        for r in rounds
    ]


def one_center(answered, at):
    return answered | {"query": answered["query"] | {"centers": [at, *answered["query"]["centers"][1:]]}}


def times(answered, factor):
    sums = (np.array(answered["noisy"]["sum"]) * factor).tolist()
    return answered | {"noisy": answered["noisy"] | {"sum": sums}}


def test_units_that_cannot_be_are_refused():
    rounds = kmeans_elsewhere(people())[0]
    single = {
        "query": {"type": "voronoi", "centers": [[25.0, 20.0]], "sums": "absolute"},
        "noisy": {"count": [3000.0], "sum": [[150_000.0, 160_000.0]]}, "scale": {"count": 3, "sum": 150},
    }  # fmt: skip
    for value, words in (
        (without_units(rounds), 'say units="user"'),
        (without_units(counts_alone(rounds)), 'say units="user"'),
        (without_units([single]), 'say units="user"'),
        (file_of([one_center(rounds[0], [300.0, 60.0])]), "check the centres"),
        (file_of(rounds, bounds={"age": [0, 30], "hours": [10, 90]}), "check the centres"),
        (file_of([times(rounds[0], 100.0)]), "its sums are larger"),  # of hundredths
    ):
        with pytest.raises(TranscriptFormatError, match=f"round 1: .*{words}"):
            imported_from_json(value)


def test_a_query_that_is_read_in_one_unit_only_says_so():
    x, domain = people(), recoup.Box(LOW, HIGH)
    query = MomentsQuery(dimension=2)
    right = np.asarray(query.contribution(domain.to_unit(x)).sum(axis=0))
    wrong = np.asarray(query.contribution(x).sum(axis=0))
    terms = {"domain": domain, "epsilon": 1}
    assert recoup.transcript_from(**terms, rounds=[(query, right, 20.0)]).rounds
    with pytest.raises(ParameterError, match=r"block 'sum' .* moments is read as of columns scaled"):
        recoup.transcript_from(**terms, rounds=[(query, wrong, 20.0)])


@pytest.mark.parametrize("gaussian", [False, True])
def test_noise_is_never_taken_for_wrong_units(gaussian):
    """Unclipped means of almost empty cells: most runs have a centre far outside, and none is refused.

    A value beyond 30 scales has probability 1e-13, so a false alarm in any of 60 runs one of 1e-9.
    """
    terms = {"mechanism": "gaussian", "delta": 1e-6} if gaussian else {}
    far = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        draw = rng.normal if gaussian else rng.laplace
        # The first column is narrow and the nearest centre is the author's, in own units.
        x, centers, rounds = people(200, seed) * [0.01, 1], rng.uniform(LOW, HIGH, (8, 2)) * [0.01, 1], []
        for _ in range(4):
            nearest = ((x[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
            counts = np.bincount(nearest, minlength=8) + draw(0, 10, 8)
            sums = np.stack([x[nearest == k].sum(axis=0) for k in range(8)]) + draw(0, [10, 1000], (8, 2))
            query = {"type": "voronoi", "centers": centers.tolist(), "sums": "absolute"}
            noisy = {"count": counts.tolist(), "sum": sums.tolist()}
            scale = [10.0] * 8 + [10.0, 1000.0] * 8
            rounds.append({"query": query, "noisy": noisy, "scale": scale})
            centers = np.clip(sums / counts[:, None], -1e4, 1e4)
        far += any(np.abs(np.array(r["query"]["centers"])[:, 1]).max() > 300 for r in rounds)
        assert imported_from_json(file_of(rounds, bounds={"share": [0, 1], "hours": [10, 90]}, **terms)).rounds
    assert far > 30


def test_what_was_released_here_is_never_taken_for_wrong_units():
    x = np.random.default_rng(0).uniform(size=(300, 2))
    algorithms = (
        recoup.KMeans(n_clusters=5), recoup.AdaptiveKMeans(n_clusters=3), recoup.GaussianMixture(n_components=3),
        recoup.LogisticRegression(), recoup.CovariancePCA(n_components=1), recoup.PowerPCA(n_components=1),
    )  # fmt: skip
    for algorithm in algorithms:
        for epsilon in (0.01, 50):
            for kind in (recoup.Box, recoup.L1Ball):
                terms = {"domain": kind([0, 0], [1, 1]), "epsilon": epsilon}
                released = recoup.release(algorithm, x, **terms, noise="simulated", random_state=0)
                again = [(r.query, r.noisy, r.scales) for r in released.rounds]
                assert recoup.transcript_from(**terms, rounds=again, algorithm="any").rounds


@pytest.mark.parametrize(
    "query",
    [
        MomentsQuery(dimension=2),
        ONE_COMPONENT,
        LogisticGradientQuery(coefficients=np.zeros(2), clip=1.0),
    ],
    ids=lambda query: query.type_name,
)
def test_only_queries_without_units_or_of_cells_are_read_in_the_columns_own(query):
    answer = np.ones(query.size).tolist()
    terms = {"domain": recoup.Box([0, 0], [100, 100]), "epsilon": 1, "mechanism": "laplace"}
    with pytest.raises(ParameterError, match="in the unit domain only"):
        recoup.transcript_from(**terms, rounds=[(query.to_json(), answer, 1.0)], units="user")
    recoup.transcript_from(**terms, rounds=[(query.to_json(), answer, 1.0)])
