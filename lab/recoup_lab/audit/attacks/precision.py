"""Attacks on digits: do gaps, grids, low-order bits or repeated values betray what the noise was added to?

Noise drawn as a double and added to a double leaves holes whose places depend on the exact value (Mironov 2012). Here
noise and totals are integers, so every integer must be reachable from every table, at the rate that the law says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2_contingency, chisquare

from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.queries.base import Array
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.bounds import repeated, repeats_allowed
from recoup_lab.audit.attacks.effort import ALARM, Effort
from recoup_lab.audit.attacks.subjects import BOX, Terms, neighbours, request_for
from recoup_lab.audit.findings import Finding

GROUP: Final = "precision"
_BITS: Final = 20
_GRID: Final = GridQuery(sides=(32, 32))
_SUMS: Final = VoronoiQuery(centers=np.linspace(-0.9, 0.9, 340).reshape(170, 2))
# Far from any use: noise of a scale of 4, so that each integer can be looked at.
_HUGE: Final = {"laplace": Fraction(2**28), "gaussian": Fraction(2**55)}
_REACH: Final = 8  # integers around the total that must all be reached

Values = NDArray[np.int64]


def attack(effort: Effort) -> Iterator[Finding]:
    """Look at the digits of many released values, of counts and of sums, for two neighbours."""
    for mechanism in ("laplace", "gaussian"):
        for name, query in (("counts", _GRID), ("sums", _SUMS)):
            yield from _digits(effort, name, query, mechanism)
        yield _every_integer(effort, mechanism)


def _answers(query: GridQuery | VoronoiQuery, table: Array, terms: Terms, n_values: int) -> Values:
    source, context, request = open_source(table, BOX), terms.context, request_for(query, BOX)
    rounds = [Curator(source, context).answer(request).integers for _ in range(-(-n_values // query.size))]
    return np.array(rounds, dtype=np.int64).ravel()


def _digits(effort: Effort, name: str, query: GridQuery | VoronoiQuery, mechanism: str) -> Iterator[Finding]:
    terms = Terms(mechanism=mechanism)
    pair = neighbours(BOX, rng=effort.rng(4))["the boundary between cells"]
    values = [_answers(query, table, terms, effort.tries(50_000, 12_000)) for table in pair]
    target, n = f"{name}, {mechanism}", len(values[0]) + len(values[1])

    bits = [
        binomtest(int((v >> bit & 1).sum()), len(v)).pvalue for v in values for bit in range(_BITS)
    ]  # fmt: skip
    words = [chisquare(np.bincount(v & 63, minlength=64)).pvalue for v in values]
    smallest = float(min(min(bits) * len(bits), min(words) * 2, 0.5) * 2)
    yield Finding(
        group=GROUP,
        attack="low-order bits",
        target=target,
        tries=n,
        result="uniform" if smallest > ALARM else f"not uniform, p = {smallest:.1e}",
        passed=smallest > ALARM,
        alarm=ALARM,
        figures={"smallest_p": smallest},
    )

    table = np.array([np.bincount(v & 63, minlength=64) for v in values])
    p = float(chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)
    same_grid = set(_residues(values[0])) == set(_residues(values[1])) == set(range(_MODULUS))
    yield Finding(
        group=GROUP,
        attack="one grid for neighbours",
        target=target,
        tries=n,
        result="the same residues, equally often" if p > ALARM and same_grid else f"residues differ, p = {p:.1e}",
        passed=p > ALARM and same_grid,
        alarm=2 * ALARM,
        figures={"p": p},
    )

    scale = terms.context.calibrated(Fraction(1)).scale
    n_repeated, allowed = repeated(values[0]), repeats_allowed(len(values[0]), scale, ALARM)
    yield Finding(
        group=GROUP,
        attack="values more probable than the law allows",
        target=target,
        tries=len(values[0]),
        result=f"{n_repeated} repeated, {allowed} allowed",
        passed=n_repeated <= allowed,
        alarm=ALARM,
        figures={"repeated": float(n_repeated), "allowed": float(allowed)},
    )
    yield _format(query, pair.having, terms, target)


_MODULUS: Final = 251  # a prime: residues of it see other regularities than low-order bits do


def _residues(values: Values) -> Values:
    return np.unique(values % _MODULUS)


def _format(query: GridQuery | VoronoiQuery, table: Array, terms: Terms, target: str) -> Finding:
    answered = Curator(open_source(table, BOX), terms.context).answer(request_for(query, BOX))
    transcript = Transcript(context=terms.context, algorithm={"type": "audit"}, rounds=(answered,), simulated=False)
    written = json.loads(json.dumps(transcript.to_json()))["rounds"][0]["noisy"]
    plain = all(type(v) is int for v in written) and tuple(written) == answered.integers
    return Finding(
        group=GROUP,
        attack="number format in files",
        target=target,
        tries=len(written),
        result="plain integers" if plain else "not plain integers",
        passed=plain,
    )


def _every_integer(effort: Effort, mechanism: str) -> Finding:
    """At a tiny scale, every integer around the total, with the probability of the discrete law."""
    terms = Terms(mechanism=mechanism, epsilon=_HUGE[mechanism])
    pairs = neighbours(BOX, rng=effort.rng(5))["zero records against one, far corner"]
    context, one = terms.context, GridQuery(sides=(32, 32))
    scale = context.calibrated(Fraction(1)).scale
    reached, smallest, n = [], 1.0, 0
    for table in pairs:
        values = _answers(one, table, terms, effort.tries(50_000, 12_000)).reshape(-1, one.size)
        # All cells but one are empty, so the median of a cell is its total, up to noise; all must be whole.
        exact = np.round(np.median(values, axis=0) / 2**30).astype(np.int64) * 2**30
        noise = (values - exact).ravel()
        counts = Counter(noise.tolist())
        reached.append({v for v in range(-_REACH, _REACH + 1) if counts[v]})
        smallest = min(smallest, _discrete_p(noise, mechanism, scale))
        n += len(noise)
    whole = set(range(-_REACH, _REACH + 1))
    passed = smallest > ALARM and reached == [whole, whole]
    return Finding(
        group=GROUP,
        attack="every integer at its rate",
        target=f"counts, {mechanism}, noise of scale {scale:.3g}",
        tries=n,
        result="all reached, from both neighbours" if passed else f"gaps or wrong rates, p = {smallest:.1e}",
        passed=passed,
        alarm=3 * ALARM,
        figures={"smallest_p": smallest},
    )


def _discrete_p(noise: Values, mechanism: str, scale: float) -> float:
    support = np.arange(-(10**4), 10**4 + 1)
    size = np.abs(support) / scale if mechanism == "laplace" else support**2 / (2 * scale**2)
    mass = np.exp(-size)
    mass /= mass.sum()
    common = mass * len(noise) >= 20
    observed = np.array([np.count_nonzero(noise == v) for v in support[common]], dtype=np.float64)
    expected = mass[common] * len(noise)
    rest = len(noise) - observed.sum(), len(noise) - expected.sum()
    return float(chisquare([*observed, rest[0]], [*expected, rest[1]], sum_check=False).pvalue)
