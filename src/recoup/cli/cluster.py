"""`recoup cluster`: private centres of a table, in its own units."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recoup.cli import config, options
from recoup.cli.exits import ExitCode
from recoup.errors import DoubtfulResult, ParameterError, RecoupError, TranscriptError

if TYPE_CHECKING:
    from recoup.cli.bounds import Declared
    from recoup.estimators import PrivateKMeans

_FILES = ("centers.csv", "transcript.json")


class AlgorithmName(StrEnum):
    """The algorithms, those that leave no transcript included."""

    auto = "auto"
    adaptive = "adaptive"
    lloyd = "lloyd"
    grid = "grid"
    hybrid = "hybrid"
    gupt = "gupt"
    privgene = "privgene"


class PostprocessName(StrEnum):
    """What to do with the rounds."""

    auto = "auto"
    maxent = "maxent"
    mcmc = "mcmc"
    consistency = "consistency"
    none = "none"


def cluster(
    data: options.DataPath,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    bounds: options.Bounds = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    records_per_person: options.RecordsPerPerson = 1,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    simulated_noise: options.SimulatedNoise = False,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    algorithm: Annotated[
        AlgorithmName,
        typer.Option(
            help="auto; adaptive, which chooses each query from all answers so far; lloyd (DP-KMEANS); grid (EUGkM); "
            "hybrid; or gupt and privgene, which release centres alone, without a transcript.",
            rich_help_panel="Algorithm",
        ),
    ] = AlgorithmName.auto,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="How many rounds of lloyd (by default 5) or of privgene.",
            rich_help_panel="Algorithm",
            show_default=False,
        ),
    ] = None,
    postprocess: Annotated[
        PostprocessName,
        typer.Option(help="auto is maxent; none keeps the last iterate.", rich_help_panel="Algorithm"),
    ] = PostprocessName.auto,
    seed: options.Seed = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write centers.csv and transcript.json, if there is one, into this folder.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    resume: options.Resume = False,
    as_json: options.AsJson = False,
    config_file: config.ConfigFile = None,
) -> None:
    """Cluster a table privately and print the centres in its own units.

    A record with a missing or unreadable value contributes nothing. Example:

        recoup cluster people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99
    """
    from recoup.cli import output as out
    from recoup.cli.bounds import read_columns
    from recoup.cli.progress import Progress
    from recoup.curator.rivals.registry import RIVALS
    from recoup.estimators import PrivateKMeans

    budget, declared = options.read_budget(epsilon, delta), read_columns(bounds)
    model = PrivateKMeans(
        n_clusters=clusters,
        epsilon=budget[0],
        delta=budget[1],
        bounds=declared.bounds,
        domain=domain.value,
        n_records="auto" if n_records is None else n_records,
        records_per_person=records_per_person,
        algorithm=algorithm.value,
        n_rounds="auto" if rounds is None else rounds,
        postprocess=postprocess.value,
        ledger=None if ledger is None else options.existing_ledger(ledger),
        csv_dialect=csv_dialect.value,
        random_state=seed,
        noise="simulated" if simulated_noise else "secure",
    )
    transcript_path = _transcript_path(output, resume, releases_transcript=algorithm not in RIVALS)
    n_rounds, at_most = _planned_rounds(model)
    with Progress(n_rounds, at_most=at_most) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulResult)  # said below, in its place
        # Saved after every round: whatever happens next, what was paid for is kept.
        model.fit(data, transcript_path=transcript_path, resume=resume, on_round=progress.finished)
    files = [] if output is None else _write(output, model)
    out.say(out.privacy_sentence(model.privacy_))
    out.say_verdict(model.verdict_)
    _show(model, declared, files, as_json)
    diagnostics = None if model.inferred_ is None else model.inferred_.diagnostics
    if diagnostics is not None and diagnostics.interrupted:
        out.say("Interrupted: the centres are of the best data set so far; nothing of the release is missing.")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _transcript_path(output: Path | None, resume: bool, *, releases_transcript: bool) -> Path | None:
    """Where to keep the transcript; refuses before anything is spent what could not be kept or continued."""
    if resume and not releases_transcript:
        raise ParameterError("this algorithm releases no transcript, so there is nothing to resume.")
    if output is None:
        if resume:
            raise ParameterError("--resume needs the folder of the interrupted run: name it with -o.")
        return None
    if resume:
        return options.resumable(output / _FILES[1])
    folder = options.writable_folder(output)
    _check_free(folder)
    return folder / _FILES[1] if releases_transcript else None


def _planned_rounds(model: PrivateKMeans) -> tuple[int | None, bool]:
    """How many rounds the model will take, and whether that is only the most, from its public parameters alone."""
    from recoup.cli.progress import planned_rounds
    from recoup.transcript.context import Context

    try:
        terms = Context(
            domain=model._source(None)[0],
            epsilon=model.epsilon,
            delta=model.delta,
            mechanism="gaussian" if model.delta else "laplace",
            n_records=None if model.n_records == "auto" else model.n_records,
            records_per_person=model.records_per_person,
        )
        return planned_rounds(model._algorithm(), terms)
    except RecoupError:
        # The fit refuses the same parameters, in the order in which it reads them.
        return None, False


def _check_free(folder: Path) -> None:
    # The transcript first: it is what was paid for, and what another run of `infer` or `report` can read.
    taken = [name for name in reversed(_FILES) if (folder / name).exists()]
    if taken:
        raise TranscriptError(
            f"{str(folder / taken[0])!r} exists and was paid for: choose another folder with -o, or "
            "continue it with --resume."
        )


def _write(folder: Path, model: PrivateKMeans) -> list[Path]:
    from recoup._files import write_whole
    from recoup.cli import output as out

    comment = model.privacy_["statement"] if model.privacy_["noise"] == "simulated" else None
    columns = [str(name) for name in model.feature_names_in_]
    write_whole(folder / _FILES[0], out.csv_text(columns, model.cluster_centers_.tolist(), comment=comment))
    if model.transcript_ is None:
        out.say(f"Wrote {folder / _FILES[0]}. There is no transcript: {model.algorithm} releases centres alone.")
        return [folder / _FILES[0]]
    out.say(f"Wrote {folder / _FILES[0]} and {folder / _FILES[1]}.")
    return [folder / name for name in _FILES]


def _show(model: PrivateKMeans, declared: Declared, files: list[Path], as_json: bool) -> None:
    from recoup.cli import output as out

    centers, privacy = model.cluster_centers_, model.privacy_
    if as_json:
        out.print_json(
            {
                "columns": list(declared.bounds),
                "units": declared.units,
                "centers": centers.tolist(),
                "doubtful": model.doubtful_,
                **out.verdict_json(model.verdict_),
                "privacy": privacy,
                "files": [str(path) for path in files],
            }
        )
        return
    simulated = privacy["noise"] == "simulated"
    title = f"Centres, {privacy['statement']}" if simulated else out.counted(len(centers), "private centre")
    rows = [[str(k), *(f"{v:.6g}" for v in center)] for k, center in enumerate(centers)]
    out.print_table(title, ["cluster", *declared.header()], rows)
