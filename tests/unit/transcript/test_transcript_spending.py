"""What a transcript has spent: answered, lost, pending, or claimed by somebody else."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from cases import context, queries, request

from recoup import Box
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import TranscriptError
from recoup.privacy.gaussian import epsilon_of
from recoup.privacy.statement import NOT_COUNTED
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript
from recoup.version import __version__


def terms_of(answered, terms, **more):
    return Transcript(context=terms, algorithm={"type": "x"}, rounds=answered, simulated=False, **more)


def test_what_is_spent_by_hand():
    domain = Box([0, 0], [1, 1], ("a", "b"))
    terms = context(domain, epsilon="4", records_per_person=2)
    curator = Curator(open_source(pa.table({"a": [0.0], "b": [0.0]}), domain), terms)
    query = queries(2)["grid"]
    answered = tuple(curator.answer(request(query, domain, Fraction(1, 8))) for _ in range(2))
    plain = terms_of(answered, terms)
    assert (plain.shares_spent, plain.amount_spent, plain.epsilon_spent) == (Fraction(1, 4), 1, 1)
    lost = terms_of(answered, terms, lost=(Fraction(1, 8), Fraction(1, 16)))
    assert (lost.shares_spent, lost.amount_spent, lost.epsilon_spent) == (
        Fraction(7, 16),
        Fraction(7, 4),
        Fraction(7, 4),
    )
    pending = terms_of(answered, terms, pending=Fraction(1, 8))
    assert (pending.shares_spent, pending.amount_spent) == (Fraction(3, 8), Fraction(3, 2))
    both = terms_of(answered, terms, lost=(Fraction(1, 8),), pending=Fraction(1, 16))
    assert (both.shares_spent, both.amount_spent) == (Fraction(7, 16), Fraction(7, 4))
    empty = terms_of((), terms)
    assert (empty.shares_spent, empty.amount_spent, empty.epsilon_spent, empty.imported) == (0, 0, 0, False)
    assert plain.privacy == {
        "statement": "differentially private",
        "epsilon": 4.0,
        "delta": 0.0,
        "neighbours": "add-remove-one-record",
        "unit": "2 records of one person",
        "csv_dialect": None,
        "bounds": {"low": [0.0, 0.0], "high": [1.0, 1.0], "columns": ("a", "b")},
        "domain": "box",
        "mechanism": "laplace",
        "noise": "secure",
        "spent": 1.0,
        "counted": NOT_COUNTED,
        "version": __version__,
    }
    assert replace(plain, simulated=True).privacy["noise"] == "simulated"
    assert terms_of((), context(domain)).privacy["unit"] == "one record"


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp"])
def test_gaussian_rounds_are_added_up_as_rho_and_shown_as_epsilon(accounting):
    domain = Box([0, 0], [1, 1])
    terms = replace(context(domain, "gaussian"), accounting=accounting)
    answered = Curator(open_source(np.zeros((1, 2)), domain), terms).answer(
        request(queries(2)["grid"], domain, Fraction(1, 2))
    )
    found = terms_of((answered,), terms, lost=(Fraction(1, 4),))
    assert found.amount_spent == answered.price.amount + terms.budget.amount / 4
    assert found.epsilon_spent == epsilon_of(accounting, found.amount_spent, terms.delta)
    assert Transcript.from_json(found.to_json()).epsilon_spent == found.epsilon_spent
    whole = terms_of((), terms, lost=(Fraction(1),))
    assert whole.privacy["spent"] == 1.0


def test_a_round_that_is_answered_is_no_longer_pending(transcript):
    waiting = replace(transcript, rounds=transcript.rounds[:1], pending=Fraction(1, 2))
    after = waiting.with_round(transcript.rounds[1])
    assert after.pending is None
    assert after.rounds == transcript.rounds


def test_rounds_of_two_kinds_do_not_mix(transcript):
    query = queries(2)["grid"]
    stated = Round.of_imported(transcript.context, query=query, noisy=np.ones(query.size), scales=1.0)
    with pytest.raises(TranscriptError, match="do not mix"):
        transcript.with_round(stated)
    claimed = replace(transcript, rounds=()).with_round(stated)
    assert claimed.imported
    assert (claimed.shares_spent, claimed.amount_spent, claimed.epsilon_spent) == (1, 1, 1)
    assert claimed.with_round(stated).rounds == (stated, stated)
    with pytest.raises(TranscriptError, match="do not mix"):
        claimed.with_round(transcript.rounds[0])


def test_what_is_imported_counts_with_the_whole_claim():
    terms = context(Box([0, 0], [1, 1]), "gaussian", epsilon="2")
    query = queries(2)["grid"]
    claimed = terms_of((Round.of_imported(terms, query=query, noisy=np.ones(query.size), scales=1.0),), terms)
    assert (claimed.amount_spent, claimed.epsilon_spent) == (terms.budget.amount, 2)
    assert claimed.privacy["noise"] == "unverified"
    replaced = Transcript.from_json(replace(claimed, neighbours="replace-one-record").to_json())
    assert (replaced.neighbours, replaced.imported) == ("replace-one-record", True)
    assert (claimed.to_json()["schema_version"], transcript_version(terms)) == (2, 4)
    assert transcript_version(replace(terms, accounting="zcdp")) == 3


def transcript_version(terms):
    return terms_of((), terms).to_json()["schema_version"]
