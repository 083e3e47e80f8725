"""Side information of a served curator: what comes over HTTP, is logged or charged must be equal for all tables.

With the samplers held fixed, an analyst's release and refusals are compared byte for byte on tables with odd records.
All replies that there are, with their headers, are compared without their noise.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recoup.errors import BudgetExceededError
from recoup.queries.base import Array
from recoup_lab.audit.attacks.connection import Connection, connected
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.observed import Observation
from recoup_lab.audit.attacks.silence import Works, arrays_of, compared
from recoup_lab.audit.attacks.subjects import BOX, Subject, Terms, ordinary_table, subjects
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.served.neighbours import compared as compared_replies
from recoup_lab.audit.served.neighbours import script
from recoup_lab.audit.served.setting import BOX as UNIT_BOX
from recoup_lab.audit.served.setting import PATIENCE, Reply


def attack_silence(effort: Effort, group: str) -> Iterator[Finding]:
    """Compare releases with both mechanisms, and then every reply."""
    rng = effort.rng(14)
    few, many = ordinary_table(BOX, 15, rng), ordinary_table(BOX, 3000, rng)
    arrays = arrays_of(few) | {"no record": few[:0], "3,000 records": many}
    lloyd = next(s for s in subjects() if s.name == "kmeans-lloyd")
    for mechanism in ("laplace", "gaussian"):
        works: Works = {name: _released(lloyd, Terms(mechanism=mechanism), table) for name, table in arrays.items()}
        yield compared(effort, f"{lloyd.name}, {mechanism}: arrays", works, group=group)
    yield from compared_replies(group, _replies)


def _released(subject: Subject, terms: Terms, table: Array) -> Callable[[Path], Observation]:
    """An analyst's whole visit: a release, one that is refused, and what is left."""

    def run(folder: Path) -> Observation:
        with connected(table, terms, epsilon=terms.epsilon) as served:
            seen, rounds = Observation(), list[int]()
            released = subject.run(served.table(), terms, seed=3, path=served.folder / "t.json", on_round=rounds.append)
            try:
                subject.run(served.table(), terms, seed=3)
            except BudgetExceededError as error:
                seen["second release"] = f"{type(error).__name__}: {error}"
            remote = served.table()
            seen["left"] = repr(remote)
            seen["runs"] = json.dumps(remote.client.get("/runs"))
            seen["transcript"] = (served.folder / "t.json").read_text()
            # As text, in which names that are drawn anew are left out: keys of requests are made from them.
            seen["ledger"] = "\n".join(
                f"{entry.purpose}; {entry.measure} {entry.amount} of {entry.spent_after}"
                for entry in served.ledger.entries()
            )
            seen |= {name: text.replace(served.url, "URL") for name, text in seen.items()}
            return seen | {"privacy": released.privacy["spent"], "rounds": rounds}

    return run


@dataclass(frozen=True, slots=True)
class _OverHttp:
    """Asks a server on loopback."""

    served: Connection

    def ask(self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]] = (), body: bytes = b"") -> Reply:
        """One request, over a connection of its own."""
        connection = http.client.HTTPConnection(urlsplit(self.served.url).netloc, timeout=PATIENCE)
        with closing(connection):
            connection.request(method, path, body, {name.decode(): value.decode() for name, value in headers})
            reply = connection.getresponse()
            return Reply(reply.status, tuple(sorted(reply.getheaders())), reply.read())


def _replies(table: Any) -> list[Reply]:
    terms = Terms(domain=UNIT_BOX)
    with connected(table, terms, epsilon=terms.epsilon * 1000) as served:
        return script(_OverHttp(served))
