"""Releases that are killed at any point: what is on disk stays whole, paid for, and can be continued within the budget.

One process imports everything once and forks a child for each release; children die by SIGKILL, at named points of a
round and at random ones. The last test plants a driver that forgets the pending round, which the same check must catch.
"""

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from recoup import Box, KMeans, Ledger, Transcript, release

EPSILON, N_ROUNDS = Fraction(1, 2), 8
ALGORITHM, BOX = KMeans(n_clusters=3, n_rounds=N_ROUNDS), Box([0, 0], [1, 1])
X = np.random.default_rng(0).uniform(size=(100, 2))
POINTS = [f"{when} {what}" for what in ("save", "charge", "noise") for when in ("before", "after")]

SERVER = """
import json, os, random, signal, sys, time
import numpy as np
import recoup.curator.curator, recoup.driver
from recoup import Box, KMeans, Ledger, Transcript, release
from recoup.privacy.mechanism import Laplace

x = np.random.default_rng(0).uniform(size=(100, 2))

def run(folder):
    release(KMeans(n_clusters=3, n_rounds=8), x, domain=Box([0, 0], [1, 1]), epsilon="0.5",
            path=folder + "/t.json", ledger=folder + "/l.db")

def die_at(owner, name, when, nth):
    proper, calls = getattr(owner, name), []
    def dying(*arguments, **named):
        calls.append(1)
        if len(calls) == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = proper(*arguments, **named)
        if len(calls) == nth and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, dying)

PLACES = {"save": (Transcript, "save"), "charge": (Ledger, "charge"), "noise": (Laplace, "release")}

def child(job):
    if job.get("forgetful"):
        # The planted bug: a round is not announced in the file before it is charged.
        proper = Transcript.save
        Transcript.save = lambda self, path: None if self.pending is not None else proper(self, path)
    if "point" in job:
        when, what = job["point"].split()
        die_at(*PLACES[what], when, job["nth"])
    run(job["folder"])
    os._exit(0)

warm = sys.argv[1]
Ledger.create(warm + "/l.db", epsilon=1)
start = time.monotonic()
run(warm)
seconds = time.monotonic() - start
for job in json.loads(sys.argv[2]):
    pid = os.fork()
    if pid == 0:
        try:
            child(job)
        finally:
            os._exit(1)
    if "point" not in job:
        time.sleep(seconds * job["moment"])
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)
"""


def crash(tmp_path, jobs):
    """Run the jobs, each in a folder of its own, and return the folders with the signals that ended them."""
    (tmp_path / "warm").mkdir()
    for i, job in enumerate(jobs):
        folder = tmp_path / f"job{i}"
        folder.mkdir()
        Ledger.create(folder / "l.db", epsilon=1)
        job["folder"] = str(folder)
    command = [sys.executable, "-c", SERVER, str(tmp_path / "warm"), json.dumps(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return list(zip([tmp_path / f"job{i}" for i in range(len(jobs))], map(int, done.stdout.split()), strict=True))


def check_and_resume(folder):
    """Whatever happened before, at most epsilon is paid and released, also after continuing."""
    path, ledger = folder / "t.json", Ledger(folder / "l.db")
    charged = sum((entry.amount for entry in ledger.entries()), Fraction(0))
    if path.exists():
        transcript = Transcript.load(path)
        assert transcript.shares_spent <= 1
        assert [e.amount for e in ledger.entries()][: len(transcript.rounds)] == [
            r.price.amount for r in transcript.rounds
        ]
        assert charged >= sum(r.price.amount for r in transcript.rounds)
        # What was charged and not answered is announced in the file.
        assert charged <= EPSILON * transcript.shares_spent
        # A kill within the last round leaves nothing to pay another answer with.
        n_rounds = len(transcript.rounds) if transcript.shares_spent == 1 else N_ROUNDS
    else:
        assert charged == 0
        n_rounds = N_ROUNDS
    done = release(ALGORITHM, X, domain=BOX, epsilon=EPSILON, path=path, ledger=ledger, resume=True)
    assert len(done.rounds) == n_rounds
    assert done.pending is None
    assert done.shares_spent <= 1
    assert sum(r.price.amount for r in done.rounds) + EPSILON * sum(done.lost, Fraction(0)) <= EPSILON
    assert done.amount_spent <= EPSILON
    assert ledger.spent <= EPSILON
    assert Transcript.load(path).to_json() == done.to_json()
    return done


def test_a_release_killed_at_any_named_point_can_be_continued(tmp_path):
    jobs = [{"point": point, "nth": nth} for point in POINTS for nth in (1, 4)]
    lost = {}
    for job, (folder, signal) in zip(jobs, crash(tmp_path, jobs), strict=True):
        assert signal == 9
        lost[job["point"], job["nth"]] = len(check_and_resume(folder).lost)
    # A round that was charged is lost; one that was saved is not. The first save announces the first round.
    assert lost["after charge", 1] == lost["before noise", 4] == lost["after noise", 4] == 1
    assert lost["before save", 1] == lost["after save", 4] == 0


def test_a_release_killed_at_a_random_moment_can_be_continued(tmp_path):
    rng = np.random.default_rng(5)
    jobs = [{"moment": float(m)} for m in rng.uniform(0.02, 0.95, size=10)]
    for folder, _ in crash(tmp_path, jobs):
        check_and_resume(folder)


def test_a_driver_that_forgets_the_pending_round_is_caught(tmp_path):
    ((folder, signal),) = crash(tmp_path, [{"point": "after charge", "nth": 4, "forgetful": True}])
    assert signal == 9
    with pytest.raises(AssertionError):
        check_and_resume(folder)
