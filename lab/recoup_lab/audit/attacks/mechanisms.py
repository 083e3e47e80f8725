"""Empirical bounds on single answers: thousands of them for two neighbours, from secure noise, priced by an attacker.

The attacker knows both tables and uses the likelihood ratio of the claimed laws, and plainer statistics that would see
a mistake which the claim does not foresee: values that equal an exact total, zeros, the largest and the smallest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from recoup.curator.curator import Curator
from recoup.curator.rivals.base import ChargedNoise
from recoup.curator.source import open_source
from recoup.queries.base import Array, Query
from recoup.queries.counts import GridQuery
from recoup.transcript.round import Round
from recoup_lab.audit.attacks.bounds import Claim, PureClaim, claim_of, lower_bound, noticed_noise
from recoup_lab.audit.attacks.effort import ALARM, Effort
from recoup_lab.audit.attacks.reference import exact_totals, log_likelihood_ratio, unit_records
from recoup_lab.audit.attacks.subjects import BOX, Neighbours, Terms, neighbours, queries, request_for
from recoup_lab.audit.findings import Finding, bounded

GROUP: Final = "mechanisms"
_STRONG: Final = Fraction(8)  # an epsilon at which Gaussian noise tells enough for a few thousand tries
_PAIRS: Final = ("zero records against one, far corner", "an empty cell", "far outside the bounds")


def attack(effort: Effort) -> Iterator[Finding]:
    """Bound what one answer tells: a single count at length, every kind of query, and a selection."""
    one = GridQuery(sides=(2, 1))
    for mechanism in ("laplace", "gaussian"):
        terms = _terms(mechanism)
        yield _on_query(effort, "a count", one, terms, _PAIRS[0], effort.tries(30_000, 2_000))
        if not effort.quick:
            for number, (name, query) in enumerate(queries(mechanism).items()):
                yield _on_query(effort, name, query, terms, _PAIRS[number % len(_PAIRS)], 4_000)
    for n_winners, tries in ((1, effort.tries(40_000, 1_000)), (2, effort.tries(40_000, 4_000))):
        yield _on_selection(n_winners, tries)


def _terms(mechanism: str) -> Terms:
    return Terms(mechanism=mechanism, epsilon=Fraction(1) if mechanism == "laplace" else _STRONG)


def _on_query(effort: Effort, name: str, query: Query, terms: Terms, pair: str, tries: int) -> Finding:
    tables = neighbours(BOX, rng=effort.rng(6))[pair]
    statistics = query_statistics(query, terms, tables, tries)
    claim = claim_of(terms.context.budget_measure, float(terms.claimed))
    return bound_finding(
        GROUP,
        "bound from single answers",
        f"query: {name}, {terms.mechanism}: {pair}",
        claim,
        statistics,
        notices_noise_of=noticed_noise(claim, tries, ALARM),
    )


def bound_finding(
    group: str, attack: str, target: str, claim: Claim, statistics: tuple[Array, Array], **figures: float
) -> Finding:
    """What an attacker's statistics of two neighbours bound, beside the claim."""
    found = lower_bound(*statistics, claim, ALARM)
    return Finding(
        group=group,
        attack=attack,
        target=target,
        tries=sum(map(len, statistics)),
        result=bounded(claim.name, found.amount, claim.amount),
        passed=found.amount <= claim.amount,
        alarm=ALARM,
        figures={"bound": found.amount, "claim": claim.amount, **figures},
    )


def query_statistics(query: Query, terms: Terms, tables: Neighbours, tries: int) -> tuple[Array, Array]:
    """An attacker's statistics of many answers to a query, for both tables: (tries, s) each."""
    context, request = terms.context, request_for(query, BOX)
    records = [unit_records(table, BOX) for table in tables]
    exact: list[Array] | None = None
    found = []
    for table in tables:
        source, rows = open_source(table, BOX), []
        for _ in range(tries):
            answered = Curator(source, context).answer(request)
            exact = [exact_totals(answered, known) for known in records] if exact is None else exact
            rows.append(answer_statistics(answered, exact[0], exact[1]))
        found.append(np.array(rows))
    return found[0], found[1]


def answer_statistics(answered: Round, before: Array, after: Array) -> list[float]:
    """What an attacker looks at in one answer: the likelihood ratio, exact values, zeros, extremes."""
    values = np.array([float(v) for v in answered.integers])
    sizes = np.abs(values)
    return [
        log_likelihood_ratio(answered, before, after),
        float((values == before).sum()),
        float((values == after).sum()),
        float((values == 0).sum()),
        float(sizes.max()),
        float(sizes.min()),
    ]


def _on_selection(n_winners: int, tries: int) -> Finding:
    """A selection by losses, all but the first of which one record moves by the whole sensitivity."""
    terms = Terms()
    context = terms.context
    one = context.sensitivity
    losses = ([0, 0, 0], [0, one, one])
    found = []
    for given in losses:
        rows = []
        for _ in range(tries):
            charged = ChargedNoise(context)
            chosen = charged.smallest_losses(given, n_winners=n_winners, share=Fraction(1), purpose="audit")
            rows.append([float(chosen[0] == 0), float(0 in chosen), float(chosen[-1] == 0)])
        found.append(np.array(rows))
    target = f"noisy max, {n_winners} of 3"
    return bound_finding(GROUP, "bound from selections", target, PureClaim(1.0), (found[0], found[1]))
