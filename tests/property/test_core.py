"""Properties of the core for whatever records, centres and radii hypothesis finds."""

import json
from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains, even_split, queries, request
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recoup.curator.curator import Curator
from recoup.curator.source import fixed_records, open_source
from recoup.privacy.mechanism import MECHANISMS, SENSITIVITY
from recoup.queries.base import sum_of_contributions
from recoup.queries.cells import VoronoiQuery
from recoup.transcript.transcript import Transcript

dimensions = st.integers(1, 6)
anything = st.floats(allow_nan=True, allow_infinity=True)
units = st.floats(-1, 1)
kinds = st.sampled_from(sorted(domains(1)))
noises = st.sampled_from(sorted(MECHANISMS))


@st.composite
def cases(draw, rows=anything):
    d = draw(dimensions)
    domain = domains(d)[draw(kinds)]
    k = draw(st.integers(1, 4))
    centers = draw(arrays(np.float64, (k, d), elements=st.floats(-2, 2)))
    radii = draw(arrays(np.float64, k, elements=st.floats(2.0**-30, 4)))
    sums = draw(st.sampled_from(["none", "absolute", "relative"]))
    relative = {"radii": radii, "norm": draw(st.sampled_from([1, 2]))} if sums == "relative" else {}
    voronoi = VoronoiQuery(centers=centers, sums=sums, **relative)
    others = [q for name, q in sorted(queries(d).items()) if not name.startswith("voronoi")]
    query = draw(st.sampled_from([voronoi, voronoi, *others]))
    x = draw(arrays(np.float64, (draw(st.integers(0, 12)), d), elements=rows))
    return domain, query, x, MECHANISMS[draw(noises)]


def factors_of(query, domain, mechanism):
    shares = list(even_split(query, domain).values())
    return mechanism.factors(query.sensitivity(domain), mechanism.weights(shares, SENSITIVITY))


@given(cases())
def test_a_contribution_stays_within_the_declared_sensitivity(case):
    domain, query, x, _ = case
    records = fixed_records(x[np.isfinite(x).all(axis=1)], domain)
    rows = query.contribution(records / 2.0**30)
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    start = 0
    for block in query.sensitivity(domain).blocks:
        part = rows[:, start : start + block.size]
        # Real-valued contributions may round up in the last digits; the shaved factors make up for that.
        assert (np.abs(part / block.l1).sum(axis=1) <= 1 + 1e-12).all()
        assert (((part / block.l2) ** 2).sum(axis=1) <= 1 + 1e-12).all()
        start += block.size


@given(cases())
def test_an_integer_contribution_never_exceeds_the_integer_sensitivity(case):
    domain, query, x, mechanism = case
    factors = factors_of(query, domain, mechanism)
    for record in fixed_records(x, domain):
        moved = [abs(int(v)) for v in query.integer_total(record[None], factors)]
        size = sum(moved) if mechanism.norm == 1 else sum(v * v for v in moved)
        assert size <= SENSITIVITY**mechanism.norm


def test_the_bound_on_integers_would_catch_a_factor_that_is_a_little_too_large():
    domain = domains(3)["l1"]
    query = VoronoiQuery(centers=np.zeros((1, 3)))
    factors = factors_of(query, domain, MECHANISMS["laplace"]) * 1.0001
    record = fixed_records(np.array([domain.from_unit([1.0, 0, 0])]), domain)
    assert np.abs(query.integer_total(record, factors)).sum() > SENSITIVITY


@given(cases(), st.randoms(use_true_random=False), st.integers(1, 5))
def test_totals_do_not_depend_on_order_or_chunks_and_duplicates_count_twice(case, random, chunk):
    domain, query, x, mechanism = case
    factors = factors_of(query, domain, mechanism)
    whole = open_source(x, domain).total(query, factors)
    order = random.sample(range(len(x)), len(x))
    assert open_source(x[order], domain).total(query, factors) == whole
    records = fixed_records(x, domain)
    parts = [query.integer_total(records[i : i + chunk], factors) for i in range(0, len(records), chunk)]
    assert sum((p.astype(object) for p in parts), np.zeros(query.size, object)).tolist() == whole
    assert sum_of_contributions(query, records, factors).tolist() == whole
    assert open_source(np.concatenate([x, x]), domain).total(query, factors) == [2 * v for v in whole]


@pytest.mark.parametrize("name", queries(4))
def test_totals_do_not_depend_on_the_number_of_threads(name, monkeypatch):
    domain, query = domains(4)["l1-wide"], queries(4)[name]
    factors = factors_of(query, domain, MECHANISMS["laplace"])
    x = np.random.default_rng(0).normal(1, 4, size=(16_384 * 3 + 5, 4))
    totals = []
    for n_threads in (1, 2, 3):
        monkeypatch.setenv("RECOUP_NUM_THREADS", str(n_threads))
        totals.append(open_source(x, domain).total(query, factors))
    assert totals[0] == totals[1] == totals[2]
    assert totals[0] == open_source(x[::-1].copy(), domain).total(query, factors)


@given(dimensions.flatmap(lambda d: arrays(np.float64, (5, d), elements=units)), kinds)
def test_clipping_is_idempotent_and_rounding_stays_inside(unit, kind):
    domain = domains(unit.shape[1])[kind]
    clipped = domain.clip(unit)
    np.testing.assert_array_equal(domain.clip(clipped), clipped)
    assert domain.contains(clipped).all()
    assert domain.contains(domain.fixed(clipped) / 2.0**30).all()
    inside = domain.from_unit(clipped)
    assert ((inside >= np.array(domain.low)) & (inside <= np.array(domain.high))).all()


@given(cases(), noises, st.integers(1, 2**20), st.fractions("1/1000", 1000, max_denominator=10**6))
@example((domains(1)["box"], queries(1)["grid"], np.empty((0, 1)), None), "laplace", 1, Fraction(1, 3))
def test_json_round_trip_of_a_transcript(case, mechanism, records_per_person, epsilon):
    domain, query, x, _ = case
    assume(mechanism == "laplace" or epsilon > Fraction(1, 20))
    terms = context(domain, mechanism, epsilon, records_per_person=min(records_per_person, 2**10))
    answered = Curator(open_source(x, domain), terms).answer(request(query, domain, Fraction(1, 7)))
    transcript = Transcript(
        context=terms, algorithm={"type": "unknown yet"}, rounds=(answered,), simulated=False, lost=(Fraction(1, 9),)
    )
    value = json.loads(json.dumps(transcript.to_json()))
    again = Transcript.from_json(value)
    assert again.to_json() == transcript.to_json()
    assert again.rounds[0].integers == answered.integers
    np.testing.assert_array_equal(again.rounds[0].noisy, answered.noisy)
    np.testing.assert_array_equal(again.rounds[0].scales, answered.scales)
    assert again.rounds[0].price == answered.price
    assert again.shares_spent == Fraction(1, 7) + Fraction(1, 9)
