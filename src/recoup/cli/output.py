"""How commands speak, and how they end: results on standard output, everything else on standard error.

A command that fails ends with one line in its own words, and with a code for each kind of trouble.
"""

from __future__ import annotations

import errno
import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import typer

from recoup import errors
from recoup._shown import printable
from recoup.cli.tables import width_of, wrapped
from recoup.report.html import counted as counted

if TYPE_CHECKING:
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.verdict import Verdict

_NEIGHBOURS = {
    "add-remove-one-record": "adding or removing",
    "add-remove-one-person": "adding or removing",
    "replace-one-record": "replacing",
}
_MOST_BOUNDS = 8  # in one sentence; a transcript has all of them
# How a CSV was read, in few words; a report has more of them.
_CSV = {"rfc4180": "CSV as RFC 4180", "lines": "CSV by lines, whatever their quotes"}


# ---- how a command ends ----
# Neither the user nor the file is wrong.
_REFUSALS = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENAMETOOLONG)
)


class RefusedBySystemError(errors.RecoupError):
    """The system does not let a command write where it was told to."""


class ExitCode(IntEnum):
    """What a command ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    BUDGET = 3
    DATA = 4
    LEDGER = 5
    TRANSCRIPT = 6
    SYSTEM = 7
    INTERRUPTED = 130


# In the words of `recoup --help`; docs/commandline.md says more.
_WORDS = ["done", "internal error or failed runs", "wrong usage", "budget too small", "unusable data"]
_WORDS += ["unusable ledger", "unusable transcript", "refused by the system", "interrupted"]
MEANINGS = dict(zip(ExitCode, _WORDS, strict=True))
_CODES = {
    RefusedBySystemError: ExitCode.SYSTEM,
    errors.BudgetExceededError: ExitCode.BUDGET,
    errors.DataError: ExitCode.DATA,
    errors.LedgerError: ExitCode.LEDGER,
    errors.TranscriptError: ExitCode.TRANSCRIPT,
    errors.FileInUseError: ExitCode.TRANSCRIPT,
}


def code_of(error: errors.RecoupError) -> ExitCode:
    """The code for an error that Recoup raised on purpose."""
    refused = getattr(error.__context__, "errno", None) in _REFUSALS
    if refused and isinstance(error, errors.ParameterError | errors.LedgerError):
        return ExitCode.SYSTEM
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), ExitCode.USAGE)


# Parameters whose option is not simply their name with dashes.
_OPTIONS = {"n_chains": "--chains", "n_clusters": "--clusters", "n_rounds": "--rounds", "n_steps": "--steps"}
_OPTIONS |= {"random_state": "--seed"}


def in_words_of_commands(error: errors.RecoupError) -> str:
    """What an error says, with options and commands instead of parameters and calls."""
    return error.worded(_spelled)


def _spelled(part: object) -> str:
    match part:
        case errors.Call():
            return part.command
        case errors.Argument():
            option = _OPTIONS.get(part.name, f"--{part.name.replace('_', '-')}")
            value = (part.value or "").strip("'\"")
            return option if value in ("", "True") else f"{option} {value}"
        case _:
            return str(part)


# ---- a result for machines ----
def print_json(**value: object) -> None:
    """Print a result for machines."""
    sys.stdout.write(json_text(value))


def json_text(value: object) -> str:
    """A value as JSON that every reader accepts: a number that is not finite becomes null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def verdict_json(verdict: Verdict | None) -> dict[str, Any]:
    """A verdict and what it rests on as two fields of a result; null where there is none, or records cannot be told."""
    if verdict is None:
        return {"verdict": None, "records": None}
    return {"verdict": verdict.to_json(), "records": None if verdict.records is None else verdict.records.to_json()}


def csv_text(header: Sequence[str], rows: Sequence[Sequence[float]], *, comment: str | None = None) -> str:
    """Rows of numbers as CSV that reads back to the same numbers; a comment becomes a first line that starts with #."""
    import csv
    import io

    out = io.StringIO()
    if comment:
        out.write(f"# {comment}\n")
    csv.writer(out, lineterminator="\n").writerows([header, *([repr(float(v)) for v in row] for row in rows)])
    return out.getvalue()


# ---- what is not the result ----
def say(*lines: str) -> None:
    """Tell people something that is not the result; a name in it can neither end a line nor move the cursor."""
    sys.stderr.write(wrapped("\n".join(map(printable, lines)), width_of(sys.stderr)) + "\n")
    sys.stderr.flush()


def say_next(command: Sequence[object], what: str) -> None:
    """Tell people what to do next: a command that can be copied, and what it is good for."""
    say(f"Next, {what}:", f"  {shlex.join(map(str, command))}")


def doubt(verdict: Verdict | None) -> str:
    """What the heading of a doubtful result ends with: its table may be all that is kept."""
    return "" if verdict is None or verdict.good else " (doubtful)"


def stop_if_interrupted(inferred: InferredDataset | None, more: str = "") -> None:
    """After everything was said: end as an interrupted command does, where inference was told to stop early."""
    if inferred and inferred.diagnostics and inferred.diagnostics.interrupted:
        say(f"Interrupted: the centres are of the best data set so far{more}.")
        raise typer.Exit(ExitCode.INTERRUPTED)


def mark(privacy: Mapping[str, Any]) -> str:
    """What has to stand beside every result that Recoup does not promise privacy for; nothing beside others."""
    return "" if privacy["noise"] == "secure" else str(privacy["statement"])


def privacy_sentence(privacy: Mapping[str, Any]) -> str:
    """The privacy statement in words."""
    from recoup.schema import OCTAVES

    statement = str(privacy["statement"])
    statement = statement[:1].upper() + statement[1:]
    low, high = privacy["bounds"]["low"], privacy["bounds"]["high"]
    names = privacy["bounds"]["columns"] or [f"column {j}" for j in range(len(low))]
    bounds = [f"{name} {a:,.12g} to {b:,.12g}" for name, a, b in zip(names, low, high, strict=True)]
    are = "declared bounds: {}"
    if (schema := privacy["bounds"].get("schema")) is not None:
        bounds = [f"{name} {_declared(column)}" for name, column in schema.items()]
        if all(column.get("scale") == OCTAVES for column in schema.values()):
            bounds, are = list(schema), "{} counted in fixed public bins up to ±2^64"
    if len(bounds) > _MOST_BOUNDS:
        bounds[_MOST_BOUNDS - 1 :] = [f"and {len(bounds) - _MOST_BOUNDS + 1} more columns"]
    laws = " and ".join(law.capitalize() for law in privacy["mechanism"].split(" and "))
    promise = ". With secure noise it would be" if privacy["noise"] == "simulated" else ""
    dialect, unit = privacy["csv_dialect"], privacy["unit"]
    details = [str(privacy["per_person"])] if "per_person" in privacy else []
    details += [] if dialect is None else [_CSV[dialect]]
    unit += f" ({'; '.join(details)})" if details else ""
    return (
        f"{statement}{promise}: epsilon = {privacy['epsilon']:g}, delta = {privacy['delta']:g}, for "
        f"{_NEIGHBOURS.get(privacy['neighbours'], privacy['neighbours'])} {unit}; {laws} noise"
        f"{'' if promise else ', ' + privacy['noise']}; domain {privacy['domain']}; "
        f"{are.format(', '.join(bounds))}; Recoup {privacy['version']}."
        + (f" Counted {privacy['counted']}." if "counted" in privacy else "")
    )


def _declared(column: Mapping[str, Any]) -> str:
    """What a schema says that values can be."""
    if "values" in column:
        return f"one of {len(column['values'])} values"
    unit, scale = column.get("unit"), column.get("scale", "linear")
    on_scale = "" if scale == "linear" else f" on a {scale} scale" if isinstance(scale, str) else " with break points"
    return f"{column['low']:,.12g} to {column['high']:,.12g}{f' {unit}' if unit else ''}{on_scale}"
