"""`recoup demo`: see a private clustering and its report at once, with no data of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recoup._files import write_whole
from recoup.cli import options
from recoup.cli import output as out

if TYPE_CHECKING:
    from recoup.demo import TableResult


def demo(
    output: Annotated[Path, options.output(help="The folder for reports and pictures.")] = Path("recoup-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Of the generated tables and of the comparison.")] = 0,
    open_page: Annotated[bool, options.in_output("--open/--no-open", help="Open the comparison in a browser.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Cluster two generated tables privately; print a comparison, write a report of each and pictures.

    Takes less than a minute, downloads nothing. The releases use secure noise; the comparison looks at the data and so
    would not be published.
    """
    folder = options.writable_folder(output)
    out.say("Loading the kernels (the first run compiles them) ...")
    from recoup import demo as parts
    from recoup import demo_page
    from recoup.report.write import write_report

    results, pictures, reports, files = [], [], [], list[Path]()
    tables = parts.tables(seed)
    for position, table in enumerate(tables, start=1):
        out.say(f"Table {position} of {len(tables)}: {table.name}, generated from seed {seed} ...")
        result = parts.compare(table, seed=seed)
        shown = parts.figures(result)
        for name, (_, png) in shown.items():
            files.append(folder / f"{name}.png")
            write_whole(files[-1], png)
        files.append(folder / f"{table.name.lower()}-transcript.json")
        result.transcript.save(files[-1])
        # From the release alone: the report never sees the table.
        reports.append(folder / parts.report_name(result))
        write_report(reports[-1], result.transcript, result.released, result.inferred, title=f"{table.name}, generated")
        results.append(result)
        pictures.append(shown)
    page = folder / "index.html"
    write_whole(page, demo_page.page(results, pictures))
    if as_json:
        out.print_json(_as_json(results, page, reports, [*files, *reports, page]))
    else:
        _show(results)
    for result in results:
        out.say(f"Released {result.table.name}: {out.privacy_sentence(result.transcript.privacy)}")
    out.say(f"Transcripts and pictures are in {folder}; the comparison with access to the data is {page}.")
    out.say(f"Open the reports: {' and '.join(str(report) for report in reports)}.")
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _show(results: list[TableResult]) -> None:
    from recoup.demo import COMPARISON_NOTE
    from recoup.demo_page import comparison

    for result in results:
        out.print_table(*comparison(result))
    out.say(COMPARISON_NOTE)


def _as_json(results: list[TableResult], page: Path, reports: list[Path], files: list[Path]) -> dict[str, Any]:
    from recoup.demo import COMPARISON_NOTE, EPSILONS

    return {
        "page": str(page),
        "reports": [str(report) for report in reports],
        "comparison": COMPARISON_NOTE,
        "epsilons": list(EPSILONS),
        "tables": [
            {
                "name": result.table.name,
                "n_clusters": result.table.n_clusters,
                "scores": dict(result.rows()),
                "released_score": result.released_score,
                "privacy": result.transcript.privacy,
            }
            for result in results
        ],
        "files": [str(path) for path in files],
    }
