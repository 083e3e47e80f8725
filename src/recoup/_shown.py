"""How results look at a prompt and in a notebook: one short line, and one small table in HTML, for all of them.

Nothing is fetched and nothing runs; every word is escaped, as the name of a column can hold anything. Colours are the
notebook's own, more or less transparent, so that both read well on a dark page and on a light one.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

from recoup.errors import ParameterError

LONGEST = 299  # letters of a line at the prompt
_LONGEST_CELL = 120
_MOST_ROWS, _MOST_COLUMNS = 12, 10
_CARD = "font-family:sans-serif;font-size:13px;line-height:1.5"
_WARNING = "background:#D55E00;color:#fff;padding:1px 6px;border-radius:3px;font-weight:600"
# Tables inherit neither colour nor size from a page without a doctype, as a notebook's output may be.
_TABLE = "border-collapse:collapse;margin:4px 0;color:inherit;font-size:inherit"
_CELL = "padding:2px 10px 2px 0;border:none;border-bottom:1px solid rgba(128,128,128,.35);background:none"


class Card(NamedTuple):
    """What is shown of a result; long tables are cut, and say so."""

    title: str
    facts: Sequence[tuple[str, object]] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    warning: str = ""  # that nothing here is private, or that nobody knows
    note: str = ""


class Shown:
    """A value with a line for the prompt and a table for notebooks, both from its `_card`."""

    __slots__ = ()

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        card = self._card()
        facts = [f"{name} {_plain(value)}" for name, value in card.facts]
        return (
            shortened(f"<{'; '.join([card.title, *([card.warning] if card.warning else []), *facts])}", LONGEST - 1)
            + ">"
        )

    def _repr_html_(self) -> str:
        return html_of(self._card())


def printable(text: str) -> str:
    r"""Text that a terminal only shows: what would move its cursor or end a line is written as it is in Python.

    >>> printable("a\x1b[2J\nb")
    'a\\x1b[2J\\nb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, longest: int = LONGEST) -> str:
    """Text of at most so many letters, on one line."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def listing(names: Sequence[str] | None, n_columns: int) -> str:
    """How many columns there are, and the first of their names.

    >>> listing(("age", "hours", "pay"), 3), listing(None, 2)
    ('3: age, hours, pay', '2')
    """
    if names is None:
        return str(n_columns)
    shown = ", ".join(shortened(str(name), 20) for name in names[:4])
    return f"{n_columns}: {shown}{', ...' if len(names) > 4 else ''}"


def html_of(card: Card) -> str:
    """A card as HTML that needs nothing else."""
    warning = f' <span style="{_WARNING}">{_text(card.warning)}</span>' if card.warning else ""
    facts = "".join(
        f'<span style="margin-right:14px"><span style="opacity:.65">{_text(name)}</span> '
        f"{_text(value, 3 * _LONGEST_CELL)}</span> "
        for name, value in card.facts
    )
    table, left = "", []
    if card.rows:
        width = min(len(card.header), _MOST_COLUMNS)
        head = "".join(_cell("th", name, j) for j, name in enumerate(card.header[:width]))
        body = "".join(
            f"<tr>{''.join(_cell('td', value, j) for j, value in enumerate(row[:width]))}</tr>"
            for row in card.rows[:_MOST_ROWS]
        )
        table = f'<table style="{_TABLE}"><tr>{head}</tr>{body}</table>'
        for shown, there, what in ((_MOST_ROWS, len(card.rows), "rows"), (_MOST_COLUMNS, len(card.header), "columns")):
            left += [f"{shown} of {there} {what} are shown."] if there > shown else []
    note = " ".join([*([card.note] if card.note else []), *left])
    words = f'<div style="opacity:.65">{_text(note, 6 * _LONGEST_CELL)}</div>' if note else ""
    title = f"<div><b>{_text(card.title)}</b>{warning}</div>"
    return f'<div style="{_CARD}">{title}<div>{facts}</div>{table}{words}</div>'


def _cell(name: str, value: object, place: int) -> str:
    side = "left" if place == 0 else "right"
    return f'<{name} style="{_CELL};text-align:{side}">{_text(value)}</{name}>'


def _text(value: object, longest: int = _LONGEST_CELL) -> str:
    return escape(shortened(_plain(value), longest), quote=True)


def _plain(value: object) -> str:
    return figure(value) if isinstance(value, float) else str(value)


def figure(value: float) -> str:
    """A number as people write it."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def pandas() -> Any:
    """The library of data frames, which Recoup does without unless somebody asks for a frame.

    >>> pandas().DataFrame({"a": [1]}).shape
    (1, 1)
    """
    try:
        return import_module("pandas")
    except ImportError:
        raise ParameterError("a data frame needs pandas, which is not installed: run `pip install pandas`.") from None


def frame(columns: Any, warning: str, rows: Sequence[object] | None = None, of: str | None = None) -> Any:
    """A data frame whose `attrs` say where it is not private; rows are labelled by what they are of, if that is said.

    >>> frame({"a": [1]}, "NOT PRIVATE").attrs
    {'privacy': 'NOT PRIVATE'}
    """
    made = pandas().DataFrame(columns, index=None if rows is None else pandas().Index(rows, name=of))
    made.attrs |= {"privacy": warning} if warning else {}
    return made
