"""`recoup infer`: from a transcript to an inferred data set and refitted centres, where the records have never been."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recoup.commands import config, options
from recoup.commands.exits import ExitCode


def infer(
    transcript: Annotated[
        Path,
        typer.Argument(help="A transcript, as `recoup cluster -o` or `recoup release` writes it.", show_default=False),
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
    clusters: Annotated[
        int | None,
        typer.Option("--clusters", "-k", help="Another number of clusters, at no cost.", show_default="as released"),
    ] = None,
    method: Annotated[
        options.MethodName,
        typer.Option(
            help="maxent; mcmc, the paper's sampler; consistency, the last round's consistent means.",
            rich_help_panel="Algorithm",
        ),
    ] = options.MethodName.maxent,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a chain (mcmc).", rich_help_panel="Algorithm")] = 30_000,
    chains: Annotated[int, typer.Option(min=1, help="Independent chains (mcmc).", rich_help_panel="Algorithm")] = 1,
    # Fixed by default: the same transcript then prints the same centres every time.
    seed: Annotated[int, typer.Option(min=0, help="Of inference and refit.", rich_help_panel="Algorithm")] = 0,
    as_json: options.AsJson = False,
    config_file: config.ConfigFile = None,
) -> None:
    """Infer the data set behind a transcript and refit its centres; costs no privacy and needs no records.

    The same transcript and seed give the same centres. Example:

        recoup infer transcript.json -o inferred/
    """
    import numpy as np

    from recoup.commands import output as out
    from recoup.commands.progress import Progress
    from recoup.files import write_whole
    from recoup.inference.infer import infer as read
    from recoup.inference.refit import refit
    from recoup.transcript import Transcript

    released = Transcript.load(transcript)
    folder = None if output is None else options.writable_folder(output)
    rng = np.random.default_rng(seed)
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
    files: list[Path] = []
    if folder is not None:
        comment = released.statement if released.simulated else None
        files = [folder / name for name in ("centers.csv", "inferred.parquet", "diagnostics.json")]
        write_whole(files[0], out.csv_text(columns, centers.tolist(), comment=comment))
        inferred.save(files[1])
        write_whole(files[2], out.json_text(diagnostics))
        out.say(f"Wrote centers.csv, inferred.parquet and diagnostics.json to {folder}.")
    out.say(out.privacy_sentence(released.privacy))
    if as_json:
        out.print_json(
            {
                "method": method.value,
                "columns": columns,
                "centers": centers.tolist(),
                "privacy": released.privacy,
                "diagnostics": diagnostics,
                "files": [str(path) for path in files],
            }
        )
    else:
        kind = f", {released.statement}" if released.simulated else ""
        rows = [[str(k), *(f"{v:.6g}" for v in center)] for k, center in enumerate(centers)]
        title = f"{out.counted(len(centers), 'centre')} by {method.value}{kind}"
        out.print_table(title, ["cluster", *columns], rows)
    if inferred.diagnostics is not None and inferred.diagnostics.interrupted:
        out.say("Interrupted: the centres are of the best data set so far.")
        raise typer.Exit(ExitCode.INTERRUPTED)
