"""The audit's attacks succeed against code that is wrong, in this process, and fail on code as it is.

Bugs that are planted in the source itself, one at a time, are tried by `make audit`; here a few are put in place by
hand, so that a change which blinds an attack is noticed at once. Secure noise has no seed: some thirty statistical
findings at 1e-6 each raise about 3e-5 false alarms a run.
"""

import logging
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import recoup.curator.persons
import recoup.curator.source
import recoup.found_bounds
import recoup.transcript.context
from recoup.curator.curator import Curator
from recoup.estimators.base import PrivateEstimator
from recoup.mixed import Mixed
from recoup.privacy.mechanism import Laplace, SecureNoise
from recoup.queries.counts import GridQuery
from recoup_lab.audit.attacks import (
    law,
    loss,
    persons,
    precision,
    releases,
    schemas,
    silence,
    spending,
    strangers,
    subjects,
    unknown_bounds,
)
from recoup_lab.audit.attacks.bounds import PureClaim, lower_bound
from recoup_lab.audit.attacks.effort import ALARM, Effort
from recoup_lab.audit.attacks.mechanisms import query_statistics

pytestmark = pytest.mark.statistical

EFFORT = Effort(quick=True)
LLOYD = "kmeans-lloyd"


@pytest.fixture(autouse=True)
def _few_targets(monkeypatch):
    one = tuple(s for s in subjects.subjects() if s.name == LLOYD)

    def few(mechanism, domain=subjects.BOX):
        d = domain.n_columns
        return {name: subjects.QUERY_EXAMPLES[name](1, d) for name in ("grid", "voronoi")}

    for module in (loss, spending, silence, releases, schemas, persons):
        monkeypatch.setattr(module, "subjects", lambda: one)
    monkeypatch.setattr(loss, "example_queries", few)
    monkeypatch.setattr(law, "queries", few)


def succeeds(attack, name=""):
    """Whether an attack of this name finds something; it is run no further than to its first success."""
    return any(not found.passed and found.attack.startswith(name) for found in attack(EFFORT))


def bound_on_a_count(tries):
    tables = subjects.neighbours(subjects.BOX, rng=EFFORT.rng(0))["zero records against one, far corner"]
    statistics = query_statistics(GridQuery(sides=(2, 1)), subjects.Terms(), tables, tries)
    return lower_bound(*statistics, PureClaim(1.0), ALARM).amount


@pytest.mark.slow
def test_all_attacks_fail_on_the_code_as_it_is():
    for module in (loss, spending, law, precision, schemas, persons, unknown_bounds):
        assert not succeeds(module.attack)
    assert 0.4 < bound_on_a_count(1500) <= 1


def test_half_the_noise_is_caught(monkeypatch):
    properly = Laplace.release
    monkeypatch.setattr(Laplace, "release", lambda self, totals, scale, noise: properly(self, totals, scale / 2, noise))
    for module in (loss, spending, law):
        assert succeeds(module.attack)
    assert bound_on_a_count(1500) > 1


def test_empty_cells_without_noise_are_caught(monkeypatch):
    properly = Laplace.release

    def skipping(self, totals, scale, noise):
        return [v if t else 0 for t, v in zip(totals, properly(self, totals, scale, noise), strict=True)]

    monkeypatch.setattr(Laplace, "release", skipping)
    for module in (spending, law, silence):
        assert succeeds(module.attack)
    assert succeeds(precision.attack, "values more probable")
    assert bound_on_a_count(500) > 1


def test_a_distance_that_ignores_other_records_of_a_person_is_caught(monkeypatch):
    monkeypatch.setattr(recoup.transcript.context.Context, "distance", property(lambda self: self.sensitivity))
    assert succeeds(loss.attack)
    assert succeeds(spending.attack)


def test_noise_that_is_drawn_once_is_caught(monkeypatch):
    rng = np.random.default_rng(0)

    def again(self, totals, scale):
        draws = rng.laplace(scale=scale, size=3)
        return [int(t) + int(draws[i % 3]) for i, t in enumerate(totals)]

    monkeypatch.setattr(SecureNoise, "laplace", again)
    assert succeeds(releases.attack, "noise used twice")
    assert succeeds(spending.attack)


def test_noise_on_a_coarser_grid_is_caught(monkeypatch):
    properly = SecureNoise.laplace

    def coarse(self, totals, scale):
        return [int(t) + (v - int(t)) // 64 * 64 for t, v in zip(totals, properly(self, totals, scale), strict=True)]

    monkeypatch.setattr(SecureNoise, "laplace", coarse)
    assert succeeds(precision.attack, "low-order bits")
    assert succeeds(precision.attack, "every integer")


@pytest.mark.parametrize("leak", ["log", "print", "error"])
def test_what_is_said_about_records_is_caught(leak, monkeypatch):
    properly = recoup.curator.source.fixed_records

    def talking(rows, domain):
        n_missing = int((~np.isfinite(np.asarray(rows)).all(axis=1)).sum())
        if leak == "log":
            logging.getLogger("recoup").debug("%d rows", len(rows))
        elif leak == "print":
            print(f"{n_missing} rows skipped")
        elif n_missing:
            raise ValueError("a row has a missing value")
        return properly(rows, domain)

    monkeypatch.setattr(recoup.curator.source, "fixed_records", talking)
    assert succeeds(silence.attack)


def test_a_term_that_an_estimator_drops_is_caught(monkeypatch):
    properly = PrivateEstimator._terms
    monkeypatch.setattr(PrivateEstimator, "_terms", lambda self: properly(self) | {"records_per_person": 1})
    assert succeeds(spending.attack, "terms by every way in")


@pytest.mark.slow
def test_a_curator_that_does_not_count_shares_is_caught(monkeypatch):
    properly = Curator.answer

    def forgetful(self, request, *noise):
        answered = properly(self, request, *noise)
        self._spent -= request.share
        return answered

    monkeypatch.setattr(Curator, "answer", forgetful)
    assert succeeds(spending.attack, "more than all")


# ---- tables with a schema, persons, bounds that are found ----


def test_categories_that_do_not_count_are_caught(monkeypatch):
    numbers = property(lambda self: tuple(part.reach for part in self.parts if part.kind == "number"))
    monkeypatch.setattr(Mixed, "reaches", numbers)
    assert succeeds(schemas.attack, schemas.LOSS)


def test_a_cell_that_an_error_quotes_is_caught(monkeypatch):
    properly = recoup.curator.tables.categories.Codes._of_text

    def quoting(self, text):
        if (place := properly(self, text)) == self._undeclared:
            raise ValueError(f"{text} is not declared")
        return place

    monkeypatch.setattr(recoup.curator.tables.categories.Codes, "_of_text", quoting)
    assert succeeds(schemas.attack, schemas.SILENCE)


def test_persons_that_share_a_row_are_caught(monkeypatch):
    properly = recoup.curator.persons._NamedPersons.places

    def cut_short(self, keys):
        texts = [bytes(keys.data[start:stop])[:64] for start, stop in pairwise(keys.ends)]
        return properly(self, type(keys).of(pa.array(texts, pa.large_binary())))

    monkeypatch.setattr(recoup.curator.persons._NamedPersons, "places", cut_short)
    assert succeeds(persons.attack, persons.LOSS)
    assert succeeds(persons.attack, persons.ROWS)


def test_means_that_are_rounded_away_from_zero_are_caught(monkeypatch):
    def away(sums, number):
        return (np.sign(sums) * -(-np.abs(sums) // number)).astype(np.int32)

    monkeypatch.setattr(recoup.curator.persons, "_toward_zero", away)
    assert succeeds(persons.attack, persons.ROWS)


def test_bounds_that_are_found_for_nothing_are_caught(monkeypatch):
    properly = recoup.found_bounds.find_bounds
    monkeypatch.setattr(
        recoup.found_bounds, "find_bounds", lambda *given, **terms: properly(*given, **(terms | {"ledger": None}))
    )
    assert succeeds(unknown_bounds.attack, unknown_bounds.PRICE)


def test_a_stranger_in_the_curators_process_is_caught(monkeypatch):
    monkeypatch.setattr("recoup.isolation.process.OWN", frozenset([strangers.Walker]))
    assert succeeds(strangers.attack)
    monkeypatch.undo()
    assert not succeeds(strangers.attack)
