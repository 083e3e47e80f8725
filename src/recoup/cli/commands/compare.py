"""`recoup compare`: what privacy cost, for the curator's eyes alone; nothing that it shows may be published."""

from __future__ import annotations

import io
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from recoup._files import write_whole
from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.cli.progress import Progress
from recoup.errors import ParameterError

_MARK = "NOT-PRIVATE"
_METHOD = "How the private centres are read off the transcript: maxent (the default), mcmc, consistency, or none."


def compare(
    data: options.DataPath,
    transcript: Annotated[Path, typer.Argument(help="Of a clustering of these records.", metavar="TRANSCRIPT")],
    output: Annotated[Path, options.output(help=f"The picture, .png or .svg; {_MARK} is put into its name.")] = Path(
        "comparison.png"
    ),
    table: options.TableName = None,
    method: Annotated[str, options.choice("METHOD-OR-NONE", _METHOD)] = "maxent",
    seed: options.InferenceSeed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Compare a private clustering with k-means without privacy on the same records. NOT PRIVATE: do not publish it.

    Reads the records as the transcript says that they were read, charges nothing, and draws both kinds of centres.

    Example:
        recoup compare people.csv out/transcript.json -o comparison.png
    """
    from recoup._random import seed_for
    from recoup.algorithms.base import column_names
    from recoup.inference.infer import infer
    from recoup.report.sections.answer import answer_of, has_clusters
    from recoup.transcript.transcript import Transcript
    from recoup.without_privacy import WARNING, compare_with_exact, picture_of

    released, seed = Transcript.load(transcript), seed_for(seed)
    if not has_clusters(released):
        raise ParameterError("a comparison is of clusterings, and this transcript is of another algorithm.")
    picture, source = _picture_path(output), options.records(data, table)
    with Progress() as progress:
        read = None
        if method != "none":
            read = infer(released, method, random_state=seed, on_progress=progress.reached, warn=False)
        centers = answer_of(released, read, random_state=seed)
        if centers is None:
            raise ParameterError("the algorithm of this transcript gives no centres to compare.")
        compared = compare_with_exact(released, source, centers, seed=seed)
    drawn = io.BytesIO()
    picture_of(compared, released.context.domain).savefig(drawn, format=picture.suffix[1:].lower())
    write_whole(picture, drawn.getvalue())
    if as_json:
        out.print_json(
            statement=WARNING,
            columns=column_names(released.context.domain),
            private={"loss": compared.private_loss, "centers": compared.private_centers.tolist()},
            exact={"loss": compared.exact_loss, "centers": compared.exact_centers.tolist()},
            ratio=compared.ratio,
            adjusted_rand=compared.adjusted_rand,
            files=[str(picture)],
        )
    else:
        losses = [("private", compared.private_loss), ("k-means without privacy", compared.exact_loss)]
        rows = [[name, *tables.numbers([loss])] for name, loss in losses]
        tables.print_table("Loss of both, NOT PRIVATE", ["centres", "loss"], rows)
        out.say(
            f"The private loss is {_times(compared.ratio)} that of k-means without privacy: sums of squares of "
            f"clipped records, columns scaled. The adjusted Rand index of both labelings is "
            f"{compared.adjusted_rand:.3f}: 1 where they agree on all records, about 0 by chance."
        )
    out.say(f"Wrote {picture}.")
    out.say(f"{WARNING}. No ledger was charged.")


def _times(ratio: float) -> str:
    return f"{ratio:.3f} times" if isfinite(ratio) else "above zero, which is"


def _picture_path(output: Path) -> Path:
    """Where to draw: a name that says what it is, of a file that is not there yet."""
    if output.suffix.lower() not in (".png", ".svg"):
        raise ParameterError(f"{str(output)!r}: name the picture with -o, ending in .png or .svg.")
    picture = output if _MARK in output.stem else output.with_name(f"{output.stem}-{_MARK}{output.suffix}")
    if picture.exists():
        raise ParameterError(f"{str(picture)!r} exists: choose another name with -o.")
    options.writable_folder(picture.parent)
    return picture
