"""A served curator for tests: in this process, without a network, and what is asked of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recoup_lab.audit.served.direct import Direct, headers_of
from recoup_lab.audit.served.setting import TOKENS, Reply, application, prepared, question, run_body

ANN, BOB = TOKENS["ann"], TOKENS["bob"]


class Analyst:
    """Asks, and reads what comes back."""

    def __init__(self, client: Direct, token: str | None = ANN) -> None:
        self.client, self.token = client, token

    def get(self, path: str) -> Reply:
        return self.client.ask("GET", path, headers_of(self.token))

    def post(self, path: str, key: str | None, body: Any, parts: int = 1) -> Reply:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.ask("POST", path, headers_of(self.token, key), raw, parts)

    def begin(self, key: str = "run", **body: Any) -> str:
        reply = self.post("/runs", key, run_body() | body)
        assert reply.status == 201, reply.body
        return str(reply.value["run"])

    def answer(self, run: str, key: str, **body: Any) -> Reply:
        return self.post(f"/runs/{run}/answer", key, question() | body)


@contextmanager
def served(folder: Path, data: Any = None, **more: Any) -> Iterator[Direct]:
    """A client of the service on a folder, which is prepared where it is not there."""
    if not folder.exists():
        prepared(folder, epsilon=more.pop("epsilon", 1000), own=more.pop("own", 1000))
    client = Direct(application(folder, **({} if data is None else {"data": data}), **more))
    try:
        yield client
    finally:
        client.close()
