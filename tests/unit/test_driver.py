"""Driving an algorithm: saving, resuming, refusing, and what a failure costs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from recoup import AdaptiveKMeans, Box, KMeans, Ledger, Transcript, release
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import (
    BudgetError,
    BudgetExceededError,
    DataError,
    LedgerLockedError,
    LedgerUnitError,
    ParameterError,
    RecoupError,
    TranscriptError,
)
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context, Request

BOX = Box([0, 0], [1, 1])
X = np.random.default_rng(0).uniform(size=(300, 2))
ALGORITHM = KMeans(n_clusters=2, n_rounds=4)


def run(x=X, **terms):
    return release(ALGORITHM, x, **({"domain": BOX, "epsilon": 1, "random_state": 0} | terms))


class Flaky:
    """A source that fails once, at its second question."""

    def __init__(self, error):
        self.source, self.error, self.n_asked = open_source(X, BOX), error, 0

    def total(self, query, factors):
        self.n_asked += 1
        if self.n_asked == 2:
            raise self.error
        return self.source.total(query, factors)


def test_every_round_is_saved_before_the_next(tmp_path):
    path, seen = tmp_path / "t.json", []
    run(path=path, on_round=lambda n: seen.append((n, len(Transcript.load(path).rounds))))
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert Transcript.load(path).pending is None


def test_a_round_is_announced_in_the_file_before_it_is_charged(tmp_path):
    path, seen = tmp_path / "t.json", []

    class Watching(Flaky):
        def total(self, query, factors):
            on_disk = Transcript.load(path)
            seen.append((len(on_disk.rounds), on_disk.pending))
            return self.source.total(query, factors)

    run(Watching(None), path=path)
    assert seen == [(n, Fraction(1, 4)) for n in range(4)]


def test_an_existing_file_is_never_overwritten(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("precious")
    with pytest.raises(TranscriptError, match="exists"):
        run(path=path)
    assert path.read_text() == "precious"


def test_resume_pays_only_for_what_is_missing(tmp_path):
    path, ledger = tmp_path / "t.json", Ledger.in_memory(epsilon=1)
    with pytest.raises(RuntimeError):
        run(Flaky(RuntimeError()), path=path, ledger=ledger)
    saved = Transcript.load(path)
    assert (len(saved.rounds), saved.pending) == (1, Fraction(1, 4))
    done = run(path=path, ledger=ledger, resume=True)
    assert len(done.rounds) == 4
    assert done.rounds[0].integers == saved.rounds[0].integers
    # Who fails in an unknown way may have been charged: the share counts as spent, and later rounds shrink.
    assert done.lost == (Fraction(1, 4),)
    assert done.shares_spent == 1
    assert [r.share for r in done.rounds] == [Fraction(1, 4), *[Fraction(1, 6)] * 3]
    assert ledger.spent <= 1
    assert run(path=path, ledger=ledger, resume=True).to_json() == done.to_json()


@pytest.mark.parametrize("error", [DataError("a file vanished"), ParameterError("no"), LedgerLockedError("busy")])
def test_a_refusal_before_any_charge_loses_nothing(tmp_path, error):
    path = tmp_path / "t.json"
    with pytest.raises(type(error)):
        run(Flaky(error), path=path)
    assert Transcript.load(path).pending is None
    done = run(path=path, resume=True)
    assert done.lost == ()
    assert [r.share for r in done.rounds] == [Fraction(1, 4)] * 4


def test_two_crashes_still_fit_into_the_budget(tmp_path):
    path = tmp_path / "t.json"
    for _ in range(2):
        with pytest.raises(RuntimeError):
            run(Flaky(RuntimeError()), path=path, resume=path.exists())
    done = run(path=path, resume=True)
    assert len(done.rounds) == 4
    assert len(done.lost) == 2
    assert done.shares_spent <= 1


def test_everything_lost_releases_nothing_more(tmp_path):
    path = tmp_path / "t.json"
    started = Transcript(context=Context(domain=BOX, epsilon=1), algorithm=ALGORITHM.to_json(), simulated=False)
    replace(started, lost=(Fraction(1),)).save(path)
    assert run(path=path, resume=True).rounds == ()


def test_resume_refuses_other_terms(tmp_path):
    path = tmp_path / "t.json"
    run(path=path)
    for terms in ({"epsilon": 2}, {"domain": Box([0, 0], [1, 2])}, {"noise": "simulated"}, {"records_per_person": 2}):
        with pytest.raises(TranscriptError, match="other terms"):
            run(path=path, resume=True, **terms)
    with pytest.raises(ParameterError, match="path"):
        run(resume=True)


def test_resume_without_a_file_starts(tmp_path):
    assert len(run(path=tmp_path / "t.json", resume=True).rounds) == 4


def test_a_ledger_that_is_too_small_refuses_before_anything_is_released(tmp_path):
    ledger = Ledger.in_memory(epsilon="0.9")
    with pytest.raises(BudgetExceededError) as caught:
        run(ledger=ledger, path=tmp_path / "t.json")
    assert (caught.value.spent, caught.value.asked, caught.value.left) == (0, 1, Fraction(9, 10))
    assert ledger.entries() == ()
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_may_be_a_path(tmp_path):
    Ledger.create(tmp_path / "l.db", epsilon=1)
    run(ledger=tmp_path / "l.db")
    assert Ledger(tmp_path / "l.db").spent <= 1
    assert len(Ledger(tmp_path / "l.db").entries()) == 4


def test_simulated_runs_repeat_and_secure_ones_do_not():
    a, b, c = (run(noise="simulated", random_state=s) for s in (0, 0, 1))
    assert a.to_json() == b.to_json() != c.to_json()
    assert a.simulated
    assert len({r.integers for r in a.rounds}) == 4
    assert run().rounds[0].integers != run().rounds[0].integers
    assert run().rounds[0].query.to_json() == run().rounds[0].query.to_json()


@pytest.mark.parametrize("state", [np.random.default_rng(0), np.random.RandomState(0), 5, None])
def test_random_states(state):
    assert len(run(random_state=state).rounds) == 4


@pytest.mark.parametrize("state", [-1, 1.5, "x", object()])
def test_bad_random_states_are_refused(state):
    with pytest.raises(ParameterError, match="random_state"):
        run(random_state=state)


def test_other_bad_arguments_are_refused():
    with pytest.raises(ParameterError, match="noise"):
        run(noise="none")
    with pytest.raises(BudgetError):
        run(epsilon="a lot")
    with pytest.raises(BudgetError):
        run(epsilon=1e-12)
    with pytest.raises(DataError):
        run(np.zeros((3, 3)))
    assert run(delta="0").context.mechanism == "laplace"


def test_the_curator_refuses_more_than_the_whole_and_other_blocks():
    curator = Curator(open_source(X, BOX), Context(domain=BOX, epsilon=1))
    query = GridQuery(sides=(2, 2))
    with pytest.raises(ParameterError, match="split"):
        curator.answer(Request(query=query, share=Fraction(1), split={"sum": Fraction(1)}))
    with pytest.raises(ParameterError, match="columns"):
        curator.answer(Request(query=GridQuery(sides=(2,)), share=Fraction(1), split={"count": Fraction(1)}))
    half = Request(query=query, share=Fraction(2, 3), split={"count": Fraction(1)})
    curator.answer(half)
    with pytest.raises(BudgetExceededError):
        curator.answer(half)


def test_a_charge_comes_before_the_noise():
    ledger, order = Ledger.in_memory(epsilon=1), []

    class Watching:
        simulated = True

        def laplace(self, totals, scale):
            order.append(len(ledger.entries()))
            return list(totals)

    context = Context(domain=BOX, epsilon=1)
    curator = Curator(open_source(X, BOX), context, ledger=ledger)
    for _ in range(3):
        curator.answer(
            Request(query=GridQuery(sides=(2, 2)), share=Fraction(1, 3), split={"count": Fraction(1)}), Watching()
        )
    assert order == [1, 2, 3]


def test_a_source_that_answers_the_wrong_size_is_refused():
    class Short:
        def total(self, query, factors):
            return [1]

    with pytest.raises(ParameterError, match="totals"):
        run(Short())


def test_where_a_delta_is_allowed_few_columns_leave_it_unspent_and_many_use_it():
    ledger = Ledger.in_memory(epsilon=4, delta=1e-6)
    for d, law in ((1, "laplace"), (3, "laplace"), (4, "gaussian")):
        x = np.random.default_rng(0).uniform(size=(300, d))
        terms = {"domain": Box([0] * d, [1] * d), "epsilon": 0.5, "delta": 1e-6, "noise": "simulated"}
        transcript = release(AdaptiveKMeans(n_clusters=2), x, **terms, ledger=ledger)
        assert transcript.context.mechanism == law
        assert transcript.context.delta == (Fraction(1, 10**6) if law == "gaussian" else 0)
        assert transcript.privacy["delta"] == (1e-6 if law == "gaussian" else 0.0)
        asked = release(AdaptiveKMeans(n_clusters=2), x, **terms, mechanism="gaussian")
        assert asked.context.mechanism == "gaussian"


def test_a_release_that_was_begun_goes_on_with_its_own_noise(tmp_path):
    # An earlier version used Gaussian noise wherever a delta was allowed.
    class Interrupted(Exception):
        pass

    def interrupt(n_finished):
        if n_finished == 2:
            raise Interrupted

    x, path = np.random.default_rng(0).uniform(size=(300, 2)), tmp_path / "t.json"
    algorithm = AdaptiveKMeans(n_clusters=2)
    terms = {"domain": Box([0, 0], [1, 1]), "epsilon": 1, "delta": 1e-6, "noise": "simulated", "path": path}
    with pytest.raises(Interrupted):
        release(algorithm, x, **terms, mechanism="gaussian", on_round=interrupt)
    finished = release(algorithm, x, **terms, resume=True)
    assert finished.context.mechanism == "gaussian"
    assert finished.shares_spent == 1
    with pytest.raises(TranscriptError, match="other terms"):
        release(algorithm, x, **(terms | {"delta": 1e-7}), resume=True)


def test_a_release_with_laplace_noise_goes_on_though_its_ledger_has_paid_for_gaussian_noise_since(tmp_path):
    class Interrupted(Exception):
        pass

    def interrupt(n_finished):
        raise Interrupted

    ledger, x = Ledger.in_memory(epsilon=20, delta=1e-6), np.random.default_rng(0).uniform(size=(300, 4))
    algorithm, terms = AdaptiveKMeans(n_clusters=2), {"delta": 1e-6, "noise": "simulated", "ledger": ledger}
    few = {"domain": Box([0, 0], [1, 1]), "epsilon": 0.1, "path": tmp_path / "t.json"}
    with pytest.raises(Interrupted):
        release(algorithm, x[:, :2], **few, **terms, on_round=interrupt)
    release(algorithm, x, domain=Box([0] * 4, [1] * 4), epsilon=0.1, **terms)
    assert release(algorithm, x[:, :2], **few, **terms, resume=True).context.mechanism == "laplace"


def test_a_ledger_with_gaussian_rounds_keeps_to_them():
    # Laplace noise beside them would cost far more than its epsilon.
    ledger = Ledger.in_memory(epsilon=1, delta=1e-6)
    x = np.random.default_rng(0).uniform(size=(300, 5))
    terms = {"delta": 1e-6, "noise": "simulated", "ledger": ledger}
    release(AdaptiveKMeans(n_clusters=2), x, domain=Box([0] * 5, [1] * 5), epsilon=0.5, **terms)
    few = release(AdaptiveKMeans(n_clusters=2), x[:, :2], domain=Box([0] * 2, [1] * 2), epsilon=0.3, **terms)
    assert few.context.mechanism == "gaussian"


def test_what_cannot_be_a_domain_or_a_delta_is_refused_with_a_type():
    x, algorithm = np.zeros((5, 2)), AdaptiveKMeans(n_clusters=2)
    with pytest.raises(RecoupError):
        release(algorithm, x, domain=([0, 0], [1, 1]), epsilon=1, delta=1e-6)
    for delta in (1, 5):
        with pytest.raises(RecoupError, match="delta"):
            release(algorithm, x, domain=Box([0, 0], [1, 1]), epsilon=1, delta=delta)


VISITS = pa.table({"who": [f"p{i % 40}" for i in range(300)], "a": X[:, 0], "b": X[:, 1]})
NAMED = Box([0, 0], [1, 1], ("a", "b"))


def visited(x=VISITS, **terms):
    return run(x, **({"domain": NAMED, "person": "who"} | terms))


def test_a_person_is_the_unit_of_statement_and_ledger():
    ledger = Ledger.in_memory(epsilon=3)
    transcript = visited(ledger=ledger)
    assert (transcript.context.per_person, str(ledger.unit)) == ("mean", transcript.privacy.unit)
    assert transcript.privacy.unit.startswith("one person, by column '")
    assert transcript.privacy.neighbours == "add-remove-one-person"
    assert transcript.to_json()["schema_version"] == 5
    assert Transcript.from_json(transcript.to_json()).to_json() == transcript.to_json()
    # A sample is priced for all that is kept: the ledger counts it once.
    visited(ledger=ledger, per_person="sample", records_per_person=5)
    assert 1.99 < ledger.spent <= 2
    with pytest.raises(LedgerUnitError, match="a person and a record are not alike"):
        run(ledger=ledger)


def test_each_person_has_one_row_or_as_many_as_are_kept():
    sure = {"epsilon": 10**6, "noise": "simulated"}
    for terms, n in (
        ({}, 40),
        ({"per_person": "sample"}, 40),
        ({"per_person": "sample", "records_per_person": 3}, 120),
    ):
        assert round(sum(visited(**sure, **terms).rounds[0].noisy[:2])) == n
    assert round(sum(visited(**sure, person=None).rounds[0].noisy[:2])) == 300


def test_the_key_of_a_sample_is_drawn_for_a_run_and_goes_on_with_it(tmp_path, monkeypatch):
    keys = [visited(per_person="sample").context.sample_key for _ in range(2)]
    assert len(set(keys)) == 2  # of secure noise whatever the seed
    same = [visited(per_person="sample", noise="simulated").context.sample_key for _ in range(2)]
    assert len(set(same)) == 1
    path, opened = tmp_path / "t.json", []
    whole = visited(per_person="sample", path=path)
    replace(whole, rounds=whole.rounds[:2]).save(path)

    def watched(*given, **terms):
        opened.append(terms["key"])
        return open_source(*given, **terms)

    monkeypatch.setattr("recoup.curator.source.open_source", watched)
    done = visited(per_person="sample", path=path, resume=True)
    assert opened == [whole.context.sample_key] == [done.context.sample_key]
    assert len(done.rounds) == 4
    nobody = {"person": None, "per_person": None}
    for other in ({"per_person": "mean"}, nobody, {"records_per_person": 2}):
        with pytest.raises(TranscriptError, match="other terms"):
            visited(path=path, resume=True, **({"per_person": "sample"} | other))


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"domain": BOX}, "declared by name, too"),
        ({"per_person": "median"}, "choose one of mean, sample"),
        ({"records_per_person": 2}, "one row, however many"),
        ({"x": Flaky(None)}, "does not say who holds what"),
        ({"person": None, "per_person": "mean"}, "per_person needs person"),
    ],
)
def test_persons_that_cannot_be_told_are_refused_before_anything_is_spent(terms, words):
    ledger = Ledger.in_memory(epsilon=1)
    with pytest.raises(ParameterError, match=words):
        visited(ledger=ledger, **terms)
    assert ledger.entries() == ()
