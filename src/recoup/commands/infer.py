"""`recoup infer`: from a transcript to an inferred data set and refitted centres, where the records have never been."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from recoup.commands import options


class MethodName(StrEnum):
    """The ways to read a transcript."""

    maxent = "maxent"
    mcmc = "mcmc"
    consistency = "consistency"


def infer(
    transcript: Annotated[
        Path, typer.Argument(help="A transcript, as `recoup release` writes it.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write centers.csv, inferred.parquet and diagnostics.json into this folder.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        MethodName,
        typer.Option(help="maxent; mcmc, the paper's sampler; consistency, the last round's consistent means."),
    ] = MethodName.maxent,
    clusters: Annotated[
        int | None,
        typer.Option("--clusters", "-k", help="Another number of clusters, at no cost.", show_default="as released"),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a chain (mcmc).")] = 30_000,
    chains: Annotated[int, typer.Option(min=1, help="Independent chains (mcmc).")] = 1,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Infer the data set behind a transcript and refit its centres; costs no privacy and needs no records.

    Example:
        recoup infer transcript.json -o inferred/
    """
    import json

    import numpy as np

    from recoup.commands import output as out
    from recoup.commands.progress import Progress
    from recoup.files import write_whole
    from recoup.inference.infer import infer as read
    from recoup.inference.refit import refit
    from recoup.transcript import Transcript

    released = Transcript.load(transcript)
    folder = None if output is None else options.writable_folder(output)
    # A fixed seed by default: the same transcript then prints the same centres every time.
    rng = np.random.default_rng(0 if seed is None else seed)
    with Progress(n_rounds=100, unit="percent") as progress:
        inferred = read(
            released,
            method.value,
            random_state=rng,
            n_steps=steps,
            n_chains=chains,
            on_progress=lambda done, total: progress.finished(100 * done // max(1, total)),
        )
    centers = refit(released, inferred, n_clusters=clusters, random_state=rng)
    columns = list(released.context.domain.columns or (f"column {j}" for j in range(centers.shape[1])))
    diagnostics = {} if inferred.diagnostics is None else inferred.diagnostics.to_json()
    if folder is not None:
        comment = released.statement if released.simulated else None
        inferred.save(folder / "inferred.parquet")
        write_whole(folder / "diagnostics.json", json.dumps(diagnostics, indent=1) + "\n")
        write_whole(folder / "centers.csv", out.csv_text(columns, centers.tolist(), comment=comment))
        out.say(f"Wrote centers.csv, inferred.parquet and diagnostics.json to {folder}.")
    out.say(out.privacy_sentence(released.privacy))
    if as_json:
        out.print_json({"columns": columns, "centers": centers.tolist(), "privacy": released.privacy} | diagnostics)
        return
    kind = f", {released.statement}" if released.simulated else ""
    rows = [[str(k), *(f"{v:.6g}" for v in center)] for k, center in enumerate(centers)]
    out.print_table(f"{len(centers)} centres by {method.value}{kind}", ["cluster", *columns], rows)
