"""`recoup bounds`: find bounds that nobody knows, within a budget of their own, and write them as a schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recoup.cli import options
from recoup.cli import output as out
from recoup.cli.settings import ConfigFile
from recoup.errors import ParameterError, TranscriptError

_COLUMNS = "Names of the columns of numbers, with commas between them; the budget is shared by all of them."
_SUGGESTED = "Write logarithmic scales where they are suggested; else all scales are linear."


def bounds(
    data: options.DataPath,
    columns: Annotated[str, typer.Option("--columns", help=_COLUMNS, metavar="NAMES")],
    epsilon: options.Epsilon,
    output: Annotated[Path, options.output(help="The schema to write, .toml or .json.")] = Path("schema.toml"),
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
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

    Records that are too few to be told from noise are left outside. Example:

        recoup bounds people.csv --columns age,hours --epsilon 0.1 -o schema.toml
    """
    from recoup.found_bounds import find_bounds

    budget = options.read_budget(epsilon, delta)
    if output.suffix.lower() not in (".toml", ".json"):
        raise ParameterError(f"{str(output)!r}: name the schema with -o, ending in .toml or .json.")
    # Whatever cannot be kept is refused before it is paid for.
    options.writable_folder(output.parent)
    options.free_output(output, data, ledger)
    transcript_path = output.with_name(f"{output.stem}.transcript.json")
    if transcript_path.exists():
        raise TranscriptError(f"{str(transcript_path)!r} exists and was paid for: choose another name with -o.")
    found = find_bounds(
        data,
        [name.strip() for name in columns.split(",")],
        *budget,
        person=person,
        records_per_person=records_per_person,
        ledger=options.existing_ledger(ledger),
        csv_dialect=csv_dialect.value,
        random_state=seed,
        noise="simulated" if simulated_noise else "secure",
        path=transcript_path,
    )
    schema = found.suggested if suggested else found
    schema.save(output)
    files = [str(output), str(transcript_path)]
    out.say(f"Wrote {' and '.join(files)}.")
    out.say(out.privacy_sentence(found.privacy))
    logs = [name for name, column in found.suggested.items() if column != found[name]]
    if found.not_found:
        unknown = ", ".join(map(repr, found.not_found))
        out.say(f"Nothing can be told from noise in {unknown}: -1 to 1 says nothing. Declare bounds, or spend more.")
    if logs and not suggested:
        out.say(f"A logarithmic scale is suggested for {', '.join(map(repr, logs))}: write it with --suggested.")
    if as_json:
        return out.print_json(
            columns=schema.to_json(),
            suggested=found.suggested.to_json(),
            not_found=list(found.not_found),
            privacy=found.privacy,
            files=files,
        )
    marked = out.mark(found.privacy)
    title = f"Bounds, {marked}" if marked else f"{out.counted(len(found), 'column')}, bounds from noisy counts"
    header = ["column", "low", "high", "scale"]
    rows = [[name, f"{c.low:.6g}", f"{c.high:.6g}", str(c.scale)] for name, c in schema.items()]  # type: ignore[union-attr]
    out.print_table(title, header, rows)
