"""Formulas of the documentation as MathML, made while the pages are built: no script, no font, no network.

Written as GitHub reads them too: a fenced block called `math`, or dollar signs around backticks inside a line.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

_BLOCK = re.compile(r"^```math\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def as_mathml(formula: str, display: str) -> str:
    """Convert a formula, and refuse what the converter would pass through as text."""
    mathml = convert(formula, display=display)
    if "\\" in mathml or "&amp;" in mathml or "&</" in mathml:
        raise ValueError(f"this formula has a command that cannot be shown: {formula}")
    return mathml


class _Blocks(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        def stored(found: re.Match[str]) -> str:
            formula = as_mathml(found[1], "block")
            return f'\n\n{self.md.htmlStash.store(f"""<div class="formula">{formula}</div>""")}\n\n'

        return _BLOCK.sub(stored, "\n".join(lines)).split("\n")


class _Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[ElementTree.Element | str, int, int]:
        return self.md.htmlStash.store(as_mathml(m[1], "inline")), m.start(0), m.end(0)


class Formulas(Extension):
    """Turns formulas into MathML before anything else reads them."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register both forms: ahead of code blocks, and ahead of code in a line."""
        md.preprocessors.register(_Blocks(md), "formula-blocks", 28)
        md.inlinePatterns.register(_Inline(r"\$`([^`]+)`\$", md), "formulas", 195)


def on_config(config: Any) -> Any:
    """Hook of MkDocs: add the extension."""
    config.markdown_extensions.append(Formulas())
    return config
