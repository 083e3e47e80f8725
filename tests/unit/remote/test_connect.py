"""Releases from a served curator: the same names as for a table here, and no trust in what comes back."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from remote_cases import DOMAIN, TOKEN, people, served
from typer.testing import CliRunner

import recoup
from recoup import errors
from recoup.cli.app import app
from recoup.errors import ParameterError, RemoteError
from recoup.queries.counts import GridQuery

ALGORITHM = recoup.KMeans(n_clusters=2, n_rounds=2)


@pytest.fixture
def there(tmp_path, monkeypatch):
    monkeypatch.setattr("recoup.remote.client._WAITS", (0.01, 0.02, 0.03))
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    monkeypatch.delenv("RECOUP_TOKEN", raising=False)
    folder = tmp_path / "curator"
    folder.mkdir()
    with served(folder, n_records=2000) as found:
        yield found


def release(table, **more):
    return recoup.release(ALGORITHM, table, **{"epsilon": 1, "random_state": 0} | more)


# ---- what works as it does here ----


def test_a_release_is_paid_there_and_says_so(there, tmp_path):
    table = there.connect()
    assert (table.domain.to_json(), table.n_records) == (DOMAIN.to_json(), 2000)
    transcript = release(table, path=tmp_path / "t.json", purpose="a test", domain=DOMAIN)
    assert len(transcript.rounds) == 2
    assert there.ledger.spent == transcript.epsilon_spent
    assert transcript.payment.ledger == there.ledger.identifier
    said = f"by a ledger, {there.ledger.identifier}, of the curator of 'people' at {there.url}"
    assert transcript.privacy.counted == said
    read = recoup.Transcript.load(tmp_path / "t.json")
    assert (read.checksum, read.privacy.counted) == (transcript.checksum, said)
    assert there.ledger.entries()[0].run == transcript.payment.run


@pytest.mark.filterwarnings("ignore::recoup.errors.PostprocessDeclined")
def test_every_estimator_fits(there):
    table = there.connect()
    model = recoup.PrivateKMeans(n_clusters=2, epsilon=2, random_state=0).fit(table)
    np.testing.assert_allclose(model.cluster_centers_[:, :2], [[30, 20], [60, 50]], atol=4)
    assert list(model.feature_names_in_) == ["age", "hours", "rich"]
    assert recoup.PrivateGaussianMixture(n_components=2, epsilon=2).fit(table).means_.shape == (2, 3)
    assert recoup.PrivatePCA(n_components=1, epsilon=2, bounds=([0, 0, 0], [100, 80, 1])).fit(
        table
    ).components_.shape == (1, 3)
    logistic = recoup.PrivateLogisticRegression(epsilon=2, bounds=([0, 0], [100, 80])).fit(table, "rich")
    assert (logistic.coef_ > 0).all()
    assert list(logistic.feature_names_in_) == ["age", "hours"]
    assert "of the curator" in logistic.privacy_.counted


def test_commands_take_an_address(there, tmp_path, monkeypatch):
    def run(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    monkeypatch.chdir(tmp_path)
    refused = run("cluster", there.url, "-k", 2, "--epsilon", 1)
    assert refused.exit_code == 2
    assert "set the environment variable RECOUP_TOKEN" in refused.stderr
    monkeypatch.setenv("RECOUP_TOKEN", TOKEN)
    done = run("cluster", there.url, "-k", 2, "--epsilon", 2, "-o", "out", "--json")
    assert done.exit_code == 0, done.stderr
    assert np.array(json.loads(done.stdout)["centers"]).shape == (2, 3)
    assert TOKEN not in done.stdout + done.stderr + (tmp_path / "out" / "transcript.json").read_text()
    done = run(
        "release", there.url, "-k", 2, "--epsilon", 1, "--bounds", "age=0:100,hours=0:80,rich=0:1", "--rounds", 2
    )
    assert done.exit_code == 0, done.stderr
    assert "of the curator of 'people'" in done.stderr.replace("\n", " ") + str(
        recoup.Transcript.load("transcript.json").privacy
    )
    other = run(
        "release", there.url, "-k", 2, "--epsilon", 1, "--bounds", "age=0:90,hours=0:80,rich=0:1", "-o", "u.json"
    )
    assert other.exit_code == 2
    assert "not those of 'people'" in other.stderr


# ---- what is decided there ----


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"ledger": "ledger.db"}, "ledger: the one of 'people'"),
        ({"noise": "simulated"}, "draws its own, secure noise"),
        ({"person": "age"}, "person is None at 'people'"),
        ({"records_per_person": 3}, "records_per_person is 1"),
        ({"csv_dialect": "lines"}, "csv_dialect is None"),
        ({"domain": recoup.Box([0, 0, 0], [100, 81, 1])}, "not those of 'people'"),
        ({"domain": recoup.L1Ball([0, 0, 0], [100, 80, 1])}, "not those of 'people'"),
        ({"resume": True}, "resume=True needs the path"),
        ({"mechanism": "gaussian"}, "Gaussian noise needs delta"),
    ],
)
def test_what_the_curator_decides_is_left_out_or_the_same(there, terms, says):
    table, before = there.connect(), len(there.between.seen)
    with pytest.raises(ParameterError, match=says):
        release(table, **terms)
    assert len(there.between.seen) == before  # refused before anything was sent


def test_estimators_refuse_what_is_not_there(there):
    table = there.connect()
    for model, says in (
        (recoup.PrivateKMeans(2, 1, "private"), "bounds of its own"),
        (recoup.PrivateKMeans(2, 1, domain="l1"), "domain is 'box'"),
        (recoup.PrivateKMeans(2, 1, {"age": (0, 100)}), "not those of"),
        (recoup.PrivateKMeans(2, 1, algorithm="gupt"), "No table can be read from a RemoteTable"),
        (recoup.PrivateLogisticRegression(1), "last column .'rich'"),
    ):
        with pytest.raises(ValueError, match=says):
            model.fit(table, "age")


def test_refusals_are_the_errors_that_they_would_be_here(there):
    with pytest.raises(errors.BudgetExceededError, match=r"This token's budget at http") as caught:
        release(there.connect(), epsilon=60)
    assert (caught.value.asked, caught.value.left, caught.value.spent) == (60, 50, 0)
    with pytest.raises(errors.UnauthorizedError, match="does not know the token"):
        there.connect(token="another" * 6)
    table = there.connect()
    there.between.change = lambda path, status, value: (400, {"error": {"type": "BudgetError", "message": "a\x1b[2Jb"}})
    with pytest.raises(errors.BudgetError, match=r"refuses: a\\x1b\[2Jb"):
        release(table)
    there.between.change = lambda path, status, value: (500, {"error": {"type": "InternalError", "message": "no"}})
    with pytest.raises(RemoteError, match=r"refuses \(status 500\): InternalError: no"):
        release(table)


# ---- addresses and tokens ----


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://curator.example", "is another machine"),
        ("http://192.0.2.1:80/x", "is another machine"),
        ("ftp://curator.example", "such as https://"),
        ("curator.example", "such as https://"),
        ("https://", "such as https://"),
        ("https://host:port", "such as https://"),
        (None, "such as https://"),
        ("https://ann:secret@curator.example", "holds no name, password"),
        ("https://curator.example?token=secret", "holds no name, password"),
        ("https://curator.example/a\nb", "holds no name, password"),
    ],
)
def test_an_address_is_of_a_curator_and_by_tls(url, says):
    with pytest.raises(ParameterError, match=says) as caught:
        recoup.connect(url, token=TOKEN)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ü" * 30, 7, "x" * 600])
def test_a_token_is_one_that_fits_into_a_header(there, token):
    with pytest.raises(ParameterError, match=r"token|RECOUP_TOKEN") as caught:
        recoup.connect(there.url, token=token)
    assert str(token) == "" or str(token) not in str(caught.value).replace("RECOUP_TOKEN", "")


def test_the_token_is_nowhere_but_in_the_request(there, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("RECOUP_TOKEN", TOKEN)
    table = recoup.connect(there.url)
    transcript = release(table, path=tmp_path / "t.json")
    texts = [repr(table), str(table), repr(transcript), (tmp_path / "t.json").read_text(), caplog.text]
    there.between.change = lambda path, status, value: (503, {"error": {"type": "CuratorUnavailableError"}})
    with pytest.raises(errors.CuratorUnavailableError) as caught:
        release(table)
    texts += [str(caught.value), repr(caught.value), repr(caught.value.__context__)]
    assert not any(TOKEN in text for text in texts)
    for spread in (pickle.dumps, copy.deepcopy):
        for one in (table, table.client):
            with pytest.raises(TypeError, match="holds a token"):
                spread(one)


# ---- lost replies, crashes and copies ----


def test_a_lost_reply_is_fetched_again_and_paid_once(there):
    table, lost = there.connect(), []

    def cut(path, status, value):
        # Of each request the first reply is lost, after the curator has kept it.
        key = there.between.seen[-1][2]
        if key is not None and key not in lost:
            lost.append(key)
            return None
        return status, value

    there.between.change = cut
    transcript = release(table)
    assert len(transcript.rounds) == 2
    assert len(lost) == 3  # the run and two answers
    assert there.ledger.spent == transcript.epsilon_spent
    assert len(there.ledger.entries()) == 2


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("kept", [True, False])
def test_a_run_is_continued_from_what_the_curator_has_kept(there, tmp_path, seed, kept):
    table, path = there.connect(), tmp_path / "t.json"
    terms = {"path": path, "random_state": seed}

    def gone(path, status, value):
        second = path.endswith("/answer") and there.between.seen[-1][2].endswith("-1")
        return (503, {"error": {"type": "CuratorUnavailableError", "message": "later"}}) if second else (status, value)

    there.between.change = gone
    with pytest.raises(errors.CuratorUnavailableError):
        release(table, **terms)
    assert len(there.ledger.entries()) == 2  # the second was answered, and never arrived
    if not kept:
        # As if the curator had died before it kept the answer: charged, and never sent.
        with there.store._connection() as connection:
            connection.execute("UPDATE answer SET reply = NULL, due = NULL WHERE key LIKE '%-1'")
    there.between.change = lambda path, status, value: (status, value)
    there.between.seen.clear()
    transcript = release(table, **terms, resume=True)
    assert len(transcript.rounds) == 2
    assert len(there.ledger.entries()) == 2
    assert there.ledger.spent == transcript.epsilon_spent
    asked = [key for _, path, key in there.between.seen if path.endswith("/answer")]
    assert asked == ([] if kept else [f"{transcript.payment.run}-1"])
    # It goes on being what it is, and cannot be continued on other terms, or elsewhere.
    assert release(table, **terms, resume=True).checksum == transcript.checksum
    with pytest.raises(errors.TranscriptError, match="other terms"):
        release(table, **terms, resume=True, epsilon=2)
    with pytest.raises(errors.TranscriptError, match="exists"):
        release(table, **terms)
    with pytest.raises((errors.TranscriptError, errors.ContinuationError)):
        recoup.release(ALGORITHM, people(), domain=DOMAIN, epsilon=1, path=path, resume=True)


def test_another_question_under_a_key_is_refused_and_not_paid(there, tmp_path):
    table, path = there.connect(), tmp_path / "t.json"
    there.between.change = lambda path, status, value: (
        (503, {"error": {}}) if path.endswith("/answer") else (status, value)
    )
    with pytest.raises(errors.CuratorUnavailableError):
        release(table, path=path, random_state=1)
    with there.store._connection() as connection:
        connection.execute("UPDATE answer SET reply = NULL, due = NULL")
    there.between.change = lambda path, status, value: (status, value)
    with pytest.raises(errors.ContinuationError, match="the same parameters and random_state"):
        release(table, path=path, random_state=2, resume=True)
    assert len(release(table, path=path, random_state=1, resume=True).rounds) == 2
    assert len(there.ledger.entries()) == 2


def test_a_transcript_of_a_table_here_is_not_continued_there(there, tmp_path):
    path = tmp_path / "t.json"
    recoup.release(ALGORITHM, people(), domain=DOMAIN, epsilon=1, path=path)
    with pytest.raises(errors.ContinuationError, match="not of a run that 'people'"):
        release(there.connect(), path=path, resume=True)


def test_a_curator_that_is_not_there():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recoup.remote.client._WAITS", (0.01,))
        with pytest.raises(errors.CuratorUnavailableError, match="does not answer"):
            recoup.connect("http://127.0.0.1:9", token=TOKEN)


# ---- a curator that lies ----


def _set(value, path, new):
    value = copy.deepcopy(value)
    *steps, last = path
    inner = value
    for step in steps:
        inner = inner[step]
    inner[last] = new
    return value


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("round", "query", "centers"), [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]]),
        (("round", "query", "type"), "os.system"),
        (("round", "share"), "1/3"),
        (("round", "noisy"), [1, 2]),
        (("round", "noisy", 0), 2**70),
        (("round", "noisy", 0), "1"),
        (("round", "scale"), 1.0),
        (("round", "price", "amount"), "1/1000"),
        (("round", "blocks", 0, "weight"), 1),
        (("round", "blocks"), []),
        (("round",), None),
        (("round",), [[[[]]]]),
    ],
)
def test_an_answer_that_was_not_asked_for_is_refused(there, path, new):
    table = there.connect()
    there.between.change = lambda where, status, value: (
        (status, _set(value, path, new)) if where.endswith("/answer") else (status, value)
    )
    with pytest.raises(RemoteError, match=r"answers (another question|with what is not)"):
        release(table)


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("context", "epsilon"), "2"),
        (("context", "domain", "high"), [100, 80, 2]),
        (("context", "records_per_person"), 2),
        (("context", "mechanism"), "none"),
        (("context",), None),
        (("payment", "ledger"), "0" * 32),
        (("payment", "run"), None),
        (("run",), "0" * 32),
        (("run",), "../x"),
    ],
)
def test_a_run_on_other_terms_is_refused(there, path, new):
    table = there.connect()
    there.between.change = lambda where, status, value: (
        (status, _set(value, path, new)) if where == "/runs" else (status, value)
    )
    with pytest.raises(RemoteError, match="begins a run"):
        release(table)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"a": 1, "a": 2}',
        b"[" * 100_000,
        b'{"format": "recoup-terms", "version": 2}',
        b'{"format": "recoup-terms", "version": 1, "domain": {}}',
        b'{"format": "recoup-terms", "version": 1}',
        b'{"x": NaN}',
    ],
)
def test_what_is_no_terms_is_refused(there, body):
    there.between.change = lambda path, status, value: (200, body)
    with pytest.raises(RemoteError):
        there.connect()


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("records_per_person",), 0),
        (("records_per_person",), "1"),
        (("domain", "low"), [0, 0, 7e300]),
        (("accounting",), "other"),
        (("person",), 3),
        (("token",), {}),
        (("token", "left"), "-"),
        (("token", "left"), "1" + "0" * 400),
        (("answer_seconds", "base"), 1e300),
        (("answer_seconds",), {"base": 1e9, "per_value": 1 - 1e9}),
        (("answer_seconds", "per_value"), float(10**6)),
    ],
)
def test_terms_that_cannot_be_used_are_refused(there, path, new):
    there.between.change = lambda where, status, value: (status, _set(value, path, new))
    with pytest.raises(RemoteError, match="serves terms"):
        there.connect()


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1", "1, 1", ""])
def test_a_length_that_is_none_is_refused(there, monkeypatch, length):
    monkeypatch.setattr("http.client.HTTPResponse.getheader", lambda self, name, default=None: length)
    with pytest.raises(RemoteError, match="a length that is none"):
        there.connect()


def test_nobody_waits_longer_than_a_clock_can_count(there):
    there.between.change = lambda where, status, value: (status, _set(value, ("answer_seconds", "per_value"), 999_999))
    assert there.connect().seconds(GridQuery(sides=(100, 100))) == 10**6


def test_a_budget_that_is_larger_than_any_is_refused(there):
    table = there.connect()
    numbers = {"spent": "1" + "0" * 400, "asked": "1", "left": "1"}
    there.between.change = lambda *_: (402, {"error": {"type": "BudgetExceededError", "message": "no"} | numbers})
    with pytest.raises(RemoteError, match="refuses: no"):
        release(table)


def test_a_reply_of_any_size_is_not_read(there, monkeypatch):
    monkeypatch.setattr("recoup.remote.client._LARGEST", 1000)
    there.between.change = lambda path, status, value: (200, b" " * 2000)
    with pytest.raises(RemoteError, match="more than an answer can hold"):
        there.connect()


def test_another_run_under_the_name_is_refused(there, tmp_path):
    table, path = there.connect(), tmp_path / "t.json"
    first = release(table, path=path)
    other = release(table)

    def swapped(where, status, value):
        return (status, other.to_json()) if where.endswith("/transcript") else (status, value)

    there.between.change = swapped
    with pytest.raises(RemoteError, match=r"another run|cannot be used"):
        release(table, path=path, resume=True)
    there.between.change = lambda where, status, value: (status, {"format": "x"} if "transcript" in where else value)
    with pytest.raises(RemoteError, match="cannot be used"):
        release(table, path=path, resume=True)
    assert recoup.Transcript.load(path).checksum == first.checksum


def test_what_is_left_is_read(there):
    assert there.connect().left == Fraction(50)
    assert repr(there.connect()) == f"RemoteTable('people' at {there.url}, 3 columns, epsilon 50 left)"
