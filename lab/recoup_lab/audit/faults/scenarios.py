"""What is interrupted: releases, charges, saves, inference, experiments; and what must hold whenever it was.

A scenario makes itself ready in a folder, acts in a child, and is checked afterwards: whatever is on disk is whole, the
ledger shows at least what was drawn and what the transcript shows, in exact fractions, and a second run ends well.
"""

# ruff: noqa: D102 (the protocol says what the methods of a scenario do)
from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from contextlib import closing, redirect_stderr, redirect_stdout
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from recoup import Box, KMeans, Ledger, Transcript, infer, release
from recoup.errors import LedgerError
from recoup.inference.inferred import InferredDataset
from recoup.privacy.price import Price
from recoup.transcript.context import Context
from recoup_lab.audit.faults.children import How, child

BOX = Box((0.0, 0.0), (1.0, 1.0))
TABLE = np.random.default_rng(0).uniform(size=(60, 2))
EVERYWHERE: tuple[How, ...] = ("moment", "line", "call", "call")
EPSILON, DELTA = Fraction(1, 2), Fraction(1, 10**6)

# What the check of a scenario shows, where it is not that the same call goes on from where it was ended.
AFTERWARDS = {
    "inference, mcmc": "run again with the same result",
    "estimator": "every draw paid for, no file half-written",
}


class Scenario(Protocol):
    """Something that is interrupted."""

    name: str
    hows: tuple[How, ...]

    def ready(self, folder: Path) -> None:
        """Make what has to be there before."""

    def act(self, folder: Path) -> None:
        """What is interrupted; in a child."""

    def problems(self, folder: Path) -> list[str]:
        """What is wrong on disk now, and after the same was run again."""


def sound_ledger(path: Path) -> list[str]:
    """What is wrong with a ledger's file and its sums."""
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return ["the ledger's file is damaged"]
    ledger = Ledger(path)
    entries = ledger.entries()
    wrong = []
    if [entry.id for entry in entries] != list(range(1, len(entries) + 1)):
        wrong.append("the ledger misses an entry")
    if ledger.delta == 0 and ledger.spent != sum((entry.amount for entry in entries), Fraction(0)):
        wrong.append("the ledger's total is not the sum of its entries")
    if ledger.spent > ledger.epsilon:
        wrong.append("the ledger is overspent")
    return wrong


def unpaid_draws(witness: Path, ledger: Path, context: Context) -> list[str]:
    """Draws that no entry of the ledger paid for, in order and exactly."""
    lines = witness.read_text().splitlines() if witness.exists() else []
    amounts = [entry.amount for entry in Ledger(ledger).entries()]
    if len(amounts) < len(lines):
        return [f"{len(lines)} draws, and {len(amounts)} charges"]
    for line, amount in zip(lines, amounts, strict=False):
        name, scale = line.split()
        ratio = Fraction(context.distance) / Fraction(float(scale))
        price = ratio if name == "laplace" else ratio**2 / 2
        # The map rounds up: what is charged is the price or an ulp more.
        if not price <= amount <= price * (1 + Fraction(1, 10**9)):
            return ["a charge is not the price of its draw"]
    return []


def strangers(folder: Path, known: set[str]) -> list[str]:
    """Files that nobody expects; hidden parts and locks of known ones may be there after a kill."""
    found = []
    for path in folder.iterdir():
        name = path.name
        left = any(name.startswith(f".{k}.") and name.endswith((".part", ".lock", ".part-journal")) for k in known)
        if name not in known and not left and name.removesuffix("-journal") not in known:
            found.append(name)
    return [f"left behind: {', '.join(sorted(found))}"] if found else []


class Release:
    """`recoup.release` with a ledger and a path, five rounds."""

    n_rounds, hows = 5, EVERYWHERE

    def __init__(self, mechanism: str) -> None:
        self.name = f"release, {mechanism}"
        self.delta = Fraction(0) if mechanism == "laplace" else DELTA
        self.algorithm = KMeans(n_clusters=3, n_rounds=self.n_rounds)
        self.context = Context(domain=BOX, epsilon=EPSILON, delta=self.delta, mechanism=mechanism)  # type: ignore[arg-type]

    def ready(self, folder: Path) -> None:
        Ledger.create(folder / "l.db", epsilon=EPSILON, delta=self.delta)

    def act(self, folder: Path) -> None:
        self._release(folder, resume=False)

    def _release(self, folder: Path, *, resume: bool, timeout: float = 30.0) -> Transcript:
        return release(
            self.algorithm,
            TABLE,
            domain=BOX,
            epsilon=EPSILON,
            delta=self.delta,
            path=folder / "t.json",
            ledger=Ledger(folder / "l.db", timeout=timeout),
            resume=resume,
        )

    def problems(self, folder: Path) -> list[str]:
        ledger, path, whole = folder / "l.db", folder / "t.json", self.context.budget.amount
        wrong = sound_ledger(ledger) + unpaid_draws(folder.parent / "witness", ledger, self.context)
        charged = [entry.amount for entry in Ledger(ledger).entries()]
        expected = self.n_rounds
        if path.exists():
            saved = Transcript.load(path)
            prices = [answered.price.amount for answered in saved.rounds]
            if charged[: len(prices)] != prices or sum(charged) < sum(prices):
                wrong.append("the transcript shows more than the ledger")
            if sum(charged) > whole * saved.shares_spent:
                wrong.append("a charge is not announced in the transcript")
            expected = len(saved.rounds) if saved.shares_spent == 1 else self.n_rounds
        elif charged:
            wrong.append("charged without a transcript")
        done = self._release(folder, resume=True)
        after = [entry.amount for entry in Ledger(ledger).entries()]
        paid = [answered.price.amount for answered in done.rounds]
        if len(done.rounds) != expected or done.pending is not None or done.shares_spent > 1:
            wrong.append(f"continued to {len(done.rounds)} rounds instead of {expected}")
        if after[: len(charged)] != charged or sum(after) < sum(paid) or sum(after) > whole:
            wrong.append("the total after continuing is wrong")
        if len(after) - len(paid) not in range(len(done.lost) + 1):
            wrong.append("more was charged than answered and lost")
        if done.amount_spent > whole or Transcript.load(path).to_json() != done.to_json():
            wrong.append("what was continued is not what is on disk")
        # An empty journal of SQLite's stays until the next charge.
        allowed = {"l.db", "t.json"} | ({"l.db-journal"} if after == charged else set())
        if left := {item.name for item in folder.iterdir()} - allowed:
            wrong.append(f"left behind after continuing: {', '.join(sorted(left))}")
        return wrong + sound_ledger(ledger)


class Charge:
    """`Ledger.charge`, ten times; a line is written after each."""

    name, n_charges = "ledger charge", 10
    hows: tuple[How, ...] = ("moment", "moment", "line", "call")  # most of its time is spent in SQLite
    price = Price(measure="pure", amount=Fraction(1, 20))

    def ready(self, folder: Path) -> None:
        Ledger.create(folder / "l.db", epsilon=EPSILON)

    def act(self, folder: Path) -> None:
        import os

        ledger = Ledger(folder / "l.db")
        descriptor = os.open(folder / "released", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for number in range(self.n_charges):
            ledger.charge(self.price, purpose=f"charge {number}")
            os.write(descriptor, b"x")

    def problems(self, folder: Path) -> list[str]:
        path, released = folder / "l.db", folder / "released"
        wrong = sound_ledger(path)
        ledger = Ledger(path)
        n = len(ledger.entries())
        n_released = released.stat().st_size if released.exists() else 0
        if not n_released <= n <= n_released + 1:
            wrong.append(f"{n_released} releases, and {n} charges")
        for _ in range(n, self.n_charges):
            ledger.charge(self.price, purpose="the rest")
        if ledger.spent != EPSILON or ledger.preview([self.price]).fits:
            wrong.append("the total after continuing is wrong")
        return wrong + strangers(folder, {"l.db", "released"}) + sound_ledger(path)


class Create:
    """`Ledger.create`."""

    name, hows = "ledger create", EVERYWHERE

    def ready(self, folder: Path) -> None:
        pass

    def act(self, folder: Path) -> None:
        Ledger.create(folder / "l.db", epsilon=EPSILON, delta=0)

    def problems(self, folder: Path) -> list[str]:
        path = folder / "l.db"
        try:
            ledger = Ledger(path) if path.exists() else Ledger.create(path, epsilon=EPSILON)
        except LedgerError as error:
            return [f"half a ledger: {error}"]
        wrong = [] if ledger.epsilon == ledger.left == EPSILON else ["a ledger without its budget"]
        return wrong + sound_ledger(path) + strangers(folder, {"l.db"})


class Save:
    """`Transcript.save` and `InferredDataset.save`, several times over each other."""

    name, hows = "transcript save", EVERYWHERE

    def __init__(self) -> None:
        terms: dict[str, Any] = {"domain": BOX, "epsilon": 1, "noise": "simulated", "random_state": 0}
        self.transcripts = [release(KMeans(n_clusters=2, n_rounds=n), TABLE, **terms) for n in (1, 6)]
        self.values = [transcript.to_json() for transcript in self.transcripts]
        self.inferred = infer(self.transcripts[0], method="mcmc", n_steps=200, random_state=0)

    def ready(self, folder: Path) -> None:
        self.transcripts[0].save(folder / "t.json")

    def act(self, folder: Path) -> None:
        for number in range(6):
            self.transcripts[number % 2].save(folder / "t.json")
            self.inferred.save(folder / "i.parquet")

    def problems(self, folder: Path) -> list[str]:
        wrong = strangers(folder, {"t.json", "i.parquet"})
        if Transcript.load(folder / "t.json").to_json() not in self.values:
            wrong.append("a file that nobody wrote")
        if (folder / "i.parquet").exists():
            found = InferredDataset.load(folder / "i.parquet")
            if not np.array_equal(found.points, self.inferred.points):
                wrong.append("another data set")
        self.act(folder)
        if Transcript.load(folder / "t.json").to_json() != self.values[1]:
            wrong.append("what was saved last is not there")
        return wrong


class Infer:
    """`recoup infer --method mcmc`, by its command."""

    name, hows = "inference, mcmc", EVERYWHERE

    def __init__(self) -> None:
        terms: dict[str, Any] = {"domain": BOX, "epsilon": 5, "noise": "simulated", "random_state": 0}
        self.transcript = release(KMeans(n_clusters=3, n_rounds=3), np.tile(TABLE, (5, 1)), **terms)
        self.reference: dict[str, bytes] = {}
        # Once here, so that no child has to load what the command loads.
        with tempfile.TemporaryDirectory() as top, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            self.ready(Path(top))
            self.act(Path(top))

    def ready(self, folder: Path) -> None:
        self.transcript.save(folder / "t.json")

    def act(self, folder: Path) -> None:
        from recoup.cli.app import main

        words = ["infer", str(folder / "t.json"), "-o", str(folder / "out"), "--method", "mcmc"]
        sys.argv = ["recoup", *words, "--steps", "30000", "--chains", "2"]
        try:
            main()
        except SystemExit as error:
            if error.code:
                raise

    def whole(self, folder: Path) -> list[str]:
        out = folder / "out"
        if out.exists() and (out / "inferred.parquet").exists():
            InferredDataset.load(out / "inferred.parquet")
        if out.exists() and (out / "diagnostics.json").exists():
            json.loads((out / "diagnostics.json").read_text())
        known = {"centers.csv", "inferred.parquet", "diagnostics.json"}
        return strangers(out, known) if out.exists() else []

    def problems(self, folder: Path) -> list[str]:
        wrong = self.whole(folder)
        ended = child(lambda: self.act(folder))
        if ended.code or ended.signal:
            return [*wrong, f"a second run ended with {ended.code or ended.signal}"]
        found = {name: (folder / "out" / name).read_bytes() for name in ("centers.csv", "inferred.parquet")}
        self.reference = self.reference or found
        if found != self.reference:
            wrong.append("a second run found something else")
        return wrong + self.whole(folder)


class Experiment:
    """`run_experiment`, in one process, and the files of its results."""

    name: str = "experiment"
    hows: tuple[How, ...] = EVERYWHERE
    n_processes = 1

    def __init__(self) -> None:
        from recoup_lab.experiments.datasets import SETS, DataSet
        from recoup_lab.experiments.methods import METHODS
        from recoup_lab.experiments.runner import Plan

        tiny = SETS.get("tiny") or DataSet(
            name="tiny", title="Tiny", n_records=200, n_columns=2, n_clusters=3, make=_tiny
        )
        methods = tuple(METHODS[name] for name in ("data-free", "dpkm", "consistency"))
        self.plan = Plan(sets=(tiny,), methods=methods, epsilons=(Fraction(1),), n_seeds=3, metrics=("user",))
        self.reference: dict[Any, float] = {}

    def ready(self, folder: Path) -> None:
        pass

    def act(self, folder: Path) -> None:
        from recoup_lab.experiments.results import write_results
        from recoup_lab.experiments.runner import run_experiment

        write_results(folder, run_experiment(self.plan, folder, n_processes=self.n_processes).everything)

    def problems(self, folder: Path) -> list[str]:
        from recoup_lab.experiments.results import read_results, write_results
        from recoup_lab.experiments.runner import finished_runs, run_experiment

        before = {result.key: result for result in finished_runs(folder)}
        files = [folder / name for name in ("runs.csv", "runs.parquet")]
        for path in files:
            if path.exists() and len(read_results(path)) != len(before):
                return [f"{path.name} is not whole"]
        done = run_experiment(self.plan, folder, n_processes=1)
        write_results(folder, done.everything)
        wrong = strangers(folder, {"runs.jsonl", "runs.csv", "runs.parquet"})
        if done.n_reused != len(before) or any(result not in done.results for result in before.values()):
            wrong.append("a finished run was repeated")
        found = {result.key: result.wcss for result in done.results}
        self.reference = self.reference or found
        if done.failures or found != self.reference:
            wrong.append("the runs are not those of an experiment that nobody stopped")
        if any(len(read_results(path)) != len(found) for path in files):
            wrong.append("the files of results are not whole")
        return wrong


class ExperimentInProcesses(Experiment):
    """The same in two worker processes, which must not outlive the first."""

    name = "experiment, two processes"
    hows: tuple[How, ...] = ("moment",)
    n_processes = 2

    def act(self, folder: Path) -> None:
        from multiprocessing import resource_tracker

        # A tracker of its own: that of the first process would speak of what a killed child has left.
        tracker: Any = resource_tracker._resource_tracker
        tracker._fd = tracker._pid = None
        super().act(folder)


def _tiny() -> Any:
    from recoup.demo import GeneratedTable

    rows = np.random.default_rng(1).uniform(size=(200, 2))
    return GeneratedTable(name="tiny", columns=("x", "y"), low=(0, 0), high=(1, 1), n_clusters=3, rows=rows)


class Fit:
    """`PrivateKMeans.fit` with a ledger: the default algorithm, with inference between its rounds."""

    name, hows = "estimator", EVERYWHERE

    def __init__(self) -> None:
        self.context = Context(domain=BOX, epsilon=EPSILON)

    def ready(self, folder: Path) -> None:
        Ledger.create(folder / "l.db", epsilon=EPSILON)

    def act(self, folder: Path) -> None:
        from recoup import PrivateKMeans

        model = PrivateKMeans(
            n_clusters=2, epsilon=EPSILON, bounds=(0, 1), n_records=60, ledger=folder / "l.db", random_state=0
        )
        (folder / "centers").write_bytes(model.fit(TABLE).cluster_centers_.tobytes())

    def problems(self, folder: Path) -> list[str]:
        ledger = folder / "l.db"
        wrong = sound_ledger(ledger) + unpaid_draws(folder.parent / "witness", ledger, self.context)
        if (folder / "centers").exists() and Ledger(ledger).left > EPSILON / 1000:
            wrong.append("centres without their price")
        return wrong + strangers(folder, {"l.db", "centers"})


def scenarios() -> dict[str, tuple[Scenario, int]]:
    """All scenarios by name, each with its part of a hundred kills."""
    parts: list[tuple[Scenario, int]] = [
        (Release("laplace"), 30),
        (Release("gaussian"), 10),
        (Charge(), 16),
        (Create(), 6),
        (Save(), 14),
        (Infer(), 8),
        (Experiment(), 12),
        (Fit(), 3),
        (ExperimentInProcesses(), 1),
    ]
    return {scenario.name: (scenario, part) for scenario, part in parts}
