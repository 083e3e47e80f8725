"""`recoup experiment`: the paper's evaluation, run again, with other methods and data sets beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recoup.cli import options
from recoup.cli.output import ExitCode
from recoup.errors import DataError, ParameterError
from recoup_lab.commands import PANEL

if TYPE_CHECKING:
    from fractions import Fraction

    from recoup_lab.experiments.runner import Plan

app = typer.Typer(no_args_is_help=True, add_completion=False)

_WHAT, _OUTPUT = "What to run", "Output"
# Written out, since the help must not import what it describes; a test holds them to the lists. An algorithm that the
# library learns follows them.
SET_NAMES = "s1, adult, tiger, image_house, gowalla, lifesci"
METHOD_NAMES = (
    "dpkm, avg2, consistency, mcmc, mcmc-noise, maxent, recoup, eugkm, hybrid, gupt, privgene, data-free, non-private"
)


@app.callback(rich_help_panel=PANEL)
def _experiments() -> None:
    """Compare methods on data sets; never private, and marked so."""


@app.command()
def paper(
    data: Annotated[
        Path | None,
        typer.Option(
            help="The folder with s1.csv.gz, adult.csv.gz, ...; without it, generated sets of the same sizes.",
            rich_help_panel=_WHAT,
            show_default=False,
        ),
    ] = None,
    sets: Annotated[
        str, typer.Option(help=f"From {SET_NAMES}, with commas.", metavar="NAMES", rich_help_panel=_WHAT)
    ] = "all",
    methods: Annotated[
        str, typer.Option(help=f"From {METHOD_NAMES}, with commas.", metavar="NAMES", rich_help_panel=_WHAT)
    ] = "all",
    metrics: Annotated[
        str,
        typer.Option(
            help="paper (on the unit L1 ball), user (on the records), or both.", metavar="NAMES", rich_help_panel=_WHAT
        ),
    ] = "paper,user",
    epsilons: Annotated[
        str, typer.Option(help="With commas between them.", metavar="NUMBERS", rich_help_panel=_WHAT)
    ] = "0.05,0.1,0.25,0.5,1",
    seeds: Annotated[int, typer.Option(min=1, help="How many; they are 0, 1, ...", rich_help_panel=_WHAT)] = 10,
    extend: Annotated[
        list[Path] | None,
        typer.Option(
            help="A Python file that adds methods or sets; may be repeated.",
            metavar="FILE",
            rich_help_panel=_WHAT,
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time.", rich_help_panel=_WHAT, show_default="all cores")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Run nothing: tables and figures of the runs in this CSV or Parquet file.",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for runs, tables and figures.", rich_help_panel=_OUTPUT)
    ] = Path("results"),
    as_json: options.AsJson = False,
) -> None:
    """Run the paper's evaluation: six sets, WCSS by epsilon, every method on the same seeds.

    NOT PRIVATE: noise is simulated, and scores are computed on the records. A run is kept as soon as it is finished:
    after an interruption the same command goes on where it stopped. Example:

        recoup experiment paper --data data/ --seeds 10 -o results/
    """
    from recoup.cli import output as out

    folder = options.writable_folder(output)
    out.say("Loading the kernels (the first run compiles them) ...")
    from recoup_lab.experiments.report import write_report
    from recoup_lab.experiments.results import read_results, write_results
    from recoup_lab.experiments.runner import WorkerDiedError, finished_runs, load_extension, run_experiment

    extensions = tuple(path.resolve() for path in extend or ())
    for path in extensions:
        load_extension(path)
    failures: tuple[Any, ...] = ()
    if from_file is not None:
        results = read_results(from_file)
        if not results:
            raise DataError(
                f"{str(from_file)!r} holds no finished run: there is nothing to make tables and figures of."
            )
        files = []
    else:
        plan = _plan(data, sets, methods, metrics, epsilons, seeds, extensions)
        _announce(plan)
        try:
            with _progress() as on_progress:
                outcome = run_experiment(plan, folder, n_processes=processes, on_progress=on_progress)
        except (KeyboardInterrupt, WorkerDiedError) as stopped:
            write_results(folder, finished_runs(folder))
            out.say(f"Stopped. Finished runs are in {folder}: the same command goes on from there.")
            if isinstance(stopped, WorkerDiedError):
                out.say(str(stopped))
                raise typer.Exit(ExitCode.FAILED) from None
            raise
        results, failures = list(outcome.results), outcome.failures
        files = write_results(folder, outcome.everything)
        out.say(f"{out.counted(len(results), 'run')}, {outcome.n_reused} of them from before.")
    panels, written = write_report(folder, results)
    files += written
    if as_json:
        out.print_json(**_as_json(panels, files, failures))
    else:
        _show(panels)
    out.say(f"Wrote {', '.join(path.name for path in files)} to {folder}.")
    if failures:
        _report_failures(failures)
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def rivals(
    data: Annotated[
        Path | None,
        typer.Option(help="The folder with s1.csv.gz, ...; without it, generated sets.", show_default=False),
    ] = None,
    mbi: Annotated[
        str | None,
        typer.Option(help="A Python that has opendp[mbi], for AIM and MST.", metavar="PYTHON", show_default=False),
    ] = None,
    diffprivlib: Annotated[
        str | None, typer.Option(help="A Python that has diffprivlib.", metavar="PYTHON", show_default=False)
    ] = None,
    sets: Annotated[
        str, typer.Option(help=f"From {SET_NAMES}, shop, blobs_16_4, blobs_16_16, with commas.", metavar="NAMES")
    ] = "all",
    epsilons: Annotated[str, typer.Option(help="With commas, in the order to run them.", metavar="NUMBERS")] = "1,0.25",
    seeds: Annotated[int, typer.Option(min=0, help="How many; 0: run nothing, write the page.")] = 20,
    limit: Annotated[float, typer.Option(min=1, help="Processor seconds of one fit of another system.")] = 120.0,
    again: Annotated[
        str, typer.Option(help="Contestants whose runs are forgotten first, with commas.", metavar="NAMES")
    ] = "",
    docs: Annotated[
        Path | None,
        typer.Option(help="Write comparison.md and its data in this folder from the runs.", show_default=False),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for the runs.", rich_help_panel=_OUTPUT)
    ] = Path("results"),
    as_json: options.AsJson = False,
) -> None:
    """Compare with others: AIM and MST then k-means, diffprivlib, EUGkM, hybrid, GUPT, PrivGene.

    NOT PRIVATE: scores are computed on the records. After an interruption the same command goes on where it
    stopped. Example:

        recoup experiment rivals --mbi .venv-mbi/bin/python --seeds 3 -o results/
    """
    from recoup.cli import output as out

    folder = options.writable_folder(output)
    out.say("Loading the kernels (the first run compiles them) ...")
    from recoup.privacy.price import as_fraction
    from recoup_lab.experiments.datasets import load
    from recoup_lab.rivals import page
    from recoup_lab.rivals.foreign import Foreign
    from recoup_lab.rivals.runs import forget, run_missing
    from recoup_lab.rivals.sets import compared_sets

    tables = [load(entry, data) for entry in _chosen("--sets", sets, compared_sets())]
    given = {"mbi": mbi, "diffprivlib": diffprivlib}
    environments: Any = {name: Foreign(python, folder, limit) for name, python in given.items() if python is not None}
    path = folder / "rivals.jsonl"
    forget(path, _words(again))
    prices = [as_fraction(word, "epsilon") for word in _words(epsilons)]
    known = [] if docs is None else page.outcomes(page.read(docs), tables)
    try:
        found = run_missing(path, tables, prices, seeds, environments, lambda run: out.say(run.in_words()), known)
    finally:
        for environment in environments.values():
            environment.close()
    files = [path, *(page.write(docs, found, tables) if docs is not None else ())]
    if as_json:
        out.print_json(runs=[asdict(run) for run in found], files=[str(file) for file in files])
    out.say(f"{out.counted(len(found), 'run')} in {', '.join(map(str, files))}.")


def _plan(
    data: Path | None, sets: str, methods: str, metrics: str, epsilons: str, seeds: int, extensions: tuple[Path, ...]
) -> Plan:
    from recoup_lab.experiments.datasets import SETS
    from recoup_lab.experiments.methods import known_methods
    from recoup_lab.experiments.run import METRICS
    from recoup_lab.experiments.runner import Plan

    return Plan(
        sets=_chosen("--sets", sets, SETS),
        methods=_chosen("--methods", methods, known_methods()),
        metrics=_chosen("--metrics", metrics, {name: name for name in METRICS}),
        epsilons=_epsilons(epsilons),
        n_seeds=seeds,
        data=None if data is None else data.resolve(),
        extensions=extensions,
    )


def _chosen(option: str, text: str, known: dict[Any, Any]) -> tuple[Any, ...]:
    names = list(known) if text.strip() == "all" else _words(text)
    for name in names:
        if name not in known:
            raise ParameterError(f"{option}: there is no {name!r}; choose from {', '.join(known)}.")
    return tuple(known[name] for name in dict.fromkeys(names))


def _epsilons(text: str) -> tuple[Fraction, ...]:
    from recoup.privacy.price import as_fraction

    return tuple(sorted({as_fraction(word, "epsilon") for word in _words(text)}))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _announce(plan: Plan) -> None:
    from recoup.cli import output as out
    from recoup_lab.experiments.datasets import check_folder

    if plan.data is None:
        out.say("No --data folder: every set is generated, with the size of the paper's set and not its records.")
        return
    for sentence in check_folder(plan.sets, plan.data):
        out.say(sentence)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar with the remaining time on a terminal; elsewhere a line for every tenth."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("runs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
    )
    # Sets differ in what they cost, so the speed is taken over minutes.
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=240.0) as bar:
        task = bar.add_task("runs", total=None)
        started: list[int] = []

        def show(n_finished: int, n_runs: int) -> None:
            if not started:
                # What was finished before says nothing about the speed of now.
                bar.reset(task, total=n_runs, completed=n_finished)
                started.append(n_finished)
            bar.update(task, completed=n_finished)

        yield show


def _lines() -> Callable[[int, int], None]:
    import time

    from recoup.cli import output as out

    start, first, shown = time.monotonic(), [-1], [-1]

    def show(n_finished: int, n_runs: int) -> None:
        first[0] = n_finished if first[0] < 0 else first[0]
        tenth = 10 * n_finished // max(n_runs, 1)
        if tenth == shown[0]:
            return
        shown[0] = tenth
        text = f"{n_finished} of {n_runs} runs"
        if n_finished > first[0]:
            left = (time.monotonic() - start) / (n_finished - first[0]) * (n_runs - n_finished)
            text += f", about {left / 60:.1f} minutes left"
        out.say(text)

    return show


def _show(panels: list[Any]) -> None:
    from recoup.cli import output as out
    from recoup.cli.tables import print_table
    from recoup_lab.experiments.report import NOTE, tables

    for _, table in tables(panels):
        marked = [
            [f"*{cell}" if position == best else cell for position, cell in enumerate(row)]
            for row, best in zip(table.rows, table.best, strict=True)
        ]
        print_table(table.title, table.header, marked)
        if table.note:
            out.say(table.note)
    out.say(f"{NOTE} The best private method of a line has a star.")


def _as_json(panels: list[Any], files: list[Path], failures: tuple[Any, ...]) -> dict[str, Any]:
    from recoup_lab.experiments.report import as_json

    return as_json(panels) | {
        "files": [str(path) for path in files],
        "failed": [{"run": failure.what, "why": failure.why} for failure in failures],
    }


def _report_failures(failures: tuple[Any, ...]) -> None:
    from recoup.cli import output as out

    for failure in failures[:5]:
        out.say(f"Failed: {failure.what}: {failure.why}")
        if os.environ.get("RECOUP_DEBUG"):
            out.say(failure.trace)
    out.say(
        f"{out.counted(len(failures), 'run')} failed; the same command tries again. RECOUP_DEBUG=1 shows where, and "
        "may show records."
    )
