"""Run the service: by uvicorn, in one process or several, or on loopback for as long as a block lasts.

Workers are processes of their own that share the state folder and the ledger. They get the settings, which hold no
secret, from the environment.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from recoup.curator.tables.database import Table
from recoup.mixed import domain_from_json
from recoup.privacy.ledger import Ledger
from recoup.serve.app import create_app
from recoup.serve.limits import Limits
from recoup.serve.offer import Offer
from recoup.serve.refusals import malformed

_VARIABLE: Final = "RECOUP_SERVE"


class _Protocol(H11Protocol):
    """HTTP whose refusals of what is no HTTP are typed, too."""

    def send_400_response(self, msg: str) -> None:
        """Refuse, and close."""
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        body = malformed("This is not a request of HTTP/1.1.").body()
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()


SERVER: Final[dict[str, Any]] = {
    "http": _Protocol,
    "ws": "none",
    "lifespan": "off",
    "access_log": False,  # ours has no addresses and no durations
    "server_header": False,
    "log_level": "warning",
    "timeout_graceful_shutdown": 30,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a worker needs to serve; as JSON in its environment.

    Attributes:
        data: the path of the table, or the address of its database.
        domain: its bounds, as JSON.
        ledger: the path of the ledger.
        state: the state folder.
        database_table: the name of the table in its database, if it is in one.
        more: what else the offer says.
        limits: on what one token may ask for.
    """

    data: str
    domain: dict[str, Any]
    ledger: str
    state: str
    database_table: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)

    def application(self) -> Starlette:
        """The service itself; whatever is wrong with the settings is refused here."""
        domain, ledger = domain_from_json(self.domain), Ledger(self.ledger)
        data = self.data if self.database_table is None else Table(self.data, self.database_table)
        offer = Offer(data=data, domain=domain, ledger=ledger, **self.more)
        return create_app(offer, self.state, Limits(**self.limits))


def from_environment() -> Starlette:
    """What a worker serves."""
    _log_to_standard_error()
    return Settings(**json.loads(os.environ[_VARIABLE])).application()


def serve(settings: Settings, *, host: str, port: int, workers: int = 1) -> None:
    """Serve until the process is told to stop."""
    os.environ[_VARIABLE] = json.dumps(asdict(settings))
    application = settings.application()
    _log_to_standard_error()
    if workers == 1:
        uvicorn.run(application, host=host, port=port, **SERVER)
    else:
        where = f"{__name__}:{from_environment.__name__}"
        uvicorn.run(where, factory=True, host=host, port=port, workers=workers, **SERVER)


@contextlib.contextmanager
def on_loopback(app: Starlette, port: int = 0) -> Iterator[str]:
    """Serve an application from a thread of this process, and give its address."""
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, **SERVER))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _log_to_standard_error() -> None:
    """What is asked for and what becomes of it; never an answer, a record or how long one took."""
    log = logging.getLogger("recoup.serve")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
