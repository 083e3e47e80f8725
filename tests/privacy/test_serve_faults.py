"""A served curator whose source, ledger or disk fails: typed refusals, nothing unpaid, nothing paid twice."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import time
from fractions import Fraction

import pytest
from served import Analyst, served

from recoup import Ledger
from recoup.curator.source import TableSource
from recoup.privacy.mechanism import SecureNoise
from recoup.serve.running import on_loopback
from recoup.serve.store import Store
from recoup_lab.audit.served.setting import TOKENS, application, ask, ask_and_leave, prepared, question, run_body

UNAVAILABLE = (503, "CuratorUnavailableError")


@pytest.fixture
def client(tmp_path):
    with served(tmp_path / "case") as client:
        yield client


def error(reply):
    return reply.status, reply.value["error"]["type"]


def entries(tmp_path):
    return Ledger(tmp_path / "case" / "ledger.db").entries()


@pytest.mark.parametrize(
    "failure", [OSError(5, "row 17 of patients"), ValueError("row 17"), KeyError("row 17"), MemoryError()]
)
def test_a_source_that_fails_is_paid_once_and_tells_nothing(client, tmp_path, monkeypatch, failure):
    ann = Analyst(client)
    run, total = ann.begin(), TableSource.total

    def fails(self, query, factors):
        raise failure

    monkeypatch.setattr(TableSource, "total", fails)
    refused = ann.answer(run, "a")
    assert error(refused) == UNAVAILABLE
    assert b"17" not in refused.body
    assert ann.answer(run, "a") == refused
    assert len(entries(tmp_path)) == 1
    monkeypatch.setattr(TableSource, "total", total)
    assert ann.answer(run, "a").status == 200
    assert len(entries(tmp_path)) == 1


def test_whatever_fails_after_records_were_read_fails_alike(client, monkeypatch):
    ann = Analyst(client)
    run, replies = ann.begin(), set()
    for key, name in (("a", "total"), ("b", "laplace")):
        owner = TableSource if name == "total" else SecureNoise
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, lambda *_: 1 / 0)
            replies.add(ann.answer(run, key))
    assert [error(reply) for reply in replies] == [UNAVAILABLE]


def test_an_answer_that_cannot_be_kept_is_not_sent(client, tmp_path, monkeypatch):
    ann = Analyst(client)
    run, drawn = ann.begin(), []
    laplace = SecureNoise.laplace
    monkeypatch.setattr(SecureNoise, "laplace", lambda *given: drawn.append(laplace(*given)) or drawn[-1])

    def full(self, answer, reply, due):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "keep", full)
        refused = ann.answer(run, "a")
    assert error(refused) == UNAVAILABLE
    assert not any(str(value).encode() in refused.body for value in drawn[0])
    answer = ann.answer(run, "a")
    assert answer.value["round"]["noisy"] == drawn[1] != drawn[0]
    assert len(entries(tmp_path)) == 1


def test_a_ledger_that_is_locked_charges_nothing_and_the_same_key_is_charged_once(tmp_path):
    with served(tmp_path / "case", patience=0.05) as client:
        _locked(Analyst(client), tmp_path)


def _locked(ann, tmp_path):
    run = ann.begin()
    lock = sqlite3.connect(tmp_path / "case" / "ledger.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    assert error(ann.answer(run, "a")) == UNAVAILABLE
    lock.execute("ROLLBACK")
    lock.close()
    assert not entries(tmp_path)
    # Nobody knows what a file that failed has kept: the token's charge waits for the next try.
    assert ann.answer(run, "a").status == 200
    assert len(entries(tmp_path)) == 1
    assert Fraction(ann.get("/terms").value["token"]["spent"]) == Ledger(tmp_path / "case" / "ledger.db").spent


def test_a_ledger_that_refuses_the_unit_charges_nothing(client, tmp_path):
    ann = Analyst(client)
    run = ann.begin()
    # Somebody else has declared another unit, since nothing was charged so far.
    Ledger(tmp_path / "case" / "ledger.db").declare(person="who")
    assert error(ann.answer(run, "a")) == UNAVAILABLE
    assert ann.get("/terms").value["token"]["spent"] == "0"


def test_a_ledger_that_is_gone_is_unavailable(client, tmp_path):
    ann = Analyst(client)
    run = ann.begin()
    (tmp_path / "case" / "ledger.db").rename(tmp_path / "elsewhere.db")
    refused = ann.answer(run, "a")
    assert error(refused) == UNAVAILABLE
    assert b"ledger.db" not in refused.body
    (tmp_path / "elsewhere.db").rename(tmp_path / "case" / "ledger.db")
    assert ann.answer(run, "a").status == 200
    assert len(entries(tmp_path)) == 1


def test_a_question_that_was_charged_and_not_answered_is_lost_in_the_transcript(client, monkeypatch):
    ann = Analyst(client)
    run = ann.begin()
    with monkeypatch.context() as patched:
        patched.setattr(TableSource, "total", lambda *_: 1 / 0)
        ann.answer(run, "a")
    assert ann.get(f"/runs/{run}/transcript").value["lost"] == ["1/10"]
    # What it was charged counts: nine tenths are left for other questions.
    assert error(ann.answer(run, "b", share="19/20")) == (402, "BudgetExceededError")


def test_a_client_that_goes_away_is_answered_later_by_the_same(tmp_path):
    folder = prepared(tmp_path / "case")
    with on_loopback(application(folder)) as address:
        port = int(address.rpartition(":")[2])
        token = TOKENS["ann"]
        run = ask(port, "POST", "/runs", token=token, key="r", body=run_body()).value["run"]
        path = f"/runs/{run}/answer"
        for key, part in (("a", 1.0), ("b", 0.5), ("c", 0.99)):
            ask_and_leave(port, path, token=token, key=key, body=question(), part=part)
        first = {key: ask(port, "POST", path, token=token, key=key, body=question()).body for key in "abc"}
        again = {key: ask(port, "POST", path, token=token, key=key, body=question()).body for key in "abc"}
    assert first == again
    assert len(entries(tmp_path)) == 3


@pytest.mark.parametrize(
    "raw",
    [b"\r\n\r\n\r\nx\r\n\r\n", b"GET\r\n\r\n", b"POST /runs HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"\xff" * 70_000],
)
def test_what_is_no_http_is_refused_by_a_typed_reply(tmp_path, raw):
    with on_loopback(application(prepared(tmp_path / "case"))) as address:
        connection = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=20)
        with connection:
            connection.sendall(raw)
            reply = http.client.HTTPResponse(connection)
            reply.begin()
            assert reply.status == 400
            assert json.loads(reply.read())["error"]["type"] == "MalformedRequestError"


def test_others_of_a_run_wait_until_an_answer_may_leave(tmp_path):
    """A refusal of the same run would otherwise tell when its records had been read."""
    from concurrent.futures import ThreadPoolExecutor

    folder = prepared(tmp_path / "case")
    with on_loopback(application(folder, base=0.5)) as address, ThreadPoolExecutor(2) as pool:
        port, token = int(address.rpartition(":")[2]), TOKENS["ann"]
        run = ask(port, "POST", "/runs", token=token, key="r", body=run_body()).value["run"]
        start = time.monotonic()
        first = pool.submit(ask, port, "POST", f"/runs/{run}/answer", token=token, key="a", body=question("1/2"))
        time.sleep(0.15)
        assert ask(port, "POST", f"/runs/{run}/answer", token=token, key="b", body=question("1")).status == 402
        assert time.monotonic() - start >= 0.5
        assert first.result().status == 200
