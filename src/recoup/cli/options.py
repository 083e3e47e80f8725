"""Options that commands share, how what people type becomes values, and which files a command may write.

Numbers of a budget stay text until they are read exactly: 0.1 means one tenth, not the float next to it. Choices that a
program can add to (algorithms, ways to infer) are read from their registries when a command is used, not before.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recoup.cli.output import RefusedBySystemError
from recoup.errors import LedgerError, ParameterError, TranscriptError

if TYPE_CHECKING:
    from recoup.algorithms.base import Algorithm
    from recoup.domain import Domain
    from recoup.schema import Schema
    from recoup.transcript.context import Context

_BOUNDS_HELP = (
    "Public bounds of each column to use: [b]age=17:90,hours=1:99[/b], or a TOML or JSON file with "
    "[b]age = \\[17, 90][/b], or with low, high, unit, scale, missing and weight by column, or the values of a "
    "category. Never computed from the data."
)
_DATA_HELP = "CSV, Parquet or Arrow, a file or a folder; or the address of a database"
_TABLE_HELP = (
    "The table or view of a database, such as postgresql:///clinic, sqlite:///clinic.db or duckdb:///f.duckdb."
)
_PURPOSE_HELP = "What the release is for: the ledger keeps it, with your login or RECOUP_USER. Both are public."
_PERSON_HELP = "The column that names persons: all records of one are hidden together."
_PER_PERSON_HELP = "mean (by default) makes one row of a person's records; sample keeps --records-per-person of them."
_DIALECT_HELP = "How a CSV file was written: rfc4180 quotes text; lines does not, and promises privacy to a line."
_SIMULATED_HELP = "Seeded noise for experiments: the result is NOT PRIVATE."
_DOMAIN_HELP = "auto and box leave records as they are; l1 is the paper's unit ball; l2."
_TRANSCRIBED_HELP = (
    "auto is adaptive, or lloyd with --rounds; lloyd (DP-KMEANS); grid (EUGkM); or hybrid (grid, then lloyd)."
)
_RESUME_HELP = "After an interruption: continue the transcript, which must exist, and pay only for what is missing."
_LEDGER_START = b"SQLite format 3\0"
_TRANSCRIPT_MARK = b'"recoup-transcript"'  # written out, since the help must not import it; a test holds it to that

PerPersonName = StrEnum("PerPersonName", ["mean", "sample"])
DomainName = StrEnum("DomainName", ["auto", "box", "l1", "l2"])
CsvDialectName = StrEnum("CsvDialectName", ["rfc4180", "lines"])
TargetScaleName = StrEnum("TargetScaleName", ["auto", "one", "noise"])
CorrectionName = StrEnum("CorrectionName", ["component", "mixture"])
# An option in one of the panels of a help.
in_privacy = partial(typer.Option, rich_help_panel="Privacy")
in_run = partial(typer.Option, rich_help_panel="Algorithm")
in_output = partial(typer.Option, rich_help_panel="Output")
output = partial(in_output, "--output", "-o")


# ---- choices ----
# By the placeholder that stands for them in the declaration of an option; help shows the choices themselves.
_CHOICES = {
    "TRANSCRIBED": ("auto", "algorithms"),
    "ALGORITHM": ("auto", "algorithms", "rivals"),
    "METHOD": ("methods",),
    "POSTPROCESS": ("auto", "methods", "none"),
    "METHOD-OR-NONE": ("methods", "none"),
}


def choices(placeholder: str | None) -> tuple[str, ...]:
    """The choices that a placeholder stands for now; none for any other text."""
    return tuple(name for part in _CHOICES.get(placeholder or "", ()) for name in _held(part))


def _held(part: str) -> Iterable[str]:
    match part:
        case "algorithms":
            from recoup.algorithms.registry import choices as registered

            return registered("kmeans")
        case "rivals":
            from recoup.curator.rivals import RIVALS

            return RIVALS
        case "methods":
            from recoup.inference.infer import METHODS

            return METHODS
        case _:
            return (part,)


def choice(placeholder: str, help: str) -> Any:
    """An option whose value is one of the names that a registry holds when the command is used."""

    def chosen(text: str) -> str:
        names = choices(placeholder)
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, names))}.")
        return text

    def completed(incomplete: str) -> list[str]:
        return [name for name in choices(placeholder) if name.startswith(incomplete)]

    return in_run(help=help, metavar=placeholder, parser=chosen, autocompletion=completed)


# ---- options ----
def data_path(text: str) -> Path | str:
    """Where the records are: a path, or the address of a database, in which slashes must stay as they are."""
    if not text:
        raise typer.BadParameter("the path is empty; . is the current folder.")
    return text if "://" in text else Path(text)


def is_url(data: object) -> bool:
    """Whether the records are served by somebody else, at an address."""
    return isinstance(data, str) and data.lower().startswith(("http://", "https://"))


def records(data: Path | str, table: str | None, *, served: bool = False) -> Any:
    """What a command reads: a file or a folder, the table of a database that was named, or what a curator serves.

    The token for a curator is in the environment, since anybody sees the words of a command.
    """
    if isinstance(data, Path) or (served and is_url(data)):
        if table is not None:
            where = f"{str(data)!r} is a path" if isinstance(data, Path) else "a curator serves one table"
            raise ParameterError(f"--table: {where}, and only a database has tables. Leave it out.")
        if isinstance(data, Path):
            return data
        from recoup.remote.table import connect

        return connect(data)
    if table is None:
        # Without the address: it may hold a password.
        raise ParameterError("the data are an address: name a table of that database with --table.")
    from recoup.curator.tables.database import Table

    return Table(data, table)


# A path, or the text of an address.
DataPath = Annotated[Path, typer.Argument(help=f"{_DATA_HELP}.", metavar="DATA", parser=data_path)]
DataOrCurator = Annotated[
    Path,
    typer.Argument(help=f"{_DATA_HELP}; or https://..., where a curator serves.", metavar="DATA", parser=data_path),
]
TableName = Annotated[str | None, typer.Option("--table", help=_TABLE_HELP, metavar="NAME", show_default=False)]
Clusters = Annotated[int, typer.Option("--clusters", "-k", help="How many clusters.")]
Epsilon = Annotated[str, in_privacy(help="The privacy budget.", metavar="NUMBER")]
Delta = Annotated[str, in_privacy(help="0: pure epsilon. Above 0 allows Gaussian noise.", metavar="NUMBER")]
Bounds = Annotated[str | None, in_privacy(help=_BOUNDS_HELP, metavar="BOUNDS")]
Purpose = Annotated[str, in_privacy("--purpose", help=_PURPOSE_HELP, metavar="TEXT", show_default=False)]
LedgerPath = Annotated[Path | None, in_privacy("--ledger", help="Charge this ledger before every answer.")]
RecordsPerPerson = Annotated[int, in_privacy(help="How many records one person may hold.")]
Person = Annotated[str | None, in_privacy("--person", help=_PERSON_HELP, metavar="COLUMN")]
PerPerson = Annotated[PerPersonName | None, in_privacy("--per-person", help=_PER_PERSON_HELP)]
CsvDialect = Annotated[CsvDialectName, in_privacy("--csv-dialect", help=_DIALECT_HELP)]
SimulatedNoise = Annotated[bool, in_privacy("--simulated-noise", help=_SIMULATED_HELP)]
DomainOption = Annotated[DomainName, in_run("--domain", help=_DOMAIN_HELP)]
DeclaredRecords = Annotated[int | None, in_run("--n-records", help="A public guess of their number.")]
TranscribedAlgorithm = Annotated[str, choice("TRANSCRIBED", _TRANSCRIBED_HELP)]
LloydRounds = Annotated[int | None, in_run(help="How many rounds of lloyd (by default 5).")]
Seed = Annotated[int | None, in_run(min=0, help="For initial centres and the like; it never reaches secure noise.")]
# Fixed by default: the same transcript then gives the same answer every time.
InferenceSeed = Annotated[int, in_run(min=0, help="Of inference and refit.")]
TranscriptOutput = Annotated[Path, output(help="The transcript to write.")]
AsJson = Annotated[bool, in_output("--json", help="Print the result as JSON on standard output.")]
Resume = Annotated[bool, in_output("--resume", help=_RESUME_HELP)]


# ---- from what is typed to values ----
def read_budget(epsilon: str, delta: str) -> tuple[Fraction, Fraction]:
    """Read epsilon and delta as exactly the decimals that were typed."""
    from recoup.privacy.price import as_fraction

    return as_fraction(epsilon, "epsilon"), as_fraction(delta, "delta", allow_zero=True)


def declared_domain(name: DomainName, bounds: dict[str, tuple[float, float]] | Schema) -> Domain:
    """The domain of declared bounds; "auto" is the box, which moves no record inside its bounds."""
    from recoup.domain import DOMAINS, declared_bounds
    from recoup.mixed import Mixed
    from recoup.schema import Schema

    if isinstance(bounds, Schema):
        return Mixed(schema=bounds)
    low, high, columns = declared_bounds(bounds)
    return DOMAINS["box" if name is DomainName.auto else name.value](tuple(low), tuple(high), columns)


def terms(
    kind: type[Algorithm], domain: Domain, epsilon: Any, delta: Any, n_records: int | None, records_per_person: int
) -> Context:
    """The terms of a release by an algorithm of this kind."""
    from recoup.transcript.context import Context

    return Context(
        domain=domain,
        epsilon=epsilon,
        delta=delta,
        mechanism=kind.law(domain, delta),
        n_records=n_records,
        records_per_person=records_per_person,
    )


# ---- files ----
def existing_ledger(path: Path | None) -> Path | None:
    """The ledger's path, if one was given, after making sure that there is something."""
    if path is not None and not path.exists():
        make = f"recoup ledger create {shlex.quote(str(path))} --epsilon 3"
        raise LedgerError(f"there is no ledger {str(path)!r}. Make one with: {make}")
    return path


def resumable(path: Path) -> Path:
    """The transcript to continue: a mistyped path must not silently begin, and pay for, a new release."""
    if not path.exists():
        begin = "Check the path, or leave out --resume to begin"
        raise TranscriptError(f"--resume: there is no transcript {str(path)!r}. {begin}.")
    return path


def writable_folder(folder: Path) -> Path:
    """Make sure that a folder can be written to, before a budget is spent on something that could not be kept."""
    what = f"the folder {str(folder)!r} cannot be"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        kind = ParameterError if isinstance(error, FileExistsError | NotADirectoryError) else RefusedBySystemError
        raise kind(f"{what} made: {error.strerror}.") from None
    try:
        # A trial, since permissions say nothing about a disk that is full or a file system of the kernel's own.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise RefusedBySystemError(f"{what} written to: {error.strerror}. Choose another.") from None
    return folder


def output_file(path: Path, what: str) -> None:
    """Make sure that a file to write is no folder and that its own folder can be written to."""
    if path.is_dir():
        example = {"transcript": "transcript.json", "page": "report.html"}[what]
        raise ParameterError(f"{str(path)!r} is a folder: name the {what} with -o, such as -o {example}.")
    writable_folder(path.parent)


def free_output(path: Path, *inputs: Path | None) -> None:
    """Make sure that a file to write replaces neither what was paid for nor what the command reads."""
    if not path.exists():
        return
    if not path.is_file():
        raise ParameterError(f"{str(path)!r} is not an ordinary file: choose another path with -o.")
    with path.open("rb") as file:
        start = file.read(64)
        if start.startswith(_LEDGER_START):
            raise LedgerError(f"{str(path)!r} is a ledger, which nothing may replace: choose another path with -o.")
        if start.lstrip().startswith(b"{") and _TRANSCRIPT_MARK in start + file.read():
            raise TranscriptError(f"{str(path)!r} is a transcript, which was paid for: choose another path with -o.")
    if any(given is not None and given.exists() and path.samefile(given) for given in inputs):
        raise ParameterError(f"{str(path)!r} is also what is read: choose another path with -o.")
