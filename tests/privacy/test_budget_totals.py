"""What a transcript spent, priced anew by OpenDP's map: never more than asked, and hardly less."""

import math
from fractions import Fraction

import numpy as np
import pytest
from cases import RecordingNoise, context, domains, queries, request
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features
from scipy.stats import norm

from recoup import GridKMeans, HybridKMeans, KMeans, Ledger, release
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import BudgetExceededError
from recoup.privacy.mechanism import SENSITIVITY

enable_features("contrib")
TOLERANCE = Fraction(1, 10**9)
INTEGERS = vector_domain(atom_domain(T="i64"))
MECHANISMS = ("laplace", "gaussian")


def price_of(mechanism, scale, records_per_person):
    """OpenDP's price of noise of a scale, for totals that one record moves by 2^30."""
    distance = SENSITIVITY * records_per_person
    if mechanism == "laplace":
        return Fraction(make_laplace(INTEGERS, l1_distance(T="i64"), scale=scale).map(distance))
    return Fraction(make_gaussian(INTEGERS, l2_distance(T="f64"), scale=scale).map(float(distance)))


def exact_price_of(mechanism, scale, records_per_person):
    """The textbook's price, without any rounding."""
    ratio = SENSITIVITY * records_per_person / Fraction(scale)
    return ratio if mechanism == "laplace" else ratio**2 / 2


def spends_what_was_asked(mechanism, scales, asked, records_per_person=1):
    total = sum(price_of(mechanism, scale, records_per_person) for scale in scales)
    exact = sum(exact_price_of(mechanism, scale, records_per_person) for scale in scales)
    return exact <= total <= asked and total >= asked * (1 - TOLERANCE)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("d", [1, 2, 3, 10, 37, 100, 200])
def test_rounds_add_up_for_every_domain_and_query(mechanism, d):
    for domain in domains(d).values():
        terms = context(domain, mechanism, "0.7")
        for name, query in queries(d, k=5).items():
            n_rounds = 7 if name == "voronoi-absolute" else 3
            curator = Curator(open_source(np.zeros((1, d)), domain), terms)
            noise = RecordingNoise()
            rounds = [curator.answer(request(query, domain, Fraction(1, n_rounds)), noise) for _ in range(n_rounds)]
            scales = [answered.scale for answered in rounds]
            assert spends_what_was_asked(mechanism, scales, terms.budget.amount)
            assert [r.price.amount for r in rounds] == [price_of(mechanism, s, 1) for s in scales]
            with pytest.raises(BudgetExceededError):
                curator.answer(request(query, domain, Fraction(1, 10**6)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", ["0.05", "0.1", "1", "3.7", "1000000"])
@pytest.mark.parametrize(("k", "n_rounds", "records_per_person"), [(1, 1, 1), (3, 5, 7), (20, 11, 1000)])
def test_a_release_adds_up(mechanism, epsilon, k, n_rounds, records_per_person):
    domain = domains(2)["box"]
    terms = context(domain, mechanism, epsilon, records_per_person=records_per_person)
    transcript = release(
        KMeans(n_clusters=k, n_rounds=n_rounds),
        np.zeros((2, 2)),
        domain=domain,
        epsilon=epsilon,
        delta=terms.delta,
        records_per_person=records_per_person,
    )
    scales = [answered.scale for answered in transcript.rounds]
    assert spends_what_was_asked(mechanism, scales, terms.budget.amount, records_per_person)
    assert transcript.amount_spent <= terms.budget.amount
    assert transcript.epsilon_spent <= Fraction(epsilon)
    if mechanism == "gaussian":
        mu = math.sqrt(2 * terms.budget.amount)
        assert delta_of(mu, float(epsilon)) <= float(terms.delta)
        # With 1% less noise than that, it would not be kept.
        assert delta_of(1.01 * mu, float(epsilon)) > float(terms.delta)


def delta_of(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", ["0.05", "0.1", "0.25", "1", "3.7"])
@pytest.mark.parametrize("algorithm", [GridKMeans(n_clusters=3), HybridKMeans(n_clusters=3)], ids=["grid", "hybrid"])
@pytest.mark.parametrize("n_records", [None, 1, 5000])
def test_a_grid_adds_up_with_or_without_its_other_rounds(mechanism, epsilon, algorithm, n_records):
    for d in (1, 4):
        domain = domains(d)["l1"]
        terms = context(domain, mechanism, epsilon)
        ledger = Ledger.in_memory(epsilon=5, delta=terms.delta)
        transcript = release(
            algorithm,
            np.zeros((2, d)),
            domain=domain,
            epsilon=epsilon,
            delta=terms.delta,
            n_records=n_records,
            ledger=ledger,
            noise="simulated",
        )
        scales = [answered.scale for answered in transcript.rounds]
        assert spends_what_was_asked(mechanism, scales, terms.budget.amount)
        assert sum(answered.share for answered in transcript.rounds) == 1
        assert sum(entry.amount for entry in ledger.entries()) == transcript.amount_spent
        assert transcript.epsilon_spent <= Fraction(epsilon)


def test_a_declared_number_of_records_above_two_to_the_31_costs_the_same():
    domain = domains(2)["l1"]
    transcript = release(KMeans(n_clusters=2), np.zeros((2, 2)), domain=domain, epsilon="0.3", n_records=2**34)
    assert transcript.context.distance == 2**27
    exact = sum(2**27 / Fraction(answered.scale) for answered in transcript.rounds)
    assert exact <= transcript.amount_spent <= Fraction(3, 10)
    assert exact >= Fraction(3, 10) * (1 - TOLERANCE)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("factor", [1 - 1e-8, 1 + 1e-8, 0.9, 2.0])
def test_a_scale_that_is_a_little_wrong_would_be_caught(mechanism, factor):
    domain = domains(2)["box"]
    terms = context(domain, mechanism)
    transcript = release(KMeans(n_clusters=2), np.zeros((2, 2)), domain=domain, epsilon=1, delta=terms.delta)
    scales = [answered.scale * factor for answered in transcript.rounds]
    assert not spends_what_was_asked(mechanism, scales, terms.budget.amount)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_ledger_is_charged_what_the_transcript_says(mechanism):
    domain = domains(2)["box"]
    terms = context(domain, mechanism)
    ledger = Ledger.in_memory(epsilon=2, delta=terms.delta)
    transcript = release(
        KMeans(n_clusters=2), np.zeros((2, 2)), domain=domain, epsilon=1, delta=terms.delta, ledger=ledger
    )
    assert [entry.amount for entry in ledger.entries()] == [r.price.amount for r in transcript.rounds]
    assert ledger.spent <= 1
