"""What a release will cost and how accurate it can be, from public numbers alone: no data is touched.

Noise scales come from the same sensitivities and the same calibration as a release, so a plan and the transcript that
follows it agree to the last bit. What the noise does to the centres is an expectation under two assumptions that Su et
al. (CODASPY 2016) make: clusters of equal size, and centres whose coordinates are typically 2 x 0.225 in size when
columns are scaled to [-1, 1]. The registry of algorithms says which plan belongs to which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

import numpy as np

from recoup._validate import whole_number
from recoup.algorithms.kmeans import grid, wide
from recoup.algorithms.kmeans.adaptive import Stage, plan_stages
from recoup.algorithms.kmeans.lloyd import KMeans, lloyd_request
from recoup.errors import Argument, ParameterError
from recoup.privacy.gaussian import epsilon_of
from recoup.privacy.price import Price
from recoup.queries.base import Array
from recoup.queries.cells import as_cells
from recoup.transcript.context import Context, Request
from recoup.transcript.round import quote

_FEWEST_ROUNDS, _MOST_ROUNDS = 2, 7
# Fitted to the first list of the plan study: the excess over non-private k-means is about 8 d (K / (N epsilon))^1.25.
EXCESS_LAW, EXCESS_POWER = 8.0, 1.25
LEAST_STRENGTH = 100.0  # N epsilon / K from which on it holds; below, a cluster may be missed altogether
# Below, the shape of the clusters, which is not public, decides by factors of ten; above, some releases miss clusters.
LEAST_EXCESS, MOST_EXCESS = 0.003, 0.1
# Where it was measured and held for most tables; with 20 and 26 clusters it failed for two tables of three, and with
# 2,000 records or fewer for four lines of nine.
MEASURED_COLUMNS, MEASURED_CLUSTERS, MEASURED_RECORDS = (1, 16), (2, 16), 5_000
# In many columns: by the noise of the last round, from N epsilon / (K sqrt(d)) on at which hardly a cluster is missed.
WIDE_LAW, LEAST_WIDE_STRENGTH, MEASURED_WIDE = 2.2, 40.0, ((11, 128), (4, 64))
ASSUMED_RECORDS = 10_000  # what the adaptive plan is shown for where no number was declared


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRound:
    """What one round will cost and how noisy it will be, columns scaled to [-1, 1]."""

    n_cells: int  # that are counted
    price: Price  # by OpenDP's privacy map
    count_scale: float  # of the noise of a count
    sum_scale: float | None = None  # of a coordinate of a sum; for the adaptive algorithm in units of the cell's radius
    center_deviation: float | None = None  # of a coordinate of a centre, expected; none without a number of records


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The rounds of a release before it is made."""

    context: Context  # the terms, with a declared number of records, without which nothing is expected
    algorithm: str  # what will be run, in words
    rounds: tuple[PlannedRound, ...]
    n_clusters: int
    # the squared distance by which noise moves all centres of the last round, columns scaled to [-1, 1]
    expected_displacement: float | None = None
    expected_excess: float | None = None  # what that adds to the within-cluster sum of squares
    suggested_rounds: int | None = None  # by Su et al.; none for Gaussian noise
    # what the adaptive algorithm is expected to lose against non-private k-means, as a part of its within-cluster sum
    # of squares; 0.003 stands for that or less; none where a note says why it cannot be told
    relative_excess: float | None = None
    notes: tuple[str, ...] = ()  # such as too few records, or why a grid is not the one that its rule asks for
    relative_sums: bool = False  # whether the noise of sums is given in units of the cells' radii

    @property
    def amount(self) -> Fraction:
        """What all rounds cost together: an epsilon, or mu^2 / 2 (rho) for Gaussian noise."""
        return sum((r.price.amount for r in self.rounds), Fraction(0))

    @property
    def epsilon(self) -> Fraction:
        """What all rounds cost together as an epsilon, at the plan's delta; never above what was asked for."""
        return epsilon_of(self.context.budget_measure, self.amount, self.context.delta)


def plan_lloyd(context: Context, *, n_clusters: int, n_rounds: int = 5) -> Plan:
    """Plan DP-KMEANS, the paper's Algorithm 1.

    Args:
        context: the terms of the release; its bounds matter only through their shape and number of columns.
        n_clusters: K.
        n_rounds: T.

    Guarantees: prices and noise are those of the transcript that `recoup.release` makes on these terms.

    >>> from recoup.domain import L1Ball
    >>> terms = Context(domain=L1Ball([0, 0], [1, 1]), epsilon=Fraction(1), n_records=5000)
    >>> plan = plan_lloyd(terms, n_clusters=15, n_rounds=5)
    >>> round(plan.rounds[0].count_scale, 9), round(float(plan.epsilon), 9), plan.epsilon <= 1
    (10.0, 1.0, True)
    """
    algorithm = KMeans(n_clusters=n_clusters, n_rounds=n_rounds)
    k, d, n_rounds = algorithm.n_clusters, context.domain.n_columns, algorithm.n_rounds
    # The algorithm's own first request draws initial centres, which takes long for many clusters and changes nothing.
    each = planned_round(context, lloyd_request(np.zeros((k, d)), Fraction(1, n_rounds)))
    displacement = None if each.center_deviation is None else k * d * each.center_deviation**2
    rounds, cells = ("1 round" if n_rounds == 1 else f"{n_rounds} rounds"), ("1 cell" if k == 1 else f"{k} cells")
    return Plan(
        context=context,
        algorithm=f"DP-KMEANS, {rounds} of counts and sums in {cells}",
        rounds=(each,) * n_rounds,
        n_clusters=k,
        expected_displacement=displacement,
        expected_excess=None if displacement is None else displacement * (context.n_records or 0) / k,
        suggested_rounds=_suggested_rounds(context, k),
        notes=_weakness_notes(context, k),
    )


def person_notes(context: Context) -> tuple[str, ...]:
    """What is best done with several records of a person, by public numbers alone.

    One row a person has the noise of one record. Of r rows each, noise is r times as large, and P persons have at most
    r P of them: what is found then is as strong, beside its noise, only where everybody has r records.

    >>> from recoup.domain import Box
    >>> person_notes(Context(domain=Box([0], [1]), epsilon=1, person="who"))[0].split(":")[0]
    'One row a person, the mean of their records'
    >>> person_notes(Context(domain=Box([0], [1]), epsilon=1))
    ()
    """
    r = context.records_per_person
    if context.per_person == "mean":
        return (
            "One row a person, the mean of their records: noise is that for one record, however many they hold, and "
            "--n-records is the number of persons. This is the better way unless single records are to be clustered.",
        )
    if context.per_person == "sample" and r == 1:
        return (
            "One record a person, chosen by a keyed hash: noise is that for one record. The mean (--per-person mean) "
            "costs the same and says more of a person, unless single records are to be clustered.",
        )
    if r == 1:
        return ()
    kept = "are kept" if context.per_person else "are allowed (declared, not enforced)"
    return (
        f"{r} records of each person {kept}: noise is {r} times as large as with one row each, and no table of so many "
        f"persons has more than {r} times the rows, so that --per-person mean is never the weaker and mostly far "
        "better: use it unless single records are to be clustered.",
    )


def number_note(context: Context) -> str:
    """What becomes of the rounds of an algorithm that plans by the number of records, if a release is not told it.

    >>> from recoup.domain import Box
    >>> number_note(Context(domain=Box([0], [1]), epsilon=1, n_records=5_000)).split(";")[0]
    'These are the rounds of a release that is given --n-records 5000, too'
    """
    return (
        f"These are the rounds of a release that is given --n-records {context.n_records}, too; without it, one more "
        f"comes first and asks for the number, for {float(grid.TOTAL_SHARE):.0%} of the budget."
    )


_LAWS = {  # why, where a delta allows either
    "laplace": "Laplace noise, for epsilon alone, though a delta is allowed: in up to three columns it is the smaller, "
    "as much of the budget is spent on a single round of counts. The delta stays unspent.",
    "gaussian": "Gaussian noise, which the delta allows: in more than three columns it is the smaller, as the noise of "
    "many rounds and of sums over columns adds up by squares.",
}


def plan_adaptive(context: Context, *, n_clusters: int) -> Plan:
    """Plan the default algorithm; its rounds decide where cells lie and how wide they are.

    Args:
        context: the terms of the release; without a declared number of records the plan is for 10,000.
        n_clusters: K.

    Guarantees: prices are those of the transcript that `PrivateKMeans` makes on these terms, and add up to the budget.

    >>> from recoup.domain import Box
    >>> terms = Context(domain=Box([0, 0], [1, 1]), epsilon=Fraction(1), n_records=10_000)
    >>> plan = plan_adaptive(terms, n_clusters=5)
    >>> round(plan.relative_excess, 5), plan.epsilon <= 1
    (0.003, True)
    """
    d, n_clusters = context.domain.n_columns, whole_number(n_clusters, "n_clusters")
    rounds, stages = [], plan_stages(context, n_clusters, float(context.n_records or ASSUMED_RECORDS))
    for stage in stages:
        calibration = context.calibrated(stage.share)
        weights = dict(zip(stage.split, context.weights(stage.split.values()), strict=True))
        ones = d if stage.kind == "first look" and d > 3 else 1
        count_scale = calibration.scale / weights["count"] * (ones if context.noise.norm == 1 else sqrt(ones))
        sum_scale = calibration.scale / weights["sum"] if "sum" in weights else None
        rounds.append(
            PlannedRound(n_cells=stage.n_cells, price=calibration.price, count_scale=count_scale, sum_scale=sum_scale)
        )
    expected, notes = _expected_loss(context, n_clusters, rounds[-1])
    if advice := wide.advice(context):
        notes = (advice, *notes)
    if context.delta:
        notes = (_LAWS[context.mechanism], *notes)
    return Plan(
        context=context,
        algorithm=_in_words(context, stages),
        rounds=tuple(rounds),
        n_clusters=n_clusters,
        relative_excess=expected,
        notes=notes,
        relative_sums=True,
    )


def _in_words(context: Context, stages: Sequence[Stage]) -> str:
    sums = f"then {stages[-1].n_cells} or more cells with sums"
    if not wide.is_wide(context):
        glance = "a glance, " if any(stage.kind == "glance" for stage in stages) else ""
        return f"adaptive: {glance}first look, counts, {sums}"
    return f"adaptive, for many columns: marginals, counts by direction, {sums} and spreads"


def plan_grid(context: Context, *, n_clusters: int, rule: grid.Rule = "eugkm") -> Plan:
    """Plan EUGkM: noisy counts on one regular grid; notes say where the grid differs from the rule.

    Args:
        context: the terms of the release, with a declared number of records.
        n_clusters: K.
        rule: how many cells.

    Guarantees: price, noise and number of cells are those of the transcript that `recoup.release` makes.

    >>> from recoup.domain import Box
    >>> terms = Context(domain=Box([0] * 10, [1] * 10), epsilon=Fraction(2), n_records=100_000)
    >>> plan = plan_grid(terms, n_clusters=3)
    >>> plan.rounds[0].n_cells, plan.notes
    (1048576, ('The grid is lowered from 5 bins a column to keep to 1048576 cells.',))
    """
    k = grid.GridKMeans(n_clusters=n_clusters, rule=rule).n_clusters
    chosen = grid.choose_grid(context, k, _declared_records(context, "grid", k), Fraction(1), rule)
    return _plan_by_grid(context, "grid", chosen, k)


def plan_hybrid(context: Context, *, n_clusters: int) -> Plan:
    """Plan the hybrid of Su et al.: a grid, and one Lloyd round where that is predicted to help, as a note says.

    Args:
        context: the terms of the release, with a declared number of records.
        n_clusters: K.

    Guarantees: prices, noise and number of cells are those of the transcript that `recoup.release` makes.

    >>> from recoup.domain import Box
    >>> terms = Context(domain=Box([0] * 3, [1] * 3), epsilon=Fraction(1), n_records=33_925)
    >>> [r.n_cells for r in plan_hybrid(terms, n_clusters=3).rounds]
    [8000, 3]
    """
    k = grid.HybridKMeans(n_clusters=n_clusters).n_clusters
    n = _declared_records(context, "hybrid", k)
    chosen = grid.choose_rounds(context, k, n)
    note = (
        f"A Lloyd round is {'bought' if chosen.lloyd_share else 'not bought'}: predicted squared displacement of all "
        f"centres {chosen.lloyd_error:.3g} with it, {chosen.grid_error:.3g} with a grid alone."
    )
    plan = _plan_by_grid(context, "hybrid", chosen.grid, k, note)
    if not chosen.lloyd_share:
        return plan
    centers = np.zeros((k, context.domain.n_columns))
    request = lloyd_request(centers, chosen.lloyd_share, grid.best_count_part(context))
    return replace(
        plan,
        algorithm=f"{plan.algorithm}, then sums in {k} cells",
        rounds=(*plan.rounds, planned_round(context, request)),
        expected_displacement=chosen.lloyd_error,
        expected_excess=chosen.lloyd_error * n / k,
    )


def _plan_by_grid(context: Context, name: str, chosen: grid.ChosenGrid, n_clusters: int, *notes: str) -> Plan:
    differs = (f"The grid is {chosen.reason}.",) if chosen.reason else ()
    return Plan(
        context=context,
        algorithm=f"{name}: counts in {chosen.query.size} cells, {chosen.query.sides[0]} bins a column",
        rounds=(planned_round(context, chosen.request),),
        n_clusters=n_clusters,
        notes=(*differs, *notes, *_weakness_notes(context, n_clusters)),
    )


def planned_round(context: Context, request: Request) -> PlannedRound:
    """Price a round as the curator would; scales that differ within a block by their mean square.

    A coordinate of a centre, a noisy sum over a noisy count, has to first order the variance (sum_deviation^2 +
    (2 x 0.225)^2 count_deviation^2) / n^2 in a cluster of n = N / K records; with the split of Su et al. it is theirs.
    """
    terms, query, of = quote(context, request), as_cells(request.query), context.noise.deviation
    scales = {block.name: _mean_square(terms.scales[where]) for block, where in terms.sensitivity.parts()}
    count, total = scales["count"], scales.get("sum")
    deviation, n_cells = None, request.query.size if query is None else query.n_cells
    if context.n_records is not None and total is not None and as_cells(query, "absolute"):
        deviation = sqrt(of(total) ** 2 + (2.0 * grid.TYPICAL_OFFSET * of(count)) ** 2) / (context.n_records / n_cells)
    return PlannedRound(
        n_cells=n_cells, price=terms.price, count_scale=count, sum_scale=total, center_deviation=deviation
    )


def _mean_square(scales: Array) -> float:
    # Equal scales are returned as they are: squaring would change the last bit.
    return float(scales[0]) if (scales == scales[0]).all() else float(np.sqrt(np.mean(scales**2)))


def _declared_records(context: Context, algorithm: str, n_clusters: int) -> float:
    grid.check_possible(context, n_clusters)
    if context.n_records is None:
        needed = f"the {algorithm} plan needs a rough number of records: declare "
        raise ParameterError(needed, Argument("n_records"), ".")
    return float(context.n_records)


def _suggested_rounds(context: Context, n_clusters: int) -> int | None:
    """How many rounds Su et al. would take: as many as keep a round useful, between 2 and 7.

    The smallest useful budget of a round is sqrt(500 K^3 (d + a)^3) / N, a = (4 d 0.225^2)^(1/3).
    """
    if context.n_records is None or context.budget_measure != "pure":
        return None
    d, epsilon = context.domain.n_columns, float(context.epsilon) / context.records_per_person
    count_weight = float((4.0 * d * grid.TYPICAL_OFFSET**2) ** (1.0 / 3.0))
    smallest = sqrt(500.0 * n_clusters**3 * (d + count_weight) ** 3) / context.n_records
    return int(min(_MOST_ROUNDS, max(_FEWEST_ROUNDS, epsilon // smallest)))


def _weakness_notes(context: Context, n_clusters: int) -> tuple[str, ...]:
    """The warning that goes with too few records for any prediction; nothing elsewhere, and without a declared N."""
    if context.n_records is None:
        return ()
    strength = context.n_records * context.effective_epsilon() / n_clusters
    if strength >= LEAST_STRENGTH:
        return ()
    return (
        f"Too few records for this epsilon: N epsilon / K is {strength:.3g}, and below {LEAST_STRENGTH:g} no "
        "prediction of the loss holds. It may be several times that of non-private k-means. Raise epsilon, or ask for "
        "fewer clusters.",
    )


def _expected_loss(context: Context, n_clusters: int, last: PlannedRound) -> tuple[float | None, tuple[str, ...]]:
    """What the adaptive algorithm will lose, none where a note says why nothing can be told before it is run."""
    n, d, weak = context.n_records, context.domain.n_columns, _weakness_notes(context, n_clusters)
    if n is None:
        note = (
            f"No number of records was declared, so the first round asks for it, and the others depend on the answer: "
            f"shown are those for {ASSUMED_RECORDS:,} records. Give --n-records, a public guess, to see yours and what "
            "to expect."
        )
        return None, (note,)
    if weak:
        return None, weak
    many = wide.is_wide(context) and context.mechanism == "gaussian"
    # With sums over many rounds Gaussian noise is no worse than Laplace noise of the same epsilon, by measurement.
    epsilon = max(context.effective_epsilon(), float(context.epsilon) / context.records_per_person)
    loss = relative_excess(epsilon=epsilon, n_clusters=n_clusters, n_columns=d, n_records=n)
    if many:  # the noise of the last means, in units of how wide clusters are, if all of them were found
        loss = WIDE_LAW * d * ((last.sum_scale or 0.0) * n_clusters / n) ** 2
    most_columns, most_clusters = MEASURED_WIDE if many else (MEASURED_COLUMNS, MEASURED_CLUSTERS)
    reasons = [
        f"{value:,} {name}, where predictions were found to hold for {least} to {most}"
        for value, (least, most), name in (
            (d, most_columns, "columns"),
            (n_clusters, most_clusters, "cluster" if n_clusters == 1 else "clusters"),
        )
        if not least <= value <= most
    ]
    if n < MEASURED_RECORDS:
        reasons.append(f"{n:,} records, where predictions were found to hold from {MEASURED_RECORDS:,} on")
    if loss > MOST_EXCESS or (many and n * epsilon / (n_clusters * sqrt(d)) < LEAST_WIDE_STRENGTH):
        reasons.append(f"N epsilon is small for {d} columns and {n_clusters} clusters, and a cluster may be missed")
    if reasons:
        return None, (f"What this will lose is not known: {'; '.join(reasons)}.",)
    if many:
        return max(loss, LEAST_EXCESS), ()
    gaussian = "What to expect was measured with Laplace noise, and is taken over to Gaussian noise of this epsilon."
    return max(loss, LEAST_EXCESS), () if context.budget_measure == "pure" else (gaussian,)


def relative_excess(*, epsilon: float, n_clusters: int, n_columns: int, n_records: float) -> float:
    """What the adaptive algorithm loses against non-private k-means, by the law.

    Right within a factor of three for most tables, where N epsilon / K is at least 100 and the law gives 0.003 to 0.1.
    """
    return float(EXCESS_LAW * n_columns * (n_clusters / (n_records * epsilon)) ** EXCESS_POWER)


def epsilon_for(*, excess: float, n_clusters: int, n_columns: int, n_records: float) -> float:
    """The epsilon at which the adaptive algorithm is expected to lose only so much, and the law holds."""
    return _strength_for(excess, n_columns) * n_clusters / n_records


def records_for(*, excess: float, epsilon: float, n_clusters: int, n_columns: int) -> float:
    """The number of records from which the adaptive algorithm is expected to lose only so much, and the law holds."""
    return max(_strength_for(excess, n_columns) * n_clusters / epsilon, MEASURED_RECORDS)


def _strength_for(excess: float, n_columns: int) -> float:
    """N epsilon / K at which the law gives this excess, or less where that is more than what it holds for."""
    by_law = float((EXCESS_LAW * n_columns / min(excess, MOST_EXCESS)) ** (1 / EXCESS_POWER))
    return max(by_law, LEAST_STRENGTH)
