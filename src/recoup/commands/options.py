"""Options that commands share, and how what people type becomes values.

Numbers of a budget stay text until they are read exactly: 0.1 means one tenth, not the float next to it.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recoup.errors import BoundsError, MissingBoundsError, ParameterError

if TYPE_CHECKING:
    from recoup.domain import Domain

_BOUNDS_HELP = (
    "Public bounds of each column to use: inline, [b]age=17:90,hours=1:99[/b], or a JSON file, "
    '[b]{"age": \\[17, 90]}[/b]. From public knowledge, never computed from the data.'
)


class DomainName(StrEnum):
    """The shapes that records can be clipped to."""

    auto = "auto"
    box = "box"
    l1 = "l1"
    l2 = "l2"


_PRIVACY, _RUN, _OUTPUT = "Privacy", "Algorithm", "Output"

DataPath = Annotated[
    Path, typer.Argument(help="CSV, Parquet or Arrow: a file or a folder.", metavar="DATA", show_default=False)
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
        help="For initial centres and the like; it never reaches secure noise.",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output.", rich_help_panel=_OUTPUT)
]


def read_budget(epsilon: str, delta: str) -> tuple[Fraction, Fraction]:
    """Read epsilon and delta as exactly the decimals that were typed.

    >>> read_budget("0.1", "0")
    (Fraction(1, 10), Fraction(0, 1))
    """
    from recoup.accounting import as_fraction

    return as_fraction(epsilon, "epsilon"), as_fraction(delta, "delta", allow_zero=True)


def read_bounds(text: str | None) -> dict[str, tuple[float, float]]:
    """Read bounds that were typed inline, or the JSON file that was named.

    Args:
        text: `age=17:90,hours=1:99`, or the path of a file with `{"age": [17, 90]}`.

    Returns:
        A pair for each column, in the order given; whether low is below high is the domain's to check.

    Raises:
        MissingBoundsError: nothing was given.
        BoundsError: it cannot be read.

    >>> read_bounds("x=-1e3:1e3")
    {'x': (-1000.0, 1000.0)}
    """
    if text is None or not text.strip():
        raise MissingBoundsError(
            "no bounds were declared. Give the smallest and largest possible value of each column from public "
            "knowledge, such as --bounds age=17:90,hours=1:99; do not compute them from the data, that would leak it."
        )
    return _bounds_of_file(Path(text)) if _names_file(text) else _bounds_of_text(text)


def declared_domain(name: DomainName, bounds: dict[str, tuple[float, float]]) -> Domain:
    """The domain of declared bounds; "auto" is the box, which moves no record inside its bounds."""
    from recoup.domain import DOMAINS, declared_bounds

    low, high, columns = declared_bounds(bounds)
    return DOMAINS["box" if name is DomainName.auto else name.value](tuple(low), tuple(high), columns)


def writable_folder(folder: Path) -> Path:
    """Make sure that a folder can be written to, before a budget is spent on something that could not be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"the folder {str(folder)!r} cannot be made: {error.strerror}.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ParameterError(f"the folder {str(folder)!r} cannot be written to. Choose another with -o.")
    return folder


def _names_file(text: str) -> bool:
    return "=" not in text or text.lower().endswith(".json")


def _bounds_of_file(path: Path) -> dict[str, tuple[float, float]]:
    if not path.exists():
        raise BoundsError(
            f"bounds {str(path)!r}: there is no such file, and it is not of the form age=17:90,hours=1:99 either."
        )
    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except OSError as error:
        raise BoundsError(f"the bounds file {str(path)!r} cannot be read: {error.strerror}.") from None
    except BoundsError:
        raise
    except ValueError:
        raise BoundsError(f'the bounds file {str(path)!r} is not JSON of the form {{"age": [17, 90]}}.') from None
    if not isinstance(value, dict):
        raise BoundsError(f'the bounds file {str(path)!r} must hold one object, of the form {{"age": [17, 90]}}.')
    return {name: _pair(name, pair) for name, pair in value.items()}


def _bounds_of_text(text: str) -> dict[str, tuple[float, float]]:
    pairs: list[tuple[str, Any]] = []
    for part in text.split(","):
        name, equals, ends = part.rpartition("=")
        low, colon, high = ends.partition(":")
        if not equals or not colon or not name.strip():
            raise BoundsError(
                f"bounds: {part.strip()!r} is not of the form name=low:high, such as age=17:90. For names with commas "
                "or equals signs use a JSON file."
            )
        try:
            pairs.append((name.strip(), (float(low), float(high))))
        except ValueError:
            raise BoundsError(f"bounds of {name.strip()!r}: {ends.strip()!r} is not low:high in numbers.") from None
    return _unique(pairs)


def _pair(name: str, value: object) -> tuple[float, float]:
    numbers = isinstance(value, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
    if not isinstance(value, list) or len(value) != 2 or not numbers:
        raise BoundsError(f"bounds of {name!r}: give a pair of numbers, [low, high].")
    try:
        return float(value[0]), float(value[1])
    except OverflowError:
        raise BoundsError(f"bounds of {name!r}: both must be finite.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BoundsError("bounds name a column twice: declare each column once.")
    return value
