"""An algorithm by a stranger: the same results from a process that holds nothing, and typed errors for the rest."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

import hostile
import numpy as np
import pytest
from own_queries import First
from strangers import Asks, AsksFirst, Faulty, Honest, Hooked, Pair, Surroundings

import recoup
from recoup.custom import by_name
from recoup.errors import IsolationError, ParameterError
from recoup.isolation.carried import carried, restored
from recoup.queries import QUERIES

X = np.random.default_rng(0).uniform(size=(1000, 2))
BOX = recoup.Box([0, 0], [1, 1])


def release(algorithm, **more):
    terms = {"domain": BOX, "epsilon": 1, "random_state": 5, "noise": "simulated"}
    return recoup.release(algorithm, X, **terms | more)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(QUERIES, First.type_name, First)


@pytest.mark.parametrize(
    ("algorithm", "seed", "terms"),
    [
        (Honest(n_clusters=3, n_rounds=3), lambda: 5, {"delta": 1e-6}),
        (Asks(sides=np.arange(3.0)), lambda: np.random.default_rng(1), {}),
        (AsksFirst(), lambda: [3, 4], {"n_records": 1000, "records_per_person": 2}),
    ],
)
def test_results_are_the_same_bit_for_bit(algorithm, seed, terms):
    one, other = (release(algorithm, random_state=seed(), isolate=isolate, **terms) for isolate in (True, False))
    assert one.rounds
    assert one.checksum == other.checksum


def test_it_continues_where_it_was_interrupted(tmp_path):
    class Interrupted(Exception):
        pass

    def interrupt(n_rounds):
        if n_rounds == 2:
            raise Interrupted

    path, ledger = tmp_path / "t.json", recoup.Ledger.in_memory(epsilon=1)
    terms = {"path": path, "ledger": ledger, "noise": "secure"}
    with pytest.raises(Interrupted):
        release(Asks(n_rounds=4), **terms, on_round=interrupt)
    assert len(release(Asks(n_rounds=4), **terms, resume=True).rounds) == 4
    assert ledger.spent <= 1


def test_recoups_own_run_here_and_whatever_derives_from_them_does_not(monkeypatch):
    started = []
    monkeypatch.setattr("recoup.isolation.process.subprocess.Popen", lambda *a, **k: started.append(a) or 1 / 0)
    release(recoup.KMeans(n_clusters=2, n_rounds=1))
    assert not started
    with pytest.raises(ZeroDivisionError):
        release(Honest(n_clusters=2))


def test_none_of_its_code_runs_here():
    stranger = Hooked(n_clusters=2, n_rounds=1)
    Hooked.callers.clear()
    transcript = release(stranger, delta=1e-6)
    assert Hooked.callers == []
    assert (transcript.context.mechanism, transcript.algorithm["type"]) == ("laplace", "test-hooked")
    # The other half: without a process of its own it does run, so that the test would see it.
    release(stranger, delta=1e-6, isolate=False)
    assert Hooked.callers


@pytest.mark.parametrize("way", hostile.MADE)
def test_what_would_run_here_is_refused_before_it_does(way, monkeypatch):
    monkeypatch.setitem(sys.modules, "hostile_module", hostile.Module())
    algorithm = hostile.MADE[way]()
    hostile.RAN.clear()
    with pytest.raises(IsolationError):
        release(algorithm)
    assert hostile.RAN == []


def test_looking_for_what_an_algorithm_has_runs_nothing():
    hostile.RAN.clear()
    with pytest.raises(IsolationError, match="in its own process"):
        release(hostile.Unmarked())
    assert hostile.RAN == []
    carried(hostile.with_field(hostile.Colour.RED))
    assert release(hostile.with_field([hostile.Colour.RED, np.float64(0.5)])).algorithm["type"] == "test-hostile"
    assert hostile.RAN == []
    # The other half: in this process it does run.
    with suppress(Exception):
        release(hostile.Unmarked(), isolate=False)
    assert hostile.RAN


def test_a_debugger_that_looks_at_the_frame_changes_nothing():
    def look(frame, event, argument):
        return look if frame.f_locals is not None and frame.f_code.co_name == "release" else None

    before = sys.gettrace()
    sys.settrace(look)
    try:
        transcript = release(recoup.KMeans(n_clusters=2, n_rounds=1))
    finally:
        sys.settrace(before)
    assert len(transcript.rounds) == 1


def test_there_is_nothing_around_it(monkeypatch, tmp_path):
    monkeypatch.setenv("RECOUP_TOKEN", "a secret")
    monkeypatch.setenv("TABLE", "people.csv")
    with open(tmp_path / "records.csv", "w") as file:
        os.set_inheritable(file.fileno(), True)
        found = release(Surroundings(), path=tmp_path / "t.json").algorithm
    assert found["argv"] == ["-c"]
    assert not {"RECOUP_TOKEN", "TABLE", "HOME", "PWD", "PYTHONPATH"} & set(found["environment"])
    assert (found["folder"], found["files"], found["arrays"], found["modules"]) == ("/", [], 0, [])
    assert found["frames"] == ["to_json", "describe", "main", "<module>"]
    # The other half: here it finds the table, and more.
    here = release(Surroundings(), isolate=False).algorithm
    assert "release" in here["frames"]
    assert here["arrays"]
    assert "TABLE" in here["environment"]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("raise", "RuntimeError: a sentence of its own"),
        ("exit", "SystemExit"),
        ("abort", "ended its process"),
        ("text", "next_request gives a str"),
        ("garbage", "not JSON of a request"),
        ("huge", "more than a request can hold"),
        ("deep", "not JSON of a request"),
        ("twice", "not JSON of a request"),
    ],
)
def test_what_it_breaks_is_a_typed_error_and_costs_nothing(fault, says, tmp_path):
    ledger = recoup.Ledger.in_memory(epsilon=1)
    with pytest.raises(IsolationError, match=says) as caught:
        release(Faulty(fault=fault), ledger=ledger, noise="secure", path=tmp_path / "t.json")
    assert "Nothing was charged" in str(caught.value)
    assert len(ledger.entries()) == 1
    kept = recoup.Transcript.load(tmp_path / "t.json")
    assert (len(kept.rounds), kept.pending, kept.lost) == (1, None, ())


@pytest.mark.parametrize(("fault", "says"), [("ours", "n_rounds is odd"), ("other", "'os.system' is not one of")])
def test_what_it_refuses_is_refused_here(fault, says):
    with pytest.raises(ParameterError, match=says):
        release(Faulty(fault=fault))


@pytest.mark.parametrize("fault", ["no description", "not json", "nan"])
def test_a_description_that_is_none_is_refused(fault):
    with pytest.raises(IsolationError):
        release(Faulty(fault=fault))


def test_it_cannot_ask_for_more_than_is_left():
    with pytest.raises(recoup.errors.BudgetExceededError):
        release(Faulty(fault="share"))


def test_a_query_that_is_not_registered_here_is_refused(monkeypatch):
    monkeypatch.delitem(QUERIES, First.type_name)
    with pytest.raises(ParameterError, match=r"'test-first' is not one of Recoup's: recoup\.register"):
        release(AsksFirst())


def test_a_class_that_another_process_cannot_find_is_refused(monkeypatch):
    @dataclass(frozen=True)
    class Local(Asks):
        type_name = "test-local"

    for kind in (Local, type("Local", (Asks,), {"__module__": "__main__"})):
        with pytest.raises(IsolationError, match=r"put it into a module .* isolate=False"):
            release(kind())
    assert release(Local(n_rounds=1), isolate=False).rounds
    # Found here, and not there.
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if "reference" not in entry])
    with pytest.raises(IsolationError, match="ModuleNotFoundError"):
        release(Asks())


@pytest.mark.parametrize("value", [lambda: 0, np.array([{}]), type("D", (dict,), {})()])
def test_fields_are_plain_values(value):
    algorithm = Asks()
    object.__setattr__(algorithm, "n_rounds", [value])
    with pytest.raises(IsolationError):
        release(algorithm)


def test_an_object_is_built_again_as_it_was():
    array = np.arange(3.0)
    array.setflags(write=False)
    there = restored(carried(Asks(n_rounds=2, pair=Pair(0.5, float("nan")), sides=array)))
    assert (there.n_rounds, type(there.pair), there.pair.first) == (2, Pair, 0.5)
    assert not there.sides.flags.writeable
    np.testing.assert_array_equal(there.sides, array)


def test_no_process_is_left(monkeypatch):
    import recoup.isolation.process as process

    made, kind = [], process.AlgorithmProcess
    monkeypatch.setattr(process, "AlgorithmProcess", lambda algorithm: made.append(kind(algorithm)) or made[-1])
    release(Asks(n_rounds=1))
    with pytest.raises(IsolationError):
        release(Faulty())
    assert [one._process.returncode for one in made] == [-9, -9]


def test_what_it_started_ends_with_it(tmp_path):
    held = tmp_path / "held"
    held.touch()
    assert release(hostile.with_field(str(held), "held")).algorithm["started"]
    with held.open() as file:
        for _ in range(100):
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(0.1)
    pytest.fail("a process that the algorithm started still holds the file")


def test_an_algorithm_by_name_is_never_imported_here(tmp_path, monkeypatch):
    source = "import sys\nfrom strangers import Asks\nclass Far(Asks):\n    type_name = 'test-far'\n"
    (tmp_path / "far_away.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    transcript = release(by_name("far_away:Far", n_rounds=2))
    assert (transcript.algorithm["type"], len(transcript.rounds)) == ("test-far", 2)
    assert "far_away" not in sys.modules
    for place, says in (("far_away:Near", "AttributeError"), ("nowhere:Far", "ModuleNotFoundError")):
        with pytest.raises(IsolationError, match=rf"cannot be built in a process of its own: {says}"):
            release(by_name(place))
    with pytest.raises(ParameterError, match="leave out isolate"):
        release(by_name("far_away:Far"), isolate=False)
    for place in ("far_away", "far away:Far", "a:b; import os", None):
        with pytest.raises(ParameterError, match="not a module and a class"):
            by_name(place)


def test_no_process_to_be_had_is_a_typed_error(monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(IsolationError, match="gets no process of its own"):
        release(Asks())


def test_isolate_is_yes_or_no():
    with pytest.raises(ParameterError, match="isolate must be"):
        release(Asks(), isolate="no")
