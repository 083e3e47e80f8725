"""What is fuzzed: each loader with valid files to start from, ways to spoil them, and what must hold when it accepts.

To add a loader: a class with `errors` and `case`, and a line in `TARGETS`.
"""

# ruff: noqa: D102 (the protocol says what the methods of a target do)
from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import numpy as np

from recoup.errors import (
    BudgetExceededError,
    LedgerError,
    RecoupError,
    TranscriptFormatError,
)
from recoup.imported import imported_from_json, load_foreign
from recoup.privacy.price import MEASURES, Price
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.subjects import BOX, Terms, ordinary_table, subjects
from recoup_lab.audit.fuzz.mutations import Case, json_text, spoilt, spoilt_bytes
from recoup_lab.audit.fuzz.settings import BoundsFile, BoundsText, ConfigFile
from recoup_lab.tree import ROOT

GOLDEN: Final = ROOT / "tests" / "golden"


class Target(Protocol):
    """A loader under test."""

    @property
    def errors(self) -> tuple[type[RecoupError], ...]:
        """What it may raise."""

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        """Make a case: what to run, and the names of the files that it may open."""


# ---- transcripts -----------------------------------------------------------------------------------------------------


def _golden() -> list[dict[str, Any]]:
    """All transcripts that must load for ever and one of each algorithm, whole and cut to single rounds.

    A short one is tried faster, so there is one for each kind of query and each kind of noise.
    """
    whole = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.json"))]
    table = ordinary_table(BOX, 30, np.random.default_rng(0))
    for subject in subjects():
        for mechanism in subject.mechanisms() if subject.algorithm is not None else ():
            made = subject.run(table, Terms(mechanism=mechanism), noise="simulated").transcript
            assert made is not None
            whole.append(made.to_json())
    short = {}
    for value in whole:
        for answered in value["rounds"]:
            kind = (answered["query"]["type"], answered["query"].get("sums"), value["context"]["mechanism"])
            short[(*kind, value["schema_version"])] = _signed(value | {"rounds": [answered]})
    return [*whole[:4], *2 * list(short.values())]


def _signed(value: Any) -> Any:
    """With a checksum that fits, so that what is behind the checksum is reached."""
    if isinstance(value, dict):
        body = {name: item for name, item in value.items() if name != "checksum"}
        try:
            canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return value
        value["checksum"] = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    return value


def _sound(transcript: Transcript) -> None:
    """What everybody who gets a transcript relies on."""
    assert transcript.shares_spent <= 1
    assert transcript.context.epsilon > 0
    assert all(math.isfinite(v) for v in (*transcript.context.domain.low, *transcript.context.domain.high))
    for answered in transcript.rounds:
        assert all(map(math.isfinite, answered.noisy.tolist()))
        assert all(math.isfinite(scale) and scale > 0 for scale in answered.scales.tolist())
    assert transcript.amount_spent >= 0
    json.dumps(transcript.privacy, allow_nan=False)
    text = json.dumps(transcript.to_json(), allow_nan=False)
    assert json.dumps(Transcript.from_json(json.loads(text)).to_json()) == text


class TranscriptValue:
    """`Transcript.from_json` on spoilt values whose checksum fits."""

    errors = (TranscriptFormatError,)

    def __init__(self) -> None:
        self.seeds = _golden()
        self.texts = [json.dumps(seed, indent=1).encode() for seed in self.seeds]

    def value(self, rng: Random) -> Any:
        value = spoilt(rng.choice(self.seeds), rng, rng.choice(self.seeds))
        return _signed(value) if rng.random() < 0.95 else value

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        value = self.value(rng)
        return lambda: _sound(Transcript.from_json(value)), frozenset()


class TranscriptFile(TranscriptValue):
    """`Transcript.load` on spoilt files."""

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        path = folder / "transcript.json"
        if rng.random() < 0.5:
            content = spoilt_bytes(rng.choice(self.texts), rng, rng.choice(self.texts))
        else:
            content = json_text(self.value(rng), rng).encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        return lambda: _sound(Transcript.load(path)), frozenset({str(path)})


# ---- answers made elsewhere ------------------------------------------------------------------------------------------


class ImportedValue:
    """`imported_from_json` on spoilt values."""

    errors = (TranscriptFormatError,)
    seeds: tuple[dict[str, Any], ...] = (
        {
            "format": "recoup-foreign",
            "bounds": {"age": [0, 100], "hours": [1, 99]},
            "mechanism": "laplace",
            "epsilon": 0.5,
            "units": "user",
            "neighbours": "replace-one-record",
            "rounds": [
                {
                    "query": {"type": "voronoi", "centers": [[20.0, 40.0], [60.0, 30.0]], "sums": "absolute"},
                    "noisy": {"count": [412.3, 580.9], "sum": [[10_204.5, 16_000.0], [36_780.0, 17_000.0]]},
                    "scale": {"count": 2, "sum": 200},
                }
            ],
        },
        {
            "format": "recoup-foreign",
            "bounds": [[0, 1], [0, 1]],
            "domain": "l1",
            "radius": 1.5,
            "mechanism": "gaussian",
            "epsilon": "1/2",
            "delta": 1e-6,
            "n_records": 1000,
            "records_per_person": 2,
            "simulated": False,
            "algorithm": {"type": "kmeans-lloyd", "n_clusters": 2, "n_rounds": 1},
            "rounds": [
                {
                    "query": {"type": "voronoi", "centers": [[-0.5, 0.1], [0.5, 0.2]], "sums": "absolute"},
                    "noisy": [10, 20.5, 1, -1, 2, 3],
                    "scale": [1, 2],
                },
            ],
        },
        {
            "format": "recoup-foreign",
            "bounds": {"x": [-1e3, 1e3]},
            "mechanism": "laplace",
            "epsilon": 1,
            "algorithm": "a sketch",
            "rounds": [
                {"query": {"type": "grid", "sides": [4]}, "noisy": [3, 9, 8, 1], "scale": 2},
                {
                    "query": {"type": "histogram", "dimension": 1, "marginals": [{"columns": [0], "sides": [3]}]},
                    "noisy": [1.5, 2.5, -0.5],
                    "scale": [2, 2, 2.5],
                },
            ],
        },
    )

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        value = spoilt(rng.choice(self.seeds), rng, rng.choice(self.seeds))
        return lambda: _sound(imported_from_json(value)), frozenset()


class ImportedFile(ImportedValue):
    """`load_foreign` on spoilt files."""

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        path = folder / "imported.json"
        seed, other = rng.choice(self.seeds), rng.choice(self.seeds)
        if rng.random() < 0.5:
            content = spoilt_bytes(json.dumps(seed).encode(), rng, json.dumps(other).encode())
        else:
            content = json_text(spoilt(seed, rng, other), rng).encode("utf-8", "surrogatepass")
        path.write_bytes(content)
        return lambda: _sound(load_foreign(path)), frozenset({str(path)})


# ---- ledgers ---------------------------------------------------------------------------------------------------------


def spend(path: Path) -> None:
    """Everything that is done with a ledger."""
    from recoup.privacy.ledger import Ledger

    ledger = Ledger(path, timeout=0.2)
    exported = ledger.export()
    json.dumps(exported, allow_nan=False)
    epsilon, delta = Fraction(exported["epsilon"]), Fraction(exported["delta"])
    assert 0 <= Fraction(exported["left"]) <= epsilon
    assert 0 <= delta < 1
    for entry in ledger.entries():
        assert entry.amount > 0
        assert entry.measure in MEASURES
        assert all(isinstance(text, str) for text in (entry.run, entry.purpose, entry.time, entry.library))
    assert all(release.epsilon >= 0 and release.purpose.isprintable() for release in ledger.releases() if release.run)
    if ledger.identifier is None:
        ledger.declare(records_per_person=1)
    price = Price(measure="pure", amount=Fraction(1, 1000))
    preview = ledger.preview([price])
    after = ledger.charge(price, purpose="a case").spent_after
    assert preview.fits
    # With a delta, a changed cell shows only now: the total is converted anew.
    assert (preview.spent_before if delta == 0 else 0) <= after == ledger.spent <= epsilon


class LedgerFile:
    """A spoilt ledger: its bytes, or its cells, tables and views by SQL."""

    errors = (LedgerError, BudgetExceededError)

    def __init__(self) -> None:
        from recoup_lab.audit.fuzz.ledgers import templates

        self.seeds = templates()

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        from recoup_lab.audit.fuzz.ledgers import spoil_by_sql

        path = folder / "ledger.db"
        for left in folder.glob("ledger.db-*"):
            left.unlink()
        seed, other = rng.choice(self.seeds), rng.choice(self.seeds)
        if rng.random() < 0.5:
            path.write_bytes(spoilt_bytes(seed, rng, other))
        else:
            path.write_bytes(seed)
            spoil_by_sql(path, rng)
        return lambda: spend(path), frozenset({str(path)})


# ---- inferred data sets and runs -------------------------------------------------------------------------------------


class InferredFile:
    """`InferredDataset.load` on spoilt Parquet."""

    def __init__(self) -> None:
        from recoup.errors import UnreadableFileError
        from recoup_lab.audit.fuzz.tables import parquet_seeds

        self.errors: tuple[type[RecoupError], ...] = (UnreadableFileError,)
        self.seeds = parquet_seeds()

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        from recoup.inference.inferred import InferredDataset

        path = folder / "inferred.parquet"
        content = rng.choice(self.seeds)
        path.write_bytes(content if rng.random() < 0.05 else spoilt_bytes(content, rng, rng.choice(self.seeds)))

        def load() -> None:
            found = InferredDataset.load(path)
            n, d = found.points.shape
            assert n > 0
            assert d > 0
            assert len(found.weights) == n
            assert all(map(math.isfinite, found.points.ravel().tolist()))
            assert all(math.isfinite(w) and w >= 0 for w in found.weights.tolist())
            assert found.columns is None or len(set(found.columns)) == d
            assert isinstance(found.simulated, bool)
            found.sample(3, random_state=0)

        return load, frozenset({str(path)})


class RunsFile:
    """The runs of an experiment, as lines, CSV and Parquet."""

    def __init__(self) -> None:
        from recoup.errors import DataError
        from recoup_lab.audit.fuzz.tables import run_seeds

        self.errors: tuple[type[RecoupError], ...] = (DataError,)
        self.seeds = run_seeds()

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        from recoup_lab.experiments.results import RunStore, read_results

        name = rng.choice(list(self.seeds))
        path = folder / name
        path.write_bytes(spoilt_bytes(self.seeds[name], rng, self.seeds["runs.jsonl"]))
        read = RunStore(path).read if path.suffix == ".jsonl" else lambda: read_results(path)
        return lambda: [result.key for result in read()], frozenset({str(path)})


class RecordsFile:
    """Records in spoilt CSV, Parquet and Feather, totalled as a round does."""

    large = True  # a curator's own file may have batches of any size

    def __init__(self) -> None:
        from recoup.errors import DataError
        from recoup_lab.audit.fuzz.tables import record_seeds

        self.errors: tuple[type[RecoupError], ...] = (DataError,)
        self.seeds = record_seeds()

    def case(self, rng: Random, folder: Path) -> tuple[Case, frozenset[str]]:
        suffix = rng.choice(list(self.seeds))
        path = folder / f"records{suffix}"
        seeds = self.seeds[suffix]
        path.write_bytes(spoilt_bytes(rng.choice(seeds), rng, rng.choice(seeds)))
        return lambda: _totalled(path), frozenset({str(path)})


def _totalled(path: Path) -> None:
    from recoup.curator.source import open_source
    from recoup.domain import Box
    from recoup.queries.cells import VoronoiQuery

    domain = Box((-1.0, -1.0), (1.0, 1.0), columns=("x", "y"))
    query = VoronoiQuery(centers=np.array([[-0.5, 0.0], [0.5, 0.0]]))
    totals = open_source(path, domain).total(query, np.full(query.size, 2.0**20))
    assert len(totals) == query.size
    counts, sums = totals[:2], totals[2:]
    assert all(count >= 0 for count in counts)
    # Every record is within the bounds, whatever the file says.
    assert all(abs(total) <= sum(counts) for total in sums)


# By name: the loader, and its part of a thousand cases.
TARGETS: Final[dict[str, tuple[Callable[[], Target], int]]] = {
    "transcript, values": (TranscriptValue, 220),
    "transcript, files": (TranscriptFile, 120),
    "made elsewhere, values": (ImportedValue, 130),
    "made elsewhere, files": (ImportedFile, 80),
    "bounds, typed": (BoundsText, 150),
    "bounds, files": (BoundsFile, 100),
    "config": (ConfigFile, 100),
    "ledger": (LedgerFile, 30),
    "inferred data set": (InferredFile, 30),
    "runs of an experiment": (RunsFile, 10),
    "records": (RecordsFile, 30),
}
