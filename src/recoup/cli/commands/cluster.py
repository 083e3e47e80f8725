"""`recoup cluster`: private centres of a table, in its own units."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from recoup._files import write_whole
from recoup.cli import options
from recoup.cli import output as out
from recoup.cli.progress import Progress
from recoup.cli.settings import ConfigFile, Declared, read_columns
from recoup.errors import DoubtfulResult, ParameterError, RecoupError, TranscriptError

if TYPE_CHECKING:
    from recoup.estimators import PrivateKMeans

_CENTERS, _TRANSCRIPT = "centers.csv", "transcript.json"


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
        str,
        options.choice(
            "ALGORITHM",
            "auto; adaptive, which chooses each query from all answers so far; lloyd (DP-KMEANS); grid (EUGkM); "
            "hybrid; or gupt and privgene, which release centres alone, without a transcript.",
        ),
    ] = "auto",
    rounds: Annotated[
        int | None, options.in_run(help="How many rounds of lloyd (by default 5) or of privgene.")
    ] = None,
    postprocess: Annotated[str, options.choice("POSTPROCESS", "auto is maxent; none keeps the last iterate.")] = "auto",
    seed: options.Seed = None,
    output: Annotated[
        Path | None, options.output(help="Write centers.csv and transcript.json, if there is one, into this folder.")
    ] = None,
    resume: options.Resume = False,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Cluster a table privately and print the centres in its own units.

    A record with a missing or unreadable value contributes nothing. Example:

        recoup cluster people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99
    """
    from recoup.curator.rivals import RIVALS
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
        algorithm=algorithm,
        n_rounds="auto" if rounds is None else rounds,
        postprocess=postprocess,
        ledger=options.existing_ledger(ledger),
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
    out.stop_if_interrupted(model.inferred_, "; nothing of the release is missing")


def _transcript_path(output: Path | None, resume: bool, *, releases_transcript: bool) -> Path | None:
    """Where to keep the transcript; refuses before anything is spent what could not be kept or continued."""
    if resume and not releases_transcript:
        raise ParameterError("this algorithm releases no transcript, so there is nothing to resume.")
    if output is None:
        if resume:
            raise ParameterError("--resume needs the folder of the interrupted run: name it with -o.")
        return None
    if resume:
        return options.resumable(output / _TRANSCRIPT)
    folder = options.writable_folder(output)
    # The transcript first: it is what was paid for, and what another run of `infer` or `report` can read.
    for path in (folder / _TRANSCRIPT, folder / _CENTERS):
        if path.exists():
            raise TranscriptError(
                f"{str(path)!r} exists and was paid for: choose another folder with -o, or continue it with --resume."
            )
    return folder / _TRANSCRIPT if releases_transcript else None


def _planned_rounds(model: PrivateKMeans) -> tuple[int | None, bool]:
    """How many rounds the model will take, and whether that is only the most, from its public parameters alone."""
    n_records = None if model.n_records == "auto" else model.n_records
    try:
        domain = model._open(None).records
        terms = options.terms(domain, model.epsilon, model.delta, n_records, model.records_per_person)
        return model._algorithm(domain).planned_rounds(terms)
    except RecoupError:
        # The fit refuses the same parameters, in the order in which it reads them.
        return None, False


def _write(folder: Path, model: PrivateKMeans) -> list[Path]:
    centers, transcript = folder / _CENTERS, folder / _TRANSCRIPT
    columns = [str(name) for name in model.feature_names_in_]
    write_whole(centers, out.csv_text(columns, model.cluster_centers_.tolist(), comment=out.mark(model.privacy_)))
    if model.transcript_ is None:
        out.say(f"Wrote {centers}. There is no transcript: {model.algorithm} releases centres alone.")
        return [centers]
    out.say(f"Wrote {centers} and {transcript}.")
    return [centers, transcript]


def _show(model: PrivateKMeans, declared: Declared, files: list[Path], as_json: bool) -> None:
    centers, marked = model.cluster_centers_, out.mark(model.privacy_)
    if as_json:
        out.print_json(
            {
                "columns": list(declared.bounds),
                "units": declared.units,
                "centers": centers.tolist(),
                "doubtful": model.doubtful_,
                **out.verdict_json(model.verdict_),
                "privacy": model.privacy_,
                "files": [str(path) for path in files],
            }
        )
        return
    title = f"Centres, {marked}" if marked else out.counted(len(centers), "private centre")
    out.print_centers(title, declared.header(), centers)
