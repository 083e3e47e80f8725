"""`recoup cluster`, `release` and `plan`: from the records, within a budget; what is released is kept."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from recoup._files import write_whole
from recoup.cli import options
from recoup.cli import output as out
from recoup.cli.settings import ConfigFile, Declared, read_columns
from recoup.errors import DoubtfulResult, ParameterError, RecoupError, TranscriptError

if TYPE_CHECKING:
    from recoup.algorithms.base import Algorithm
    from recoup.estimators import PrivateKMeans
    from recoup.planner import Plan
    from recoup.schema import Schema
    from recoup.transcript.context import Context
    from recoup.transcript.transcript import Transcript

_CENTERS, _TRANSCRIPT = "centers.csv", "transcript.json"
_ALGORITHM = "auto; adaptive, which chooses each query from all answers so far; lloyd (DP-KMEANS); grid (EUGkM); "
_ALGORITHM += "hybrid; or gupt and privgene, which release centres alone, without a transcript."
_ROUNDS = "How many rounds of lloyd (by default 5) or of privgene."
_FOLDER = "Write centers.csv and transcript.json, if there is one, into this folder."
_COLUMNS = "How many columns; or name them with --bounds."
_EXCESS = "A wanted excess over non-private k-means, such as 0.05: say which epsilon or N reaches it."
_EXPECTED = ("expected_displacement", "expected_excess", "suggested_rounds", "relative_excess")


def cluster(
    data: options.DataPath,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    bounds: options.Bounds = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    records_per_person: options.RecordsPerPerson = 1,
    person: options.Person = None,
    per_person: options.PerPerson = None,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    simulated_noise: options.SimulatedNoise = False,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    algorithm: Annotated[str, options.choice("ALGORITHM", _ALGORITHM)] = "auto",
    rounds: Annotated[int | None, options.in_run(help=_ROUNDS)] = None,
    postprocess: Annotated[str, options.choice("POSTPROCESS", "auto is maxent; none keeps the last iterate.")] = "auto",
    seed: options.Seed = None,
    output: Annotated[Path | None, options.output(help=_FOLDER)] = None,
    resume: options.Resume = False,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Cluster a table privately and print the centres in its own units.

    A record with a missing or unreadable value contributes nothing, unless a schema says what stands for it. Example:

        recoup cluster people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99
    """
    from recoup.algorithms.base import column_names
    from recoup.curator.rivals import RIVALS

    model, declared = _model(locals())
    transcript_path = _transcript_path(output, resume, releases_transcript=algorithm not in RIVALS)
    released = _released(model, data, transcript_path, resume)
    if released is not None:
        if postprocess != "none":
            out.say("inferring ...")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulResult)  # said below, in its place
            model._read(*released)
    centers, columns = model.cluster_centers_, column_names(model._domain)
    files, marked = [], out.mark(model.privacy_)
    if output is not None:
        files = [output / _CENTERS] + [output / _TRANSCRIPT] * (model.transcript_ is not None)
        write_whole(files[0], out.csv_text(columns, centers.tolist(), comment=marked))
        no_transcript = f" There is no transcript: {algorithm} releases centres alone." * (len(files) == 1)
        out.say(f"Wrote {' and '.join(map(str, files))}.{no_transcript}")
    out.say(out.privacy_sentence(model.privacy_))
    if model.verdict_ is not None:
        out.say(model.verdict_.in_words)
    if as_json:
        out.print_json(
            columns=columns,
            units=declared.units,
            centers=centers.tolist(),
            doubtful=model.doubtful_,
            **out.verdict_json(model.verdict_),
            privacy=model.privacy_,
            files=[str(path) for path in files],
        )
    else:
        title = f"Centres, {marked}" if marked else out.counted(len(centers), "private centre")
        title += out.doubt(model.verdict_)
        out.print_centers(title, model._domain, centers, declared.header())
    out.stop_if_interrupted(model.inferred_, "; nothing of the release is missing")


def _transcript_path(output: Path | None, resume: bool, *, releases_transcript: bool) -> Path | None:
    """Where to keep the transcript; refuses before anything is spent what could not be kept or continued."""
    if resume and not releases_transcript:
        raise ParameterError("this algorithm releases no transcript, so there is nothing to resume.")
    if resume and output is None:
        raise ParameterError("--resume needs the folder of the interrupted run: name it with -o.")
    if output is None or resume:
        return None if output is None else options.resumable(output / _TRANSCRIPT)
    folder = options.writable_folder(output)
    # The transcript first: it is what was paid for, and what another run of `infer` or `report` can read.
    for path in (folder / _TRANSCRIPT, folder / _CENTERS):
        if path.exists():
            raise TranscriptError(
                f"{str(path)!r} exists and was paid for: choose another folder with -o, or continue it with --resume."
            )
    return folder / _TRANSCRIPT if releases_transcript else None


def _model(given: Mapping[str, Any]) -> tuple[PrivateKMeans, Declared]:
    """The estimator that the options of `cluster` or `release` stand for, and the columns that they declare."""
    from recoup.estimators import PrivateKMeans

    epsilon, delta = options.read_budget(given["epsilon"], given["delta"])
    declared = read_columns(given["bounds"])
    model = PrivateKMeans(
        n_clusters=given["clusters"],
        epsilon=epsilon,
        delta=delta,
        bounds=declared.for_domain(given["domain"].value),
        domain=given["domain"].value,
        n_records="auto" if given["n_records"] is None else given["n_records"],
        records_per_person=given["records_per_person"],
        person=given["person"],
        per_person=None if given["per_person"] is None else given["per_person"].value,
        algorithm=given["algorithm"],
        n_rounds="auto" if given["rounds"] is None else given["rounds"],
        postprocess=given.get("postprocess", "none"),
        ledger=options.existing_ledger(given["ledger"]),
        csv_dialect=given["csv_dialect"].value,
        random_state=given["seed"],
        noise="simulated" if given["simulated_noise"] else "secure",
    )
    return model, declared


def _released(model: PrivateKMeans, data: Path, path: Path | None, resume: bool) -> tuple[Transcript, Algorithm] | None:
    """Release, saving after every round: whatever happens next, what was paid for is kept."""
    if not sys.stderr.isatty():  # how long a round took, and so how many records there are, must not stay in a log
        return model._release(data, path=path, resume=resume, on_round=None)
    n_rounds, at_most = _planned_rounds(model)
    with out.Progress(n_rounds, at_most=at_most) as progress:
        return model._release(data, path=path, resume=resume, on_round=progress.finished)


def _planned_rounds(model: PrivateKMeans) -> tuple[int | None, bool]:
    """How many rounds the model will take, and whether that is only the most, from its public parameters alone."""
    n_records = None if model.n_records == "auto" else model.n_records
    try:
        domain = model._open(None).records
        algorithm, budget = model._algorithm(domain), (model.epsilon, model.delta)
        terms = options.terms(type(algorithm), domain, *budget, n_records, model.records_per_person)
        return algorithm.planned_rounds(terms)
    except RecoupError:
        # The fit refuses the same parameters, in the order in which it reads them.
        return None, False


def release(
    data: options.DataPath,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    output: options.TranscriptOutput = Path("transcript.json"),
    bounds: options.Bounds = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    records_per_person: options.RecordsPerPerson = 1,
    person: options.Person = None,
    per_person: options.PerPerson = None,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    simulated_noise: options.SimulatedNoise = False,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    algorithm: options.TranscribedAlgorithm = "auto",
    rounds: options.LloydRounds = None,
    seed: options.Seed = None,
    resume: options.Resume = False,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Run one algorithm, that of `recoup cluster` by default, and save its transcript after every round.

    The transcript holds queries and noisy answers, nothing else: whoever reads it can infer without the data. After an
    interruption the same command with --resume continues. Example:

        recoup release people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99 -o transcript.json
    """
    model, _ = _model(locals())
    if resume and not output.is_dir():
        options.resumable(output)
    else:
        options.output_file(output, "transcript")
    released = _released(model, data, output, resume)
    assert released is not None  # every algorithm to choose here has a transcript
    transcript, _ = released
    out.say(out.privacy_sentence(transcript.privacy))
    rounds_made, spent = _rounds(transcript), float(transcript.epsilon_spent)
    if as_json:
        return out.print_json(
            transcript=str(output),
            algorithm=transcript.algorithm["type"],
            epsilon_spent=spent,
            rounds=rounds_made,
            privacy=transcript.privacy,
            files=[str(output)],
        )
    kind = f"{transcript.statement}, " if transcript.simulated else ""
    counted = out.counted(len(rounds_made), "round")
    out.print_rounds(f"{output}: {kind}{counted}, epsilon {spent:.6g} spent", rounds_made)


def _rounds(transcript: Transcript) -> list[dict[str, Any]]:
    """What each round asked for and cost, with the noise's scale in units of counts and of sums."""
    rounds = []
    for answered in transcript.rounds:
        blocks = [rows for _, rows in answered.query.sensitivity(transcript.context.domain).parts()]
        count_scale, sum_scale, *_ = *(float(answered.scales[rows][0]) for rows in blocks), None
        cost = {"measure": answered.price.measure, "price": float(answered.price.amount)}
        scales = {"count_scale": count_scale, "sum_scale": sum_scale}
        rounds.append({"n_cells": blocks[0].stop, **cost, **scales})
    return rounds


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
    out.print_rounds(f"{planned.algorithm}; {total}", rounds, *(["sd of a centre"] if deviates else []))
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
