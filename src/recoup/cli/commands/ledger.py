"""`recoup ledger`: make a budget, say for whom it counts, look at it, export it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from recoup._files import write_whole
from recoup.cli import options, tables
from recoup.cli import output as out
from recoup.errors import LedgerError

if TYPE_CHECKING:
    from recoup.privacy.ledger import Ledger
    from recoup.privacy.ledger_file import Entry
    from recoup.privacy.ledger_releases import Release

app = typer.Typer(help="Make a privacy budget, see what was spent, export it.", no_args_is_help=True)


UnitKind = StrEnum("UnitKind", ["record", "line"])
AccountingName = StrEnum("AccountingName", ["gaussian", "zcdp"])
_FOR_WHOM = "For whom it counts: how many records one person may hold. By default as the first release."
_SMALLEST = "How many records one person may hold: the smallest that any release charged so far had."
_PRINTED = "Print it on standard output, also when it is written."
_ACCOUNTING = "In what charges are added up if there is a delta: gaussian is exact for Gaussian noise."
_KIND = "What is counted: line where CSV is read by lines that are not records."
_PERSON = "The column that names persons, where one does: they are counted instead."
LedgerFile = Annotated[Path, typer.Argument(help="The ledger's file.", metavar="PATH")]


@app.command()
def create(
    path: LedgerFile,
    epsilon: options.Epsilon,
    delta: options.Delta = "0",
    records_per_person: Annotated[int | None, typer.Option(help=_FOR_WHOM)] = None,
    accounting: Annotated[AccountingName, typer.Option(help=_ACCOUNTING)] = AccountingName.gaussian,
    as_json: options.AsJson = False,
) -> None:
    """Create a ledger with a budget; a file that exists is never touched.

    With a delta it also takes Gaussian noise. Example:

        recoup ledger create budget.db --epsilon 3
    """
    from recoup.privacy.ledger import Ledger

    budget = options.read_budget(epsilon, delta)
    if path.exists():
        look = f"recoup ledger show {shlex.quote(str(path))}"
        raise LedgerError(f"{str(path)!r} exists already. Look at it with: {look}; or choose another name.")
    options.writable_folder(path.parent)
    counted: Any = {"records_per_person": records_per_person, "accounting": accounting.value}
    _show(Ledger.create(path, epsilon=budget[0], delta=budget[1], **counted), as_json)


@app.command()
def declare(
    path: LedgerFile,
    records_per_person: Annotated[int, typer.Option(help=_SMALLEST)],
    kind: Annotated[UnitKind, typer.Option(help=_KIND)] = UnitKind.record,
    person: Annotated[str | None, typer.Option(help=_PERSON, metavar="COLUMN")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Say, once, for whom a ledger counts that an earlier version made.

    Example: recoup ledger declare budget.db --records-per-person 1
    """
    ledger = _existing(path)
    ledger.declare(records_per_person=records_per_person, kind=cast(Any, kind.value), person=person)
    _show(ledger, as_json)


@app.command()
def show(
    path: LedgerFile,
    rounds: Annotated[bool, typer.Option("--rounds", help="Show every charge, too.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show every release, what is spent and what is left.

    Example: recoup ledger show budget.db
    """
    _show(_existing(path), as_json, rounds=rounds)


@app.command()
def export(
    path: LedgerFile,
    output: Annotated[Path | None, options.output(help="Write here instead of standard output.")] = None,
    as_json: Annotated[bool, options.in_output("--json", help=_PRINTED)] = False,
) -> None:
    """Export the whole ledger as JSON, with exact fractions.

    Example: recoup ledger export budget.db -o budget.json
    """
    value, more = _existing(path).export(), {"files": [] if output is None else [str(output)]}
    if output is not None:
        options.writable_folder(output.parent)
        options.free_output(output, path)
        write_whole(output, out.json_text(value))
        out.say(f"Wrote {output}.")
    if output is None or as_json:
        out.print_json(**(value | more if as_json else value))


def _existing(path: Path) -> Ledger:
    from recoup.privacy.ledger import Ledger

    options.existing_ledger(path)
    return Ledger(path)


def _show(ledger: Ledger, as_json: bool, *, rounds: bool = False) -> None:
    releases = ledger.releases()
    entries = sorted((entry for release in releases for entry in release.entries), key=lambda entry: entry.id)
    spent = entries[-1].spent_after if entries else 0
    epsilon, delta, unit = ledger.epsilon, ledger.delta, ledger.unit
    if as_json:
        return out.print_json(
            path=str(ledger.path),
            identifier=ledger.identifier,
            unit=None if unit is None else unit.to_json(),
            epsilon=float(epsilon),
            delta=float(delta),
            accounting=ledger.accounting,
            spent=float(spent),
            left=float(epsilon - spent),
            entries=[
                e._asdict()
                | {"amount": float(e.amount), "spent_after": float(e.spent_after)}
                | {"unit": None if e.unit is None else e.unit.to_json()}
                for e in entries
            ],
            releases=[
                {name: getattr(release, name) for name in ("run", "time", "purpose", "by")}
                | {"epsilon": float(release.epsilon), "spent_after": float(release.spent_after)}
                | {"entries": [entry.id for entry in release.entries]}
                for release in releases
            ],
        )
    whose = f"for {unit or 'the unit of its first release'}; identifier {ledger.identifier}"
    if ledger.identifier is None:
        whose = "for a unit that was not declared (recoup ledger declare)"
    left = f"spent {float(spent):.6g}, left {round(float(epsilon - spent), 12):.6g}"
    adds = " (added up in zCDP)" if delta and ledger.accounting == "zcdp" else ""
    path = min(str(ledger.path), os.path.relpath(str(ledger.path)), key=len)
    title = f"{path}: epsilon {float(epsilon):g}, delta {float(delta):g}{adds}; {left}; {whose}"
    if not releases:
        sys.stdout.write(tables.wrapped(title, tables.width_of(sys.stdout)) + "\n")
        return
    rows = [
        [r.time, r.by or "-", str(len(r.entries)), *tables.numbers((float(r.epsilon), float(r.spent_after))), _for(r)]
        for r in releases
    ]
    tables.print_table(title, ["day", "by", "rounds", "epsilon", "spent after", "purpose"], rows, left=2, wrap=True)
    if any(entry.measure != "pure" for entry in entries):
        out.say("Each epsilon is that of a release by itself; with Gaussian noise all together are worth less.")
    if rounds and entries:
        _show_rounds(ledger, entries)


def _for(release: Release) -> str:
    """What a release is for; one with simulated noise is marked."""
    from recoup.privacy.statement import NOT_PRIVATE

    marked = any(entry.purpose.startswith(NOT_PRIVATE) for entry in release.entries)
    purpose = release.purpose or "(not given)"
    return f"{NOT_PRIVATE}; {purpose}" if marked and NOT_PRIVATE not in purpose else purpose


def _show_rounds(ledger: Ledger, entries: Sequence[Entry]) -> None:
    """Print every charge; in what, and how often the ledger counts it, where that is not the same for all."""
    unit = ledger.unit
    times = [1 if unit is None or e.unit is None else unit.times(e.unit, e.measure) for e in entries]
    columns = {"#": [str(e.id) for e in entries], "run": [e.run[:8] for e in entries]}
    if len({e.measure for e in entries}) > 1:
        columns["measure"] = [e.measure for e in entries]
    n_words = len(columns)
    columns["amount"] = tables.numbers(float(e.amount) for e in entries)
    if set(times) != {1}:
        columns["counted"] = [f"{n} x" for n in times]
    columns["spent after"] = tables.numbers(float(e.spent_after) for e in entries)
    columns["query"] = [e.purpose for e in entries]
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    title = "Rounds" if "measure" in columns else f"Rounds, in {entries[0].measure} prices"
    tables.print_table(title, list(columns), rows, left=n_words, wrap=True)
