"""One run of one method: call its function, check what it returned, score it, and say what it spent and took."""

from __future__ import annotations

import hashlib
import json
import platform
import time
import traceback
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version

import numpy as np

from recoup.domain import Array
from recoup.errors import ParameterError, RecoupError
from recoup.version import __version__
from recoup_lab.experiments.datasets import LoadedSet
from recoup_lab.experiments.methods import Method
from recoup_lab.experiments.results import Result
from recoup_lab.experiments.run import Metric, Run, metric_domain
from recoup_lab.experiments.scoring import wcss

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "opendp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that went wrong.

    Attributes:
        what: the run, in words.
        why: the kind of error, and its text where Recoup wrote it: any other text may quote a record.
        trace: where it happened; may quote a record.
    """

    what: str
    why: str
    trace: str


def execute(method: Method, run: Run) -> Result | Failure:
    """Run a method and score what it returns."""
    try:
        return _executed(method, run)
    except Exception as error:
        at = "" if run.epsilon is None else f" at epsilon {float(run.epsilon):g}"
        why = type(error).__name__ + (f": {error}" if isinstance(error, RecoupError) else "")
        return Failure(
            what=f"{method.name} on {run.data.name}{at}, seed {run.seed}, {run.metric} metric",
            why=why,
            trace=traceback.format_exc(),
        )


def _executed(method: Method, run: Run) -> Result:
    was_there = None if run.shared is None else run.shared.seconds
    start = time.process_time()
    centers = np.asarray(method.function(run), dtype=np.float64)
    seconds = time.process_time() - start
    expected = (run.n_clusters, run.data.rows.shape[1])
    if centers.shape != expected or not np.isfinite(centers).all():
        raise ParameterError(f"{method.name} must return {expected[0]} x {expected[1]} finite numbers.")
    transcript = None
    if run.reads_transcript and run.shared is not None:
        # Every reader is charged the time of the release, whoever happened to be the first.
        seconds += (run.shared.seconds or 0.0) if was_there is not None else 0.0
        transcript = _digest(run)
    n, d = run.data.rows.shape
    return Result(
        set=run.data.name,
        source=run.data.source,
        digest=run.data.digest,
        n_records=n,
        n_columns=d,
        n_clusters=run.n_clusters,
        metric=run.metric,
        method=method.name,
        epsilon=None if run.epsilon is None else float(run.epsilon),
        seed=run.seed,
        wcss=wcss(_unit(run.data, run.metric), centers, run.domain),
        epsilon_spent=None if run.ledger is None else float(run.ledger.spent),
        seconds=round(seconds, 4),
        transcript=transcript,
        recoup=__version__,
        versions=_versions(),
    )


@lru_cache(maxsize=16)
def _unit(data: LoadedSet, metric: Metric) -> Array:
    return metric_domain(metric, data).to_unit(data.rows)


def _digest(run: Run) -> str:
    noisy = [[str(v) for v in answered.integers] for answered in run.transcript.rounds]
    return hashlib.sha256(json.dumps(noisy).encode()).hexdigest()[:12]


@cache
def _versions() -> str:
    return "; ".join([f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in _LIBRARIES)])
