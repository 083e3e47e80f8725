"""How many lines a privacy proof rests on: what sees records or makes noise, and all of Recoup that it imports.

    python -m recoup_lab.audit.trusted            print the table
    python -m recoup_lab.audit.trusted -o docs    write it into evidence.md, too, and its sum into trust.md

Driver, estimators and commands hand records to them, and the rest reads only transcripts. Fewer lines are better.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoup.cli.tables import print_table
from recoup_lab.audit.evidence import write_evidence, write_trust
from recoup_lab.pages import markdown
from recoup_lab.tree import ROOT

PART: Final = "trusted lines"
PACKAGE: Final = ROOT / "src" / "recoup"
# What is declared of columns, where records are, what is asked of them, and the numbers that protect them.
ROOMS: Final = ("domain", "schema", "mixed", "queries", "privacy", "transcript", "curator")
HEADER: Final = ("part of Recoup", "files", "lines of code", "all lines")
_NO_CODE: Final = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    tokenize.ENCODING,
}


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one file.

    Attributes:
        code: those that are neither empty nor comment nor documentation.
        all: every one of them.
    """

    code: int
    all: int


def lines_of(text: str) -> Lines:
    r"""Count the lines of a module.

    >>> lines_of('"Why."\n\n# A comment.\nx = [\n    1,\n]  # two\n')
    Lines(code=3, all=6)
    """
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        # A statement that is only a string is documentation.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return Lines(len(code), len(text.splitlines()))


def imported_by(text: str) -> Iterator[str]:
    """The modules of Recoup, and names in them, that a module imports when it runs, wherever in it.

    >>> list(imported_by("from recoup.queries import base"))
    ['recoup.queries', 'recoup.queries.base']
    """
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        # What only a type checker imports is never run.
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "recoup")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recoup":
            yield str(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names)
        else:
            waiting += ast.iter_child_nodes(node)


def trusted_files(package: Path = PACKAGE, rooms: Iterable[str] = ROOMS) -> dict[Path, Lines]:
    """The files of some parts of a package, and those that they import, one after the other."""
    waiting = [path for room in rooms for path in (package / f"{room}.py", *(package / room).rglob("*.py"))]
    found: dict[Path, Lines] = {}
    while waiting:
        path = waiting.pop()
        if path in found or not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        found[path] = lines_of(text)
        for name in imported_by(text):
            module = package.parent.joinpath(*name.split("."))
            # The root of the package only says where its names are.
            waiting += [module.with_suffix(".py")] if module != package else []
            waiting += [module / "__init__.py"] if module != package else []
    return found


def table(package: Path = PACKAGE, rooms: Iterable[str] = ROOMS) -> list[tuple[str, ...]]:
    """A row for each part of the package, and one for all."""
    rooms = tuple(rooms)
    groups: dict[str, list[Lines]] = {room: [] for room in rooms}
    for path, lines in sorted(trusted_files(package, rooms).items()):
        top, *below = path.relative_to(package).with_suffix("").parts
        groups.setdefault(top if below or top in rooms else "", []).append(lines)
    alone = groups.pop("", [])
    named = {f"`{name}`" + ("" if name in rooms else ", as far as imported"): lines for name, lines in groups.items()}
    named |= {"helpers beside them": alone} if alone else {}
    named |= {"**all**": [lines for group in named.values() for lines in group]}
    return [
        (name, str(len(lines)), f"{sum(one.code for one in lines):,}", f"{sum(one.all for one in lines):,}")
        for name, lines in named.items()
    ]


def sum_text(rows: list[tuple[str, ...]]) -> str:
    """The last row of the table in words."""
    _, files, code, _ = rows[-1]
    return f"These are [{code} lines of code in {files} files](evidence.md#what-there-is-to-read)."


def main() -> int:
    """Print the table, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="with evidence.md and trust.md")
    folder = parser.parse_args().output
    rows = table()
    print_table("Lines that a privacy proof rests on", HEADER, rows)
    if folder is not None:
        write_evidence(folder, PART, markdown(HEADER, rows, range(1, 4)))
        write_trust(folder, PART, sum_text(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
