"""Does the noise follow the claimed law? Residuals against exact totals, block by block, empty cells apart.

Two tests each: Kolmogorov-Smirnov for the shape, and the exact law of the mean size (Gamma for Laplace noise,
chi-square for Gaussian) for the scale, which notices a few percent. Integer noise of a scale of 2^30 is continuous for
both purposes. Blocks and empty cells have findings of their own, since a mistake in one of them drowns among the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from scipy.stats import chi2, gamma, kstest, laplace, norm

from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.queries.base import Array, Query
from recoup.queries.counts import GridQuery
from recoup.transcript.round import Round
from recoup_lab.audit.attacks.effort import ALARM, Effort
from recoup_lab.audit.attacks.reference import exact_totals, residuals, unit_records
from recoup_lab.audit.attacks.subjects import BOX, Terms, ordinary_table, queries, request_for
from recoup_lab.audit.findings import Finding

GROUP: Final = "law"
FEWEST: Final = 30  # residuals worth a test


def attack(effort: Effort) -> Iterator[Finding]:
    """Test the noise of every kind of query, and of a large grid, with both mechanisms."""
    for mechanism in ("laplace", "gaussian"):
        examples: dict[str, tuple[Query, int]] = {
            name: (query, effort.tries(3000, 300)) for name, query in queries(mechanism).items()
        }
        examples["grid of 1,024 cells"] = GridQuery(sides=(32, 32)), effort.tries(100, 10)
        for name, (query, tries) in examples.items():
            yield _on_query(effort, name, query, tries, mechanism)


def _on_query(effort: Effort, name: str, query: Query, tries: int, mechanism: str) -> Finding:
    terms = Terms(mechanism=mechanism)
    # So many that about as many cells have a record as have none.
    rng, n = effort.rng(3), max(2, query.size // 2)
    table = BOX.from_unit(rng.uniform(-1.0, 1.0, size=(n, 2))) if n > 50 else ordinary_table(BOX, 9, rng)
    source, context, request = open_source(table, BOX), terms.context, request_for(query, BOX)
    records = unit_records(table, BOX)
    found: dict[str, list[Array]] = {}
    for _ in range(tries):
        answered = Curator(source, context).answer(request)
        for block, part in split_residuals(answered, exact_totals(answered, records), terms).items():
            found.setdefault(block, []).append(part)
    pooled = {block: np.concatenate(parts) for block, parts in found.items()}
    return law_finding(GROUP, f"query: {name}, {mechanism}", pooled, mechanism)


def split_residuals(answered: Round, totals: Array, terms: Terms) -> dict[str, Array]:
    """The noise of a round in units of its scale, by block, cells with an exact total of zero apart."""
    noise, start, found = residuals(answered, totals), 0, {}
    for block in answered.query.sensitivity(terms.domain).blocks:
        part = slice(start, start + block.size)
        empty = totals[part] == 0
        found[f"{block.name}, empty"] = noise[part][empty]
        found[f"{block.name}, not empty"] = noise[part][~empty]
        start += block.size
    return {name: values for name, values in found.items() if len(values)}


def law_finding(group: str, target: str, pooled: Mapping[str, Array], mechanism: str) -> Finding:
    """Test residuals, group by group, against the standard law of a mechanism."""
    tested = {name: values for name, values in pooled.items() if len(values) >= FEWEST}
    worst, where = 1.0, "nothing to test"
    for name, values in tested.items():
        value = p_value(values, mechanism)
        if value <= worst:
            worst, where = value, name
    n = sum(map(len, tested.values()))
    # Of each block its own size decides; the smallest one is the weakest.
    weakest = noticed_scale(min(map(len, tested.values())), mechanism) if tested else 0.0
    size = {name: _mean_size(values, mechanism) for name, values in tested.items()}
    passed = bool(tested) and worst > ALARM
    said = f"as claimed in {len(tested)} blocks" if passed else f"not as claimed: {where}, p = {worst:.1e}"
    return Finding(
        group=group,
        attack="law of the noise",
        target=target,
        tries=n,
        result=said,
        passed=passed,
        alarm=ALARM * len(tested),
        figures={"smallest_p": worst, "notices_a_scale_of": weakest} | {f"size: {k}": v for k, v in size.items()},
    )


def p_value(values: Array, mechanism: str) -> float:
    """How likely standard noise of a law is to look at least as odd as these residuals.

    >>> draws = np.random.default_rng(0).laplace(size=20_000)
    >>> p_value(draws, "laplace") > 1e-3, p_value(0.9 * draws, "laplace") < 1e-9
    (True, True)
    """
    values, n = np.asarray(values, dtype=np.float64), len(values)
    if not np.isfinite(values).all():
        return 0.0
    if mechanism == "laplace":
        shape, size = kstest(values, laplace.cdf).pvalue, np.abs(values).sum()
        tail = 2 * min(gamma.cdf(size, n), gamma.sf(size, n))
    else:
        shape, size = kstest(values, norm.cdf).pvalue, (values * values).sum()
        tail = 2 * min(chi2.cdf(size, n), chi2.sf(size, n))
    return float(min(1.0, 2 * min(shape, tail)))


def noticed_scale(n: int, mechanism: str) -> float:
    """The factor of the claimed scale that so many residuals notice 99 times in 100; below it, more often.

    >>> round(noticed_scale(10_000, "laplace"), 2)
    0.93
    """
    if mechanism == "laplace":
        return float(gamma.ppf(ALARM / 4, n) / gamma.ppf(0.99, n))
    return float(np.sqrt(chi2.ppf(ALARM / 4, n) / chi2.ppf(0.99, n)))


def _mean_size(values: Array, mechanism: str) -> float:
    return float(np.abs(values).mean() if mechanism == "laplace" else np.sqrt((values * values).mean()))
