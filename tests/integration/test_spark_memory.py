"""A Spark task that runs out of memory half-way through a release: a clear error, and a ledger that tells the truth."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import recoup
from recoup.errors import SparkError

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

BOX = recoup.Box([0, 0], [1, 1], ("x", "y"))


@pytest.mark.parametrize("how", ["memory refused", "killed by the system"])
def test_a_task_without_memory_fails_its_round_alone(spark: Any, tmp_path: Path, how: str) -> None:
    flag, n_rounds = str(tmp_path / "no-more-memory"), 3

    def hungry(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import resource
        import signal

        for batch in batches:
            if os.path.exists(flag):
                if how == "killed by the system":
                    os.kill(os.getpid(), signal.SIGKILL)
                with open("/proc/self/statm") as file:
                    now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
                resource.setrlimit(resource.RLIMIT_AS, (now + (64 << 20), resource.RLIM_INFINITY))
                try:
                    bytearray(8 << 30)
                finally:
                    # The worker is used again.
                    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            yield batch

    rows = np.random.default_rng(0).uniform(size=(400, 2))
    rows[7] = 0.31337424299
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
    frame = spark.createDataFrame(table).repartition(2)
    frame = frame.mapInArrow(hungry, frame.schema)
    ledger, path = recoup.Ledger.create(tmp_path / "ledger.db", epsilon=1), tmp_path / "transcript.json"

    def run(**more: Any) -> recoup.Transcript:
        terms = {"domain": BOX, "epsilon": 1, "ledger": ledger, "path": path, "random_state": 0}
        return recoup.release(recoup.KMeans(n_clusters=2, n_rounds=n_rounds), frame, **terms, **more)

    with pytest.raises(SparkError, match=r"its round was neither answered nor charged") as caught:
        run(on_round=lambda n: Path(flag).touch() if n == 1 else None)
    shown = "".join(traceback.format_exception(caught.value))
    assert "0.31337424299" not in shown
    saved = recoup.Transcript.load(path)
    assert (len(saved.rounds), saved.pending, saved.lost) == (1, None, ())
    # What was answered is charged, exactly, and nothing else is.
    assert [entry.amount for entry in ledger.entries()] == [answered.price.amount for answered in saved.rounds]
    assert 0 < ledger.spent <= Fraction(1, n_rounds)
    Path(flag).unlink()
    done = run(resume=True)
    assert len(done.rounds) == len(ledger.entries()) == n_rounds
    assert ledger.spent == sum(answered.price.amount for answered in done.rounds)
