"""A small reader of the project's Markdown pages: their code blocks, commands, headings and links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, its first line in the page, its text, and why it is not run, if it is not."""

    language: str
    line: int
    text: str
    not_run: str | None


def all_pages() -> list[Path]:
    """Every Markdown page that the project keeps."""
    return sorted(ROOT.glob("*.md")) + sorted(DOCS.rglob("*.md"))


def name_of(page: Path) -> str:
    """A page's path inside the project."""
    return str(page.relative_to(ROOT))


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order.

    Raises:
        ValueError: a block is not closed.
    """
    blocks: list[Block] = []
    language, start, lines, reason, last = "", 0, list[str](), None, ""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if inside and line.rstrip() == "```":
            blocks.append(Block(language=language, line=start, text="\n".join(lines) + "\n", not_run=reason))
            inside = False
        elif inside:
            lines.append(line)
        elif fence:
            marker = _NOT_RUN.match(last)
            inside, language, start, lines = True, fence[1], number + 1, []
            reason = marker[1] if marker else None
        if line.strip():
            last = line.strip()
    if inside:
        raise ValueError(f"the block that starts in line {start - 1} is not closed")
    return blocks


def commands_of(block: Block) -> list[list[str]]:
    """The commands of a shell block as words; `$ ` is a prompt, and then lines without one are output."""
    text = block.text.replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def without_code(text: str) -> str:
    """The text of a page outside fenced blocks, and without code in its lines."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            kept.append(re.sub(r"`[^`]*`", "", line))
    return "\n".join(kept)


def links_of(text: str) -> list[str]:
    """The targets of all links and pictures outside code."""
    return _LINK.findall(without_code(text))


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as MkDocs and GitHub write them for plain headings."""
    inside, found = False, list[str]()
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        heading = None if inside else _HEADING.match(line)
        if heading:
            words = re.sub(r"[^\w\s-]", "", heading[2].replace("`", "")).strip().lower()
            anchor = re.sub(r"[-\s]+", "-", words)
            found.append(anchor if anchor not in found else f"{anchor}_{found.count(anchor)}")
    return set(found)
