"""A run is continued under the ledger that it began with, and once: nothing is paid elsewhere, or spent twice.

Each refusal must come before anything is charged or drawn, leave the transcript as it was, and say what to do. At the
end the same attacks run against a driver without the checks, and must then spend more than was promised.
"""

import json
import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import recoup.transcript.continuation
from recoup import Box, KMeans, Ledger, PrivateKMeans, Transcript, release
from recoup.cli.app import app
from recoup.errors import ContinuationError, FileInUseError, TranscriptError
from recoup.privacy.gaussian import amount_of, epsilon_of
from recoup.privacy.mechanism import SecureNoise
from recoup.transcript.context import Context
from recoup.transcript.transcript import Payment

EPSILON, N_ROUNDS = Fraction(1, 2), 4
X = np.random.default_rng(0).uniform(size=(60, 2))
BOX = Box([0, 0], [1, 1])
GOLDEN = Path(__file__).parents[1] / "golden"


class Stop(Exception):
    """Ends a release after a round, as a crash would."""


def run(path, ledger, *, stop_after=None, resume=False, **terms):
    def on_round(n):
        if n == stop_after:
            raise Stop

    algorithm, given = KMeans(n_clusters=2, n_rounds=N_ROUNDS), {"domain": BOX, "epsilon": EPSILON} | terms
    return release(algorithm, X, path=path, ledger=ledger, resume=resume, on_round=on_round, **given)


def begin(path, ledger, n_rounds=2):
    with pytest.raises(Stop):
        run(path, ledger, stop_after=n_rounds)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "l.db", epsilon=2)


@pytest.fixture
def drawn(monkeypatch):
    """The scales of all draws."""
    scales, proper = [], SecureNoise.laplace

    def laplace(self, totals, scale):
        scales.append(scale)
        return proper(self, totals, scale)

    monkeypatch.setattr(SecureNoise, "laplace", laplace)
    return scales


@pytest.mark.parametrize("paid", [True, False])
def test_what_was_begun_in_zcdp_goes_on_in_zcdp(paid, tmp_path, monkeypatch):
    """Of an earlier version, or under a ledger of one: the whole stays within what was promised then."""
    path, delta = tmp_path / "t.json", Fraction(1, 10**6)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=EPSILON, delta=delta, accounting="zcdp") if paid else None
    with monkeypatch.context() as earlier:
        if not paid:
            earlier.setattr("recoup.driver.Context", partial(Context, accounting="zcdp"))
        with pytest.raises(Stop):
            run(path, ledger, stop_after=2, delta=delta)
    begun = json.loads(path.read_text())
    assert (begun["schema_version"], "accounting" in begun["context"]) == (3, False)
    whole = run(path, ledger, resume=True, delta=delta)
    most = amount_of("zcdp", EPSILON, delta)
    assert {r.price.measure for r in whole.rounds} == {"zcdp"}
    assert most * (1 - Fraction(1, 10**9)) < sum(r.price.amount for r in whole.rounds) <= most
    assert epsilon_of("zcdp", whole.amount_spent, delta) == whole.epsilon_spent <= EPSILON
    assert json.loads(path.read_text())["schema_version"] == 3
    if ledger is not None:
        assert {entry.measure for entry in ledger.entries()} == {"zcdp"}
        assert ledger.spent <= EPSILON
    # Half of an exact budget on top of half of one in zCDP would be more than the latter allows.
    exact = amount_of("gaussian", EPSILON, delta)
    assert most / 2 + exact / 2 > most * Fraction(105, 100)


def test_an_exact_release_uses_up_an_exact_ledger_and_is_continued(tmp_path):
    path, delta = tmp_path / "t.json", Fraction(1, 10**6)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=EPSILON, delta=delta)
    with pytest.raises(Stop):
        run(path, ledger, stop_after=2, delta=delta)
    whole = run(path, ledger, resume=True, delta=delta)
    assert json.loads(path.read_text())["schema_version"] == 4
    assert {r.price.measure for r in whole.rounds} == {entry.measure for entry in ledger.entries()} == {"gaussian"}
    assert 0 <= ledger.left < Fraction(1, 10**8)
    assert whole.amount_spent <= amount_of("gaussian", EPSILON, delta)


def test_a_link_is_the_file_that_it_leads_to(tmp_path, drawn):
    path, link = tmp_path / "t.json", tmp_path / "link.json"
    begin(path, None)
    link.symlink_to(path)
    by_link = run(link, None, resume=True)
    assert link.is_symlink()
    assert run(path, None, resume=True).to_json() == by_link.to_json()
    assert len(drawn) == N_ROUNDS
    with pytest.raises(TranscriptError, match="exists"):
        run(link, None)


def test_a_link_is_locked_as_the_file_that_it_leads_to(tmp_path, drawn):
    path, link = tmp_path / "t.json", tmp_path / "link.json"
    begin(path, None)
    link.symlink_to(path)
    meanwhile = []

    def go_on_by_name(n):
        with pytest.raises(FileInUseError):
            run(path, None, resume=True)
        meanwhile.append(n)

    terms = {"domain": BOX, "epsilon": EPSILON, "resume": True}
    release(KMeans(n_clusters=2, n_rounds=N_ROUNDS), X, path=link, on_round=go_on_by_name, **terms)
    assert meanwhile == [3, 4]
    assert len(drawn) == N_ROUNDS


def test_a_transcript_with_two_names_is_not_continued(tmp_path, drawn):
    path, other = tmp_path / "t.json", tmp_path / "other.json"
    begin(path, None)
    other.hardlink_to(path)
    for name in (path, other):
        refused(name, None, drawn, r"more than one name.*Remove the other names")
    other.unlink()
    assert len(run(path, None, resume=True).rounds) == N_ROUNDS


def refused(path, ledger, drawn, message, **terms):
    before, n_drawn = path.read_bytes(), len(drawn)
    n_charged = 0 if ledger is None else len(ledger.entries())
    with pytest.raises(ContinuationError, match=message) as refusal:
        run(path, ledger, resume=True, **terms)
    assert "new release" in str(refusal.value) or "Bring back" in str(refusal.value)
    assert (path.read_bytes(), len(drawn)) == (before, n_drawn)
    assert ledger is None or len(ledger.entries()) == n_charged


def test_a_transcript_names_its_ledger_and_its_run_from_the_beginning(tmp_path, ledger):
    path = tmp_path / "t.json"
    begin(path, ledger, 1)
    payment = Transcript.load(path).payment
    assert payment.ledger == ledger.identifier
    assert {entry.run for entry in ledger.entries()} == {payment.run}
    done = run(path, ledger, resume=True)
    assert done.payment == payment
    assert {entry.run for entry in ledger.entries()} == {payment.run}
    assert len(ledger.entries()) == N_ROUNDS
    # What is public is drawn, and no path.
    assert str(tmp_path) not in path.read_text()
    assert json.loads(path.read_text())["payment"] == {"ledger": ledger.identifier, "run": payment.run}


def test_identifiers_are_drawn(tmp_path):
    made = [Ledger.create(tmp_path / f"{n}.db") for n in range(3)] + [Ledger.in_memory() for _ in range(3)]
    assert len({ledger.identifier for ledger in made}) == 6
    assert {len(ledger.identifier) for ledger in made} == {32}
    shutil.copy(tmp_path / "0.db", tmp_path / "moved.db")
    assert Ledger(tmp_path / "moved.db").identifier == made[0].identifier
    one, other = (run(None, ledger).payment.run for ledger in made[:2])
    assert one != other


def test_another_ledger_or_none_is_refused(tmp_path, ledger, drawn):
    path = tmp_path / "t.json"
    begin(path, ledger)
    other = Ledger.create(tmp_path / "m.db", epsilon=1)
    refused(path, other, drawn, f"paid for by the ledger with the identifier {ledger.identifier}, and this one has")
    refused(path, None, drawn, f"paid for by the ledger with the identifier {ledger.identifier}. ")
    assert len(run(path, ledger, resume=True).rounds) == N_ROUNDS
    # What is complete costs nothing more, and is refused all the same: it is not this ledger's.
    refused(path, other, drawn, "paid for by")


def test_a_run_begun_without_a_ledger_goes_on_without_one(tmp_path, ledger, drawn):
    path = tmp_path / "t.json"
    begin(path, None)
    assert Transcript.load(path).payment == Payment(None, None)
    refused(path, ledger, drawn, "begun without a ledger")
    assert len(run(path, None, resume=True).rounds) == N_ROUNDS


def test_a_copy_cannot_be_continued_after_the_other(tmp_path, ledger, drawn):
    path, copy = tmp_path / "t.json", tmp_path / "copy.json"
    begin(path, ledger)
    shutil.copy(path, copy)
    run(path, ledger, resume=True)
    refused(copy, ledger, drawn, "another copy of it was continued")
    assert len(drawn) == N_ROUNDS
    assert ledger.spent <= EPSILON
    # The one that went on is complete, and can be asked for again.
    assert len(run(path, ledger, resume=True).rounds) == N_ROUNDS


def test_two_copies_that_go_on_at_the_same_time_spend_once(tmp_path, ledger, drawn, monkeypatch):
    path, copy = tmp_path / "t.json", tmp_path / "copy.json"
    begin(path, ledger)
    shutil.copy(path, copy)

    # Both have looked at the ledger before either goes on.
    monkeypatch.setattr(recoup.transcript.continuation, "_check_charges", lambda *given: 2)
    run(path, ledger, resume=True)
    with pytest.raises(ContinuationError, match="Go on with one of them"):
        run(copy, ledger, resume=True)
    assert len(drawn) == len(ledger.entries()) == N_ROUNDS
    # Refused before its charge: nothing of the copy is lost or pending.
    assert (Transcript.load(copy).pending, Transcript.load(copy).lost) == (None, ())


def test_a_lost_round_that_was_never_charged_lets_nobody_spend_more(tmp_path, ledger, drawn):
    """Two crashes before a charge leave room in the number of charges, and none in their amount."""
    path, copy = tmp_path / "t.json", tmp_path / "copy.json"
    begin(path, ledger, 1)
    crashed = Transcript.load(path)
    replace(crashed, lost=(Fraction(1, 1000), Fraction(1, 1000))).save(path)
    shutil.copy(path, copy)
    with pytest.raises(Stop):
        run(path, ledger, resume=True, stop_after=3)
    assert len(ledger.entries()) == 3
    refused(copy, ledger, drawn, "another copy of it was continued")


def test_a_pending_round_counts_whether_it_was_charged_or_not(tmp_path, ledger):
    path = tmp_path / "t.json"
    begin(path, ledger, 2)
    saved = Transcript.load(path)
    replace(saved, pending=Fraction(1, 4)).save(path)
    assert len(run(path, ledger, resume=True).lost) == 1
    replace(saved, rounds=saved.rounds[:1], pending=Fraction(1, 4)).save(path)
    with pytest.raises(ContinuationError):
        run(path, ledger, resume=True)


def test_an_older_copy_of_the_ledger_is_refused(tmp_path, ledger, drawn):
    path = tmp_path / "t.json"
    begin(path, ledger, 1)
    shutil.copy(ledger.path, tmp_path / "backup.db")
    with pytest.raises(Stop):
        run(path, ledger, resume=True, stop_after=3)
    refused(path, Ledger(tmp_path / "backup.db"), drawn, "older copy of the ledger")


def test_a_transcript_of_an_earlier_version_is_read_and_not_continued(tmp_path, ledger):
    path = tmp_path / "t.json"
    old = replace(run(None, None), payment=None)
    part = replace(old, rounds=old.rounds[:2])
    part.save(path)
    assert json.loads(path.read_text())["schema_version"] == 1
    assert Transcript.load(path).payment is None
    for given in (ledger, None):
        with pytest.raises(TranscriptError, match=r"earlier version .* can be read, and not continued"):
            run(path, given, resume=True)
    # A complete one has nothing left to be paid for.
    old.save(path)
    assert len(run(path, None, resume=True).rounds) == len(run(path, ledger, resume=True).rounds) == N_ROUNDS
    assert ledger.entries() == ()
    assert Transcript.load(GOLDEN / "lloyd-v1.json").payment is None


def test_estimators_keep_to_their_ledger_too(tmp_path, ledger):
    terms = {
        "n_clusters": 2,
        "epsilon": EPSILON,
        "bounds": ([0, 0], [1, 1]),
        "algorithm": "lloyd",
        "n_rounds": N_ROUNDS,
    }
    path = tmp_path / "t.json"
    begin(path, ledger)
    with pytest.raises(ContinuationError):
        PrivateKMeans(postprocess="none", **terms).fit(X, transcript_path=path, resume=True)
    model = PrivateKMeans(postprocess="none", ledger=ledger, **terms).fit(X, transcript_path=path, resume=True)
    assert model.transcript_.payment.ledger == ledger.identifier
    assert len(ledger.entries()) == N_ROUNDS


def test_the_command_says_what_to_do(tmp_path):
    def called(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in X))
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    words = ["release", tmp_path / "t.csv", "-k", 2, "--epsilon", "0.5", "--bounds", "a=0:1,b=0:1", "--rounds", 2]
    words += ["-o", tmp_path / "t.json"]
    assert called(*words, "--ledger", tmp_path / "l.db").exit_code == 0
    again = called(*words, "--resume")
    assert again.exit_code == 5
    assert f"identifier {ledger.identifier}" in again.stderr
    assert ledger.identifier in called("ledger", "show", tmp_path / "l.db").stdout
    assert called(*words, "--resume", "--ledger", tmp_path / "l.db").exit_code == 0


# ---- the same attacks, against code without the checks ----


def test_without_the_checks_a_copy_spends_twice_and_another_ledger_pays_only_the_rest(
    tmp_path, ledger, drawn, monkeypatch
):
    path, copy = tmp_path / "t.json", tmp_path / "copy.json"
    begin(path, ledger)
    shutil.copy(path, copy)
    monkeypatch.setattr(recoup.transcript.continuation, "_check_payer", lambda *given: None)
    monkeypatch.setattr(
        recoup.transcript.continuation,
        "_check_charges",
        lambda path, old, ledger: sum(entry.run == old.payment.run for entry in ledger.entries()),
    )
    run(path, ledger, resume=True)
    run(copy, ledger, resume=True)
    assert len(drawn) == N_ROUNDS + 2
    assert ledger.spent > EPSILON
    again = tmp_path / "again.json"
    begin(again, ledger, 1)
    other = Ledger.create(tmp_path / "m.db", epsilon=1)
    assert len(run(again, other, resume=True).rounds) == N_ROUNDS
    assert other.spent < EPSILON


def test_a_ledger_that_was_edited_by_hand_shows(tmp_path, ledger, drawn):
    path = tmp_path / "t.json"
    begin(path, ledger)
    with sqlite3.connect(ledger.path) as database:
        database.execute("UPDATE entry SET run = 'x' WHERE id = 1")
    database.close()
    refused(path, ledger, drawn, "older copy of the ledger")
