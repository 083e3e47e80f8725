"""`recoup incomplete`: count the records that a fit leaves out, within a budget of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.cli.settings import ConfigFile, read_columns
from recoup.errors import TranscriptError


def incomplete(
    data: options.DataPath,
    epsilon: options.Epsilon,
    bounds: options.Bounds = None,
    table: options.TableName = None,
    output: Annotated[Path | None, options.output(help="Where to keep the transcript.", show_default=False)] = None,
    delta: options.Delta = "0",
    ledger: options.LedgerPath = None,
    purpose: options.Purpose = "",
    person: options.Person = None,
    records_per_person: options.RecordsPerPerson = 1,
    csv_dialect: options.CsvDialect = options.CsvDialectName.rfc4180,
    simulated_noise: options.SimulatedNoise = False,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
    config_file: ConfigFile = None,
) -> None:
    """Count, with noise, the records that a fit with these bounds leaves out because a cell is missing or undeclared.

    With --person it counts persons, and those are left out who have no complete record. Example:

        recoup incomplete visits.csv --bounds schema.toml --person patient_id --epsilon 0.05
    """
    from recoup.incomplete import count_incomplete
    from recoup.report.html import settled

    if output is not None:
        options.output_file(output, "transcript")
        if output.exists():
            raise TranscriptError(f"{str(output)!r} exists and may have been paid for: choose another path with -o.")
    counted = count_incomplete(
        options.records(data, table),
        read_columns(bounds).for_domain("auto"),
        *options.read_budget(epsilon, delta),
        person=person,
        records_per_person=records_per_person,
        ledger=options.existing_ledger(ledger),
        csv_dialect=csv_dialect.value,
        random_state=seed,
        noise="simulated" if simulated_noise else "secure",
        path=output,
        purpose=purpose,
    )
    if not as_json:
        who, marked = "persons" if person is not None else "records", out.mark(counted.privacy)
        noisy = {f"{who} used": counted.used, f"{who} left out": counted.left_out}
        noisy["either may be off by (90%)"] = counted.error
        rows = [[what, settled(number, counted.error / 4.0)] for what, number in noisy.items()]
        rows.append(["share left out", f"{counted.share:.1%}"])
        tables.print_table(marked or "Noisy counts", ["", "number"], rows)
    out.say(out.privacy_sentence(counted.privacy))
    if as_json:
        numbers = {"used": counted.used, "left_out": counted.left_out, "error": counted.error, "share": counted.share}
        out.print_json(**numbers, privacy=counted.privacy, transcript=None if output is None else str(output))
