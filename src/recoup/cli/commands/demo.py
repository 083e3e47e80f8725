"""`recoup demo`: see a private clustering and its report at once, with no data of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recoup._files import write_whole
from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.errors import ParameterError

_CSV = "Only write a generated table here, to try the other commands on."


def demo(
    output: Annotated[Path, options.output(help="The folder for reports and pictures.")] = Path("recoup-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Of the generated tables and of the comparison.")] = 0,
    csv: Annotated[Path | None, options.in_output("--csv", help=_CSV)] = None,
    open_page: Annotated[bool, options.in_output("--open/--no-open", help="Open the comparison in a browser.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Cluster two generated tables privately; print a comparison, write a report of each and pictures.

    Takes less than a minute, downloads nothing. The releases use secure noise; the comparison looks at the data and so
    would not be published. For a table to try the other commands on:

        recoup demo --csv people.csv
    """
    if csv is not None:
        return _write_people(csv, seed, as_json)
    folder = options.writable_folder(output)
    out.say("Loading the kernels (the first run compiles them) ...")
    from recoup import demo as parts
    from recoup.report.write import write_report

    results, pictures, reports, files = [], [], [], list[Path]()
    generated = parts.tables(seed)
    for position, table in enumerate(generated, start=1):
        out.say(f"Table {position} of {len(generated)}: {table.name}, generated from seed {seed} ...")
        result = parts.compare(table, seed=seed)
        shown = parts.figures(result)
        for name, (_, png) in shown.items():
            files.append(folder / f"{name}.png")
            write_whole(files[-1], png)
        files.append(folder / f"{table.name.lower()}-transcript.json")
        release = result.release
        release.transcript_.save(files[-1])
        # From the release alone: the report never sees the table.
        reports.append(folder / parts.report_name(result))
        given = release.transcript_, release.cluster_centers_, release.inferred_
        write_report(reports[-1], *given, title=f"{table.name}, generated")
        results.append(result)
        pictures.append(shown)
    page = folder / "index.html"
    write_whole(page, parts.page(results, pictures))
    if as_json:
        compared = [
            {
                "name": result.table.name,
                "n_clusters": result.table.n_clusters,
                "scores": dict(result.scores),
                "released_score": result.released_score,
                "privacy": result.release.transcript_.privacy,
            }
            for result in results
        ]
        out.print_json(
            page=str(page),
            reports=[str(report) for report in reports],
            comparison=parts.COMPARISON_NOTE,
            epsilons=list(parts.EPSILONS),
            tables=compared,
            files=[str(path) for path in (*files, *reports, page)],
        )
    else:
        for result in results:
            tables.print_table(*parts.comparison(result))
        out.say(parts.COMPARISON_NOTE)
    for result in results:
        out.say(f"Released {result.table.name}: {out.privacy_sentence(result.release.transcript_.privacy)}")
    out.say(f"Transcripts and pictures are in {folder}; the comparison with access to the data is {page}.")
    out.say(f"Open the reports: {' and '.join(map(str, reports))}.")
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _write_people(path: Path, seed: int, as_json: bool) -> None:
    """Write the generated table that the documentation uses; a file that is there is somebody's table."""
    from recoup.demo import csv_of, people

    if path.suffix.lower() != ".csv":
        raise ParameterError(f"{str(path)!r}: name the table with --csv, ending in .csv.")
    if path.exists():
        raise ParameterError(f"{str(path)!r} exists: choose another name with --csv.")
    options.writable_folder(path.parent)
    table = people(seed)
    write_whole(path, csv_of(table))
    bounds = ",".join(f"{c}={a:g}:{b:g}" for c, a, b in zip(table.columns, table.low, table.high, strict=True))
    if as_json:
        return out.print_json(csv=str(path), bounds=bounds, n_clusters=table.n_clusters, files=[str(path)])
    out.say(f"Wrote {path}: {len(table.rows):,} generated people, with their age and their hours of work in a week.")
    options_given = ["-k", table.n_clusters, "--epsilon", 1, "--bounds", bounds, "-o", "out"]
    out.say_next(["recoup", "cluster", path, *options_given], "for example")
