"""Spoilt requests and guessed tokens: every reply is typed, tells nothing of the curator's machine, and costs nothing.

A case is known by its seed and number. Requests go straight to the application; what is no HTTP at all is left to a
test with sockets.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from recoup import Ledger
from recoup.queries.cells import VoronoiQuery
from recoup.queries.moments import MomentsQuery
from recoup.serve.limits import Limits
from recoup_lab.audit.findings import Finding
from recoup_lab.audit.fuzz.mutations import json_text, nested, spoilt, spoilt_bytes
from recoup_lab.audit.served.direct import Direct, headers_of
from recoup_lab.audit.served.kills import GROUP
from recoup_lab.audit.served.setting import TOKENS, Reply, application, asked, prepared, question, run_body

_STATUSES: Final = frozenset({200, 201, 400, 401, 402, 404, 405, 409, 413, 429})
_TYPE: Final = re.compile("[A-Z][A-Za-z]+Error")
_LIMITS: Final = Limits(per_second=0, open_runs=10**9, at_once=10**6, body_bytes=100_000, query_values=20_000)
_METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "\u00e9")
_LITTLE: Final = "1/1000000"  # of a run, so that right questions go on to be answered
_CELLS: Final = VoronoiQuery(centers=np.array([[0.0, 0.0], [0.5, -0.5]]))
_ANSWERS: Final = (
    question(_LITTLE),
    question("1/100000", (5, 3)),
    asked(_CELLS, _LITTLE),
    asked(MomentsQuery(dimension=2), _LITTLE),
)


class Fuzz:
    """A served curator, and one that asks it nonsense."""

    def __init__(self, top: Path, seed: int) -> None:
        self._folder = prepared(top / "fuzz", epsilon=10**6, own=10**6)
        self.client = Direct(application(self._folder, limits=_LIMITS))
        self._seed, self._token = seed, TOKENS["ann"]
        self._secrets = (str(top).encode(), b"Traceback", b"sqlite", b".py", b"ledger.db")
        begun = self.client.ask(
            "POST", "/runs", headers_of(self._token, "first"), json.dumps(run_body("1000")).encode()
        )
        self.run = begun.value["run"]

    def request(self, number: int) -> tuple[str, str, list[tuple[bytes, bytes]], bytes, int]:
        """The case of this number."""
        rng = Random(f"{self._seed} request {number}")
        value, path = rng.choice([(run_body(), "/runs"), (rng.choice(_ANSWERS), f"/runs/{self.run}/answer")])
        method, token, key = "POST", self._token, f"key-{number}"
        body = self._body(value, rng)
        headers = headers_of(token, key)
        match rng.randrange(12):
            case 0:
                headers = headers_of(
                    token, rng.choice(["", "x" * 65, "a b", "../..", "\u0665"]).encode().decode("latin-1")
                )
            case 1:
                headers = [(spoilt_bytes(name, rng).lower(), spoilt_bytes(held, rng)) for name, held in headers]
            case 2:
                path = rng.choice(
                    ["/runs/", "//", "/runs/x/answer", f"/runs/{'0' * 32}/answer", "/..", "/terms", "/\0"]
                )
            case 3:
                method = rng.choice(_METHODS)
        return method, path, headers, body, rng.choice([1, 1, 2, 7])

    def _body(self, value: Any, rng: Random) -> bytes:
        match rng.randrange(10):
            case 0:
                return spoilt_bytes(json.dumps(value).encode(), rng)
            case 1:
                return json.dumps(value).encode()
            case 2:
                depth, opened = rng.choice([31, 33, 1000, 40_000]), rng.choice([b"[", b'{"a":'])
                return opened * depth
            case 3:
                text = json.dumps(value)
                name = rng.choice(list(value))
                return (text[:-1] + f', "{name}": {json.dumps(value[name])}}}').encode()
            case 4:
                return rng.choice([b"", b"null", b"[]", b'"x"', b"1", b"{}", b"\xff\xfe{}", b" " * 200_000, b"NaN"])
            case 5:
                return json.dumps(value | {rng.choice([*value, "more"]): nested(rng.choice([3, 40]))}).encode()
        return json_text(spoilt(value, rng, rng.choice(_ANSWERS)), rng).encode("utf-8", "surrogatepass")

    def problem(self, reply: Reply) -> str | None:
        """What is wrong with a reply, if anything."""
        if reply.status not in _STATUSES:
            return f"status {reply.status}"
        if any(secret in reply.body for secret in self._secrets):
            return "a reply tells of the curator's machine"
        if reply.status < 300:
            return None
        try:
            error = reply.value["error"]
            typed = _TYPE.fullmatch(error["type"]) and isinstance(error["message"], str)
        except (ValueError, KeyError, TypeError):
            typed = None
        return None if typed else "an untyped reply"

    def unpaid(self, n_answered: int) -> str | None:
        """Whether all answers were charged, and nothing else was."""
        n_charged = len(Ledger(self._folder / "ledger.db").entries())
        return None if n_charged == n_answered else f"{n_charged} charges for {n_answered} answers"


def fuzzed(n: int, seed: int) -> list[Finding]:
    """Send n spoilt requests."""
    problems, statuses, n_answered = Counter[str](), Counter[int](), 0
    with tempfile.TemporaryDirectory(prefix="recoup-served-fuzz-") as top:
        fuzz = Fuzz(Path(top), seed)
        try:
            for number in range(n):
                method, path, headers, body, parts = fuzz.request(number)
                reply = fuzz.client.ask(method, path, headers, body, parts)
                statuses[reply.status] += 1
                n_answered += reply.status == 200 and path.endswith("/answer")
                if (problem := fuzz.problem(reply)) is not None:
                    problems[f"{problem} (case {number})"] += 1
            if (unpaid := fuzz.unpaid(n_answered)) is not None:
                problems[unpaid] += 1
        finally:
            fuzz.client.close()
    by_status = ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items()))
    # What refuses everything, or nothing, was not tested.
    idle = n >= 1000 and not n // 100 <= statuses[200] + statuses[201] < n // 2
    wrong = "; ".join(list(problems)[:3]) or ("hardly anything was told apart" if idle else "")
    return [
        Finding(
            group=GROUP,
            attack="spoilt requests",
            target="runs and answers",
            tries=n,
            result=wrong or f"all typed: {by_status}",
            passed=not wrong,
            figures={str(status): count for status, count in statuses.items()},
        )
    ]


def guessed(n: int, seed: int) -> list[Finding]:
    """Try n tokens that are none; every reply is the same."""
    replies = Counter[Reply]()
    with tempfile.TemporaryDirectory(prefix="recoup-served-fuzz-") as top:
        fuzz = Fuzz(Path(top), seed)
        try:
            for number in range(n):
                rng = Random(f"{seed} token {number}")
                token = rng.choice(
                    [TOKENS["ann"][:-1], TOKENS["ann"] + "x", TOKENS["ann"].upper(), rng.randbytes(32).hex()]
                )
                path = rng.choice(["/terms", "/runs", f"/runs/{fuzz.run}/transcript", "/operator/status", "/metrics"])
                header = rng.choice([f"Bearer {token}", f"Basic {token}", token, "Bearer", ""]).encode()
                replies[fuzz.client.ask("GET", path, [(b"authorization", header)])] += 1
        finally:
            fuzz.client.close()
    alike = len(replies) == 1 and next(iter(replies)).status == 401
    return [
        Finding(
            group=GROUP,
            attack="guessed tokens",
            target="all that needs one",
            tries=n,
            result="one and the same refusal" if alike else f"{len(replies)} different replies",
            passed=alike,
        )
    ]
