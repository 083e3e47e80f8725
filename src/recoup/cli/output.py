"""How commands speak: results on standard output, everything else on standard error, files whole or not at all."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from recoup.cli.exits import ExitCode

if TYPE_CHECKING:
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.verdict import Verdict
    from recoup.queries.base import Array

_NEIGHBOURS = {"add-remove-one-record": "adding or removing", "replace-one-record": "replacing"}

_MOST_BOUNDS = 8  # in one sentence; a transcript has all of them


# ---- a result for machines ----


def print_json(value: object) -> None:
    """Print a result for machines."""
    sys.stdout.write(json_text(value))


def json_text(value: object) -> str:
    r"""A value as JSON that every reader accepts: a number that is not finite becomes null.

    >>> json_text({"r_hat": float("nan")})
    '{\n  "r_hat": null\n}\n'
    """
    return json.dumps(_finite(value), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def verdict_json(verdict: Verdict | None) -> dict[str, Any]:
    """A verdict and what it rests on as two fields of a result; null where there is none, or records cannot be told."""
    records = None if verdict is None else verdict.records
    return {
        "verdict": None if verdict is None else verdict.to_json(),
        "records": None if records is None else records.to_json(),
    }


def csv_text(header: Sequence[str], rows: Sequence[Sequence[float]], *, comment: str | None = None) -> str:
    """Rows of numbers as CSV that reads back to the same numbers; a comment becomes a first line that starts with #."""
    import csv
    import io

    out = io.StringIO()
    if comment:
        out.write(f"# {comment}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[repr(float(v)) for v in row] for row in rows])
    return out.getvalue()


# ---- a result for people ----


def counted(n: int, thing: str) -> str:
    """A number of things in words.

    >>> counted(1, "round"), counted(2, "round")
    ('1 round', '2 rounds')
    """
    return f"{n} {thing}" if n == 1 else f"{n:,} {thing}s"


def numbers(values: Iterable[float | None]) -> list[str]:
    """Numbers as cells of a table; a dash where there is none."""
    return ["-" if v is None else f"{v:.6g}" for v in values]


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, wrap: bool = False
) -> None:
    """Print a result for people.

    The first `left` columns are words and so aligned to the left. With `wrap` the last one is sentences, which may go
    on in a further line where a terminal is too narrow.
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
        table.add_row(*(Text(cell) for cell in row))
    # A number that is cut is worse than a line that is long, so the table gets the width that it needs.
    widest = Console(width=100_000)
    needed = Measurement.get(widest, widest.options, table)
    width = needed.maximum
    if wrap:
        # Never narrower than its longest words, which could not be wrapped either.
        width = min(width, max(needed.minimum, shutil.get_terminal_size().columns))
    console = Console(file=sys.stdout, highlight=False, width=max(width, 1))
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def print_centers(title: str, columns: Sequence[str], centers: Array) -> None:
    """Print centres, one row per cluster."""
    print_table(title, ["cluster", *columns], [[str(k), *numbers(center)] for k, center in enumerate(centers)])


def print_named(
    title: str,
    corner: str,
    names: Sequence[str],
    columns: Sequence[str],
    values: Iterable[Iterable[float]],
    *,
    note: str,
) -> None:
    """Print an answer whose rows have names, and what a reader of it has to know."""
    print_table(title, [corner, *columns], [[name, *numbers(row)] for name, row in zip(names, values, strict=True)])
    if note:
        say(note)


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


def say_verdict(verdict: Verdict | None) -> None:
    """Tell whether a result can be trusted and how many records it rests on; of none, nothing can be told."""
    if verdict is not None:
        say(f"{verdict.sentence} {verdict.rests_on}")


def stop_if_interrupted(inferred: InferredDataset | None, more: str = "") -> None:
    """After everything was said: end as an interrupted command does, where inference was told to stop early."""
    if inferred is not None and inferred.diagnostics is not None and inferred.diagnostics.interrupted:
        say(f"Interrupted: the centres are of the best data set so far{more}.")
        raise typer.Exit(ExitCode.INTERRUPTED)


def mark(privacy: Mapping[str, Any]) -> str:
    """What has to stand beside every result that Recoup does not promise privacy for; nothing beside others."""
    return "" if privacy["noise"] == "secure" else str(privacy["statement"])


def privacy_sentence(privacy: Mapping[str, Any]) -> str:
    """The privacy statement in words."""
    from recoup.privacy.statement import CSV_MEANING

    statement = str(privacy["statement"])
    statement = statement[:1].upper() + statement[1:]
    low, high = privacy["bounds"]["low"], privacy["bounds"]["high"]
    names = privacy["bounds"]["columns"] or [f"column {j}" for j in range(len(low))]
    bounds = [f"{name} {a:,.12g} to {b:,.12g}" for name, a, b in zip(names, low, high, strict=True)]
    if len(bounds) > _MOST_BOUNDS:
        bounds[_MOST_BOUNDS - 1 :] = [f"and {len(bounds) - _MOST_BOUNDS + 1} more columns"]
    laws = " and ".join(law.capitalize() for law in privacy["mechanism"].split(" and "))
    promise = ". With secure noise it would be" if privacy["noise"] == "simulated" else ""
    neighbours = _NEIGHBOURS.get(privacy["neighbours"], privacy["neighbours"])
    dialect = privacy["csv_dialect"]
    unit = privacy["unit"] if dialect is None else f"{privacy['unit']} ({dialect}: {CSV_MEANING[dialect]})"
    return (
        f"{statement}{promise}: epsilon = {privacy['epsilon']:g}, delta = {privacy['delta']:g}, for "
        f"{neighbours} {unit}; {laws} noise{'' if promise else ', ' + privacy['noise']}; domain "
        f"{privacy['domain']}; declared bounds: {', '.join(bounds)}; Recoup {privacy['version']}."
        + (f" Counted {privacy['counted']}." if "counted" in privacy else "")
    )
