"""Grids and what follows them: nothing but noisy values depends on the records, and every cell is noised."""

import numpy as np
import pytest
from cases import RecordingNoise, context, domains

from recoup import GridKMeans, HybridKMeans
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.queries.counts import GridQuery

ALGORITHMS = {"grid": GridKMeans(n_clusters=3), "hybrid": HybridKMeans(n_clusters=3)}
TABLES = {
    "empty": np.empty((0, 3)),
    "one": np.array([[0.2, 0.3, 0.1]]),
    "missing": np.array([[np.nan, 0.3, 0.1], [0.9, 0.1, 0.2]]),
    "far": np.array([[1e300, -1e300, 0.0], [np.inf, 0.0, 0.0]]),
    "many": np.random.default_rng(0).uniform(-3, 7, size=(40_000, 3)),
}


def driven(algorithm, terms, table, noise=None):
    """All rounds, and what the curator asked of the noise."""
    curator = Curator(open_source(table, terms.domain), terms)
    rounds = []
    while request := algorithm.next_request(terms, rounds, np.random.default_rng(1)):
        rounds.append(curator.answer(request, noise))
    return rounds


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_with_declared_terms_tables_differ_in_noisy_values_alone(mechanism, name):
    terms = context(domains(3)["l1"], mechanism, n_records=2000)
    seen = []
    for table in TABLES.values():
        noise = RecordingNoise()
        rounds = driven(ALGORITHMS[name], terms, table, noise)
        draws = [(r.query.type_name, r.query.size, r.weights, r.scale, r.price, r.share) for r in rounds]
        seen.append((draws, noise.draws))
        assert [n for _, n, _ in noise.draws] == [r.query.size for r in rounds]
        centers = ALGORITHMS[name].estimate(terms, rounds)
        assert centers.shape == (3, 3)
        assert np.isfinite(centers).all()
    assert all(one == seen[0] for one in seen)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_without_a_declared_number_the_plan_depends_on_the_noisy_total_alone(name):
    terms = context(domains(3)["box"])
    grids = {}
    for table in TABLES.values():
        rounds = driven(ALGORITHMS[name], terms, table, RecordingNoise())
        total = max(1.0, rounds[0].noisy[0])
        asked = [(r.query.type_name, r.query.size, r.share) for r in rounds]
        # Whoever knows the noisy total, and nothing else of the records, can tell what is asked next.
        again = ALGORITHMS[name].next_request(terms, rounds[:1], np.random.default_rng(2))
        assert again.query == rounds[1].query
        assert grids.setdefault(total, asked) == asked
    assert len({tuple(asked) for asked in grids.values()}) > 1  # the total does decide


def test_every_cell_is_noised_the_empty_ones_too():
    terms = context(domains(3)["box"], n_records=2000)
    rounds = [driven(ALGORITHMS["grid"], terms, TABLES["empty"])[0] for _ in "ab"]
    assert isinstance(rounds[0].query, GridQuery)
    assert rounds[0].query.size > 500
    for a, b in zip(*(r.integers for r in rounds), strict=True):
        assert a != 0
        assert a != b
