"""`recoup import`: noisy answers that were made elsewhere become a transcript; their privacy is only claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recoup.cli import options
from recoup.errors import ParameterError, TranscriptError


def import_foreign(
    source: Annotated[
        Path,
        typer.Argument(
            help="A JSON file with the queries, the noisy answers and the noise scales.",
            metavar="FILE",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The transcript to write.", rich_help_panel="Output")
    ] = Path("transcript.json"),
    as_json: options.AsJson = False,
) -> None:
    """Read noisy answers of a private algorithm that ran elsewhere, for `infer` and `report`.

    Their privacy is whatever their maker claims: it is not verified. docs/foreign.md describes the file. Example:

        recoup import foreign.json -o transcript.json
    """
    from recoup.cli import output as out
    from recoup.imported import load_foreign

    read = load_foreign(source)
    if output.is_dir():
        raise ParameterError(f"{str(output)!r} is a folder: name the transcript with -o, such as -o transcript.json.")
    options.writable_folder(output.parent)
    if output.exists() and not _made_elsewhere(output):
        raise TranscriptError(f"{str(output)!r} exists and was not imported: choose another path with -o.")
    read.save(output)
    out.say(f"Wrote {output}.")
    out.say(out.privacy_sentence(read.privacy))
    implied = sum(answered.price.amount for answered in read.rounds)
    if implied > 1.01 * float(read.context.budget.amount):
        unit = "epsilon" if read.context.budget_measure == "pure" else "rho"
        out.say(
            f"Noise of these scales would cost {unit} {float(implied):.3g} here, more than the "
            f"{float(read.context.budget.amount):.3g} that is claimed: check the scales, the units and the bounds."
        )
    rounds = [
        {
            "query": answered.query.type_name,
            "n_values": answered.query.size,
            "smallest_scale": float(answered.scales.min()),
            "largest_scale": float(answered.scales.max()),
        }
        for answered in read.rounds
    ]
    if as_json:
        out.print_json(
            {
                "transcript": str(output),
                "algorithm": dict(read.algorithm),
                "rounds": rounds,
                "privacy": read.privacy,
                "files": [str(output)],
            }
        )
        return
    rows = [
        [str(t), str(r["query"]), str(r["n_values"]), f"{r['smallest_scale']:.6g}", f"{r['largest_scale']:.6g}"]
        for t, r in enumerate(rounds, start=1)
    ]
    title = f"{out.counted(len(rounds), 'round')} of {read.algorithm['type']}, {read.statement}"
    out.print_table(title, ["round", "query", "values", "smallest scale", "largest scale"], rows, left=2)


def _made_elsewhere(path: Path) -> bool:
    """Whether a file may be written over: what was paid for may not."""
    from recoup.transcript.transcript import Transcript

    try:
        return Transcript.load(path).imported
    except TranscriptError:
        return False
