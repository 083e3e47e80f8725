"""Attacks on whole releases: an attacker who knows both tables reads the transcript, or the centres, to the last digit.

From each transcript come the log-likelihood ratio over all rounds, values that equal an exact total, and extremes; from
all of them together the law of the noise, and whether any noise was used twice: between values, rounds, or releases
that share a seed. Rivals show centres alone, so their statistics are those.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from recoup.queries.base import Array
from recoup_lab.audit.attacks.bounds import claim_of, lower_bound, repeated, repeats_allowed
from recoup_lab.audit.attacks.effort import ALARM, Effort
from recoup_lab.audit.attacks.law import law_finding, split_residuals
from recoup_lab.audit.attacks.mechanisms import answer_statistics, bound_finding
from recoup_lab.audit.attacks.reference import exact_totals, unit_records
from recoup_lab.audit.attacks.subjects import BOX, Neighbours, Released, Subject, Terms, neighbours, subjects
from recoup_lab.audit.findings import Finding

GROUP: Final = "releases"
_PAIR: Final = "an empty cell"
_EPSILON: Final = {"laplace": Fraction(2), "gaussian": Fraction(8)}
_FEWEST: Final = 12


class _Sample(NamedTuple):
    """What many releases of one table gave."""

    statistics: Array
    residuals: dict[str, Array]
    noises: Array  # exact integers, for repeats
    smallest_scale: float


def attack(effort: Effort) -> Iterator[Finding]:
    """Release every algorithm and rival many times on two neighbours."""
    for subject in subjects():
        for mechanism in subject.mechanisms():
            if effort.quick and mechanism == "gaussian" and subject.name != "kmeans-lloyd":
                continue
            yield from _on_subject(effort, subject, mechanism)


def _on_subject(effort: Effort, subject: Subject, mechanism: str) -> Iterator[Finding]:
    terms = Terms(mechanism=mechanism, epsilon=_EPSILON[mechanism])
    tables = neighbours(BOX, rng=effort.rng(7))[_PAIR]
    tries = _affordable(effort, subject, terms, tables)
    samples = [_sample(subject, terms, tables, having, tries, effort.seed) for having in (False, True)]
    target = f"{subject.name}, {mechanism}"
    claim = claim_of(terms.context.budget_measure, float(terms.claimed))
    apart = lower_bound(np.zeros((tries, 1)), np.ones((tries, 1)), claim, ALARM).amount
    # So few releases that even tables told apart for certain would not break the claim say nothing.
    if apart > claim.amount:
        statistics = samples[0].statistics, samples[1].statistics
        whole = "bound from whole releases"
        yield bound_finding(GROUP, whole, f"{target}: {_PAIR}", claim, statistics, could_show=apart)
    if subject.rival is not None:
        same = repeated(samples[1].statistics[:, 0])
        # Centres are clipped to the bounds, where many are equal; all of them are only if nothing is random.
        yield Finding(
            group=GROUP,
            attack="noise used twice",
            target=target,
            tries=tries,
            result="releases with one seed differ" if same < tries - 1 else "all releases with one seed are equal",
            passed=same < tries - 1,
            alarm=0.5 ** (tries - 1),
        )
        return
    pooled = {
        name: np.concatenate([s.residuals[name] for s in samples if name in s.residuals])
        for name in samples[0].residuals | samples[1].residuals
    }
    yield law_finding(GROUP, target, pooled, mechanism)
    noises = np.concatenate([s.noises for s in samples])
    again, allowed = repeated(noises), repeats_allowed(len(noises), samples[0].smallest_scale, ALARM)
    yield Finding(
        group=GROUP,
        attack="noise used twice",
        target=target,
        tries=len(noises),
        result=f"{again} noises repeated, {allowed} allowed",
        passed=again <= allowed,
        alarm=ALARM,
        figures={"repeated": float(again), "allowed": float(allowed)},
    )


def _affordable(effort: Effort, subject: Subject, terms: Terms, tables: Neighbours) -> int:
    """How often to release a table: as often as a fixed number of processor seconds allows, within limits."""
    subject.run(tables.having, terms, seed=effort.seed)  # what is compiled or cached by the first one is not counted
    start = time.process_time()
    _sample(subject, terms, tables, True, 2, effort.seed)
    cost = (time.process_time() - start) / 2
    # On one subject a quick run, too, tries often enough for a bound that could break its claim.
    seconds = effort.tries(24, 5 if subject.name == "kmeans-lloyd" else 1)
    return int(np.clip(seconds / 2 / max(cost, 1e-6), _FEWEST, effort.tries(2000, 300)))


def _sample(subject: Subject, terms: Terms, tables: Neighbours, having: bool, tries: int, seed: int) -> _Sample:
    table = tables.having if having else tables.without
    known = [unit_records(t, BOX) for t in tables]
    statistics, noises, smallest = [], list[Array](), np.inf
    residuals: dict[str, list[Array]] = {}
    for _ in range(tries):
        released = subject.run(table, terms, seed=seed)
        if released.transcript is None:
            statistics.append(_centers(released))
            continue
        whole = np.zeros(6)
        for number, answered in enumerate(released.transcript.rounds):
            before, after = (exact_totals(answered, records) for records in known)
            of_round = np.array(answer_statistics(answered, before, after))
            # Extremes of the first round only: later ones depend on what was asked.
            whole += of_round if number == 0 else np.array([*of_round[:4], 0.0, 0.0])
            exact = after if having else before
            for name, values in split_residuals(answered, exact, terms).items():
                residuals.setdefault(name, []).append(values)
            noises.append(np.array([float(v) for v in answered.integers]) - exact)
            smallest = min(smallest, answered.scale)
        statistics.append(list(whole))
    return _Sample(
        np.array(statistics),
        {name: np.concatenate(parts) for name, parts in residuals.items()},
        np.concatenate(noises) if noises else np.empty(0),
        float(smallest),
    )


def _centers(released: Released) -> list[float]:
    assert released.centers is not None
    flat = [float(v) for v in released.centers.ravel()]
    return [*flat, sum(flat), max(flat), min(flat)]
