"""How commands speak, and how they end: results on standard output, everything else on standard error.

A command that fails ends with one line in its own words, and with a code for each kind of trouble.

Progress of work that takes more than a second is the round and a percentage of finished rounds. Inside a round it
stands still: how many files, bytes or blocks are read is a function of the records, and so would be any share of them.
What a watch tells (how long a round takes) is not hidden.
"""

from __future__ import annotations

import errno
import json
import math
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self

import typer

from recoup import errors
from recoup.report.html import counted as counted

if TYPE_CHECKING:
    from recoup.domain import Array, Domain
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.verdict import Verdict
    from recoup.mixed import Part

_NEIGHBOURS = {
    "add-remove-one-record": "adding or removing",
    "add-remove-one-person": "adding or removing",
    "replace-one-record": "replacing",
}
_MOST_BOUNDS = 8  # in one sentence; a transcript has all of them
# How a CSV was read, in few words; a report has more of them.
_CSV = {"rfc4180": "CSV as RFC 4180", "lines": "CSV by lines, whatever their quotes"}
_ALL_MISSING = 0.995  # the share of a cluster from which on its number is that of nobody
_QUIET_SECONDS = 1.0
_BAR_WIDTH = 20


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


# ---- a result for people ----
def numbers(values: Iterable[float | None]) -> list[str]:
    """Numbers as cells of a table; a dash where there is none."""
    return ["-" if v is None else f"{v:.6g}" for v in values]


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, wrap: bool = False
) -> None:
    """Print a result for people.

    The first `left` columns are words, aligned to the left; with `wrap` the last holds sentences, which a narrow
    terminal may break.
    """
    import shutil

    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    wrap = wrap and sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        fixed = not wrap or position < len(header) - 1
        table.add_column(Text(name), justify="left" if position < left else "right", no_wrap=fixed)
    for row in rows:
        table.add_row(*map(Text, row))
    # A number that is cut is worse than a line that is long, so the table gets the width that it needs.
    widest = Console(width=100_000)
    needed = Measurement.get(widest, widest.options, table)
    # Never narrower than its longest words, which could not be wrapped either.
    room = max(needed.minimum, shutil.get_terminal_size().columns) if wrap else needed.maximum
    console = Console(file=sys.stdout, highlight=False, width=max(min(needed.maximum, room), 1))
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def print_named(
    title: str, corner: str, names: Iterable[str], columns: Sequence[str], values: Iterable[Iterable[float]], note: str
) -> None:
    """Print an answer whose rows have names, and what a reader of it has to know."""
    print_table(title, [corner, *columns], [[name, *numbers(row)] for name, row in zip(names, values, strict=True)])
    if note:
        say(note)


def with_unit(name: str, unit: str | None) -> str:
    """A column's name with its unit; one that ends with its unit is left as it is.

    >>> with_unit("age", "years"), with_unit("stay (days)", "days"), with_unit("score", None)
    ('age (years)', 'stay (days)', 'score')
    """
    return f"{name} ({unit})" if unit and not name.rstrip().endswith(f"({unit})") else name


def print_centers(title: str, domain: Domain, centers: Array, header: Sequence[str] | None = None) -> None:
    """Print centres: numbers in their units, of a category its most frequent value and that one's share."""
    from recoup.algorithms.base import column_names
    from recoup.mixed import Mixed
    from recoup.schema import Category

    names = [str(k) for k in range(len(centers))]
    if not isinstance(domain, Mixed):
        return print_named(title, "cluster", names, header or column_names(domain), centers, "")
    heads, columns = list[str](), list[list[str]]()
    for part in domain.parts:
        own = centers[:, part.own]
        if isinstance(part.column, Category):
            heads.append(part.name)
            columns.append([_category(part, center) for center in own])
            continue
        heads += [with_unit(part.name, part.column.unit), *part.names[1:]]
        columns += [_means(own), *([f"{share:.0%}" for share in flags] for flags in own[:, 1:].T)]
    print_table(title, ["cluster", *heads], [list(row) for row in zip(names, *columns, strict=True)])


def _means(own: Array) -> list[str]:
    """The means of a column of numbers; a dash where the number is missing for all of a cluster, or nearly."""
    missing = own[:, 1] if own.shape[1] > 1 else [0.0] * len(own)
    shown = zip(numbers(own[:, 0]), missing, strict=True)
    return ["–" if share >= _ALL_MISSING else mean for mean, share in shown]


def _category(part: Part, center: Array) -> str:
    """The most frequent value of a category with its share; of ordered ones the nearest, with its place."""
    values = part.column.all_values  # type: ignore[union-attr]
    if part.kind == "steps":
        return f"{values[round(float(center[0]))]} ({center[0] + 1:.2g} of {len(values)})"
    shares = [1.0 - center[0], center[0]] if part.kind == "two" else list(center)
    most = max(range(len(values)), key=shares.__getitem__)
    return f"{values[most]} {shares[most]:.0%}"


def print_rounds(title: str, rounds: Sequence[Mapping[str, Any]], *more: str) -> None:
    """Print what rounds cost and how noisy they are, from their fields in JSON; `more` names a last column."""
    header = ["round", "cells", "epsilon" if rounds[0]["measure"] == "pure" else "rho"]
    rows = [
        [str(t), str(r["n_cells"]), *numbers((r["price"], r["count_scale"], r["sum_scale"]))]
        + (["-" if r["center_deviation"] is None else f"{r['center_deviation']:.4g}"] if more else [])
        for t, r in enumerate(rounds, start=1)
    ]
    print_table(title, [*header, "scale of counts", "scale of sums", *more], rows, left=0)


# ---- what is not the result ----
def say(text: str) -> None:
    """Tell people something that is not the result."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


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


class Progress:
    """Says on standard error which round is at work, once the work has proved slow.

    Without a number of rounds it says only that something is being done; `at_most` so many there may be fewer; of the
    unit "percent" only the percentage is shown.
    """

    def __init__(self, n_rounds: int | None = None, *, at_most: bool = False, unit: str = "round") -> None:
        self._unit, self._of = unit, "of at most" if at_most else "of"
        self._n_rounds, self._n_finished, self._shown = n_rounds, 0, ""
        self._lock, self._slow, self._over = threading.Lock(), False, False
        self._timer = threading.Timer(_QUIET_SECONDS, self._wake)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            # The rounds that were made were all, where there could have been more.
            if kind is None and self._unit == "round" and 0 < self._n_finished < (self._n_rounds or 0):
                self._n_rounds, self._of = self._n_finished, "of"
                self._show()
            self._over = True
            if self._shown and sys.stderr.isatty():
                sys.stderr.write("\r" + " " * len(self._shown) + "\r")
                sys.stderr.flush()

    def finished(self, n_rounds: int) -> None:
        """Note how many rounds are finished."""
        with self._lock:
            self._n_finished = n_rounds
            self._show()

    def _wake(self) -> None:
        with self._lock:
            self._slow = True
            self._show()

    def _show(self) -> None:
        if not self._slow or self._over:
            return
        text, on_terminal = "working ...", sys.stderr.isatty()
        # A percentage that nobody has moved says less than that something is being done.
        if self._n_rounds is not None and (self._n_finished or self._unit == "round"):
            finished = min(self._n_finished, self._n_rounds)
            # Where noisy answers decide whether another round follows, only one that was asked is named.
            at = max(finished, 1) if self._of == "of at most" else min(finished + 1, self._n_rounds)
            percentage = f"{100 * finished // self._n_rounds}%"
            text = percentage if self._unit == "percent" else f"round {at} {self._of} {self._n_rounds}, {percentage}"
            if on_terminal:
                filled = _BAR_WIDTH * finished // self._n_rounds
                text = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {text}"
        if text != self._shown:
            # A shorter text must cover a longer one.
            sys.stderr.write(f"\r{text.ljust(len(self._shown))}" if on_terminal else f"{text}\n")
            sys.stderr.flush()
            self._shown = text
