"""Drive an algorithm as a release does, with noise that is recorded, or replayed from an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from recoup.algorithms.base import Algorithm
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.privacy.mechanism import Noise, SimulatedNoise
from recoup.queries import QUERIES
from recoup.queries.base import Array
from recoup.testing.queries import QUERY_NAMES, described_bounds
from recoup.testing.report import Broken, check_protocol, is_registered
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_MOST_ROUNDS = 1000


class RecordedNoise:
    """Simulated noise that remembers what was drawn, and what came out."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._noise: Noise = SimulatedNoise(np.random.default_rng(seed))
        self.draws: list[tuple[str, int, float]] = []
        self.answers: list[list[int]] = []

    def laplace(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add Laplace noise."""
        return self._add("laplace", totals, scale)

    def gaussian(self, totals: Sequence[int], scale: float) -> list[int]:
        """Add Gaussian noise."""
        return self._add("gaussian", totals, scale)

    def _add(self, law: str, totals: Sequence[int], scale: float) -> list[int]:
        self.draws.append((law, len(totals), scale))
        self.answers.append(getattr(self._noise, law)(totals, scale))
        return self.answers[-1]


class ReplayedNoise(RecordedNoise):
    """Gives the noisy answers of an earlier run, whatever the totals are: what neighbours may have in common."""

    def __init__(self, earlier: RecordedNoise) -> None:
        self._left = list(zip(earlier.draws, earlier.answers, strict=True))[::-1]
        self._n_drawn = 0

    def _add(self, law: str, totals: Sequence[int], scale: float) -> list[int]:
        self._n_drawn += 1
        draw, noisy = self._left.pop() if self._left else (None, [])
        if draw != (law, len(totals), scale):
            raise Broken(f"draw {self._n_drawn} of noise is another one, in number, size or scale", check="equal draws")
        return noisy


@dataclass(slots=True)
class Drive:
    """One run of an algorithm on a table: what was asked and answered, and whether it came to its end."""

    algorithm: Algorithm
    context: Context
    requests: list[Request] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    finished: bool = False

    def run(self, table: Array, noise: Noise) -> None:
        """Ask and answer until the algorithm is done, or breaks a rule."""
        curator = Curator(open_source(table, self.context.domain), self.context)
        spent = Fraction(0)
        while (request := self.ask(len(self.rounds))) is not None:
            n = len(self.rounds) + 1
            self._check(request, n, spent)
            spent += request.share
            self.requests.append(request)
            bounds = described_bounds(request.query.sensitivity(self.context.domain))
            self.rounds.append(curator.answer(request, noise))
            if described_bounds(request.query.sensitivity(self.context.domain)) != bounds:
                raise Broken(
                    f"the sensitivity of the query of round {n} is another one after records were read. It may depend "
                    "on the fields of the query and on the domain alone.",
                    check="purity",
                )
            if n == _MOST_ROUNDS:
                raise Broken(f"next_request still asks after {n} rounds. Return None when it is done.")
        self.finished = True

    def ask(self, n: int, *, algorithm: Algorithm | None = None, rounds: Sequence[Round] | None = None) -> Any:
        """The request after n rounds, of this algorithm or of a copy, from these rounds or from equal ones."""
        given = tuple((self.rounds if rounds is None else rounds)[:n])
        return (algorithm or self.algorithm).next_request(self.context, given, generator_after(n))

    def estimate(self) -> Array:
        """The algorithm's own answer."""
        return self.algorithm.estimate(self.context, tuple(self.rounds))

    @property
    def transcript(self) -> Transcript:
        """What a release would have returned."""
        return Transcript(
            context=self.context, algorithm=self.algorithm.to_json(), rounds=tuple(self.rounds), simulated=True
        )

    @property
    def is_registered(self) -> bool:
        """Whether another process could read every query of the transcript."""
        return all(is_registered(answered.query, QUERIES) for answered in self.rounds)

    def _check(self, request: object, n: int, spent: Fraction) -> None:
        if not isinstance(request, Request):
            raise Broken(f"in round {n} it gives a {type(request).__name__}. Return a Request, or None at the end.")
        check_protocol(request.query, QUERY_NAMES, "query")
        d = self.context.domain.n_columns
        if request.query.n_columns != d:
            raise Broken(f"round {n} asks a query over {request.query.n_columns} columns in a domain of {d}.")
        names = request.query.sensitivity(self.context.domain).names
        if set(request.split) != set(names):
            raise Broken(
                f"round {n} splits its share over {sorted(request.split)}, but the blocks of its query are "
                f"{list(names)}. Name each block once."
            )
        if spent + request.share > 1:
            raise Broken(
                f"round {n} asks for a share of {request.share} after {spent} was spent, more than the whole budget. "
                "Let the shares of all rounds add up to 1.",
                check="budget",
            )
        if sum(request.split.values()) > 1:
            raise Broken(
                f"the blocks of round {n} get {sum(request.split.values())} of its share. Let the parts add up to 1.",
                check="budget",
            )


def generator_after(n: int) -> np.random.Generator:
    """A fresh generator for the request after n rounds: the same one whenever it is asked for."""
    return np.random.default_rng([17, n])
