"""Requests to an application in this process, without a network: thousands of them in little time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from recoup_lab.audit.served.setting import App, Reply

_T = TypeVar("_T")


class Direct:
    """A client of an ASGI application, with an event loop of its own."""

    def __init__(self, app: App) -> None:
        self._app, self._loop = app, asyncio.new_event_loop()

    def ask(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]] = (), body: bytes = b"", parts: int = 1
    ) -> Reply:
        """One request, its body in so many parts."""
        return self._run(self._ask(method, path, headers, body, parts))

    def close(self) -> None:
        """End the event loop."""
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run_until_complete(asyncio.wait_for(work, 60))

    async def _ask(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], body: bytes, parts: int
    ) -> Reply:
        step = max(1, -(-len(body) // parts))
        pieces = [body[start : start + step] for start in range(0, len(body), step)] or [b""]
        events = [
            {"type": "http.request", "body": piece, "more_body": i < len(pieces) - 1} for i, piece in enumerate(pieces)
        ]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return events.pop(0) if events else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "surrogatepass"),
            "query_string": b"",
            "root_path": "",
            "headers": list(headers),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        await self._app(scope, receive, send)
        start = sent[0]
        named = tuple(sorted((k.decode("latin-1"), v.decode("latin-1")) for k, v in start["headers"]))
        return Reply(start["status"], named, b"".join(message.get("body", b"") for message in sent[1:]))


def headers_of(token: str | None, key: str | None = None) -> list[tuple[bytes, bytes]]:
    """The headers of an ordinary request."""
    found = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return found + ([] if key is None else [(b"idempotency-key", key.encode())])
