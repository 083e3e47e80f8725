"""`recoup cluster`: private centres of a table, in its own units."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recoup.commands import options
from recoup.errors import ParameterError, RecoupError

if TYPE_CHECKING:
    from recoup.estimators import PrivateKMeans

_FILES = ("centers.csv", "transcript.json")


def cluster(
    data: options.DataPath,
    clusters: options.Clusters,
    epsilon: options.Epsilon,
    bounds: options.Bounds = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    records_per_person: options.RecordsPerPerson = 1,
    simulated_noise: options.SimulatedNoise = False,
    domain: options.DomainOption = options.DomainName.auto,
    n_records: options.DeclaredRecords = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="How many rounds of lloyd (by default 5) or of privgene.",
            rich_help_panel="Algorithm",
            show_default=False,
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            help="auto; adaptive, which chooses each query from all answers so far; lloyd (DP-KMEANS); grid (EUGkM); "
            "hybrid; or gupt and privgene, which release centres alone, without a transcript.",
            rich_help_panel="Algorithm",
        ),
    ] = "auto",
    postprocess: Annotated[
        str,
        typer.Option(help="auto, maxent, mcmc, consistency, or none (the last iterate).", rich_help_panel="Algorithm"),
    ] = "auto",
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
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the transcript in the folder after an interruption and pay only for what is missing.",
            rich_help_panel="Output",
        ),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Cluster a table privately and print the centres in its own units.

    A record with a missing or unreadable value contributes nothing. Example:

        recoup cluster people.csv -k 5 --epsilon 1 --bounds age=17:90,hours=1:99
    """
    from recoup.commands import output as out
    from recoup.commands.progress import Progress
    from recoup.curator.rivals.registry import RIVALS
    from recoup.estimators import PrivateKMeans

    budget = options.read_budget(epsilon, delta)
    model = PrivateKMeans(
        n_clusters=clusters,
        epsilon=budget[0],
        delta=budget[1],
        bounds=options.read_bounds(bounds),
        domain=domain.value,
        n_records="auto" if n_records is None else n_records,
        records_per_person=records_per_person,
        algorithm=algorithm,
        n_rounds="auto" if rounds is None else rounds,
        postprocess=postprocess,
        ledger=ledger,
        random_state=seed,
        noise="simulated" if simulated_noise else "secure",
    )
    releases_transcript = algorithm not in RIVALS
    if resume and not releases_transcript:
        raise ParameterError(f"{algorithm} releases no transcript, so there is nothing to resume.")
    if output is not None:
        folder = options.writable_folder(output)
        if not resume:
            _check_free(folder)
    elif resume:
        raise ParameterError("--resume needs the folder of the interrupted run: name it with -o.")
    transcript_path = None if output is None or not releases_transcript else output / _FILES[1]
    n_rounds, at_most = _planned_rounds(model)
    with Progress(n_rounds, at_most=at_most) as progress:
        # Saved after every round: whatever happens next, what was paid for is kept.
        model.fit(data, transcript_path=transcript_path, resume=resume, on_round=progress.finished)
    if output is not None:
        _write(output, model)
    columns, centers = _columns(model), model.cluster_centers_
    out.say(out.privacy_sentence(model.privacy_))
    if as_json:
        out.print_json({"columns": columns, "centers": centers.tolist(), "privacy": model.privacy_})
    else:
        title = f"{len(centers)} private centres" if not simulated_noise else f"Centres, {model.privacy_['statement']}"
        rows = [[str(k), *(f"{v:.6g}" for v in center)] for k, center in enumerate(centers)]
        out.print_table(title, ["cluster", *columns], rows)


def _planned_rounds(model: PrivateKMeans) -> tuple[int | None, bool]:
    """How many rounds the model will take, and whether that is only the most, from its public parameters alone."""
    from recoup.commands.progress import planned_rounds
    from recoup.context import Context

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
    taken = [name for name in _FILES if (folder / name).exists()]
    if taken:
        raise ParameterError(
            f"{str(folder / taken[0])!r} exists and was paid for: choose another folder with -o, or "
            "continue it with --resume."
        )


def _write(folder: Path, model: PrivateKMeans) -> None:
    from recoup.commands import output as out
    from recoup.files import write_whole

    comment = model.privacy_["statement"] if model.privacy_["noise"] == "simulated" else None
    write_whole(folder / _FILES[0], out.csv_text(_columns(model), model.cluster_centers_.tolist(), comment=comment))
    if model.transcript_ is None:
        out.say(f"Wrote {folder / _FILES[0]}. There is no transcript: {model.algorithm} releases centres alone.")
    else:
        out.say(f"Wrote {folder / _FILES[0]} and {folder / _FILES[1]}.")


def _columns(model: Any) -> list[str]:
    return [str(name) for name in model.feature_names_in_]
