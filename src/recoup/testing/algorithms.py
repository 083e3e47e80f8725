"""The contract of an algorithm, tried as releases drive it: in several domains, with both noises, on unusual tables."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from recoup.algorithms.base import REQUIRED, Algorithm
from recoup.algorithms.registry import ALGORITHMS, algorithm_from_json, completed
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.domain import Domain, uniform_points
from recoup.inference.infer import infer
from recoup.inference.inferred import refit
from recoup.privacy.mechanism import Noise, SimulatedNoise
from recoup.queries import QUERIES
from recoup.queries.base import Array
from recoup.testing.queries import QUERY_NAMES, described_bounds, named_domains, try_query
from recoup.testing.report import Broken, Recorder, Report, check_frozen, check_json, check_protocol, is_known, require
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round
from recoup.transcript.transcript import Transcript

_DELTA = Fraction(1, 10**6)
_MECHANISMS: tuple[Literal["laplace", "gaussian"], ...] = ("laplace", "gaussian")
_MOST_ROUNDS = 1000
_MOST_QUERIES = 64  # of a run: of longer ones, the first, the last and rounds evenly between
_FULL_DOMAINS = 3  # of the default ones
_FEW_RECORDS = 3  # a table of so few is degenerate: its queries are led by noise, its estimate is what matters
_N_ROWS = 240  # of the other tables
_N_POINTS, _INFERRED_POINTS = 150, 600
_SEED = 17  # of the generators that an algorithm is given, with the number of rounds: equal whenever it is asked again
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
    """Check the contract of your own algorithm and of every query that it asks, and explain what breaks it.

    It runs on generated tables with simulated noise; queries of up to 64 rounds go through the checks of `check_query`.

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

    Guarantees: needs no real record. It can find that a promise is broken; it cannot prove that it is kept.

    >>> from recoup import Box, KMeans
    >>> print(check_algorithm(KMeans(n_clusters=2, n_rounds=2), domain=Box([0], [1])))
    KMeans keeps its contract: 18 checks in ... places.
    """
    recorder = Recorder(type(algorithm).__name__)
    if not recorder.run("protocol", "", check_protocol, algorithm, REQUIRED, "algorithm"):
        return recorder.report(raise_on_failure)
    completed(type(algorithm))
    recorder.run("frozen", "", check_frozen, algorithm)
    recorder.run("json", "", check_json, algorithm, ALGORITHMS, algorithm_from_json)
    for i, (name, place) in enumerate(named_domains(domain, n_columns).items()):
        # Wider balls are there for the bounds that queries declare: one kind of noise and one table will do.
        brief = domain is None and i >= _FULL_DOMAINS
        for mechanism in _MECHANISMS[i % 2 :][:1] if brief else _MECHANISMS:
            delta = _DELTA if mechanism == "gaussian" else Fraction(0)
            context = Context(domain=place, epsilon=epsilon, delta=delta, mechanism=mechanism)
            seen = set[str]()  # queries that were tried under these terms
            tables = _tables(place, np.random.default_rng(random_state))
            for table in list(tables)[:1] if brief else tables:
                where = f"In the {name} with {mechanism.capitalize()} noise, on {table}"
                drive, noise = _Drive(algorithm, context), _Noise(random_state)
                recorder.places["budget"] += 1  # a rule that is tried on the way
                recorder.run("requests", where, drive.run, tables[table], noise)
                if len(tables[table]) > _FEW_RECORDS:
                    _try_queries(recorder, drive, where, seen, random_state)
                if drive.finished and not brief:
                    recorder.run("whole budget", where, _whole_budget, drive)
                    recorder.run("estimate", where, _estimate, drive)
                if table == next(iter(tables)) and not brief:
                    recorder.run("next request", where, _pure, drive)
                    if drive.finished:
                        recorder.run("equal draws", where, _neighbours, drive, tables[table], noise)
                    if drive.finished and algorithm.can_refit:
                        if not algorithm.has_centers and recorder.run("support", where, _support, drive):
                            recorder.run("refit", where, _refit, drive)
                            recorder.run("weights", where, _weights, drive, refit_tolerance)
                        if i == 0 and drive.is_registered and is_known(algorithm, ALGORITHMS):
                            recorder.run("inference", where, _inference, drive)
    return recorder.report(raise_on_failure)


def _tables(domain: Domain, rng: np.random.Generator) -> dict[str, Array]:
    """Tables in the user's units on which an algorithm is driven: two full ones and three degenerate ones."""
    d = domain.n_columns
    spread = domain.from_unit(uniform_points(domain, _N_ROWS, rng))
    centers = domain.clip(rng.uniform(-1.0, 1.0, size=(3, d)))
    lumps = centers[rng.integers(3, size=_N_ROWS)] + 0.05 * rng.standard_normal((_N_ROWS, d))
    lumps[: _N_ROWS // 3] = 1.0  # a third in one corner, where bounds are met
    return {
        "a table of lumps": domain.from_unit(lumps),
        "a table spread evenly": spread,
        "an empty table": np.empty((0, d)),
        "a table of one record": spread[:1],
        "a table of missing values": np.full((3, d), np.nan),
    }


class _Noise:
    """Simulated noise that remembers what was drawn and what came out.

    After an earlier one it gives the same noisy answers, whatever the totals are: what neighbours may have in common.
    """

    simulated = True

    def __init__(self, seed: int, *, earlier: _Noise | None = None) -> None:
        self._noise, self._earlier = SimulatedNoise(np.random.default_rng(seed)), earlier
        self.drawn: list[tuple[tuple[str, int, float], list[int]]] = []

    def laplace(self, totals: Sequence[int], scale: float) -> list[int]:
        return self._add("laplace", totals, scale)

    def gaussian(self, totals: Sequence[int], scale: float) -> list[int]:
        return self._add("gaussian", totals, scale)

    def _add(self, law: str, totals: Sequence[int], scale: float) -> list[int]:
        n, draw = len(self.drawn), (law, len(totals), scale)
        if self._earlier is None:
            noisy: list[int] = getattr(self._noise, law)(totals, scale)
        else:
            before, noisy = self._earlier.drawn[n] if n < len(self._earlier.drawn) else (None, [])
            require(before == draw, f"draw {n + 1} of noise is another one, in number, size or scale")
        self.drawn.append((draw, noisy))
        return noisy


@dataclass(slots=True)
class _Drive:
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
        while (request := self.ask(len(self.rounds), self.algorithm, self.rounds)) is not None:
            n = len(self.rounds) + 1
            self._check(request, n, spent)
            spent += request.share
            self.requests.append(request)
            before = described_bounds(request.query, self.context.domain)
            self.rounds.append(curator.answer(request, noise))
            changed = f"the sensitivity of the query of round {n} is another one after records were read. "
            hint = "It may depend on the fields of the query and on the domain alone."
            require(described_bounds(request.query, self.context.domain) == before, changed + hint, check="purity")
            require(n < _MOST_ROUNDS, f"next_request still asks after {n} rounds. Return None when it is done.")
        self.finished = True

    def ask(self, n: int, algorithm: Algorithm, rounds: Sequence[Round]) -> Any:
        """The request after n rounds, of this algorithm or of a copy, from these rounds or from equal ones."""
        return algorithm.next_request(self.context, tuple(rounds[:n]), np.random.default_rng([_SEED, n]))

    def estimate(self) -> Array:
        return self.algorithm.estimate(self.context, tuple(self.rounds))

    def support(self, n: int = _N_POINTS) -> Array:
        return self.algorithm.support(self.context, tuple(self.rounds), n, np.random.default_rng([_SEED, 0]))

    def refit(self, points: Array, weights: Array) -> Array:
        rng = np.random.default_rng([_SEED, 1])
        return self.algorithm.refit(self.context, tuple(self.rounds), points, weights, rng)

    @property
    def transcript(self) -> Transcript:
        """What a release would have returned."""
        rounds, algorithm = tuple(self.rounds), self.algorithm.to_json()
        return Transcript(context=self.context, algorithm=algorithm, rounds=rounds, simulated=True)

    @property
    def is_registered(self) -> bool:
        """Whether another process could read every query of the transcript."""
        return all(is_known(answered.query, QUERIES) for answered in self.rounds)

    def _check(self, request: object, n: int, spent: Fraction) -> None:
        if not isinstance(request, Request):
            raise Broken(f"in round {n} it gives a {type(request).__name__}. Return a Request, or None at the end.")
        check_protocol(request.query, QUERY_NAMES, "query")
        d, n_columns = self.context.domain.n_columns, request.query.n_columns
        require(n_columns == d, f"round {n} asks a query over {n_columns} columns in a domain of {d}.")
        names = request.query.sensitivity(self.context.domain).names
        splits = f"round {n} splits its share over {sorted(request.split)}"
        hint = f"{splits}, but the blocks of its query are {list(names)}. Name each block once."
        require(set(request.split) == set(names), hint)
        asks = f"round {n} asks for a share of {request.share} after {spent} was spent, more than the whole budget."
        require(spent + request.share <= 1, f"{asks} Let the shares of all rounds add up to 1.", check="budget")
        parts = sum(request.split.values())
        hint = f"the blocks of round {n} get {parts} of its share. Let the parts add up to 1."
        require(parts <= 1, hint, check="budget")


def _try_queries(recorder: Recorder, drive: _Drive, where: str, seen: set[str], random_state: int) -> None:
    """The checks of every query that was not seen before."""
    every = np.linspace(1, len(drive.requests), min(len(drive.requests), _MOST_QUERIES)).astype(int)
    for n in np.unique(every):
        request = drive.requests[n - 1]
        if (key := _described(request)) not in seen:
            seen.add(key)
            query, domain, place = request.query, drive.context.domain, f"{where}, round {n}"
            try_query(recorder, query, domain, place, split=request.split, random_state=random_state)


def _whole_budget(drive: _Drive) -> None:
    spent = sum((request.share for request in drive.requests), Fraction(0))
    require(drive.requests, "nothing is asked at all: next_request gives None before the first round.")
    hint = "Write shares as Fraction(1, 3), not as 1 / 3, and give the last round what is left."
    require(spent >= 1, f"the rounds ask for {spent} of the budget. {hint}")
    for n, request in enumerate(drive.requests, start=1):
        parts = sum(request.split.values(), Fraction(0))
        require(parts >= 1, f"round {n} gives its blocks {parts} of its share. {hint}")


def _estimate(drive: _Drive) -> None:
    answer = drive.estimate()
    ok = isinstance(answer, np.ndarray) and answer.dtype.kind in "fi"
    require(ok, f"estimate gives a {type(answer).__name__}: give a NumPy array of numbers.")
    hint = "keep divisors away from zero (np.maximum(count, 1)), and say something where there is no signal."
    require(np.isfinite(answer).all(), f"estimate is NaN or infinite. Noisy counts can be zero or negative: {hint}")
    hint = "estimate gives something else when it is called again. It may use the context and rounds alone."
    require(np.array_equal(answer, drive.estimate()), hint)
    inside = not drive.algorithm.has_centers or drive.context.domain.contains(answer).all()
    require(inside, "a centre lies outside of the domain. Return context.domain.clip(centers).")


def _pure(drive: _Drive) -> None:
    """Ask again for every round: in another order, of copies, and from rounds that went through JSON."""
    own, rounds = drive.algorithm, drive.rounds
    expected = [_described(request) for request in drive.requests] + ([_described(None)] if drive.finished else [])
    hint = (
        "Everything it decides by must come from its arguments and its own fields; keep nothing between calls, and "
        "draw from the generator that it is given alone."
    )
    read = algorithm_from_json if is_known(own, ALGORITHMS) else type(own).from_json
    reread = read(json.loads(json.dumps(own.to_json(), allow_nan=False)))
    if drive.is_registered:
        rounds = list(Transcript.from_json(json.loads(json.dumps(drive.transcript.to_json()))).rounds)
    for way, algorithm, given in (
        ("again, in another order", own, drive.rounds),
        ("of a copy", copy.deepcopy(own), drive.rounds),
        ("of the algorithm that was read back from its JSON", reread, rounds),
    ):
        for n in reversed(range(len(expected))):
            same = _described(drive.ask(n, algorithm, given)) == expected[n]
            what = f"next_request gives something else for round {n + 1}, with the same rounds and an equal generator."
            require(same, f"asked {way}, {what} {hint}")


def _neighbours(drive: _Drive, table: Array, noise: _Noise) -> None:
    """What an observer sees must be the same for tables that gave the same noisy answers."""
    corner = drive.context.domain.from_unit(np.full((1, table.shape[1]), -1.0))
    hint = (
        "Something besides the noisy answers reaches the algorithm: a cache, a global, an attribute that "
        "contribution sets, the number of records."
    )
    others = {"with one record more": np.concatenate([table, corner]), "with a single record": table[:1]}
    own = _seen(drive)
    # What changes by itself is another rule's to say.
    own = {name: value for name, value in _seen(drive).items() if _equal(value, own[name])}
    for name, other in others.items():
        again = _Drive(drive.algorithm, drive.context)
        try:
            again.run(other, _Noise(0, earlier=noise))
        except Broken as broken:
            raise Broken(f"{name} and the same noisy answers, {broken}. {hint}") from None
        same = list(map(_described, again.requests)) == list(map(_described, drive.requests))
        require(same, f"{name} and the same noisy answers, other queries or shares are asked for. {hint}")
        now = _seen(again)
        for what, value in own.items():
            require(_equal(now[what], value), f"{name} and the same noisy answers, {what} is another one. {hint}")


def _equal(a: Any, b: Any) -> bool:
    floats = isinstance(a, np.ndarray) and a.dtype.kind == "f"
    return np.array_equal(a, b, equal_nan=True) if floats else bool(np.all(a == b))


def _described(request: Request | None) -> str:
    """A request as text, to the last bit."""
    if request is None:
        return "done"
    split = {name: str(part) for name, part in sorted(request.split.items())}
    return json.dumps([request.query.to_json(), str(request.share), split], sort_keys=True)


def _seen(drive: _Drive) -> dict[str, Any]:
    """Everything that an algorithm says after a run, by a name for messages."""
    algorithm, context, rounds = drive.algorithm, drive.context, tuple(drive.rounds)
    seen: dict[str, Any] = {"the estimate": drive.estimate(), "to_json": json.dumps(algorithm.to_json())}
    seen["declines"] = algorithm.declines(context, rounds)
    if algorithm.can_refit and not algorithm.has_centers:
        rng = np.random.default_rng(5)
        points = context.domain.clip(rng.uniform(-1, 1, (_N_POINTS, context.domain.n_columns)))
        answer = drive.refit(points, rng.random(_N_POINTS))
        seen |= {"the support": drive.support(), "refit": answer}
        seen |= {"in_user_units": algorithm.in_user_units(context, answer), "pseudo_records": algorithm.pseudo_records}
    return seen


def _support(drive: _Drive) -> None:
    domain = drive.context.domain
    for n in (_N_POINTS, 7):
        points = drive.support(n)
        hint = f"asked for {n} points, support gives {np.shape(points)}: give ({n}, {domain.n_columns})."
        require(isinstance(points, np.ndarray) and points.shape == (n, domain.n_columns), hint)
        inside = np.isfinite(points).all() and np.abs(domain.clip(points) - points).max() <= _OUTSIDE
        require(inside, "support leaves the domain. Return context.domain.clip(points).")
    hint = "support gives other points for an equal generator. Draw from the generator that it is given."
    require(np.array_equal(drive.support(), drive.support()), hint)
    strength = drive.algorithm.pseudo_records
    hint = f"pseudo_records is {strength!r}: give a positive number; 3 to 30 suit most algorithms."
    require(np.isfinite(strength) and strength > 0, hint)


def _refit(drive: _Drive) -> None:
    own, points, weights = drive.estimate(), drive.support(), np.random.default_rng(3).gamma(0.5, size=_N_POINTS)
    cases = {
        "weighted points": (points, weights),
        "points of which half have no weight": (points, np.where(np.arange(_N_POINTS) % 2, weights, 0.0)),
        "a single point": (points[:1], np.ones(1)),
    }
    for name, (where, mass) in cases.items():
        answer, again = (drive.refit(where.copy(), mass.copy()) for _ in range(2))
        hint = f"on {name}, refit has the shape {np.shape(answer)}, and estimate {own.shape}. Let them agree."
        require(isinstance(answer, np.ndarray) and answer.shape == own.shape, hint)
        require(np.isfinite(answer).all(), f"on {name}, refit is NaN or infinite. Keep divisors away from zero.")
        require(np.array_equal(answer, again), f"on {name}, refit gives something else for an equal generator.")
        ok = np.isfinite(drive.algorithm.in_user_units(drive.context, answer)).all()
        require(ok, f"on {name}, in_user_units makes of a finite answer one that is not.")
    given, mass = points.copy(), weights.copy()
    drive.refit(given, mass)
    same = np.array_equal(given, points) and np.array_equal(mass, weights)
    require(same, "refit changes the points or weights it is given. Work on copies.")


def _weights(drive: _Drive, tolerance: float) -> None:
    points, weights = drive.support(), np.random.default_rng(3).gamma(0.5, size=_N_POINTS)
    whole = drive.refit(points.copy(), weights.copy())
    # Only some of the points: if all were split, an answer that forgets the weights would not move.
    pieces = np.where(np.arange(_N_POINTS) % 3 == 0, 2, 1)
    halves = drive.refit(np.repeat(points, pieces, axis=0), np.repeat(weights / pieces, pieces))
    moved = float(np.abs(whole - halves).max(initial=0.0))
    hint = "Use the weights in every sum, mean and count: a point of weight 2 is two records."
    what = f"every third point in two, of half its weight each, moves the answer by {moved:.3g}."
    require(moved <= tolerance * max(1.0, float(np.abs(whole).max(initial=0.0))), f"{what} {hint}")


def _inference(drive: _Drive) -> None:
    transcript = drive.transcript
    own = refit(transcript, None)
    inferred = infer(transcript, "maxent", n_points=_INFERRED_POINTS, random_state=0, warn=False)
    answer = refit(transcript, inferred, random_state=0)
    shapes = f"{np.shape(answer)} (the algorithm's own answer: {np.shape(own)})"
    ok = np.shape(answer) == np.shape(own) and np.isfinite(answer).all()
    require(ok, f"recoup.refit on inferred data has the shape {shapes}, or is not finite.")
