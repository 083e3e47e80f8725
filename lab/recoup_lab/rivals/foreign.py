"""An interpreter of another environment that answers requests, and is started again when a time limit ended it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np

from recoup.domain import Array
from recoup.errors import ParameterError, RecoupError

_WORKER = Path(__file__).with_name("worker.py")
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class NoAnswerError(RecoupError):
    """Another system failed, or did not finish in time; the text says which."""


class Made(NamedTuple):
    """What another system made, in unit coordinates, and the processor seconds that it took."""

    points: Array
    seconds: float


class Foreign:
    """A system in an environment of its own.

    Args:
        python: its interpreter.
        folder: for the files that are handed over; they are removed.
        limit: processor seconds of one fit.
    """

    def __init__(self, python: str, folder: Path, limit: float) -> None:
        self._python, self._folder, self._limit = python, folder, limit
        self._process: subprocess.Popen[str] | None = None

    def ask(self, points: Array, **request: Any) -> Made:
        """One fit of points in [-1, 1]^d.

        Raises:
            NoAnswerError: it failed, or took longer than the limit.
            ParameterError: the interpreter cannot be started, or does not have the system.
        """
        records, output = self._folder / "records.npy", self._folder / "made.npy"
        np.save(records, points)
        try:
            answer = self._answer(request | {"records": str(records), "output": str(output), "limit": self._limit})
            if "failed" in answer:
                raise NoAnswerError(f"failed: {answer['failed']}")
            return Made(np.load(output), float(answer["seconds"]))
        finally:
            records.unlink()
            output.unlink(missing_ok=True)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            # Isolated, so that neither our folder nor our environment reaches the other interpreter.
            command = [self._python, "-I", str(_WORKER)]
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | _ONE_THREAD
                )
            except OSError as error:
                raise ParameterError(f"{self._python} cannot be started ({error.strerror}).") from None
        requests, answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        requests.write(json.dumps(request) + "\n")
        requests.flush()
        line = answers.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self._process.wait()
        self.close()
        if code == -signal.SIGPROF:
            raise NoAnswerError(f"not finished in {self._limit:g} s")
        if code < 0:
            raise NoAnswerError(f"ended by {signal.Signals(-code).name}")
        raise ParameterError(f"{self._python} cannot run {request['how']}; see what it wrote above.")
