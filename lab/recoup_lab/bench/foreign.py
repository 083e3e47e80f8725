"""Another library in another environment as a contestant: a process that times itself and takes its turns."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from recoup.domain import Array
from recoup.errors import ParameterError

_WORKER = Path(__file__).with_name("foreign_worker.py")


class Foreign:
    """A library that runs in a process of its own.

    Attributes:
        version: of the library.
    """

    def __init__(self, library: str, requests: IO[str], answers: IO[str], folder: Path) -> None:
        self._library, self._file = library, folder / f"records-{library}.npy"
        self._requests, self._answers = requests, answers
        self.version = str(self._answer()["version"])

    def load(self, records: Array) -> None:
        """Hand over the records of the next fits."""
        np.save(self._file, records)
        self._ask(f"load {self._file}")
        self._file.unlink()

    def fit(self, n_clusters: int, *, processor: bool = False) -> float:
        """Seconds of one clustering of the records, on the clock or of the processor."""
        return float(self._ask(f"fit {n_clusters}")["processor" if processor else "seconds"])

    def _ask(self, request: str) -> dict[str, Any]:
        self._requests.write(request + "\n")
        self._requests.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise ParameterError(f"this Python cannot run {self._library}; see what it wrote above.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def running(library: str, python: str | None, folder: Path) -> Iterator[Foreign | None]:
    """Start a library in an interpreter that has it, and end it afterwards; None: there is none.

    Raises:
        ParameterError: the interpreter cannot be started, or does not have the library.
    """
    if python is None:
        yield None
        return
    # Isolated, so that neither our folder nor our environment reaches the other interpreter.
    command = [python, "-I", str(_WORKER), library]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise ParameterError(f"{python}, for {library}: cannot be started ({error.strerror}).") from None
    requests, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
    try:
        yield Foreign(library, requests, answers, folder)
    finally:
        with suppress(BrokenPipeError):
            requests.close()
        answers.close()
        process.wait()
