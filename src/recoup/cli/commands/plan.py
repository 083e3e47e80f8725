"""`recoup plan`: what a release will cost and reach, without any data."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.cli.settings import ConfigFile, read_columns
from recoup.errors import ParameterError

if TYPE_CHECKING:
    from recoup.planner import Plan
    from recoup.schema import Schema
    from recoup.transcript.context import Context

_COLUMNS = "How many columns; or name them with --bounds."
_EXCESS = "A wanted excess over non-private k-means, such as 0.05: say which epsilon or N reaches it."
_EXPECTED = ("expected_displacement", "expected_excess", "suggested_rounds", "relative_excess")


def plan(
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    columns: Annotated[int | None, typer.Option("--columns", "-d", help=_COLUMNS)] = None,
    bounds: options.Bounds = None,
    delta: options.Delta = "0",
    records_per_person: options.RecordsPerPerson = 1,
    per_person: options.PerPerson = None,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    algorithm: options.TranscribedAlgorithm = "auto",
    rounds: options.LloydRounds = None,
    excess: Annotated[float | None, options.in_run(help=_EXCESS)] = None,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Show what a release would cost and how accurate it can be, without touching data.

    The plan is that of the default algorithm, or of the one that --algorithm names. Noise is given for columns scaled
    to [-1, 1] by their bounds. With --n-records it also says what to expect of the result. Example:

        recoup plan --columns 10 -k 10 --epsilon 1 --n-records 100000

    For persons with several records, --per-person says what becomes of them, and the plan what that costs.
    """
    from recoup.algorithms.registry import clustering_named
    from recoup.planner import number_note, person_notes

    budget = options.read_budget(epsilon, delta)
    scaled = options.declared_domain(domain, _planned_columns(columns, bounds, domain))
    entry, n_rounds_asked = clustering_named(algorithm, rounds)
    context = options.terms(entry.kind, scaled, *budget, n_records, records_per_person)
    if per_person is not None:
        # Any name will do: no column is read.
        context = replace(context, person="person", per_person=cast(Any, per_person.value))
    if entry.plan is None:
        raise ParameterError(f"--algorithm {entry.name} has no plan: nothing is known of it before it runs.")
    planned = entry.plan(context, n_clusters=clusters, **n_rounds_asked)
    planning = (number_note(context),) if entry.plans_rounds and n_records is not None else ()
    planned = replace(planned, notes=(*planned.notes, *planning, *person_notes(context)))
    needed = {} if excess is None else _needed(excess, clusters, context)
    if as_json:
        return out.print_json(**(_plan_json(planned) | {"records_needed": None, "epsilon_needed": None} | needed))
    _show_plan(planned)
    if needed:
        text = f"For an excess of {excess:g}: {out.counted(int(needed['records_needed']), 'record')} at this epsilon"
        if "epsilon_needed" in needed:
            text += f", or epsilon {needed['epsilon_needed']:.3g} with {out.counted(n_records or 0, 'record')}"
        out.say(text + " (within a factor of three for nine of ten tables that were measured).")


def _planned_columns(
    columns: int | None, bounds: str | None, domain: options.DomainName
) -> dict[str, tuple[float, float]] | Schema:
    """The columns that a plan is for: so many, or those declared, of whose bounds only a schema's weights matter."""
    from recoup.domain import MAX_COLUMNS

    if (columns is None) == (bounds is None):
        raise ParameterError("a plan is for --columns, a number, or for the columns of --bounds: give one of them.")
    if columns is None:
        return read_columns(bounds).for_domain(domain.value)
    if not 1 <= columns <= MAX_COLUMNS:
        raise ParameterError(f"--columns {columns}: give between 1 and {MAX_COLUMNS}.")
    return {f"column {j}": (-1.0, 1.0) for j in range(columns)}


def _needed(excess: float, clusters: int, context: Context) -> dict[str, float]:
    from recoup.algorithms.kmeans import wide
    from recoup.planner import LEAST_EXCESS, MEASURED_CLUSTERS, MEASURED_COLUMNS, epsilon_for, records_for

    if not LEAST_EXCESS <= excess < 10:
        least = f"and at least {LEAST_EXCESS:g}, as less cannot be told in advance"
        raise ParameterError(f"--excess {excess:g}: give a part of the non-private loss, such as 0.05, {least}.")
    if wide.is_wide(context) or context.domain.n_columns > MEASURED_COLUMNS[1] or clusters > MEASURED_CLUSTERS[1]:
        limit = f"more than {MEASURED_COLUMNS[1]} columns or {MEASURED_CLUSTERS[1]} clusters, or in many with a delta"
        raise ParameterError(f"--excess: with {limit}, it is not told which epsilon or N reaches it; compare plans.")
    shape = {"n_clusters": clusters, "n_columns": context.domain.n_columns}
    n_records: float = ceil(records_for(excess=excess, epsilon=context.effective_epsilon(), **shape))
    needed = {"records_needed": n_records}
    if context.n_records is not None and context.budget_measure == "pure":
        epsilon = epsilon_for(excess=excess, n_records=context.n_records, **shape)
        needed["epsilon_needed"] = epsilon * context.records_per_person
    return needed


def _show_plan(planned: Plan) -> None:
    context = planned.context
    pure = context.budget_measure == "pure"
    total = f"epsilon {float(planned.epsilon):.6g}" + ("" if pure else f" at delta {float(context.delta):g}")
    deviates = any(r.center_deviation is not None for r in planned.rounds)
    rounds = _plan_json(planned)["rounds"]
    tables.print_rounds(f"{planned.algorithm}; {total}", rounds, *(["sd of a centre"] if deviates else []))
    noise = "Laplace, whose standard deviation is 1.41 times its scale" if pure else "Gaussian of this deviation"
    out.say(f"Noise is {noise}; sums and centres are for columns scaled to [-1, 1]; domain {context.domain.kind}.")
    for note in planned.notes:
        out.say(note)
    if planned.relative_sums:
        norm = "L1" if pure else "L2"
        out.say(f"Sums are relative to their cell: their noise is the scale times the cell's {norm} radius.")
        # Where what to expect is not known, a note said why.
        if planned.relative_excess is not None:
            from recoup.planner import LEAST_EXCESS

            least = planned.relative_excess <= LEAST_EXCESS
            size = f"less than {100 * LEAST_EXCESS:g}%" if least else f"about {100 * planned.relative_excess:.2g}%"
            out.say(
                f"Expected: a within-cluster sum of squares {size} above non-private k-means"
                f"{'' if least else ', within a factor of three'} (right for {_measured(context)})."
            )
        return
    if planned.expected_displacement is None or planned.expected_excess is None:
        if context.n_records is None:
            out.say("Give --n-records, a public guess, to see what the noise does to the centres.")
        return
    out.say(
        f"Expected, with {out.counted(context.n_records or 0, 'record')} in clusters of equal size: noise adds "
        f"{planned.expected_excess:.4g} to the within-cluster sum of squares (all centres of the last round are moved "
        f"by {planned.expected_displacement:.4g} together, in squared distance)."
    )
    widest = max(r.center_deviation or 0.0 for r in planned.rounds)
    if widest > 0.5:
        out.say("That is as large as the domain itself: expect no more than chance. Raise epsilon, or ask for less.")
    if planned.suggested_rounds is not None and planned.suggested_rounds != len(planned.rounds):
        out.say(f"The rule of Su et al. would take {out.counted(planned.suggested_rounds, 'round')} here (--rounds).")


def _measured(context: Context) -> str:
    from recoup.algorithms.kmeans import wide

    return "eleven of eleven settings" if wide.is_wide(context) else "nine of ten tables that were measured"


def _plan_json(planned: Plan) -> dict[str, Any]:
    context = planned.context
    return {
        "algorithm": planned.algorithm,
        "epsilon": float(planned.epsilon),
        "delta": float(context.delta) if context.mechanism == "gaussian" else 0.0,
        "mechanism": context.mechanism,
        "domain": context.domain.kind,
        "n_records": context.n_records,
        "records_per_person": context.records_per_person,
        "unit": context.unit.to_json(),
        "rounds": [
            {"n_cells": r.n_cells, "measure": r.price.measure, "price": float(r.price.amount)}
            | {name: getattr(r, name) for name in ("count_scale", "sum_scale", "center_deviation")}
            for r in planned.rounds
        ],
        **{name: getattr(planned, name) for name in _EXPECTED},
        "notes": list(planned.notes),
    }
