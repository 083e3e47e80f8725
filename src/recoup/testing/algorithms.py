"""The contract of an algorithm, tried in several domains, with both kinds of noise, on full and degenerate tables."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from recoup.algorithms.base import REQUIRED, Algorithm
from recoup.algorithms.registry import ALGORITHMS, algorithm_from_json, completed
from recoup.domain import Domain
from recoup.inference.infer import infer
from recoup.inference.inferred import refit
from recoup.queries.base import Array
from recoup.testing.drive import Drive, RecordedNoise, ReplayedNoise, generator_after
from recoup.testing.queries import named_domains, try_query
from recoup.testing.records import tables
from recoup.testing.report import (
    Broken,
    Recorder,
    Report,
    check_frozen,
    check_json,
    check_protocol,
    is_registered,
    read_back,
)
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_DELTA = Fraction(1, 10**6)
_MECHANISMS: tuple[Literal["laplace", "gaussian"], ...] = ("laplace", "gaussian")
_MOST_QUERIES = 64  # of a run: of longer ones, the first, the last and rounds evenly between
_FULL_DOMAINS = 3  # of the default ones
_FEW_RECORDS = 3  # a table of so few is degenerate: its queries are led by noise, its estimate is what matters
_N_POINTS = 150
_INFERRED_POINTS = 600
_OUTSIDE = 1e-9  # inference moves points onto the domain; more than rounding would change what was meant


def check_algorithm(
    algorithm: Algorithm,
    *,
    domain: Domain | Sequence[Domain] | None = None,
    n_columns: int = 2,
    epsilon: Any = 1,
    refit_tolerance: float = 1e-6,
    random_state: int = 0,
    raise_on_failure: bool = True,
) -> Report:
    """Try the contract of an algorithm of your own and of every query that it asks, and explain what breaks it.

    It is driven on generated tables with simulated Laplace and Gaussian noise; each query of each round (of 64
    rounds, if there are more) goes through the checks of `check_query`.

    Args:
        algorithm: the algorithm.
        domain: where to try it, one domain or several; none: a box and L1 and L2 balls of two sizes.
        n_columns: of those domains, if none is given.
        epsilon: the budget of a run.
        refit_tolerance: how far an answer may move when weighted points are split into two.
        random_state: of the tables, the records and the noise.
        raise_on_failure: raise `recoup.errors.ContractViolation` if a check fails; else only report it.

    Returns:
        Every check with whether it passed, and why not.

    Guarantees: no real record is needed. It can find that a promise is broken, and cannot prove that it is kept.

    >>> from recoup import Box, KMeans
    >>> print(check_algorithm(KMeans(n_clusters=2, n_rounds=2), domain=Box([0], [1])))
    KMeans keeps its contract: 18 checks in ... places.
    """
    recorder = Recorder(type(algorithm).__name__)
    if recorder.run("protocol", "", check_protocol, algorithm, REQUIRED, "algorithm"):
        completed(type(algorithm))
        recorder.run("frozen", "", check_frozen, algorithm)
        recorder.run("json", "", check_json, algorithm, ALGORITHMS, algorithm_from_json)
        for i, (name, place) in enumerate(named_domains(domain, n_columns).items()):
            # Wider balls are there for the bounds that queries declare: one kind of noise and one table will do.
            brief = domain is None and i >= _FULL_DOMAINS
            for mechanism in _MECHANISMS[i % 2 :][:1] if brief else _MECHANISMS:
                delta = _DELTA if mechanism == "gaussian" else Fraction(0)
                context = Context(domain=place, epsilon=epsilon, delta=delta, mechanism=mechanism)
                where = f"In the {name} with {mechanism.capitalize()} noise"
                terms = _Terms(recorder, algorithm, context, where, random_state)
                if brief:
                    terms.drive(*next(iter(tables(place, np.random.default_rng(random_state)).items())))
                else:
                    terms.go_through(refit_tolerance, with_inference=i == 0)
    return recorder.report(raise_on_failure)


class _Terms:
    """The checks under one domain and mechanism."""

    def __init__(self, recorder: Recorder, algorithm: Algorithm, context: Context, where: str, seed: int) -> None:
        self.recorder, self.algorithm, self.context, self.where, self.seed = recorder, algorithm, context, where, seed
        self.seen: set[str] = set()

    def go_through(self, refit_tolerance: float, *, with_inference: bool) -> None:
        """Drive the algorithm on every table and try what follows from it."""
        given = tables(self.context.domain, np.random.default_rng(self.seed))
        for i, (name, table) in enumerate(given.items()):
            drive, noise = self.drive(name, table)
            where = f"{self.where}, on {name}"
            if drive.finished:
                self.recorder.run("whole budget", where, _whole_budget, drive)
                self.recorder.run("estimate", where, _estimate, drive)
            if i == 0:
                self.recorder.run("next request", where, _pure, drive)
                if drive.finished:
                    self.recorder.run("equal draws", where, _neighbours, drive, table, noise)
                    try_refit(self.recorder, drive, where, tolerance=refit_tolerance, with_inference=with_inference)

    def drive(self, name: str, table: Array) -> tuple[Drive, RecordedNoise]:
        """One run, with the checks of every query that it asks for the first time."""
        drive, noise = Drive(self.algorithm, self.context), RecordedNoise(self.seed)
        where = f"{self.where}, on {name}"
        self.recorder.tried("budget")
        self.recorder.run("requests", where, drive.run, table, noise)
        if len(table) > _FEW_RECORDS:
            self._queries(drive, where)
        return drive, noise

    def _queries(self, drive: Drive, where: str) -> None:
        every = np.linspace(1, len(drive.requests), min(len(drive.requests), _MOST_QUERIES)).astype(int)
        for n in sorted({int(n) for n in every}):
            request = drive.requests[n - 1]
            key = _described(request)
            if key not in self.seen:
                self.seen.add(key)
                try_query(
                    self.recorder,
                    request.query,
                    self.context.domain,
                    f"{where}, round {n}",
                    split=request.split,
                    random_state=self.seed,
                )


def _whole_budget(drive: Drive) -> None:
    spent = sum((request.share for request in drive.requests), Fraction(0))
    if not drive.requests:
        raise Broken("nothing is asked at all: next_request gives None before the first round.")
    hint = "Write shares as Fraction(1, 3), not as 1 / 3, and give the last round what is left."
    if spent < 1:
        raise Broken(f"the rounds ask for {spent} of the budget. {hint}")
    for n, request in enumerate(drive.requests, start=1):
        parts = sum(request.split.values(), Fraction(0))
        if parts < 1:
            raise Broken(f"round {n} gives its blocks {parts} of its share. {hint}")


def _estimate(drive: Drive) -> None:
    answer = drive.estimate()
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "fi":
        raise Broken(f"estimate gives a {type(answer).__name__}: give a NumPy array of numbers.")
    if not np.isfinite(answer).all():
        raise Broken(
            "estimate is NaN or infinite. Noisy counts can be zero or negative: keep divisors away from zero "
            "(np.maximum(count, 1)), and say something where there is no signal."
        )
    if not np.array_equal(answer, drive.estimate()):
        raise Broken("estimate gives something else when it is called again. It may use the context and rounds alone.")
    if drive.algorithm.has_centers and not drive.context.domain.contains(answer).all():
        raise Broken("a centre lies outside of the domain. Return context.domain.clip(centers).")


def _pure(drive: Drive) -> None:
    """Ask again for every round: in another order, of copies, and from rounds that went through JSON."""
    expected = [_described(request) for request in drive.requests] + ([_described(None)] if drive.finished else [])
    hint = (
        "Everything it decides by must come from its arguments and its own fields; keep nothing between calls, and "
        "draw from the generator that it is given alone."
    )
    as_read: Sequence[Round] = drive.rounds
    if drive.is_registered:
        as_read = Transcript.from_json(json.loads(json.dumps(drive.transcript.to_json()))).rounds
    ways: dict[str, tuple[Algorithm, Sequence[Round]]] = {
        "again, in another order": (drive.algorithm, drive.rounds),
        "of a copy": (copy.deepcopy(drive.algorithm), drive.rounds),
        "of the algorithm that was read back from its JSON": (
            read_back(drive.algorithm, ALGORITHMS, algorithm_from_json),
            as_read,
        ),
    }
    for way, (algorithm, rounds) in ways.items():
        for n in reversed(range(len(expected))):
            if _described(drive.ask(n, algorithm=algorithm, rounds=rounds)) != expected[n]:
                raise Broken(
                    f"asked {way}, next_request gives something else for round {n + 1}, with the same rounds and an "
                    f"equal generator. {hint}"
                )


def _neighbours(drive: Drive, table: Array, noise: RecordedNoise) -> None:
    """What an observer sees must be the same for tables that gave the same noisy answers."""
    corner = drive.context.domain.from_unit(np.full((1, table.shape[1]), -1.0))
    hint = (
        "Something besides the noisy answers reaches the algorithm: a cache, a global, an attribute that "
        "contribution sets, the number of records."
    )
    others = {"with one record more": np.concatenate([table, corner]), "with a single record": table[:1]}
    own = seen_of(drive)
    # What changes by itself is another rule's to say.
    own = {name: value for name, value in seen_of(drive).items() if _equal(value, own[name])}
    for name, other in others.items():
        again = Drive(drive.algorithm, drive.context)
        try:
            again.run(other, ReplayedNoise(noise))
        except Broken as broken:
            raise Broken(f"{name} and the same noisy answers, {broken}. {hint}") from None
        if [_described(request) for request in again.requests] != [_described(request) for request in drive.requests]:
            raise Broken(f"{name} and the same noisy answers, other queries or shares are asked for. {hint}")
        now = seen_of(again)
        for what, value in own.items():
            if not _equal(now[what], value):
                raise Broken(f"{name} and the same noisy answers, {what} is another one. {hint}")


def _equal(a: Any, b: Any) -> bool:
    floats = isinstance(a, np.ndarray) and a.dtype.kind == "f"
    return np.array_equal(a, b, equal_nan=True) if floats else bool(np.all(a == b))


def _described(request: Request | None) -> str:
    """A request as text, to the last bit."""
    if request is None:
        return "done"
    split = {name: str(part) for name, part in sorted(request.split.items())}
    return json.dumps([request.query.to_json(), str(request.share), split], sort_keys=True)


# ---- the noiseless twin: where records may lie, and what the algorithm answers on weighted points ----


def try_refit(recorder: Recorder, drive: Drive, where: str, *, tolerance: float, with_inference: bool) -> None:
    """Try what an algorithm offers beyond asking; nothing, if it offers nothing."""
    if not drive.algorithm.can_refit:
        return
    if not drive.algorithm.has_centers and recorder.run("support", where, _support, drive):
        recorder.run("refit", where, _refit, drive)
        recorder.run("weights", where, _weights, drive, tolerance)
    if with_inference and drive.is_registered and is_registered(drive.algorithm, ALGORITHMS):
        recorder.run("inference", where, _inference, drive)


def seen_of(drive: Drive) -> dict[str, Any]:
    """Everything that an algorithm says after a run, by a name for messages."""
    algorithm, context, rounds = drive.algorithm, drive.context, tuple(drive.rounds)
    seen: dict[str, Any] = {"the estimate": drive.estimate(), "to_json": json.dumps(algorithm.to_json())}
    seen["declines"] = algorithm.declines(context, rounds)
    if algorithm.can_refit and not algorithm.has_centers:
        rng = np.random.default_rng(5)
        points = context.domain.clip(rng.uniform(-1, 1, (_N_POINTS, context.domain.n_columns)))
        answer = _answer(drive, points, rng.random(_N_POINTS))
        seen |= {
            "the support": _points(drive),
            "refit": answer,
            "in_user_units": algorithm.in_user_units(context, answer),
            "pseudo_records": algorithm.pseudo_records,
        }
    return seen


def _points(drive: Drive, n: int = _N_POINTS) -> Array:
    return drive.algorithm.support(drive.context, tuple(drive.rounds), n, generator_after(0))


def _answer(drive: Drive, points: Array, weights: Array) -> Array:
    return drive.algorithm.refit(drive.context, tuple(drive.rounds), points.copy(), weights.copy(), generator_after(1))


def _support(drive: Drive) -> None:
    domain = drive.context.domain
    for n in (_N_POINTS, 7):
        points = _points(drive, n)
        if not isinstance(points, np.ndarray) or points.shape != (n, domain.n_columns):
            raise Broken(f"asked for {n} points, support gives {np.shape(points)}: give ({n}, {domain.n_columns}).")
        if not np.isfinite(points).all() or np.abs(domain.clip(points) - points).max() > _OUTSIDE:
            raise Broken("support leaves the domain. Return context.domain.clip(points).")
    if not np.array_equal(_points(drive), _points(drive)):
        raise Broken("support gives other points for an equal generator. Draw from the generator that it is given.")
    strength = drive.algorithm.pseudo_records
    if not (np.isfinite(strength) and strength > 0):
        raise Broken(f"pseudo_records is {strength!r}: give a positive number; 3 to 30 suit most algorithms.")


def _weighted(drive: Drive) -> tuple[Array, Array]:
    return _points(drive), np.random.default_rng(3).gamma(0.5, size=_N_POINTS)


def _refit(drive: Drive) -> None:
    own, (points, weights) = drive.estimate(), _weighted(drive)
    cases = {
        "weighted points": (points, weights),
        "points of which half have no weight": (points, np.where(np.arange(_N_POINTS) % 2, weights, 0.0)),
        "a single point": (points[:1], np.ones(1)),
    }
    for name, (where, mass) in cases.items():
        answer = _answer(drive, where, mass)
        if not isinstance(answer, np.ndarray) or answer.shape != own.shape:
            raise Broken(
                f"on {name}, refit has the shape {np.shape(answer)}, and estimate {own.shape}. Let them agree."
            )
        if not np.isfinite(answer).all():
            raise Broken(f"on {name}, refit is NaN or infinite. Keep divisors away from zero.")
        if not np.array_equal(answer, _answer(drive, where, mass)):
            raise Broken(f"on {name}, refit gives something else for an equal generator.")
        if not np.isfinite(drive.algorithm.in_user_units(drive.context, answer)).all():
            raise Broken(f"on {name}, in_user_units makes of a finite answer one that is not.")
    given, mass = points.copy(), weights.copy()
    drive.algorithm.refit(drive.context, tuple(drive.rounds), given, mass, generator_after(1))
    if not (np.array_equal(given, points) and np.array_equal(mass, weights)):
        raise Broken("refit changes the points or weights it is given. Work on copies.")


def _weights(drive: Drive, tolerance: float) -> None:
    points, weights = _weighted(drive)
    whole = _answer(drive, points, weights)
    # Only some of the points: if all were split, an answer that forgets the weights would not move.
    pieces = np.where(np.arange(_N_POINTS) % 3 == 0, 2, 1)
    halves = _answer(drive, np.repeat(points, pieces, axis=0), np.repeat(weights / pieces, pieces))
    moved = float(np.abs(whole - halves).max(initial=0.0))
    if not moved <= tolerance * max(1.0, float(np.abs(whole).max(initial=0.0))):
        raise Broken(
            f"every third point in two, of half its weight each, moves the answer by {moved:.3g}. Use the weights in "
            "every sum, mean and count: a point of weight 2 is two records."
        )


def _inference(drive: Drive) -> None:
    transcript = drive.transcript
    own = refit(transcript, None)
    inferred = infer(transcript, "maxent", n_points=_INFERRED_POINTS, random_state=0, warn=False)
    answer = refit(transcript, inferred, random_state=0)
    if np.shape(answer) != np.shape(own) or not np.isfinite(answer).all():
        raise Broken(
            f"recoup.refit on inferred data has the shape {np.shape(answer)} (the algorithm's own answer: "
            f"{np.shape(own)}), or is not finite."
        )
