"""`recoup bounds`: find bounds that nobody knows, within a budget of their own, and write them as a schema."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.cli.settings import ConfigFile
from recoup.errors import ParameterError, TranscriptError
from recoup.report.html import listed

if TYPE_CHECKING:
    from recoup.found_bounds import FoundBounds

_DATA = "CSV, Parquet or Arrow, a file or a folder; the address of a database; or the transcript of an earlier run "
_DATA += "(.json), which costs nothing."
_COLUMNS = "Names of the columns of numbers, with commas between them; the budget is shared by all of them."
_EPSILON = "The privacy budget; needed, as --columns is, unless a transcript is read."
_SUGGESTED = "Write only the schema with logarithmic scales where they are suggested."


def bounds(
    data: Annotated[Path, typer.Argument(help=_DATA, metavar="DATA", parser=options.data_path)],
    columns: Annotated[str | None, typer.Option("--columns", help=_COLUMNS, metavar="NAMES")] = None,
    epsilon: Annotated[str | None, options.in_privacy(help=_EPSILON, metavar="NUMBER")] = None,
    output: Annotated[Path, options.output(help="The schema to write, .toml or .json.")] = Path("schema.toml"),
    table: options.TableName = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    purpose: options.Purpose = "",
    person: Annotated[str | None, options.in_privacy(help="The column that names persons.")] = None,
    records_per_person: options.RecordsPerPerson = 1,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    simulated_noise: options.SimulatedNoise = False,
    seed: options.Seed = None,
    suggested: Annotated[bool, options.in_output("--suggested", help=_SUGGESTED)] = False,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Find bounds from noisy counts, and write a schema that --bounds reads; the transcript is kept beside it.

    Where a logarithmic scale is suggested, a second schema has it. Records that are too few to be told from noise are
    left outside. Example:

        recoup bounds people.csv --columns age,hours --epsilon 0.1 -o schema.toml
    """
    given, is_file = locals(), isinstance(data, Path)
    if output.suffix.lower() not in (".toml", ".json"):
        raise ParameterError(f"{str(output)!r}: name the schema with -o, ending in .toml or .json.")
    # Whatever cannot be kept is refused before it is paid for.
    options.writable_folder(output.parent)
    second = output.with_name(f"{output.stem}.suggested{output.suffix}")
    for path in (output, second):
        options.free_output(path, data if is_file else None, ledger)
    paid = is_file and data.suffix.lower() == ".json" and not data.is_dir()
    found, files = _read(given) if paid else _found(given)
    logs = [name for name, column in found.suggested.items() if column != found[name]]
    schema = found.suggested if suggested else found
    written = {output: schema} | ({second: found.suggested} if logs and not suggested else {})
    for path, each in written.items():
        each.save(path)
    files = [*map(str, written), *files]
    if not as_json:
        marked = out.mark(found.privacy)
        title = f"Bounds, {marked}" if marked else f"{out.counted(len(found), 'column')}, bounds from noisy counts"
        rows = [[name, f"{c.low:.6g}", f"{c.high:.6g}", str(c.scale)] for name, c in schema.items()]  # type: ignore[union-attr]
        tables.print_table(title, ["column", "low", "high", "scale"], rows)
    out.say(f"Wrote {listed(files)}.")
    out.say(out.privacy_sentence(found.privacy))
    if found.not_found:
        unknown = f"{', '.join(map(repr, found.not_found))}, or it is no column of numbers"
        out.say(f"Nothing can be told from noise in {unknown}: -1 to 1 says nothing. Declare bounds, or spend more.")
    if second in written:
        names = ", ".join(map(repr, logs))
        out.say(f"A logarithmic scale is suggested for {names}: {str(second)!r} has it, and using that costs nothing.")
    if as_json:
        return out.print_json(
            columns=schema.to_json(),
            suggested=found.suggested.to_json(),
            not_found=list(found.not_found),
            privacy=found.privacy,
            files=files,
        )
    if not paid:
        named = [] if table is None else ["--table", table]
        more = ["-k", "3", "--epsilon", "1", "--bounds", output, "-o", "out"]
        out.say_next(["recoup", "cluster", data, *named, *more], "for example")


def _read(given: dict[str, Any]) -> tuple[FoundBounds, list[str]]:
    """The bounds of a transcript, and the files that were written: none."""
    from recoup.found_bounds import FoundBounds

    paid = [f"--{name}" for name in ("columns", "epsilon", "ledger", "person", "table") if given[name] is not None]
    if paid:
        raise ParameterError(f"{str(given['data'])!r} was paid for, and is read for free: leave out {paid[0]}.")
    return FoundBounds.load(given["data"]), []


def _found(given: dict[str, Any]) -> tuple[FoundBounds, list[str]]:
    """The bounds of a table, for a part of its budget, and where their transcript was written."""
    from recoup.found_bounds import find_bounds

    for name in ("columns", "epsilon"):
        if given[name] is None:
            raise ParameterError(f"--{name} is missing: bounds of a table are paid for, column by column.")
    budget = options.read_budget(given["epsilon"], given["delta"])
    path = given["output"].with_name(f"{given['output'].stem}.transcript.json")
    if path.exists():
        free = f"recoup bounds {shlex.quote(str(path))}"
        raise TranscriptError(
            f"{str(path)!r} exists and was paid for: read it for free with `{free}`, or choose another name with -o."
        )
    found = find_bounds(
        options.records(given["data"], given["table"]),
        [name.strip() for name in given["columns"].split(",")],
        *budget,
        person=given["person"],
        records_per_person=given["records_per_person"],
        ledger=options.existing_ledger(given["ledger"]),
        csv_dialect=given["csv_dialect"].value,
        random_state=given["seed"],
        noise="simulated" if given["simulated_noise"] else "secure",
        path=path,
        purpose=given["purpose"],
    )
    return found, [str(path)]
