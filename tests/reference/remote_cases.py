"""A served curator on loopback, with what can go wrong between it and an analyst."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import recoup
from recoup.serve.app import create_app
from recoup.serve.limits import Limits
from recoup.serve.offer import Offer
from recoup.serve.running import on_loopback
from recoup.serve.store import Store

TOKEN = "recoup_ann_" + "s3cret" * 7
NAMES = ("age", "hours", "rich")


def people(n: int = 2000) -> pa.Table:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal([30, 20], 4, (n // 2, 2)), rng.normal([60, 50], 4, (n // 2, 2))])
    return pa.table({"age": x[:, 0], "hours": x[:, 1], "rich": (np.arange(n) >= n // 2).astype(float)})


DOMAIN = recoup.Box([0, 0, 0], [100, 80, 1], NAMES)


@dataclass
class Between:
    """What stands between: sees every request, and may change or drop what comes back (None: the line is cut)."""

    app: Any
    change: Callable[[str, int, Any], tuple[int, Any] | None] = lambda path, status, value: (status, value)
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        self.seen.append((scope["method"], scope["path"], (headers.get(b"idempotency-key") or b"").decode() or None))
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, keep)
        raw = b"".join(message.get("body", b"") for message in sent)
        changed = self.change(scope["path"], sent[0]["status"], json.loads(raw) if raw[:1] == b"{" else raw)
        if changed is None:
            length = [(b"content-length", b"1000"), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": length})
            raise ConnectionError("the line is cut")
        status, value = changed
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]}
        )
        await send({"type": "http.response.body", "body": body})


@dataclass
class Served:
    """A served curator for a test."""

    url: str
    between: Between
    ledger: recoup.Ledger
    store: Store

    def connect(self, token: str = TOKEN) -> Any:
        return recoup.connect(self.url, token=token)


@contextmanager
def served(folder: Path, *, epsilon: Any = 100, own: Any = 50, delta: Any = 0, **more: Any) -> Iterator[Served]:
    ledger = recoup.Ledger.create(folder / "ledger.db", epsilon=epsilon, delta=delta)
    store = Store.opened(folder / "state")
    store.add_token("ann", TOKEN, "analyst", Fraction(own), Fraction(delta))
    terms = {"data": people(), "domain": DOMAIN, "base": 0.0, "per_value": 0.0, "table": "people"} | more
    app = create_app(Offer(ledger=ledger, **terms), folder / "state", Limits(per_second=0, open_runs=10**6))
    between = Between(app)
    with on_loopback(between) as url:  # type: ignore[arg-type]
        yield Served(url, between, ledger, store)
