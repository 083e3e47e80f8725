"""`recoup cluster` and `release`: from the records, within a budget; what is released is kept."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from recoup._files import write_whole
from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.cli.progress import Progress
from recoup.cli.settings import ConfigFile, Declared, read_columns
from recoup.errors import DoubtfulResult, ParameterError, RecoupError, TranscriptError

if TYPE_CHECKING:
    from recoup.algorithms.base import Algorithm
    from recoup.estimators.clustering import Clustering
    from recoup.transcript.transcript import Transcript

_CENTERS, _TRANSCRIPT = "centers.csv", "transcript.json"
_ALGORITHM = "auto; adaptive, which chooses each query from all answers so far; lloyd (DP-KMEANS); grid (EUGkM); "
_ALGORITHM += "hybrid; or gupt and privgene, which release centres alone, without a transcript."
_ROUNDS = "How many rounds of lloyd (by default 5) or of privgene."
_FOLDER = "Write centers.csv and transcript.json, if there is one, into this folder."


def cluster(
    data: options.DataOrCurator,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    bounds: options.Bounds = None,
    table: options.TableName = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    purpose: options.Purpose = "",
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

    records = options.records(data, table, served=True)
    model, declared = _model(locals())
    transcript_path = _transcript_path(output, resume, releases_transcript=algorithm not in RIVALS)
    released = _released(model, records, transcript_path, resume, purpose)
    if released is not None:
        with Progress() as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulResult)  # said below, in its place
            model._read(*released, on_progress=progress.reached)
    centers, columns = model.cluster_centers_, column_names(model._domain)
    sizes = tables.sizes_of(model._domain, centers, model.inferred_)
    files, marked = [], out.mark(model.privacy_)
    if not as_json:
        title = f"Centres, {marked}" if marked else out.counted(len(centers), "private centre")
        title += out.doubt(model.verdict_)
        shown: Any = {"header": declared and declared.header(), "sizes": sizes, "verdict": model.verdict_}
        tables.print_centers(title, model._domain, centers, **shown)
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
            units={} if declared is None else declared.units,
            centers=centers.tolist(),
            sizes=None if sizes is None else sizes.tolist(),
            doubtful=model.doubtful_,
            **out.verdict_json(model.verdict_),
            privacy=model.privacy_,
            files=[str(path) for path in files],
        )
    elif len(files) == 2:
        out.say_next(["recoup", "report", files[1], "-o", "report.html"], "a page with intervals, which costs nothing")
    elif model.transcript_ is not None:
        out.say("Nothing was kept: with -o FOLDER the transcript is, and a report or another K then costs nothing.")
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


def _model(given: Mapping[str, Any]) -> tuple[Clustering, Declared | None]:
    """The estimator that the options of `cluster` or `release` stand for, and the columns that they declare, if any."""
    from recoup.estimators.clustering import Clustering

    epsilon, delta = options.read_budget(given["epsilon"], given["delta"])
    served = options.is_url(given["data"]) and given["bounds"] is None
    declared = None if served else read_columns(given["bounds"])
    model = Clustering(
        n_clusters=given["clusters"],
        epsilon=epsilon,
        delta=delta,
        bounds=None if declared is None else declared.for_domain(given["domain"].value),
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


def _released(
    model: Clustering, data: Any, path: Path | None, resume: bool, purpose: str
) -> tuple[Transcript, Algorithm] | None:
    """Release, saving after every round: whatever happens next, what was paid for is kept."""
    from recoup.cli.ahead import compiling_ahead

    n_rounds, at_most = _planned_rounds(model, data)
    with Progress(n_rounds, at_most=at_most) as progress, compiling_ahead():
        return model._release(data, path=path, resume=resume, purpose=purpose, on_round=progress.finished)


def _planned_rounds(model: Clustering, data: Any = None) -> tuple[int | None, bool]:
    """How many rounds the model will take, and whether that is only the most, from its public parameters alone."""
    n_records = None if model.n_records == "auto" else model.n_records
    try:
        # A path is not opened for this; a served table has terms alone.
        domain = model._open(None if isinstance(data, Path) else data).records
        algorithm, budget = model._algorithm(domain), (model.epsilon, model.delta)
        terms = options.terms(type(algorithm), domain, *budget, n_records, model.records_per_person)
        return algorithm.planned_rounds(terms)
    except RecoupError:
        # The fit refuses the same parameters, in the order in which it reads them.
        return None, False


def release(
    data: options.DataOrCurator,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    output: options.TranscriptOutput = Path("transcript.json"),
    bounds: options.Bounds = None,
    table: options.TableName = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    purpose: options.Purpose = "",
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
    records = options.records(data, table, served=True)
    model, _ = _model(locals())
    if resume and not output.is_dir():
        options.resumable(output)
    else:
        options.output_file(output, "transcript")
    released = _released(model, records, output, resume, purpose)
    assert released is not None  # every algorithm to choose here has a transcript
    transcript, _ = released
    rounds_made, spent = _rounds(transcript), float(transcript.epsilon_spent)
    if not as_json:
        kind, counted = f"{transcript.statement}, " * transcript.simulated, out.counted(len(rounds_made), "round")
        tables.print_rounds(f"{output}: {kind}{counted}, epsilon {spent:.6g} spent", rounds_made)
    out.say(out.privacy_sentence(transcript.privacy))
    if as_json:
        return out.print_json(
            transcript=str(output),
            algorithm=transcript.algorithm["type"],
            epsilon_spent=spent,
            rounds=rounds_made,
            privacy=transcript.privacy,
            files=[str(output)],
        )
    out.say_next(["recoup", "infer", output], "the centres, which cost nothing more")


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
