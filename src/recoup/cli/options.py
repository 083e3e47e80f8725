"""Options that commands share, and how what people type becomes values.

Numbers of a budget stay text until they are read exactly: 0.1 means one tenth, not the float next to it.
"""

from __future__ import annotations

import shlex
import tempfile
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recoup.cli.exits import RefusedBySystemError
from recoup.errors import LedgerError, ParameterError, TranscriptError

if TYPE_CHECKING:
    from recoup.domain import Domain

_BOUNDS_HELP = (
    "Public bounds of each column to use: [b]age=17:90,hours=1:99[/b], or a TOML or JSON file with "
    "[b]age = \\[17, 90][/b], or with low, high and unit by column. Never computed from the data."
)


_LEDGER_START = b"SQLite format 3\0"
_TRANSCRIPT_MARK = b'"recoup-transcript"'  # written out, since the help must not import it; a test holds it to that


def _data_path(text: str) -> Path:
    if not text:
        raise typer.BadParameter("the path is empty; . is the current folder.")
    return Path(text)


class DomainName(StrEnum):
    """The shapes that records can be clipped to."""

    auto = "auto"
    box = "box"
    l1 = "l1"
    l2 = "l2"


class CsvDialectName(StrEnum):
    """How CSV files are written."""

    rfc4180 = "rfc4180"
    lines = "lines"


class MethodName(StrEnum):
    """The ways to read a transcript."""

    maxent = "maxent"
    mcmc = "mcmc"
    consistency = "consistency"


class TargetScaleName(StrEnum):
    """What the sampler divides misfits by."""

    auto = "auto"
    one = "one"
    noise = "noise"


class CorrectionName(StrEnum):
    """The density that the sampler corrects by."""

    component = "component"
    mixture = "mixture"


_PRIVACY, _RUN, _OUTPUT = "Privacy", "Algorithm", "Output"

DataPath = Annotated[
    Path,
    typer.Argument(
        help="CSV, Parquet or Arrow: a file or a folder.", metavar="DATA", parser=_data_path, show_default=False
    ),
]
Clusters = Annotated[int, typer.Option("--clusters", "-k", help="How many clusters.", show_default=False)]
Epsilon = Annotated[
    str, typer.Option(help="The privacy budget.", metavar="NUMBER", rich_help_panel=_PRIVACY, show_default=False)
]
Delta = Annotated[
    str,
    typer.Option(
        help="0: pure epsilon, Laplace noise. Above 0: Gaussian noise.", metavar="NUMBER", rich_help_panel=_PRIVACY
    ),
]
Bounds = Annotated[
    str | None, typer.Option(help=_BOUNDS_HELP, metavar="BOUNDS", rich_help_panel=_PRIVACY, show_default=False)
]
LedgerPath = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="Charge this ledger before every answer.", rich_help_panel=_PRIVACY, show_default=False
    ),
]
RecordsPerPerson = Annotated[int, typer.Option(help="How many records one person may hold.", rich_help_panel=_PRIVACY)]
CsvDialect = Annotated[
    CsvDialectName,
    typer.Option(
        "--csv-dialect",
        help="How a CSV file was written: rfc4180 quotes text; lines does not, and promises privacy to a line.",
        rich_help_panel=_PRIVACY,
    ),
]
SimulatedNoise = Annotated[
    bool,
    typer.Option(
        "--simulated-noise", help="Seeded noise for experiments: the result is NOT PRIVATE.", rich_help_panel=_PRIVACY
    ),
]
DomainOption = Annotated[
    DomainName,
    typer.Option(
        "--domain",
        help="auto and box leave records as they are; l1 is the paper's unit ball; l2.",
        rich_help_panel=_RUN,
    ),
]
DeclaredRecords = Annotated[
    int | None,
    typer.Option("--n-records", help="A public guess of their number.", rich_help_panel=_RUN, show_default=False),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="For initial centres and the like; it never reaches secure noise.",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output.", rich_help_panel=_OUTPUT)
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="After an interruption: continue the transcript, which must exist, and pay only for what is missing.",
        rich_help_panel=_OUTPUT,
    ),
]


def read_budget(epsilon: str, delta: str) -> tuple[Fraction, Fraction]:
    """Read epsilon and delta as exactly the decimals that were typed.

    >>> read_budget("0.1", "0")
    (Fraction(1, 10), Fraction(0, 1))
    """
    from recoup.privacy.price import as_fraction

    return as_fraction(epsilon, "epsilon"), as_fraction(delta, "delta", allow_zero=True)


def declared_domain(name: DomainName, bounds: dict[str, tuple[float, float]]) -> Domain:
    """The domain of declared bounds; "auto" is the box, which moves no record inside its bounds."""
    from recoup.domain import DOMAINS, declared_bounds

    low, high, columns = declared_bounds(bounds)
    return DOMAINS["box" if name is DomainName.auto else name.value](tuple(low), tuple(high), columns)


def existing_ledger(path: Path) -> Path:
    """The ledger's path, after making sure that there is something."""
    if not path.exists():
        make = f"recoup ledger create {shlex.quote(str(path))} --epsilon 3"
        raise LedgerError(f"there is no ledger {str(path)!r}. Make one with: {make}")
    return path


def resumable(path: Path) -> Path:
    """The transcript to continue: a mistyped path must not silently begin, and pay for, a new release."""
    if not path.exists():
        raise TranscriptError(
            f"--resume: there is no transcript {str(path)!r}. Check the path, or leave out --resume to begin."
        )
    return path


def writable_folder(folder: Path) -> Path:
    """Make sure that a folder can be written to, before a budget is spent on something that could not be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ParameterError(f"the folder {str(folder)!r} cannot be made: {error.strerror}.") from None
    except OSError as error:
        raise RefusedBySystemError(f"the folder {str(folder)!r} cannot be made: {error.strerror}.") from None
    try:
        # A trial, since permissions say nothing about a disk that is full or a file system of the kernel's own.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RefusedBySystemError(
            f"the folder {str(folder)!r} cannot be written to: {error.strerror}. Choose another."
        ) from None
    return folder


def free_output(path: Path, *inputs: Path | None) -> Path:
    """The file to write, after making sure that it replaces nothing that was paid for or is read.

    Args:
        path: the file.
        inputs: what the command reads.

    Returns:
        The path.

    Raises:
        LedgerError: it is a ledger.
        TranscriptError: it is a transcript.
        ParameterError: it is one of the inputs, or no ordinary file.
    """
    if not path.exists():
        return path
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
    return path
