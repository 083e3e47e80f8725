"""A small served curator: its folder, real server processes that can be killed, and a client that only speaks HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import uvicorn

from recoup import Box, KMeans, Ledger
from recoup.queries.base import Query
from recoup.queries.counts import GridQuery
from recoup.serve.app import create_app
from recoup.serve.limits import Limits
from recoup.serve.offer import Offer
from recoup.serve.running import SERVER
from recoup.serve.store import Store
from recoup_lab.audit.faults.children import Fate, count_calls, witness_draws

TABLE: Final = np.random.default_rng(0).uniform(size=(200, 2))
BOX: Final = Box((0, 0), (1, 1))
TOKENS: Final = {name: f"recoup_{name}_{'x' * 40}" for name in ("ann", "bob")}
OPERATOR: Final = "recoup_operator_" + "y" * 40
NO_LIMITS: Final = Limits(per_second=0, open_runs=10**9, at_once=10**6, run_answers=10**9)
PATIENCE: Final = 60.0
App = Callable[[Any, Any, Any], Any]


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def value(self) -> Any:
        """Its JSON."""
        return json.loads(self.body)


def prepared(folder: Path, *, epsilon: Any = 1000, own: Any = 1000, delta: Fraction = Fraction(0)) -> Path:
    """A folder with a ledger and the tokens of two analysts and an operator."""
    folder.mkdir(parents=True)
    Ledger.create(folder / "ledger.db", epsilon=epsilon, delta=delta)
    store = Store.opened(folder / "state")
    for name, secret in TOKENS.items():
        store.add_token(name, secret, "analyst", Fraction(own), delta)
    store.add_token("operator", OPERATOR, "operator", Fraction(0), Fraction(0))
    return folder


def copied(template: Path, folder: Path) -> Path:
    """A copy of a prepared folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    return folder


def application(
    folder: Path, data: Any = TABLE, limits: Limits = NO_LIMITS, patience: float = 30.0, **more: Any
) -> App:
    """The service on a prepared folder; replies leave at once unless it is asked for otherwise."""
    terms: dict[str, Any] = {"domain": BOX, "base": 0.0, "per_value": 0.0, "table": "people"} | more
    offer = Offer(data=data, ledger=Ledger(folder / "ledger.db", timeout=patience), **terms)
    return create_app(offer, folder / "state", limits)


# ---- what is asked ----
def run_body(epsilon: str = "1", purpose: str = "a test") -> dict[str, Any]:
    """A request to begin a run."""
    described = KMeans(n_clusters=2).to_json()
    terms = {"epsilon": epsilon, "delta": "0", "mechanism": "laplace", "n_records": None}
    return terms | {"algorithm": described, "purpose": purpose}


def question(share: str = "1/10", sides: tuple[int, ...] = (2, 2)) -> dict[str, Any]:
    """A question for the counts on a grid."""
    return {"query": GridQuery(sides=sides).to_json(), "share": share, "split": {"count": "1"}}


def asked(query: Query, share: str) -> dict[str, Any]:
    """A question with equal parts for all blocks of its answer."""
    names = query.sensitivity(BOX).names
    return {"query": query.to_json(), "share": share, "split": {name: f"1/{len(names)}" for name in names}}


def ask(
    port: int, method: str, path: str, *, token: str | None = None, key: str | None = None, body: Any = None
) -> Reply:
    """One request over a connection of its own; raises as `http.client` does where the server dies."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    headers |= {} if key is None else {"Idempotency-Key": key}
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    with contextlib.closing(connection):
        connection.request(method, path, raw, headers)
        reply = connection.getresponse()
        return Reply(reply.status, tuple(sorted(reply.getheaders())), reply.read())


def ask_and_leave(port: int, path: str, *, token: str, key: str, body: Any, part: float = 1.0) -> None:
    """Send a request, or a part of it, and go away without waiting for the reply."""
    raw = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {key}\r\n"
    whole = head.encode() + f"Content-Length: {len(raw)}\r\n\r\n".encode() + raw
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(whole[: max(1, int(part * len(whole)))])


# ---- who answers ----
class Server:
    """A real server process, forked from this one, which has everything loaded."""

    def __init__(
        self,
        make: Callable[[], App],
        fate: Fate | None = None,
        *,
        witness: Path | None = None,
        plant: Callable[[], None] | None = None,
    ) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = listening.getsockname()[1]
        self._reading, writing = os.pipe()
        self._ended = False
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            _live(make, fate or Fate(), listening, writing, witness, plant)
        os.close(writing)
        # With its only holder a port dies, and nobody waits there for ever.
        listening.close()

    def wait(self, seconds: float = PATIENCE) -> bool:
        """Whether it has ended, within some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, self.status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self._ended = True
                return True
            time.sleep(0.005)
        return False

    def stop(self) -> int:
        """End it in peace; how many calls it made that a fate could hit."""
        os.kill(self.pid, signal.SIGTERM)
        said = os.read(self._reading, 100)
        self.wait()
        self.close()
        return int(said or b"0")

    def close(self) -> None:
        """End it at once, unless it has ended: its number may be another's by then."""
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._ended = True
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1


def _live(
    make: Callable[[], App],
    fate: Fate,
    listening: socket.socket,
    writing: int,
    witness: Path | None,
    plant: Callable[[], None] | None,
) -> NoReturn:
    code = 70
    try:
        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        if witness is not None:
            witness_draws(witness)
        if plant is not None:
            plant()
        server = uvicorn.Server(uvicorn.Config(make(), **SERVER))
        server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]
        signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
        counter = count_calls(int(fate.at) if fate.how == "call" else 2**62, signal.SIGKILL)
        if fate.how == "moment":
            # Its usual effect is an end as sudden as that of kill -9.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, max(fate.at, 1e-4))
        server.run(sockets=[listening])
        os.write(writing, str(counter.n).encode())
        code = 0
    finally:
        os._exit(code)
