"""Results for people: tables that fit into the terminal, and numbers with the digits that mean something.

A table that is wider than the terminal is turned: its columns become rows, in blocks that fit. Without a terminal, in a
pipe or a file, it keeps its shape. Words are never broken.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, TextIO

from recoup._shown import printable
from recoup.report.html import between, figure, noise_on_scale, settled

if TYPE_CHECKING:
    from rich.table import Table

    from recoup.domain import Array, Domain
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.intervals import Intervals
    from recoup.inference.verdict import Verdict
    from recoup.mixed import Part

_ALL_MISSING = 0.995  # the share of a cluster from which on its number is that of nobody
_UNLIMITED = 100_000  # characters
_OPTION_OR_WORD = re.compile(r"(?:-\S+ )?(?:'[^']*'|[^-\s]\S*)|\S+")  # of a command: an option stays with its value


# ---- lines ----
def width_of(stream: TextIO) -> int | None:
    """How many characters a line of a terminal has, by COLUMNS or the terminal; none where the stream is not one."""
    if not stream.isatty():
        return None
    try:
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def wrapped(text: str, width: int | None) -> str:
    r"""A text in lines of at most so many characters, all words whole.

    An indented line is a command: it goes on in the next one as a shell takes it.

    >>> print(wrapped("Run it:\n  recoup report out/transcript.json -o r.html", 30))
    Run it:
      recoup report \
        out/transcript.json \
        -o r.html
    """
    if width is None:
        return text
    from rich.cells import cell_len

    lines = list[str]()
    for paragraph in text.split("\n"):
        is_command = paragraph.startswith("  ")
        indent, end = ("  ", " \\") if is_command else ("", "")
        first, *words = _OPTION_OR_WORD.findall(paragraph) if is_command else paragraph.split(" ")
        line = indent + first
        for word in words:
            if cell_len(f"{line} {word}{end}") > width:
                lines.append(line + end)
                line = 2 * indent + word
            else:
                line = f"{line} {word}"
        lines.append(line)
    return "\n".join(lines)


# ---- numbers: one rule for all that is shown; files and JSON have all digits ----
def numbers(values: Iterable[float | None]) -> list[str]:
    """Numbers that nothing is known of as cells of a table, four digits each; a dash where there is none."""
    return ["-" if v is None else figure(v, 4).replace("\N{MINUS SIGN}", "-") for v in values]


def sizes_of(domain: Domain, centers: Array, inferred: InferredDataset | None) -> Array | None:
    """How many inferred records each cluster has; none where nothing was inferred."""
    from recoup.maxent.sizes import Clusters, WeightedPoints

    if inferred is None:
        return None
    return Clusters(domain.to_unit(centers), WeightedPoints(domain.to_unit(inferred.points), inferred.weights)).sizes


# ---- tables ----
def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, wrap: bool = False
) -> None:
    """Print a result for people.

    The first `left` columns are words, aligned to the left; with `wrap` the last holds sentences, which a narrow
    terminal may wrap.
    """
    from rich.console import Console

    # The name of a column can hold anything, also what would move the cursor.
    header, rows = list(map(printable, header)), [list(map(printable, row)) for row in rows]
    room, unlimited = width_of(sys.stdout) or _UNLIMITED, Console(width=_UNLIMITED)
    justified = ["left" if position < left else "right" for position in range(len(header) - wrap)] + ["left"] * wrap
    table = _table(header, rows, justified, wrap=wrap)
    needed = unlimited.measure(table)
    if needed.maximum <= room or wrap:
        tables = [table]
    else:
        tables = [_table(*block, ["left"] + ["right"] * len(rows)) for block in _turned(header, rows, room)]
    sys.stdout.write(wrapped(printable(title), width_of(sys.stdout)) + "\n")
    for table in tables:
        # Never narrower than its longest word, which could not be wrapped either.
        needed = unlimited.measure(table)
        width = max(needed.minimum, min(needed.maximum, room))
        Console(file=sys.stdout, highlight=False, width=width).print(table)


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], justified: Sequence[str], *, wrap: bool = False
) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        last = position == len(header) - 1
        table.add_column(Text(name), justify=justified[position], no_wrap=not (wrap and last))  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _turned(
    header: Sequence[str], rows: Sequence[Sequence[str]], room: int
) -> Iterable[tuple[Sequence[str], list[list[str]]]]:
    """A table with columns as rows, in blocks of as many columns as fit beside their names."""
    from rich.cells import cell_len

    between = 3  # characters between columns
    widths = [max(map(cell_len, row)) + between for row in rows]
    names = max(map(cell_len, header))
    start = 0
    while start < len(rows):
        stop, used = start + 1, names + widths[start] + between
        while stop < len(rows) and used + widths[stop] <= room:
            used += widths[stop]
            stop += 1
        block = [[name, *(row[j] for row in rows[start:stop])] for j, name in enumerate(header)]
        yield block[0], block[1:]
        start = stop


def print_named(
    title: str, corner: str, names: Iterable[str], columns: Sequence[str], values: Iterable[Iterable[float]]
) -> None:
    """Print an answer whose rows have names."""
    print_table(title, [corner, *columns], [[name, *numbers(row)] for name, row in zip(names, values, strict=True)])


def print_rounds(title: str, rounds: Sequence[Mapping[str, Any]], *more: str) -> None:
    """Print what rounds cost and how noisy they are, from their fields in JSON; `more` names a last column."""
    header = ["round", "cells", "epsilon" if rounds[0]["measure"] == "pure" else "rho"]
    rows = [
        [str(t), str(r["n_cells"]), *numbers((r["price"], r["count_scale"], r["sum_scale"]))]
        + (numbers((r["center_deviation"],)) if more else [])
        for t, r in enumerate(rounds, start=1)
    ]
    print_table(title, [*header, "scale of counts", "scale of sums", *more], rows, left=0)


# ---- centres ----
def print_centers(
    title: str,
    domain: Domain,
    centers: Array,
    *,
    header: Sequence[str] | None = None,
    sizes: Array | None = None,
    verdict: Verdict | None = None,
    intervals: Intervals | None = None,
) -> None:
    """Print centres: sizes, numbers in their units, of a category its most frequent value and that one's share.

    Where intervals are given, each stands beside its number. The verdict says how noisy sizes are.
    """
    from recoup.algorithms.base import column_names
    from recoup.mixed import Mixed
    from recoup.schema import Category

    heads, columns = ["cluster"], [[str(k) for k in range(len(centers))]]
    if sizes is not None:
        records = None if verdict is None else verdict.records
        heads.append("records" if records is None else records.of)
        noise = 1.0 if records is None else max(records.deviation, 1.0)
        ends = None if intervals is None else (intervals.size_low, intervals.size_high)
        columns.append(_with_ends(sizes, ends, [noise] * len(sizes)))

    def means(j: int) -> list[str]:
        ends = None if intervals is None else (intervals.center_low[:, j], intervals.center_high[:, j])
        return _with_ends(centers[:, j], ends, [noise_on_scale(domain, j, value) for value in centers[:, j]])

    if not isinstance(domain, Mixed):
        heads += header or column_names(domain)
        columns += [means(j) for j in range(domain.n_columns)]
    for part in domain.parts if isinstance(domain, Mixed) else ():
        own = centers[:, part.own]
        if isinstance(part.column, Category):
            heads.append(part.name)
            columns.append([_category(part, center) for center in own])
            continue
        heads += [with_unit(part.name, part.column.unit), *part.names[1:]]
        missing = own[:, 1] if part.size > 1 else [0.0] * len(own)
        shown = zip(means(part.first), missing, strict=True)
        columns.append(["–" if share >= _ALL_MISSING else mean for mean, share in shown])
        columns += [[f"{share:.0%}" for share in flags] for flags in own[:, 1:].T]
    print_table(title, heads, [list(row) for row in zip(*columns, strict=True)])


def _with_ends(values: Array, ends: tuple[Array, Array] | None, noises: Sequence[float]) -> list[str]:
    """Numbers, each with its interval, if there is one: half its width then says how sure the number is."""
    if ends is None:
        return [settled(value, noise) for value, noise in zip(values, noises, strict=True)]
    cells = []
    for value, noise, *around in zip(values, noises, *ends, strict=True):
        if not all(map(isfinite, around)):
            cells.append(f"{settled(value, noise)} (withheld)")
            continue
        half = (around[1] - around[0]) / 2.0 or noise
        cells.append("{} ({} to {})".format(*between(value, around[0], around[1], half)))
    return cells


def _category(part: Part, center: Array) -> str:
    """The most frequent value of a category with its share; of ordered ones the nearest, with its place."""
    values = part.column.all_values  # type: ignore[union-attr]
    if part.kind == "steps":
        return f"{values[round(float(center[0]))]} ({center[0] + 1:.2g} of {len(values)})"
    shares = [1.0 - center[0], center[0]] if part.kind == "two" else list(center)
    most = max(range(len(values)), key=shares.__getitem__)
    return f"{values[most]} {shares[most]:.0%}"


def with_unit(name: str, unit: str | None) -> str:
    """A column's name with its unit; one that ends with its unit is left as it is.

    >>> with_unit("age", "years"), with_unit("stay (days)", "days"), with_unit("score", None)
    ('age (years)', 'stay (days)', 'score')
    """
    return f"{name} ({unit})" if unit and not name.rstrip().endswith(f"({unit})") else name
