"""The process of an algorithm that is not Recoup's: it reads public terms and rounds from a pipe, and writes requests.

It begins as a new interpreter with nothing of the curator's: no table, path, ledger, argument, environment or open
file. Lines of JSON come in and go out; what the algorithm prints goes nowhere.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

from recoup.algorithms.base import Algorithm
from recoup.isolation.carried import Place, restored
from recoup.mixed import domain_from_json
from recoup.queries import QUERIES
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round, fraction_from_json, round_from_json
from recoup.transcript.wire import context_from_json, request_to_json

_LONGEST_TEXT = 1000  # of an error's message


def main() -> None:
    """Answer until the other end closes the pipe."""
    incoming, outgoing = _pipes()
    side: _Side | None = None
    while line := incoming.readline():
        # Whatever the algorithm raises, also to end the process, is an answer.
        try:
            message = json.loads(line)
            if side is None:
                side, value = _Side(message), None
            else:
                value = getattr(side, message.pop("do"))(**message)
            reply = json.dumps({"value": value}, allow_nan=False)
        except BaseException as error:
            text = ""
            with suppress(BaseException):
                text = str(error)[:_LONGEST_TEXT]
            reply = json.dumps({"error": {"type": type(error).__name__, "message": text}})
        outgoing.write(reply.encode() + b"\n")
        outgoing.flush()


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipe under numbers of its own: what is printed or read by the usual ones meets nothing."""
    # The object that has begun to read keeps what it read ahead.
    outgoing = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    incoming, sys.stdin = sys.stdin.buffer, os.fdopen(os.dup(nothing), encoding="utf-8")
    return incoming, outgoing


class _Side:
    """The analyst's side: the algorithm, the terms and the rounds so far."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.algorithm: Algorithm = restored(pickle.loads(base64.b64decode(message["algorithm"])))
        if Algorithm not in type(self.algorithm).__mro__:
            from recoup.algorithms.registry import completed  # all of Recoup's, which take a second to load

            completed(type(self.algorithm))
        self.places = {name: Place(*place) for name, place in message["queries"].items()}
        self.context: Context | None = None
        self.rounds: list[Round] = []

    def describe(self) -> object:
        return dict(self.algorithm.to_json())

    def law(self, domain: object, delta: str) -> object:
        return self.algorithm.law(domain_from_json(domain), fraction_from_json(delta))

    def begin(self, context: Mapping[str, Any]) -> object:
        self.context, self.rounds = context_from_json(context), []
        advice = self.algorithm.advice(self.context)
        return advice if advice is None else str(advice)

    def next(self, rounds: list[Any], entropy: Any, key: list[int]) -> object:
        assert self.context is not None
        for item in rounds:
            name = item["query"]["type"]
            if name not in QUERIES and name in self.places:
                QUERIES[name] = self.places[name].find()
            self.rounds.append(round_from_json(item, self.context))
        rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=tuple(key)))
        request = self.algorithm.next_request(self.context, tuple(self.rounds), rng)
        if request is None:
            return None
        if not isinstance(request, Request):
            raise TypeError(f"next_request gives a {type(request).__name__}: return a Request, or None at the end")
        # Its answer comes back by this name, also where the class is registered on the curator's side alone.
        QUERIES.setdefault(request.query.type_name, type(request.query))
        return request_to_json(request)
