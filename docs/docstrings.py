"""Docstrings as the reference shows them: a doctest becomes an example, and "Guarantees:" stands out.

The code keeps its doctests without a heading; Markdown would take `>>>` for a quotation.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

_DOCTEST = re.compile(r"^(?=>>> )", re.MULTILINE)
_GUARANTEES = re.compile(r"^Guarantees:", re.MULTILINE)


def as_shown(text: str) -> str:
    r"""Put an "Examples:" section around the doctest that ends a docstring.

    >>> as_shown("Add.\n\nGuarantees: none.\n\n>>> 1 + 1\n2")
    'Add.\n\n**Guarantees:** none.\n\nExamples:\n    >>> 1 + 1\n    2'
    """
    text = _GUARANTEES.sub("**Guarantees:**", text)
    start = _DOCTEST.search(text)
    if start is None:
        return text
    lines = text[start.start() :].splitlines()
    return text[: start.start()] + "Examples:\n" + "\n".join(f"    {line}".rstrip() for line in lines)


class Doctests(griffe.Extension):
    """An extension of Griffe, which reads the sources for mkdocstrings."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of every object."""
        if obj.docstring is not None and obj.is_class and obj.module.path.startswith("recoup.estimators."):
            # Completed when the class is made: what all estimators share is written once.
            obj.docstring.value = inspect.getdoc(getattr(import_module(obj.module.path), obj.name)) or ""
        if obj.docstring is not None:
            obj.docstring.value = as_shown(obj.docstring.value)
