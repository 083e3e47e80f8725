"""`recoup import`: noisy answers that were made elsewhere become a transcript; their privacy is only claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recoup.cli import options
from recoup.cli import output as out
from recoup.errors import TranscriptError


def imported(
    source: Annotated[
        Path,
        typer.Argument(help="A JSON file with the queries, the noisy answers and the noise scales.", metavar="FILE"),
    ],
    output: options.TranscriptOutput = Path("transcript.json"),
    as_json: options.AsJson = False,
) -> None:
    """Read noisy answers of a private algorithm that ran elsewhere, for `infer` and `report`.

    Their privacy is whatever their maker claims: it is not verified. docs/imported.md describes the file. Example:

        recoup import imported.json -o transcript.json
    """
    from recoup.imported import load_foreign

    transcript = load_foreign(source)
    options.output_file(output, "transcript")
    if output.exists() and not _was_imported(output):
        raise TranscriptError(f"{str(output)!r} exists and was not imported: choose another path with -o.")
    transcript.save(output)
    out.say(f"Wrote {output}.")
    out.say(out.privacy_sentence(transcript.privacy))
    implied = sum(answered.price.amount for answered in transcript.rounds)
    claimed = float(transcript.context.budget.amount)
    if implied > 1.01 * claimed:
        unit = "epsilon" if transcript.context.budget_measure == "pure" else "rho"
        out.say(
            f"Noise of these scales would cost {unit} {float(implied):.3g} here, more than the {claimed:.3g} that is "
            "claimed: check the scales, the units and the bounds."
        )
    names = ("query", "n_values", "smallest_scale", "largest_scale")
    rounds = [
        (answered.query.type_name, answered.query.size, float(answered.scales.min()), float(answered.scales.max()))
        for answered in transcript.rounds
    ]
    if as_json:
        out.print_json(
            {
                "transcript": str(output),
                "algorithm": dict(transcript.algorithm),
                "rounds": [dict(zip(names, values, strict=True)) for values in rounds],
                "privacy": transcript.privacy,
                "files": [str(output)],
            }
        )
        return
    rows = [
        [str(t), query, str(size), *out.numbers(scales)] for t, (query, size, *scales) in enumerate(rounds, start=1)
    ]
    title = f"{out.counted(len(rounds), 'round')} of {transcript.algorithm['type']}, {transcript.statement}"
    out.print_table(title, ["round", "query", "values", "smallest scale", "largest scale"], rows, left=2)


def _was_imported(path: Path) -> bool:
    """Whether a file may be written over: what was paid for may not."""
    from recoup.transcript.transcript import Transcript

    try:
        return Transcript.load(path).imported
    except TranscriptError:
        return False
