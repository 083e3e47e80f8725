"""The curator's end of the pipe to an algorithm in a process of its own.

This stops code that walks Python's objects: there are no records in that process to walk to. It does not stop code that
uses the rights of the same user, who can read the file or look into other processes; `recoup serve` under another user
does. Nor does it undo what a module did here when it was imported; an algorithm by name (`named`) is not.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any, cast

import numpy as np

from recoup import errors
from recoup._files import strict_value
from recoup._random import Rng
from recoup.algorithms.base import Algorithm
from recoup.algorithms.registry import OWN, completed
from recoup.domain import Domain
from recoup.errors import Argument, IsolationError, ParameterError
from recoup.isolation.bare import one_of
from recoup.isolation.carried import carried, placed
from recoup.queries import QUERIES
from recoup.transcript.context import Context, Law, Request
from recoup.transcript.round import Round, round_to_json
from recoup.transcript.wire import request_from_json

_LARGEST = 2**26  # bytes of a reply; a query of the most values has a third of it
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.buffer.readline()); "
    "from recoup.isolation.child import main; main()"
)
# All that the environment of the new process holds, where it is set: how to load and to compute, and no secrets.
_ENVIRONMENT = (
    *("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "RECOUP_NUM_THREADS"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"),
    *("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"),
)


@contextmanager
def separated(algorithm: Algorithm, isolate: bool) -> Iterator[Algorithm]:
    """The algorithm as a release may ask it: Recoup's own as it is, another through a process of its own."""
    if not isolate or one_of(type(algorithm), OWN):
        completed(type(algorithm))
        yield algorithm
        return
    process = AlgorithmProcess(algorithm)
    try:
        # What a release asks an algorithm for, it has.
        yield cast(Algorithm, process)
    finally:
        process.close()


class AlgorithmProcess:
    """An algorithm in another process, which is asked here as if it were the algorithm itself.

    Args:
        algorithm: none of its methods are called here.

    Guarantees: what comes back is read as a hostile file would be; nothing is charged for what fails.
    """

    def __init__(self, algorithm: object) -> None:
        plain = carried(algorithm)
        self._name = plain.kind.name
        state = base64.b64encode(pickle.dumps(plain)).decode()
        self._context: Context | None = None
        self._n_told = 0
        flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                close_fds=True,
                cwd=os.path.abspath(os.sep),
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,  # which has no terminal, and no signal from one
            )
        except OSError as error:
            raise self._broken(f"gets no process of its own: {error.strerror}") from None
        try:
            self._send([os.path.abspath(entry) for entry in sys.path if type(entry) is str])
            self._ask({"algorithm": state, "queries": _places()}, "cannot be built in a process of its own")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process; there is nothing in it to wait for."""
        # With whatever it started: it leads a group of its own, whose number is its as long as nobody waited for it.
        if hasattr(os, "killpg") and self._process.returncode is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        self._process.wait()

    # ---- what a release asks an algorithm for ----

    def law(self, domain: Domain, delta: Fraction) -> Law:
        """The law of noise that suits it."""
        value = self._ask({"do": "law", "domain": domain.to_json(), "delta": str(delta)})
        if value not in ("laplace", "gaussian"):
            raise self._broken("names a law of noise that there is not")
        return cast(Law, value)

    def to_json(self) -> dict[str, Any]:
        """The public description that a transcript carries."""
        value = self._ask({"do": "describe"})
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise self._broken("has no description with a type")
        return value

    def advice(self, context: Context) -> str | None:
        """What to change in the terms before anything is spent, in words."""
        self._context, self._n_told = context, 0
        value = self._ask({"do": "begin", "context": context.to_json()})
        return value if isinstance(value, str) else None

    def next_request(self, context: Context, rounds: Sequence[Round], rng: Rng) -> Request | None:
        """The next query and its share of the budget, or none when the algorithm is done."""
        if context is not self._context:
            self.advice(context)
        seed = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)
        entropy = np.asarray(seed.entropy).tolist() if not isinstance(seed.entropy, int) else seed.entropy
        told = [round_to_json(answered, context) for answered in rounds[self._n_told :]]
        self._n_told = len(rounds)
        value = self._ask({"do": "next", "rounds": told, "entropy": entropy, "key": list(seed.spawn_key)})
        if value is None:
            return None
        try:
            return request_from_json(value)
        except errors.TranscriptFormatError as error:
            raise ParameterError(f"{self._name} asks for what cannot be answered: {error}") from None

    # ---- the pipe ----

    def _send(self, message: object) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(BrokenPipeError):  # it has ended, as reading will find
            pipe.write(json.dumps(message, allow_nan=False).encode() + b"\n")
            pipe.flush()

    def _ask(self, message: object, doing: str = "fails in its own process") -> Any:
        self._send(message)
        pipe = self._process.stdout
        assert pipe is not None
        line = pipe.readline(_LARGEST)
        if not line.endswith(b"\n"):
            too_long = len(line) == _LARGEST
            raise self._broken("gives more than a request can hold" if too_long else "ended its process")
        try:
            reply = strict_value(line.decode())
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or set(reply) not in ({"value"}, {"error"}):
            raise self._broken("gives what is not JSON of a request")
        if "value" in reply:
            return reply["value"]
        error = reply["error"] if isinstance(reply["error"], dict) else {}
        name, text = str(error.get("type"))[:60], str(error.get("message"))
        known = getattr(errors, name, None)
        if isinstance(known, type) and issubclass(known, ParameterError):
            raise known(text)
        raise self._broken(f"{doing}: {name}: {text}")

    def _broken(self, what: str) -> IsolationError:
        return IsolationError(
            f"{self._name} {what}. Nothing was charged for it. recoup.testing.check_algorithm may show why, and with ",
            Argument("isolate", "False"),
            " it runs here, for code that you would show the records.",
        )


def _places() -> dict[str, tuple[str, str]]:
    """Where the registered queries that are not Recoup's are found, as far as they are."""
    found = {}
    for name, kind in QUERIES.items():
        if not kind.__module__.startswith("recoup."):
            with suppress(IsolationError):
                found[name] = tuple(placed(kind))
    return cast(dict[str, tuple[str, str]], found)
