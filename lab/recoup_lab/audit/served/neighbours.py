"""Tables that differ by one record get the same replies, byte for byte, apart from noise, names, dates and lengths."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from recoup.queries.moments import MomentsQuery
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.served.direct import Direct, headers_of
from recoup_lab.audit.served.kills import GROUP
from recoup_lab.audit.served.setting import (
    OPERATOR,
    TABLE,
    TOKENS,
    Reply,
    application,
    asked,
    prepared,
    question,
    run_body,
)

_VARY: Final = ("date", "content-length")
_DRAWN: Final = re.compile(rb'"noisy":\[[^\]]*\]|"checksum":"[^"]*"|[0-9a-f]{32}')
# Each is a neighbour of the table, or reaches one by some steps: all must look alike.
TABLES: Final[dict[str, Any]] = {
    "one record less": TABLE[1:],
    "no records": TABLE[:0],
    "a record far outside": np.vstack([TABLE, [[1e300, -1e300]]]),
    "a record that is none": np.vstack([TABLE, [[np.nan, np.inf]]]),
    "a hundred times as many": np.tile(TABLE, (100, 1)),
}


class Client(Protocol):
    """Who asks, in this process or over a network."""

    def ask(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]] = (), body: bytes = b"") -> Reply:
        """One request."""


def script(client: Client) -> list[Reply]:
    """All that an analyst and an operator can ask, right and wrong, each reply without what may vary."""
    token, key, replies = TOKENS["ann"], iter(f"k{i}" for i in range(100)), list[Reply]()

    def ask(method: str, path: str, body: Any = None, who: str | None = token) -> Reply:
        raw = b"" if body is None else json.dumps(body).encode()
        reply = client.ask(method, path, headers_of(who, next(key) if body is not None else None), raw)
        replies.append(reply)
        return reply

    run = ask("POST", "/runs", run_body()).value["run"]
    for body in (question(), question("1/10", (3, 1)), question("1/100", (20, 20)), question("99/100")):
        ask("POST", f"/runs/{run}/answer", body)
    moments = asked(MomentsQuery(dimension=2), "1/10")
    for body in (moments, question() | {"split": {}}, question("1/10", (2,)), {"query": 1, "share": "1", "split": {}}):
        ask("POST", f"/runs/{run}/answer", body)
    ask("POST", "/runs", run_body("100000"))
    for path in ("/terms", "/runs", f"/runs/{run}/transcript", "/health", "/", "/operator", "/nowhere"):
        ask("GET", path)
    for path in ("/metrics", "/operator/status"):
        ask("GET", path, who=OPERATOR)
    return [normalised(reply) for reply in replies]


def normalised(reply: Reply) -> Reply:
    """A reply without noise, drawn names, date and length."""
    headers = tuple(pair for pair in reply.headers if pair[0] not in _VARY)
    return Reply(reply.status, headers, _DRAWN.sub(b"", reply.body))


def compared(group: str = GROUP, ask_all: Callable[[Any], list[Reply]] | None = None) -> list[Finding]:
    """Ask the same of all tables; how, goes from a table to the replies, and is without a network by default."""
    ask_all = ask_all or _replies
    found, usual = [], ask_all(TABLE)
    for name, table in TABLES.items():
        replies = ask_all(table)
        differ = [i for i, (one, other) in enumerate(zip(usual, replies, strict=True)) if one != other]
        said = f"{len(replies)} replies are equal in status, headers and bytes"
        found.append(
            Finding(
                group=group,
                attack="replies to neighbours",
                target=name,
                tries=len(replies),
                result=f"replies {differ} differ" if differ else said,
                passed=not differ,
            )
        )
    return found


def _replies(table: Any) -> list[Reply]:
    with tempfile.TemporaryDirectory(prefix="recoup-served-") as top:
        folder = prepared(Path(top) / "case")
        client = Direct(application(folder, table))
        try:
            return script(client)
        finally:
            client.close()
