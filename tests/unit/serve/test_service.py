"""What a served curator says to analysts: terms, runs, answers, transcripts, and each refusal."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from served import ANN, BOB, Analyst, served

from recoup import Box, Ledger, Transcript
from recoup._files import exclusive
from recoup.errors import LedgerFormatError, ParameterError
from recoup.serve import app
from recoup.serve.limits import Limits, Meter
from recoup.serve.offer import Offer
from recoup.serve.refusals import Refusal
from recoup.serve.service import Service
from recoup.serve.store import Store
from recoup.serve.tokens import digest_of, drawn, found
from recoup_lab.audit.served.setting import BOX, NO_LIMITS, OPERATOR, TABLE, application, prepared, question, run_body


@pytest.fixture
def client(tmp_path):
    with served(tmp_path / "case", epsilon=3, own=2) as client:
        yield client


def error(reply):
    return reply.status, reply.value["error"]["type"]


def test_terms_are_public_and_say_what_is_left(client, tmp_path):
    terms = Analyst(client).get("/terms").value
    assert terms["format"] == "recoup-terms"
    assert terms["domain"] == BOX.to_json()
    assert (terms["unit"], terms["table"], terms["csv_dialect"]) == ("one record", "people", None)
    assert terms["answer_seconds"] == {"base": 0.0, "per_value": 0.0}
    assert terms["token"] == {"name": "ann", "epsilon": "2", "delta": "0", "spent": "0", "left": "2"}
    # No more than is left of the table's.
    bob = Analyst(client, BOB)
    for number in range(2):
        assert bob.answer(bob.begin(f"r{number}"), "k", share="1").status == 200
    left = Ledger(tmp_path / "case" / "ledger.db").left
    assert Fraction(Analyst(client).get("/terms").value["token"]["left"]) == left < 2


def test_a_run_is_answered_and_its_transcript_reads_back(client):
    ann = Analyst(client)
    run = ann.begin(purpose="which hours are busy")
    rounds = [ann.answer(run, f"{run}-{i}").value["round"] for i in range(2)]
    transcript = Transcript.from_json(ann.get(f"/runs/{run}/transcript").value)
    assert transcript.to_json()["rounds"] == rounds
    assert transcript.payment.run == run
    assert not transcript.lost
    (listed,) = ann.get("/runs").value["runs"]
    assert (listed["run"], listed["purpose"], listed["share_spent"]) == (run, "which hours are busy", "1/5")
    # Near the exact counts: the budget is large.
    assert transcript.rounds[0].noisy.sum() == pytest.approx(len(TABLE), abs=400)


def test_the_charge_carries_token_key_and_digest(client, tmp_path):
    ann = Analyst(client)
    ann.answer(ann.begin(purpose="why"), "the-key")
    (release,) = Ledger(tmp_path / "case" / "ledger.db").releases()
    assert (release.purpose, release.by) == ("why", "token ann")
    words, token, key, digest = release.entries[0].purpose.split("; ")
    assert (words, token, key) == ("grid query of 4 values", "token ann", "key the-key")
    assert len(digest.removeprefix("sha256:")) == 64


def test_the_same_key_gives_the_same_bytes_and_another_body_is_refused(client, tmp_path):
    ann = Analyst(client)
    first = ann.post("/runs", "run", run_body())
    assert ann.post("/runs", "run", run_body()) == first
    assert error(ann.post("/runs", "run", run_body("1/2"))) == (409, "IdempotencyError")
    run = first.value["run"]
    answer = ann.answer(run, "a")
    assert ann.answer(run, "a").body == answer.body
    assert error(ann.answer(run, "a", share="1/11")) == (409, "IdempotencyError")
    # The order of names is no other request.
    turned = json.dumps(dict(reversed(question().items()))).encode()
    assert ann.post(f"/runs/{run}/answer", "a", turned).body == answer.body
    assert len(Ledger(tmp_path / "case" / "ledger.db").entries()) == 1


def test_budgets_are_refused_with_their_numbers(client, tmp_path):
    ann, bob = Analyst(client), Analyst(client, BOB)
    refused = ann.post("/runs", "r", run_body("5/2"))
    assert error(refused) == (402, "BudgetExceededError")
    assert refused.value["error"]["left"] == "2"
    run = ann.begin(epsilon="2")
    assert ann.answer(run, "a", share="1").status == 200
    refused = ann.answer(run, "b", share="1/100").value["error"]
    assert (refused["spent"], refused["asked"], refused["left"]) == ("1", "1/100", "0")
    # Of the table, 1 is left; the refused token has paid nothing.
    refused = bob.post("/runs", "r", run_body("3/2"))
    assert refused.status == 402
    assert "ledger.db" not in refused.body.decode()
    assert bob.get("/terms").value["token"]["spent"] == "0"


def test_a_charge_that_the_table_refuses_is_given_back_to_the_token(client, tmp_path):
    ann, bob = Analyst(client), Analyst(client, BOB)
    mine, other = ann.begin(epsilon="2"), bob.begin(epsilon="2")
    assert ann.answer(mine, "a", share="1").status == 200
    refused = bob.answer(other, "a", share="1")
    assert error(refused) == (402, "BudgetExceededError")
    assert refused.value["error"]["message"].startswith("The table's budget")
    assert bob.get("/terms").value["token"]["spent"] == "0"
    # The key is free again.
    assert bob.answer(other, "a", share="1/4").status == 200


def test_a_charge_of_which_nobody_knows_stays_with_the_token_and_is_found_again(tmp_path, monkeypatch):
    folder = prepared(tmp_path / "case")
    service, charge = _service(folder), Ledger.charge
    token = service.token(ANN)
    run = service.run(token, json.loads(service.begin(token, "r", run_body(), "d"))["run"])

    def fails(self, *given, **more):
        charge(self, *given, **more)
        raise LedgerFormatError("after it was written")

    monkeypatch.setattr(Ledger, "charge", fails)
    with pytest.raises(LedgerFormatError):
        service.answer(_asked(service, token, run))
    assert service.spent(token) == service.offer.ledger.spent > 0
    # Only run, key and digest tell which charge it is: the rest of its line is words.
    assert service.answer(_asked(service, token._replace(name="anna"), run))
    assert len(service.offer.ledger.entries()) == 1


def test_runs_are_those_of_the_token_alone(client):
    ann, bob = Analyst(client), Analyst(client, BOB)
    run = ann.begin()
    missing = bob.get(f"/runs/{'0' * 32}/transcript")
    assert error(missing) == (404, "UnknownRunError")
    assert bob.get(f"/runs/{run}/transcript") == missing
    assert bob.answer(run, "k") == bob.answer("0" * 32, "k")
    assert bob.get("/runs").value == {"runs": []}


@pytest.mark.parametrize("token", [None, "", "x", ANN[:-1], OPERATOR])
def test_without_a_token_everything_is_refused_alike(client, token):
    stranger = Analyst(client, token)
    refused = stranger.get("/terms")
    assert error(refused) == (401, "UnauthorizedError")
    assert {stranger.get("/runs"), stranger.post("/runs", "k", run_body()), stranger.answer("0" * 32, "k")} == {refused}


def test_an_analyst_sees_nothing_of_the_operators(client):
    assert error(Analyst(client).get("/operator/status")) == (401, "UnauthorizedError")
    assert error(Analyst(client).get("/metrics")) == (401, "UnauthorizedError")
    assert Analyst(client, None).get("/health").value == {"status": "ok"}


def test_a_token_can_be_revoked_in_the_middle_of_a_run(client, tmp_path):
    ann = Analyst(client)
    run = ann.begin()
    assert ann.answer(run, "a").status == 200
    Store(tmp_path / "case" / "state").revoke("ann")
    assert error(ann.answer(run, "b")) == (401, "UnauthorizedError")
    assert error(ann.answer(run, "a")) == (401, "UnauthorizedError")
    assert len(Ledger(tmp_path / "case" / "ledger.db").entries()) == 1


def test_a_token_that_is_revoked_while_its_question_waits_is_refused(tmp_path):
    folder = prepared(tmp_path / "case")
    service = _service(folder)
    token = service.token(ANN)
    service.begin(token, "r", run_body(), "d")
    service.store.revoke("ann")
    (run, _), *_ = service.store.runs(token.id)
    with pytest.raises(Refusal, match="token"):
        service.answer(_asked(service, token, run))
    assert not Ledger(folder / "ledger.db").entries()


def _service(folder, **more):
    offer = Offer(data=TABLE, domain=BOX, ledger=Ledger(folder / "ledger.db"), base=0.0, per_value=0.0)
    return Service(offer, Store.opened(folder / "state"), NO_LIMITS)


def _asked(service, token, run, key="a", **body):
    from recoup.serve.service import Asked

    return Asked(token, run, key, "d", service.read_question(question() | body), 0.0)


@pytest.mark.parametrize(
    "body",
    [
        *(
            b'\\"' * 500_000,
            b'"\\',
            b'["\\"',
            b"",
            b"{",
            b"[]",
            b"null",
            b"\xff",
            b'{"a": NaN}',
            b'{"share": 1e999}',
            b"[" * 40,
            b'{"a":' * 100_000,
        ),
        json.dumps(question() | {"more": 1}).encode(),
        json.dumps(question())[:-1].encode() + b', "share": "1/10"}',
        json.dumps(question() | {"query": "\ud800"}).encode(),
    ],
)
def test_what_is_not_a_request_is_malformed(client, body):
    ann = Analyst(client)
    assert error(ann.post(f"/runs/{ann.begin()}/answer", "k", body)) == (400, "MalformedRequestError")


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"share": 0.5}, "MalformedRequestError"),
        ({"share": "0"}, "BudgetError"),
        ({"share": "2"}, "ParameterError"),
        ({"split": []}, "MalformedRequestError"),
        ({"split": {"sum": "1"}}, "ParameterError"),
        ({"query": {"type": "median"}}, "TranscriptFormatError"),
        ({"query": {"type": "grid"}}, "TranscriptFormatError"),
        ({"query": {"type": "grid", "sides": [2]}}, "ParameterError"),
        ({"query": {"type": "grid", "sides": [2, 2], "sensitivity": 0}}, "MalformedRequestError"),
        ({"share": f"1/{'3' * 200}"}, "MalformedRequestError"),
        ({"split": {"count": f"1/{'3' * 200}"}}, "MalformedRequestError"),
    ],
)
def test_questions_are_of_the_registry_and_for_these_columns(client, changed, kind):
    ann = Analyst(client)
    assert error(ann.answer(ann.begin(), "k", **changed)) == (400, kind)


@pytest.mark.parametrize("key", [None, "", "x" * 65, "a b", "é"])
def test_a_key_is_needed(client, key):
    assert error(Analyst(client).post("/runs", key, run_body())) == (400, "MalformedRequestError")


def test_what_is_too_large_is_refused(tmp_path):
    limits = Limits(per_second=0, body_bytes=2000, query_values=100, open_runs=2)
    with served(tmp_path / "case", limits=limits) as client:
        ann = Analyst(client)
        run = ann.begin("1")
        assert error(ann.post("/runs", "k", b" " * 2001, parts=7)) == (413, "RequestTooLargeError")
        assert error(ann.answer(run, "k", query={"type": "grid", "sides": [11, 10]})) == (413, "RequestTooLargeError")
        ann.begin("2")
        assert error(ann.post("/runs", "3", run_body())) == (429, "TooManyRequestsError")
        # One that has spent all of its budget is no longer open.
        assert ann.answer(run, "k", share="1").status == 200
        ann.begin("3")


def test_a_run_has_so_many_answers(tmp_path):
    with served(tmp_path / "case", limits=Limits(per_second=0, run_answers=2)) as client:
        ann = Analyst(client)
        run = ann.begin()
        first, _ = ann.answer(run, "a"), ann.answer(run, "b")
        assert error(ann.answer(run, "c")) == (413, "RequestTooLargeError")
        assert ann.answer(run, "a").body == first.body


def test_only_the_reply_that_is_asked_for_is_read(client, tmp_path):
    ann = Analyst(client)
    run = ann.begin()
    for key in "ab":
        assert ann.answer(run, key).status == 200
    store = Store(tmp_path / "case" / "state")
    assert [answer.reply is None for answer in store.answers(run, "b")] == [True, False]
    assert store.answers(run, "b")[1] == store.answers(run)[1]


def test_shares_that_nobody_could_print_together_are_added_up(client):
    ann = Analyst(client)
    run = ann.begin()
    # The exact sum has a denominator of some 5800 digits.
    shares = [Fraction(n // 100, n) for n in range(10**97 + 1, 10**97 + 121, 2)]
    for number, share in enumerate(shares):
        assert ann.answer(run, f"k{number}", share=str(share)).status == 200
    (listed,) = ann.get("/runs").value["runs"]
    assert 0 <= Fraction(listed["share_spent"]) - sum(shares) < Fraction(1, 2**2000)
    assert Analyst(client, OPERATOR).get("/operator/status").status == 200
    assert error(ann.answer(run, "more", share="1")) == (402, "BudgetExceededError")
    assert len(ann.get(f"/runs/{run}/transcript").value["rounds"]) == 60


def test_rates_are_limited_by_token():
    now = [0.0]
    meter = Meter(Limits(per_second=2, burst=3, at_once=2), clock=lambda: now[0])
    for _ in range(3):
        with meter.one(1):
            pass
    with pytest.raises(Refusal, match="a second"), meter.one(1):
        pass
    with meter.one(2), meter.one(2), pytest.raises(Refusal, match="at once"), meter.one(2):
        pass
    now[0] = 0.5
    with meter.one(1):
        pass


def test_an_answer_leaves_at_its_public_time_and_no_sooner(tmp_path):
    with served(tmp_path / "case", base=0.3, per_value=0.01) as client:
        ann = Analyst(client)
        run = ann.begin()
        # Four counts of a grid that is written with two numbers.
        start = time.monotonic()
        answer = ann.answer(run, "a")
        assert time.monotonic() - start >= 0.36
        start = time.monotonic()
        assert ann.answer(run, "a").body == answer.body
        assert time.monotonic() - start >= 0.36


@pytest.fixture
def due_times(monkeypatch):
    """When each question that is answered may leave."""
    seen, answer = [], Service.answer
    monkeypatch.setattr(Service, "answer", lambda self, asked: (seen.append(asked.due), answer(self, asked))[1])
    return seen


def test_the_public_clock_starts_when_the_whole_question_is_there(tmp_path, due_times, monkeypatch):
    arrived, read = [], app.read_body
    monkeypatch.setattr(app, "read_body", lambda *given: (arrived.append(time.time()), read(*given))[1])
    with served(tmp_path / "case", base=0.1) as client:
        ann = Analyst(client)
        assert ann.answer(ann.begin(), "a").status == 200
    assert due_times[0] >= arrived[-1] + 0.1


def test_the_public_clock_starts_when_no_other_question_of_the_run_is_answered(tmp_path, due_times, monkeypatch):
    free = []

    async def slept(_):
        free.append(time.time())
        held.close()

    with served(tmp_path / "case", base=0.1) as client, ExitStack() as held:
        ann = Analyst(client)
        run = ann.begin()
        held.enter_context(exclusive(tmp_path / "case" / "state" / "locks" / run))
        monkeypatch.setattr(app.asyncio, "sleep", slept)
        assert ann.answer(run, "a").status == 200
    assert due_times[0] >= free[0] + 0.1


def test_no_transcript_shows_an_answer_before_its_time(tmp_path):
    folder = prepared(tmp_path / "case")
    service = _service(folder)
    token = service.token(ANN)
    run = json.loads(service.begin(token, "r", run_body(), "d"))["run"]
    service.answer(_asked(service, token, service.run(token, run))._replace(due=time.time() + 1000))
    transcript = Transcript.from_json(json.loads(service.transcript(token, run)))
    assert (len(transcript.rounds), transcript.lost) == (0, (Fraction(1, 10),))


def test_gaussian_noise_needs_a_delta(tmp_path):
    with served(tmp_path / "case") as client:
        ann = Analyst(client)
        body = run_body() | {"mechanism": "gaussian", "delta": "1/1000000"}
        assert error(ann.post("/runs", "g", body)) == (400, "BudgetError")
        assert error(ann.post("/runs", "h", body | {"delta": "0"})) == (400, "BudgetError")


def test_persons_are_sampled_by_the_key_of_the_run(tmp_path):
    folder = tmp_path / "case"
    prepared(folder)
    table = pa.table({"who": [1, 1, 2, 3], "a": [0.1, 0.9, 0.5, 0.5]})
    pq.write_table(table, tmp_path / "t.parquet")
    offer = Offer(
        data=str(tmp_path / "t.parquet"),
        domain=Box((0,), (1,), ("a",)),
        ledger=Ledger(folder / "ledger.db"),
        person="who",
        per_person="sample",
        base=0.0,
    )
    service = Service(offer, Store.opened(folder / "state"), NO_LIMITS)
    token = service.token(ANN)
    begun = json.loads(service.begin(token, "r", run_body(), "d"))
    assert len(begun["context"]["sample_key"]) == 32
    run = service.run(token, begun["run"])
    answered = json.loads(service.answer(_asked(service, token, run, query={"type": "grid", "sides": [2]})))
    assert len(answered["round"]["noisy"]) == 2


def test_a_state_folder_is_of_one_table(tmp_path):
    folder = prepared(tmp_path / "case")
    application(folder)
    offer = Offer(data=TABLE, domain=Box((0, 0), (1, 2)), ledger=Ledger(folder / "ledger.db"))
    with pytest.raises(ParameterError, match="folder for each"):
        Service(offer, Store.opened(folder / "state"))


def test_only_hashes_of_tokens_are_kept(tmp_path):
    folder, secret = prepared(tmp_path / "case"), drawn()
    store = Store.opened(folder / "state")
    store.add_token("new", secret, "analyst", Fraction(1), Fraction(0))
    held = b"".join(path.read_bytes() for path in (folder / "state").rglob("*") if path.is_file())
    assert secret.encode() not in held
    assert digest_of(secret).encode() in held
    assert found(store.tokens(), secret, "analyst").name == "new"
    assert found(store.tokens(), secret, "operator") is None
    with pytest.raises(ParameterError, match="choose another name"):
        store.add_token("new", drawn(), "analyst", Fraction(1), Fraction(0))
    with pytest.raises(ParameterError, match="no token"):
        store.revoke("nobody")
    assert (folder / "state").stat().st_mode & 0o777 == 0o700


def test_the_operator_sees_budgets_and_runs(client):
    ann = Analyst(client)
    ann.answer(ann.begin(purpose="why"), "a")
    operator = Analyst(client, OPERATOR)
    status = operator.get("/operator/status").value
    assert [token["name"] for token in status["tokens"]] == ["ann", "bob", "operator"]
    assert status["runs"][0]["token"] == "ann"
    assert Fraction(status["budget"]["spent"]) == Fraction(status["tokens"][0]["spent"]) > 0
    metrics = operator.get("/metrics").body.decode()
    assert 'recoup_requests_total{route="POST /runs/{run}/answer",status="200"} 1' in metrics
    assert not {"second", "byte", "record"} & set(metrics.replace("_", " ").split())


def test_logs_hold_neither_answers_nor_durations(client, caplog):
    ann = Analyst(client)
    with caplog.at_level("INFO", logger="recoup.serve"):
        run = ann.begin()
        noisy = ann.answer(run, "a").value["round"]["noisy"]
    assert [record.getMessage() for record in caplog.records] == [
        "POST /runs token ann: 201",
        "POST /runs/{run}/answer token ann: 200",
    ]
    assert not any(str(value) in caplog.text for value in noisy)


def test_records_that_are_not_there_are_answered_like_any(tmp_path):
    with served(tmp_path / "case", data=np.empty((0, 2))) as client:
        ann = Analyst(client)
        assert ann.answer(ann.begin(), "a").status == 200
