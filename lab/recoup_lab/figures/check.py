"""Pages against their runs: what stands there, what should stand there, and numbers that no run stands behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from recoup.errors import ParameterError
from recoup_lab.pages import markers, with_part

Part = Callable[[], str]
Figure = Callable[..., str]
_KEYED: Final = re.compile(r"(?P<value>[^\s(\[|*]+)<!-- figure: (?P<key>[^>]+?) -->")
_GENERATED: Final = re.compile(r"<!-- ([^>\n]+): written by a command -->.*?<!-- end of \1 -->", re.DOTALL)
# Blocks of code run in tests; formulas and addresses hold no figures.
_NO_PROSE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2$|\$`.*?`\$|`[^`\n]*`|\]\([^)\s]*\)", re.DOTALL | re.MULTILINE)
# A block with one of these says itself where its numbers are from.
_EXPLAINED: Final = re.compile(r"<!-- (cited|not measured): [^>]+ -->")
# What a measured number in prose looks like: an error, or two decimals and more.
_MEASURED: Final = re.compile(r"[\d.]+ ?± ?[\d.]+|(?<![\w.,^-])\d*\.\d{2,}(?!\w|\.\d)")


# Epsilons, and versions of others: chosen, not measured.
_CHOSEN: Final = {".05", ".25", "0.05", "0.25", "3.11", "0.16"}


class Disagreement(NamedTuple):
    """A page, what of it (a part or a key), what stands there and what should."""

    page: str
    key: str
    stands: str
    should_be: str

    def __str__(self) -> str:
        return f"{self.page}: {self.key}: stands {self.stands!r}, should be {self.should_be!r}"


def rewritten(text: str, parts: Mapping[str, Part], figures: Mapping[str, Figure]) -> str:
    """A page with all that comes from runs written anew.

    Raises:
        ParameterError: a key that nobody knows, or a part that has no place.
    """
    for name, part in parts.items():
        text = with_part(text, name, part())
    return _KEYED.sub(lambda found: f"{figure(found['key'], figures)}<!-- figure: {found['key']} -->", text)


def figure(key: str, figures: Mapping[str, Figure]) -> str:
    """The number behind a key: the name of a function, then its arguments, as text.

    >>> figure("sum 1 2", {"sum": lambda a, b: str(int(a) + int(b))})
    '3'
    """
    name, *arguments = key.split(" ")
    try:
        return figures[name](*arguments)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise ParameterError(f"no run stands behind the figure {key!r} ({error!r}).") from None


def disagreements(
    name: str, text: str, parts: Mapping[str, Part], figures: Mapping[str, Figure]
) -> Iterator[Disagreement]:
    """Where a page is not what its runs say."""
    for part, made in parts.items():
        begin, end = markers(part)
        stands = text.partition(begin)[2].partition(end)[0].strip()
        for line, wanted in _first_difference(stands, made().strip()):
            yield Disagreement(name, part, line, wanted)
    for found in _KEYED.finditer(text):
        wanted = figure(found["key"], figures)
        if found["value"] != wanted:
            yield Disagreement(name, found["key"], found["value"], wanted)


def _first_difference(stands: str, wanted: str) -> Iterator[tuple[str, str]]:
    ours, theirs = stands.splitlines(), wanted.splitlines()
    longest = max(len(ours), len(theirs))
    padded = ([*lines, *[""] * (longest - len(lines))] for lines in (ours, theirs))
    yield from ([pair for pair in zip(*padded, strict=True) if pair[0] != pair[1]] or [])[:1]


def orphans(name: str, text: str) -> list[Disagreement]:
    """Tables that no command wrote and that name no source, and numbers in sentences that look measured."""
    text = _NO_PROSE.sub(" ", _GENERATED.sub("\n\n", text))
    found = []
    for block in re.split(r"\n\s*\n", text):
        if _EXPLAINED.search(block):
            continue
        if re.search(r"^\|[-:| ]+\|$", block, re.MULTILINE):
            found.append(Disagreement(name, "a table", block.strip().splitlines()[0], "generated, or cited"))
            continue
        numbers = (match[0] for match in _MEASURED.finditer(_KEYED.sub(" ", block)))
        found += [
            Disagreement(name, "a number", n, "followed by its key, or cited") for n in numbers if n not in _CHOSEN
        ]
    return found


def pages_of(root: Path, names: Mapping[str, Mapping[str, Part]]) -> dict[str, str]:
    """The text of each page."""
    return {name: (root / name).read_text(encoding="utf-8") for name in names}
