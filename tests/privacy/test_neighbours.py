"""Neighbouring tables: how far exact totals move, how much noise is drawn, what else differs, what an attacker sees.

Sensitivity is brute force at the corners of every domain, in exact integers. The empirical test draws from the
simulated twin of the noise (the same law, see tests/statistical) and bounds epsilon from below with a confidence of
1 - ALPHA for every bound, about 30 bounds a run.
"""

import itertools
import json
import warnings
from fractions import Fraction

import numpy as np
import pytest
from cases import ALPHA, RecordingNoise, context, domains, extreme_rows, queries, request
from scipy.stats import beta

import recoup.curator.source
from recoup import Box, KMeans, Ledger, PrivateKMeans, release
from recoup._random import stream
from recoup.curator.curator import Curator
from recoup.curator.source import fixed_records, open_source
from recoup.errors import DoubtfulResult
from recoup.inference.judge import judge
from recoup.kernels.fixed_point import DROPPED
from recoup.privacy.mechanism import MECHANISMS, SENSITIVITY, Laplace, SimulatedNoise
from recoup.queries.base import Sensitivity
from recoup.queries.cells import VoronoiQuery
from recoup.transcript.context import Request

SPLITS = [Fraction(1, 2), Fraction(1, 10), Fraction(96, 100)]


def largest_move(query, domain, mechanism, first_share, factor=1.0):
    """The largest change of the integer totals over neighbours, as a fraction of the integer sensitivity (squared)."""
    sensitivity = query.sensitivity(domain)
    n_other = len(sensitivity.blocks) - 1
    shares = [first_share] + [(1 - first_share) / n_other] * n_other if n_other else [Fraction(1)]
    factors = mechanism.factors(sensitivity, mechanism.weights(shares, SENSITIVITY)) * factor
    rows, largest = extreme_rows(domain), 0
    for base in (rows[:0], rows[:1], rows):
        before = open_source(base, domain).total(query, factors)
        for row in rows:
            after = open_source(np.concatenate([base, row[None]]), domain).total(query, factors)
            moved = [abs(a - b) for a, b in zip(after, before, strict=True)]
            size = sum(moved) if mechanism.norm == 1 else sum(v * v for v in moved)
            largest = max(largest, Fraction(size, SENSITIVITY**mechanism.norm))
    return largest


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("domain_name", domains(1))
@pytest.mark.parametrize("d", [1, 2, 3])
def test_totals_of_neighbours_differ_by_at_most_the_sensitivity(mechanism, domain_name, d):
    domain = domains(d)[domain_name]
    for name, query in queries(d).items():
        for share in SPLITS if name.startswith("voronoi") else SPLITS[:1]:
            assert largest_move(query, domain, MECHANISMS[mechanism], share) <= 1, name


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("domain_name", ["box", "l1", "l2"])
def test_the_sensitivity_is_attained_and_a_factor_a_little_too_large_is_caught(mechanism, domain_name):
    domain, query = domains(3)[domain_name], queries(3)["voronoi-absolute"]
    if (mechanism, domain_name) == ("gaussian", "l1"):
        domain = domains(3)["l2"]
    assert largest_move(query, domain, MECHANISMS[mechanism], Fraction(1, 2)) > 1 - 1e-6
    assert largest_move(query, domain, MECHANISMS[mechanism], Fraction(1, 2), factor=1.0001) > 1


@pytest.mark.parametrize("domain_name", ["l1", "l1-tight", "l2", "l2-tight"])
def test_records_that_are_not_clipped_are_caught(domain_name, monkeypatch):
    domain, query = domains(3)[domain_name], queries(3)["voronoi-absolute"]
    # The planted bug: bounds are respected, the projection is forgotten.
    unclipped = Box(domain.low, domain.high)
    monkeypatch.setattr(recoup.curator.source, "fixed_records", lambda rows, domain: fixed_records(rows, unclipped))
    assert largest_move(query, domain, MECHANISMS["laplace"], Fraction(1, 2)) > 1


def test_a_record_that_is_not_finite_moves_nothing():
    domain = domains(2)["l1"]
    rows = np.array([[np.nan, 0], [0, np.inf], [-np.inf, np.nan]])
    assert (fixed_records(rows, domain)[:, 0] == DROPPED).all()
    for query in queries(2).values():
        factors = np.full(query.size, 1000.0)
        assert open_source(rows, domain).total(query, factors) == [0] * query.size


TABLES = {
    "empty": np.empty((0, 2)),
    "one": np.array([[0.2, 0.3]]),
    "two": np.array([[0.2, 0.3], [0.9, 0.1]]),
    "missing": np.array([[np.nan, 0.3], [0.9, 0.1]]),
    "far": np.array([[1e300, -1e300], [np.inf, 0.0]]),
    "equal": np.full((50, 2), 0.5),
    "many": np.random.default_rng(0).uniform(size=(40_000, 2)),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", queries(2))
def test_neighbours_draw_equally_many_noises_for_every_value(mechanism, name):
    domain, query = Box([0, 0], [1, 1]), queries(2)[name]
    draws = []
    for table in TABLES.values():
        noise = RecordingNoise()
        Curator(open_source(table, domain), context(domain, mechanism)).answer(request(query, domain), noise)
        draws.append(noise.draws)
        assert [n for _, n, _ in noise.draws] == [query.size]
    assert all(d == draws[0] for d in draws)


def test_every_cell_is_noised_the_empty_ones_too():
    domain = Box([0, 0], [1, 1])
    query = VoronoiQuery(centers=np.full((30, 2), 5.0) + np.arange(30)[:, None])
    answers = [
        Curator(open_source(TABLES["empty"], domain), context(domain)).answer(request(query, domain)) for _ in "ab"
    ]
    for a, b in zip(answers[0].integers, answers[1].integers, strict=True):
        assert a != 0
        assert a != b


def structure(value):
    if isinstance(value, dict):
        return {name: structure(item) for name, item in value.items()}
    if isinstance(value, list):
        return [structure(item) for item in value]
    return type(value).__name__


@pytest.mark.parametrize("terms", [{}, {"delta": 1e-6}], ids=["laplace", "gaussian"])
def test_nothing_but_noisy_values_depends_on_the_records(terms, tmp_path, capfd):
    seen = []
    for name, table in TABLES.items():
        path, rounds = tmp_path / f"{name}.json", []
        ledger = Ledger.in_memory(epsilon=2, delta=terms.get("delta", 0))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            transcript = release(
                KMeans(n_clusters=4, n_rounds=3),
                table,
                domain=Box([0, 0], [1, 1]),
                epsilon=1,
                random_state=7,
                path=path,
                ledger=ledger,
                on_round=rounds.append,
                **terms,
            )
            model = PrivateKMeans(n_clusters=4, epsilon=1, bounds=(0, 1), postprocess="none", **terms).fit(table)
        others = [w for w in caught if w.category is not DoubtfulResult]
        entries = [(e.purpose, e.measure, e.amount) for e in ledger.entries()]
        value = json.loads(path.read_text())
        public = [{k: v for k, v in r.items() if k not in ("noisy", "query")} for r in value.pop("rounds")]
        value.pop("checksum")
        value.pop("payment")  # names that are drawn anew for every run
        first = transcript.rounds[0].query.to_json()
        attributes = {a: structure(v) if isinstance(v, dict | list) else str(type(v)) for a, v in vars(model).items()}
        seen.append(
            (
                structure(json.loads(path.read_text())),
                value,
                public,
                first,
                rounds,
                entries,
                len(others),
                capfd.readouterr(),
                attributes,
            )
        )
        assert model.cluster_centers_.shape == (4, 2)
        assert ((model.cluster_centers_ >= 0) & (model.cluster_centers_ <= 1)).all()
        assert not others
        # What is said of a result is a function of what was released, and of nothing else.
        verdict = judge(model.transcript_, model.inferred_, model.cluster_centers_)
        said = [str(w.message) for w in caught if w.category is DoubtfulResult]
        assert said == [f"{verdict.sentence} {verdict.rests_on}"] * (not verdict.good)
    assert all(s == seen[0] for s in seen)


def test_errors_are_the_same_for_every_table():
    def refused(table, **terms):
        try:
            PrivateKMeans(
                **({"n_clusters": 2, "epsilon": 1, "bounds": (0, 1), "ledger": Ledger.in_memory(epsilon="0.5")} | terms)
            ).fit(table)
        except Exception as error:
            return type(error), str(error)
        return None

    amounts = ({}, {"epsilon": -1}, {"epsilon": None})
    for terms in (*amounts, {"bounds": (1, 0)}, {"bounds": ([0] * 3, [1] * 3)}, {"n_clusters": 2**20}):
        errors = [refused(table, **terms) for table in TABLES.values()]
        assert errors[0] is not None
        assert all(e == errors[0] for e in errors)


def test_a_canary_record_is_nowhere_but_in_the_noise(tmp_path, capfd):
    canary, path = 123.456789, tmp_path / "t.json"
    table = np.full((3, 2), canary)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=2)
    terms = {
        "domain": Box([0, 0], [1000, 1000]),
        "epsilon": 1,
        "path": path,
        "ledger": ledger,
        "random_state": 987654321,
    }
    transcript = release(KMeans(n_clusters=2), table, **terms)
    model = PrivateKMeans(n_clusters=2, epsilon=1, bounds=(0, 1000), ledger=ledger, postprocess="none").fit(table)
    unit = 2 * canary / 1000 - 1
    texts = [
        path.read_text(),
        repr(transcript),
        str(transcript),
        repr(model),
        str(vars(model)),
        json.dumps(ledger.export()),
    ]
    texts += [*capfd.readouterr()]
    for text in texts:
        for secret in (str(canary), f"{unit:.6f}", str(int(unit * 2**30)), "987654321"):
            assert secret not in text


def test_simulated_streams_repeat_for_a_seed_and_differ_between_rounds():
    def draw(seed, n):
        return tuple(SimulatedNoise(stream(seed, 1, n)).laplace([0] * 20, 1e6))

    assert len({draw(seed, n) for seed, n in itertools.product((0, 1), range(5))}) == 10
    assert draw(0, 3) == draw(0, 3)
    harmless = [tuple(stream(0, 0, n).standard_normal(5)) for n in range(5)]
    assert len(set(harmless)) == 5


def test_secure_noise_never_repeats_whatever_the_random_state():
    table = TABLES["one"]

    def noisy():
        transcript = release(
            KMeans(n_clusters=2, n_rounds=3), table, domain=Box([0, 0], [1, 1]), epsilon=1, random_state=3
        )
        return [r.integers for r in transcript.rounds]

    rounds = noisy() + noisy()
    assert len(set(rounds)) == len(rounds)


# ---- what an attacker who sees the noisy answer can tell ----

DRAWS = 100_000
CLAIM = 1.0
ATTACKED = Box([-1, -1, -1], [1, 1, 1])
TARGET = np.array([[0.98, 0.99, 1.0]])


def empirical_epsilon(seed, epsilon=CLAIM):
    """A lower bound of epsilon from draws of the answers of two neighbours: no record, and the target alone.

    Events are level sets of the claimed likelihood ratio, and each value being exactly what it is without noise. Half
    of the draws pick the event, the others price it with Clopper-Pearson bounds, so picking costs no confidence.
    """
    query = VoronoiQuery(centers=np.array([[0.5, 0.5, 0.5], [-0.5, -0.5, -0.5]]))
    split = {"count": Fraction(3, 4), "sum": Fraction(1, 4)}
    samples, exact = [], []
    for i, table in enumerate((TARGET[:0], TARGET)):
        noise = RecordingNoise(seed + i)
        curator = Curator(open_source(table, ATTACKED), context(ATTACKED, epsilon=str(epsilon)))
        curator.answer(Request(query=query, share=Fraction(1), split=split), noise)
        (_, totals, scale) = noise.calls[0]
        exact.append(np.array(totals, dtype=float))
        draws = Laplace().release(totals * DRAWS, scale, SimulatedNoise(np.random.default_rng([seed, i])))
        samples.append(np.array(draws, dtype=float).reshape(DRAWS, len(totals)))
    ratios = [(np.abs(s - exact[0]) - np.abs(s - exact[1])).sum(axis=1) / scale for s in samples]
    levels = np.quantile(ratios[1], np.linspace(0.02, 0.98, 25))
    events = [r[:, None] >= levels for r in ratios]
    atoms = [np.concatenate([s == exact[0], s == exact[1]], axis=1) for s in samples]
    hits = [np.concatenate([e, ~e, a, ~a], axis=1) for e, a in zip(events, atoms, strict=True)]
    half, best = DRAWS // 2, 0.0
    for one, other in (hits, hits[::-1]):
        chosen = int(np.argmax(lower_bound(one[:half].sum(axis=0), other[:half].sum(axis=0), half)))
        best = max(best, float(lower_bound(one[half:, chosen].sum(), other[half:, chosen].sum(), half)))
    return best


def lower_bound(hits, misses, n):
    """log(p / q), p from below and q from above, each with confidence 1 - ALPHA / 2."""
    p = np.where(hits > 0, beta.ppf(ALPHA / 2, np.maximum(hits, 1), n - hits + 1), 0.0)
    q = np.where(misses < n, beta.ppf(1 - ALPHA / 2, misses + 1, np.maximum(n - misses, 1)), 1.0)
    return np.log(np.maximum(p, 1e-300) / q)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [0, 10])
def test_an_attack_stays_below_the_claim_and_is_sharp(seed):
    bound = empirical_epsilon(seed)
    assert bound <= CLAIM
    assert bound > 0.6 * CLAIM


@pytest.mark.statistical
def test_an_attack_catches_half_the_noise(monkeypatch):
    release_properly = Laplace.release
    monkeypatch.setattr(
        Laplace, "release", lambda self, totals, scale, noise: release_properly(self, totals, scale / 2, noise)
    )
    assert empirical_epsilon(0) > CLAIM


@pytest.mark.statistical
def test_an_attack_catches_empty_cells_without_noise(monkeypatch):
    release_properly = Laplace.release

    def skipping(self, totals, scale, noise):
        return [n if t else 0 for t, n in zip(totals, release_properly(self, totals, scale, noise), strict=True)]

    monkeypatch.setattr(Laplace, "release", skipping)
    assert empirical_epsilon(0) > CLAIM


@pytest.mark.statistical
def test_an_attack_catches_swapped_shares(monkeypatch):
    # Counts are scaled by the sums' part of the budget and their sensitivity, and sums by the counts'.
    factors_properly = Laplace.factors

    def swapped(self, sensitivity, weights):
        count, total = factors_properly(self, sensitivity, weights)[[0, -1]]
        return np.repeat([total, count], [block.size for block in sensitivity.blocks])

    monkeypatch.setattr(Laplace, "factors", swapped)
    assert empirical_epsilon(0) > CLAIM


@pytest.mark.statistical
def test_an_attack_catches_sums_with_the_sensitivity_of_counts(monkeypatch):
    factors_properly = Laplace.factors

    def careless(self, sensitivity, weights):
        count, total = sensitivity.blocks
        wrong = type(total)(name=total.name, size=total.size, l1=np.ones(total.size), l2=np.ones(total.size))
        return factors_properly(self, Sensitivity((count, wrong)), weights)

    monkeypatch.setattr(Laplace, "factors", careless)
    assert empirical_epsilon(0) > CLAIM
