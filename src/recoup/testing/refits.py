"""The contract of the noiseless twin: where records may lie, and what the algorithm answers on weighted points."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from recoup.algorithms.registry import ALGORITHMS
from recoup.inference.infer import infer
from recoup.inference.refit import refit
from recoup.queries import QUERIES
from recoup.queries.base import Array
from recoup.testing.drive import Drive, harmless
from recoup.testing.report import Broken, Recorder
from recoup.testing.values import is_registered

_N_POINTS = 150
_INFERRED_POINTS = 600
_OUTSIDE = 1e-9  # inference moves points onto the domain; more than rounding would change what was meant


def try_refit(recorder: Recorder, drive: Drive, where: str, *, tolerance: float, with_inference: bool) -> None:
    """Try what an algorithm offers beyond asking; nothing, if it offers nothing."""
    if not drive.algorithm.can_refit:
        return
    if not drive.algorithm.has_centers and recorder.run("support", where, lambda: _support(drive)):
        recorder.run("refit", where, lambda: _refit(drive))
        recorder.run("weights", where, lambda: _weights(drive, tolerance))
    queries_known = all(is_registered(answered.query, QUERIES) for answered in drive.rounds)
    if with_inference and queries_known and is_registered(drive.algorithm, ALGORITHMS):
        recorder.run("inference", where, lambda: _inference(drive))


def seen_of(drive: Drive) -> dict[str, Any]:
    """Everything that an algorithm says after a run, by a name for messages."""
    algorithm, context, rounds = drive.algorithm, drive.context, tuple(drive.rounds)
    seen: dict[str, Any] = {"the estimate": drive.estimate(), "to_json": json.dumps(algorithm.to_json())}
    seen["declines"] = algorithm.declines(context, rounds)
    if algorithm.can_refit and not algorithm.has_centers:
        rng = np.random.default_rng(5)
        points, weights = (
            context.domain.clip(rng.uniform(-1, 1, (_N_POINTS, context.domain.n_columns))),
            rng.random(_N_POINTS),
        )
        answer = _answer(drive, points, weights)
        seen |= {
            "the support": _points(drive),
            "refit": answer,
            "in_user_units": algorithm.in_user_units(context, answer),
            "pseudo_records": algorithm.pseudo_records,
        }
    return seen


def _points(drive: Drive, n: int = _N_POINTS) -> Array:
    return drive.algorithm.support(drive.context, tuple(drive.rounds), n, harmless(0))


def _answer(drive: Drive, points: Array, weights: Array) -> Array:
    return drive.algorithm.refit(drive.context, tuple(drive.rounds), points.copy(), weights.copy(), harmless(1))


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
    drive.algorithm.refit(drive.context, tuple(drive.rounds), given, mass, harmless(1))
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
