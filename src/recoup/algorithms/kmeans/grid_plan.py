"""Plans of the algorithms that start from a grid: how many cells, at what price, and whether a Lloyd round follows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from recoup.algorithms.kmeans.grid import ChosenGrid, GridKMeans, Rule, check_possible, choose_grid
from recoup.algorithms.kmeans.hybrid import HybridKMeans, choose_rounds, lloyd_request
from recoup.errors import ParameterError
from recoup.planner import Plan, PlannedRound, planned_round, weakness_notes
from recoup.transcript.context import Context


def plan_grid(context: Context, *, n_clusters: int, rule: Rule = "eugkm") -> Plan:
    """Plan EUGkM: noisy counts on one regular grid.

    Args:
        context: the terms of the release, with a declared number of records.
        n_clusters: K.
        rule: how many cells.

    Returns:
        The plan; its notes say where the grid is not the one that the rule asks for.

    Guarantees: price, noise and number of cells are those of the transcript that `recoup.release` makes with these
    terms and this n_records.

    >>> from recoup.domain import Box
    >>> terms = Context(domain=Box([0] * 10, [1] * 10), epsilon=Fraction(2), n_records=100_000)
    >>> plan = plan_grid(terms, n_clusters=3)
    >>> plan.rounds[0].n_cells, plan.notes
    (1048576, ('The grid is lowered from 5 bins a column to keep to 1048576 cells.',))
    """
    algorithm = GridKMeans(n_clusters=n_clusters, rule=rule)
    n = _declared_records(context, "grid", algorithm.n_clusters)
    grid = choose_grid(context, algorithm.n_clusters, n, Fraction(1), algorithm.rule)
    return Plan(
        context=context,
        algorithm=f"grid: counts in {_in_words(grid)}",
        rounds=(_counts_round(context, grid.query.size, Fraction(1)),),
        expected_displacement=None,
        expected_excess=None,
        suggested_rounds=None,
        n_clusters=algorithm.n_clusters,
        notes=(*_grid_notes(grid), *weakness_notes(context, algorithm.n_clusters)),
    )


def plan_hybrid(context: Context, *, n_clusters: int) -> Plan:
    """Plan the hybrid of Su et al.: a grid, and one Lloyd round where that is predicted to help.

    Args:
        context: the terms of the release, with a declared number of records.
        n_clusters: K.

    Returns:
        The plan; its notes say which way the prediction went.

    Guarantees: prices, noise and number of cells are those of the transcript that `recoup.release` makes with these
    terms and this n_records.

    >>> from recoup.domain import Box
    >>> terms = Context(domain=Box([0] * 3, [1] * 3), epsilon=Fraction(1), n_records=33_925)
    >>> [r.n_cells for r in plan_hybrid(terms, n_clusters=3).rounds]
    [8000, 3]
    """
    k = HybridKMeans(n_clusters=n_clusters).n_clusters
    n = _declared_records(context, "hybrid", k)
    chosen = choose_rounds(context, k, n)
    rounds = [_counts_round(context, chosen.grid.query.size, chosen.grid_share)]
    words, displacement = f"hybrid: counts in {_in_words(chosen.grid)}", None
    verdict = "not bought"
    if chosen.lloyd_share:
        request = lloyd_request(context, np.zeros((k, context.domain.n_columns)), chosen.lloyd_share)
        rounds.append(planned_round(context, request))
        words, verdict = f"{words}, then sums in {k} cells", "bought"
        displacement = chosen.lloyd_error
    note = (
        f"A Lloyd round is {verdict}: predicted squared displacement of all centres {chosen.lloyd_error:.3g} with it, "
        f"{chosen.grid_error:.3g} with a grid alone."
    )
    return Plan(
        context=context,
        algorithm=words,
        rounds=tuple(rounds),
        expected_displacement=displacement,
        expected_excess=None if displacement is None else displacement * n / k,
        suggested_rounds=None,
        n_clusters=k,
        notes=(*_grid_notes(chosen.grid), note, *weakness_notes(context, k)),
    )


def _declared_records(context: Context, algorithm: str, n_clusters: int) -> float:
    check_possible(context, n_clusters)
    if context.n_records is None:
        raise ParameterError(f"the {algorithm} plan needs a rough number of records: declare n_records (--n-records).")
    return float(context.n_records)


def _in_words(grid: ChosenGrid) -> str:
    return f"{grid.query.size} cells, {grid.query.sides[0]} bins a column"


def _grid_notes(grid: ChosenGrid) -> tuple[str, ...]:
    return (f"The grid is {grid.reason}.",) if grid.reason else ()


def _counts_round(context: Context, n_cells: int, share: Fraction) -> PlannedRound:
    calibration = context.calibrated(share)
    (weight,) = context.weights([Fraction(1)])
    return PlannedRound(
        n_cells=n_cells,
        price=calibration.price,
        count_scale=calibration.scale / weight,
        sum_scale=None,
        center_deviation=None,
    )
