"""Which transcripts may be continued, by which ledger, and what of them is known to be paid for."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from recoup import Box, KMeans, Ledger
from recoup.errors import ContinuationError, ParameterError, TranscriptError
from recoup.privacy.price import Price
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context
from recoup.transcript.continuation import continued
from recoup.transcript.round import Round
from recoup.transcript.transcript import Payment, Transcript

RUN = "0" * 32
TERMS = Context(domain=Box([0, 0], [1, 1]), epsilon=1)


def saved(path, **changes):
    """A transcript of one of two rounds in a file."""
    old = Transcript(context=TERMS, algorithm=KMeans(n_clusters=2).to_json(), simulated=False)
    old = replace(old, rounds=(answered(),), **changes)
    old.save(path)
    return old


def answered():
    return Round.of(
        TERMS,
        query=GridQuery(sides=(2, 1)),
        integers=(1, 2),
        weights=(2**30,),
        scale=2.0**32,
        price=Price(measure="pure", amount=Fraction(1, 4)),
        share=Fraction(1, 4),
    )


def fresh(old, **changes):
    return replace(old, rounds=(), lost=(), pending=None, **changes)


def charged(*amounts):
    ledger = Ledger.in_memory(epsilon=9)
    for amount in amounts:
        ledger.charge(Price(measure="pure", amount=Fraction(amount)), purpose="round", run=RUN)
    return ledger, Payment(ledger.identifier, RUN)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.json"


def test_without_a_file_it_begins(path):
    begun = Transcript(context=TERMS, algorithm={}, simulated=False)
    assert continued(path, begun, None) == (begun, 0)
    with pytest.raises(ParameterError, match="resume=True needs the path"):
        continued(None, begun, None)


def test_without_a_ledger_nothing_is_charged(path):
    old = saved(path)
    again, n_charged = continued(path, fresh(old), None)
    assert (again.to_json(), n_charged) == (old.to_json(), 0)


def test_what_was_pending_is_lost_and_the_file_says_so_at_once(path):
    old = saved(path, lost=(Fraction(1, 16),), pending=Fraction(1, 8))
    again, _ = continued(path, fresh(old), None)
    assert (again.lost, again.pending) == ((Fraction(1, 16), Fraction(1, 8)), None)
    assert Transcript.load(path).to_json() == again.to_json()


@pytest.mark.parametrize(
    "other",
    [
        {"algorithm": KMeans(n_clusters=3).to_json()},
        {"simulated": True},
        {"context": replace(TERMS, epsilon=2)},
        {"context": replace(TERMS, csv_dialect="lines")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_terms_are_refused(path, other):
    old = saved(path)
    with pytest.raises(TranscriptError, match="released under other terms"):
        continued(path, fresh(old, **other), None)


def test_imported_answers_cannot_be_continued(path):
    made = Round.of_imported(TERMS, query=GridQuery(sides=(2, 1)), noisy=np.ones(2), scales=1.0)
    imported = Transcript(context=TERMS, algorithm={}, rounds=(made,), simulated=False)
    imported.save(path)
    with pytest.raises(TranscriptError, match="was made elsewhere: it can be read, and not continued"):
        continued(path, fresh(imported), None)
    # Whoever wrote the file may claim that somebody paid: nobody here knows.
    assert "counted" not in replace(imported, payment=Payment()).privacy
    assert "counted" in replace(imported, payment=Payment(), rounds=()).privacy


def test_a_file_that_does_not_say_who_paid_is_read_only_if_all_is_spent(path):
    old = saved(path, payment=None)
    with pytest.raises(TranscriptError, match="written by an earlier version"):
        continued(path, fresh(old), None)
    whole = saved(path, payment=None, lost=(Fraction(3, 4),))
    assert continued(path, fresh(whole), None)[1] == 0
    assert continued(path, fresh(whole), Ledger.in_memory(epsilon=1))[1] == 0


def test_before_dialects_csv_was_read_by_lines(path):
    lines = replace(TERMS, csv_dialect="lines")
    whole = saved(path, payment=None, lost=(Fraction(3, 4),))
    assert continued(path, fresh(whole, context=lines), None)[0].context == lines
    quoted = replace(whole, context=replace(TERMS, csv_dialect="rfc4180"))
    quoted.save(path)
    with pytest.raises(TranscriptError, match="other terms"):
        continued(path, fresh(whole, context=lines), None)


def test_the_ledger_that_began_it_goes_on(path):
    ledger, payment = charged("1/4")
    old = saved(path, payment=payment)
    assert continued(path, fresh(old), ledger)[1] == 1
    with pytest.raises(ContinuationError, match=f"paid for by the ledger with the identifier {payment.ledger}. "):
        continued(path, fresh(old), None)
    other, _ = charged()
    with pytest.raises(ContinuationError, match=f"and this one has {other.identifier}"):
        continued(path, fresh(old), other)
    old = saved(path)
    with pytest.raises(ContinuationError, match="begun without a ledger"):
        continued(path, fresh(old), ledger)


def test_a_round_that_was_charged_and_lost_is_known(path):
    ledger, payment = charged("1/4", "1/8")
    for known in ({"pending": Fraction(1, 8)}, {"lost": (Fraction(1, 8),)}):
        old = saved(path, payment=payment, **known)
        assert continued(path, fresh(old), ledger)[1] == 2


@pytest.mark.parametrize("amounts", [("1/8", "1/8"), ("1/2",)], ids=["more rounds", "a larger amount"])
def test_more_charges_than_are_known_mean_another_copy(path, amounts):
    ledger, payment = charged(*amounts)
    old = saved(path, payment=payment)
    with pytest.raises(ContinuationError, match="another copy of it was continued"):
        continued(path, fresh(old), ledger)


def test_fewer_charges_than_rounds_mean_an_older_ledger(path):
    ledger, payment = charged()
    old = saved(path, payment=payment)
    with pytest.raises(ContinuationError, match="an older copy of the ledger"):
        continued(path, fresh(old), ledger)
