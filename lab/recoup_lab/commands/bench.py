"""`recoup bench`: how fast it is on this machine, as ratios within one run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from recoup.cli import options
from recoup_lab.commands import PANEL

_OUTPUT = "Output"

app = typer.Typer(add_completion=False)


class Which(StrEnum):
    """The parts of the benchmark, and all of them."""

    whole = "whole"
    release = "release"
    inference = "inference"
    streaming = "streaming"
    persons = "persons"
    databases = "databases"
    spark = "spark"
    all = "all"


@app.command(rich_help_panel=PANEL, short_help="Measure speed and memory on generated records.")
def bench(
    part: Annotated[Which, typer.Argument(help="What to measure.")] = Which.all,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: about a minute instead of many.")] = False,
    diffprivlib: Annotated[
        str | None,
        typer.Option(
            help="A Python that has diffprivlib, which needs an older scikit-learn. Without it, not measured.",
            metavar="PYTHON",
            show_default=False,
        ),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            help="A Python that has scikit-learn-intelex and faiss-cpu. Without it, not measured.",
            metavar="PYTHON",
            show_default=False,
        ),
    ] = None,
    max_records: Annotated[
        int | None,
        typer.Option(
            min=10_000,
            help="No race on more records; where memory or time is short.",
            metavar="N",
            show_default="up to 10 million, 20 million in files",
        ),
    ] = None,
    one_core: Annotated[
        bool,
        typer.Option(
            "--one-core", help="One thread and processor seconds for everyone: for a machine that has other work, too."
        ),
    ] = False,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The folder for results, pages and picture; what it holds of other parts stays.",
            rich_help_panel=_OUTPUT,
        ),
    ] = Path("recoup-bench"),
    as_json: options.AsJson = False,
) -> None:
    """Measure speed and memory on generated records, beside other libraries.

    Everything that is compared takes turns, so that a busy machine hinders all alike. Example:

        recoup bench --quick
    """
    from recoup.cli import output as out
    from recoup.cli.tables import print_table

    folder = options.writable_folder(output)
    out.say("Loading the kernels (the first run compiles them) ...")
    from recoup_lab.bench.performance import write_pages
    from recoup_lab.bench.results import PARTS
    from recoup_lab.bench.rules import Rules
    from recoup_lab.bench.run import run_parts
    from recoup_lab.bench.tables import cluster_tables, machine_sentence, tables_of

    names = PARTS if part is Which.all else tuple(name for name in PARTS if name == part.value)
    measured, files = [], list[Path]()
    rules = Rules(quick=quick, max_records=max_records, one_core=one_core, say=out.say)
    for found in run_parts(names, rules, diffprivlib=diffprivlib, peers=peers):
        measured.append(found)
        # Part by part, so that an interruption loses one part at most.
        _, files = write_pages(folder, [found])
    if as_json:
        files_written = [str(path) for path in files]
        out.print_json(parts=[found.to_json() for found in measured], files=files_written)
    else:
        for found in measured:
            out.say(machine_sentence(found))
            for table in tables_of(found) + (cluster_tables(found) if found.name == "spark" else []):
                print_table(table.title, table.header, table.rows, left=table.left)
                if table.note:
                    out.say(table.note)
            for note in found.notes:
                out.say(note)
    out.say(f"Wrote {', '.join(path.name for path in files)} to {folder}.")
