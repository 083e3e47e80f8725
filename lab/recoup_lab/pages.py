"""How results are kept and shown: JSON beside a page, tables as Markdown, parts of a page between markers.

A part that is written anew takes the place of the same part before; other parts and all prose stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from recoup._files import write_whole
from recoup.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A titled table of text, for a terminal or a page.

    Attributes:
        title: what it shows.
        header: names of the columns.
        rows: cells as text.
        note: what the reader should know.
        left: how many columns are words; the others are numbers.
        best: for each row the column that wins, if there is one; empty where nothing is compared.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    left: int = 0
    best: Sequence[int | None] = ()


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], right: Container[int] = ()) -> str:
    r"""A table as Markdown, with some columns aligned to the right.

    >>> print(markdown(("a", "b"), [("x|y", "1")], {1}))
    | a | b |
    |---|--:|
    | x\|y | 1 |
    """
    rule = "|".join("--:" if j in right else "---" for j in range(len(header)))
    lines = [f"| {' | '.join(header)} |", f"|{rule}|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def markers(name: str) -> tuple[str, str]:
    """The lines between which a part of a page is written.

    >>> markers("attacks")[1]
    '<!-- end of attacks -->'
    """
    return f"<!-- {name}: written by a command -->", f"<!-- end of {name} -->"


def with_part(page: str, name: str, text: str) -> str:
    r"""A page with the text of one part replaced.

    Raises:
        ParameterError: the page has no such part.

    >>> begin, end = markers("a")
    >>> with_part(f"x\n{begin}\nold\n{end}\ny\n", "a", "new\n") == f"x\n{begin}\nnew\n{end}\ny\n"
    True
    """
    begin, end = markers(name)
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ParameterError(f"a page has no place for results: it needs one line {begin} and later one line {end}.")
    return f"{page[: page.index(begin) + len(begin)]}\n{text.strip()}\n{page[page.index(end) :]}"


def page_with_part(path: Path, title: str, name: str, text: str, *, add: bool = False) -> str:
    """The text of a page with one part replaced; where there is no page, of a new one.

    Args:
        path: of the page, which is only read.
        title: of a new page.
        name: of the part.
        text: its new text.
        add: put the part at the end of a page that does not have it, instead of refusing the page.
    """
    page, both = path.read_text(encoding="utf-8") if path.exists() else "", markers(name)
    if not page or (add and not any(marker in page for marker in both)):
        page = "\n".join([page.rstrip() + "\n" if page else f"# {title}", *both, ""])
    return with_part(page, name, text)


def write_part(path: Path, title: str, name: str, text: str) -> None:
    """Write one part of a page, wherever it has its place, or at the end."""
    write_whole(path, page_with_part(path, title, name, text, add=True))


def write_json(path: Path, value: object) -> None:
    """Keep results, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(value, indent=1) + "\n")


def mean_and_error(values: Sequence[float]) -> list[float]:
    """The mean over seeds and its standard error, 0 of one seed, with six digits that matter.

    >>> mean_and_error([1.0, 3.0]), mean_and_error([2.0])
    ([2.0, 1.0], [2.0, 0.0])
    """
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return [float(f"{value:.6g}") for value in (fmean(values), error)]


def write_runs(path: Path, command: str, runs: Sequence[Any], note: str = "") -> None:
    """Keep the runs of a study, one per line, with the command that makes them again and what a reader should know."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(run) for run in runs)
    head = f'"command": {json.dumps(command)}, "note": {json.dumps(note)}'
    write_whole(path, f'{{{head}, "runs": [\n{lines}\n]}}\n')


def read_json(path: Path, writer: str, read: Callable[[Any], Any] = lambda value: value) -> Any:
    """What `write_json` kept, as a function reads it; None if there is no such file.

    Raises:
        ParameterError: another program wrote it.
    """
    if not path.exists():
        return None
    try:
        return read(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError):
        raise ParameterError(
            f"{path} is not a file that {writer} wrote. Move it away, or name another folder."
        ) from None
