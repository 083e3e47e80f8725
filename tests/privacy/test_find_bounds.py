"""Bounds from noisy counts: what one record moves, how much noise is drawn, and that a planted leak is caught."""

import warnings
from itertools import pairwise, product

import numpy as np
import pytest
from cases import RecordingNoise

import recoup
from recoup.algorithms import bounds
from recoup.algorithms.bounds import FindBounds
from recoup.curator.curator import Curator
from recoup.curator.source import fixed_records, open_source
from recoup.found_bounds import FoundBounds, find_bounds
from recoup.mixed import Mixed
from recoup.octaves import END, N_BINS, N_PLACES, edges_of
from recoup.privacy.mechanism import MECHANISMS
from recoup.schema import OCTAVES, Number, Schema
from recoup.transcript.context import Context

SENSITIVITY = 2**30
DOMAIN = Mixed(schema=Schema(dict.fromkeys("ab", Number(-END, END, scale=OCTAVES, missing=END))))
# The edges of bins at both ends of the list, around zero and in the middle, what is next to them, and no numbers.
EDGES = [edges_of(place, place)[1] for place in (1, 2, 16, 17, 500, N_PLACES - 1, N_PLACES)]
NEAR = [float(v) for edge in EDGES for v in (np.nextafter(edge, 0), edge, np.nextafter(edge, np.inf))]
VALUES = [0.0, -0.0, 5e-324, *NEAR, *(-v for v in NEAR), 1e300, -1e300, np.inf, -np.inf, np.nan]
TABLES = {
    "empty": np.empty((0, 2)),
    "one": np.array([[3.0, 1e9]]),
    "missing": np.array([[np.nan, 1.0], [np.inf, -np.inf]]),
    "far": np.full((5, 2), 1e300),
    "many": np.random.default_rng(0).lognormal(3, 2, size=(20_000, 2)),
}


def terms(law="laplace"):
    return Context(domain=DOMAIN, epsilon="0.5", delta=0 if law == "laplace" else "1e-6", mechanism=law)


def request(law):
    return FindBounds().next_request(terms(law), [], np.random.default_rng(0))


def moved(rows, law):
    """What each record adds to the integer totals, (records, values)."""
    query = request(law).query
    sensitivity = query.sensitivity(DOMAIN)
    factors = MECHANISMS[law].factors(sensitivity, terms(law).weights([request(law).split["count"]]))
    return np.array([query.integer_total(row[None], factors) for row in fixed_records(rows, DOMAIN)])


# ---- sensitivity, by brute force ----


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_record_at_the_edge_of_a_bin_moves_more_than_the_sensitivity(law):
    rows = np.array([*product(VALUES[::3], VALUES[:3]), *zip(VALUES, VALUES[::-1], strict=True)])
    added = moved(rows, law)
    size = np.abs(added).sum(axis=1) if law == "laplace" else np.sqrt((added.astype(np.float64) ** 2).sum(axis=1))
    assert size.max() <= SENSITIVITY
    assert size.max() >= SENSITIVITY * (1 - 1e-8)  # no more noise than needed
    # Every record touches exactly one bin of each column, one with missing values too.
    assert ((added.reshape(len(rows), 2, N_BINS) != 0).sum(axis=2) == 1).all()


def test_a_record_that_touches_two_bins_of_a_column_is_caught(monkeypatch):
    # Planted: a value is counted in its neighbour's bin, too.
    query, whole = request("laplace").query, type(request("laplace").query).integer_total
    monkeypatch.setattr(type(query), "integer_total", lambda *given: whole(*given) + np.roll(whole(*given), 1))
    assert np.abs(moved(np.array([[3.0, 7.0]]), "laplace")).sum() > SENSITIVITY


# ---- what is drawn and told is the same for all tables ----


def draws(algorithm, table, law="laplace"):
    noise, rounds = RecordingNoise(), []
    curator = Curator(open_source(table, DOMAIN), terms(law))
    while asked := algorithm.next_request(terms(law), rounds, np.random.default_rng(1)):
        rounds.append(curator.answer(asked, noise))
    return noise.draws, [(r.query.to_json(), r.scale, r.price, r.share) for r in rounds]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_tables_differ_in_noisy_values_alone(law):
    seen = [draws(FindBounds(), table, law) for table in TABLES.values()]
    assert all(one == seen[0] for one in seen)
    assert [n for _, n, _ in seen[0][0]] == [2 * N_BINS]


def test_bins_that_are_chosen_from_the_data_are_caught():
    class Peeking(FindBounds):
        """Planted: asks only for bins as far out as the table goes."""

        def next_request(self, context, rounds, rng):
            asked = super().next_request(context, rounds, rng)
            if asked is None:
                return None
            n_bins = N_BINS - (len(table) < 10)
            query = recoup.queries.counts.HistogramQuery.one_way(dimension=2, bins=n_bins)
            return type(asked)(query=query, share=asked.share, split=asked.split)

    seen = []
    for table in TABLES.values():
        seen.append(draws(Peeking(), table))
    assert any(a != b for a, b in pairwise(seen))


def unnoised(answered):
    """How many counts of an empty table have no noise."""
    return sum(value == 0 for value in answered.integers)


def test_every_bin_is_noised_the_empty_ones_too(monkeypatch):
    answered = [find_bounds(TABLES["empty"], epsilon=1).transcript.rounds[0] for _ in "ab"]
    assert [unnoised(one) for one in answered] == [0, 0]
    assert sum(a == b for a, b in zip(*(one.integers for one in answered), strict=True)) == 0
    # Planted: a bin without records keeps its zero.
    law = MECHANISMS["laplace"]
    release = type(law).release
    keeps_zeros = lambda *given: [n if t else 0 for n, t in zip(release(*given), given[1], strict=True)]  # noqa: E731
    monkeypatch.setattr(type(law), "release", keeps_zeros)
    assert unnoised(find_bounds(TABLES["empty"], epsilon=1).transcript.rounds[0]) == 2 * N_BINS


@pytest.mark.parametrize("name", TABLES)
def test_no_warning_and_no_error_tells_of_a_record(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(find_bounds(TABLES[name], epsilon=1)) == 2


def test_bounds_are_a_function_of_the_transcript_alone():
    for table in TABLES.values():
        answer = find_bounds(table, epsilon=1)
        again = FoundBounds(recoup.Transcript.from_json(answer.transcript.to_json()))
        assert (again, again.suggested, again.not_found) == (answer, answer.suggested, answer.not_found)


# ---- what is paid ----


@pytest.mark.parametrize("name", TABLES)
def test_the_ledger_is_charged_alike_for_all_tables(name):
    ledger = recoup.Ledger.in_memory(epsilon=1)
    answer = find_bounds(TABLES[name], epsilon="0.3", ledger=ledger)
    assert ledger.spent == answer.transcript.epsilon_spent <= answer.transcript.context.epsilon
    assert float(ledger.spent) == pytest.approx(0.3, abs=1e-12)
    assert len(ledger.entries()) == 1


def test_records_of_a_person_multiply_the_noise():
    scales = [
        find_bounds(TABLES["one"], epsilon=1, records_per_person=n).transcript.rounds[0].scales[0] for n in (1, 5)
    ]
    assert scales[1] == pytest.approx(5 * scales[0])


# ---- an attack: one record at a place where there is none ----


def found_often(n_records, n):
    table = np.full((n_records, 1), 12345.0)
    return sum(not find_bounds(table, epsilon=1, noise="simulated", random_state=s).not_found for s in range(n))


def test_one_record_decides_on_bounds_no_more_often_than_epsilon_allows(monkeypatch):
    # With epsilon 1 the chances of any outcome differ by a factor of e, and an empty table is found to have a range in
    # at most 1e-5 of releases: with one record in at most 2.72e-5. Of 200, 3 and more have a chance below 1e-7.
    assert found_often(1, 200) < 3
    # Planted: thresholds without regard to the noise; half of all releases then say that there is something.
    monkeypatch.setattr(bounds._Noise, "exceeded", lambda self, n, chance: 0.5)
    assert found_often(1, 10) >= 3
