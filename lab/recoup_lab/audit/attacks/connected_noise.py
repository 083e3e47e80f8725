"""Many answers of a served curator to one question, on two neighbours: is their noise what was claimed?

An analyst releases an algorithm that asks for the same count in every round; each answer is priced as a release of its
own. The bound and the law are those of the local attacks, on what came over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from recoup.algorithms.base import Algorithm
from recoup.driver import release
from recoup.queries.base import Array
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round
from recoup_lab.audit.attacks.bounds import claim_of, noticed_noise
from recoup_lab.audit.attacks.connection import connected
from recoup_lab.audit.attacks.effort import ALARM, Effort
from recoup_lab.audit.attacks.law import law_finding, split_residuals
from recoup_lab.audit.attacks.mechanisms import answer_statistics, bound_finding
from recoup_lab.audit.attacks.reference import exact_totals, unit_records
from recoup_lab.audit.attacks.subjects import BOX, Terms, neighbours
from recoup_lab.audit.findings import Finding

BOUND: Final = "bound from served answers"
_PAIR: Final = "zero records against one, far corner"
_ROUNDS: Final = 50  # of a release; a server looks through all answers of a run for each further one
_EPSILON: Final = {"laplace": Fraction(3 * _ROUNDS, 2), "gaussian": Fraction(150)}  # of a release


@dataclass(frozen=True)
class Again(Algorithm):
    """Asks for the same count in every round, for equal shares."""

    type_name: ClassVar[str] = "audit-again"

    def next_request(self, context: Context, rounds: Any, rng: np.random.Generator) -> Request | None:
        """The count once more."""
        if len(rounds) == _ROUNDS:
            return None
        return Request(query=GridQuery(sides=(2, 1)), share=Fraction(1, _ROUNDS), split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Any) -> Array:
        """The last counts."""
        counts: Array = rounds[-1].noisy
        return counts


def attack_noise(effort: Effort, group: str) -> Iterator[Finding]:
    """Bound what an answer tells, and test the law of its noise, with both mechanisms."""
    tables = neighbours(BOX, rng=effort.rng(13))[_PAIR]
    known = [unit_records(table, BOX) for table in tables]
    # A charge for Gaussian noise takes three times as long, and an answer tells more.
    many = {"laplace": effort.tries(4_000, 1_200), "gaussian": effort.tries(1_500, 400)}
    for mechanism, tries in many.items():
        terms = Terms(mechanism=mechanism, epsilon=_EPSILON[mechanism])
        statistics, pooled = list[Array](), dict[str, list[Array]]()
        for table, records in zip(tables, known, strict=True):
            rows = []
            for answered in _answers(table, terms, tries):
                before, after = (exact_totals(answered, one) for one in known)
                rows.append(answer_statistics(answered, before, after))
                for name, part in split_residuals(answered, exact_totals(answered, records), terms).items():
                    pooled.setdefault(name, []).append(part)
            statistics.append(np.array(rows))
        claim = claim_of(terms.context.budget_measure, float(terms.claimed / _ROUNDS))
        notices = noticed_noise(claim, tries, ALARM)
        target, both = f"a count, {mechanism}: {_PAIR}", (statistics[0], statistics[1])
        yield bound_finding(group, BOUND, target, claim, both, notices_noise_of=notices)
        values = {name: np.concatenate(parts) for name, parts in pooled.items()}
        yield law_finding(group, f"a count, {mechanism}", values, mechanism)


def _answers(table: Array, terms: Terms, tries: int) -> Iterator[Round]:
    n_releases = -(-tries // _ROUNDS)
    with connected(table, terms, epsilon=terms.epsilon * n_releases) as served:
        remote = served.table()
        for _ in range(n_releases):
            transcript = release(
                Again(),
                remote,
                epsilon=terms.epsilon,
                delta=terms.delta,
                mechanism="laplace" if terms.mechanism == "laplace" else "gaussian",
            )
            yield from transcript.rounds
